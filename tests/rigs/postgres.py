"""A real PostgreSQL on this machine: a server in a folder of its own, on loopback.

The server refuses to run as root, so there it is started as the user ``postgres``. It is stopped,
or killed, by its process id. Needs what ``tools/postgres.sh`` installs.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import NamedTuple

from tests.rigs.slurm.cluster import free_ports

NEEDED = ("initdb", "postgres")
PATIENCE_S = 30.0
PAUSE_S = 0.01
USER = "postgres"
DATABASE = "postgres"
_PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
PATH = os.pathsep.join([*map(str, _PLACES), os.environ.get("PATH", "")])
_QUICK = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on"}


def missing() -> str:
    """Why no server can be started here; empty where it can."""
    lacking = [name for name in NEEDED if not shutil.which(name, path=PATH)]
    if lacking:
        return f"no {', '.join(lacking)} here; hint: tools/postgres.sh installs it"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(USER)
        except KeyError:
            return f"it does not run as root, and there is no user `{USER}`"
    return ""


class Server(NamedTuple):
    """Where a server listens, and how to stop and start it."""

    folder: Path
    port: int
    settings: dict[str, str]
    process: list[subprocess.Popen[bytes]]

    def address(self, journal: str, *, user: str = USER, password: str = "") -> str:
        """The address of a journal, through loopback."""
        who = f"{user}:{password}" if password else user
        return f"postgresql://{who}@127.0.0.1:{self.port}/{DATABASE}?journal={journal}"

    def start(self) -> None:
        """Start the server; it answers when this returns."""
        words = [f"-c{key}={value}" for key, value in self.settings.items()]
        log = (self.folder / "log").open("ab")
        with log:
            self.process.append(
                subprocess.Popen(
                    as_user("postgres", "-D", str(self.folder / "data"), f"-p{self.port}",
                            "-k", str(self.folder), *words),
                    stdout=log, stderr=log, cwd=self.folder, env=os.environ | {"PATH": PATH},
                )
            )  # fmt: skip
        end = time.monotonic() + PATIENCE_S
        while not self._answers():
            is_late = time.monotonic() > end or self.process[-1].poll() is not None
            assert not is_late, (self.folder / "log").read_text()[-2000:]
            _pause()

    def stop(self) -> None:
        """Stop it at once; every session ends."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill it as hard as can be, with all of its processes: none is asked to finish."""
        process = self.process[-1]
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in (process.pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
        _wait_for_end([int(pid) for pid in children])

    def _end(self, how: signal.Signals) -> None:
        process = self.process[-1]
        if process.poll() is None:
            process.send_signal(how)
            process.wait(PATIENCE_S)

    def _answers(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(
                host="127.0.0.1", port=self.port, user=USER, dbname=DATABASE, connect_timeout=2
            ):
                return True
        except psycopg.OperationalError:
            return False


def _wait_for_end(pids: list[int]) -> None:
    """Wait until these processes are gone; a new server refuses to start before."""
    end = time.monotonic() + PATIENCE_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
        _pause()


def _pause() -> None:
    Event().wait(PAUSE_S)


def as_user(*words: str) -> list[str]:
    """A command as somebody whom the server accepts: setpriv keeps the process id."""
    program = shutil.which(words[0], path=PATH)
    assert program is not None, words[0]
    found = [program, *words[1:]]
    if os.geteuid() != 0:
        return found
    user = pwd.getpwnam(USER)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups", *found]


@contextmanager
def running(*, in_memory: bool = True, **settings: str) -> Iterator[Server]:
    """Make a server and start it; stopped and removed afterwards, whatever happened."""
    memory = Path("/dev/shm")
    is_roomy = in_memory and memory.is_dir() and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(
        prefix="tidemill-pg-", dir=memory if is_roomy else None
    ) as name:
        folder = Path(name)
        if os.geteuid() == 0:
            user = pwd.getpwnam(USER)
            os.chown(folder, user.pw_uid, user.pw_gid)
        subprocess.run(
            as_user("initdb", "-D", str(folder / "data"), "-U", USER, "--auth=trust",
                    "--no-sync", "--encoding=UTF8", "--locale=C"),
            check=True, capture_output=True, cwd=folder, env=os.environ | {"PATH": PATH},
        )  # fmt: skip
        given = _QUICK | {"listen_addresses": "127.0.0.1", "max_connections": "30"} | settings
        server = Server(folder, free_ports(1)[0], given, [])
        server.start()
        try:
            yield server
        finally:
            server.stop()
