"""The second reader: a right plan passes, and each promise broken in it is found."""

import ast
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from tests.builders import (
    contract,
    fall_idle,
    fleet,
    job,
    lose_device,
    lose_node,
    move_node,
    pass_ms,
    place,
    role,
    start,
    submit,
    team,
    teams_share,
)
from tests.engine.audit import audit
from tests.engine.stories import played, seeds, story
from tidemill.core import snapshot
from tidemill.engine import check as package
from tidemill.engine.check import Checker, check, violations
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.model import events as ev
from tidemill.model.errors import PlanRefused
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Piece
from tidemill.model.states import JobClass, NodeState
from tidemill.model.topology import Topology
from tidemill.model.world import World

NOW = HOUR_MS
OPEN, ZONED, SPARE, CORDONED, BROKEN, SICK, BUSY, DRAINING, A100 = range(9)
JOBS = (
    "low",
    "steady",
    "idle",
    "theirs",
    "drained",
    "leaves",
    "high",
    "zoned",
    "gang",
    "fat",
    "owed",
)
LOW, STEADY, IDLE, THEIRS, DRAINED, LEAVES, HIGH, WHERE_X, GANG, FAT, OWED = range(11)
CULLING = Policy(cull_idle_after_ms=NOW)


def stage() -> World:
    """Nodes of four in many states; team `a` (limit ten H100), `b` (owed four H100), `c` (nothing).

    On BUSY sit `low`, `steady` and `idle` of team a, and `theirs` of team c; on DRAINING, whose
    time is up, sit `drained` and `leaves`. The others wait.
    """
    world = fleet(
        contract("h", gpus=32, per_node=4, cpu_milli=40, memory_mib=40),
        contract("a", gpus=4, per_node=4, kind="A100"),
        contract("later", gpus=8, per_node=4, start_ms=NOW + 1),
        teams=[team("a", limit=10), teams_share("b", H100=(4, None)), team("c")],
        node_labels=[{}, {"zone": "x"}],
    )
    submit(world, job("low"), job("steady", is_preemptible=False))
    submit(world, job("idle", kind=JobClass.INTERACTIVE), job("theirs", team="c"))
    submit(world, job("drained", gpus=2, team="c"), job("leaves", gpus=2, team="c"))
    for device, name in enumerate(JOBS[:4]):
        place(world, name, Piece(0, BUSY, 1, 1 << device))
    place(world, "drained", Piece(0, DRAINING, 1, 0b0011))
    place(world, "leaves", Piece(0, DRAINING, 1, 0b1100))
    start(world, *JOBS[:6])
    fall_idle(world, "idle")
    submit(world, job("high", gpus=4, priority=1, kinds=["H100"]))
    submit(world, job("zoned", gpus=1, labels={"zone": "x"}))
    submit(world, job("gang", roles=[role(2), role(1, milli=500, cpu_milli=30)]))
    submit(world, job("fat", roles=[role(2, gpus=0, cpu_milli=25), role(1, gpus=0, memory_mib=41)]))
    submit(world, job("owed", gpus=4, team="b"))
    fold(world, ev.AskedSpare(0, SPARE, True))
    move_node(world, CORDONED, NodeState.CORDONED)
    lose_device(world, BROKEN, 0)
    lose_node(world, SICK)
    move_node(world, DRAINING, NodeState.DRAINING, why=ev.Why.MAINTENANCE, deadline_ms=NOW)
    fold(world, ev.AskedEvict(0, LEAVES, 1, ev.Why.DRAINED))
    pass_ms(world, NOW)
    return world


def placing(j: int, *pieces: Piece, attempt: int = 1) -> ev.AskedPlace:
    return ev.AskedPlace(NOW, j, attempt, pieces)


def evicting(j: int, to_job: int = -1, attempt: int = 1) -> ev.AskedEvict:
    return ev.AskedEvict(NOW, j, attempt, ev.Why.UNSAID, to_job)


def draining(n: int) -> ev.AskedDrain:
    return ev.AskedDrain(NOW, n, ev.Why.MAINTENANCE, NOW)


HERE = Piece(0, OPEN, 1, 0b1111)
RIGHT: list[ev.Action] = [
    placing(WHERE_X, Piece(0, ZONED, 1, 0b0001)),
    placing(GANG, Piece(0, ZONED, 2, 0b0110), Piece(1, ZONED, 1, 0b1000)),
    placing(OWED, HERE),
    evicting(LOW, HIGH),
    evicting(DRAINED),
    ev.AskedCancel(NOW, IDLE, ev.Why.IDLE),
    ev.AskedRepair(NOW, SICK),
    ev.AskedSpare(NOW, SPARE, False),
    draining(BROKEN),
    ev.CauseChanged(NOW, 0, Cause.BUSY),
    ev.HalfLifeSet(NOW, 3_600_000),
    ev.MixSampled(NOW),
]

WRONG: dict[str, tuple[list[ev.Action], str]] = {
    "dated yesterday": ([ev.CauseChanged(NOW - 1, 0, Cause.BUSY)], "is dated"),
    # placements
    "placed though it runs": ([placing(LOW, Piece(0, OPEN, 1, 1), attempt=2)], "not waiting"),
    "another attempt": ([placing(HIGH, HERE, attempt=2)], "as attempt 2"),
    "an unknown job": ([placing(99, HERE)], "job number 99"),
    "a negative job": ([placing(-1, HERE)], "job number -1"),
    "an unknown node": ([placing(HIGH, Piece(0, 99, 1, 15))], "node number 99"),
    "an unknown role": ([placing(HIGH, Piece(7, OPEN, 1, 15))], "role number 7"),
    "placed twice": ([placing(HIGH, HERE), placing(HIGH, HERE)], "named twice"),
    "half a gang": ([placing(GANG, Piece(0, OPEN, 2, 3))], "gets 0 of 1 `worker`"),
    "a replica too many": (
        [placing(WHERE_X, Piece(0, ZONED, 2, 3))],
        "gets 2 of 1 `worker`",
    ),
    "no replicas": ([placing(WHERE_X, Piece(0, ZONED, 0, 0))], "gets 0 of `h-1`"),
    "too few devices": ([placing(HIGH, Piece(0, OPEN, 1, 7))], "gets 3 of `h-0`"),
    "a device beyond the node": ([placing(HIGH, Piece(0, OPEN, 1, 0b11111))], "gets 5 of `h-0`"),
    "another kind": ([placing(HIGH, Piece(0, A100, 1, 15))], "gets `A100`"),
    "kinds mixed in one role": (
        [placing(GANG, Piece(0, OPEN, 1, 1), Piece(0, A100, 1, 1), Piece(1, OPEN, 1, 2))],
        "mixes GPU types",
    ),
    "against its labels": ([placing(WHERE_X, Piece(0, OPEN, 1, 1))], "against its labels"),
    "a device in use": ([placing(WHERE_X, Piece(0, BUSY, 1, 1))], "device 0 of `h-6` is over-comm"),
    "a failed device": (
        [placing(GANG, Piece(0, BROKEN, 2, 3), Piece(1, BROKEN, 1, 4))],
        "device 0 of `h-4` is over-committed",
    ),
    "one device for two": (
        [placing(OWED, HERE), placing(GANG, Piece(0, ZONED, 2, 3), Piece(1, OPEN, 1, 1))],
        "device 0 of `h-0` is over-committed",
    ),
    "a spare": ([placing(HIGH, Piece(0, SPARE, 1, 15))], "`h-2` takes no new work"),
    "a cordoned node": ([placing(HIGH, Piece(0, CORDONED, 1, 15))], "`h-3` takes no new work"),
    "too much CPU": (
        [placing(FAT, Piece(0, OPEN, 2, 0), Piece(1, ZONED, 1, 0))],
        "`h-0` has too little CPU",
    ),
    "too much memory": (
        [placing(FAT, Piece(0, OPEN, 1, 0), Piece(0, ZONED, 1, 0), Piece(1, OPEN, 1, 0))],
        "`h-0` has too little memory",
    ),
    "above the limit": (
        [placing(HIGH, HERE), placing(GANG, Piece(0, ZONED, 2, 3), Piece(1, ZONED, 1, 4)),
         placing(WHERE_X, Piece(0, ZONED, 1, 8))],
        "team `a` would exceed its limit of `H100`",
    ),
    # evictions
    "stopped though it waits": ([evicting(HIGH, attempt=0)], "not active"),
    "stopped twice": ([evicting(LOW, HIGH), evicting(LOW, HIGH)], "named twice"),
    "stopped though it leaves": ([evicting(LEAVES)], "leaving already"),
    "another attempt stopped": ([evicting(LOW, HIGH, attempt=2)], "attempt 2"),
    "for one that runs": ([evicting(LOW, STEADY)], "for one that does not wait"),
    "for nobody known": ([evicting(LOW, 99)], "job number 99"),
    "not preemptible": ([evicting(STEADY, HIGH)], "is not preemptible"),
    "for one not higher": ([evicting(LOW, WHERE_X)], "is not higher"),
    "another team's": ([evicting(THEIRS, HIGH)], "without a claim"),
    "beyond what is owed": (
        [placing(OWED, HERE), evicting(THEIRS, OWED)],
        "without a claim",
    ),
    "for nobody, without a drain": ([evicting(LOW)], "for nobody"),
    "cancelled though it works": ([ev.AskedCancel(NOW, LOW, ev.Why.IDLE)], "not idle"),
    "cancelled while it leaves": ([ev.AskedCancel(NOW, LEAVES, ev.Why.IDLE)], "leaving already"),
    "cancelled while it waits": ([ev.AskedCancel(NOW, HIGH, ev.Why.IDLE)], "not active"),
    "cancelled, unknown": ([ev.AskedCancel(NOW, 99, ev.Why.IDLE)], "job number 99"),
    # supply
    "repair under work": ([ev.AskedRepair(NOW, BUSY)], "still carries work"),
    "repair of a well node": ([ev.AskedRepair(NOW, OPEN)], "cannot be repaired"),
    "return under work": ([ev.AskedReturn(NOW, BUSY)], "still carries work"),
    "spare under work": ([ev.AskedSpare(NOW, BUSY, True)], "still carries work"),
    "work on what is returned": ([placing(HIGH, HERE), ev.AskedReturn(NOW, OPEN)], "at once"),
    "work on what is a spare": (
        [ev.AskedSpare(NOW, OPEN, True), placing(HIGH, HERE)],
        "given work and taken away at once",
    ),
    "work on what is drained": ([placing(HIGH, HERE), draining(OPEN)], "at once"),
    "drain of a sick node": ([draining(SICK)], "cannot be drained"),
    "two things of one node": ([draining(OPEN), ev.AskedSpare(NOW, OPEN, True)], "named twice"),
    "an unknown node drained": ([draining(99)], "node number 99"),
    "more than is paid for": ([ev.AskedLaunch(NOW, 0, 1)], "does not pay for so many"),
    "before the contract": ([ev.AskedLaunch(NOW, 2, 1)], "is not running"),
    "an unknown contract": ([ev.AskedLaunch(NOW, 99, 1)], "contract number 99"),
    # words
    "a promise nobody made": ([ev.AskedRelease(NOW, 0)], "nothing is promised"),
    "an unknown shape": ([ev.CauseChanged(NOW, 99, Cause.BUSY)], "shape number 99"),
}  # fmt: skip


def test_a_right_plan_passes():
    """A plan that keeps every promise is not refused, and fold takes every action of it."""
    world = stage()
    assert violations(world, ev.Plan(tuple(RIGHT)), CULLING) == []
    for action in RIGHT:
        fold(world, action)


@pytest.mark.parametrize("case", WRONG)
def test_a_broken_promise_is_found(case: str):
    """With one promise broken the plan is refused, and the refusal names what and whose."""
    actions, message = WRONG[case]
    with pytest.raises(PlanRefused, match="nothing was carried out") as refusal:
        check(stage(), ev.Plan(tuple(actions)), CULLING)
    assert message in refusal.value.message


@pytest.mark.parametrize("after_ms", [0, NOW + 1], ids=["never", "later"])
def test_idle_work_is_cancelled_when_the_policy_says_so(after_ms: int):
    """Not at all where it says nothing, and not before its time."""
    plan, policy = ev.Plan((ev.AskedCancel(NOW, IDLE, ev.Why.IDLE),)), Policy(min_run_ms=0)
    assert not violations(stage(), plan, replace(policy, cull_idle_after_ms=NOW))
    found = violations(stage(), plan, replace(policy, cull_idle_after_ms=after_ms))
    assert found == ["job `idle` is cancelled but not idle for as long as it may be"]


def test_only_interactive_work_is_cancelled_for_being_idle():
    """Training that does nothing is somebody's, and is left alone."""
    world = stage()
    fall_idle(world, "steady")
    pass_ms(world, NOW)
    plan = ev.Plan((ev.AskedCancel(world.now_ms, STEADY, ev.Why.IDLE),))
    found = violations(world, plan, CULLING)
    assert found == ["job `steady` is cancelled but not idle for as long as it may be"]


def test_a_label_that_nobody_asked_for_binds_once_a_job_does():
    """One checker reads on: a job comes that asks for a node by a label that was left out."""
    world = fleet(nodes=2, node_labels=[{"host": "x"}, {"host": "y"}])
    fold(world, ev.TopologySet(world.now_ms, Topology(unasked=("host",))))
    checker = Checker(world)
    submit(world, job("any", gpus=1))
    here = Piece(0, 0, 1, 1)
    at_ms = world.now_ms
    checker.check(ev.Plan((ev.AskedPlace(at_ms, 0, 1, (here,)),)), Policy())
    submit(world, job("named", gpus=1, labels={"host": "y"}))
    with pytest.raises(PlanRefused, match="against its labels"):
        checker.check(ev.Plan((ev.AskedPlace(at_ms, 1, 1, (here,)),)), Policy())
    there = Piece(0, 1, 1, 1)
    checker.check(ev.Plan((ev.AskedPlace(at_ms, 1, 1, (there,)),)), Policy())


def test_a_right_part_does_not_hide_a_wrong_one():
    """Every broken promise of a plan is listed, beside any number that are kept."""
    world = stage()
    wrong: list[ev.Action] = [placing(HIGH, Piece(0, SPARE, 1, 15)), evicting(STEADY, HIGH)]
    found = violations(world, ev.Plan((*RIGHT[:3], *wrong)), Policy())
    assert any("takes no new work" in line for line in found)
    assert any("not preemptible" in line for line in found)


def test_reclaiming_stops_at_what_is_borrowed():
    """Of a team with a floor of its own, no more is taken back than it borrows."""
    world = fleet(nodes=2, teams=[team("a", floor=8), team("b", floor=16)])
    submit(world, job("a1", gpus=8), job("a2", gpus=8), job("owed", gpus=16, team="b"))
    place(world, "a1", Piece(0, 0, 1, 255))
    place(world, "a2", Piece(0, 1, 1, 255))
    one = ev.AskedEvict(0, 0, 1, ev.Why.RECLAIMED, 2)
    two = ev.AskedEvict(0, 1, 1, ev.Why.RECLAIMED, 2)
    rights = Policy(min_run_ms=0)
    assert violations(world, ev.Plan((one,)), rights) == []
    assert violations(world, ev.Plan((one, two)), rights) == [
        "job `a2` yields to another team without a claim"
    ]


@pytest.mark.parametrize(
    "path", sorted(Path(str(package.__file__)).parent.glob("*.py")), ids=lambda path: path.name
)
def test_the_plan_checker_shares_no_code_with_the_layers(path: Path):
    """Its files import the model, each other and the standard library, and nothing of the layers.

    (Beside the decorators that compile.)
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [
        name
        for node in ast.walk(tree)
        for name in (
            [f"{node.module}.{alias.name}" for alias in node.names]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    ]
    ours = {name for name in names if name.split(".")[0] == "tidemill"}
    assert ours
    own = (
        "tidemill.model.",
        "tidemill.engine.check.",
        "tidemill.core.kernel.",
        "tidemill.compiled.",
    )
    assert all(name.startswith(own) for name in ours)


def _spoilt(luck: Random, world: World, actions: list[ev.Action]) -> list[ev.Action]:
    """The same actions but for one, in which a number is another."""
    i = luck.randrange(len(actions))
    action = actions[i]
    if isinstance(action, ev.AskedPlace) and luck.random() < 0.8:
        pieces = list(action.pieces)
        k = luck.randrange(len(pieces))
        other = luck.choice(
            [
                {"node": luck.randrange(world.node_count)},
                {"devices": luck.randrange(1, 256)},
                {"replicas": pieces[k].replicas + 1},
                {"slices": luck.randrange(1, 512)},
            ]
        )
        pieces[k] = replace(pieces[k], **other)
        action = replace(action, pieces=tuple(pieces))
    elif isinstance(action, ev.AskedPlace | ev.AskedEvict | ev.AskedMove):
        action = replace(action, attempt=action.attempt + 1)
    else:
        action = actions[luck.randrange(len(actions))]
    return [*actions[:i], action, *actions[i + 1 :]]


def test_what_the_checker_lets_pass_can_be_folded():
    """Of plans in which one number is another, those that it does not refuse break nothing.

    A spoilt plan is refused, or every action of it can happen and leaves whole books.
    """
    refused = passed = 0
    for seed in seeds(8):
        luck, world = Random(seed), World()
        checker, policy = Checker(world), story(seed).policy
        for beat in played(seed).beats:
            fold_all(world, beat.seen)
            actions = list(beat.plan.actions)
            if any(isinstance(action, ev.AskedPlace) for action in actions):
                spoilt = _spoilt(luck, world, actions)
                if checker.violations(ev.Plan(spoilt), policy):
                    refused += 1
                else:
                    audit(fold_all(snapshot.copy(world), spoilt))
                    passed += 1
            fold_all(world, actions)
    assert refused > 5 * passed > 0
