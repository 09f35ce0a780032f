"""`import` of what a broken source printed: said in words, the rest counted, nothing invented."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.ledger.sums import amounts
from tests.live.kubernetes.made import listed, node, pod
from tests.rigs.prometheus.lying import Told, lying
from tidemill import api
from tidemill.cli.main import app
from tidemill.ledger.buckets import ALLOCATED, Bucket

HEADER = "JobIDRaw|JobID|User|Account|State|Submit|Start|End|NodeList|NNodes|ReqTRES|AllocTRES"
ROWS = [
    f"{n}|{n}|ada|lab|COMPLETED|2026-11-01T10:00:00Z|2026-11-01T10:0{n}:00Z|"
    f"2026-11-01T11:0{n}:00Z|n1|1|gres/gpu=2|gres/gpu=2"
    for n in range(1, 5)
]
HOURS = 8
"""Four jobs of two GPUs for an hour each."""


def imported(path: Path, *words: str) -> tuple[int, str]:
    """Exit code, and what was printed."""
    journal = str(path.parent / "fleet.sqlite")
    asked = ["import", *words, str(path), "--usd-per-hour", "2", "-j", journal]
    done = CliRunner().invoke(app, asked)
    return done.exit_code, " ".join((done.output + str(done.exception or "")).split())


def held_hours(path: Path) -> float:
    sums = amounts(api.read_statement(str(path.parent / "fleet.sqlite")), "bucket")
    return sum(sums[(bucket,)] for bucket in ALLOCATED) / 1000 / 3_600_000


COMPLAINT = "sacct: error: slurm_persist_conn_recv: Connection reset by peer"
SACCT = {
    "in another order": ([HEADER, *ROWS[::-1]], "", 4),
    "each row twice": ([HEADER, *ROWS, *ROWS], "the same line as an earlier one", 4),
    "an error in the middle": ([HEADER, *ROWS[:2], COMPLAINT], "rows may be missing", 2),
    "cut off within a row": ([HEADER, *ROWS[:3], ROWS[3][:40]], "6 fields, the header has 12", 3),
    "no column of how they ended": (
        [line.replace("State|", "").replace("COMPLETED|", "") for line in [HEADER, *ROWS]],
        "no column State, so nobody knows how its jobs ended, and those with an end count as", 4,
    ),
    "no column of submissions": (
        [re.sub(r"Submit\|", "", re.sub(r"2026-11-01T10:00:00Z\|", "", line, count=1))
         for line in [HEADER, *ROWS]],
        "no column Submit, so nobody knows how long its jobs waited", 4,
    ),
    "no column of what was allocated": (
        [line.rpartition("|")[0] for line in [HEADER, *ROWS]], "no column AllocTRES: jobs that", 4,
    ),
    "an end before its start": (
        [HEADER, *ROWS[:3], ROWS[3].replace("T11:0", "T09:0")], "ended before it started", 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", SACCT)
def test_rows_of_sacct_that_are_not_as_they_should_be(tmp_path: Path, way: str):
    """What could not be used is said, and what could is counted once."""
    lines, said, jobs = SACCT[way]
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join(lines) + "\n")
    code, printed = imported(path, "slurm")
    assert code == 0, printed
    assert said in printed
    assert held_hours(path) == HOURS * jobs / 4


NOTHING = {
    "an error and nothing else": (f"{COMPLAINT}\n", "begins with a complaint of the command"),
    "no row": (f"{HEADER}\n", "tells of no job with GPUs"),
    "no column of times": (
        "JobIDRaw|State|AllocTRES\n7|COMPLETED|gres/gpu=2\n", "no column End, Start, so nobody",
    ),
    "an error in JSON": (
        '{"jobs": [], "errors": [{"error": "Unable to contact slurm controller"}]}',
        "Unable to contact slurm controller",
    ),
    "truncated JSON": ('{"jobs": [{"job_id": 7, "sta', "breaks off"),
}  # fmt: skip


@pytest.mark.parametrize("way", NOTHING)
def test_nothing_of_slurm_is_no_history(tmp_path: Path, way: str):
    """Refused, with what was found; no journal is left behind."""
    text, said = NOTHING[way]
    path = tmp_path / "sacct.txt"
    path.write_text(text)
    code, printed = imported(path, "slurm")
    assert code != 0
    assert said in printed
    assert not (tmp_path / "fleet.sqlite").exists()


STATUS = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503,
          "message": "etcdserver: leader changed"}  # fmt: skip


def test_objects_of_kubernetes_twice_and_in_another_order_count_once(tmp_path: Path):
    """Two files of the same cluster, the second from behind; one object of which has no status."""
    pods = [pod(f"p{n}", 2, on="n0", created=60 * n, end=3600 + 60 * n) for n in range(4)]
    path = tmp_path / "all.json"
    broken = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x", "namespace": "ml"},
              "spec": [], "status": 7}  # fmt: skip
    both = [node("n0", at=7200), *pods, *pods[::-1], broken]
    path.write_text(json.dumps(listed(*both)))
    code, printed = imported(path, "kubernetes")
    assert code == 0, printed
    assert "Pod ml/x" in printed
    assert held_hours(path) == HOURS


def test_an_error_in_place_of_objects_is_said(tmp_path: Path):
    """What an API server answers when it has no answer: in its own words."""
    path = tmp_path / "pods.json"
    path.write_text(json.dumps(STATUS))
    code, printed = imported(path, "kubernetes")
    assert code != 0
    assert "etcdserver: leader changed" in printed


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (Told(503, b"starting"), "status 503"),
        (Told(trickle_s=0.01, body=b'{"status":"success","da'), "cut off or no JSON"),
        (Told(404, b"not here"), "status 404"),
    ],
)
def test_a_prometheus_in_trouble_stops_an_import_in_words(tmp_path: Path, told: Told, said: str):
    """What was asked for and what to do; a journal without what was asked for is not made."""
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n")
    with lying(lambda *_: told) as (url, _):
        code, printed = imported(path, "slurm", "--prometheus", url, "--patience", "1s")
    assert code != 0
    assert f"asked {url}" in printed
    assert said in printed
    assert not (tmp_path / "fleet.sqlite").exists()


NODES = "NodeName={} CPUTot=96 Gres=gpu:h100:2 State={} Reason=Xid 79 [root@2026-11-01T10:30:00Z]\n"
EVENTS = """\
Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User
c|n2|2026-11-01T10:00:00Z|2026-11-01T10:20:00Z|DOWN*|Xid 48|root
c|n2|2026-11-01T10:30:00Z|Unknown|DRAIN|Xid 79|root
"""


@pytest.mark.parametrize("state", ["DOWN*+DRAIN", "IDLE*+DRAIN", "DRAINED*", "IDLE+DRAIN"])
def test_a_node_that_does_not_respond_has_its_history(tmp_path: Path, state: str):
    """Slurm writes the sign of it after the first word: the node is read, and so are its events."""
    (tmp_path / "nodes.txt").write_text(NODES.format("n1", "IDLE") + NODES.format("n2", state))
    (tmp_path / "events.txt").write_text(EVENTS)
    (tmp_path / "sacct.txt").write_text("\n".join([HEADER, *ROWS]) + "\n")
    code, said = imported(tmp_path / "sacct.txt", "slurm", str(tmp_path / "nodes.txt"),
                          str(tmp_path / "events.txt"))  # fmt: skip
    assert code == 0, said
    assert "left out" not in said
    sums = amounts(api.read_statement(str(tmp_path / "fleet.sqlite")), "bucket")
    minute = 2 * 1000 * 60_000
    assert sums[(Bucket.UNHEALTHY,)] == 20 * minute
    assert sums[(Bucket.DRAINING,)] == 34 * minute


def test_events_of_nodes_that_nobody_lists_are_said(tmp_path: Path):
    """When they were down cannot be booked; it is not silent."""
    (tmp_path / "events.txt").write_text(EVENTS)
    (tmp_path / "sacct.txt").write_text("\n".join([HEADER, *ROWS]) + "\n")
    code, said = imported(tmp_path / "sacct.txt", "slurm", str(tmp_path / "events.txt"))
    assert code == 0, said
    assert "1 node (n2) was down, drained or in maintenance, and listed by no file" in said


def test_attempts_that_start_in_one_second_are_both_read(tmp_path: Path):
    """One that was lost at once, and one that was done: its hours count."""
    lost = ROWS[0].replace("COMPLETED", "NODE_FAIL").replace("T11:01", "T10:01")
    for rows in ([lost, ROWS[0]], [ROWS[0], lost]):
        (tmp_path / "sacct.txt").write_text("\n".join([HEADER, *rows]) + "\n")
        code, said = imported(tmp_path / "sacct.txt", "slurm", "--force")
        assert code == 0, said
        assert "1 attempt left out: no time passed in it" in said
        assert held_hours(tmp_path / "sacct.txt") == 2


def test_a_short_time_suspended_is_said_in_seconds(tmp_path: Path):
    """Twenty seconds on two GPUs are not 0.0 GPU-hours."""
    row = f"{ROWS[0]}|00:00:20"
    (tmp_path / "sacct.txt").write_text("\n".join([f"{HEADER}|Suspended", row]) + "\n")
    _, said = imported(tmp_path / "sacct.txt", "slurm")
    assert "1 attempt suspended for 40 GPU-seconds in all" in said


def test_suspended_time_is_idle(tmp_path: Path):
    """Half an hour of an hour on two GPUs: the accounting says for how long."""
    rows = [f"{ROWS[0]}|00:30:00", f"{ROWS[1]}|00:00:00"]
    (tmp_path / "sacct.txt").write_text("\n".join([f"{HEADER}|Suspended", *rows]) + "\n")
    code, said = imported(tmp_path / "sacct.txt", "slurm")
    assert code == 0, said
    assert "1 attempt suspended for 1.0 GPU-hours in all" in said
    sums = amounts(api.read_statement(str(tmp_path / "fleet.sqlite")), "bucket")
    assert sums[(Bucket.IDLE,)] == 1000 * 3_600_000
    assert held_hours(tmp_path / "sacct.txt") == 4
