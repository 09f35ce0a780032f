"""What two sources of an observed journal told otherwise of one node or job: a fact beside it.

No event follows from it: the scheduler's word is booked, and of FLOPs that no GPU can have done,
nothing. It says which lines of the ledger are doubtful for it, and from when to when.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct

from tidemill.journal import kept_facts

FACT = "contradictions"
MOST = 500
"""Contradictions that are kept; those that were seen last."""
LONGEST = 500


class ContradictionSort(StrEnum):
    """In what two sources differ."""

    DOWN_BUSY = "down_busy"
    """The scheduler calls a node down, and its GPUs are at work."""
    FREE_BUSY = "free_busy"
    """By the scheduler nobody holds anything on a node, and its GPUs are at work."""
    GPU_COUNT = "gpu_count"
    """A node has so many GPUs by one source, and so many by another."""
    LISTED_TWICE = "listed_twice"
    """Two clusters list nodes of one host name: two machines, or one that is counted twice."""
    LOOP_ENDED = "loop_ended"
    """The scheduler shows a job as running, and its loop said that it ended."""
    LOOP_OUTSIDE = "loop_outside"
    """A loop ran while its job held nothing, by the scheduler."""
    ABOVE_PEAK = "above_peak"
    """A loop says that it did more than its GPUs can."""
    OVER_WHOLE = "over_whole"
    """A job's waits and its MFU are more than its time."""
    FEWER_GPUS = "fewer_gpus"
    """A job holds more GPUs than its loop says that it uses."""
    MORE_GPUS = "more_gpus"
    """A loop says that it uses more GPUs than its job holds."""


class Contradiction(Struct, frozen=True, kw_only=True):
    """One of them; moments are since 1970, by the clock of the scheduler."""

    sort: ContradictionSort
    name: str
    """The node or job."""
    source: str
    """Who says otherwise than the scheduler."""
    says: str
    """What the scheduler says, and what the other one does."""
    first_ms: int
    last_ms: int


def gone_on(before: Iterable[Contradiction], now: Iterable[Contradiction]) -> list[Contradiction]:
    """All that is known, each once, with when it was first and last seen."""
    known = {(one.sort, one.name, one.source): one for one in before}
    for one in now:
        old = known.get((one.sort, one.name, one.source), one)
        known[one.sort, one.name, one.source] = msgspec.structs.replace(
            one, says=one.says[:LONGEST],
            first_ms=min(old.first_ms, one.first_ms), last_ms=max(old.last_ms, one.last_ms),
        )  # fmt: skip
    last = sorted(known.values(), key=lambda one: one.last_ms)[-MOST:]
    return sorted(last, key=lambda one: (one.sort, one.name, one.source))


def facts(told: Iterable[Contradiction]) -> dict[str, str]:
    """What is kept; nothing where there is none."""
    found = [*told]
    return {FACT: msgspec.json.encode(found).decode()} if found else {}


def of(kept: Mapping[str, str], where: str) -> list[Contradiction]:
    """Those of a journal."""
    return kept_facts.read(kept, FACT, list[Contradiction], where) or []
