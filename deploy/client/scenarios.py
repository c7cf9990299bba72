"""Runs the scenarios of scenarios.json against a client, and says which rules of the protocol it breaks."""

import base64
import dataclasses
import hashlib
import json
import pathlib

import server as servers
from driver import Broken, Driver

FILE = pathlib.Path(__file__).with_name("scenarios.json")
# 2026-01-01T00:00:00Z, and the seconds that the device has run by then.
START, UPTIME = 1_767_225_600, 1000
STORES = {"appStore": "transactions", "googlePlay": "purchases"}
COMMANDS = {"login", "logout", "purchase", "deliver", "refund", "refresh", "restore", "restart", "reboot", "pass",
            "clock", "network", "state"}


class Skipped(Exception):
    """The scenario is about another store than the client's."""


class Failed(Exception):
    """The client breaks a rule."""

    def __init__(self, rule, words):
        super().__init__(words)
        self.rule = rule


@dataclasses.dataclass
class Result:
    id: str
    rule: str
    about: str
    verdict: str  # passed, failed, broken, skipped
    problems: list = dataclasses.field(default_factory=list)  # (rule, words)

    def members(self):
        return {
            "id": self.id, "rule": self.rule, "about": self.about, "verdict": self.verdict,
            "problems": [{"rule": rule, "problem": words} for rule, words in self.problems],
        }


class Scenarios:
    def __init__(self, file=FILE):
        data = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
        self.app, self.products, self.users = data["app"], data["products"], data["users"]
        self.all = data["scenarios"]

    def run(self, scenario, command, show=None):
        run = Run(self, scenario, show)
        try:
            problems = run.perform(command)
            verdict = "failed" if problems else "passed"
        except Skipped:
            problems, verdict = [], "skipped"
        except Broken as error:
            problems, verdict = [("line-protocol", str(error))], "broken"
        return Result(scenario["id"], scenario["rule"], scenario["about"], verdict, problems)


class Run:
    """One scenario with one new process of the client's program."""

    def __init__(self, scenarios, scenario, show):
        self._scenarios, self._scenario, self._show = scenarios, scenario, show
        self._server = servers.Server(scenarios.app, scenarios.products, START)
        self._driver = None
        self._transactions = {}  # by name: the newest
        self._texts = {}  # by name: all texts
        self._mark = 0
        self._count = 0

    def perform(self, command):
        """The broken rules with words, empty if the client keeps all."""
        server = self._server
        problems = []
        try:
            self._driver = Driver(command, self._event, self._show)
            server.catch_up = self._driver.catch_up
            keys = self._scenario.get("keys", ["server"])
            answer = self._send(
                "setup", base=server.base, token=server.TOKEN, app=server.app,
                keys=[servers.base64url(servers.key(name).public) for name in keys],
                products={name: product["entitlements"] for name, product in self._scenarios.products.items()},
                now=START, uptime=UPTIME)
            self._store = answer.get("store", "appStore")
            if self._store not in STORES:
                raise Broken(f"unknown store {self._store}: expected appStore or googlePlay")
            if self._scenario.get("store", self._store) != self._store:
                raise Skipped
            server.hand_in_path = STORES[self._store]
            for step in self._scenario["steps"]:
                self._step(step, {})
        except Failed as failed:
            problems.append((failed.rule, str(failed)))
        finally:
            if self._driver:
                self._driver.stop()
            server.stop()
        return problems + [found for found in server.violations if found not in problems]

    def _event(self, event):
        if event["event"] != "finished":
            raise Broken(f"unknown event {event['event']}")
        with self._server.lock:
            if event.get("text") not in self._server.stored:
                name = self._server.texts.get(event.get("text"), {}).get("name", "an unknown text")
                self._server.violate("store-before-finish", f"{name} was finished before the server had stored it")

    # MARK: - Steps

    def _step(self, step, names):
        if "repeat" in step:
            for number in range(1, step["repeat"] + 1):
                for inner in step["steps"]:
                    self._step(inner, {**names, step.get("as", "n"): number})
            return
        step = {name: value.format(**names) if isinstance(value, str) else value for name, value in step.items()}
        with self._server.lock:
            if "server" in step:
                return self._fault(step)
            if "mark" in step:
                self._mark = len(self._server.requests)
                return None
            if "expect" in step:
                return self._expect(step)
        if step.get("do") not in COMMANDS:
            raise ValueError(f"{self._scenario['id']}: unknown step {step}")
        return getattr(self, "_" + step["do"])(step)

    def _send(self, what, **members):
        return self._driver.send({"do": what, **members})

    def _check(self, condition, words):
        if not condition:
            raise Failed(self._scenario["rule"], words)

    def _checked(self, step, answer):
        """The answer to a command, which fails as the step says or not at all."""
        expected = step.get("fails")
        what = step["do"]
        if expected is None:
            self._check(answer["ok"], f"{what} failed ({answer.get('error')}), expected success")
        elif expected != "maybe":
            self._check(not answer["ok"], f"{what} succeeded, expected the error {expected}")
            self._check(answer.get("error") == expected, f"{what} failed ({answer.get('error')}), expected {expected}")
        return answer

    def _login(self, step):
        user = self._scenarios.users[step["user"]]
        self._checked(step, self._send(
            "login", user=user["uuid"], customerId=user["customerId"],
            assertions=self._server.assertions_for(user["customerId"])))
        self._user = step["user"]

    def _logout(self, step):
        self._checked(step, self._send("logout"))

    def _made(self, step, user):
        """A new transaction of the store."""
        product = self._scenarios.products[step["product"]]
        self._count += 1
        known = self._scenarios.users.get(user)
        now = self._server.now
        transaction = {
            "name": step.get("as", f"t{self._count}"), "id": f"20000000000{self._count:05}",
            "productId": step["product"], "appAccountToken": known and known["uuid"],
            "customer": known and known["customerId"], "purchaseDate": now,
            "expirationDate": now + product["seconds"] if product["seconds"] else None, "revocationDate": None,
            "isVerified": step.get("verified", True),
        }
        return self._signed(transaction)

    def _signed(self, transaction):
        payload = {name: transaction[name] for name in ("id", "productId", "purchaseDate", "revocationDate")}
        signed = f"{servers.compact({'alg': 'ES256'})}.{servers.compact(payload)}"
        signature = hashlib.sha512(signed.encode()).digest()
        text = f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
        with self._server.lock:
            self._server.texts[text] = transaction
        self._transactions[transaction["name"]] = transaction
        self._texts.setdefault(transaction["name"], []).append(text)
        sent = {name: value for name, value in transaction.items() if name not in ("name", "customer")}
        if self._store == "googlePlay":
            # The device does not know when a subscription ends.
            sent["expirationDate"] = None
        return {**sent, "text": text}

    def _purchase(self, step):
        outcome = step.get("outcome", "bought")
        members = {"product": step["product"], "outcome": outcome}
        if outcome == "bought":
            members["transaction"] = self._made(step, getattr(self, "_user", None))
        self._checked(step, self._send("purchase", **members))

    def _deliver(self, step):
        self._checked(step, self._send(
            "deliver", transaction=self._made(step, step.get("user")), finished=step.get("finished", False)))

    def _refund(self, step):
        transaction = dict(self._transactions[step["of"]], revocationDate=self._server.now)
        self._checked(step, self._send("deliver", transaction=self._signed(transaction), finished=False))

    def _refresh(self, step):
        self._checked(step, self._send("refresh"))

    def _restore(self, step):
        answer = self._checked(step, self._send("restore"))
        for name in ("found", "refused"):
            if name in step:
                self._check(
                    sorted(answer.get(name) or []) == step[name],
                    f"restore says {name} {answer.get(name)}, expected {step[name]}")

    def _restart(self, step):
        self._checked(step, self._send("restart"))

    def _reboot(self, step):
        self._checked(step, self._send("reboot"))

    def _pass(self, step):
        with self._server.lock:
            self._server.now += step["seconds"]
        self._checked(step, self._send("pass", seconds=step["seconds"]))

    def _clock(self, step):
        self._checked(step, self._send("clock", wrongBy=step["wrongBy"]))

    def _network(self, step):
        self._checked(step, self._send("network", away=step["away"]))

    def _state(self, step):
        answer = self._checked(step, self._send("state"))
        for name in ("active", "unfinished"):
            if not isinstance(answer.get(name), list):
                raise Broken(f"the answer to state has no list {name}")
        if "active" in step:
            active = sorted(answer["active"])
            self._check(active == step["active"], f"active is {active}, expected {step['active']}")
        if "trust" in step:
            self._check(
                answer.get("trust") == step["trust"], f"trust is {answer.get('trust')}, expected {step['trust']}")
        if "unfinished" in step:
            names = {transaction["id"]: name for name, transaction in self._transactions.items()}
            unfinished = sorted(names.get(id, id) for id in answer["unfinished"])
            self._check(
                unfinished == step["unfinished"], f"unfinished are {unfinished}, expected {step['unfinished']}")

    # MARK: - The server

    def _fault(self, step):
        server, kind = self._server, step["server"]
        if kind in ("away", "back"):
            server.is_away = kind == "away"
        elif kind == "loses answers":
            server.lost_answers = step["times"]
        elif kind == "answers":
            server.answers.append({
                "to": step["to"], "status": step["status"], "headers": step.get("headers", {}),
                "times": step.get("times", 1)})
        elif kind == "refuses":
            server.refused[step["product"]] = step["status"]
        elif kind == "accepts":
            server.refused.pop(step["product"])
        elif kind == "refuses assertions":
            customer = self._scenarios.users[self._user]["customerId"]
            known = [text for text, of in server.assertions.items() if of == customer][-3:]
            server.refused_assertions.update(known[: step["first"]])
        elif kind == "lies":
            server.lie = dict(step["by"])
        elif kind == "environment":
            server.environment = step["is"]
        elif kind == "signs with":
            server.signer = servers.key(step["key"])
        else:
            raise ValueError(f"{self._scenario['id']}: unknown fault {kind}")

    # MARK: - Expectations

    def _expect(self, step):
        kind, server = step["expect"], self._server
        since = server.requests[self._mark:]
        if kind == "stored":
            stored = sorted({server.texts[text]["name"] for text in server.stored})
            self._check(stored == step["are"], f"stored are {stored}, expected {step['are']}")
        elif kind == "requests":
            count = len([request for request in since if request["method"] in (step.get("method"), "any")
                         or "method" not in step])
            self._between(count, step, f"{step.get('method', 'all')} requests")
        elif kind == "handed in":
            texts = self._texts[step["name"]]
            text = texts[step["text"]] if "text" in step else texts[-1]
            count = len([request for request in since if text in (servers.texts_of(request) or [])])
            self._between(count, step, f"hand-ins of {step['name']}")
        elif kind == "order":
            order = []
            for request in since:
                for text in servers.texts_of(request) or []:
                    name = server.texts[text]["name"]
                    order += [name] if name not in order else []
            self._check(order == step["is"], f"handed in in the order {order}, expected {step['is']}")
        elif kind == "last":
            asked = [request for request in server.requests if request["method"] == step["method"]]
            self._check(asked != [], f"no {step['method']} request was sent")
            last = asked[-1]
            if "header" in step:
                self._check(step["header"] in last["headers"], f"the last request has no header {step['header']}")
            if "environment" in step:
                environment = last["query"].get("environment")
                self._check(
                    environment == [step["environment"]],
                    f"the last question was about {environment}, expected {step['environment']}")
        else:
            raise ValueError(f"{self._scenario['id']}: unknown expectation {kind}")

    def _between(self, count, step, what):
        least, most = step.get("atLeast", 0), step.get("atMost", float("inf"))
        self._check(
            least <= count <= most,
            f"{count} {what}, expected " + (f"at least {least}" if count < least else f"at most {most}"))
