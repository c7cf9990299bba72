"""Loads the cases and checks their form."""

import dataclasses
import json
import pathlib
import re

from values import Malformed

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "Tests" / "Conformance"
KINDS = ("identity", "end of access", "money", "what people are told", "intake")
STEPS = ("notify", "post", "play", "push", "handIn", "link", "wait", "repeat", "expect")
REQUIRED = ("id", "title", "kind", "sources", "why", "steps")
MEMBERS = REQUIRED + ("products", "let", "signedPushes")


@dataclasses.dataclass
class Case:
    id: str
    title: str
    kind: str
    sources: list
    why: str
    steps: list
    products: dict
    let: dict
    signedPushes: bool

    @property
    def app(self):
        return "com.example." + self.id

    @property
    def package(self):
        return "com.example.play." + self.id.replace("-", "_")

    @property
    def length(self):
        """A guess at how long the case takes; a wait takes longest."""

        def count(step):
            if "repeat" in step:
                return step["repeat"]["times"] * sum(map(count, step["repeat"]["steps"]))
            return 200 if "wait" in step else 1

        return sum(map(count, self.steps))

    @property
    def uses_play(self):
        return any(word in json.dumps(self.steps) for word in ('"push"', '"play"'))


def check(data, name):
    """Raises Malformed for the first mistake in the form of a case; what its steps say is checked when they run."""
    if not isinstance(data, dict):
        raise Malformed("expected an object")
    missing = [member for member in REQUIRED if not data.get(member)]
    if missing:
        raise Malformed("missing " + ", ".join(missing))
    unknown = [member for member in data if member not in MEMBERS]
    if unknown:
        raise Malformed("unknown " + ", ".join(unknown) + ": expected " + ", ".join(MEMBERS))
    if data["id"] != name or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise Malformed(f"the id {data['id']!r} must be the file's name, in lower case with hyphens")
    if data["kind"] not in KINDS:
        raise Malformed(f"unknown kind {data['kind']!r}: expected one of " + ", ".join(KINDS))
    for source in data["sources"]:
        if not re.match(r"https?://", source):
            raise Malformed(f"the source {source!r} is no address")
    check_steps(data["steps"])


def check_steps(steps):
    for step in steps:
        verbs = [verb for verb in STEPS if verb in step]
        if len(verbs) != 1:
            raise Malformed(f"the step {json.dumps(step)[:80]} must have one of " + ", ".join(STEPS))
        if "repeat" in step:
            check_steps(step["repeat"]["steps"])


def load(folder=FOLDER, identifier=None):
    """The cases in the order of their ids, or the one with this id."""
    cases = []
    for file in sorted(pathlib.Path(folder).glob("*.json")):
        if identifier and file.stem != identifier:
            continue
        try:
            data = json.loads(file.read_text())
            check(data, file.stem)
        except (ValueError, Malformed) as error:
            raise Malformed(f"{file.name}: {error}") from error
        cases.append(Case(**({"products": {}, "let": {}, "signedPushes": False} | data)))
    if identifier and not cases:
        raise Malformed(f"no case is called {identifier!r}: --list lists them")
    return cases
