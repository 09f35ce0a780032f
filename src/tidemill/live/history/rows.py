"""What a source tells of a cluster's past: nodes, and attempts of jobs as columns.

A source knows its own wire format and nothing of events; ``events`` knows events and no source.
Times are milliseconds since 1970 in UTC; null is unknown.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction

import polars as pl
from msgspec import Struct

from tidemill.model.states import NodeState

_LONGEST_ROLE = 200


class AttemptEnd(StrEnum):
    """How an attempt ended, in the words of the books."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    NODE_LOST = "node lost"
    PREEMPTED = "preempted"
    EVICTED = "evicted"
    """Somebody asked for it: a drain, an autoscaler, or a scheduler for another job."""
    REJECTED = "rejected"
    """Its node did not take it: others had its GPUs first."""
    REQUEUED = "requeued"
    CANCELLED = "cancelled"
    UNSEEN = "end not seen"
    CHANGED = "changed"
    """It goes on, and holds something else: the next row of its job follows at once."""


ATTEMPTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "job": pl.String,  # attempts of one job have one name
    "cluster": pl.String,  # of which of several clusters it is
    "team": pl.String,
    "user": pl.String,
    "submit_ms": pl.Int64,
    "start_ms": pl.Int64,  # since when it holds its GPUs
    "up_ms": pl.Int64,  # since when it works on them; null: since it holds them
    "end_ms": pl.Int64,
    "outcome": pl.String,
    "gpus": pl.Int64,  # of all nodes together
    "gpu_type": pl.String,
    "nodes": pl.List(pl.String),
    "node_count": pl.Int64,
    "is_per_node": pl.Boolean,  # whether it asked for so many GPUs on each node; null: not said
    "cpus": pl.Int64,  # of all nodes together
    "memory_mib": pl.Int64,
    "limit_ms": pl.Int64,
    "priority": pl.Int64,
    "is_eligible": pl.Boolean,  # false: it waits for something else than GPUs
    "reason": pl.String,  # why its own scheduler says that it waits
    "reason_cause": pl.Int64,
    "reason_layer": pl.Int64,
    "reason_ms": pl.Int64,  # since when it says so; null: only that it does now is known
    "devices": pl.List(pl.Int64),  # one mask for each of the nodes; null: nobody said which
    "node_rules": pl.String,  # which nodes it may use, as JSON (``clusters.NodeAsk``); null: any
    "shape": pl.Int64,  # what its job requests, by number among those that the source tells
    "life": pl.Int64,  # which of several jobs that had its name after each other; null: the first
    "roles": pl.List(pl.Int64),  # with a shape: of which role the replica on each of the nodes is
    "cpu_used_ms": pl.Int64,  # CPU time of all its processes, once it is over
    "cpu_had_ms": pl.Int64,  # the same of all its CPUs
    "memory_used_ppm": pl.Int64,  # the most memory that it used, of what it requested
    "needed": pl.Int64,  # with a shape: how many GPUs it asked for before; null: as its shape says
}
"""One row per attempt. What a source does not know is null, or not there at all.

With a ``shape``, ``nodes`` has one name for each replica that sits somewhere (so a node may be
named twice, and a gang be there in part), and ``gpus`` is what those hold.
"""

NEVER_UP_MS = 1 << 60
"""In ``up_ms``: it never works in this attempt (a gang of which only a part is there)."""


_INSTANCE = re.compile(r"(?:^|[ _.-])\d+g\.\d+gb", re.IGNORECASE)


def is_instance(gpu_type: str) -> bool:
    """Whether a type of GPUs is one of MIG instances: `1g.10gb`, `nvidia_a100_3g.20gb`."""
    return bool(_INSTANCE.search(gpu_type))


def is_part(gpu_type: str) -> bool:
    """Whether a type of GPUs is one of instances, or of shares whose size nobody says."""
    return is_instance(gpu_type) or gpu_type.lower().endswith(".shared")


WHOLE = (1, 1)


class SeenNode(Struct, frozen=True, kw_only=True):
    """A node as a source shows it."""

    name: str
    gpus: int
    gpu_type: str
    cpu_milli: int = 0
    memory_mib: int = 0
    host_free: tuple[int, int] | None = None
    """CPUs (milli) and memory (MiB) that nobody has now, also not work that is on no books (jobs
    without GPUs); None: nobody says, or all are free."""
    host_taken: tuple[int, int] | None = None
    """CPUs (milli) and memory (MiB) that work on no books has now; None: nobody says."""
    full: str = ""
    """Why it takes nothing more now, though it is in order: words that begin with
    ``model.world.FULL``; "": it does."""
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str], ...] = ()
    """Who does not tolerate them stays away."""
    out: tuple[tuple[int, int | None, NodeState], ...] = ()
    """Stretches of time in which it took no new work: from, to (None: still), and how."""
    now: NodeState | None = None
    """How it takes no new work now, where nobody says since when."""
    is_off: bool = False
    """Whether it is not there now, and was only as long as work is shown on it. Without GPUs: of
    what jobs tell of it that is known too.
    """
    until_ms: int | None = None
    """When it left the cluster, if that is known; None: it did not."""
    since_ms: int | None = None
    """When it joined the cluster, if the source says so; None: it was there from the beginning."""
    made_ms: int | None = None
    """When the object was made that its source has of it: another one is another machine."""
    terms: str = ""
    """How it is paid (``reservation.types``), if the source says so; "": nobody said."""
    box: str = ""
    """The instance or server type, if the source says so."""
    spare: tuple[tuple[int, int | None], ...] = ()
    """Stretches of time in which it is kept free by design: from, and to (None: for good)."""
    unseen: tuple[tuple[int, int], ...] = ()
    """Stretches of time in which nobody saw what was free on it: from, and to; in order."""
    reason: str = ""
    """Why it takes no new work now, in its cluster's words."""
    failed: int = 0
    """How many of its accelerators nobody may have now, while others are had."""
    advertised: tuple[tuple[int, int], ...] = ()
    """How many of its accelerators it showed, and from when on; those that it does not show are out
    of service. (): nobody saw it."""
    may_lose: bool = False
    """Whether fewer accelerators than before are some that it lost, and not another size."""
    is_inferred: bool = False
    """Whether nobody listed it, and its size is what jobs were seen to hold at once."""
    machine: "SeenNode | None" = None
    """The machine that it is a part of, where several sorts of accelerators are counted apart."""
    unit: tuple[int, int] = WHOLE
    """How much of a GPU each of its accelerators is; (1, 7): seven of them are one."""
    changed_ms: Mapping[str, int] = {}
    """When a label was seen to change, by key, and under "" its accelerators; only what is news."""

    @property
    def machine_name(self) -> str:
        """What the machine is called that it is, or is a part of, after its cluster if that is."""
        if self.machine is None or self.name.endswith(self.machine.name):
            return self.name
        starts = max(self.name.rfind(f"{self.machine.name}{between}") for between in "/:")
        return self.name[: starts + len(self.machine.name)]

    @property
    def whole_gpus(self) -> Fraction:
        """How many GPUs its accelerators are."""
        return self.gpus * Fraction(*self.unit)

    def is_spare_at(self, at_ms: int) -> bool:
        """Whether it is kept free by design at a moment."""
        return any(start <= at_ms and (stop is None or at_ms < stop) for start, stop in self.spare)

    @property
    def is_always_spare(self) -> bool:
        """Whether it is kept free by design, and was from the beginning."""
        return any(start <= 0 and stop is None for start, stop in self.spare)


def held_name(job: str) -> str:
    """The role of a job that is submitted and waits for something else than GPUs.

    So none that waits for GPUs is like it; it keeps the name when it is released.
    """
    return f"held {job}"[:_LONGEST_ROLE]
