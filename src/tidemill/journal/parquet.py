"""Events as a Parquet table, for analysis: one row an event, with whom it is about by name.

``body`` holds the whole event as JSON; the other columns are there to filter and group by, and are
compared with it when a table is read back.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec
import polars as pl

from tidemill.journal import codec, fields
from tidemill.journal.files import FACTS_KEY
from tidemill.journal.moments import Calendar
from tidemill.model import events as ev
from tidemill.model.errors import JournalError
from tidemill.model.events import Event

CHUNK_ROWS = 50_000

_SCHEMA = {
    "seq": pl.Int64,
    "at_ms": pl.Int64,
    "kind": pl.String,
    "job": pl.String,
    "node": pl.String,
    "contract": pl.String,
    "body": pl.String,
}
_READ = ("seq", "at_ms", "kind", "body")
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)

Facts = dict[str, str]
Row = tuple[int, int, str, str | None, str | None, str | None, str]


def frame(events: Iterable[Event]) -> pl.DataFrame:
    """Events as a table: one row per event, with whom it is about by name, and all of it."""
    rows = _rows(events)
    chunks = [pl.DataFrame(schema=_SCHEMA)]
    while chunk := list(islice(rows, CHUNK_ROWS)):
        chunks.append(pl.DataFrame(chunk, schema=_SCHEMA, orient="row"))
    return pl.concat(chunks)


def write_csv(facts: Facts, events: Iterable[Event], path: Path) -> int:
    """The same table as CSV, with the date of each event where the journal says when it began."""
    calendar = Calendar.of(facts)
    table = frame(events)
    dates = [calendar.iso(at_ms) for at_ms in table["at_ms"].to_list()]
    table.insert_column(2, pl.Series("at", dates, pl.String)).write_csv(path)
    return len(table)


def write(facts: Facts, events: Iterable[Event], path: Path) -> int:
    """Write facts and events to a file and return how many events there were."""
    table = frame(events)
    try:
        table.write_parquet(path, row_group_size=CHUNK_ROWS, metadata=_metadata(facts))
    except pl.exceptions.PolarsError as error:
        raise JournalError(f"`{path}` cannot be written: {error}") from error
    return len(table)


def read_facts(path: Path) -> Facts:
    """The facts in the metadata of a file."""
    try:
        text = pl.read_parquet_metadata(path).get(FACTS_KEY, "{}")
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    place = f"`{path}` metadata"
    return fields.to_facts(fields.parse(text, place), place)


def read(path: Path) -> Iterator[tuple[str, Event]]:
    """The events of a file, each with the place it was found at."""
    rows = (row for chunk in _table(path).iter_slices(CHUNK_ROWS) for row in chunk.iter_rows())
    for count, (seq, at_ms, kind, body) in enumerate(rows):
        place = f"`{path}` row {count}"
        fields.expect(place, "seq", count, seq)
        if body is None:
            raise fields.wrong(place, "body", "expected an event as JSON; found nothing")
        event = fields.decode(body, f"{place}, field `body`")
        fields.expect(place, "at_ms", event.at_ms, at_ms)
        fields.expect(place, "kind", codec.kind_of(event), kind)
        yield place, event


def _table(path: Path) -> pl.DataFrame:
    try:
        table = pl.read_parquet(path)
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    for column in _READ:
        if table.schema.get(column) != _SCHEMA[column]:
            found = table.schema.get(column) or "no such column"
            raise JournalError(
                f"`{path}` column `{column}`: expected {_SCHEMA[column]()}; found {found}",
                hint="give a table that was exported from a journal",
            )
    return table.select(_READ)


def _metadata(facts: Facts) -> dict[str, str]:
    return {FACTS_KEY: msgspec.json.encode(facts).decode()}


def _unreadable(path: Path, error: BaseException) -> JournalError:
    return JournalError(
        f"`{path}` cannot be read as Parquet: {error}", hint="copy or export the file again"
    )


def _rows(events: Iterable[Event]) -> Iterator[Row]:
    names = _Names()
    for seq, event in enumerate(events):
        body = fields.encode(event).decode()
        yield seq, event.at_ms, codec.kind_of(event), *names.of(event), body


class _Names:
    """The names behind the numbers, learned on the way."""

    def __init__(self) -> None:
        self._jobs: list[str] = []
        self._nodes: list[str] = []
        self._contracts: list[str] = []

    def of(self, event: Event) -> tuple[str | None, str | None, str | None]:
        """The job, the node and the contract that an event is about."""
        match event:
            case ev.JobSubmitted(job=job):
                self._jobs.append(job.name)
                return job.name, None, None
            case ev.NodeAdded(node=node):
                self._nodes.append(node.name)
                return None, node.name, node.contract
            case ev.ContractSigned(contract=contract):
                self._contracts.append(contract.name)
                return None, None, contract.name
        return (
            _named(self._jobs, getattr(event, "job", None)),
            _named(self._nodes, getattr(event, "node", None)),
            _named(self._contracts, getattr(event, "contract", None)),
        )


def _named(names: list[str], number: int | None) -> str | None:
    return names[number] if number is not None and number < len(names) else None
