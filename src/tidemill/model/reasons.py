"""Why something waits: a closed set of causes, each owned by one layer.

A cause is found by ``scheduling.diagnose`` while it decides, said in the journal when it changes,
priced by the ledger and put into words by ``explain``.
"""

from enum import IntEnum, StrEnum


class Layer(IntEnum):
    """The four layers; a cause and a ledger bucket each belong to one."""

    RESERVATION = 1
    PROVISIONING = 2
    SCHEDULING = 3
    WORKLOAD = 4


class Cause(IntEnum):
    """Why the jobs of one shape wait, from the ground up. NONE: not yet looked at."""

    NONE = 0
    NOTHING_CLAIMED = 1
    NOTHING_LAUNCHED = 2
    NOTHING_READY = 3
    IMPOSSIBLE_LABEL = 4
    IMPOSSIBLE_SIZE = 5
    IMPOSSIBLE_GANG = 6
    OVER_LIMIT_ALWAYS = 7
    NOT_ENOUGH_READY = 8
    OVER_LIMIT = 9
    BEHIND = 10
    PROMISED = 11
    BUSY = 12
    PARTIAL_GANG = 13
    SCATTERED = 14
    CPU_BINDS = 15
    MEMORY_BINDS = 16
    KEPT_BACK = 17
    IMPOSSIBLE_TOPOLOGY = 18
    TOPOLOGY = 19
    RESERVED = 20
    NOT_ELIGIBLE = 21  # only other schedulers say so
    LOST_RACE = 22  # the same
    HOST_BINDS = 23


class PlaceRule(StrEnum):
    """What keeps a pod from nodes with room, in brackets after the words of its reason."""

    PORT = "hostPort"
    APART = "anti-affinity"
    TOGETHER = "pod affinity"
    SPREAD = "topology spread"
    VOLUME = "volume"
    PODS = "pods per node"


IN_ITS_WAY = "in its way on "
"""In such a reason: a node, a colon, and the pods there that would have to go, by name."""
TO_BE_BESIDE = "to be beside in "
"""The same of a place, and of the pods there beside which it must be."""
MAY_SPREAD = "by its spread it may be in "
"""The same of the places that are left to it, and how many pods are in each place, in brackets."""
CLAIMS = "its volume claims: "
"""The same of claims, by name."""
TO_SEE_IT = "; to see it: "
"""In the words of another scheduler's reason: a command follows that shows it."""
JOB_NUMBER = "JOBID"
"""In such a command: the job's own number, filled in where the words are shown, so that all jobs
that wait for the same have one text."""
BY_FACTS = "by its nodes and pods"
"""In the words of another scheduler's reason: what follows is what nodes and pods show, and no word
of that scheduler's."""
UNDECIDED = frozenset({
    "None", "SchedDefer", "Prolog", "SystemFailure", "NonZeroExitCode", "RaisedSignal", "TimeLimit",
    "InactiveLimit", "OutOfMemory", "Kueue has not decided",
})  # fmt: skip
"""Words that do not say for what a job waits, mostly of Slurm's: it was not looked at yet, is about
to start, or how an attempt ended."""
CLOSED = frozenset({"PartitionDown", "PartitionInactive"})
"""Words of Slurm's for what is closed as a whole: no node that comes back starts a job there."""

LAYER_OF = {
    Cause.NONE: Layer.SCHEDULING,
    Cause.NOTHING_CLAIMED: Layer.RESERVATION,
    Cause.NOTHING_LAUNCHED: Layer.PROVISIONING,
    Cause.NOTHING_READY: Layer.PROVISIONING,
    Cause.IMPOSSIBLE_LABEL: Layer.WORKLOAD,
    Cause.IMPOSSIBLE_SIZE: Layer.WORKLOAD,
    Cause.IMPOSSIBLE_GANG: Layer.WORKLOAD,
    Cause.OVER_LIMIT_ALWAYS: Layer.WORKLOAD,
    Cause.NOT_ENOUGH_READY: Layer.PROVISIONING,
    Cause.OVER_LIMIT: Layer.SCHEDULING,
    Cause.BEHIND: Layer.SCHEDULING,
    Cause.PROMISED: Layer.SCHEDULING,
    Cause.BUSY: Layer.SCHEDULING,
    Cause.PARTIAL_GANG: Layer.SCHEDULING,
    Cause.SCATTERED: Layer.SCHEDULING,
    Cause.CPU_BINDS: Layer.SCHEDULING,
    Cause.MEMORY_BINDS: Layer.SCHEDULING,
    Cause.HOST_BINDS: Layer.SCHEDULING,
    Cause.KEPT_BACK: Layer.SCHEDULING,
    Cause.IMPOSSIBLE_TOPOLOGY: Layer.WORKLOAD,
    Cause.TOPOLOGY: Layer.SCHEDULING,
    Cause.RESERVED: Layer.SCHEDULING,
    Cause.NOT_ELIGIBLE: Layer.WORKLOAD,
    Cause.LOST_RACE: Layer.SCHEDULING,
}

NEVER = frozenset(
    {
        Cause.NOTHING_CLAIMED,
        Cause.IMPOSSIBLE_LABEL,
        Cause.IMPOSSIBLE_SIZE,
        Cause.IMPOSSIBLE_GANG,
        Cause.OVER_LIMIT_ALWAYS,
        Cause.IMPOSSIBLE_TOPOLOGY,
        Cause.NOT_ELIGIBLE,
    }
)
"""Causes that free accelerators do not cure."""

CLAIM_NOTHING = NEVER - {Cause.OVER_LIMIT_ALWAYS}
"""Causes whose jobs claim nothing of what is free; a larger quota lets the others use it."""

_NOT_ROOM = NEVER | {Cause.OVER_LIMIT}


def is_by_facts(words: str) -> bool:
    """Whether a reason that a journal keeps follows from nodes and pods alone."""
    return f"; {BY_FACTS}: " in words


def is_block(cause: Cause, layer: Layer, words: str) -> bool:
    """Whether another scheduler's reason keeps a job out whatever GPUs are free.

    A limit, a licence, a hold, a dependency, a volume, a request that no node can meet: until
    something else changes. So is what has no cause of ours, for ours are about nodes and GPUs; of
    what nodes and pods show, only what the job itself lacks.
    """
    if cause is not Cause.NONE:
        return cause in _NOT_ROOM or word_of(words) in CLOSED
    if is_by_facts(words):
        return layer is Layer.WORKLOAD
    return bool(words) and word_of(words) not in UNDECIDED


def word_of(words: str) -> str:
    """The word of Slurm's with which a reason begins that a journal keeps; of others, no word."""
    return words.partition(": ")[0]
