"""Kernels use their arguments as their names say."""

from typing import Any

import pytest

from tests.tidy import arguments
from tidemill import compiled
from tidemill.core.kernel import kernel

pytestmark = pytest.mark.skipif(compiled.INTERPRETED, reason="the types are those of the compiler")


def test_kernels_use_arguments_as_their_names_say():
    """No integer is called like a matrix, nor a matrix like an integer, and none is set anew."""
    found = list(arguments.kernels())
    assert len(found) > 300
    assert [f"{name}: {line}" for name, one in found for line in arguments.findings(one)] == []


@kernel
def adds(jobs: Any, j: Any) -> Any:
    return jobs + j


@kernel
def reads(j: Any, s: Any) -> Any:
    return j[s]


@kernel
def hands_on(shapes: Any, j: Any) -> Any:
    return adds(shapes, j) + adds(j, j)


@kernel
def sets(quotas: Any, j: Any) -> Any:
    quotas = j
    return quotas[0]


@kernel
def is_right(jobs: Any, shapes: Any, j: Any) -> Any:
    row = jobs[j]
    j += len(shapes) + shapes.shape[1]
    return row[j + 1]


@pytest.mark.parametrize(
    ("one", "found"),
    [
        (adds, ["`jobs` is used as an integer, and its name is that of a matrix"]),
        (reads, ["`j` is used as an array, and its name is that of an integer"]),
        (hands_on, ["`j` is handed on as `jobs`, which is something else"]),
        (sets, ["`quotas` is set, and its name is that of a matrix"]),
        (is_right, []),
    ],
)
def test_what_a_name_does_not_allow_is_found(one: Any, found: list[str]):
    """Each way to use an argument against its name is found, and the right ways are not."""
    assert list(arguments.findings(one)) == found
