"""What `why` says of a job of Kubernetes whose pods are gone: why, and what came after it."""

import pytest

from tests import builders
from tests.builders import contract, job, team
from tidemill.engine.fold.one_event import fold_all
from tidemill.explain.decision import stopped
from tidemill.journal.memory import MemoryJournal
from tidemill.model import events as ev
from tidemill.model.rows import Piece
from tidemill.model.states import NodeState
from tidemill.model.whys import Why
from tidemill.model.world import World

PIECES = (Piece(0, 0, 1, 0b11111111),)
BEGINS = (
    *builders.opening(contract(), teams=[team()]),
    ev.JobSubmitted(1000, job("ml/train", gpus=8)),
    ev.AskedPlace(1000, 0, 1, PIECES),
    ev.JobStarted(2000, 0, 1),
)
DRAINED = (ev.AskedEvict(3000, 0, 1, Why.DRAINED), ev.JobEvicted(5000, 0, 1))
GONE = ev.JobCancelled(5000, 0)
AGAIN = ev.JobSubmitted(9000, job("ml/train#2", gpus=8))


def told(*after: ev.Event, kind: str = "kubernetes") -> tuple[str, str]:
    """What is said a minute later of a job that runs on node `c-0`, after that."""
    journal, world = MemoryJournal(), World()
    every = [*BEGINS, *after, ev.Woke(65_000)]
    journal.append(every)
    fold_all(world, every)
    world.cluster_kinds = {"": kind} if kind else {}
    found = stopped.stopped(journal, world, 0, None)
    return ("", "") if found is None else (found.detail, found.words)


@pytest.mark.parametrize(
    ("after", "detail", "became"),
    [
        ((*DRAINED, GONE), "stopped", "it was stopped to drain its node"),
        ((ev.NodeMoved(5000, 0, NodeState.GONE), GONE), "lost", "it lost its node `c-0`"),
        ((GONE,), "cancelled", "its pods were deleted"),
    ],
)
def test_a_job_without_pods_says_why_they_went(
    after: tuple[ev.Event, ...], detail: str, became: str
):
    """Drained by the scheduler, lost with its node, or deleted: never just cancelled."""
    words = f"job `ml/train` has no pods now: {became} 1m ago, and no new ones were made yet"
    assert told(*after) == (detail, words)


def test_an_old_life_names_the_one_after_it():
    """Its owner has made new pods: they are another job by now."""
    words = "job `ml/train` is over: it was stopped to drain its node 1m ago; what came after it is"
    assert told(*DRAINED, GONE, AGAIN) == ("stopped", f"{words} `ml/train#2`")


def test_a_stop_long_before_its_pods_were_deleted_is_not_why():
    """It was drained, placed again, and deleted."""
    again = (ev.AskedPlace(6000, 0, 2, PIECES), ev.JobStarted(6500, 0, 2))
    assert told(*DRAINED, *again, ev.JobCancelled(7000, 0))[0] == "cancelled"


def test_a_pod_that_others_ended_says_that_another_may_have_its_place():
    """Preempted pods of a Job count as failed, and their Job makes others, by other names."""
    every = [*BEGINS, ev.JobFailed(5000, 0, 1, Why.PREEMPTED, is_final=True)]
    journal, world = MemoryJournal(), fold_all(World(), every)
    journal.append(every)
    world.cluster_kinds = {"": "kubernetes"}
    assert stopped.why_failed(journal, world, 0, None) == (
        "preempted by priority; what its owner, if it has one, makes in its place has another name"
    )


def test_only_jobs_of_kubernetes_have_pods():
    """Of Slurm and of simulations a cancelled job is a cancelled job."""
    assert told(*DRAINED, GONE, kind="slurm") == ("", "")
    assert told(GONE, kind="") == ("", "")
