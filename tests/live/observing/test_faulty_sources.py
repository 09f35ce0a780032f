"""Sources that are down, slow or lie, watched: said in words, survived, nothing invented.

Small programs on the path stand for Slurm's commands, and small servers for the others: they are
the broken source, and all that reads them is real. The real ones are killed, frozen and cut off in
``tests/live/slurm``, ``tests/live/kubernetes`` and ``tests/rigs``.
"""

import json
import random
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.sums import amounts
from tests.live.observing.test_observer import (
    BEGIN_S,
    RUNNING,
    TERMS,
    Cluster,
    worked_s,
)
from tests.rigs.prometheus.lying import Asked, Told, lying
from tidemill import api
from tidemill.cli import sources
from tidemill.journal import open_journal
from tidemill.journal.replay import rebuild
from tidemill.ledger.buckets import Bucket
from tidemill.live.observing.measuring import LoopsMeasuring, Measuring, PrometheusMeasuring
from tidemill.live.observing.observer import AnswerTaken, Observer
from tidemill.live.slurm.polling import SlurmSource
from tidemill.model.errors import BackendError

Ask = Callable[..., AnswerTaken]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Cluster(folder)


@pytest.fixture
def where(tmp_path: Path) -> Path:
    return tmp_path / "fleet.sqlite"


@pytest.fixture
def ask(cluster: Cluster, where: Path) -> Ask:
    """Ask once, as a process that knows nothing but the journal."""

    def once(*measuring: Measuring) -> AnswerTaken:
        with Observer.open(
            str(where), cluster.source, TERMS, BEGIN_S * 1000, measuring
        ) as observer:
            return observer.ask()

    return once


def behaves(cluster: Cluster, name: str, script: str) -> None:
    """A command that does this from now on."""
    path = cluster.folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)


def as_before(cluster: Cluster, name: str) -> None:
    """A command that prints its file again."""
    behaves(cluster, name, f"cat {cluster.folder}/{name}.out")


def doctor(where: Path) -> dict[str, sources.SourceFinding]:
    """What `tidemill doctor` says of the sources of a journal."""
    with open_journal(str(where)) as journal:
        found = sources.look(journal, rebuild(journal), api.read_statement(str(where)))
        return {one.what: one for one in found}


SLOW = {
    "it hangs": "exec sleep 60",
    "it hangs after its rows": "cat {out}; exec sleep 60",
    "it closes its output and stays": "cat {out}; exec 1>&-; exec sleep 60",
    "a byte now and then": "while :; do printf J; sleep 0.2; done",
    "a program of its own holds the pipe": "cat {out}; sleep 60 & sleep 60",
}


@pytest.mark.parametrize("command", ["sacct", "squeue", "sdiag"])
@pytest.mark.parametrize("way", SLOW)
def test_a_slow_command_is_no_answer_and_the_next_one_tells_all(
    cluster: Cluster, ask: Ask, where: Path, command: str, way: str
):
    """Stopped after the timeout; said with the command and what to look at; doctor knows it."""
    cluster.at(100, RUNNING)
    ask()
    cluster.at(200, RUNNING)
    behaves(cluster, command, SLOW[way].format(out=cluster.folder / f"{command}.out"))
    patient, cluster.source = (
        cluster.source,
        SlurmSource(
            timeout_s=1, environment={"PATH": f"{cluster.folder}:/usr/bin:/bin", "LC_ALL": "C"}
        ),
    )
    begun_s = time.monotonic()
    with pytest.raises(BackendError, match=rf"asked Slurm for .*`{command}.*no answer in time"):
        ask()
    assert time.monotonic() - begun_s < 20
    found = doctor(where)["jobs and nodes: slurm"]
    assert not found.is_ok
    assert "no answer in time (20" in found.found
    assert "; it answered 20" in found.found
    assert "`not observed`" in found.so
    as_before(cluster, command)
    cluster.source = patient
    cluster.at(300, RUNNING | {"end": 150, "state": "COMPLETED"})
    assert ask().late.words() == []
    assert doctor(where)["jobs and nodes: slurm"].found.startswith("answered 20")
    assert worked_s(where) == 4 * 130


@pytest.mark.parametrize(
    ("command", "said", "found"),
    [
        ("sacct", "slurm_persist_conn_open: Connection refused", "no accounting database"),
        ("squeue", "Unable to contact slurm controller", "the controller does not answer"),
        ("scontrol", "Zero Bytes were transmitted or received", "the controller does not answer"),
    ],
)
def test_a_command_that_prints_an_error_and_calls_itself_successful(
    cluster: Cluster, ask: Ask, where: Path, command: str, said: str, found: str
):
    """With what it had got by then, and exit code 0: nothing of it is taken, and nothing ended."""
    cluster.at(100, RUNNING)
    ask()
    cluster.at(200)
    part = f"head -n 1 {cluster.folder}/{command}.out; echo '{command}: error: {said}' >&2"
    behaves(cluster, command, part)
    with pytest.raises(BackendError, match=found):
        ask()
    as_before(cluster, command)
    cluster.at(300, RUNNING | {"end": 150, "state": "COMPLETED"})
    assert ask().late.words() == []
    assert worked_s(where) == 4 * 130


def test_an_error_in_json_is_one_too(cluster: Cluster, ask: Ask):
    """`squeue --json` says in its answer that it has none."""
    cluster.at(100, RUNNING)
    said = [{"error": "Unable to contact slurm controller (connect failure)", "error_number": 1}]
    cluster.print("squeue", json.dumps({"jobs": [], "errors": said}))
    with pytest.raises(BackendError, match="the controller does not answer"):
        ask()


def test_a_complaint_that_nobody_knows_leaves_the_answer_and_ends_nothing(
    cluster: Cluster, ask: Ask, where: Path
):
    """An unknown word in slurm.conf: rows count; a job that they do not show goes on."""
    cluster.at(100, RUNNING)
    ask()
    cluster.at(200, {"id": 8, "gpus": 1, "submit": 5, "start": 6, "node": "n2"})
    noise = "echo 'sacct: error: _parse_next_key: Parsing error at unrecognized key: X' >&2"
    behaves(cluster, "sacct", f"{noise}; cat {cluster.folder}/sacct.out")
    taken = ask()
    assert taken.running == 2
    assert any("unrecognized key" in note for note in taken.notes)
    assert "unrecognized key" in doctor(where)["jobs and nodes: slurm"].found


def test_rows_in_any_order_and_twice_are_the_same_books(
    cluster: Cluster, ask: Ask, where: Path, tmp_path: Path
):
    """Shuffled, each line twice, in every answer: as in order."""
    jobs: list[dict[str, Any]] = [
        {"id": n, "gpus": 1, "submit": 10 * n, "start": 10 * n + 5, "node": f"n{n % 2 + 1}",
         "end": 10 * n + 65, "state": "COMPLETED"}
        for n in range(1, 9)
    ]  # fmt: skip
    luck = random.Random(3)
    for now in range(60, 260, 20):
        shown = [job for job in jobs if job["submit"] <= now]
        rows = [job if job["end"] <= now else {**job, "state": "RUNNING"} for job in shown]
        for row in rows:
            if row["state"] == "RUNNING":
                del row["end"]
                if row["start"] > now:
                    del row["start"]
                    row |= {"state": "PENDING", "node": "None assigned"}
        both = [*rows, *rows]
        luck.shuffle(both)
        cluster.at(now, *both)
        assert ask().late.words() == []
    assert worked_s(where) == 8 * 60


def test_an_accounting_five_minutes_ahead_tells_nothing_before_its_time(
    cluster: Cluster, ask: Ask, where: Path
):
    """Starts and ends that the controller's clock has not reached are told when it has."""
    ahead = {"id": 7, "gpus": 4, "submit": 310, "start": 320, "end": 380, "state": "COMPLETED"}
    cluster.at(100, ahead)
    assert (ask().running, worked_s(where)) == (0, 0)
    cluster.at(500, ahead)
    assert ask().late.words() == []
    assert worked_s(where) == 4 * 60


# --- Prometheus -----------------------------------------------------------------------------------

HANGING = {
    "it accepts and never answers": Told(after_s=60),
    "a byte now and then": Told(trickle_s=0.2),
    "cut off within its JSON": Told(200, b'{"status":"success","data":{"resultTy'),
    "an error page": Told(502, b"<html>bad gateway</html>"),
    "another API": Told(200, b'{"status":"success","data":{"resultType":"vector","result":[]}}'),
}


@pytest.mark.parametrize("way", HANGING)
def test_a_prometheus_in_trouble_is_waited_for_and_then_left_out(
    cluster: Cluster, ask: Ask, where: Path, way: str
):
    """Within the gap the journal waits, after it goes on; said, and idle stays unknown."""
    cluster.at(100, RUNNING)
    ask()
    with lying(lambda *_: HANGING[way]) as (url, _):
        devices = PrometheusMeasuring(url, 60_000, patience_s=0.2, answer_s=0.5)
        cluster.at(400, RUNNING)
        begun_s = time.monotonic()
        with pytest.raises(BackendError, match=r"asked .*"):
            ask(devices)
        assert time.monotonic() - begun_s < 10
        found = doctor(where)[f"devices: {url}"]
        assert (found.is_ok, "never answered" in found.found) == (False, True)
        assert "unknown of that time: `allocated, idle`" in found.so
        cluster.at(1500, RUNNING)
        taken = ask(devices)
    assert any("nothing is measured of this time" in note for note in taken.notes)
    sums = amounts(api.read_statement(str(where)), "bucket")
    assert sums.get((Bucket.IDLE,), 0) == 0


def an_api(ahead_s: float) -> Callable[[int, Asked], Told]:
    """A Prometheus with a clock of its own and nothing on its disk."""

    def answer(_: int, asked: Asked) -> Told:
        found: Any = []
        if "time" in asked.path and "query=time" in asked.path:
            found = {"resultType": "scalar", "result": [0, str(time.time() + ahead_s)]}
        return Told(body=json.dumps({"status": "success", "data": found}).encode())

    return answer


@pytest.mark.parametrize(("ahead_s", "way"), [(300, "300 s ahead of"), (-300, "300 s behind")])
def test_the_clock_of_a_prometheus_is_compared(
    cluster: Cluster, ask: Ask, where: Path, ahead_s: float, way: str
):
    """Five minutes: said with the option that declares them; declared, it is not said."""
    cluster.at(400, RUNNING)
    with lying(an_api(ahead_s)) as (url, _):
        taken = ask(PrometheusMeasuring(url, 60_000))
        cluster.at(800, RUNNING)
        right = ask(PrometheusMeasuring(url, 60_000, round(ahead_s * 1000)))
    (said,) = (note for note in taken.notes if "the clock of Prometheus" in note)
    assert way in said
    assert f"--prometheus-ahead {ahead_s:g}s" in said
    assert not any("the clock of Prometheus" in note for note in right.notes)


# --- loops ----------------------------------------------------------------------------------------


def test_a_loop_whose_clock_is_five_minutes_ahead_is_said(
    cluster: Cluster, ask: Ask, where: Path, tmp_path: Path
):
    """Its steps are of a time that the controller has not reached."""
    folder = tmp_path / "track"
    folder.mkdir()
    at_us = 1_000_000 * (BEGIN_S + 390)
    line = {"v": 1, "job": "7", "run": "r1", "rank": 0, "is": "restored", "seq": 0, "at_us": at_us}
    (folder / "a.jsonl").write_text(json.dumps(line) + "\n")
    cluster.at(100, RUNNING)
    taken = ask(LoopsMeasuring(folder))
    (said,) = (note for note in taken.notes if "ahead of the scheduler's" in note)
    assert "`7` by 290 s" in said
    found = doctor(where)[f"loops: {folder}"]
    assert not found.is_ok
    assert "`lost: checkpoint stall`" in found.so


def test_a_folder_that_is_not_there_and_lines_that_are_no_records(
    cluster: Cluster, ask: Ask, where: Path, tmp_path: Path
):
    """Both are said, and the scheduler is booked all the same."""
    folder = tmp_path / "track"
    cluster.at(100, RUNNING)
    assert any("no such folder" in note for note in ask(LoopsMeasuring(folder)).notes)
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"kind": "steps", "ru\nnoise\n')
    cluster.at(200, RUNNING)
    taken = ask(LoopsMeasuring(folder))
    assert any("2 lines are no records" in note for note in taken.notes)
    assert worked_s(where) == 4 * 150
