"""A connection as bytes: what is sent, and what comes, with TLS or without.

The streams of ``asyncio`` take TLS apart in Python, and pass every answer through four layers of
it. Here the socket itself speaks TLS (OpenSSL reads from it directly), and one buffer is all there
is (decision 0063 says what binds cost by now; what of it this saves was not measured alone).
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Self

READ_BYTES = 17 << 10
"""One record of TLS: it never gives more at a time, and a read into ten times as much room costs
six times as much (30 and 5 µs, 17 November 2026: memory is asked for, and given back)."""
MOST_WAITING = 4 << 20
"""So many bytes are taken from the network before somebody wants them."""
SHORT_BYTES = 1024
"""A part so short is the last one for now, nearly always: long answers come in longer parts. To ask
the socket once more costs as much as the part did, and it tells when there is more."""
_LATER = (BlockingIOError, InterruptedError, ssl.SSLWantReadError)
_KEEP_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""A peer that is gone without a word is noticed after half a minute."""


class WireEnded(OSError):  # noqa: N818 - an end, and the caller's to judge
    """The other side has ended the connection, or somebody here has."""


class Wire:
    """One connection. Use it in one event loop, and let one task at a time wait for bytes."""

    def __init__(self, plug: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self._plug, self._loop = plug, loop
        self._read = plug.read if isinstance(plug, ssl.SSLSocket) else plug.recv
        self._came, self._most = bytearray(), MOST_WAITING
        self._waiter: asyncio.Future[None] | None = None
        self._error: OSError | None = None
        self._is_reading = False
        self._room = asyncio.Event()
        """Set when the network takes bytes again, or never will."""
        self._pace_s = 0.0
        self._pacer: asyncio.TimerHandle | None = None
        """Set while it is not read from, to take together what comes meanwhile."""
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._read_on()

    @classmethod
    async def open(
        cls, host: str, port: int, tls: ssl.SSLContext | None = None, name: str | None = None
    ) -> Self:
        """Connect; ``OSError`` if nobody answers, or not the one who was asked for."""
        loop, error = asyncio.get_running_loop(), OSError(f"no address of {host}")
        for family, kind, protocol, _, address in await loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            plug = socket.socket(family, kind, protocol)
            try:
                plug.setblocking(False)
                plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _keep_alive(plug)
                await loop.sock_connect(plug, address)
                if tls is not None:
                    plug = tls.wrap_socket(
                        plug, server_hostname=name or host, do_handshake_on_connect=False
                    )
                    await _shake_hands(plug, loop)
                return cls(plug, loop)
            except OSError as found:
                plug.close()
                error = found
            except BaseException:
                plug.close()
                raise
        raise error

    # Sending ------------------------------------------------------------------------------------

    async def send(self, told: bytes) -> None:
        """Send all of it."""
        left = told
        while left := self.offer(left):
            self._room.clear()
            self._loop.add_writer(self._plug, self._room.set)
            try:
                await self._room.wait()
            finally:
                if not self.is_ended:
                    self._loop.remove_writer(self._plug)

    def offer(self, told: bytes) -> bytes:
        """Send as much as is taken at once, nearly always all; the rest of it."""
        if self._error is not None:
            raise self._error
        try:
            return told[self._plug.send(told) :]
        except (BlockingIOError, InterruptedError, ssl.SSLWantWriteError):
            return told

    # What comes ---------------------------------------------------------------------------------

    async def until(self, end: bytes, most: int) -> bytes:
        """Everything up to these bytes, and them; ``ValueError``: they do not come soon enough."""
        looked = 0
        while (at := self._came.find(end, looked, most)) < 0:
            if len(self._came) >= most:
                raise ValueError(f"more than {most:,} bytes without an end")
            looked = max(0, len(self._came) - len(end) + 1)
            await self._more()
        return self._taken(at + len(end))

    async def exactly(self, count: int) -> bytes:
        """So many bytes."""
        self._most = max(count, MOST_WAITING)
        while len(self._came) < count:
            self._read_on()
            await self._more()
        return self._taken(count)

    def at_hand(self, count: int) -> bytes | None:
        """So many bytes, if they are there."""
        return self._taken(count) if len(self._came) >= count else None

    async def some(self, most: int) -> bytes:
        """Whatever is there, but at least a byte."""
        while not self._came:
            await self._more()
        return self._taken(min(most, len(self._came)))

    @property
    def is_ended(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._error is not None

    def pace(self, seconds: float) -> None:
        """Read no more often than this: to be woken for each message costs as much as it does."""
        self._pace_s = seconds

    def within(self, seconds: float) -> None:
        """From now on end it after so long, unless this is called again; 0: never.

        One timer for many answers: a timer for each has its price.
        """
        self._until_s = self._loop.time() + seconds if seconds else 0.0
        if self._timer is not None and self._timer.when() > self._until_s > 0:
            self._timer.cancel()  # a shorter time than before
            self._timer = None
        if seconds and self._timer is None:
            self._timer = self._loop.call_later(seconds, self._look)

    def end(self, error: OSError | None = None) -> None:
        """End it at once; whoever waits for it is told so."""
        if self._error is not None:
            return
        self._error = error or WireEnded("the connection was ended here")
        self._pause()
        with suppress(OSError):
            self._loop.remove_writer(self._plug)
        self._plug.close()
        for timer in (self._timer, self._pacer):
            if timer is not None:
                timer.cancel()
        self._wake()
        self._room.set()

    def _taken(self, count: int) -> bytes:
        if count == len(self._came):
            found = bytes(self._came)
            self._came.clear()
        else:
            found = bytes(self._came[:count])
            del self._came[:count]
        if not self._is_reading and self._pacer is None:
            self._read_on()
        return found

    async def _more(self) -> None:
        """Until more bytes are there; what the connection ended with, if none come."""
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _on_bytes(self) -> None:
        if not self._is_reading:
            return
        before = len(self._came)
        try:
            while len(self._came) < self._most:
                part = self._read(READ_BYTES)
                if not part:
                    self.end(WireEnded("the connection ended"))
                    return
                self._came += part
                if len(part) < SHORT_BYTES and not self._pace_s:
                    break
            else:
                self._pause()  # until somebody has taken some
        except _LATER:
            if self._pace_s and len(self._came) > before:
                self._pause()
                self._pacer = self._loop.call_later(self._pace_s, self._read_again)
        except OSError as error:
            self.end(error)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _read_again(self) -> None:
        self._pacer = None
        self._read_on()

    def _read_on(self) -> None:
        if self._is_reading or self._error is not None:
            return
        self._is_reading = True
        self._loop.add_reader(self._plug, self._on_bytes)
        self._loop.call_soon(self._on_bytes)  # TLS may hold bytes that the socket does not show

    def _pause(self) -> None:
        self._loop.remove_reader(self._plug)
        self._is_reading = False

    def _look(self) -> None:
        self._timer, left_s = None, self._until_s - self._loop.time()
        if not self._until_s:
            return
        if left_s <= 0:
            self.end(TimeoutError("no answer in time"))
        else:
            self._timer = self._loop.call_later(left_s, self._look)


async def _shake_hands(plug: ssl.SSLSocket, loop: asyncio.AbstractEventLoop) -> None:
    is_done = False
    while not is_done:
        try:
            plug.do_handshake()
            is_done = True
        except ssl.SSLWantReadError:
            await _until(loop.add_reader, loop.remove_reader, plug)
        except ssl.SSLWantWriteError:
            await _until(loop.add_writer, loop.remove_writer, plug)


async def _until(
    add: Callable[[socket.socket, Callable[[], None]], None],
    remove: Callable[[socket.socket], bool],
    plug: socket.socket,
) -> None:
    """Until a socket can be read, or written."""
    ready = asyncio.Event()
    add(plug, ready.set)
    try:
        await ready.wait()
    finally:
        remove(plug)


def _keep_alive(plug: socket.socket) -> None:
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # not on every system
            plug.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
