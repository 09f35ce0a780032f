"""GPUs of a claim (DRA) that several pods use at once count once, as long as one of them does."""

from collections import Counter

import pytest

from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, pod, taken
from tests.live.kubernetes.test_import import kept
from tests.live.kubernetes.watched import WatchedCluster
from tests.rigs.kubernetes import wanted
from tidemill import explain
from tidemill.live.kubernetes import translate
from tidemill.model.policy import Policy

GPU = "gpu.nvidia.com"
SHARES = {"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}


def machine() -> list[Object]:
    """A node with eight GPUs in a slice, none by a device plugin."""
    bare = made.node("n0", labels={"nvidia.com/gpu.product": ""}, amounts={"nvidia.com/gpu": None})
    return [bare, wanted.resource_slice("n0", [wanted.device(f"gpu-{i}") for i in range(8)])]


def claim(*users: str) -> Object:
    """A claim that was given two GPUs."""
    given = [{"driver": GPU, "pool": "n0", "device": f"gpu-{i}", "request": "g"} for i in range(2)]
    spec = {"devices": {"requests": [
        {"name": "g", "exactly": {"deviceClassName": GPU, "count": 2}},
    ]}}  # fmt: skip
    return made.owner("resource.k8s.io/v1", "ResourceClaim", "c", spec, status={
        "allocation": {"devices": {"results": given}},
        "reservedFor": [{"resource": "pods", "name": user} for user in users],
    })  # fmt: skip


def unallocated() -> Object:
    """The same claim, of which nobody has anything yet."""
    return made.owner("resource.k8s.io/v1", "ResourceClaim", "c", wanted.claim_spec(2))


def user(name: str, created: int, end: int | None = None) -> Object:
    """A pod that uses it."""
    return pod(name, 0, on="n0", created=created, end=end, spec=SHARES)


def held_s(*objects: Object) -> dict[str, int]:
    """GPU-seconds by job, of an import."""
    books = kept(*machine(), *objects).statement
    found, names = Counter[str](), books.world.job_names
    for (j,), amount in amounts(books, "job").items():
        found[names[j] if j >= 0 else ""] += amount // 1_000_000
    assert found.total() == 8 * 3_600
    return {name: amount for name, amount in found.items() if name}


@pytest.mark.parametrize(("first_end", "held"), [
    (600, {"ml/a": 1_200, "ml/b": 6_000}),  # b has them from when a ends
    (None, {"ml/a": 7_200}),  # a has them all the time
])  # fmt: skip
def test_who_still_uses_a_claim_has_its_gpus_when_the_first_ends(first_end, held):
    """Two GPUs of an hour, by two pods: 7,200 GPU-seconds, whoever ends first."""
    users = ("a", "b") if first_end is None else ("b",)
    found = held_s(claim(*users), user("a", 0, first_end), user("b", 0))
    assert found == held


def test_a_claim_that_nobody_used_for_a_while_is_free_then():
    """The first ends before the second is placed; the third ends before the second does."""
    found = held_s(
        claim("b"), user("a", 0, 600), user("b", 1200), user("c", 1300, 1400), user("d", 1500)
    )  # fmt: skip
    assert found == {"ml/a": 1_200, "ml/b": 4_800}


def test_who_waits_beside_users_of_its_claim_wants_no_other_gpus():
    """It uses those that the claim has; and the import says who has none in the books."""
    objects = [*machine(), claim("a", "b"), user("a", 0), user("b", 0), pod("w", 0, spec=SHARES)]
    assert kept(*objects).world.job_names == ["ml/a"]
    (said,) = [one for one in translate.translate(taken(*objects)).notes if "others share" in one]
    assert said.startswith("1 pod with a claim of GPUs")
    assert "first ml/b, claim c: kubectl describe resourceclaims -n ml c" in said


@pytest.mark.parametrize("is_had", [False, True])
def test_who_waits_with_a_claim_of_others_is_named(is_had: bool):
    """Nobody has its GPUs yet, or another pod has: the wait of one of the pods is told, if any."""
    waiting = [pod(name, 0, created=at, spec=SHARES) for at, name in enumerate(("w", "x"))]
    objects = [*machine(), *([claim("a"), user("a", 0)] if is_had else [unallocated()]), *waiting]
    assert kept(*objects).world.job_names == (["ml/a"] if is_had else ["ml/w"])
    (said,) = [one for one in translate.translate(taken(*objects)).notes if "wait for too" in one]
    assert said.startswith("2 pods with" if is_had else "1 pod with")
    assert f"first ml/{'w' if is_had else 'x'}, claim c" in said


def test_an_observer_hands_them_over_once():
    """Also when the pod that had them first is deleted afterwards."""
    watched = WatchedCluster(*machine(), claim("a", "b"), user("a", 0), user("b", 0))
    watched.look(100, 300)
    ended = user("a", 0, 600)
    watched.told(600, ended, claim("b"))
    watched.look(700, 900)
    watched.deleted(1000, ended)
    watched.look(1100, 1300, 2060)
    assert sum(watched.seconds("ml/a").values()) == 1_200
    assert sum(watched.seconds("ml/b").values()) == 2 * 1_400


def part(name: str, user: str, memory: str = "40Gi") -> Object:
    """A claim that was given a part of a GPU that others may have parts of."""
    spec = wanted.claim_spec(1, exactly={"capacity": {"requests": {"memory": memory}}})
    row = {"driver": GPU, "pool": "n0", "device": "gpu-0", "request": "gpu",
           "shareID": f"share-{name}", "consumedCapacity": {"memory": memory}}  # fmt: skip
    return made.owner("resource.k8s.io/v1", "ResourceClaim", name, spec, status={
        "allocation": {"devices": {"results": [row]}},
        "reservedFor": [{"resource": "pods", "name": user}],
    })  # fmt: skip


def has_part(name: str, claim: str, end: int | None = None) -> Object:
    """A pod that uses it."""
    by = {"resourceClaims": [{"name": "x", "resourceClaimName": claim}]}
    return pod(name, 0, on="n0", end=end, spec=by)


@pytest.mark.parametrize(("first_end", "held"), [
    (600, {"ml/a": 600, "ml/b": 3_000}), (None, {"ml/a": 3_600}),
])  # fmt: skip
def test_a_gpu_of_which_two_claims_have_parts_counts_once(first_end, held):
    """It is in the books of who had it first, then of who still has a part of it."""
    users = has_part("a", "c0", first_end), has_part("b", "c1")
    assert held_s(part("c0", "a"), part("c1", "b"), *users) == held


def test_an_import_says_that_parts_are_not_told_apart():
    """Which pod has no hours in the books, and why."""
    objects = [*machine(), part("c0", "a"), part("c1", "b"), has_part("a", "c0"),
               has_part("b", "c1")]  # fmt: skip
    (said,) = [one for one in translate.translate(taken(*objects)).notes if "shareID" in one]
    assert said.startswith("1 pod with a claim of a part of a GPU (DRA, shareID)")
    assert "first ml/b, claim c1" in said


def test_whether_a_part_would_fit_is_unknown():
    """A claim that waits for 40 GiB of a GPU: the books do not say that it needs a free one."""
    waits = part("c2", "w")
    del waits["status"]
    by = {"resourceClaims": [{"name": "x", "resourceClaimName": "c2"}]}
    world = kept(*machine(), waits, pod("w", 0, spec=by)).world
    found = explain.why(world, Policy(), world.job_number["ml/w"])
    assert "capacity of a part of a device" in found.words
