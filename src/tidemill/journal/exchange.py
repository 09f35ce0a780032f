"""Journals to and from files that other tools read: JSON lines and Parquet, told by the suffix.

Nothing is lost on the way: what is written reads back equal, a file appears whole or not at all,
and every row is checked and folded before a new journal takes its name. Snapshots stay behind: they
can be made again.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from tidemill.engine.fold import one_event
from tidemill.journal import fields, files, lines, naming, parquet, policies
from tidemill.journal.base import PROGRESS_EVERY, Journal, Progress
from tidemill.journal.building import BATCH, building
from tidemill.journal.replay import CANNOT_BE, refusal
from tidemill.model.errors import JournalError
from tidemill.model.events import Event
from tidemill.model.world import World

Form = Literal["lines", "packed lines", "parquet", "csv"]

_FORMS: dict[str, Form] = {
    ".jsonl": "lines",
    ".ndjson": "lines",
    ".jsonl.gz": "packed lines",
    ".ndjson.gz": "packed lines",
    ".parquet": "parquet",
    ".csv": "csv",
}


class Imported(NamedTuple):
    """How many events were kept; ``stopped`` says why not all, if only a beginning was wanted."""

    events: int
    last_ms: int
    stopped: str = ""


def export_events(
    journal: Journal,
    path: Path | str,
    *,
    overwrite: bool = False,
    on_progress: Progress | None = None,
) -> int:
    """Write every event of a journal to a file and return how many there were."""
    target = Path(path)
    form = form_of(target)
    files.refuse(target, is_forced=overwrite)
    with files.fresh(target) as part:
        try:
            events = _counted(journal.read(), len(journal), on_progress)
            return _write(journal.facts(), events, part, form)
        except OSError as error:
            raise files.cannot_write(target, error) from error


def import_events(
    source: Path | str,
    out: Path | str,
    *,
    keep_prefix: bool = False,
    on_progress: Progress | None = None,
) -> Imported:
    """Make a journal of the events in a file.

    The first row that is wrong stops it: nothing is kept then, unless ``keep_prefix`` asks for
    everything before that row.
    """
    origin, world, stopped = Path(source), World(), ""
    facts, rows = _read(origin, form_of(origin))
    policies.of(facts, str(origin))
    with building(out) as journal:
        for key, value in facts.items():
            journal.set_meta(key, value)
        try:
            for batch in _batches(_folded(rows, world)):
                journal.append(batch)
                if on_progress and world.seq % PROGRESS_EVERY == 0:
                    on_progress(world.seq, 0)
        except JournalError as error:
            if not keep_prefix:
                raise
            stopped = error.message
    return Imported(world.seq, world.now_ms, stopped)


def form_of(path: Path) -> Form:
    """Which form a file has, by its name."""
    for suffix, form in _FORMS.items():
        if path.name.endswith(suffix):
            return form
    raise JournalError(
        f"`{path}` does not say which form it has", hint=f"end its name in {', '.join(_FORMS)}"
    )


def _write(facts: dict[str, str], events: Iterable[Event], path: Path, form: Form) -> int:
    if form == "csv":
        return parquet.write_csv(facts, events, path)
    if form == "parquet":
        return parquet.write(facts, events, path)
    return lines.write(facts, events, path, is_packed=form == "packed lines")


def _read(path: Path, form: Form) -> tuple[dict[str, str], Iterator[tuple[str, Event]]]:
    if not path.is_file():
        raise JournalError(f"there is no file `{path}`", hint="check the path")
    if form == "csv":
        raise JournalError(
            f"`{path}` is CSV, which is for spreadsheets and keeps no facts of a journal",
            hint="export as .jsonl.gz or .parquet what is to be imported again",
        )
    if form == "parquet":
        return parquet.read_facts(path), parquet.read(path)
    is_packed = form == "packed lines"
    return lines.read_facts(path, is_packed=is_packed), lines.read(path, is_packed=is_packed)


def _folded(rows: Iterable[tuple[str, Event]], world: World) -> Iterator[Event]:
    """The events, each of them possible after those before it."""
    for place, event in rows:
        try:
            one_event.fold(world, event)
        except CANNOT_BE as error:
            raise fields.wrong(place, "", refusal(error)) from error
        if found := naming.fault(event):
            raise fields.wrong(place, "", found)
        yield event


def _batches(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Batches to write; what came before an error is given out before the error goes on."""
    batch: list[Event] = []
    try:
        for event in events:
            batch.append(event)
            if len(batch) == BATCH:
                yield batch
                batch = []
    except JournalError:
        yield batch
        raise
    yield batch


def _counted(events: Iterable[Event], total: int, on_progress: Progress | None) -> Iterator[Event]:
    for count, event in enumerate(events, 1):
        if on_progress and (count % PROGRESS_EVERY == 0 or count == total):
            on_progress(count, total)
        yield event
