"""The longest intact beginning of a broken journal (``intact``), copied into a new one."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tidemill.journal import files, lock
from tidemill.journal.base import PROGRESS_EVERY, Journal, Progress
from tidemill.journal.building import BATCH, building
from tidemill.journal.completeness import COMPLETED
from tidemill.journal.faults import RESTORE, copied, rescue
from tidemill.journal.postgres import address
from tidemill.journal.sqlite import intact, schema
from tidemill.journal.sqlite.intact import Intact
from tidemill.journal.sqlite.pages import Pages
from tidemill.model.errors import JournalError
from tidemill.model.events import Event


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
    A file in which no event is found is refused, and nothing is written.
    """
    if address.is_address(str(broken)):
        raise JournalError(
            f"journal `{address.visible(str(broken))}` is not in a file; only files are salvaged",
            hint=rescue(address.visible(str(broken))),
        )
    source, target = Path(broken), Path(out)
    if files.is_rolled_up(source):
        raise JournalError(
            f"journal `{source}` was rolled up; only whole chains of events are salvaged",
            hint=copied(str(source)),
        )
    _refuse_unusable(source)
    files.refuse(target, option="")
    with closing(Pages(source.resolve())) as pages, building(target) as journal:
        if not any_version:
            _refuse_newer(pages, source)
        finder, keeper = intact.Finder(pages, str(source)), _Keeper(journal, on_progress)
        found = intact.follow(finder, keeper.keep)
        keeper.flush()
        if not found.world.seq:
            raise _nothing(source, found)
        facts, damaged = finder.facts()
        for key, value in facts.items():
            journal.set_meta(key, value)
        end = int(facts.get(COMPLETED, 0)) or finder.end()
    world, why = found.world, _why(found, damaged, end)
    return SalvageReport(str(source), str(target), world.seq, world.now_ms, why)


class _Keeper:
    """Keeps events in a journal, many at once."""

    def __init__(self, journal: Journal, on_progress: Progress | None) -> None:
        self._journal, self._on_progress = journal, on_progress
        self._batch: list[Event] = []
        self._kept = 0

    def keep(self, event: Event) -> None:
        """Take one more event."""
        self._batch.append(event)
        if len(self._batch) == BATCH:
            self.flush()
        self._kept += 1
        if self._on_progress and self._kept % PROGRESS_EVERY == 0:
            self._on_progress(self._kept, 0)

    def flush(self) -> None:
        """Write what was taken."""
        self._journal.append(self._batch)
        self._batch.clear()


def _why(found: Intact, damaged: list[str], end: int) -> str:
    """What was left behind, if anything, of as many events as the file had."""
    lost = "".join(f"; the fact `{key}` was damaged and is not kept" for key in damaged)
    if not found.why:
        return f"every event that was found is intact{lost}"
    seq, last = found.world.seq, max(end - 1, found.world.seq)
    which = f"event {seq:,}" if last == seq else f"events {seq:,} to {last:,}"
    return (
        f"lost: {which}, {last - seq + 1:,} in all. Event {seq:,}: {found.why}; what follows names"
        f" jobs, nodes and contracts by the order in which lost events brought them{lost}"
    )


def _refuse_newer(pages: Pages, source: Path) -> None:
    version = pages.version()
    if version is not None:
        schema.refuse_newer(
            version, str(source), "; if none did, its header is damaged: say --any-version"
        )


def _nothing(source: Path, found: Intact) -> JournalError:
    if files.kind_of(source) != "journal" and not found.why:
        return JournalError(
            f"`{source}` holds no event of a Tidemill journal; there is nothing to salvage",
            hint="check the path",
        )
    why = f": {found.why}" if found.why else ""
    return JournalError(
        f"journal `{source}` holds no intact event{why}; there is nothing to salvage",
        hint=RESTORE,
    )


def _refuse_unusable(source: Path) -> None:
    if source.is_dir():
        raise JournalError(f"`{source}` is a folder, not a journal", hint="give the path of a file")
    if not source.is_file():
        raise JournalError(f"there is no journal `{source}` to salvage", hint="check the path")
    if lock.is_held(source.resolve()):
        raise JournalError(
            f"journal `{source}` is being written now, so it is not broken beyond use",
            hint="stop the writer first, then salvage",
        )
