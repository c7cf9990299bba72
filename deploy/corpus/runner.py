"""Runs the steps of a case against a server, and collects what became of its promises."""

import dataclasses
import json
import time
import urllib.parse
import uuid

import appstore
import playstore
from cases import STEPS
from promises import Finding, Promises
from server import SECRET, Failure
from values import Malformed, difference, expanded, iso, milliseconds, with_instants, with_names

NAMESPACE = uuid.UUID("6f1c6c53-4b39-4a53-9f43-3b1f27d3a6f0")
# Google Play is asked about a purchase within a second or two after a push, on a machine that has nothing else to do.
ASKED_SECONDS = 60
# Promises that do not hold are looked at again, because an answer of Google Play may be on its way into the log.
PATIENCE_SECONDS = 2


@dataclasses.dataclass
class Result:
    case: object
    findings: list
    seconds: float = 0
    error: str = ""

    @property
    def verdict(self):
        if self.error:
            return "error"
        return "fails" if any(finding.verdict == "fails" for finding in self.findings) else "holds"


class Run:
    """One case on one server. The case has apps of its own, so several cases can run beside each other."""

    def __init__(self, case, server, chain, api, key):
        self.case, self.server, self.chain, self.api, self.key = case, server, chain, api, key
        self.now = int(time.time()) * 1000
        self.findings = []
        self.apps = [case.app] + ([case.package] if case.uses_play else [])
        # Promises are about the app of the store that the case is about.
        self.app = self.apps[-1]
        self.promises = Promises(server, self.app, self.now, api)
        self.names = {"app": case.app, "package": case.package, "secret": SECRET}
        self.count = 0

    def run(self):
        started = time.monotonic()
        result = Result(self.case, self.findings)
        try:
            for product, settings in self.case.products.items():
                path = f"/products/{urllib.parse.quote(product, safe='')}"
                status, body = self.server.ask("PUT", path, {"app": self.app}, settings)
                if status not in (200, 201):
                    raise Failure(f"the product {product} is refused: {status} {body}")
            self.steps(self.case.steps, self.names)
        except (Failure, Malformed, OSError) as error:
            result.error = str(error)
        except (AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
            result.error = f"step {self.count} is malformed: {type(error).__name__} {error}"
        result.seconds = time.monotonic() - started
        return result

    def steps(self, steps, names):
        for step in steps:
            if "repeat" in step:
                for number in range(1, step["repeat"]["times"] + 1):
                    self.steps(step["repeat"]["steps"], names | {step["repeat"]["as"]: number})
                continue
            self.count += 1
            verb = next(verb for verb in STEPS if verb in step)
            getattr(self, verb)(with_names(expanded(step, self.case.let), names))

    # Steps

    def notify(self, step):
        stated = with_instants(step["notify"], self.now, numbers=True)
        body = appstore.notification(stated, self.case.app, self.chain, self.identifier())
        self.sent(step, self.server.post("/apple/notifications", body), step["notify"]["type"])

    def post(self, step):
        """A body as it is: text, or an object whose `{"signed": {…}}` are signed."""
        body = step["post"]
        if not isinstance(body, str):
            body = json.dumps(appstore.with_signatures(with_instants(body, self.now, numbers=True), self.chain))
        self.sent(step, self.server.post(step.get("to", "/apple/notifications"), body), "the body")

    def play(self, step):
        self.api.set(self.case.package, with_instants(step["play"], self.now, numbers=False))

    def push(self, step):
        """Pushes about purchases, one after the other, and waits until the server has asked about each of them."""
        pushed = step["push"] if isinstance(step["push"], list) else [step["push"]]
        tokens = {playstore.purchase_token(content) for content in pushed}
        before = {token: len(self.api.asked(self.case.package, token)) for token in tokens}
        settled = self.server.metric("subledger_google_questions_total", app=self.case.package)
        at = milliseconds(step.get("at", "now"), self.now)
        headers = self.key.authorization() if self.case.signedPushes else None
        for content in pushed:
            body = playstore.push(content, self.case.package, self.identifier(), at, iso(at))
            self.sent(step, self.server.post("/google/notifications", body, headers), "the push")
            self.count += 1
        deadline = time.monotonic() + ASKED_SECONDS
        while time.monotonic() < deadline:
            if all(len(self.api.asked(self.case.package, token)) > before[token] for token in tokens):
                # Not before: the metrics list every case, and take longer than the question.
                done = self.server.metric("subledger_google_questions_total", app=self.case.package) - settled
                if done >= len(tokens):
                    return
            time.sleep(0.1)
        said = "; ".join(self.server.said(self.case.package))
        raise Failure(f"Google Play was not asked about {sorted(tokens)} within {ASKED_SECONDS} seconds. Log: {said}")

    def handIn(self, step):
        """What a backend hands in about a customer: `purchaseToken` and `productId`, or a `transaction` of StoreKit."""
        body = step["handIn"]
        if "transaction" in body:
            stated = with_instants(body, self.now, numbers=True)
            signed = appstore.transaction(
                stated.pop("transaction"), self.case.app, stated.pop("environment", "Production"), stated.pop("signed"))
            stated["signedTransaction"] = self.chain.sign(signed)
            answer = self.server.ask("POST", "/transactions", {"app": self.case.app}, stated)
        else:
            answer = self.server.ask("POST", "/purchases", {"app": self.case.package}, body)
        self.sent(step, answer, "the hand-in")

    def link(self, step):
        customer = urllib.parse.quote(step["link"]["customer"], safe="")
        parameters = {"app": self.app, "environment": step.get("environment", "production")}
        body = {key: item for key, item in step["link"].items() if key != "customer"}
        self.sent(step, self.server.ask("PUT", f"/customers/{customer}/links", parameters, body), "the link")

    def wait(self, step):
        instant = milliseconds(step["wait"], self.now)
        time.sleep(max(0, instant / 1000 - time.time()))

    def expect(self, step):
        deadline = time.monotonic() + PATIENCE_SECONDS
        self.server.settle(self.apps)
        findings = [self.promises.check(expected) for expected in step["expect"]]
        while any(finding.verdict == "fails" for finding in findings) and time.monotonic() < deadline:
            time.sleep(0.5)
            self.server.settle(self.apps)
            findings = [self.promises.check(expected) for expected in step["expect"]]
        self.findings += findings

    # Parts of steps

    def identifier(self):
        """The same for a step of a case in every run."""
        return str(uuid.uuid5(NAMESPACE, f"{self.case.id} {self.count}"))

    def sent(self, step, answer, what):
        """An answer to the step: 200 unless it expects another one. An expected answer is a promise."""
        status, body = answer
        expected = step.get("answers", {"status": 200})
        wrong = difference(expected, {"status": status, "body": body})
        if "answers" in step:
            promise = step.get("promise") or f"{what} is answered {json.dumps(expected)}"
            self.findings.append(Finding(promise, "fails" if wrong else "holds", wrong or ""))
        elif wrong:
            found = f"answered {status}: {json.dumps(body)[:300]}"
            self.findings.append(Finding(f"{what} is accepted", "fails", found))
