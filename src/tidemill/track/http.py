"""Records to a server: batches of lines in one request each, with the token that it asks for.

Requests are made by a thread of their own. A name server that is gone may hold one for longer than
any limit that can be given to it; who sends waits for its answer only as long as said. They are
written by hand, as HTTP/1.0: ``http.client`` takes twice the time, and a loop that posts each
second would feel it (17 November 2026: 500 to 680 µs of CPU time a request, and 250 so).
"""

import json
import os
import socket
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import urlsplit

from tidemill.track.outlets import first_lines
from tidemill.track.spool import RecordSpool

if TYPE_CHECKING:
    from ssl import SSLContext

PATH = "/v1/records"
TYPE = "application/x-ndjson"
MOST_LINES = 1000
MOST_BYTES = 512 << 10
"""Of one request: half of what the server takes."""
ANSWER_BYTES = 256 << 10
"""Of an answer that is read: what the server says about a thousand refused lines."""
PATIENCE_S = 5.0
HUNG_UP = 0
"""The number of no request: whoever waits for an answer is to stop."""


class _Request(NamedTuple):
    number: int
    body: bytes
    within_s: float


class _Answer(NamedTuple):
    number: int
    status: int = 0
    told: dict[str, Any] = {}  # noqa: RUF012 - nobody writes into it
    error: Exception | None = None


class HttpOutlet:
    """Posts lines to an ingest server."""

    longest_pause_s = 15.0
    """An observer that comes back waits longer than this for what loops could not send."""

    def __init__(
        self,
        host: str,
        port: int | None,
        is_secure: bool,
        token: str,
        spool: RecordSpool | None = None,
    ) -> None:
        self._address = host, port or (443 if is_secure else 80)
        named = f"[{host}]" if ":" in host else host
        headers = [f"POST {PATH} HTTP/1.0", f"Host: {named}{f':{port}' if port else ''}"]
        headers += [f"Content-Type: {TYPE}", "Connection: close"]
        headers += [f"Authorization: Bearer {token}"] if token else []
        self._head = "\r\n".join(headers).encode("latin-1", "replace")
        self._tls = _tls() if is_secure else None
        self.lost = 0
        self.lost_why = ""
        self.spool = spool
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._answers: SimpleQueue[_Answer] = SimpleQueue()
        self._asked = self._answered = HUNG_UP
        self._poster: Thread | None = None

    @classmethod
    def to(cls, address: str, spool: RecordSpool | None = None) -> Self:
        """The outlet for the address of a server; ``ValueError`` where it is none."""
        parts = urlsplit(address)
        if not parts.hostname:
            raise ValueError(f"`{address}` names no host")
        token = os.environ.get("TIDEMILL_TOKEN", "")
        return cls(parts.hostname, parts.port, parts.scheme == "https", token, spool)

    def send(self, lines: Sequence[bytes], within_s: float) -> int:
        """Post the first lines; returns how many the server has dealt with."""
        batch = first_lines(lines, MOST_LINES, MOST_BYTES)
        answer = self._ask(b"".join(batch), min(within_s, PATIENCE_S))
        if answer.error is not None:
            raise OSError(str(answer.error) or type(answer.error).__name__) from answer.error
        told = answer.told
        if answer.status != 200:
            raise OSError(f"status {answer.status}: {told.get('error', 'no reason given')}")
        refused, named = told.get("refused_in_all"), told.get("refused")
        if isinstance(refused, int) and refused > 0 and isinstance(named, list) and named:
            self.lost += refused
            self.lost_why = f"the server refused them: {named[0]}"
        return len(batch)

    def hang_up(self) -> None:
        """Let go of an answer that is waited for."""
        self._answers.put(_Answer(HUNG_UP))

    def close(self) -> None:
        """Each request had its own connection; what was not sent stays on disk."""
        self._requests.put(None)
        if self.spool is not None:
            self.spool.close()

    def _ask(self, body: bytes, within_s: float) -> _Answer:
        """The answer to a request; ``OSError`` where none comes in time."""
        if self._answered < self._asked:
            raise OSError("an earlier request has had no answer yet")
        if self._poster is None:
            self._poster = Thread(target=self._post_all, name="tidemill-track-http", daemon=True)
            try:
                self._poster.start()
            except RuntimeError as error:
                self._poster = None
                raise OSError(str(error)) from error
        while not self._answers.empty():  # of requests that were given up
            self._answers.get()
        self._asked += 1
        self._requests.put(_Request(self._asked, body, within_s))
        end_s = monotonic() + within_s
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, end_s - monotonic()))
            except Empty as error:
                raise OSError(f"no answer within {within_s:.1f} s") from error
            if answer.number == HUNG_UP:
                raise OSError("the run ended before an answer came")
            if answer.number == self._asked:
                return answer

    def _post_all(self) -> None:
        """The other thread: one request after the other."""
        while (asked := self._requests.get()) is not None:
            try:
                status, told = self._post(asked.body, asked.within_s)
                answer = _Answer(asked.number, status, told)
            except Exception as error:  # noqa: BLE001 - whoever waits is told, whatever it is
                answer = _Answer(asked.number, error=error)
            self._answered = asked.number
            self._answers.put(answer)

    def _post(self, body: bytes, within_s: float) -> tuple[int, dict[str, Any]]:
        end_s = monotonic() + within_s
        opened = socket.create_connection(self._address, within_s)
        if self._tls is not None:
            opened = self._tls.wrap_socket(opened, server_hostname=self._address[0])
        with opened:
            opened.sendall(b"%b\r\nContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body))
            head, _, told = _read(opened, end_s).partition(b"\r\n\r\n")
        words = head.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise OSError("no HTTP answer")
        return int(words[1]), _object(told)


def _tls() -> "SSLContext":
    from ssl import create_default_context  # noqa: PLC0415 - not loaded where it is not needed

    return create_default_context()


def _read(opened: socket.socket, end_s: float) -> bytes:
    """An answer until its end, and no more of it than is ever told."""
    parts, size = list[bytes](), 0
    while size < ANSWER_BYTES:
        opened.settimeout(max(0.001, end_s - monotonic()))
        if not (part := opened.recv(65_536)):
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _object(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
