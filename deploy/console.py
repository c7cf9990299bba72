"""Walks through the console with a headless browser; see deploy/console, which starts the server.

Arguments: the address of the private listener, a file with an id of each kind, and a folder for screenshots (optional).
Prints one line for each step. The status is 1 if a step failed.
"""

import http.server
import os
import sys
import threading
import time
import traceback
import urllib.parse
import urllib.request

import html5lib
from axe_core_python.base import AXE_SCRIPT
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

BASE, IDS_FILE = sys.argv[1], sys.argv[2]
SHOTS = sys.argv[3] if len(sys.argv) > 3 else None
TOKEN, LINK = os.environ["SUBLEDGER_CONSOLE_TOKEN"], os.environ["SUBLEDGER_CONSOLE_LINK"]
with open(IDS_FILE) as file:
    IDS = dict(line.strip().split("=", 1) for line in file if "=" in line)
STREAM = "stream=" + urllib.parse.quote("production:com.example.magazine", safe="")
PAGES = {
    "overview": "/console", "customer": f"/console/customers/{IDS['subscription']}?as=subscription&{STREAM}",
    "backend": f"/console/customers/{urllib.parse.quote(IDS['backend'], safe='')}?as=link&{STREAM}",
    "subscription": f"/console/subscriptions/{IDS['subscription']}?{STREAM}", "events": f"/console/events?{STREAM}",
    "event": f"/console/events/{IDS['position']}?{STREAM}",
    "active": f"/console/figures/active?from=2025-03-01&to=2025-05-31&{STREAM}",
    "mrr": f"/console/figures/mrr?from=2025-05-01&to=2025-05-31&{STREAM}",
    "movements": f"/console/figures/movements?from=2025-01-01&to=2025-12-31&{STREAM}",
    "retention": f"/console/figures/retention?from=2025-01-01&to=2025-06-30&{STREAM}",
    "mrr movements": f"/console/figures/mrr-movements?from=2025-01-01&to=2025-12-31&{STREAM}",
    "mix": f"/console/figures/mix?from=2025-01-01&to=2025-12-31&by=country&{STREAM}",
    "revenue": f"/console/figures/revenue?from=2025-01-01&to=2025-12-31&by=product&currency=EUR&{STREAM}",
    "proceeds": f"/console/figures/proceeds?from=2025-01-01&to=2025-12-31&{STREAM}",
    "refunds in money": f"/console/figures/refunds?from=2025-01-01&to=2025-12-31&{STREAM}",
    "trials": f"/console/figures/trials?from=2025-01-01&to=2025-12-31&{STREAM}",
    "offers": f"/console/figures/offers?from=2025-01-01&to=2025-12-31&{STREAM}",
    "recovery": f"/console/figures/recovery?from=2025-01-01&to=2025-12-31&{STREAM}",
    "products": f"/console/products?edit=com.example.magazine.plus.monthly&{STREAM}",
    "refunds": f"/console/refunds?{STREAM}", "refund": f"/console/refunds/{IDS['refund']}?{STREAM}",
    "deliveries": f"/console/deliveries?{STREAM}", "system": f"/console/system?{STREAM}", "nothing": "/console/search?q=nothing", "no page": "/console/nothing",
}


def browser(script=True):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000", "--lang=en"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if not script:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    driver.set_script_timeout(120)
    return driver


def wait(driver, what, until):
    """Waits until the page is complete, its script has run, and `until` holds. An element of the page before is none."""
    WebDriverWait(driver, 30, ignored_exceptions=[NoSuchElementException, StaleElementReferenceException]).until(
        lambda d: d.execute_script("return document.readyState") == "complete" and until(d), what)


def press(driver, keys):
    """Presses keys wherever the focus is. The element need not be of a size: a page that has no focus takes them too."""
    ActionChains(driver).send_keys(keys).perform()


def at(driver, path):
    wait(driver, f"the page is {path}", lambda d: urllib.parse.urlsplit(d.current_url).path == path)


def log_in(driver):
    driver.get(BASE + "/console")
    at(driver, "/console/login")
    driver.find_element(By.ID, "token").send_keys(TOKEN + Keys.ENTER)
    at(driver, "/console")


def search(driver, text):
    field = driver.find_element(By.ID, "search")
    field.clear()
    field.send_keys(text + Keys.ENTER)


def focused(driver):
    return driver.switch_to.active_element


def emulate(driver, **features):
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": n.replace("_", "-"), "value": v} for n, v in features.items()]})


def shot(driver, name, height=1000):
    if not SHOTS:
        return
    os.makedirs(SHOTS, exist_ok=True)
    driver.set_window_size(1280, height)
    driver.save_screenshot(os.path.join(SHOTS, name + ".png"))
    driver.set_window_size(1280, 1000)


def axe(driver, name, rules=None):
    """Checks names, roles and contrast of the page, or only some rules."""
    if not driver.execute_script("return typeof axe === 'object'"):
        driver.execute_script(AXE_SCRIPT)
    found = driver.execute_async_script("axe.run(document, arguments[0]).then(arguments[1])", {"runOnly": rules} if rules else {})
    return [
        f"{name}: {violation['id']}: {violation['help']}: {node['html'][:160]}"
        for violation in found["violations"] for node in violation["nodes"][:3]
    ]


def schemes(driver, name):
    """Checks the page in both colour schemes, between which nothing but colours differs."""
    problems = []
    for scheme, rules in (("light", None), ("dark", ["color-contrast"])):
        emulate(driver, prefers_color_scheme=scheme)
        problems += axe(driver, f"{name}, {scheme}", rules)
        shot(driver, f"{name.replace(' ', '-')}-{scheme}", height=1400)
    emulate(driver)
    return problems


# Steps. Each begins with a browser that is logged in, except the first two and the last one.


def step_login(driver):
    driver.get(BASE + PAGES["customer"])
    at(driver, "/console/login")
    driver.find_element(By.ID, "token").send_keys("slt_wrong" + Keys.ENTER)
    wait(driver, "the login is refused", lambda d: "does not log in" in d.page_source)
    driver.get(BASE + PAGES["customer"])
    driver.find_element(By.ID, "token").send_keys(TOKEN + Keys.ENTER)
    at(driver, f"/console/customers/{IDS['subscription']}")
    driver.find_element(By.XPATH, "//button[text()='Log out']").click()
    at(driver, "/console/login")


def step_link(driver):
    driver.get(LINK)
    driver.find_element(By.CSS_SELECTOR, "button.primary").click()
    at(driver, "/console")
    driver.delete_all_cookies()
    driver.get(LINK)
    driver.find_element(By.CSS_SELECTOR, "button.primary").click()
    wait(driver, "the link logs in once", lambda d: "does not log in" in d.page_source)


def step_every_id(driver):
    for kind in ("token", "app_transaction", "backend", "subscription", "transaction", "order"):
        if kind not in IDS:
            continue
        driver.get(BASE + "/console")
        search(driver, IDS[kind])
        # The simulator's UUIDs are few: one may be of an event as well, and then both are listed.
        wait(driver, f"{kind} is found", lambda d: d.find_elements(By.CSS_SELECTOR, "#entitlements, tbody a"))
        if "/console/search" in driver.current_url:
            driver.find_element(By.CSS_SELECTOR, "tbody a").click()
        wait(driver, f"{kind} finds a customer", lambda d: d.find_elements(By.ID, "entitlements"))
    for kind in ("uuid", "position"):
        driver.get(BASE + "/console")
        search(driver, IDS[kind])
        wait(driver, f"{kind} finds an event", lambda d: "/console/events/" in d.current_url)


def step_number_to_events(driver):
    driver.get(BASE + PAGES["active"])
    points = driver.find_elements(By.CSS_SELECTOR, ".draw svg a")
    assert points, "the chart has no points"
    name = points[-1].get_attribute("aria-label")
    number = int(name.split("paying ")[1].split(",")[0])
    driver.get(urllib.parse.urljoin(BASE, points[-1].get_dom_attribute("href")))
    rows = driver.find_elements(By.CSS_SELECTOR, "tbody tr")
    paying = [row for row in rows if "paying" in row.text]
    assert len(paying) == number, f"{number} paying, {len(paying)} rows"
    paying[0].find_elements(By.CSS_SELECTOR, "a")[-1].click()
    wait(driver, "the row leads to its event", lambda d: "/console/events/" in d.current_url)


def step_both_clocks(driver):
    driver.get(BASE + PAGES["customer"])
    first = driver.find_elements(By.CSS_SELECTOR, ".draw svg a")[0]
    assert first.get_attribute("aria-label"), "a mark without a name"
    field = driver.find_element(By.NAME, "knownAt")
    field.clear()
    field.send_keys("2025-01-01" + Keys.ENTER)
    wait(driver, "the page says what was known", lambda d: "As it was known at" in d.page_source)
    assert "No purchase of the customer grants" in driver.page_source
    assert "Restated since" in driver.page_source


def step_why(driver):
    for name, path in (("grace", f"/console/customers/{IDS['grace']}?as=subscription&{STREAM}"), ("customer", PAGES["customer"])):
        driver.get(BASE + path)
        driver.find_element(By.CSS_SELECTOR, ".why summary").click()
        why = driver.find_element(By.CSS_SELECTOR, ".why")
        titles = [each.text for each in why.find_elements(By.TAG_NAME, "h3")]
        assert titles[0] == "Because" and titles[-1] == "As text", titles
        sentence = why.find_element(By.TAG_NAME, "pre").text
        assert "(asked on " in sentence, sentence
        problems = schemes(driver, f"why {name}")
        assert not problems, "\n".join(problems)
    why = driver.find_element(By.CSS_SELECTOR, ".why")
    copy = why.find_element(By.TAG_NAME, "button")
    assert copy.text == "Copy explanation", copy.text
    copy.click()
    wait(driver, "the explanation is copied or selected", lambda d: copy.text in ("Copied", "Selected"))
    # Another time of knowledge has another explanation, or none.
    field = driver.find_element(By.NAME, "at")
    field.clear()
    field.send_keys("2025-02-01" + Keys.ENTER)
    wait(driver, "the explanation is of the time that was asked for", lambda d: "(asked on 1 Feb 2025" in d.page_source)
    driver.find_element(By.CSS_SELECTOR, ".why summary").click()
    events = driver.find_elements(By.CSS_SELECTOR, ".why li a[href^='/console/events/']")
    assert events, "a reason without an event"
    events[0].click()
    wait(driver, "the reason leads to its event", lambda d: "/console/events/" in d.current_url)


def step_keyboard(driver):
    driver.get(BASE + "/console")
    press(driver, Keys.TAB)
    assert focused(driver).text == "Skip to the content", focused(driver).text
    # Every stop has a visible outline and a size that a finger hits.
    for _ in range(25):
        element = focused(driver)
        style = driver.execute_script(
            "const s = getComputedStyle(arguments[0]), r = arguments[0].getBoundingClientRect();"
            "return [s.outlineStyle, parseFloat(s.outlineWidth), r.height, arguments[0].outerHTML.slice(0, 80)]", element)
        assert style[0] != "none" and style[1] >= 2, f"no outline: {style[3]}"
        assert style[2] >= 24, f"{style[2]} pixels high: {style[3]}"
        press(driver, Keys.TAB)
    driver.get(BASE + "/console")
    press(driver, "/")
    assert focused(driver).get_attribute("id") == "search"
    press(driver, IDS["subscription"] + Keys.ENTER)
    wait(driver, "the search finds the customer", lambda d: d.find_elements(By.ID, "entitlements"))
    press(driver, "ge")
    at(driver, "/console/events")
    press(driver, "jj")
    press(driver, Keys.ENTER)
    wait(driver, "j and Enter open a row", lambda d: "/console/events/" in d.current_url)
    press(driver, "?")
    assert driver.find_element(By.ID, "keys").get_attribute("open") is not None
    press(driver, Keys.ESCAPE)
    driver.find_element(By.XPATH, "//button[text()='switch off']").click()
    wait(driver, "the keys are off", lambda d: d.find_elements(By.XPATH, "//button[text()='switch on']"))
    press(driver, "/")
    assert focused(driver).get_attribute("id") != "search", "keys cannot be switched off"
    driver.find_element(By.XPATH, "//button[text()='switch on']").click()


def step_endpoint(driver):
    """Adds an endpoint, tests, disables, enables and replays it, and sees its attempts."""
    got = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    try:
        driver.get(BASE + PAGES["deliveries"])
        driver.find_element(By.NAME, "url").send_keys(f"http://127.0.0.1:{receiver.server_port}/hook?secret=x")
        driver.find_element(By.XPATH, "//button[text()='Add']").click()
        wait(driver, "the endpoint is added", lambda d: "whpk_" in d.page_source)
        assert "secret=x" not in driver.page_source, "the page shows the whole URL"
        for label, said in (
            ("Send a test message", "A test message was sent: success, status 204"), ("Disable", "Disabled."),
            ("Enable", "Enabled."),
        ):
            driver.find_element(By.XPATH, f"//button[text()='{label}']").click()
            wait(driver, said, lambda d: said in d.find_element(By.CSS_SELECTOR, "[role=status]").text)
        driver.find_element(By.NAME, "after").send_keys("0" + Keys.ENTER)
        wait(driver, "everything is delivered again", lambda d: "delivered again" in d.find_element(By.CSS_SELECTOR, "[role=status]").text)
        wait(driver, "the receiver gets changes", lambda d: len(got) > 5)

        def attempts(d):
            d.refresh()
            return d.find_elements(By.CSS_SELECTOR, "tbody tr")

        wait(driver, "attempts are shown", attempts)
        look(driver, "endpoint")
        driver.find_element(By.XPATH, "//button[text()='Disable']").click()
        wait(driver, "the endpoint is disabled", lambda d: "by an operator" in d.page_source)
        driver.get(BASE + PAGES["deliveries"])
        assert driver.find_elements(By.CSS_SELECTOR, "tbody a[href^='/console/deliveries/end_']"), "no endpoint is listed"
    finally:
        receiver.shutdown()


def look(driver, name):
    problems = schemes(driver, name)
    assert not problems, "\n".join(problems)


def step_acts(driver):
    """Asks for free days; the store does not answer, which is shown as unknown, and can be asked for again."""
    path = f"/console/subscriptions/{IDS['subscription']}?{STREAM}"
    driver.get(BASE + path)
    form = driver.find_element(By.XPATH, "//form[.//button[text()='Extend…']]")
    form.find_element(By.NAME, "days").send_keys("7")
    form.find_element(By.NAME, "reason").send_keys("issue 47 could not be downloaded")
    form.find_element(By.XPATH, ".//button").click()
    wait(driver, "what it does is shown", lambda d: "What this does" in d.page_source)
    look(driver, "act-preview")
    driver.find_element(By.XPATH, "//button[text()='Ask Apple']").click()
    wait(driver, "the answer is unknown", lambda d: "the store may have made it" in d.page_source)
    look(driver, "act-unknown")
    driver.find_element(By.XPATH, "//button[text()='Ask again…']").click()
    wait(driver, "the same change is shown", lambda d: "Extend the subscription by 7 days" in d.page_source)


def step_grant(driver):
    """Gives ten days to a customer, sees them, and takes them back; each is shown before it is done."""
    path = f"/console/customers/{urllib.parse.quote(IDS['backend'], safe='')}?as=link&{STREAM}"

    def fill(form, **fields):
        for name, text in fields.items():
            form.find_element(By.NAME, name).send_keys(text)

    def grants(d):
        d.get(BASE + path)
        return d.find_element(By.XPATH, "//section[h2[text()='Given by hand']]").text

    driver.get(BASE + path)
    fill(driver.find_element(By.CSS_SELECTOR, "main form[action$='/grants']"), entitlement=IDS["entitlement"], reason="support case 4711", length="10 days")
    driver.find_element(By.XPATH, "//button[text()='Give access…']").click()
    wait(driver, "what it does is shown", lambda d: "What this does" in d.page_source)
    look(driver, "grant-preview")
    assert "support case 4711" not in grants(driver), "the preview did it"
    fill(driver.find_element(By.CSS_SELECTOR, "main form[action$='/grants']"), entitlement=IDS["entitlement"], reason="support case 4711", length="10 days")
    driver.find_element(By.XPATH, "//button[text()='Give access…']").click()
    wait(driver, "what it does is shown", lambda d: "What this does" in d.page_source)
    driver.find_element(By.XPATH, "//button[text()='Give access']").click()
    wait(driver, "the grant is on the page", lambda d: "support case 4711" in grants(d))
    look(driver, "grant")
    fill(driver.find_element(By.CSS_SELECTOR, ".answers form[action$='/grants']"), reason="wrong account")
    driver.find_element(By.XPATH, "//button[text()='Take back…']").click()
    wait(driver, "what it does is shown", lambda d: "That ends now." in d.page_source)
    driver.find_element(By.XPATH, "//button[text()='Take it back']").click()
    wait(driver, "it is taken back", lambda d: "wrong account" in grants(d))
    look(driver, "grant-revoked")
    assert not driver.find_elements(By.XPATH, "//button[text()='Take back…']"), "it can be taken back twice"
    hidden = driver.execute_script(
        "const table = document.querySelector('[aria-labelledby=history-caption]'); return table.scrollWidth - table.clientWidth")
    assert hidden <= 1, f"the history is cut off by {hidden} pixels"


def step_desk(driver):
    """Copies an id, shows the reader's own time beside UTC, and looks for an order that no store answers about."""
    driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "America/New_York"})
    try:
        driver.get(BASE + PAGES["system"])
        assert "your time)" in driver.find_element(By.CSS_SELECTOR, "main p.muted").text
        driver.get(BASE + PAGES["customer"])
        cell = driver.find_element(By.CSS_SELECTOR, "td time")
        assert cell.get_attribute("title").endswith("your time") and "your time" not in cell.text
        look(driver, "customer-local-time")
    finally:
        driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})
    copy = driver.find_element(By.CSS_SELECTOR, "h1 button[aria-label='Copy the id']")
    copy.click()
    wait(driver, "the id is copied or selected", lambda d: copy.text in ("Copied", "Selected"))
    driver.get(BASE + "/console")
    search(driver, "mk5tttvwjh")
    wait(driver, "Apple can be asked", lambda d: "Ask Apple about MK5TTTVWJH" in d.page_source)
    look(driver, "order")
    driver.find_element(By.XPATH, "//button[text()='Ask Apple about MK5TTTVWJH']").click()
    wait(driver, "no answer is no fact", lambda d: "so it is not known whether order MK5TTTVWJH exists" in d.page_source)
    look(driver, "order-unknown")


def step_live(driver):
    driver.get(BASE + "/console")
    live = driver.find_element(By.ID, "live")
    assert live.text == "Live: off"
    live.click()
    assert live.text == "Live: on"
    driver.execute_script("document.getElementById('live-part').textContent = 'old'")
    wait(driver, "live reads the page again", lambda d: "Latest changes" in d.find_element(By.ID, "live-part").text)
    assert driver.find_element(By.ID, "live-status").text == "Updated."
    live.click()


def step_valid(driver):
    cookie = "; ".join(f"{each['name']}={each['value']}" for each in driver.get_cookies())
    for name, path in PAGES.items():
        request = urllib.request.Request(BASE + path, headers={"Cookie": cookie})
        try:
            text = urllib.request.urlopen(request).read()
        except urllib.error.HTTPError as error:
            text = error.read()
        assert len(text) < 100_000, f"{name} has {len(text)} bytes"
        parser = html5lib.HTMLParser()
        parser.parse(text, transport_encoding="utf-8")
        assert not parser.errors, f"{name}: {parser.errors[:3]}"


def step_pages(driver):
    """Looks at each page at 320 pixels and in both colour schemes, and collects what its security policy refused."""
    problems = []
    for name, path in PAGES.items():
        driver.get(BASE + path)
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": 320, "height": 800, "deviceScaleFactor": 1, "mobile": False})
        width = driver.execute_script("return document.documentElement.scrollWidth")
        if width > 320:
            problems.append(f"{name} is {width} pixels wide")
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        problems += schemes(driver, name)
    problems += [entry["message"] for entry in driver.get_log("browser") if "Content Security Policy" in entry["message"]]
    assert not problems, "\n".join(problems)


def step_forced_colours(driver):
    emulate(driver, forced_colors="active")
    try:
        driver.get(BASE + PAGES["customer"])
        assert driver.execute_script("return matchMedia('(forced-colors: active)').matches")
        strokes = driver.execute_script(
            "return Array.from(document.querySelectorAll('svg .bar')).map(b => getComputedStyle(b).stroke)")
        assert strokes and all(stroke != "none" for stroke in strokes), "bars without an edge"
        problems = axe(driver, "customer, forced colours")
        shot(driver, "customer-forced")
        assert not problems, "\n".join(problems)
    finally:
        emulate(driver)


def step_without_script(_):
    driver = browser(script=False)
    try:
        log_in(driver)
        assert not driver.find_element(By.ID, "live").is_displayed(), "a switch that does nothing"
        search(driver, IDS["order"])
        wait(driver, "a customer is found", lambda d: d.find_elements(By.ID, "entitlements"))
        driver.find_element(By.CSS_SELECTOR, "summary").click()
        driver.find_element(By.CSS_SELECTOR, "tbody a").click()
        wait(driver, "a subscription is shown", lambda d: "/console/subscriptions/" in d.current_url)
        driver.find_element(By.XPATH, "//button[text()='dark']").click()
        wait(driver, "colours are remembered", lambda d: "theme-dark" in d.page_source)
        driver.find_element(By.XPATH, "//button[text()='Log out']").click()
        at(driver, "/console/login")
    finally:
        driver.quit()


# Each step, and whether it begins with a browser that is logged in.
STEPS = [
    ("log in and out", step_login, False), ("log in with a link, once", step_link, False),
    ("find a customer by each kind of id", step_every_id, True), ("follow a number to its events", step_number_to_events, True),
    ("both clocks", step_both_clocks, True), ("why", step_why, True), ("endpoints", step_endpoint, True),
    ("give access and take it back", step_grant, True), ("ask a store that does not answer", step_acts, True),
    ("ids, times and orders at the desk", step_desk, True), ("keyboard alone", step_keyboard, True), ("live", step_live, True),
    ("valid HTML below 100 KB", step_valid, True),
    ("each page at 320 pixels, names and contrast, light and dark, security policy", step_pages, True),
    ("forced colours", step_forced_colours, True), ("without script", step_without_script, False),
]


def main():
    failed = 0
    driver = browser()
    for name, step, needs_session in STEPS:
        started = time.monotonic()
        try:
            driver.get(BASE + "/console/login")
            driver.delete_all_cookies()
            if needs_session:
                log_in(driver)
            step(driver)
            print(f"ok    {name} ({time.monotonic() - started:.0f} s)")
        except Exception as error:
            failed += 1
            detail = str(error) or traceback.format_exc()
            print(f"FAILED {name}: {detail}")
            place = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith("console.py")][-1]
            print(f"       at line {place.lineno}: {place.line}")
            # What the step left behind is no part of the next one.
            driver.quit()
            driver = browser()
        sys.stdout.flush()
    driver.quit()
    print(f"{len(STEPS) - failed} of {len(STEPS)} steps are ok")
    return 1 if failed else 0


sys.exit(main())
