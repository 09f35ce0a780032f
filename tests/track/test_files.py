"""Records in files: whole lines whatever the disk does, and bounded in all."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.track.played import kinds, play, steps, whole
from tidemill import track
from tidemill.live.track import read
from tidemill.live.track.records import LostRecord
from tidemill.track.files import FileOutlet
from tidemill.track.sender import MOST_WAITING


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes in memory."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(tmp_path)],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("a small file system can only be mounted by root")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def _fill(path: Path) -> None:
    """Write until the disk is full."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(file, bytes(4096))
    except OSError:
        os.close(file)


def test_a_full_disk_is_survived(small_disk: Path, caplog: pytest.LogCaptureFixture):
    """The loop goes on; what was kept is written when there is room again, and no line is torn."""
    with track.job("train", to=f"file:{small_disk / 'track'}") as run:
        assert run.flush()
        _fill(small_disk / "checkpoint")
        for _ in range(50):
            with run.step(tokens=1):
                pass
            run.efficiency(mfu=0.5, source="s" * 150)
        assert run.flush()
        assert "No space left" in run.trouble
        assert read(small_disk / "track").refused == []
        (small_disk / "checkpoint").unlink()
        assert run.flush()
        assert run.trouble == ""
    readings = whole(small_disk / "track")
    assert steps(readings.records) == 50
    assert kinds(readings.records).count("efficiency") == 50
    assert readings.truncated == ()
    assert "records cannot be sent now" in caplog.text


def test_what_does_not_fit_is_counted_and_told(small_disk: Path):
    """A disk that stays full: the oldest records go, and a record says which."""
    with track.job("train", to=f"file:{small_disk / 'track'}") as run:
        run.flush()
        _fill(small_disk / "checkpoint")
        for _ in range(3):
            for _ in range(2000):
                run.restart(why="x")
            run.flush()
        (small_disk / "checkpoint").unlink()
    readings = read(small_disk / "track")
    (lost,) = (one for one in readings.records if isinstance(one, LostRecord))
    assert lost.records > 6000 - MOST_WAITING
    assert [(gap.first, gap.last) for gap in readings.gaps] == [(lost.first, lost.last)]
    assert len(readings.records) + lost.records == 1 + max(one.seq for one in readings.records)
    assert kinds(readings.records)[0] == "job_began"


def test_a_write_that_stops_half_way_is_taken_back(tmp_path: Path):
    """A limit on the size of files (as a quota) cuts a write short: no part of a line stays."""
    done = play(
        """
import resource, signal
from tidemill import track
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with track.job("train") as run:
    run.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, resource.RLIM_INFINITY))
    for _ in range(20):
        run.restart(step=1, why="y" * 100)
    run.flush()
    assert "too large" in run.trouble, run.trouble
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    run.flush()
    assert run.trouble == "", run.trouble
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    readings = whole(tmp_path)
    assert kinds(readings.records).count("restarted") == 20


@pytest.mark.parametrize("folder", ["/proc/tidemill", "/dev/null/track"])
def test_a_folder_that_cannot_be_written_is_survived(folder: str, caplog: pytest.LogCaptureFixture):
    """The loop goes on, the log says why once, the end waits two seconds at most."""
    with track.job("train", to=f"file:{folder}") as run:
        for _ in range(3):
            with run.step():
                pass
            run.flush()
        assert run.trouble
    assert caplog.text.count("records cannot be sent now") == 1


def test_a_folder_that_is_removed_is_made_again(tmp_path: Path):
    """A clean-up of old logs costs the records that it removes, not those after it."""
    folder = tmp_path / "track"
    with track.job("train", to=f"file:{folder}") as run:
        run.flush()
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        with run.step():
            pass
    readings = read(folder)
    assert steps(readings.records) == 1
    assert readings.gaps[0].first == 0


def test_files_are_bounded(tmp_path: Path):
    """A new file when one is full, at most so many of them, and what was removed is counted."""
    outlet = FileOutlet(str(tmp_path), "a/b", part_bytes=100, most_parts=3)
    for i in range(20):
        assert outlet.send([b"x" * 59 + b"\n"] * 2, 1.0) == 2, i
    outlet.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"a_b-{part:04d}.jsonl" for part in (17, 18, 19)]
    assert outlet.lost == 34
