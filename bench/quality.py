"""Quality of queueing: waits, completion, fairness and losses under each policy, on two traces.

All of Philly (82,247 jobs, 15 teams) and of ITP cluster04 (15,802 jobs, one team), each on 512
GPUs. Jobs save every half hour; coming back takes two minutes. What the scheduler is told about run
times is said of every row:

- *guesses*: truth over guess is even between 0 and 1, as Mu'alem and Feitelson found (TPDS 2001);
- *truth*: the run times of the trace themselves, which no scheduler has: a bound, not a policy;
- *nothing*: no guesses; every job is taken to run for `unknown_run`, or as long as history says.

The columns:

- *wait*: all time from submission to end in which a job did not run; *JCT*: all of it.
- *slowdown* of a team: the mean over its jobs of JCT over run time, run times below 10 minutes
  counting as 10. *Jain*: Jain's index over the teams' slowdowns (1: all alike). *Envy*: the largest
  slowdown of a team over the smallest.
- *useful*: working accelerator-hours until the last arrival. *Lost*: those of rework, restart and
  checkpoints. *Makespan*: until the last job ended.

One policy *dominates* another when it is at least as good in all of average wait, its 99th
percentile, the wait of gangs, JCT, Jain, lost and useful work, and makespan, and better in one.
"""

import time
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from bench.traces import folder
from tidemill import api
from tidemill.ledger.buckets import PRODUCTIVE, Bucket
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Checkpointing
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.twin.arrivals import Arrival
from tidemill.twin.backend import Twin
from tidemill.twin.traces import elasticflow, philly
from tidemill.twin.traces.options import Options
from tidemill.twin.traces.trace import Trace

FLEETS = {"philly": 512, "cluster04": 512}
SIZES = {"1": (1, 1), "2-8": (2, 8), "9+": (9, 1 << 30)}
LOST = (Bucket.REWORK, Bucket.RESTART, Bucket.CHECKPOINT)

_LONG = 14 * DAY_MS  # the patience of orders that put long jobs off; with six hours all are fifo
_HOLD = Policy(placement="pack", backfill="none")
_EASY = Policy(placement="pack", backfill="easy")
_LEARNT = replace(_EASY, estimates="history")
_HISTORY = replace(_LEARNT, patience_ms=_LONG)

Told = Literal["guesses", "truth", "nothing"]
POLICIES: dict[str, tuple[Policy, Told]] = {
    "fifo": (replace(_HOLD, order="fifo"), "nothing"),
    "priority, hold after 6 h": (_HOLD, "nothing"),
    "priority, hold after 14 d": (replace(_HOLD, patience_ms=_LONG), "nothing"),
    "priority, spread": (replace(_HOLD, placement="spread"), "nothing"),
    "default (easy, tide): guesses": (Policy(), "guesses"),
    "default (easy, tide): nothing": (Policy(), "nothing"),
    "easy: truth": (_EASY, "truth"),
    "easy: guesses": (_EASY, "guesses"),
    "easy: guesses and history": (_LEARNT, "guesses"),
    "easy: history": (_LEARNT, "nothing"),
    "easy: nothing": (_EASY, "nothing"),
    "easy: history, spread": (replace(_LEARNT, placement="spread"), "nothing"),
    "easy: history, tide": (replace(_LEARNT, placement="tide"), "nothing"),
    "conservative: history": (replace(_LEARNT, backfill="conservative"), "nothing"),
    "drf, easy: history": (replace(_LEARNT, fairness="drf"), "nothing"),
    "shortest: guesses": (replace(_HOLD, order="shortest", patience_ms=_LONG), "guesses"),
    "shortest, easy: guesses and history": (replace(_HISTORY, order="shortest"), "guesses"),
    "smallest, easy: guesses and history": (replace(_HISTORY, order="smallest"), "guesses"),
    "shortest, easy: history": (replace(_HISTORY, order="shortest"), "nothing"),
    "shortest, may reorder: guesses and history": (
        replace(_HISTORY, order="shortest", may_reorder=True), "guesses"
    ),
    "smallest, may reorder: guesses and history": (
        replace(_HISTORY, order="smallest", may_reorder=True), "guesses"
    ),
    "attained, may reorder": (
        replace(_HOLD, order="attained", may_reorder=True, patience_ms=_LONG), "nothing"
    ),
}  # fmt: skip


class Ended(NamedTuple):
    """Columns of the jobs that ended."""

    jct_ms: NDArray[np.int64]
    wait_ms: NDArray[np.int64]
    run_ms: NDArray[np.int64]
    gpus: NDArray[np.int64]
    team: NDArray[np.int64]


def run(every: int = 1, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every policy on every trace; of each every n-th job on an n-th of the fleet."""
    found: dict[str, Any] = {}
    for name, trace in (("philly", _philly()), ("cluster04", _cluster04())):
        rows = {
            title: row(_thinned(trace, FLEETS[name], every, told), policy)
            for title, (policy, told) in POLICIES.items()
            if not only or title in only
        }
        found[name] = {
            "jobs": len(trace.arrivals) // every, "gpus": FLEETS[name] // every,
            "policies": rows, "dominated": dominated(rows),
        }  # fmt: skip
    return found


def table(found: dict[str, Any]) -> str:
    """The same as lines of Markdown."""
    lines = []
    for name, part in found.items():
        rows = part["policies"]
        heads = list(next(iter(rows.values())))
        lines += [f"{name}: {part['jobs']:,} jobs, {part['gpus']} GPUs", ""]
        lines += ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
        lines += [
            f"| {title} | " + " | ".join(str(row[head]) for head in heads) + " |"
            for title, row in rows.items()
        ]
        lines.append("")
    return "\n".join(lines)


def row(story: Trace, policy: Policy) -> dict[str, float]:
    """One policy on one story."""
    last_ms = story.arrivals[-1].at_ms
    start = time.process_time()
    done = api.run(Twin.from_trace(story), policy, end_ms=last_ms)
    cpu_s = time.process_time() - start
    world = done.world
    jobs = _ended(world)
    slowdowns = _slowdowns(jobs)
    total = done.statement.total()
    found: dict[str, float] = {}
    for size, (least, most) in SIZES.items():
        mine = jobs.wait_ms[(jobs.gpus >= least) & (jobs.gpus <= most)] / HOUR_MS
        found[f"wait {size} GPU h"] = round(float(mine.mean()), 2)
        found[f"p99 {size} GPU h"] = round(float(np.quantile(mine, 0.99)), 1)
    return found | {
        "wait h": round(float(jobs.wait_ms.mean()) / HOUR_MS, 2),
        "p99 wait h": round(float(np.quantile(jobs.wait_ms, 0.99)) / HOUR_MS, 1),
        "JCT h": round(float(jobs.jct_ms.mean()) / HOUR_MS, 2),
        "Jain": round(float(slowdowns.sum() ** 2 / (len(slowdowns) * (slowdowns**2).sum())), 3),
        "envy": round(float(slowdowns.max() / slowdowns.min()), 1),
        "lost GPU-h": round(sum(total.of([bucket]) for bucket in LOST) / 1000 / HOUR_MS),
        "useful GPU-h": round(total.of(PRODUCTIVE) / 1000 / HOUR_MS),
        "makespan d": round(int(world.jobs.since_ms[: world.job_count].max()) / HOUR_MS / 24, 1),
        "CPU s": round(cpu_s, 1),
    }


def _ended(world: World) -> Ended:
    count, jobs = world.job_count, world.jobs
    done = np.flatnonzero(jobs.state[:count] == JobState.DONE)
    assert len(done) == count, f"{count - len(done)} jobs did not end"
    jct_ms = jobs.since_ms[done] - jobs.submit_ms[done]
    shapes = jobs.shape[done]
    return Ended(
        jct_ms, jct_ms - jobs.ran_ms[done], jobs.ran_ms[done],
        world.shapes.total_milli[shapes] // 1000, world.shapes.queue[shapes].astype(np.int64),
    )  # fmt: skip


def _slowdowns(jobs: Ended) -> NDArray[np.float64]:
    run_ms = np.maximum(jobs.run_ms, 10 * MINUTE_MS)
    each = np.maximum(1.0, jobs.jct_ms / run_ms)
    sums = np.bincount(jobs.team, each)
    counts = np.bincount(jobs.team)
    means: NDArray[np.float64] = sums[counts > 0] / counts[counts > 0]
    return means


SIGNS = {
    "wait h": 1, "p99 wait h": 1, "wait 9+ GPU h": 1, "JCT h": 1, "Jain": -1, "lost GPU-h": 1,
    "useful GPU-h": -1, "makespan d": 1,
}  # fmt: skip


def dominated(rows: dict[str, dict[str, float]]) -> dict[str, list[str]]:
    """For each policy that is dominated: by whom."""
    scores = {
        title: [sign * row[head] for head, sign in SIGNS.items()] for title, row in rows.items()
    }
    found = {
        title: [
            other
            for other, theirs in scores.items()
            if theirs != mine and all(a <= b for a, b in zip(theirs, mine, strict=True))
        ]
        for title, mine in scores.items()
    }
    return {title: by for title, by in found.items() if by}


def _philly() -> Trace:
    options = Options(accelerators=FLEETS["philly"])
    return philly.load(_at("philly", "philly.csv.gz"), options)


def _cluster04() -> Trace:
    options = Options(accelerators=FLEETS["cluster04"])
    return elasticflow.load(_at("elasticflow", "cluster04.csv"), options)


def _at(*parts: str) -> Path:
    return folder().joinpath(*parts)


def _thinned(trace: Trace, gpus: int, every: int, told: Told) -> Trace:
    """Every n-th job on an n-th of the fleet, with savings and what the scheduler is told."""
    fleet = replace(trace.contracts[0], count=gpus // every)
    luck = Random(0)
    arrivals = tuple(
        _as_asked(arrival, luck, told)
        for arrival in trace.arrivals[::every]
        if arrival.job.shape.total_milli <= fleet.count * 1000
    )
    return replace(trace, contracts=(fleet,), arrivals=arrivals)


def _as_asked(arrival: Arrival, luck: Random, told: Told) -> Arrival:
    share = max(0.02, luck.random())
    estimates_ms = {
        "guesses": round(arrival.work_ms / share), "truth": arrival.work_ms, "nothing": 0,
    }  # fmt: skip
    job = replace(
        arrival.job, estimate_ms=estimates_ms[told], restart_ms=2 * MINUTE_MS,
        checkpointing=Checkpointing(interval_ms=HOUR_MS // 2),
    )  # fmt: skip
    return arrival._replace(job=job)
