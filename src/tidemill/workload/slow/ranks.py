"""Which rank of a job is slow against its peers, since when, how much, and what did waiting cost?

In synchronous training every rank's step takes equally long: all wait for the slowest. A slow rank
shows in its *own* time, what its step takes without the wait for others: it computes longest and
waits least. Reads columns of windows × ranks, returns suspects with their evidence.

Two looks (``peers`` has the gates): at each rank against its own usual ratio to the others, and at
its level against peers of equal role. Several ranks that are above the others from the first step
on may be a pipeline stage with more work: they are told (``unlike``), and not accused.
"""

from enum import StrEnum
from functools import partial
from itertools import pairwise
from math import log1p
from typing import NamedTuple

import numpy as np

from tidemill.model.measures import ONE_PPM
from tidemill.model.tables import I64
from tidemill.workload.slow import peers, whole_job
from tidemill.workload.slow.columns import FEWEST_WINDOWS, RankWindows, usable, window_of
from tidemill.workload.slow.peers import F64, RULE, Exceptional, PeerLook, SlowRule
from tidemill.workload.slow.whole_job import SlowJob, SlowMember


class Missing(StrEnum):
    """Why nothing can be said of ranks."""

    ONE_RANK = "one rank alone tells its steps: it has no peers"
    NO_WAITS = (
        "no rank tells its wait for the others apart: in step with each other, all ranks show the"
        " same step time, and the slow one cannot be told"
    )
    FEW_WINDOWS = "too few steps to tell a slow rank from chance"


class SlowPart(StrEnum):
    """In what a slow rank spends its time."""

    COMPUTE = "compute"
    DATA = "waiting for data"
    OTHER = "outside of steps"


class SlowRank(NamedTuple):
    """A rank that is slower than its peers, with the evidence."""

    rank: int
    """Its column."""
    first: int
    """The window in which it began."""
    last: int
    """The last window in which it was slow."""
    slow_windows: int
    stretches: int
    """How often it was slow with a pause between."""
    is_from_start: bool
    slow_ppm: int
    """Its own time over what it would be at the pace of its peers, less one."""
    part: SlowPart
    """In which it takes longer, most of all."""
    own_us: int
    peers_us: int
    """The median of its peers."""
    wait_us: int
    """What it waits for others, per step."""
    peers_wait_us: int
    slowest_windows: int
    """In how many of its slow windows it was among the slowest ``slowest_of``."""
    slowest_of: int
    chance_log10: float
    """By chance some rank would look like this in 10 to the power of so many jobs of a job."""
    waited_gpu_us: int
    """GPU-time that the others spent waiting for it."""


class UnlikeRanks(NamedTuple):
    """Ranks that take longer than the others from the first step on: by design, or slow."""

    ranks: tuple[int, ...]
    slow_ppm: int


class SlowStretch(NamedTuple):
    """Windows after one another in which somebody was slow, or nobody."""

    start_us: int
    end_us: int
    straggler_ppm: int
    """Of the time in which ranks waited for others: that for slow ones."""


class SlowFindings(NamedTuple):
    """What can be said of one launch."""

    ranks: tuple[SlowRank, ...]
    unlike: UnlikeRanks | None
    job: SlowJob | None
    missing: Missing | None
    """Why ranks could not be judged; None: they were."""
    windows: int
    """That were looked at."""
    stretches: tuple[SlowStretch, ...]
    """All windows that were looked at; none where ranks could not be judged, or where one of them
    may be slow by more than chance (``unsure``)."""
    unsure: SlowRank | None = None
    """Of a slow job without a slow rank: the rank that would be one, but for chance."""


def find(told: RankWindows, rule: SlowRule = RULE) -> SlowFindings:
    """The slow ranks of a launch, the costliest first; a slow job where no rank explains it."""
    kept = usable(told)
    missing = _missing(kept, told.own_us.shape[1])
    suspects, unlike, stretches = ((), None, ()) if missing else _suspects(kept, rule)
    slow = [SlowMember(one.rank, one.first, one.last) for one in suspects]
    job = whole_job.find(told, kept, slow, rule)
    numbered = (
        one._replace(first=window_of(told, kept, one.first), last=window_of(told, kept, one.last))
        for one in suspects
    )
    unsure = None
    if job is not None and not suspects and not missing:
        unsure = next(iter(_suspects(kept, rule._replace(chance=1.0, chance_beside=1.0))[0]), None)
    known = stretches if unsure is None else ()
    return SlowFindings(tuple(numbered), unlike, job, missing, len(kept.steps), known, unsure)


def _missing(kept: RankWindows, ranks: int) -> Missing | None:
    if ranks < 2:
        return Missing.ONE_RANK
    if not np.isfinite(kept.wait_us).any():
        return Missing.NO_WAITS
    return Missing.FEW_WINDOWS if len(kept.steps) < FEWEST_WINDOWS else None


def _suspects(
    kept: RankWindows, rule: SlowRule
) -> tuple[tuple[SlowRank, ...], UnlikeRanks | None, tuple[SlowStretch, ...]]:
    looks = (partial(one, kept, rule) for one in (_change, _level))
    count = kept.own_us.shape[1]
    changed, above = (peers.exceptions(looked, count, rule) for looked in looks)
    always = [r for r, one in above.items() if r not in changed and one.stretches[0][0] == 0]
    unlike = _unlike(_level(kept, rule, [*range(count)]), always, rule)
    told = unlike.ranks if unlike else ()
    found = {rank: one for rank, one in (above | changed).items() if rank not in told}
    waits = _waits_for(kept, found)
    made = [_suspect(kept, rank, one, round(waits[rank].sum())) for rank, one in found.items()]
    ordered = tuple(sorted(made, key=lambda one: (-one.waited_gpu_us, one.rank)))
    return ordered, unlike, _stretches(kept, sum(waits.values(), np.zeros(len(kept.steps))))


def _stretches(kept: RankWindows, slow_us: F64) -> tuple[SlowStretch, ...]:
    """Windows with and without somebody slow, each run of them as one, with its share of waits."""
    waits = np.where(np.isfinite(kept.wait_us), kept.wait_us, 0.0) * kept.gpus
    all_us = waits.sum(axis=1) * kept.steps
    is_slow = slow_us > 0
    edges = np.flatnonzero(np.diff(is_slow, prepend=~is_slow[:1], append=~is_slow[-1:]))
    return tuple(
        SlowStretch(
            int(kept.start_us[a]), int(kept.end_us[b - 1]),
            min(ONE_PPM, int(ONE_PPM * slow_us[a:b].sum() / max(all_us[a:b].sum(), 1.0))),
        )
        for a, b in pairwise(edges.tolist())
    )  # fmt: skip


def _unlike(level: PeerLook, always: list[int], rule: SlowRule) -> UnlikeRanks | None:
    """Of ranks that are above the others all the time, those with others at the same height.

    Ranks of a stage do equal work; two slow machines are seldom equally slow.
    """
    gate = log1p(rule.gate_ppm / ONE_PPM)
    height = {rank: float(np.nanmedian(level.over[:, rank])) for rank in always}
    found = tuple(
        rank for rank in always
        if any(abs(height[rank] - height[other]) < gate for other in always if other != rank)
    )  # fmt: skip
    if not found:
        return None
    return UnlikeRanks(found, peers.ppm_of(float(np.nanmedian(level.over[:, list(found)]))))


def _change(kept: RankWindows, rule: SlowRule, left: list[int]) -> PeerLook:
    """Some ranks against what was usual for each of them."""
    logs = np.log(np.maximum(kept.own_us[:, left], 1.0))
    alone = logs - peers.middle(logs.T)  # each rank against itself: stages differ, and stay so
    alone -= peers.middle(alone)[:, None]
    change = alone - np.quantile(peers.smooth(alone, rule.smoothed), 0.25, axis=0)
    return _look(kept, rule, left, change - peers.of_others(change))


def _level(kept: RankWindows, rule: SlowRule, left: list[int]) -> PeerLook:
    """Some ranks against their peers of equal role."""
    logs, roles = np.log(np.maximum(kept.own_us[:, left], 1.0)), kept.roles[left]
    level = np.full_like(logs, np.nan)
    for role in np.unique(roles):
        mine = np.flatnonzero(roles == role)
        if len(mine) > 1:
            level[:, mine] = logs[:, mine] - peers.of_others(logs[:, mine])
    return _look(kept, rule, left, level)


def _look(kept: RankWindows, rule: SlowRule, left: list[int], over: F64) -> PeerLook:
    every = np.full_like(kept.own_us, np.nan)
    every[:, left] = over
    return peers.look(every, rule, kept.wait_us / max(1.0, peers.typical(kept.own_us)))


def _waits_for(kept: RankWindows, found: dict[int, Exceptional]) -> dict[int, F64]:
    """GPU-time that the others waited for each suspect, by window: no longer than they say.

    Without it a step would take what the slowest takes once the suspects are at the pace of their
    peers, and what even that one waits in windows in which nobody is slow: the exchange itself,
    and that in each step another one is the last. Where there are no such windows, the same as
    now, which is a little less: the cost is then at most that. What several suspects cost together
    is divided by how much each of them was over the pace.
    """
    own = np.where(np.isfinite(kept.own_us), kept.own_us, 0.0)
    waits = np.where(np.isfinite(kept.wait_us), kept.wait_us, 0.0)
    extra = np.zeros_like(own)
    for rank, one in found.items():
        for a, b in one.stretches:
            over = one.look.over[a:b, rank]
            more = np.where(np.isfinite(over), over, 0.0)
            extra[a:b, rank] = own[a:b, rank] * -np.expm1(-np.maximum(more, 0.0))
    is_slow = extra.any(axis=1)
    least_wait = np.where(np.isfinite(kept.wait_us), kept.wait_us, np.inf).min(axis=1)
    usual_wait = least_wait
    if (~is_slow).sum() >= FEWEST_WINDOWS // 2:
        usual_wait = np.full(len(own), np.median(least_wait[~is_slow]))
    pace = own.max(axis=1) - (own - extra).max(axis=1)
    saved = np.clip(pace + np.minimum(0.0, least_wait - usual_wait), 0.0, None)
    shares = extra / np.maximum(extra.sum(axis=1), 1e-9)[:, None]
    costs = dict[int, F64]()
    for rank in found:
        waited = np.minimum((saved * shares[:, rank])[:, None], waits) * kept.gpus
        waited[:, rank] = 0.0
        costs[rank] = waited.sum(axis=1) * kept.steps
    return costs


def _suspect(kept: RankWindows, rank: int, one: Exceptional, cost: int) -> SlowRank:
    inside = np.concatenate([np.arange(a, b) for a, b in one.stretches])
    excess = peers.excess(one.look, inside, rank)
    others = np.flatnonzero((kept.roles == kept.roles[rank]) & (np.arange(len(kept.roles)) != rank))
    if not len(others):
        others = np.delete(np.arange(len(kept.roles)), rank)
    own, wait = (peers.typical(column[inside, rank]) for column in (kept.own_us, kept.wait_us))
    theirs, their_wait = (
        peers.typical(column[np.ix_(inside, others)]) for column in (kept.own_us, kept.wait_us)
    )
    return SlowRank(
        rank, int(inside[0]), int(inside[-1]), len(inside), len(one.stretches),
        is_from_start=bool(inside[0] == 0), slow_ppm=peers.ppm_of(excess),
        part=_part(kept, rank, inside, others), own_us=round(own), peers_us=round(theirs),
        wait_us=round(wait), peers_wait_us=round(their_wait), slowest_windows=one.chance[0],
        slowest_of=one.chance[1], chance_log10=round(one.chance[2], 1), waited_gpu_us=cost,
    )  # fmt: skip


def _part(kept: RankWindows, rank: int, inside: I64, others: I64) -> SlowPart:
    """In what a rank takes longer than its peers, most of all."""

    def longer(column: F64) -> float:
        return peers.typical(column[inside, rank]) - peers.typical(column[np.ix_(inside, others)])

    data, other = longer(kept.data_us), longer(kept.other_us)
    by_part = {SlowPart.COMPUTE: longer(kept.own_us) - data - other, SlowPart.DATA: data,
               SlowPart.OTHER: other}  # fmt: skip
    return max(by_part, key=lambda part: by_part[part])
