"""How well slow ranks are found: precision, recall, delay and cost, on runs nobody fitted to.

``python -m bench stragglers`` reports held-out runs only (``bench.slow_runs`` says which those
are) and the real step series of ``examples/track/stragglers``. ``python -m bench.stragglers`` fits:
it prints how each choice of the detector's numbers does on the runs that may be fitted to.
"""

import itertools
import json
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench import slow_runs
from bench.slow_runs import GeneratedRun, SlowTruth
from tidemill.live.measured import loops, ranks
from tidemill.live.measured.ranks import LaunchRanks
from tidemill.live.track.reader import TrackReader
from tidemill.workload.slow import ranks as slow_ranks
from tidemill.workload.slow.columns import RankWindows
from tidemill.workload.slow.peers import RULE, SlowRule
from tidemill.workload.slow.ranks import SlowFindings, SlowRank

REAL = Path(__file__).parent.parent / "examples" / "track" / "stragglers"
REAL_SLOW = 1.1
"""A rank whose own time a stopwatch found so many times as long was slow: the published gate."""


class Score(NamedTuple):
    """Suspects against what was done."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    clean: int = 0
    """Runs without a slow rank."""
    clean_wrong: int = 0
    """Of those, with a suspect."""

    def __add__(self, other: "Score") -> "Score":  # type: ignore[override]
        return Score(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def precision(self) -> float:
        """Of the suspects, those that were slow."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """Of the slow ranks, those that are suspects."""
        return self.right / max(1, self.right + self.missed)

    @property
    def f1(self) -> float:
        """Both."""
        return 2 * self.right / max(1, 2 * self.right + self.wrong + self.missed)

    def document(self) -> dict[str, float]:
        """For JSON."""
        return {
            **self._asdict(), "precision": round(self.precision, 3),
            "recall": round(self.recall, 3), "f1": round(self.f1, 3),
        }  # fmt: skip


def run(seeds: int = 40) -> dict[str, Any]:
    """Held-out figures by kind, and the real series."""
    kinds: dict[str, Any] = {}
    delays: list[float] = []
    costs: list[float] = []
    every = jobs = below = Score()
    for kind in slow_runs.KINDS_ORDER:
        score = Score()
        for generated in held_out(kind, seeds):
            told, found = judged(generated)
            score += scored(generated.truths, found, told)
            jobs += _job_scored(generated, found)
            if not generated.is_below_gate:
                delays += _delays(generated, told, found)
            if generated.waited_gpu_us and found.ranks and not generated.is_below_gate:
                costs.append(sum(r.waited_gpu_us for r in found.ranks) / generated.waited_gpu_us)
        kinds[kind] = score.document()
        if kind == slow_runs.BELOW_GATE:
            below = score
        else:
            every += score
    return {
        "rule": RULE._asdict(),
        "held_out": every.document(),
        "held_out_with_5_to_10_percent_slow": (every + below).document(),
        "held_out_by_kind": kinds,
        "whole_job_slow": jobs.document(),
        "delay_s": _spread(delays),
        "cost_over_truth": _spread(costs),
        "real": {
            folder.name: real(folder)
            for folder in sorted(REAL.glob("*/"))
            if (folder / "runs.json").exists()
        },
    }


def judged(run: GeneratedRun, rule: SlowRule = RULE) -> tuple[LaunchRanks, SlowFindings]:
    """What the detector says of a run."""
    told = ranks.of_launch(run.launch)
    return told, slow_ranks.find(told.windows, rule)


def held_out(kind: str, seeds: int) -> Iterator[GeneratedRun]:
    """Runs that nobody fitted to."""
    for seed in range(slow_runs.SPENT, slow_runs.SPENT + seeds):
        assert not slow_runs.is_fit(kind, seed)
        yield slow_runs.make(kind, seed)


def scored(truths: Iterable[SlowTruth], found: SlowFindings, told: LaunchRanks) -> Score:
    """A suspect is right if its rank was slow at that time."""
    slow = {truth.rank: truth for truth in truths}
    right = sum(1 for one in found.ranks if _meets(one, slow.get(one.rank), told.windows))
    wrong = len(found.ranks) - right
    return Score(right, wrong, len(slow) - right, not slow, bool(not slow and wrong))


def _meets(one: SlowRank, truth: SlowTruth | None, windows: RankWindows) -> bool:
    if truth is None:
        return False
    first, last = _step(windows, one.first), _step(windows, one.last + 1)
    return first < truth.last_step and last > truth.first_step


def _step(windows: RankWindows, at: int) -> int:
    return int(windows.steps[:at].sum())


def _job_scored(run: GeneratedRun, found: SlowFindings) -> Score:
    """Whether it was told that the whole job slowed."""
    is_slow, is_told = bool(run.slowed_at), found.job is not None
    return Score(is_slow and is_told, is_told and not is_slow, is_slow and not is_told,
                 not is_slow, is_told and not is_slow)  # fmt: skip


def _delays(run: GeneratedRun, told: LaunchRanks, found: SlowFindings) -> Iterator[float]:
    """Seconds from when a rank became slow until it would have been a suspect."""
    windows = told.windows
    for truth in run.truths:
        if truth.rank not in {one.rank for one in found.ranks}:
            continue
        low, high = 1, len(windows.steps)
        while low < high:
            middle = (low + high) // 2
            early = slow_ranks.find(_until(windows, middle))
            low, high = (
                (low, middle) if truth.rank in {r.rank for r in early.ranks} else (middle + 1, high)
            )
        at = next(w for w in range(len(windows.steps)) if _step(windows, w + 1) > truth.first_step)
        yield (int(windows.end_us[low - 1]) - int(windows.start_us[at])) / 1e6


def _until(windows: RankWindows, count: int) -> RankWindows:
    cut = {
        name: column[:count]
        for name, column in windows._asdict().items()
        if name not in ("gpus", "roles")
    }
    return windows._replace(**cut)


def _spread(values: list[float]) -> dict[str, float]:
    if len(values) < 2:
        return {}
    tenths = statistics.quantiles(values, n=10)
    return {"p10": round(tenths[0], 2), "p50": round(tenths[4], 2), "p90": round(tenths[8], 2)}


# Real step series -----------------------------------------------------------------------------


class RealRun(NamedTuple):
    """A recorded run: what was done, who was slow by a stopwatch, and what the ranks told."""

    about: dict[str, Any]
    slow: dict[int, float]
    is_everyone: bool
    """Whether most ranks were made slow: then none is an exception."""
    told: LaunchRanks


def real(folder: Path = REAL / "planned", rule: SlowRule = RULE) -> dict[str, Any]:
    """Suspects of recorded runs against what a stopwatch says of each rank."""
    rows, every = {}, Score()
    for one in _series(folder):
        score, found = _real_scored(one, rule)
        every += score
        rows[one.about["job"]] = {
            "slow_by_stopwatch": {rank: round(more, 3) for rank, more in one.slow.items()},
            "suspects": {
                one.told.places[r.rank].rank: {
                    "slow": r.slow_ppm / 1e6, "chance_log10": r.chance_log10,
                    "after_s": _after_s(one.told.windows, r, one.about),
                }
                for r in found.ranks
            },
            "job_slow": None if found.job is None else found.job.slow_ppm / 1e6,
            "missing": found.missing,
        }  # fmt: skip
    return {**every.document(), "runs": rows}


def _series(folder: Path) -> Iterator[RealRun]:
    """The runs of a recording."""
    about = json.loads((folder / "runs.json").read_text(encoding="utf-8"))
    launches = {launch.job: launch for launch in loops.launches(TrackReader().stream(folder))}
    for run in about["runs"]:
        is_everyone = len({harm["rank"] for harm in run["harms"]}) > about["ranks"] / 2
        yield RealRun(run, slowed(run), is_everyone, ranks.of_launch(launches[run["job"]]))


def _real_scored(one: RealRun, rule: SlowRule) -> tuple[Score, SlowFindings]:
    found = slow_ranks.find(one.told.windows, rule)
    suspects = {one.told.places[r.rank].rank for r in found.ranks}
    wanted = set() if one.is_everyone else set(one.slow)
    score = Score(
        len(wanted & suspects), len(suspects - wanted), len(wanted - suspects), not wanted,
        bool(not wanted and suspects),
    )  # fmt: skip
    return score, found


def slowed(run: dict[str, Any]) -> dict[int, float]:
    """The ranks that something was done to and that a stopwatch found slower, with how much.

    Against themselves while nothing was done; in a run in which something was done all the time,
    against the median of the others.
    """
    harmed = {harm["rank"] for harm in run["harms"]}
    during, before = run["own_us_during"], run["own_us_before"]
    found = {}
    for rank in sorted(harmed):
        others = [us for other, us in enumerate(during) if other not in harmed]
        peers = before[rank] or statistics.median(others)
        more = during[rank] / peers
        if more >= REAL_SLOW:
            found[rank] = more - 1
    return found


def _after_s(windows: RankWindows, one: SlowRank, run: dict[str, Any]) -> float | None:
    begun = [harm["from_us"] for harm in run["harms"]]
    if not begun:
        return None
    return round((int(windows.start_us[one.first]) - min(begun)) / 1e6, 1)


# Fitting --------------------------------------------------------------------------------------

FIT_SERIES = ("planned", "drawn", "tuned")
"""Recordings that may be looked at: the planned one and those drawn by odd seeds."""
GRID: dict[str, tuple[Any, ...]] = {
    "spreads": (1.5, 2.0, 2.5, 3.0, 4.0), "spreads_unheld": (4.0, 6.0, 8.0, 12.0),
    "least_windows": (4, 6), "smoothed": (5, 7), "chance": (5e-2, 1e-2),
}  # fmt: skip


class Tried(NamedTuple):
    """How one choice of numbers does."""

    rule: SlowRule
    generated: Score
    jobs: Score
    recorded: tuple[Score, ...]
    """Of each recorded run."""

    def goodness(self, without: int = -1) -> float:
        """Generated, whole jobs and recorded runs alike; without the recorded run of a number."""
        kept = (one for number, one in enumerate(self.recorded) if number != without)
        return self.generated.f1 + self.jobs.f1 + sum(kept, Score()).f1


def fit(seeds: int = 40) -> None:
    """Print how each choice of numbers does on the runs that may be fitted to, best first.

    And the recorded runs when each is judged by the numbers that are best without it.
    """
    generated = [
        (one, ranks.of_launch(one.launch))
        for kind in slow_runs.FIT
        for seed in range(seeds)
        if slow_runs.is_fit(kind, seed)
        for one in (slow_runs.make(kind, seed),)
    ]
    recorded = [one for name in FIT_SERIES for one in _series(REAL / name)]
    tried = [
        _try(SlowRule(**dict(zip(GRID, values, strict=True))), generated, recorded)
        for values in itertools.product(*GRID.values())
    ]
    for one in sorted(tried, key=lambda one: -one.goodness())[:12]:
        print(f"{one.goodness():.3f} {one.generated} {sum(one.recorded, Score())} {one.rule}")
    left_out = Score()
    for number in range(len(recorded)):
        _, best = max((one.goodness(number), -at) for at, one in enumerate(tried))
        left_out += tried[-best].recorded[number]
    print(f"recorded runs, each judged by what is best without it: {left_out.document()}")


def _try(
    rule: SlowRule, generated: list[tuple[GeneratedRun, LaunchRanks]], recorded: list[RealRun]
) -> Tried:
    score = jobs = Score()
    for one, told in generated:
        found = slow_ranks.find(told.windows, rule)
        score += scored(one.truths, found, told)
        jobs += _job_scored(one, found)
    return Tried(rule, score, jobs, tuple(_real_scored(one, rule)[0] for one in recorded))


if __name__ == "__main__":
    fit()
