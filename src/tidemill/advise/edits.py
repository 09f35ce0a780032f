"""Edits of a spec: the same text with some lines changed, comments and order kept.

A line is found by its table, by the name of the row and by the field. What came out is read back
and must be the old spec with exactly these values changed; anything else is refused.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from tidemill.ledger.fix import Edit, Value, toml
from tidemill.model.errors import SpecError
from tidemill.twin.spec.synonyms import EARLIER, FIELDS

_HEADER = re.compile(r"^\s*\[{1,2}\s*([\w.-]+)\s*\]{1,2}\s*(?:#.*)?$")
_VALUE = r'(?:"[^"\n]*"|\'[^\'\n]*\'|[^,}\s#]+)'


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text of a spec with these edits made."""
    for edit in edits:
        text = _apply(text, edit)
    return text


def _apply(text: str, edit: Edit) -> str:
    edit = _as_written(_row(tomllib.loads(text), edit), edit)
    wanted = _changed(tomllib.loads(text), edit)
    lines = text.splitlines()
    for start, end in _blocks(lines, edit):
        changed = _edited(lines[start:end], edit)
        made = "\n".join([*lines[:start], *changed, *lines[end:]]) + "\n"
        if _parsed(made) == wanted:
            return made
    if edit.table == "policy" and "policy" not in tomllib.loads(text):
        made = f"{text.rstrip()}\n\n[policy]\n{edit.field} = {toml(edit.value)}\n"
        if _parsed(made) == wanted:
            return made
    raise SpecError(
        f"`{edit.text}` cannot be written into this file line by line",
        hint="change it by hand: the table or the field is written in a form that is not edited",
    )


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _changed(spec: dict[str, Any], edit: Edit) -> dict[str, Any]:
    """The spec as values, with the edit made: what the text must come to."""
    row = _row(spec, edit)
    *path, last = edit.field.split(".")
    for key in path:
        row = row.setdefault(key, {})
    row[last] = edit.value
    return spec


def _as_written(row: dict[str, Any], edit: Edit) -> Edit:
    """The edit in the word that the file has for the field; two words for one are refused."""
    first, dot, inner = edit.field.partition(".")
    if first in row:
        return edit
    words = {**FIELDS.get(edit.table, {}), **EARLIER.get(edit.table, {})}
    written = next((word for word in row if words.get(word) == first), first)
    return replace(edit, field=written + dot + inner)


def _row(spec: dict[str, Any], edit: Edit) -> dict[str, Any]:
    if not edit.name:
        found: dict[str, Any] = spec.setdefault(edit.table, {})
        return found
    for row in spec.get(edit.table, ()):
        if row.get("name") == edit.name:
            assert isinstance(row, dict)
            return row
    raise SpecError(
        f"`{edit.text}`: the file has no [[{edit.table}]] named `{edit.name}`",
        hint="is this the file that was run?",
    )


def _blocks(lines: list[str], edit: Edit) -> Iterator[tuple[int, int]]:
    """From where to where the lines of the table are; several if rows are named alike."""
    headers = [n for n, line in enumerate(lines) if _HEADER.match(line)]
    named = re.compile(rf"^\s*name\s*=\s*[\"']{re.escape(edit.name)}[\"']")
    for start, end in zip(headers, [*headers[1:], len(lines)], strict=True):
        found = _HEADER.match(lines[start])
        if found is not None and found[1] == edit.table:
            block = lines[start + 1 : end]
            if not edit.name or any(named.match(line) for line in block):
                yield start + 1, end


def _edited(block: list[str], edit: Edit) -> list[str]:
    """The lines of a table with the field set: in its place, or after the first line."""
    first, _, inner = edit.field.partition(".")
    own = re.compile(rf"^(\s*{re.escape(first)}\s*=\s*)")
    for n, line in enumerate(block):
        if own.match(line):
            return [*block[:n], _set(line, first, inner, edit.value), *block[n + 1 :]]
    value = f"{{ {inner} = {toml(edit.value)} }}" if inner else toml(edit.value)
    return [*block[:1], f"{first} = {value}", *block[1:]]


def _set(line: str, first: str, inner: str, value: Value) -> str:
    key = re.escape(inner or first)
    pattern = re.compile(rf"((?:^\s*|[{{,]\s*){key}\s*=\s*){_VALUE}")
    if pattern.search(line):
        return pattern.sub(lambda m: m[1] + toml(value), line, count=1)
    return re.sub(r"\s*\}", f", {inner} = {toml(value)} }}", line, count=1)
