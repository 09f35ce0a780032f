"""Events as JSON lines, for people and their tools: an object a line, with its number as ``seq``.

The first line holds the small facts, if there are any. A name that ends in ``.gz`` is compressed.
The bytes depend on the journal alone.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import IO, cast

import msgspec

from tidemill.journal import fields
from tidemill.model.errors import JournalError
from tidemill.model.events import Event

Facts = dict[str, str]


def write(facts: Facts, events: Iterable[Event], path: Path, *, is_packed: bool) -> int:
    """Write facts and events to a file and return how many events there were."""
    count = 0
    with path.open("wb") as plain, _packing(plain, is_packed=is_packed) as file:
        if facts:
            file.write(msgspec.json.encode({"facts": facts}) + b"\n")
        for event in events:
            file.write(b'{"seq":%d,%b\n' % (count, fields.encode(event)[1:]))
            count += 1
    return count


def read_facts(path: Path, *, is_packed: bool) -> Facts:
    """The facts in the first line of a file."""
    number, line = next(_lines(path, is_packed=is_packed), (1, b"{}"))
    place = f"`{path}` line {number}"
    return fields.to_facts(fields.parse(line, place).get("facts", {}), place)


def read(path: Path, *, is_packed: bool) -> Iterator[tuple[str, Event]]:
    """The events of a file, each with the place it was found at."""
    count = 0
    for number, line in _lines(path, is_packed=is_packed):
        place = f"`{path}` line {number}"
        found = fields.parse(line, place)
        if number == 1 and found.keys() == {"facts"}:
            continue
        fields.expect(place, "seq", count, found.pop("seq", None))
        yield place, fields.decode(msgspec.json.encode(found), place)
        count += 1


def _lines(path: Path, *, is_packed: bool) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, numbered from 1; none is read beyond the bound."""
    number = 0
    try:
        with path.open("rb") as plain, _unpacking(plain, is_packed=is_packed) as file:
            while line := file.readline(fields.LONGEST_BYTES + 2):
                number += 1
                if line.strip():
                    yield number, line.rstrip(b"\r\n")
    except (OSError, EOFError, zlib.error) as error:
        raise JournalError(
            f"`{path}` cannot be read after line {number}: {error}",
            hint="copy the file again, or keep what comes before (`keep_prefix`)",
        ) from error


def _packing(file: IO[bytes], *, is_packed: bool) -> BufferedIOBase:
    if not is_packed:
        return cast(BufferedIOBase, file)
    return gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)


def _unpacking(file: IO[bytes], *, is_packed: bool) -> BufferedIOBase:
    return gzip.GzipFile(fileobj=file) if is_packed else cast(BufferedIOBase, file)
