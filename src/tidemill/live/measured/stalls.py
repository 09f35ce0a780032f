"""Where in a stretch of a loop its checkpoint was: steps before or after it, and none within.

A loop tells by the second how long it did what. What it did before a checkpoint began is saved by
that, and what it did afterwards may be lost: the two are not mixed.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from tidemill.live.track.records import CheckpointBegunRecord, StepsRecord

_PARTS = ("data_us", "communication_us", "compute_us", "other_us")
_OPEN_US = 1 << 62


class Stall(NamedTuple):
    """A checkpoint for which a loop stood still."""

    from_us: int
    until_us: int


def of(begun: dict[int, CheckpointBegunRecord], over_us: dict[int, int]) -> list[Stall]:
    """The checkpoints of one process, by time; ``over_us``: when each was saved, or failed."""
    stood = ((n, one) for n, one in begun.items() if not one.is_async)
    return sorted(Stall(one.at_us, over_us.get(n, _OPEN_US)) for n, one in stood)


def divided(stretches: Sequence[StepsRecord], stalls: Sequence[Stall]) -> list[StepsRecord]:
    """Stretches, cut where checkpoints begin and end; the parts of each are where they can be.

    One that says something else of its checkpoints, or not when its last step ended, stays whole.
    """
    begins = [one.from_us for one in stalls]
    return [piece for one in stretches for piece in _pieces(one, stalls, begins)]


def with_begins(
    edges: NDArray[np.int64], begun: Sequence[CheckpointBegunRecord]
) -> NDArray[np.int64]:  # fmt: skip
    """Edges of bins, and those where the first rank began each checkpoint."""
    firsts = dict[int, int]()
    for one in begun:
        firsts[one.step] = min(one.at_us, firsts.get(one.step, one.at_us))
    more = np.array([*firsts.values()], np.int64)
    return np.union1d(edges, more[(more > edges[0]) & (more < edges[-1])])


def _pieces(
    one: StepsRecord, stalls: Sequence[Stall], begins: Sequence[int]
) -> Iterator[StepsRecord]:  # fmt: skip
    lasted_us, told_us = one.until_us - one.from_us, one.checkpoint_us or 0
    is_timed = not one.steps or one.last_end_us is not None
    if not is_timed or not 0 < told_us < lasted_us:
        yield one
        return
    first = max(0, bisect_right(begins, one.from_us) - 1)
    inside = [
        Stall(max(stall.from_us, one.from_us), min(stall.until_us, one.until_us))
        for stall in stalls[first : bisect_right(begins, one.until_us)]
    ]
    inside = [stall for stall in inside if stall.from_us < stall.until_us]
    stalled_us = sum(stall.until_us - stall.from_us for stall in inside)
    if not 0 < stalled_us < lasted_us or abs(stalled_us - told_us) > lasted_us // 20:
        yield one
        return
    at_us, worked_us, saved_us = one.from_us, 0, 0
    for stall in (*inside, Stall(one.until_us, one.until_us)):
        if stall.from_us > at_us:
            until_us = worked_us + stall.from_us - at_us
            yield _worked(one, at_us, stall.from_us, worked_us, until_us, lasted_us - stalled_us)
            worked_us = until_us
        if stall.until_us > stall.from_us:
            upto_us = saved_us + stall.until_us - stall.from_us
            told = told_us * upto_us // stalled_us - told_us * saved_us // stalled_us
            nothing = {name: 0 for name in _PARTS if getattr(one, name) is not None}
            yield structs.replace(
                one, from_us=stall.from_us, until_us=stall.until_us, checkpoint_us=told, **nothing
            )
            saved_us = upto_us
        at_us = max(at_us, stall.until_us)


def _worked(
    one: StepsRecord, from_us: int, until_us: int, before_us: int, after_us: int, whole_us: int
) -> StepsRecord:
    """A piece of a stretch outside of checkpoints, with its share of all that was done so."""
    parts = {
        name: told * after_us // whole_us - told * before_us // whole_us
        for name in _PARTS
        if (told := getattr(one, name)) is not None
    }
    return structs.replace(one, from_us=from_us, until_us=until_us, checkpoint_us=0, **parts)
