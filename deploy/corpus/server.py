"""The server under test: one that the runner starts, or one that runs already."""

import http.client
import json
import os
import pathlib
import pwd
import re
import subprocess
import time
import urllib.parse

import appstore
import playstore

SECRET = "0123456789abcdef0123456789abcdef"


class Failure(Exception):
    """The server under test cannot be started or reached."""


def psql():
    """The newest psql. Debian's command of this name is a script that looks for it, and takes longer than a query."""
    found = pathlib.Path("/usr/lib/postgresql").glob("*/bin/psql")
    return str(max(found, key=lambda path: float(path.parts[4]), default="psql"))


def write_setup(folder, cases, play_address):
    """Writes what a server under test is started with: the chain, its root, the apps of the cases, and Google's key."""
    folder = pathlib.Path(folder)
    chain = appstore.Chain(folder / "chain")
    (folder / "root.pem").write_bytes((folder / "chain" / "root.pem").read_bytes())
    apps = []
    for case in cases:
        apps.append({"bundleId": case.app, "sharedSecrets": [SECRET], "receipts": {"polling": False}})
        if case.uses_play:
            push = {"authentication": "none"}
            if case.signedPushes:
                push = {"audience": playstore.AUDIENCE, "email": playstore.ACCOUNT}
            apps.append({"packageName": case.package, "push": push, "serviceAccount": "google.json"})
    (folder / "apps.json").write_text(json.dumps(apps, indent=1))
    google = folder / "google.json"
    if not google.exists():
        key = appstore.openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048").decode()
        google.write_text(json.dumps({
            "type": "service_account", "client_email": "conformance@example-project.iam.gserviceaccount.com",
            "private_key_id": "conformance", "private_key": key, "token_uri": play_address + "/token",
        }))
    google.chmod(0o600)
    (folder / "apps.json").chmod(0o644)
    if os.geteuid() == 0:
        # As root, the server continues as one of these users.
        for user in ("subledger", "postgres"):
            try:
                os.chown(google, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
                break
            except KeyError:
                continue
    return chain


def environment(play_address):
    """The settings of a server under test, besides the apps file and the root."""
    return {
        "SUBLEDGER_OCSP": "off", "SUBLEDGER_GOOGLE_API_URL": play_address,
        "SUBLEDGER_GOOGLE_TOKEN_URL": play_address + "/token", "SUBLEDGER_GOOGLE_KEYS_URL": play_address + "/keys",
    }


class Server:
    """Both listeners of a server, by HTTP, and its figures in SQL where there is a database to ask."""

    def __init__(self, public, private, token, database=None):
        self.public, self.private, self.token, self.database = public, private, token, database
        self.psql = psql()

    def request(self, base, method, path, body=None, headers=None):
        address = urllib.parse.urlsplit(base)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        try:
            connection.request(method, path, body, {"content-type": "application/json"} | (headers or {}))
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        finally:
            connection.close()

    def post(self, path, body, headers=None):
        status, text = self.request(self.public, "POST", path, body, headers)
        return status, parsed(text)

    def ask(self, method, path, parameters=None, body=None):
        query = "?" + urllib.parse.urlencode(parameters) if parameters else ""
        status, text = self.request(
            self.private, method, path + query, None if body is None else json.dumps(body),
            {"authorization": "Bearer " + self.token})
        return status, parsed(text)

    def metric(self, name, **labels):
        """The sum of a metric over all label sets that have these labels."""
        total = 0.0
        for line in self.request(self.private, "GET", "/metrics")[1].splitlines():
            if not line.startswith((name + " ", name + "{")):
                continue
            if all(f'{key}="{item}"' in line for key, item in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def said(self, app):
        """The last lines of the server's log about an app; none where the log is elsewhere."""
        return []

    def query(self, text, role="subledger_analyst"):
        """The rows of a query as lists of text; null is None."""
        result = subprocess.run(
            [self.psql, "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--field-separator", "\x1f",
             "--pset", "null=\x1e", "-c", "set timezone = 'UTC'", "-c", text, *self.database(role)],
            capture_output=True, text=True)
        if result.returncode:
            raise Failure("the query failed: " + result.stderr.strip())
        return [
            [None if field == "\x1e" else field for field in line.split("\x1f")]
            for line in result.stdout.split("\n") if line
        ]

    def settle(self, apps, seconds=60):
        """Waits until every stored event of the apps is folded."""
        deadline = time.monotonic() + seconds
        names = ", ".join("'" + app.replace("'", "''") + "'" for app in apps)
        behind = f"""select count(*) from subledger.stream join subledger.stream_head using (stream_id)
            left join subledger.checkpoint using (stream_id)
            where app in ({names}) and stream_head.position > coalesce(checkpoint.position, 0)"""
        while time.monotonic() < deadline:
            if self.database:
                if self.query(behind, "subledger_reader") == [["0"]]:
                    return
            else:
                # The gauge is renewed with the next look at the log.
                time.sleep(0.3)
                if self.metric("subledger_projector_lag_events") == 0:
                    return
            time.sleep(0.1)
        raise Failure(f"events are not folded after {seconds} seconds")


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


class OwnServer(Server):
    """A server with a private database in the folder, which has been set up. Ends with `stop`."""

    def __init__(self, program, folder, play_address):
        self.folder = pathlib.Path(folder)
        self.log = self.folder / "log"
        clean = {key: item for key, item in os.environ.items() if not key.startswith("SUBLEDGER_")}
        self.environment = clean | environment(play_address) | {
            "SUBLEDGER_DATA_FOLDER": str(self.folder / "data"), "SUBLEDGER_APPS_FILE": str(self.folder / "apps.json"),
            "SUBLEDGER_LOG_LEVEL": "info",
        }
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [program, "serve", "--root", str(self.folder / "root.pem"), "--public-host", "127.0.0.1",
                 "--public-port", "0", "--private-port", "0"],
                env=self.environment, stdout=subprocess.DEVNULL, stderr=log)
        try:
            public, private = (self.address(listener) for listener in ("public", "private"))
            token = subprocess.run(
                [program, "token", "create", "--scope", "admin", "--name", "conformance", "--log-level", "error"],
                env=self.environment, capture_output=True, text=True, timeout=60)
            if token.returncode:
                raise Failure("no token can be created: " + token.stderr.strip())
        except BaseException:
            self.stop()
            raise
        socket = str(self.folder / "data" / "run")
        super().__init__(
            public, private, token.stdout.strip(), lambda role: ["-h", socket, "-U", role, "-d", "subledger"])

    def said(self, app):
        return [line for line in self.log.read_text().splitlines() if app in line][-5:]

    def address(self, listener, seconds=90):
        deadline = time.monotonic() + seconds
        line = re.compile(rf"http\.address=(\S+).* {listener} listener is up")
        while time.monotonic() < deadline and self.process.poll() is None:
            if match := line.search(self.log.read_text()):
                return "http://" + match[1]
            time.sleep(0.05)
        raise Failure("the server did not start:\n" + "\n".join(self.log.read_text().splitlines()[-15:]))

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class RunningServer(Server):
    """A server that was started with a written setup.

    - database: A URL of its database, for the promises about figures; None leaves them out.
    """

    def __init__(self, public, private, token, database=None):
        super().__init__(public, private, token, (lambda _: ["-d", database]) if database else None)
        try:
            status, _ = self.ask("GET", "/streams")
        except OSError as error:
            raise Failure(f"{private} does not answer: {error}") from error
        if status != 200:
            raise Failure(f"{private}/streams answered {status}, expected 200: check the token")

    def refuse_earlier_run(self, cases):
        """Raises Failure if the log has a case already, whose purchases would meet their own past."""
        known = {stream["app"] for stream in self.ask("GET", "/streams")[1]["streams"]}
        for case in cases:
            if {case.app, case.package} & known:
                raise Failure(f"the log has the case {case.id} already: expected an empty log")
