"""Rows of a source while it is read: in memory, or in a file without a name."""

from functools import partial
from pathlib import Path

import polars as pl
import pytest

from tidemill.journal import spilling
from tidemill.live.history import gathered
from tidemill.live.history.by_job import are_several, distinct, taken
from tidemill.live.history.gathered import GatheredRows

KINDS = {"job_id": pl.Int64, "node": pl.String, "note": pl.String, "told": pl.Boolean}


def _tables() -> list[pl.DataFrame]:
    names = ["a name that is longer than twelve letters", None, "n3"]
    return [
        pl.DataFrame(
            {"job_id": [3 * i, 3 * i + 1, 3 * i + 2], "node": names if i != 1 else ["n1"] * 3,
             "note": [None] * 3},
            schema={name: KINDS[name] for name in ("job_id", "node", "note")},
        )
        for i in range(4)
    ]  # fmt: skip


def _gathered() -> pl.DataFrame:
    rows = GatheredRows()
    for table in _tables():
        rows.add(table)
    rows.say(0, "told", value=True)
    return rows.frame(KINDS)


def _plain() -> pl.DataFrame:
    return pl.concat(_tables()).with_columns(told=pl.lit(value=True))


def test_rows_come_back_as_they_were_and_in_their_order():
    """All columns with their types, also one that only the gathering was told."""
    assert _gathered().equals(_plain())
    assert _gathered().schema == KINDS


def test_long_tables_wait_in_a_file_without_a_name(monkeypatch, tmp_path: Path):
    """What is more than stays in memory is in a file that no folder lists, and comes back."""
    monkeypatch.setattr(gathered, "MOST_IN_MEMORY", 4)
    monkeypatch.setattr(spilling, "FOLDER", tmp_path)
    rows = GatheredRows()
    for table in _tables():
        rows.add(table)
    kept = [type(column) for columns in rows._columns for column in columns.values()]
    assert kept.count(pl.Series) == 2  # the first table: job_id and node
    assert kept.count(gathered._Packed) == 5
    assert list(tmp_path.iterdir()) == []
    rows.say(0, "told", value=True)
    assert rows.frame(KINDS).equals(_plain())


@pytest.mark.parametrize("place", ["no such folder", "full"])
def test_without_a_place_on_disk_they_wait_in_memory(monkeypatch, tmp_path: Path, place: str):
    """No folder, or a full disk: the same rows."""
    monkeypatch.setattr(gathered, "MOST_IN_MEMORY", 0)
    monkeypatch.setattr(spilling, "FOLDER", tmp_path / "none")
    if place == "full":
        full = partial(Path("/dev/full").open, "r+b")
        monkeypatch.setattr(
            gathered.tempfile, "TemporaryFile", lambda **told: full(told["buffering"])
        )
    assert _gathered().equals(_plain())


def test_one_row_and_no_row_are_tables_too():
    """Of one row all columns are alike, of none nothing is kept."""
    rows = GatheredRows()
    rows.add(_plain().clear())
    assert len(rows) == 0
    rows.add(_plain().head(1))
    assert rows.frame(KINDS).equals(_plain().head(1))
    assert GatheredRows().frame(KINDS).equals(_plain().clear())


def test_rows_that_differ_are_counted():
    """Nulls are like nulls."""
    rows = pl.DataFrame({"job": ["a", "a", "b", None, None], "at": [1, 1, 1, None, None]})
    assert distinct(rows) == rows.n_unique() == 3
    assert distinct(rows.clear()) == 0


def test_rows_are_taken_in_an_order_and_are_gone():
    """The table that they were taken of has no column left to take memory."""
    rows = pl.DataFrame({"job": ["a", "b", "c"], "at": [1, None, 3]})
    order, plain = pl.Series([2, 0, 1]), rows.clone()
    assert taken(rows, order).equals(plain[order])
    assert rows.columns == []


def test_rows_that_are_equal_are_found():
    """A row is one of several if another has the same cells, nulls too, and only then."""
    cells = [("a", "u"), ("a", "v"), ("a", "u"), ("b", None), ("b", None), ("c", None), (None, "c")]
    rows = pl.DataFrame(cells, schema=["job", "user"], orient="row")
    assert are_several(rows).to_list() == [cells.count(one) > 1 for one in cells]
    assert are_several(rows.clear()).to_list() == []


def test_columns_that_all_rows_have_alike_come_with_as_many_rows():
    """Asked for alone, or in another order than they were told."""
    rows = GatheredRows.of([_plain()])
    assert [len(part) for part in rows.each("told")] == [len(_plain())]
    assert next(rows.each("told", "node", "job_id")).equals(_plain()["told", "node", "job_id"])
