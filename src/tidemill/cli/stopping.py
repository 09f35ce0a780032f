"""Until a signal says stop, at whatever moment it comes.

A handler runs in the thread that waits, between any two of its steps. An event with a lock (as
``threading.Event`` is) may be held by that very thread then, and waits for itself for ever. A byte
in a pipe has no lock.
"""

import os
import select
import signal
from contextlib import suppress
from typing import Self


class StopSignals:
    """Ctrl-C and SIGTERM, as a context manager: within it they are heard, and end nothing else."""

    def __init__(self) -> None:
        self._heard, self._hearing = os.pipe()
        os.set_blocking(self._hearing, False)
        self._before = {number: signal.signal(number, self._hear)
                        for number in (signal.SIGINT, signal.SIGTERM)}  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        os.close(self._heard)
        os.close(self._hearing)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait so long, or for ever; true: one came, now or before."""
        return bool(select.select([self._heard], [], [], seconds)[0])

    def _hear(self, *_: object) -> None:
        with suppress(BlockingIOError):  # full of those that came before
            os.write(self._hearing, b"!")
