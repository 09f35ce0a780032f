"""What can be opened, and what is said about the rest."""

import sqlite3
from pathlib import Path

import pytest

from tests.journal import version1
from tidemill.journal import open_journal
from tidemill.journal.files import APPLICATION_ID
from tidemill.model import events as ev
from tidemill.model.errors import JournalError, SpecError
from tidemill.model.events import Event


def test_an_absent_file_is_named(path: Path):
    """Opening what is not there says so, names the path, and makes nothing."""
    with pytest.raises(JournalError) as refused:
        open_journal(str(path))
    assert str(path) in refused.value.message
    assert refused.value.hint
    assert not path.exists()


def test_create_opens_what_exists(path: Path):
    """Creating where a journal exists opens it, with everything in it."""
    with open_journal(str(path), create=True) as journal:
        journal.append([ev.Woke(1)])
    with open_journal(str(path), create=True) as journal:
        assert list(journal.read()) == [ev.Woke(1)]


def test_a_journal_at_rest_is_one_file(path: Path):
    """A closed journal is a single file, in a folder with nothing else left in it."""
    with open_journal(str(path), create=True) as journal:
        journal.append([ev.Woke(1)])
    with open_journal(str(path)) as journal:
        assert len(journal) == 1
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["a b.db", "a?b#c%20.db", "ночь.db", ":memory:.db"])
def test_any_name_will_do(tmp_path: Path, name: str):
    """A path is taken as it is, whatever characters it has."""
    where = str(tmp_path / name)
    open_journal(where, create=True).close()
    assert Path(where).is_file()
    open_journal(where).close()


def test_an_address_names_a_journal():
    """A database has many journals; which one is meant must be said."""
    with pytest.raises(SpecError, match="names no journal") as refused:
        open_journal("postgresql://mill@db/tides")
    assert "?journal=NAME" in refused.value.hint


def test_other_addresses_are_refused():
    """An address is not taken for the name of a file."""
    with pytest.raises(JournalError, match="mysql"):
        open_journal("mysql://mill", create=True)


def test_a_folder_is_not_a_journal(tmp_path: Path):
    """A folder is refused for what it is."""
    with pytest.raises(JournalError, match="it is a folder"):
        open_journal(str(tmp_path))


def test_a_journal_needs_its_folder(tmp_path: Path):
    """Creating in a folder that does not exist says which file cannot be written."""
    with pytest.raises(JournalError, match="cannot be written"):
        open_journal(str(tmp_path / "absent" / "mill.db"), create=True)


@pytest.mark.parametrize("content", [b"", b"\0", b"seq,at_ms\n" * 500, b"SQLite format 3\0"])
def test_other_files_are_not_journals(path: Path, content: bytes):
    """A file that is empty or of another sort is refused, and left as it was."""
    path.write_bytes(content)
    with pytest.raises(JournalError, match="is not a Tidemill journal") as refused:
        open_journal(str(path), create=True)
    assert "tidemill journal salvage" in refused.value.hint
    assert path.read_bytes() == content


def test_other_databases_are_not_journals(path: Path):
    """An SQLite file of another program is refused."""
    _change(path, "CREATE TABLE events (seq)")
    with pytest.raises(JournalError, match="is not a Tidemill journal"):
        open_journal(str(path))


def test_a_newer_version_is_refused(path: Path):
    """A journal of a later version is not touched; the hint says what to do."""
    open_journal(str(path), create=True).close()
    _change(path, "PRAGMA user_version=4")
    with pytest.raises(
        JournalError, match="has version 4; this Tidemill knows version 3"
    ) as refused:
        open_journal(str(path))
    assert "newer" in refused.value.hint


@pytest.mark.parametrize("version", [1, 2])
def test_a_journal_without_its_tables_is_broken(path: Path, version: int):
    """A file that is marked as a journal but holds nothing is broken, not empty."""
    _change(path, f"PRAGMA application_id={APPLICATION_ID}", f"PRAGMA user_version={version}")
    with pytest.raises(JournalError, match="broken at event 0"):
        open_journal(str(path))


@pytest.mark.parametrize(
    ("damage", "seq"),
    [
        ("UPDATE batches SET body = x'00' WHERE seq = 390", 390),
        ("UPDATE batches SET crc = crc + 1 WHERE seq = 380", 390),
        ("UPDATE batches SET events = 0 WHERE seq = 390", 390),
        ("DELETE FROM batches WHERE seq = 380", 389),
        ("DELETE FROM batches WHERE seq = 0", 0),
        (f"UPDATE batches SET seq = {2**63 - 1} WHERE seq = 390", 2**63 - 2),
    ],
)
def test_the_ends_are_looked_at(path: Path, story: list[Event], damage: str, seq: int):
    """Opening finds a damaged last row and a missing first one, and says where they are."""
    with open_journal(str(path), create=True) as journal:
        for start in range(0, len(story), 10):
            journal.append(story[start : start + 10])
    _change(path, damage)
    _assert_broken(path, seq)


def test_the_ends_of_version_1_are_looked_at(path: Path, story: list[Event]):
    """Opening finds a damaged last event and a missing first one, and says where they are."""
    last = len(story) - 1
    whole = version1.write(path, story).read_bytes()
    for damage, seq in (
        (f"UPDATE events SET body = x'00' WHERE seq = {last}", last),
        (f"UPDATE events SET crc = crc + 1 WHERE seq = {last - 1}", last),
        (f"DELETE FROM events WHERE seq = {last - 1}", last - 1),
        ("DELETE FROM events WHERE seq = 0", 0),
        (f"UPDATE events SET seq = {2**63 - 1} WHERE seq = {last}", 2**63 - 2),
    ):
        path.write_bytes(whole)
        _change(path, damage)
        _assert_broken(path, seq)


def _assert_broken(path: Path, seq: int) -> None:
    with pytest.raises(JournalError, match=f"broken at event {seq}") as refused:
        open_journal(str(path))
    assert f"tidemill journal salvage {path}" in refused.value.hint


def _change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()
