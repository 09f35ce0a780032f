"""Clocks of nodes that are ahead or behind: what is over is over, for as long as it ran."""

import json
from pathlib import Path

import pytest

from tests.ledger.sums import amounts
from tests.live.kubernetes.made import BEGIN_MS, listed, moment, node, owner, pod, taken
from tests.live.kubernetes.test_import import Object, kept
from tests.live.kubernetes.watched import WatchedCluster
from tidemill.ledger.buckets import Bucket
from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes import translate
from tidemill.model.states import JobState, NodeState

HOUR = 3600
FAR = 3 * HOUR
"""Where the tests begin, so that a clock that is behind shows no time before 1970."""
OFF = (2 * HOUR, HOUR // 2, -HOUR // 2, -2 * HOUR)


def nodes(off: int = 0, at: int = FAR + HOUR) -> list[Object]:
    """Three nodes, whose heartbeats are of one moment; the clock of n1 is off."""
    return [node("n0", at=at), node("n1", at=at + off), node("n2", at=at)]


def on_n1(name: str, gpus: int, off: int, *, bound: int, up: int, end: int | None = None) -> Object:
    """A pod on n1, whose kubelet tells all times but that of binding by its own clock."""
    end = None if end is None else end + off
    return pod(
        name, gpus, on="n1", created=bound, bound=bound, taken=bound + off, up=up + off, end=end
    )


def held(name: str, *objects: Object) -> int:
    """The GPU-seconds of a job."""
    run = kept(*objects)
    return amounts(run.statement, "job")[(run.world.job_number[name],)] // 1_000_000


@pytest.mark.parametrize("off", OFF)
def test_what_is_over_is_over_for_as_long_as_it_ran(off: int):
    """Bound at 0, 4 GPUs, up after 60 s, ended after half an hour: whatever its node's clock says.

    Of one that runs it is known when it came up.
    """
    told = (
        *nodes(off),
        on_n1("done", 4, off, bound=FAR, up=FAR + 60, end=FAR + 1800),
        on_n1("runs", 4, off, bound=FAR + 1900, up=FAR + 1960),
        pod("c", 8, on="n0", created=FAR),
    )  # fmt: skip
    past = translate.translate(taken(*told))
    assert past.seen_ms == BEGIN_MS + (FAR + HOUR) * 1000
    (note,) = (one for one in past.notes if "clock" in one)
    way = "behind" if off < 0 else "ahead of"
    far = "2h" if abs(off) > HOUR else "30m"
    assert note == (
        f"the clock of node `n1` is, or was, {far} {way} the API server's: when 2 pods there"
        " started and ended is inferred from when they were bound (kubectl get pod -n ml"
        " done -o yaml)"
    )
    run = kept(*told)
    states = {name: run.world.jobs.state.item(j) for name, j in run.world.job_number.items()}
    assert states == {
        "ml/done": JobState.DONE, "ml/runs": JobState.RUNNING, "ml/c": JobState.RUNNING,
    }  # fmt: skip
    by_bucket = amounts(run.statement, "bucket")
    assert by_bucket[(Bucket.STARTING,)] == 2 * 4_000 * 60_000
    assert by_bucket[(Bucket.UNKNOWN,)] == (4_000 * (1740 + 1640) + 8_000 * HOUR) * 1000
    assert held("ml/done", *told) == 4 * 1800


def test_without_the_time_at_which_its_kubelet_took_it_the_heartbeat_tells():
    """A clock two hours ahead by its heartbeat: what ended tomorrow by it ended in time."""
    ahead = on_n1("a", 4, 2 * HOUR, bound=FAR, up=FAR + 60, end=FAR + 1800)
    del ahead["status"]["startTime"]
    assert held("ml/a", *nodes(2 * HOUR), ahead) == 4 * 1800


def test_a_pod_that_ended_before_it_was_bound_held_its_gpus_while_it_ran():
    """Nobody says when its kubelet took it: it started when it was bound, at the earliest."""
    behind = on_n1("a", 4, -HOUR, bound=FAR, up=FAR + 60, end=FAR + 1800)
    del behind["status"]["startTime"]
    assert held("ml/a", *nodes(), behind) == 4 * 1740
    assert any("59m behind" in one for one in translate.translate(taken(*nodes(), behind)).notes)


def test_what_is_over_ended_before_the_files_were_made_at_the_latest():
    """A clock that was set ahead after the pod had started: its end is a bound, and it is over."""
    late = pod("a", 4, on="n1", created=FAR, taken=FAR, up=FAR + 60, end=FAR + 9 * HOUR)
    run = kept(*nodes(4 * HOUR), late, pod("c", 8, on="n0", created=FAR))
    assert run.world.jobs.state.item(run.world.job_number["ml/a"]) == JobState.DONE


def test_a_pod_ended_before_its_job_was_over():
    """The Job's controller says so by the API server's clock."""
    job = owner(
        "batch/v1", "Job", "j", {"parallelism": 1, "completions": 1}, created=FAR,
        status={"succeeded": 1, "completionTime": moment(FAR + 1000),
                "conditions": [{"type": "Complete", "status": "True",
                                "lastTransitionTime": moment(FAR + 1000)}]},
    )  # fmt: skip
    of = ("batch/v1", "Job", "j")
    late = pod("j-1", 4, on="n1", created=FAR, taken=FAR, up=FAR, end=FAR + 9 * HOUR, owner=of)
    assert held("ml/j", *nodes(8 * HOUR), job, late) == 4 * 1000


def test_a_clock_that_was_ahead_and_was_set_right_does_not_lengthen_the_books():
    """The node's heartbeat is right by now; what its pod told before is two hours late."""
    told = (*nodes(), on_n1("a", 4, 2 * HOUR, bound=FAR, up=FAR + 60, end=FAR + 1800))
    assert translate.translate(taken(*told)).seen_ms == BEGIN_MS + (FAR + HOUR) * 1000
    assert held("ml/a", *told) == 4 * 1800


def test_clocks_that_are_right_move_nothing():
    """A second more or less is none: kubelets write whole seconds."""
    told = (*nodes(), pod("a", 4, on="n1", created=FAR, bound=FAR, taken=FAR - 1, up=FAR + 60))
    assert not any("clock" in one for one in translate.translate(taken(*told)).notes)
    slow = pod("b", 4, on="n2", created=FAR, bound=FAR, taken=FAR + 1200, up=FAR + 1260)
    assert not any("clock" in one for one in translate.translate(taken(*told, slow)).notes)


def test_a_node_that_went_down_by_a_clock_that_is_ahead_is_down():
    """Not Ready since two hours after the end, by its own clock: it is not Ready."""
    down = node("n1", at=FAR + 3 * HOUR, ready=False, turned=FAR + 3 * HOUR)
    down["status"]["conditions"][0]["status"] = "False"
    told = (node("n0", at=FAR + HOUR), down, node("n2", at=FAR + HOUR), pod("a", on="n0"))
    world = kept(*told).world
    assert NodeState.UNHEALTHY in world.nodes.state[: world.node_count].tolist()


@pytest.mark.parametrize("in_files", [1, 2])
def test_an_export_was_made_when_most_of_its_clocks_say(tmp_path: Path, in_files: int):
    """Of two exports an hour apart the second lacks a pod on the node that is two hours ahead: the
    pod ran until the first, and what its node had free from then on nobody saw.
    """
    off, first, second = 2 * HOUR, FAR + HOUR, FAR + 2 * HOUR
    gone = on_n1("gone", 4, off, bound=FAR, up=FAR + 60)
    stays = pod("stays", 4, on="n0", created=FAR)
    for at, some in ((first, [gone, stays]), (second, [stays])):
        folder = tmp_path / str(at)
        folder.mkdir()
        parts = [nodes(off, at), some] if in_files == 2 else [[*nodes(off, at), *some]]
        for i, part in enumerate(parts):
            (folder / f"{i}.json").write_text(json.dumps(listed(*part)))
    past = translate.read([tmp_path])
    (row,) = past.attempts.filter(past.attempts["job"] == "ml/gone").to_dicts()
    assert row["end_ms"] == BEGIN_MS + first * 1000
    assert row["outcome"] == AttemptEnd.CANCELLED


@pytest.mark.parametrize("off", [*OFF, 0])
def test_an_observer_sees_what_is_over_end_when_it_did(off: int):
    """It held its GPUs until its node's clock was there, or was called cancelled."""

    def beats(at: int) -> list[Object]:
        return [node("n0", at=at), node("n1", at=at + off), node("n2", at=at)]

    watched = WatchedCluster(*beats(0))
    running = on_n1("a", 4, off, bound=100, up=160)
    running["status"]["containerStatuses"][0]["state"] = {
        "running": {"startedAt": moment(160 + off)}
    }
    watched.told(165, running)
    watched.look(200)
    watched.told(300, *beats(300))
    watched.look(300, 400)
    assert state_of(watched) == (JobState.RUNNING, 160_000)
    over = on_n1("a", 4, off, bound=100, up=160, end=600)
    watched.told(602, over, *beats(600))
    watched.look(700, 800)
    assert state_of(watched) == (JobState.DONE, 600_000)


def state_of(watched: WatchedCluster) -> tuple[JobState, int]:
    """How its one job is, and since when."""
    world = watched.now_known()
    j = world.job_number["ml/a"]
    return JobState(world.jobs.state.item(j)), world.jobs.since_ms.item(j)
