"""What a case expects: each kind of promise, and how a server is asked whether it holds."""

import dataclasses
import urllib.parse

from values import Malformed, difference, with_instants

KNOWN_AS = {"subscription": "subscription", "account": "account", "link": "link", "appTransaction": "app_transaction"}
IDENTITIES = {"account": "appAccountTokens", "link": "backendCustomerIds", "appTransaction": "appTransactionIds"}
ON_DAY = ":day >= first_day and :day <= coalesce(last_day, 'infinity')"
# Each query returns rows of the case's app, which is the name `:app`.
FIGURES = {
    "mrr": "select coalesce(sum(mrr), 0) from analyst.mrr_detail where app = :app and " + ON_DAY,
    "active": "select count(*) from analyst.active_subscriptions_detail where app = :app and " + ON_DAY,
    "payments": "select coalesce(sum(price), 0) from analyst.transactions where app = :app",
    "refunds": "select transaction_id, amount from analyst.refunds_detail where app = :app order by 1",
    "changes": "select from_product_id, to_product_id, direction from analyst.plan_changes_detail where app = :app"
    " order by at, 1, 2",
    "retries": "select outcome from analyst.billing_retries_detail where app = :app order by due_at",
    "outlook": "select auto_renew, price from analyst.renewal_outlook_detail where app = :app order by ends_at",
}


@dataclasses.dataclass
class Finding:
    """A promise with its verdict: `holds`, `fails` or `not checked`, and what was found instead."""

    promise: str
    verdict: str
    found: str = ""


class NotChecked(Exception):
    """The server under test cannot be asked about the promise."""


class Promises:
    """The promises of one case, asked of a server."""

    def __init__(self, server, app, now, play=None):
        self.server, self.app, self.now, self.play = server, app, now, play

    def check(self, expected):
        """The finding for one element of an `expect` step."""
        kind = next((kind for kind in CHECKS if kind in expected), None)
        if kind is None:
            raise Malformed(f"unknown promise {expected}: expected one of " + ", ".join(CHECKS))
        text = expected.get("promise") or described(expected, kind)
        try:
            wrong = CHECKS[kind](self, with_instants(expected, self.now, numbers=False))
        except NotChecked as reason:
            return Finding(text, "not checked", str(reason))
        return Finding(text, "fails", wrong) if wrong else Finding(text, "holds")

    # Questions

    def parameters(self, expected, **more):
        made = {"app": self.app, "environment": expected.get("environment", "production")} | more
        if "at" in expected:
            made["at"] = expected["at"]
        return made

    def customer(self, expected, rest="", **more):
        [(kind, identifier)] = expected["of"].items()
        path = f"/customers/{urllib.parse.quote(identifier, safe='')}{rest}"
        return self.server.ask("GET", path, self.parameters(expected, **{"as": KNOWN_AS[kind]}, **more))

    def subscription(self, expected, identifier=None):
        identifier = identifier or expected["of"]["subscription"]
        path = f"/subscriptions/{urllib.parse.quote(identifier, safe='')}"
        status, body = self.server.ask("GET", path, self.parameters(expected))
        return body if status == 200 else {"answer": status}

    # Promises: each returns what is wrong, or nothing

    def access(self, expected):
        status, body = self.customer(expected, "/entitlements")
        listed = body.get("entitlements", []) if status == 200 else []
        found = next((item for item in listed if item["entitlement"] == expected["access"]), None)
        active = bool(found and found["active"])
        if active != expected["is"]:
            until = f" until {found['until'] or 'no end'}" if active else ""
            unknown = "" if status == 200 else f" (the answer is {status})"
            return f"{'access' + until if active else 'no access'}{unknown}"
        if active and "until" in expected and found["until"] != expected["until"]:
            return f"access until {found['until'] or 'no end'}"
        return None

    def rule(self, expected):
        status, body = self.customer(expected, "/explanation", entitlement=expected["about"])
        if status != 200:
            return f"the answer is {status}"
        rules = [reason["rule"] for reason in body["because"]]
        return None if (expected["rule"] in rules) == expected.get("is", True) else "because of " + ", ".join(rules)

    def status(self, expected):
        found = self.subscription(expected)
        return None if found.get("status") == expected["status"] else f"status {found.get('status', found)}"

    def states(self, expected):
        return difference(expected["states"], self.subscription(expected))

    def owner(self, expected):
        [(kind, identifier)] = expected["owner"].items()
        status, body = self.customer(expected)
        if status != 200:
            return f"the answer is {status}"
        found = body[IDENTITIES[kind]]
        return None if (identifier in found) == expected.get("is", True) else f"{IDENTITIES[kind]} {found}"

    def subscriptions(self, expected):
        status, body = self.customer(expected, limit=1000)
        found = sorted(body["subscriptions"]) if status == 200 else f"the answer is {status}"
        return None if found == sorted(expected["subscriptions"]) else f"found {found}"

    def purchases(self, expected):
        found = sorted(item["transactionId"] for item in self.subscription(expected).get("transactions", []))
        return None if found == sorted(expected["purchases"]) else f"found {found}"

    def purchase(self, expected):
        listed = self.subscription(expected).get("transactions", [])
        found = next((item for item in listed if item["transactionId"] == expected["purchase"]), None)
        return "no such purchase" if found is None else difference(expected["with"], found)

    def units(self, expected):
        found = self.subscription(expected).get("consumables")
        return None if found == expected["units"] else f"{found} units"

    def figure(self, expected):
        if not self.server.database:
            raise NotChecked("figures are in SQL: name a database")
        values = {":app": self.app, ":day": expected.get("day", "")}
        text = FIGURES[expected["figure"]]
        for name, value in values.items():
            text = text.replace(name, "'" + value.replace("'", "''") + "'")
        rows = self.server.query(text)
        # A list states rows as texts, as SQL writes them.
        if isinstance(expected["is"], list):
            return None if rows == expected["is"] else f"found {rows}"
        return None if float(rows[0][0]) == expected["is"] else f"found {rows[0][0]}"

    def feed(self, expected):
        parameters = {"app": self.app, "environment": expected.get("environment", "production")}
        status, body = self.server.ask("GET", "/changes", parameters)
        listed = body.get("changes", []) if status == 200 else []
        found = [item for item in listed if item["originalTransactionId"] == expected["of"]["subscription"]]
        matching = [
            item for item in found
            if item["kind"] == expected["feed"] and not difference(expected.get("with", {}), item)
        ]
        if bool(matching) == expected.get("is", True):
            return None
        return "the feed has " + (", ".join(item["kind"] for item in found) or "nothing about it")

    def history(self, expected):
        status, body = self.customer(expected, "/history")
        found = [item["kind"] for item in body["history"]] if status == 200 else [f"the answer is {status}"]
        return None if expected["history"] in found else "the history has " + (", ".join(found) or "nothing")

    def defect(self, expected):
        subscription = self.subscription(expected)
        status, body = self.server.ask("GET", "/events", self.parameters(expected, limit=200))
        events = [event for event in body.get("events", []) if event.get("defects")] if status == 200 else []
        found = bool(subscription.get("defects") or events)
        return None if found == expected["defect"] else ("a defect" if found else "no defect")

    def stored(self, expected):
        status, body = self.server.ask("GET", "/events", self.parameters(expected, limit=200))
        found = len(body["events"]) if status == 200 else 0
        return None if found == expected["stored"] else f"{found} events"

    def asked(self, expected):
        found = [
            question for question in self.play.asked(self.app, expected["asked"])
            if question.method == expected.get("method", "GET") and question.path.endswith(expected.get("ends", ""))
        ]
        if len(found) != expected.get("times", len(found) or -1):
            return f"{len(found)} requests"
        if "sends" in expected and not all(part in found[-1].body for part in expected["sends"]):
            return f"the request says {found[-1].body!r}"
        return None


CHECKS = {
    "access": Promises.access, "rule": Promises.rule, "status": Promises.status, "states": Promises.states,
    "owner": Promises.owner, "subscriptions": Promises.subscriptions, "purchases": Promises.purchases,
    "purchase": Promises.purchase, "units": Promises.units, "figure": Promises.figure, "feed": Promises.feed,
    "history": Promises.history, "defect": Promises.defect, "stored": Promises.stored, "asked": Promises.asked,
}


def described(expected, kind):
    """A promise in words, from its members."""
    of = " of " + " ".join(f"{key} {item}" for key, item in expected["of"].items()) if "of" in expected else ""
    at = f" at {expected['at']}" if "at" in expected else ""
    value = expected[kind]
    if kind == "access":
        until = f" until {expected['until'] or 'no end'}" if "until" in expected else ""
        return f"{value}{of}{at}: {'access' + until if expected['is'] else 'no access'}"
    if kind == "rule":
        return f"{expected['about']}{of}{at} is {'' if expected.get('is', True) else 'not '}explained by {value}"
    if kind == "figure":
        day = f" on {expected['day']}" if "day" in expected else ""
        return f"the figure {value}{day} is {expected['is']}"
    if kind == "purchase":
        return f"purchase {value}{of} has {expected['with']}"
    if kind == "owner":
        return f"the owner{of} is {'' if expected.get('is', True) else 'not '}{value}"
    return f"{kind} {value}{of}{at}" + ("" if expected.get("is", True) else ": none")
