"""Records to a server: batches of lines in one request each, with the token that it asks for.

A name is looked up in a thread of its own: a name server that is gone may hold it for longer than
any limit that can be given to it. The address that it leads to is kept until a request fails.
Requests are written by hand, as HTTP/1.0, and answers read no further than they say that they are
long: ``http.client`` takes three times the CPU time, and a loop that posts each second would feel
it (``bench/README.md``).
"""

import json
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Self
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
UNAUTHORIZED = 401  # ``http`` takes 5 ms to load
DEALT_WITH = (200, 422)
"""It has answered for each line; 422: it will never take any of them."""
HUNG_UP = "the run ended before an answer came"

Place = tuple[int, Any]
"""The family of an address, and the address as ``socket`` has it."""


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
        self._host = host
        named = f"[{host}]" if ":" in host else host
        headers = [f"POST {PATH} HTTP/1.0", f"Host: {named}{f':{port}' if port else ''}"]
        headers += [f"Content-Type: {TYPE}", "Connection: close"]
        headers += [f"Authorization: Bearer {token}"] if token else []
        self._head = "\r\n".join(headers).encode("latin-1", "replace")
        self._tls = _tls() if is_secure else None
        self.lost = 0
        self.lost_why = ""
        self.spool = spool
        self._names = NameLookup(host, port or (443 if is_secure else 80))
        self._places: list[Place] = []
        self._opened: socket.socket | None = None
        self._is_hung_up = False

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
        batch, within_s = first_lines(lines, MOST_LINES, MOST_BYTES), min(within_s, PATIENCE_S)
        try:
            status, told = self._post(b"".join(batch), monotonic() + within_s)
        except Exception as error:
            self._places = []  # it may be somewhere else by now
            if self._is_hung_up:
                raise OSError(HUNG_UP) from error
            if isinstance(error, TimeoutError):
                raise OSError(f"no answer within {within_s:.1f} s") from error
            raise OSError(str(error) or type(error).__name__) from error
        if status not in DEALT_WITH:
            words = f"status {status}: {told.get('error', 'no reason given')}"
            raise TokenError(words) if status == UNAUTHORIZED else OSError(words)
        refused, named = told.get("refused_in_all"), told.get("refused")
        if isinstance(refused, int) and refused > 0 and isinstance(named, list) and named:
            self.lost += refused
            self.lost_why = f"the server refused them: {named[0]}"
        return len(batch)

    def hang_up(self) -> None:
        """Let go of an answer that is waited for; nothing more is sent."""
        self._is_hung_up = True
        self._names.hang_up()
        if (opened := self._opened) is not None:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Each request had its own connection; what was not sent stays on disk."""
        if self.spool is not None:
            self.spool.close()

    def _post(self, body: bytes, end_s: float) -> tuple[int, dict[str, Any]]:
        """The answer to a request: its status, and what it tells."""
        self._connect(end_s)
        assert self._opened is not None, "or there was an exception"
        try:
            if self._tls is not None:
                self._opened = self._tls.wrap_socket(
                    self._opened, do_handshake_on_connect=False, server_hostname=self._host
                )
                self._opened.do_handshake()
            sent = b"%b\r\nContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body)
            self._opened.sendall(sent)
            head, _, told = _read(self._opened, end_s).partition(b"\r\n\r\n")
        finally:
            opened, self._opened = self._opened, None
            opened.close()
        words = head.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise OSError("no HTTP answer")
        return int(words[1]), _object(told)

    def _connect(self, end_s: float) -> None:
        """Open a connection to the first of the server's addresses that takes one."""
        error = OSError(f"`{self._host}` has no address")
        for place in self._places or self._names.places(end_s):
            self._opened = socket.socket(place[0], socket.SOCK_STREAM)
            try:
                if self._is_hung_up:
                    raise OSError(HUNG_UP)
                self._opened.settimeout(_left_s(end_s))
                self._opened.connect(place[1])
            except OSError as failed:
                opened, self._opened, error = self._opened, None, failed
                opened.close()
            else:
                self._places = [place]
                return
        raise error


class TokenError(OSError):
    """The server wants another token than it was given, or one at all."""


class NameLookup:
    """Where a host is; a number is its own answer, a name is asked for by another thread."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._answers: SimpleQueue[list[Place] | OSError] = SimpleQueue()
        self._is_asking = False

    def places(self, end_s: float) -> list[Place]:
        """All that there are; ``OSError`` where none are found in time."""
        with suppress(OSError):
            return self._found(socket.AI_NUMERICHOST)
        if not self._is_asking:
            try:
                Thread(target=self._ask, name="tidemill-track-name", daemon=True).start()
            except RuntimeError as error:  # no thread can be had
                raise OSError(str(error)) from error
            self._is_asking = True
        try:
            answer = self._answers.get(timeout=_left_s(end_s))
        except Empty as error:
            raise TimeoutError from error
        self._is_asking = False
        if isinstance(answer, OSError):
            raise answer
        return answer

    def hang_up(self) -> None:
        """Let go of an answer that is waited for."""
        self._answers.put(OSError(HUNG_UP))

    def _ask(self) -> None:
        try:
            answer: list[Place] | OSError = self._found(0)
        except OSError as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - a name that is none: whoever waits is told
            answer = OSError(str(error))
        self._answers.put(answer)

    def _found(self, flags: int) -> list[Place]:
        asked = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=flags)
        return [(family, address) for family, _, _, _, address in asked]


def _left_s(end_s: float) -> float:
    return max(0.001, end_s - monotonic())


def _tls() -> "SSLContext":
    from ssl import create_default_context  # noqa: PLC0415 - not loaded where it is not needed

    return create_default_context()


def _read(opened: socket.socket, end_s: float) -> bytes:
    """An answer until it is whole or ends, and no more of it than is ever told."""
    told = b""
    while len(told) < ANSWER_BYTES and not _is_whole(told):
        opened.settimeout(_left_s(end_s))
        if not (part := opened.recv(65_536)):
            break
        told += part
    return told


def _is_whole(told: bytes) -> bool:
    """Whether an answer is as long as it says; one that does not say ends with its connection."""
    head, _, body = told.partition(b"\r\n\r\n")
    _, _, rest = head.lower().partition(b"\r\ncontent-length:")
    size = rest.partition(b"\r\n")[0].strip()
    return size.isdigit() and b"\r\n\r\n" in told and len(body) >= int(size)


def _object(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
