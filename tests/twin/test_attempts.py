"""The lives of the twin's jobs: crashes, endings, tides, notebooks."""

from tests.twin import greedy
from tests.twin.builders import TEAM, contract, job
from tidemill.model import events as ev
from tidemill.model.columns import JOB
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS
from tidemill.model.states import JobClass, JobState
from tidemill.twin.arrivals import Arrival, Ending, Spell, Tide, daily
from tidemill.twin.backend import Twin
from tidemill.twin.event_queue import lives
from tidemill.twin.faults import FaultAt, Faults


def run(arrival, **kwargs):
    return greedy.run(Twin([contract()], [TEAM], [arrival], **kwargs))


def failures(journal):
    return [(e.at_ms, e.is_final) for e in journal if isinstance(e, ev.JobFailed)]


def activity(journal):
    return [(e.at_ms, e.busy_ppm) for e in journal if isinstance(e, ev.ActivitySeen)]


def test_a_crash_is_retried_and_the_job_finishes():
    """A transient crash costs what was not saved, and the next attempt goes on."""
    saving = job(every_ms=MINUTE_MS)
    world, journal = run(Arrival(0, saving, 5 * MINUTE_MS, crashes_ms=(150_000,)))
    assert failures(journal) == [(150_000, False)]
    assert world.jobs.state[0] == JobState.DONE
    # Two minutes were saved; three are left after the crash at 2:30.
    assert journal[-1] == ev.JobFinished(150_000 + 3 * MINUTE_MS, 0, 2)


def test_a_job_that_crashes_too_often_has_failed():
    """After as many retries as it is forgiven, the next crash is final."""
    world, journal = run(
        Arrival(0, job(), HOUR_MS, crashes_ms=(MINUTE_MS,) * 5), faults=Faults(retries=2)
    )
    assert failures(journal) == [(60_000, False), (120_000, False), (180_000, True)]
    assert world.jobs.state[0] == JobState.FAILED


def test_an_error_at_the_end_is_met_again_at_every_retry():
    """A job that ends as failed fails once and once for each retry, then for good."""
    world, journal = run(Arrival(0, job(), MINUTE_MS, Ending.FAILED), faults=Faults(retries=1))
    assert failures(journal) == [(60_000, False), (120_000, True)]
    assert world.jobs.state[0] == JobState.FAILED


def test_an_owner_may_have_seen_enough():
    """A job that ends as cancelled is cancelled when its work is done, and not before."""
    world, journal = run(Arrival(0, job(), MINUTE_MS, Ending.CANCELLED))
    assert journal[-1] == ev.JobCancelled(MINUTE_MS, 0)
    assert world.jobs.state[0] == JobState.CANCELLED


def test_a_lost_node_is_no_crash():
    """Losing a node is not counted against the job: retries 0 and it still finishes."""
    faults = Faults(retries=0, schedule=(FaultAt(MINUTE_MS, 0, 1),))
    world, journal = run(Arrival(0, job(), HOUR_MS), faults=faults)
    assert failures(journal) == []
    assert world.jobs.state[0] == JobState.DONE
    assert journal[-1] == ev.JobFinished(MINUTE_MS + HOUR_MS, 0, 2)


def test_a_service_follows_the_tide_by_the_hour():
    """The load is told at the start and at every full hour at which it changed."""
    tide = Tide((100_000, 100_000, 900_000))
    service = Arrival(30 * MINUTE_MS, job(kind=JobClass.INFERENCE), 3 * HOUR_MS, activity=tide)
    _, journal = run(service)
    assert activity(journal) == [
        (30 * MINUTE_MS, 100_000),
        (2 * HOUR_MS, 900_000),
        (3 * HOUR_MS, 100_000),
    ]


def test_the_tide_ends_with_the_service():
    """No load is told of a service that is not running."""
    service = Arrival(0, job(kind=JobClass.INFERENCE), 90 * MINUTE_MS, activity=daily(1, 9, 12))
    _, journal = run(service, horizon_ms=DAY_MS)
    assert max(at for at, _ in activity(journal)) < 90 * MINUTE_MS


def test_a_notebook_is_used_and_then_forgotten():
    """Busy while it is used, idle from then on, and still there until its end."""
    notebook = Arrival(0, job(kind=JobClass.INTERACTIVE), DAY_MS, activity=Spell(HOUR_MS, 350_000))
    _, journal = run(notebook)
    assert activity(journal) == [(0, 350_000), (HOUR_MS, 0)]
    assert journal[-1] == ev.JobFinished(DAY_MS, 0, 1)


def test_a_forgotten_notebook_stays_forgotten_after_a_restart():
    """What was used up before an interruption is not used again."""
    notebook = Arrival(0, job(kind=JobClass.INTERACTIVE), DAY_MS, activity=Spell(HOUR_MS, 350_000))
    _, journal = run(notebook, faults=Faults(schedule=(FaultAt(2 * HOUR_MS, 0, 1),)))
    assert activity(journal) == [(0, 350_000), (HOUR_MS, 0), (2 * HOUR_MS, 0)]


def test_start_up_varies_by_job_but_not_by_run():
    """Start-up is jittered within its spread, and the same in two runs of one seed."""
    coming = [(0, job(f"j{i}", startup_ms=MINUTE_MS), HOUR_MS) for i in range(16)]

    def starts():
        twin = Twin([contract()], [TEAM], coming, faults=Faults(startup_spread=0.2), seed=3)
        return [e.at_ms for e in greedy.run(twin)[1] if isinstance(e, ev.JobStarted)]

    assert starts() == starts()
    assert len(set(starts())) > 10
    assert all(48_000 <= at <= 72_000 for at in starts())


def test_a_lost_race_is_no_crash_and_costs_a_second():
    """A gang that its node refused waits again, uses up no retry and loads nothing again."""
    coming = [
        (i * HOUR_MS, job(f"j{i}", startup_ms=MINUTE_MS, restart_ms=HOUR_MS), MINUTE_MS)
        for i in range(60)
    ]
    faults = Faults(retries=0, lost_races=0.5)
    world, journal = greedy.run(Twin([contract()], [TEAM], coming, faults=faults, seed=3))
    lost = [e for e in journal if isinstance(e, ev.JobFailed)]
    assert {e.why for e in lost} == {ev.Why.LOST_RACE}
    assert 30 <= len(lost) <= 90  # one per job is expected
    assert set(world.jobs.state[:60]) == {JobState.DONE}
    for j in range(60):
        races = world.matrices.jobs.item(j, JOB.RACES)
        begun = [e.at_ms for e in journal if isinstance(e, ev.JobStarted) and e.job == j]
        assert races == sum(e.job == j for e in lost)
        assert begun == [j * HOUR_MS + races * lives.REFUSED_AFTER_MS + MINUTE_MS]


def test_lost_races_change_no_other_luck():
    """They have a stream of their own: who loses none starts when it would have."""
    coming = [(i * HOUR_MS, job(f"j{i}", startup_ms=MINUTE_MS), MINUTE_MS) for i in range(40)]

    def starts(lost_races):
        faults = Faults(startup_spread=0.2, lost_races=lost_races)
        twin = Twin([contract()], [TEAM], coming, faults=faults, seed=3)
        journal = greedy.run(twin)[1]
        return {(e.job, e.at_ms) for e in journal if isinstance(e, ev.JobStarted)}

    both = starts(0.0) & starts(0.3)
    assert 15 <= len(both) < 40


def test_a_daily_tide_peaks_at_its_hour():
    """The highest hour is the peak hour, the lowest is twelve hours away."""
    levels = daily(200_000, 900_000, 15).levels_ppm
    assert max(levels) == levels[15] == 900_000
    assert min(levels) == levels[3] == 200_000
