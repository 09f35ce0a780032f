"""The loop: one for the twin and for the live backends.

All events of one moment are folded before one cycle; the plan is checked, its actions are written
as events, and only then carried out. The journal is written in transactions of several beats when
the backend allows it (a twin loses nothing in a crash that it cannot replay); a live backend has
every action on disk before it is sent (``beats_per_commit = 1``). The journal is the same for every
batch size.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from tidemill.engine import cycle as one
from tidemill.engine.check import Checker
from tidemill.engine.fold.batch import Folding, Inflow
from tidemill.model import batch as batches
from tidemill.model.batch import Batch, Dictionary
from tidemill.model.batch.convert import to_events
from tidemill.model.batch.sheet import Sheet, rows_of
from tidemill.model.errors import BackendError
from tidemill.model.events import Event, Plan, Seen
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World

BEATS_AT_ONE_MOMENT = 10_000  # a backend that answers at the same moment for ever is broken

Taker = Callable[[Batch], None]
"""Takes what was folded."""


class Backend(Protocol):
    """A world that tells what happens and carries plans out: the twin, or the real one."""

    def next_ms(self) -> int | None:
        """When something happens next; None when the story is over."""

    def take(self, world: World) -> Sequence[Seen] | Batch:
        """Everything that happens at that moment, as messages or in columns; may be nothing."""

    def carry_out(self, world: World, plan: Plan) -> None:
        """Do what a plan says; its actions are already written and folded."""


class Keeper(Protocol):
    """Whoever keeps the events: a journal."""

    def append(self, events: Sequence[Event]) -> None:
        """Keep these events, all or none; on return they are safe."""


class Reader(Protocol):
    """Whoever reads along: the ledger."""

    def take(self, events: Sequence[Event]) -> None:
        """These events happened, after all that were told before."""


class BeatMaker(Protocol):
    """Makes many beats at once."""

    def drive(self, until_ms: int) -> bool:
        """Beat up to a moment, as far as it can; whether it made any."""


@runtime_checkable
class Drivable(Protocol):
    """A backend that can make many beats at once."""

    def driver(self, loop: "Loop") -> BeatMaker:
        """Who makes them."""


@runtime_checkable
class Folder(Protocol):
    """A backend that folds what happens while it tells it: one call for a moment."""

    dictionary: Dictionary
    """What its events name by number."""

    def happen(self, inflow: Inflow, sheet: Sheet) -> bool:
        """Fold everything that happens at the next moment, and note it; whether anything does."""


@runtime_checkable
class BatchKeeper(Protocol):
    """A keeper that takes events in columns too."""

    def append_batch(self, batch: Batch) -> None:
        """Keep these events, all or none; on return they are safe."""


@runtime_checkable
class BatchReader(Protocol):
    """A reader that takes events in columns too."""

    def take_batch(self, batch: Batch) -> None:
        """These events happened, after all that were told before."""


class Loop:
    """A World, a policy and a backend, beating."""

    def __init__(
        self,
        world: World,
        policy: Policy,
        backend: Backend,
        journal: Keeper | BatchKeeper | None,
        readers: Sequence[Reader | BatchReader] = (),
        beats_per_commit: int = 1,
    ) -> None:
        self.world, self.policy, self.backend = world, policy, backend
        self._takers = [] if journal is None else [_keeping(journal)]
        self._takers += map(_reading, readers)
        """Who takes what was folded: the journal first, then whoever reads along."""
        self.beats_per_commit = beats_per_commit
        self._folder = backend if isinstance(backend, Folder) else None
        self.sheet = Sheet(self._folder.dictionary if self._folder else Dictionary())
        self._scratch = Sheet(self.sheet.dictionary)
        self.memo = one.CycleMemo(self.sheet.dictionary)
        self.checker = Checker(world)
        self.inflow = Inflow(world)
        self._beats = 0
        self._beats_now = 0
        self._at_ms = -1
        self.driver = backend.driver(self) if isinstance(backend, Drivable) else None
        """Who makes many beats at once, if the backend can."""

    def run(
        self, until_ms: int | None = None, on_beat: Callable[[int], None] | None = None
    ) -> None:
        """Beat until the story is over or time is up."""
        try:
            while (at_ms := self.backend.next_ms()) is not None:
                if until_ms is not None and at_ms > until_ms:
                    break
                if self.driver is None or not self.driver.drive(
                    FOREVER_MS if until_ms is None else until_ms
                ):
                    self.beat(at_ms)
                if on_beat is not None:
                    on_beat(self.world.now_ms)
        finally:
            self.inflow.withdraw()
            self.commit()

    def beat(self, at_ms: int) -> Plan | None:
        """Fold one moment, decide, check, write, carry out."""
        self._count_beats(at_ms)
        if not self.take():
            return None
        plan = one.cycle(self.world, self.policy, self.memo)
        self.settle(plan)
        return plan

    def follow(self, policy: Policy) -> None:
        """Plan by another policy from now on: what was in vain by the old one may not be."""
        self.policy = policy
        self.forget()

    def forget(self) -> None:
        """Drop what cycles remember to be quick; no placement depends on it."""
        self.memo = one.CycleMemo(self.sheet.dictionary)

    def take(self) -> bool:
        """Fold what happens in the next moment; whether anything does."""
        if self._folder is not None:
            return self._folder.happen(self.inflow, self.sheet)
        seen = self.backend.take(self.world)
        if isinstance(seen, Batch):
            self._write(seen)
            return len(seen.events) > 0
        if seen:
            self._scratch.clear()
            self._scratch.write(seen)
            self._write(self._scratch.batch(), seen)
        return bool(seen)

    def settle(self, plan: Plan) -> None:
        """Check a plan, write it, and carry it out."""
        self.checker.check(plan, self.policy)
        self._write(rows_of(plan))
        self.made(1)
        self.backend.carry_out(self.world, plan)

    @property
    def beats_to_commit(self) -> int:
        """How many beats may be made until all is to be made safe."""
        return self.beats_per_commit - self._beats % self.beats_per_commit

    def made(self, beats: int) -> None:
        """So many beats were made, here or elsewhere."""
        self._beats += beats
        if beats and self._beats % self.beats_per_commit == 0:
            self.commit()

    def commit(self) -> None:
        """Make everything that was folded safe, and tell the readers."""
        if not len(self.sheet):
            return
        batch = self.sheet.batch()
        self.sheet.clear()
        for take in self._takers:
            take(batch)

    def _write(self, batch: Batch, events: Sequence[Event] = ()) -> None:
        """Fold events, and note them; where one is refused, those before it are noted."""
        if not len(batch.events):
            return
        folding = Folding(self.world, batch, events)
        try:
            folding.all()
        finally:
            self.sheet.extend(batches.cut(batch, 0, folding.at))

    def _count_beats(self, at_ms: int) -> None:
        self._beats_now = self._beats_now + 1 if at_ms == self._at_ms else 0
        self._at_ms = at_ms
        if self._beats_now > BEATS_AT_ONE_MOMENT:
            raise BackendError(
                f"the backend answered {BEATS_AT_ONE_MOMENT} times at {at_ms} ms",
                hint="time does not go on; this is a bug, please report it with the journal",
            )


def _keeping(journal: Keeper | BatchKeeper) -> Taker:
    """How a journal takes a batch: as it is, or as messages."""
    if isinstance(journal, BatchKeeper):
        return journal.append_batch
    return lambda batch: journal.append(to_events(batch))


def _reading(reader: Reader | BatchReader) -> Taker:
    """The same for a reader."""
    if isinstance(reader, BatchReader):
        return reader.take_batch
    return lambda batch: reader.take(to_events(batch))
