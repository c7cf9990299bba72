"""Signs messages with the reference implementation of Standard Webhooks, or verifies those of a file."""

import base64
import json
import sys
from datetime import datetime, timezone
from unittest import mock

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from standardwebhooks import webhooks

BODIES = ["", "{}", '{"type":"subledger.subscription.opened.v1"}', '{"price":"12 €","emoji":"😀"}', "a" * 5_000]
SHARED = [b"only-for-tests-only-for-", b"only-for-tests-only-for-tests-00", b"only-for-tests-" * 4]
SEED = b"only-for-tests-only-for-tests-00"


def shared(key):
    return "whsec_" + base64.b64encode(key).decode()


def sign():
    messages = []
    for number, body in enumerate(BODIES):
        message, seconds = f"msg_{number}_test", 1795750200 + number
        when = datetime.fromtimestamp(seconds, tz=timezone.utc)
        for key in SHARED:
            signature = webhooks.Webhook(shared(key)).sign(message, when, body)
            messages.append(entry(message, seconds, body, shared(key), shared(key), signature))
        # The reference signs with shared secrets only; this is what the specification says of v1a.
        private = Ed25519PrivateKey.from_private_bytes(SEED)
        public = private.public_key().public_bytes_raw()
        signature = "v1a," + base64.b64encode(private.sign(f"{message}.{seconds}.{body}".encode())).decode()
        secret = "whsk_" + base64.b64encode(SEED + public).decode()
        messages.append(
            entry(message, seconds, body, secret, "whpk_" + base64.b64encode(public).decode(), signature))
    json.dump(messages, sys.stdout, ensure_ascii=False, indent=1)
    print()


def entry(message, seconds, body, signing, verifying, signature):
    return {
        "id": message, "timestamp": seconds, "body": body, "signingKey": signing, "verificationKey": verifying,
        "signature": signature}


class Clock(datetime):
    """Stands still at the instant of a message."""

    at = None

    @classmethod
    def now(cls, tz=None):
        return cls.at


def check(path):
    messages = json.load(open(path, encoding="utf-8"))
    for message in messages:
        content = f"{message['id']}.{message['timestamp']}.{message['body']}".encode()
        if message["verificationKey"].startswith("whpk_"):
            key = Ed25519PublicKey.from_public_bytes(base64.b64decode(message["verificationKey"][5:]))
            key.verify(base64.b64decode(message["signature"].split(",")[1]), content)
            continue
        Clock.at = datetime.fromtimestamp(message["timestamp"], tz=timezone.utc)
        with mock.patch.object(webhooks, "datetime", Clock):
            webhooks.Webhook(message["verificationKey"]).verify(
                message["body"],
                {
                    "webhook-id": message["id"], "webhook-timestamp": str(message["timestamp"]),
                    "webhook-signature": message["signature"]},
                json_parse=False)
    print(f"{len(messages)} messages verified")


if sys.argv[1:2] == ["--check"]:
    check(sys.argv[2])
else:
    sign()
