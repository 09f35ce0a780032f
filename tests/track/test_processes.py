"""A tracked process that forks, is killed, is asked to stop, or just ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from tests.track.played import ROOT, environment, kinds, play, steps, stretches, whole
from tidemill.live.track import read
from tidemill.live.track.records import BeganRecord, EndedRecord, StepsRecord

LOOP = ROOT / "examples" / "track" / "loop.py"
KILLS = 20
LOST_AT_MOST_S = 2.0
"""With a record each 20 ms; a busy machine may keep the second thread waiting."""


def test_only_the_standard_library_is_needed(tmp_path: Path):
    """Without any installed package a job is tracked, and nothing of the rest of us is loaded."""
    done = play(
        """
import sys
from tidemill import track
import tidemill.track.adapters, tidemill.track.http, tidemill.track.files
with track.job("bare") as run, run.step():
    pass
ours = {name for name in sys.modules if name.startswith("tidemill")}
print(sorted(name for name in ours if not name.startswith("tidemill.track")))
print(sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names))
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['tidemill']\n['__main__', 'tidemill']\n"
    assert steps(whole(tmp_path).records) == 1


def test_a_forked_child_is_silent(tmp_path: Path):
    """A worker of a data loader that was forked writes nothing, and cannot hang on our lock."""
    done = play(
        """
import os, threading
from tidemill import track
run = track.job("train")
is_held, may_go = threading.Event(), threading.Event()
def hold():  # as the second thread does, now and then
    with run._lock:
        is_held.set()
        may_go.wait()
holder = threading.Thread(target=hold)
holder.start()
is_held.wait()
pid = os.fork()
if pid == 0:
    with run.step():
        run.restored(5)
    with run.checkpoint():
        pass
    run.close()
    raise SystemExit(7)
may_go.set()
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
with run.step():
    pass
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    records = whole(tmp_path).records
    assert kinds(records) == ["job_began", "job_ended"]
    assert steps(records) == 1


def test_a_child_may_be_a_run_of_its_own(tmp_path: Path):
    """Ranks that are forked after the parent was tracked call `job` themselves."""
    done = play(
        """
import os
from tidemill import track
with track.job("train", rank=0):
    pid = os.fork()
    if pid == 0:
        with track.job("train", rank=1) as run, run.step():
            pass
        os._exit(0)
    os.waitpid(pid, 0)
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    records = whole(tmp_path).records
    assert sorted(one.rank for one in records if isinstance(one, EndedRecord)) == [0, 1]


@pytest.mark.parametrize("leave", ["", "raise SystemExit(4)", "1 / 0"])
def test_the_end_of_the_interpreter_is_enough(tmp_path: Path, leave: str):
    """A run that nobody closed is told to its last step; how it ended is unknown."""
    code = f"from tidemill import track\nrun = track.job('train')\nwith run.step(): pass\n{leave}"
    play(code, tmp_path)
    records = whole(tmp_path).records
    assert steps(records) == 1
    assert [one.outcome for one in records if isinstance(one, EndedRecord)] == [None]


TERMINATED = """
import os, signal
from tidemill import track
{before}
with track.job("train", every_s=3600, flush_on_sigterm={asked}) as run:
    run.flush()
    with run.step():
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
"""
OWN = "import sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))"


@pytest.mark.parametrize(
    ("asked", "before", "code", "found"),
    [
        (True, "", -signal.SIGTERM, 1),  # flushed, and ended as without us
        (False, "", -signal.SIGTERM, 0),  # as if it were killed: the last stretch is lost
        (True, OWN, 9, 1),  # the job's own handler is left alone, and the block ends
    ],
)
def test_sigterm(tmp_path: Path, asked: bool, before: str, code: int, found: int):
    """Nobody's handling of SIGTERM is changed unasked; the exit status is as without us."""
    done = play(TERMINATED.format(asked=asked, before=before), tmp_path)
    assert done.returncode == code, done.stderr
    assert steps(whole(tmp_path).records) == found


def test_signal_handlers_may_track(tmp_path: Path):
    """A handler that saves a checkpoint while the loop is anywhere, also within our own code."""
    done = play(
        """
import signal
from tidemill import track
with track.job("train", every_s=0.02) as run:
    def save(*_):
        with run.checkpoint():
            pass
    signal.signal(signal.SIGALRM, save)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0003)
    for _ in run.batches(range(3000)):
        with run.step(), run.communication():
            pass
    signal.setitimer(signal.ITIMER_REAL, 0)
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    records = whole(tmp_path).records
    assert steps(records) == 3000
    names = kinds(records)
    assert names.count("checkpoint_begun") == names.count("checkpoint_saved") > 5


def test_killed_twenty_times_and_resumed(tmp_path: Path):
    """`kill -9` at any moment: files can be read, nothing is told twice, little is lost.

    The loop prints each step with the time by itself; that is what the records are compared with.
    """
    luck, folder, printed = Random(7), tmp_path / "track", dict[int, list[tuple[int, int]]]()
    for _ in range(KILLS):
        pid, lines = _run_and_kill(folder, tmp_path / "state.json", luck.randint(1, 12))
        printed[pid] = [(int(line.split()[1]), int(line.split()[3])) for line in lines]
    pid, lines = _run_and_kill(folder, tmp_path / "state.json", None)
    assert lines.pop() == "done"
    printed[pid] = [(int(line.split()[1]), int(line.split()[3])) for line in lines]

    readings = read(folder)
    assert (readings.refused, readings.repeated, readings.gaps) == ([], 0, [])
    assert len(readings.truncated) <= KILLS
    runs = {one.pid: one.run for one in readings.records if isinstance(one, BeganRecord)}
    assert {*runs} <= {*printed}
    (whole_run,) = (one.run for one in readings.records if isinstance(one, EndedRecord))
    for pid, done in printed.items():  # one that was killed at once may have told nothing at all
        told = stretches([one for one in readings.records if one.run == runs.get(pid)])
        _compare(told, done, is_whole=runs.get(pid) == whole_run)


def test_a_checkpoint_is_told_at_once(tmp_path: Path):
    """A process that is killed a moment after it saved has told so, whatever its rhythm is."""
    code = """
import os, signal, time
from tidemill import track
with track.job("a", every_s=3600) as run:
    for _ in range(5):
        with run.step():
            pass
    with run.checkpoint():
        pass
    deadline = time.monotonic() + 30
    while b"checkpoint_saved" not in b"".join(map(_read, _files())) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    looking = f"""
from pathlib import Path
def _files(): return Path({str(tmp_path)!r}).glob("*.jsonl")
def _read(path): return path.read_bytes()
"""
    began_s = time.monotonic()
    play(looking + code, tmp_path)
    assert time.monotonic() - began_s < 25
    records = read(tmp_path).records
    assert kinds(records) == ["job_began", "checkpoint_begun", "checkpoint_saved"]
    assert steps(records) == 5


def _run_and_kill(folder: Path, state: Path, after: int | None) -> tuple[int, list[str]]:
    """The process and the lines that the loop printed until it was killed; None: to its end."""
    job = subprocess.Popen(
        [sys.executable, LOOP, state, "--steps", "1000", "--step-ms", "2", "--save-every", "5"],
        env=environment(folder, TIDEMILL_TRACK_EVERY_S="0.02"), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert job.stdout is not None
    lines: list[str] = []
    for line in job.stdout:
        lines.append(line.strip())
        if len(lines) == after or line == "done\n":
            break
    if after is not None:
        job.kill()
    job.stdout.close()
    job.wait(30)
    return job.pid, lines


def _compare(told: list[StepsRecord], printed: list[tuple[int, int]], is_whole: bool) -> None:
    """The steps that were told are the first of those that were done; the others are recent."""
    count = sum(one.steps for one in told)
    done = [one for one in told if one.steps]
    if done:
        assert (done[0].first_step, done[-1].last_step) == (
            printed[0][0],
            printed[0][0] + count - 1,
        )
    if is_whole:
        assert count == len(printed)
    missed = [at_us for _, at_us in printed[count:]]
    assert not missed or printed[-1][1] - missed[0] < LOST_AT_MOST_S * 1e6


def test_the_second_thread_hanging_does_not_stop_the_loop(tmp_path: Path):
    """An outlet that hangs (a dead file server): the loop runs, the end waits two seconds."""
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    done = play(
        f"""
import os, time
from tidemill import track
from tidemill.track import files
opened = os.open
files.os.open = lambda path, *rest: opened({str(fifo)!r}, os.O_WRONLY)  # waits for a reader
begun = time.monotonic()
with track.job("train") as run:
    for _ in range(1000):
        with run.step():
            pass
    took = time.monotonic() - begun
    ending = time.monotonic()
print(took < 10, time.monotonic() - ending < 10)  # nobody ever reads
""",
        tmp_path,
    )
    assert done.stdout == "True True\n", done.stderr


def test_the_clock_of_the_tests_is_the_wall_clock(tmp_path: Path):
    """Times are of the epoch: a record lies between two looks at the wall clock."""
    before_us = time.time_ns() // 1000
    play("from tidemill import track\nwith track.job('train'): pass", tmp_path)
    for one in stretches(whole(tmp_path).records):
        assert before_us <= one.from_us <= one.until_us <= time.time_ns() // 1000 + 1000
        assert abs(one.skew_us) < 1_000_000
