"""Attempts that were stopped, by why: each is counted once, and they add up."""

from tests.ledger import stories
from tidemill.cli.demo_story import job_counts
from tidemill.ledger.reader import Ledger
from tidemill.ledger.stops import Stops
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary
from tidemill.model.batch.convert import of_events
from tidemill.model.events import Why


def test_every_attempt_ends_once():
    """Attempts = stopped + ended with their job + still held, whatever happened; and jobs are done,
    failed, cancelled, running or waiting, and nothing else.
    """
    for seed in range(6):
        ledger = Ledger()
        active: set[int] = set()
        with_their_job = 0
        for event in stories.story(seed, 150):
            if isinstance(event, ev.JobCancelled):
                with_their_job += event.job in active
            if isinstance(event, ev.JobFinished):
                with_their_job += 1
            if isinstance(event, ev.JobFailed):
                with_their_job += event.is_final
            ledger.read([event])
            jobs = ledger.world.jobs
            active = {j for j in range(ledger.world.job_count) if jobs.state[j] in (1, 2)}
        attempts = int(ledger.world.jobs.attempt[: ledger.world.job_count].sum())
        assert attempts == sum(ledger.stops.values()) + with_their_job + len(active)
        assert sum(job_counts(ledger.world).values()) == ledger.world.job_count


def test_a_retry_is_no_failure_of_hardware():
    """A program that crashed and is tried again is told apart from a lost node and a preemption."""
    stops = Stops()
    events = (
        ev.JobFailed(0, 0, 1),
        ev.JobFailed(0, 1, 1, Why.NODE_LOST),
        ev.AskedEvict(0, 2, 1, Why.PREEMPTED),
        ev.JobEvicted(0, 2, 1),
        ev.JobFailed(0, 3, 1, is_final=True),
    )
    stops.count(of_events(events, Dictionary()))
    assert stops.by_why(4) == {
        "retried after a crash": 1,
        "lost with a node (failed or reclaimed)": 2,
        "by preemption": 1,
    }
