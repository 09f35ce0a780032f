"""What a journal already tells of jobs, and what a source's rows add to it.

A source that is asked again and again shows the same attempts again and again. The journal is told
up to a moment, the watermark: what rows say of the time before it was told, or comes too late. What
comes too late is taken *at* the watermark (it cannot be written into the past), and counted:
nothing is told twice, and no hour is booked that was booked otherwise.

The placement of a gang may change while it holds something (decision 0037): then an attempt has
several rows, each of which but the last goes on in the next.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
from msgspec.structs import replace

from tidemill.live.history import by_job
from tidemill.live.history.rows import NEVER_UP_MS, AttemptEnd, held_name
from tidemill.model.columns import JOB
from tidemill.model.lives import next_life, origin, present
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.node_rules import Pair
from tidemill.model.reasons import Cause
from tidemill.model.rows import SELECTED, UNKEPT, Role, Shape
from tidemill.model.states import ACTIVE, JobState
from tidemill.model.world import World

__all__ = ["Late", "Met", "ToldJobs", "meet", "next_life", "origin", "present"]


class Late(NamedTuple):
    """What came to light after its time was told, and what was made of it."""

    submissions: int = 0
    """Jobs that were submitted before the watermark: they wait from it on."""
    starts: int = 0
    """Attempts that began before the watermark: taken as begun then."""
    ends: int = 0
    """Attempts that ended before the watermark: taken as ended then."""
    gpu_ms: int = 0
    """GPU-milliseconds that late starts and ends put wrong."""
    corrected: int = 0
    """Attempts that are told to have begun at another time than before: the first word stands."""
    unseen: int = 0
    """Jobs that no row tells of any more: taken as over since the watermark."""
    again: int = 0
    """Jobs that were told to be over and go on: they have another life, under another name."""
    changes: int = 0
    """Attempts that hold something else since before the watermark: taken as changed then."""

    def plus(self, other: "Late") -> "Late":
        """Both together."""
        return Late(*(a + b for a, b in zip(self, other, strict=True)))

    def words(self) -> list[str]:
        """What to say of it; nothing where nothing was late."""
        said = {
            "job, submitted before the watermark: waiting from it on": self.submissions,
            "attempt, begun before the watermark: taken as begun at it": self.starts,
            "attempt, ended before the watermark: taken as ended at it": self.ends,
            "attempt, told to have begun at another time: what was told stands": self.corrected,
            "job, that the source shows no more: taken as over": self.unseen,
            "job, told to be over and going on: booked under another name": self.again,
            "attempt, on other nodes before the watermark: changed at it": self.changes,
        }
        found = [
            f"{count:,} {text.replace(',', 's' * (count != 1), 1)}"
            for text, count in said.items()
            if count
        ]
        if self.gpu_ms:
            found.append(f"{self.gpu_ms / 3_600_000:.2f} GPU-hours lie before the watermark")
        return found


NOTHING_LATE = Late()


class ToldJob(NamedTuple):
    """One job as the journal has it, in its present life."""

    number: int
    name: str
    attempt: int
    """How many attempts were told."""
    is_active: bool
    is_up: bool
    """Whether it works on what it holds."""
    is_over: bool
    is_held: bool
    """Whether it was told to wait for something else than GPUs since it was submitted."""
    is_kept: bool
    """Whether it waits so now, and asked for GPUs before."""
    start_ms: int
    """Of its last attempt."""
    since_ms: int
    """When it was last told to begin to wait, to run, or to be over."""
    each: int
    """GPUs of each of its replicas."""
    shape: int
    """What it requests, by number in the cluster state."""


class ToldJobs:
    """The jobs of a cluster state; times since 1970.

    ``shown``: the names of all jobs that are not over; None: others may not be over either.
    ``shapes``: what jobs request, for rows that say it by number. ``silent``: of jobs whose names
    begin like this nothing is said but what is shown.
    """

    def __init__(
        self,
        world: World,
        begins_ms: int,
        shown: frozenset[str] | None = None,
        shapes: Sequence[Shape] = (),
        silent: tuple[str, ...] = (),
    ) -> None:
        self._world, self.begins_ms, self._shown, self._silent = world, begins_ms, shown, silent
        self._told_shapes, self.shapes = len(shapes), [*shapes, *world.shape_rows]

    @property
    def names(self) -> Mapping[str, int]:
        """Every job, and every life of it, by name."""
        return self._world.job_number

    @property
    def count(self) -> int:
        """How many jobs were told."""
        return self._world.job_count

    def find(self, name: str) -> ToldJob | None:
        """A job by the name that the source has for it."""
        life = present(name, self.names)
        return None if life is None else self.row(self.names[life])

    def row(self, j: int) -> ToldJob:
        """A job by its number."""
        world, jobs = self._world, self._world.jobs
        state, s = JobState(jobs.state.item(j)), jobs.shape.item(j)
        is_active = state in ACTIVE
        return ToldJob(
            j, world.job_names[j], jobs.attempt.item(j), is_active,
            state is JobState.RUNNING, not is_active and state is not JobState.WAITING,
            world.shapes.cause.item(s) == Cause.NOT_ELIGIBLE,
            world.matrices.jobs.item(j, JOB.IS_HELD) != 0,
            self.begins_ms + jobs.placed_ms.item(j), self.begins_ms + jobs.since_ms.item(j),
            world.shape_rows[s].roles[0].accelerators, s,
        )  # fmt: skip

    def holds(self, job: ToldJob) -> bool:
        """Whether a job that runs was told to hold anything: others may have all of it."""
        return bool(self._world.placements[job.number])

    def in_told_roles(self, job: ToldJob, row: dict[str, Any]) -> dict[str, Any] | None:
        """A row by the roles that its job was told to have; None: it has others."""
        shown, told = self.shapes[row["shape"]].roles, self._world.shape_rows[job.shape].roles
        other = held_name(job.name)
        is_marked = any(roles[0].name.startswith(UNKEPT) for roles in (shown, told))
        if (
            is_marked or len(shown) == len(told) == 1
        ):  # its owner, or rules, may be known only later
            other = told[0].name
        found = [_role_among(told, role, other if r == 0 else role.name)
                 for r, role in enumerate(shown)]  # fmt: skip
        if None in found:
            return None
        roles = None if row["roles"] is None else [found[r] for r in row["roles"]]
        return row | {"shape": self._told_shapes + job.shape, "roles": roles}

    def may_change(
        self, job: ToldJob, rows: Sequence[dict[str, Any]], *, is_let_in: bool
    ) -> bool:  # fmt: skip
        """Whether a job waits, and rows differ from what it was told by each replica alone.

        ``is_let_in``: whether one that was held is not any more.
        """
        if job.is_active or job.is_over or ((job.is_held or job.is_kept) and not is_let_in):
            return False
        told = self._world.shape_rows[job.shape]
        shown = [self.shapes[s] for s in {row["shape"] for row in rows}]
        return len(shown) == 1 == len(told.roles) and _is_other_by_size(told, shown[0])

    def asks_anew(self, job: ToldJob, row: dict[str, Any]) -> Shape | None:
        """What a job that waits requests now that devices which it selects (DRA) have come, or are
        gone; None: the same as it was told.
        """
        told, shown = self._world.shape_rows[job.shape], self.shapes[row["shape"]]
        if job.is_active or job.is_over or not len(told.roles) == len(shown.roles) == 1:
            return None
        one, other = told.roles[0], shown.roles[0]
        if [key for key, _ in one.labels if SELECTED in key] == [
            key for key, _ in other.labels if SELECTED in key
        ]:
            return None
        return replace(told, roles=(replace(one, labels=other.labels, kinds=other.kinds),))

    def roles_of(self, job: ToldJob) -> Sequence[Role]:
        """The roles that a job was told to have."""
        return self._world.shape_rows[job.shape].roles

    def apart_milli(self, job: ToldJob, row: dict[str, Any]) -> int:
        """How much a job is told to hold, and does not by a row in its told roles, or inversely."""
        world, roles = self._world, self._world.shape_rows[job.shape].roles
        apart = Counter[tuple[int, str]](zip(row["roles"] or (), row["nodes"] or (), strict=True))
        for piece in world.placements[job.number]:
            name = origin(world.node_rows[piece.node].name, world.node_number)
            apart[piece.role, name] -= piece.replicas
        milli = [count * roles[r].replica_milli for (r, _), count in apart.items()]
        over_milli = world.matrices.jobs.item(job.number, JOB.OVER_MILLI)
        if sum(milli) == over_milli and min(milli, default=0) >= 0:
            return 0  # what others hold was not booked
        return sum(map(abs, milli))

    def missing(self) -> list[int]:
        """The jobs that wait or run by the journal, and that the source does not show."""
        if self._shown is None:
            return []
        world, names = self._world, self._world.job_names
        unfinished = sorted([*world.placements, *(j for line in world.waiting for j in line)])
        return [
            j for j in unfinished
            if origin(names[j], self.names) not in self._shown
            and not names[j].startswith(self._silent)
        ]  # fmt: skip


def _is_other_by_size(told: Shape, shown: Shape) -> bool:
    """Whether two requests are for as many replicas of a team, which are larger or smaller."""
    alike = [(one.team, one.kind, len(one.roles), one.roles[0].count) for one in (told, shown)]
    return alike[0] == alike[1]


def _beside(role: Role) -> tuple[int, int, tuple[Pair, ...]]:
    """What a role requests that does not tell it from others."""
    return role.cpu_milli, role.memory_mib, role.tolerates


def _role_among(told: Sequence[Role], role: Role, also: str) -> int | None:
    """The number of a role among those that were told; None: there is none like it.

    ``also``: a name that it may have been told by, such as that of a job that was held at first.
    """
    for r, other in enumerate(told):
        is_named = other.name in (role.name, also)
        if is_named and (other.accelerators, other.milli, other.profile) == (
            role.accelerators, role.milli, role.profile
        ):  # fmt: skip
            return r
    return None


class AskingJob(NamedTuple):
    """A job that is known asks for GPUs from a moment on, or for others."""

    number: int
    at_ms: int
    shape: Shape | None = None
    """What it requests from then on; None: as before, and it waited for something else."""


class Met(NamedTuple):
    """The rows that are news, with the number of their job where it has one."""

    rows: pl.DataFrame
    late: Late
    asking: tuple[AskingJob, ...]


_IS_CHANGED = pl.col("outcome") == AttemptEnd.CHANGED


def settled(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows, by job and start, of which those that go on in the next do so: else they ended."""
    follows = (by_job.after(pl.col("start_ms")) == pl.col("end_ms")).fill_null(value=False)
    lost = pl.when(_IS_CHANGED & ~follows).then(pl.lit(AttemptEnd.REQUEUED)).otherwise("outcome")
    return rows.with_columns(outcome=lost)


def as_new(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of which nothing was told.

    What goes on from a row that was never at work is still the same attempt: it comes up.
    """
    rows = settled(rows)
    comes_up = by_job.before(_IS_CHANGED & (pl.col("up_ms") >= NEVER_UP_MS))
    return rows.with_columns(
        number=pl.lit(None, dtype=pl.Int64),
        attempt=by_job.counted(~comes_up.fill_null(value=False)),
        is_told=pl.lit(value=False),
        is_up_told=pl.lit(value=False),
    )


def meet(rows: pl.DataFrame, known: ToldJobs, mark_ms: int) -> Met:
    """What rows add to a journal that was told up to the watermark; by job and attempt.

    Their times are those that the source tells: what lies before the watermark happens at it.
    """
    rows = settled(rows)
    told = {name: job for name in rows["job"].unique().to_list() if (job := known.find(name))}
    is_known = pl.col("job").is_in(list(told))
    is_past = (pl.col("end_ms") <= known.begins_ms).fill_null(value=False)
    fresh = rows.filter(~is_known & ~is_past)
    is_over = (pl.col("end_ms") <= mark_ms).fill_null(value=False) & _IS_CHANGED
    lost_ms = ((pl.col("end_ms") - pl.col("start_ms")) * pl.col("gpus")).filter(is_over).sum()
    late = Late(gpu_ms=fresh.select(lost_ms).item())
    fresh = as_new(fresh.filter(~is_over))
    meeting = _Meeting(known, mark_ms)
    meeting.late = late
    rows_of = dict[str, list[dict[str, Any]]]()
    for row in rows.filter(is_known).iter_rows(named=True):
        rows_of.setdefault(row["job"], []).append(row)
    for name, some in rows_of.items():
        meeting.job(told[name], some)
    meeting.missing(known.missing())
    columns = {name: [row.get(name) for row in meeting.found] for name in fresh.columns}
    known_rows = pl.DataFrame(columns, schema=fresh.schema)
    both = pl.concat([fresh, known_rows]) if meeting.found else fresh
    late = meeting.late
    if mark_ms > known.begins_ms:
        late = late.plus(_lateness(both, mark_ms))
    return Met(both.sort("job", "attempt", maintain_order=True), late, tuple(meeting.asking))


def _lateness(rows: pl.DataFrame, mark_ms: int) -> Late:
    """How many of these attempts begin or end before the watermark."""
    begun = (pl.col("start_ms") <= mark_ms).fill_null(value=False) & ~pl.col("is_told")
    ended = (pl.col("end_ms") <= mark_ms).fill_null(value=False) & (pl.col("gpus") > 0)
    is_new = pl.col("number").is_null() & pl.col("job").is_first_distinct() & ~begun
    submissions, starts, ends, wrong, over = rows.select(
        submissions=((pl.col("submit_ms") <= mark_ms) & is_new).sum(),
        starts=begun.sum(),
        ends=ended.sum(),
        wrong=((mark_ms - pl.col("start_ms")) * pl.col("gpus")).filter(begun).sum(),
        over=((mark_ms - pl.col("end_ms")) * pl.col("gpus")).filter(ended).sum(),
    ).row(0)
    return Late(submissions, starts, ends, gpu_ms=(wrong or 0) + (over or 0))


class _Meeting:
    """Rows of jobs that the journal knows, one job after the other."""

    def __init__(self, known: ToldJobs, mark_ms: int) -> None:
        self._known, self._mark_ms = known, mark_ms
        self.found: list[dict[str, Any]] = []
        self.asking: list[AskingJob] = []
        self.late = NOTHING_LATE

    def job(self, job: ToldJob, rows: Sequence[dict[str, Any]]) -> None:
        """What these rows, by start, add to a job."""
        begun = [row for row in rows if row["start_ms"] is not None]
        rest = rows[-1] if rows[-1]["start_ms"] is None else None
        if (job.is_held or job.is_kept) and not job.is_over and self._asks(rows[-1]):
            at_ms = max(self._mark_ms, rows[-1]["submit_ms"])
            self.asking.append(AskingJob(job.number, at_ms))
        if rows[-1]["shape"] is not None and not job.is_over:
            self._gang(job, begun, rest)
            return
        attempt = job.attempt + 1
        if job.is_active:
            held = self._held(job, begun)
            if held is None:
                self._unseen(job, is_last=rest is None)
            else:
                if _comes_up(held) and self._known.holds(job):
                    told = (row for row in begun[begun.index(held) + 1 :]
                            if row["start_ms"] <= self._mark_ms)  # fmt: skip
                    held = next(told, held)
                self._add(job, held, attempt=job.attempt, is_told=True)
                attempt -= _comes_up(held) and not job.is_up
            fresh = begun[begun.index(held) + 1 :] if held else []
        else:
            fresh = [row for row in begun if not self._was_told(job, row)]
        self._go_on(job, fresh, rest, attempt)

    def _asks(self, row: dict[str, Any]) -> bool:
        """Whether a row is of a job that waits for GPUs, or did since the watermark.

        One that ended and never began says nothing of what it waited for until then.
        """
        if row["start_ms"] is None:
            is_over = row["shown_end_ms"] is not None  # perhaps after what is told now
            is_taken_back = is_over and row["submit_ms"] <= self._mark_ms
            if is_taken_back or row["reason_cause"] == Cause.NOT_ELIGIBLE:
                return False
        return bool(row["is_eligible"])

    def _gang(
        self, job: ToldJob, begun: Sequence[dict[str, Any]], rest: dict[str, Any] | None
    ) -> None:
        """What rows of a job that says what it requests by number add to it."""
        told = [self._known.in_told_roles(job, row) for row in (*begun, *([rest] if rest else ()))]
        rows = [row for row in told if row is not None]
        if len(rows) < len(told) or self._has_other_host(job, begun, rest):
            self._in_other_roles(job, [*begun, *([rest] if rest else ())])
            return
        if rest is not None and (shape := self._known.asks_anew(job, rest)) is not None:
            self.asking.append(AskingJob(job.number, self._mark_ms, shape))
        begun, rest = rows[: len(begun)], rows[-1] if rest else None
        if not job.is_active:
            fresh = [row for row in begun if not self._was_told(job, row)]
            self._go_on(job, fresh, rest, job.attempt + 1)
            return
        i = self._reached(job, begun)
        if i is None:
            fresh = [row for row in begun if row["start_ms"] > self._mark_ms]
            self._unseen(job, is_last=not fresh and rest is None)
            self._go_on(job, fresh, rest, job.attempt + 1)
            return
        attempt, row = job.attempt, begun[i]
        apart_milli = self._known.apart_milli(job, row)
        if apart_milli and not self._is_past(row):
            self._change(job, apart_milli, row["start_ms"])
            attempt += job.is_up
            row = row | {"start_ms": self._mark_ms}
            self._add(job, row, attempt=attempt)
        else:
            self._add(job, row, attempt=attempt, is_told=True)
        stays = _comes_up(row) and not (job.is_up and attempt == job.attempt)
        self._go_on(job, begun[i + 1 :], rest, attempt + (not stays))

    def _has_other_host(
        self, job: ToldJob, begun: Sequence[dict[str, Any]], rest: dict[str, Any] | None
    ) -> bool:
        """Whether a job that waits requests other CPUs, memory or tolerations: pods that were made
        of its template say so (admission wrote it into them).
        """
        present = [row for row in (*begun, *([rest] if rest else ())) if not self._is_past(row)]
        if not present or not self._may_change(job, present):
            return False
        told, shown = self._known.roles_of(job), self._known.shapes[present[-1]["shape"]].roles
        return _beside(told[0]) != _beside(shown[0])

    def _may_change(self, job: ToldJob, rows: Sequence[dict[str, Any]]) -> bool:
        is_let_in = bool(self.asking) and self.asking[-1].number == job.number
        return self._known.may_change(job, rows, is_let_in=is_let_in)

    def _reached(self, job: ToldJob, begun: Sequence[dict[str, Any]]) -> int | None:
        """The row in which the attempt that the journal has as running is at the watermark."""
        i = max(0, sum(row["start_ms"] <= job.start_ms for row in begun) - 1)
        while i < len(begun) and begun[i]["start_ms"] <= self._mark_ms:
            row = begun[i]
            was_before = row["end_ms"] is not None and row["end_ms"] <= job.start_ms
            if not was_before and not (row["outcome"] == AttemptEnd.CHANGED and self._is_past(row)):
                return i
            i += 1
        return None

    def _change(self, job: ToldJob, apart_milli: int, since_ms: int) -> None:
        """What a job holds by the journal is not what it holds: that ends, and the job goes on."""
        wrong_ms = apart_milli * (self._mark_ms - since_ms) // WHOLE_MILLI
        # the row that follows begins at the watermark, and is no late start
        self.late = self.late.plus(Late(starts=-1, changes=1, gpu_ms=wrong_ms))
        self._end(job, self._mark_ms, AttemptEnd.CHANGED, is_last=False)

    def _in_other_roles(self, job: ToldJob, rows: Sequence[dict[str, Any]]) -> None:
        """A job that requests something else than it was told to: another one begins.

        One that still waits only requests something else from then on.
        """
        present = [row for row in rows if not self._is_past(row)]
        if present and self._may_change(job, present):
            first, shape = present[0], self._known.shapes[present[-1]["shape"]]
            at_ms = max(self._mark_ms, first["start_ms"] or self._mark_ms)
            self.asking.append(AskingJob(job.number, at_ms, shape))
            begun = [row for row in present if row["start_ms"] is not None]
            rest = present[-1] if present[-1]["start_ms"] is None else None
            self._go_on(job, begun, rest, job.attempt + 1)
        elif present:
            self._retell(job, present)
        elif job.is_active:
            self._add(job, rows[-1], attempt=job.attempt, is_told=True)

    def _is_past(self, row: dict[str, Any]) -> bool:
        """Whether a row ended before the watermark, or at it."""
        return row["end_ms"] is not None and row["end_ms"] <= self._mark_ms

    def missing(self, numbers: Iterable[int]) -> None:
        """No row tells of these jobs any more."""
        for j in numbers:
            self._unseen(self._known.row(j), is_last=True)

    def _go_on(
        self,
        job: ToldJob,
        fresh: Sequence[dict[str, Any]],
        rest: dict[str, Any] | None,
        attempt: int,
    ) -> None:
        """Attempts that were not told yet, from this one on, and how it stands after them."""
        is_back = rest is not None and rest["end_ms"] is None and (
            rest["submit_ms"] >= job.since_ms
        )  # fmt: skip
        if job.is_over:
            if fresh or is_back:
                self._live_again(job, [*fresh, *([rest] if rest else [])])
            return
        for i, row in enumerate(fresh):
            if row["shape"] is None and row["each"] % job.each:
                self._retell(job, [*fresh[i:], *([rest] if rest else [])])
                return
        for number, row in self._numbered(fresh, attempt):
            divided = {"each": job.each, "replicas": row["gpus"] // max(1, job.each)}
            self._add(job, row | divided, attempt=number)
        if rest is not None:
            self._add(job, rest, attempt=attempt + len(fresh))

    def _numbered(
        self, rows: Sequence[dict[str, Any]], attempt: int
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Rows with the numbers of their attempts; what changed before the watermark is lost."""
        for row in rows:
            if row["outcome"] == AttemptEnd.CHANGED and self._is_past(row):
                lost_ms = (row["end_ms"] - row["start_ms"]) * row["gpus"]
                self.late = self.late.plus(Late(gpu_ms=lost_ms))
                continue
            yield attempt, row
            attempt += not _comes_up(row)

    def _held(self, job: ToldJob, begun: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """The row of the attempt that the journal has as running."""
        before = [row for row in begun if row["start_ms"] <= job.start_ms]
        if before:
            row = before[-1]
            end_ms = row["end_ms"]
            if row["start_ms"] == job.start_ms or end_ms is None or end_ms > job.start_ms:
                return row
        after = begun[len(before) :]
        if after:
            self.late = self.late.plus(Late(corrected=1))
            return after[0]
        return None

    def _was_told(self, job: ToldJob, row: dict[str, Any]) -> bool:
        """Whether an attempt is one of those that were told, from its start to its end."""
        if row["end_ms"] is None or row["end_ms"] > self._mark_ms:
            return False
        if not job.attempt:  # what ended before a later life began was an earlier one's
            is_later = origin(job.name, self._known.names) != job.name
            return is_later and row["end_ms"] <= job.since_ms
        return bool(row["start_ms"] <= job.start_ms or row["start_ms"] < job.since_ms)

    def _unseen(self, job: ToldJob, *, is_last: bool) -> None:
        """A job that waits or runs by the journal, and of which the source has no row."""
        self.late = self.late.plus(Late(unseen=1))
        is_over = is_last or not job.is_active
        outcome = AttemptEnd.CANCELLED if is_over else AttemptEnd.UNSEEN
        self._end(job, self._mark_ms, outcome, is_last=is_last)

    def _retell(self, job: ToldJob, rows: Sequence[dict[str, Any]]) -> None:
        """A job that runs in other parts than it was told to need: it ends, and another begins."""
        first = rows[0]
        start_ms = max(self._mark_ms, first["start_ms"] or first["submit_ms"])
        self._end(job, start_ms, AttemptEnd.CANCELLED, is_last=True)
        self._live_again(job, [row | {"submit_ms": start_ms} for row in rows])

    def _end(self, job: ToldJob, at_ms: int, outcome: AttemptEnd, *, is_last: bool) -> None:
        """A row that no source has."""
        row = {"end_ms": at_ms, "submit_ms": at_ms, "outcome": str(outcome), "gpus": 0}
        self._add(job, row | {"is_last": is_last}, attempt=job.attempt, is_told=job.is_active)

    def _live_again(self, job: ToldJob, rows: Sequence[dict[str, Any]]) -> None:
        self.late = self.late.plus(Late(again=1))
        name = next_life(job.name, self._known.names)
        for attempt, row in self._numbered(rows, 1):
            submit_ms = max(job.since_ms, self._mark_ms, row["submit_ms"])
            self.found.append(
                row | {"job": name, "number": None, "attempt": attempt, "is_told": False,
                       "is_up_told": False, "submit_ms": submit_ms}
            )  # fmt: skip

    def _add(
        self, job: ToldJob, row: dict[str, Any], *, attempt: int, is_told: bool = False
    ) -> None:
        is_up = is_told and job.is_up
        up = {"up_ms": job.since_ms} if is_up else {}
        self.found.append(
            row | up | {"job": job.name, "number": job.number, "attempt": attempt,
                        "is_told": is_told, "is_up_told": is_up}
        )  # fmt: skip


def _comes_up(row: dict[str, Any]) -> bool:
    """Whether a row that was never at work goes on in the next: both are one attempt."""
    return bool(row["outcome"] == AttemptEnd.CHANGED and row["up_ms"] >= NEVER_UP_MS)
