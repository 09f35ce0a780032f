"""Jobs that were made anew, and whose earlier pods are gone: they did not wait all the time."""

from tests.live.kubernetes import made
from tests.live.kubernetes.made import BEGIN_MS, Object, node, pod, taken, template
from tidemill.live.kubernetes import translate
from tidemill.live.kubernetes.translate import KubernetesPast

LATER = 1800


def past_of(*objects: Object) -> KubernetesPast:
    return translate.translate(taken(node("n0"), *objects))


def submitted(past: KubernetesPast) -> int:
    """When its one job was, in seconds."""
    (at_ms,) = set(past.attempts["submit_ms"])
    return int(at_ms - BEGIN_MS) // 1000


def job_set(restarts: int) -> list[Object]:
    """A JobSet with one Job, whose pod was made half an hour after it."""
    inside = {"parallelism": 1, "completions": 1, "template": template(8)}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": inside}}]}
    labels = {"jobset.sigs.k8s.io/jobset-name": "s", "jobset.sigs.k8s.io/replicatedjob-name": "w"}
    of = ("batch/v1", "Job", "s-w-0")
    return [
        made.owner("jobset.x-k8s.io/v1alpha2", "JobSet", "s", spec, status={"restarts": restarts}),
        pod("s-w-0-0-x", 8, on="n0", created=LATER, owner=of, labels=labels),
    ]


def test_a_job_set_that_was_restarted_did_not_wait_for_its_pods():
    """All pods of the attempts before are deleted with it: the half hour was no wait, and is said
    to be in no books.
    """
    past = past_of(*job_set(restarts=2))
    assert submitted(past) == LATER
    (note,) = past.notes
    assert note.startswith("1 job made other pods than those that the files show")


def test_a_job_set_that_was_not_restarted_waited():
    """Its pods were made half an hour after it: that is a wait."""
    past = past_of(*job_set(restarts=0))
    assert submitted(past) == 0
    assert not past.notes


def test_a_job_whose_failed_pod_is_there_was_submitted_with_it():
    """Two of its pods have failed: with both shown nothing is forgotten, with one something is."""
    of = ("batch/v1", "Job", "j")
    spec = {"parallelism": 1, "completions": 1, "template": template(8)}
    job = made.owner("batch/v1", "Job", "j", spec, status={"failed": 2, "active": 1})
    first = pod("j-0", 8, on="n0", created=5, end=600, phase="Failed", owner=of)
    second = pod("j-1", 8, on="n0", created=700, end=900, phase="Failed", owner=of)
    third = pod("j-2", 8, on="n0", created=LATER, owner=of)
    assert submitted(past_of(job, first, second, third)) == 0
    assert submitted(past_of(job, second, third)) == 700


def test_a_group_of_a_leader_worker_set_that_was_made_anew_did_not_wait_before():
    """A LeaderWorkerSet makes a group at once: half an hour later it was made in another's place,
    or asked for.
    """
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": template(8)}}
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "v",
        "leaderworkerset.sigs.k8s.io/group-index": "0",
    }
    of = ("apps/v1", "StatefulSet", "v")
    past = past_of(
        made.owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "v", spec),
        pod("v-0", 8, on="n0", created=LATER, owner=of, labels=labels),
    )
    assert submitted(past) == LATER


def test_a_pod_that_is_being_deleted_is_counted_as_failed_and_is_not_forgotten():
    """A Job at its deadline deletes its pod, and says at once that one has failed: it is over, and
    the pod still holds its GPUs, which is said.
    """
    told = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded",
            "lastTransitionTime": made.moment(1800)}  # fmt: skip
    spec = {"parallelism": 1, "completions": 1, "template": template(8)}
    job = made.owner("batch/v1", "Job", "j", spec, status={"failed": 1, "conditions": [told]})
    leaves = pod("j-0", 8, on="n0", created=5, owner=("batch/v1", "Job", "j"))
    leaves["metadata"]["deletionTimestamp"] = made.moment(1830)
    past = past_of(job, leaves)
    assert submitted(past) == 0
    (note,) = past.notes
    assert note.startswith("1 job is over and its pods still hold GPUs")
    assert note.endswith("ml/j (kubectl describe jobs.batch -n ml j)")
