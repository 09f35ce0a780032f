"""What proves who asks: a token, a file that holds one, or a program that makes one, or a client
certificate.

Secrets are in no message and no representation. A program is run as kubectl runs it
(`client.authentication.k8s.io`), without a terminal, for a bounded time.
"""

import os
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from tidemill.model.errors import BackendError, SpecError

FRESH_S = 60.0
"""So long a token from a file is used before it is read again: a cluster renews it in place."""
EARLY_S = 30.0
"""So long before it ends a token is made anew."""
PROGRAM_S = 60.0
MOST_BYTES = 1 << 20


class Credentials(Protocol):
    """Who asks."""

    def authorization(self) -> str:
        """What the header says; "": nothing."""

    def tls(self, given: ssl.SSLContext | None) -> ssl.SSLContext | None:
        """How connections are made now; ``given``: as the kubeconfig says."""

    def refused(self) -> bool:
        """The server did not take it; whether it is worth to try with a new one."""


class FixedToken:
    """A token that does not change; empty: none."""

    def __init__(self, token: str = "") -> None:
        self._token = token

    def authorization(self) -> str:
        """What the header says."""
        return f"Bearer {self._token}" if self._token else ""

    def tls(self, given: ssl.SSLContext | None) -> ssl.SSLContext | None:
        """A token is in no connection."""
        return given

    def refused(self) -> bool:
        """A new one would be the same."""
        return False


class TokenFile:
    """A token in a file that somebody renews."""

    def __init__(self, path: Path) -> None:
        self._path, self._token, self._read_at = path, "", -FRESH_S

    def authorization(self) -> str:
        """What the header says."""
        if time.monotonic() - self._read_at >= FRESH_S:
            try:
                self._token = self._path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise SpecError(
                    f"the token file `{self._path}` cannot be read: {type(error).__name__}",
                    hint="check the path and who may read it",
                ) from None
            self._read_at = time.monotonic()
        return f"Bearer {self._token}"

    def tls(self, given: ssl.SSLContext | None) -> ssl.SSLContext | None:
        """A token is in no connection."""
        return given

    def refused(self) -> bool:
        """It may have been renewed since."""
        is_old = time.monotonic() - self._read_at > 1
        self._read_at = -FRESH_S
        return is_old


class LoginProgram(Struct, frozen=True):
    """A program of a kubeconfig that makes tokens or certificates (`exec`)."""

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    version: str
    hint: str
    info: bytes
    """What it is told in KUBERNETES_EXEC_INFO."""


class _Status(Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: datetime | None = None
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(Struct, rename="camel"):
    status: _Status


class ProgramLogin:
    """A token, a client certificate or both that a program makes, until they end or are refused.

    ``new_tls``: makes the way to connect for a certificate of its own; None: without TLS.
    """

    def __init__(
        self, program: LoginProgram, new_tls: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        self._program, self._new_tls = program, new_tls
        self._token, self._until, self._made_at = "", 0.0, 0.0
        self._tls: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        """Watches ask by threads of their own: one of them runs the program."""

    def authorization(self) -> str:
        """What the header says; runs the program where that is needed."""
        self._renew()
        return f"Bearer {self._token}" if self._token else ""

    def tls(self, given: ssl.SSLContext | None) -> ssl.SSLContext | None:
        """With the certificate, if it made one; each is in a context of its own, for a connection
        that is being made is not to find half of another.
        """
        self._renew()
        return self._tls or given

    def refused(self) -> bool:
        """Another one may be taken, unless this one is new."""
        is_old = time.time() - self._made_at > 1
        self._until = 0.0
        return is_old

    def _renew(self) -> None:
        with self._lock:
            if time.time() >= self._until - EARLY_S:
                self._make()

    def _make(self) -> None:
        told = self._run()
        try:
            made = msgspec.json.decode(told, type=_ExecCredential).status
        except msgspec.DecodeError:  # its message may quote what was printed
            raise self._failed("something else than an ExecCredential") from None
        if not made.token and not made.client_certificate_data:
            raise self._failed("no token and no client certificate")
        self._tls = self._with_certificate(made) if made.client_certificate_data else None
        ends = made.expiration_timestamp
        self._token, self._made_at = made.token, time.time()
        self._until = ends.timestamp() if ends is not None else float("inf")

    def _with_certificate(self, made: _Status) -> ssl.SSLContext | None:
        if not made.client_key_data:
            raise self._failed("a client certificate without its key")
        if self._new_tls is None:
            raise self._failed("a client certificate, which a server without TLS cannot ask for")
        tls = self._new_tls()
        try:
            add_pair(tls, made.client_certificate_data.encode(), made.client_key_data.encode())
        except (ssl.SSLError, ValueError):
            raise self._failed("a client certificate and a key that do not fit") from None
        return tls

    def _run(self) -> bytes:
        program = self._program
        try:
            done = subprocess.run(
                [program.command, *program.arguments], stdin=subprocess.DEVNULL,
                capture_output=True, timeout=PROGRAM_S, check=False,
                env={**os.environ, **program.environment,
                     "KUBERNETES_EXEC_INFO": program.info.decode()},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise self._failed(f"no end within {PROGRAM_S:g} s") from None
        except OSError as error:
            raise self._failed(error.strerror or type(error).__name__) from None
        if done.returncode or len(done.stdout) > MOST_BYTES:
            said = done.stderr[:300].decode("utf-8", "replace").strip().partition("\n")[0]
            raise self._failed(f"exit code {done.returncode}" + (f" ({said})" if said else ""))
        return done.stdout

    def _failed(self, found: str) -> BackendError:
        name = Path(self._program.command).name
        return BackendError(
            f"asked `{name}`, which the kubeconfig names, who asks; found {found}",
            hint=self._program.hint or f"run `kubectl get nodes`, which runs `{name}` too",
        )


def add_pair(tls: ssl.SSLContext, *parts: bytes) -> None:
    """Let connections show a client certificate; from memory through a file that nobody else may
    read (mode 0600), at once removed: OpenSSL takes it from nowhere else.
    """
    with tempfile.NamedTemporaryFile(prefix="tidemill-", suffix=".pem") as both:
        both.write(b"\n".join(parts))
        both.flush()
        tls.load_cert_chain(both.name, password=_no_password)


def _no_password() -> str:
    """Without it OpenSSL would ask on the terminal."""
    return ""
