"""Sharing: what a check costs by the depth of the tree, and what fair shares do for a crowd.

Cost: one look (limits, and what others keep back) and one booking in a tree of so many queues, and
the same by adding up the whole tree anew. Quality: one greedy team and three modest ones of equal
weight on 64 accelerators that are asked for half as much again, under each measure of fairness.
"""

from collections.abc import Sequence
from time import process_time
from typing import Any

import numpy as np
from msgspec.structs import replace

from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.engine.loop import Loop
from tidemill.model import events as ev
from tidemill.model import tree as trees
from tidemill.model.events import Event
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Queue, Share
from tidemill.model.world import World
from tidemill.scheduling import shares
from tidemill.scheduling.snapshot import Snapshot
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec

TREES = ((1, 16), (4, 64), (8, 256), (16, 1024))
"""Depths, and how many queues there are."""

_HOLD = Policy(placement="pack", backfill="none")
POLICIES = {
    "none": _HOLD,
    "drf": replace(_HOLD, fairness="drf"),
    "bill": replace(_HOLD, fairness="bill"),
    "drf, half-life 12 h": replace(_HOLD, fairness="drf", usage_half_life_ms=12 * HOUR_MS),
}


def run(looks: int = 20_000, days: int = 10) -> dict[str, Any]:
    """Both parts."""
    return {
        "check": [_cost(depth, count, looks) for depth, count in TREES],
        "crowd": {name: _crowd(policy, days) for name, policy in POLICIES.items()},
    }


# Cost -----------------------------------------------------------------------------------------


def _cost(depth: int, count: int, looks: int) -> dict[str, Any]:
    world = fold_all(World(), [ev.QueueSet(0, row) for row in _rows(depth, count)])
    room, q, free = Snapshot(world), count - 1, np.array([1_000_000])
    start = process_time()
    for _ in range(looks):
        shares.allow(world, room, free, q, 0, 1_000)
        room.count_used(q, 0, 1_000)
        room.count_used(q, 0, -1_000)
    each_us = (process_time() - start) / looks * 1e6
    anew, start = max(1, looks // 1_000), process_time()
    for _ in range(anew):
        trees.kept(world.tree, world.guard, trees.summed(world.tree, room.used))
    anew_us = (process_time() - start) / anew * 1e6
    return {
        "depth": depth,
        "queues": count,
        "look_and_two_bookings_us": round(each_us, 2),
        "whole_tree_anew_us": round(anew_us, 1),
        "ratio": round(anew_us / each_us, 1),
    }


def _rows(depth: int, count: int) -> list[Queue]:
    """A spine of the depth asked for, and the other queues as leaves along it."""
    rows, inner = list[Queue](), depth - 1
    for i in range(count):
        above = ""
        if 0 < i < inner:
            above = str(i - 1)
        elif i >= inner > 0:
            above = str(inner - 1 if i == count - 1 else i % inner)
        rows.append(Queue(str(i), (Share("H100", 1_000, lend_milli=500),), above))
    return rows


# Quality --------------------------------------------------------------------------------------

FLEET = """
[twin]
seed = 7
horizon = "{days}d"
[[contract]]
name = "h100"
kind = "H100"
count = 64
usd_per_hour = 2
[[team]]
name = "greedy"
{modest}
[[workload]]
name = "many"
team = "greedy"
per_day = 500
sizes = {{ 1 = 0.7, 2 = 0.2, 4 = 0.1 }}
run = {{ median = "1h", mean = "2h", longest = "12h" }}
"""
MODEST = """
[[team]]
name = "modest-{i}"
[[workload]]
name = "few-{i}"
team = "modest-{i}"
per_day = 80
sizes = {{ 1 = 0.7, 2 = 0.2, 4 = 0.1 }}
run = {{ median = "1h", mean = "2h", longest = "12h" }}
rhythm = {{ swing = 0.9, peak_hour = {hour} }}
"""


class _Watch:
    """Reads along: how evenly the teams that wait for more are served, and how long jobs wait."""

    def __init__(self) -> None:
        self.world, self.now_ms = World(), 0
        self.jain = self.contested_ms = 0.0
        self.wait_ms: dict[str, list[int]] = {}

    def take(self, events: Sequence[Event]) -> None:
        """Events of one moment happened."""
        self._pass(events[0].at_ms)
        for event in events:
            self._note(fold(self.world, event))

    def _pass(self, at_ms: int) -> None:
        """Time goes on: count how even it is among those who wait."""
        world, elapsed = self.world, at_ms - self.now_ms
        self.now_ms = at_ms
        wanting = sorted({int(world.shapes.queue[s]) for s in world.queued})
        got = [int(world.used[q].sum()) for q in wanting]
        if elapsed and len(got) > 1 and sum(got):
            self.jain += elapsed * sum(got) ** 2 / (len(got) * sum(n * n for n in got))
            self.contested_ms += elapsed

    def _note(self, touched: Sequence[int]) -> None:
        """A job that was placed has waited."""
        world = self.world
        for j in touched:
            if j in world.placements and world.jobs.since_ms[j] == world.now_ms:
                waits = self.wait_ms.setdefault(world.shape_of(j).team, [])
                if world.jobs.attempt[j] == 1 and world.jobs.state[j] == 1:
                    waits.append(int(world.now_ms - world.jobs.submit_ms[j]))


def _crowd(policy: Policy, days: int) -> dict[str, Any]:
    modest = "".join(MODEST.format(i=i, hour=8 * i) for i in range(3))
    twin = Twin.from_spec(fleet_spec.parse(FLEET.format(days=days, modest=modest)))
    watch, start = _Watch(), process_time()
    Loop(World(), policy, twin, None, [watch]).run()
    means = {
        team: round(sum(waits) / max(1, len(waits)) / HOUR_MS, 2)
        for team, waits in sorted(watch.wait_ms.items())
    }
    return {
        "jain_while_contested": round(watch.jain / max(1.0, watch.contested_ms), 3),
        "mean_wait_h": means,
        "cpu_s": round(process_time() - start, 1),
    }
