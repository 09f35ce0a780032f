"""Stragglers of many jobs: suspects with place, time and cost, slow nodes, and what is missing.

Puts what the detector says of each launch beside where its ranks ran and what a GPU-hour of the job
costs. A launch that could not be judged is told with the reason: it is not free of stragglers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tidemill.live.measured import ranks
from tidemill.live.measured.loops import Launch
from tidemill.live.measured.ranks import LaunchRanks
from tidemill.model.measures import HOUR_MS, ONE_PPM
from tidemill.workload.slow import nodes
from tidemill.workload.slow import ranks as slow_ranks
from tidemill.workload.slow.nodes import JudgedNode, PlacedLaunch, SlowNode, SlowPlacement
from tidemill.workload.slow.ranks import Missing, SlowFindings, SlowPart, SlowRank

ANY_JOB = ""
"""In prices: of every job that has none of its own."""


class Suspect(NamedTuple):
    """A slow rank, where it ran, the numbers of it and of its peers, and what waiting cost."""

    job: str
    rank: int
    node: str
    """Empty: nobody said."""
    local_rank: int | None
    gpus_visible: str
    since_ms: int
    until_ms: int
    is_from_start: bool
    is_to_end: bool
    """Whether it was slow when the last steps were told."""
    stretches: int
    slow_ppm: int
    """Its own time over ``expected_us``, less one."""
    part: SlowPart
    own_us: int
    """Per step, without waiting for others: it, what that would be at the pace of its peers (some
    ranks have more to do than others also when all is well), and the median of its peers."""
    expected_us: int
    peers_own_us: int
    wait_us: int
    """Per step, waiting for others: it, and the median of its peers."""
    peers_wait_us: int
    slow_windows: int
    slowest_windows: int
    """Of those, among the ``slowest_of`` slowest of ``ranks``."""
    slowest_of: int
    ranks: int
    chance_log10: float
    waited_gpu_ms: int
    """GPU-time that the others spent waiting for it; at most, where it was slow from the start."""
    usd_micro: int | None
    """None: nobody said the price."""


class SlowLaunch(NamedTuple):
    """A whole job that became slower than it was, and no rank is why."""

    job: str
    since_ms: int
    until_ms: int
    slow_ppm: int
    before_us: int
    after_us: int
    own_ppm: int | None
    """Of the difference, the ranks' own work; the rest is waiting for each other. None: unknown."""
    lost_gpu_ms: int
    usd_micro: int | None
    rank: int | None = None
    """Whose own work grew, though chance alone may show that; None: no such rank."""
    rank_slow_ppm: int = 0
    rank_own_us: int = 0
    rank_windows: int = 0
    rank_chance_log10: float = 0.0


class UnlikeLaunch(NamedTuple):
    """Ranks of a job that take longer than the others from the first step on."""

    job: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    slow_ppm: int


class NotJudged(NamedTuple):
    """A launch of whose ranks nothing can be said, and why."""

    job: str
    ranks: int
    """That told steps."""
    world: int | None
    why: Missing


class Stragglers(NamedTuple):
    """All that can be said."""

    suspects: tuple[Suspect, ...]
    nodes: tuple[SlowNode, ...]
    placements: tuple[SlowPlacement, ...]
    slow_jobs: tuple[SlowLaunch, ...]
    unlike: tuple[UnlikeLaunch, ...]
    not_judged: tuple[NotJudged, ...]
    judged_launches: int
    judged_ranks: int
    silent_ranks: int
    """Of launches that were judged: ranks that they say they have, and that told nothing."""

    @property
    def waited_gpu_ms(self) -> int:
        """For all suspects."""
        return sum(one.waited_gpu_ms for one in self.suspects)

    @property
    def usd_micro(self) -> int | None:
        """For all suspects; None where the price of some is not known."""
        told = [one.usd_micro for one in self.suspects]
        return None if None in told else sum(usd for usd in told if usd is not None)

    def document(self) -> dict[str, object]:
        """For JSON."""
        named = {
            name: [row._asdict() for row in getattr(self, name)]
            for name in ("suspects", "nodes", "placements", "slow_jobs", "unlike", "not_judged")
        }
        counts = ("judged_launches", "judged_ranks", "silent_ranks", "waited_gpu_ms", "usd_micro")
        return named | {name: getattr(self, name) for name in counts}


class _Judged(NamedTuple):
    told: LaunchRanks
    found: SlowFindings
    price: int | None

    @property
    def job(self) -> str:
        return self.told.job


def find(launches: Sequence[Launch], usd_micro_per_hour: Mapping[str, int]) -> Stragglers:
    """What can be said of these launches; prices are of one GPU, by job."""
    any_price = usd_micro_per_hour.get(ANY_JOB)
    judged = []
    for launch in launches:
        told = ranks.of_launch(launch)
        price = usd_micro_per_hour.get(launch.job, any_price)
        judged.append(_Judged(told, slow_ranks.find(told.windows), price))
    good = [one for one in judged if one.found.missing is None]
    suspects = [row for one in judged for row in _suspects(one)]
    return Stragglers(
        tuple(sorted(suspects, key=lambda row: (-row.waited_gpu_ms, row.job, row.rank))),
        nodes.by_node(row for one in good for row in _nodes(one)),
        nodes.by_placement([row for one in judged for row in _placed(one)]),
        tuple(row for one in judged for row in _slow_jobs(one)),
        tuple(row for one in judged for row in _unlike(one)),
        tuple(row for one in judged for row in _not_judged(one)),
        len(good), sum(len(one.told.places) for one in good),
        sum(max(0, (one.told.world or 0) - len(one.told.places)) for one in good),
    )  # fmt: skip


def _suspects(one: _Judged) -> Iterator[Suspect]:
    windows = one.told.windows
    for row in one.found.ranks:
        place = one.told.places[row.rank]
        gpu_ms = row.waited_gpu_us // 1000
        expected_us = round(row.own_us * ONE_PPM / (ONE_PPM + row.slow_ppm))
        yield Suspect(
            one.job, place.rank, place.node, place.local_rank, place.gpus_visible,
            int(windows.start_us[row.first]) // 1000, int(windows.end_us[row.last]) // 1000,
            row.is_from_start, row.last >= len(windows.steps) - 1, row.stretches, row.slow_ppm,
            row.part, row.own_us, expected_us, row.peers_us, row.wait_us, row.peers_wait_us,
            row.slow_windows, row.slowest_windows, row.slowest_of, len(one.told.places),
            row.chance_log10, gpu_ms, _usd(gpu_ms, one.price),
        )  # fmt: skip


def _usd(gpu_ms: int, price: int | None) -> int | None:
    return None if price is None else gpu_ms * price // HOUR_MS


def _nodes(one: _Judged) -> Iterator[JudgedNode]:
    slow: dict[str, list[SlowRank]] = {}
    for row in one.found.ranks:
        slow.setdefault(one.told.places[row.rank].node, []).append(row)
    names = _named(place.node for place in one.told.places)
    for node in names if len(names) > 1 else ():  # alone it has no peers
        some = slow.get(node, [])
        most = max((row.slow_ppm for row in some), default=None)
        yield JudgedNode(one.job, node, most, sum(row.waited_gpu_us for row in some))


def _placed(one: _Judged) -> Iterator[PlacedLaunch]:
    steps = one.told.windows.step_us[1:]
    known = steps[steps > 0]
    on = frozenset(place.node for place in one.told.places if place.node)
    if on and len(known):
        yield PlacedLaunch(one.job, on, round(float(np.median(known))))


def _slow_jobs(one: _Judged) -> Iterator[SlowLaunch]:
    job, windows = one.found.job, one.told.windows
    if job is not None:
        gpu_ms = job.lost_gpu_us // 1000
        yield SlowLaunch(
            one.job, int(windows.start_us[job.first]) // 1000,
            int(windows.end_us[job.last]) // 1000, job.slow_ppm, job.before_us, job.after_us,
            job.own_ppm, gpu_ms, _usd(gpu_ms, one.price), *_unsure(one),
        )  # fmt: skip


def _unsure(one: _Judged) -> tuple[int | None, int, int, int, float]:
    """The rank that may be why: its number, how much slower, its own time, windows, and chance."""
    row = one.found.unsure
    if row is None:
        return None, 0, 0, 0, 0.0
    rank = one.told.places[row.rank].rank
    return rank, row.slow_ppm, row.own_us, row.slow_windows, row.chance_log10


def _unlike(one: _Judged) -> Iterator[UnlikeLaunch]:
    if one.found.unlike is not None:
        places = [one.told.places[r] for r in one.found.unlike.ranks]
        yield UnlikeLaunch(
            one.job, tuple(place.rank for place in places), _named(p.node for p in places),
            one.found.unlike.slow_ppm,
        )  # fmt: skip


def _not_judged(one: _Judged) -> Iterator[NotJudged]:
    if one.found.missing is not None:
        yield NotJudged(one.job, len(one.told.places), one.told.world, one.found.missing)


def _named(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}))
