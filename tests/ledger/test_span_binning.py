"""Spans become cells as if every millisecond of them were looked at by itself."""

from collections import Counter
from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from tests.builders import contract, fleet, job, submit
from tidemill.core.accounting.columns import LASTED, NOT_RUNNING, SPAN
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.cells import Cells
from tidemill.ledger.span_binning import Window, cut
from tidemill.ledger.span_binning.kernel import CELL
from tidemill.model.measured import SAVES, SAYS, efficiency_of, stalls_of, straggler_of
from tidemill.model.rows import Efficiency, LaterPrice
from tidemill.model.states import CONFIDENCES, Confidence
from tidemill.model.world import World

MILLION, MEASURED, WIDTH = 1_000_000, 1, 20
CHANGES = (70, 130)
UNSEEN = ((40, 55), (160, 161), (190, 500))
WINDOW = Window(10, 230, 17)
Key = tuple[int, int]
"""A bucket, and how it is known."""


@pytest.mark.parametrize("seed", range(12))
def test_cells_are_the_sum_of_milliseconds(seed: int):
    """Whatever a span says: bins, prices, what nobody saw, shares measured and submitted."""
    luck = Random(seed)
    world = _world()
    spans = [_span(luck, world.job_count) for _ in range(20)]
    wanted = Counter[tuple[int, ...]]()
    for span in spans:
        for t in range(max(span[SPAN.START_MS], 10), min(span[SPAN.END_MS], 230)):
            where = (
                (t - 10) // 17,
                span[SPAN.CONTRACT],
                span[SPAN.JOB],
                sum(c <= t for c in CHANGES),
            )
            for key, amount in _millisecond(world, span, t).items():
                wanted[*where, *key] += amount
    assert _added(cut(world, np.array(spans, np.int64), WINDOW, UNSEEN)) == +wanted


def test_a_span_in_more_bins_than_there_is_room_for():
    """Cells that are full are handed over, and the span is cut on from there."""
    world, span = _world(), [0] * len(SPAN)
    span[SPAN.END_MS], span[SPAN.MILLI], span[SPAN.BUCKET] = 1_000, 250, Bucket.STARTING
    span[SPAN.ORIGIN_MS] = NOT_RUNNING
    parts = list(cut(world, np.array([span], np.int64), Window(0, 1_000, 1)))
    assert len(parts) > 1
    assert np.concatenate([part.bin for part in parts]).tolist() == [*range(1_000)]
    assert {amount for part in parts for amount in part.milli_ms.tolist()} == {250}


def test_columns_of_cells_have_their_names():
    """What kernels write by number is read by name."""
    assert tuple(column.name.lower() for column in CELL) == Cells._fields


def _world() -> World:
    """Jobs that save or not, of which more or less is known, on a contract of three prices."""
    priced = tuple(LaterPrice(at_ms, 1_000_000) for at_ms in CHANGES)
    world = fleet(replace(contract(), later_prices=priced), contract("d"))
    known = Efficiency(300_000, 150_001, 70_000, Confidence.MODELLED)
    efficiencies = (Efficiency(), known, replace(known, attainable_ppm=600_000))
    for number, efficiency in enumerate(efficiencies):
        submit(
            world,
            job(f"a{number}", efficiency=efficiency),
            job(f"b{number}", efficiency=efficiency, saves_every_ms=13, save_ms=4),
        )
    return world


def _span(luck: Random, jobs: int) -> list[int]:
    def ppm() -> int:
        return luck.choice((0, 0, luck.randrange(400_000)))

    since = luck.randrange(120)
    origin = luck.choice((NOT_RUNNING, since - luck.randrange(30), since - luck.randrange(30)))
    start = since + luck.randrange(60)
    stalls = luck.choice((0, stalls_of(ppm(), ppm(), ppm()), SAVES, SAVES | stalls_of(9, 8, 7)))
    use = luck.choice((0, efficiency_of(ppm(), 2, luck.choice((-1, ppm())))))
    slow = luck.choice((0, straggler_of(luck.randrange(MILLION + 1), 3, 0)))
    return [
        start, start + luck.randrange(1, 150),
        luck.choice((LASTED, LASTED, Bucket.REWORK)) if origin >= 0 else Bucket.RESTART,
        luck.randrange(jobs), luck.randrange(2), luck.choice((1_000, 8_000, 333)),
        origin, since, luck.choice((MILLION, MILLION, luck.randrange(MILLION))), ppm(), ppm(),
        stalls, use, slow,
    ]  # fmt: skip


def _millisecond(world: World, span: list[int], t: int) -> Counter[Key]:
    if any(start <= t < end for start, end in UNSEEN):
        return Counter({(int(Bucket.NOT_OBSERVED), 0): span[SPAN.MILLI]})
    if span[SPAN.ORIGIN_MS] == NOT_RUNNING:
        return Counter({(int(span[SPAN.BUCKET]), 0): span[SPAN.MILLI]})
    found = _up_to(world, span, t + 1)
    found.subtract(_up_to(world, span, t))
    return found


def _up_to(world: World, span: list[int], t: int) -> Counter[Key]:
    """How the stretch divides from its beginning to a moment: each part is taken off the rest."""
    found, left = Counter[Key](), (t - span[SPAN.SINCE_MS]) * span[SPAN.MILLI]

    def take(bucket: int, share: int, whole: int = MILLION, known: int = 0) -> int:
        nonlocal left
        part = left * share // whole if whole > 0 else 0
        left -= part
        found[int(bucket), known] += part
        return part

    jobs, j, stalls, use = world.jobs, span[SPAN.JOB], span[SPAN.STALLS], span[SPAN.EFFICIENCY]
    told = MEASURED if stalls & SAYS else 0
    host, links, mfu = (int(c[j]) for c in (jobs.host_ppm, jobs.links_ppm, jobs.mfu_ppm))
    memory = int(jobs.memory_ppm[j])
    if told:
        host, links = _packed(stalls, 1), _packed(stalls, 0)
        take(Bucket.CHECKPOINT, _packed(stalls, 2), known=told)
    else:
        stalled = _stalled(world, j, span, t)
        left -= stalled
        found[int(Bucket.CHECKPOINT), 0] += stalled
    if use:
        mfu, memory = _packed(use, 1), _packed(use, 0) - 1
    mfu = min(mfu, MILLION - host - links)
    memory = min(memory, MILLION - host - links - mfu)
    take(Bucket.IDLE, MILLION - span[SPAN.BUSY_PPM])
    if span[SPAN.BUCKET] != LASTED:
        take(span[SPAN.BUCKET], MILLION, known=MEASURED if stalls & SAVES else 0)
        return found
    beside, slow = span[SPAN.BESIDE_PPM], span[SPAN.SLOW_PPM]
    take(Bucket.INTERFERENCE, beside, MILLION + beside, told)
    take(Bucket.LINKS, slow, MILLION + slow)
    is_known = bool(use) or CONFIDENCES[int(jobs.confidence[j])] is not Confidence.UNKNOWN
    if is_known or told:
        take(Bucket.HOST, host, known=told)
        waited = take(Bucket.LINKS, links, MILLION - host, told)
        late = waited * _packed(span[SPAN.STRAGGLER], 1) // MILLION
        found[int(Bucket.LINKS), told] -= late
        found[int(Bucket.STRAGGLER), _packed(span[SPAN.STRAGGLER], 2)] += late
    if not is_known:
        take(Bucket.UNKNOWN, MILLION)
        return found
    known = _packed(use, 2)
    take(Bucket.USEFUL, mfu, MILLION - host - links, known)
    if memory >= 0:
        take(Bucket.MEMORY_BOUND, memory, MILLION - host - links - mfu, known)
    take(Bucket.BELOW_ROOF if memory >= 0 else Bucket.BELOW_PEAK, MILLION, known=known)
    return found


def _stalled(world: World, j: int, span: list[int], t: int) -> int:
    """Milliseconds of writing since the stretch began, one by one, times what is held."""
    every, cost = int(world.jobs.interval_ms[j]), int(world.jobs.cost_ms[j])
    origin = span[SPAN.ORIGIN_MS]
    if every <= 0 or cost <= 0:
        return 0
    moments = range(span[SPAN.SINCE_MS] - origin, t - origin)
    return span[SPAN.MILLI] * sum(moment % (every + cost) >= every for moment in moments)


def _packed(number: int, place: int) -> int:
    return number >> place * WIDTH & ((1 << WIDTH) - 1)


def _added(parts: Iterable[Cells]) -> Counter[tuple[int, ...]]:
    found = Counter[tuple[int, ...]]()
    for part in parts:
        for cell in zip(*(column.tolist() for column in part), strict=True):
            bin_, contract_, bucket, j, known, period, amount = cell
            found[bin_, contract_, j, period, bucket, known] += amount
    return found
