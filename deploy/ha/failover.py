"""Ends the leader of a PostgreSQL cluster again and again while notifications arrive: see deploy/failover."""

import argparse
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import psycopg2

from cluster import Cluster
from load import APP, FIRST_ID, SECRET, Probe, Sender, body, get, post

# How much later than the cluster a server may accept notifications again.
GRACE_SECONDS = 2.0
# Longest wait for a leader that accepts commits.
FAILOVER_SECONDS = 90
# Notifications of which the time until they are readable is measured, on the primary and on a standby.
STALENESS_SAMPLES = 20


def arguments():
    parser = argparse.ArgumentParser(prog="deploy/failover", description="Fail over under load, and compare.")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--rounds", type=int, default=20, help="number of failovers of each kind [20]")
    parser.add_argument("--kinds", default="kill,freeze,partition,switchover", help="[%(default)s]")
    parser.add_argument("--senders", type=int, default=2, help="senders of each server [2]")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds after each 200 of a sender [0.02]")
    parser.add_argument("--port", type=int, default=26000, help="the first of 60 ports [%(default)s]")
    parser.add_argument("--folder", default=f"/tmp/subledger-failover-{os.getpid()}")
    parser.add_argument("--keep", action="store_true", help="keep the folder with its logs")
    parser.add_argument("program")
    return parser.parse_args()


class Servers:
    """Two server processes on the cluster."""

    def __init__(self, program, cluster):
        self.cluster, self.program = cluster, program
        self.url = f"postgres://postgres@{cluster.addresses()}/subledger?target_session_attrs=read-write"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SUBLEDGER_")},
            "SUBLEDGER_DATABASE_URL": self.url, "SUBLEDGER_APP_BUNDLE_ID": APP, "SUBLEDGER_APP_SHARED_SECRET": SECRET,
        }
        subprocess.run([program, "migrate"], env=self.environment, check=True)
        self.ports = [cluster.port + 3, cluster.port + 5]
        self.processes = [self.start("receiver,projector,reader", port, self.url) for port in self.ports]

    def start(self, roles, port, url):
        log = open(self.cluster.folder / f"server-{port}.log", "wb")
        return subprocess.Popen(
            [self.program, "serve", "--roles", roles, "--ocsp", "off", "--public-host", "127.0.0.1", "--public-port",
             str(port), "--private-port", str(port + 1)],
            env={**self.environment, "SUBLEDGER_DATABASE_URL": url}, stdout=log, stderr=log)

    def run(self, *command):
        result = subprocess.run([self.program, *command], env=self.environment, capture_output=True, text=True)
        # Standard error has the progress of a command that succeeds.
        return result.returncode, (result.stderr if result.returncode else result.stdout).strip()

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(60)


def execute(cluster, database, statement):
    with contextlib.closing(psycopg2.connect(
            host="127.0.0.1", port=cluster.leader().port, user="postgres", dbname=database)) as connection:
        connection.autocommit = True
        connection.cursor().execute(statement)


def fault(kind, cluster, leader, dice):
    """Ends the leadership. Returns what it takes to bring the node back."""
    if kind == "kill":
        leader.signal(signal.SIGKILL)
        leader.patroni.wait()
        return leader.start
    if kind == "freeze":
        leader.signal(signal.SIGSTOP)
        return lambda: leader.signal(signal.SIGCONT)
    if kind == "partition":
        cluster.network.cut(leader.links)
        return lambda: cluster.network.heal(leader.links)
    candidates = [name for name, member in cluster.members().items() if member["role"] == "sync_standby"]
    leader.ask("/switchover", {"leader": leader.name, "candidate": dice.choice(candidates)})
    return lambda: None


def failover(number, kind, cluster, senders, dice):
    """Returns an error, or None."""
    cluster.wait()
    # At any point of the load and of Patroni's loop.
    time.sleep(1 + 3 * dice.random())
    leader = cluster.leader()
    before = sum(len(sender.acknowledged) for sender in senders)
    probe = Probe([node for node in cluster.nodes if node is not leader])
    start = time.monotonic()
    heal = fault(kind, cluster, leader, dice)
    found = probe.found.wait(FAILOVER_SECONDS)
    probe.found.set()
    if not found:
        heal()
        return f"{kind}: no commit succeeded for {FAILOVER_SECONDS} s"
    # A frozen or partitioned leader returns while the new one takes notifications.
    backs = []
    deadline = probe.at + 30
    for sender in senders:
        while (back := sender.back_after(start)) is None and time.monotonic() < deadline:
            has_failed = any(at >= start and not good for at, good in list(sender.answers))
            if not has_failed and time.monotonic() > probe.at + GRACE_SECONDS:
                break
            time.sleep(0.05)
        backs.append(back)
    time.sleep(2 * dice.random())
    heal()
    patroni = probe.at - start
    late = max((back - probe.at for back in backs if back is not None), default=0)
    after = sum(len(sender.acknowledged) for sender in senders)
    print(
        f"{number:3} {kind:10} {leader.name} to {probe.node.name}: cluster back after {patroni:5.1f} s, "
        f"servers {late:+5.1f} s, acknowledged {after} (+{after - before})", flush=True)
    if any(back is None and not sender.answers[-1][1] for back, sender in zip(backs, senders)):
        return f"{kind}: a server did not answer 200 within 30 s after the cluster was back"
    if late > GRACE_SECONDS:
        return f"{kind}: a server was back {late:.1f} s after the cluster"
    return None


def compare(cluster, servers, senders):
    """The differences between what was acknowledged and the log."""
    acknowledged = {number: at for sender in senders for number, at in sender.acknowledged.items()}
    stored = {}
    with contextlib.closing(psycopg2.connect(servers.url)) as connection, connection.cursor() as cursor:
        cursor.execute("select position, facts::text from subledger.event order by position")
        for position, facts in cursor:
            stored[position] = int(re.search(r"2\d{15}", facts)[0]) - FIRST_ID
    lost = [number for number, position in acknowledged.items() if stored.get(position) != number]
    problems = []
    if lost:
        problems.append(f"{len(lost)} acknowledged notifications are not in the log, the first is {min(lost)}")
    if sorted(stored) != list(range(1, len(stored) + 1)):
        problems.append("the positions have gaps")
    if len(set(stored.values())) != len(stored):
        problems.append("a notification is in the log twice")
    deadline = time.monotonic() + 60
    while "lag 0" not in (status := servers.run("projector", "status")[1]) and time.monotonic() < deadline:
        time.sleep(0.5)
    if "lag 0" not in status:
        problems.append(f"the projection is not up to date: {status}")
    code, verdict = servers.run("verify", "--all")
    if code != 0:
        problems.append(f"verify: {verdict}")
    print(f"acknowledged {len(acknowledged)}, in the log {len(stored)}, lost {len(lost)}; {verdict}", flush=True)
    return problems


def path_of(number):
    return f"/subscriptions/{FIRST_ID + number}?environment=production"


def wait_for(seconds, condition):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)


def staleness(servers, cluster, number):
    """Prints how long after its 200 a notification is readable, on the primary and on a standby."""
    token = servers.run("token", "create", "--scope", "read", "--name", "failover", "--log-level", "error")[1]
    reader = servers.start("reader", cluster.port + 7, servers.url.replace("read-write", "prefer-standby"))
    places = [("primary", servers.ports[0] + 1), ("standby", cluster.port + 8)]
    # Until the reader is up and both know the token.
    for _, port in places:
        wait_for(60, lambda: get(port, path_of(1), token) == 200)
    delays = {place: [] for place, _ in places}
    for number in range(number, number + 2 * STALENESS_SAMPLES):
        place, port = places[number % 2]
        if post(servers.ports[0], body(number)) is None:
            continue
        start = time.monotonic()
        wait_for(30, lambda: get(port, path_of(number), token) == 200)
        delays[place].append(time.monotonic() - start)
    reader.terminate()
    reader.wait(60)
    for place, seconds in delays.items():
        seconds.sort()
        print(f"readable on the {place} after 200: median {1000 * seconds[len(seconds) // 2]:.0f} ms, "
              f"longest {1000 * seconds[-1]:.0f} ms, notifications {len(seconds)}", flush=True)


def main():
    options = arguments()
    dice = random.Random(options.seed)
    kinds = options.kinds.split(",") * options.rounds
    dice.shuffle(kinds)
    print(f"seed {options.seed}, failovers {len(kinds)}, folder {options.folder}", flush=True)
    cluster = Cluster(options.folder, options.port)
    servers, problems = None, []
    try:
        cluster.start()
        execute(cluster, "postgres", "create database probe")
        execute(cluster, "postgres", "create database subledger")
        execute(cluster, "probe", "create table probe (at timestamptz not null)")
        servers = Servers(options.program, cluster)
        count = options.senders * len(servers.ports)
        senders = [
            Sender(servers.ports[index % len(servers.ports)], index + 1, count, options.pause) for index in range(count)
        ]
        for sender in senders:
            sender.start()
        deadline = time.monotonic() + 300
        while not all(sender.acknowledged for sender in senders):
            if time.monotonic() > deadline:
                raise RuntimeError("the servers answer no 200")
            time.sleep(0.1)
        for number, kind in enumerate(kinds, 1):
            if problem := failover(number, kind, cluster, senders, dice):
                problems.append(problem)
        cluster.wait()
        for sender in senders:
            sender.ending.set()
        for sender in senders:
            sender.join(30)
        problems += compare(cluster, servers, senders)
        staleness(servers, cluster, max(sender.number for sender in senders) + count)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        problems.append(str(error))
    finally:
        if servers:
            servers.stop()
        cluster.stop()
        if not options.keep and not problems:
            shutil.rmtree(options.folder, ignore_errors=True)
    for problem in problems:
        print(problem, file=sys.stderr)
    print("failovers passed" if not problems else f"failovers FAILED, logs in {options.folder}", flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    # Imports look beside this file, whatever the current folder is.
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    sys.exit(main())
