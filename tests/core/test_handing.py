"""How tuples of arrays get into kernels: by a pointer, and only if they are what is wanted."""

import ast
from pathlib import Path

import numpy as np
import pytest

import tidemill
from tidemill.compiled import INTERPRETED
from tidemill.core import heaps, places
from tidemill.model.world import World


@pytest.mark.skipif(INTERPRETED, reason="interpreted kernels take what Python takes")
@pytest.mark.parametrize("wrong", ["fewer", "flat", "turned"])
def test_a_tuple_of_other_arrays_is_refused(wrong: str):
    """What would be read from the wrong place is never read."""
    w = World().ink.w
    match wrong:
        case "fewer":
            given: object = tuple(w[:-1])
        case "flat":
            given = w._replace(jobs=w.jobs.ravel())
        case _:
            given = w._replace(jobs=np.zeros((4, w.jobs.shape[1]), np.int64).T)
    with pytest.raises(TypeError, match="State"):
        places.hop_of(given, 0)


@pytest.mark.skipif(INTERPRETED, reason="interpreted kernels take what Python takes")
def test_a_matrix_with_gaps_is_refused():
    """A part of some columns, which would be misread as if its rows followed one another."""
    wide = np.arange(40, dtype=np.int64).reshape(5, 8)
    assert heaps.goes_before(np.ascontiguousarray(wide[:, :4]), 0, 1, 1)
    with pytest.raises(TypeError, match="without gaps"):
        heaps.goes_before(wide[:, :4], 0, 1, 1)


def test_no_kernel_counts_from_the_end():
    """Kernels take an index as it is; one below zero would be read from before the array."""
    found = list[str]()
    for path in sorted(Path(tidemill.__file__).parent.rglob("*.py")):
        text = path.read_text()
        if "@kernel" in text:
            found += [f"{path}:{line}" for line in _below_zero(ast.parse(text))]
    assert not found


def _below_zero(tree: ast.AST) -> list[int]:
    """The lines of kernels that have an index which is written as a number below zero."""
    kernels = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    inside = (part for one in kernels if _is_kernel(one) for part in ast.walk(one))
    indices = [part.slice for part in inside if isinstance(part, ast.Subscript)]
    each = [
        i for index in indices for i in (index.elts if isinstance(index, ast.Tuple) else [index])
    ]
    return [i.lineno for i in each if isinstance(i, ast.UnaryOp) and isinstance(i.op, ast.USub)]


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "kernel" for one in function.decorator_list)


def test_an_index_below_zero_is_found_in_a_text():
    """The look itself finds one, by itself and beside another."""
    text = "@kernel\ndef f(a, i):\n    return a[-1] + a[i, -2]\n"
    assert _below_zero(ast.parse(text)) == [3, 3]
