"""The App Store's side: a test chain of certificates, and notifications signed with it."""

import base64
import json
import pathlib
import subprocess

# With the marks of Apple's intermediate certificate and of the leaf that signs notifications.
CONFIGURATION = """
[ca]
default_ca = conformance
[conformance]
database = {folder}/index
new_certs_dir = {folder}
rand_serial = yes
unique_subject = no
default_md = sha384
policy = policy
[policy]
commonName = supplied
[root]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[intermediate]
basicConstraints = critical, CA:true, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
1.2.840.113635.100.6.2.1 = DER:05:00
[leaf]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
1.2.840.113635.100.6.11.1 = DER:05:00
"""


def openssl(*arguments, data=None):
    return subprocess.run(["openssl", *map(str, arguments)], input=data, capture_output=True, check=True).stdout


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


def raw_signature(der):
    """The 64 bytes of r and s of an ECDSA signature in DER, as JWS has them."""
    r_length = der[3]
    r, s = der[4 : 4 + r_length], der[6 + r_length : 6 + r_length + der[5 + r_length]]
    return b"".join(int.from_bytes(part, "big").to_bytes(32, "big") for part in (r, s))


class Chain:
    """Root, intermediate and leaf with their keys, in a folder. Makes them if the folder has none.

    `root.pem` is what a server under test has to trust.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        if not (self.folder / "leaf.pem").exists():
            self.make()
        self.certificates = [
            base64.b64encode(openssl("x509", "-in", self.folder / f"{name}.pem", "-outform", "DER")).decode()
            for name in ("leaf", "intermediate", "root")
        ]

    def make(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "openssl.cnf"
        configuration.write_text(CONFIGURATION.replace("{folder}", str(self.folder)))
        (self.folder / "index").touch()
        issuer = None
        for name, curve in (("root", "secp384r1"), ("intermediate", "secp384r1"), ("leaf", "prime256v1")):
            key, request, certificate = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
            openssl("genpkey", "-algorithm", "EC", "-pkeyopt", f"ec_paramgen_curve:{curve}", "-out", key)
            openssl("req", "-new", "-key", key, "-subj", f"/CN=Conformance {name}", "-out", request)
            signer = ["-selfsign", "-keyfile", key]
            if issuer:
                signer = ["-cert", f"{issuer}.pem", "-keyfile", f"{issuer}.key"]
            # Valid for all instants of the cases.
            openssl(
                "ca", "-batch", "-notext", "-config", configuration, "-in", request, *signer, "-extensions", name,
                "-startdate", "20150101000000Z", "-enddate", "20450101000000Z", "-out", certificate)
            issuer = self.folder / name

    def sign(self, payload):
        """A JWS of the payload, as Apple signs it."""
        head = base64url(compact({"alg": "ES256", "x5c": self.certificates}))
        text = f"{head}.{base64url(compact(payload))}"
        signature = openssl("dgst", "-sha256", "-sign", self.folder / "leaf.key", data=text.encode())
        return f"{text}.{base64url(raw_signature(signature))}"


RENEWING = "Auto-Renewable Subscription"


def transaction(members, app, environment, signed):
    """A transaction with what the App Store always states; the members of the case come first."""
    identifier = members["transactionId"]
    original = members.get("originalTransactionId", identifier)
    made = {
        "transactionId": identifier, "originalTransactionId": original, "bundleId": app, "environment": environment,
        "signedDate": signed, "type": RENEWING, "quantity": 1, "inAppOwnershipType": "PURCHASED",
        "originalPurchaseDate": members.get("purchaseDate"), "storefront": "USA", "storefrontId": "143441",
        "transactionReason": "PURCHASE" if original == identifier else "RENEWAL", "price": 9990, "currency": "USD",
        "appTransactionId": "704" + original[-15:].rjust(15, "0"),
    }
    if members.get("type", RENEWING) == RENEWING:
        made |= {"subscriptionGroupIdentifier": "21000001", "webOrderLineItemId": "9" + identifier[-12:]}
    return {key: item for key, item in (made | members).items() if item is not None}


def renewal(members, of, environment, signed):
    """Renewal information about the subscription of a transaction. Renewal is on unless the case states it."""
    product = members.get("productId", of["productId"])
    made = {
        "originalTransactionId": of["originalTransactionId"], "productId": product, "autoRenewProductId": product,
        "autoRenewStatus": 1, "environment": environment, "signedDate": signed,
    }
    return {key: item for key, item in (made | members).items() if item is not None}


def notification(step, app, chain, identifier):
    """The body of a notification of version 2. Instants of the step are milliseconds."""
    environment, signed = step.get("environment", "Production"), step["at"]
    data = {"bundleId": app, "environment": environment, "bundleVersion": "7"}
    if environment == "Production":
        data["appAppleId"] = 1234567890
    if "status" in step:
        data["status"] = step["status"]
    if "transaction" in step:
        stated = transaction(step["transaction"], app, environment, signed)
        data["signedTransactionInfo"] = chain.sign(stated)
        if stated["type"] == RENEWING and step.get("renewal", {}) is not None:
            data["signedRenewalInfo"] = chain.sign(renewal(step.get("renewal", {}), stated, environment, signed))
    payload = {
        "notificationType": step["type"], "notificationUUID": step.get("notificationUUID", identifier),
        "version": "2.0", "signedDate": signed, "data": data | step.get("data", {}),
    }
    if "subtype" in step:
        payload["subtype"] = step["subtype"]
    return json.dumps({"signedPayload": chain.sign(payload)})


def with_signatures(value, chain):
    """The value with each `{"signed": {…}}` replaced by a JWS of the object."""
    if isinstance(value, list):
        return [with_signatures(item, chain) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"signed"}:
        return chain.sign(with_signatures(value["signed"], chain))
    return {key: with_signatures(item, chain) for key, item in value.items()}
