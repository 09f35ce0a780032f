"""Events of a history on their way into batches, with what they need beside them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import replace

from tidemill.live.history.clusters import kept_to
from tidemill.live.history.gathered import GatheredRows
from tidemill.live.history.node_states import NodeMove, NodeSight
from tidemill.live.history.rows import held_name
from tidemill.live.history.seating import SeenSeat, signed
from tidemill.live.history.shown_gpus import DeviceTurn
from tidemill.live.history.walking.columns import ATTEMPT, WALK
from tidemill.model import codes, paging
from tidemill.model import events as ev
from tidemill.model.batch import Batch, Dictionary, EventColumn, JobColumn, PieceColumn, place
from tidemill.model.columns import JOB
from tidemill.model.events import Event
from tidemill.model.measures import FOREVER_MS
from tidemill.model.reasons import Cause, Layer
from tidemill.model.rows import Role, Shape
from tidemill.model.tables import I64
from tidemill.model.world import World

UNKNOWN_SAVING = -1
"""Instead of an interval: nobody said how a job saves, so nobody knows what a stop lost."""
LONGEST_REASON = 500
RELEASED = ""
"""The reason of a job that was held and is not any more: why it waits since then nobody says."""
_ROOM = 1_000
"""Rows of events, and of pieces, that there is room for at first."""
_AT_ONCE = 1 << 16
"""Rows that are compared with others at one time: a table beside each takes 200 bytes of a row."""
_MOST_NAMES = 4
"""Of jobs that are told by name where something is not booked: three, and that there are more."""
_PLACED = codes.KIND_CODE[ev.PlacementSeen]
_COLUMN = {column.name.lower(): int(column) for column in EventColumn}
_OF_JOBS = (JobColumn.SHAPE, JobColumn.ESTIMATE, JobColumn.USER)
_FORM = (
    "team", "priority", "kind", "cluster", "node_rules", "replicas", "each", "cpus", "memory_mib",
)  # fmt: skip
"""What jobs of one shape have in common, where their source tells it by columns."""


class EventWriter:
    """Rows of events for the next batch, written here one by one, and by kernels.

    ``jobs``: how many are going to be submitted (``submits``); ``told``: what they request, by
    number; ``pieces``: about how many there will be; ``unfit``: jobs larger than their node;
    ``may_be``: GPU types of nodes that may be of any.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what one timeline knows of its jobs and nodes
        self,
        dictionary: Dictionary,
        jobs: int,
        world: World,
        told: Sequence[Shape],
        pieces: int = 0,
        unfit: frozenset[int] = frozenset(),
        may_be: tuple[str, ...] = (),
    ) -> None:
        self._may_be = may_be
        self._dictionary, self._world, self._requests = dictionary, world, told
        self._jobs, self._count = paging.blank(jobs, len(_OF_JOBS)), 0
        """What new jobs differ in, by number, and of how many it is told."""
        self._names = GatheredRows()
        self._next_names: tuple[Iterator[pl.DataFrame], list[str]] | None = None
        self.submitted = paging.blank(jobs, 1)
        """Of each new job the shape that is not eligible yet, or -1."""
        self._in_world = dict[int, int]()
        """The numbers of shapes in the cluster state, by those of the dictionary."""
        self._shapes = len(world.shape_rows)
        self.reg: I64 = np.zeros(len(WALK), np.int64)
        self.events: I64 = np.zeros((_ROOM, len(EventColumn)), np.int64)
        self.pieces = paging.blank(max(_ROOM, pieces), len(PieceColumn))
        """Of all batches: what jobs hold is looked up here when they give it back."""
        self._taken_jobs = self._taken_pieces = 0
        self.over = 0
        """Attempts of which a part found no device, in what was taken."""
        self.over_beside, self._unfit = 0, unfit
        """Of those, of jobs that are not larger than their node."""
        self._over_jobs = list[int]()
        """The first of these jobs, by number."""

    def __len__(self) -> int:
        return int(self.reg[WALK.EVENTS])

    def submits(self, jobs: pl.DataFrame) -> None:
        """The next of the jobs that are going to be submitted, by number."""
        first, self._count = self._count, self._count + len(jobs)
        mine = self._jobs[first : self._count]
        told = _job_columns(jobs, self._dictionary, self._requests, self._may_be)
        for i, values in enumerate(told):
            mine[:, i] = values
        self.submitted[first : self._count, 0] = self._causes(jobs, mine[:, 0])
        self._names.add(jobs.select("job"))

    def make_room(self) -> None:
        """For the events and pieces of one moment at least."""
        if len(self) + 2 > len(self.events):
            self.events = _larger(self.events, len(self.events))
        most = int(self.reg[WALK.MOST_PIECES])
        if self.reg[WALK.PIECES] + most > len(self.pieces):
            self.pieces = _larger(self.pieces, len(self.pieces) + most)

    def write(
        self, at: int, kind: type[Event], who: int = 0, attempt: int = 0, **rest: int
    ) -> None:
        """One event; ``rest``: its other columns by name."""
        row = [at, codes.KIND_CODE[kind], who, attempt, 0, 0, 0, 0, 0]
        for name, value in rest.items():
            row[_COLUMN[name]] = value
        self.make_room()
        self.events[len(self)] = row
        self.reg[WALK.EVENTS] += 1

    def text(self, words: str) -> int:
        """The number of a text."""
        return self._dictionary.users.number(words)

    def eligible(self, at: int, j: int) -> None:
        """A job that waited for something else waits for GPUs now."""
        if self.is_held_from_first(j):
            self.write(at, ev.CauseChanged, self._world.jobs.shape.item(j), why=int(Cause.NONE))
        if self._world.matrices.jobs.item(j, JOB.IS_HELD):
            self.released(at, j)

    def released(self, at: int, j: int) -> None:
        """A job that was held after it asked for GPUs asks for them again."""
        self.reason(at, j, int(Cause.NONE), int(Layer.SCHEDULING), RELEASED)

    def needs(self, at: int, j: int, shape: Shape) -> None:
        """A job that waits requests something else from now on."""
        self.write(at, ev.RequestChanged, j, value=self._dictionary.shapes.number(shape))

    def make_way(self, first_ms: Sequence[I64], changes: Sequence[tuple[int, Shape]]) -> None:
        """What jobs request later on takes numbers of shapes, between those of submissions.

        ``first_ms``: when the new jobs are submitted, by number.
        """
        at, shapes = np.concatenate([np.zeros(0, np.int64), *first_ms]), self._jobs[:, 0]
        found, first = np.unique(shapes, return_index=True)
        comes = [(at.item(i), 0, i, s) for s, i in zip(found.tolist(), first.tolist(), strict=True)]
        number = self._dictionary.shapes.number
        comes += [(ms, 1, i, number(shape)) for i, (ms, shape) in enumerate(changes)]
        self._in_world, self._shapes = {}, len(self._world.shape_rows)
        rows, known = self._dictionary.shapes.rows, self._world.shape_number
        for _, _, _, s in sorted(comes):
            if s not in self._in_world:
                self._in_world[s] = known.get(rows[s], self._shapes)
                self._shapes += rows[s] not in known
        for i in np.flatnonzero(self.submitted[:, 0] >= 0).tolist():
            self.submitted[i, 0] = self._in_world[shapes.item(i)]

    def is_held_from_first(self, j: int) -> bool:
        """Whether a job has waited for something else since it was submitted."""
        new = j - self._world.job_count
        if new >= 0:
            return self.submitted.item(new, 0) >= 0
        shape = self._world.jobs.shape.item(j)
        return bool(self._world.shapes.cause.item(shape) == Cause.NOT_ELIGIBLE)

    def reason(self, at: int, j: int, cause: int, layer: int, words: str) -> None:
        """What another scheduler says of a waiting job."""
        number = self._dictionary.users.number(words[:LONGEST_REASON])
        self.write(at, ev.ReasonSeen, j, why=cause, to=layer, value=number)

    def placed(self, at: int, j: int, attempt: int, seats: list[SeenSeat], over_milli: int) -> None:
        """An attempt holds these seats."""
        for n, replicas, mask, role, slices, _ in seats:
            self.make_room()
            p = int(self.reg[WALK.PIECES])
            self.pieces[p] = role, n, replicas, signed(mask), slices
            self.reg[WALK.PIECES] += 1
        self.write(at, ev.PlacementSeen, j, attempt, value=over_milli, count=len(seats))

    def ended(self, at: int, attempt: I64) -> None:
        """An attempt (``ATTEMPT``) is over."""
        kind, value = codes.KINDS[attempt.item(ATTEMPT.END_KIND)], attempt.item(ATTEMPT.END_VALUE)
        j, number = attempt.item(ATTEMPT.JOB), attempt.item(ATTEMPT.END_NUMBER)
        used, peak = attempt.item(ATTEMPT.CPU_USED_MS), attempt.item(ATTEMPT.PEAK_PPM)
        if max(used, peak) >= 0 and (held := attempt.item(ATTEMPT.NUMBER)) > 0:
            had = attempt.item(ATTEMPT.CPU_HAD_MS)
            self.write(at, ev.HostUseSeen, j, held, why=peak, to=had, value=used)
        self.write(at, kind, j, number, why=attempt.item(ATTEMPT.END_WHY), value=value)

    def moved(self, at: int, moves: list[NodeMove]) -> None:
        """Nodes change their states."""
        for n, state, why in moves:
            code = codes.WHY_CODE[why]
            self.write(at, ev.NodeMoved, n, to=int(state), why=code, value=FOREVER_MS)

    def devices(self, at: int, turns: Iterable[DeviceTurn]) -> None:
        """Devices fail alone, or work again."""
        for n, device, is_failed in turns:
            kind = ev.DeviceFailed if is_failed else ev.DeviceRepaired
            self.write(at, kind, n, value=device)

    def kept(self, at: int, spares: list[tuple[int, bool]]) -> None:
        """Nodes are kept free by design from now on, or are not any more."""
        for n, is_spare in spares:
            self.write(at, ev.AskedSpare, n, value=int(is_spare))

    def sights(self, at: int, nodes: list[tuple[str, NodeSight]]) -> None:
        """Nobody sees from now on what is free on nodes, or somebody does again."""
        for name, sight in nodes:
            is_lost = sight is NodeSight.LOST
            kind = ev.SightLost if is_lost else ev.SightRegained
            self.write(at, kind, value=int(is_lost), to=self.text(name))

    def take(self) -> Batch:
        """What was written since the last batch."""
        events = self.events[: len(self)].copy()
        place(events)
        first_job, first_piece = self._taken_jobs, self._taken_pieces
        submissions = events[:, EventColumn.KIND] == codes.KIND_CODE[ev.JobSubmitted]
        self._taken_jobs += int(np.count_nonzero(submissions))
        self._taken_pieces = int(self.reg[WALK.PIECES])
        self.reg[WALK.EVENTS] = 0
        is_over = (events[:, EventColumn.KIND] == _PLACED) & (events[:, EventColumn.VALUE] > 0)
        self._count_over(events[is_over, EventColumn.WHO].tolist())
        jobs = self._job_rows(first_job, self._taken_jobs)
        names = self._take_names(self._taken_jobs - first_job)
        pieces = self.pieces[first_piece : self._taken_pieces].copy()
        return Batch(events, pieces, jobs, names, [], self._dictionary)

    def _take_names(self, count: int) -> list[str]:
        """The names of the next so many new jobs."""
        parts, names = self._next_names or (self._names.each(), [])
        while len(names) < count:
            names += next(parts)["job"].to_list()
        self._next_names = parts, names[count:]
        return names[:count]

    def _count_over(self, jobs: Sequence[int]) -> None:
        """Attempts of these jobs found no device for a part of them."""
        self.over += len(jobs)
        beside = [j for j in jobs if j not in self._unfit]
        self.over_beside += len(beside)
        self._over_jobs += beside[: max(0, _MOST_NAMES - len(self._over_jobs))]

    def over_names(self) -> list[str]:
        """The first jobs of which a part found no device."""
        first, found = self._world.job_count, list[str]()
        for j in self._over_jobs:
            rest = j - first
            for part in self._names.each() if rest >= 0 else ():
                if rest < len(part):
                    found.append(part["job"][rest])
                    break
                rest -= len(part)
            else:
                found.append(self._world.job_names[j])
        return found

    def _job_rows(self, first: int, end: int) -> I64:
        """Some of the jobs as a batch has them."""
        rows = np.zeros((end - first, len(JobColumn)), np.int64)
        rows[:, JobColumn.INTERVAL] = UNKNOWN_SAVING
        rows[:, _OF_JOBS] = self._jobs[first:end]
        return rows

    def _causes(self, jobs: pl.DataFrame, shapes: I64) -> I64:
        """Of each job the number of its shape in the cluster state, if it is not eligible."""
        rows, known = self._dictionary.shapes.rows, self._world.shape_number
        for s in dict.fromkeys(shapes.tolist()):
            if s not in self._in_world:
                self._in_world[s] = known.get(rows[s], self._shapes)
                self._shapes += rows[s] not in known
        numbers: I64 = np.full(len(rows), -1, np.int64)
        numbers[[*self._in_world]] = [*self._in_world.values()]
        found: I64 = np.where(jobs["is_eligible"].to_numpy(), -1, numbers[shapes])
        return found


def _larger(rows: I64, more: int) -> I64:
    """The same rows, and room for more."""
    return np.concatenate([rows, np.zeros((more, rows.shape[1]), np.int64)])


def _job_columns(
    jobs: pl.DataFrame, dictionary: Dictionary, told: Sequence[Shape], may_be: tuple[str, ...]
) -> tuple[I64, I64, I64]:
    """What submitted jobs differ in (``_OF_JOBS``).

    ``told``: what they request, where they say that by number. ``may_be``: as of the writer.
    """
    held_as = pl.when("is_eligible").then(pl.lit("")).otherwise("job").alias("held_as")
    is_told = pl.col("shape").is_not_null()
    form = jobs.select(
        "shape", held_as, *(pl.when(~is_told).then(name).alias(name) for name in _FORM)
    )

    def shape_number(s: int | None, held_as: str, *form: Any) -> int:  # noqa: ANN401 - as ``_FORM``
        shape = _shape(may_be, *form) if s is None else told[s]
        return dictionary.shapes.number(_held(shape, held_as) if held_as else shape)

    return (
        _numbered(form, shape_number),
        jobs["limit_ms"].to_numpy(),
        _numbered(jobs.select("user"), dictionary.users.number),
    )


def _numbered(rows: pl.DataFrame, number: Callable[..., int]) -> I64:
    """The number of each row; it is asked for once for rows that are equal, in their order."""
    names = rows.columns
    some = [part.unique(maintain_order=True) for part in rows.iter_slices(_AT_ONCE)]
    distinct = pl.concat([rows.clear(), *some]).unique(maintain_order=True)
    numbers = pl.Series("number", [number(*row) for row in distinct.iter_rows()], pl.Int64)
    known = distinct.with_columns(numbers)
    found: I64 = np.empty(len(rows), np.int64)
    for first in range(0, len(rows), _AT_ONCE):
        part = rows.slice(first, _AT_ONCE).join(
            known, on=names, how="left", nulls_equal=True, maintain_order="left"
        )
        found[first : first + len(part)] = part["number"].to_numpy()
    return found


def _shape(
    may_be: tuple[str, ...],
    team: str,
    priority: int,
    kind: str,
    cluster: str | None,
    rules: str | None,
    *asked: int,
) -> Shape:
    """``asked``: replicas, GPUs of each, and CPUs and memory of all."""
    replicas, each, cpus, memory_mib = asked
    role = Role(
        count=replicas, accelerators=each, cpu_milli=1000 * cpus // replicas,
        memory_mib=memory_mib // replicas, kinds=(*kind.split(","), *may_be) if kind else (),
    )  # fmt: skip
    return Shape(team, (kept_to(role, cluster, rules),), priority=priority)


def _held(shape: Shape, job: str) -> Shape:
    """The same of a job that waits for something else than GPUs."""
    first, *rest = shape.roles
    return replace(shape, roles=(replace(first, name=held_name(job)), *rest))
