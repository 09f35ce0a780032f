"""Connections: bytes come whole and in order, ends are told, and nobody waits for ever."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from tests.rigs.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.api import wire
from tidemill.live.kubernetes.api.wire import Wire, WireEnded

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(talk: Talk) -> AsyncIterator[Wire]:
    """A wire to somebody on this machine who talks like that."""
    is_over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await talk(reader, writer)
            writer.close()
            await writer.wait_closed()
        is_over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    made = await Wire.open("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        yield made
    finally:
        made.end()
        server.close()
        await is_over.wait()


def test_bytes_come_in_the_parts_that_are_asked_for():
    """A head, so many bytes, and what is left; the end of the other side comes after all of it."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"head\r\n\r\nbodyrest" + await reader.readexactly(2))

    async def ask() -> None:
        async with connected(talk) as one:
            await one.send(b"ok")
            assert await one.until(b"\r\n\r\n", 100) == b"head\r\n\r\n"
            assert await one.exactly(4) == b"body"
            assert await one.exactly(6) == b"restok"
            with pytest.raises(WireEnded, match="the connection ended"):
                await one.some(10)
            assert one.is_ended

    asyncio.run(ask())


def test_more_than_is_kept_comes_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    """What nobody takes stays with the sender; an answer may be larger than what is kept."""
    monkeypatch.setattr(wire, "MOST_WAITING", 1000)
    told = bytes(range(256)) * 4000

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(told)
        await writer.drain()

    async def ask() -> None:
        async with connected(talk) as one:
            found = await one.exactly(500_000)
            while len(found) < len(told):
                found += await one.some(70_000)
            assert found == told

    asyncio.run(ask())


def test_a_line_without_an_end_is_refused():
    """After so many bytes nobody waits for it any more."""

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * 200)

    async def ask() -> None:
        async with connected(talk) as one:
            with pytest.raises(ValueError, match="more than 100 bytes"):
                await one.until(b"\n", 100)

    asyncio.run(ask())


def test_silence_ends_a_connection_and_words_put_that_off():
    """A limit that was taken back, or set again, ends nothing; one that is over does."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1):
            writer.write(b"!")

    async def ask() -> None:
        async with connected(talk) as one:
            one.within(0.01)
            one.within(0)
            for _ in range(3):
                one.within(30)
                await one.send(b"?")
                assert await one.exactly(1) == b"!"
            one.within(0.01)
            with pytest.raises(TimeoutError, match="no answer in time"):
                await one.some(1)
            with pytest.raises(TimeoutError):
                await one.send(b"?")

    asyncio.run(ask())


def test_tls_is_spoken_with_whom_it_was_asked_for(started: Cluster):
    """The real API server answers over TLS; under another name its certificate is refused."""
    trusted = ssl.create_default_context(cafile=str(started.authority))

    async def ask(name: str) -> bytes:
        one = await Wire.open("127.0.0.1", started.port, trusted, name)
        await one.send(b"GET /version HTTP/1.1\r\nHost: rig\r\n\r\n")
        head = await one.until(b"\r\n", 1000)
        one.end()
        return head

    assert asyncio.run(ask("127.0.0.1")).startswith(b"HTTP/1.1 ")
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(ask("another.example"))
