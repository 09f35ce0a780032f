"""Texts of JSON that stay in their file: where the objects of a long list begin and end.

A list of a large cluster has gigabytes. A window is read at a time, the places of its objects are
remembered, and an object is read again when somebody asks for it. ``documents`` says nothing where
the text is not as the API writes it: whoever asks then reads it as a whole, and is told why.
"""

import os
import re
from array import array
from collections.abc import Iterator
from typing import IO, NamedTuple

import msgspec

_WINDOW_BYTES = 1 << 22
_LEAST_BYTES = 1 << 16  # of a window that are left to find the end of an object in; most are less
_BLANKS = re.compile(rb"[ \t\r\n]*")
_AFTER = re.compile(r"trailing characters \(byte (\d+)\)")
"""How msgspec says that a value ended, and after how many bytes something else began."""
_VALUES = msgspec.json.Decoder(msgspec.Raw)


class FileText:
    """The bytes of a file, or of a text at hand, by their places."""

    def __init__(self, source: IO[bytes] | bytes) -> None:
        self._source = source
        self.size = len(source) if isinstance(source, bytes) else os.fstat(source.fileno()).st_size

    def read(self, first: int, end: int) -> bytes:
        """From one place up to another; fewer where the file was cut meanwhile."""
        if isinstance(self._source, bytes):
            return self._source[first:end]
        return os.pread(self._source.fileno(), end - first, first)

    def __del__(self) -> None:
        if not isinstance(self._source, bytes):  # it is open as long as somebody may read
            self._source.close()


class Document(NamedTuple):
    """One of the values that a text consists of; ``items``: where those of a list are, in pairs."""

    first: int
    end: int
    told: dict[str, object]
    """What a list says of itself beside its items."""
    items: "array[int] | None"


class _OtherwiseError(Exception):
    """The text is not as it should be."""


def documents(text: FileText) -> list[Document] | None:
    """What a text consists of: one value as a rule, several as lines; None: it is not in order."""
    try:
        return [*_Places(text).documents()]
    except _OtherwiseError:
        return None


class _Places:
    """Goes through a text from the beginning to the end."""

    def __init__(self, text: FileText) -> None:
        self._text, self._base, self._at_hand = text, 0, b""

    def documents(self) -> Iterator[Document]:
        at = self._after_blanks(0)
        while at < self._text.size:
            is_object = self._letter(at) == b"{"
            found = self._members(at) if is_object else Document(at, self._after(at), {}, None)
            yield found
            at = self._after_blanks(found.end)

    def _members(self, first: int) -> Document:
        """An object, of whose member `items` each value is found."""
        told, items = dict[str, object](), None
        at = self._after_blanks(first + 1)
        while self._letter(at) != b"}":
            end = self._after(at)
            key = self._value(at, end)
            if not isinstance(key, str):
                raise _OtherwiseError
            at = self._after_blanks(self._past(self._after_blanks(end), b":"))
            if key == "items" and self._letter(at) == b"[":
                items = array("q")
                at = self._items(at, items)
            else:
                begin, at = at, self._after(at)
                if key in ("kind", "apiVersion", "metadata"):
                    told[key] = self._value(begin, at)
            at = self._next(at, b"}")
        return Document(first, at + 1, told, items)

    def _items(self, at: int, items: "array[int]") -> int:
        """Note where the values of an array are; where it ends."""
        at = self._after_blanks(at + 1)
        while self._letter(at) != b"]":
            end = self._after(at)
            items.extend((at, end))
            at = self._next(end, b"]")
        return at + 1

    def _next(self, at: int, closing: bytes) -> int:
        """Where the next begins after one that ended at a place; the closing letter is the last."""
        at = self._after_blanks(at)
        if self._letter(at) == closing:
            return at
        at = self._after_blanks(self._past(at, b","))
        if self._letter(at) == closing:
            raise _OtherwiseError
        return at

    def _after(self, at: int) -> int:
        """Where the value that begins at a place ends."""
        size = _LEAST_BYTES
        while True:
            some = self._from(at, size)
            is_rest = at + len(some) >= self._text.size or len(some) < size  # or it was cut
            try:
                _VALUES.decode(some)
            except msgspec.DecodeError as error:
                if after := _AFTER.search(str(error)):
                    blanks = bytes(some[: int(after[1]) - 1])
                    return at + len(blanks.rstrip(b" \t\r\n"))
                if is_rest:
                    raise _OtherwiseError from error
            else:
                if is_rest:
                    return self._text.size
            size = 2 * max(size, len(some))

    def _value(self, first: int, end: int) -> object:
        try:
            return msgspec.json.decode(self._text.read(first, end))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _OtherwiseError from error

    def _letter(self, at: int) -> bytes:
        if at >= self._text.size:
            raise _OtherwiseError
        return bytes(self._from(at, 1)[:1])

    def _past(self, at: int, letter: bytes) -> int:
        if self._letter(at) != letter:
            raise _OtherwiseError
        return at + 1

    def _after_blanks(self, at: int) -> int:
        while at < self._text.size:
            some = self._from(at, 1)
            blanks = _BLANKS.match(some)
            assert blanks is not None, "it matches anything"
            at += blanks.end()
            if blanks.end() < len(some):
                break
        return at

    def _from(self, at: int, least: int) -> memoryview:
        """The text from a place on, at least so many bytes of it if there are as many."""
        there = self._base <= at and at + least <= self._base + len(self._at_hand)
        if (not there and self._base + len(self._at_hand) < self._text.size) or at < self._base:
            self._base = at
            self._at_hand = self._text.read(at, at + max(least, _WINDOW_BYTES))
            if not self._at_hand:
                raise _OtherwiseError  # the file was cut meanwhile
        return memoryview(self._at_hand)[at - self._base :]
