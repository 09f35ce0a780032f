"""A program whose wall clock is off: `python -m tests.rigs.kubernetes.off_clock FILE MODULE …`.

The file holds by how many nanoseconds, and may be changed while the program runs: then its clock is
set, as a daemon that keeps clocks would. Clocks that only measure lengths stay
right, and so does `datetime.now`, which cannot be replaced.
"""

import mmap
import runpy
import sys
import time
from pathlib import Path

BYTES = 8
_real_ns = time.time_ns


def write(path: Path, off_s: float) -> None:
    """Say by how much a clock is off."""
    path.touch()
    with path.open("r+b") as file:  # in place: whoever runs has it open
        file.write(round(off_s * 1e9).to_bytes(BYTES, "little", signed=True))


def set_off(path: Path) -> None:
    """Let everybody in this process read a clock that is off."""
    with path.open("rb") as file:
        told = mmap.mmap(file.fileno(), BYTES, access=mmap.ACCESS_READ)

    def time_ns() -> int:
        return _real_ns() + int.from_bytes(told[:BYTES], "little", signed=True)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


def main() -> None:
    """Run a module as `python -m` does."""
    path, module = Path(sys.argv[1]), sys.argv[2]
    sys.argv = [module, *sys.argv[3:]]
    set_off(path)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
