"""Placements per second: by best fit, fragmentation and rollouts, from small fleets to large ones.

Requests of twenty classes (shares and sizes about as in the openb trace of 2023: half of them a
part of one accelerator) come and go on nodes of eight at nine tenths of capacity held. *In the
kernels*: only the scheduler's compiled loops, fed by one of our own (``bench/kernels.py``), beside
the same placements found by asking every node. *From events to the checked plan*: jobs and ends are
folded, the cycle decides, the second reader checks, what was decided is folded; and the same in
the compiled beats of the loop, on generated jobs. Process time.
"""

import random
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from msgspec import convert
from msgspec.structs import replace
from numpy.typing import NDArray

from bench.replay import MILLION
from tidemill import api
from tidemill.engine.check import Checker
from tidemill.engine.cycle import Memo, cycle
from tidemill.engine.fold import fold, fold_all
from tidemill.engine.loop import Loop
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, ONE_PPM, WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Job, Node, Queue, Role, Shape, Template
from tidemill.model.states import NodeState
from tidemill.model.tables import I64, U64
from tidemill.model.world import World
from tidemill.scheduling.fitting.columns import WASTED
from tidemill.scheduling.scores import demand
from tidemill.scheduling.scores.demand import Asked, Fleet, Knobs
from tidemill.scheduling.scores.tables import Tables
from tidemill.twin.backend import Twin

SIZES = (1_213, 5_000, 12_500)
CPU_MILLI, MEMORY_MIB, DEVICES = 128_000, 1 << 20, 8
HELD_PERCENT = 90
SHARES = (
    (16, 0, 1000, 2), (8, 0, 1000, 4), (8, 1, 500, 6), (7, 1, 250, 4), (6, 1, 810, 8),
    (5, 1, 300, 4), (4, 1, 470, 6), (4, 1, 100, 2), (4, 1, 160, 3), (3, 1, 720, 8), (2, 1, 610, 7),
    (2, 1, 200, 4),
    (12, 1, 1000, 8), (6, 1, 1000, 11), (3, 1, 1000, 16), (3, 2, 1000, 16), (2, 2, 1000, 22),
    (2, 4, 1000, 32), (1, 4, 1000, 44), (2, 8, 1000, 88),
)  # fmt: skip
"""How often in a hundred, accelerators, milli of each, cores."""
BEAT = 64  # jobs that come between two decisions of a busy fleet
PARTS = ("fold_what_came", "cycle", "second_reader", "fold_what_was_done")


class Nodes(NamedTuple):
    """The fleet as the loops see it."""

    state: I64
    is_spare: I64
    group: I64
    kind: I64
    first_device: I64
    devices: I64
    is_failed: I64
    is_ok: I64
    cpu_total: I64
    cpu_free: I64
    memory_free: I64
    node_free: I64
    device_free: I64
    changed: I64
    wasted: I64
    out_mask: U64


class Trees(NamedTuple):
    """A tournament for each class, and what changed since it was asked."""

    rank: I64
    winner: I64
    is_exact: NDArray[np.bool_]
    read: I64
    seen: I64
    touched: I64
    which: I64


class Held(NamedTuple):
    """What is placed: node, devices and class; and counts (held, milli, touches, placed)."""

    node: I64
    mask: U64
    ask: I64
    counts: I64


def run(sizes: tuple[int, ...] = SIZES, decisions: int = 200_000) -> dict[str, Any]:
    """Every policy at every size, in the kernels and through the loop."""
    from bench import kernels  # noqa: PLC0415 - compiled only where it is asked for

    return {
        "in_the_kernels": {
            name: {str(size): _kernels(kernels, name, size, decisions) for size in sizes}
            for name in ("pack", "fgd", "tide")
        },
        "events_to_checked_plan": {
            name: {str(size): _loop(name, size, decisions // 20) for size in sizes}
            for name in ("pack", "tide")
        },
        "events_to_checked_plan_in_compiled_beats": {
            name: {str(size): _compiled(name, size, decisions // 2) for size in sizes}
            for name in ("pack", "tide")
        },
    }


def _kernels(kernels: Any, name: str, size: int, decisions: int) -> dict[str, Any]:  # noqa: ANN401
    """By tournaments, and by scans of the fleet for as long as it takes a few hundred."""
    is_packed, scored = name == "pack", tables(name, size)
    tree, scan = (kernels.PACKED, kernels.PACKED_SCAN) if is_packed else (
        kernels.SCORED, kernels.SCORED_SCAN)  # fmt: skip
    asks = np.array(
        [(gpus, milli, 1000 * cores, 4096 * cores) for _, gpus, milli, cores in SHARES], np.int64
    )
    warm = 2 * size * DEVICES
    coming, leaving = stream(warm + 2 * decisions)
    fleet = nodes(size), trees(size, 8 * len(coming)), held(len(coming))
    most = size * DEVICES * WHOLE_MILLI * HELD_PERCENT // 100

    def timed(how: int, start: int, count: int) -> float:
        before = time.process_time()
        end = start + count
        kernels.churn(how, coming[start:end], leaving[start:end], most, asks, *fleet, scored)
        return time.process_time() - before

    timed(tree, 0, warm)
    placed = fleet[2].counts.item(3)
    spent = timed(tree, warm, decisions)
    placed = fleet[2].counts.item(3) - placed
    few = max(20, min(decisions, 2_000_000 // size) // (1 if is_packed else 20))
    scanned = timed(scan, warm + decisions, few)
    rate, naive = decisions / spent, few / scanned
    return {
        "placements_per_cpu_s": round(rate),
        "by_scan_per_cpu_s": round(naive),
        "ratio": round(rate / naive, 1),
        "placed_percent": round(100 * placed / decisions, 1),
        "held_percent": round(100 * fleet[2].counts.item(1) / (size * DEVICES * WHOLE_MILLI), 1),
    }


def tables(name: str, size: int) -> Tables:
    """What scores read: the shares above, and one node in forty as host of what is large."""
    asked = [
        Asked(_role(row), row[0] * 100, row[0] * 100, size // 40 if row[1] > 1 else 0)
        for row in SHARES
    ]
    supply = Fleet(
        ("A100",), CPU_MILLI, DEVICES * WHOLE_MILLI, size, size * WHOLE_MILLI, ONE_PPM // 2
    )
    policy = Policy()
    knobs = Knobs(
        policy.placement_rollouts, policy.placement_grain_milli, policy.placement_host_price_ppm,
        policy.placement_fragment_ppm,
    )  # fmt: skip
    return demand.tables((name,), asked, supply, knobs)


def _role(row: tuple[int, int, int, int]) -> Role:
    _, gpus, milli, cores = row
    return Role("worker", 1, gpus, milli, 1000 * cores, 4096 * cores)


def stream(length: int) -> tuple[I64, I64]:
    """The classes that come, and numbers that say who leaves."""
    luck = random.Random(7)
    shares = [row[0] for row in SHARES]
    coming = luck.choices(range(len(SHARES)), shares, k=length)
    return np.array(coming), np.array([luck.getrandbits(40) for _ in range(length)])


def nodes(size: int) -> Nodes:
    """An empty fleet."""
    milli, zeros = DEVICES * WHOLE_MILLI, np.zeros(size, np.int64)
    return Nodes(
        state=np.full(size, NodeState.READY, np.int64),
        is_spare=np.zeros(size, np.int64),
        group=np.zeros(size, np.int64),
        kind=np.zeros(size, np.int64),
        first_device=np.arange(0, DEVICES * size, DEVICES, dtype=np.int64),
        devices=np.full(size, DEVICES, np.int64),
        is_failed=np.zeros(DEVICES * size, np.int64),
        is_ok=np.ones(1, np.int64),
        cpu_total=zeros + CPU_MILLI,
        cpu_free=zeros + CPU_MILLI,
        memory_free=zeros + MEMORY_MIB,
        node_free=zeros + milli,
        device_free=np.full(DEVICES * size, WHOLE_MILLI, np.int64),
        changed=zeros,
        wasted=np.full((size, WASTED), -1),
        out_mask=np.zeros(1, np.uint64),
    )


def trees(size: int, touches: int) -> Trees:
    """Tournaments that were never asked."""
    classes, leaves = len(SHARES), 1 << (size - 1).bit_length()
    return Trees(
        rank=np.zeros((classes, leaves), np.int64),
        winner=np.zeros((classes, 2 * leaves), np.int64),
        is_exact=np.zeros((classes, leaves), np.bool_),
        read=np.full(classes, -1),
        seen=np.zeros((classes, size), np.int64),
        touched=np.zeros(touches, np.int64),
        which=np.zeros(size, np.int64),
    )


def held(most: int) -> Held:
    """Nothing is placed yet."""
    return Held(
        node=np.zeros(most, np.int64),
        mask=np.zeros(most, np.uint64),
        ask=np.zeros(most, np.int64),
        counts=np.zeros(4, np.int64),
    )


def _loop(name: str, size: int, jobs: int) -> dict[str, Any]:
    """Jobs come and end; by beats of one job, and of many."""
    busy, found = _Busy(name, size), {}
    for batch in (1, BEAT):
        beats = max(1, jobs // batch)
        busy.spent = dict.fromkeys(PARTS, 0.0)
        for _ in range(beats):
            busy.beat(batch)
        to_plan = sum(busy.spent[part] for part in PARTS[:-1])
        found[f"beats_of_{batch}"] = {
            "jobs_per_cpu_s": round(beats * batch / to_plan),
            "carried_out_per_cpu_s": round(beats * batch / sum(busy.spent.values())),
            "us_a_job": {part: round(1e6 * s / beats / batch, 1) for part, s in busy.spent.items()},
        }
    return found


class _Busy:
    """A fleet at nine tenths, and where the time goes."""

    def __init__(self, name: str, size: int) -> None:
        self.policy = convert({"placement": name}, Policy)
        self.memo, self.world = Memo(), _world(size)
        self.checker = Checker(self.world)
        self.luck, self.spent = random.Random(11), dict.fromkeys(PARTS, 0.0)
        self.capacity = size * DEVICES * WHOLE_MILLI
        self.most = self.capacity * HELD_PERCENT // 100
        while self._held() < self.most:
            self.beat(BEAT)

    def beat(self, batch: int) -> None:
        """Some jobs end, as many come, the cycle decides, its plan is checked and carried out."""
        world, now = self.world, self.world.now_ms + 1000
        events = [*self._ending(now, 4 * batch), *self._coming(now, batch)]
        clock = [time.process_time()]
        fold_all(world, events)
        clock.append(time.process_time())
        plan = cycle(world, self.policy, self.memo)
        clock.append(time.process_time())
        self.checker.check(plan, self.policy)
        clock.append(time.process_time())
        fold_all(world, plan.actions)
        placed = [action for action in plan.actions if isinstance(action, ev.AskedPlace)]
        fold_all(world, [ev.JobStarted(now, action.job, action.attempt) for action in placed])
        clock.append(time.process_time())
        for part, before, after in zip(PARTS, clock, clock[1:], strict=False):
            self.spent[part] += after - before

    def _held(self) -> int:
        return self.capacity - int(self.world.kind_free_milli.sum())

    def _ending(self, now: int, at_most: int) -> Iterator[ev.Event]:
        world, held = self.world, self._held()
        running = list(world.placements) if held > self.most else []
        for _ in range(min(at_most, len(running))):
            if held <= self.most:
                break
            k = self.luck.randrange(len(running))
            running[k], j = running[-1], running[k]
            running.pop()
            held -= world.shapes.total_milli.item(world.jobs.shape.item(j))
            yield ev.JobFinished(now, j, world.jobs.attempt.item(j))

    def _coming(self, now: int, count: int) -> Iterator[ev.Event]:
        asked = self.luck.choices(SHARES, [row[0] for row in SHARES], k=count)
        for j, row in enumerate(asked, self.world.job_count):
            yield ev.JobSubmitted(now, Job(f"j{j}", Shape("a", (_role(row),))))


def _compiled(name: str, size: int, jobs: int) -> dict[str, Any]:
    """The loop with its twin, on a part of a million jobs: arrivals, starts, ends, all checked.

    What the second half costs: before the first job the fleet is launched, node by node.
    """
    policy = convert({"placement": name}, Policy)
    _played(policy, size, jobs // 10)  # loads the loops
    (half, first_s), (whole, all_s) = (_played(policy, size, n) for n in (jobs // 2, jobs))
    return {
        "jobs": whole - half,
        "jobs_per_cpu_s": round((whole - half) / (all_s - first_s)),
        "with_the_launch_of_the_fleet": round(whole / all_s),
    }


def _played(policy: Policy, size: int, jobs: int) -> tuple[int, float]:
    spec = api.load_spec(MILLION)
    share = size / spec.contracts[0].count * DEVICES
    per_day = share * sum(row.per_day for row in spec.workloads)
    horizon = type(spec.twin.horizon)(round(jobs / per_day * DAY_MS))
    twin = Twin.from_spec(
        replace(
            spec,
            twin=replace(spec.twin, horizon=horizon),
            contracts=tuple(replace(row, count=DEVICES * size) for row in spec.contracts),
            workloads=tuple(replace(row, per_day=share * row.per_day) for row in spec.workloads),
        )
    )
    world, before = World(), time.process_time()
    Loop(world, policy, twin, None, []).run()
    return world.job_count, time.process_time() - before


def _world(size: int) -> World:
    template = Template(DEVICES, CPU_MILLI, MEMORY_MIB)
    contract = Contract("c", "main", "A100", DEVICES * size, 2_000_000, template)
    world = fold_all(
        World(),
        [ev.QueueSet(0, Queue("a")), ev.ContractSigned(0, contract), ev.ContractStarted(0, 0)],
    )
    for n in range(size):
        fold(world, ev.NodeAdded(0, Node(f"n{n}", "c")))
        for state in (NodeState.BOOTING, NodeState.READY):
            fold(world, ev.NodeMoved(0, n, state))
    return world
