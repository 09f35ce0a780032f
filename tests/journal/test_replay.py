"""The World again: from snapshots, from the journal alone, and up to a moment."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import contract, job, opening, team
from tests.journal.stories import stories
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold_all
from tidemill.journal import Journal, open_journal, snapshots
from tidemill.journal.replay import rebuild
from tidemill.journal.sqlite.journal import SqliteJournal
from tidemill.model import events as ev
from tidemill.model.errors import JournalError
from tidemill.model.events import Event
from tidemill.model.reasons import Cause
from tidemill.model.world import World


@given(story=stories(), share=st.floats(0, 1))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_snapshot_changes_nothing(story: list[Event], share: float):
    """Snapshot and rest give the World that the whole journal gives, byte for byte."""
    with open_journal(":memory:") as journal:
        journal.append(story)
        journal.save_snapshot(fold_all(World(), story[: int(share * len(story))]))
        assert snapshot.dump(rebuild(journal)) == snapshot.dump(
            rebuild(journal, use_snapshot=False)
        )


def test_a_reason_of_a_job_that_is_over_is_in_no_snapshot():
    """What its scheduler last said of it is not kept: a world that is read again has it nowhere."""
    told = [
        *opening(contract("c", gpus=8), teams=[team("a")]), ev.JobSubmitted(0, job("j", team="a")),
        ev.ReasonSeen(0, 0, Cause.NONE, 3, "Resources"), ev.JobCancelled(0, 0),
    ]  # fmt: skip
    world = fold_all(World(), told)
    assert snapshot.dump(snapshot.load(snapshot.dump(world))) == snapshot.dump(world)


def test_a_snapshot_in_a_file_changes_nothing(path: Path, story: list[Event]):
    """The same holds for a file that was closed and opened in between, at every snapshot."""
    whole = snapshot.dump(fold_all(World(), story))
    for cut in range(0, len(story) + 1, 50):
        with open_journal(str(path), create=True) as journal:
            journal.append(story[len(journal) :])
            journal.save_snapshot(fold_all(World(), story[:cut]))
        with open_journal(str(path)) as journal:
            found = journal.latest_snapshot()
            assert found is not None
            assert found.seq == cut
            assert snapshot.dump(rebuild(journal)) == whole


def test_a_moment_can_be_rebuilt(journal: Journal, story: list[Event]):
    """Up to a moment means every event at or before it, whether or not a snapshot helps."""
    journal.append(story)
    journal.save_snapshot(fold_all(World(), story[:200]))
    for up_to_ms in (0, story[100].at_ms, story[199].at_ms, story[300].at_ms, story[-1].at_ms + 1):
        wanted = fold_all(World(), (event for event in story if event.at_ms <= up_to_ms))
        assert snapshot.dump(rebuild(journal, up_to_ms=up_to_ms)) == snapshot.dump(wanted)


def test_progress_is_told(journal: Journal, story: list[Event]):
    """Whoever asks hears how far the rebuilding is, and that it has ended."""
    journal.append(story)
    heard: list[tuple[int, int]] = []
    rebuild(journal, on_progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (len(story), len(story))
    assert heard == sorted(heard)


def test_what_cannot_be_folded_is_named(journal: Journal):
    """An event that contradicts those before it is named by its number."""
    journal.append([ev.Woke(0), ev.JobFinished(1, 7, 1)])
    with pytest.raises(JournalError, match="broken at event 1: it cannot be applied: job number 7"):
        rebuild(journal)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE snapshots SET body = x'00'",
        "UPDATE snapshots SET body = 5",
        "UPDATE snapshots SET body = substr(body, 2)",
        "UPDATE snapshots SET digest = 'x'",
        "UPDATE snapshots SET layout = layout + 1",
        "UPDATE snapshots SET crc = crc + 1",
        "UPDATE snapshots SET seq = seq + 1",
        "UPDATE snapshots SET seq = seq + 1000000",
        "UPDATE snapshots SET seq = -1",
    ],
)
def test_an_unusable_snapshot_is_ignored(path: Path, story: list[Event], damage: str):
    """A snapshot that is damaged, of another layout or of other events is not used."""
    with open_journal(str(path), create=True) as journal:
        journal.append(story)
        journal.save_snapshot(fold_all(World(), story[:200]))
    _change(path, damage)
    with open_journal(str(path)) as journal:
        assert journal.latest_snapshot() is None
        assert snapshot.dump(rebuild(journal)) == snapshot.dump(fold_all(World(), story))


def test_the_snapshot_before_serves(path: Path, story: list[Event]):
    """The newest two and the first are kept, and the older one is used if the newer is damaged."""
    with SqliteJournal.create(path) as journal:
        journal.append(story)
        for cut in (25, 50, 100, 200):
            journal.save_snapshot(fold_all(World(), story[:cut]))
        assert journal.snapshot_numbers() == [200, 100, 25]
    _change(path, "UPDATE snapshots SET body = x'00' WHERE seq = 200")
    with open_journal(str(path)) as journal:
        found = journal.latest_snapshot()
        assert found is not None
        assert found.seq == 100
    _change(path, "DELETE FROM snapshots WHERE seq <= 100")
    with open_journal(str(path)) as journal:
        assert journal.latest_snapshot() is None


def test_the_last_snapshot_needs_none_beside_it():
    """At the end of a run the snapshot shortly before it goes, if there is another one."""
    assert snapshots.worn([105_000, 215_000, 310_000, 330_000], 330_000) == []
    assert snapshots.worn([105_000, 215_000, 310_000, 330_000], 330_000, is_last=True) == [310_000]
    assert snapshots.worn([310_000, 330_000], 330_000, is_last=True) == []


def test_snapshots_that_go_leave_no_hole(path: Path, story: list[Event]):
    """A snapshot that is taken again or replaces another takes its pages: the file does not grow
    by a snapshot that nobody can use.
    """
    with SqliteJournal.create(path) as journal:
        journal.append(story)
        for cut in (300, 399, 400, 400):
            journal.save_snapshot(fold_all(World(), story[:cut]), is_last=cut == 400)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)


def _change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()
