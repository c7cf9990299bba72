"""Google Play's side: a Play Developer API that answers what a case has set, and pushes of Cloud Pub/Sub."""

import base64
import collections
import http.server
import json
import pathlib
import threading
import time
import urllib.parse

from appstore import base64url, compact, openssl

NOT_FOUND = "The purchase token was not found."
UNKNOWN = {
    "code": 404, "message": NOT_FOUND,
    "errors": [{"domain": "global", "reason": "purchaseTokenNotFound", "message": NOT_FOUND}],
}
ACKNOWLEDGED = "ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED"
# What Google always states; the members of the case come first.
BOUGHT = {"regionCode": "US", "acknowledgementState": ACKNOWLEDGED}
DEFAULTS = {
    "subscriptions": {"kind": "androidpublisher#subscriptionPurchaseV2"} | BOUGHT,
    "products": {"kind": "androidpublisher#productPurchaseV2"} | BOUGHT,
    "orders": {"state": "PROCESSED"},
}
# What a case calls each resource, by its name in the address.
RESOURCES = {
    "subscriptionsv2": "subscriptions", "subscriptions": "subscriptions", "productsv2": "products",
    "products": "products", "orders": "orders",
}

Question = collections.namedtuple("Question", "method path key body")

# Of the account that signs pushes, and what it signs them for.
ACCOUNT = "conformance-push@example-project.iam.gserviceaccount.com"
AUDIENCE = "https://conformance.example/google/notifications"


class PushKey:
    """The key of the account that signs pushes, in a folder. Makes it if the folder has none."""

    def __init__(self, folder):
        self.file = pathlib.Path(folder) / "push.key"
        if not self.file.exists():
            openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self.file)
        modulus = openssl("rsa", "-in", self.file, "-noout", "-modulus").decode().strip().partition("=")[2]
        self.set = {"keys": [{
            "kid": "conformance", "kty": "RSA", "alg": "RS256", "use": "sig", "n": base64url(bytes.fromhex(modulus)),
            "e": "AQAB",
        }]}

    def authorization(self):
        """A header that proves who pushes, valid for an hour from now."""
        now = int(time.time())
        claims = {
            "iss": "https://accounts.google.com", "aud": AUDIENCE, "email": ACCOUNT, "email_verified": True,
            "iat": now, "exp": now + 3600,
        }
        head = base64url(compact({"alg": "RS256", "kid": "conformance", "typ": "JWT"}))
        text = f"{head}.{base64url(compact(claims))}"
        signature = openssl("dgst", "-sha256", "-sign", self.file, data=text.encode())
        return {"authorization": f"Bearer {text}.{base64url(signature)}"}


class PlayAPI:
    """The Play Developer API of all cases, with answers by package. Listens on 127.0.0.1."""

    def __init__(self, port=0):
        # Set it before a server asks: the public keys of the pushes.
        self.keys = {"keys": []}
        self.lock = threading.Lock()
        self.answers = collections.defaultdict(
            lambda: {"subscriptions": {}, "products": {}, "orders": {}, "errors": {}, "voided": []})
        self.questions = collections.defaultdict(list)
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, body):
                status, content = api.answer(self.command, self.path, body)
                self.send_response(status)
                self.send_header("content-type", "application/json; charset=UTF-8")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self):
                self.answer("")

            def do_POST(self):
                self.answer(self.rfile.read(int(self.headers.get("content-length") or 0)).decode())

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def set(self, package, stated):
        """Adds answers: `subscriptions` and `products` by token, `orders` by id, `errors` by token or id, `voided`."""
        with self.lock:
            answers = self.answers[package]
            for kind, entries in stated.items():
                if kind == "voided":
                    answers["voided"] = entries
                    continue
                for key, entry in entries.items():
                    # Either an error or an answer: the later one counts.
                    answers["errors"].pop(key, None)
                    made = DEFAULTS.get(kind, {}) | ({"orderId": key} if kind == "orders" else {})
                    answers[kind][key] = made | entry

    def asked(self, package, key):
        """The questions about a token or an order so far."""
        with self.lock:
            return [question for question in self.questions[package] if question.key == key]

    def answer(self, method, path, body):
        address = urllib.parse.urlsplit(path)
        parts = [urllib.parse.unquote(part) for part in address.path.split("/") if part]
        if parts == ["token"]:
            return 200, json.dumps({"access_token": "conformance", "expires_in": 3599, "token_type": "Bearer"}).encode()
        if parts == ["keys"]:
            return 200, json.dumps(self.keys).encode()
        if len(parts) < 5 or parts[:3] != ["androidpublisher", "v3", "applications"]:
            return 404, b"{}"
        package, key = parts[3], parts[-1].partition(":")[0]
        with self.lock:
            self.questions[package].append(Question(method, address.path, key, body))
            answers = self.answers[package]
            if method == "POST":
                if parts[-1].endswith(":acknowledge"):
                    self.acknowledge(answers, key)
                return 200, b"{}"
            if "voidedpurchases" in parts:
                return 200, json.dumps({"voidedPurchases": answers["voided"]} if answers["voided"] else {}).encode()
            if key in answers["errors"]:
                error = answers["errors"][key]
                return error["status"], json.dumps(error["body"]).encode() if error.get("body") else b""
            kind = next((RESOURCES[part] for part in parts[4:-1] if part in RESOURCES), None)
            if kind is None or key not in answers[kind]:
                return 404, json.dumps({"error": UNKNOWN}).encode()
            return 200, json.dumps(answers[kind][key]).encode()

    @staticmethod
    def acknowledge(answers, token):
        """Google shows the context of a purchase outside the app only until the purchase is acknowledged."""
        for kind in ("subscriptions", "products"):
            if token in answers[kind]:
                answers[kind][token]["acknowledgementState"] = ACKNOWLEDGED
                answers[kind][token].pop("outOfAppPurchaseContext", None)


def push(content, package, identifier, at, published):
    """The body of a push of Cloud Pub/Sub with a notification about the package. `at` is in milliseconds."""
    notification = {"version": "1.0", "packageName": package, "eventTimeMillis": str(at)}
    for kind, members in content.items():
        notification[kind] = {"version": "1.0"} | members if kind != "voidedPurchaseNotification" else members
    data = base64.b64encode(json.dumps(notification).encode()).decode()
    return json.dumps({
        "message": {"data": data, "messageId": identifier, "publishTime": published},
        "subscription": "projects/example-project/subscriptions/conformance",
    })


def purchase_token(content):
    return next(members["purchaseToken"] for members in content.values())
