"""Jobs that Kueue admits: their pods, what of them is not there yet, and whose they are."""

from typing import Any

from tests.ledger.sums import amounts
from tests.live.history.test_advance import Observer
from tests.live.kubernetes import made
from tests.live.kubernetes.made import node, pod, template
from tests.live.kubernetes.test_import import Object, kept, reason, world_of
from tidemill.explain import commands
from tidemill.ledger.buckets import Bucket
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.kubernetes.translate import translate
from tidemill.model.reasons import Cause
from tidemill.model.states import JobState
from tidemill.model.world import World

JOB = ("batch/v1", "Job", "r")
NODES = [node("n0"), node("n1")]
QUEUE = made.owner("kueue.x-k8s.io/v1beta1", "LocalQueue", "lq", {"clusterQueue": "research"})


def condition(kind: str, at: int, status: str = "True", **rest: str) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": made.moment(at), **rest}


def job(parallelism: int = 4, completions: int = 4, **rest: Any) -> Object:
    """A Job whose pods work each by itself, of 2 GPUs each."""
    spec = {"parallelism": parallelism, "completions": completions, "template": template(2)}
    return made.owner("batch/v1", "Job", "r", spec, **rest)


def workload(*conditions: Object, count: int = 4, of: str = "Job", **status: Any) -> Object:
    """Kueue's Workload of it; admitted at once, unless it is said otherwise."""
    told = conditions or (condition("QuotaReserved", 0), condition("Admitted", 0))
    owner = {"apiVersion": "batch/v1", "kind": of, "name": "r", "uid": "u", "controller": True}
    spec = {
        "queueName": "lq",
        "podSets": [{"name": "main", "count": count, "template": template(2)}],
    }
    return made.owner(
        "kueue.x-k8s.io/v1beta1", "Workload", "job-r-1", spec, owners=[owner],
        status={"conditions": list(told), **status},
    )  # fmt: skip


def pods(count: int, **rest: Any) -> list[Object]:
    return [pod(f"r-{i}", 2, on="n0", owner=JOB, **rest) for i in range(count)]


def waiting(world: World) -> dict[str, int]:
    """GPUs requested by the jobs that wait."""
    return {
        name: world.shape_of(j).total_milli // 1_000
        for name, j in world.job_number.items()
        if world.jobs.state[j] == JobState.WAITING
    }


def test_an_admitted_job_whose_pods_all_run_does_not_wait():
    """Four pods of 2 GPUs run: four jobs, none waits, and what is free is wanted by nobody."""
    run = kept(*NODES, job(), workload(), *pods(4))
    assert run.world.job_count == 4
    assert waiting(run.world) == {}
    assert Bucket.CAUSE_UNKNOWN not in {key[0] for key in amounts(run.statement, "bucket")}


def test_what_is_missing_of_an_admitted_job_is_demand():
    """Of four pods one is there; the three that a quota of the namespace refused wait."""
    refused = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": "Job", "namespace": "ml", "name": "r"},
        "reason": "FailedCreate", "lastTimestamp": made.moment(60),
        "message": 'pods "r-1" is forbidden: exceeded quota: gpus',
    }  # fmt: skip
    world = world_of(*NODES, job(), workload(), *pods(1), refused)
    assert waiting(world) == {"ml/r": 6}
    assert reason(world, "ml/r")[1] == Cause.OVER_LIMIT


def test_a_workload_without_pods_or_without_its_job_waits_as_a_whole():
    """It waits for quota: with the Job in the files, or the Workload alone."""
    held = workload(condition("QuotaReserved", 0, "False", reason="Pending", message="no quota"))
    assert waiting(world_of(*NODES, job(), held)) == {"ml/r": 8}
    assert waiting(world_of(*NODES, held)) == {"ml/r": 8}


def test_a_job_admitted_in_part_wants_what_was_admitted():
    """Two pods of four were admitted (`minParallelism`) and run: the others are not wanted now."""
    part = [{"name": "main", "count": 2}]
    admitted = workload(admission={"clusterQueue": "research", "podSetAssignments": part})
    assert waiting(world_of(*NODES, job(2), admitted, *pods(2))) == {}
    assert waiting(world_of(*NODES, job(2), admitted, *pods(1))) == {"ml/r": 2}


def test_of_a_job_with_more_completions_than_pods_at_once_those_at_once_are_wanted():
    """Six to do, two at a time: done and running ones count, and the last alone wants one."""
    many, two = job(2, 6), workload(count=2)
    done = [pod(f"d-{i}", 2, on="n0", owner=JOB, end=600) for i in range(5)]
    assert waiting(world_of(*NODES, many, two, *done[:2], *pods(2))) == {}
    assert waiting(world_of(*NODES, many, two, *done[:2], *pods(1))) == {"ml/r": 2}
    assert waiting(world_of(*NODES, many, two, *done, *pods(1))) == {}
    spared = workload(count=2, reclaimablePods=[{"name": "main", "count": 1}])
    assert waiting(world_of(*NODES, many, spared, *pods(1))) == {}


def test_a_job_that_is_over_waits_for_nothing():
    """The Workload says that it is finished, or the Job does; so do pods that all ended well."""
    done = [pod(f"d-{i}", 2, on="n0", owner=JOB, end=600) for i in range(4)]
    finished = workload(condition("QuotaReserved", 0), condition("Finished", 600))
    over = job(status={"conditions": [condition("Complete", 600)]})
    failed = job(status={"conditions": [condition("Failed", 600)]})
    for objects in ([job(), finished], [over, workload()], [job(), workload()]):
        assert waiting(world_of(*NODES, *objects, *done)) == {}
    assert waiting(world_of(*NODES, failed, workload(), *done[:1])) == {}


def test_a_job_that_was_evicted_waits_since_then():
    """Its pods ended at 600 s with its eviction; all four wait again."""
    gone = [pod(f"d-{i}", 2, on="n0", owner=JOB, end=600, phase="Failed") for i in range(4)]
    evicted = workload(
        condition("QuotaReserved", 600, "False", reason="Pending", message="Preempted"),
        condition("Evicted", 600, reason="Preempted"),
    )
    world = world_of(*NODES, job(), evicted, *gone)
    assert waiting(world) == {"ml/r": 8}
    assert world.jobs.submit_ms[world.job_number["ml/r"]] == world.jobs.submit_ms.min() + 600_000


def test_pods_made_at_the_admission_have_waited_since_the_job_was_submitted():
    """Submitted at 0 s, admitted at 1200: its pods waited for 20 min; a later one for its own."""
    late = workload(condition("QuotaReserved", 1200), condition("Admitted", 1200))
    first = [pod(f"r-{i}", 2, on="n0", owner=JOB, created=1201, bound=1201) for i in range(3)]
    again = pod("r-3", 2, on="n0", owner=JOB, created=2400, bound=2400)
    run = kept(*NODES, job(), late, *first, again)
    found = run.statement.waits.figures()
    assert found.wait is not None
    assert (found.waiting, found.wait.mean) == (0, 1_201_000 * 3 // 4)


def test_an_observer_sees_a_job_wait_and_then_its_pods():
    """It waits as a whole until it is admitted; nothing of that is told again of its pods."""
    held = workload(condition("QuotaReserved", 0, "False", reason="Pending", message="no quota"))
    late = workload(condition("QuotaReserved", 1200), condition("Admitted", 1200))
    ran = [pod(f"r-{i}", 2, on="n0", owner=JOB, created=1201, bound=1201) for i in range(4)]
    observer = Observer(made.BEGIN_MS)
    for at, objects in ((600, [held]), (1190, [held]), (1210, [late, *ran]), (3600, [late, *ran])):
        nodes = [node(name, at=at) for name in ("n0", "n1")]
        past = translate(made.taken(*nodes, job(), *objects), looks_back=False)
        shown = SourceAnswer(past.attempts, past.nodes, 0, shapes=past.shapes)
        observer.take(shown, made.BEGIN_MS + 1000 * at)
    assert observer.late["submissions"] == 0
    assert waiting(observer.world) == {}
    assert observer.world.job_count == 5


def test_pods_of_a_job_are_of_its_queue():
    """By its Workload, or by the label of the Job where no Workload is in the files."""
    labelled = job(labels={"kueue.x-k8s.io/queue-name": "lq", "team": "red"})
    for objects, by, team in (
        ([job(), workload()], "queue", "research"),
        ([labelled], "queue", "research"),
        ([labelled], "label:team", "red"),
    ):
        world = world_of(*NODES, QUEUE, *objects, *pods(4), team_by=by)
        assert {world.shape_of(j).team for j in range(world.job_count)} == {team}
    world = world_of(*NODES, QUEUE, labelled, workload(), *pods(1), team_by="label:team")
    assert {world.shape_of(j).team for j in range(world.job_count)} == {"red"}


def test_a_workload_of_what_is_above_a_gang_is_the_gangs():
    """An AppWrapper owns a PyTorchJob and has the Workload: the gang runs, and nothing waits."""
    above = [{"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": "r",
              "uid": "u", "controller": True}]  # fmt: skip
    gang = made.pytorch_job("g", 4, 2, owners=above)
    world = world_of(*NODES, gang, workload(of="AppWrapper"), *made.workers("g", 4, 2, ["n0"] * 4))
    assert waiting(world) == {}
    assert world.job_count == 1


def test_a_pod_may_name_its_workload():
    """Kueue's annotation counts where nothing between a pod and its Workload is in the files."""
    named: Object = {"annotations": {"kueue.x-k8s.io/workload": "job-r-1"}}
    lone = [pod(f"x-{i}", 2, on="n0", **named) for i in range(4)]
    assert waiting(world_of(*NODES, workload(of="Other"), *lone)) == {}


def test_a_gang_whose_owner_is_shown_only_later_goes_on():
    """Its pods are seen before the object that owns them: it names their role, and is one job."""
    owner = ("kubeflow.org/v1", "PyTorchJob", "g")
    specs = {"pytorchReplicaSpecs": {"Master": {"replicas": 2, "template": template(2)}}}
    shown_later = made.owner(*owner, specs)
    pair = [pod(f"g-{i}", 2, on="n0", owner=owner, created=300, bound=300) for i in range(2)]
    observer = Observer(made.BEGIN_MS)
    for at, objects in ((600, pair), (1200, [*pair, shown_later])):
        past = translate(made.taken(node("n0", at=at), *objects), looks_back=False)
        shown = SourceAnswer(past.attempts, past.nodes, 0, shapes=past.shapes)
        observer.take(shown, made.BEGIN_MS + 1000 * at)
    assert [*observer.world.job_number] == ["ml/g"]
    assert observer.world.jobs.state[0] == JobState.RUNNING


def test_the_line_of_a_quota_names_whose_it_is():
    """A ClusterQueue guarantees something, or is below a cohort; a namespace has a ResourceQuota; a
    scheduler of ours has its quotas from its policy: an object, or a file, which no line shows.
    """
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": 4}]
    queue = made.owner("kueue.x-k8s.io/v1beta1", "ClusterQueue", "research", {"resourceGroups": [
        {"flavors": [{"name": "h100", "resources": resources}]}]})  # fmt: skip
    flavor = made.owner("kueue.x-k8s.io/v1beta1", "ResourceFlavor", "h100", {"nodeLabels": {}})
    runs = pod("x", 1, on="n0")
    world = world_of(node("n0"), queue, flavor, runs, team_by="queue")
    assert [row.name for row in world.queue_rows if row.shares] == ["research"]

    def line(team: str) -> list[str]:
        return [one.line for one in commands.team(world, team) if one.on == "kubernetes"]

    assert line("research") == ["kubectl describe clusterqueues.kueue.x-k8s.io research"]
    assert line("ml") == ["kubectl describe resourcequota -n ml"]
    world.scheduler = "tidemill"
    assert line("research") == []
    world.rules_of = {"object": "fleet"}
    assert line("research") == ["kubectl get schedulingpolicy fleet -o yaml"]
    assert commands.quota_words(world) == ""
    world.rules_of = {"file": "policy.toml"}
    assert line("research") == []
    assert commands.quota_words(world) == " (policy file `policy.toml`)"
