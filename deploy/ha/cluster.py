"""Three PostgreSQL nodes under Patroni with etcd, on the loopback of this machine, and the faults that end a leader."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

from links import Network

NODES = 3
# Patroni gives a leader that is silent for so long up. The shortest that Patroni accepts is 20 seconds.
TTL_SECONDS = 20


def children_of(pid):
    """The process and all that it has started."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += parents.get(found[-1], [])
    return found


class Node:
    def __init__(self, cluster, number):
        self.cluster, self.number, self.name = cluster, number, f"n{number}"
        base = cluster.port
        self.port, self.rest = base + 10 + number, base + 20 + number
        # What other machines reach this node by, and what it reaches etcd by.
        self.far_port, self.far_rest, self.far_etcd = base + 30 + number, base + 40 + number, base + 50 + number
        network = cluster.network
        self.links = [
            network.link(self.far_port, self.port), network.link(self.far_rest, self.rest),
            network.link(self.far_etcd, cluster.etcd_port),
        ]
        self.folder = cluster.folder / self.name
        self.patroni = None

    def configure(self):
        # JSON is YAML.
        settings = {
            "scope": "subledger", "name": self.name,
            "restapi": {"listen": f"127.0.0.1:{self.rest}", "connect_address": f"127.0.0.1:{self.far_rest}"},
            # The second version of the API: with the third, Patroni 3.0 gives a leader that was frozen its lock back,
            # although another node leads. A proxy, because Patroni must not find a way around the link.
            "etcd": {"hosts": [f"127.0.0.1:{self.far_etcd}"], "use_proxies": True},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL_SECONDS, "loop_wait": 3, "retry_timeout": 5,
                    # Strict: a leader without a synchronous standby accepts no commit.
                    "synchronous_mode": True, "synchronous_mode_strict": True,
                    "postgresql": {
                        "use_pg_rewind": True,
                        "parameters": {"max_connections": 200, "wal_keep_size": "256MB", "wal_sender_timeout": "5s"},
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "data-checksums"],
                "pg_hba": [
                    "local all all trust", "host all all 127.0.0.1/32 trust",
                    "host replication all 127.0.0.1/32 trust",
                ],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}", "connect_address": f"127.0.0.1:{self.far_port}",
                "data_dir": str(self.folder), "bin_dir": self.cluster.bin, "pgpass": f"{self.folder}.pgpass",
                "authentication": {
                    "superuser": {"username": "postgres"}, "replication": {"username": "replicator"},
                    "rewind": {"username": "rewinder"},
                },
                "parameters": {"unix_socket_directories": str(self.cluster.folder), "shared_buffers": "64MB"},
            },
        }
        self.file = self.cluster.folder / f"{self.name}.json"
        self.file.write_text(json.dumps(settings, indent=1))

    def start(self):
        log = open(self.cluster.folder / f"{self.name}.log", "ab")
        account = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        self.patroni = subprocess.Popen(
            ["patroni", str(self.file)], stdout=log, stderr=log, cwd=self.cluster.folder, start_new_session=True,
            **account)

    def processes(self):
        """Patroni first, so that it does not notice the end of the others."""
        found = children_of(self.patroni.pid)
        try:
            postmaster = int((self.folder / "postmaster.pid").read_text().split("\n")[0])
        except (OSError, ValueError):
            return found
        return found + [pid for pid in children_of(postmaster) if pid not in found]

    def signal(self, number):
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def ask(self, path, body=None):
        """The answer of Patroni, or None."""
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.rest}{path}", data)
        try:
            with urllib.request.urlopen(request, timeout=2 if body is None else 60) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.read().decode()}") from error
        except OSError:
            return None


class Cluster:
    def __init__(self, folder, port):
        self.folder, self.port, self.etcd_port = pathlib.Path(folder), port, port + 1
        self.bin = str(max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parts[-2])))
        self.folder.mkdir(parents=True)
        self.network = Network()
        self.etcd = None
        self.nodes = [Node(self, number) for number in range(NODES)]

    def start(self):
        address = f"http://127.0.0.1:{self.etcd_port}"
        with open(self.folder / "etcd.log", "ab") as log:
            self.etcd = subprocess.Popen(
                ["etcd", "--enable-v2=true", "--data-dir", str(self.folder / "etcd"), "--listen-client-urls", address,
                 "--advertise-client-urls", address, "--listen-peer-urls", f"http://127.0.0.1:{self.port + 2}"],
                stdout=log, stderr=log, start_new_session=True)
        for node in self.nodes:
            node.configure()
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
            for node in self.nodes:
                shutil.chown(node.file, "postgres")
        self.nodes[0].start()
        self.wait(1)
        for node in self.nodes[1:]:
            node.start()
        self.wait()

    def members(self):
        for node in self.nodes:
            text = node.ask("/cluster")
            if text:
                return {member["name"]: member for member in json.loads(text)["members"]}
        return {}

    def leader(self):
        names = [name for name, member in self.members().items() if member["role"] == "leader"]
        return self.nodes[int(names[0][1:])] if names else None

    def wait(self, count=NODES, seconds=180):
        """Waits until this many members run, one of them as leader and, if there are several, one as its synchronous
        standby."""
        deadline = time.monotonic() + seconds
        members = {}
        while time.monotonic() < deadline:
            members = self.members()
            well = [
                member for member in members.values()
                if member["state"] in ("running", "streaming")
                and (member["role"] == "leader" or member.get("lag") == 0)
            ]
            roles = sorted(member["role"] for member in well)
            if len(well) == count and "leader" in roles and (count == 1 or "sync_standby" in roles):
                return
            time.sleep(0.5)
        raise RuntimeError(f"the cluster did not come up: {members}")

    def addresses(self):
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def stop(self):
        for node in self.nodes:
            if node.patroni:
                self.network.heal(node.links)
                node.signal(signal.SIGCONT)
                node.patroni.terminate()
        for node in self.nodes:
            if node.patroni:
                try:
                    node.patroni.wait(30)
                except subprocess.TimeoutExpired:
                    pass
                node.signal(signal.SIGKILL)
        if self.etcd:
            self.etcd.terminate()
            self.etcd.wait(10)
