"""Jobs that hold unlike numbers, or types, of GPUs on their nodes: booked as they are."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.shell import tidemill
from tests.live.observing.test_observer import BEGIN_S, Cluster, ask, cluster, worked_s
from tidemill.live.observing.observer import AnswerTaken
from tidemill.live.slurm import translate

__all__ = ["ask", "cluster"]  # fixtures

NODES = """\
NodeName=n1 CPUTot=64 RealMemory=512000 Gres=gpu:h100:8 State=MIXED
NodeName=n2 CPUTot=64 RealMemory=512000 Gres=gpu:a100:8 State=MIXED
NodeName=n3 CPUTot=64 RealMemory=512000 Gres=gpu:h100:4,gpu:a100:4 State=MIXED
"""
SPREAD = {
    "nodes": "n[1-3]", "node_count": 3, "tres_per_job": "gres:gpu:9", "tasks": 3,
    "gres_detail": [
        "gpu:h100:1(IDX:7)", "gpu:a100:6(IDX:1-5,7)", "gpu:h100:0(IDX:),gpu:a100:2(IDX:4-5)",
    ],
    "tres_alloc_str": "cpu=3,mem=3G,node=3,gres/gpu=9,gres/gpu:a100=8,gres/gpu:h100=1",
}  # fmt: skip
HELD = {"n1": 1, "n2": 6, "n3:a100": 2}
HEADER = "JobID|User|Account|State|Submit|Start|End|NNodes|NodeList|AllocTRES|ReqTRES\n"


def _job(number: int, state: str, **more: Any) -> dict[str, Any]:
    """A job as `squeue --json` shows it; it began with the minute."""
    return {
        "job_id": number, "job_state": state, "account": "research", "user_name": "ada",
        "submit_time": BEGIN_S, "eligible_time": BEGIN_S, "node_count": 3, "tasks": 3,
        "tres_req_str": "cpu=3,mem=3G,node=3,gres/gpu=9", "tres_per_job": "gres:gpu:9",
        "start_time": BEGIN_S + 60 if state == "RUNNING" else 0, **more,
    }  # fmt: skip


def _read(folder: Path, *jobs: dict[str, Any], sacct: str = "") -> translate.SlurmPast:
    files = {"nodes.txt": NODES}
    files |= {"squeue.json": json.dumps({"jobs": jobs})} if jobs else {}
    files |= {"sacct.txt": HEADER + sacct} if sacct else {}
    for name, text in files.items():
        (folder / name).write_text(text)
    return translate.read([folder / name for name in files], "UTC")


def test_what_squeue_says_of_each_node_is_held_there(tmp_path: Path):
    """One GPU of a node, six of another, two of the A100 of a third: nine in all."""
    past = _read(tmp_path, _job(1, "RUNNING", **SPREAD))
    (row,) = past.attempts.iter_rows(named=True)
    assert Counter(row["nodes"]) == HELD
    (shape,) = past.shapes
    (role,) = shape.roles
    assert (role.count, role.accelerators, role.cpu_milli) == (9, 1, 333)


def test_gpus_of_two_types_on_one_node_are_all_held(tmp_path: Path):
    """Six of a node with four of each: sacct says how many of which type."""
    tres = "cpu=1,gres/gpu:a100=2,gres/gpu:h100=4,gres/gpu=6,mem=1G,node=1"
    day = "2026-11-02T08:00:00"
    past = _read(tmp_path, sacct=f"1|ada|x|RUNNING|{day}|{day}|Unknown|1|n3|{tres}|gres/gpu=6\n")
    (row,) = past.attempts.iter_rows(named=True)
    assert Counter(row["nodes"]) == {"n3": 4, "n3:a100": 2}


def test_as_many_gpus_on_each_node_are_replicas_as_before(tmp_path: Path):
    """Four on each of two nodes of one type: no gang of single GPUs."""
    even = SPREAD | {
        "nodes": "n[1-2]", "node_count": 2, "tres_alloc_str": "cpu=2,node=2,gres/gpu=8",
        "gres_detail": ["gpu:h100:4(IDX:0-3)", "gpu:h100:4(IDX:4-7)"],
    }  # fmt: skip
    past = _read(tmp_path, _job(1, "RUNNING", **even))
    (row,) = past.attempts.iter_rows(named=True)
    assert (row["nodes"], row["devices"], len(past.shapes)) == (["n1", "n2"], [0x0F, 0xF0], 0)


def _free(where: Path) -> dict[str, int]:
    """GPUs that nobody holds, by node."""
    rows = json.loads(tidemill("fleet", "-j", str(where), "--nodes", "--json").out)["nodes"]
    return {row["node"]: row["free_milli"] // 1000 for row in rows}


def test_an_observer_books_it_as_an_import_does(
    cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path: Path
):
    """It is seen to wait, then on three nodes, then as sacct shows it when it is over."""
    cluster.print("scontrol", NODES)
    for seconds, job in ((50, _job(1, "PENDING")), (150, _job(1, "RUNNING", **SPREAD))):
        cluster.at(seconds)
        cluster.print("squeue", json.dumps({"jobs": [job]}))
        assert ask().late.words() == []
    where = tmp_path / "fleet.sqlite"
    assert _free(where) == {"n1": 7, "n2": 2, "n3": 4, "n3:a100": 2}
    over = {"id": 1, "gpus": 9, "submit": 0, "start": 60, "end": 200, "node": "n[1-3]"}
    for seconds in (250, 300):
        cluster.at(seconds, over | {"state": "COMPLETED"})
        cluster.print("squeue", json.dumps({"jobs": []}))
        assert ask().late.words() == []
    assert worked_s(where) == 9 * 140
