"""Where in a spec file something is wrong, and how to say it.

``SpecPlace`` names a row; ``explain`` turns what msgspec found into our own words: what was asked
for, what was found, and the nearest word that would have been right.
"""

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from enum import Enum
from typing import Any, Literal, NamedTuple, NoReturn, TypeGuard, get_args, get_origin

import msgspec

from tidemill.model import names, plugins
from tidemill.model.errors import SpecError

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
_EXAMPLES = {
    "guaranteed": "guaranteed = { H100 = 64 }",
    "maximum": "maximum = { H100 = 128 }",
    "borrow": "borrow = { H100 = 8 }",
    "lend": "lend = { H100 = 8 }",
    "labels": 'labels = { zone = "a" }',
    "taints": 'taints = { dedicated = "inference" }',
    "tolerates": 'tolerates = { dedicated = "inference" }',
    "nodes_per": "nodes_per = { rack = 8 }",
    "sizes": 'sizes = { "0.5" = 0.1, 1 = 0.5, 8 = 0.4 }',
    "run": 'run = { median = "30m", mean = "2h" }',
    "checkpoint": 'checkpoint = { every = "30m", cost = "40s" }',
    "tide": "tide = { low = 0.2, peak = 0.9, peak_hour = 15 }",
    "parallelism": "parallelism = { tensor = 8, pipeline = 2 }",
    "computes": 'computes = { model = "llama-3-8b" }',
    "uses": "uses = { compute = 0.2, bandwidth = 0.9, memory_gb = 26 }",
    "rhythm": "rhythm = { swing = 0.6, peak_hour = 15, weekend = 0.4 }",
}
"""What a table that stands in a field looks like; a test reads each of them."""
_NOT_IN_SPECS = dict.fromkeys(
    ("role", "roles"),
    "a job of a spec has one role of equal replicas; gangs of several roles come from real"
    " clusters and from the Python API",
)
"""Words of the model that no table of a spec has."""
_AT = re.compile(r"^(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)
_NAMED = re.compile(r"(unknown|missing required) field `(.*)`", re.DOTALL)


class SpecPlace(NamedTuple):
    """A row of a table of a file; ``row`` 0 is a table that has no rows."""

    source: str
    table: str
    row: int = 0
    name: str = ""

    def __str__(self) -> str:
        where = f"[[{self.table}]] {self.row}" if self.row else f"[{self.table}]"
        named = f" (`{self.name}`)" if self.name else ""
        return f"`{self.source}`, {where}{named}"

    def refuse(self, field: str, found: str, *, hint: str) -> NoReturn:
        """Raise the error for one field of this row."""
        at = f", `{field}`" if field else ""
        raise SpecError(f"{self}{at}: {found}", hint=hint)

    def refuse_row(self, field: str, word: str, rows: Collection[str], *, what: str) -> NoReturn:
        """Raise the error for a name that no row of a table has; plug-ins may add rows."""
        close = get_close_matches(word[:200], rows, n=1)
        meant = f"did you mean `{close[0]}`? Or, " if close else ""
        self.refuse(
            field,
            f"expected one of {', '.join(rows)}; found {shown(word)}",
            hint=meant + plugins.missing(what),
        )


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint: the word that was probably meant, or all that are known."""
    words = sorted(known)
    close = get_close_matches(word[:200], words, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    return "known: " + (", ".join(f"`{w}`" for w in words[:40]) or "none")


def shown(value: object) -> str:
    """A value as found in the file, short enough for a message."""
    try:
        text = "true" if value is True else "false" if value is False else repr(value)
    except RecursionError:
        text = "something nested very deep"
    if isinstance(value, str):
        text = '"' + text[1:-1] + '"'
    return text if len(text) <= 60 else text[:57] + "..."


def explain(
    place: SpecPlace, error: msgspec.ValidationError, kind: type[Any], raw: dict[str, Any]
) -> NoReturn:
    """Raise what msgspec found as an error in our own words."""
    found = _AT.match(str(error))
    message, path = (found[1], found[2] or "") if found else (str(error), "")
    steps = [step for step in re.split(r"[.\[\]]+", path) if step]
    field = ".".join(step for step in steps if step != "...")
    named = _NAMED.search(message)
    if named and named[1] == "unknown":
        known = _fields(_kind_at(kind, steps))
        hint = _NOT_IN_SPECS.get(named[2]) or nearest(named[2], known)
        place.refuse(field, f"unknown field `{named[2]}`", hint=hint)
    if named:
        place.refuse(field, f"`{named[2]}` is missing", hint=f"add `{named[2]} = ...`")
    value = _value_at(raw, steps)
    found_words = f"; found {shown(value)}"
    if message.startswith("Invalid enum value"):
        known = _values(_kind_at(kind, steps))
        hint = nearest(str(value), known)
        place.refuse(field, f"expected one of {', '.join(known)}{found_words}", hint=hint)
    if message.startswith("Expected `object`"):
        example = _EXAMPLES.get(field, "")
        hint = f"for example {example}" if example else f"write `{field} = {{ ... }}`"
        place.refuse(field, f"expected a table{found_words}", hint=hint)
    asked = message if message.startswith("expected") else f"expected {_plain(message)}"
    if "matching regex" in message:
        asked = f"expected {names.ASKED}"
    place.refuse(field, asked + found_words, hint=f"change `{field}` in {place}")


def _plain(message: str) -> str:
    """``Expected `int` >= 1`` as *a whole number >= 1*."""
    text = re.sub(r", got .*$", "", message.removeprefix("Expected "))
    return re.sub(r"`(\w+)`", lambda word: _WORDS.get(word[1], word[1]), text)


def _kind_at(kind: object, steps: list[str]) -> object:
    """The type that a path leads to, through structs and their optional fields."""
    for step in steps:
        for field in msgspec.structs.fields(kind) if _is_struct(kind) else ():
            if field.encode_name == step:
                kind = _unwrapped(field.type)
                break
    return kind


def _unwrapped(kind: object) -> object:
    """The struct or enum inside ``X | None`` or ``str | X``; else the type itself."""
    inner = [part for part in get_args(kind) if _is_struct(part) or _is_enum(part)]
    return inner[0] if inner else kind


def _fields(kind: object) -> list[str]:
    return [f.encode_name for f in msgspec.structs.fields(kind)] if _is_struct(kind) else []


def _values(kind: object) -> list[str]:
    """The words that a type allows, also inside ``X | tuple[X, ...]``."""
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    if _is_enum(kind):
        return [str(member.value) for member in kind]
    inside = (value for part in get_args(kind) for value in _values(part))
    return list(dict.fromkeys(inside))


def _is_struct(kind: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _is_enum(kind: object) -> TypeGuard[type[Enum]]:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _value_at(raw: object, steps: list[str]) -> object:
    for step in steps:
        if isinstance(raw, dict) and step in raw:
            raw = raw[step]
        elif isinstance(raw, list) and step.isdigit() and int(step) < len(raw):
            raw = raw[int(step)]
        else:
            return raw
    return raw
