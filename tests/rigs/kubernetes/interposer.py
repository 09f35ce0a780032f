"""Somebody between a client and an API server who refuses some requests, or their answers; and who
may say that it is later than it is.

It has the certificate of the rig's server. Requests are read, answers are passed on as they come: a
client sends one request at a time over a connection, so an answer of its own fits in between.
"""

import asyncio
import contextlib
import json
import re
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Self

from tests.rigs.kubernetes.cluster import Cluster

MOST_HEAD_BYTES = 64 << 10
_DATE = re.compile(rb"\r\nDate: ([^\r]+)\r\n")


class Verdict(StrEnum):
    """What becomes of a request."""

    PASS = "passed on"
    CONFLICT = "answered 409"
    BUSY = "answered 429"
    UNWELL = "answered 503"
    LOSE = "done, but the answer is lost"


Judge = Callable[[str, str], Verdict]
"""By method and path."""
_ANSWERS = {
    Verdict.CONFLICT: (HTTPStatus.CONFLICT, "the object has been modified; please apply again", ""),
    Verdict.BUSY: (HTTPStatus.TOO_MANY_REQUESTS, "too many requests", "Retry-After: 1\r\n"),
    Verdict.UNWELL: (HTTPStatus.SERVICE_UNAVAILABLE, "etcdserver: request timed out", ""),
}


def pass_all(method: str, path: str) -> Verdict:
    """Refuse nothing."""
    return Verdict.PASS


class Interposer:
    """Listens on a free port of loopback, in a thread of its own; a context manager."""

    def __init__(self, rig: Cluster) -> None:
        self._rig = rig
        self.judge: Judge = pass_all
        self.ahead_s = 0
        """So much later than the server's is the time that answers tell."""
        self.verdicts: Counter[Verdict] = Counter()
        self._open: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self._loop = asyncio.new_event_loop()
        self.port = 0
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        self.port = self._ask(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._ask(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def cut(self) -> None:
        """End every connection, and take no new one."""
        self._ask(self._drop(is_cut=True))

    def mend(self) -> None:
        """Take connections again."""
        self._is_cut = False

    def drop(self) -> None:
        """End every connection; new ones are taken at once."""
        self._ask(self._drop(is_cut=False))

    def _ask(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> int:
        certificate = self._rig.authority
        shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        shown.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=shown, limit=MOST_HEAD_BYTES
        )
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _end(self) -> None:
        await self._drop(is_cut=True)
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _drop(self, *, is_cut: bool) -> None:
        self._is_cut = is_cut
        for one in self._open:
            one.transport.abort()
        self._open.clear()

    async def _serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        """One connection of a client, and one of our own for it."""
        if self._is_cut:
            answers.transport.abort()
            return
        self._open.add(answers)
        try:
            trusted = ssl.create_default_context(cafile=str(self._rig.authority))
            server, requests = await asyncio.open_connection(
                "127.0.0.1", self._rig.port, ssl=trusted, limit=MOST_HEAD_BYTES
            )
            self._open.add(requests)
            await _Pair(self, client, answers, server, requests).pass_on()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # who asks notices that it ended
        finally:
            answers.transport.abort()
            self._open.discard(answers)


class _Pair:
    """A connection of a client, and the one to the server that stands for it."""

    def __init__(
        self, owner: Interposer, client: asyncio.StreamReader, answers: asyncio.StreamWriter,
        server: asyncio.StreamReader, requests: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        self._owner, self._client, self._answers = owner, client, answers
        self._server, self._requests = server, requests
        self._loses = False

    async def pass_on(self) -> None:
        """Until either of them ends."""
        back = asyncio.create_task(self._pass_back())
        try:
            await self._pass_requests()
        finally:
            back.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await back
            self._requests.transport.abort()
            self._owner._open.discard(self._requests)

    async def _pass_requests(self) -> None:
        while True:
            head = await self._client.readuntil(b"\r\n\r\n")
            _, _, told = head.lower().partition(b"content-length:")
            body = await self._client.readexactly(int(told.split(b"\r")[0] or 0))
            method, path, _ = head.decode("latin-1").split(" ", 2)
            verdict = self._owner.judge(method, path)
            self._owner.verdicts[verdict] += 1
            if verdict in _ANSWERS:
                self._answers.write(_answer(verdict))
                continue
            self._loses = verdict is Verdict.LOSE
            self._requests.write(head + body)

    async def _pass_back(self) -> None:
        while part := await self._server.read(1 << 16):
            if self._loses:
                break
            self._answers.write(_DATE.sub(self._later, part) if self._owner.ahead_s else part)
            await self._answers.drain()
        self._answers.transport.abort()

    def _later(self, told: re.Match[bytes]) -> bytes:
        at = parsedate_to_datetime(told[1].decode()) + timedelta(seconds=self._owner.ahead_s)
        return b"\r\nDate: %b\r\n" % format_datetime(at, usegmt=True).encode()


def _answer(verdict: Verdict) -> bytes:
    status, words, more = _ANSWERS[verdict]
    told = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": words,
            "code": int(status)}  # fmt: skip
    body = json.dumps(told).encode()
    head = f"HTTP/1.1 {int(status)} {status.phrase}\r\nContent-Type: application/json\r\n{more}"
    return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
