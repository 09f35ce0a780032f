"""The records of a JSON document, one by one, in bounded memory: `{"jobs": [ …, … ], "meta": …}`.

A document that ends too early, or holds a record that is no JSON, is refused from there on by the
number of the record; all records before it are given.
"""

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from tidemill.live.slurm.refusals import Refusals
from tidemill.model.errors import SpecError

BLOCK_BYTES = 1 << 20
LARGEST_RECORD = 64 << 20
"""Characters. A job of an array of a million tasks with all its steps is below one million."""

CUT_HINT = "the command was stopped or the disk was full: run it again; the records before are kept"
BYTES_HINT = "a name with other letters than UTF-8; the record is left out"


class JsonRecord(NamedTuple):
    """One element of a list at the top of the document."""

    key: str
    number: int
    value: Any


class JsonDocument:
    """A document whose lists are given record by record. ``top`` holds what else it says."""

    def __init__(self, stream: BinaryIO, refusals: Refusals) -> None:
        self.refusals = refusals
        self.top: dict[str, Any] = {}
        self._cursor = _Cursor(stream)

    def records(self) -> Iterator[JsonRecord]:
        """Every record of every list, in the order of the document."""
        number = 0
        try:
            for record in self._records():
                number = record.number
                yield record
        except _CutOff as error:
            self.refusals.add("record", number + 1, str(error), CUT_HINT)

    def _records(self) -> Iterator[JsonRecord]:
        cursor, number = self._cursor, 0
        if cursor.skip() != "{":
            raise SpecError("this is no JSON object", hint="sacct --json prints one")
        cursor.at += 1
        while cursor.skip(",") != "}":
            key = str(cursor.value()[0])
            cursor.skip(":")
            if cursor.skip() != "[":
                self.top[key] = cursor.value()[0]
                continue
            cursor.at += 1
            while cursor.skip(",") != "]":
                number += 1
                value, is_text = cursor.value()
                if is_text:
                    yield JsonRecord(key, number, value)
                else:
                    self.refusals.add("record", number, "bytes that are not UTF-8", BYTES_HINT)
            cursor.at += 1


class _CutOff(Exception):  # noqa: N818 - where the reading stops
    """The document ends, or stops being JSON, within a record."""


class _Cursor:
    """A place in a text that is read block by block."""

    def __init__(self, stream: BinaryIO) -> None:
        self.text, self.at = "", 0
        self._stream = stream
        # Bytes that are not UTF-8 become surrogates, so that one of them spoils one record only.
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._values = json.JSONDecoder()

    def skip(self, also: str = "") -> str:
        """Go past blanks (and these characters) to the next one."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in " \t\r\n" + also:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._more():
                raise _CutOff("the document ends here")

    def value(self) -> tuple[Any, bool]:
        """The value at this place, and whether all of it is text."""
        while True:
            try:
                value, end = self._values.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if len(self.text) - self.at < LARGEST_RECORD and self._more():
                    continue
                raise _CutOff(f"the JSON breaks off within it ({error.msg})") from None
            if end == len(self.text) and self._more():
                continue  # a number may go on
            found, self.at = self.text[self.at : end], end
            return value, found.isascii() or _is_text(found)

    def _more(self) -> bool:
        block = self._stream.read(BLOCK_BYTES)
        if not block:
            return False
        self.text, self.at = self.text[self.at :] + self._decode.decode(block), 0
        return True


def _is_text(found: str) -> bool:
    try:
        found.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
