"""Schedulers that start at once: each is forked from a process that has loaded everything.

Loading takes a second of the processor, and two hundred kills need as many starts. What is killed
is a process as any other, with the whole command in it.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.rigs.kubernetes.cluster import DIE_WITH_US
from tests.rigs.kubernetes.scheduled import Child, Process

_PDEATHSIG = 1


class ForkedProcess(Process):
    """A scheduler that is started again and again; a context manager for whom it is forked from."""

    def __enter__(self) -> "ForkedProcess":
        self._parent = subprocess.Popen(
            [*DIE_WITH_US, sys.executable, "-m", "tests.rigs.kubernetes.forked"], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.kill()
        self._parent.wait(10)
        for pipe in (self._parent.stdin, self._parent.stdout):
            if pipe is not None:
                pipe.close()

    def launch(self, command: list[str], log: Path) -> Child:
        """Fork one that runs a command of Tidemill."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        told = json.dumps({"command": command, "log": str(log)})
        self._parent.stdin.write(told.encode() + b"\n")
        self._parent.stdin.flush()
        return _ForkedChild(int(self._parent.stdout.readline()), self._parent.stdout.fileno())


class _ForkedChild:
    """The same as of a process that was started as usual, as far as the rig needs it."""

    def __init__(self, pid: int, ends: int) -> None:
        self.pid, self._ends = pid, ends
        self._status: int | None = None

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("a scheduler", timeout or 0.0)
        return status

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _ended(self, timeout: float | None) -> int | None:
        if self._status is None and select.select([self._ends], [], [], timeout)[0]:
            told = b""
            while not told.endswith(b"\n"):
                told += os.read(self._ends, 1)
            self._status = int(told)
        return self._status


def main() -> None:
    """Fork a child for every line, and say its pid; then how it ended."""
    from tidemill.cli import main as cli
    from tidemill.live.kubernetes.scheduling import rehearsal, running

    rehearsal.rehearse(running.live_policy(running.Policy()), running.FleetRules())
    for line in sys.stdin:
        asked, pid = json.loads(line), os.fork()
        if pid == 0:
            ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
            log = os.open(asked["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.argv = ["tidemill", *asked["command"]]
            cli.main()
            os._exit(0)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
