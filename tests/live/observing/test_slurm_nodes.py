"""What an observer of Slurm tells of nodes: maintenance and drains to the second, partitions."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.ledger.sums import amounts
from tests.live.observing.test_observer import BEGIN_S, Cluster, ask, cluster
from tidemill import api
from tidemill.ledger.buckets import Bucket
from tidemill.live.observing.observer import AnswerTaken

__all__ = ["ask", "cluster"]  # fixtures

Ask = Callable[[], AnswerTaken]
NODES = """\
NodeName=n1 CPUTot=64 Gres=gpu:h100:8 State=IDLE RealMemory=512000 Partitions=train
NodeName=n2 CPUTot=64 Gres=gpu:h100:8 State=IDLE RealMemory=512000 Partitions={n2}
"""
BUSY = {"id": 7, "gpus": 8, "submit": 10, "start": 20, "node": "n1"}


@pytest.fixture
def shown(cluster: Cluster) -> Cluster:
    """A cluster whose `scontrol show` tells nodes, partitions and reservations apart."""
    kinds = ("reservation", "partition")
    cases = "".join(f"*{kind}*) cat {cluster.folder}/{kind}.out;; " for kind in kinds)
    script = f'#!/bin/sh\ncase "$*" in {cases}*) cat {cluster.folder}/scontrol.out;; esac\n'
    (cluster.folder / "scontrol").write_text(script)
    cluster.print("partition", "PartitionName=train Nodes=n1 State=UP\n")
    _reserve(cluster)
    return cluster


def _reserve(cluster: Cluster, *ends: int) -> None:
    """A MAINT reservation of n2 from second 100 on; without an end there is none."""
    rows = [
        f"ReservationName=m1 StartTime={BEGIN_S + 100} EndTime={BEGIN_S + end} Nodes=n2"
        " Flags=MAINT State=ACTIVE\n"
        for end in ends
    ]
    cluster.print("reservation", "".join(rows) or "No reservations in the system\n")


def _cordoned_s(where: Path) -> int:
    """GPU-seconds of n2 in which it was closed, by GPU."""
    return amounts(api.read_statement(str(where)), "bucket")[(Bucket.CORDONED,)] // 8_000_000


@pytest.mark.parametrize(
    ("end", "gone", "seconds"),
    [(220, 221, 120), (220, 240, 120), (220, 300, 120), (220, 180, 80), (4000, 240, 140)],
)
def test_maintenance_ends_when_it_said_or_when_it_was_deleted(
    shown: Cluster, ask: Ask, tmp_path: Path, end: int, gone: int, seconds: int
):
    """Slurm forgets a reservation: after its end it was over then, before it was deleted."""
    _reserve(shown, end)
    for now in (60, 150, gone - 1 if gone > 151 else 150):
        shown.at(now)
        ask()
    _reserve(shown)
    for now in (gone, gone + 20, gone + 40, gone + 300):
        shown.at(now)
        ask()
    assert _cordoned_s(tmp_path / "fleet.sqlite") == seconds


EVENTS = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"


def _drain(cluster: Cluster, begun: int | None) -> None:
    """n2 drains under a job, by a reason of that second; without one it takes work."""
    state = "IDLE" if begun is None else "MIXED+DRAIN"
    reason = "" if begun is None else f" Reason=Xid 79 [root@{BEGIN_S + begun}]"
    node = "NodeName=n{n} CPUTot=64 Gres=gpu:h100:8 State={state} RealMemory=512000{reason}\n"
    cluster.print("scontrol", node.format(n=1, state="IDLE", reason="")
                  + node.format(n=2, state=state, reason=reason))  # fmt: skip


def _draining_s(where: Path) -> int:
    """Seconds in which n2 drained, of which a job holds half."""
    return amounts(api.read_statement(str(where)), "bucket")[(Bucket.DRAINING,)] // 4_000_000


@pytest.mark.parametrize(
    ("looks", "event", "seconds"),
    [
        ({105: 101, 110: 101, 115: 101, 126: None}, None, 25),  # shorter than the lateness
        ({105: 101, 150: 101, 170: 101, 176: None}, None, 75),
        ({105: 106, 126: None}, None, 20),  # the clock is asked before nodes are
        ({105: 50, 150: 50, 155: None}, None, 50),  # its reason is older: since it was first seen
        ({105: 101, 150: 120, 155: None}, None, 54),  # somebody gave another reason
        ({105: 101, 110: None, 120: 118, 125: None}, None, 9 + 7),
        ({105: 101, 150: 101, 155: None}, (130, 152), 51),  # the record knows the end
    ],
)
def test_a_drain_under_a_job_is_booked_as_it_was_seen(
    shown: Cluster,
    ask: Ask,
    tmp_path: Path,
    looks: dict[int, int | None],
    event: tuple[int, int] | None,
    seconds: int,
):
    """Slurm writes down none while a job is on the node; nobody else knows when it was over."""
    half = BUSY | {"gpus": 4, "node": "n2"}
    _drain(shown, None)
    for now in (60, 100):
        shown.at(now, half)
        ask()
    for now, begun in looks.items():
        _drain(shown, begun)
        shown.at(now, half)
        ask()
    if event is not None:
        start, end = (BEGIN_S + one for one in event)
        shown.print("sacctmgr", f"{EVENTS}lab|n2|{start}|{end}|DRAIN|Xid 79|root\n")
    for later in (5, 20, 40, 300):
        shown.at(now + later, half)
        ask()
    assert _draining_s(tmp_path / "fleet.sqlite") == seconds


def _fits(where: Path) -> str:
    """What `why` says to the last question about the job that waits."""
    out = tidemill("why", "8", "-j", str(where), "--json").out
    return json.loads(out)["answer"]["questions"][-1]["answer"]


def _waiting(cluster: Cluster, seconds: int, *jobs: dict[str, object], **more: object) -> None:
    """It is so many seconds later, and job 8 waits in partition `train`."""
    cluster.at(seconds, *jobs)
    told = {
        "job_id": 8, "job_state": "PENDING", "partition": "train", "account": "research",
        "state_reason": "Resources", "submit_time": BEGIN_S + 30, "eligible_time": BEGIN_S + 30,
        "tres_req_str": "cpu=8,node=1,gres/gpu=8", "node_count": 1, "tres_per_node": "gpu:8",
        **more,
    }  # fmt: skip
    cluster.print("squeue", json.dumps({"jobs": [told]}))


def test_a_node_is_used_once_it_is_in_the_partition(shown: Cluster, ask: Ask, tmp_path: Path):
    """n1 is busy, n2 free in `debug`: no; then it is moved to `train`, with nobody on it: yes."""
    shown.print("scontrol", NODES.format(n2="debug"))
    _waiting(shown, 100, BUSY)
    ask()
    assert _fits(tmp_path / "fleet.sqlite") == "no"
    shown.print("scontrol", NODES.format(n2="debug,train"))
    for now in (200, 300):
        _waiting(shown, now, BUSY)
        ask()
    assert _fits(tmp_path / "fleet.sqlite") == "yes"


def test_a_journal_that_has_no_partitions_goes_on_without_them(
    shown: Cluster, ask: Ask, tmp_path: Path
):
    """Nodes that were told without their partitions keep nobody out by them."""
    shown.print("scontrol", NODES.format(n2="debug").replace(" Partitions=", " Comment="))
    shown.print("partition", "PartitionName=train State=UP\n")
    shown.at(60)
    ask()
    shown.print("scontrol", NODES.format(n2="debug"))
    _waiting(shown, 200, BUSY)
    ask()
    assert _fits(tmp_path / "fleet.sqlite") == "yes"


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ({}, "yes"), ({"required_nodes": "n1"}, "no"), ({"required_nodes": "n2"}, "yes"),
        ({"excluded_nodes": "n2"}, "no"), ({"excluded_nodes": "n[1,3-9]"}, "yes"),
    ],
)  # fmt: skip
def test_nodes_that_a_job_names_count_as_on_import(
    shown: Cluster, ask: Ask, tmp_path: Path, asked: dict[str, object], fits: str
):
    """n1 is busy and n2 free: `--nodelist` and `--exclude` say which of them it may use."""
    shown.print("scontrol", NODES.format(n2="train"))
    shown.at(60)
    ask()
    _waiting(shown, 200, BUSY, **asked)
    ask()
    assert _fits(tmp_path / "fleet.sqlite") == fits
