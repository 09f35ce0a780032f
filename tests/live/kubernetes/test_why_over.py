"""What `why` says of pods that are over: of a gang that works on, and of jobs that failed."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, listed, node, pod, template
from tests.live.kubernetes.test_import import kept, world_of
from tidemill import explain
from tidemill.explain.partial_gangs import partial_gangs
from tidemill.ledger.buckets import Bucket
from tidemill.model.events import Why
from tidemill.model.policy import Policy
from tidemill.model.states import JobState

AGAIN = "what its owner, if it has one, makes in its place has another name"


def test_a_gang_of_which_a_replica_finished_has_nothing_to_mend():
    """One of two indexed pods ended well, the other works on: it waits for nobody."""
    of = ("batch/v1", "Job", "g")
    spec = {"completionMode": "Indexed", "parallelism": 2, "completions": 2,
            "template": template(4, subdomain="g")}  # fmt: skip
    world = world_of(
        node("n0"), made.owner("batch/v1", "Job", "g", spec),
        *(pod(f"g-{i}", 4, on="n0", end=end, owner=of, spec={"subdomain": "g"})
          for i, end in enumerate((1800, None))),
    )  # fmt: skip
    answer = explain.why(world, Policy(), world.job_number["ml/g"])
    assert not partial_gangs(world).gangs
    assert answer.words == (
        "job `ml/g` does not wait: it has run as it is for 30m; 1 of 2 replicas are placed, on"
        " `n0`; the others ended, or are gone"
    )
    assert (answer.fix.words, answer.state) == ("nothing to fix", "running")


def preempted() -> Object:
    """A pod that its scheduler stopped for one of a higher priority."""
    told = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "lastTransitionTime": made.moment(590)}  # fmt: skip
    return pod("x", 8, on="n0", end=600, phase="Failed", conditions=[told])


def short_of_disk() -> Object:
    """A pod that its kubelet evicted: nobody drained its node, and nobody else wanted its GPUs."""
    told = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
            "lastTransitionTime": made.moment(600)}  # fmt: skip
    over = pod("x", 8, on="n0", end=600, phase="Failed", conditions=[told])
    over["status"]["reason"] = "Evicted"
    return over


def out_of_time() -> Object:
    """A pod that ran for as long as it may."""
    over = pod("x", 8, on="n0", end=600, phase="Failed")
    over["status"]["reason"] = "DeadlineExceeded"
    return over


@pytest.mark.parametrize(
    ("over", "words"),
    [
        (
            preempted,
            f"preempted by priority; {AGAIN}",
        ),
        (
            short_of_disk,
            f"{Why.EVICTED.words}; {AGAIN}",
        ),
        (out_of_time, "time limit reached"),
    ],
)
def test_why_a_job_failed_for_good_is_said(tmp_path: Path, over, words: str):
    """By the one line of `why`, as `decision` has it."""
    (tmp_path / "c.json").write_text(json.dumps(listed(node("n0"), over())))
    where = str(tmp_path / "j.sqlite")
    assert tidemill("import", "kubernetes", str(tmp_path / "c.json"), "-j", where).code == 0
    said = tidemill("why", "ml/x", "-j", where).out
    assert said.strip() == f"job `ml/x` does not wait: it failed for good 50m ago: {words}"
    assert words.partition(";")[0] in tidemill("decision", "ml/x", "-j", where).out


def test_a_job_that_gave_up_failed_when_its_last_pod_did():
    """Its back-off limit is reached: it failed, and requested nothing since its pod had ended."""
    over = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
            "lastTransitionTime": made.moment(2400)}  # fmt: skip
    of = ("batch/v1", "Job", "f")
    status = {"conditions": [over]}
    job = made.owner("batch/v1", "Job", "f", {"template": template(8)}, status=status)
    pods = [pod(f"f-{i}", 8, on="n0", created=start, bound=start, end=start + 600, phase="Failed",
                owner=of) for i, start in enumerate((0, 700))]  # fmt: skip
    run = kept(node("n0"), job, *pods)
    found = amounts(run.statement, "bucket")
    assert JobState(run.world.jobs.state[run.world.job_number["ml/f"]]) is JobState.FAILED
    assert run.world.jobs.since_ms[run.world.job_number["ml/f"]] == 1_300_000
    assert found[Bucket.CAUSE_UNKNOWN,] == 8_000 * 100_000, "between the pods, and no longer"
