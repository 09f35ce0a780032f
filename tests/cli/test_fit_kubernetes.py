"""``fit`` and ``fleet`` of a Kubernetes cluster: taints of GPU nodes, and quotas of namespaces."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod

OF_GPUS = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OF_TEAM = {"key": "team", "value": "b", "effect": "NoExecute"}
TOLERATES: Object = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
Asks = Callable[..., str]


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., str]:
    """An import of objects; the journal."""

    def import_(*objects: Object) -> str:
        path, journal = tmp_path / "cluster.json", str(tmp_path / "cluster.sqlite")
        path.write_text(json.dumps(made.listed(*objects)))
        done = tidemill("import", "kubernetes", str(path), "-j", journal, "--force")
        assert done.code == 0, done.err
        return journal

    return import_


def quota(name: str, hard: int, used: int, **spec: object) -> Object:
    """A quota of GPUs of the namespace `ml`."""
    return quota_of("requests.nvidia.com/gpu", name, str(hard), str(used), **spec)


def quota_of(key: str, name: str, hard: str, used: str, **spec: object) -> Object:
    """A quota of something of the namespace `ml`."""
    found = made.owner("v1", "ResourceQuota", name, {"hard": {key: hard}, **spec})
    return found | {"status": {"hard": {key: hard}, "used": {key: used}}}


def fit(journal: str, *words: str) -> str:
    """What `fit` says of the team `ml`."""
    done = tidemill("fit", "-j", journal, "--team", "ml", *words)
    return done.out + done.err


def test_a_taint_called_as_the_resource_keeps_no_request_for_it_out(imported: Asks):
    """As GKE sets it on all GPU nodes: 2 GPUs would run now, and `fleet` counts the sizes."""
    nodes = (node("g0", taints=[OF_GPUS]), node("g1", taints=[OF_GPUS]))
    journal = imported(*nodes, pod("a", 4, on="g0", spec=TOLERATES))
    found = fit(journal, "--gpus", "2")
    assert "would run now" in found
    assert "assumed: it is taken to tolerate the taint `nvidia.com/gpu`" in found
    document = json.loads(tidemill("fleet", "--json", "-j", journal).out)
    (lot,) = document["schedulability"]
    assert [(row["accelerators"], row["now"]) for row in lot["sizes"]] == [
        (1, 12), (2, 6), (4, 3), (8, 1),
    ]  # fmt: skip


def test_other_taints_are_tolerated_by_who_says_so(imported: Asks):
    """A node is kept for team b: it fits with `--tolerate team`; a key that no node has changes
    nothing, and is no error to who asks several clusters.
    """
    journal = imported(node("g0", taints=[OF_TEAM]), pod("a", 4, on="g0", spec=TOLERATES))
    assert "a taint that it does not tolerate" in fit(journal)
    assert "would run now" in fit(journal, "--tolerate", "team")
    found = fit(journal, "--tolerate", "gpu", "--tolerate", "team")
    assert "would run now" in found
    assert "--tolerate is `gpu`: no node has a taint of that key" in found
    assert "(taints: `team`)" in found


def test_a_quota_with_scopes_is_not_the_most_that_a_team_may_have(imported: Asks):
    """Two GPUs for pods of the class `high`: others may have more."""
    match = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    scoped = quota("high", 2, 0, scopeSelector={"matchExpressions": [match]})
    other = quota("best", 1, 0, scopes=["BestEffort"])
    journal = imported(node("g0"), pod("a", 4, on="g0"), scoped, other)
    assert "would run now" in fit(journal, "--gpus", "4")


def test_what_pods_that_wait_use_up_of_a_quota_is_said(imported: Asks):
    """Of 8, 6 are requested, 4 of them by a pod that waits: 4 more are refused, and 2 are not."""
    waits = pod("waits", 4, spec={"nodeSelector": {"no": "node"}})
    journal = imported(
        node("g0"), pod("runs", 2, on="g0"), waits, quota("q", 8, 6), quota("wide", 20, 6)
    )
    found = fit(journal, "--gpus", "4")
    assert "is not let in whole now: the quota `q` of namespace `ml` has 2 of 8 H100 left" in found
    assert "would run now" in fit(journal, "--gpus", "2")


def test_a_quota_is_told_of_a_full_cluster_too(imported: Asks):
    """Nothing is free, and the namespace would not be let in either: both are said, quota first."""
    journal = imported(node("n0"), pod("a", 8, on="n0"), quota("q", 8, 8))
    found = fit(journal, "--gpus", "2")
    assert "is not let in whole now: the quota `q` of namespace `ml` has 0 of 8 H100 left" in found
    assert "; if it were, when job `(not submitted)` starts is unknown" in found


def test_what_a_quota_refuses_is_not_offered_instead(imported: Asks):
    """Of 8, 4 are requested by a pod that waits: 6 would be within the quota by the books, and the
    API server takes 2.
    """
    waits = pod("waits", 4, spec={"nodeSelector": {"no": "node"}})
    journal = imported(node("g0"), pod("runs", 2, on="g0"), waits, quota("q", 8, 6))
    found = fit(journal, "--gpus", "7", "--per-node", "7")
    assert "would run now instead: 2 GPUs" in found
    assert "6 GPUs" not in found


def test_nobody_is_told_to_request_nothing(imported: Asks):
    """A quota of 0: it has to be raised."""
    found = fit(imported(node("g0"), pod("a", 4, on="g0", namespace="x"), quota("q", 0, 0)))
    assert "never fits: the maximum quota of team `ml` is 0" in found
    assert "hint: raise the maximum quota of `ml`" in found


def test_what_is_free_of_nodes_that_take_no_work_is_not_listed_as_free(imported: Asks):
    """One is cordoned, one unreachable with work on it; one takes work."""
    cordoned = node("n1", unschedulable=True)
    lost = node("n2", ready=False, turned=50)
    journal = imported(node("n0"), cordoned, lost, pod("a", 4, on="n2"), pod("b", 1, on="n0"))
    rows = json.loads(tidemill("fleet", "--nodes", "--json", "-j", journal).out)["nodes"]
    assert [(row["state"], row["free_milli"], row["usable_milli"]) for row in rows] == [
        ("ready", 7000, 7000), ("cordoned", 8000, 0), ("unhealthy", 4000, 0),
    ]  # fmt: skip
    shown = tidemill("fleet", "--nodes", "-j", journal)
    assert "free: what new work may have" in shown.err
    before = tidemill("fleet", "--nodes", "-j", journal, "--at", "1m")
    assert "cores and GiB free at an earlier moment: at most these" in before.err


def test_a_job_whose_pods_come_one_by_one_may_be_wider_than_its_quota(imported: Asks):
    """Two pods of 1 GPU, each by itself, and a quota of 1: it is no job that never starts."""
    wide = made.owner("batch/v1", "Job", "wide", {"parallelism": 2, "template": made.template(1)})
    journal = imported(node("g0"), pod("a", 1, on="g0"), wide, quota("q", 1, 1))
    found = tidemill("why", "ml/wide", "-j", journal).out
    assert "requests 1 to 2×1 accelerators" in found
    assert "do not wait" not in found
    assert "never" not in tidemill("pending", "-j", journal).out


@pytest.mark.parametrize(("key", "hard", "used", "says"), [
    ("pods", "3", "2", "has 1 of 3 pods left, and it requests 2"),
    ("count/pods", "3", "2", "has 1 of 3 pods left, and it requests 2"),
    ("requests.cpu", "20", "8", "has 12 of 20 cores left, and it requests 16"),
    ("cpu", "20", "8500m", "has 11.5 of 20 cores left, and it requests 16"),
    ("limits.cpu", "20", "8", "has 12 of 20 cores left, and it requests 16"),
    ("requests.memory", "100Gi", "64Gi", "is 100 GiB of memory in all, and it requests 128"),
])  # fmt: skip
def test_a_quota_of_pods_cores_or_memory_refuses_too(
    imported: Asks, key: str, hard: str, used: str, says: str
):
    """Two pods of 8 cores and 64 GiB are too many: the API server makes no second one."""
    journal = imported(node("g0"), pod("a", 1, on="g0"), quota_of(key, "q", hard, used))
    asks = ("--gpus", "2", "--per-node", "1")
    found = fit(journal, *asks)
    assert f"is not let in whole now: the quota `q` of namespace `ml` {says}" in found
    other = quota_of(key, "q", "900Gi" if "memory" in key else "900", used)
    assert "would run now" in fit(imported(node("g0"), pod("a", 1, on="g0"), other), *asks)


def test_quotas_of_what_the_books_have_not_are_named(tmp_path: Path):
    """Of disk and network cards nobody can say what is left; nor whom a scoped one is of."""
    disk, cards = "requests.ephemeral-storage", "requests.rdma/hca"
    objects = (quota_of(disk, "a", "1Ti", "0"), quota_of(cards, "b", "4", "0"),
               quota_of("requests.storage", "c", "1Ti", "0"))  # fmt: skip
    (tmp_path / "c.json").write_text(
        json.dumps(made.listed(node("g0"), pod("a", 1, on="g0"), *objects))
    )
    done = tidemill("import", "kubernetes", "c.json", "-j", "j.sqlite", cwd=tmp_path)
    assert f"quotas of namespaces (ResourceQuota) of {disk}, {cards}: not read" in done.err
    others = ("import", "kubernetes", "c.json", "-j", "k.sqlite", "--team-by", "label:x")
    assert "1 namespace with quotas" not in tidemill(*others, cwd=tmp_path).err
    of_pods = quota_of("pods", "d", "4", "0")
    (tmp_path / "c.json").write_text(
        json.dumps(made.listed(node("g0"), pod("a", 1, on="g0"), of_pods))
    )
    said = "1 namespace with quotas (ResourceQuota): not read, since teams here are no namespaces"
    assert said in tidemill(*others, "--force", cwd=tmp_path).err


def test_where_a_quota_counts_cores_every_pod_has_to_request_some(imported: Asks):
    """The API server makes no pod that does not say how many, whether any are left or not."""
    journal = imported(node("g0"), pod("a", 1, on="g0"), quota_of("requests.cpu", "q", "8", "4"))
    assert "has 4 of 8 cores left, and the API server makes no pod there that" in fit(
        journal, "--gpus", "1", "--cpus", "0"
    )


def test_where_pods_lack_the_toleration_nobody_is_taken_to_have_it(imported: Asks):
    """A pod that the scheduler looked at tolerates nothing: what would add that is not there."""
    message = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    journal = imported(node("g0", taints=[OF_GPUS]), pod("w", 4, message=message))
    found = fit(journal, "--gpus", "4")
    assert "never fits" in found
    assert "a taint that it does not tolerate" in found
    assert "would run now instead" in found
    assert "it is not taken to tolerate the taint `nvidia.com/gpu`: pods here that" in found
    assert "`fit --tolerate nvidia.com/gpu`" in found
    assert "` would run now: " in fit(journal, "--gpus", "4", "--tolerate", "nvidia.com/gpu")


def test_a_namespace_without_jobs_may_be_asked_about(imported: Asks):
    """On an idle cluster, and in one that is new: it has no quota, and that is said."""
    idle = imported(node("g0"), pod("web", 0, on="g0"))
    said = "assumed: no job of team `ml` is known here: it is taken to be new, and to have no quota"
    assert "would run now" in fit(idle, "--gpus", "4")
    assert said in fit(idle, "--gpus", "4")
    busy = imported(node("g0"), pod("a", 4, on="g0", namespace="other"))
    found = fit(busy, "--gpus", "4")
    assert "would run now" in found
    assert f"{said} (known teams: `other`)" in found
    assert "hint: teams: `other`" not in tidemill("fit", "-j", busy).err
    with_quota = imported(node("g0"), pod("a", 4, on="g0", namespace="other"), quota("q", 2, 0))
    assert "never fits: the maximum quota of team `ml` is 2" in fit(with_quota, "--gpus", "4")


def test_where_no_node_takes_work_nobody_says_when_one_will(imported: Asks):
    """Its only node is not Ready: no book tells how long that takes."""
    journal = imported(node("g0", ready=False, turned=50), pod("a", 1, on="g0"))
    found = fit(journal, "--gpus", "4")
    assert "when job `(not submitted)` starts is unknown: no node that it may use takes" in found
    assert "p10" not in found
    assert "unhealthy" in found


def test_a_part_of_a_gpu_is_never_had_of_whole_ones(imported: Asks):
    """The API server takes no `500m` of them; of shares and instances there is what there is."""
    whole = imported(node("g0"), pod("a", 1, on="g0"))
    found = fit(whole, "--gpus", "0.5")
    assert "nothing on the books gives out 0.5 of a GPU: GPUs are requested whole" in found
    assert "KAI" in found
    assert "--profile" in found
    assert "runs now" not in found
    row = Path(whole).with_name("job.json")
    row.write_text('{"name": "t", "shape": {"team": "ml", "roles": [{"milli": 500}]}}')
    refused = tidemill("fit", "-j", whole, "--job", str(row))
    assert (
        "role `worker` has `milli` 500; nothing on the books gives out 0.5 of a GPU" in refused.err
    )
    row.write_text('{"name": "t", "shape": {"team": "new", "roles": [{"count": 2}]}}')
    assert "no job of team `new` is known" in tidemill("fit", "-j", whole, "--job", str(row)).out
    label = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing",
             "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"}  # fmt: skip
    shared = imported(node("g0", gpus=32, labels=label), pod("a", 1, on="g0"))
    assert "here are `1/4 OF H100`" in fit(shared, "--gpus", "0.5")
    assert "would run now" in fit(shared, "--gpus", "0.25")


def test_how_gpus_lie_on_nodes_is_said_where_nobody_asked_for_it(imported: Asks):
    """Nine on nodes of eight are three pods of three, which is not a pod of nine."""
    journal = imported(node("g0"), node("g1"), pod("a", 1, on="g0"))
    found = fit(journal, "--gpus", "9")
    assert found.startswith("as 3 replicas of 3 GPUs, for no node has 9 (--per-node says other")
    assert "would run now" in found
    assert "never fits" in fit(journal, "--gpus", "9", "--per-node", "9")
    assert "replicas of" not in fit(journal, "--gpus", "8")
    assert not fit(journal, "--gpus", "9", "--per-node", "3").startswith("as ")


def test_who_asks_for_a_rack_is_told_who_knows_of_racks(imported: Asks):
    """Tiers are of a spec or of our scheduler's policy; of a cluster that is looked on none is."""
    journal = imported(node("g0"), pod("a", 1, on="g0"))
    found = fit(journal, "--within", "rack")
    assert "declare the tier" not in found
    assert "in a cluster that is looked on no tiers are known" in found
    assert "leave --within out" in found


def kueue_of(namespace: str, hard: int, **spec: object) -> list[Object]:
    """A queue with a quota of GPUs, and the name by which a namespace has it."""
    group, gpu = "kueue.x-k8s.io/v1beta1", "nvidia.com/gpu"
    flavor = {"name": "h100", "resources": [{"name": gpu, "nominalQuota": str(hard)}]}
    rows = {"resourceGroups": [{"coveredResources": [gpu], "flavors": [flavor]}], **spec}
    return [
        made.owner(group, "ResourceFlavor", "h100", {}),
        made.owner(group, "ClusterQueue", "cq", rows),
        made.owner(group, "LocalQueue", "lq", {"clusterQueue": "cq"}, namespace=namespace),
    ]


def admitted(name: str, gpus: int) -> Object:
    """A workload of the namespace `ml` that holds so much of the quota."""
    found = made.owner(
        "kueue.x-k8s.io/v1beta1", "Workload", name, {"queueName": "lq", "podSets": []}
    )
    part = {"name": "main", "count": 1, "flavors": {"nvidia.com/gpu": "h100"},
            "resourceUsage": {"nvidia.com/gpu": str(gpus)}}  # fmt: skip
    holds = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": made.moment(0)}
    admission = {"clusterQueue": "cq", "podSetAssignments": [part]}
    return found | {"status": {"admission": admission, "conditions": [holds]}}


def test_a_queue_of_kueue_that_is_used_up_lets_nothing_more_in(imported: Asks):
    """8 of its 8 are held: what goes through it waits, whatever is free; 4 of 8 leave 4."""
    nodes = (node("g0"), node("g1"), pod("a", 4, on="g0"))
    full = imported(*nodes, *kueue_of("ml", 8), admitted("w", 8))
    found = fit(full, "--gpus", "1")
    assert "through Kueue's queue `lq`: when job `(not submitted)` starts is unknown" in found
    assert "Kueue's queue `cq` uses 8 of its maximum quota of 8 `H100`" in found
    half = imported(*nodes, *kueue_of("ml", 8), admitted("w", 4))
    assert "would run now" in fit(half, "--gpus", "4")
    found = fit(half, "--gpus", "5", "--per-node", "5")
    assert "Kueue's queue `cq` uses 4 of its maximum quota of 8 `H100`" in found
    assert "would run now instead: 4 GPUs" in found
    _, lender, _ = kueue_of("x", 4, cohort="all")
    lender["metadata"]["name"] = "lender"
    lent = imported(*nodes, *kueue_of("ml", 8, cohort="all"), lender, admitted("w", 8))
    assert "would run now" in fit(lent, "--gpus", "4")  # its cohort lends as much
    assert "would run now instead: 4 GPUs" in fit(lent, "--gpus", "5", "--per-node", "5")


A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


def of_two_types(**pods: object) -> list[Object]:
    """A node of eight H100 and two of eight A100."""
    return [node("n0"), node("a0", labels=A100), node("a1", labels=A100)]


def test_another_scheduler_spreads_a_gang_over_gpu_types(imported: Asks):
    """Three pods of eight, each of any type: one runs on each node, whatever its type is."""
    journal = imported(*of_two_types(), pod("x", 0, on="n0"), pod("y", 1, on="n0", end=60))
    found = fit(journal, "--gpus", "24", "--per-node", "8")
    assert "never" not in found
    assert "one GPU type" not in found
    assert "would run now: 24 accelerators free on 3 nodes" in found
    assert "never fits" in fit(journal, "--gpus", "32", "--per-node", "8")
    busy = imported(*of_two_types(), pod("x", 4, on="n0"))
    assert "runs now" not in fit(busy, "--gpus", "24", "--per-node", "8")
    assert "never" not in fit(busy, "--gpus", "24", "--per-node", "8")


def test_a_gang_of_any_type_waits_for_all_types_together(imported: Asks):
    """One node is half taken: its other pods fit, and nobody says that it never will."""
    gang = [made.pytorch_job("mix", 3, 8), *made.workers("mix", 3, 8, [])]
    journal = imported(*of_two_types(), pod("x", 4, on="n0"), *gang)
    found = tidemill("why", "ml/mix", "-j", journal).out
    assert "do not wait" not in found
    assert "one GPU type" not in found
    assert "of any type" in found


def test_parts_of_a_machine_have_its_cores_together(imported: Asks):
    """96 cores with 7 instances of one profile and 2 of another: one of either may have 60 or 90.

    On the books the cores are divided among the two; a pod that holds 60 leaves 36 to both.
    """
    small, large = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
    amounts = {"nvidia.com/gpu": None, small: "7", large: "2", "cpu": "96"}
    machine = node("m0", amounts=amounts)
    asks = ("--gpus", "1", "--profile", "1g.10gb", "--memory-gib", "1", "--cpus")
    one = imported(machine, pod("x", {large: 1}, on="m0", cpu="6"))
    assert "would run now" in fit(one, *asks, "60")
    assert "would run now" in fit(one, *asks, "90")
    assert "now, if" not in fit(one, *asks, "91")
    assert "the largest node has 96 cores" in fit(one, *asks, "97")
    two = imported(machine, pod("x", {small: 1}, on="m0", cpu="60"))
    rows = json.loads(tidemill("fleet", "--nodes", "--json", "-j", two).out)["nodes"]
    assert [(row["cpu_milli"], row["cpu_free_milli"]) for row in rows] == [(96_000, 36_000)] * 2


@pytest.mark.parametrize(("of_part", "beside"), [("60", "30"), ("30", "60"), ("60", "31")])
def test_pods_without_gpus_take_of_a_machine_and_not_of_each_part(
    imported: Asks, of_part: str, beside: str
):
    """96 cores, 4 whole GPUs and 28 instances: of the 48 of their part a pod has more than all.

    What pods without GPUs hold is free of neither, whichever part has it on the books.
    """
    small = "nvidia.com/mig-1g.10gb"
    machine = node("mm", amounts={"nvidia.com/gpu": "4", small: "28", "cpu": "96"})
    pods = (
        pod("part", {small: 1}, on="mm", cpu=of_part, memory="600Gi"),
        pod("beside", 0, on="mm", cpu=beside, memory="300Gi"),
    )
    journal = imported(machine, *pods)
    rows = json.loads(tidemill("fleet", "--nodes", "--json", "-j", journal).out)["nodes"]
    cores = 96 - int(of_part) - int(beside)
    assert [row["cpu_free_milli"] for row in rows] == [cores * 1000] * 2
    assert len({row["memory_free_mib"] for row in rows}) == 1
    assert rows[0]["memory_free_mib"] == rows[0]["memory_mib"] - 900 * 1024
    asks = ("--gpus", "1", "--kind", "H100", "--memory-gib", "1", "--cpus")
    assert "would run now" in fit(journal, *asks, str(cores))
    assert "now, if" not in fit(journal, *asks, str(cores + 1))


def test_who_holds_the_cores_of_a_machine_is_sought_on_all_its_parts(imported: Asks):
    """Three pods on instances have 90 of 96 cores: they are waited for, and no work beside them."""
    small = "nvidia.com/mig-1g.10gb"
    machine = node("mm", amounts={"nvidia.com/gpu": "4", small: "28", "cpu": "96"})
    held = [pod(f"h{i}", {small: 1}, on="mm", cpu="30", memory="1Gi") for i in range(3)]
    journal = imported(machine, *held, pod("whole", 1, cpu="8", memory="1Gi"))
    found = tidemill("why", "ml/whole", "-j", journal).out
    assert "`ml/h0` of team `ml` (30 cores" in found
    assert "wait until `ml/h0` ends" in found
    assert "work without GPUs" not in found


def test_where_nodes_take_no_more_pods_nobody_says_when_one_will(imported: Asks):
    """Its only node has as many pods as it takes, none with GPUs: no book tells when they end."""
    full = node("n0", amounts={"pods": "2"})
    found = fit(imported(full, *(pod(name, 0, on="n0") for name in "ab")), "--gpus", "4")
    assert "starts is unknown: nothing tells when work without GPUs ends: 8 full on 1 node" in found
    assert "does not start" not in found


def test_a_part_of_a_gpu_is_not_offered_for_a_whole_one(imported: Asks):
    """A pod requests 4 whole A100, of which 2 are free: 4 instances have half of one together."""
    instance = {"nvidia.com/mig-1g.10gb": "14"}
    label = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "pool": "mig"}
    shares = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing",
              "nvidia.com/gpu.product": "Tesla-T4-SHARED"}  # fmt: skip
    journal = imported(
        node("g0", gpus=4, labels=label, amounts=instance), node("t0", gpus=16, labels=shares),
        pod("a", 2, on="g0"), pod("waits", 4, spec={"nodeSelector": {"pool": "mig"}}),
    )  # fmt: skip
    found = tidemill("why", "ml/waits", "-j", journal).out
    assert "would run now instead: 2 `A100-80GB`\n" in found
    whole = ("--gpus", "4", "--per-node", "4", "--kind", "A100-80GB")
    assert "mig-1g.10gb" not in fit(journal, *whole)


def test_for_an_instance_a_larger_one_is_offered_or_a_whole_gpu(imported: Asks):
    """All of 2g.20gb are held; 1g.10gb and a share of a T4 are less, a whole GPU is more."""
    label = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    cut = {"nvidia.com/gpu": "2", "nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-2g.20gb": "3"}
    shares = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing",
              "nvidia.com/gpu.product": "Tesla-T4-SHARED"}  # fmt: skip
    asks = "nvidia.com/mig-2g.20gb"
    journal = imported(
        node("g0", gpus=2, labels=label, amounts=cut), node("t0", gpus=16, labels=shares),
        pod("a", {asks: 3}, on="g0"), pod("waits", {asks: 1}),
    )  # fmt: skip
    found = tidemill("why", "ml/waits", "-j", journal).out
    assert "would run now instead: 1 `A100-80GB`\n" in found
    assert "T4" not in found


def test_what_the_quota_refuses_is_not_offered(imported: Asks):
    """Five GPUs on one node exceed the quota of GPUs; four without CPU are refused by that of
    cores, which counts them.
    """
    runs = pod("runs", 2, on="g0", cpu="16")
    gpus, cores = quota("gpus", 6, 2), quota_of("requests.cpu", "cores", "40", "16")
    journal = imported(node("g0"), runs, gpus, cores)
    five = ("--gpus", "5", "--per-node", "5")
    assert "would run now instead" not in fit(journal, *five)
    assert "would run now instead: 4 GPUs" in fit(journal, *five, "--cpus", "5")
    assert "would run now" in fit(journal, "--gpus", "4", "--cpus", "5")


def test_an_offer_holds_with_what_jobs_of_its_size_request(imported: Asks):
    """`fit` asks 8 GPUs with the 16 cores of the job with 8; a job of 4 has 120, which are not
    free: 4 are not offered.
    """
    journal = imported(
        node("g0"), node("g1"), pod("a", 4, on="g0", cpu="120"),
        pod("b", 4, on="g1", cpu="120"), pod("c", 8, cpu="16"),
    )  # fmt: skip
    eight = fit(journal, "--gpus", "8", "--per-node", "8")
    assert "would run now instead: 2 replicas of 4" in eight
    assert "instead: 4 GPUs" not in eight
    assert "; 4 GPUs" not in eight
    assert "CPU is not" in fit(journal, "--gpus", "4")


def test_who_selects_one_instance_type_has_not_arrived_for_others(imported: Asks):
    """All jobs select the H100: nobody asked for the L4, and nothing says how usable it is."""
    pool, l4 = {"pool": "h100"}, {"nvidia.com/gpu.product": "NVIDIA-L4"}
    runs = pod("a", 4, on="g0", spec={"nodeSelector": pool})
    journal = imported(node("g0", labels=pool), node("g1", labels=l4), runs)
    document = json.loads(tidemill("fleet", "--json", "-j", journal).out)
    arrived = {
        lot["kind"]: sum(row["arrivals"] for row in lot["sizes"])
        for lot in document["schedulability"]
    }
    assert arrived == {"H100": 1, "L4": 0}
    (of_l4,) = (lot for lot in document["schedulability"] if lot["kind"] == "L4")
    assert of_l4["usable_milli"] is None


def test_a_type_may_be_given_as_nodes_label_it(imported: Asks):
    """The product label of a node is read as the type that the books have of it."""
    a100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    journal = imported(node("g0"), node("g1", labels=a100), pod("a", 1, on="g0"))
    assert "would run now" in fit(journal, "--kind", "NVIDIA-H100-80GB-HBM3")
    assert "would run now" in fit(journal, "--kind", "NVIDIA-A100-SXM4-80GB")
    short = fit(journal, "--kind", "A100")
    assert "no node has `A100`" in short
    assert "hint: is `A100-80GB` meant?" in short
    assert "never fits" in fit(journal, "--kind", "B200")


def test_who_waits_for_pods_without_gpus_is_told_how_to_list_them(imported: Asks):
    """They hold the cores beside 8 free GPUs, and are in no books: kubectl lists them."""
    helper = pod("web", 0, on="g1", cpu="190")
    journal = imported(node("g0"), node("g1"), pod("a", 8, on="g0"), helper, pod("waits", 1))
    found = tidemill("why", "ml/waits", "-j", journal).out
    assert (
        "wait until work without GPUs ends, which no books tell of: it holds 190 cores"
        " (kubectl get pods -A --field-selector spec.nodeName=g1)"
    ) in found


@pytest.mark.parametrize(("hard", "words"), [
    ("8", "the quota of its namespace is used up"),
    ("16", "the quota `q` of its namespace was used up, and has room for the pod now"),
])  # fmt: skip
def test_a_quota_that_was_raised_since_is_not_used_up(imported: Asks, hard: str, words: str):
    """The event of an hour ago says 8 of 8; the quota of now has 16, and the pod requests 8."""
    key = "requests.nvidia.com/gpu"
    told = f'pods "x-0" is forbidden: exceeded quota: q, requested: {key}=8, used: {key}=8,'
    refused: Object = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": "Job", "namespace": "ml", "name": "x"},
        "reason": "FailedCreate", "message": f"{told} limited: {key}=8",
        "firstTimestamp": made.moment(60), "lastTimestamp": made.moment(900),
    }  # fmt: skip
    spec = {"parallelism": 1, "template": made.template(8)}
    journal = imported(
        node("g0"), pod("a", 8, on="g0"), made.owner("batch/v1", "Job", "x", spec), refused,
        quota_of(key, "q", hard, "8"),
    )  # fmt: skip
    assert words in tidemill("why", "ml/x", "-j", journal).out


def test_what_is_missing_of_the_prices_is_named(imported: Asks, tmp_path: Path):
    """H100 have a price and L4 none: that type is said, and what is known of the rest."""
    l4 = {"nvidia.com/gpu.product": "NVIDIA-L4"}
    imported(node("g0"), node("g1", gpus=4, labels=l4), pod("a", 4, on="g0"), pod("w", 8))
    journal = str(tmp_path / "priced.sqlite")
    objects = str(tmp_path / "cluster.json")
    told = tidemill("import", "kubernetes", objects, "-j", journal, "--usd-per-hour", "H100=2")
    assert "4 GPUs without a price (`L4 x4`)" in told.err
    assert "accelerator-hours (`L4 x4`)" in " ".join(told.out.split())
    assert "8 GPUs free (≥ $8.00 an hour)" in tidemill("pending", journal).out


def test_advice_names_jobs_that_exist(imported: Asks):
    """Two jobs of one prefix: one of them is named, which `why` knows."""
    jobs = [pod(f"train-{i}", 4, on="g0", created=0) for i in (1, 2)]
    journal = imported(node("g0"), *jobs)
    said = tidemill("ledger", journal).out
    assert "2 jobs like `ml/train-1` of team `ml`" in said
    assert tidemill("why", "ml/train-1", "-j", journal).code == 0


def test_equal_reasons_are_told_once_with_their_jobs(imported: Asks):
    """Three pods hear the same, one another thing: two lines, and the CSV has each."""
    pods = [pod(f"p{i}", 8, message="0/1 nodes: 1 Insufficient nvidia.com/gpu.") for i in range(3)]
    other = pod("q", 1, message="0/1 nodes: 1 had volume node affinity conflict.")
    journal = imported(node("g0"), pod("a", 8, on="g0"), *pods, other)
    said = tidemill("pending", journal)
    reasons = said.out.partition("their own scheduler says:\n")[2].splitlines()
    assert [line.partition(': Unschedulable "')[0] for line in reasons] == [
        "  3 jobs (ml/p0, ml/p1, ml/p2)", "  ml/q",
    ]  # fmt: skip
    assert "(kubectl describe pod -n ml p0)" in reasons[0]
    assert "scheduler of its own" not in said.err  # every cause is in that scheduler's words
    table = tidemill("pending", journal, "--csv").out.splitlines()
    assert table[0].endswith(",reason")
    assert all("kubectl describe pod -n ml" in line for line in table[1:])
