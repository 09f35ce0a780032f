"""Whether a journal is sound: what verifying finds, and where it says that it is."""

import sqlite3
from pathlib import Path

import pytest

from tests.journal import version1
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold_all
from tidemill.journal import open_journal
from tidemill.journal.sqlite.salvage import salvage
from tidemill.journal.verify import Fault, verify
from tidemill.model import events as ev
from tidemill.model.errors import JournalError
from tidemill.model.events import Event
from tidemill.model.rows import Queue
from tidemill.model.world import World

OF_NEXT = "(SELECT body, crc FROM batches WHERE seq = 60)"
OF_NEXT_EVENT = "(SELECT body, crc FROM events WHERE seq = 58)"


@pytest.fixture
def kept(path: Path, story: list[Event]) -> Path:
    """A journal with a story, two snapshots and a fact."""
    with open_journal(str(path), create=True) as journal:
        for start in range(0, len(story), 10):
            journal.append(story[start : start + 10])
        for cut in (100, 300):
            journal.save_snapshot(fold_all(World(), story[:cut]))
        journal.set_meta("spec", "tides")
    return path


def test_a_sound_journal_is_reported(kept: Path, story: list[Event]):
    """A sound journal is described by its length, its end and the digest of its World."""
    world = fold_all(World(), story)
    heard: list[tuple[int, int]] = []
    report = verify(kept, on_progress=lambda done, total: heard.append((done, total)))
    assert report.is_sound
    assert report.hint == ""
    assert (report.events, report.last_ms) == (len(story), story[-1].at_ms)
    assert report.digest == snapshot.digest(world)
    assert report.snapshots == 2
    assert heard == [(len(story), len(story))]


@pytest.mark.parametrize(
    ("damage", "seq", "found"),
    [
        ("DELETE FROM batches WHERE seq = 50", 50, "missing"),
        ("UPDATE batches SET body = x'c0' WHERE seq = 50", 50, "checksum"),
        ("UPDATE batches SET body = 'text' WHERE seq = 50", 50, "checksum"),
        ("UPDATE batches SET crc = crc + 1 WHERE seq = 50", 50, "checksum"),
        ("UPDATE batches SET crc = 'x' WHERE seq = 50", 50, "checksum"),
        ("UPDATE batches SET events = events - 1 WHERE seq = 50", 50, "checksum"),
        ("UPDATE batches SET first_ms = first_ms - 1 WHERE seq = 50", 50, "checksum"),
        ("UPDATE batches SET last_ms = last_ms + 1 WHERE seq = 50", 50, "checksum"),
        ("UPDATE batches SET added = x'00' WHERE seq = 0", 0, "checksum"),
        ("UPDATE batches SET seq = -1 WHERE seq = 0", 0, "missing"),
        (f"UPDATE batches SET (body, crc) = {OF_NEXT} WHERE seq = 50", 50, "checksum"),
        ("UPDATE batches SET seq = seq + 1000 WHERE seq >= 50", 50, "missing"),
        (f"UPDATE batches SET seq = {2**62} WHERE seq = 390", 390, "has the number"),
        (f"UPDATE batches SET seq = {2**63 - 1} WHERE seq = 390", 390, "has the number"),
    ],
)
def test_damage_is_found_in_its_place(kept: Path, damage: str, seq: int, found: str):
    """A row that is changed, missing, moved or doubled is found at its first event."""
    _assert_found(kept, damage, seq, found)


@pytest.mark.parametrize(
    ("damage", "seq", "found"),
    [
        ("DELETE FROM events WHERE seq = 57", 57, "missing"),
        ("UPDATE events SET body = x'c0' WHERE seq = 57", 57, "checksum"),
        ("UPDATE events SET body = 'text' WHERE seq = 57", 57, "cannot be read"),
        ("UPDATE events SET crc = 'x' WHERE seq = 57", 57, "checksum"),
        ("UPDATE events SET at_ms = at_ms + 1 WHERE seq = 57", 57, "its row says"),
        ("UPDATE events SET kind = kind || 'x' WHERE seq = 56", 56, "its row says"),
        ("UPDATE events SET seq = -1 WHERE seq = 0", 0, "missing"),
        (f"UPDATE events SET (body, crc) = {OF_NEXT_EVENT} WHERE seq = 57", 57, "checksum"),
        ("UPDATE events SET seq = seq + 1000 WHERE seq >= 57", 57, "missing"),
        (f"UPDATE events SET seq = {2**63 - 1} WHERE seq = 399", 399, "has the number"),
    ],
)
def test_damage_to_version_1_is_found(
    path: Path, story: list[Event], damage: str, seq: int, found: str
):
    """In a journal of version 1 damage is found at its event."""
    _assert_found(version1.write(path, story), damage, seq, found)


def _assert_found(path: Path, damage: str, seq: int, found: str) -> None:
    _change(path, damage)
    report = verify(path)
    assert not report.is_sound
    assert [fault.seq for fault in report.faults if found in fault.found] == [seq]
    assert report.events == seq
    if seq:
        assert salvage(path, path.with_name("out.db")).kept == seq
        assert report.hint.startswith(f"keep what is intact with `tidemill journal salvage {path}")
    else:
        assert report.hint.startswith("restore it from a copy")


def test_an_inserted_row_is_found(kept: Path):
    """A row that was put in between, with all others moved up, breaks the chain there."""
    _change(kept, "UPDATE batches SET seq = -seq WHERE seq >= 50")
    _change(kept, "UPDATE batches SET seq = 10 - seq WHERE seq < 0")
    columns = "events, first_ms, last_ms, added, body, crc"
    _change(kept, f"INSERT INTO batches SELECT 50, {columns} FROM batches WHERE seq = 40")
    assert [fault.seq for fault in verify(kept).faults] == [50]


def test_a_damaged_dictionary_is_found_from_the_middle(kept: Path):
    """Whoever begins at a snapshot finds damage to what earlier rows added to the dictionary."""
    _change(kept, "UPDATE batches SET added = x'0000000000' WHERE seq = 0")
    with open_journal(str(kept)) as journal, pytest.raises(JournalError, match="at event 0"):
        list(journal.read(390))


def test_an_impossible_event_is_found(path: Path):
    """Rows may be intact and still tell what cannot have happened."""
    with open_journal(str(path), create=True) as journal:
        journal.append([ev.QueueSet(0, Queue("red")), ev.JobFinished(5, 3, 1), ev.Woke(9)])
    report = verify(path)
    assert report.events == 1
    assert [fault.seq for fault in report.faults] == [1]
    assert "cannot be applied" in report.faults[0].found
    assert salvage(path, path.with_name("out.db")).kept == 1


def test_a_snapshot_that_differs_is_found(path: Path, story: list[Event]):
    """A snapshot of another World is found, even if it is intact and of the right length."""
    other = fold_all(World(), [*story[:99], ev.Woke(story[99].at_ms + 1)])
    with open_journal(str(path), create=True) as journal:
        journal.append(story)
        journal.save_snapshot(other)
    assert verify(path).faults == (
        Fault(100, "the snapshot before it is not the cluster state that the events give"),
    )


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE snapshots SET body = x'00' WHERE seq = 300",
        "UPDATE snapshots SET crc = 1 WHERE seq = 300",
        "UPDATE snapshots SET seq = 100000 WHERE seq = 300",
    ],
)
def test_a_damaged_snapshot_is_found(kept: Path, story: list[Event], damage: str):
    """Damage to a snapshot is told apart from damage to events, which are all still there."""
    _change(kept, damage)
    report = verify(kept)
    assert report.events == len(story)
    assert len(report.faults) == 1
    assert "snapshot" in report.faults[0].found


def test_a_snapshot_of_another_layout_is_no_fault(kept: Path):
    """A snapshot of another version is of no use, but nothing is wrong with it."""
    _change(kept, "UPDATE snapshots SET layout = layout + 1")
    assert verify(kept).is_sound


def test_a_damaged_fact_is_not_believed(kept: Path):
    """A fact that was changed by anything but ``set_meta`` is refused."""
    _change(kept, "UPDATE facts SET value = 'tidas'")
    with open_journal(str(kept)) as journal, pytest.raises(JournalError, match="fact `spec`"):
        journal.meta("spec")


def test_what_is_no_journal_is_an_error(path: Path):
    """Verifying what is not there, or is no journal, is an error, not a report of no events."""
    with pytest.raises(JournalError, match="no such file"):
        verify(path)
    path.write_text("seq,at_ms\n" * 500)
    with pytest.raises(JournalError, match="is not a Tidemill journal") as refused:
        verify(path)
    assert refused.value.hint == "check the path"


def test_a_journal_is_verified_while_it_is_written(kept: Path, story: list[Event]):
    """Verifying needs no lock and disturbs no writer."""
    with open_journal(str(kept)) as journal:
        journal.append([ev.Woke(story[-1].at_ms)])
        assert verify(kept).events == len(story) + 1
        journal.append([ev.Woke(story[-1].at_ms)])
    assert verify(kept).is_sound


def _change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()
