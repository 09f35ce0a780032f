"""One writer at a time, within a process; what is half done leaves nothing behind."""

import sqlite3
from pathlib import Path

import pytest

from tidemill.journal import open_journal
from tidemill.journal.sqlite.journal import SqliteJournal
from tidemill.journal.verify import verify
from tidemill.model import events as ev
from tidemill.model.errors import JournalError
from tidemill.model.events import Event
from tidemill.model.world import World


def test_the_first_write_makes_the_writer(where: str):
    """Many may have a journal open; whoever writes first is the writer until it closes."""
    with open_journal(where, create=True) as first, open_journal(where) as second:
        first.append([ev.Woke(1)])
        for write in (
            lambda: second.append([ev.Woke(1)]),
            lambda: second.set_meta("a", "b"),
            lambda: second.save_snapshot(World()),
            second.claim,
        ):
            with pytest.raises(JournalError, match="is being written by process"):
                write()
        assert list(second.read()) == [ev.Woke(1)]
        first.append([ev.Woke(2)])
        assert len(second) == 2


def test_a_claim_is_refused_early(where: str):
    """A claim makes the writer before there is anything to write."""
    with open_journal(where, create=True) as first, open_journal(where) as second:
        first.claim()
        first.claim()
        with pytest.raises(JournalError, match="one writer at a time"):
            second.claim()


def test_a_journal_that_grew_is_not_written(where: str):
    """A World that was rebuilt before others wrote must not go on writing after them."""
    with open_journal(where, create=True) as stale:
        with open_journal(where) as other:
            other.append([ev.Woke(1)])
        with pytest.raises(JournalError, match="had 0 events when it was opened"):
            stale.append([ev.Woke(1)])
        assert list(stale.read()) == [ev.Woke(1)]
    with open_journal(where) as fresh:
        fresh.append([ev.Woke(2)])
        assert len(fresh) == 2


def test_names_of_one_file_share_one_writer(path: Path):
    """A link to a journal is that journal: it has no writer of its own."""
    link = path.with_name("link.db")
    with open_journal(str(path), create=True) as first:
        link.symlink_to(path)
        first.append([ev.Woke(1)])
        with open_journal(str(link)) as second, pytest.raises(JournalError, match="written by"):
            second.append([ev.Woke(1)])


def test_another_program_is_waited_for_and_named(path: Path, monkeypatch: pytest.MonkeyPatch):
    """If another program holds the file locked, the append says so and nothing is written."""
    monkeypatch.setattr("tidemill.journal.sqlite.schema.BUSY_S", 0.01)
    with open_journal(str(path), create=True) as journal:
        journal.claim()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="locked"):
            journal.append([ev.Woke(1)])
        other.close()
        journal.append([ev.Woke(2)])
        assert list(journal.read()) == [ev.Woke(2)]


def test_a_full_disk_loses_nothing(path: Path, story: list[Event]):
    """An append that finds no room is refused whole; what was kept stays, and more may follow."""
    with SqliteJournal.create(path) as journal:
        journal.append(story[:10])
        connection = journal._open()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(JournalError, match="full") as refused:
            journal.append(story[10:])
        assert "space" in refused.value.hint
        assert list(journal.read()) == story[:10]
        connection.execute("PRAGMA max_page_count=1000000")
        journal.append(story[10:])
    assert verify(path).events == len(story)


def test_another_thread_is_refused_kindly(path: Path):
    """A journal used after it was closed, or by the wrong thread, answers with its own error."""
    from threading import Thread

    refusals: list[JournalError] = []

    def use() -> None:
        try:
            len(journal)
        except JournalError as error:
            refusals.append(error)

    with open_journal(str(path), create=True) as journal:
        thread = Thread(target=use)
        thread.start()
        thread.join()
    assert "thread" in refusals[0].hint
