"""Free time beside jobs of which another scheduler says why they wait, worked out by hand."""

from tests.builders import job
from tests.ledger.test_worked_examples import end, hour_of, minutes, submit
from tidemill.ledger.buckets import Bucket
from tidemill.model import events as ev
from tidemill.model.measures import MINUTE_MS
from tidemill.model.reasons import Cause
from tidemill.model.rows import Piece
from tidemill.model.states import Confidence


def test_what_another_scheduler_says_of_a_wait_is_its_cause_from_then_on():
    """Eight accelerators are free for an hour beside three jobs of one shape, two each.

    Nobody says why for 20 minutes; then `over` is over its quota (inferred), `odd` has a reason
    that is no cause of ours, and `held` is held: it claims nothing. After 50 minutes nobody says
    anything of `over` any more.

        cause unknown    3 jobs x 2 x 20 + odd 2 x 40 + over 2 x 10 = 220
        quota            over 2 x 30 = 60
        no demand        2 x 20 + 4 x 40 = 200
    """
    statement = hour_of(
        *submit(0, job("over", gpus=2), job("odd", gpus=2), job("held", gpus=2)),
        ev.ReasonSeen(20 * MINUTE_MS, 0, Cause.OVER_LIMIT, 3, "AssocGrpGRES"),
        ev.ReasonSeen(20 * MINUTE_MS, 1, Cause.NONE, 3, "Licenses"),
        ev.ReasonSeen(20 * MINUTE_MS, 2, Cause.NOT_ELIGIBLE, 4, "JobHeldUser"),
        ev.ReasonSeen(50 * MINUTE_MS, 0, Cause.NONE, 3, ""),
        end(60),
        nodes=1,
        gpus=8,
    )
    found = minutes(statement.total())
    assert found == {"CAUSE_UNKNOWN": 220, "QUOTA": 60, "NO_DEMAND": 200}
    assert statement.confidence(Bucket.QUOTA) is Confidence.INFERRED


def test_a_cause_of_our_own_comes_before_what_another_says():
    """One who decides knows why: the words of others are kept, and booked where there is none."""
    statement = hour_of(
        *submit(0, job("x", gpus=2)),
        ev.CauseChanged(0, 0, Cause.BEHIND),
        ev.ReasonSeen(0, 0, Cause.OVER_LIMIT, 3, "AssocGrpGRES"),
        end(60),
        nodes=1,
        gpus=2,
    )
    assert minutes(statement.total()) == {"HELD": 120}


def test_what_a_partial_gang_lacks_is_booked_as_its_scheduler_says():
    """Two of its four are placed, and the quota keeps the rest out: two are free for an hour."""
    gang = job("g", gpus=4, per_node=2)
    statement = hour_of(
        *submit(0, gang),
        ev.PlacementSeen(0, 0, 1, (Piece(0, 0, 1, 0b11),)),
        ev.ReasonSeen(0, 0, Cause.OVER_LIMIT, 3, "AssocGrpGRES"),
        end(60),
        nodes=2,
        gpus=2,
    )
    assert minutes(statement.total()) == {"STARTING": 120, "QUOTA": 120}
