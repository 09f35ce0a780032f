"""What pods request is what admission made of their template: pods count first."""

from typing import Any

from tests.live.kubernetes import made
from tests.live.kubernetes.made import node, owner, pod, pytorch_job, taken, template, workers
from tests.live.kubernetes.test_import import Object, world_of
from tests.live.kubernetes.watched import WatchedCluster
from tidemill import explain
from tidemill.live.kubernetes import translate
from tidemill.model import events as ev
from tidemill.model.node_rules import ANY
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Role
from tidemill.model.world import World

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
ADDED = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
"""What GKE's admission adds to every pod that requests GPUs."""
MINE = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}
"""What a webhook adds to the pods of a namespace."""
TOLERATES: dict[str, Any] = {"spec": {"tolerations": [ADDED]}}
FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def tainted(name: str = "n0", **rest: Any) -> Object:
    """A node with 8 GPUs, as GKE has them."""
    return node(name, taints=[TAINT], **rest)


def job(name: str, gpus: int = 8, **spec: Any) -> Object:
    """A Job with one pod."""
    return owner("batch/v1", "Job", name, {"parallelism": 1, "template": template(gpus)} | spec)


def of(name: str, kind: tuple[str, str] = ("batch/v1", "Job")) -> dict[str, Any]:
    """That a pod is one of a job."""
    return {"owner": (*kind, name)}


def role(world: World, name: str) -> Role:
    """What a job with one role requests."""
    (found,) = world.shape_of(world.job_number[name]).roles
    return found


def cause(world: World, name: str) -> str:
    """Why a job waits, by the books."""
    return explain.why(world, Policy(), world.job_number[name]).cause


def notes(*objects: Object) -> list[str]:
    """What an import says of such jobs."""
    return [one for one in translate.translate(taken(*objects)).notes if "tolerate" in one]


def test_a_pod_tolerates_what_its_template_does_not_say():
    """It waits for the GPUs that the other has, and not for a toleration."""
    world = world_of(
        tainted(), job("a"), pod("a-x", 8, on="n0", **of("a"), **TOLERATES), job("b"),
        pod("b-x", 8, message=FULL, **of("b"), **TOLERATES),
    )  # fmt: skip
    assert role(world, "ml/a").tolerates == (("nvidia.com/gpu", ANY),)
    assert cause(world, "ml/b") == Cause.BUSY.name.lower()


def test_cpus_that_a_limit_range_gives_are_taken():
    """The template requests 8 cores, the pod 90 of the node's 192."""
    world = world_of(node("n0"), job("a", 4), pod("a-x", 4, on="n0", cpu="90", **of("a")))
    assert role(world, "ml/a").cpu_milli == 90_000


def test_missing_pods_are_taken_to_be_like_those_that_are_there():
    """One of two pods of a gang is there: both request what that does, and select as it does."""
    spec = {"tolerations": [ADDED], "nodeSelector": {"pool": "a", "kubernetes.io/hostname": "n0"}}
    one, _ = workers("g", 2, 8, ["n0"], cpu="50", spec=spec)
    world = world_of(tainted(labels={"pool": "a"}), pytorch_job("g", 2, 8), one)
    found = role(world, "ml/g")
    assert (found.count, found.cpu_milli) == (2, 50_000)
    assert found.labels == (("pool", "a"),)  # the node is of one pod, the pool of all


def test_what_is_of_each_pod_alone_is_not_of_the_gang():
    """Kueue names a node for each of two pods: the gang is one role, whose pods name none."""
    pods = workers("g", 2, 8, ["n0", "n1"])
    for one, name in zip(pods, ("n0", "n1"), strict=True):
        one["spec"]["nodeSelector"] = {"kubernetes.io/hostname": name, "pool": "a"}
    nodes = [node(name, labels={"pool": "a"}) for name in ("n0", "n1")]
    world = world_of(*nodes, pytorch_job("g", 2, 8), *pods)
    assert role(world, "ml/g").labels == (("pool", "a"),)


def test_roles_with_as_many_gpus_are_told_apart_by_their_labels():
    """A master with 40 cores and a worker with 20, by a webhook; one of each is there."""
    of_both = {"Master": {"replicas": 1, "template": template(4)},
               "Worker": {"replicas": 3, "template": template(4)}}  # fmt: skip
    gang = owner("kubeflow.org/v1", "PyTorchJob", "g", {"pytorchReplicaSpecs": of_both})
    of_g = of("g", ("kubeflow.org/v1", "PyTorchJob"))
    pods = [
        pod(f"g-{name}-0", 4, on="n0", cpu=cpu, **of_g,
            labels={"training.kubeflow.org/replica-type": name})
        for name, cpu in (("master", "40"), ("worker", "20"))
    ]  # fmt: skip
    world = world_of(node("n0"), gang, *pods)
    roles = world.shape_of(world.job_number["ml/g"]).roles
    assert [(one.count, one.cpu_milli) for one in roles] == [(1, 40_000), (3, 20_000)]


def test_a_job_without_pods_gets_the_tolerations_that_admission_adds_to_all():
    """It is suspended under Kueue: no template names the taint, every pod tolerates it."""
    objects = [
        tainted(), job("a"), pod("a-x", 8, on="n0", **of("a"), **TOLERATES), job("b", suspend=True),
    ]  # fmt: skip
    assert role(world_of(*objects), "ml/b").tolerates == (("nvidia.com/gpu", ANY),)
    (said,) = notes(*objects)
    assert said.startswith("1 job without pods is taken to tolerate the taint `nvidia.com/gpu`")
    assert "as of the pod ml/a-x (kubectl get pod -n ml a-x -o jsonpath" in said


def test_nothing_is_added_where_a_pod_has_no_such_toleration():
    """One that waits without it shows that admission adds none: somebody wrote it into the pod."""
    objects = [
        tainted(), job("a"), pod("a-x", 8, on="n0", **of("a"), **TOLERATES), pod("bare", 8),
        job("b", suspend=True),
    ]  # fmt: skip
    assert role(world_of(*objects), "ml/b").tolerates == ()
    assert not notes(*objects)


def test_nothing_is_added_where_the_templates_say_it_themselves():
    """Then a job whose template does not say it has pods that do not, as far as anybody knows."""
    told = job("a", template=template(8, tolerations=[ADDED]))
    objects = [tainted(), told, pod("a-x", 8, on="n0", **of("a"), **TOLERATES)]
    world = world_of(*objects, job("b", suspend=True))
    assert role(world, "ml/b").tolerates == ()


def test_other_tolerations_are_those_of_their_namespace():
    """A webhook adds one to the pods of `ml`: jobs of another namespace do not get it."""
    there = job("b", suspend=True)
    there["metadata"]["namespace"] = "other"
    world = world_of(
        tainted(), job("a"), pod("a-x", 8, on="n0", **of("a"), spec={"tolerations": [ADDED, MINE]}),
        job("b", suspend=True), there,
    )  # fmt: skip
    assert role(world, "ml/b").tolerates == (("dedicated", ANY), ("nvidia.com/gpu", ANY))
    assert role(world, "other/b").tolerates == (("nvidia.com/gpu", ANY),)


def test_pods_that_a_quota_refuses_are_like_the_others_of_their_owner():
    """A ReplicaSet of two with one pod: the second would request as many cores as that does."""
    spec = {"replicas": 2, "template": template(4)}
    one = owner("apps/v1", "ReplicaSet", "rs", spec)
    failed = {
        "apiVersion": "v1", "kind": "Event", "reason": "FailedCreate", "type": "Warning",
        "metadata": {"name": "rs.1", "namespace": "ml"}, "message": 'pods "rs-y" is forbidden',
        "involvedObject": {"kind": "ReplicaSet", "namespace": "ml", "name": "rs"},
        "lastTimestamp": made.moment(100),
    }  # fmt: skip
    there = pod("rs-x", 4, on="n0", cpu="60", **of("rs", ("apps/v1", "ReplicaSet")), **TOLERATES)
    world = world_of(tainted(), one, there, failed)
    assert role(world, "ml/rs").cpu_milli == 60_000
    assert role(world, "ml/rs").tolerates == (("nvidia.com/gpu", ANY),)


def test_an_observer_takes_what_pods_request_when_they_come():
    """A Job is seen before its pod, which requests 90 cores and waits: from then on it needs those,
    and its place in the queue is the same.
    """
    cluster = WatchedCluster(tainted(), pod("x", 8, on="n0", **TOLERATES), job("a"), lateness=5)
    cluster.look(20, 40)
    world = cluster.observer.world
    assert role(world, "ml/a").cpu_milli == 8_000
    cluster.told(41, pod("a-x", 8, created=41, cpu="90", message=FULL, **of("a"), **TOLERATES))
    cluster.look(60, 80)
    world = cluster.observer.world
    assert role(world, "ml/a").cpu_milli == 90_000
    assert role(world, "ml/a").tolerates == (("nvidia.com/gpu", ANY),)
    assert sorted(world.job_names) == ["ml/a", "ml/x"]
    changed = [one for one in cluster.observer.journal.read() if isinstance(one, ev.RequestChanged)]
    assert len(changed) == 1


def test_an_observer_takes_what_pods_request_of_a_job_that_was_held():
    """It was suspended when it was seen first; its pod requests 90 cores, and starts at once."""
    cluster = WatchedCluster(node("n0"), job("a", suspend=True), lateness=5)
    cluster.look(20, 40)
    cluster.told(43, job("a"), pod("a-x", 8, on="n0", created=41, bound=42, cpu="90", **of("a")))
    cluster.look(60, 80)
    world = cluster.observer.world
    assert role(world, "ml/a").cpu_milli == 90_000
    assert cluster.seconds("ml/a") == {"UNKNOWN": 8 * 33}
