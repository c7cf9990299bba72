"""Senders that repeat each notification until it is answered 200, and a probe of when the cluster accepts commits."""

import base64
import http.client
import json
import threading
import time

import psycopg2

SECRET = "0123456789abcdef0123456789abcdef"
APP = "com.example.magazine"
FIRST_ID = 2_000_000_000_000_000


def body(number):
    """A version 1 notification of a first purchase, with ids derived from the number."""
    identifier = str(FIRST_ID + number)
    product = f"{APP}.monthly"
    return json.dumps({
        "notification_type": "INITIAL_BUY", "environment": "PROD", "password": SECRET, "bid": APP,
        "auto_renew_status": "true",
        "unified_receipt": {
            "status": 0, "environment": "Production", "latest_receipt": base64.b64encode(bytes(96)).decode(),
            "latest_receipt_info": [{
                "transaction_id": identifier, "original_transaction_id": identifier, "product_id": product,
                "purchase_date_ms": "1519084800000", "expires_date_ms": "1521504000000", "quantity": "1",
            }],
            "pending_renewal_info": [{
                "original_transaction_id": identifier, "product_id": product, "auto_renew_product_id": product,
                "auto_renew_status": "1",
            }],
        },
    })


def ask(port, method, path, text=None, token=None):
    """The status and body of an answer; None instead if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, text, {"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return None, None
    finally:
        connection.close()


def post(port, text):
    """The position of a notification that was answered 200, or None."""
    status, answered = ask(port, "POST", "/apple/notifications", text)
    return json.loads(answered)["position"] if status == 200 else None


def get(port, path, token):
    return ask(port, "GET", path, token=token)[0]


class Sender(threading.Thread):
    """Posts to one server. Keeps which position each number was acknowledged with, and the times of its answers."""

    def __init__(self, port, first, step, pause):
        super().__init__(daemon=True)
        self.port, self.number, self.step, self.pause = port, first, step, pause
        self.acknowledged = {}
        self.answers = []  # (time, whether it was 200)
        self.ending = threading.Event()

    def run(self):
        while not self.ending.is_set():
            text = body(self.number)
            while not self.ending.is_set():
                position = post(self.port, text)
                self.answers.append((time.monotonic(), position is not None))
                if position is not None:
                    self.acknowledged[self.number] = position
                    break
                time.sleep(0.1)
            self.number += self.step
            time.sleep(self.pause)

    def back_after(self, start):
        """When the first 200 came after the first failure since the start; None without a failure, or until then."""
        failed = next((at for at, good in self.answers if at >= start and not good), None)
        if failed is None:
            return None
        return next((at for at, good in self.answers if at > failed and good), None)


class Probe:
    """Commits a row on each node but one, until a commit succeeds and a synchronous standby follows the node: the time that
    Patroni and PostgreSQL need. A new leader accepts commits for a moment before they wait for a standby, which may be away.
    """

    def __init__(self, nodes):
        self.found = threading.Event()
        self.at = self.node = None
        self.lock = threading.Lock()
        for node in nodes:
            threading.Thread(target=self.watch, args=(node,), daemon=True).start()

    def watch(self, node):
        while not self.found.is_set():
            try:
                connection = psycopg2.connect(
                    host="127.0.0.1", port=node.port, user="postgres", dbname="probe", connect_timeout=2,
                    target_session_attrs="read-write")
                try:
                    with connection, connection.cursor() as cursor:
                        cursor.execute("insert into probe values (now())")
                    with connection, connection.cursor() as cursor:
                        cursor.execute("select exists (select from pg_stat_replication where sync_state = 'sync')")
                        is_followed = cursor.fetchone()[0]
                    if not is_followed:
                        time.sleep(0.1)
                        continue
                    with self.lock:
                        if not self.found.is_set():
                            self.at, self.node = time.monotonic(), node
                            self.found.set()
                finally:
                    connection.close()
            except psycopg2.Error:
                time.sleep(0.1)
