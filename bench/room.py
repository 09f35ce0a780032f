"""Making room: what moves, elastic sizes and victims in dollars are worth, with departures.

512 accelerators on 64 nodes for three days in the twin, seeded: many small jobs that come and go,
and gangs of whole nodes between them. Each comparison runs the same arrivals under two policies.
"""

import time
from collections.abc import Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from tidemill.engine.loop import Loop
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import read
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Checkpointing, Contract, Job, Queue, Role, Shape, Template
from tidemill.model.world import World
from tidemill.twin.arrivals import Arrival
from tidemill.twin.backend import Twin

NODES, PER_NODE = 64, 8
FLEET = Contract(
    "c", "main", "H100", NODES * PER_NODE, 2_000_000, Template(PER_NODE, 192_000, 2 << 20)
)
PLAIN = Policy(placement="pack", backfill="none", victims="time", may_resize=False)
MOVING = replace(PLAIN, may_move=True, moves_at_most=8)
RESIZING = replace(PLAIN, may_resize=True)
DOLLARS = replace(PLAIN, victims="dollars")
WORTH_IT = replace(DOLLARS, preempt_gain_ppm=250_000)


def run(days: int = 3, seeds: int = 2) -> dict[str, Any]:
    """All comparisons, each averaged over some seeds."""
    return {
        "moves": {
            "waiting": _mean(days, seeds, PLAIN, load=0.8),
            "moving": _mean(days, seeds, MOVING, load=0.8),
        },
        "sizes": {
            "rigid": _mean(days, seeds, PLAIN, load=0.8),
            "elastic, as placed": _mean(days, seeds, PLAIN, load=0.8, least=4),
            "elastic, resized": _mean(days, seeds, RESIZING, load=0.8, least=4),
        },
        "victims": {
            "by time": _mean(days, seeds, PLAIN, load=1.1, high=0.2),
            "by dollars": _mean(days, seeds, DOLLARS, load=1.1, high=0.2),
            "by dollars, worth it": _mean(days, seeds, WORTH_IT, load=1.1, high=0.2),
        },
    }


class _Kept(list[ev.Event]):
    """A journal in memory."""

    def append(self, events: Sequence[ev.Event]) -> None:  # type: ignore[override]
        self.extend(events)


def _mean(days: int, seeds: int, policy: Policy, **mix: Any) -> dict[str, float]:  # noqa: ANN401
    found = [_one(days, seed, policy, **mix) for seed in range(seeds)]
    return {name: round(sum(row[name] for row in found) / seeds, 3) for name in found[0]}


def _one(
    days: int, seed: int, policy: Policy, load: float, least: int = 0, high: float = 0.0
) -> dict[str, float]:
    arrivals = _arrivals(Random(seed), days, load, least, high)
    twin = Twin([FLEET], [Queue("a")], arrivals, horizon_ms=days * DAY_MS, seed=seed)
    kept, world = _Kept(), World()
    start = time.process_time()
    Loop(world, policy, twin, kept, beats_per_commit=5_000).run()
    cpu_s = time.process_time() - start
    account = read(kept, 0, days * DAY_MS).total()
    worked = (Bucket.UNKNOWN, Bucket.UNSAVED)
    share = {bucket: account.milli_ms[bucket] / account.paid_milli_ms for bucket in Bucket}
    asked = [event.why for event in kept if isinstance(event, ev.AskedMove | ev.AskedEvict)]
    return {
        "done": sum(isinstance(event, ev.JobFinished) for event in kept),
        "work_done_share": _work_done(arrivals, kept) / (days * DAY_MS * NODES * PER_NODE),
        "worked_share": sum(share[bucket] for bucket in worked),
        "rework_share": share[Bucket.REWORK],
        "restart_share": share[Bucket.RESTART],
        "free_fragmented_or_held_share": share[Bucket.FRAGMENTED] + share[Bucket.HELD],
        "gang_wait_h": _wait_h(arrivals, kept, days * DAY_MS, is_gang=True),
        "small_wait_h": _wait_h(arrivals, kept, days * DAY_MS, is_gang=False),
        "evicted": sum(why in (ev.Why.PREEMPTED, ev.Why.RECLAIMED) for why in asked),
        "moved": sum(why is ev.Why.MOVED for why in asked),
        "resized": sum(why in (ev.Why.GROWN, ev.Why.SHRUNK) for why in asked),
        "lost_usd": (account.money[Bucket.REWORK] + account.money[Bucket.RESTART]) / 3.6e15,
        "cpu_s": cpu_s,
    }


def _arrivals(luck: Random, days: int, load: float, least: int, high: float) -> list[Arrival]:
    """Small jobs for half of the load, gangs of whole nodes for the other half."""
    found: list[Arrival] = []
    end_ms, half = days * DAY_MS, load * NODES * PER_NODE / 2
    for is_gang in (False, True):
        at_ms = 0.0
        while True:
            gpus = luck.choice([16, 16, 32, 64]) if is_gang else luck.choice([1, 1, 2, 2, 4])
            work_ms = int(luck.lognormvariate(0, 0.8) * (4 if is_gang else 2) * HOUR_MS)
            at_ms += luck.expovariate(half / (gpus * work_ms))
            if at_ms >= end_ms:
                break
            row = _job(luck, len(found), gpus, least if is_gang else 0, high)
            found.append(Arrival(int(at_ms), replace(row, estimate_ms=work_ms), work_ms))
    return sorted(found, key=lambda arrival: arrival.at_ms)


def _job(luck: Random, i: int, gpus: int, least: int, high: float) -> Job:
    nodes, per_node = max(1, gpus // PER_NODE), min(gpus, PER_NODE)
    role = Role("w", nodes, per_node, least=max(1, nodes // least) if least else 0)
    shape = Shape("a", (role,), priority=int(luck.random() < high))
    saves = luck.choice([0, 30 * MINUTE_MS, 2 * HOUR_MS])
    return Job(
        f"j{i}-{gpus}", shape, startup_ms=MINUTE_MS, restart_ms=2 * MINUTE_MS,
        checkpointing=Checkpointing(saves, 20 * SECOND_MS), resize_ms=2 * MINUTE_MS,
    )  # fmt: skip


def _work_done(arrivals: list[Arrival], kept: list[ev.Event]) -> int:
    """Accelerator-time of the work of jobs that finished, at their full size."""
    done = {event.job for event in kept if isinstance(event, ev.JobFinished)}
    return sum(arrivals[j].work_ms * int(arrivals[j].job.name.split("-")[1]) for j in done)


def _wait_h(arrivals: list[Arrival], kept: list[ev.Event], end_ms: int, is_gang: bool) -> float:
    """Mean hours from coming to the first start; who never started waited to the end."""
    started: dict[int, int] = {}
    for event in kept:
        if isinstance(event, ev.JobStarted):
            started.setdefault(event.job, event.at_ms)
    waits = [
        started.get(j, end_ms) - arrival.at_ms
        for j, arrival in enumerate(arrivals)
        if (int(arrival.job.name.split("-")[1]) >= PER_NODE) == is_gang
    ]
    return sum(waits) / max(1, len(waits)) / HOUR_MS
