"""Column tables: the World for machines. Each is a NamedTuple of equal-length arrays.

Arrays have room to grow: the World knows how many rows are in use. ``grown`` copies into larger
arrays, ``sealed`` gives read-only views of the same memory: the core reads those, only the fold
holds the writable side.
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]


NEVER_PASSED = -1  # in ``Jobs.passed_ms``


class Jobs(NamedTuple):
    """One row a job; what the scheduler, the workload layer and the ledger read of it."""

    shape: I32
    state: U8
    attempt: I32
    submit_ms: I64
    since_ms: I64
    origin_ms: I64
    saved_ms: I64
    placed_ms: I64
    ran_ms: I64
    reached_ms: I64
    estimate_ms: I64
    startup_ms: I64
    restart_ms: I64
    interval_ms: I64
    cost_ms: I64
    busy_ppm: I32
    mfu_ppm: I32
    host_ppm: I32
    links_ppm: I32
    memory_ppm: I32
    confidence: U8
    is_leaving: U8
    resize_ms: I64
    speed_ppm: I32
    hop: U8
    slow_ppm: I32
    passed_ms: I64
    """When a later job first passed it in this wait; NEVER_PASSED: nobody has."""
    evictions: I32
    """How often it was stopped for another job."""
    fruitless: I32
    """How often since it last saved any work."""


class Nodes(NamedTuple):
    """One row a node; free amounts are of working devices, stranded is what no profile can use."""

    contract: I32
    kind: I32
    group: I32
    state: U8
    is_spare: U8
    asked: U8
    why: U8
    since_ms: I64
    deadline_ms: I64
    emptied_ms: I64
    first_device: I32
    devices: I32
    cpu_milli: I64
    memory_mib: I64
    cpu_free_milli: I64
    memory_free_mib: I64
    free_milli: I64
    stranded_milli: I64
    failed: I32


class Devices(NamedTuple):
    """One row an accelerator; a node's devices are neighbours.

    ``slices`` is the mask of what MIG instances take (``units.mig.geometry``). While it is not
    empty nothing of the device is free by the milli.
    """

    free_milli: I32
    is_failed: U8
    slices: I32


class Contracts(NamedTuple):
    """One row a contract."""

    kind: I32
    count_milli: I64
    rate_usd_micro: I64
    is_running: U8
    is_reserved: U8
    asked_nodes: I32
    nodes: I32
    launched_milli: I64


class Shapes(NamedTuple):
    """One row a shape: the group of jobs that the scheduler cannot tell apart.

    What placement looks ahead with: ``mixed``, arrivals when the mix was last taken over;
    ``noted``, arrivals at the last look; ``hosts``, nodes that could take a replica then.
    """

    queue: I32
    priority: I32
    total_milli: I64
    waiting: I32
    head: I32
    cause: U8
    mixed: I32
    noted: I32
    hosts: I32


Table = TypeVar("Table", Jobs, Nodes, Devices, Contracts, Shapes)


def dtypes(table: type[Any]) -> dict[str, Any]:
    """The column types of a table, from its annotations."""
    arrays = {I64: np.int64, I32: np.int32, U8: np.uint8, U64: np.uint64}
    return {name: arrays[annotation] for name, annotation in table.__annotations__.items()}


def empty(table: type[Table], rows: int) -> Table:
    """A table with room for this many rows, all zero."""
    return table(*(np.zeros(rows, dtype) for dtype in dtypes(table).values()))


def blank(table: type[Any], rows: int) -> Any:  # noqa: ANN401 - whatever the table is
    """As ``empty``, for tables that are no part of the World."""
    return table(*(np.zeros(rows, dtype) for dtype in dtypes(table).values()))


def copied(table: Any, rows: int | None = None) -> Any:  # noqa: ANN401 - as above
    """A table of its own with the first rows of another."""
    return type(table)(*(column[:rows].copy() for column in table))


def grown(table: Table, rows: int) -> Table:
    """The same rows in arrays of at least ``rows`` rows, doubling so that appends are cheap."""
    room = max(rows, 2 * len(table[0]))
    bigger = empty(type(table), room)
    for name in table._fields:
        old: NDArray[Any] = getattr(table, name)
        getattr(bigger, name)[: len(old)] = old
    return bigger


def sealed(table: Table) -> Table:
    """Read-only views of the same memory; numba kernels respect them too."""
    return type(table)(*(sealed_array(getattr(table, name)) for name in table._fields))


def sealed_array(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of the same memory."""
    view = array.view()
    view.setflags(write=False)
    return view


def check(table: Table, rows: int) -> None:
    """Assert what every table keeps: equal lengths, declared types, room for its rows."""
    for name, dtype in dtypes(type(table)).items():
        column = getattr(table, name)
        assert column.dtype == dtype, f"{name} is {column.dtype}"
        assert len(column) == len(table[0]) >= rows, f"{name} has {len(column)} rows"
