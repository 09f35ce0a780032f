"""Moves that `why` and `defrag` name of pods that another scheduler placed: none breaks a rule."""

from typing import Any

import pytest

from tests.live.kubernetes.made import Object, node, owner, pod
from tests.live.kubernetes.test_import import world_of
from tidemill import explain
from tidemill.explain import Glance, defrag
from tidemill.explain.defragment import Defrag
from tidemill.model.policy import Policy
from tidemill.model.world import World

MADE_ANEW = ("apps/v1", "ReplicaSet", "some")
ON_ONE_NODE = ("apps/v1", "DaemonSet", "some")
FULL = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
MUST = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def near(kind: str, app: str, key: str = HOST) -> Object:
    """A spec with a required rule about pods of an app."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {MUST: [term]}}}


def spread() -> Object:
    """A spec that is spread over nodes."""
    told = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}}}  # fmt: skip
    return {"topologySpreadConstraints": [told]}


def port() -> Object:
    """A spec with a port of its node."""
    amounts = {"limits": {"nvidia.com/gpu": "4"}, "requests": {"cpu": "1"}}
    ports = [{"containerPort": 80, "hostPort": 8080}]
    return {"containers": [{"name": "main", "resources": amounts, "ports": ports}]}


def volume() -> Object:
    """A spec with a volume that a claim names."""
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


def halves(owned: Any = MADE_ANEW, **rest: Any) -> list[Object]:
    """Two nodes of 8, each with a pod of 4."""
    some = (pod(f"a-{i}", 4, on=f"n{i}", owner=owned, **rest) for i in range(2))
    return [node("n0"), node("n1"), *some]


def answers(*objects: Object) -> tuple[str, Defrag, World]:
    """What `why` says of a pod for 5, and `defrag`."""
    world = world_of(*objects, pod("x", 5, message=FULL))
    j = world.job_number["ml/x"]
    words = explain.why(world, Policy(), j).words
    return words, defrag(world, Policy(), j, Glance(world, sweeps=True)), world


def test_a_pod_without_rules_that_somebody_makes_anew_is_moved():
    """What all that follows differs from."""
    words, found, _ = answers(*halves())
    assert "move `ml/a-0` off `n0`: it fits elsewhere" in words
    assert [(one.job, one.goes_to) for one in found.moves] == [("ml/a-0", ("n1",))]


@pytest.mark.parametrize(
    "spec",
    [near("podAntiAffinity", "a"), near("podAffinity", "a"), spread(), port(), volume()],
    ids=["anti-affinity", "affinity", "spread", "port", "volume"],
)
def test_a_pod_with_rules_that_nodes_do_not_show_stays(spec: Object):
    """Two that keep apart were told to share a node: nobody here knows where such pods may be."""
    words, found, _ = answers(*halves(labels={"app": "a"}, spec=spec))
    assert "move " not in words
    assert found.moves == ()
    assert "; left where they are: `ml/a-0` and `ml/a-1`, by rules about more" in found.words


@pytest.mark.parametrize(
    ("spec", "taint"),
    [({"nodeSelector": {"pool": "a"}}, ""), ({}, "dedicated"),
     ({"affinity": {"nodeAffinity": {MUST: {"nodeSelectorTerms": [
         {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]}}}}, "")],
    ids=["selector", "taint", "node affinity"],
)  # fmt: skip
def test_the_new_place_is_one_that_the_pod_selects_and_tolerates(spec: Object, taint: str):
    """The only other node has another label, or a taint."""
    taints = [{"key": taint, "value": "v", "effect": "NoSchedule"}] if taint else []
    first, second = node("n0", labels={"pool": "a"}), node("n1", labels={"pool": "b"})
    second["spec"]["taints"] = taints
    tolerates = {"tolerations": [{"operator": "Exists"}]}
    some = [pod("a", 4, on="n0", owner=MADE_ANEW, spec=spec),
            pod("b", 4, on="n1", owner=ON_ONE_NODE, spec=tolerates)]  # fmt: skip
    words, found, _ = answers(first, second, *some)
    assert "move " not in words
    assert found.moves == ()


@pytest.mark.parametrize("owned", [None, ON_ONE_NODE], ids=["bare", "daemon"])
def test_a_pod_that_nobody_makes_anew_elsewhere_is_neither_moved_nor_stopped(owned: Any):
    """A bare pod would be gone for ever, one of a DaemonSet comes back where it was."""
    words, found, world = answers(*halves(owned))
    assert "move " not in words
    assert "stop " not in words
    assert found.moves == ()
    assert "nobody makes anew on another node, are not stopped" in found.words
    assert not world.shape_of(world.job_number["ml/a-0"]).is_preemptible


def test_a_pod_that_says_so_is_moved_though_nobody_makes_it_anew():
    """By the annotation that our own scheduler heeds."""
    words, _, _ = answers(*halves(None, annotations={"tidemill/preemptible": "true"}))
    assert "move `ml/a-0` off `n0`" in words


def test_a_pod_that_a_disruption_budget_keeps_is_not_moved():
    """It lets none of them go now."""
    budget = owner("policy/v1", "PodDisruptionBudget", "keep",
                   {"selector": {"matchLabels": {"app": "a"}}},
                   status={"disruptionsAllowed": 0})  # fmt: skip
    words, found, _ = answers(*halves(labels={"app": "a"}), budget)
    assert "move " not in words
    assert "a disruption budget keeps" in found.words


@pytest.mark.parametrize(
    ("key", "keeps", "goes"),
    [(HOST, "n2", [("n1",)]), (HOST, "n1", []), (ZONE, "n2", [])],
    ids=["elsewhere", "there", "in a zone"],
)
def test_nobody_is_moved_to_where_a_pod_keeps_others_away(key: str, keeps: str, goes: Any):
    """The rule of a pod there may name the mover; of places larger than nodes nobody here knows
    which nodes they are.
    """
    on = "n1" if keeps == "n2" else "n2"
    keeper = pod("keeper", 4, on=keeps, owner=MADE_ANEW, spec=near("podAntiAffinity", "a", key))
    some = [pod("a", 4, on="n0", owner=MADE_ANEW), keeper, pod("bare", 4, on=on)]
    _, found, _ = answers(*(node(f"n{i}") for i in range(3)), *some)
    assert [one.goes_to for one in found.moves] == goes
