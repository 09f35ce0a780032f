"""The intact beginning of a journal: how many of its events can be trusted, however it is broken.

One count for everybody: ``verify`` reports it, ``salvage`` keeps it, and an error that a reader met
is told with it. Since rows are only ever added and each is chained to the one before, the truth can
be told from what is merely lying in the file: starting from nothing, the next event is the one
whose checksum follows. It ends at the first number for which no such row is left, or whose event
cannot be applied. The bytes are read without SQLite, so that a lost header costs no event.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, cast

from tidemill.engine.fold import one_event
from tidemill.journal import codec, files
from tidemill.journal.codec import Opener, Tail
from tidemill.journal.faults import RESTORE, DamageError, StrangeFileError
from tidemill.journal.replay import CANNOT_BE, refusal
from tidemill.journal.sqlite import version1
from tidemill.journal.sqlite.pages import Image, Pages, Record
from tidemill.model.batch import convert
from tidemill.model.events import Event
from tidemill.model.world import World


class Intact(NamedTuple):
    """What can be trusted."""

    world: World
    """The cluster state after the last intact event; its ``seq`` is how many there are."""
    why: str
    """Why the next event is not intact; empty where no further event was found."""


def of(path: Path) -> Intact:
    """Follow the events of a journal at rest to the end of what is intact."""
    with closing(Pages(path.resolve())) as pages:
        return follow(Finder(pages, str(path)))


def follow(finder: "Finder", keep: Callable[[Event], None] = lambda _event: None) -> Intact:
    """Apply events from the first on, and hand each to ``keep``, until one is not intact."""
    world = World()
    for event in finder.events():
        try:
            one_event.fold(world, event)
        except CANNOT_BE as error:
            return Intact(world, refusal(error))
        keep(event)
    return Intact(world, finder.why())


def placed(error: DamageError) -> DamageError:
    """The same error with the number of events that are intact: what a reader met is only where
    it happened to look.
    """
    path = Path(error.where)
    if not path.is_file() or files.is_rolled_up(path):  # what was rolled up is not in the chain
        return error
    found = of(path)
    if isinstance(error, StrangeFileError) and found.world.seq == 0:
        return StrangeFileError(error.where, error.found, is_lost=True)
    told = DamageError(error.where, found.world.seq, error.found, is_after_last=not found.why)
    if not found.world.seq:
        told.hint = RESTORE
    return told


class Finder:
    """Follows the chain through whatever pages there are, of either version."""

    def __init__(self, pages: Pages, where: str) -> None:
        self._pages = pages
        self._tail = Tail()
        self._opener = Opener(where)
        spans = ((image, pages.numbers(image)) for image in pages.images)
        self._spans = sorted(
            (min(numbers), max(numbers), image) for image, numbers in spans if numbers
        )

    def events(self) -> Iterator[Event]:
        """The events that follow from each other, from the first on."""
        before = -1
        while before < self._tail.seq:  # a page out of its place is found in a later round
            before = self._tail.seq
            for _, last, image in self._spans:
                if last >= self._tail.seq:
                    yield from self._following(image)

    def why(self) -> str:
        """Why there is no next event; empty where none was found."""
        is_more = any(_is_kept(record) for record in self._beyond(self._tail.seq))
        return "it is missing or damaged" if is_more else ""

    def end(self) -> int:
        """How many events there were, by the last row that can be told to be one."""
        return max((_after(r) for r in self._beyond(self._tail.seq) if _is_kept(r)), default=0)

    def facts(self) -> tuple[dict[str, str], list[str]]:
        """The facts that match their checksum, the newest page last; and the names of the others.

        What was deleted or replaced may still lie in a page: only a fact without any intact row
        is damaged.
        """
        found, damaged = dict[str, str](), set[str]()
        for image in self._pages.images:
            for record in self._pages.records(image):
                if _is_kept(record):
                    break  # a page holds rows of one table only
                match record.values:
                    case (str(key), str(value), int(crc)) if codec.fact_sum(key, value) == crc:
                        found[key] = value
                    case (str(key), str(), int()):
                        damaged.add(key)
        return found, sorted(damaged - found.keys())

    def _following(self, image: Image) -> Iterator[Event]:
        for record in self._pages.records(image):
            if record.number != self._tail.seq:
                continue
            if _is_batch(record):
                yield from self._opened(cast(codec.Row, (record.number, *record.values[1:])))
            elif _is_event(record):
                row = cast(version1.Row, (record.number, *record.values[1:]))
                events, self._tail, _ = version1.events_in([row], self._tail)
                yield from events

    def _opened(self, row: codec.Row) -> list[Event]:
        """The events of a row, if it is the one that follows."""
        try:
            batch = self._opener.open([row], self._tail)
        except DamageError:
            return []
        self._tail = codec.tail_after(row)
        return convert.to_events(batch)

    def _beyond(self, seq: int) -> Iterator[Record]:
        for _, last, image in self._spans:
            if last >= seq:
                yield from (r for r in self._pages.records(image) if r.number >= seq)


def _after(record: Record) -> int:
    """The number of the event that follows those of a row."""
    match record.values:
        case (_, int(events), int(), int(), *_):
            return record.number + events
    return record.number + 1


def _is_kept(record: Record) -> bool:
    return _is_batch(record) or _is_event(record)


def _is_batch(record: Record) -> bool:
    """Whether it is a row of version 2."""
    match record.values:
        case (None, int(), int(), int(), None | bytes(), bytes(), int()):
            return True
    return False


def _is_event(record: Record) -> bool:
    """Whether it is a row of version 1."""
    match record.values:
        case (None, int(), str(), bytes(), int()):
            return True
    return False
