"""A decision as it is told: frozen, without behaviour, the same in JSON as in Python.

Field names, and the words that are used as keys (stages, filters, ways, terms), are stable.
"""

from msgspec import Struct


class Watch(Struct, frozen=True):
    """When the scheduler came to know the job, and in which line it stood when it was decided."""

    submitted_ms: int
    waiting_since_ms: int
    """The beginning of the wait that the decision ended, or has not ended yet."""
    waited_ms: int | None
    """Null: nobody told when it was submitted."""
    looked_before: int | None
    """Sorts of jobs that the same scheduling cycle looked at before it; null: it did not come so
    far, or nobody knows."""
    placed_before: int | None
    """Jobs that the same cycle placed before it."""
    words: str


class Filter(Struct, frozen=True):
    """One question that nodes are asked, and those that it removed of those still there."""

    filter: str
    nodes: int
    examples: tuple[str, ...]
    words: str


class Filtering(Struct, frozen=True):
    """How the nodes of the fleet became those that can take one replica of a role.

    ``nodes`` is the sum of those that were removed and of ``remaining``.
    """

    role: str
    asks: str
    nodes: int
    removed: tuple[Filter, ...]
    remaining: int
    hosts: int
    """Replicas that the remaining nodes can take together, at most as many as are requested,"""
    replicas: int
    """and how many are requested."""
    words: str


class Term(Struct, frozen=True):
    """One number of a score."""

    term: str
    value: int
    unit: str
    is_better: str
    """``higher`` or ``lower``; empty: it is a part of the term before it."""
    words: str


class ScoredCandidate(Struct, frozen=True):
    """A node, a GPU or a topology domain with its score; in the order in which they came."""

    name: str
    gpu_type: str
    terms: tuple[Term, ...]
    is_taken: bool
    """Whether any replica of the job was put there."""


class Ranking(Struct, frozen=True):
    """How the nodes that remained were compared for one role, and why the first of them won."""

    role: str
    way: str
    policy: tuple[str, ...]
    """The placement scores that were asked, the first first."""
    of: str
    """What was compared: ``node``, ``device`` or ``domain``."""
    gpu_types: tuple[str, ...]
    """The GPU types whose nodes were compared: the first of those that it may use with room, or all
    of them where a single replica names none."""
    candidates: tuple[ScoredCandidate, ...]
    """The best few; ties go to the lower number."""
    words: str
    """Why the winner won."""


class NodeSeat(Struct, frozen=True):
    """What of a job was placed on one node."""

    node: str
    gpu_type: str
    role: str
    replicas: int
    devices: tuple[int, ...]


class Freed(Struct, frozen=True):
    """A job that was asked to go, or to move or shrink, for the job that is explained."""

    job: str
    team: str
    at_ms: int
    how: str
    lost_ms: int | None
    """Time of its gang that it lost: since its last checkpoint, and coming back; null: unknown."""
    lost_usd_micro: int | None
    words: str


class Reserved(Struct, frozen=True):
    """A backfill reservation of a job that goes before this one."""

    job: str
    at_ms: int
    is_beside: bool
    """Whether this one was placed beside it; otherwise it is expected to end before it begins."""


class Bind(Struct, frozen=True):
    """What followed: where the job was put, who had to make room, whom it passed."""

    at_ms: int
    attempt: int
    seats: tuple[NodeSeat, ...]
    nodes: int
    freed: tuple[Freed, ...]
    freed_jobs: int
    """All that made room; ``freed`` are the first of them."""
    reservations: tuple[Reserved, ...]
    passed: tuple[str, ...]
    """Jobs that come before it in the order and still wait: it was the first to pass them."""
    words: str


class Tried(Struct, frozen=True):
    """One sort of thing that was tried for a job, or happened to it: how often, first and last."""

    what: str
    count: int
    first_ms: int
    last_ms: int
    words: str


class Decision(Struct, frozen=True):
    """The decision about one job, stage by stage.

    ``outcome``: ``placed``, ``waits``, or ``unknown`` where another scheduler decides, or nothing
    was decided before the moment that was asked for. ``at_ms``: the moment of the decision.
    """

    job: str
    team: str
    state: str
    asks: str
    outcome: str
    at_ms: int
    decided_by: str
    cause: str
    """Why it waits; ``none`` where it was placed."""
    watch: Watch
    filters: tuple[Filtering, ...]
    scores: tuple[Ranking, ...]
    bind: Bind | None
    tried: tuple[Tried, ...]
    words: str
    about: str = ""
    """Where its like stand in line as one, and another of them is the first: the name of that."""
    not_bound: str = ""
    """Of a job of another scheduler that has no place: what that says of it."""
    unknown: str = ""
    """What cannot be known here, and why; empty where nothing is."""
    version: int = 1
    """Of this document."""
