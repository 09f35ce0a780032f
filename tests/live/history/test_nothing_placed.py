"""Whether a cluster has a scheduler of its own is a fact of its journal, not of what ran there."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.live.kubernetes.made import listed, node, pod
from tidemill import api, explain
from tidemill.core import snapshot
from tidemill.model.policy import Policy
from tidemill.model.rows import Job

OURS = ("next cycle", "resubmit", "starts now", "contract", "starts in about")
"""Words of a scheduler that decides, and of what people describe in a spec."""
NODES = (
    "NodeName=n0 CPUTot=64 CPUAlloc=0 Gres=gpu:h100:8 RealMemory=512000 State=IDLE"
    " BootTime=2026-11-02T08:00:00\n\n"
)
WAITS = (
    "JobId=7 JobName=w UserId=ada(1000) JobState=PENDING Reason=Priority Partition=gpu"
    " SubmitTime=2026-11-02T09:00:00 NumNodes=1 TresPerNode=gres/gpu:4\n"
)


def of_kubernetes(folder: Path) -> list[str]:
    """A node, and a pod that fits it and was never placed."""
    told = listed(node("n0"), pod("w", 4, message="0/1 nodes are available: 1 node(s) are odd."))
    (folder / "c.json").write_text(json.dumps(told))
    return ["kubernetes", "c.json"]


def of_slurm(folder: Path) -> list[str]:
    """A node, and a job that fits it and was never placed."""
    (folder / "nodes.txt").write_text(NODES)
    (folder / "jobs.txt").write_text(WAITS)
    return ["slurm", "nodes.txt", "jobs.txt", "--zone", "UTC"]


def of_a_table(folder: Path) -> list[str]:
    """A node, and a job that fits it and was never placed."""
    (folder / "jobs.csv").write_text(
        "job,gpus,submitted,started,ended,node\n7,4,2026-11-02 08:00,,,\n"
    )
    (folder / "nodes.csv").write_text("node,gpus,gpu_type\nn0,8,H100\n")
    return ["csv", "jobs.csv", "--nodes", "nodes.csv", "--zone", "UTC"]


@pytest.mark.parametrize("told", [of_kubernetes, of_slurm, of_a_table])
def test_where_nothing_ran_yet_another_scheduler_decides(tmp_path: Path, told):
    """No start is promised, nothing is advised of our own cycle, and `fit` says who decides."""
    done = tidemill("import", *told(tmp_path), "-j", "j.sqlite", cwd=tmp_path)
    assert done.code == 0, done.err
    where = str(tmp_path / "j.sqlite")
    world, _ = api.open_world(where)
    assert not world.placements
    assert world.is_looked_on
    assert snapshot.copy(world).is_looked_on
    answers = [
        explain.why(world, Policy(), 0).words,
        explain.board(world, Policy()).words,
        tidemill("pending", where).out,
        tidemill("ledger", where).out.replace("their contract", ""),
    ]
    assert [word for word in OURS for text in answers if word in text] == []
    assert "starts" not in explain.fit(world, Policy(), Job("asked", world.shape_of(0))).words
    assert "this cluster has another, which decides" in tidemill("fit", where, "--gpus", "4").out
    assert api.read_statement(where).world.is_looked_on
