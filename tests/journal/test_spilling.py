"""Long tables in files."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tidemill import api
from tidemill.core import snapshot
from tidemill.journal import open_journal, snapshots, spilling
from tidemill.journal.replay import rebuild
from tidemill.model import paging, tables
from tidemill.model.columns import JOB, NONE
from tidemill.model.job_names import JobNames
from tidemill.model.tables import Jobs
from tidemill.model.world import World


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch):
    """Every matrix of a page and more is in a file, and leaves."""
    monkeypatch.setattr(paging, "LONG_BYTES", 4_096)
    monkeypatch.setattr(paging, "STAYS_BYTES", 0)
    spilling.spill()


def test_rows_that_left_the_memory_come_back_as_they_were(in_files):
    """A matrix grows, is let go and written again; nothing of it changes on the way."""
    rows = np.arange(3_000).reshape(1_000, 3)
    kept = tables.grown(rows, 40_000)
    assert (len(kept), kept.flags.c_contiguous, kept.flags.writeable) == (40_000, True, True)
    paging.let_go()
    assert (kept[:1_000] == rows).all()
    assert not kept[1_000:].any()
    kept[39_999] = 7
    paging.let_go()
    larger = tables.grown(kept, 50_000)
    assert (larger[:40_000] == kept).all()
    assert larger[39_999].tolist() == [7, 7, 7]
    assert paging.column(larger[:, 1], 1_000).tolist() == rows[:, 1].tolist()


def test_pages_leave_the_process(in_files):
    """What is let go is not resident any more."""
    kept = tables.grown(np.zeros((1, 8), np.int64), 1 << 20)
    kept[:] = 1
    before = _resident_file_mib()
    paging.let_go()
    assert before - _resident_file_mib() >= 60
    assert kept.sum() == 8 << 20


def test_pages_stay_as_long_as_they_are_few(in_files, monkeypatch):
    """Up to so many bytes nothing is let go."""
    monkeypatch.setattr(paging, "STAYS_BYTES", 1 << 40)
    kept = tables.grown(np.zeros((1, 8), np.int64), 1 << 20)
    kept[:] = 1
    before = _resident_file_mib()
    paging.let_go()
    assert abs(before - _resident_file_mib()) < 10
    assert kept.sum() == 8 << 20


def test_a_run_is_the_same_with_its_tables_in_files(monkeypatch, tmp_path):
    """Pages that leave every few jobs change no event, no number of the state and none of the
    books, neither of the run nor of who reads its journal.
    """
    spec = api.load_spec(Path("tests/cli/tiny.toml"))
    plain = api.simulate(spec, str(tmp_path / "plain"))
    monkeypatch.setattr(paging, "LONG_BYTES", 1)
    monkeypatch.setattr(paging, "KEPT_BYTES", 1)
    monkeypatch.setattr(paging, "STAYS_BYTES", 0)
    monkeypatch.setattr(paging, "_NEW_AT_MOST", 8)
    paged = api.simulate(spec, str(tmp_path / "paged"))
    assert len(paging._mapped) > 2
    assert snapshot.digest(paged.world) == snapshot.digest(plain.world)
    assert paged.statement.total() == plain.statement.total()
    with open_journal(plain.where) as one, open_journal(paged.where) as other:
        assert [*one.read()] == [*other.read()]
        assert snapshot.digest(rebuild(other)) == snapshot.digest(plain.world)
    again = api.read_statement(paged.where)
    assert again.by("job") == plain.statement.by("job")
    assert again.waits_by("user") == plain.statement.waits_by("user")


def test_of_a_snapshot_a_few_columns_are_at_hand_at_a_time(in_files):
    """A state of 200,000 jobs comes back as it was, in two thirds of what its columns take."""
    world, jobs = World(), 200_000
    matrix = paging.blank(jobs, len(JOB))
    matrix[:, : len(Jobs._fields)] = np.arange(jobs)[:, None] % 97
    matrix[:, [JOB.FIRST_PIECE, JOB.LEAVING_FOR, JOB.IDLE_MS]] = NONE
    world.renew(jobs=matrix)
    world.job_names = JobNames([f"job {j}" for j in range(jobs)], ["ana"] * jobs)
    stored = snapshots.pack(world, crc=0)
    tracemalloc.start()
    found = snapshots.unpack(stored)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert snapshot.digest(found) == snapshot.digest(world) == stored.digest
    assert peak < jobs * len(Jobs._fields) * 8 * 2 / 3


def test_where_there_is_no_place_a_table_is_in_memory(in_files, monkeypatch, tmp_path):
    """A folder that is not there, or a full disk, is no fault of a run."""
    monkeypatch.setattr(spilling, "FOLDER", tmp_path / "gone")
    kept = tables.grown(np.ones((1, 8), np.int64), 4_096)
    assert kept.sum() == 8
    assert spilling.mapped(8_192) is None
    monkeypatch.setattr(spilling, "FOLDER", tmp_path)
    assert spilling.mapped(1 << 60) is None


def _resident_file_mib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("RssFile"))
