"""What processes spend: CPU-seconds, memory, and what the rest of the machine did meanwhile."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    """Between two moments."""

    wall_s: float
    cpu_s: dict[str, float]
    """By the names that the processes were given."""
    others_cores: float
    """How many cores were busy with anything else."""


class Meter:
    """What named processes spend from now on; this process is among them, as ``bench``."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = {**pids, "bench": os.getpid()}
        self._begun, self._machine = self._now(), _machine_s()
        self._begun_s = time.monotonic()

    def read(self) -> Spent:
        """Since the meter was made."""
        wall_s = time.monotonic() - self._begun_s
        cpu_s = {name: now - self._begun[name] for name, now in self._now().items()}
        others_s = _machine_s() - self._machine - sum(cpu_s.values())
        return Spent(wall_s, cpu_s, max(0.0, others_s / wall_s))

    def _now(self) -> dict[str, float]:
        return {name: cpu_s(pid) for name, pid in self._pids.items()}


def cpu_s(pid: int) -> float:
    """CPU-seconds that a process has spent, of its own and of the kernel for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def peak_mib(pid: int) -> float:
    """The most memory that a process has held at once."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def _machine_s() -> float:
    """CPU-seconds that all cores together were not idle."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    user, nice, system, _, _, interrupts, soft = map(int, fields[1:8])
    return (user + nice + system + interrupts + soft) / _TICKS_PER_S
