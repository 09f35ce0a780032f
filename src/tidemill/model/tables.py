"""Tables: the World for machines. Each is one matrix of int64: a row per thing, a column per fact.

Python reads a table as a NamedTuple of its columns, which are views of the matrix; compiled
functions take the matrix itself (``columns``, which names further columns that only they need).
Rows, because what is read together lies together, and because a table grows by rows. A matrix has
room to grow: the World knows how many rows are in use. ``grown`` copies into a larger one
(``paging``: where that is), ``sealed`` gives read-only views of the same memory: the core reads
those, only the fold holds the writable side.
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidemill.model import paging

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]


NEVER_PASSED = -1  # in ``Jobs.passed_ms``


class Jobs(NamedTuple):
    """One row a job; what the scheduler, the workload layer and the ledger read of it."""

    shape: I64
    state: I64
    attempt: I64
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
    busy_ppm: I64
    mfu_ppm: I64
    host_ppm: I64
    links_ppm: I64
    memory_ppm: I64
    confidence: I64
    is_leaving: I64
    resize_ms: I64
    speed_ppm: I64
    hop: I64
    slow_ppm: I64
    passed_ms: I64
    """When a later job first passed it in this wait; NEVER_PASSED: nobody has."""
    evictions: I64
    """How often it was stopped for another job."""
    fruitless: I64
    """How often since it last saved any work."""


class Nodes(NamedTuple):
    """One row a node; free amounts are of working devices, stranded is what no profile can use."""

    contract: I64
    kind: I64
    group: I64
    state: I64
    is_spare: I64
    asked: I64
    why: I64
    since_ms: I64
    deadline_ms: I64
    emptied_ms: I64
    first_device: I64
    devices: I64
    cpu_milli: I64
    memory_mib: I64
    cpu_free_milli: I64
    memory_free_mib: I64
    free_milli: I64
    stranded_milli: I64
    failed: I64


class Devices(NamedTuple):
    """One row an accelerator; a node's devices are neighbours.

    ``slices`` is the mask of what MIG instances take (``units.mig.geometry``). While it is not
    empty nothing of the device is free by the milli.
    """

    free_milli: I64
    is_failed: I64
    slices: I64


class Contracts(NamedTuple):
    """One row per contract.

    ``committed_milli`` is paid for while it runs, launched or not; the nodes of an elastic one
    come and go with demand (``reservation.types``).
    """

    kind: I64
    count_milli: I64
    rate_usd_micro: I64
    is_running: I64
    committed_milli: I64
    is_elastic: I64
    asked_nodes: I64
    nodes: I64
    launched_milli: I64


class Shapes(NamedTuple):
    """One row a shape: the group of jobs that the scheduler cannot tell apart.

    What placement looks ahead with: ``mixed``, arrivals when the mix was last taken over;
    ``noted``, arrivals at the last look; ``hosts``, nodes that could take a replica then.
    """

    queue: I64
    priority: I64
    total_milli: I64
    waiting: I64
    head: I64
    cause: I64
    mixed: I64
    noted: I64
    hosts: I64


Table = TypeVar("Table", Jobs, Nodes, Devices, Contracts, Shapes)


def of_matrix(table: type[Table], rows: I64) -> Table:
    """The first columns of a matrix, by name."""
    return table(*(rows[:, c] for c in range(len(table._fields))))


def grown(rows: I64, count: int) -> I64:
    """The same rows in a matrix of at least ``count``, doubling so that appends are cheap."""
    bigger = paging.blank(max(count, 2 * len(rows)), *rows.shape[1:])
    paging.copy_rows(rows, bigger)
    return bigger


def sealed(table: Table) -> Table:
    """Read-only views of the same memory; compiled loops respect them too."""
    return type(table)(*(sealed_array(column) for column in table))


def sealed_array(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of the same memory."""
    view = array.view()
    view.setflags(write=False)
    return view
