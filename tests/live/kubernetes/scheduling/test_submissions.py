"""Since when jobs waited, where the events tell it later than it was."""

import asyncio
from pathlib import Path

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.test_holding import Story
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

    Its first life is no cancelled job: nobody cancelled it.
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
    found = kept.waits(tmp_path / "j.sqlite")
    assert "ml/late" not in found
    state, wait_s = found["ml/late#2"]
    assert state == "running"
    assert wait_s is not None
    assert 60 <= wait_s <= 75
    told = [one.job.name for one in kept.story.journal.read() if isinstance(one, JobSubmitted)]
    assert told == ["ml/first", "ml/late", "ml/late#2"]


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
