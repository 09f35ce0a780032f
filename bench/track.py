"""What tracking costs a training loop, and how fast its records are read and taken.

The loop does nothing in its steps, so that all that is measured is ours: the calls in the loop's
own thread, and everything (the second thread, JSON, writing) as CPU time of the process at ten
steps a second, with the same loop without tracking beside it.
"""

import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.spine import reference_per_cpu_s
from tidemill import track
from tidemill.live import ingest
from tidemill.live.track.reader import TrackReader
from tidemill.track import spool

STEPS_PER_S = 10
Loop = Callable[[track.TrackedRun], None]


def run(seconds: float = 20, calls: int = 20_000, records: int = 100_000) -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            "reference_per_cpu_s": round(reference_per_cpu_s()),
            "calls_us": {
                name: {
                    "not tracked": _calls_us(loop, calls, ""),
                    "tracked": _calls_us(loop, calls, f"file:{folder}/calls"),
                }
                for name, loop in LOOPS.items()
            },
            "at_10_steps_per_s": _paced(seconds, Path(folder)),
            "reading": _reading(Path(folder, "read.jsonl"), records),
            "taking": _taking(Path(folder, "spool"), records // 10),
        }


def _step(run: track.TrackedRun) -> None:
    with run.step(tokens=4096):
        pass


def _usual(run: track.TrackedRun) -> None:
    with run.data():
        pass
    with run.step(tokens=4096, samples=8, flops=1e15):
        pass


def _everything(run: track.TrackedRun) -> None:
    with run.data():
        pass
    with run.step(tokens=4096, samples=8, flops=1e15), run.communication():
        pass
    with run.checkpoint(size=1):
        pass


LOOPS: dict[str, Loop] = {"step": _step, "step and data": _usual, "with a checkpoint": _everything}


def _calls_us(loop: Loop, calls: int, to: str) -> float:
    """CPU time of the loop's thread for each step: the best of three."""
    with track.job("bench", to=to) as run:
        best = min(_thread_us(loop, run, calls // 3) for _ in range(3))
    return round(best, 2)


def _thread_us(loop: Loop, run: track.TrackedRun, calls: int) -> float:
    begun = time.thread_time_ns()
    for _ in range(calls):
        loop(run)
    return (time.thread_time_ns() - begun) / 1000 / calls


def _paced(seconds: float, folder: Path) -> dict[str, Any]:
    """CPU time per step, at ten steps a second, by where records go.

    The whole process with tracking and without; and the threads of tracking by themselves, which a
    machine with other work on it disturbs less.
    """
    empty_us, _ = _paced_us(seconds, "")
    tracked_us, threads_us = _paced_us(seconds, f"file:{folder}/paced")
    os.environ[spool.VARIABLE] = str(folder / "waiting")
    with _server(folder / "taken") as url:
        _, sent_us = _paced_us(seconds, url)
    _, kept_us = _paced_us(seconds, url)  # nobody listens there any more
    cost_us = tracked_us - empty_us
    return {
        "not_tracked_us": round(empty_us, 1),
        "tracked_us": round(tracked_us, 1),
        "cost_us": round(cost_us, 1),
        "share_of_a_step": round(cost_us * STEPS_PER_S / 1e6, 6),
        "threads_us": {
            "to a file": round(threads_us, 1),
            "to a server": round(sent_us, 1),
            "to a dead server": round(kept_us, 1),
        },
    }


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """A server in a process of its own, so that its time is not counted."""
    command = [sys.executable, "-m", "tidemill", "ingest", "serve", str(folder), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().split("listening on ")[1].partition(",")[0]
        finally:
            process.terminate()


def _paced_us(seconds: float, to: str) -> tuple[float, float]:
    """CPU time per step of the process, and of the threads of tracking alone."""
    steps = max(1, round(seconds * STEPS_PER_S))
    with track.job("bench", to=to) as run:
        run.flush()
        begun, own, due = time.process_time_ns(), _own_ns(), time.monotonic()
        for _ in range(steps):
            _usual(run)
            due += 1 / STEPS_PER_S
            time.sleep(max(0.0, due - time.monotonic()))
        spent = time.process_time_ns() - begun, _own_ns() - own
    return spent[0] / 1000 / steps, spent[1] / 1000 / steps


def _own_ns() -> int:
    """CPU time of the threads that tracking has started and that live."""
    names = (one for one in threading.enumerate() if one.name.startswith("tidemill-track"))
    clocks = (time.pthread_getcpuclockid(one.ident) for one in names if one.ident is not None)
    return sum(map(time.clock_gettime_ns, clocks))


def _reading(path: Path, records: int) -> dict[str, float]:
    """Records of steps, read and checked."""
    with path.open("wb") as file:
        for seq in range(records):
            file.write(_line(seq))
    begun = time.process_time()
    found = sum(1 for _ in TrackReader().stream(path))
    cpu_s = time.process_time() - begun
    assert found == records
    return {
        "records_per_cpu_s": round(records / cpu_s),
        "bytes_per_record": round(path.stat().st_size / records),
        "mib_per_rank_and_day": round(path.stat().st_size / records * 86_400 / 2**20, 1),
    }


def _taking(folder: Path, records: int) -> dict[str, float]:
    """One client that sends small batches one after the other, each on disk before the answer."""
    server, stop = ingest.serve(folder, limits=ingest.IngestLimits(lines_per_s=10**9))
    each, begun = 10, time.monotonic()
    try:
        for first in range(0, records, each):
            _post(server, b"".join(map(_line, range(first, first + each))))
    finally:
        stop()
    wall_s = time.monotonic() - begun
    return {
        "requests_per_s": round(records / each / wall_s),
        "records_per_s": round(records / wall_s),
    }


def _post(server: ingest.IngestServer, body: bytes) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    connection.request("POST", "/v1/records", body)
    assert connection.getresponse().status == 200
    connection.close()


def _line(seq: int) -> bytes:
    """A record of steps as a loop with all parts writes it."""
    at_us = 1_794_847_225_000_000 + seq * 1_000_000
    return (
        b'{"v":1,"is":"steps","job":"pretrain-70b","run":"8f1f55d58c3c55d4","rank":511,"seq":%d,'
        b'"from_us":%d,"until_us":%d,"skew_us":-3,"steps":10,"data_us":21000,'
        b'"communication_us":140000,"checkpoint_us":0,"compute_us":838000,"other_us":1000,'
        b'"first_step":%d,"last_step":%d,"min_step_us":99326,"median_step_us":100350,'
        b'"max_step_us":104568,"tokens":40960,"samples":80,"mflop":14000000000}\n'
    ) % (seq, at_us, at_us + 1_000_000, 10 * seq, 10 * seq + 9)
