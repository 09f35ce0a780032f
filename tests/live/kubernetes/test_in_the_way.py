"""Pods that rules about other pods keep from room: each sort by its name, whom it is about, what
ends it.
"""

from functools import partial
from typing import NamedTuple

import pytest

from tests.live.kubernetes.made import Object, node, pod
from tests.live.kubernetes.test_import import reason, world_of
from tests.live.kubernetes.test_named_moves import MADE_ANEW, ZONE, near, port, spread, volume
from tidemill import explain
from tidemill.explain import phrasing
from tidemill.explain.answers import Answer
from tidemill.model.policy import Policy
from tidemill.model.world import World


class Kept(NamedTuple):
    """What a pod is like, what its scheduler says, and what is said of it here."""

    spec: Object
    message: str
    sort: str
    evidence: str
    fix: str
    shown: str
    app: str = ""


KEPT = {
    "port": Kept(
        port(), "2 node(s) didn't have free ports for the requested pod ports.", "hostPort",
        "in its way on `n0`: `ml/a-0`", "have `ml/a-0` on `n0` end, or go elsewhere",
        "kubectl get pod -n ml a-0 ",
    ),
    "apart": Kept(
        near("podAntiAffinity", "a"), "2 node(s) didn't match pod anti-affinity rules.",
        "anti-affinity", "in its way on `n0`: `ml/a-0`",
        "have `ml/a-0` on `n0` end, or go elsewhere", "kubectl get pod -n ml a-0 ",
    ),
    "apart-by-zone": Kept(
        near("podAntiAffinity", "a", ZONE), "2 node(s) didn't match pod anti-affinity rules.",
        "anti-affinity", "in its way on `n0`: `ml/a-0`",
        "have `ml/a-0` on `n0` end, or go elsewhere", "kubectl get pod -n ml a-0 ",
    ),
    "theirs": Kept(
        {}, "2 node(s) didn't satisfy existing pods anti-affinity rules.", "anti-affinity",
        "in its way on `n0`: `ml/a-0`", "have `ml/a-0` on `n0` end, or go elsewhere",
        "kubectl get pod -n ml a-0 ", "b",
    ),
    "together": Kept(
        near("podAffinity", "c"), "2 node(s) didn't match pod affinity rules.", "pod affinity",
        "it has to be beside `ml/c` in `n2`",
        "wait until what it requests is free in `n2`, beside `ml/c`", "kubectl get pod -n ml c ",
    ),
    "nobody": Kept(
        near("podAffinity", "nobody"), "3 node(s) didn't match pod affinity rules.",
        "pod affinity", "", "start a pod that its podAffinity names", "",
    ),
    "spread": Kept(
        spread(), "2 node(s) didn't match pod topology spread constraints.", "topology spread",
        "by its spread one more pod may be in `n2`; pods there: n0 1, n1 1, n2 0",
        "wait until what it requests is free in `n2`",
        "kubectl get nodes -L kubernetes.io/hostname", "a",
    ),
    "unbound": Kept(
        volume(), "pod has unbound immediate PersistentVolumeClaims. not found.", "volume",
        "its volume claim is `data`", "have the claim `data` bound to a volume",
        "kubectl get pvc -n ml data -o wide",
    ),
    "lost-volume": Kept(
        volume(), 'persistentvolumeclaim "data" not found.', "volume",
        "its volume claim is `data`", "make the volume claim `data`",
        "kubectl get pvc -n ml",
    ),
    "far-volume": Kept(
        volume(), "2 node(s) had volume node affinity conflict.", "volume",
        "its volume claim is `data`",
        "wait until what it requests is free where the volume of its claim `data` can be used",
        "kubectl get pv -o ",
    ),
}  # fmt: skip


def _app(told: Kept) -> Object:
    return {"app": told.app} if told.app else {}


def _spec() -> Object:
    """What has the port, and keeps others away."""
    return {**port(), **near("podAntiAffinity", "b")}


@pytest.fixture(scope="module")
def world() -> World:
    """Two nodes with room and a pod on each, a third that is full, and a pod kept out by each."""
    nodes = (node(f"n{i}", labels={ZONE: f"z{i}"}) for i in range(3))
    there = (pod(f"a-{i}", 1, on=f"n{i}", owner=MADE_ANEW, labels={"app": "a"}, spec=_spec())
             for i in range(2))  # fmt: skip
    full = pod("c", 8, on="n2", owner=MADE_ANEW, labels={"app": "c"})
    waits = (
        pod(name, 1, spec=one.spec, labels=_app(one),
            message=f"0/3 nodes are available: 1 Insufficient nvidia.com/gpu, {one.message}")
        for name, one in KEPT.items()
    )  # fmt: skip
    return world_of(*nodes, *there, full, *waits)


def _answer(world: World, name: str) -> Answer:
    return explain.why(world, Policy(), world.job_number[f"ml/{name}"])


@pytest.mark.parametrize("name", KEPT)
def test_whom_a_rule_is_about_is_named_with_the_line_that_shows_them(world: World, name: str):
    """It was said that it should do what its own scheduler's reason asks for."""
    told, found = KEPT[name], _answer(world, name)
    assert found.fix.words == told.fix
    facts = [fact for fact in found.evidence if fact.name == "in its way"]
    assert [fact.words for fact in facts] == [told.evidence] * bool(told.evidence)
    lines = [one.line for fact in facts for one in fact.shown_by]
    assert any(line.startswith(told.shown) for line in lines) == bool(told.shown), lines


def test_pods_that_other_rules_keep_out_are_rows_of_their_own(world: World):
    """One word of Kubernetes stood for all of them, in the table and in the words of the board."""
    found = explain.board(world, Policy())
    label = partial(phrasing.said_or_label, world)
    shown = {job.job.removeprefix("ml/"): label(job.cause, job.says) for job in found.waiting}
    assert shown == {name: one.sort for name, one in KEPT.items()}
    assert {label(row.cause, row.says) for row in found.rows} == {one.sort for one in KEPT.values()}
    for row in found.rows:
        assert row.cause_words == f"its own scheduler says {label(row.cause, row.says)}"


@pytest.mark.parametrize(
    ("name", "without"), [("port", "a-0"), ("apart", "a-0"), ("theirs", "a-0")]
)
def test_without_those_that_are_named_nobody_is_in_the_way_there(name: str, without: str):
    """The node that is named is one that the pod could use: the other one's pod is named then."""
    told = KEPT[name]
    there = [pod(f"a-{i}", 1, on=f"n{i}", owner=MADE_ANEW, labels={"app": "a"}, spec=_spec())
             for i in range(2)]  # fmt: skip
    waits = pod("x", 1, spec=told.spec, labels=_app(told),
                message=f"0/2 nodes are available: {told.message}")  # fmt: skip
    left = [one for one in there if one["metadata"]["name"] != without]
    assert "in its way on n0: ml/a-0 (others on 1 more node)" in _reason(there, waits)
    assert "in its way on n1: ml/a-1 (kubectl" in _reason(left, waits)


def _reason(there: list[Object], waits: Object) -> str:
    return reason(world_of(node("n0"), node("n1"), *there, waits), "ml/x")[2]


@pytest.mark.parametrize(
    ("cause", "says", "shown"),
    [
        ("none", "hostPort", "hostPort"),
        ("none", "AssocGrpGRES", "AssocGrpGRES"),
        ("over_limit", "AssocGrpGRES", "AssocGrpGRES"),
        ("over_limit", "Kueue", "maximum quota"),
        ("none", "Kueue", "Kueue"),
        ("impossible_label", "Unschedulable", "never: labels, taints"),
        ("busy", "", "too few free"),
    ],
)
def test_a_word_that_stands_before_many_reasons_is_not_shown_for_a_cause_that_is_known(
    world: World, cause: str, says: str, shown: str
):
    """Slurm's words are of one reason each, and stay."""
    assert phrasing.said_or_label(world, cause, says) == shown


def test_a_place_that_the_pod_cannot_use_is_not_named_to_it():
    """It must be beside a pod on a node with a taint, or may be spread to one: nothing that comes
    free there helps.
    """
    tainted = node("n1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    there = [pod("c", 1, on="n1", labels={"app": "c"}), pod("a", 1, on="n0", labels={"app": "a"})]
    spreads = pod("y", 1, spec=spread(), labels={"app": "a"}, message="1 node(s) didn't match pod"
                  " topology spread constraints.")  # fmt: skip
    beside = pod("x", 1, spec=near("podAffinity", "c"), message="1 node(s) didn't match pod"
                 " affinity rules.")  # fmt: skip
    world = world_of(node("n0"), tainted, *there, spreads, beside)
    for name, looser in {"x": "let its podAffinity only prefer", "y": "raise `maxSkew`"}.items():
        found = _answer(world, name)
        assert found.fix.words == "do what its own scheduler's reason asks for"
        assert found.other_fixes[0].words.startswith(looser)
        assert not [fact for fact in found.evidence if fact.name == "in its way"]
