"""Fields of an object, read strictly: what is there has the right type, or the object is refused.

Objects are plain dicts, as JSON has them. Each function takes an object and the way to a field; a
field that is missing or null is absent, one of another type is a ``Malformed`` object.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Any

from tidemill.model.rows import LEAST_PRIORITY, MOST_PRIORITY

Object = Mapping[str, Any]

_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)([eE][+-]?[0-9]+|[a-zA-Z]{0,2})")
_SUFFIX = {
    "": 1, "n": 10**-9, "u": 10**-6, "m": 10**-3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "P": 10**15, "E": 10**18, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
    "Ei": 2**60,
}  # fmt: skip
LARGEST = 1e18
"""As the API server has it: more is not told apart."""
EARLIEST_MS, LATEST_MS = 0, 4_102_444_800_000
"""1970 to 2100: a time outside is a mistake."""


class MalformedObjectError(ValueError):
    """An object that has something else in a field than its API says."""


def text(source: Object, *way: str) -> str:
    """A string; "": it is not there."""
    found: Any = source
    try:  # ``_at``, written out: most of what is asked of an object is asked here
        for step in way:
            found = found.get(step)
            if found is None:
                return ""
    except AttributeError:
        _at(source, way)
    if not isinstance(found, str):
        raise MalformedObjectError(f"`{'.'.join(way)}` is {_kind(found)}, not a string")
    return found


def number(source: Object, *way: str) -> int | None:
    """A whole number; None: it is not there."""
    found = _at(source, way)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or abs(found) > LARGEST:
        raise MalformedObjectError(f"`{'.'.join(way)}` is {_kind(found)}, not a whole number")
    return found


def priority(source: Object, *way: str) -> int | None:
    """A priority; None: it is not there. One that no API server takes is the nearest of ours."""
    found = number(source, *way)
    return None if found is None else max(LEAST_PRIORITY, min(found, MOST_PRIORITY))


def flag(source: Object, *way: str) -> bool:
    """True or false; what is not there is false."""
    found = _at(source, way)
    if found is not None and not isinstance(found, bool):
        raise MalformedObjectError(f"`{'.'.join(way)}` is {_kind(found)}, not true or false")
    return bool(found)


def inner(source: Object, *way: str) -> Object:
    """An object in an object; {}: it is not there."""
    found = _at(source, way)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise MalformedObjectError(f"`{'.'.join(way)}` is {_kind(found)}, not an object")
    return found


def each(source: Object, *way: str) -> Sequence[Object]:
    """The objects of a list; none: it is not there."""
    found = _list(source, way)
    for one in found:
        if not isinstance(one, dict):
            raise MalformedObjectError(f"`{'.'.join(way)}` has {_kind(one)} in it, not an object")
    return found


def texts(source: Object, *way: str) -> tuple[str, ...]:
    """The strings of a list."""
    found = _list(source, way)
    for one in found:
        if not isinstance(one, str):
            raise MalformedObjectError(f"`{'.'.join(way)}` has {_kind(one)} in it, not a string")
    return tuple(found)


def words(source: Object, *way: str) -> dict[str, str]:
    """A map of strings: labels, annotations, selectors."""
    found = inner(source, *way)
    for key, value in found.items():
        if not isinstance(value, str):
            raise MalformedObjectError(f"`{'.'.join((*way, key))}` is {_kind(value)}, not a string")
    return {
        intern(key): intern(value) for key, value in found.items()
    }  # pods of a job have the same


_LONG = ("kubectl.kubernetes.io/last-applied-configuration", "k8s.v1.cni.cncf.io/network-status")
"""Annotations that are copies of the object, or of its network, and by which nobody asks here."""


def annotations(one: Object) -> dict[str, str]:
    """The annotations of an object, but for those that are long and of tools alone."""
    found = words(one, "metadata", "annotations")
    for key in _LONG:
        found.pop(key, None)
    return found


def amounts(source: Object, *way: str) -> dict[str, float]:
    """A map of quantities: capacity, requests, quotas."""
    found = inner(source, *way)
    try:
        return {key: quantity(value) for key, value in found.items()}
    except MalformedObjectError:  # which of them it is, is asked only then
        return {key: quantity(value, ".".join((*way, key))) for key, value in found.items()}


def quantity(told: object, name: str = "") -> float:
    """A quantity of Kubernetes: `8`, `500m`, `1.5Gi`, `1e3`; whole ones come out whole.

    ``name``: of the field that says it, for the message where it is none.
    """
    at = f"`{name}` is " if name else ""
    if isinstance(told, int | float) and not isinstance(told, bool):
        told = repr(told)
    found = _QUANTITY.fullmatch(told.strip()) if isinstance(told, str) else None
    if found is None:
        raise MalformedObjectError(f"{at}{told!r}, which is no quantity such as 8 or 500m")
    digits, suffix = found.groups()
    if suffix[:1] in ("e", "E") and suffix != "E" and len(suffix) > 1 and suffix[1:] != "i":
        made = float(digits + suffix)
    elif suffix in _SUFFIX:
        made = float(digits) * _SUFFIX[suffix]
    else:
        raise MalformedObjectError(f"{at}{told!r}, which is no quantity such as 8 or 500m")
    return max(-LARGEST, min(made, LARGEST))


def moment_ms(source: Object, *way: str) -> int | None:
    """A time of the API (RFC 3339) as milliseconds since 1970; None: it is not there."""
    told = text(source, *way)
    if not told:
        return None
    try:
        return _moment_ms(told)
    except MalformedObjectError as error:
        raise MalformedObjectError(f"`{'.'.join(way)}` is `{told[:40]}`, {error}") from None


@lru_cache(4096)
def _moment_ms(told: str) -> int:
    """A time, read; thousands of objects tell the same second."""
    try:
        found = datetime.fromisoformat(told)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise MalformedObjectError("which is no time with a zone")
    made = int(found.timestamp() * 1000)
    if not EARLIEST_MS <= made <= LATEST_MS:
        raise MalformedObjectError("not from 1970 to 2100")
    return made


def conditions(source: Object) -> dict[str, Object]:
    """What is in `status.conditions`, by type; of several of one type the first."""
    found = dict[str, Object]()
    for one in each(source, "status", "conditions"):
        found.setdefault(text(one, "type"), one)
    return found


def condition(source: Object, kind: str) -> Object:
    """The condition of a type in `status.conditions`; {}: it has none."""
    return conditions(source).get(kind, {})


def _at(source: Object, way: tuple[str, ...]) -> Any:  # noqa: ANN401 - whatever JSON holds
    found: Any = source
    step = ""
    try:  # asked some eighty times of each pod: what is no object is found out by asking it
        for step in way:
            if found is None:
                return None
            found = found.get(step)
    except AttributeError:
        named = ".".join(way[: way.index(step)])
        what = f"`{named}` is {_kind(found)}" if named else f"{_kind(found)} is there"
        raise MalformedObjectError(f"{what}, not an object") from None
    return found


def _list(source: Object, way: tuple[str, ...]) -> Sequence[Any]:
    found = _at(source, way)
    if found is None:
        return ()
    if not isinstance(found, list):
        raise MalformedObjectError(f"`{'.'.join(way)}` is {_kind(found)}, not a list")
    return found


def _kind(found: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return names.get(type(found), "a number")
