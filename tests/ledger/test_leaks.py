"""Leaks: each bucket that is not useful has an owner, evidence, a fix and the price of the fix."""

import pytest
from hypothesis import given, settings

from tests.builders import contract, job, node, opening, team
from tests.ledger import twins
from tests.ledger.stories import STORIES, Story
from tidemill.ledger.buckets import ABOUT, Bucket
from tidemill.ledger.leaks import Leak, leaks, top_fixes
from tidemill.ledger.statement import Statement, read
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.rows import Efficiency, Job, Piece
from tidemill.model.states import Confidence, JobClass, NodeState, Terms


def leak_of(statement: Statement, bucket: Bucket) -> Leak:
    return next(leak for leak in leaks(statement) if leak.bucket is bucket)


@settings(max_examples=40)
@given(STORIES)
def test_every_leak_is_accounted_for(events: Story):
    """Leaks and the useful time together are what was paid, in time and in dollars."""
    statement = read(events)
    account, found = statement.total(), leaks(statement)
    useful = account.milli_ms[Bucket.USEFUL]
    assert sum(leak.milli_ms for leak in found) + useful == account.paid_milli_ms
    useful_usd = account.usd_micro()[Bucket.USEFUL]
    assert sum(leak.usd_micro for leak in found) + useful_usd == account.paid_usd_micro
    for leak in found:
        assert leak.owner is ABOUT[leak.bucket].owner
        assert leak.evidence
        assert leak.command.startswith(f"tidemill ledger --bucket {ABOUT[leak.bucket].key} --by ")
        assert leak.fix.words
        assert leak.fix.rule


@settings(max_examples=40)
@given(STORIES)
def test_a_fix_never_wins_more_than_the_leak(events: Story):
    """What a fix could win back at most is within the leak, and its price is not negative."""
    for leak in leaks(read(events, bin_ms=60)):
        assert 0 <= leak.fix.at_most_usd_micro <= leak.usd_micro
        assert (leak.fix.price_usd_micro or 0) >= 0


def test_top_fixes_are_worth_their_price():
    """The best fixes come first, cost less than they may win, and unknown prices come last."""
    statement = read(twins.run(3))
    found = top_fixes(statement, most=50)
    assert found
    assert all(leak.net_usd_micro > 0 for leak in found)
    priced = [leak.fix.price_usd_micro is not None for leak in found]
    assert priced == sorted(priced, reverse=True)
    known = [leak.net_usd_micro for leak in found if leak.fix.price_usd_micro is not None]
    assert known == sorted(known, reverse=True)
    assert top_fixes(statement, most=2) == found[:2]


def test_what_nobody_wanted_at_any_time_need_not_be_renewed():
    """Of four accelerators two are used in the second hour: two could go, for both hours.

    By hour the unwanted are 4 and 2; the smaller mean counts: 2 × 2 h × $2 = $8. With one bin for
    both hours only the mean of 3 is known, and the words say so.
    """
    events = [
        *opening(contract(gpus=4, per_node=4), teams=[team("a")]),
        ev.JobSubmitted(HOUR_MS, job("x", gpus=2)),
        ev.AskedPlace(HOUR_MS, 0, 1, (Piece(0, 0, 1, 0b11),)),
        ev.JobStarted(HOUR_MS, 0, 1),
        ev.JobFinished(2 * HOUR_MS, 0, 1),
    ]
    by_hour = leak_of(read(events, bin_ms=HOUR_MS), Bucket.NO_DEMAND).fix
    assert by_hour.at_most_usd_micro == 8_000_000
    assert by_hour.words.startswith("do not renew 2 reserved accelerators")
    assert "in every part of it" in by_hour.words
    at_once = leak_of(read(events), Bucket.NO_DEMAND).fix
    assert at_once.at_most_usd_micro == 12_000_000
    assert "on average" in at_once.words


def test_on_demand_is_not_something_to_renew():
    """Idle accelerators that are paid by the hour are returned, not left unrenewed."""
    events: list[ev.Event] = [
        ev.ContractSigned(0, contract(gpus=2, per_node=2, terms=Terms.ON_DEMAND)),
        ev.ContractStarted(0, 0),
        ev.NodeAdded(0, node("n0")),
        ev.NodeMoved(0, 0, NodeState.BOOTING),
        ev.NodeMoved(0, 0, NodeState.READY),
        ev.Woke(HOUR_MS),
    ]
    assert leak_of(read(events), Bucket.NO_DEMAND).fix.at_most_usd_micro == 0


def running(row: Job, *then: ev.Event, end_ms: int = 10 * HOUR_MS) -> Statement:
    """Ten hours of one node on which this job starts at once."""
    return read(
        [
            *opening(contract(gpus=8), teams=[team("a")]),
            ev.JobSubmitted(0, row),
            ev.AskedPlace(0, 0, 1, (Piece(0, 0, 1, 0xFF),)),
            ev.JobStarted(0, 0, 1),
            *then,
            ev.Woke(end_ms),
        ]
    )


def test_the_checkpoint_interval_by_youngs_rule():
    """sqrt(2 × stall × time between interruptions): a stall of 1 min and 10 h give 34 min 38 s.

    The job saves every 2 h. Saving every 34.6 min instead makes 120 / 34.64 as many stalls: the
    price is what the stalls cost now, times 2.46.
    """
    row = job("x", gpus=8, saves_every_ms=2 * HOUR_MS, save_ms=MINUTE_MS)
    fix = leak_of(running(row, ev.JobFailed(10 * HOUR_MS, 0, 1)), Bucket.REWORK).fix
    assert fix.words.startswith("checkpoint every 34m 38s (usual now: 2h), also")
    assert "1 attempt cut short" in fix.words
    stalls_usd_micro = 4 * 8 * 2_000_000 // 60
    assert fix.price_usd_micro == pytest.approx(stalls_usd_micro * 2.464, rel=1e-3)


def test_a_job_that_never_saves_is_told_to():
    """Where no job checkpoints, the fix is to begin."""
    fix = leak_of(running(job("x", gpus=8), ev.JobFailed(HOUR_MS, 0, 1)), Bucket.REWORK).fix
    assert fix.words.startswith("checkpoint, about every ")
    assert fix.price_usd_micro == 0


def test_jobs_that_save_often_enough_are_not_told_to_save_less():
    """Rework in spite of frequent checkpoints is a matter of stopping jobs at the right time."""
    row = job("x", gpus=8, saves_every_ms=10 * MINUTE_MS, save_ms=MINUTE_MS)
    fix = leak_of(running(row, ev.JobFailed(10 * HOUR_MS, 0, 1)), Bucket.REWORK).fix
    assert fix.words.startswith("stop jobs at their next checkpoint")
    assert fix.price_usd_micro == 0


def test_only_notebooks_are_culled():
    """Of all idle time, the fix wins back that of interactive jobs."""
    notebook = job("n", gpus=8, kind=JobClass.INTERACTIVE)
    service = job("s", gpus=8, kind=JobClass.INFERENCE)
    idle = ev.ActivitySeen(HOUR_MS, 0, 1, 0)
    for row, wins in ((notebook, 9 * 8 * 2_000_000), (service, 0)):
        assert leak_of(running(row, idle), Bucket.IDLE).fix.at_most_usd_micro == wins


def test_a_bucket_is_known_as_most_of_its_time_is():
    """Time below peak is measured where most of it is of jobs that measure."""
    measured = Efficiency(500_000, confidence=Confidence.MEASURED)
    row = job("x", gpus=8, kind=JobClass.INFERENCE, efficiency=measured)
    statement = running(row)
    assert leak_of(statement, Bucket.BELOW_PEAK).confidence is Confidence.MEASURED
    assert ABOUT[Bucket.BELOW_PEAK].confidence is Confidence.MODELLED
    assert statement.confidence(Bucket.USEFUL) is Confidence.MEASURED
    assert statement.confidence(Bucket.NO_DEMAND) is Confidence.MEASURED


def test_work_not_yet_saved_is_no_loss():
    """What still runs, or worked with unknown efficiency, is listed, but nothing is to be won."""
    statement = running(job("x", gpus=8))
    assert leak_of(statement, Bucket.UNSAVED).fix.at_most_usd_micro == 0
    finished = running(job("x", gpus=8), ev.JobFinished(HOUR_MS, 0, 1))
    assert leak_of(finished, Bucket.UNKNOWN).fix.at_most_usd_micro == 0
