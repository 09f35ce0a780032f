"""Real processes: killed at any instant, refused as second writers, read while they write."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from random import Random

import pytest

from tests.conftest import ROOT
from tests.journal.writer import LARGEST_BATCH, event_at
from tidemill.core import snapshot
from tidemill.journal import exists, open_journal
from tidemill.journal.replay import rebuild
from tidemill.journal.verify import verify
from tidemill.model.errors import JournalError

KILLS = 200
KILLS_ON_A_SERVER = 25  # where the end of a connection is the same thing each time
LONGEST_LIFE_S = 0.03
APPENDS = 300  # of a writer that is read from
PATIENCE_S = 30.0  # for an answer from a process on a busy machine


class Writers:
    """Starts writers of one journal, one after the other, and listens to them."""

    def __init__(self, where: str) -> None:
        self.acknowledged = 0
        self.pid = 0
        self.is_done = False
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.journal.writer", where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        self._heard = b""

    def start(self, appends: str = "") -> None:
        """Start a writer, of so many appends or for ever; it is alive when this returns."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{appends}\n".encode())
        self._process.stdin.flush()
        self.listen(until=b"pid")

    def kill(self) -> None:
        """Kill the writer as hard as can be, and hear everything it had said."""
        os.kill(self.pid, signal.SIGKILL)
        self.pid = 0
        self.listen(until=b"dead")

    def listen(self, *, until: bytes = b"", seconds: float = PATIENCE_S) -> None:
        """Take in what is said, until a word is heard or the time is over."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._out], [], [], left)[0]:
                self._heard += os.read(self._out, 65536)
            if self._take_lines(until):
                return
        assert not until, f"no `{until.decode()}` was heard in {seconds} s"

    def close(self) -> None:
        """No more writers; one that a failed test left alive goes too."""
        if self.pid:
            self.kill()
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _take_lines(self, until: bytes) -> bool:
        *lines, self._heard = self._heard.split(b"\n")
        words = [line.split() for line in lines]
        for word, *number in words:
            if word == b"ack":
                self.acknowledged = int(number[0])
            elif word == b"pid":
                self.pid, self.is_done = int(number[0]), False
        self.is_done = self.is_done or any(word == b"done" for word, *_ in words)
        return any(word == until for word, *_ in words)


def is_file(where: str) -> bool:
    """Whether a journal is in a file."""
    return "://" not in where


@pytest.fixture
def writers(where: str) -> Iterator[Writers]:
    """Writers of the journal at ``where``."""
    made = Writers(where)
    yield made
    made.close()


def test_whatever_was_acknowledged_survives_a_kill(where: str, writers: Writers):
    """After each of 200 kills at random instants, everything acknowledged is there and sound."""
    rng, checked = Random("kill -9"), 0
    kills = KILLS if is_file(where) else KILLS_ON_A_SERVER
    for kill in range(kills):
        writers.start()
        if kill % 2:  # on a busy machine most would die before their first append otherwise
            writers.listen(until=b"ack")
        writers.listen(seconds=rng.uniform(0, LONGEST_LIFE_S))
        writers.kill()
        if not exists(where):
            assert writers.acknowledged == 0
            continue
        with open_journal(where) as journal:
            count = len(journal)
            known = max(writers.acknowledged, checked)  # one append may be kept and not yet said
            assert known <= count <= known + LARGEST_BATCH
            assert list(journal.read(checked)) == [event_at(n) for n in range(checked, count)]
            checked = count
        if kill % 40 == 39:
            assert verify(where).faults == ()
    assert checked > kills, "the writers never got anywhere"
    with open_journal(where) as journal:
        whole = rebuild(journal, use_snapshot=False)
        assert journal.latest_snapshot() is not None
        assert snapshot.dump(rebuild(journal)) == snapshot.dump(whole)


def test_readers_read_while_a_writer_writes(where: str, writers: Writers):
    """A reader always sees a beginning of the story, at least as long as what it knew before."""
    writers.start(f"{APPENDS}")
    writers.listen(until=b"ack")
    seen, lengths = 0, set[int]()
    with open_journal(where) as patient:
        while not writers.is_done:
            acknowledged = writers.acknowledged
            with open_journal(where) as quick:
                for reader in (patient, quick):
                    found = list(reader.read())
                    assert len(found) >= max(seen, acknowledged)
                    assert found == [event_at(n) for n in range(len(found))]
                    seen = len(found)
            lengths.add(seen)
            writers.listen(seconds=0.001)
    assert len(lengths) > 1, "it had written all before it was read"
    writers.kill()


def test_a_second_writer_is_refused(where: str, writers: Writers):
    """While one process writes, another is refused and told which process it is; then it may."""
    writers.start()
    writers.listen(until=b"ack")
    with open_journal(where) as second:
        with pytest.raises(JournalError, match=f"is being written by process {writers.pid}"):
            second.append([event_at(len(second))])
        writers.listen(until=b"ack")  # it goes on meanwhile
        writers.kill()
        with pytest.raises(JournalError, match="open it again"):
            second.append([event_at(len(second))])
    with open_journal(where) as third:
        third.append([event_at(len(third))])
    assert verify(where).is_sound
