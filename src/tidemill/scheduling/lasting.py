"""What services leave free: a room in which nothing else runs, kept up as they come and go."""

from typing import NamedTuple

from tidemill.model.rows import Piece, Shape
from tidemill.model.states import JobClass
from tidemill.model.world import World
from tidemill.scheduling.fit import redo, undo
from tidemill.scheduling.snapshot import Snapshot


class _Service(NamedTuple):
    attempt: int
    queue: int
    shape: Shape
    pieces: tuple[Piece, ...]


class LastingRoom:
    """What is left when all that ends has ended; of one state of supply and shares."""

    def __init__(self, world: World, *, sweeps: bool) -> None:
        self.room = Snapshot(world, sweeps=sweeps)
        self.room.empty()
        self._there: dict[int, _Service] = {}
        self._changes = -1
        self._services: list[int] = []
        self._shapes = 0

    def update(self, world: World) -> Snapshot:
        """The room as the services are now."""
        if self._changes != world.lasting_changes:
            self._changes = world.lasting_changes
            self._follow(world, self._now(world))
        return self.room

    def _now(self, world: World) -> dict[int, int]:
        """The services that hold devices, and their shapes."""
        for s in range(self._shapes, world.shape_count):
            if world.shape_rows[s].kind is JobClass.INFERENCE:
                self._services.append(s)
        self._shapes = world.shape_count
        return {j: s for s in self._services for j in world.active[s]}

    def _follow(self, world: World, now: dict[int, int]) -> None:
        """Take out who went, put in who came; whoever sits elsewhere did both."""
        attempts = world.jobs.attempt
        for j, there in [*self._there.items()]:
            if j not in now or attempts[j] != there.attempt:
                undo(self.room, there.queue, there.shape, there.pieces)
                del self._there[j]
        for j, s in now.items():
            if j not in self._there:
                q, shape = world.shapes.queue.item(s), world.shape_rows[s]
                one = _Service(attempts.item(j), q, shape, world.placements[j])
                self._there[j] = one
                redo(self.room, one.queue, one.shape, one.pieces)
