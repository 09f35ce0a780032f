"""The longest intact beginning of a broken journal, copied into a new one.

Since rows are only ever added and each is chained to the one before, the truth can be told from
what is merely lying in the file: starting from nothing, the next event is the one whose checksum
follows. It stops at the first number for which no such row is left, or that cannot be folded.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, cast

from tidemill.engine import fold
from tidemill.journal import codec, files, lock, schema
from tidemill.journal.base import PROGRESS_EVERY, Journal, Progress
from tidemill.journal.building import BATCH, building
from tidemill.journal.codec import Tail
from tidemill.journal.pages import Image, Pages, Record
from tidemill.journal.replay import CANNOT_BE, refusal
from tidemill.model.errors import JournalError
from tidemill.model.events import Event
from tidemill.model.world import World


class SalvageReport(NamedTuple):
    """What was kept, and why it ends where it ends."""

    broken: str
    out: str
    kept: int
    last_ms: int
    why: str


def salvage(
    broken: Path | str,
    out: Path | str,
    *,
    any_version: bool = False,
    on_progress: Progress | None = None,
) -> SalvageReport:
    """Copy the intact beginning of a broken journal, and its facts, into a new journal.

    One that says it is of a later version is refused, as everywhere: what this version does not
    know of it would be lost without a word. ``any_version`` takes it that the header is damaged.
    """
    source, target, world = Path(broken), Path(out), World()
    _refuse_unusable(source)
    files.refuse(target, option="")
    with closing(Pages(source.resolve())) as pages, building(target) as journal:
        if not any_version:
            _refuse_newer(pages, source)
        finder = _Finder(pages)
        why = _copy(finder.events(), journal, world, on_progress) or finder.why()
        for key, value in finder.facts().items():
            journal.set_meta(key, value)
    return SalvageReport(str(source), str(target), world.seq, world.now_ms, why)


def _copy(
    events: Iterator[Event], journal: Journal, world: World, on_progress: Progress | None
) -> str:
    """Fold and keep events until one cannot be folded; why that one cannot."""
    why, batch = "", list[Event]()
    for event in events:
        try:
            fold.fold(world, event)
        except CANNOT_BE as error:
            why = f"event {world.seq}: {refusal(error)}"
            break
        batch.append(event)
        if len(batch) == BATCH:
            journal.append(batch)
            batch.clear()
        if on_progress and world.seq % PROGRESS_EVERY == 0:
            on_progress(world.seq, 0)
    journal.append(batch)
    return why


class _Finder:
    """Follows the chain through whatever pages there are."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._tail = Tail()
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
        """Why there is no next event."""
        seq = self._tail.seq
        if any(self._is_event(record) for record in self._beyond(seq)):
            return f"event {seq} is missing or damaged; later events cannot be kept without it"
        return f"no event {seq} was found; nothing follows it"

    def facts(self) -> dict[str, str]:
        """The facts that match their checksum; the newest page is looked at last."""
        found = {}
        for image in self._pages.images:
            for record in self._pages.records(image):
                if self._is_event(record):
                    break  # a page holds rows of one table only
                match record.values:
                    case (str(key), str(value), int(crc)) if codec.fact_sum(key, value) == crc:
                        found[key] = value
        return found

    def _following(self, image: Image) -> Iterator[Event]:
        for record in self._pages.records(image):
            if record.number == self._tail.seq and self._is_event(record):
                row = cast(codec.Row, (record.number, *record.values[1:]))
                events, self._tail, _ = codec.events_in([row], self._tail)
                yield from events

    def _beyond(self, seq: int) -> Iterator[Record]:
        for _, last, image in self._spans:
            if last >= seq:
                yield from (r for r in self._pages.records(image) if r.number >= seq)

    @staticmethod
    def _is_event(record: Record) -> bool:
        match record.values:
            case (None, int(), str(), bytes(), int()):
                return True
        return False


def _refuse_newer(pages: Pages, source: Path) -> None:
    version = pages.version()
    if version is not None:
        schema.refuse_newer(
            version, str(source), "; if none did, its header is damaged: say --any-version"
        )


def _refuse_unusable(source: Path) -> None:
    if not source.is_file():
        raise JournalError(f"there is no journal `{source}` to salvage", hint="check the path")
    if lock.is_held(source.resolve()):
        raise JournalError(
            f"journal `{source}` is being written now, so it is not broken beyond use",
            hint="stop the writer first, then salvage",
        )
