"""Since when jobs waited, where the events tell it later than it was."""

import asyncio
from pathlib import Path

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.test_holding import Story, in_group, pod_group
from tidemill import api
from tidemill.journal import open_journal, submissions
from tidemill.journal.scheduled import SCHEDULES
from tidemill.ledger import records
from tidemill.live.kubernetes.scheduling import keeping
from tidemill.model.events import JobSubmitted


class Kept:
    """A pretended cluster whose clock agrees with its pods, and what is kept beside its journal."""

    def __init__(self, *sizes: int) -> None:
        self.story, self.kept = Story(*sizes), submissions.Submissions({}, {})

    def rest(self, at_s: int) -> None:
        """As ``Story.rest``, so long after the beginning."""
        story = self.story
        story.scheduler.clock = max(story.scheduler.clock, at_s * 1000)
        story.server.deliver(story.scheduler.view, len(story.server.news))
        asyncio.run(story.scheduler.rest())
        found = keeping.submissions(story.scheduler.differ, made.BEGIN_MS)
        self.kept.submitted.update(found.submitted)
        self.kept.placed.update(found.placed)

    def submitted(self) -> list[str]:
        """The jobs that came, by name."""
        told = self.story.journal.read()
        return [one.job.name for one in told if isinstance(one, JobSubmitted)]

    def waits(self, path: Path) -> dict[str, tuple[str, int | None]]:
        """By job: its state, and how long it waited in seconds, as the ledger says."""
        with open_journal(str(path), create=True) as journal:
            journal.append([*self.story.journal.read()])
            facts = submissions.facts(*self.kept) | {SCHEDULES: "tidemill"}
            for key, value in facts.items():
                journal.set_meta(key, value)
        statement = api.read_statement(str(path))
        return {
            row["job"]: (row["state"], None if row["wait_ms"] is None else row["wait_ms"] // 1000)
            for row in records.jobs(statement)
        }


def test_a_job_that_requests_something_else_while_it_waits_has_waited_all_the_time(tmp_path: Path):
    """It waits for 40 s, is given an estimate, and is placed at 60 s: one job, a wait of a minute.

    Nobody cancelled it, and it is the same job.
    """
    kept = Kept(8)
    server = kept.story.server
    server.make("first", 8)
    kept.rest(0)
    server.make("late", 8)
    kept.rest(1)
    server.annotate("late", expected_duration="10m")
    kept.rest(40)
    server.finish(("ml", "first"))
    kept.rest(60)
    assert "late" in kept.story.bound()
    state, wait_s = kept.waits(tmp_path / "j.sqlite")["ml/late"]
    assert state == "running"
    assert wait_s is not None
    assert 60 <= wait_s <= 75
    assert kept.submitted() == ["ml/first", "ml/late"]


def test_a_job_that_requests_something_else_keeps_its_place():
    """Of two that wait, the older one is given an estimate: it is still the first."""
    kept = Kept(8)
    server = kept.story.server
    server.make("runs", 8)
    kept.rest(0)
    for at_s, name in ((2, "older"), (4, "younger")):
        server.make(name, 8, created=at_s)
        kept.rest(at_s)
    server.annotate("older", expected_duration="10m")
    kept.rest(30)
    server.finish(("ml", "runs"))
    kept.rest(40)
    assert "older" in kept.story.bound()
    assert "younger" not in kept.story.bound()


def test_a_gang_that_lacks_a_pod_for_a_while_keeps_its_place(tmp_path: Path):
    """Held while a pod is made anew, it is in no queue; whole again it goes before who came later.

    Its wait has no gap.
    """
    kept = Kept(8)
    server = kept.story.server
    server.make("runs", 8)
    kept.rest(0)
    for i in range(2):
        server.make(f"a{i}", 4, spec=in_group("pair"), created=2)
    server.put(pod_group("pair", 2))
    kept.rest(2)
    server.make("younger", 8, created=4)
    kept.rest(4)
    server.finish(("ml", "a1"))
    kept.rest(20)
    assert kept.story.held()["ml/pair"][0] == "WaitingForGang"
    server.make("a2", 4, spec=in_group("pair"), created=30)
    kept.rest(30)
    assert kept.story.held() == {}
    server.finish(("ml", "runs"))
    kept.rest(60)
    assert {"a0", "a2"} <= {*kept.story.bound()}
    state, wait_s = kept.waits(tmp_path / "j.sqlite")["ml/pair"]
    assert (state, 58 <= (wait_s or 0) <= 70) == ("running", True)
    figures = api.read_statement(str(tmp_path / "j.sqlite")).waits.figures()
    assert figures.total_wait is not None
    assert figures.total_wait.max >= 58_000
    assert kept.submitted() == ["ml/runs", "ml/pair", "ml/younger"]


def test_a_job_that_was_deleted_and_made_anew_begins_at_the_end():
    """Its pod is younger than the place of the one before: it is another job."""
    kept = Kept(8)
    server = kept.story.server
    server.make("runs", 8)
    kept.rest(0)
    for at_s, name in ((2, "older"), (4, "younger")):
        server.make(name, 8, created=at_s)
        kept.rest(at_s)
    server.finish(("ml", "older"))
    kept.rest(20)
    server.make("older", 8, created=30)
    kept.rest(30)
    server.finish(("ml", "runs"))
    kept.rest(40)
    assert "younger" in kept.story.bound()
    assert kept.submitted()[-1] == "ml/older#2"


def test_a_job_that_lost_its_place_and_requests_something_else_is_the_same_job():
    """Its node is gone and its pod is made anew, with an estimate."""
    kept = Kept(8)
    server = kept.story.server
    server.make("first", 8, gang="g", created=0)
    kept.rest(0)
    assert "first" in kept.story.bound()
    server.drop_node("n0")
    server.put_node("n0", 4)
    (again,) = (name for _, name in server.pods)
    server.annotate(again, expected_duration="10m")
    kept.rest(20)
    assert kept.submitted() == ["ml/g"]


def test_jobs_that_were_there_when_the_scheduler_began_are_counted_with_their_waits(tmp_path: Path):
    """One waits since six minutes and is placed; one of another scheduler runs, and waited 10 s."""
    kept = Kept(8, 8)
    server = kept.story.server
    server.make("early", 8, created=-350)
    server.make("other", 8, on="n0", created=-100, bound=-90)
    kept.rest(0)
    server.finish(("ml", "other"))
    kept.rest(30)
    found = kept.waits(tmp_path / "j.sqlite")
    assert found["ml/early"][0] == "running"
    assert 350 <= (found["ml/early"][1] or 0) <= 355
    assert found["ml/other"][1] == 10
    figures = api.read_statement(str(tmp_path / "j.sqlite")).waits.figures()
    assert figures.total_wait is not None
    assert figures.wait is not None
    assert figures.total_wait.max == figures.wait.max


@pytest.mark.parametrize("wait_s", [34, 300])
def test_a_pod_of_another_scheduler_has_waited_since_it_was_created(tmp_path: Path, wait_s: int):
    """It is seen when it is bound: how long it waited is in the pod."""
    kept = Kept(8)
    kept.rest(0)
    kept.story.server.make("q1", 4, on="n0", created=5, bound=5 + wait_s)
    kept.rest(5 + wait_s)
    (found,) = kept.waits(tmp_path / "j.sqlite").values()
    assert found[0] == "running"
    assert wait_s <= (found[1] or 0) <= wait_s + 2
