"""HTTP/1.1 as far as an API server needs it: GET over one connection, answers whole or in pieces.

Nothing is read from the environment: no proxy, no certificates. An answer larger than a stated
size, and a line of one, is refused. A general client costs 2 to 10 times the processor for each
event of a watch (decision 0043).
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Self

MOST_HEAD_BYTES = 64 << 10
READ_BYTES = 1 << 20
_KEEP_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""A peer that is gone without a word is noticed after half a minute."""


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

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: ServerAddress
    ) -> None:
        self._reader, self._writer, self._address = reader, writer, address

    @classmethod
    async def open(cls, address: ServerAddress) -> Self:
        """Connect; ``OSError`` if nobody answers, or not the one who was asked for."""
        named = (address.tls_name or address.host) if address.tls is not None else None
        reader, writer = await asyncio.open_connection(
            address.host, address.port, ssl=address.tls, server_hostname=named,
            limit=MOST_HEAD_BYTES,
        )  # fmt: skip
        _keep_alive(writer)
        return cls(reader, writer, address)

    async def ask(self, path: str, headers: Mapping[str, str]) -> AnswerHead:
        """Send a GET; the beginning of the answer."""
        address = self._address
        lines = [f"GET {address.base}{path} HTTP/1.1", f"Host: {address.host}:{address.port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        await self._writer.drain()
        try:
            while True:
                head = parsed_head(await self._reader.readuntil(b"\r\n\r\n"))
                if head.status >= 200:  # what comes before is no answer
                    return head
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
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
                part = await self._reader.read(min(left, READ_BYTES))
                if not part:
                    raise BrokenAnswer("the connection ended in the middle of an answer")
                left -= len(part)
                yield part
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise BrokenAnswer("the connection ended in the middle of an answer") from error

    async def _chunks(self) -> AsyncGenerator[bytes]:
        while True:
            told = (await self._reader.readuntil(b"\r\n")).partition(b";")[0].strip()
            try:
                left = int(told, 16)
            except ValueError:
                raise BrokenAnswer("no HTTP in the middle of an answer") from None
            if left == 0:
                await self._reader.readuntil(b"\r\n")
                return
            while left:
                part = await self._reader.read(min(left, READ_BYTES))
                if not part:
                    raise BrokenAnswer("the connection ended in the middle of an answer")
                left -= len(part)
                yield part
            await self._reader.readexactly(2)

    def abort(self) -> None:
        """End the connection at once; whoever waits for its answer is told that it is broken."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """End the connection."""
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await self._writer.wait_closed()


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


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    plug: socket.socket = writer.get_extra_info("socket")
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # not on every system
            plug.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
