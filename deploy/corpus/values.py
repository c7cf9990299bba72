"""Instants, names and templates in the data of a case."""

import datetime
import re

UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
INSTANT = re.compile(r"(now|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?Z)((?:[+-]\d+(?:ms|s|m|h|d))*)")
OFFSET = re.compile(r"([+-]\d+)(ms|s|m|h|d)")


class Malformed(Exception):
    """A case that cannot be run as it is written; the text says what is wrong."""


def milliseconds(text, now):
    """The milliseconds since 1970 of `now`, of an ISO 8601 instant in UTC, or of one with offsets such as `now-2d+1h`.

    `now` is in milliseconds. Returns None if the text is no instant.
    """
    match = INSTANT.fullmatch(text)
    if not match:
        return None
    base = now
    if match[1] != "now":
        base = round(datetime.datetime.fromisoformat(match[1].replace("Z", "+00:00")).timestamp() * 1000)
    return base + sum(int(number) * UNITS[unit] for number, unit in OFFSET.findall(match[2]))


def iso(instant):
    """ISO 8601 with milliseconds, of milliseconds since 1970."""
    moment = datetime.datetime.fromtimestamp(instant / 1000, datetime.timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{instant % 1000:03d}Z"


def transformed(value, change):
    """The value with every string in it, keys of objects included, replaced by what `change` returns."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [transformed(item, change) for item in value]
    if isinstance(value, dict):
        return {named(key, change): transformed(item, change) for key, item in value.items()}
    return value


def named(key, change):
    changed = change(key)
    return changed if isinstance(changed, str) else key


def with_instants(value, now, numbers):
    """The value with instants as milliseconds (App Store) or as ISO 8601 (Play Store and queries)."""

    def change(text):
        instant = milliseconds(text, now)
        if instant is None:
            return text
        return instant if numbers else iso(instant)

    return transformed(value, change)


def with_names(value, names):
    """The value with each `${name}` replaced by the text of that name."""

    def change(text):
        for name, replacement in names.items():
            text = text.replace("${" + name + "}", str(replacement))
        return text

    return transformed(value, change)


def expanded(value, templates):
    """The value with each `{"like": "name", …}` replaced by the template of that name with the other members added.

    Members that are null stay null: a transaction and renewal information are made without them.
    """
    if isinstance(value, list):
        return [expanded(item, templates) for item in value]
    if not isinstance(value, dict):
        return value
    if "like" not in value:
        return {key: expanded(item, templates) for key, item in value.items()}
    if value["like"] not in templates:
        raise Malformed(f"no template is called {value['like']!r}: add it to \"let\"")
    merged = dict(expanded(templates[value["like"]], templates))
    for key, item in value.items():
        if key != "like":
            merged[key] = expanded(item, templates)
    return merged


def difference(expected, found):
    """What is wrong with a value of which `expected` states a part; None if nothing is.

    Of an object, the members that are named must be there. A list must have equal elements in the same order.
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, item in expected.items():
            wrong = difference(item, found.get(key))
            if wrong:
                return f"{key}: {wrong}"
        return None
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return next((wrong for one, other in zip(expected, found) if (wrong := difference(one, other))), None)
    return None if expected == found else f"expected {expected!r}, found {found!r}"
