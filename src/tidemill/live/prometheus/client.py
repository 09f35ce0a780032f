"""Prometheus' HTTP API, as far as it is needed: questions, bounded answers, patience.

Nothing here changes anything. Tokens and passwords come from the environment or a file and are in
no message. An answer is never larger in memory than ``MOST_BYTES``: the question is then too large
(``TooLarge``) and the caller asks for less.
"""

import base64
import math
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from threading import Event, Timer
from typing import NamedTuple
from urllib.parse import SplitResult, urlencode, urlsplit

from tidemill.live.prometheus import answers
from tidemill.model.errors import BackendError, SpecError

MOST_BYTES = 32 << 20
"""Of one answer: about 1.2 million samples; decoding takes six times as much for a moment."""
TIMEOUT_S = 120.0
"""Of one whole answer, however slowly it comes: Prometheus itself gives up after two minutes
(``--query.timeout``)."""
PATIENCE_S = 120.0
"""How long a server that is down, busy or restarting is asked again."""
LONGEST_WAIT_S = 15.0
LONGEST_URL = 4_000
TOKEN, USER, PASSWORD = (
    "TIDEMILL_PROMETHEUS_TOKEN",
    "TIDEMILL_PROMETHEUS_USER",
    "TIDEMILL_PROMETHEUS_PASSWORD",
)
_TOO_LARGE = (
    "exceeded maximum resolution",
    "too many samples",
    "exceeds the limit",
    "exceeded the limit",
    "too large",
    "query timed out",
    "max-chunks",
    "limit: ",
    "too many points",
)
"""What Prometheus, Thanos, Mimir and VictoriaMetrics say of a question that asks for too much."""


class TooLarge(Exception):  # noqa: N818 - a refusal, and the caller's to answer with less
    """An answer has more bytes than are taken, or the server says that it asks for too much."""


class Access(NamedTuple):
    """How a server is asked: what proves who asks, and what proves who answers."""

    authorization: str = ""
    ca_file: Path | None = None

    @classmethod
    def told(cls, token_file: Path | None = None, ca_file: Path | None = None) -> "Access":
        """From a file, else from the environment."""
        if token_file is not None:
            token = token_file.read_text(encoding="utf-8").strip()
            if not token:
                raise SpecError(f"`{token_file}` holds no token", hint="write the token into it")
            return cls(f"Bearer {token}", ca_file)
        if token := os.environ.get(TOKEN, "").strip():
            return cls(f"Bearer {token}", ca_file)
        if user := os.environ.get(USER, ""):
            pair = f"{user}:{os.environ.get(PASSWORD, '')}".encode()
            return cls("Basic " + base64.b64encode(pair).decode(), ca_file)
        return cls("", ca_file)


NOBODY = Access()


class Client:
    """One server, asked one question at a time over one connection."""

    def __init__(
        self,
        url: str,
        access: Access = NOBODY,
        *,
        patience_s: float = PATIENCE_S,
        timeout_s: float = TIMEOUT_S,
        within_s: float = math.inf,
        on_retry: Callable[[str], None] | None = None,
    ) -> None:
        """``within_s``: of all questions together, for those who cannot wait longer."""
        self._address = _address(url)
        self.url = f"{self._address.scheme}://{self._address.netloc}{self._address.path}"
        self._access, self._patience_s, self._timeout_s = access, patience_s, timeout_s
        self._within_s, self._until_s = within_s, time.monotonic() + within_s
        self._connection: HTTPConnection | None = None
        self._is_cut = False
        self._on_retry = on_retry
        self.warnings: set[str] = set()
        """What the server said beside its answers, such as that a part of them is missing."""

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; the next question makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def samples(self, selector: str, start_ms: int, end_ms: int) -> list[answers.Series]:
        """The samples of these series from ``start_ms`` to before ``end_ms``, as they are kept.

        A range selector in an instant query, not a range query: that one would repeat an old sample
        for five minutes where samples are missing. The left end is open since Prometheus 3 and
        closed before, so it is asked for a millisecond earlier and cut by ``answers``.
        """
        query = f"{selector}[{end_ms - start_ms}ms]"
        data = self._ask("query", {"query": query, "time": _seconds(end_ms - 1)})
        return answers.matrix(data, query)

    def curve(self, query: str, start_ms: int, end_ms: int, step_ms: int) -> list[answers.Series]:
        """An expression at every step: a range query."""
        told = {"query": query, "start": _seconds(start_ms), "end": _seconds(end_ms - 1),
                "step": _seconds(step_ms)}  # fmt: skip
        return answers.matrix(self._ask("query_range", told), query)

    def label_values(self, label: str, match: str, start_ms: int, end_ms: int) -> list[str]:
        """The values of a label among the series that match in a stretch of time."""
        told = {"match[]": match, "start": _seconds(start_ms), "end": _seconds(end_ms)}
        what = f"the values of label {label}"
        found = self._ask(f"label/{label}/values", told, has_form=False, what=what)
        return answers.words(found, match)

    def series(self, match: str, start_ms: int, end_ms: int) -> list[dict[str, str]]:
        """The labels of the series that match in a stretch of time."""
        told = {"match[]": match, "start": _seconds(start_ms), "end": _seconds(end_ms)}
        return answers.label_sets(self._ask("series", told), match)

    def clock_ahead_ms(self) -> int:
        """How far its clock is ahead of this machine's."""
        before = time.time()
        told = answers.scalar(self._ask("query", {"query": "time()"}))
        return round((told - (before + time.time()) / 2) * 1000)

    def _ask(
        self, path: str, told: dict[str, str], *, has_form: bool = True, what: str = ""
    ) -> answers.ApiAnswer:
        """One answer; a server that fails is asked again until patience ends.

        ``what``: what is asked for, in messages.
        """
        what = what or told.get("query") or told.get("match[]") or path
        if time.monotonic() >= self._until_s:
            raise self._too_slow(what)
        begun, wait_s, tries = time.monotonic(), 0.05, 0
        while True:
            tries += 1
            try:
                answer = self._once(path, told, what, has_form=has_form)
            except _Retry as error:
                self.close()
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
                if time.monotonic() + wait_s > self._until_s:
                    raise self._too_slow(what) from error
                if time.monotonic() - begun + wait_s > self._patience_s:
                    raise self._gave_up(what, error, tries) from error
                if tries == 1 and self._on_retry is not None:
                    self._on_retry(f"{self.url}: {error}; trying again for {self._patience_s:g} s")
                Event().wait(max(wait_s, error.after_s))
                continue
            self.warnings.update(answer.warnings)
            return answer

    def _gave_up(self, what: str, error: Exception, tries: int) -> BackendError:
        times = "once" if tries == 1 else f"{tries} times"
        return BackendError(
            f"asked {self.url} for `{what[:200]}`, {times}: {error}",
            hint="check that a Prometheus runs at that address; `tidemill prometheus fetch` waits"
            " two minutes for each answer, keeps what was read, and goes on from there when it is"
            " called again",
        )

    def _too_slow(self, what: str) -> BackendError:
        return BackendError(
            f"asked {self.url} for `{what[:200]}`: it answers too slowly, and {self._within_s:,.0f}"
            " s for all questions are over",
            hint="see what its queries take (its page /status, `prometheus_engine_*`); longer"
            " scrapes or fewer series make it quicker",
        )

    def _once(
        self, path: str, told: dict[str, str], what: str, *, has_form: bool
    ) -> answers.ApiAnswer:
        try:
            with self._in_time():
                response = self._send(path, urlencode(told), has_form=has_form)
                body = _bounded(response)
        except ssl.SSLCertVerificationError as error:
            raise BackendError(
                f"asked {self.url}: its certificate is not trusted ({error.verify_message})",
                hint="give the certificate of whoever signed it with --ca-file",
            ) from error
        except (OSError, HTTPException) as error:
            raise _Retry(self._words(error)) from error
        return self._judged(response, body, what)

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """End the connection if an answer is not whole in time, though some of it trickles in."""
        self._is_cut = False
        left_s = max(0.0, self._until_s - time.monotonic())
        timer = Timer(min(self._timeout_s, left_s), self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (OSError, HTTPException) as error:
            if self._is_cut:
                raise TimeoutError from error
            raise
        finally:
            timer.cancel()
        if self._is_cut:  # what had come by then looks like all of it
            raise TimeoutError

    def _cut(self) -> None:
        """From another thread: whoever reads of the connection reads its end."""
        self._is_cut = True
        sock = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _words(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"no answer in time (within {self._timeout_s:g} s it was not whole)"
        return str(error) or type(error).__name__

    def _judged(self, response: HTTPResponse, body: bytes, what: str) -> answers.ApiAnswer:
        """The answer, or why there is none."""
        status = response.status
        try:
            answer = answers.read(body)
        except ValueError as error:
            if status == 200:
                raise _Retry(f"the answer is cut off or no JSON ({len(body):,} bytes)") from error
            answer = answers.ApiAnswer("error", error=body[:200].decode(errors="replace").strip())
        if status == 200 and answer.status == "success":
            return answer
        said = answer.error or response.reason
        if any(words in said for words in _TOO_LARGE) or status == 413:
            raise TooLarge(said)
        if status in (429, 408) or status >= 500:
            raise _Retry(f"status {status}: {said[:200]}", _after_s(response))
        raise BackendError(
            f"asked {self.url} for `{what[:200]}`: status {status}, {said[:300]}",
            hint=_HINTS.get(status, "check the address: it ends before /api/v1"),
        )

    def _send(self, path: str, query: str, *, has_form: bool) -> HTTPResponse:
        if self._connection is None:
            self._connection = self._connect()
        headers = {"Accept": "application/json", "User-Agent": "tidemill"}
        if self._access.authorization:
            headers["Authorization"] = self._access.authorization
        place = f"{self._address.path}/api/v1/{path}"
        if has_form and len(query) > LONGEST_URL:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            self._connection.request("POST", place, query, headers)
        else:
            self._connection.request("GET", f"{place}?{query}", headers=headers)
        return self._connection.getresponse()

    def _connect(self) -> HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "http":
            return HTTPConnection(host, port, timeout=self._timeout_s)
        context = ssl.create_default_context(cafile=self._access.ca_file)
        return HTTPSConnection(host, port, timeout=self._timeout_s, context=context)


class _Retry(Exception):  # noqa: N818 - not an error yet
    """Asking again may help."""

    def __init__(self, message: str, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.after_s = after_s


_HINTS = {
    401: f"it wants to know who asks: set {TOKEN}, or {USER} and {PASSWORD}, or give --token-file",
    403: "this token or user may not read it",
    404: "no Prometheus API there: give the address that ends before /api/v1",
}


def _address(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise SpecError(
            "the address has a user or a password in it, which others on this machine can read",
            hint=f"set {USER} and {PASSWORD}, or {TOKEN}",
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SpecError(
            f"`{url}` is no address of a Prometheus", hint="such as http://prometheus:9090"
        )
    path = parts.path.rstrip("/").removesuffix("/api/v1")
    return parts._replace(path=path, query="", fragment="")


def _bounded(response: HTTPResponse) -> bytes:
    """The whole body; ``TooLarge`` where it has more bytes than are taken."""
    body = response.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise TooLarge(f"more than {MOST_BYTES >> 20} MiB")
    missing = response.length or 0  # of a body with a known length that ended early
    if missing:
        raise OSError(f"the answer ended {missing:,} bytes early")
    return body


def _after_s(response: HTTPResponse) -> float:
    told = response.getheader("Retry-After", "")
    return min(float(told), LONGEST_WAIT_S) if told.isdecimal() else 0.0


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f}"
