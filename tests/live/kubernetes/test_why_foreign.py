"""Why a job waits where another scheduler decides: nothing rests on what ours would do."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import node, pod
from tests.live.kubernetes.test_import import Object, world_of
from tests.live.kubernetes.test_kueue import condition, job, workload
from tidemill import explain
from tidemill.model.policy import Policy
from tidemill.model.rows import Job
from tidemill.model.world import World

NODES = [node("n0"), node("n1")]
FULL = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
OURS = ("preempt", "next cycle", "resubmit", "starts now", "starts at once", "held behind")
"""Words of a scheduler that decides."""


def queue(name: str, nominal: int, **rest: Any) -> list[Object]:
    """A cluster queue of a cohort, and the local queue that has its name."""
    quota = {"name": "nvidia.com/gpu", "nominalQuota": str(nominal), **rest}
    groups = [{"flavors": [{"name": "all", "resources": [quota]}]}]
    version = "kueue.x-k8s.io/v1beta1"
    return [
        made.owner(version, "ClusterQueue", name, {"cohort": "all", "resourceGroups": groups}),
        made.owner(version, "LocalQueue", name, {"clusterQueue": name}),
        made.owner(version, "ResourceFlavor", "all", {}),
    ]


def said(world: World, name: str) -> str:
    """All that `why`, `pending` and `fit` say of a waiting job, less its own scheduler's words."""
    j = world.job_number[name]
    shape = world.shape_of(j)
    answers = [
        explain.why(world, Policy(), j).words,
        explain.board(world, Policy()).words,
        *(row.words for row in explain.board(world, Policy()).rows),
        explain.fit(world, Policy(), Job("asked", shape)).words,
    ]
    lines = [line for one in answers for line in one.splitlines()]
    return "\n".join(line for line in lines if not line.startswith("its own scheduler says"))


def by_priority() -> World:
    """A pod of a high priority waits, and one of a low priority fills the nodes."""
    low = [pod(f"low-{i}", 8, on=f"n{i}") for i in range(2)]
    return world_of(*NODES, *low, pod("w", 8, spec={"priority": 1000}, message=FULL))


def by_guarantee() -> World:
    """A queue below its guaranteed quota waits, and another has borrowed what it is owed."""
    label = "kueue.x-k8s.io/queue-name"
    lent = [pod(f"b-{i}", 8, on=f"n{i}", labels={label: "borrows"}) for i in range(2)]
    waits = pod("w", 8, labels={label: "owed"}, message=FULL)
    return world_of(*NODES, *queue("owed", 8), *queue("borrows", 8), *lent, waits, team_by="queue")


def behind_an_old_one() -> World:
    """A pod that fits waits beside one that does not and has waited for longer."""
    runs = pod("r", 4, on="n0")
    full = pod("r2", 8, on="n1")
    old = pod("old", 8, created=-80_000, message=FULL)
    return world_of(*NODES, runs, full, old, pod("w", 4, created=3000, message="not yet"))


@pytest.mark.parametrize("case", [by_priority, by_guarantee, behind_an_old_one])
def test_no_answer_says_what_our_scheduler_would_do(case: Any):
    """Nobody is preempted, placed or passed by a scheduler that only looks on."""
    words = said(case(), "ml/w")
    assert not [one for one in OURS if one in words], words


def test_what_is_free_is_told_and_the_reason_of_the_foreign_scheduler():
    """Nothing is free, in evidence and cause; what its scheduler says comes first."""
    words = explain.why(by_priority(), Policy(), 2).words
    assert f'its own scheduler says: Unschedulable "{FULL}"' in words
    assert "cause: not enough is free" in words
    assert "0 accelerators free" in words


def test_what_keeps_a_job_out_beside_its_quota_counts_only_nodes_that_it_may_use():
    """The one free node is tainted: not enough is free, in the evidence and in the fixes."""
    label: Object = {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    taint = [{"key": "team", "value": "secret", "effect": "NoSchedule"}]
    held = workload(
        condition("QuotaReserved", 0, "False", reason="Pending", message="insufficient quota")
    )
    quota = {"name": "nvidia.com/gpu", "nominalQuota": "8"}
    groups = [{"flavors": [{"name": "all", "resources": [quota]}]}]
    version = "kueue.x-k8s.io/v1beta1"
    world = world_of(
        *NODES, node("n2", taints=taint), held, job(),
        made.owner(version, "ClusterQueue", "research", {"resourceGroups": groups}),
        made.owner(version, "LocalQueue", "lq", {"clusterQueue": "research"}),
        made.owner(version, "ResourceFlavor", "all", {}),
        pod("mine", 8, on="n0", **label), pod("other", 8, on="n1"), team_by="queue",
    )  # fmt: skip
    words = explain.why(world, Policy(), world.job_number["ml/r"]).words
    assert "0 accelerators free" in words
    assert "the quota is not all that keeps it out: not enough is free" in words
    assert "scattered" not in words


OF_UNLISTED = (
    "2 node(s) didn't match Pod's node affinity/selector",
    "2 node(s) were unschedulable",
    "2 Insufficient cpu",
    "2 Insufficient nvidia.com/gpu",
    "2 node(s) didn't match pod anti-affinity rules",
    "2 node(s) had untolerated taint {own: true}",
    "pod has unbound immediate PersistentVolumeClaims",
    "cannot allocate all claims",
    "2 minMember of the gang",
)


@pytest.mark.parametrize("message", OF_UNLISTED)
def test_what_is_said_of_nodes_that_nobody_lists_is_quoted(message: str):
    """Where nodes may not be read, nothing proves the cause: its scheduler's word is told."""
    told = f"0/2 nodes are available: {message}."
    world = world_of(pod("r", 4, on="n0"), pod("w", 4, message=told))
    words = explain.why(world, Policy(), world.job_number["ml/w"]).words
    assert message in words
    assert "all of them Ready" not in words


def test_a_quota_that_the_books_do_not_have_is_quoted():
    """A workload above its queue's quota, of which no nodes are listed, has its queue's word."""
    for text in ("insufficient unused quota for nvidia.com/gpu", "request > maximum capacity"):
        told = condition("QuotaReserved", 0, "False", reason="Pending", message=text)
        world = world_of(pod("s", 4, on="n0"), job(suspend=True), workload(told))
        words = explain.why(world, Policy(), world.job_number["ml/r"]).words
        assert text in words
        assert "do what its own scheduler's reason asks for" in words


@pytest.mark.parametrize(("held", "rest"), [(1, "; then it still waits, because "), (0, "")])
def test_uncordoning_a_node_that_is_too_full_is_no_fix_by_itself(held: int, rest: str):
    """It needs 8 GPUs on one node, and the cordoned one has 7 of them free: that is said."""
    closed = node("n0", unschedulable=True)
    runs = [pod("r", 4, on="n1"), *([pod("h", held, on="n0")] if held else [])]
    world = world_of(closed, node("n1", 4), *runs, pod("w", 8, message=FULL))
    fix = explain.why(world, Policy(), world.job_number["ml/w"]).fix.words
    assert fix.startswith(f"uncordon `n0`: {8 - held} accelerators are free there{rest}")
    assert fix.endswith("there") is not bool(held)


def test_rules_about_other_pods_leave_every_verdict_open():
    """Both nodes have room, and a required anti-affinity keeps the pod off: nobody says `ok`."""
    web = {"matchLabels": {"app": "web"}}
    term = {"labelSelector": web, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    others = [pod(f"web-{i}", 1, on=f"n{i}", labels={"app": "web"}) for i in range(2)]
    waits = pod("w", 1, spec={"affinity": apart}, message="0/2 nodes: anti-affinity rules")
    world = world_of(*NODES, *others, waits)
    j = world.job_number["ml/w"]
    found = explain.why(world, Policy(), j)
    assert {one.verdict for one in explain.verdicts(world, j)} == {"unknown"}
    rule = "rules about other pods (podAntiAffinity)"
    assert {row.verdict: row.words for row in found.nodes} == {
        "unknown": f"room, but whether it may be here is unknown: it has {rule}"
    }
    assert found.questions[-1].answer != "yes"
    assert rule in found.words


def _term(**more: object) -> Object:
    """A required anti-affinity to pods of an app."""
    told = {"labelSelector": {"matchLabels": {"app": "web"}},
            "topologyKey": "kubernetes.io/hostname", **more}  # fmt: skip
    must = {"requiredDuringSchedulingIgnoredDuringExecution": [told]}
    return {"affinity": {"podAntiAffinity": must}}


def _spread(**more: object) -> Object:
    """A spread over nodes that must hold."""
    told = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}, **more}  # fmt: skip
    return {"topologySpreadConstraints": [told]}


UNREADABLE = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["w"]}]}
NOT_READ = {
    "topologySpreadConstraints with minDomains": _spread(minDomains=3),
    "topologySpreadConstraints with nodeAffinityPolicy": _spread(nodeAffinityPolicy="Ignore"),
    "topologySpreadConstraints with nodeTaintsPolicy": _spread(nodeTaintsPolicy="Honor"),
    "topologySpreadConstraints with labelSelector": _spread(labelSelector=UNREADABLE),
    "affinity.podAntiAffinity with namespaceSelector": _term(
        namespaceSelector={"matchLabels": {"team": "x"}}
    ),
    "affinity.podAntiAffinity with labelSelector": _term(labelSelector=UNREADABLE),
    "volumes (data)": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
}
"""By what is said of it: a spec with a rule of which nobody here can tell what it leaves."""


@pytest.mark.parametrize("rule", sorted(NOT_READ))
def test_what_is_free_is_not_said_to_do_for_a_rule_that_is_not_read(rule: str):
    """Both nodes are empty; by the books alone it would start, and they do not have the rule."""
    waits = pod("w", 1, spec=NOT_READ[rule], message="0/2 nodes are available: 2 of no known rule.")
    world = world_of(*NODES, waits)
    found = explain.why(world, Policy(), world.job_number["ml/w"])
    assert "what it requests is free" not in found.words
    assert f"unknown, for nobody here can tell: {rule}" in found.words
    assert {row.verdict for row in found.nodes} == {"unknown"}


def test_a_place_for_each_job_of_a_set_is_no_rule_that_anybody_here_can_tell():
    """The first pod of a JobSet's only Job waits: its controller makes the second when that runs,
    and chooses the place of both. `why` names the annotation, and nobody says `ok`.
    """
    notes = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    job = {"parallelism": 2, "completions": 2, "template": made.template(1)}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": job}}]}
    above = made.owner("jobset.x-k8s.io/v1alpha2", "JobSet", "s", spec)
    above["metadata"]["annotations"] = notes
    first = pod("s-w-0-0", 1, owner=("jobset.x-k8s.io/v1alpha2", "JobSet", "s"),
                annotations=notes, message="0/2 nodes are available: 2 of no rule.")  # fmt: skip
    world = world_of(*NODES, above, first)
    j = world.job_number["ml/s"]
    found = explain.why(world, Policy(), j)
    rule = "alpha.jobset.sigs.k8s.io/exclusive-topology: rack"
    assert f"unknown, for nobody here can tell: {rule}" in found.words
    assert {one.verdict for one in explain.verdicts(world, j)} == {"unknown"}
