"""Records that no server takes: on disk, in order, once, and sent by whoever comes next."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.track.played import environment, kinds, play, steps, whole
from tests.track.test_http import closed_port
from tidemill import track
from tidemill.live import ingest
from tidemill.live.track import read
from tidemill.live.track.records import LostRecord
from tidemill.track import sender
from tidemill.track.http import PATIENCE_S
from tidemill.track.spool import LeftRecords, RecordSpool, folder_of

__all__ = ["closed_port"]
A_JOB = """
from tidemill import track
with track.job({name!r}, to="http://127.0.0.1:{port}") as run:
    for _ in range(5):
        with run.step():
            pass
    run.flush()
    {then}
"""


@contextmanager
def serving(folder: Path, port: int, waiting: Path) -> Iterator[list[str]]:
    """A real server in a process of its own, killed at the end; what it said before it listened."""
    program = [sys.executable, "-m", "tidemill", "ingest", "serve", str(folder)]
    env = environment(None, TIDEMILL_TRACK_SPOOL=str(waiting))
    with subprocess.Popen(
        [*program, "--port", str(port)], env=env, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        told = list[str]()
        while "listening" not in (line := process.stderr.readline()):
            assert line, told
            told.append(line)
        try:
            yield told
        finally:
            process.kill()


def until(run: track.TrackedRun, is_so: Callable[[], bool]) -> None:
    """Have a run send until something is so, for ten seconds at most."""
    end_s = time.monotonic() + 10
    while not is_so() and time.monotonic() < end_s:
        run.flush()
    assert is_so()


def numbers(folder: Path) -> list[int]:
    """The numbers of the records, in the order in which the server took them."""
    return [one.seq for one in whole(folder).records]


def test_a_server_that_is_killed_again_and_again_gets_each_record_once_and_in_order(
    tmp_path: Path, closed_port: int, waiting: Path
):
    """Down, there, killed while records come, down, there: none is lost, doubled or out of turn."""
    run = track.job("train", to=f"http://127.0.0.1:{closed_port}", every_s=0.02)

    def work() -> None:
        for number in range(500):
            with run.step():
                pass
            if number % 20 == 0:
                run.flush()

    work()
    assert run.trouble
    assert list(waiting.rglob("*.jsonl")), "what cannot be sent is on disk at once"
    for _ in range(3):
        with serving(tmp_path, closed_port, waiting):
            until(run, lambda: not run.trouble)
            work()
        work()
    with serving(tmp_path, closed_port, waiting):
        run.close("finished")
    found = whole(tmp_path).records
    assert numbers(tmp_path) == [*range(len(found))]
    assert steps(found) == run.last_step
    assert kinds(found) == ["job_began", "job_ended"]
    assert not list(waiting.rglob("*.jsonl")), "and nothing is left of it"


@pytest.mark.parametrize("then", ["pass", "import os; os.kill(os.getpid(), 9)"])
def test_what_an_ended_job_left_is_sent_by_the_next(
    tmp_path: Path, closed_port: int, waiting: Path, then: str
):
    """Ended or killed while nobody listened: the next job that reaches the server sends it."""
    code = A_JOB.format(name="first", port=closed_port, then=then)
    told = play(code, None, TIDEMILL_TRACK_SPOOL=str(waiting))
    (left,) = waiting.rglob("*.jsonl")
    assert ("wait in " + str(left) in told.stderr) == (then == "pass")
    with ingest_at(tmp_path, closed_port):
        run = track.job("second", to=f"http://127.0.0.1:{closed_port}", every_s=0.02)
        until(run, lambda: not left.exists())
        run.close("finished")
    first = [one for one in whole(tmp_path).records if one.job == "first"]
    assert [one.seq for one in first] == [*range(len(first))]
    assert kinds(first) == ["job_began", *(["job_ended"] if then == "pass" else [])]
    assert steps(first) == 5


@contextmanager
def ingest_at(folder: Path, port: int, token: str = "") -> Iterator[None]:
    """A real server in this process."""
    _, stop = ingest.serve(folder, port=port, token=token)
    try:
        yield
    finally:
        stop()


def test_what_an_ended_job_left_is_taken_by_a_server_that_starts_here(
    tmp_path: Path, closed_port: int, waiting: Path
):
    """It says how many, and they are gone from where they waited."""
    with track.job("train", to=f"http://localhost:{closed_port}") as run, run.step():
        pass
    assert list(waiting.rglob("*.jsonl"))
    with serving(tmp_path, closed_port, waiting) as told:
        assert told == ["3 records taken that jobs left while nobody listened\n"]
    assert kinds(whole(tmp_path).records) == ["job_began", "job_ended"]
    assert not list(waiting.rglob("*.jsonl"))


def test_what_an_ended_job_left_is_sent_by_hand(tmp_path: Path, closed_port: int, waiting: Path):
    """While the server is down it stays, and that is said; then it goes, and nothing is left."""
    url = f"http://127.0.0.1:{closed_port}"
    with track.job("train", to=url):
        pass

    def sent() -> "subprocess.CompletedProcess[str]":
        env = environment(None, TIDEMILL_TRACK_SPOOL=str(waiting))
        return subprocess.run(
            [sys.executable, "-m", "tidemill", "ingest", "send", url], env=env, text=True,
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip

    told = sent()
    assert told.returncode == 6
    assert "try again when the server answers" in " ".join(told.stderr.split())
    with ingest_at(tmp_path, closed_port):
        assert "3 records sent" in sent().stderr
        assert "0 records sent" in sent().stderr
    assert kinds(whole(tmp_path).records) == ["job_began", "job_ended"]


def test_a_wrong_token_is_named_where_records_are_sent_by_hand(
    tmp_path: Path, closed_port: int, waiting: Path
):
    """The server answers, so that to wait for it would be no use."""
    url = f"http://127.0.0.1:{closed_port}"
    with track.job("train", to=url):
        pass
    env = environment(None, TIDEMILL_TRACK_SPOOL=str(waiting), TIDEMILL_TOKEN="wrong")
    with ingest_at(tmp_path, closed_port, token="s3cret"):
        told = subprocess.run(
            [sys.executable, "-m", "tidemill", "ingest", "send", url], env=env, text=True,
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
    said = " ".join(told.stderr.split())
    assert told.returncode == 6
    assert "status 401: the token is missing or wrong" in said
    assert "set TIDEMILL_TOKEN to the token that the server was started with" in said
    assert list(waiting.rglob("*.jsonl"))


def test_what_a_living_job_keeps_is_left_to_it(waiting: Path):
    """Two processes never send one file at a time; a line that was never ended is none."""
    spool = RecordSpool(str(waiting), "train")
    spool.keep([b"one\n", b"two\n"])
    assert not LeftRecords(str(waiting)).first()
    spool.close()
    with (waiting / "train.jsonl").open("ab") as torn:
        torn.write(b"thr")
    mine, others = LeftRecords(str(waiting)), LeftRecords(str(waiting))
    assert mine.first() == [b"one\n", b"two\n"]
    assert not others.first()
    mine.take_away([b"one\n"])
    assert mine.first() == [b"two\n"]
    mine.take_away([b"two\n"])
    assert not mine.first()
    assert not list(waiting.iterdir())


def test_a_spool_is_bounded(waiting: Path):
    """Its own bytes, and those of all: what goes over is refused, and nothing of it is written."""
    spool = RecordSpool(str(waiting), "train", most_bytes=10)
    spool.keep([b"123456789\n"])
    with pytest.raises(OSError, match="has its 10 bytes"):
        spool.keep([b"1\n"])
    other = RecordSpool(str(waiting), "other", most_in_all=10)
    with pytest.raises(OSError, match="has its 10 bytes"):
        other.keep([b"1\n"])
    assert spool.first() == [b"123456789\n"]
    spool.take_away(spool.first())
    other.keep([b"1\n"])
    assert other.first() == [b"1\n"]


def test_where_nothing_can_be_kept_on_disk_memory_keeps_what_it_can(
    tmp_path: Path, closed_port: int, monkeypatch: pytest.MonkeyPatch
):
    """A full disk, or a folder that cannot be: as much as fits waits, and the loss is told."""
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TIDEMILL_TRACK_SPOOL", str(tmp_path / "file"))
    monkeypatch.setattr(sender, "MOST_WAITING", 5)
    run = track.job("train", to=f"http://127.0.0.1:{closed_port}", every_s=0.02)
    for _ in range(10):
        with run.step():
            pass
        run.flush()
    assert run.trouble
    with ingest_at(tmp_path / "spool", closed_port):
        run.close("finished")
    found = read(tmp_path / "spool").records
    assert kinds(found) == ["job_began", "job_ended", "lost"]
    lost = next(one for one in found if isinstance(one, LostRecord))
    assert lost.records == lost.last - lost.first + 1 if lost.first and lost.last else 0


def test_the_end_of_a_run_keeps_what_a_silent_server_did_not_take(waiting: Path):
    """It hangs in a request when the run ends: within two seconds all is on disk."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        run = track.job("train", to=f"http://127.0.0.1:{silent.getsockname()[1]}", every_s=0.02)
        with run.step():
            opened, _ = silent.accept()  # a record is on its way, and nobody will answer
        begun_s = time.monotonic()
        run.close("finished")
        assert time.monotonic() - begun_s < PATIENCE_S
        opened.close()
    (left,) = waiting.rglob("*.jsonl")
    found = whole(left.parent).records
    assert kinds(found) == ["job_began", "job_ended"]
    assert steps(found) == 1


def test_nobody_else_can_read_what_waits(closed_port: int, waiting: Path):
    """The folder and its files are of their user alone."""
    with track.job("train", to=f"http://127.0.0.1:{closed_port}"):
        pass
    (left,) = waiting.rglob("*.jsonl")
    assert (left.stat().st_mode & 0o777, left.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_where_records_wait(monkeypatch: pytest.MonkeyPatch):
    """In a folder for each server, of the cache of the user; an empty variable: nowhere."""
    monkeypatch.setenv("TIDEMILL_TRACK_SPOOL", "")
    assert folder_of("http://observer:8787") is None
    monkeypatch.delenv("TIDEMILL_TRACK_SPOOL")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert folder_of("http://observer:8787") == "/c/tidemill/track/http_observer_8787"
    assert folder_of("https://observer") == "/c/tidemill/track/https_observer"
