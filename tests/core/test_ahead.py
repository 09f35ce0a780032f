"""Compiling ahead: two processes share what a run is going to call, and each thing is made once."""

import subprocess
import sys
from pathlib import Path

KERNELS = """
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tidemill.compiled import folder, shared


class Sums(NamedTuple):
    a: np.ndarray
    b: np.ndarray


kernel = folder(
    Path(__file__).parent,
    dimensions=lambda name: {"a": 1, "b": 2}.get(name, 0),
    whole={"t": (Sums, (1, 2), {})},
)


@kernel
@shared
def first(t, n):
    total = 0
    for i in range(n):
        total += t.a[i]
    return total


@kernel
@shared
def second(t, n):
    return first(t, n) + t.b[1, 1]


@kernel
def third(t, n):
    return 2 * second(t, n)


@kernel
def fourth(t, n):
    return third(t, n) + first(t, n)
"""
PROGRAM = """
import numpy as np
import sums
from tidemill.compiled import ahead

told = []
ahead.on_progress.append(lambda done, count: told.append((done, count)))
ahead.prepare_all([sums.fourth, sums.third, sums.second, sums.first])
t = sums.Sums(np.arange(5), np.arange(4).reshape(2, 2))
made = sum(one.misses for one in (sums.fourth, sums.third, sums.second, sums.first))
print(sums.fourth(t, 5), told[-1] if told else None, made)
"""


def test_two_processes_make_each_kernel_once(tmp_path: Path):
    """The second process begins at the other end; a later run compiles nothing, and asks nobody."""
    (tmp_path / "sums.py").write_text(KERNELS)

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path), "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split(maxsplit=1)

    value, told = run()
    assert value == str(2 * (10 + 3) + 10)
    assert told.startswith("(4, 4)")
    assert run()[1].split() == ["None", "0"]
