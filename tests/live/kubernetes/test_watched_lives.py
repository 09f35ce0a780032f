"""What becomes of pods that are watched: crash loops, gangs in part, and jobs that are held."""

from typing import Any

from tests.live.kubernetes import made
from tests.live.kubernetes.made import BEGIN_MS, Object, moment, node, owner, pod, template
from tests.live.kubernetes.watched import WatchedCluster
from tidemill import api, explain
from tidemill.live.history import events
from tidemill.live.kubernetes import cluster as clusters
from tidemill.live.kubernetes.jobs import TeamRule, jobs_of
from tidemill.live.kubernetes.translate import translate
from tidemill.live.kubernetes.watching import kinds
from tidemill.model import events as ev
from tidemill.model.policy import Policy
from tidemill.model.states import JobState

PLUGINS = "scheduling.x-k8s.io"


def crashing(at: int, restarts: int = 3, **rest: Any) -> Object:
    """A pod on n0 whose container ended at a second and waits to be started again."""
    one = pod("loop", 2, on="n0", **rest)
    ended = {"exitCode": 1, "reason": "Error", "startedAt": moment(at), "finishedAt": moment(at)}
    one["status"]["containerStatuses"] = [{
        "name": "main", "restartCount": restarts,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {"terminated": ended},
    }]  # fmt: skip
    return one


def restarted(at: int, ended: int, restarts: int = 3) -> Object:
    """The same after it was started again."""
    one = crashing(ended, restarts)
    one["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": moment(at)}}
    return one


def test_a_pod_that_crashes_in_a_loop_does_not_work_while_it_waits_to_be_started_again():
    """It runs for 100 seconds and crashes; for 200 it holds two GPUs and nothing runs."""
    cluster = WatchedCluster(node("n0"), pod("loop", 2, on="n0"), lateness=5)
    cluster.look(20, 60, 100)
    cluster.told(100, crashing(100))
    cluster.look(*range(102, 306, 6))
    assert cluster.seconds("ml/loop") == {"UNKNOWN": 2 * 100, "RESTART": 2 * 195}
    assert "CrashLoopBackOff" in cluster.why("ml/loop").words


def test_a_pod_that_is_started_again_works_from_then_on():
    """Crashed from 100 to 300, and told a minute late."""
    cluster = WatchedCluster(node("n0"), pod("loop", 2, on="n0"))
    cluster.look(70, 100)
    cluster.told(100, crashing(100))
    cluster.look(*range(130, 300, 30))
    cluster.told(300, restarted(300, 100))
    cluster.look(*range(310, 480, 30))
    assert cluster.seconds("ml/loop") == {"UNKNOWN": 2 * (100 + 100), "RESTART": 2 * 200}


def group(least: int) -> Object:
    """A pod group of scheduler-plugins."""
    one = owner(f"{PLUGINS}/v1alpha1", "PodGroup", "pp", {"minMember": least})
    del one["status"]
    return one


def gang(count: int, placed: int) -> list[Object]:
    """Pods of a group, of which the first so many run on a node each."""
    told: dict[str, Any] = {"labels": {f"{PLUGINS}/pod-group": "pp"}}
    return [pod(f"pp-{i}", 8, created=10, on=f"n{i}" if i < placed else "", **told)
            for i in range(count)]  # fmt: skip


def a_partial_gang() -> tuple[WatchedCluster, list[Object]]:
    """Three of five pods run from second 10 on, and the others never."""
    cluster = WatchedCluster(*(node(f"n{i}") for i in range(3)), group(5))
    cluster.look(65)
    pods = gang(5, 3)
    cluster.told(10, *pods)
    cluster.look(*range(75, 90, 5))
    return cluster, pods


def test_a_gang_that_was_never_whole_did_not_work_when_it_is_deleted():
    """Its pods go at second 90; what they held until then was allocated and not started."""
    cluster, pods = a_partial_gang()
    cluster.deleted(90, *pods)
    cluster.look(*range(90, 200, 5))
    assert cluster.seconds("ml/pp") == {"STARTING": 80 * 24}


def test_a_gang_whose_group_is_deleted_first_did_not_work_either():
    """The group goes at second 90, its pods at 100 and 170."""
    cluster, pods = a_partial_gang()
    cluster.deleted(90, group(5))
    cluster.look(95)
    cluster.deleted(100, *pods[:1], *pods[3:])
    cluster.look(*range(105, 170, 5))
    cluster.deleted(170, *pods[1:3])
    cluster.look(*range(175, 250, 5))
    assert cluster.seconds("ml/pp") == {"STARTING": 90 * 8 + 160 * 16}


def names(cluster: WatchedCluster) -> list[str]:
    """All jobs of the journal."""
    return list(cluster.observer.world.job_names)


def gated(*, is_held: bool = True) -> Object:
    """A pod with a scheduling gate, or without."""
    gates = {"schedulingGates": [{"name": "my/hold"}]} if is_held else {}
    return pod("held", 1, created=10, spec=gates)


def test_a_held_pod_that_is_deleted_never_asked_for_gpus():
    """It is cancelled as it was: held, and under its one name."""
    cluster = WatchedCluster(node("n0"))
    cluster.look(65)
    cluster.told(10, gated())
    cluster.look(*range(75, 90, 5))
    cluster.deleted(90, gated())
    cluster.look(*range(90, 200, 5))
    assert names(cluster) == ["ml/held"]
    assert +cluster.observer.late == {}
    told = [(type(one), one.at_ms) for one in cluster.observer.journal.read()
            if isinstance(one, ev.JobCancelled | ev.CauseChanged)]  # fmt: skip
    assert told == [(ev.CauseChanged, 10_000), (ev.JobCancelled, 90_000)]


def test_a_suspended_job_that_is_deleted_never_asked_for_gpus():
    """The same of a Job, which has no pods."""
    spec = {"suspend": True, "parallelism": 1, "template": template(8)}
    job = owner("batch/v1", "Job", "later", spec, created=10)
    cluster = WatchedCluster(node("n0"))
    cluster.look(65)
    cluster.told(10, job)
    cluster.look(*range(75, 90, 5))
    cluster.deleted(90, job)
    cluster.look(*range(90, 200, 5))
    assert names(cluster) == ["ml/later"]
    assert +cluster.observer.late == {}


def test_a_held_pod_that_is_released_is_still_the_same_job():
    """It waits for GPUs that others hold, and then runs."""
    full = pod("full", 8, on="n0")
    cluster = WatchedCluster(node("n0"), full)
    cluster.look(65)
    cluster.told(10, gated())
    cluster.look(*range(75, 90, 5))
    cluster.told(90, gated(is_held=False))
    cluster.look(*range(90, 240, 5))
    cluster.told(240, pod("full", 8, on="n0", end=240, phase="Succeeded"))
    cluster.told(241, pod("held", 1, created=10, bound=241, on="n0"))
    cluster.look(*range(245, 320, 5))
    assert names(cluster) == ["ml/full", "ml/held"]
    assert +cluster.observer.late == {}
    assert cluster.seconds("ml/held")["UNKNOWN"] > 0


def indexed(name: str, succeeded: int = 0, parallelism: int = 2, completions: int = 2) -> Object:
    """A Job all of whose pods call each other by name, and so are one gang."""
    spec = {"completionMode": "Indexed", "parallelism": parallelism, "completions": completions,
            "template": template(8, subdomain=name)}  # fmt: skip
    return owner("batch/v1", "Job", name, spec, status={"succeeded": succeeded})


def of_job(name: str, **rest: Any) -> Object:
    """A pod of the Job idx."""
    told: dict[str, Any] = {"owner": ("batch/v1", "Job", "idx"), "spec": {"subdomain": "idx"}}
    return pod(name, 8, labels={"batch.kubernetes.io/job-completion-index": "0"}, **told, **rest)


AGAIN = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."


def asked(cluster: WatchedCluster) -> tuple[int, str]:
    """GPUs that wait, and why."""
    board = explain.board(cluster.observer.world, Policy())
    return board.asked_milli // 1000, board.rows[0].cause


def test_a_gang_of_which_one_pod_ended_well_needs_the_other_alone():
    """Index 1 fails after index 0 is done, and its next pod waits for 8 GPUs and not for 16.

    One node is cordoned, on the other one GPU is held: it is full, and not too small. Then it runs.
    """
    busy = pod("small", 1, on="n0", created=150)
    cluster = WatchedCluster(node("n0"), node("n1"), indexed("idx"), lateness=5)
    cluster.told(1, of_job("idx-0", on="n0"), of_job("idx-1", on="n1"))
    cluster.look(50, 90)
    cluster.told(100, indexed("idx", 1), of_job("idx-0", on="n0", end=100))
    cluster.look(103, 120)
    assert explain.board(cluster.observer.world, Policy()).partial_gangs == ()
    cluster.told(130, of_job("idx-1", on="n1", end=130, phase="Failed"), busy)
    cluster.told(131, of_job("idx-1-b", created=131, message=AGAIN), node("n1", unschedulable=True))
    cluster.look(140, 160, 180)
    assert asked(cluster) == (8, "busy")
    assert "needs 8 nvidia.com/gpu, and 7 are free" in cluster.why("ml/idx").words
    cluster.told(200, of_job("idx-1-b", created=131, bound=200, on="n1"))
    cluster.look(210, 230)
    assert names(cluster) == ["ml/idx", "ml/small"]
    assert explain.board(cluster.observer.world, Policy()).partial_gangs == ()
    assert cluster.observer.late["again"] == 0


def test_an_import_knows_what_a_gang_still_needs():
    """The same objects at one moment."""
    past = translate(made.taken(
        node("n0"), node("n1", unschedulable=True), indexed("idx", 1), pod("small", 1, on="n0",
        created=150), of_job("idx-0", on="n0", end=100), of_job("idx-1-b", created=131,
        message=AGAIN), of_job("idx-1", on="n1", end=130, phase="Failed"),
    ))  # fmt: skip
    history = events.build(past.attempts, past.nodes, until_ms=BEGIN_MS + 300_000,
                           shapes=past.shapes)  # fmt: skip
    board = explain.board(api.keep_history(history).world, Policy())
    assert (board.asked_milli, board.rows[0].cause) == (8000, "busy")


def test_a_job_with_more_to_do_than_runs_at_once_needs_as_many_as_are_left():
    """Of 5 pods, two at a time, 4 are done: one more is needed, and not two."""
    objects = [node("n0"), indexed("idx", 4, 2, 5), of_job("idx-4", message=AGAIN)]
    cluster = clusters.read(made.taken(*objects))
    (job,) = jobs_of(cluster, TeamRule("namespace", cluster))
    assert job.needed(job.roles[0]) == 1


def test_who_is_held_beside_a_job_that_needs_less_is_the_one_who_is():
    """What a job requests since it waits again comes between the requests of two others."""
    past = translate(made.taken(
        node("n0"), indexed("idx", 1), of_job("idx-0", on="n0", end=100),
        of_job("idx-1-b", created=131, message=AGAIN),
        pod("big", 9, created=150), gated() | {"metadata": gated()["metadata"] | {
            "creationTimestamp": moment(160)}}, pod("cpu", 3, created=170, cpu="500"),
    ))  # fmt: skip
    history = events.build(past.attempts, past.nodes, until_ms=BEGIN_MS + 300_000,
                           shapes=past.shapes)  # fmt: skip
    board = explain.board(api.keep_history(history).world, Policy())
    assert {row.job: row.cause for row in board.waiting}["ml/held"] == "not_eligible"
    assert [row.jobs for row in board.rows if row.cause == "not_eligible"] == [1]


def test_a_pod_that_went_while_nobody_watched_is_cancelled_and_its_node_was_not_observed():
    """An observer sees it run, is killed, and the next one finds it gone two minutes later."""
    cluster = WatchedCluster(node("n0"), node("n1"), pod("r", 4, on="n0"), lateness=0)
    cluster.look(60)
    later = WatchedCluster(node("n0"), node("n1"), lateness=0)
    later.observer = cluster.observer
    later.look(180, 200)
    world = later.observer.world
    assert JobState(world.jobs.state.item(0)) is JobState.CANCELLED
    found = later.seconds()
    assert found == {"UNKNOWN": 240, "NOT_OBSERVED": 8 * 120,
                     "NO_DEMAND": (8 + 4) * 60 + 8 * 120 + 16 * 20}  # fmt: skip


def test_a_deleted_node_is_gone_then_and_its_pods_are_lost_with_it():
    """n0 goes at second 100; its orphaned pod is in the API until 400."""
    orphan = pod("orphan", 2, on="n0")
    cluster = WatchedCluster(node("n0"), orphan)
    cluster._kind(kinds.NODES).listed([node("n1")], set())
    cluster.look(70, 100)
    cluster.deleted(100, node("n0"))
    cluster.look(*range(130, 400, 30))
    cluster.deleted(400, orphan)
    cluster.look(*range(430, 520, 30))
    assert cluster.moves() == [(100, "n0", "GONE")]
    assert cluster.seconds("ml/orphan") == {"UNKNOWN": 2 * 100}
    ends = [(type(one), one.at_ms) for one in cluster.observer.journal.read()
            if isinstance(one, ev.JobFailed | ev.JobCancelled | ev.JobEvicted)]  # fmt: skip
    assert ends == [(ev.JobFailed, 100_000)]
    assert +cluster.observer.late == {}


def test_a_pod_that_is_deleted_with_its_node_has_held_it_until_then():
    """Both within a second: the time of the pod is its own, that of the node is by our clock."""
    both = pod("both", 2, on="n0")
    cluster = WatchedCluster(node("n0"), both)
    cluster.look(70, 100)
    cluster.deleted(100, node("n0"))
    cluster.deleted(101, both)
    cluster.look(*range(130, 220, 30))
    assert cluster.seconds("ml/both") == {"UNKNOWN": 2 * 101}


def test_a_node_that_is_deleted_and_registers_again_has_its_pods_again():
    """Deleted from 100 to 300: its kubelet started again, and nobody deleted the pod."""
    kept = pod("kept", 2, on="n0")
    cluster = WatchedCluster(node("n0"), kept)
    cluster.look(70, 100)
    cluster.deleted(100, node("n0"))
    cluster.look(*range(130, 300, 30))
    cluster.told(300, node("n0", since=300), how="ADDED")
    cluster.look(*range(310, 520, 30))
    assert cluster.moves()[0] == (100, "n0", "GONE")
    assert cluster.seconds("ml/kept") == {"UNKNOWN": 2 * 100}
    assert cluster.seconds("ml/kept#2")["UNKNOWN"] > 2 * 100
    assert cluster.observer.late["starts"] == 1


def test_a_pod_that_somebody_evicts_was_not_preempted_by_priority():
    """The Eviction API says that somebody asked, and not for what: a drain, or another job."""
    evicted = pod("one", 2, on="n0", phase="Failed")
    evicted["status"]["conditions"] = [
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
         "lastTransitionTime": moment(100)},
    ]  # fmt: skip
    cluster = WatchedCluster(node("n0"), pod("one", 2, on="n0"))
    cluster.told(100, evicted)
    cluster.look(170, 230)
    (end,) = [one for one in cluster.observer.journal.read() if isinstance(one, ev.JobFailed)]
    assert (end.at_ms, end.why) == (100_000, ev.Why.EVICTED)


def test_a_crash_loop_is_not_said_to_be_placed_when_its_container_ended():
    """It sits on n0 since 0 and its container ended at 100: since then it starts again."""
    cluster = WatchedCluster(node("n0"), pod("loop", 2, on="n0"), lateness=5)
    cluster.look(20, 60, 100)
    cluster.told(100, crashing(100))
    cluster.look(*range(102, 306, 6))
    words = cluster.why("ml/loop").words
    assert "was placed" not in words
    assert "it began to start again 3m" in words


def test_a_watched_gang_without_an_object_for_its_group_needs_all_its_pods():
    """Who watches is told of every group that there is: two of three pods are a partial gang."""
    told: dict[str, Any] = {"labels": {f"{PLUGINS}/pod-group": "bare"}}
    pods = [pod(f"b-{i}", 8, on=f"n{i}" if i < 2 else "", **told) for i in range(3)]
    cluster = WatchedCluster(node("n0"), node("n1"), *pods, lateness=5)
    cluster.look(20, 60)
    assert set(cluster.seconds("ml/bare")) == {"STARTING"}


def test_a_gang_of_several_roles_goes_on_when_a_rule_of_its_pods_is_known_later():
    """Its mark is in the name of the first role: the job that was told without it is the same."""
    spec = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    of = ("kubeflow.org/v1", "PyTorchJob", "g")
    plain, ruled = (
        [pod("g-0", 2, on="n0", owner=of, spec=one), pod("g-1", 1, on="n0", owner=of, spec=one)]
        for one in ({}, spec)
    )  # fmt: skip
    cluster = WatchedCluster(node("n0"), *plain)
    cluster.look(70)
    cluster.told(100, *ruled)
    cluster.look(170, 240)
    names = [*cluster.observer.world.job_names]
    assert names == ["ml/g"]
    assert cluster.observer.world.jobs.attempt.item(0) == 1
