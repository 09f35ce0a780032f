"""Layout: the columns over which compiled beats run, beside the tables of the World.

``fold_stretch`` fills them from a World and writes them back; ``engine.kernels`` and
``engine.desk.kernels`` say what they mean to the beat.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.engine.story import Pieces
from tidemill.model.tables import I64, U64


class Rules(NamedTuple):
    """What a policy says, as numbers."""

    by_priority: bool
    spreads: bool
    patience_ms: int
    has_floors: bool
    backfills: bool
    hold_after_ms: int
    unknown_run_ms: int


class Asks(NamedTuple):
    """One row a shape: what each of its jobs asks for, and what supply says about it."""

    accelerators: I64
    milli: I64
    cpu: I64
    memory: I64
    replicas: I64
    need: I64
    kinds: U64
    only_kind: I64
    first_option: I64
    supply: I64
    outlasts: I64
    like: I64
    """The first shape that asks for the same, of the same nodes."""
    together: I64
    """The tree of a single replica that may go to any kind, where nodes are scored; or -1."""


class Options(NamedTuple):
    """One row a kind that a shape may use; those of a shape are neighbours."""

    kind: I64
    tree: I64
    bare: I64
    """The tree of the same devices without CPU and memory; -1: nodes may host several."""
    scored: I64
    """The tree of a request whose replicas are placed one by one, by their scores; -1: never."""
    is_ok: I64


class Trees(NamedTuple):
    """One row a tournament, and what its scores remember of nodes; see ``scheduling.trees``."""

    rank: I64
    winner: I64
    read: I64
    is_exact: NDArray[np.bool_]
    mask: U64
    """Which options a tree of several kinds compares, and which groups of nodes they are."""
    is_ok: I64
    touched: I64
    wasted: I64


class Queues(NamedTuple):
    """Waiting jobs as chains: who comes after whom, who is last, and which shapes have any."""

    after: I64
    last: I64
    queued: I64
    place: I64


class Aboard(NamedTuple):
    """The pieces of active jobs, and how many jobs each node carries."""

    first: I64
    pieces: I64
    jobs: I64


class Counts(NamedTuple):
    """What is free of each kind, and how often it was freed or taken."""

    free: I64
    freed: I64
    taken: I64
    queue_freed: I64


class Failures(NamedTuple):
    """Which shapes did not fit, at which counts, and why."""

    failed: I64
    freed: I64
    queue_freed: I64
    cause: I64
    look: I64
    is_limited: I64


class Scratch(NamedTuple):
    """Room for the work of one cycle."""

    keys: I64
    candidates: I64
    upcoming: I64
    """The job of each shape that is looked at next."""
    held: U64
    obstacle: I64
    is_out: I64
    is_limited: I64
    changed: I64
    hosts: I64
    node: I64
    replicas: I64
    devices: U64
    placed: I64
    most_pieces: I64


class Behind(NamedTuple):
    """Backfill: who is expected to end when, what is reserved, who was kept back by it."""

    end_job: I64
    end_at_ms: I64
    end_attempt: I64
    accelerators: I64
    """From here: what one replica of each piece asks for."""
    milli: I64
    cpu: I64
    memory: I64
    claimed_kinds: U64
    """From here, one row a kind: who wants a reservation, and who wanted the last ones made."""
    claim_shape: I64
    claim_job: I64
    made_shape: I64
    made_job: I64
    first_job: I64
    """Who is first on which kinds in this cycle: whoever is placed after it passes it."""
    first_kinds: U64
    first_queue: I64
    """The team whose limit keeps it out, which alone passes it; -1: no limit does."""
    limited_kinds: U64
    """One row a team: the kinds whose first job that a limit keeps out is known."""
    job: I64
    """From here: the reservations."""
    kinds: U64
    at_ms: I64
    first: I64
    pieces: I64
    is_disturbed: I64
    node: I64
    """From here: their pieces, and what was kept of them."""
    replicas: I64
    mask: U64
    kept_milli: I64
    wanted_cpu: I64
    wanted_memory: I64
    kept_part: I64
    kept_cpu: I64
    kept_memory: I64
    tried: I64
    """From here, one row a shape: whom a reservation kept back, and whom it could."""
    refused_ms: I64
    like_ms: I64
    """By what is asked for: who ends later is not let past, and how many were placed by then."""
    like_placed: I64
    keys: I64
    shapes: I64
    seen_kinds: U64
    seen_queue: I64


BEHIND_ROWS = {
    name: row
    for row, names in (
        ("end", "end_job end_at_ms end_attempt"),
        ("asked", "accelerators milli cpu memory"),
        ("kind", "claimed_kinds claim_shape claim_job made_shape made_job"),
        ("first", "first_job first_kinds first_queue"),
        ("queue", "limited_kinds"),
        ("kind", "job kinds at_ms first pieces is_disturbed"),
        ("piece", "node replicas mask kept_milli wanted_cpu wanted_memory"),
        ("piece", "kept_cpu kept_memory"),
        ("part", "kept_part"),
        ("shape", "tried refused_ms like_ms like_placed keys shapes seen_kinds seen_queue"),
    )
    for name in names.split()
}
"""What there is one row for, in each column of ``Behind``."""


class Before(NamedTuple):
    """What the World was before a stretch: what a second reader and the ledger begin with."""

    levels: I64
    used: I64
    waiting: I64
    head: I64
    last: I64
    cause: I64
    after: I64
    state: I64
    attempt: I64
    cpu_free: I64
    memory_free: I64
    device_free: I64
    aboard: Aboard
    pieces: Pieces
