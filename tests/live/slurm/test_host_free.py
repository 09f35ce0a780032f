"""CPUs and memory that jobs without GPUs hold are not free, though such jobs are on no books."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.live.observing.test_observer import Cluster, ask, cluster
from tests.live.slurm.test_whole_nodes import _job, _running
from tidemill.live.observing.observer import AnswerTaken

__all__ = ["ask", "cluster"]  # fixtures

NODES = """\
NodeName=n1 CPUTot=64 CPUAlloc={cpus} RealMemory=512000 AllocMem={mib} Gres=gpu:h100:8 \
State=MIXED Partitions=p
"""
ON_BOOKS = _running(1, "n1", 3)  # with one CPU and 100 GiB
WAITS = _job(9, tres_req_str="cpu=4,mem=100G,node=1,gres/gpu=1", cpus=4)


@pytest.mark.parametrize(
    ("cpus", "mib", "held"),
    [
        (1, 102_400, ""), (64, 102_400, "held by work without GPUs (63 cores), `1`"),
        (2, 512_000, "held by work without GPUs (400 GiB), `1`"),
    ],
)  # fmt: skip
def test_what_jobs_without_gpus_hold_is_not_free(
    cluster: Cluster,
    ask: Callable[[], AnswerTaken],
    tmp_path: Path,
    cpus: int,
    mib: int,
    held: str,
):
    """Five GPUs are free: `why`, `fit` and `fleet` know the rest, of an import and an observer."""
    told, nodes = json.dumps({"jobs": [ON_BOOKS, WAITS]}), NODES.format(cpus=cpus, mib=mib)
    (tmp_path / "squeue.json").write_text(told)
    (tmp_path / "nodes.txt").write_text(nodes)
    made, watched = str(tmp_path / "made.sqlite"), str(tmp_path / "fleet.sqlite")
    paths = (str(tmp_path / "squeue.json"), str(tmp_path / "nodes.txt"))
    assert tidemill("import", "slurm", *paths, "--zone", "UTC", "-j", made).code == 0
    cluster.print("scontrol", nodes)
    cluster.print("squeue", told)
    cluster.at(100)
    ask()
    for journal in (made, watched):
        why = tidemill("why", "9", "-j", journal).out
        fit = ("fit", "--team", "research", "--cpus", "4", "--memory-gib", "100", "-j", journal)
        (row,) = json.loads(tidemill("fleet", "--nodes", "--json", "-j", journal).out)["nodes"]
        assert (row["cpu_free_milli"], row["memory_free_mib"]) == (
            1000 * (64 - cpus), 512_000 - mib,
        )  # fmt: skip
        assert ("` would run now: " in tidemill(*fit).out) == (not held)
        assert held in why
        whose = "`1` ends" if "GiB" in held else "work without GPUs ends"
        assert (f"fix: wait until {whose}" in why) == bool(held)  # 100 GiB of `1` are enough
