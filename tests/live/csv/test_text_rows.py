"""A long table that is read in blocks tells the same as one that is read at once."""

from pathlib import Path

import pytest

from tidemill.live.csv import tables, text_rows
from tidemill.model.errors import SpecError

HEADER = "job,user,gpus,start,end,node,note"


def _write(path: Path, rows: int, cell: str = "") -> Path:
    """Rows of which some say nothing, and those of the first half all the same of a column."""
    lines = [
        f"j{i},{'ann' if i < rows // 2 else f'u{i}'},{i % 3},{1_700_000_000 + i},"
        f"{1_700_000_100 + i},n{i % 5},{cell}"
        for i in range(rows)
    ]
    path.write_text("\n".join([HEADER, *lines, ",,,,,,", ""]))
    return path


@pytest.mark.parametrize("cell", ["", "plain", '"a\nb"', "ä"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_blocks_are_the_same_table(tmp_path: Path, monkeypatch, cell: str, mark: str):
    """Whether lines are rows, or quoted cells have lines in them, and a mark stands before all."""
    path = _write(tmp_path / "jobs.csv", 500, cell)
    path.write_text(mark + path.read_text())
    whole = tables.read_jobs(path, {}, "UTC")
    monkeypatch.setattr(text_rows, "LONG_BYTES", 1)
    monkeypatch.setattr(text_rows, "_BLOCK_BYTES", 700)
    assert text_rows.is_plain(path) == (not cell.startswith('"'))
    found = tables.read_jobs(path, {}, "UTC")
    assert found.attempts.equals(whole.attempts)
    assert len(found.attempts) == 500
    assert found[1:] == whole[1:]


def test_faults_are_told_by_their_rows_in_the_file(tmp_path: Path, monkeypatch):
    """A cell that cannot be read, and a line with too many cells, in a later block."""
    path = _write(tmp_path / "jobs.csv", 300)
    monkeypatch.setattr(text_rows, "LONG_BYTES", 1)
    monkeypatch.setattr(text_rows, "_BLOCK_BYTES", 700)
    path.write_text(path.read_text().replace("j250,u250,1,", "j250,u250,many,"))
    with pytest.raises(SpecError, match="`many` in row 252"):
        tables.read_jobs(path, {}, "UTC")
    path.write_text(path.read_text().replace("j250,u250,many,", "j250,u250,1,2,3,"))
    with pytest.raises(SpecError, match="is no table"):
        tables.read_jobs(path, {}, "UTC")


def test_an_empty_line_between_rows_is_left_to_one_reader(tmp_path: Path):
    """At the end of a block it would be no row, in the middle of one it is."""
    path = tmp_path / "jobs.csv"
    for text in ("a,b\n1,2\n\n3,4\n", "a,b\r\n1,2\r\n\r\n3,4\r\n"):
        path.write_bytes(text.encode())
        assert not text_rows.is_plain(path)
