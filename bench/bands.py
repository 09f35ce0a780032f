"""Forecasts against what came of them: how often the true start lay between p10 and p90.

A story (the demo, and recorded traces) runs in the twin. At moments spread evenly over it some of
the waiting jobs, spread evenly over the order of their coming, are forecast from the cluster state
as it then is; afterwards each forecast meets the start that the same story went on to have. Traces
have no estimates, as they are imported.

- *covered*: the share of true waits from p10 to p90, ends included. A job that had not started when
  the story ended counts as later than every forecast that has an end. Jobs that were withdrawn
  while they waited are left out.
- *ratio*: the median of p90 over p10, each of them at least a minute; where p90 is open, it counts
  as the horizon of the forecast. *width*: the median of p90 - p10.
- *error*: the standard error of *covered*, from moments drawn again in blocks of four: a queue errs
  as a whole, and for as long as it lasts, so that hundreds of forecasts are worth a few dozen.
- *score*: the mean interval score of Gneiting and Raftery (JASA 102, 2007) of log(1 + wait in
  minutes): the width of the band, and ten times the distance to it where it is missed. Less is
  better; a band that is wide or wrong is dear.

Each story is written into a journal as it runs, and each forecast is made as `tidemill pending`
makes it: with the band as wide as the journal up to that moment teaches (`past_forecasts`).

The first 60 % of each story's time may be used to choose constants (*fit*); figures to be quoted
are those of the rest (*held out*), and of stories that nothing was ever fitted on: those of
``NEVER_FITTED`` were seen when methods were compared, those of ``NEVER_SEEN`` were not, until the
method of decision 0084 was final.
"""

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from random import Random
from statistics import fmean, pstdev
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from bench.traces import folder
from tidemill import api
from tidemill.core import snapshot
from tidemill.engine.loop import Loop
from tidemill.explain import futures, past_forecasts
from tidemill.explain.answers import Band
from tidemill.explain.bands import Sides
from tidemill.explain.futures import HORIZON_MS
from tidemill.journal import Journal, open_journal
from tidemill.journal.keeping import RunKeeper
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import Batch, EventColumn
from tidemill.model.measures import MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec, template
from tidemill.twin.spec.tables import Spec
from tidemill.twin.traces import registry
from tidemill.twin.traces.options import Options

FIT_PERCENT = 60
MOMENTS, JOBS = 60, 6
BEATS_PER_COMMIT = 1_000
BLOCK, DRAWN = 4, 400
MAKESPAN_MS = 8_173_902_669  # of Muri's trace 3; with all jobs at once it has no other span
GOES_ON = 3  # times its span a fleet from a file is played, so that what waits at the end starts
Forecaster = Callable[[World, Policy, Collection[int], Sides], dict[int, Band]]
_PLACED = codes.KIND_CODE[ev.AskedPlace]


class Story(NamedTuple):
    """What happens, who schedules it, and until when something new comes."""

    twin: Twin
    policy: Policy
    span_ms: int


class Moment(NamedTuple):
    """A cluster state as bytes, and the jobs that are asked about in it."""

    at_ms: int
    data: bytes
    jobs: tuple[int, ...]


class Past(NamedTuple):
    """A story that was played to its end."""

    policy: Policy
    span_ms: int
    journal: Journal
    moments: list[Moment]
    waits_ms: list[dict[int, int | None]]
    """For each moment, how long its jobs went on to wait; None: longer than the story lasted.
    Who was withdrawn is not in it."""


class Checked(NamedTuple):
    """One forecast, and the wait that came; None: it never started."""

    band: Band | None
    """None: it was said to be unknown."""
    real_ms: int | None
    is_fit: bool
    at_ms: int


def demo(seed: int | None = None) -> Story:
    """The fleet that ships with Tidemill; under another seed it is another story."""
    spec = api.demo_spec()
    if seed is not None:
        spec = replace(spec, twin=replace(spec.twin, seed=seed))
    return described(spec)


def described(spec: Spec) -> Story:
    """A fleet from a file; after its time nothing new comes, as after that of a trace."""
    twin, span_ms = Twin.from_spec(spec), int(spec.twin.horizon)
    twin.horizon_ms = GOES_ON * span_ms
    return Story(twin, spec.policy, span_ms)


def written(seed: int) -> Story:
    """A fleet as `tidemill twin init` writes it, busy enough for a queue."""
    text = template.describe(seed=seed, accelerators=256, weeks=2, teams=4, load=0.9)
    return described(fleet_spec.parse(text))


def trace(path: str, gpus: int = 0) -> Story:
    """A recorded trace under the default policy."""
    found = registry.load(folder() / path, options=Options(accelerators=gpus))
    return Story(Twin.from_trace(found), Policy(), found.arrivals[-1].at_ms)


STORIES: dict[str, Callable[[], Story]] = {
    "demo": demo,
    "philly": lambda: trace("philly/philly.csv.gz", 512),
    "cluster04": lambda: trace("elasticflow/cluster04.csv", 480),
    "muri trace3": lambda: trace("muri/trace3.csv"),
}
NEVER_FITTED: dict[str, Callable[[], Story]] = {
    "demo, seed 8": lambda: demo(8),
    "cluster09": lambda: trace("elasticflow/cluster09.csv"),
    "muri trace1": lambda: trace("muri/trace1.csv"),
}
NEVER_SEEN: dict[str, Callable[[], Story]] = {
    "cluster01": lambda: trace("elasticflow/cluster01.csv"),
    "muri trace3, all at once": lambda: trace("muri/trace3_pr.csv")._replace(span_ms=MAKESPAN_MS),
    **{f"pollux {n}": partial(trace, f"pollux/workloads/workload-{n}.csv") for n in (1, 2, 6)},
    **{f"demo, seed {seed}": partial(demo, seed) for seed in range(101, 105)},
    **{f"described, seed {seed}": partial(written, seed) for seed in range(101, 107)},
}


class _Starts:
    """Reads along, and keeps when jobs were placed."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def take_batch(self, batch: Batch) -> None:
        """Keep the placements of these events."""
        placed = batch.events[batch.events[:, EventColumn.KIND] == _PLACED]
        self.rows.append(placed[:, [EventColumn.AT, EventColumn.WHO]])


def play(story: Story, journal: Journal, moments: int = MOMENTS, jobs: int = JOBS) -> Past:
    """Run a story to its end; keep some moments, and when their jobs then started."""
    world, starts = World(), _Starts()
    keeper = RunKeeper(journal, world)
    loop = Loop(world, story.policy, story.twin, keeper, [starts], BEATS_PER_COMMIT)
    kept = []
    for i in range(1, moments + 1):
        loop.run(until_ms=story.span_ms * i // moments)
        waiting = sorted(j for s in world.queued for j in world.waiting[s])
        if waiting:
            some = {waiting[k * len(waiting) // jobs] for k in range(jobs)}
            kept.append(Moment(world.now_ms, snapshot.dump(world), tuple(sorted(some))))
    loop.run()
    keeper.finish()
    placed = np.concatenate(starts.rows)
    waits_ms = [_waits_ms(world, moment, placed) for moment in kept]
    return Past(story.policy, story.span_ms, journal, kept, waits_ms)


def _waits_ms(world: World, moment: Moment, placed: I64) -> dict[int, int | None]:
    found: dict[int, int | None] = {}
    for j in moment.jobs:
        later = placed[(placed[:, 1] == j) & (placed[:, 0] > moment.at_ms), 0]
        if len(later):
            found[j] = int(later[0]) - moment.at_ms
        elif world.jobs.state[j] == JobState.WAITING:
            found[j] = None
    return found


def look(world: World, policy: Policy, jobs: Collection[int], sides: Sides) -> dict[int, Band]:
    """The bands of waiting jobs as `tidemill pending` shows them; unknown ones have none."""
    seen = futures.look(world, policy, jobs, sides=sides)
    return {j: seen.bands[j] for j in jobs if seen.verdict(j) != "unknown"}


def check(past: Past, forecast: Forecaster = look) -> list[Checked]:
    """Forecast at every moment that was kept."""
    found = []
    for moment, waits_ms in zip(past.moments, past.waits_ms, strict=True):
        world = snapshot.load(moment.data)
        sides = past_forecasts.sides(past.journal, world, past.policy)
        bands = forecast(world, past.policy, sorted(waits_ms), sides)
        is_fit = moment.at_ms * 100 <= past.span_ms * FIT_PERCENT
        found += [Checked(bands.get(j), ms, is_fit, moment.at_ms) for j, ms in waits_ms.items()]
    return found


def figures(checked: Sequence[Checked]) -> dict[str, float | None]:
    """How the forecasts fared."""
    known = [(one.band, one.real_ms) for one in checked if one.band is not None]
    if not known:
        return {"forecasts": 0, "unknown": len(checked)}
    ends = np.array([_ends(band) for band, _ in known])
    real = np.array([np.inf if ms is None else ms for _, ms in known]) / MINUTE_MS
    is_open = np.array([band.p90_ms is None for band, _ in known])
    early, late = real < ends[:, 0], (real > ends[:, 2]) & ~is_open
    low, high = np.log1p(ends[:, 0]), np.log1p(ends[:, 2])
    true = np.log1p(np.minimum(real, HORIZON_MS / MINUTE_MS))
    missed = np.where(early, low - true, 0) + np.where(late, np.maximum(true - high, 0), 0)
    return {
        "forecasts": len(known),
        "unknown": len(checked) - len(known),
        "covered": round(1 - float((early | late).mean()), 3),
        "earlier": round(float(early.mean()), 3),
        "later": round(float(late.mean()), 3),
        "later than p50": round(float((real > ends[:, 1]).mean()), 3),
        "ratio": round(float(np.median(np.maximum(ends[:, 2], 1) / np.maximum(ends[:, 0], 1))), 1),
        "width_min": round(float(np.median(ends[:, 2] - ends[:, 0]))),
        "score": round(float((high - low + 10 * missed).mean()), 2),
    }


def standard_error(checked: Sequence[Checked]) -> float | None:
    """Of the share that is covered, in one story; None: it has too few moments to tell."""
    by_moment: dict[int, list[bool]] = {}
    for band, real_ms, _, at_ms in checked:
        if band is not None:
            low, _, high = _ends(band)
            real = np.inf if real_ms is None else real_ms / MINUTE_MS
            held = low <= real and (band.p90_ms is None or real <= high)
            by_moment.setdefault(at_ms, []).append(held)
    moments = [by_moment[at_ms] for at_ms in sorted(by_moment)]
    luck, count, shares = Random(0), len(moments), list[float]()
    if count < 2 * BLOCK:
        return None
    for _ in range(DRAWN):
        firsts = [luck.randrange(count) for _ in range(-(-count // BLOCK))]
        drawn = [moments[(first + i) % count] for first in firsts for i in range(BLOCK)][:count]
        shares.append(fmean(held for moment in drawn for held in moment))
    return round(pstdev(shares), 3)


def _ends(band: Band) -> tuple[float, float, float]:
    """p10, p50 and p90 in minutes; an open end is the horizon."""
    low, middle, high = (
        (HORIZON_MS if ms is None else ms) / MINUTE_MS
        for ms in (band.p10_ms, band.p50_ms, band.p90_ms)
    )
    return low, middle, high


def run(moments: int = MOMENTS, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every story; of those that constants may be fitted on, both parts by themselves."""
    found: dict[str, Any] = {}
    kinds = {"fitted on before": STORIES, "never fitted": NEVER_FITTED, "never seen": NEVER_SEEN}
    held_out: dict[str, list[Checked]] = {kind: [] for kind in kinds}
    for kind, name in [(kind, name) for kind, stories in kinds.items() for name in stories]:
        if only and name not in only:
            continue
        with TemporaryDirectory() as where, open_journal(f"{where}/j.sqlite", create=True) as kept:
            past = play(kinds[kind][name](), kept, moments)
            start = time.process_time()
            checked = check(past)
        cpu_s = (time.process_time() - start) / max(1, len(past.moments))
        parts = {"held out": checked}
        if name in STORIES:
            parts = {part: [one for one in checked if one.is_fit == (part == "fit")]
                     for part in ("fit", "held out")}  # fmt: skip
        held_out[kind] += parts["held out"]
        found[name] = {
            part: figures(mine) | {"error": standard_error(mine)} for part, mine in parts.items()
        }
        found[name]["cpu_s_per_moment"] = round(cpu_s, 3)
    return found | {f"all held out, {part}": figures(mine) for part, mine in held_out.items()}
