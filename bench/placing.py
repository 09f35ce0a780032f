"""Placements per second: by best fit, fragmentation and rollouts, from small fleets to large ones.

Requests of twenty classes (shares and sizes about as in the openb trace of 2023: half of them a
part of one accelerator) come and go on nodes of eight at nine tenths of capacity held. *From events
to the checked plan*: jobs and ends are folded, the cycle decides, the plan checker checks, what was
decided is folded; and the same in the compiled beats of the loop, on generated jobs. Process time.
"""

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import convert
from msgspec.structs import replace

from bench.replay import MILLION
from tidemill import api
from tidemill.engine.check import Checker
from tidemill.engine.cycle import CycleMemo, cycle
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.engine.loop import Loop
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Job, Node, Queue, Role, Shape, Template
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
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


def run(sizes: tuple[int, ...] = SIZES, decisions: int = 200_000) -> dict[str, Any]:
    """Every policy at every size, through the loop."""
    return {
        "events_to_checked_plan": {
            name: {str(size): _loop(name, size, decisions // 20) for size in sizes}
            for name in ("pack", "tide")
        },
        "events_to_checked_plan_in_compiled_beats": {
            name: {str(size): _compiled(name, size, decisions // 2) for size in sizes}
            for name in ("pack", "tide")
        },
    }


def _role(row: tuple[int, int, int, int]) -> Role:
    _, gpus, milli, cores = row
    return Role("worker", 1, gpus, milli, 1000 * cores, 4096 * cores)


def stream(length: int) -> tuple[I64, I64]:
    """The classes that come, and numbers that say who leaves."""
    luck = random.Random(7)
    shares = [row[0] for row in SHARES]
    coming = luck.choices(range(len(SHARES)), shares, k=length)
    return np.array(coming), np.array([luck.getrandbits(40) for _ in range(length)])


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
        self.memo, self.world = CycleMemo(), _world(size)
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
