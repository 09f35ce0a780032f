"""The server: who may send, how much, and what they are told."""

import hmac
import json
import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from socket import SHUT_RDWR, socket
from threading import BoundedSemaphore, Lock, Thread
from typing import Any, NamedTuple

from tidemill.live.ingest.spool import RefusedRecord, Spool
from tidemill.model.errors import SpecError
from tidemill.track.http import PATH

LOG = logging.getLogger("tidemill.ingest")
HEALTH_PATH = "/v1/health"
MOST_TOLD = 100
"""Refused lines that an answer names; the rest is counted."""


class IngestLimits(NamedTuple):
    """What is taken at most."""

    body_bytes: int = 1 << 20
    """Of one request."""
    lines: int = 5000
    """Of one request."""
    lines_per_s: int = 20_000
    """Of all together; ten seconds' worth may come at once."""
    connections: int = 128
    """At a time; more are told to come back."""
    patience_s: float = 10.0
    """For a whole request; then the server hangs up."""


USUAL = IngestLimits()


class LineRate:
    """So many lines a second, and ten seconds of saving up."""

    def __init__(self, lines_per_s: int) -> None:
        self._per_s, self._most = lines_per_s, lines_per_s * 10
        self._left = float(self._most)
        self._at_s = time.monotonic()
        self._lock = Lock()

    def take(self, lines: int) -> bool:
        """Whether so many may come now; if so, they are counted."""
        with self._lock:
            now_s = time.monotonic()
            self._left = min(self._most, self._left + (now_s - self._at_s) * self._per_s)
            self._at_s = now_s
            if lines > self._left:
                return False
            self._left -= lines
            return True


class IngestServer(ThreadingHTTPServer):
    """Takes records over HTTP; ``shutdown`` ends it, ``close`` releases port and folder."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 512

    def __init__(
        self, address: tuple[str, int], spool: Spool, token: str, limits: IngestLimits
    ) -> None:
        self.spool, self.limits = spool, limits
        self.rate = LineRate(limits.lines_per_s)
        self._token = token.encode()
        self._slots = BoundedSemaphore(limits.connections)
        self._until_s: dict[socket, float] = {}
        super().__init__(address, IngestHandler)

    @property
    def url(self) -> str:
        """Where it listens; what ``TIDEMILL_TRACK`` is set to."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def may(self, header: str) -> bool:
        """Whether a request with this ``Authorization`` may come in; takes as long either way."""
        if not self._token:
            return True
        return hmac.compare_digest(header.encode("latin-1", "replace"), b"Bearer " + self._token)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in socketserver
        """A thread for each connection, as long as there are few."""
        if self._slots.acquire(blocking=False):
            self._until_s[request] = time.monotonic() + self.limits.patience_s
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)  # the sender keeps its records and tries again

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """One connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._until_s.pop(request, None)
            self._slots.release()

    def service_actions(self) -> None:
        """Hang up on who sends a byte now and then, to keep a thread."""
        now_s = time.monotonic()
        for request, until_s in list(self._until_s.items()):
            if now_s > until_s:
                with suppress(OSError):
                    request.shutdown(SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """A client that hangs up is no error of ours; of others the type is told, no content."""
        error = sys.exception()
        if not isinstance(error, OSError):
            LOG.warning("a request failed: %s", type(error).__name__)

    def close(self) -> None:
        """Release the port and the folder."""
        self.server_close()
        self.spool.close()


class IngestHandler(BaseHTTPRequestHandler):
    """One request. Nothing is logged: headers hold the token."""

    server: IngestServer
    server_version = "tidemill"
    sys_version = ""
    wbufsize = -1  # an answer in one piece: who sends records each second wakes up once for it

    def setup(self) -> None:
        """Do not wait for a client for ever."""
        super().setup()
        self.connection.settimeout(self.server.limits.patience_s)

    def do_GET(self) -> None:
        """Whether the server is there."""
        if self.path == HEALTH_PATH:
            self._answer(HTTPStatus.OK, {"ok": True})
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"records are posted to {PATH}")

    def do_POST(self) -> None:
        """Take records."""
        most = self.server.limits.body_bytes
        size = _size(self.headers.get("Content-Length"))
        if not self.server.may(self.headers.get("Authorization", "")):
            self._refuse(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong", size or 0)
        elif self.path != PATH:
            self._refuse(HTTPStatus.NOT_FOUND, f"records are posted to {PATH}", size or 0)
        elif size is None:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing")
        elif size > most:
            why = f"{size:,} bytes; one request has at most {most:,}"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why, size)
        else:
            self._take(self.rfile.read(size), size)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in http.server
        """Nothing: a line for each request of each rank is no log."""

    def _take(self, body: bytes, size: int) -> None:
        lines, limits = body.split(b"\n"), self.server.limits
        if len(body) < size:
            self._refuse(HTTPStatus.BAD_REQUEST, f"{len(body)} of {size} bytes came")
        elif len(lines) > limits.lines + 1:
            why = f"{len(lines) - 1:,} lines; one request has at most {limits.lines:,}"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
        elif not self.server.rate.take(len(lines)):
            why = f"more than {limits.lines_per_s:,} lines a second; send them again later"
            self._refuse(HTTPStatus.TOO_MANY_REQUESTS, why)
        else:
            self._keep(lines)

    def _keep(self, lines: list[bytes]) -> None:
        try:
            taken = self.server.spool.take(lines)
        except OSError as error:
            why = f"the records could not be kept: {error.strerror}; send them again later"
            self._refuse(HTTPStatus.INSUFFICIENT_STORAGE, why)
            return
        told = {
            "accepted": taken.accepted,
            "repeated": taken.repeated,
            "refused_in_all": len(taken.refused),
            "refused": [RefusedRecord._asdict(one) for one in taken.refused[:MOST_TOLD]],
        }
        is_of_use = taken.accepted or taken.repeated or not taken.refused
        self._answer(HTTPStatus.OK if is_of_use else HTTPStatus.UNPROCESSABLE_ENTITY, told)

    def _refuse(self, status: HTTPStatus, why: str, unread: int = 0) -> None:
        """Say why not. What was not read is read first: the answer would be lost with it."""
        if unread:
            self.rfile.read(min(unread, 2 * self.server.limits.body_bytes))
        self._answer(status, {"error": why})

    def _answer(self, status: HTTPStatus, told: dict[str, object]) -> None:
        body = json.dumps(told).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(
    folder: Path | str,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str = "",
    limits: IngestLimits = USUAL,
) -> tuple[IngestServer, Callable[[], None]]:
    """Start a server in a thread of its own; returns it and what stops it.

    ``port`` 0 takes a free one (``url`` says which). A server that others can reach needs a token.
    """
    if not token and not _is_loopback(host):
        raise SpecError(
            f"`{host}` can be reached from elsewhere, and no token was given",
            hint="give a token that the jobs have in TIDEMILL_TOKEN, or listen on 127.0.0.1",
        )
    spool = Spool(folder)
    try:
        server = IngestServer((host, port), spool, token, limits)
    except OSError as error:
        spool.close()
        raise SpecError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="choose another port"
        ) from error
    thread = Thread(target=server.serve_forever, args=(0.05,), name="tidemill-ingest", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        thread.join()
        server.close()

    return server, stop


def _size(header: str | None) -> int | None:
    return int(header) if header is not None and header.isdecimal() and len(header) < 16 else None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
