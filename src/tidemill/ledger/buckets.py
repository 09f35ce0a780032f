"""The buckets: every paid accelerator-millisecond is in exactly one of them.

They are listed top to bottom, from *paid* to *useful*, as on the printed ledger.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from tidemill.model.reasons import CLAIM_NOTHING, Cause, Layer
from tidemill.model.states import Confidence, Level
from tidemill.model.tables import I64

if TYPE_CHECKING:
    from tidemill.ledger.rows import LedgerRows
    from tidemill.model.world import World


class Bucket(IntEnum):
    """Where an accelerator-millisecond can go."""

    NOT_OBSERVED = 0
    NOT_LAUNCHED = 1
    NOT_READY = 2
    UNHEALTHY = 3
    CORDONED = 4
    DRAINING = 5
    NO_DEMAND = 6
    FRAGMENTED = 7
    TOPOLOGY = 8
    QUOTA = 9
    HELD = 10
    CAUSE_UNKNOWN = 11
    BY_DESIGN = 12
    STARTING = 13
    IDLE = 14
    REWORK = 15
    RESTART = 16
    CHECKPOINT = 17
    STRAGGLER = 18
    HOST = 19
    LINKS = 20
    INTERFERENCE = 21
    STRANDED = 22
    MEMORY_BOUND = 23
    BELOW_ROOF = 24
    BELOW_PEAK = 25
    UNKNOWN = 26
    UNSAVED = 27
    USEFUL = 28


class Stage(IntEnum):
    """The stages between paid and useful."""

    NOT_OBSERVED = -1
    NOT_LAUNCHED = 0
    NOT_READY = 1
    FREE = 2
    NOT_WORKING = 3
    LOST = 4
    STALLED = 5
    SHARING = 6
    INEFFICIENT = 7
    UNKNOWN = 8
    USEFUL = 9


GROUP_TITLES: dict[Stage, str] = {
    Stage.NOT_OBSERVED: "not observed",
    Stage.NOT_LAUNCHED: "reserved, not launched",
    Stage.NOT_READY: "not Ready",
    Stage.FREE: "free",
    Stage.NOT_WORKING: "allocated, not working",
    Stage.LOST: "lost",
    Stage.STALLED: "stalled",
    Stage.SHARING: "sharing",
    Stage.INEFFICIENT: "below peak",
    Stage.UNKNOWN: "worked, not yet known",
    Stage.USEFUL: "useful",
}
"""What the stages are called."""


class About(NamedTuple):
    """What a bucket is called, where it belongs, who owns it and how it is known."""

    key: str
    title: str
    group: Stage
    owner: Layer
    confidence: Confidence


_R, _P, _S, _W = Layer.RESERVATION, Layer.PROVISIONING, Layer.SCHEDULING, Layer.WORKLOAD
_SEEN, _INFERRED, _MODEL = Confidence.MEASURED, Confidence.INFERRED, Confidence.MODELLED

ABOUT: dict[int, About] = {
    Bucket.NOT_OBSERVED: About(
        "not_observed", "not observed", Stage.NOT_OBSERVED, _P, Confidence.UNKNOWN
    ),
    Bucket.NOT_LAUNCHED: About(
        "not_launched", "reserved, not launched", Stage.NOT_LAUNCHED, _R, _SEEN
    ),
    Bucket.NOT_READY: About("not_ready", "launched, not Ready", Stage.NOT_READY, _P, _SEEN),
    Bucket.UNHEALTHY: About("unhealthy", "unhealthy or in repair", Stage.NOT_READY, _P, _SEEN),
    Bucket.CORDONED: About("cordoned", "cordoned", Stage.NOT_READY, _P, _SEEN),
    Bucket.DRAINING: About("draining", "draining", Stage.NOT_READY, _P, _SEEN),
    Bucket.NO_DEMAND: About("no_demand", "free: no demand", Stage.FREE, _R, _SEEN),
    Bucket.FRAGMENTED: About("fragmented", "free: fragmented", Stage.FREE, _S, _INFERRED),
    Bucket.TOPOLOGY: About("topology", "free: topology-blocked", Stage.FREE, _S, _INFERRED),
    Bucket.QUOTA: About("quota", "free: quota-blocked", Stage.FREE, _S, _INFERRED),
    Bucket.HELD: About("held", "free: held for a gang", Stage.FREE, _S, _INFERRED),
    Bucket.CAUSE_UNKNOWN: About(
        "cause_unknown", "free: cause unknown", Stage.FREE, _S, Confidence.UNKNOWN
    ),
    Bucket.BY_DESIGN: About("by_design", "free: hot spares", Stage.FREE, _P, _SEEN),
    Bucket.STARTING: About("starting", "allocated, not started", Stage.NOT_WORKING, _W, _SEEN),
    Bucket.IDLE: About("idle", "allocated, idle", Stage.NOT_WORKING, _W, _SEEN),
    Bucket.REWORK: About("rework", "lost: rework", Stage.LOST, _W, _INFERRED),
    Bucket.RESTART: About("restart", "lost: restart", Stage.LOST, _W, _SEEN),
    Bucket.CHECKPOINT: About("checkpoint", "lost: checkpoint stall", Stage.LOST, _W, _MODEL),
    Bucket.STRAGGLER: About("straggler", "lost: straggler", Stage.LOST, _W, _INFERRED),
    Bucket.HOST: About("host", "stalled: host", Stage.STALLED, _W, _MODEL),
    Bucket.LINKS: About("links", "stalled: communication", Stage.STALLED, _S, _MODEL),
    Bucket.INTERFERENCE: About("interference", "stalled: interference", Stage.STALLED, _S, _MODEL),
    Bucket.STRANDED: About("stranded", "sharing: stranded slices", Stage.SHARING, _S, _INFERRED),
    Bucket.MEMORY_BOUND: About("memory_bound", "memory-bound", Stage.INEFFICIENT, _W, _MODEL),
    Bucket.BELOW_ROOF: About(
        "below_roof", "below the attainable roof", Stage.INEFFICIENT, _W, _MODEL
    ),
    Bucket.BELOW_PEAK: About(
        "below_peak", "below peak, split unknown", Stage.INEFFICIENT, _W, _MODEL
    ),
    Bucket.UNKNOWN: About(
        "unknown", "worked, efficiency unknown", Stage.UNKNOWN, _W, Confidence.UNKNOWN
    ),
    Bucket.UNSAVED: About("unsaved", "worked, since last checkpoint", Stage.UNKNOWN, _W, _INFERRED),
    Bucket.USEFUL: About("useful", "useful", Stage.USEFUL, _W, _MODEL),
}
"""Every bucket, top to bottom; a plug-in's (``add``) after the one that it is a part of."""

BY_KEY = {about.key: bucket for bucket, about in ABOUT.items()}

NOT_PRODUCED: dict[int, str] = {
    Bucket.TOPOLOGY: "nobody was kept out by where nodes stand, or nobody said where they stand",
    Bucket.STRAGGLER: (
        "the ranks of some jobs were not compared, or not for long enough to tell a slow one;"
        " within stalled: communication"
    ),
    Bucket.INTERFERENCE: "no two jobs on one accelerator said what they use of it; within others",
}
"""Buckets that no layer can fill yet, and why: shown as unknown, never as zero."""

OF_LEVEL: dict[Level, Bucket] = {
    Level.SPARE: Bucket.BY_DESIGN,
    Level.BOOTING: Bucket.NOT_READY,
    Level.UNHEALTHY: Bucket.UNHEALTHY,
    Level.CORDONED: Bucket.CORDONED,
    Level.DRAINING: Bucket.DRAINING,
    Level.REPAIRING: Bucket.UNHEALTHY,
    Level.FAILED: Bucket.UNHEALTHY,
    Level.STRANDED: Bucket.STRANDED,
    Level.UNSEEN: Bucket.NOT_OBSERVED,
}
"""Levels that are a bucket as they are; READY is divided by claims, ALLOCATED by jobs."""

_CLAIMS: dict[Cause, Bucket] = {
    Cause.NONE: Bucket.CAUSE_UNKNOWN,  # there is demand, and nobody said why it waits
    Cause.OVER_LIMIT: Bucket.QUOTA,
    Cause.OVER_LIMIT_ALWAYS: Bucket.QUOTA,  # no wait cures it, but a larger quota does
    Cause.BEHIND: Bucket.HELD,
    Cause.PROMISED: Bucket.HELD,
    Cause.PARTIAL_GANG: Bucket.HELD,
    Cause.NOT_ENOUGH_READY: Bucket.HELD,
    Cause.NOTHING_LAUNCHED: Bucket.HELD,
    Cause.NOTHING_READY: Bucket.HELD,
    Cause.BUSY: Bucket.FRAGMENTED,
    Cause.SCATTERED: Bucket.FRAGMENTED,
    Cause.CPU_BINDS: Bucket.FRAGMENTED,
    Cause.MEMORY_BINDS: Bucket.FRAGMENTED,
    Cause.HOST_BINDS: Bucket.FRAGMENTED,
    Cause.KEPT_BACK: Bucket.QUOTA,
    Cause.TOPOLOGY: Bucket.TOPOLOGY,
    Cause.RESERVED: Bucket.HELD,
    Cause.LOST_RACE: Bucket.FRAGMENTED,  # others had it first: less was free than it seemed
}

CLAIMED_AS: tuple[int, ...] = tuple(
    -1 if cause in CLAIM_NOTHING else int(_CLAIMS[cause]) for cause in Cause
)
"""For each cause, the bucket under which its jobs claim free accelerators; -1: they claim none."""

FREE_OF_JOBS = {
    bucket for bucket in ABOUT if ABOUT[bucket].group is Stage.FREE and bucket != Bucket.BY_DESIGN
}
"""Buckets of what takes work and has none: together they are what was free."""

ALLOCATED = {bucket for bucket in ABOUT if ABOUT[bucket].group >= Stage.NOT_WORKING} - {
    Bucket.STRANDED
}
"""Buckets in which a job holds the accelerator; a stranded slice lies between those who do."""

RAN = ALLOCATED - {Bucket.STARTING, Bucket.IDLE, Bucket.RESTART}
"""Buckets in which the job was up and at it, whatever came of it."""

OCCUPIED = RAN - {Bucket.CHECKPOINT, Bucket.HOST}
"""Buckets in which the accelerator was busy: it is not while its job stands still for a checkpoint
or waits for data. While ranks wait for each other it is: the kernels of collectives run then."""

BELOW: set[int] = {Bucket.MEMORY_BOUND, Bucket.BELOW_ROOF, Bucket.BELOW_PEAK}
"""Buckets of work that neither waited nor was done at peak FLOP/s, split where that is known."""

DIVIDED = BELOW | {Bucket.HOST, Bucket.LINKS, Bucket.USEFUL}
"""Buckets into which each job's efficiency divides the work that lasted."""

PRODUCTIVE = BELOW | {
    Bucket.HOST,
    Bucket.LINKS,
    Bucket.STRAGGLER,
    Bucket.INTERFERENCE,
    Bucket.UNKNOWN,
    Bucket.UNSAVED,
    Bucket.USEFUL,
}
"""Buckets in which the job made progress that lasted (or may still)."""

Divide = Callable[["World", "LedgerRows"], I64]
"""How much of each row of a bucket goes into another: of the milli·ms of each, 0 up to all."""


class AddedBucket(NamedTuple):
    """A bucket that a plug-in adds: a part of another one, and how it is divided off."""

    bucket: int
    part_of: int
    part: Divide


ADDED: list[AddedBucket] = []
"""In the order in which they are divided off."""


def add(key: str, title: str, part_of: str, part: Divide) -> int:
    """Add a bucket that is a part of another, below which it stands; its number.

    It is of the same stage and owner, and known in the same way. What is taken for it is missing
    in the other, so that the sum of all buckets stays what was paid.
    """
    of, number = BY_KEY[part_of], len(ABOUT)
    rows = [*ABOUT.items()]
    at = [bucket for bucket, _ in rows].index(of) + 1
    rows.insert(at, (number, ABOUT[of]._replace(key=key, title=title)))
    ABOUT.clear()
    ABOUT.update(rows)
    BY_KEY[key] = number
    for some in (FREE_OF_JOBS, ALLOCATED, RAN, OCCUPIED, BELOW, DIVIDED, PRODUCTIVE):
        if of in some:
            some.add(number)
    ADDED.append(AddedBucket(number, of, part))
    return number
