"""Attempts made fit for the books: what contradicts itself is mended or left out, and counted."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemill.live.history import by_job, fitting, gathered, telling
from tidemill.live.history.fitting import RoomShown
from tidemill.live.history.gathered import GatheredRows, Tables, WaitingTables, columns_of
from tidemill.live.history.rows import ATTEMPTS, NEVER_UP_MS, AttemptEnd
from tidemill.live.history.telling import Late, ToldJobs
from tidemill.model import lives
from tidemill.model.measures import count_text
from tidemill.model.rows import (
    LEAST_PRIORITY,
    MAX_DEVICES,
    MAX_REQUESTED,
    MOST_PRIORITY,
    Shape,
)
from tidemill.model.tables import I64

LONGEST_NAME = 200
MOST_GPUS = 1_000_000
LATEST_MS = 4_102_444_800_000
"""The year 2100: later than that is another unit, or a date that stands for "never"."""
_OF_JOBS = (
    "team", "user", "limit_ms", "priority", "cpus", "memory_mib", "node_rules", "is_eligible",
    "told_submit_ms",
)  # fmt: skip
"""What is asked of a job, by what its first attempt says."""
_OF_BOTH = ("job", "cluster", "kind", "shape", "each", "replicas")
UNNAMED_SIZE = 8
"""At most so many GPUs has each node of a fleet whose nodes nobody names."""


class Sorted(NamedTuple):
    """Attempts by job and start, and jobs in the order of their submission."""

    attempts: pl.DataFrame
    """As ``ATTEMPTS``, with ``number`` (of its job), ``attempt`` (from 1), ``is_last``, and
    ``is_told`` where the journal has its start already; of a history that is told at once without
    what is asked of jobs alone."""
    jobs: pl.DataFrame
    """One row per job that is new, by number: what the first of its attempts says of what it
    requests and whose it is, and when it was submitted."""
    notes: tuple[str, ...]
    """What was mended or left out, in words."""
    late: Late = telling.NOTHING_LATE
    """What came to light only after its time was told."""
    asking: tuple[telling.AskingJob, ...] = ()
    """Jobs that waited for something else than GPUs, or for others, and since when they ask."""
    shapes: Sequence[Shape] = ()
    """What jobs request, for those that say it by number."""
    unfit: frozenset[int] = frozenset()
    """Jobs that are larger than their node, by number: ``notes`` name them."""

    def parts(self, *names: str) -> Iterator[pl.DataFrame]:
        """The attempts, with these columns and ``number``."""
        yield self.attempts.select(*names, "number")

    def in_order(self) -> Iterator[pl.DataFrame]:
        """The jobs by number."""
        yield self.jobs

    def drop(self) -> None:
        """Nobody asks for them any more: they are not long."""

    @property
    def counts(self) -> tuple[int, int]:
        """How many attempts and jobs there are."""
        return len(self.attempts), len(self.jobs)


class SortedParts(NamedTuple):
    """The same of a history that is told at once, in parts by ranges of names.

    Jobs are in the order of names, with when each was first submitted; ``nth`` of an attempt is the
    place of its job there.
    """

    attempts: GatheredRows
    jobs: GatheredRows
    notes: tuple[str, ...]
    shapes: Sequence[Shape] = ()
    asking: tuple[telling.AskingJob, ...] = ()
    unfit: frozenset[int] = frozenset()

    def numbers(self) -> I64:
        """The number of each job, in the order of submission."""
        kinds = {"first_submit_ms": pl.Int64, "job": pl.String}
        each = self.jobs.each(*kinds, kinds=kinds)
        jobs = pl.concat([pl.DataFrame(schema=kinds), *each]).with_row_index("row")
        order = by_submission(jobs)["row"].to_numpy()
        given: I64 = np.empty(len(order), np.int64)
        given[order] = np.arange(len(order))
        return given

    def parts(self, *names: str) -> Iterator[pl.DataFrame]:
        """The attempts, with these columns and ``number``, range by range of names."""
        numbers = self.numbers()
        for part in self.attempts.each(*names, "nth"):
            number = pl.Series(numbers[part["nth"].to_numpy()])
            yield part.select(*names, number=number)

    def in_order(self) -> Iterator[pl.DataFrame]:
        """The jobs by number, some at a time."""
        numbers, first = self.numbers(), 0
        at_once = gathered.MOST_IN_MEMORY
        buckets = [WaitingTables() for _ in range(0, len(numbers), at_once)]
        for part in self.jobs:
            number = numbers[first : first + len(part)]
            first += len(part)
            told = part.with_columns(number=pl.Series(number), _bucket=pl.Series(number // at_once))
            for (b,), some in told.partition_by("_bucket", as_dict=True, include_key=False).items():
                buckets[int(b)].add(some)
        while buckets:
            yield buckets.pop(0).take().sort("number")

    def drop(self) -> None:
        """Nobody asks for them any more."""
        self.attempts.drop()
        self.jobs.drop()

    @property
    def counts(self) -> tuple[int, int]:
        """How many attempts and jobs there are."""
        return self.attempts.rows, self.jobs.rows


class Sequenced(NamedTuple):
    """All that a source told, attempt after attempt of each job; no window was cut of it yet."""

    rows: pl.DataFrame
    notes: tuple[str, ...]


def sequence(told: pl.DataFrame) -> Sequenced:
    """What of a source's rows can be, each job's in the order of time."""
    notes = Counter[str]()
    sound = _sound(_complete(told), notes, tells=tells_submissions([told]))
    return Sequenced(_sequenced(sound, notes), _said(notes))


def put_in_order(
    told: pl.DataFrame | GatheredRows,
    from_ms: int | None = None,
    until_ms: int | None = None,
    with_ups: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
    *,
    is_used_up: bool = False,
) -> SortedParts:
    """Sort what a source told; what ended before the window, or begins after it, does not count.

    What is gathered is so by ranges of names; a long table is divided into some. ``with_ups``: says
    of attempts when they came up, if somebody else knows that. ``is_used_up``: nobody needs what
    was told after this, and it is dropped on the way.
    """
    parts = _ranges(told, is_used_up=is_used_up) if isinstance(told, pl.DataFrame) else told
    window = _Window(from_ms, until_ms, tells_submissions(parts))
    attempts, jobs, notes, users = GatheredRows(), GatheredRows(), Counter[str](), list[str]()
    for part in parts:
        ordered = _in_order(part, window, notes, users)
        if with_ups is not None:
            ordered = ordered._replace(attempts=with_ups(ordered.attempts))
        nth = jobs.rows + ordered.attempts["number"]
        attempts.add(ordered.attempts.drop("number").with_columns(nth=nth))
        jobs.add(ordered.jobs)
    if isinstance(parts, GatheredRows) and is_used_up:
        parts.drop()
    return SortedParts(attempts, jobs, (*_said(notes), *_said_users(users)))


class _Window(NamedTuple):
    """Which time is looked at, and whether anybody says when jobs were submitted."""

    from_ms: int | None
    until_ms: int | None
    tells: bool


def _ranges(told: pl.DataFrame, *, is_used_up: bool) -> GatheredRows | list[pl.DataFrame]:
    """A long table by ranges of names; a short one as it is."""
    if len(told) <= gathered.AT_ONCE:
        return [told]
    slices = told.iter_slices(gathered.MOST_IN_MEMORY)
    ranges = gathered.by_range(slices, [told["job"]], len(told), "job")
    for name in told.columns if is_used_up else ():
        told.drop_in_place(name)
    found = GatheredRows()
    while ranges:
        if len(one := ranges.pop(0)):
            found.add(one.take())
    return found


def _in_order(told: pl.DataFrame, window: _Window, notes: Counter[str], users: list[str]) -> Sorted:
    """All attempts of some jobs in order; the jobs are numbered as their names come."""
    found = Counter[str]()
    sound = _sound(_complete(told), found, tells=window.tells)
    are_several = by_job.distinct(sound.select("job", "user")) > by_job.distinct(
        sound.select("job")
    )
    rows = _sequenced(sound, found)
    if are_several and rows.select((by_job.before(pl.col("user")) != pl.col("user")).any()).item():
        apart, names = _by_user(_complete(told))
        found = Counter[str]()
        rows = _sequenced(_sound(apart, found, tells=window.tells), found)
        users += names
    notes += found
    rows = _done_before(rows)
    rows = _since(_until(rows, window.until_ms, notes), window.from_ms, notes)
    ordered = _with_jobs(telling.as_new(_divided(rows)))
    return ordered._replace(attempts=ordered.attempts.drop(_OF_JOBS))


def go_on(
    told: Sequenced,
    known: ToldJobs,
    mark_ms: int,
    until_ms: int,
    with_ups: Callable[[pl.DataFrame], pl.DataFrame],
    room: RoomShown,
) -> Sorted:
    """What rows add to the jobs of a journal that was told up to the watermark.

    ``with_ups``: says of attempts when they came up, if somebody else knows that. ``room``: what
    nodes have, and for how long it is known who leaves them after what is told now.
    """
    rows = told.rows.with_columns(shown_end_ms="end_ms")  # also of the time after the window
    rows = _divided(_until(rows, until_ms, Counter()), is_going_on=True)
    shown = rows.with_columns(end_ms="shown_end_ms")
    sizes = room.sizes
    crowd = fitting.crowd([shown], sizes, known.shapes, room.brief_ms).up_to(until_ms)
    crowded = [name for name in crowd.jobs if known.find(name) is None]
    crowded += _divided_before(rows, known)
    rows = fitting.begin_later(rows, crowd.later)
    rows, shapes, _ = fitting.fit(rows, sizes, known.shapes, crowded)
    known.shapes = [*shapes]
    met = telling.meet(rows, known, mark_ms)
    is_news = pl.col("start_ms").is_not_null() & ~pl.col("is_told")
    notes = fitting.said([met.rows.filter(is_news)])
    ups = with_ups(met.rows.with_columns(end_ms="shown_end_ms"))["up_ms"]
    comes_up = (pl.col("outcome") == AttemptEnd.CHANGED) & (pl.col("up_ms") >= NEVER_UP_MS)
    rows = met.rows.drop("shown_end_ms", fitting.UNFIT).with_columns(
        up_ms=pl.when(comes_up).then("up_ms").otherwise(ups), told_submit_ms="submit_ms"
    )
    rows = rows.with_columns(
        pl.col(name).clip(mark_ms) for name in ("submit_ms", "start_ms", "up_ms", "end_ms")
    )
    ordered = _numbered(_without_nothing(rows), known.count)
    large = met.rows.filter(pl.col(fitting.UNFIT).is_not_null())["job"].to_list()
    unfit = ordered.attempts.filter(pl.col("job").is_in(large))["number"].to_list()
    return ordered._replace(
        late=met.late, asking=met.asking, shapes=shapes, notes=tuple(notes), unfit=frozenset(unfit)
    )


def _divided_before(rows: pl.DataFrame, known: ToldJobs) -> list[str]:
    """Pods of several GPUs that the journal has by GPU, for others held some at first."""
    pods = rows.select("job", "shape").drop_nulls().unique(maintain_order=True)
    each = {s: fitting.is_whole(known.shapes[s].roles[0]) for s in pods["shape"].unique().to_list()
            if fitting.is_one(known.shapes[s])}  # fmt: skip
    return [name for name, s in pods.iter_rows() if each.get(s, 0) > 1
            and (job := known.find(name)) is not None and job.each == 1]  # fmt: skip


def _without_nothing(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows without attempts of which no time is left to tell, where another begins at that moment.

    Both came to light late, and happen at the watermark: their events would stand in any order.
    """
    start, is_changed = pl.col("start_ms"), pl.col("outcome") == AttemptEnd.CHANGED
    is_over = (pl.col("end_ms") == start) & (by_job.after(start) == start)
    is_nothing = (is_over & ~is_changed & ~pl.col("is_told")).fill_null(value=False)
    attempt = pl.col("attempt") - by_job.counted(is_nothing)
    return rows.with_columns(attempt=attempt).filter(~is_nothing)


def _by_user(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Rows in which jobs of several users that have one name have several; and those names.

    A number comes again when a cluster has counted to its end, or when its accounting was begun
    anew; a name that people choose comes at any time. The first keeps it.
    """
    first_ms = pl.col("submit_ms").min().over("job", "user").fill_null(0)
    told = rows.with_columns(since=pl.struct(first_ms.alias("first_ms"), "user"))
    is_later = pl.col("since").rank("dense").over("job") > 1
    name = pl.when(is_later).then(pl.format("{}@{}", "job", "user")).otherwise("job")
    names = told.filter(is_later)["job"].unique().sort()
    return told.with_columns(job=name).drop("since"), names.to_list()


def _said_users(names: Sequence[str]) -> list[str]:
    """Names that jobs of several users have, in words."""
    if not names:
        return []
    shown = ", ".join(f"`{one}`" for one in names[:3]) + (" and more" if len(names) > 3 else "")
    words = f"several users have jobs called {shown}: the first keeps the name, others are"
    return [f"{words} `{names[0]}@USER` on the books"]


def _done_before(rows: pl.DataFrame) -> pl.DataFrame:
    """Sequenced rows; what was submitted after its job was done is another job: `123#2`.

    It did not wait in between. One that failed or was stopped may have been tried again.
    """
    was_done = by_job.before(pl.col("outcome")) == AttemptEnd.DONE
    is_new = was_done & (pl.col("submit_ms") > by_job.before(pl.col("end_ms")))
    rows = rows.with_columns(is_new=is_new.fill_null(value=False))
    if not rows["is_new"].any():
        return rows.drop("is_new")
    life = by_job.counted(pl.col("is_new")) + 1
    return rows.with_columns(
        is_last=pl.col("is_last") | by_job.after(pl.col("is_new")).fill_null(value=False),
        job=_lived(pl.col("job"), life),
    ).drop("is_new")


def tells_submissions(told: Tables) -> bool:
    """Whether a source says when jobs were submitted; if not, they count from their start on."""
    each = columns_of(told, "submit_ms")
    return any(not part["submit_ms"].is_null().all() for part in each)


def _sound(rows: pl.DataFrame, notes: Counter[str], *, tells: bool) -> pl.DataFrame:
    """Rows that can be: with GPUs and times in their order.

    ``tells``: whether the source says when jobs were submitted.
    """
    rows = _keep(rows, pl.col("gpus").is_not_null(), notes, "nobody says whether it had GPUs")
    rows = _keep(rows, pl.col("gpus") != 0, notes, "requested no GPU")
    most = f"not 1 to {MOST_GPUS:,} GPUs"
    rows = _keep(rows, pl.col("gpus").is_between(1, MOST_GPUS), notes, most)
    last_ms = pl.max_horizontal("submit_ms", "start_ms", "end_ms")
    rows = _keep(rows, last_ms.fill_null(0) <= LATEST_MS, notes, "has a time after the year 2100")
    if not tells:
        rows = rows.with_columns(submit_ms="start_ms")
    unsaid = "nothing says when it was submitted" if tells else "nothing says when it started"
    rows = _keep(rows, pl.col("submit_ms").is_not_null(), notes, unsaid)
    whole = pl.col("start_ms").is_null() | pl.col("end_ms").is_null()
    rows = _keep(
        rows, whole | (pl.col("end_ms") >= pl.col("start_ms")), notes, "ended before it started"
    )
    is_later = pl.col("start_ms").is_not_null() | pl.col("end_ms").is_null()
    is_later |= pl.col("end_ms") >= pl.col("submit_ms")
    rows = _keep(rows, is_later, notes, "ended before it was submitted")
    is_over = ~pl.col("outcome").is_in([AttemptEnd.WAITING, AttemptEnd.RUNNING])
    rows = _keep(
        rows, pl.col("end_ms").is_not_null() | ~is_over, notes, "nobody knows when it ended"
    )
    times = rows.select("job", "submit_ms", "start_ms", "end_ms")
    if by_job.distinct(times) < len(rows):
        rows = rows.unique(maintain_order=True)
    early = rows.select((pl.col("start_ms") < pl.col("submit_ms")).sum()).item() or 0
    if early:
        notes["started before submission: taken as submitted then"] += early
    return rows.with_columns(submit_ms=pl.min_horizontal("submit_ms", "start_ms"))


def _sequenced(rows: pl.DataFrame, notes: Counter[str]) -> pl.DataFrame:
    """The attempts of each job one after the other, each over when the next begins.

    Which is the last is said by all that is known, also of the time after a window: a job whose
    next attempt is yet to come waits. ``rows`` are used up.
    """
    keys = ("job", "start_ms", "submit_ms", "end_ms")
    told = rows.select(*keys).with_row_index("row")
    last = [True, True, True, False]  # what still ran is older than what ended since
    told = told.sort(*keys, nulls_last=last, maintain_order=True)
    rows = by_job.taken(rows, told["row"])
    start = pl.col("start_ms")
    is_same, is_nothing = by_job.after(start) == start, pl.col("end_ms") == start
    is_empty, again = is_same & is_nothing, "another that started in the same moment ended later"
    rows = _keep(rows, ~is_empty.fill_null(value=False), notes, "no time passed in it")
    rows = _keep(rows, ~is_same.fill_null(value=False), notes, again)
    rows = rows.with_columns(is_last=by_job.is_last(), next_ms=by_job.after(start))
    late = pl.col("next_ms").is_not_null() & (
        pl.col("end_ms").is_null() | (pl.col("end_ms") > pl.col("next_ms"))
    )
    if overlaps := rows.select(late.sum()).item():
        notes["not over when the next of the job starts: ended there"] += overlaps
    is_rest = start.is_null() & pl.col("end_ms").is_not_null()
    ran_ms = pl.when(start.is_not_null()).then("end_ms").max().over("job")
    return rows.with_columns(
        end_ms=pl.when(late)
        .then(pl.col("next_ms"))
        .when(is_rest)  # what never began ends no earlier than what ran
        .then(pl.max_horizontal("end_ms", ran_ms))
        .otherwise(pl.col("end_ms")),
        outcome=pl.when(late & (pl.col("outcome") == AttemptEnd.RUNNING))
        .then(pl.lit(AttemptEnd.REQUEUED))
        .otherwise(pl.col("outcome")),
    ).drop("next_ms")


def _until(rows: pl.DataFrame, until_ms: int | None, notes: Counter[str]) -> pl.DataFrame:
    """What of a history is known at the end of the window; what goes on beyond waits or runs."""
    if until_ms is not None:
        rows = _keep(rows, pl.col("submit_ms") <= until_ms, notes, "submitted after the window")
        is_later = pl.col("end_ms").fill_null(until_ms + 1) > until_ms
        has_begun = (pl.col("start_ms") <= until_ms).fill_null(value=False)
        now = (
            pl.when(has_begun)
            .then(pl.lit(AttemptEnd.RUNNING))
            .otherwise(pl.lit(AttemptEnd.WAITING))
        )
        rows = _needed_next(rows, has_begun)
        rows = rows.with_columns(
            outcome=pl.when(is_later).then(now).otherwise(pl.col("outcome")),
            start_ms=pl.when(has_begun).then(pl.col("start_ms")),
            end_ms=pl.when(~is_later).then(pl.col("end_ms")),
        )
    is_known = by_job.is_last() | pl.col("start_ms").is_not_null()
    return _only(rows, is_known).with_columns(up_ms=_up_ms())


def _needed_next(rows: pl.DataFrame, has_begun: pl.Expr) -> pl.DataFrame:
    """Rows of which those that have not begun say what their job asks for first."""
    if rows["needed"].is_null().all():
        return rows
    is_next = ~has_begun & by_job.before(has_begun).fill_null(value=True)
    first = pl.when(is_next).then("needed").forward_fill().over("job")
    return rows.with_columns(needed=pl.when(has_begun).then("needed").otherwise(first))


def _up_ms() -> pl.Expr:
    """Since when an attempt works: not before it holds its GPUs, and before it has ended.

    What was done was at work, whoever says that it never was.
    """
    up = pl.max_horizontal("start_ms", "up_ms")
    last = pl.max_horizontal(pl.col("start_ms"), pl.col("end_ms") - 1)
    is_never = up >= NEVER_UP_MS
    known = (
        pl.when(is_never & (pl.col("outcome") == AttemptEnd.DONE))
        .then("start_ms")
        .when(is_never | pl.col("end_ms").is_null())
        .then(up)
        .otherwise(pl.min_horizontal(up, last))
    )
    return pl.when(pl.col("start_ms").is_not_null()).then(known)  # else it never held any


def _since(rows: pl.DataFrame, from_ms: int | None, notes: Counter[str]) -> pl.DataFrame:
    """What of a history is known from the beginning of the window on.

    When an attempt was really submitted is in ``told_submit_ms``.
    """
    rows = rows.with_columns(told_submit_ms="submit_ms")
    if from_ms is None:
        return rows
    is_inside = pl.col("end_ms").is_null() | (pl.col("end_ms") > from_ms)
    rows = _keep(rows, is_inside, notes, "ended before the window")
    if early := rows.select((pl.col("submit_ms") < from_ms).sum()).item():
        notes["submitted before the window: in no wait of the ledger"] += early
    return rows.with_columns(
        pl.col(name).clip(from_ms) for name in ("submit_ms", "start_ms", "up_ms")
    )


def _complete(told: pl.DataFrame) -> pl.DataFrame:
    """All columns, with their types; those that a source does not know are null."""
    missing = [name for name in ("job", "submit_ms", "gpus") if name not in told.columns]
    assert not missing, f"a source must tell {missing}"
    rows = told.select(
        (pl.col(name) if name in told.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in ATTEMPTS.items()
    )
    started = pl.col("start_ms").is_not_null()
    guess = (
        pl.when(pl.col("end_ms").is_not_null())
        .then(
            pl.when(started).then(pl.lit(AttemptEnd.DONE)).otherwise(pl.lit(AttemptEnd.CANCELLED))
        )
        .otherwise(
            pl.when(started).then(pl.lit(AttemptEnd.RUNNING)).otherwise(pl.lit(AttemptEnd.WAITING))
        )
    )
    return rows.with_columns(
        outcome=pl.coalesce("outcome", guess),
        team=pl.coalesce("team", pl.lit("unknown")).str.slice(0, LONGEST_NAME),
        user=pl.coalesce("user", pl.lit("")).str.slice(0, LONGEST_NAME),
        gpu_type=pl.coalesce("gpu_type", pl.lit("")),
        job=_lived(pl.col("job").str.slice(0, LONGEST_NAME), pl.col("life")),
        limit_ms=pl.coalesce("limit_ms", 0).clip(0),
        priority=pl.coalesce("priority", 0).clip(LEAST_PRIORITY, MOST_PRIORITY),
        cpus=pl.coalesce("cpus", 0),
        is_eligible=pl.coalesce("is_eligible", pl.lit(value=True)),
        memory_mib=pl.coalesce("memory_mib", 0),
    ).drop("life")


def _lived(name: pl.Expr, life: pl.Expr) -> pl.Expr:
    """What one of several jobs is called that had a name after each other."""
    later = pl.format(f"{{}}{lives.LIFE}{{}}", name, life)
    return pl.when(life > 1).then(later).otherwise(name)


def _said(notes: Counter[str]) -> tuple[str, ...]:
    """What was mended or left out, in words."""
    return tuple(f"{count_text(count, 'attempt')} {text}" for text, count in notes.items())


def _keep(rows: pl.DataFrame, wanted: pl.Expr, notes: Counter[str], why: str) -> pl.DataFrame:
    kept = _only(rows, wanted)
    if left := len(rows) - len(kept):
        notes[f"left out: {why}"] += left
    return kept


def _only(rows: pl.DataFrame, wanted: pl.Expr) -> pl.DataFrame:
    """The rows of which this is so: no others, if it is so of all, as nearly always."""
    is_so = rows.select(is_so=wanted)["is_so"].fill_null(value=False)
    return rows if is_so.all() else rows.filter(is_so)


def _with_jobs(rows: pl.DataFrame) -> Sorted:
    """Attempts with the number of their job among those that have none yet, in their order."""
    is_new = rows["number"].is_null().to_numpy()
    fresh = _only(rows, pl.col("number").is_null())
    is_first = fresh.select(is_first=by_job.is_first())["is_first"].to_numpy()
    firsts = np.flatnonzero(is_first)
    submits = fresh["submit_ms"].to_numpy()
    submits = np.minimum.reduceat(submits, firsts) if len(firsts) else submits
    jobs = fresh.select(*_OF_BOTH, *_OF_JOBS).filter(is_first)
    jobs = jobs.with_columns(first_submit_ms=pl.Series(submits, dtype=pl.Int64))
    number: I64 = rows["number"].fill_null(0).to_numpy().copy()
    number[is_new] = np.cumsum(is_first) - 1
    return Sorted(rows.with_columns(number=pl.Series(number)), jobs, ())


def by_submission(jobs: pl.DataFrame) -> pl.DataFrame:
    """Jobs in the order of submission; those of one moment by their numbers, as `7_2` before
    `7_10`, where their names have some.
    """
    name = pl.when(pl.col("first_submit_ms").is_duplicated()).then("job")
    word = r"(?:.*/)?\D*"
    numbers = [
        name.str.extract(f"^{word}{before}(\\d{{1,18}})").cast(pl.Int64)
        for before in ("", r"\d+\D+")
    ]
    return jobs.sort("first_submit_ms", name.str.extract(f"^({word})"), *numbers, "job")


def _numbered(rows: pl.DataFrame, first: int) -> Sorted:
    """Numbers for jobs that have none yet, in the order of submission, from the first free one."""
    is_new = rows["number"].is_null()
    ordered = _with_jobs(rows)
    told = ordered.jobs.select("first_submit_ms", "job").with_row_index("row")
    order = by_submission(told)["row"]
    given: I64 = np.empty(len(order), np.int64)
    given[order.to_numpy()] = first + np.arange(len(order))
    number = ordered.attempts["number"].to_numpy().copy()
    number[is_new.to_numpy()] = given[number[is_new.to_numpy()]]
    jobs = by_job.taken(ordered.jobs, order)
    jobs = jobs.with_columns(number=first + pl.int_range(pl.len(), dtype=pl.Int64))
    return Sorted(ordered.attempts.with_columns(number=pl.Series(number)), jobs, ())


def _divided(rows: pl.DataFrame, *, is_going_on: bool = False) -> pl.DataFrame:
    """How many replicas of how many GPUs each attempt is: one per node, where that comes out.

    Where nobody said on which nodes an attempt ran, each of its GPUs is by itself; so too where it
    waits and may be spread over nodes, or is yet to be placed (``is_going_on``), unless it asked
    for so many on each node. All attempts of a job are divided alike, for it is one job.
    """
    nodes = pl.max_horizontal(
        pl.col("nodes").list.len().cast(pl.Int64).fill_null(0), pl.col("node_count").fill_null(0)
    )
    waits = pl.col("start_ms").is_null()
    is_per_node = pl.col("is_per_node").fill_null(value=not is_going_on)
    waits &= is_per_node | pl.col("end_ms").is_not_null()
    is_somewhere = waits | (pl.col("nodes").list.len().fill_null(0) > 0)
    is_even = is_somewhere & (nodes > 0) & (pl.col("gpus") % nodes.clip(1) == 0)
    most = pl.when(pl.col("start_ms").is_null()).then(MAX_REQUESTED).otherwise(MAX_DEVICES)
    is_even &= pl.col("gpus") // nodes.clip(1) <= most
    kinds = {kind: kind_of(kind) for kind in rows["gpu_type"].unique().to_list() if kind}
    rows = rows.with_columns(
        each=pl.when(is_even).then(pl.col("gpus") // nodes.clip(1)).otherwise(1),
        kind=pl.col("gpu_type").replace(kinds),
    )
    is_other = (by_job.before(pl.col("each")) != pl.col("each")).fill_null(value=False)
    uneven = rows.filter(is_other)["job"].unique()
    rows = rows.with_columns(
        each=pl.when(pl.col("job").is_in(uneven.implode())).then(1).otherwise("each")
    )
    return rows.with_columns(replicas=pl.col("gpus") // pl.col("each"))


UNTYPED = "GPU"
"""What the books call the type of GPUs that nobody named."""


def kind_of(gpu_type: str) -> str:
    """What the books call a GPU type; one that nobody named is just a GPU."""
    return gpu_type.strip().upper() or UNTYPED
