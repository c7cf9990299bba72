#!/usr/bin/env python3
"""A client of the client protocol with its driver, written from the article alone. Subject of deploy/client-conformance.

With --mistake NAME it breaks a rule on purpose, so that a test can show that the rule is checked.
"""

import argparse
import base64
import calendar
import json
import pathlib
import random
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "deploy" / "client"))

import ed25519  # noqa: E402

WEEK = 604_800
NIL = "00000000-0000-0000-0000-000000000000"
MISTAKES = {
    "finishes-early": "finishes a transaction before it is handed in",
    "grants-too-long": "grants what a text grants after its exp",
    "hands-in-for-others": "hands in what other users bought",
    "any-key": "does not check who signed",
    "any-app": "does not check the app of a text",
    "locks-out": "forgets what it has when the server cannot be asked",
    "no-pause": "tries again at once after a failure",
    "drops-refused": "finishes what was refused",
    "trusts-clock": "believes the time of day",
}


class Failed(Exception):
    """The word of an error of the line protocol."""


# The device and the store, which outlive the app.


class Device:
    def __init__(self, now, uptime):
        self.true, self.uptime, self.boot, self.wrong = now, uptime, 0, 0
        self.is_away = False

    @property
    def clock(self):
        return self.true + self.wrong


class Store:
    def __init__(self, device):
        self.device, self.transactions, self.unfinished, self.listener = device, {}, [], None

    def have(self, transaction, finished=False):
        old = self.transactions.get(transaction["id"])
        if old in self.unfinished:
            self.unfinished.remove(old)
        self.transactions[transaction["id"]] = transaction
        if not finished:
            self.unfinished.append(transaction)

    def current(self):
        return [
            one for one in self.transactions.values()
            if one["revocationDate"] is None
            and (one["expirationDate"] is None or self.device.true < one["expirationDate"])]

    def finish(self, transaction):
        say({"event": "finished", "id": transaction["id"], "text": transaction["text"]})
        if transaction in self.unfinished:
            self.unfinished.remove(transaction)


# Checking an answer.


def decoded(part):
    if not re.fullmatch(r"[A-Za-z0-9_-]+", part):
        raise ValueError("no base64url")
    data = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != part:
        raise ValueError("not the one form of base64url")
    return data


def instant(text):
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text, re.ASCII):
        raise ValueError("no instant")
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) + int(text[20:23]) / 1000


class Text:
    """A signed text that passed steps 1 to 4."""

    def __init__(self, text, client, kept):
        try:
            parts = text.split(".")
            header = json.loads(decoded(parts[0]))
            if len(parts) != 3 or header["alg"] != "EdDSA" or header["typ"] != "subledger-entitlements+jwt":
                raise ValueError("another kind of text")
            signed = f"{parts[0]}.{parts[1]}".encode()
            keys = [decoded(key) for key in client.settings["keys"]]
            if client.mistake != "any-key" and not any(
                    ed25519.is_signature(decoded(parts[2]), signed, key) for key in keys):
                raise ValueError("the signature is wrong")
            claims = json.loads(decoded(parts[1]))
            expected = {"sub": kept["customerId"], "environment": kept["environment"]}
            if client.mistake != "any-app":
                expected["aud"] = client.settings["app"]
            if any(claims[name] != value for name, value in expected.items()):
                raise ValueError("about something else")
            self.iat, self.exp = int(claims["iat"]), int(claims["exp"])
            self.grants = {
                one["entitlement"]: None if one["until"] is None else instant(one["until"])
                for one in claims["entitlements"]}
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise Failed("answer") from error


class Client:
    """One launch of the app."""

    def __init__(self, settings, device, store, kept, mistake, is_of_google):
        self.is_of_google = is_of_google
        self.settings, self.device, self.store, self.kept, self.mistake = settings, device, store, kept, mistake
        self.user = None
        self.waiting, self.refused = [], {}
        self.failures, self.pause_until = 0, None

    # MARK: - Time

    def time(self):
        """The time and whether it is suspect. Moves the anchor."""
        device, anchor = self.device, self.kept.get("anchor")
        if self.mistake == "trusts-clock" or anchor is None:
            return device.clock, False
        passed = device.uptime - anchor["uptime"]
        passed = device.uptime if passed < 0 else passed
        earliest = anchor["earliest"] + passed
        known = anchor["settled"] and device.boot == anchor["boot"] and device.uptime >= anchor["uptime"]
        corrected = device.clock - anchor["ahead"]
        if known:
            now = anchor["time"] + passed
            suspect = max(device.clock, corrected) < now - 300
        else:
            now = max(earliest, min(device.clock, corrected))
            suspect = (max(device.clock, corrected) < max(earliest, anchor["seen"]) - 300
                       or abs(anchor["ahead"]) > 300)
        self.kept["anchor"] = {
            "time": now, "earliest": earliest, "seen": max(anchor["seen"], now),
            "ahead": device.clock - now if known and not suspect else anchor["ahead"],
            "settled": known or not suspect, "uptime": device.uptime, "boot": device.boot}
        return now, suspect

    def earliest(self):
        now, _ = self.time()
        anchor = self.kept.get("anchor")
        return anchor["earliest"] if anchor else now

    # MARK: - Events

    def login(self, user, customer, assertions):
        if user == NIL:
            raise Failed("no-user")
        if self.user:
            raise Failed("already-started")
        self.user, self.assertions = user, list(assertions)
        kept = self.kept["users"].setdefault(user, {})
        if kept.get("customerId") != customer:
            kept.clear()
            kept.update(customerId=customer, environment="production", products={}, text=None, tag=None)
        self.mine = kept
        self.text = None
        if kept["text"]:
            try:
                self.text = Text(kept["text"], self, kept)
            except Failed:
                kept.update(text=None, tag=None)
        self.store.listener = self.given
        self.quietly(self.catch_up)

    def logout(self):
        self.user, self.waiting, self.store.listener = None, [], None
        self.failures, self.pause_until = 0, None

    def given(self, transaction):
        self.take_in(transaction)
        self.quietly(self.catch_up)

    def purchase(self, outcome, transaction):
        self.require_user()
        if outcome != "bought":
            raise Failed(outcome)
        self.store.have(transaction)
        self.take_in(transaction)
        self.quietly(self.catch_up)
        if transaction["id"] in self.refused:
            raise Failed("refused")

    def refresh(self):
        self.require_user()
        self.catch_up()

    def restore(self):
        self.require_user()
        found, refused = self.store.current(), []
        size = 1 if self.is_of_google else 100
        requests = [found[start:start + size] for start in range(0, len(found), size)]
        while requests:
            batch = requests.pop(0)
            outcome = self.hand_in(batch)
            if outcome == "later":
                raise Failed("unreachable")
            if outcome == "refused" and len(batch) > 1:
                requests = [[one] for one in batch] + requests
            elif outcome == "refused":
                self.refused[batch[0]["id"]] = batch[0]["text"]
                refused.append(batch[0]["productId"])
        self.catch_up()
        return {"found": sorted({one["productId"] for one in found}), "refused": sorted(set(refused))}

    def passed(self):
        """The clocks went on."""
        if self.pause_until is not None and self.device.uptime >= self.pause_until:
            self.pause_until = None
            if self.user:
                self.quietly(self.catch_up)

    def require_user(self):
        if not self.user:
            raise Failed("not-started")

    @staticmethod
    def quietly(work):
        try:
            work()
        except Failed:
            pass

    # MARK: - Handing in

    def take_in(self, transaction):
        owner = transaction["appAccountToken"]
        if owner not in (None, self.user) and self.mistake != "hands-in-for-others":
            return
        if self.refused.get(transaction["id"]) != transaction["text"]:
            self.refused.pop(transaction["id"], None)
        for place, known in enumerate(self.waiting):
            if known["id"] == transaction["id"]:
                self.waiting[place] = transaction
                return
        self.waiting.append(transaction)

    def catch_up(self):
        for transaction in list(self.store.unfinished):
            if self.refused.get(transaction["id"]) != transaction["text"]:
                self.take_in(transaction)
        attempts = 0
        while self.waiting:
            transaction = self.waiting[0]
            if self.mistake == "finishes-early":
                self.store.finish(transaction)
            outcome = self.hand_in([transaction])
            if outcome == "later":
                attempts += 1
                if self.mistake == "no-pause" and attempts < 5:
                    continue
                break
            if outcome == "refused":
                self.waiting.remove(transaction)
                self.refused[transaction["id"]] = transaction["text"]
                if self.mistake == "drops-refused":
                    self.store.finish(transaction)
        else:
            self.failures, self.pause_until = 0, None
        self.ask()

    def hand_in(self, transactions):
        """stored, refused or later."""
        if self.is_of_google:
            path, body = "purchases", {
                "purchaseToken": transactions[0]["text"], "productId": transactions[0]["productId"]}
        else:
            path, body = "transactions", {"signedTransaction": [one["text"] for one in transactions]}
        if self.mistake != "hands-in-for-others":
            body["customerId"] = self.mine["customerId"]
        query = urllib.parse.urlencode({"app": self.settings["app"], "environment": "any"})
        status, headers, text = self.send("POST", f"/{path}?{query}", body=json.dumps(body).encode())
        if status == 200:
            answer = json.loads(text)
            for one in answer["entitlements"]:
                for product in one["productIds"]:
                    names = self.mine["products"].setdefault(product, [])
                    names += [one["entitlement"]] if one["entitlement"] not in names else []
            if answer["environment"] != self.mine["environment"] and not (self.text and self.text.grants):
                self.mine.update(environment=answer["environment"], text=None, tag=None)
                self.text = None
            for one in transactions:
                self.store.finish(one)
                self.waiting = [other for other in self.waiting if other["text"] != one["text"]]
            return "stored"
        if status is not None and 400 <= status < 500 and status not in (401, 408, 429):
            return "refused"
        seconds = min(2**self.failures, 900) * (0.5 + random.random() / 2)
        self.failures += 1
        wanted = headers.get("retry-after", "")
        if wanted.isdigit():
            seconds = max(seconds, min(int(wanted), 3600))
        self.pause_until = self.device.uptime + seconds
        return "later"

    # MARK: - Asking

    def ask(self):
        kept = self.mine
        query = urllib.parse.urlencode(
            {"app": self.settings["app"], "environment": kept["environment"], "signed": "true"})
        customer = urllib.parse.quote(kept["customerId"], safe="-._~")
        tags = {"If-None-Match": kept["tag"]} if self.text and kept["tag"] else {}
        status, headers, body = self.send("GET", f"/customers/{customer}/entitlements?{query}", tags)
        if status in (304, 404):
            return
        if status != 200:
            if self.mistake == "locks-out":
                self.text = None
                kept.update(text=None, tag=None)
            isNotNow = status is None or status in (401, 408, 429) or status >= 500
            raise Failed("unreachable" if isNotNow else "refused")
        answer = body.decode()
        text = Text(answer, self, kept)
        if self.text and text.iat < self.text.iat:
            raise Failed("answer")
        earliest = self.earliest()
        if earliest >= text.exp:
            raise Failed("answer")
        self.text = text
        kept.update(text=answer, tag=headers.get("etag"))
        device = self.device
        if self.kept.get("anchor") is None or text.iat > earliest:
            self.kept["anchor"] = {
                "time": text.iat, "earliest": text.iat, "seen": text.iat, "ahead": device.clock - text.iat,
                "settled": True, "uptime": device.uptime, "boot": device.boot}

    def send(self, method, path, headers=None, body=None):
        """The status, headers and body of an answer; the status is None if there was none."""
        for is_repeated in (False, True):
            if is_repeated and len(self.assertions) > 1:
                self.assertions.pop(0)
            sent = {
                "Authorization": f"Bearer {self.settings['token']}", "Subledger-Assertion": self.assertions[0],
                **({"Content-Type": "application/json"} if body else {}), **(headers or {})}
            if self.device.is_away:
                return None, {}, b""
            request = urllib.request.Request(self.settings["base"] + path, data=body, headers=sent, method=method)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    status, received, text = answer.status, answer.headers, answer.read()
            except urllib.error.HTTPError as error:
                status, received, text = error.code, error.headers, error.read()
            except OSError:
                return None, {}, b""
            if status != 401:
                break
        return status, {name.lower(): value for name, value in received.items()}, text

    # MARK: - What is granted

    def state(self):
        now, suspect = self.time()
        active, trust = set(), "unverified"
        if self.user:
            text = self.text
            is_valid = text is not None and (now < text.exp or self.mistake == "grants-too-long")
            if is_valid:
                active |= {name for name, until in text.grants.items() if until is None or now < until}
            for one in self.store.current():
                is_granted = (
                    one["appAccountToken"] == self.user and one["isVerified"] and one["id"] not in self.refused
                    and (one["expirationDate"] is None or now < one["expirationDate"])
                    and (text is None or one["purchaseDate"] >= text.iat) and now < one["purchaseDate"] + WEEK)
                if is_granted:
                    product = one["productId"]
                    names = self.settings["products"].get(product) or self.mine["products"].get(product) or [product]
                    active |= set(names)
            if text is not None:
                is_before = self.device.clock < text.iat - 300
                trust = "clockSuspect" if suspect or is_before else "verified" if is_valid else "expired"
        return {"active": sorted(active), "trust": trust, "unfinished": [one["id"] for one in self.store.unfinished]}


# The driver.


def say(line):
    print(json.dumps(line), flush=True)


class DriverProgram:
    def __init__(self, mistake, store):
        self.mistake, self.store_name = mistake, store

    def launch(self):
        self.store.listener = None
        # What is kept is written as text, as to a file.
        kept = json.loads(json.dumps(self.kept))
        self.kept = kept
        self.client = Client(
            self.settings, self.device, self.store, kept, self.mistake, self.store_name == "googlePlay")

    def perform(self, command):
        what = command["do"]
        if what == "setup":
            self.settings, self.kept = command, {"users": {}}
            self.device = Device(command["now"], command["uptime"])
            self.store = Store(self.device)
            self.launch()
            return {"store": self.store_name}
        elif what == "login":
            self.client.login(command["user"], command["customerId"], command["assertions"])
        elif what == "logout":
            self.client.logout()
        elif what == "purchase":
            self.client.purchase(command["outcome"], command.get("transaction"))
        elif what == "deliver":
            self.store.have(command["transaction"], command["finished"])
            if self.store.listener and not command["finished"]:
                self.store.listener(command["transaction"])
        elif what == "refresh":
            self.client.refresh()
        elif what == "restore":
            return self.client.restore()
        elif what == "restart":
            self.launch()
        elif what == "reboot":
            self.device.uptime, self.device.boot = 0, self.device.boot + 1
            self.launch()
        elif what == "pass":
            self.device.true += command["seconds"]
            self.device.uptime += command["seconds"]
            self.client.passed()
        elif what == "clock":
            self.device.wrong = command["wrongBy"]
        elif what == "network":
            self.device.is_away = command["away"]
        elif what == "state":
            return self.client.state()
        else:
            raise Failed("unknown-command")
        return {}

    def run(self):
        for line in sys.stdin:
            try:
                say({"ok": True, **self.perform(json.loads(line))})
            except Failed as failed:
                say({"ok": False, "error": str(failed)})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--mistake", choices=sorted(MISTAKES))
    parser.add_argument("--store", choices=["appStore", "googlePlay"], default="appStore")
    found = parser.parse_args()
    DriverProgram(found.mistake, found.store).run()
