"""What decoders of JSON and TOML complain of, in our own words.

A text may be no JSON at all (``broken``: in which line, and what stands there), or be JSON that
says something else than was asked (``mismatch``: which field, what was expected, what was found).
``in_words`` is either of them; ``toml`` reads a file of TOML. No other place repeats a decoder.
"""

import re
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeGuard, get_args, get_origin

import msgspec

from tidemill.model import names
from tidemill.model.errors import SpecError

FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding may raise."""
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
_AT = re.compile(r"^(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)
_NAMED = re.compile(r"(unknown|missing required) field `(.*)`", re.DOTALL)
_OF_JSON = re.compile(r"line (\d+) column \d+ \(char|\(byte (\d+)\)$")
_OF_TOML = re.compile(r" \(at line (\d+), column (\d+)\)$")


class Mismatch(NamedTuple):
    """Where a value is not what was asked for."""

    field: str
    """The way to it, parted by points; "": the whole."""
    words: str
    """What was expected and what was found."""
    hint: str = ""
    """What to write; "": what was expected says it."""
    unknown: str = ""
    """The name of a field that is not known."""
    missing: str = ""
    """The name of a field that must be there."""

    def __str__(self) -> str:
        """In one line."""
        at = f"`{self.field}`: " if self.field else ""
        return f"{at}{self.words}" + (f" ({self.hint})" if self.hint else "")


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
    if value is None:
        text = "null"
    return text if len(text) <= 60 else text[:57] + "..."


def in_words(error: Exception, data: bytes | str, kind: object = None) -> str:
    """What is wrong with a text that is no JSON, or of another type, in one line."""
    try:
        raw = msgspec.json.decode(data)
    except FAULTS as fault:
        return f"it is not JSON: {broken(fault, data)}"
    if not isinstance(error, msgspec.ValidationError):
        return str(error)
    return str(mismatch(error, kind, raw)).replace("a table", "an object")


def broken(error: Exception, data: bytes | str) -> str:
    """Where a text stops to be JSON, and what stands there."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "it is no text in UTF-8"
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if not text.strip():
        return "it is empty"
    at = _OF_JSON.search(str(error))
    if at is None:
        return "it is cut off"
    line = int(at[1]) if at[1] else text.encode()[: int(at[2])].count(b"\n") + 1
    lines = text.splitlines()
    found = next(iter(lines[line - 1 :]), "").strip()
    where = f"line {line:,} is" if len(lines) > 1 else "found"
    if "trailing" in str(error) or "Extra data" in str(error):
        where = f"it ends, and then comes, in line {line:,}:"
    short = found if len(found) <= 60 else f"{found[:57]}..."
    return f"{where} `{short}`" if found else f"it is cut off in line {line:,}"


def toml(text: str | bytes, source: str, hint: str) -> dict[str, Any]:
    """The tables of a TOML file; ``hint``: what such a file looks like."""
    try:
        text = text if isinstance(text, str) else text.decode()
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of 5,000 digits
        raise SpecError(f"`{source}`{_no_toml(error, str(text))}", hint=hint) from error


def _no_toml(error: Exception, text: str) -> str:
    if isinstance(error, RecursionError):
        return " is not TOML: it is nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return " is not TOML: it is no text in UTF-8"
    said, at = str(error), _OF_TOML.search(str(error))
    said = said[: at.start()] if at else said.removesuffix(" (at end of document)")
    said = said[:1].lower() + said[1:200]
    if not at:
        return f" is not TOML: {said}"
    found = next(iter(text.splitlines()[int(at[1]) - 1 :]), "").strip()
    return f", line {at[1]}, column {at[2]} is not TOML: {said}; found {shown(found)}"


def mismatch(error: msgspec.ValidationError, kind: object, raw: object) -> Mismatch:
    """What msgspec found in ``raw``, which was to be a ``kind``."""
    found = _AT.match(str(error))
    message, path = (found[1], found[2] or "") if found else (str(error), "")
    steps = [step for step in re.split(r"[.\[\]]+", path) if step]
    field = ".".join(step for step in steps if step != "...")
    named = _NAMED.search(message)
    if named and named[1] == "unknown":
        known = _fields(_kind_at(kind, steps, raw))
        return Mismatch(field, f"unknown field `{named[2]}`", nearest(named[2], known), named[2])
    if named:
        return Mismatch(field, f"`{named[2]}` is missing", missing=named[2])
    value = _value_at(raw, steps)
    found_words = f"; found {shown(value)}"
    if message.startswith("Invalid"):
        known = _tags(kind, field) or _values(_kind_at(kind, steps, raw))
        asked = f"expected one of {', '.join(known)}" if known else message.lower()
        close = nearest(str(value), known)
        return Mismatch(field, asked + found_words, close if close.startswith("did") else "")
    asked = message if message.startswith("expected") else f"expected {_plain(message)}"
    if "matching regex" in message:
        asked = f"expected {names.ASKED}"
    return Mismatch(field, asked + found_words)


def _plain(message: str) -> str:
    """``Expected `int | null` >= 1`` as *a whole number or nothing >= 1*."""
    text = re.sub(r", got .*$", "", message.removeprefix("Expected "))
    return re.sub(r"`([\w| ]+)`", _in_plain_words, text)


def _in_plain_words(found: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(word, word) for word in found[1].split(" | "))


def _kind_at(kind: object, steps: list[str], raw: object) -> object:
    """The type that a path leads to, through structs and their optional fields."""
    kind = _meant(kind, raw)
    for step in steps:
        for field in msgspec.structs.fields(kind) if _is_struct(kind) else ():
            if field.encode_name == step:
                kind = _unwrapped(field.type)
                break
    return kind


def _meant(kind: object, raw: object) -> object:
    """Of several structs the one that the tag of an object names."""
    for part in get_args(kind):
        if _is_struct(part) and isinstance(raw, dict):
            config = part.__struct_config__
            if config.tag is not None and raw.get(config.tag_field) == config.tag:
                return part
    return kind


def _tags(kind: object, field: str) -> list[str]:
    """What a field may say that tells several structs apart; none: it is no such field."""
    configs = [part.__struct_config__ for part in get_args(kind) if _is_struct(part)]
    return [str(one.tag) for one in configs if one.tag_field == field]


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


def _value_at(raw: object, steps: list[str]) -> Any:  # noqa: ANN401 - whatever stands there
    for step in steps:
        if isinstance(raw, dict) and step in raw:
            raw = raw[step]
        elif isinstance(raw, list) and step.isdigit() and int(step) < len(raw):
            raw = raw[int(step)]
        else:
            return raw
    return raw
