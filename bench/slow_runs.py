"""Generated training runs with and without slow ranks, as records that ``tidemill.track`` writes.

Own times of all steps and ranks are drawn, a step ends when the slowest rank and the exchange are
done, and each rank's time is cut into stretches by its own clock, which is off by up to a second.
**Fit or held out is decided here, by rule**: even seeds below ``SPENT`` of the ``FIT`` kinds may be
used to choose the detector's numbers. Seeds below ``SPENT`` of the other kinds were looked at
before the detector was as it is (``bench/README.md``): only seeds from ``SPENT`` on are reported,
and who changes the detector raises it. Those below 3080 are spent.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.live.measured import loops
from tidemill.live.track.records import BeganRecord, StepsRecord, TrackRecord

F64 = NDArray[np.float64]
SPENT = 3040
BEGIN_US = 1_794_800_000_000_000


class SlowTruth(NamedTuple):
    """A rank that was made slow: in which steps, and how much."""

    rank: int
    first_step: int
    last_step: int
    slow: float
    """Its own time is longer by this share."""


class GeneratedRun(NamedTuple):
    """Records of one job, and what was done to it."""

    kind: str
    seed: int
    launch: loops.Launch
    truths: tuple[SlowTruth, ...]
    is_below_gate: bool
    """Its slow ranks are slow by less than a tenth: not what the detector is for."""
    waited_gpu_us: float
    """What the others waited because of the slow ranks: with them less without them, exactly."""
    slowed_at: int
    """The step from which the whole job was slower; 0: it never was."""


class _Draft(NamedTuple):
    """Steps × ranks before and after somebody was made slow."""

    healthy: F64
    actual: F64
    truths: tuple[SlowTruth, ...]
    saves: bool = False
    slowed_at: int = 0
    exchange: F64 | None = None
    """What the exchange takes in each step, times the usual own time; None: about a tenth."""


def is_fit(kind: str, seed: int) -> bool:
    """Whether this run may be looked at while the detector's numbers are chosen."""
    return kind in FIT and seed % 2 == 0 and seed < SPENT


def make(kind: str, seed: int) -> GeneratedRun:
    """The run of a kind and a seed."""
    rng = np.random.default_rng([KINDS_ORDER.index(kind), seed])
    ranks = int(rng.choice([4, 8, 8, 16, 32]))
    steps = int(np.exp(rng.uniform(np.log(500), np.log(5000))))
    base_us = float(rng.uniform(60_000, 300_000))
    draft = (FIT | HELD_OUT)[kind](rng, _noise(rng, steps, ranks))
    exchange = 0.1 * np.exp(0.1 * rng.standard_normal(steps))
    exchange = base_us * (exchange if draft.exchange is None else draft.exchange)
    waited = _waited(draft, base_us)
    records = _records(rng, f"{kind}-{seed}", base_us * draft.actual, exchange, draft.saves)
    (launch,) = loops.launches(records)
    return GeneratedRun(
        kind, seed, launch, draft.truths, kind == BELOW_GATE, waited, draft.slowed_at
    )


def _noise(rng: np.random.Generator, steps: int, ranks: int) -> F64:
    """Own times around one: each rank a little faster or slower, each step a little different."""
    silicon = np.exp(0.01 * rng.standard_normal(ranks))
    common = np.exp(0.02 * rng.standard_normal((steps, 1)))
    return silicon * common * np.exp(rng.uniform(0.01, 0.06) * rng.standard_normal((steps, ranks)))


def _slowed(
    rng: np.random.Generator, healthy: F64, count: int = 1, *, from_start: bool = False,
    least: float = 0.1, most: float = 1.0,
) -> _Draft:  # fmt: skip
    """Some ranks made slow, from one step on; most of them to the end."""
    steps, ranks = healthy.shape
    actual, truths = healthy.copy(), []
    for rank in rng.choice(ranks, count, replace=False).tolist():
        slow = float(np.exp(rng.uniform(np.log(least), np.log(most))))
        first = 0 if from_start else int(rng.integers(steps // 5, steps * 7 // 10))
        is_to_end = rng.random() < 0.7
        last = steps if is_to_end else min(steps, first + int(rng.integers(steps // 5, steps // 2)))
        actual[first:last, rank] *= 1 + slow
        truths.append(SlowTruth(rank, first, last, slow))
    return _Draft(healthy, actual, tuple(truths))


def _clean(rng: np.random.Generator, healthy: F64) -> _Draft:
    return _Draft(healthy, healthy, (), saves=bool(rng.random() < 0.5))


def _one(rng: np.random.Generator, healthy: F64) -> _Draft:
    return _slowed(rng, healthy)._replace(saves=bool(rng.random() < 0.5))


def _from_start(rng: np.random.Generator, healthy: F64) -> _Draft:
    return _slowed(rng, healthy, from_start=True)


def _bursts(rng: np.random.Generator, healthy: F64) -> _Draft:
    """Neighbours on each machine take a part of it now and then, for some seconds."""
    steps, ranks = healthy.shape
    made = healthy.copy()
    for rank in range(ranks):
        for at in rng.integers(0, steps, rng.poisson(steps / 300)).tolist():
            made[at : at + int(rng.integers(10, 40)), rank] *= 1 + rng.uniform(0.1, 0.5)
    return _maybe(rng, made)


def _whole_job(rng: np.random.Generator, healthy: F64) -> _Draft:
    first = int(len(healthy) * rng.uniform(0.3, 0.7))
    actual = healthy.copy()
    actual[first:] *= 1 + rng.uniform(0.15, 0.6)
    return _Draft(healthy, actual, (), slowed_at=first)


def _heavy_tails(rng: np.random.Generator, healthy: F64) -> _Draft:
    tails = 1 + 0.04 * np.minimum(rng.pareto(1.5, healthy.shape), 50)
    return _maybe(rng, healthy * tails)


def _collector(rng: np.random.Generator, healthy: F64) -> _Draft:
    """Each rank stands still now and then for itself, at a rhythm of its own."""
    ranks = healthy.shape[1]
    every = rng.integers(40, 160, ranks)
    at = (np.arange(len(healthy))[:, None] + rng.integers(0, 160, ranks)) % every == 0
    return _maybe(rng, healthy * np.where(at, rng.uniform(2.0, 6.0), 1.0))


def _drifting(rng: np.random.Generator, healthy: F64) -> _Draft:
    """The whole job drifts, and each rank wanders by itself."""
    steps, ranks = healthy.shape
    common = np.cumsum(rng.standard_normal(steps)) / np.sqrt(steps) * 0.06
    alone = np.cumsum(rng.standard_normal((steps, ranks)), axis=0) / np.sqrt(steps) * 0.02
    return _maybe(rng, healthy * np.exp(common[:, None] + alone))


def _stages(rng: np.random.Generator, healthy: F64) -> _Draft:
    """Pipeline stages of unequal work; nobody says which rank is of which."""
    stages, ranks = int(rng.choice([2, 4])), healthy.shape[1]
    heavy = np.repeat(rng.uniform(0.75, 1.3, stages), ranks // stages)
    return _maybe(rng, healthy * heavy)


def _two(rng: np.random.Generator, healthy: F64) -> _Draft:
    return _slowed(rng, healthy, 2)


def _intermittent(rng: np.random.Generator, healthy: F64) -> _Draft:
    """One rank slow again and again, for a minute or some."""
    steps, ranks = healthy.shape
    rank, slow = int(rng.integers(ranks)), float(np.exp(rng.uniform(np.log(0.2), np.log(1.0))))
    actual, first, last = healthy.copy(), int(steps * rng.uniform(0.1, 0.4)), 0
    at = first
    while at < steps:
        last = min(steps, at + int(rng.integers(steps // 20 + 50, steps // 10 + 100)))
        actual[at:last, rank] *= 1 + slow
        at = last + int(rng.integers(steps // 20 + 50, steps // 10 + 100))
    return _Draft(healthy, actual, (SlowTruth(rank, first, last, slow),))


def _slow_node(rng: np.random.Generator, healthy: F64) -> _Draft:
    """All ranks of a quarter of the job become slow at once: a machine, or what it hangs on."""
    steps, ranks = healthy.shape
    first, slow = int(rng.integers(steps // 5, steps * 7 // 10)), float(rng.uniform(0.15, 0.8))
    part = ranks // 4
    begin = part * int(rng.integers(4))
    actual = healthy.copy()
    actual[first:, begin : begin + part] *= 1 + slow
    truths = (SlowTruth(rank, first, steps, slow) for rank in range(begin, begin + part))
    return _Draft(healthy, actual, tuple(truths))


def _coming_and_going(rng: np.random.Generator, healthy: F64) -> _Draft:
    """Noise whose size changes from minute to minute, and is another for each rank."""
    steps, ranks = healthy.shape
    sizes = np.repeat(rng.uniform(0.0, 0.15, (steps // 100 + 1, ranks)), 100, axis=0)[:steps]
    return _maybe(rng, healthy * np.exp(sizes * rng.standard_normal((steps, ranks))))


def _subtle(rng: np.random.Generator, healthy: F64) -> _Draft:
    return _slowed(rng, healthy, least=0.05, most=0.1)


def _maybe(rng: np.random.Generator, healthy: F64) -> _Draft:
    """With a slow rank in half of the runs."""
    return _slowed(rng, healthy) if rng.random() < 0.5 else _Draft(healthy, healthy, ())


# Machines that others use too ------------------------------------------------------------------

HELD_STEPS, WANDERING_STEPS = 20, 120
"""How long a rank keeps a pace by itself, on average, and how long what others do to it lasts."""


def _busy_hosts(rng: np.random.Generator, healthy: F64) -> _Draft:
    """As the recordings of ``examples/track/stragglers`` for fitting show it.

    Each rank has a pace of its own by some percent, leaves it for a second or two and now and then
    for ten; the exchange takes longer than the work. A competitor takes a core in bursts, a process
    that is stopped is so within its work or within the exchange, and late data are late each step.
    """
    steps, ranks = min(len(healthy), int(rng.integers(500, 1500))), healthy.shape[1]
    pace = 0.03 * rng.standard_normal(ranks) + _wandering(rng, steps, ranks)
    jitter = rng.uniform(0.03, 0.15) * rng.standard_normal((steps, ranks))
    made = healthy[:steps] * np.exp(pace + jitter)
    exchange = rng.uniform(0.3, 1.4) * np.exp(_held(rng, steps, HELD_STEPS, 0.07))
    actual, truths = made.copy(), []
    for rank in rng.choice(ranks, int(rng.choice([0, 0, 1, 1, 1, 2])), replace=False).tolist():
        first = int(rng.integers(2) * rng.integers(steps // 5, steps // 2))
        last = steps if rng.random() < 0.67 else min(steps, first + int(0.4 * steps))
        harm = HARMS[int(rng.integers(len(HARMS)))]
        own, both = harm(rng, last - first)
        actual[first:last, rank] += own
        exchange[first:last] += both
        slow = float(actual[first:last, rank].mean() / made[first:last, rank].mean()) - 1
        if slow >= 0.1:  # as a stopwatch would say; what was done to it may be hardly anything
            truths.append(SlowTruth(rank, first, last, slow))
    return _Draft(made, actual, tuple(truths), saves=bool(rng.random() < 0.5), exchange=exchange)


def _wandering(rng: np.random.Generator, steps: int, ranks: int) -> F64:
    """How each rank leaves its pace: for a second or two, and for longer."""
    found = np.zeros((steps, ranks))
    for rank in range(ranks):
        found[:, rank] += _held(rng, steps, HELD_STEPS, rng.uniform(0.03, 0.09))
        found[:, rank] += _held(rng, steps, WANDERING_STEPS, rng.uniform(0.0, 0.07))
    return found


def _held(rng: np.random.Generator, steps: int, held: int, size: float) -> F64:
    """Levels that last for some steps each."""
    changes = np.cumsum(rng.random(steps) < 1 / held)
    found: F64 = (size * rng.standard_normal(int(changes[-1]) + 1))[changes]
    return found


def _competitor(rng: np.random.Generator, steps: int) -> tuple[F64, F64]:
    return rng.uniform(0.05, 0.8) * rng.exponential(1.0, steps), np.zeros(steps)


def _stops(rng: np.random.Generator, steps: int) -> tuple[F64, F64]:
    stopped = np.where(rng.random(steps) < 0.25, rng.uniform(1.3, 3.6), 0.0)
    is_at_work = rng.random(steps) < 0.43
    return np.where(is_at_work, stopped, 0.0), np.where(is_at_work, 0.0, stopped)


def _late_data(rng: np.random.Generator, steps: int) -> tuple[F64, F64]:
    return np.full(steps, rng.uniform(0.15, 1.1)), np.zeros(steps)


HARMS = (_competitor, _competitor, _stops, _late_data)
"""What is done to a rank: times that are added to its own in each step, and to the exchange."""


Maker = Callable[[np.random.Generator, F64], _Draft]
FIT: dict[str, Maker] = {
    "clean": _clean, "one slow rank": _one, "slow from the start": _from_start,
    "short bursts": _bursts, "whole job": _whole_job, "unequal stages": _stages,
    "busy hosts": _busy_hosts,
}  # fmt: skip
HELD_OUT: dict[str, Maker] = {
    "heavy tails": _heavy_tails, "pauses of each rank": _collector, "drifting": _drifting,
    "two at once": _two, "on and off": _intermittent, "slow machine": _slow_node,
    "noise that comes and goes": _coming_and_going, "5 to 10 % slow": _subtle,
}  # fmt: skip
BELOW_GATE = "5 to 10 % slow"
KINDS_ORDER = [*FIT, *HELD_OUT]


def _waited(draft: _Draft, base_us: float) -> float:
    """GPU-time of the others: what each step was longer because of the slow ranks."""
    longer = draft.actual.max(axis=1) - draft.healthy.max(axis=1)
    slow = {truth.rank for truth in draft.truths}
    return float(longer.sum()) * base_us * (draft.actual.shape[1] - len(slow)) if slow else 0.0


def _records(
    rng: np.random.Generator, job: str, own_us: F64, exchange_us: F64, saves: bool
) -> list[TrackRecord]:
    """What each rank would have told, a second at a time."""
    steps, ranks = own_us.shape
    saving_us = np.where(saves & (np.arange(steps) % 500 == 499), 3e6, 0.0)
    step_us = own_us.max(axis=1) + exchange_us
    ends = np.cumsum(step_us + saving_us)
    found: list[TrackRecord] = []
    for rank in range(ranks):
        begin = BEGIN_US + int(rng.integers(0, 1_000_000))
        head: dict[str, Any] = {"v": 1, "job": job, "run": f"run{rank}", "rank": rank}
        found.append(
            BeganRecord(
                **head, seq=0, at_us=begin, world=ranks, local_rank=rank % 8, gpus=1,
                host=f"node{rank // 8}",
            )
        )  # fmt: skip
        found += _stretches(head, begin, own_us[:, rank], step_us, saving_us, ends)
    return found


def _stretches(
    head: dict[str, Any], begin: int, own_us: F64, step_us: F64, saving_us: F64, ends: F64
) -> list[StepsRecord]:
    """One rank's time cut each second: within a step first its own work, then the wait."""
    starts = ends - step_us - saving_us
    edges = np.arange(0.0, ends[-1] + 1e6, 1e6)
    edges[-1] = ends[-1]
    edges = np.round(edges)
    knots = np.stack([starts, starts + own_us, starts + step_us, ends], axis=1).ravel()
    knots = np.maximum.accumulate(knots)
    kinds = (own_us, step_us - own_us, saving_us)
    cut = []
    for i, amount in enumerate(kinds):
        parts = np.zeros((len(own_us), 4))
        parts[:, i + 1] = amount
        cut.append(np.round(np.interp(edges, knots, np.cumsum(parts.ravel()))))
    done = np.searchsorted(ends, edges + 0.5)
    own, save = (np.diff(cut[0]).astype(int), np.diff(cut[2]).astype(int))
    lengths, counts = np.diff(edges).astype(int), np.diff(done)
    made = []
    for i, (length, count) in enumerate(zip(lengths.tolist(), counts.tolist(), strict=True)):
        if length <= 0:
            continue
        first, last = int(done[i]) + 1, int(done[i + 1])
        took = int(length // count) if count else None
        told: dict[str, Any] = {"first_step": first, "last_step": last} if count else {}
        compute = max(0, min(int(own[i]), length))
        saved = max(0, min(int(save[i]), length - compute))
        made.append(
            StepsRecord(
                **head, seq=i + 1, from_us=begin + int(edges[i]),
                until_us=begin + int(edges[i + 1]), skew_us=0, steps=count,
                compute_us=compute, checkpoint_us=saved, other_us=0,
                communication_us=length - compute - saved, min_step_us=took, median_step_us=took,
                max_step_us=took, **told,
            )
        )  # fmt: skip
    return made
