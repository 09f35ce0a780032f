"""Connections: bytes come whole and in order, ends are told, and nobody waits for ever."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

import pytest

from tests.live.kubernetes.test_access import plain
from tests.rigs.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.api import wire
from tidemill.live.kubernetes.api.http import BrokenAnswer, Chunks
from tidemill.live.kubernetes.api.wire import Wire, WireEnded
from tidemill.live.kubernetes.api.writing import ApiWriter

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


def test_who_sends_to_somebody_who_does_not_read_is_told_when_it_is_over():
    """More than the network takes, and no reader: whoever sends is not left waiting."""
    is_over = asyncio.Event()

    async def talk(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await is_over.wait()

    async def ask() -> None:
        async with connected(talk) as one:
            one.within(0.05)
            try:
                with pytest.raises(TimeoutError, match="no answer in time"):
                    async with asyncio.timeout(10):
                        await one.send(bytes(64 << 20))
            finally:
                is_over.set()

    asyncio.run(ask())


def test_what_comes_soon_after_something_comes_together():
    """The first word is heard at once; those of the next moment are one, and then the end."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for word in (b"first", b"a", b"b", b"c"):
            writer.write(word)
            await reader.readexactly(1)
        await reader.read(1)

    async def ask() -> None:
        async with connected(talk) as one:
            one.pace(0.2)
            assert await one.some(100) == b"first"
            for _ in range(4):  # each lets the next word be said
                await one.send(b"!")
                await asyncio.sleep(0.01)
            assert await one.some(100) == b"abc"

    asyncio.run(ask())


def test_chunks_are_read_wherever_they_are_cut():
    """Sizes, contents and ends of lines in any two or three parts, or byte by byte."""
    told = b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
    cuts = [[*range(len(told) + 1)], *([0, i, len(told)] for i in range(1, len(told)))]
    cuts += [[0, i, j, len(told)] for i in range(1, len(told)) for j in range(i + 1, len(told))]
    for ends in cuts:
        chunks = Chunks()
        found = b"".join(chunks.take(told[a:b]) for a, b in pairwise(ends))
        assert (found, chunks.is_over) == (b"hello!", True), ends


@pytest.mark.parametrize("told", [b"zz\r\n", b"-5\r\n", b"\r\n", b"1" * 70_000])
def test_what_is_no_chunk_is_refused(told: bytes):
    """A size that is none, or has no end."""
    with pytest.raises(BrokenAnswer, match="no HTTP"):
        Chunks().take(told)


def test_who_gives_up_waiting_for_a_connection_keeps_it_from_nobody():
    """One connection, three that want it: the second is cancelled when its turn has come."""

    served = list[asyncio.Task[Any]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.append(task)
        with suppress(asyncio.IncompleteReadError, OSError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        with suppress(OSError):
            writer.close()
            await writer.wait_closed()

    async def ask() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        writer = ApiWriter(plain(server.sockets[0].getsockname()[1]), connections=1)
        waiting = asyncio.Event()

        async def second() -> None:
            waiting.set()
            await writer.send("GET", "/second")

        first = asyncio.create_task(writer.send("GET", "/first"))
        await asyncio.sleep(0)
        gives_up = asyncio.create_task(second())
        third = asyncio.create_task(writer.send("GET", "/third"))
        await waiting.wait()
        await first
        gives_up.cancel()
        async with asyncio.timeout(10):
            assert (await third).body == b"ok"
        assert (await writer.send("GET", "/fourth")).is_done
        await writer.close()
        server.close()
        await asyncio.gather(*served)

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
