"""A stopwatch that knows no Tidemill: sums of seconds, one line after each change.

``lap = stopwatch.around("data", function)`` is that function, its calls timed under that name.
"""

import json
import os
import time
from collections.abc import Callable
from typing import Any

BEGAN_S = time.time()


class Stopwatch:
    """Seconds by name, of one process."""

    def __init__(self, path: str, job: str) -> None:
        self._log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._job = job
        self._sums: dict[str, float] = {}
        self.up_s = 0.0

    def up(self) -> None:
        """Training begins."""
        self.up_s = time.time()

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def timed(*args: Any, **named: Any) -> Any:  # noqa: ANN401 - the function's
            lap = time.perf_counter()
            try:
                return function(*args, **named)
            finally:
                spent_s = time.perf_counter() - lap
                self._sums[f"{name}_s"] = self._sums.get(f"{name}_s", 0.0) + spent_s
                self._write(name)

        return timed

    def step(self, flops: float) -> None:
        """A step, or a batch of one, is done."""
        self._sums["steps"] = self._sums.get("steps", 0) + 1
        self._sums["flops"] = self._sums.get("flops", 0) + flops
        self._write("step")

    def _write(self, name: str) -> None:
        line = {"job": self._job, "pid": os.getpid(), "began_s": BEGAN_S, "up_s": self.up_s}
        line |= {"at_s": time.time(), "after": name}
        os.write(self._log, (json.dumps(line | self._sums) + "\n").encode())
