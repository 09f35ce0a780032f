"""How kernels are compiled: not for a single question, and once for all processes."""

import subprocess
import sys
from pathlib import Path

KERNELS = """
from tidemill.compiled import across

compiled = across(__file__)


@compiled
def double(n):
    return 2 * n


@compiled
def up_to(n):
    total = 0
    for i in range(n):
        total += double(i)
    return total
"""
PROGRAM = """
import sys
from tidemill.compiled import interpreting
import sums

with interpreting():
    print(sums.up_to(10), "numba" in sys.modules)
input()
print(sums.up_to(10))
print(sums.up_to.misses)
"""


def test_a_kernel_is_interpreted_for_a_question_and_then_compiled_once(tmp_path: Path):
    """A question does without numba; of two processes one compiles, and the other loads that."""
    (tmp_path / "sums.py").write_text(KERNELS)
    both = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "90 False\n"
        assert not list(tmp_path.rglob("*.nbi"))
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate()[0].split() for process in both]
    assert [result for result, *_ in told] == ["90", "90"]
    assert sum(int(misses) for _, misses in told) == 1
