"""FGD's table (ATC'23) through our own placement: how much of a fleet each policy fills.

Every pod is folded as a submitted job, placed in a room by the scheduler's own ``fill`` and folded
as placed; a pod that fits nowhere is dropped, and nothing departs. Beside each policy stands the
mean that was published for it. The published policies know the whole mix beforehand, as theirs
did; ours (``tide``) learns it from what has arrived.
"""

import heapq
import math
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import convert

from bench import openb
from tidemill.engine.fold import mix
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.rows import Job, Piece, Role
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import eligibility
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.scores import demand, scoring
from tidemill.scheduling.scores.demand import Asked, Knobs
from tidemill.scheduling.scores.scoring import KnownRoles, Scoring
from tidemill.scheduling.snapshot import Filled, Snapshot
from tidemill.twin.traces.openb import NODE_LIST, NodeLine, PodLine, node_lines

MARKS = (90, 95, 100, 110, 130)
SEEDS = tuple(range(42, 52))
POLICIES = (
    "random", "dot-product", "clustering", "sharing", "best-fit", "fgd", "tide", "pack",
)  # fmt: skip
CHURN_PERCENT = 110  # of capacity, asked for at any time when work departs
CHURN_ARRIVALS = 40_000
CHURNED = ("best-fit", "pack", "fgd", "tide")  # the last two on every variant
PUBLISHED = {
    "default": {
        "random": (85.02, 85.72, 86.30, 86.88, 87.47),
        "dot-product": (89.98, 90.58, 90.62, 90.70, 90.85),
        "clustering": (89.98, 91.60, 91.65, 91.73, 91.88),
        "sharing": (89.98, 91.74, 91.78, 91.85, 92.00),
        "best-fit": (89.99, 92.82, 92.86, 92.94, 93.08),
        "fgd": (89.98, 94.90, 95.23, 95.30, 95.39),
    }
}
PUBLISHED_AT_130 = {
    "gpushare40": (86.00, 89.56, 90.02, 90.03, 91.69, 94.15),
    "multigpu30": (89.27, 93.28, 94.72, 94.87, 94.72, 96.46),
    "cpu100": (89.11, 91.96, 92.64, 92.72, 93.44, 95.35),
}


class Outcome(NamedTuple):
    """One run: allocated percent at each mark, decisions, and the CPU seconds they took."""

    percent: tuple[float, ...]
    decisions: int
    placing_s: float
    all_s: float


def run(seeds: tuple[int, ...] = SEEDS, policies: tuple[str, ...] = POLICIES) -> dict[str, Any]:
    """Every policy on every variant that is here; means over the seeds."""
    at = openb.folder()
    if at is None:
        return {"skipped": "the openb files are not here; set TIDEMILL_TRACES"}
    found: dict[str, Any] = {}
    for variant in openb.variants(at):
        found[variant] = {name: _mean(at, variant, name, seeds) for name in policies}
    return found


def _mean(at: Path, variant: str, name: str, seeds: tuple[int, ...]) -> dict[str, Any]:
    outcomes = [one(at, variant, name, seed) for seed in seeds]
    columns = list(zip(*(outcome.percent for outcome in outcomes), strict=True))
    allocated = [round(statistics.fmean(column), 2) for column in columns]
    decisions = sum(outcome.decisions for outcome in outcomes)
    line: dict[str, Any] = {
        "allocated_percent": dict(zip(map(str, MARKS), allocated, strict=True)),
        "std_at_130": round(statistics.pstdev(columns[-1]), 2),
        "decisions_per_cpu_second": round(decisions / sum(o.placing_s for o in outcomes)),
        "pods_per_cpu_second": round(decisions / sum(o.all_s for o in outcomes)),
    }
    published = _published(variant, name)
    if published:
        line["less_published"] = {
            mark: round(allocated[MARKS.index(int(mark))] - figure, 2)
            for mark, figure in published.items()
        }
    return line


def _published(variant: str, name: str) -> dict[str, float]:
    if variant in PUBLISHED and name in PUBLISHED[variant]:
        return dict(zip(map(str, MARKS), PUBLISHED[variant][name], strict=True))
    if variant in PUBLISHED_AT_130 and name in PUBLISHED["default"]:
        column = list(PUBLISHED["default"]).index(name)
        return {"130": PUBLISHED_AT_130[variant][column]}
    return {}


def one(at: Path, variant: str, name: str, seed: int) -> Outcome:
    """One list of pods under one policy and seed."""
    return of_pods(node_lines(at / NODE_LIST), openb.pods_of(at, variant), name, seed)


def of_pods(lines: Sequence[NodeLine], pods: Sequence[PodLine], name: str, seed: int) -> Outcome:
    """The same, of some nodes and some pods."""
    capacity = sum(line.gpus for line in lines) * WHOLE_MILLI
    world = openb.empty_world(lines, seed)
    desk = _Desk(world, name, seed, [openb.role_of(pod) for pod in pods])
    arrived, allocated, marks = 0, 0, list[float]()
    coming = openb.arrivals(pods, capacity, seed)
    start = time.process_time()
    for j, role in enumerate(coming):
        arrived += role.replica_milli
        allocated += role.replica_milli * desk.place(j, role)
        while len(marks) < len(MARKS) and 100 * arrived >= MARKS[len(marks)] * capacity:
            marks.append(100 * allocated / capacity)
    all_s = time.process_time() - start
    return Outcome(tuple(marks), len(coming), desk.placing_s, all_s)


def departures(seeds: tuple[int, ...] = SEEDS[:2], variants_at_most: int = 4) -> dict[str, Any]:
    """The same pods arriving and leaving for ever, more than fit: what stays allocated.

    Lives are the roots of those in the trace, at most twice the mean (a few pods would outlast
    everything else), in arrivals, scaled so that what is asked for at any time is 110 % of
    capacity; the first half of the arrivals is not measured.
    """
    at = openb.folder()
    if at is None:
        return {"skipped": "the openb files are not here; set TIDEMILL_TRACES"}
    found: dict[str, Any] = {}
    for variant in openb.variants(at)[:variants_at_most]:
        if not any(pod.scheduled_ms >= 0 for pod in openb.pods_of(at, variant)):
            continue  # made up: nobody knows how long its pods ran
        asked = CHURNED if variant == "default" else CHURNED[-2:]
        found[variant] = {name: _mean_churn(at, variant, name, seeds) for name in asked}
    return found


def _mean_churn(at: Path, variant: str, name: str, seeds: tuple[int, ...]) -> dict[str, Any]:
    runs = [_churn(at, variant, name, seed) for seed in seeds]
    return {
        "allocated_percent": round(statistics.fmean(run[0] for run in runs), 2),
        "refused_percent_of_milli": round(statistics.fmean(run[1] for run in runs), 2),
    }


def _churn(at: Path, variant: str, name: str, seed: int) -> tuple[float, float]:
    lines, pods = node_lines(at / NODE_LIST), openb.pods_of(at, variant)
    capacity = sum(line.gpus for line in lines) * WHOLE_MILLI
    luck = random.Random(seed)
    timed = [
        (openb.role_of(pod), math.isqrt(max(1, pod.deleted_ms - pod.scheduled_ms)))
        for pod in pods if pod.scheduled_ms >= 0
    ]  # fmt: skip
    longest = 2 * statistics.fmean(ms for _, ms in timed)
    timed = [(role, min(ms, int(longest))) for role, ms in timed]
    per_arrival = statistics.fmean(role.replica_milli * ms for role, ms in timed)
    scale = CHURN_PERCENT / 100 * capacity / per_arrival
    desk = _Desk(openb.empty_world(lines, seed), name, seed, [role for role, _ in timed])
    leaving: list[tuple[int, int]] = []
    held = [0, 0, 0, 0]  # allocated now; its sum over arrivals; asked; refused
    for j in range(CHURN_ARRIVALS):
        while leaving and leaving[0][0] <= j:
            gone = heapq.heappop(leaving)[1]
            held[0] -= desk.leave(gone)
        role, ms = luck.choice(timed)
        is_placed = desk.place(j, role)
        if is_placed:
            held[0] += role.replica_milli
            heapq.heappush(leaving, (j + 1 + int(ms * scale), j))
        if 2 * j >= CHURN_ARRIVALS:
            held[1] += held[0]
            held[2] += role.replica_milli
            held[3] += role.replica_milli * (not is_placed)
    measured = CHURN_ARRIVALS - CHURN_ARRIVALS // 2
    return 100 * held[1] / measured / capacity, 100 * held[3] / held[2]


class _Desk:
    """Places pods one by one, each as it comes, and folds what was done."""

    def __init__(self, world: World, name: str, seed: int, listed: list[Role]) -> None:
        self.world, self.memo, self.placing_s = world, Memo(), 0.0
        self.luck = random.Random(f"anywhere {seed}") if name == "random" else None
        self.policy = convert({"placement": name if name == "tide" else "pack"}, Policy)
        self.given = _knowing(world, name, listed) if name not in ("tide", "pack") else None
        self.flags: dict[tuple[str, ...], I64] = {}

    def place(self, j: int, role: Role) -> bool:
        world = self.world
        fold(world, ev.JobSubmitted(0, Job(str(j), openb.shape_of(role))))
        if scoring.looks_ahead(self.policy) and mix.is_due(world):
            fold(world, ev.MixSampled(0))
        start = time.process_time()
        filled = self._fill(self.memo.room(world), role, self._is_ok(role))
        self.placing_s += time.process_time() - start
        if filled.placed:
            pieces = tuple(Piece(0, *place) for place in filled.placed)
            fold(world, ev.AskedPlace(0, j, 1, pieces))
        else:
            fold(world, ev.JobCancelled(0, j))
        return bool(filled.placed)

    def leave(self, j: int) -> int:
        """A pod goes; return what it held."""
        milli = int(self.world.shapes.total_milli[self.world.jobs.shape[j]])
        fold(self.world, ev.JobCancelled(0, j))
        return milli

    def _fill(self, room: Snapshot, role: Role, is_ok: I64) -> Filled:
        if self.luck:
            return _anywhere(room, role, is_ok, self.luck)
        return room.fill(role, is_ok, self.given or self.memo.scoring(self.world, self.policy))

    def _is_ok(self, role: Role) -> I64:
        if role.kinds not in self.flags:
            options = eligibility.options(self.world, role)
            self.flags[role.kinds] = eligibility.merged(self.world, options)
        return self.flags[role.kinds]


def _knowing(world: World, name: str, listed: list[Role]) -> Scoring | None:
    """A published policy, with the mix of the whole list before it begins."""
    if name == "random":
        return None
    asked = [Asked(role, 1, 1, 0) for role in listed]
    tables = demand.tables((name,), asked, KnownRoles().fleet(world), Knobs(1, 1, 0, 0))
    return Scoring((name,), tables)


def _anywhere(room: Snapshot, role: Role, is_ok: I64, luck: random.Random) -> Filled:
    """Any node that can host the pod, and any device there that can."""
    able = np.flatnonzero(room.hosts(role, is_ok)).tolist()
    if not able:
        return Filled(0, ())
    n = luck.choice(able)
    first = int(room.world.nodes.first_device[n])
    free = room.device_free[first : first + int(room.world.nodes.devices[n])].tolist()
    fitting = [d for d, milli in enumerate(free) if milli >= role.milli]
    chosen = luck.sample(fitting, role.accelerators)
    mask = sum(1 << d for d in chosen)
    room.take(openb.shape_of(role), (Piece(0, n, 1, mask),))
    return Filled(1, ((n, 1, mask),))
