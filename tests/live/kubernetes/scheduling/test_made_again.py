"""Jobs that are stopped for others, and whose owner makes their pods again later: one job.

A Job waits ten seconds and longer before it replaces pods that failed: nothing of it is there then.
"""

import asyncio

import pytest

from tests.live.kubernetes.scheduling import test_owners as owned
from tests.live.kubernetes.scheduling.pretended import Scheduler
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.live.kubernetes.scheduling import differ
from tidemill.model.policy import Policy
from tidemill.model.states import JobState

PREEMPTS = Policy(min_run_ms=0, preempt_gain_ppm=0)
LATER_S = 60
"""By then the job was submitted."""


def story() -> Story:
    """A Job of one pod at work on the only node."""
    found = Story(2)
    found.server.backs_off = True
    found.scheduler = Scheduler(found.server, found.journal, PREEMPTS)
    found.server.put(owned.job("low", 1))
    make(found, created=0)
    found.rest()
    return found


def make(one: Story, created: int) -> None:
    """The pod of the Job, made after so many seconds; it never saves."""
    one.server.make("low-0", 2, owner=("batch/v1", "Job", "low"), created=created,
                    labels={"batch.kubernetes.io/job-completion-index": "0"},
                    annotations={"tidemill/checkpoint-interval": "never"})  # fmt: skip


def stop(one: Story, i: int) -> None:
    """A better job takes its place, and is done after a while; the Job has no pod then."""
    one.server.make(f"better{i}", 2, spec={"priority": 1000})
    one.rest()
    assert [*one.bound()] == [f"better{i}"]
    one.server.finish(("ml", f"better{i}"))
    wait(one)


def wait(one: Story) -> None:
    one.server.deliver(one.scheduler.view, len(one.server.news))
    asyncio.run(one.scheduler.rest())


def lives(one: Story) -> list[str]:
    return [name for name in one.scheduler.loop.world.job_names if "low" in name]


@pytest.mark.parametrize("is_down", [False, True])
def test_a_job_whose_pods_are_made_again_keeps_its_count_of_stops(is_down: bool):
    """Stopped twice: one job, stopped twice; also where the scheduler ends in between."""
    one = story()
    for i in range(2):
        stop(one, i)
        world = one.scheduler.loop.world
        assert world.jobs.state[0] == JobState.CANCELLED
        if is_down:
            one.scheduler = Scheduler(one.server, one.journal, PREEMPTS)
            one.server.put(owned.job("low", 1))
        make(one, created=LATER_S * (i + 1))
        one.rest()
        assert "low-0" in one.bound()
    world = one.scheduler.loop.world
    assert lives(one) == ["ml/low"]
    assert world.jobs.evictions[0] == world.jobs.fruitless[0] == 2


def test_a_job_that_somebody_made_anew_under_that_name_is_another():
    """Deleted and created again: its stops are counted from none."""
    one = story()
    stop(one, 0)
    one.server.put(owned.job("low", 1, created=LATER_S))
    make(one, created=LATER_S)
    one.rest()
    assert lives(one) == ["ml/low", "ml/low#2"]
    assert one.scheduler.loop.world.jobs.evictions[one.scheduler.loop.world.job_count - 1] == 0


def test_a_job_whose_pods_come_long_after_it_was_stopped_is_another():
    """Nobody waited for them in between."""
    one = story()
    stop(one, 0)
    late_s = differ.MADE_AGAIN_MS // 1000 + 2 * LATER_S
    one.scheduler.clock += late_s * 1000
    make(one, created=late_s)
    one.rest()
    assert lives(one) == ["ml/low", "ml/low#2"]
