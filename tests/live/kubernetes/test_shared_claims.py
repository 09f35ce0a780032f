"""GPUs of a claim (DRA) that several pods use at once count once, as long as one of them does."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, pod, taken
from tests.live.kubernetes.test_import import kept
from tests.live.kubernetes.watched import WatchedCluster
from tests.rigs.kubernetes import wanted
from tidemill import api, explain
from tidemill.explain import claim_sharers as sharing
from tidemill.journal import claim_sharers
from tidemill.live.history import events
from tidemill.live.kubernetes import translate
from tidemill.model.claim_sharers import ClaimSharer
from tidemill.model.policy import Policy
from tidemill.model.world import World

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


def seen(*objects: Object) -> World:
    """What somebody who asks a journal of an import is told, with the facts beside its events."""
    past = translate.translate(taken(*objects))
    history = events.build(past.attempts, past.nodes, until_ms=past.seen_ms, shapes=past.shapes)
    kept = history._replace(claim_sharers=past.claim_sharers).facts()
    return claim_sharers.put_back(api.keep_history(history).world, kept, "journal")


def said_of(world: World, pod: str) -> str:
    """What is said of a pod before the answer of its job."""
    found = sharing.of(world, pod)
    return sharing.words(world, found) if found is not None else ""


def test_who_waits_for_a_claim_beside_its_job_has_the_answer_of_that():
    """Two GPUs are requested by the first pod; the second waits for what that one waits for."""
    told = "0/1 nodes are available: 1 cannot allocate all claims."
    waits = pod("w", 0, spec=SHARES), pod("x", 0, created=1, spec=SHARES, message=told)
    world = seen(*machine(), unallocated(), *waits)
    found = said_of(world, "ml/x")
    assert found.startswith(
        "pod `ml/x` waits with claim `c`, which it shares with job `ml/w`: its GPUs are requested"
        " once, by that job, and what keeps that job waiting keeps this pod waiting"
    )
    assert found.endswith(f'"{told}" (kubectl describe pod -n ml x)')
    assert said_of(world, "ml/w") == "", "it is the job"


def test_the_list_of_what_waits_names_those_who_wait_with_a_claim():
    """One job waits, for two GPUs; two pods with it, and one with a claim that is had."""
    had = claim("a") | {"metadata": claim()["metadata"] | {"name": "d"}}
    by_name = {"resourceClaims": [{"name": "x", "resourceClaimName": "d"}]}
    waits = [pod(name, 0, created=at, spec=SHARES) for at, name in enumerate(("w", "x", "y"))]
    world = seen(*machine(), unallocated(), *waits, had, pod("a", 0, on="n0", spec=by_name),
                 pod("z", 0, created=4, spec=by_name))  # fmt: skip
    found = sharing.with_sharers(explain.board(world, Policy()), world)
    assert (found.jobs, found.asked_milli) == (1, 2_000)
    assert "; 3 more pods wait with claims of jobs" in found.words
    assert sharing.lines(found.claim_sharers) == [
        "ml/w: ml/x and ml/y wait with its claim `c`, whose GPUs are requested once",
        "ml/a: ml/z waits with its claim `d`, whose GPUs are requested once",
    ]


def test_who_waits_for_a_claim_that_a_job_has_is_told_so():
    """It must be where those GPUs are, and no other GPU starts it."""
    world = seen(*machine(), claim("a"), user("a", 0), pod("w", 0, created=1, spec=SHARES))
    assert "whose GPUs job `ml/a` has: it needs no others, and no GPU that comes" in said_of(
        world, "ml/w"
    )


def test_who_runs_with_a_claim_of_a_job_is_told_so():
    """Also with a part of a GPU of which the job has another."""
    world = seen(*machine(), claim("a", "b"), user("a", 0), user("b", 1))
    assert "which it shares with job `ml/a`: its GPUs are in the books of that" in said_of(
        world, "ml/b"
    )
    world = seen(*machine(), part("c0", "a"), part("c1", "b"), has_part("a", "c0"),
                 has_part("b", "c1"))  # fmt: skip
    assert "a part of a GPU of which job `ml/a` has another" in said_of(world, "ml/b")


def test_pods_of_one_job_that_share_a_claim_are_told_its_name():
    """A Job of two pods that both name one claim: the second is of that job."""
    of = ("batch/v1", "Job", "r")
    job = made.owner("batch/v1", "Job", "r", {"parallelism": 2, "completions": 2, "template": {
        "spec": {"containers": [], **SHARES}}})  # fmt: skip
    pods = [pod(f"r-{i}", 0, owner=of, created=i, spec=SHARES) for i in range(2)]
    world = seen(*machine(), unallocated(), job, *pods)
    (name,) = world.job_names
    assert f"which it shares with job `{name}`" in said_of(world, "ml/r-1")


def test_what_is_known_of_shared_claims_is_of_now():
    """A journal of an earlier moment says nothing of them; no news is not kept again."""
    one = ClaimSharer("ml/x", "c", "ml/w", is_waiting=True)
    kept = claim_sharers.facts({}, [one], 5_000, "")
    assert claim_sharers.facts(kept, [one], 9_000, "") == {}
    assert claim_sharers.facts(kept, [], 9_000, "") != {}
    world = World()
    assert claim_sharers.put_back(world, kept, "").claim_sharers == ()
    world.now_ms = 5_000
    assert claim_sharers.put_back(world, kept, "").claim_sharers == (one,)


def test_the_command_answers_about_such_a_pod(tmp_path: Path):
    """`why` names the job and answers for it, by the pod's bare name too; `pending` lists it."""
    waits = pod("w", 0, spec=SHARES), pod("x", 0, created=1, spec=SHARES)
    shown, where = tmp_path / "shown.json", str(tmp_path / "seen.sqlite")
    shown.write_text(json.dumps(made.listed(*machine(), unallocated(), *waits)))
    assert tidemill("import", "kubernetes", str(shown), "-j", where).code == 0
    first = tidemill("why", "x", "-j", where).out.splitlines()
    assert first[0].startswith("pod `ml/x` waits with claim `c`, which it shares with job `ml/w`")
    assert first[1].startswith("job `ml/w` of team `ml` requests 2")
    told = json.loads(tidemill("why", "ml/x", "-j", where, "--json").out)
    assert (told["answer"]["job"], told["shares_claim"]) == ("ml/w", first[0])
    refused = tidemill("decision", "ml/x", "-j", where)
    assert "`ml/x` is a pod that shares claim `c` with job `ml/w`" in refused.err
    found = tidemill("pending", "-j", where).out
    assert "  ml/w: ml/x waits with its claim `c`, whose GPUs are requested once" in found
    assert "1 job waiting, 2 GPUs requested" in found
