"""HTTP/1.1 as far as an API server needs it: GET over one connection, answers whole or in pieces.

Nothing is read from the environment: no proxy, no certificates. An answer larger than a stated
size, and a line of one, is refused. A general client costs 2 to 10 times the processor for each
event of a watch (decision 0043).
"""

import ssl
from collections.abc import AsyncGenerator, Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Self

from tidemill.live.kubernetes.api.wire import Wire, WireEnded

MOST_HEAD_BYTES = 64 << 10
READ_BYTES = 1 << 20


class BrokenAnswer(Exception):  # noqa: N818 - what the connection gave, and the caller's to retry
    """The connection ended in the middle of an answer, or what it said is no HTTP."""


class ServerAddress(NamedTuple):
    """Where a server listens."""

    host: str
    port: int
    base: str = ""
    """What every path begins with."""
    tls: ssl.SSLContext | None = None
    tls_name: str | None = None
    """The name that its certificate is for, where that is another than the host."""


class AnswerHead(NamedTuple):
    """The beginning of an answer."""

    status: int
    headers: Mapping[str, str]

    @property
    def date_ms(self) -> int | None:
        """The server's clock, in whole seconds; None: it did not say."""
        try:
            return int(parsedate_to_datetime(self.headers["date"]).timestamp()) * 1000
        except (KeyError, ValueError, TypeError):
            return None


class HttpConnection:
    """One connection; one question at a time."""

    def __init__(self, wire: Wire, address: ServerAddress) -> None:
        self._wire, self._address, self.tls = wire, address, address.tls
        self.within, self.pace = wire.within, wire.pace

    @classmethod
    async def open(cls, address: ServerAddress) -> Self:
        """Connect; ``OSError`` if nobody answers, or not the one who was asked for."""
        wire = await Wire.open(address.host, address.port, address.tls, address.tls_name)
        return cls(wire, address)

    async def ask(self, path: str, headers: Mapping[str, str]) -> AnswerHead:
        """Send a GET; the beginning of the answer."""
        address = self._address
        lines = [f"GET {address.base}{path} HTTP/1.1", f"Host: {address.host}:{address.port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self._wire.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
        try:
            while True:
                head = parsed_head(await self._wire.until(b"\r\n\r\n", MOST_HEAD_BYTES))
                if head.status >= 200:  # what comes before is no answer
                    return head
        except (WireEnded, ValueError) as error:
            raise BrokenAnswer("no HTTP, or nothing at all") from error

    async def body(self, head: AnswerHead, most_bytes: int) -> bytes:
        """The rest of an answer, whole."""
        parts, size = list[bytes](), 0
        async for part in self.parts(head):
            size += len(part)
            if size > most_bytes:
                raise BrokenAnswer(f"more than {most_bytes:,} bytes in one answer")
            parts.append(part)
        return b"".join(parts)

    async def lines(self, head: AnswerHead, most_bytes: int) -> AsyncGenerator[list[bytes]]:
        """The rest of an answer, by lines, as many as come at a time."""
        begun, size = list[bytes](), 0
        async for part in self.parts(head):
            *whole, left = part.split(b"\n")
            if whole:
                whole[0] = b"".join((*begun, whole[0]))
                begun, size = [], 0
                yield [line for line in whole if line]
            begun.append(left)
            size += len(left)
            if size > most_bytes:
                raise BrokenAnswer(f"more than {most_bytes:,} bytes in one line")

    async def parts(self, head: AnswerHead) -> AsyncGenerator[bytes]:
        """The rest of an answer, in the pieces that it comes in."""
        try:
            if head.headers.get("transfer-encoding", "").lower() == "chunked":
                async for part in self._chunks():
                    yield part
                return
            told = head.headers.get("content-length", "")
            if not told.isdecimal() or len(told) > 15:
                raise BrokenAnswer("an answer that does not say how long it is")
            left = int(told)
            while left:
                part = await self._wire.some(min(left, READ_BYTES))
                left -= len(part)
                yield part
        except (WireEnded, ValueError) as error:
            raise BrokenAnswer("the connection ended in the middle of an answer") from error

    async def _chunks(self) -> AsyncGenerator[bytes]:
        chunks = Chunks()
        while not chunks.is_over:
            if part := chunks.take(await self._wire.some(READ_BYTES)):
                yield part

    @property
    def is_closed(self) -> bool:
        """Whether either side has ended it."""
        return self._wire.is_ended

    def close(self) -> None:
        """End the connection."""
        self._wire.end()


class Chunks:
    """The chunks of one answer: of what came, what is in them."""

    def __init__(self) -> None:
        self._begun = b""
        """Of the line that says how long the next one is."""
        self._left = 0
        """Bytes of the present one that are to come, with the end of its line."""
        self._is_last = self.is_over = False

    def take(self, told: bytes) -> bytes:
        """What is in the chunks that came, together: a watch has one or two for each event."""
        came, at, found = self._begun + told, 0, list[bytes]()
        while at < len(came) and not self.is_over:
            if not self._left:
                end = came.find(b"\r\n", at)
                if end < 0:
                    break
                self._begin(came[at:end])
                at = end + 2
            found.append(came[at : max(at, at + self._left - 2)])
            taken = min(self._left, len(came) - at)
            self._left, at = self._left - taken, at + taken
            self.is_over = self._is_last and not self._left
        self._begun = came[at:]
        if len(self._begun) > MOST_HEAD_BYTES:
            raise BrokenAnswer("no HTTP in the middle of an answer")
        return found[0] if len(found) == 1 else b"".join(found)

    def _begin(self, told: bytes) -> None:
        size = told.partition(b";")[0].strip()
        try:
            self._left = int(size, 16) + 2
        except ValueError:
            self._left = 0
        if self._left < 2:
            raise BrokenAnswer("no HTTP in the middle of an answer")
        self._is_last = self._left == 2


def parsed_head(told: bytes) -> AnswerHead:
    """The beginning of an answer, read."""
    first, *rest = told.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise BrokenAnswer("no HTTP")
    headers = dict[str, str]()
    for line in rest:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return AnswerHead(int(words[1]), headers)
