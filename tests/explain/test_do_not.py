"""Every number of a "do not", and every price, is what a plain count of the cluster state gives."""

import re
from collections import Counter
from itertools import chain

import pytest
from msgspec.structs import replace

from tests.builders import DEFAULTS, beat, fleet, job, pass_ms, submit
from tests.explain.test_offers import POLICIES, fixes, looks
from tests.plugins.added import as_before
from tidemill import explain, extend
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold
from tidemill.explain.answers import Answer
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS, WHOLE_MILLI, dollars_text
from tidemill.model.policy import Policy
from tidemill.model.rows import Job, Role
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.scheduling.preemption import cost

WAITS = re.compile(r"(\d[\d,]*) jobs? ahead")
FREE = re.compile(r"do not buy(?: accelerators)?: ([\d.,]+) .*? (?:are|is) free")
BUSY = re.compile(r"do not resubmit: ([\d.,]+) .*? are busy")
PART = re.compile(r"do not start (\d+) of its (\d+) replicas: (?:they|it) would hold ([\d.,]+)")
LEAVE = re.compile(r"do not cancel or resubmit: (\d+) jobs? leave")


def number(text: str) -> float:
    """A number as it is printed."""
    return float(text.replace(",", ""))


def may_use(world: World, role: Role, n: int) -> bool:
    """Whether kinds and labels let a role run on a node that is not gone."""
    group = world.groups[int(world.nodes.group[n])]
    is_kind = not role.kinds or world.kinds[int(world.nodes.kind[n])] in role.kinds
    return is_kind and set(role.labels) <= group.labels


def free_milli(world: World, role: Role) -> int:
    """What is free on nodes that take work, device by device."""
    found = 0
    for n in range(world.node_count):
        is_open = world.nodes.state[n] == NodeState.READY and not world.nodes.is_spare[n]
        if is_open and may_use(world, role, n):
            first, count = int(world.nodes.first_device[n]), int(world.nodes.devices[n])
            for d in range(first, first + count):
                found += 0 if world.devices.is_failed[d] else int(world.devices.free_milli[d])
    return found


def busy_milli(world: World, role: Role) -> int:
    """What jobs hold on nodes that a role may use, piece by piece."""
    return sum(
        piece.replicas * world.shape_of(j).roles[piece.role].replica_milli
        for j, pieces in world.placements.items()
        for piece in pieces
        if may_use(world, role, piece.node)
    )


def says_no_lie(world: World, j: int, answer: Answer) -> str:
    """Which sentence was checked; it is asserted to be true."""
    shape, said = world.shape_of(j), answer.do_not
    counts = [(free_milli(world, role), busy_milli(world, role)) for role in shape.roles]
    if found := WAITS.search(said):
        assert number(found[1]) == answer.jobs_ahead, said
    if found := FREE.match(said):
        assert number(found[1]) * WHOLE_MILLI in [free for free, _ in counts], said
        return "free"
    if found := BUSY.match(said):
        assert number(found[1]) * WHOLE_MILLI in [busy for _, busy in counts], said
        return "busy"
    if found := PART.match(said):
        hosted, count, held = int(found[1]), int(found[2]), number(found[3]) * WHOLE_MILLI
        assert any(
            (role.count, hosted * role.replica_milli) == (count, held) for role in shape.roles
        ), said
        assert hosted < count, said
        return "part"
    if found := LEAVE.match(said):
        return "leave"
    assert said.startswith(("do not wait", "do not buy", "do not resubmit")), said
    return "other"


def lost_usd(world: World, names: list[str]) -> int:
    """What stopping these jobs loses, in micro-dollars, job by job."""
    total = 0
    for name in names:
        j = world.job_number[name]
        for piece in world.placements[j]:
            held = piece.replicas * world.shape_of(j).roles[piece.role].replica_milli
            contract = world.contract_rows[int(world.nodes.contract[piece.node])]
            total += held * cost.lost_ms(world, j) * contract.usd_micro_per_hour
    return total // (WHOLE_MILLI * HOUR_MS)


def test_what_not_to_do_is_true():
    """Free, busy, ahead and held: each number that is printed is counted again by hand."""
    seen = Counter[str]()
    for name, seed in (("default", 3), ("no backfill", 4), ("fair", 7)):
        for world, j, answer in looks(seed, POLICIES[name]):
            seen[says_no_lie(world, j, answer)] += 1
    assert {"free", "busy", "part"} <= seen.keys(), seen


AGAIN = re.compile(r"it has (\d+) jobs? ahead and would have (\d+|as many)$")
FIRST = re.compile(r"no job is ahead of it, and (\d+|none)(?: jobs?)? would be$")


@pytest.mark.parametrize(
    "order", ["fifo", "priority", "shortest", "smallest", "attained", "newest", "widest"]
)
def test_what_resubmitting_does_is_what_the_order_says(order: str):
    """Done as it is warned of, a job has as many ahead as was said; or nothing is said of it.

    In an order in which a new job may pass it was said that it would go to the end of the queue.
    """
    said = Counter[str]()
    with as_before():
        extend.add_order("newest", lambda job, _: -job.submit_ms)
        extend.add_order("widest", lambda job, _: -job.accelerator_milli)
        policy = Policy(order=order, backfill="none")
        world = queue_of_six(policy)
        for name in (f"t{i}" for i in range(6)):
            j = world.job_number[name]
            told = again(explain.why(world, policy, j).do_not)
            before, after = ahead(world, policy, name), ahead_again(world, policy, name)
            if told is None:
                assert after < before
                said["nothing"] += 1
                continue
            assert told == (before, after), name
            said["as many" if before == after else "more"] += 1
    assert said[{"newest": "nothing", "widest": "as many"}.get(order, "more")]


def again(do_not: str) -> tuple[int, int] | None:
    """How many are said to be ahead now and after a job is submitted again; None: nothing is."""
    if found := FIRST.search(do_not):
        return 0, 0 if found[1] == "none" else int(found[1])
    if found := AGAIN.search(do_not):
        before = int(found[1])
        return before, before if found[2] == "as many" else int(found[2])
    return None


def queue_of_six(policy: Policy) -> World:
    """A full node, and six jobs that wait for it; they differ in size, priority and estimate."""
    world = fleet(nodes=1)
    submit(world, job("runs", gpus=8))
    beat(world, policy)
    for i in range(6):
        pass_ms(world, MINUTE_MS)
        row = job(f"t{i}", gpus=(4, 2, 8, 2, 8, 2)[i], priority=(0, 0, 1, 1, 0, 1)[i])
        submit(world, replace(row, estimate_ms=(3, 1, 2, 1, 2, 1)[i] * HOUR_MS))
        beat(world, policy)
    return world


def ahead(world: World, policy: Policy, name: str) -> int:
    """How many `pending` lists before a job."""
    return next(r.position for r in explain.board(world, policy).waiting if r.job == name) - 1


def ahead_again(world: World, policy: Policy, name: str) -> int:
    """The same after it was cancelled and submitted again."""
    world, j = snapshot.copy(world), world.job_number[name]
    shape, estimate_ms = world.shape_of(j), int(world.jobs.estimate_ms[j])
    fold(world, ev.JobCancelled(world.now_ms, j))
    submit(world, Job("again", shape, estimate_ms))
    return ahead(world, policy, "again")


def test_prices_are_what_a_plain_count_gives():
    """A launch costs its nodes at the contract's rate; a stop costs the work that is named."""
    seen = Counter[str]()
    crafted = [(world, 0, why(world, name)) for world, name in (scattered(), preempting())]
    for world, _, answer in chain(looks(3, POLICIES["default"]), crafted):
        for fix in fixes(answer):
            if found := re.match(r"launch (\d+) nodes? of contract `(\w+)`", fix.words):
                row = world.contract_rows[world.contract_number[found[2]]]
                usd = int(found[1]) * row.node.devices * row.usd_micro_per_hour
                assert fix.usd_micro_per_hour == usd, fix.words
                seen["launch"] += 1
            elif found := re.match(
                r"(stop|move|wait until) `(\w+)` (on|off|has stopped|have stopped)", fix.words
            ):
                usd = lost_usd(world, [found[2]])
                assert fix.lost_usd_micro == usd > 0, (fix.words, dollars_text(usd))
                seen[found[1]] += 1
            elif fix.words.startswith(("sign", "replace", "repair", "release hot spares")):
                assert fix.usd_micro_per_hour is None, fix.words
                seen["unknown"] += 1
    assert {"launch", "stop", "wait until", "unknown"} <= seen.keys(), seen


def scattered() -> tuple[World, str]:
    """Four nodes with five of eight taken each, and a job that wants a whole one."""
    world = fleet(nodes=4)
    submit(world, *(job(f"r{i}", gpus=5, saves_every_ms=HOUR_MS) for i in range(4)))
    beat(world)
    pass_ms(world, 30 * MINUTE_MS)
    submit(world, job("t5", gpus=8))
    beat(world)
    return world, "t5"


def preempting() -> tuple[World, str]:
    """A job of higher priority for which a lower one is asked to leave."""
    world = fleet(nodes=1)
    submit(world, job("low", gpus=8, saves_every_ms=HOUR_MS))
    beat(world)
    pass_ms(world, 15 * MINUTE_MS)
    submit(world, job("t5", gpus=8, priority=5))
    beat(world)
    return world, "t5"


def why(world: World, name: str) -> Answer:
    """The answer for one job."""
    return explain.why(world, DEFAULTS, world.job_number[name])
