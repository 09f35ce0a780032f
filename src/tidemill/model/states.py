"""The closed sets of words for states and kinds; integers, so that tables can hold them."""

from collections.abc import Mapping
from enum import IntEnum, StrEnum


class NodeState(IntEnum):
    """Where a node is in its life; ``provisioning.life`` says which moves are legal."""

    ASKED = 0
    BOOTING = 1
    READY = 2
    UNHEALTHY = 3
    CORDONED = 4
    DRAINING = 5
    REPAIRING = 6
    GONE = 7


LAUNCHED = frozenset(NodeState) - {NodeState.ASKED, NodeState.GONE}
"""States in which the machine exists and is paid for by the hour."""

HOSTING = frozenset({NodeState.READY, NodeState.CORDONED, NodeState.DRAINING})
"""States in which work already on the node may go on; only READY takes new work."""


class Level(IntEnum):
    """Where a launched accelerator of a contract is; each is in exactly one of these."""

    ALLOCATED = 0
    READY = 1
    SPARE = 2
    BOOTING = 3
    UNHEALTHY = 4
    CORDONED = 5
    DRAINING = 6
    REPAIRING = 7
    FAILED = 8
    STRANDED = 9
    UNSEEN = 10  # free, on a node that nobody watches


class JobState(IntEnum):
    """Where a job is in its life."""

    WAITING = 0
    STARTING = 1
    RUNNING = 2
    DONE = 3
    FAILED = 4
    CANCELLED = 5


ACTIVE = frozenset({JobState.STARTING, JobState.RUNNING})
"""States in which a job holds accelerators."""


class JobClass(StrEnum):
    """What a job is for; decides what an interruption costs it."""

    TRAINING = "training"
    INFERENCE = "inference"
    INTERACTIVE = "interactive"


class Terms(StrEnum):
    """How a contract is paid: reserved by the calendar, the others by the launched hour."""

    RESERVED = "reserved"
    ON_DEMAND = "on_demand"
    SPOT = "spot"


class Confidence(StrEnum):
    """How a number is known. Unknown is never shown as zero."""

    MEASURED = "measured"
    INFERRED = "inferred"
    MODELLED = "modelled"
    UNKNOWN = "unknown"
    SIMULATED = "simulated"  # counted as exactly as what is measured, in a world that a twin made
    ASSUMED = "assumed"  # somebody gave the figure because nothing was measured (``--assume``)


CLASSES = tuple(JobClass)
CONFIDENCES = tuple(Confidence)
WEAKER = (
    Confidence.MEASURED, Confidence.SIMULATED, Confidence.INFERRED, Confidence.MODELLED,
    Confidence.ASSUMED, Confidence.UNKNOWN,
)  # fmt: skip
"""Each says less than the one before it."""


def mostly(sums: Mapping[Confidence, int]) -> Confidence:
    """How most of an amount is known; of two halves, as the weaker word has it."""
    return max(sums, key=lambda word: (sums[word], WEAKER.index(word)))
