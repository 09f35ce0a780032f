"""Views: what is in chains and vectors of the state, as Python reads it.

Nothing is kept here but pieces that were read before: every view walks the columns of the World
that it belongs to.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from tidemill.model.columns import AT, JOB, NODE, NONE, PIECE, SHAPE
from tidemill.model.rows import Piece
from tidemill.model.states import ACTIVE

if TYPE_CHECKING:
    from tidemill.model.world import World

MASK = (1 << 64) - 1  # a mask of devices is a number below this; a column holds it with a sign
KEPT_AT_LEAST = 1024
_ACTIVE = tuple(map(int, sorted(ACTIVE)))

Line = TypeVar("Line", bound=Sequence[int])


class WaitingLine(Sequence[int]):
    """The waiting jobs of one shape, oldest first."""

    __slots__ = ("_s", "_world")

    def __init__(self, world: "World", s: int) -> None:
        self._world, self._s = world, s

    def __len__(self) -> int:
        return self._world.ink.w.shapes.item(self._s, SHAPE.WAITING)

    def __iter__(self) -> Iterator[int]:
        return self._walk(SHAPE.HEAD, JOB.NEXT)

    def __reversed__(self) -> Iterator[int]:
        return self._walk(SHAPE.TAIL, JOB.PREVIOUS)

    @overload
    def __getitem__(self, i: int) -> int: ...
    @overload
    def __getitem__(self, i: slice) -> list[int]: ...
    def __getitem__(self, i: int | slice) -> int | list[int]:
        if isinstance(i, slice):
            return list(self)[i]
        walk = iter(self) if i >= 0 else reversed(self)
        for _ in range(i if i >= 0 else -i - 1):
            next(walk, None)
        j = next(walk, None)
        if j is None:
            raise IndexError(f"{i} of {len(self)} waiting jobs")
        return j

    def _walk(self, end: SHAPE, step: JOB) -> Iterator[int]:
        w = self._world.ink.w
        jobs = w.jobs
        if w.shapes.item(self._s, SHAPE.WAITING):
            j = w.shapes.item(self._s, end)
            while j >= 0:
                yield j
                j = jobs.item(j, step)


class Queued(Collection[int]):
    """The shapes that have a waiting job, in no order."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def __len__(self) -> int:
        return self._world.ink.w.at.item(AT.QUEUED)

    def __iter__(self) -> Iterator[int]:
        w = self._world.ink.w
        return iter(w.queued[: w.at.item(AT.QUEUED)].tolist())

    def __contains__(self, s: object) -> bool:
        if not isinstance(s, int) or not 0 <= s < len(self._world.shape_rows):
            return False
        return self._world.ink.w.shapes.item(s, SHAPE.WAITING) > 0


class _Each(Sequence[Line]):
    """A line of jobs for each of some things, read off the columns when it is asked for."""

    def __init__(self, world: "World") -> None:
        self._world = world

    @overload
    def __getitem__(self, i: int) -> Line: ...
    @overload
    def __getitem__(self, i: slice) -> list[Line]: ...
    def __getitem__(self, i: int | slice) -> Line | list[Line]:
        if isinstance(i, slice):
            return [self._line(one) for one in range(*i.indices(len(self)))]
        return self._line(_at(i, len(self)))

    @abstractmethod
    def _line(self, i: int) -> Line:
        """The line of one of them."""


class Waiting(_Each[WaitingLine]):
    """The waiting jobs of each shape."""

    def __len__(self) -> int:
        return self._world.shape_count

    def _line(self, i: int) -> WaitingLine:
        return WaitingLine(self._world, i)


class Active(_Each[list[int]]):
    """The active jobs of each shape, in no order."""

    def __len__(self) -> int:
        return self._world.shape_count

    def _line(self, i: int) -> list[int]:
        w, found = self._world.ink.w, list[int]()
        if w.shapes.item(i, SHAPE.ACTIVE):
            j = w.shapes.item(i, SHAPE.FIRST_ACTIVE)
            while j >= 0:
                found.append(j)
                j = w.jobs.item(j, JOB.NEXT)
        return found


class Aboard(_Each[list[int]]):
    """The active jobs of each node, in no order."""

    def __len__(self) -> int:
        return len(self._world.node_rows)

    def _line(self, i: int) -> list[int]:
        w, found = self._world.ink.w, dict[int, None]()
        p = w.nodes.item(i, NODE.FIRST_PIECE)
        while p >= 0:
            found[w.pieces.item(p, PIECE.JOB)] = None
            p = w.pieces.item(p, PIECE.NEXT_ON_NODE)
        return list(found)


class Placements(Mapping[int, tuple[Piece, ...]]):
    """Where each active job sits; not the place to which it is moving."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._read: dict[int, tuple[int, tuple[Piece, ...]]] = {}
        """By job: the attempt, and its pieces; an attempt sits where it sits, unless it is seen to
        hold something else."""

    def forget(self, j: int) -> None:
        """A job holds something else, in the same attempt."""
        self._read.pop(j, None)

    def __len__(self) -> int:
        return self._world.ink.w.at.item(AT.ACTIVE)

    def __iter__(self) -> Iterator[int]:
        w = self._world.ink.w
        return iter(w.active[: w.at.item(AT.ACTIVE)].tolist())

    def __contains__(self, j: object) -> bool:
        if not isinstance(j, int) or not 0 <= j < self._world.job_count:
            return False
        return self._world.ink.w.jobs.item(j, JOB.STATE) in _ACTIVE

    def __getitem__(self, j: int) -> tuple[Piece, ...]:
        if j not in self:
            raise KeyError(j)
        w = self._world.ink.w
        attempt = w.jobs.item(j, JOB.ATTEMPT)
        known = self._read.get(j)
        if known is not None and known[0] == attempt:
            return known[1]
        if len(self._read) > KEPT_AT_LEAST + 2 * len(self):
            self._read.clear()
        found = tuple(pieces(self._world, j, is_coming=False))
        self._read[j] = (attempt, found)
        return found


class _Noted(Mapping[int, int]):
    """Those of some things of which something is noted, and what; in the order of their numbers."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def __iter__(self) -> Iterator[int]:
        return iter(self._found() if len(self) else ())

    def __contains__(self, i: object) -> bool:
        return isinstance(i, int) and self._is_noted(i)

    def __getitem__(self, i: int) -> int:
        if not self._is_noted(i):
            raise KeyError(i)
        return self._note(i)

    @abstractmethod
    def _found(self) -> list[int]:
        """All of them, if there are any."""

    @abstractmethod
    def _is_noted(self, i: int) -> bool:
        """Whether anything is noted of one."""

    @abstractmethod
    def _note(self, i: int) -> int:
        """What is noted of one."""


class _NotedJobs(_Noted):
    """Active jobs with a note in some column."""

    def _where(self, column: JOB, nothing: int) -> list[int]:
        w = self._world.ink.w
        active = w.active[: w.at.item(AT.ACTIVE)]
        found: list[int] = sorted(active[w.jobs[active, column] != nothing].tolist())
        return found

    def _is_known(self, j: int) -> bool:
        return 0 <= j < self._world.job_count


class LeavingJobs(_NotedJobs):
    """Jobs asked to leave, and for which shape (-1: for nobody)."""

    def __len__(self) -> int:
        return self._world.ink.w.at.item(AT.LEAVING)

    def _found(self) -> list[int]:
        return self._where(JOB.IS_LEAVING, 0)

    def _is_noted(self, i: int) -> bool:
        return self._is_known(i) and self._world.ink.w.jobs.item(i, JOB.IS_LEAVING) != 0

    def _note(self, i: int) -> int:
        return self._world.ink.w.jobs.item(i, JOB.LEAVING_FOR)


class IdleJobs(_NotedJobs):
    """Running jobs that do nothing, and since when."""

    def __len__(self) -> int:
        return self._world.ink.w.at.item(AT.IDLE)

    def _found(self) -> list[int]:
        return self._where(JOB.IDLE_MS, NONE)

    def _is_noted(self, i: int) -> bool:
        return self._is_known(i) and self._note(i) != NONE

    def _note(self, i: int) -> int:
        return self._world.ink.w.jobs.item(i, JOB.IDLE_MS)


class PromisedShapes(_Noted):
    """Shapes that room is being made for, and how many evictions are still to be seen."""

    def __len__(self) -> int:
        return self._world.ink.w.at.item(AT.PROMISED)

    def _found(self) -> list[int]:
        shapes = self._world.ink.w.shapes[: len(self._world.shape_rows)]
        found: list[int] = shapes[:, SHAPE.PROMISED].nonzero()[0].tolist()
        return found

    def _is_noted(self, i: int) -> bool:
        return 0 <= i < len(self._world.shape_rows) and self._note(i) >= 0

    def _note(self, i: int) -> int:
        return self._world.ink.w.shapes.item(i, SHAPE.PROMISED) - 1


def pieces(world: "World", j: int, *, is_coming: bool) -> Iterator[Piece]:
    """The pieces of an active job: of its place, or of the one to which it is moving."""
    w = world.ink.w
    p = w.jobs.item(j, JOB.FIRST_PIECE)
    while p >= 0:
        _, role, n, replicas, devices, slices, coming, p, _, _ = w.pieces[p].tolist()
        if bool(coming) == is_coming:
            yield Piece(role, n, replicas, devices & MASK, slices)


def _at(i: int, count: int) -> int:
    if not -count <= i < count:
        raise IndexError(f"{i} of {count}")
    return i % count
