"""Lost races: pods that their node refused, and binds that came too late."""

from typing import Any

import pytest

from tests.builders import contract, job, opening, team
from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.made import node, pod, taken, template
from tests.live.kubernetes.test_import import Object, kept, reason, world_of
from tidemill import explain
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import read
from tidemill.live.kubernetes import translate
from tidemill.model import events as ev
from tidemill.model.columns import JOB
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause, Layer
from tidemill.model.rows import Piece
from tidemill.model.states import JobState
from tidemill.model.world import World

TAKEN = "Node didn't have enough resource: nvidia.com/gpu, requested: 2, used: 8, capacity: 8"
OWNER = ("batch/v1", "Job", "big")
RACE = "lost a race for"
FIRST = "another scheduler or a static pod took them first"


def refused(name: str, at: int, why: str = "OutOfnvidia.com/gpu", **rest: Any) -> Object:
    """A pod of 2 GPUs that was bound to `n0`, and that its kubelet did not take a second later."""
    one = pod(name, 2, on="n0", created=at - 5, bound=at - 1, phase="Failed", **rest)
    del one["status"]["containerStatuses"]
    one["status"] |= {"reason": why, "message": TAKEN, "startTime": made.moment(at)}
    return one


@pytest.mark.parametrize("why", ["OutOfnvidia.com/gpu", "OutOfcpu", "UnexpectedAdmissionError"])
def test_a_lone_pod_that_its_node_refused_is_told(why: str):
    """It is in the books and in `why`, and the import says it; it held nothing for long."""
    objects = [node("n0"), pod("runs", 6, on="n0"), refused("lone", 60, why)]
    run = kept(*objects)
    j = run.world.job_number["ml/lone"]
    assert JobState(run.world.jobs.state[j]) is JobState.FAILED
    assert f"{RACE} its GPUs once: {FIRST}" in explain.why(run.world, Policy(), j).words
    assert run.statement.stops == {}, "its only attempt ended with it"
    (note,) = [
        words
        for words in translate.translate(taken(*objects)).notes
        if "refused by its node" in words
    ]
    assert f"the first is ml/lone ({why})" in note


def test_a_job_whose_pods_were_refused_waits_for_a_race_that_it_lost():
    """Twice its pod was refused on `n0`; the third waits, and by the books it would fit."""
    parts = [refused("big-0", 600, owner=OWNER), refused("big-1", 1200, owner=OWNER)]
    waits = pod("big-2", 2, created=1300, owner=OWNER)
    owner = made.owner("batch/v1", "Job", "big", {"parallelism": 1, "template": template(2)})
    run = kept(node("n0"), pod("runs", 1, on="n0"), *parts, owner, waits)
    layer, cause, words = reason(run.world, "ml/big")
    assert (layer, cause) == (Layer.SCHEDULING, Cause.LOST_RACE)
    assert f"{RACE} the GPUs of node `n0` 2 times: {FIRST}" in words
    assert "kubectl describe pod -n ml big-1" in words
    j = run.world.job_number["ml/big"]
    answer, board = explain.why(run.world, Policy(), j), explain.board(run.world, Policy())
    assert (answer.cause, answer.owner) == ("lost_race", "scheduling")
    assert {row.cause for row in board.rows} == {"lost_race"}
    assert f"{RACE} its GPUs 2 times: {FIRST}" in answer.words
    assert answer.fix.words.startswith("let one scheduler decide about these nodes")
    found = amounts(run.statement, "bucket")
    assert found[(Bucket.FRAGMENTED,)] > 0
    assert run.statement.stops == {"refused by their nodes: others had their GPUs first": 2}


@pytest.mark.parametrize("is_full", [False, True])
def test_a_bind_that_came_too_late_is_a_lost_race(is_full: bool):
    """The scheduler's error is told by what it means, also where all is taken by now."""
    late = (
        'Operation cannot be fulfilled on pods/binding "x": pod x is already assigned to node "n7"'
    )
    message = f'binding rejected: running Bind plugin "DefaultBinder": {late}'
    others = [pod("runs", 8 if is_full else 1, on="n0")]
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "x"}, "count": 3,
        "reason": "FailedScheduling", "lastTimestamp": made.moment(60), "message": message,
    }  # fmt: skip
    waits = pod("x", 2, message=message, reason="SchedulerError")
    for objects, times in (([event], "3 times"), ([], "once")):
        layer, cause, words = reason(world_of(node("n0"), *others, waits, *objects), "ml/x")
        assert (layer, cause) == (Layer.SCHEDULING, Cause.LOST_RACE)
        assert f"{RACE} the GPUs of node `n7` {times}" in words
        assert "kubectl describe pod -n ml x" in words


def test_another_error_of_a_bind_is_no_race():
    """A server that does not answer in time has given the GPUs to nobody."""
    waits = pod("x", 2, message="binding rejected: context deadline exceeded")
    assert reason(world_of(node("n0"), pod("runs", 1, on="n0"), waits), "ml/x")[1] is Cause.NONE


def test_lost_races_are_part_of_the_state():
    """They are counted by event, kept in snapshots, and told of jobs that our scheduler places."""
    events: list[ev.Event] = [
        *opening(contract(gpus=8), teams=[team("a")]),
        ev.JobSubmitted(0, job("x", gpus=2)),
    ]
    for attempt in (1, 2):
        events.append(ev.AskedPlace(attempt, 0, attempt, (Piece(0, 0, 1, 0b11),)))
        events.append(ev.JobFailed(attempt + 1, 0, attempt, ev.Why.LOST_RACE))
    world = World()
    for event in events:
        fold(world, event)
    for one in (world, snapshot.load(snapshot.dump(world)), read(events).world):
        assert one.matrices.jobs.item(0, JOB.RACES) == 2
        assert f"{RACE} its GPUs 2 times: {FIRST}" in explain.why(one, Policy(), 0).words
