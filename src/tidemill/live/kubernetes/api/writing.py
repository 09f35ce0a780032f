"""Changes to a cluster: binding, evicting, patching, over some connections that are kept.

The client that reads (``client``) has only GET; whoever holds no writer can change nothing. A
general client costs 2 to 30 times the processor for a bind (decision 0052).
"""

import asyncio
import time
from collections import deque
from typing import NamedTuple

import msgspec

from tidemill.live.kubernetes.api.http import (
    MOST_HEAD_BYTES,
    BrokenAnswer,
    HttpConnection,
    parsed_head,
)
from tidemill.live.kubernetes.api.kubeconfig import ClusterAccess
from tidemill.live.kubernetes.api.wire import WireEnded

CONNECTIONS = 16
"""More were slower: the API server works on two or more at a time."""
TIMEOUT_S = 30.0
MOST_BYTES = 16 << 20
AGENT = "tidemill-schedule"
FRESH_S = 10.0
"""So long a header that proves who asks is used before it is asked for again."""
MERGE = "application/strategic-merge-patch+json"


class Written(NamedTuple):
    """What the server says to a change."""

    status: int
    body: bytes
    retry_s: float = 0.0
    """How long it asks to be left alone."""

    @property
    def is_done(self) -> bool:
        """Whether it was done."""
        return self.status < 300

    @property
    def is_later(self) -> bool:
        """Whether the same may be done later: too many requests, or the server is not well."""
        return self.status == 429 or self.status >= 500

    @property
    def said(self) -> str:
        """In its own words."""
        try:
            return msgspec.json.decode(self.body, type=_Refusal).message[:300]
        except msgspec.DecodeError:
            return ""


class _Refusal(msgspec.Struct):
    message: str = ""


class _WritingConnection(HttpConnection):
    """A connection that sends what changes something."""

    async def send(self, asked: bytes) -> Written:
        wire = self._wire
        if left := wire.offer(asked):
            await wire.send(left)
        try:
            told = await wire.until(b"\r\n\r\n", MOST_HEAD_BYTES)
            status, size = int(told[9:12]), _header(told, b"content-length")
            if size.isdigit() and int(size) <= MOST_BYTES:  # short, as nearly all are
                answer = wire.at_hand(int(size))
                if answer is None:
                    answer = await wire.exactly(int(size))
            else:
                answer = await self.body(parsed_head(told), MOST_BYTES)
        except (WireEnded, ValueError) as error:
            raise BrokenAnswer("no HTTP, or nothing at all") from error
        return Written(status, answer, _retry_s(told) if status in (429, 503) else 0.0)


class ApiWriter:
    """One server, changed by one user. Use it in one event loop."""

    def __init__(
        self, access: ClusterAccess, *, connections: int = CONNECTIONS, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._access, self._timeout_s = access, timeout_s
        self._idle: list[_WritingConnection] = []
        self._free = connections
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._address = access.address
        self._same, self._who_at = "", -FRESH_S
        """Headers that are the same in all requests, and since when."""
        self.sent = 0
        """How many requests were sent."""

    async def send(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> Written:
        """Send one request; ``OSError`` or ``BrokenAnswer``: nobody knows whether it was done."""
        if self._free:
            self._free -= 1
        else:
            await self._turn()
        try:
            for is_last in (False, True):
                if time.monotonic() - self._who_at >= FRESH_S:
                    await self._ask_who()
                answer = await self._once(self._framed(method, path, body, kind))
                if is_last or answer.status != 401 or not self._access.credentials.refused():
                    break
                self._who_at = -FRESH_S
            return answer
        finally:
            self._hand_on()

    async def _turn(self) -> None:
        """Until a connection is free; most find one, and a semaphore is dearer than a number."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self._hand_on()
            raise

    def _hand_on(self) -> None:
        """A connection is free: for whoever waits longest, if anybody does."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1

    async def close(self) -> None:
        """End all connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    async def _once(self, asked: bytes) -> Written:
        self.sent += 1
        while self._idle and not self._is_usable(self._idle[-1]):
            self._idle.pop().close()
        connection = self._idle.pop() if self._idle else await self._opened()
        connection.within(self._timeout_s)
        try:
            answer = await connection.send(asked)
        except BaseException:
            connection.close()
            raise
        connection.within(0)
        self._idle.append(connection)
        return answer

    def _is_usable(self, connection: _WritingConnection) -> bool:
        """Whether it is open, and of the client certificate that who asks has by now."""
        return not connection.is_closed and connection.tls is self._address.tls

    async def _opened(self) -> _WritingConnection:
        async with asyncio.timeout(self._timeout_s):
            return await _WritingConnection.open(self._address)

    async def _ask_who(self) -> None:
        now = time.monotonic()
        who, self._address = await asyncio.to_thread(self._access.asking)
        address = self._address
        self._same = (
            f"Host: {address.host}:{address.port}\r\n"
            + (f"Authorization: {who}\r\n" if who else "")
            + f"User-Agent: {AGENT}\r\nAccept: application/json\r\n"
        )
        self._who_at = now

    def _framed(self, method: str, path: str, body: bytes, kind: str) -> bytes:
        head = (
            f"{method} {self._access.address.base}{path} HTTP/1.1\r\n{self._same}"
            f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("latin-1") + body


def _header(head: bytes, name: bytes) -> bytes:
    lower = head.lower()
    at = lower.find(b"\r\n" + name + b":")
    return b"" if at < 0 else head[at + len(name) + 3 : head.find(b"\r\n", at + 2)].strip()


def _retry_s(head: bytes) -> float:
    told = _header(head, b"retry-after")
    return float(told) if told.isdigit() else 0.0
