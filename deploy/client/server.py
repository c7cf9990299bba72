"""The server that a client under test talks to: books in memory, a clock that the scenario sets, and faults on request."""

import base64
import hashlib
import hmac
import http.server
import json
import socket
import threading
import time
import urllib.parse

import ed25519

WEEK = 604_800
TYPE = "subledger-entitlements+jwt"
TRANSACTIONS_MAX = 100


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def compact(value):
    return base64url(json.dumps(value, separators=(",", ":")).encode())


def instant(seconds):
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((seconds - whole) * 1000):03}Z"


def key(name):
    """A private key that is made from its name, so that a run can be repeated. Plainly a test key."""
    return ed25519.PrivateKey(hashlib.sha256(f"test key {name}".encode()).digest())


def assertion(customer, app, number, expires):
    """A text of the app's backend about its user, by a secret that only this server knows."""
    claims = {"sub": customer, "aud": app, "exp": int(expires), "jti": str(number)}
    signed = f"{compact({'alg': 'HS256', 'typ': 'JWT'})}.{compact(claims)}"
    return f"{signed}.{base64url(hmac.new(b'a test secret of the backend', signed.encode(), hashlib.sha256).digest())}"


class Server:
    """One server for one scenario. All members but the constants are guarded by ``lock``."""

    TOKEN = "slt_000000000000_" + "0" * 64

    def __init__(self, app, products, now):
        self.app, self.products, self.now = app, products, now
        self.lock = threading.RLock()
        self.texts = {}  # by signed text: the transaction, a dict that the scenario made
        self.owners = {}  # by transaction id: the customer
        self.books = {}  # by transaction id: its newest text
        self.position = 0
        self.stored = set()  # texts
        self.assertions = {}  # by text: the customer
        self.refused_assertions = set()
        self.requests = []  # dicts, in the order of arrival
        self.violations = []  # (rule, words)
        self.is_away = False
        self.lost_answers = 0
        self.answers = []  # answers that come before any other: dicts with to, status, headers, times
        self.refused = {}  # by product: the status
        self.environment = "production"
        self.hand_in_path = "transactions"
        self.signer = key("server")
        self.lie = None
        self.old_answers = []  # of the current customer's honest answers
        self.catch_up = lambda: None  # waits until what the client said before a request is known
        self._handing_in = 0
        handler = type("Handler", (Handler,), {"book": self})
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.base = f"http://127.0.0.1:{self._http.server_address[1]}"

    def stop(self):
        self._http.shutdown()
        self._http.server_close()

    def violate(self, rule, words):
        if (rule, words) not in self.violations:
            self.violations.append((rule, words))

    def assertions_for(self, customer):
        """Three texts about a customer, in the order in which the app's backend gives them."""
        with self.lock:
            made = [assertion(customer, self.app, len(self.assertions) + place, self.now + 3600) for place in range(3)]
            self.assertions.update(dict.fromkeys(made, customer))
            return made

    # MARK: - Answers

    def answer(self, request):
        """The status, headers and body of an answer; None for none."""
        with self.lock:
            self.requests.append(request)
            if self.is_away:
                return None
            for queued in self.answers:
                if queued["to"] in (request["method"], "any"):
                    queued["times"] -= 1
                    if queued["times"] == 0:
                        self.answers.remove(queued)
                    return problem(queued["status"], "as the scenario says", queued.get("headers", {}))
            if request["headers"].get("authorization") != f"Bearer {self.TOKEN}":
                self.violate("request-as-defined", "a request without the publishable token")
                return problem(401, "the token is unknown or revoked")
            text = request["headers"].get("subledger-assertion")
            customer = self.assertions.get(text)
            if customer is None:
                self.violate("request-as-defined", "a request without an assertion of the backend")
                return problem(401, "missing header Subledger-Assertion")
            if text in self.refused_assertions:
                return problem(401, "the assertion has expired")
            request["customer"] = customer
            path = request["path"].split("/")[1:]
            if request["method"] == "POST" and path == [self.hand_in_path]:
                answer = self._hand_in(request, customer)
                if self.lost_answers > 0 and answer[0] == 200:
                    self.lost_answers -= 1
                    return None
                return answer
            if request["method"] == "GET" and len(path) == 3 and path[0] == "customers" and path[2] == "entitlements":
                return self._entitlements(request, customer, urllib.parse.unquote(path[1]))
            self.violate("request-as-defined", f"{request['method']} {request['path']} is no request of the protocol")
            return problem(403, "the token has scope publishable")

    def begins(self, request):
        if request["method"] != "POST":
            return
        with self.lock:
            self._handing_in += 1
            if self._handing_in > 1:
                self.violate("one-at-a-time", "two hand-ins were under way at a time")

    def ended(self, request):
        if request["method"] == "POST":
            with self.lock:
                self._handing_in -= 1

    def _hand_in(self, request, customer):
        query, body = request["query"], request["body"]
        if query.get("app") != [self.app] or query.get("environment") != ["any"]:
            self.violate("request-as-defined", "a hand-in without app and environment=any in its query")
            return problem(400, "app and environment are missing")
        texts, field = texts_of(request), FIELDS[self.hand_in_path]
        if texts is None:
            self.violate("request-as-defined", f"a hand-in whose body has no {field}")
            return problem(400, f"{field} is missing", field=field)
        members = json.loads(body)
        if members.get("customerId", customer) != customer:
            self.violate("own-purchases", "a hand-in for another customer than the assertion's")
            return problem(403, "the customer is not the one of the assertion", field="customerId")
        if "transactionId" in members:
            self.violate("request-as-defined", "a hand-in with transactionId")
            return problem(403, "a publishable token hands in signed texts only", field="transactionId")
        if not 1 <= len(texts) <= TRANSACTIONS_MAX:
            self.violate("request-as-defined", f"a hand-in without 1 to {TRANSACTIONS_MAX} signed texts")
            return problem(400, f"{field} must be a list of 1 to 100 strings", field=field)
        for text in texts:
            transaction = self.texts.get(text) if isinstance(text, str) else None
            if transaction is None:
                self.violate("hand-in-as-signed", "a text that the store never gave was handed in")
                return problem(422, "the text is not of the store", field=field)
            if transaction["customer"] not in (None, customer):
                self.violate("own-purchases", f"{transaction['name']} was handed in for {customer}, who did not buy it")
        for text in texts:
            status = self.refused.get(self.texts[text]["productId"])
            if status:
                return problem(status, "this purchase is refused", field=field)
        for text in texts:
            self._store(text, customer)
        granted = [
            {
                "entitlement": name, "active": True, "until": end and instant(end),
                "productIds": sorted(
                    {self.texts[text]["productId"] for text in texts
                     if name in self.products[self.texts[text]["productId"]]["entitlements"]}),
            }
            for name, end in sorted(self._granted(customer).items())
        ]
        return 200, {"Content-Type": "application/json"}, json.dumps({
            "app": self.app, "environment": self.environment, "customerId": customer, "registered": "new",
            "linked": True, "projected": True, "subscriptions": [], "entitlements": granted,
        }).encode()

    def _store(self, text, customer):
        transaction = self.texts[text]
        if text not in self.stored:
            self.stored.add(text)
            self.position += 1
        known = self.books.get(transaction["id"])
        # An older text changes nothing.
        if known is None or self.texts[known].get("revocationDate") is None:
            self.books[transaction["id"]] = text
        self.owners.setdefault(transaction["id"], customer)

    def _granted(self, customer):
        """By entitlement its end, None for one without."""
        ends = {}
        for id, text in self.books.items():
            transaction = self.texts[text]
            if self.owners[id] != customer or transaction.get("revocationDate") is not None:
                continue
            end = transaction.get("expirationDate")
            if end is not None and end <= self.now:
                continue
            for name in self.products[transaction["productId"]]["entitlements"]:
                both = (end, ends.get(name, end))
                ends[name] = None if None in both else max(both)
        return ends

    def _entitlements(self, request, customer, asked):
        query = request["query"]
        if query.get("app") != [self.app] or len(query.get("environment", [])) != 1:
            self.violate("request-as-defined", "a question without app and environment in its query")
            return problem(400, "app is missing")
        if query.get("signed") != ["true"] and "application/jwt" not in request["headers"].get("accept", ""):
            self.violate("request-as-defined", "a question for an answer that is not signed")
            return problem(406, "expected signed=true")
        if asked != customer:
            self.violate("own-purchases", f"a question about {asked} with an assertion about {customer}")
            return problem(403, "the customer is not the one of the assertion", field="customerId")
        environment = query["environment"][0]
        known = environment == self.environment and customer in self.owners.values()
        if not known:
            return problem(404, "no customer with this id")
        granted = self._granted(customer)
        tag = f"W/\"{self.position}-{'-'.join(sorted(granted))}-{int(self.now // 86_400)}\""
        if self.lie is None and request["headers"].get("if-none-match") == tag:
            return 304, {"ETag": tag}, b""
        lie, self.lie = self.lie or {}, None
        if lie.get("older"):
            return 200, {"Content-Type": "application/jwt", "ETag": "W/\"old\""}, self.old_answers[0].encode()
        text = self.signed_answer(customer, environment, granted, lie)
        if not lie:
            self.old_answers.append(text)
        return 200, {"Content-Type": "application/jwt", "ETag": tag if not lie else "W/\"a lie\""}, text.encode()

    def signed_answer(self, customer, environment, granted, lie):
        """A signed answer of now. A lie grants "gold" as well, so that one who believes it shows it."""
        ends = [end or float("inf") for end in granted.values()]
        until = min(max(ends), self.now + WEEK) if ends else self.now + 3600
        granted = dict(granted, gold=None) if lie else granted
        entitlements = [{"entitlement": name, "until": end and instant(end)} for name, end in sorted(granted.items())]
        if lie.get("unreadable"):
            entitlements[0]["until"] = "some day"
        claims = {
            "sub": lie.get("customer", customer), "aud": lie.get("app", self.app),
            "environment": lie.get("environment", environment), "knownAs": "link", "position": self.position,
            "iat": int(self.now), "exp": int(self.now - 60 if lie.get("expired") else -(-until // 1)),
            "entitlements": entitlements,
        }
        signer = key("another") if lie.get("key") or lie.get("brings") else self.signer
        header = {"alg": lie.get("alg", "EdDSA"), "typ": lie.get("typ", TYPE), "kid": base64url(signer.public)[:8]}
        if lie.get("brings"):
            header["jwk"] = {"kty": "OKP", "crv": "Ed25519", "x": base64url(signer.public)}
        signed = f"{compact(header)}.{compact(claims)}"
        signature = b"" if lie.get("alg") == "none" else signer.sign(signed.encode())
        if lie.get("bit"):
            signature = bytes([signature[0] ^ 1]) + signature[1:]
        if lie.get("claims"):
            signed = f"{compact(header)}.{compact(dict(claims, exp=claims['exp'] + WEEK))}"
        return f"{signed}.{base64url(signature)}"


# The member of the body with what is handed in, by path.
FIELDS = {"transactions": "signedTransaction", "purchases": "purchaseToken"}


def texts_of(request):
    """What a request hands in, a list; None if it hands nothing in."""
    field = FIELDS.get(request["path"].removeprefix("/"))
    try:
        texts = json.loads(request["body"])[field]
    except (ValueError, KeyError, TypeError):
        return None
    if isinstance(texts, str):
        return [texts]
    return texts if field == "signedTransaction" and isinstance(texts, list) else None


def problem(status, detail, headers=None, field=None):
    body = {"type": "about:blank", "status": status, "detail": detail}
    if field:
        body["field"] = field
    return status, {"Content-Type": "application/problem+json", **(headers or {})}, json.dumps(body).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    book = None

    def handle_request(self):
        address = urllib.parse.urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        request = {
            "method": self.command, "path": address.path, "query": urllib.parse.parse_qs(address.query),
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": self.rfile.read(length) if length else b"",
        }
        # A client that keeps a connection might repeat a request on its own when the connection ends.
        self.close_connection = True
        self.book.catch_up()
        self.book.begins(request)
        try:
            answer = self.book.answer(request)
        finally:
            self.book.ended(request)
        if answer is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers, body = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_request

    def log_message(self, *_):
        pass
