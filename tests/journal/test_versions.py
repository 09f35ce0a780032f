"""Journals of version 1 are read by everything that reads journals, and written by nothing."""

from pathlib import Path

import pytest

from tests.journal import version1
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold_all
from tidemill.journal import Journal, open_journal
from tidemill.journal.exchange import export_events, import_events
from tidemill.journal.replay import rebuild
from tidemill.journal.verify import verify
from tidemill.model import events as ev
from tidemill.model.batch import JobColumn, convert
from tidemill.model.errors import JournalError
from tidemill.model.events import Event
from tidemill.model.world import World

FACTS = {"name": "tides", "begins": "2026-03-02T06:00:00"}


@pytest.fixture
def old(tmp_path: Path, story: list[Event]) -> Path:
    """A journal of version 1, with a snapshot and facts."""
    return version1.write(tmp_path / "old.db", story, FACTS, [fold_all(World(), story[:300])])


def test_version_1_is_read(old: Path, story: list[Event]):
    """Events, facts, snapshots and moments of a journal of version 1 are there as they were."""
    with open_journal(str(old)) as journal:
        assert len(journal) == len(story)
        for start in (0, 199, len(story)):
            assert list(journal.read(start)) == story[start:]
            assert _in_columns(journal, start) == story[start:]
        assert journal.facts() == FACTS
        found = journal.latest_snapshot()
        assert found is not None
        assert found.seq == 300
        at_ms = story[350].at_ms
        quick, slow = (rebuild(journal, up_to_ms=at_ms, use_snapshot=use) for use in (True, False))
        assert snapshot.dump(quick) == snapshot.dump(slow)
    assert verify(old).is_sound


def test_version_1_is_not_written(old: Path, story: list[Event]):
    """Whoever would write to a journal of version 1 is told how to go on, and nothing changes."""
    before = old.read_bytes()
    with open_journal(str(old)) as journal:
        for write in (
            journal.claim,
            lambda: journal.append([ev.Woke(story[-1].at_ms)]),
            lambda: journal.set_meta("name", "ebb"),
        ):
            with pytest.raises(
                JournalError, match="has version 1, which this Tidemill reads"
            ) as no:
                write()
            assert "tidemill journal export" in no.value.hint
    assert old.read_bytes() == before


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv"])
def test_exports_are_the_same(old: Path, tmp_path: Path, story: list[Event], suffix: str):
    """Both versions of one journal export to the same bytes."""
    with open_journal(str(tmp_path / "new.db"), create=True) as journal:
        for key, value in FACTS.items():
            journal.set_meta(key, value)
        journal.append(story)
    exported = []
    for source in (old, tmp_path / "new.db"):
        target = source.with_suffix(suffix)
        with open_journal(str(source)) as journal:
            export_events(journal, target)
        exported.append(target.read_bytes())
    assert exported[0] == exported[1]


def test_the_way_to_this_version_is_the_one_that_is_told(old: Path, tmp_path: Path):
    """An export of a journal of version 1, imported again, can be written."""
    with open_journal(str(old)) as journal:
        export_events(journal, tmp_path / "old.jsonl.gz")
        told = list(journal.read())
    import_events(tmp_path / "old.jsonl.gz", tmp_path / "new.db")
    with open_journal(str(tmp_path / "new.db")) as journal:
        journal.append([ev.Woke(told[-1].at_ms)])
        assert list(journal.read())[:-1] == told


def test_columns_start_anywhere(journal: Journal, story: list[Event]):
    """Batches from a number on hold exactly the events from that number on."""
    for start in range(0, len(story), 70):
        journal.append(story[start : start + 70])
    for start in (0, 1, 69, 70, 199, len(story) - 1, len(story), len(story) + 5):
        assert _in_columns(journal, start) == story[start:]


def test_shapes_in_columns_are_those_of_the_cluster_state(journal: Journal, story: list[Event]):
    """In columns of a whole journal a job names its shape by the number that the state has, as long
    as no job came to request something else.
    """
    changes = (i for i, event in enumerate(story) if isinstance(event, ev.RequestChanged))
    story = story[: next(changes, len(story))]
    for start in range(0, len(story), 70):
        journal.append(story[start : start + 70])
    world = fold_all(World(), story)
    found = [s for batch in journal.batches() for s in batch.jobs[:, JobColumn.SHAPE].tolist()]
    assert found == world.jobs.shape[: world.job_count].tolist()


def test_a_refused_batch_leaves_no_trace(path: Path, story: list[Event]):
    """Shapes of a batch that was refused are not in the dictionary of what is kept later."""
    submitted = next(event for event in story if isinstance(event, ev.JobSubmitted))
    too_large = ev.AskedEvict(submitted.at_ms, 0, 1, ev.Why.IDLE, 2**63)
    with open_journal(str(path), create=True) as journal:
        with pytest.raises(JournalError, match="event 1 cannot be kept"):
            journal.append([submitted, too_large])
        journal.append(story)
    with open_journal(str(path)) as journal:
        assert list(journal.read()) == story


def _in_columns(journal: Journal, start: int) -> list[Event]:
    return [event for batch in journal.batches(start) for event in convert.to_events(batch)]
