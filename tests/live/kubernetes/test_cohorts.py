"""Kueue's cohorts: what is below one uses at most what all of them have, and may borrow above."""

from typing import Any

from tests.live.kubernetes import made
from tests.live.kubernetes.made import node
from tests.live.kubernetes.test_import import Object, world_of
from tests.live.kubernetes.test_kueue import NODES
from tests.live.kubernetes.test_podless import buys, held, lines
from tidemill import explain
from tidemill.live.kubernetes.translate import translate
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.world import World

V2 = "kueue.x-k8s.io/v1beta2"
FLAVOR = made.owner(V2, "ResourceFlavor", "all", {})


def quotas(nominal: int, **rest: Any) -> list[Object]:
    """So many GPUs of the one flavor."""
    quota = {"name": "nvidia.com/gpu", "nominalQuota": str(nominal), **rest}
    return [{"flavors": [{"name": "all", "resources": [quota]}]}]


def queue(name: str, nominal: int, cohort: str, **rest: Any) -> list[Object]:
    """A queue of a cohort, in the fields of now, and the local one that has its name."""
    spec = {"cohortName": cohort, "resourceGroups": quotas(nominal, **rest)}
    return [
        made.owner(V2, "ClusterQueue", name, spec),
        made.owner(V2, "LocalQueue", name, {"clusterQueue": name}),
    ]


def cohort(name: str, groups: list[Object] | None = None, parent: str = "") -> Object:
    """A cohort that is an object."""
    spec: Object = {"resourceGroups": groups or []} | ({"parentName": parent} if parent else {})
    return made.owner(V2, "Cohort", name, spec)


def shares(world: World) -> dict[str, tuple[str, int, int | None]]:
    """By team: what is above it, what it is sure of, and the most that it may use; None: any."""
    found = dict[str, tuple[str, int, int | None]]()
    for row in world.queue_rows:
        for share in row.shares:
            most = min(share.limit_milli, share.floor_milli + share.borrow_milli)
            limit = None if most >= FOREVER_MS else most // WHOLE_MILLI
            found[row.name] = (row.parent, share.floor_milli // WHOLE_MILLI, limit)
    return found


def read(*objects: Object) -> World:
    """Two nodes of 8, and these queues as teams."""
    return world_of(*NODES, made.pod("x", 1, on="n0"), FLAVOR, *objects, team_by="queue")


def test_a_cohort_that_is_only_named_has_what_its_queues_have():
    """Two queues of 8 that borrow from each other without a limit: 16, and no more."""
    assert shares(read(*queue("a", 8, "all"), *queue("b", 8, "all"))) == {
        "cohort all": ("", 16, 16), "a": ("cohort all", 8, None), "b": ("cohort all", 8, None),
    }  # fmt: skip


def test_a_cohort_has_quotas_of_its_own_and_may_be_below_another():
    """8 of a queue and 4 of its cohort, which borrows at most 2 of the one above it."""
    world = read(
        *queue("a", 8, "left", borrowingLimit="6"), *queue("b", 6, "top"),
        cohort("left", quotas(4, borrowingLimit="2"), "top"), cohort("top", quotas(10)),
    )  # fmt: skip
    assert shares(world) == {
        "cohort top": ("", 28, 28), "cohort left": ("cohort top", 12, 14),
        "a": ("cohort left", 8, 14), "b": ("cohort top", 6, None),
    }  # fmt: skip
    assert [row.name for row in world.queue_rows][:2] == ["cohort top", "cohort left"]


def test_the_parent_of_a_cohort_had_another_name_and_may_be_no_object():
    """`parent` in its first version; of a cohort that only it names."""
    old = made.owner("kueue.x-k8s.io/v1alpha1", "Cohort", "left", {"parent": "top"})
    assert shares(read(*queue("a", 8, "left"), old))["cohort left"] == ("cohort top", 8, None)


def test_a_quota_that_cannot_be_read_leaves_what_is_above_it_without_a_limit():
    """Of a flavor that is the nodes of no GPU type nobody here knows how much it adds."""
    other = queue("b", 8, "all")
    other[0]["spec"]["resourceGroups"][0]["flavors"][0]["name"] = "gone"
    world = read(*queue("a", 8, "all"), *other)
    assert shares(world) == {"a": ("cohort all", 8, None)}
    past = translate(made.taken(*NODES, FLAVOR, *queue("a", 8, "all"), *other), "queue")
    assert any("queue `b`: flavor `gone` is not the nodes of one" in n for n in past.notes)


def test_cohorts_below_each_other_are_read_all_the_same():
    """Kueue lets nothing in there, and says so; here one of them is taken to be above."""
    world = read(*queue("a", 8, "x"), cohort("x", parent="y"), cohort("y", parent="x"))
    assert shares(world)["a"] == ("cohort x", 8, None)
    assert {row.name: row.parent for row in world.queue_rows}["cohort x"] == ""


def wide(*rest: Object) -> World:
    """A gang of 16 pods of 2 GPUs that waits in queue `lq`, in a cluster of 16 GPUs."""
    spec = {"parallelism": 16, "completions": 16, "completionMode": "Indexed",
            "template": made.template(2)}  # fmt: skip
    spec["template"]["spec"]["subdomain"] = "r"  # type: ignore[index]  # a nested object
    gang = made.owner("batch/v1", "Job", "r", spec)
    return world_of(*NODES, gang, held("no quota", count=16), FLAVOR, *rest, team_by="queue")


def test_the_limit_of_a_cohort_is_named_and_shown():
    """Its queue may borrow, and there is not as much to borrow: nodes alone let it in nowhere."""
    world = wide(*queue("lq", 8, "all"), *queue("b", 8, "all"))
    answer = explain.why(world, Policy(), world.job_number["ml/r"])
    assert answer.cause == "over_limit_always"
    assert "the maximum quota of team `cohort all` is 16 `H100`" in answer.words
    assert buys(world) == [
        (
            "raise the maximum quota of team `cohort all` from 16 to 32 `H100` and add 2 nodes of"
            " 8×`H100`"
        )
    ]
    (line,) = lines(world, "ml/r", "limit")
    assert line.startswith("kubectl get clusterqueues.kueue.x-k8s.io -o 'custom-columns=NAME")
    world = wide(*queue("lq", 8, "all"), cohort("all", quotas(8)))
    (_, line) = lines(world, "ml/r", "limit")
    assert line.startswith("kubectl get cohorts.kueue.x-k8s.io -o 'custom-columns=NAME")


def test_a_queue_without_a_cohort_has_its_own():
    """And no cohort is made up."""
    (one, *_) = [queue("a", 8, "")]
    assert shares(world_of(node("n0"), made.pod("x", 1, on="n0"), FLAVOR, *one, team_by="queue")) \
        == {"a": ("", 8, 8)}  # fmt: skip
