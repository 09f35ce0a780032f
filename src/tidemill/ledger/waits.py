"""Waits: how long jobs queued, how long they took in all, and how much longer than they ran.

Of a window: the jobs submitted in it, with what had happened to them by its end. Four figures each:

- *wait*: from submission to the first start, when a job is first given its accelerators: all that
  it works with, so a gang of which another scheduler has placed a part waits on;
- *total wait*: the same with every later wait after an interruption;
- *completion*: from submission to the end, whether done, failed or cancelled;
- *slowdown*: completion over the time not spent waiting, that taken as at least 10 s, and never
  below 1 (bounded slowdown: Feitelson and Rudolph, 1998). Of jobs that started and have ended.

A job waits only while it asks for accelerators, before its first start and after every attempt: not
while it is held, waits for something else, or was not asked for again yet. Time before its first
start in which it did not ask is no part of any figure, as if it had been submitted later.

Whoever has not started, or not ended, is counted with the time so far, and a figure that could be
larger for that reason says so: it is a lower bound. Quantiles are by nearest rank: the smallest
value that so many of the jobs do not exceed.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from tidemill.core.accounting.columns import NEVER, PHASE
from tidemill.ledger.account import rounded
from tidemill.model import lives, paging
from tidemill.model.columns import JOB
from tidemill.model.measures import SECOND_MS, WHOLE_MILLI
from tidemill.model.reasons import Cause
from tidemill.model.rows import Shape
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.world import World

if TYPE_CHECKING:
    from tidemill.ledger.reader import Ledger

WaitDimension = Literal["team", "user", "size", "class", "kind"]
WAIT_DIMENSIONS: tuple[WaitDimension, ...] = get_args(WaitDimension)

RULE = (
    "of jobs submitted in the window, as they stood at its end; whoever had not started or ended"
    " by then is counted with the time so far, and figures that may be larger for that are marked ≥"
)
UNKNOWN_USER = "(unknown)"
"""Jobs of which nobody said who submitted them; not the same as accelerators that nobody held."""
UNTOLD = "unknown, because nobody said when jobs were submitted"
ANY_KIND = "any"
SLOWDOWN_RUN_MS = 10 * SECOND_MS  # the usual bound: jobs of a second would outweigh all others
ONE = 1000  # slowdowns are counted in thousandths
_SHARES = (("p50", 50), ("p90", 90), ("p99", 99))


class WaitSpread(NamedTuple):
    """A figure over some jobs; ``at_least`` names the parts that are lower bounds."""

    jobs: int
    censored: int
    """How many are counted with the time so far."""
    mean: int
    p50: int
    p90: int
    p99: int
    max: int
    at_least: frozenset[str] = frozenset()

    def is_untold(self, name: str) -> bool:
        """Whether a part is only known to be no less than nothing."""
        return name in self.at_least and not getattr(self, name)


class WaitFigures(NamedTuple):
    """What became of some jobs by the end of a window, and how long it took; times in ms."""

    jobs: int
    done: int
    failed: int
    cancelled: int
    running: int
    waiting: int
    """Waiting at the end, for the first time or again."""
    never_started: int
    """Not started by the end: still waiting, or ended before."""
    held: int
    """Held at the end, or waiting for something else than GPUs: no part of any wait, but that they
    started before."""
    wait: WaitSpread | None
    """None: there are no jobs, or nobody knows when any was submitted."""
    total_wait: WaitSpread | None
    completion: WaitSpread | None
    slowdown: WaitSpread | None
    """In thousandths; None where nobody started and ended."""


class Waits(NamedTuple):
    """One row per job submitted in the window, in the order of the journal."""

    job: I64
    submit_ms: I64
    wait_ms: I64
    is_started: np.ndarray
    total_wait_ms: I64
    is_waiting: np.ndarray
    completion_ms: I64
    is_ended: np.ndarray
    outcome: I64
    """The state in which it ended; of those that did not, nothing."""
    is_held: np.ndarray
    """Whether it waits at the end for something else than GPUs, as its own scheduler says, or ended
    before it ever waited for any."""
    is_told: np.ndarray
    """Whether it is known when it was submitted; if not, it counts from its start, in no figure."""
    held_ms: I64
    """How long it held its place, all attempts together, without what lies between them."""

    def some(self, which: np.ndarray | slice) -> "Waits":
        """Some of the rows."""
        return Waits(*(column[which] for column in self))

    def figures(self) -> WaitFigures:
        """What became of them all."""
        done, failed, cancelled = (
            int(((self.outcome == state) & self.is_ended).sum())
            for state in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)
        )
        has_run, asks = self.is_ended & self.is_started & self.is_told, ~self.is_held
        told, first = asks & self.is_told, (asks | self.is_started) & self.is_told
        return WaitFigures(
            len(self.job), done, failed, cancelled,
            int((~self.is_ended & ~self.is_waiting).sum()),
            int((self.is_waiting & asks).sum()), int((~self.is_started & asks).sum()),
            int((self.is_held & self.is_waiting).sum()),
            spread(self.wait_ms[first], ~self.is_started[first]),
            spread(self.total_wait_ms[told], self.is_waiting[told]),
            spread(self.completion_ms[told], ~self.is_ended[told]),
            spread(self.slowdown(has_run), np.zeros(int(has_run.sum()), bool)),
        )  # fmt: skip

    def slowdown(self, which: np.ndarray | None = None) -> I64:
        """Bounded slowdown of jobs, or of some, in thousandths; of those that ran and ended."""
        which = np.ones(len(self.job), bool) if which is None else which
        found, end = np.empty(int(which.sum()), np.int64), 0
        for at in paging.stretches(len(self.job)):
            completion_ms = self.completion_ms[at][which[at]]
            run_ms = completion_ms - self.total_wait_ms[at][which[at]]
            first, end = end, end + len(run_ms)
            long_ms = np.maximum(SLOWDOWN_RUN_MS, run_ms)
            found[first:end] = np.maximum(ONE, completion_ms * ONE // long_ms)
        return found


def spread(values: I64, is_censored: np.ndarray) -> WaitSpread | None:
    """Mean, quantiles and maximum of integers, of which some may be larger than they seem.

    The integers are put in order where they are.
    """
    count, censored = len(values), int(is_censored.sum())
    if not count:
        return None
    least = int(values[is_censored].min()) if censored else NEVER
    mean = rounded(_sum(values), count)
    values.sort()
    ranks = {name: int(values[-(-count * percent // 100) - 1]) for name, percent in _SHARES}
    at_least = {name for name, value in ranks.items() if least <= value}
    if censored:
        at_least |= {"mean", "max"}
    p50, p90, p99 = ranks.values()
    return WaitSpread(count, censored, mean, p50, p90, p99, int(values[-1]), frozenset(at_least))


def _sum(values: I64) -> int:
    """The exact sum: a million waits of years do not fit into 64 bits."""
    parts = [values[some] for some in paging.stretches(len(values))]
    high, low = sum(int((some >> 32).sum()) for some in parts), 0xFFFF_FFFF
    return (high << 32) + sum(int((some & low).sum()) for some in parts)


def waits_of(
    ledger: "Ledger", start_ms: int, end_ms: int, *, tells_submissions: bool = True
) -> Waits:
    """The waits of a ledger's window, known up to its end.

    Made some thousand jobs at a time, so that of a long ledger no column is at hand as a whole.
    """
    count, end = ledger.world.job_count, 0
    made = Waits(*(
        paging.blank(count, is_kept=True) if kind is I64 else np.zeros(count, bool)
        for kind in Waits.__annotations__.values()
    ))  # fmt: skip
    for at in paging.stretches(count):
        some = _some_waits(ledger, at, start_ms, end_ms, tells_submissions)
        first, end = end, end + len(some.job)
        for column, part in zip(made, some, strict=True):
            column[first:end] = part
    return made.some(slice(end))


def _some_waits(
    ledger: "Ledger", at: slice, start_ms: int, end_ms: int, tells_submissions: bool
) -> Waits:
    """The same of some jobs, of which not all may have been submitted in the window."""
    jobs = ledger.world.jobs
    first, end, balance, phase, outcome, off, _, held = ledger.waited(at)
    submit, is_last = jobs.submit_ms[at], ledger.window.end_ms >= ledger.now_ms
    # the last: nothing comes after, and the end belongs to it
    mine = (phase > 0) & (submit >= start_ms) & ((submit < end_ms) | is_last)
    is_started, is_ended = first < NEVER, phase == PHASE.ENDED
    for i in np.flatnonzero(mine & is_ended & ~is_started & (outcome == JobState.CANCELLED)):
        mine[i] = not _goes_on(ledger.world, at.start + int(i), int(end[i]))
    asks, is_off = phase == PHASE.WAITING, phase == PHASE.OFF
    off += np.where(is_off & ~is_started, end_ms, 0)
    gone, asked = np.where(is_ended, end, end_ms), submit + off
    is_never = is_ended & ~is_started & (off > 0) & (gone == asked)
    return Waits(
        np.arange(at.start, at.stop), submit, np.where(is_started, first, gone) - asked,
        is_started, balance + np.where(asks, end_ms, 0), asks | is_off, gone - asked, is_ended,
        outcome, is_off | is_never, np.full(len(phase), tells_submissions),
        held + np.where(phase == PHASE.HOLDING, end_ms, 0),
    ).some(mine)  # fmt: skip


def _goes_on(world: World, j: int, end_ms: int) -> bool:
    """Whether a job that did not start has another life, submitted before this one ended.

    It is the same job, told anew since it requests something else: only its last life counts.
    """
    after = world.job_number.get(lives.following(world.job_names[j], world.job_number))
    return after is not None and world.jobs.submit_ms.item(after) <= end_ms


def is_held(world: World, jobs: I64 | slice) -> np.ndarray:
    """Of each of these jobs that wait, whether it does so for something else than GPUs now."""
    is_kept: np.ndarray = world.matrices.jobs[jobs][:, JOB.IS_HELD] != 0
    return _is_held_from_first(world, jobs) | is_kept


def _is_held_from_first(world: World, jobs: I64 | slice) -> np.ndarray:
    """Of each of these jobs, whether it was held, or waited for something else, all along."""
    shapes = world.matrices.jobs[jobs][:, JOB.SHAPE]
    found: np.ndarray = world.shapes.cause[shapes] == Cause.NOT_ELIGIBLE
    return found


def by(waits: Waits, world: World, dimension: WaitDimension) -> dict[str, WaitFigures]:
    """The figures of each group, in the order of names; sizes from small to large."""
    names, codes = _users(waits, world) if dimension == "user" else _shapes(
        waits, world, _KEYS[dimension]
    )  # fmt: skip
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(names)), side="right")
    ordered = waits.some(order)
    found = dict[str, WaitFigures]()
    for i, name in enumerate(names):
        first = int(ends[i - 1]) if i else 0
        if first < ends[i]:
            found[name[-1]] = ordered.some(slice(first, int(ends[i]))).figures()
    return found


_Name = tuple[str] | tuple[int, str]


def _users(waits: Waits, world: World) -> tuple[list[_Name], I64]:
    """The users of jobs in the order of their names, and which of them each job has."""
    told, of_jobs = world.job_names.by_user()
    names = sorted({user or UNKNOWN_USER for user in told})
    of_told = np.array([names.index(user or UNKNOWN_USER) for user in told], np.int64)
    return [(name,) for name in names], of_told[of_jobs[waits.job]]


def _shapes(waits: Waits, world: World, key: Callable[[Shape], _Name]) -> tuple[list[_Name], I64]:
    """What jobs have in common that request the same, in order, and which of it each job has."""
    keys = [key(shape) for shape in world.shape_rows]
    names = sorted(set(keys))
    number = {name: i for i, name in enumerate(names)}
    of_shape = np.array([number[k] for k in keys], np.int64)
    return names, of_shape[paging.column(world.jobs.shape, world.job_count)[waits.job]]


def size_name(milli: int) -> tuple[int, str]:
    """The size class of a request: a part of a GPU, one, then doublings."""
    if milli < WHOLE_MILLI:
        return (0, "none") if milli == 0 else (1, "below 1")
    gpus = -(-milli // WHOLE_MILLI)
    top = 1 << (gpus - 1).bit_length()
    low = top // 2 + 1
    return (1 + top, f"{top}" if low >= top else f"{low} to {top}")


def shape_kind(shape: Shape) -> str:
    """The GPU types that jobs of a shape may use, as a name."""
    kinds = {kind for role in shape.roles for kind in role.kinds}
    return " or ".join(sorted(kinds)) or ANY_KIND


_KEYS: dict[WaitDimension, Callable[[Shape], _Name]] = {
    "team": lambda shape: (shape.team,),
    "size": lambda shape: size_name(shape.total_milli),
    "class": lambda shape: (str(shape.kind),),
    "kind": lambda shape: (shape_kind(shape),),
}
