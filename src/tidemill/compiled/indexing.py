"""How kernels get at the numbers of an array: by rows from the front, one after another.

Numba lets an index below zero count from the end, as Python does: a comparison, an addition and the
length of the array for each number that is read. No kernel counts from the end (the suite reads
their text, and ``NUMBA_BOUNDSCHECK=1`` raises where one does), and without it all kernels of a
replay took 16 % less time (20,000 jobs of ``bench ordinary``, November 2026).

Numba trusts that an array which is handed over by itself has its rows one after another, as the
kernel was compiled for; one with gaps it would misread in silence. So that is asked at the door, as
it is of tuples (``handing``).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba import types
from numba.core import boxing, cgutils, pythonapi
from numba.cpython import slicing
from numba.extending import NativeValue

from tidemill.compiled.handing import has_gaps


@contextmanager
def from_the_front() -> Iterator[None]:
    """What is compiled within this takes indices as they are, and arrays only without gaps.

    Only within: whoever else uses numba in this process finds it as it is.
    """
    wrap, doors = slicing.fix_index, pythonapi._unboxers.functions
    unbox = doors.get(types.Array, boxing.unbox_array)

    def take(kind: Any, value: Any, c: Any) -> NativeValue:  # noqa: ANN401 - without types
        return _without_gaps(unbox(kind, value, c), kind, value, c)

    setattr(slicing, wrap.__name__, lambda _, index, __: index)
    doors[types.Array] = take
    try:
        yield
    finally:
        setattr(slicing, wrap.__name__, wrap)
        doors[types.Array] = unbox


def _without_gaps(taken: Any, kind: Any, value: Any, c: Any) -> NativeValue:  # noqa: ANN401 - as above
    """An array that numba took, unless its rows do not follow one after another."""
    builder = c.builder
    failed = cgutils.alloca_once_value(builder, taken.is_error)
    with builder.if_then(builder.not_(taken.is_error)):
        is_wrong = has_gaps(builder, value)
        builder.store(is_wrong, failed)
        with builder.if_then(is_wrong, likely=False):
            c.pyapi.err_set_string("PyExc_TypeError", f"a kernel wants {kind} without gaps")
    return NativeValue(taken.value, cleanup=taken.cleanup, is_error=builder.load(failed))
