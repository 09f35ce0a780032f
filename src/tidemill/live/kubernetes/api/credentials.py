"""What proves who asks: a token, a file that holds one, or a program that makes one.

Secrets are in no message and no representation. A program is run as kubectl runs it
(`client.authentication.k8s.io`), without a terminal, for a bounded time.
"""

import os
import subprocess
import time
from collections.abc import Mapping
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

    def refused(self) -> bool:
        """The server did not take it; whether it is worth to try with a new one."""


class FixedToken:
    """A token that does not change; empty: none."""

    def __init__(self, token: str = "") -> None:
        self._token = token

    def authorization(self) -> str:
        """What the header says."""
        return f"Bearer {self._token}" if self._token else ""

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

    def refused(self) -> bool:
        """It may have been renewed since."""
        is_old = time.monotonic() - self._read_at > 1
        self._read_at = -FRESH_S
        return is_old


class LoginProgram(Struct, frozen=True):
    """A program of a kubeconfig that makes tokens (`exec`)."""

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


class _ExecCredential(Struct, rename="camel"):
    status: _Status


class ProgramToken:
    """A token that a program makes, until it ends or is refused."""

    def __init__(self, program: LoginProgram) -> None:
        self._program = program
        self._token, self._until, self._made_at = "", 0.0, 0.0

    def authorization(self) -> str:
        """What the header says; runs the program where that is needed."""
        if not self._token or time.time() >= self._until - EARLY_S:
            self._make()
        return f"Bearer {self._token}"

    def refused(self) -> bool:
        """Another one may be taken, unless this one is new."""
        is_old = time.time() - self._made_at > 1
        self._token = ""
        return is_old

    def _make(self) -> None:
        told = self._run()
        try:
            made = msgspec.json.decode(told, type=_ExecCredential).status
        except msgspec.DecodeError:  # its message may quote what was printed
            raise self._failed("something else than an ExecCredential") from None
        if not made.token:
            what = "a client certificate" if made.client_certificate_data else "no token"
            raise self._failed(f"{what}, and only tokens are taken")
        ends = made.expiration_timestamp
        self._token, self._made_at = made.token, time.time()
        self._until = ends.timestamp() if ends is not None else float("inf")

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
            f"asked `{name}`, which the kubeconfig names, for a token; found {found}",
            hint=self._program.hint or f"run `kubectl get nodes`, which runs `{name}` too",
        )
