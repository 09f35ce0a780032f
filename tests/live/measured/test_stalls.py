"""Where in a stretch its checkpoints were: pieces, and what of the books hangs on it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.measured import test_saves as told
from tidemill.ledger.buckets import Bucket
from tidemill.live.measured import stalls
from tidemill.live.measured.stalls import Stall
from tidemill.live.track.records import (
    CheckpointBegunRecord,
    CheckpointSavedRecord,
    StepsRecord,
    TrackRecord,
)

SECOND_US = 1_000_000
PARTS = ("data_us", "communication_us", "compute_us", "other_us", "checkpoint_us")


def stretch(checkpoint_us: int, data_us: int | None = 100_000) -> StepsRecord:
    """A second, with so much of it in checkpoints."""
    return StepsRecord(
        v=1, job="a", run="x", rank=0, seq=0, skew_us=0, from_us=0, until_us=SECOND_US, steps=9,
        last_end_us=SECOND_US,
        checkpoint_us=checkpoint_us, data_us=data_us, other_us=0,
        compute_us=SECOND_US - checkpoint_us - (data_us or 0),
    )  # fmt: skip


@given(
    st.lists(st.integers(-SECOND_US // 2, 3 * SECOND_US // 2), min_size=2, max_size=8, unique=True)
)
def test_pieces_are_the_stretch_and_checkpoints_are_where_they_were(moments: list[int]):
    """Whatever the checkpoints are: no time and no part is lost, and none is elsewhere."""
    moments = sorted(moments)
    stood = [Stall(*pair) for pair in zip(moments[::2], moments[1::2], strict=False)]
    inside = [(max(0, one.from_us), min(SECOND_US, one.until_us)) for one in stood]
    stalled_us = sum(max(0, end - begin) for begin, end in inside)
    one = stretch(min(stalled_us, 900_000))
    pieces = stalls.divided([one], stood)
    assert [p.from_us for p in pieces[1:]] == [p.until_us for p in pieces[:-1]]
    assert (pieces[0].from_us, pieces[-1].until_us) == (0, SECOND_US)
    for name in PARTS:
        assert sum(getattr(piece, name) or 0 for piece in pieces) == (getattr(one, name) or 0)
    for piece in pieces if len(pieces) > 1 else ():
        is_in = any(begin <= piece.from_us and piece.until_us <= end for begin, end in inside)
        assert bool(piece.checkpoint_us) <= is_in
        assert bool(piece.compute_us or piece.data_us) <= (not is_in)


def test_a_stretch_that_says_otherwise_stays_as_it_is():
    """It says half a second, and its checkpoint took a tenth: nobody knows where the rest was."""
    assert stalls.divided([stretch(500_000)], [Stall(0, 100_000)]) == [stretch(500_000)]
    assert stalls.divided([stretch(0)], [Stall(0, 100_000)]) == [stretch(0)]
    (left, right) = stalls.divided([stretch(100_000, None)], [Stall(-5, 100_000)])
    assert (left.data_us, right.data_us) == (None, None)


@pytest.mark.parametrize("began_s", [18.0, 18.3, 18.95])
def test_what_was_done_before_a_checkpoint_is_not_lost_with_what_came_after(began_s: float):
    """Killed a second after it was saved: a second of rework, wherever in a second it began."""
    done = [one for one in told.killed() if not isinstance(one, StepsRecord)]
    seconds = [told.steps("x", 0, s, 10 * s + 1) for s in range(18)]
    mixed = told.steps("x", 0, 18, 181)
    work_us, stall_us = told.us(began_s) - told.us(18), told.us(19) - told.us(began_s)
    mixed = StepsRecord(
        **{name: getattr(mixed, name) for name in mixed.__struct_fields__}
        | {"compute_us": work_us, "checkpoint_us": stall_us, "last_end_us": told.us(began_s)}
    )
    mark: dict[str, Any] = {"checkpoint": 1, "step": 190}
    saves: list[TrackRecord] = [
        CheckpointBegunRecord(**told.head("x", 0, began_s), **mark, is_async=False),
        CheckpointSavedRecord(**told.head("x", 0, 19), **mark),
    ]
    records = [*done, *seconds, mixed, told.steps("x", 0, 19, 191), *saves]
    found = told.seconds(records + told.again(190))
    assert found[Bucket.REWORK] == pytest.approx(1, abs=0.005)
    assert found[Bucket.CHECKPOINT] == pytest.approx(19 - began_s, abs=0.005)
