"""Gangs of a foreign cluster: who is one job, who is there in part, who blocks whom."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.made import node, pod, pytorch_job, taken, template, workers
from tests.live.kubernetes.test_import import Object, kept, reason, world_of
from tidemill import explain
from tidemill.cli import observers, shadow_tables
from tidemill.cli.main import app
from tidemill.explain.partial_gangs import partial_gangs
from tidemill.ledger.buckets import Bucket
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.kubernetes.translate import translate
from tidemill.live.observing.observer import Observer, ObserverTerms
from tidemill.live.prices.rules import unpriced
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause, Layer
from tidemill.model.states import JobState
from tidemill.model.world import World

NODES = [node(f"n{i}") for i in range(3)]


def two_halves() -> list[Object]:
    """Two gangs of 16 GPUs that hold 12 each of a fleet of 24."""
    return [
        *NODES, pytorch_job("a", 16, 1), pytorch_job("b", 16, 1),
        *workers("a", 16, 1, ["n0"] * 8 + ["n1"] * 4),
        *workers("b", 16, 1, ["n1"] * 4 + ["n2"] * 8),
    ]  # fmt: skip


def why(world: World, job: str) -> str:
    return explain.why(world, Policy(), world.job_number[job]).words


def test_a_partial_gang_is_one_attempt_that_holds_what_is_bound_and_is_told():
    """12 of 16 pods: starting, not running; `why` says what it holds, and why the rest waits."""
    world = world_of(*NODES, pytorch_job("a", 16, 1), *workers("a", 16, 1, ["n0"] * 8 + ["n1"] * 4))
    j = world.job_number["ml/a"]
    assert world.jobs.state[j] == JobState.STARTING
    assert "partial gang: 12 of 16 replicas are placed" in why(world, "ml/a")
    assert "it holds 12 GPUs ($24.00 an hour)" in why(world, "ml/a")
    assert "kubectl describe pod -n ml a-worker-12" in why(world, "ml/a")
    assert partial_gangs(world).deadlocks == ()


def test_a_gang_that_the_cluster_can_never_hold_is_not_told_to_wait():
    """24 of 32 pods are placed on all nodes that there are: `why` and `pending` say so."""
    nodes = ["n0"] * 8 + ["n1"] * 8 + ["n2"] * 8
    world = world_of(*NODES, pytorch_job("a", 32, 1), *workers("a", 32, 1, nodes))
    found = explain.why(world, Policy(), world.job_number["ml/a"])
    assert found.detail == "never_whole"
    assert found.fix.words.startswith("stop it: without more nodes no wait completes it; then ")
    never = "which the cluster can never hold: all of `H100`, empty, would hold 24 of its 32"
    assert never in found.words
    assert never in partial_gangs(world).gangs[0].words
    more = world_of(*NODES, node("n3"), pytorch_job("a", 32, 1), *workers("a", 32, 1, nodes))
    assert "never" not in why(more, "ml/a")


class Deadlocked:
    """A cluster in which two halves block each other, for an observer."""

    name = "kubernetes"

    def now_ms(self) -> int:
        """An hour and more after the beginning."""
        return made.BEGIN_MS + 4_000_000

    def poll(self, since_ms: int) -> SourceAnswer:
        """All of it."""
        past = translate(made.taken(*two_halves()))
        return SourceAnswer(past.attempts, past.nodes, self.now_ms(), shapes=past.shapes)


def test_an_observer_counts_gangs_in_part_apart_from_what_runs(tmp_path: Path):
    """Both hold GPUs and neither runs: the line of each answer says so."""
    where = str(tmp_path / "live.sqlite")
    with Observer.open(where, Deadlocked(), ObserverTerms(unpriced), made.BEGIN_MS) as observer:
        taken = observer.ask()
    assert (taken.jobs, taken.running, taken.in_part) == (2, 0, 2)
    assert "2 jobs: 0 running, 0 waiting, 2 placed in part;" in observers._line(0, taken)


def test_what_a_partial_gang_lacks_is_demand():
    """2 of 4 pods of 4 GPUs on 24: 8 of the 16 that are free are asked for, until the rest comes.

    The rest is bound at 1800 s. The same pods by themselves would claim as much.
    """
    bound = [
        pod(f"g-{i}", 4, on="n0" if i < 2 else "n1", created=0, bound=0 if i < 2 else 1800,
            owner=("kubeflow.org/v1", "PyTorchJob", "g"))
        for i in range(4)
    ]  # fmt: skip
    waits = workers("h", 2, 4, [])
    for objects in ([pytorch_job("g", 4, 4), *bound], [*bound[:2], *waits]):
        run = kept(*NODES, *objects)
        found = amounts(run.statement, "bucket")
        until_ms = 1_800_000 if len(objects) == 5 else 3_600_000
        assert found[Bucket.CAUSE_UNKNOWN,] == 8_000 * until_ms
    run = kept(*NODES[:2], pytorch_job("g", 4, 4), *bound[:2], *workers("g", 4, 4, [])[2:])
    board = explain.board(run.world, Policy())
    assert (board.free_milli, board.unclaimed_milli) == (8_000, 0)
    late = [pod("late", 8, created=1800, message="no")]
    run = kept(*NODES[:2], pytorch_job("g", 4, 4), *bound[:2], *late)
    assert amounts(run.statement, "bucket")[Bucket.CAUSE_UNKNOWN,] == 8_000 * 3_600_000
    board = explain.board(run.world, Policy())
    assert "all of use to some waiting job" in board.words


def test_a_gang_of_which_a_part_is_placed_waits():
    """Two gangs have a part of their pods for an hour: they waited for it, and none has started."""
    statement = kept(*two_halves()).statement
    found = statement.waits.figures()
    assert (found.running, found.waiting, found.never_started) == (0, 2, 2)
    assert found.wait is not None
    assert (found.wait.mean, found.wait.censored) == (3_600_000, 2)
    (said,) = shadow_tables.counted(statement)
    assert said.startswith("2 jobs as it was with a part of their gang alone: they hold GPUs")


def test_a_gang_waits_until_enough_of_it_is_placed():
    """Pods of 2 GPUs are bound after 0, 10 and 20 min: the gang of 3 has waited for 20."""
    pods = workers("a", 3, 2, ["n0"] * 3)
    for i, one in enumerate(pods):
        at = made.moment(600 * i)
        one["status"]["conditions"][0]["lastTransitionTime"] = at
        one["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = at
    found = kept(*NODES, pytorch_job("a", 3, 2), *pods).statement.waits.figures()
    assert (found.running, found.waiting) == (1, 0)
    assert found.wait is not None
    assert (found.wait.mean, found.wait.censored) == (1_200_000, 0)


def test_a_replay_takes_a_partial_gang_whole_with_the_dollars(tmp_path: Path):
    """Two gangs hold 12 of 16 each of 24 GPUs for an hour: one runs, 8 GPUs wait for the other."""
    path, journal = tmp_path / "cluster.json", str(tmp_path / "k.sqlite")
    path.write_text(json.dumps(made.listed(*two_halves())))
    run = CliRunner().invoke
    priced = ["--usd-per-hour", "2.50", "-j", journal]
    assert run(app, ["import", "kubernetes", str(path), *priced]).exit_code == 0
    done = run(app, ["twin", "replay", journal, "--json"])
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["stranded_usd_micro"] == {"before": 60_000_000, "after": 20_000_000}
    shadow = {one["name"]: one["shadow_ms"] for one in told["jobs"]}
    assert shadow == {"ml/a": 0, "ml/b": None}
    assert told["unknown"] == {"jobs": 1, "milli_ms": 16_000 * 3_600_000, "usd_micro": 40_000_000}


def test_two_half_started_gangs_are_a_mutual_deadlock_with_a_price():
    """12 and 12 of 16 on 24 GPUs: named, priced by the hour, in words and in JSON."""
    world = world_of(*two_halves())
    (found,) = partial_gangs(world).deadlocks
    assert found.jobs == ("ml/a", "ml/b")
    assert (found.held_milli, found.usd_micro_per_hour) == (24_000, 48_000_000)
    assert "mutual deadlock" in why(world, "ml/a")
    assert "mutual deadlock" in why(world, "ml/b")
    told = msgspec.json.decode(msgspec.json.encode(explain.board(world, Policy())))
    assert [one["jobs"] for one in told["deadlocks"]] == [["ml/a", "ml/b"]]
    assert len(told["partial_gangs"]) == 2


def test_who_waits_behind_a_deadlock_is_told_to_end_it():
    """A third job for which nothing is free does not hear only that it should wait."""
    world = world_of(*two_halves(), pod("c", 8, message="0/3: Insufficient nvidia.com/gpu"))
    answer = explain.why(world, Policy(), world.job_number["ml/c"])
    assert answer.fix.words.startswith("stop `ml/b`")
    assert "mutual deadlock: `ml/a` and `ml/b`" in answer.words


def test_the_report_names_partial_gangs_and_their_deadlock(tmp_path: Path):
    """On the page: what each holds, that they block each other, and what that costs."""
    path, out = tmp_path / "cluster.json", tmp_path / "page.html"
    path.write_text(json.dumps(made.listed(*two_halves())))
    journal = str(tmp_path / "k.sqlite")
    run = CliRunner().invoke
    priced = ["--usd-per-hour", "2.50", "-j", journal]
    assert run(app, ["import", "kubernetes", str(path), *priced]).exit_code == 0
    assert run(app, ["report", journal, "--out", str(out)]).exit_code == 0
    page = out.read_text()
    assert "mutual deadlock: <code>ml/a</code> and <code>ml/b</code>" in page
    assert "hold 24 GPUs ($60.00 an hour)" in page


def test_gangs_that_others_keep_waiting_are_no_deadlock():
    """With a third job that will end and leave them enough, they only wait."""
    world = world_of(
        *NODES, node("n3"), pytorch_job("a", 16, 1), pytorch_job("b", 16, 1),
        *workers("a", 16, 1, ["n0"] * 8 + ["n1"] * 4),
        *workers("b", 16, 1, ["n1"] * 4 + ["n2"] * 8), pod("other", 8, on="n3"),
    )  # fmt: skip
    found = partial_gangs(world)
    assert (len(found.gangs), found.deadlocks) == (2, ())


def test_a_gang_larger_than_the_fleet_is_impossible_and_no_mutual_deadlock():
    """One gang of 32 on 24 GPUs, half placed: nobody else is to blame."""
    world = world_of(*NODES, pytorch_job("a", 32, 1), *workers("a", 32, 1, ["n0"] * 8))
    assert partial_gangs(world).deadlocks == ()
    layer, cause, _ = reason(world, "ml/a")
    assert (layer, cause) == (Layer.WORKLOAD, Cause.IMPOSSIBLE_GANG)


GROUPS: dict[str, tuple[str, Object, dict[str, Any]]] = {
    "core": (
        "scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": 3}}},
        {"spec": {"schedulingGroup": {"podGroupName": "g"}}},
    ),
    "scheduler-plugins": (
        "scheduling.x-k8s.io/v1alpha1", {"minMember": 3},
        {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
    ),
    "volcano": (
        "scheduling.volcano.sh/v1beta1", {"minMember": 3, "queue": "research"},
        {"annotations": {"scheduling.k8s.io/group-name": "g"}},
    ),
    "kai": (
        "scheduling.run.ai/v2alpha2", {"minMember": 3, "queue": "research"},
        {"annotations": {"pod-group-name": "g"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("dialect", GROUPS)
def test_pods_of_a_pod_group_are_one_gang(dialect: str):
    """In four dialects: two of three pods bound are a partial gang of the size that is told."""
    version, spec, names = GROUPS[dialect]
    world = world_of(
        *NODES, made.owner(version, "PodGroup", "g", spec),
        *(pod(f"p{i}", 2, on="n0", **names) for i in range(2)), pod("p2", 2, **names),
    )  # fmt: skip
    (found,) = partial_gangs(world).gangs
    assert (found.job, found.placed, found.replicas) == ("ml/g", 2, 3)


OWNERS: dict[str, tuple[str, str, Object, dict[str, Any]]] = {
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [
        {"name": "w", "replicas": 2, "template": {"spec": {
            "parallelism": 2, "template": template(2),
        }}},
    ]}, {"labels": {"jobset.sigs.k8s.io/jobset-name": "g"}}),
    "RayCluster": ("ray.io/v1", "RayCluster", {
        "headGroupSpec": {"template": template(0)},
        "workerGroupSpecs": [{"groupName": "w", "replicas": 4, "template": template(2)}],
    }, {"labels": {"ray.io/cluster": "g"}}),
    "Volcano": ("batch.volcano.sh/v1alpha1", "Job", {"minAvailable": 4, "tasks": [
        {"name": "w", "replicas": 4, "template": template(2)},
    ]}, {"labels": {"volcano.sh/job-name": "g"}}),
    "MPIJob": ("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": {
        "Launcher": {"replicas": 1, "template": template(0)},
        "Worker": {"replicas": 4, "template": template(2)},
    }}, {"owner": ("kubeflow.org/v2beta1", "MPIJob", "g")}),
    "Job": ("batch/v1", "Job", {
        "completionMode": "Indexed", "parallelism": 4, "completions": 4,
        "template": template(2, subdomain="g"),
    }, {"owner": ("batch/v1", "Job", "g")}),
}  # fmt: skip


@pytest.mark.parametrize("kind", OWNERS)
def test_pods_of_an_owner_are_one_gang_of_the_size_that_it_wants(kind: str):
    """Three of four pods with GPUs exist: one job of four replicas, of which three are placed."""
    version, name, spec, told = OWNERS[kind]
    world = world_of(
        *NODES, made.owner(version, name, "g", spec),
        *(pod(f"g-{i}", 2, on="n0", **told) for i in range(3)),
    )  # fmt: skip
    (found,) = partial_gangs(world).gangs
    assert ([*world.job_names], found.placed, found.replicas) == (["ml/g"], 3, 4)


def test_numbered_pods_that_cannot_call_each_other_are_no_gang():
    """An Indexed Job without a subdomain is a sweep: those that run work, whoever waits."""
    spec = {
        "completionMode": "Indexed", "parallelism": 4, "completions": 4, "template": template(2),
    }  # fmt: skip
    world = world_of(
        *NODES, made.owner("batch/v1", "Job", "g", spec),
        *(pod(f"g-{i}", 2, on="n0", owner=("batch/v1", "Job", "g")) for i in range(3)),
    )  # fmt: skip
    assert not partial_gangs(world).gangs
    assert world.job_names == ["ml/g-0", "ml/g-1", "ml/g-2"]


def test_each_group_of_a_leader_worker_set_is_a_gang():
    """Two groups of a leader and a worker: two jobs, each whole."""
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template(4)}}
    label = "leaderworkerset.sigs.k8s.io/"
    pods = [
        pod(
            f"l-{g}-{i}", 4, on=f"n{g}", labels={f"{label}name": "l", f"{label}group-index": str(g)}
        )
        for g in range(2)
        for i in range(2)
    ]
    owner = made.owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "l", spec)
    world = world_of(*NODES, owner, *pods)
    assert sorted(world.job_names) == ["ml/l-0", "ml/l-1"]
    assert partial_gangs(world).gangs == ()


def test_pods_of_a_work_queue_are_jobs_of_their_own():
    """A Job that is not indexed, with two pods at once: each works without the other."""
    spec = {"parallelism": 2, "template": template(1)}
    of = ("batch/v1", "Job", "q")
    world = world_of(
        *NODES, made.owner("batch/v1", "Job", "q", spec), pod("q-a", 1, on="n0", owner=of),
        pod("q-b", 1, on="n0", owner=of),
    )  # fmt: skip
    assert sorted(world.job_names) == ["ml/q-a", "ml/q-b"]


def test_a_pod_that_its_scheduler_refuses_does_not_wait_for_room():
    """`MalformedGang` beside a full node: no GPU that comes free starts it, and `why` says so."""
    told = "it names the gang `g`, and the annotation size is `two`, no number above 0"
    refused = {
        "type": "PodScheduled", "status": "False", "reason": "MalformedGang", "message": told,
    }  # fmt: skip
    world = world_of(node("n0"), pod("a", 8, on="n0"), pod("b", 8, conditions=[refused]))
    layer, cause, words = reason(world, "ml/b")
    assert (layer, cause) == (Layer.WORKLOAD, Cause.NOT_ELIGIBLE)
    assert words.startswith(f'MalformedGang "{told}"')
    said = why(world, "ml/b")
    assert "fix: do what its own scheduler's reason asks for: no GPU that comes free" in said
    assert "not enough" not in said
    assert "wait until" not in said
    board = explain.board(world, Policy())
    assert (board.jobs, board.held) == (0, 1)


def grouped(name: str, count: int, gpus: int, nodes: list[str]) -> list[Object]:
    """A gang whose template names no GPUs, its pod group of all pods, and those pods."""
    label = {"labels": {"scheduling.x-k8s.io/pod-group": name}}
    return [
        pytorch_job(name, count, 0),
        made.owner("scheduling.x-k8s.io/v1alpha1", "PodGroup", name, {"minMember": count}),
        *workers(name, count, gpus, nodes, **label),
    ]


@pytest.mark.parametrize("there", [16, 12])
def test_gangs_whose_pods_get_gpus_that_their_template_does_not_name_may_deadlock(there: int):
    """A webhook adds a GPU to each pod: 12 and 12 of 16 on 24; the rest is pending, or not made."""
    first = grouped("a", 16, 1, ["n0"] * 8 + ["n1"] * 4)
    second = grouped("b", 16, 1, ["n1"] * 4 + ["n2"] * 8)
    world = world_of(*NODES, *first[: 2 + there], *second[: 2 + there])
    assert [(one.placed, one.replicas) for one in partial_gangs(world).gangs] == [(12, 16)] * 2
    assert [one.jobs for one in partial_gangs(world).deadlocks] == [("ml/a", "ml/b")]


def claimed(name: str, count: int, placed: int) -> list[Object]:
    """A gang of pods with 2 GPUs each by claims (DRA), and its pod group; some have places."""
    by_claim = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "two"}]}
    requests = [{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]
    spec = {"devices": {"requests": requests}}
    objects = grouped(name, count, 0, ["n0"] * placed)
    objects[0]["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"] |= by_claim
    for one in objects[2:]:
        mine = f"{one['metadata']['name']}-g"
        one["spec"] |= by_claim
        one["status"]["resourceClaimStatuses"] = [{"name": "g", "resourceClaimName": mine}]
        objects = [*objects, made.owner("resource.k8s.io/v1", "ResourceClaim", mine, spec)]
    return objects


def test_a_gang_of_pods_with_claims_is_partial_without_the_template_of_its_claims():
    """Three of four pods with 2 GPUs each have places; only their claims are in the files."""
    world = world_of(*NODES, *claimed("a", 4, 3))
    (found,) = partial_gangs(world).gangs
    assert (found.placed, found.replicas, found.held_milli) == (3, 4, 6_000)


def test_a_gang_without_pods_wants_what_the_templates_of_its_claims_say():
    """Four pods to be made, of 2 GPUs each by a ResourceClaimTemplate: 8 GPUs wait."""
    requests = [{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]
    spec = {"spec": {"devices": {"requests": requests}}}
    two = made.owner("resource.k8s.io/v1", "ResourceClaimTemplate", "two", spec)
    world = world_of(*NODES, two, claimed("a", 4, 0)[0])
    assert world.shape_of(world.job_number["ml/a"]).total_milli == 8_000


def test_a_launcher_without_gpus_is_no_member_with_gpus():
    """Its label says what it was made of: of five members four have GPUs, and three have places."""
    replicas = {"Launcher": {"replicas": 1, "template": template(0)},
                "Worker": {"replicas": 4, "template": template(0)}}  # fmt: skip
    role = "training.kubeflow.org/replica-type"
    told: Object = {"owner": ("kubeflow.org/v2beta1", "MPIJob", "g")}
    group = {"scheduling.x-k8s.io/pod-group": "g"}
    world = world_of(
        *NODES, made.owner("kubeflow.org/v2beta1", "MPIJob", "g", {"mpiReplicaSpecs": replicas}),
        made.owner("scheduling.x-k8s.io/v1alpha1", "PodGroup", "g", {"minMember": 5}),
        pod("g-launcher", 0, on="n0", labels={role: "launcher"} | group, **told),
        *(pod(f"g-{i}", 2, on="n0", labels={role: "worker"} | group, **told) for i in range(3)),
    )  # fmt: skip
    (found,) = partial_gangs(world).gangs
    assert (found.placed, found.replicas) == (3, 4)


def test_a_job_with_a_place_that_does_not_run_is_not_said_to_wait_for_nothing():
    """No container of it runs: that is said, with why, and not that it does not wait."""
    stuck = pod("a", 4, on="n0", up=-1)
    waiting = {"reason": "ImagePullBackOff", "message": "not found"}
    stuck["status"] |= {"phase": "Pending"}
    stuck["status"]["containerStatuses"][0]["state"] = {"waiting": waiting}
    words = why(world_of(*NODES, stuck), "ml/a")
    assert words.startswith("job `ml/a` has a place and does not run: it was placed")
    assert "why it does not run, its own cluster says: ImagePullBackOff" in words
    assert "does not wait" not in words


RACK = "topology.kubernetes.io/rack"
TIED = [
    ({"schedulingConstraints": {"topology": [{"key": RACK}]}}, {}),
    ({}, {"annotations": {"kueue.x-k8s.io/podset-required-topology": RACK}}),
]


@pytest.mark.parametrize(("spec", "names"), TIED)
def test_a_gang_that_has_to_be_in_one_rack_waits_for_one(spec: Object, names: dict[str, Any]):
    """Two racks, a node of each is free: none of them has room for two pods; of
    which one is bound, the other has to follow it. One larger than any rack can never be.
    """
    racks = [node(f"n{i}", labels={RACK: f"r{i // 2}"}) for i in range(4)]
    told: dict[str, Any] = {"spec": {"schedulingGroup": {"podGroupName": "g"}}} | names
    whole = made.owner(
        "scheduling.k8s.io/v1alpha2", "PodGroup", "g",
        {"schedulingPolicy": {"gang": {"minCount": 2}}} | spec,
    )  # fmt: skip
    mine = [pod(f"p{i}", 8, **told) for i in range(2)]
    held = [pod("x", 8, on="n1"), pod("y", 8, on="n3")]
    layer, cause, words = reason(world_of(*racks, whole, *mine, *held), "ml/g")
    assert (layer, cause) == (Layer.SCHEDULING, Cause.TOPOLOGY)
    said = f"at most 1 of its 2 missing pods fit in one {RACK}"
    assert f"16 nvidia.com/gpu are free, but {said}" in words
    mine[0] = pod("p0", 8, on="n0", **told)
    _, cause, words = reason(world_of(*racks, whole, *mine, *held), "ml/g")
    assert cause == Cause.TOPOLOGY
    assert f"8 nvidia.com/gpu are free, but at most 0 of its 1 missing pod fit in one {RACK}" in (
        words
    )
    many = replace_least(whole, 3)
    three = [pod(f"p{i}", 8, **told) for i in range(3)]
    _, cause, words = reason(world_of(*racks, many, *three), "ml/g")
    assert cause == Cause.IMPOSSIBLE_TOPOLOGY
    assert f"a gang of 3 pods of 8 nvidia.com/gpu in one {RACK}; the largest that it may use" in (
        words
    )


def replace_least(group: Object, least: int) -> Object:
    policy = {"schedulingPolicy": {"gang": {"minCount": least}}}
    return group | {"spec": group["spec"] | policy}


def test_whether_a_tied_gang_would_fit_is_unknown_to_the_books():
    """Enough is free, in one rack: the books have no racks, and do not say that it fits."""
    racks = [node(f"n{i}", labels={RACK: "r"}) for i in range(2)]
    group = made.owner(
        "scheduling.run.ai/v2alpha2", "PodGroup", "g",
        {"minMember": 2, "topologyConstraint": {"requiredTopologyLevel": RACK}},
    )  # fmt: skip
    mine = [pod(f"p{i}", 8, annotations={"pod-group-name": "g"}) for i in range(2)]
    world = world_of(*racks, group, *mine)
    j = world.job_number["ml/g"]
    answer = explain.why(world, Policy(), j)
    assert f"16 nvidia.com/gpu are free, which is enough for it in one {RACK} (" in answer.words
    assert answer.questions[-1].answer == "unknown"
    assert f"nobody here can tell: all pods in one `{RACK}`" in answer.questions[-1].words


def test_the_priority_of_a_pod_group_is_that_of_its_job():
    """Its number, or that of its class; else the pods'."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "high"}, "value": 700}  # fmt: skip
    for spec, priority in (({"priority": 9}, 9), ({"priorityClassName": "high"}, 700), ({}, 0)):
        group = made.owner("scheduling.volcano.sh/v1beta1", "PodGroup", "g",
                           {"minMember": 2} | spec)  # fmt: skip
        names: dict[str, Any] = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
        world = world_of(*NODES, high, group, *(pod(f"p{i}", 8, **names) for i in range(2)))
        assert world.shape_of(world.job_number["ml/g"]).priority == priority


RAY = "ray.io/v1"
READY = {"state": "ready", "readyWorkerReplicas": 2}
RAY_WORKS: dict[str, tuple[str, Object, Object]] = {
    "scales itself": ("RayCluster", {"enableInTreeAutoscaling": True}, {}),
    "is ready": ("RayCluster", {}, READY),
    "a job's is ready": ("RayJob", {}, {"jobStatus": "RUNNING", "rayClusterStatus": READY}),
    "a service's is ready": (
        "RayService", {}, {"activeServiceStatus": {"rayClusterStatus": READY}},
    ),
}  # fmt: skip


def ray(kind: str, spec: Object, status: Object, head: int = 0) -> World:
    """A cluster of Ray's that wants three workers, of which two are placed and one waits."""
    group = {"groupName": "w", "replicas": 3, "minReplicas": 1, "template": template(8)}
    told = {"headGroupSpec": {"template": template(head)}, "workerGroupSpecs": [group], **spec}
    told = told if kind == "RayCluster" else {
        {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}[kind]: told
    }  # fmt: skip
    of: dict[str, Any] = {"owner": (RAY, kind, "r")}
    heads = [pod("r-h", head, on="n0", up=60, labels={"ray.io/node-type": "head"}, **of)]
    return world_of(
        node("n0"), node("n1"), node("n2"), made.owner(RAY, kind, "r", told, status=status),
        *heads[: bool(head)], *(pod(f"r-{i}", 8, on=f"n{i + 1}", up=60, **of) for i in range(2)),
        pod("r-2", 8, message="0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", **of),
    )  # fmt: skip


@pytest.mark.parametrize("head", [0, 1])
@pytest.mark.parametrize("case", RAY_WORKS)
def test_ray_works_with_the_workers_that_it_has(case: str, head: int):
    """Two of three workers, of which one is the minimum, or of a cluster that is ready."""
    world = ray(*RAY_WORKS[case], head=head)
    assert world.jobs.state.item(0) == JobState.RUNNING
    assert world.jobs.since_ms.item(0) == 60_000
    assert not partial_gangs(world).gangs


def test_ray_that_was_never_ready_and_does_not_scale_waits_for_its_workers():
    """Nobody says that it works with fewer than it wants."""
    world = ray("RayCluster", {}, {"state": "", "readyWorkerReplicas": 2})
    (found,) = partial_gangs(world).gangs
    assert (found.placed, found.replicas) == (2, 3)


SIBLINGS = (
    "0/1 nodes are available: pre-filter pod x cannot find enough sibling pods, current pods"
    " number: 2, minMember of group: 3."
)


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("dialect", GROUPS)
def test_pods_of_a_group_that_nobody_made_yet_are_what_it_waits_for(dialect: str, is_full: bool):
    """Two of three pods exist: that all of them do not fit together is no word for it."""
    version, spec, names = GROUPS[dialect]
    world = world_of(
        node("n0"), *[pod("all", 8, on="n0")] * is_full, made.owner(version, "PodGroup", "g", spec),
        *(pod(f"p{i}", 1, message=SIBLINGS, **names) for i in range(2)),
    )  # fmt: skip
    layer, cause, words = reason(world, "ml/g")
    assert (layer, cause) == (Layer.WORKLOAD, Cause.NONE)
    assert "1 of the 3 pods that it needs to start does not exist" in words
    assert "fit together" not in words
    answer = explain.why(world, Policy(), world.job_number["ml/g"])
    assert answer.owner == "workload"
    assert "no GPU that comes free starts it" in answer.fix.words


def test_a_pod_group_that_nobody_shows_makes_no_gang_of_what_runs():
    """Whether one pod of three works nobody can say: it is not called measured waste, and named."""
    told: dict[str, Any] = {"labels": {"scheduling.x-k8s.io/pod-group": "ghost"}}
    pods = [pod(f"g{i}", 8, on="n0" if not i else "", **told) for i in range(3)]
    past = translate(taken(node("n0"), node("n1"), *pods))
    (note,) = past.notes
    assert note.startswith("1 job is of pod groups that nobody shows")
    assert note.endswith("(kubectl get podgroups.scheduling.x-k8s.io -A -o json)")
    world = kept(node("n0"), node("n1"), *pods).world
    assert JobState(world.jobs.state[world.job_number["ml/ghost"]]) is JobState.RUNNING
    assert not partial_gangs(world).gangs
