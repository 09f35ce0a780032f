"""What kernels are written in: compiled, they do what they do as Python; else they are refused."""

import copy
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.core import language
from tidemill.compiled import INTERPRETED
from tidemill.compiled.translating.kinds import KernelError

pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
NUMBERS = st.integers(-(2**31), 2**31)
SMALL = st.integers(-40, 120)


def same(kernel: Any, *args: Any) -> None:
    """The compiled kernel returns and writes what its text does as Python."""
    ours = copy.deepcopy(args)
    wanted, found = kernel.function(*args), kernel(*ours)
    assert found == wanted
    for mine, theirs in zip(ours, args, strict=True):
        for one, other in zip(*map(_arrays, (mine, theirs)), strict=True):
            assert np.array_equal(one, other)


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return list(value)
    return [value]


@given(NUMBERS, NUMBERS.filter(bool))
@example(-7, 2)
@example(7, -2)
@example(-8, -1)
def test_division_rounds_down(a: int, b: int):
    """As Python's does, whatever the signs."""
    same(language.quotient, a, b)
    same(language.rest, a, b)
    same(language.by_seven, a)


def test_what_is_divided_by_zero_is_zero():
    """Nobody divides by zero; a processor would stop the whole program."""
    assert language.quotient(7, 0) == 0
    assert language.quotient(-(2**63), -1) == -(2**63)
    assert language.rest(-(2**63), -1) == 0


@given(NUMBERS, NUMBERS, NUMBERS)
def test_arithmetic(a: int, b: int, c: int):
    """Bits, signs, the least and the largest."""
    same(language.bits, a, b)
    same(language.extremes, a, b, c)


@given(SMALL, SMALL, SMALL)
@example(0, 3, 3)
@example(4, 4, 0)
@example(1, 0, 5)
def test_truths(a: int, b: int, c: int):
    """The operand that decides; comparisons in a row; a truth that becomes an integer."""
    same(language.first_that_decides, a, b, c)
    same(language.chain, a, b, c)
    same(language.steps, a, b)
    same(language.widened, a)


@given(SMALL, SMALL, st.integers(-5, 5).filter(bool))
def test_loops(a: int, b: int, c: int):
    """Ranges up and down, by a step that is known or not; loops that are left or go on."""
    same(language.ranges, a, b, c)
    same(language.endless, a)


@given(st.lists(SMALL, min_size=5, max_size=5), SMALL)
def test_arrays(numbers: list[int], a: int):
    """Rows, elements, and what is called with them."""
    row = np.array(numbers, np.int64)
    grid = np.arange(15, dtype=np.int64).reshape(3, 5) * a
    same(language.places, row, grid, np.arange(24, dtype=np.int64).reshape(2, 3, 4))
    same(language.calls, row, grid, a)
    same(language.nothing, row, a)
    same(language.known, abs(a))
    same(language.several, row, a)


@given(st.integers(0, 4), st.integers(0, 2**64 - 1), st.floats(-1e6, 1e6), st.booleans())
def test_other_numbers(a: int, word: int, real: float, flag: bool):
    """Short integers, words without a sign, reals and truths in arrays."""
    table = language.Table(
        np.arange(5), np.array([0, word], np.uint64), np.full((2, 2), a - 7, np.int16),
        np.array([0.0, real]), np.array([False, flag]),
    )  # fmt: skip
    same(language.tables, table, a)


def test_a_table_of_other_numbers_is_refused():
    """They would be misread; so would what is no tuple."""
    table = language.Table(
        np.arange(5), np.zeros(2, np.int64), np.zeros((2, 2), np.int16), np.zeros(2),
        np.zeros(2, bool),
    )  # fmt: skip
    with pytest.raises(TypeError, match="Table"):
        language.tables(table, 1)
    for other in ([*table], None, 5, type):
        with pytest.raises(TypeError, match="Table"):
            language.tables(other, 1)
    with pytest.raises(TypeError, match="without gaps"):
        language.nothing(np.zeros(3, np.int32), 1)
    with pytest.raises(TypeError, match="2 arguments"):
        language.nothing(np.zeros(3, np.int64))
    with pytest.raises(TypeError, match="int"):
        language.known("3")


REFUSED = {
    "a dictionary": "return {a: 1}",
    "an unknown name": "return missing(a)",
    "a slice": "return row[1:]",
    "an allocation": "return len([a])",
    "a call of itself": "return f(row, a - 1)",
    "an argument by name": "return max(a, b=2)",
    "read before it is set": "b += a\n    return b",
    "an integer and an array": "b = a\n    b = row\n    return a",
    "an integer or nothing": "if a:\n        return 1",
    "an array for Python": "return row",
    "too many indices": "return row[a, a]",
    "an array as a truth": "return 1 if row else 2",
    "too large": "return 1 << 3 + 0x8000000000000000",
    "words and integers": "return a + U",
    "a sum of a row": "return row + 1",
    "an exception": "raise ValueError",
    "an attribute": "return row.size",
    "an else of a loop": "for i in range(a):\n        pass\n    else:\n        a = 1\n    return a",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_compiled_is_refused(tmp_path: Path, body: str):
    """With the file and the line, when the kernel is first called."""
    path = tmp_path / "refused.py"
    path.write_text(f"""
from pathlib import Path
import numpy as np
from tidemill.compiled import folder

U = np.uint64(3)
kernel = folder(Path(__file__).parent, dimensions=lambda name: int(name == "row"), whole={{}})


@kernel
def f(row, a):
    {body}
""")
    spec = importlib.util.spec_from_file_location("refused", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(KernelError, match=r"refused|no none|no array"):
        module.f(np.arange(3), 2)


CHECKED = """
import numpy as np
from tests.core import language

row, grid, cube = np.arange(4), np.arange(15).reshape(3, 5), np.arange(24).reshape(2, 3, 4)
print(language.calls(row, grid, 2), language.nothing(row, 4), language.known(3))
print(language.places(row, grid, cube))
for wrong in (row[:1], row[:0]):
    try:
        print(language.calls(wrong, grid, 2))
    except IndexError as error:
        print(error)
"""


def test_an_index_beyond_the_end_is_found():
    """With the checks on results are the same, and a wrong index raises, also in a callee."""
    told = [
        subprocess.run(
            [sys.executable, "-c", CHECKED],
            cwd=Path(__file__).parents[2],
            env={"PATH": "", "PYTHONPATH": ":".join(sys.path), "TIDEMILL_BOUNDSCHECK": checks},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for checks in ("0", "1")
    ]
    assert told[0][:2] == told[1][:2]
    assert told[1][2:] == ["an index is below zero or beyond the end of an array"] * 2
