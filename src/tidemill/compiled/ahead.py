"""Compiling ahead: what a run is going to call, by two processes at once, before it calls it.

On a new machine everything that a replay calls is compiled once. A second process (this module, run
by itself) begins at the other end of the same list; what one is compiling the other leaves to it.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from tidemill import compiled

FEWEST = 3  # kernels that are not there; for fewer no second process is begun
LOOK_AGAIN_S = 0.05  # at what another process is compiling

on_progress: list[Callable[[int, int], None]] = []
"""Whoever wants to know how many of how many are there."""


def prepare_all(kernels: Sequence[Any]) -> None:
    """Have these kernels there, if several of them were never compiled on this machine."""
    if compiled.INTERPRETED or compiled.is_interpreting():
        return
    missing = [kernel for kernel in kernels if not kernel.is_kept]
    if len(missing) < FEWEST:
        return
    words = [f"{one.function.__module__}:{one.function.__qualname__}" for one in reversed(missing)]
    with subprocess.Popen([sys.executable, "-m", __name__, *words], stdout=subprocess.DEVNULL):
        _prepare(missing, _tell)


def _prepare(kernels: Sequence[Any], tell: Callable[[int, int], None]) -> None:
    """Prepare kernels, those first that nobody else is compiling."""
    left, count = list(kernels), len(kernels)
    while left:
        tell(count - len(left), count)
        found = next((kernel for kernel in left if not kernel.is_being_compiled), None)
        if found is None:
            time.sleep(LOOK_AGAIN_S)
        else:
            found.prepare_alone()
            left.remove(found)
    tell(count, count)


def _tell(there: int, count: int) -> None:
    for tell in on_progress:
        tell(there, count)


def main(words: Sequence[str]) -> None:
    """Prepare the kernels that are named."""
    named = (word.split(":") for word in words)
    _prepare([getattr(import_module(module), name) for module, name in named], lambda *_: None)


if __name__ == "__main__":
    main(sys.argv[1:])
