"""Files of kubectl become books: against a count by hand, and job by job."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.made import node, pod, pytorch_job, taken, workers
from tidemill import api, explain
from tidemill.explain import inventory
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.live.history import events
from tidemill.live.kubernetes import objects, pods, translate
from tidemill.live.prices.rules import flat
from tidemill.model.errors import SpecError
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.reasons import Cause, Layer
from tidemill.model.states import JobClass, JobState, NodeState, Terms
from tidemill.model.world import World

Object = dict[str, Any]


def kept(*objects: Object, team_by: str = "namespace") -> api.Run:
    """The books of these objects, at $2 per GPU-hour."""
    past = translate.translate(taken(*objects), team_by)
    history = events.build(
        past.attempts, past.nodes, flat({"": 2_000_000}), None, past.seen_ms, past.queues,
        shapes=past.shapes,
    )  # fmt: skip
    return api.keep_history(history)


def world_of(*objects: Object, team_by: str = "namespace") -> World:
    """The cluster state that these objects lead to."""
    return kept(*objects, team_by=team_by).world


def reason(world: World, job: str) -> tuple[Layer, Cause, str]:
    """What is known of why a job waits."""
    found = world.reason_of(world.job_number[job])
    assert found is not None
    return Layer(found.layer), Cause(found.cause), found.words


def test_a_pod_holds_its_gpus_from_binding_to_its_end():
    """Bound at 100 s, up at 160 s, ended at 1000 s, 4 GPUs of 8 for an hour: to the millisecond."""
    run = kept(node("n0"), pod("a", 4, on="n0", created=0, bound=100, up=160, end=1000))
    found = amounts(run.statement, "bucket")
    assert run.statement.total().paid_milli_ms == 8_000 * 3_600_000
    assert found[(Bucket.STARTING,)] == 4_000 * 60_000
    assert found[(Bucket.UNKNOWN,)] == 4_000 * 840_000


def _cluster(luck: Random) -> tuple[list[Object], Counter[str]]:
    """Gangs and pods that some cluster could have run, and by hand: GPU·s by namespace."""
    free = {f"n{i}": 8 for i in range(6)}
    objects = [node(name, at=5000) for name in free]
    by_hand = Counter[str]()
    for i in range(30):
        size, gpus = luck.choice((1, 1, 2, 3)), luck.choice((1, 2, 4))
        namespace, job = luck.choice(("ml", "vision")), f"job-{i}"
        objects.append(pytorch_job(job, size, gpus, namespace=namespace))
        for number in range(size):
            name, owner = f"{job}-{number}", ("kubeflow.org/v1", "PyTorchJob", job)
            nodes = [n for n, left in free.items() if left >= gpus]
            if not nodes or luck.random() < 0.2:
                objects.append(pod(name, gpus, owner=owner, namespace=namespace))
                continue
            on, bound = luck.choice(nodes), luck.randrange(4000)
            free[on] -= gpus
            end = bound + luck.randrange(1, 900) if luck.random() < 0.6 else None
            phase = "" if end is None else luck.choice(("Succeeded", "Failed"))
            objects.append(
                pod(name, gpus, on=on, bound=bound, up=bound + luck.randrange(90), end=end,
                    phase=phase, owner=owner, namespace=namespace)
            )  # fmt: skip
            by_hand[namespace] += gpus * ((5000 if end is None else end) - bound)
    luck.shuffle(objects)
    return objects, by_hand


@pytest.mark.parametrize("seed", range(8))
def test_books_agree_with_a_count_by_hand(seed: int):
    """GPU-time by namespace is the sum over pods, however their gangs grew, lost pods and ended."""
    objects, by_hand = _cluster(Random(seed))
    run = kept(*objects)
    found = Counter[str]()
    names = [queue.name for queue in run.world.queue_rows]
    for (bucket, team), amount in amounts(run.statement, "bucket", "team").items():
        if bucket in ALLOCATED:
            found[names[team]] += amount
    assert found == {team: seconds * 1000 * WHOLE_MILLI for team, seconds in by_hand.items()}


def test_pods_of_one_job_keep_one_text_of_their_labels():
    """Of a hundred thousand pods the same few names are kept once; copies of them by tools not."""
    copy = {"kubectl.kubernetes.io/last-applied-configuration": "{}" * 4000, "team": "a b"}
    some = [pod(f"p{i}", labels={"job": "long-name"}, annotations=copy) for i in range(2)]
    one, other = (pods.read(msgspec.json.decode(msgspec.json.encode(each))) for each in some)
    assert one.labels["job"] is other.labels["job"]
    assert one.namespace is other.namespace
    assert one.annotations == {"team": "a b"}


def test_a_gang_is_one_job_that_grows_pod_by_pod():
    """Three pods bound one after the other: one job, one attempt, up when the last of them is."""
    of = ("kubeflow.org/v1", "PyTorchJob", "g")
    objects = [node("n0"), pytorch_job("g", 3, 2)]
    objects += [pod(f"g-{i}", 2, on="n0", bound=60 * i, owner=of) for i in range(3)]
    run = kept(*objects)
    world, j = run.world, run.world.job_number["ml/g"]
    assert (world.job_count, world.jobs.attempt[j], world.jobs.state[j]) == (1, 1, JobState.RUNNING)
    assert amounts(run.statement, "bucket")[(Bucket.STARTING,)] == 2_000 * 60_000 + 4_000 * 60_000


def test_a_gang_that_loses_a_pod_goes_on_as_its_next_attempt():
    """While one is missing the gang restarts; no attempt is said to be lost with a node."""
    of = ("kubeflow.org/v1", "PyTorchJob", "g")
    objects = [node("n0"), pytorch_job("g", 2, 2), pod("g-0", 2, on="n0", owner=of)]
    objects += [
        pod("g-1", 2, on="n0", end=600, phase="Failed", owner=of),
        pod("g-1b", 2, on="n0", bound=900, up=900, owner=of),
    ]
    run = kept(*objects)
    assert run.world.jobs.attempt[0] == 2
    assert amounts(run.statement, "bucket")[(Bucket.RESTART,)] == 2_000 * 300_000
    assert run.statement.stops == {"moved or resized": 1}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_gang_whose_pods_end_one_after_the_other_was_not_stopped_early(phase: str):
    """Nobody moved or resized it: pods of one job seldom end in the same second."""
    of = ("kubeflow.org/v1", "PyTorchJob", "g")
    objects = [node("n0"), pytorch_job("g", 2, 2)]
    objects += [pod(f"g-{i}", 2, on="n0", end=600 + i, phase=phase, owner=of) for i in range(2)]
    for said in ({}, {"conditions": [{"type": phase, "status": "True",
                                      "lastTransitionTime": made.moment(602)}]}):  # fmt: skip
        objects[1]["status"] = said
        stops = kept(*objects).statement.stops
        assert "moved or resized" not in stops


def test_a_failed_pod_that_its_job_replaces_is_another_attempt():
    """A Job with one pod at a time: out of memory, then again; one job, two attempts."""
    of = ("batch/v1", "Job", "retry")
    spec = {"parallelism": 1, "template": made.template(4)}
    run = kept(
        node("n0"), made.owner("batch/v1", "Job", "retry", spec),
        pod("retry-a", 4, on="n0", end=300, phase="Failed", why="OOMKilled", owner=of),
        pod("retry-b", 4, on="n0", created=310, bound=330, owner=of),
    )  # fmt: skip
    world = run.world
    assert ([*world.job_names], world.jobs.attempt[0]) == (["ml/retry"], 2)
    assert amounts(run.statement, "bucket")[(Bucket.UNKNOWN,)] == 4_000 * (300_000 + 3_270_000)


def test_classes_come_from_owners():
    """Deployments serve, notebooks are interactive, Jobs train."""
    world = world_of(
        node("n0"),
        pod("web", 1, on="n0", owner=("apps/v1", "ReplicaSet", "web-1")),
        pod("desk", 1, on="n0", owner=("kubeflow.org/v1", "Notebook", "desk")),
        pod("fit", 1, on="n0", owner=("batch/v1", "Job", "fit")),
    )
    found = {world.job_names[j]: world.shape_of(j).kind for j in range(world.job_count)}
    assert found == {
        "ml/web": JobClass.INFERENCE,
        "ml/desk": JobClass.INTERACTIVE,
        "ml/fit": JobClass.TRAINING,
    }


def test_teams_by_namespace_label_or_queue():
    """The same pods, three ways to tell teams apart; who names no queue is its namespace's."""
    objects = [
        node("n0"),
        pod("a", 1, on="n0", labels={"team": "red", "kueue.x-k8s.io/queue-name": "lq"}),
        pod("b", 1, on="n0", labels={"team": "blue"}),
        made.owner("kueue.x-k8s.io/v1beta1", "LocalQueue", "lq", {"clusterQueue": "research"}),
    ]

    def teams(by: str) -> set[str]:
        world = world_of(*objects, team_by=by)
        return {world.shape_of(j).team for j in range(world.job_count)}

    assert teams("namespace") == {"ml"}
    assert teams("label:team") == {"red", "blue"}
    assert teams("queue") == {"research", "ml"}
    with pytest.raises(SpecError, match="--team-by is `owner`"):
        teams("owner")


def test_teams_and_classes_by_rules_of_a_file(tmp_path: Path):
    """The first rule with a team says it, the first with a class says that; else as before."""
    rules = tmp_path / "rules.toml"
    rules.write_text(block_of("docs/guides/import-kubernetes.md", "toml", "team_by"))
    world = world_of(
        node("n0"),
        pod("chat", 1, on="n0", labels={"app": "chat"}, owner=("batch/v1", "Job", "chat")),
        pod("web", 1, on="n0", namespace="team-b", owner=("apps/v1", "ReplicaSet", "web-1")),
        pod("fit", 1, on="n0", labels={"team": "red"}, owner=("batch/v1", "Job", "eval-7")),
        team_by=f"file:{rules}",
    )
    found = {world.job_names[j]: (world.shape_of(j).team, world.shape_of(j).kind)
             for j in range(world.job_count)}  # fmt: skip
    assert found == {
        "ml/chat": ("assistants", JobClass.INFERENCE),
        "team-b/web": ("b", JobClass.INFERENCE),
        "ml/fit": ("red", JobClass.INTERACTIVE),
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule]]\nnamespace = 'x'", "[[rule]] 1 says neither team nor class"),
        ("[[rule]]\nclass = 'serving'", "serving"),
        ("[[rule]]\nteams = 'x'", "teams"),
        ("team_by = 'owner'", "--team-by is `owner`"),
    ],
)
def test_rules_that_cannot_be_used_are_refused(tmp_path: Path, text: str, words: str):
    """A rule that says nothing, a class or a field that there is not, a team by what is none."""
    rules = tmp_path / "rules.toml"
    rules.write_text(text)
    with pytest.raises(SpecError, match=re.escape(words)):
        world_of(node("n0"), team_by=f"file:{rules}")
    with pytest.raises(SpecError, match="No such file"):
        world_of(node("n0"), team_by="file:/nowhere/rules.toml")


def block_of(page: str, language: str, begins: str) -> str:
    """A block of a page."""
    found = re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return next(text for text in found if text.startswith(begins))


def test_contracts_come_from_instance_and_capacity_types():
    """A spot node and a reserved one of the same type are two contracts, by name and type."""
    box = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    world = world_of(
        node("n0", labels=box), node("n1", labels=box | {"karpenter.sh/capacity-type": "spot"}),
        pod("a", 1, on="n0"),
    )  # fmt: skip
    found = {row.name: row.terms for row in world.contract_rows}
    assert found == {"p5.48xlarge": Terms.RESERVED, "p5.48xlarge (spot)": Terms.SPOT}


def test_a_node_that_joins_later_is_paid_from_then_on():
    """Eight GPUs for the hour, and eight more for its second half."""
    run = kept(node("n0"), node("n1", since=1800), pod("a", 1, on="n0"))
    assert run.statement.total().paid_milli_ms == 8_000 * 3_600_000 + 8_000 * 1_800_000


def test_nodes_that_take_no_work_are_on_the_books_as_such():
    """Not Ready for half of the hour, cordoned for a quarter, no device plugin: all of it."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule",
             "timeAdded": made.moment(2700)}  # fmt: skip
    bare = node("n3", labels={"nvidia.com/gpu.count": "8"}, amounts={"nvidia.com/gpu": None})
    run = kept(
        node("n0"), node("n1", ready=False, turned=1800),
        node("n2", unschedulable=True, taints=[taint]), bare, pod("a", 1, on="n0"),
    )  # fmt: skip
    found = amounts(run.statement, "bucket")
    assert found[(Bucket.UNHEALTHY,)] == 8_000 * (1_800_000 + 3_600_000)
    assert found[(Bucket.CORDONED,)] == 8_000 * 900_000


def test_a_cordoned_node_without_a_time_is_named():
    """No taint says since when: it is out from the end of the books on, in the words of Slurm."""
    objects = (node("n0"), node("n1", unschedulable=True), pod("a", 1, on="n0"))
    past = translate.translate(taken(*objects))
    history = events.build(past.attempts, past.nodes, until_ms=past.seen_ms, shapes=past.shapes)
    said = [note for note in history.notes if "since when nobody says: counted so from" in note]
    assert [note.split(",")[0] for note in said] == ["1 node (n1) out of service"]
    world = api.keep_history(history).world
    assert world.nodes.state[world.node_number["n1"]] == NodeState.CORDONED


def test_a_pod_larger_than_any_node_claims_nothing_of_what_is_free():
    """16 GPUs on nodes of 8: `pending` says never, and 7 GPUs of the hour had no demand."""
    run = kept(node("n0"), pod("a", 1, on="n0"), pod("big", 16))
    assert amounts(run.statement, "bucket")[(Bucket.NO_DEMAND,)] == 7_000 * 3_600_000
    fits = kept(node("n0"), pod("a", 1, on="n0"), pod("small", 8))
    assert amounts(fits.statement, "bucket")[(Bucket.NO_DEMAND,)] == 0


MIXED = {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "16", "nvidia.com/mig-3g.40gb": "4"}


def test_a_machine_with_whole_and_cut_gpus_has_as_many_whole_ones_as_it_advertises():
    """8 H100: 4 whole, 4 cut into a half and four eighths. 8 are paid; 3 whole ones are free."""
    machine = node("n0", labels={"nvidia.com/gpu.count": "8"}, amounts=MIXED)
    holders = [pod(f"p{i}", {"nvidia.com/mig-1g.10gb": 1}, on="n0") for i in range(8)]
    run = kept(machine, pod("a", 1, on="n0"), *holders, pod("big", 4))
    rows = {row.node: (row.kind, row.accelerators) for row in inventory.nodes(run.world)}
    assert rows == {
        "n0": ("H100", 4), "n0/mig-1g.10gb": ("1G.10GB OF H100", 16),
        "n0/mig-3g.40gb": ("3G.40GB OF H100", 4),
    }  # fmt: skip
    contracts = {row.kind: (row.paid_milli, row.in_use_milli)
                 for row in inventory.contracts(run.world)}  # fmt: skip
    assert contracts == {
        "H100": (4000, 1000), "1G.10GB OF H100": (2000, 1000), "3G.40GB OF H100": (2000, 0),
    }  # fmt: skip
    assert inventory.states(run.world) == {"ready": 1}
    total = run.statement.total()
    assert abs(total.paid_milli_ms - 8_000 * 3_600_000) < 2
    assert round(total.paid_usd_micro / 10_000) == 1600
    by_kind = {kind: account.paid_milli_ms for kind, account in run.statement.by("kind").items()}
    assert abs(by_kind["1G.10GB OF H100"] - 2_000 * 3_600_000) < 2
    assert total.capability is not None
    allocated = sum(a for (b,), a in amounts(run.statement, "bucket").items() if b in ALLOCATED)
    assert abs(allocated - 2_000 * 3_600_000) < 2
    assert reason(run.world, "ml/big")[1] is Cause.BUSY


def test_instances_of_a_gpu_of_unknown_type_are_counted():
    """Nobody knows how large a 1g.10gb of it is: they are counted one by one, and not left out."""
    told = {"nvidia.com/gpu": None, "nvidia.com/mig-1g.10gb": "7"}
    labels = {"nvidia.com/gpu.product": "Unheard-Of", "nvidia.com/gpu.count": "1"}
    objects = [node("n0", labels=labels, amounts=told)]
    run = kept(*objects, pod("p", {"nvidia.com/mig-1g.10gb": 1}, on="n0"))
    assert run.world.kinds == ["1G.10GB OF UNHEARD-OF"]
    assert abs(run.statement.total().paid_milli_ms - 1000 * 3_600_000) < 2


def test_who_wants_instances_that_no_node_has_gets_no_others():
    """A pod for a profile that nobody advertises is on the books, and fits nowhere."""
    world = world_of(node("n0"), pod("a", 1, on="n0"), pod("p", {"nvidia.com/mig-3g.40gb": 1}))
    assert world.shape_of(world.job_number["ml/p"]).roles[0].kinds == ("nvidia.com/mig-3g.40gb",)
    assert reason(world, "ml/p")[1] is Cause.NOTHING_CLAIMED


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "nvidia.com/gpu.shared"])
def test_shared_gpus_are_shares_of_one(name: str):
    """Two GPUs, four replicas each: two are paid, and five pods of a quarter hold 1.25 of them."""
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2",
              "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"}  # fmt: skip
    objects = [node("n0", labels=labels, amounts={"nvidia.com/gpu": None, name: "8"})]
    run = kept(*objects, *(pod(f"p{i}", {name: 1}, on="n0") for i in range(5)))
    assert run.world.kinds == ["1/4 OF H100"]
    total = amounts(run.statement, "bucket")
    assert sum(total[(b,)] for b in ALLOCATED if (b,) in total) == 5 * 250 * 3_600_000
    assert run.statement.total().paid_milli_ms == 2_000 * 3_600_000


def test_quotas_of_instances_are_of_their_kind():
    """A namespace may have 4 whole GPUs and 2 instances of a machine that has both."""
    hard = {"requests.nvidia.com/gpu": "4", "requests.nvidia.com/mig-1g.10gb": "2"}
    quota = made.owner("v1", "ResourceQuota", "q", {"hard": hard})
    machine = node("n0", labels={"nvidia.com/gpu.count": "8"}, amounts=MIXED)
    world = world_of(machine, quota, pod("a", 1, on="n0"))
    teams = {row.kind: row.maximum_milli for row in inventory.teams(world)}
    assert teams == {"H100": 4_000, "1G.10GB OF H100": 2_000}


def test_dra_devices_are_held_by_name():
    """A claim says which devices a pod holds; nodes have what their slices publish."""
    devices = [{"name": f"gpu-{i}", "attributes": {"type": {"string": "gpu"},
                "productName": {"string": "NVIDIA H100 80GB HBM3"}}} for i in range(8)]  # fmt: skip
    published = made.owner("resource.k8s.io/v1", "ResourceSlice", "s", {
        "nodeName": "n0", "driver": "gpu.nvidia.com", "pool": {"name": "n0"}, "devices": devices,
    })  # fmt: skip
    results = [{"driver": "gpu.nvidia.com", "pool": "n0", "device": f"gpu-{i}"} for i in (5, 7)]
    request = {"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}
    claim = made.owner(
        "resource.k8s.io/v1", "ResourceClaim", "c", {"devices": {"requests": [request]}},
        status={"allocation": {"devices": {"results": results}},
                "reservedFor": [{"resource": "pods", "name": "a"}]},
    )  # fmt: skip
    bare = node("n0", labels={"nvidia.com/gpu.product": ""}, amounts={"nvidia.com/gpu": None})
    holder = pod(
        "a", 0, on="n0", spec={"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}
    )
    world = world_of(bare, published, claim, holder)
    assert world.kinds == ["H100"]
    assert world.placements[0][0].devices == 0b1010_0000


@pytest.mark.parametrize(("is_shown", "count"), [(True, 0), (False, 1)])
def test_pods_whose_claims_nobody_shows_are_counted(is_shown: bool, count: int):
    """A claim that is gone with its pod is told by its template; without both, nothing is known."""
    request = {"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    shape = made.owner("resource.k8s.io/v1", "ResourceClaimTemplate", "t", spec)
    by_claim = {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}
    ended = pod("a", 0, on="n0", end=600, spec=by_claim)
    ended["status"]["resourceClaimStatuses"] = [{"name": "x", "resourceClaimName": "a-x-1"}]
    past = translate.translate(made.taken(node("n0"), ended, *([shape] if is_shown else [])))
    assert len(past.attempts) == 1 - count
    assert sum(note.startswith("1 pod has claims") for note in past.notes) == count


def test_a_folder_a_list_and_single_objects_are_read(tmp_path: Path):
    """The same cluster in three forms, one of them compressed, gives the same attempts."""
    objects = [node("n0"), node("n1"), pod("a", 1, on="n0")]
    whole = tmp_path / "all.json"
    whole.write_text(json.dumps(made.listed(*objects)))
    folder = tmp_path / "parts"
    folder.mkdir()
    typed = {"apiVersion": "v1", "kind": "NodeList", "items": [
        {key: value for key, value in one.items() if key not in ("kind", "apiVersion")}
        for one in objects[:2]
    ]}  # fmt: skip
    (folder / "nodes.json").write_text(json.dumps(typed))
    (folder / "pod.json.gz").write_bytes(gzip.compress(json.dumps(objects[2]).encode()))
    first, second = translate.read([whole]), translate.read([folder])
    assert first.attempts.equals(second.attempts)
    assert first.nodes == second.nodes


def test_bad_objects_are_refused_by_name_and_the_rest_counts():
    """A pod whose node is a number, a node without a status, a string: three refusals."""
    wrong = pod("wrong", 1, on="n0")
    wrong["spec"]["nodeName"] = 7
    headless = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "headless"}}
    told = taken(node("n0"), pod("a", 1, on="n0"), wrong, headless)
    told.add("text", "file.json, item 9")
    past = translate.translate(told)
    said = {one.words() for one in past.refused}
    assert said == {
        "file.json, item 9: no object",
        "Pod ml/wrong: `spec.nodeName` is a number, not a string",
        "Node headless: has no status",
    }
    assert len(past.attempts) == 1


def test_of_an_object_in_two_files_the_youngest_counts():
    """By its resource version, whichever file comes first."""
    old, new = pod("a", 1), pod("a", 1, on="n0")
    old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"] = "9", "10"
    world = world_of(node("n0"), new, old)
    assert world.jobs.state[0] == JobState.RUNNING


def test_what_is_no_json_is_refused_with_a_hint(tmp_path: Path):
    """A file that was cut off."""
    path = tmp_path / "pods.json"
    path.write_text('{"items": [')
    with pytest.raises(SpecError, match="is not JSON"):
        objects.load([path])


def test_every_pod_is_known_by_its_job():
    """What devices measured is labelled with pods: those of a gang are its own."""
    gang = workers("train", 2, 4, ["n0", "n1"])
    past = translate.translate(taken(node("n0"), node("n1"), pytorch_job("train", 2, 4), *gang))
    jobs = set(past.attempts["job"].to_list())
    assert {past.pods["ml", one["metadata"]["name"]] for one in gang} == jobs


def test_taints_tolerations_and_affinity_are_part_of_the_state():
    """The state itself says which nodes a pod may be on, as the API server's objects do."""
    expressions = [
        {"key": "zone", "operator": "In", "values": ["a", "b"]},
        {"key": "gpu.memory", "operator": "Gt", "values": ["100"]},
    ]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    asked = {
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "infra"}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        },
    }  # fmt: skip
    owned = {"key": "dedicated", "value": "infra", "effect": "NoSchedule"}
    only = {"key": "dedicated", "value": "infra", "effect": "NoExecute"}
    liked = {"zone": "b", "gpu.memory": "141"}
    world = world_of(
        node("tolerated", taints=[owned], labels=liked), node("small", labels={"zone": "a"}),
        node("repels", taints=[{"key": "else", "effect": "NoSchedule"}], labels=liked),
        node("likes", labels=liked), node("stops", taints=[only], labels=liked),
        pod("x", 8, spec=asked),
    )  # fmt: skip
    said = {row.node: row.words for row in explain.verdicts(world, world.job_number["ml/x"])}
    assert {name for name, words in said.items() if words == "ok"} == {
        "tolerated", "likes", "stops",
    }, said  # fmt: skip
    assert said["repels"] == "taint `else` not tolerated"
    assert said["small"].startswith("node affinity: it must have `zone` in `a`, `b` and")


def test_loops_that_name_themselves_by_their_pods_are_one_job(tmp_path: Path):
    """Two ranks of a gang, each under its own pod's name: it is up when the second is."""
    begin_us = round(made.BEGIN.timestamp()) * 1_000_000
    lines = []
    for rank in range(2):
        head = {"v": 1, "job": f"ml/g-{rank}", "run": f"r{rank}", "rank": rank}
        ids, late_us = {"namespace": "ml", "pod": f"g-{rank}"}, 200_000_000 * rank
        lines += [
            head | {"is": "job_began", "seq": 0, "at_us": begin_us, "named_by": "POD_NAME",
                    "gpus": 8, "host": "h", "pid": 1, "library": "0.1.0", "ids": ids},
            head | {"is": "steps", "seq": 1, "from_us": begin_us,
                    "until_us": begin_us + 1_000_000_000, "skew_us": 0, "steps": 0,
                    "compute_us": 1_000_000_000 - late_us, "other_us": late_us},
        ]  # fmt: skip
    records, cluster = tmp_path / "records.jsonl", tmp_path / "cluster.json"
    records.write_text("".join(json.dumps(line) + "\n" for line in lines))
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": made.template(8)}}}
    told = ("kubeflow.org/v1", "PyTorchJob", "g")
    pods = [pod(f"g-{i}", 8, on=f"n{i}", owner=told) for i in range(2)]
    objects = [node("n0"), node("n1"), made.owner(*told, spec), *pods]
    cluster.write_text(json.dumps(made.listed(*objects)))
    journal = str(tmp_path / "k.sqlite")
    done = tidemill("import", "kubernetes", str(cluster), "--track", str(records), "-j", journal)
    assert done.code == 0, done.err
    assert "not found among the jobs" not in done.err
    account = api.read_statement(journal).total()
    assert account.milli_ms[Bucket.STARTING] == 16_000 * 200_000


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (("--gpus", "4"), "not enough is free: 2 `H100` busy"),
        (("--gpus", "2"), "would run now"),
        (("--gpus", "1", "--profile", "3g.40gb"), "would run now"),
        (("--gpus", "5", "--profile", "3g.40gb"), "never fits"),
        (("--gpus", "1", "--profile", "7g.80gb"), "no node has `7G.80GB OF GPU`"),
    ],
)
def test_fit_asks_for_parts_that_are_cut_already_and_else_for_whole_gpus(
    tmp_path: Path, asked: tuple[str, ...], answer: str
):
    """4 whole H100, of which 2 are free, and instances: nobody cuts a GPU for a job here."""
    machine = node("n0", labels={"nvidia.com/gpu.count": "8"}, amounts=MIXED)
    path, journal = tmp_path / "all.json", str(tmp_path / "k.sqlite")
    path.write_text(json.dumps(made.listed(machine, pod("a", 2, on="n0"))))
    assert tidemill("import", "kubernetes", str(path), "-j", journal).code == 0
    assert answer in tidemill("fit", *asked, "-j", journal).out


@pytest.mark.parametrize(
    ("reason", "how"),
    [("Evicted", "evicted"), ("Terminated", "node lost"), ("", "node lost")],
)
def test_a_pod_that_its_kubelet_ended_was_evicted_or_its_node_shut_down(reason: str, how: str):
    """A node that is short of memory evicts; one that shuts down is lost: its status tells."""
    told = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    ended = pod("a", 4, on="n0", end=600, phase="Failed", conditions=[told])
    ended["status"]["reason"] = reason
    (row,) = translate.translate(made.taken(node("n0"), ended)).attempts.rows(named=True)
    assert row["outcome"] == how
