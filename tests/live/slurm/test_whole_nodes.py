"""Jobs that want a node by themselves, one node for all, or GPUs of several types together."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.live.observing.test_observer import BEGIN_S, Cluster, ask, cluster
from tidemill.live.observing.observer import AnswerTaken
from tidemill.live.slurm import translate

__all__ = ["ask", "cluster"]  # fixtures

NODE = "NodeName={} CPUTot=64 RealMemory=512000 Gres=gpu:{} State=MIXED Partitions={}\n"
NODES = NODE.format("n1", "h100:8", "p") + NODE.format("n2", "h100:8", "p")


def _job(number: int, state: str = "PENDING", **more: Any) -> dict[str, Any]:
    """A job as `squeue --json` shows it."""
    return {
        "job_id": number, "job_state": state, "account": "research", "user_name": "ada",
        "submit_time": BEGIN_S, "eligible_time": BEGIN_S, "node_count": 1, "tasks": 1,
        "partition": "p", "state_reason": "Resources", "tres_req_str": "cpu=1,node=1,gres/gpu=1",
        "tres_per_node": "gres:gpu:h100:1", **more,
    }  # fmt: skip


def _running(number: int, node: str, gpus: int, **more: Any) -> dict[str, Any]:
    tres = f"cpu=1,mem=100G,node=1,gres/gpu={gpus},gres/gpu:h100={gpus}"
    return _job(number, "RUNNING", start_time=BEGIN_S + 10, nodes=node, tres_alloc_str=tres, **more)


BUSY = (_running(1, "n1", 3), _running(2, "n2", 3))


class Asked:
    """What `why` says of job 9, of an import and of an observer of the same cluster."""

    def __init__(self, cluster: Cluster, ask: Callable[[], AnswerTaken], folder: Path) -> None:
        self._cluster, self._ask, self._folder = cluster, ask, folder

    def of(self, *jobs: dict[str, Any], nodes: str = NODES) -> list[str]:
        """The request, and whether it fits."""
        told = json.dumps({"jobs": jobs})
        (self._folder / "squeue.json").write_text(told)
        (self._folder / "nodes.txt").write_text(nodes)
        made = str(self._folder / "made.sqlite")
        paths = [str(self._folder / name) for name in ("squeue.json", "nodes.txt")]
        done = tidemill("import", "slurm", *paths, "--zone", "UTC", "-j", made)
        assert done.code == 0, done.err
        self._cluster.print("scontrol", nodes)
        self._cluster.print("squeue", told)
        self._cluster.at(100)
        self._ask()
        return [_answer(made), _answer(str(self._folder / "fleet.sqlite"))]


def _answer(journal: str) -> str:
    answer = json.loads(tidemill("why", "9", "-j", journal, "--json").out)["answer"]
    return f"{answer['asks'].partition(' ')[0]}: {answer['questions'][-1]['answer']}"


@pytest.fixture
def asked(cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path: Path) -> Asked:
    return Asked(cluster, ask, tmp_path)


@pytest.mark.parametrize("how", [{"shared": "none"}, {"exclusive": ["true"]}])
def test_a_job_that_wants_a_node_to_itself_does_not_fit_beside_others(
    asked: Asked, how: dict[str, Any]
):
    """Five of eight GPUs are free on both nodes: it needs all of one."""
    assert asked.of(*BUSY, _job(9, **how)) == ["8: no", "8: no"]


def test_how_large_its_node_will_be_may_be_unknown(asked: Asked):
    """Nodes of four and of eight: no number of GPUs says that one is empty."""
    nodes = NODES + NODE.format("n3", "h100:4", "p")
    assert asked.of(*BUSY, _job(9, shared="none"), nodes=nodes) == ["1: unknown"] * 2


@pytest.mark.parametrize(("tasks", "answer"), [(1, "7: no"), (7, "7×1: yes")])
def test_one_task_is_on_one_node(asked: Asked, tasks: int, answer: str):
    """`--gpus=7` of ten that are free, five on each node: seven tasks may be spread."""
    job = _job(9, tasks=tasks, tres_per_node="", tres_per_job="gres:gpu:7",
               tres_req_str="cpu=7,node=1,gres/gpu=7")  # fmt: skip
    assert asked.of(*BUSY, job) == [answer] * 2


def test_gpus_of_two_types_together_are_not_either_of_them(asked: Asked):
    """`--gres=gpu:h100:1,gpu:a100:1`: two H100 that are free would not do."""
    job = _job(9, tres_req_str="cpu=1,node=1,gres/gpu=2,gres/gpu:a100=1,gres/gpu:h100=1",
               tres_per_node="gres:gpu:h100:1,gres:gpu:a100:1")  # fmt: skip
    assert asked.of(*BUSY, job) == ["2: unknown"] * 2


def test_an_observer_has_no_less_memory_than_none(
    cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path: Path
):
    """A job with `--exclusive --gres=gpu:1` gets eight GPUs, and the memory of its node once."""
    mine = {"shared": "none", "tres_req_str": "cpu=1,mem=500G,node=1,gres/gpu=1"}
    cluster.print("scontrol", NODES)
    runs = _running(9, "n1", 8, **mine) | {"start_time": BEGIN_S + 60}
    for seconds, job in ((50, _job(9, **mine)), (150, runs)):
        cluster.at(seconds)
        cluster.print("squeue", json.dumps({"jobs": [job]}))
        assert ask().late.words() == []
    where = str(tmp_path / "fleet.sqlite")
    rows = json.loads(tidemill("fleet", "-j", where, "--nodes", "--json").out)["nodes"]
    assert [(row["free_milli"], row["memory_free_mib"] >= 0) for row in rows] == [
        (0, True), (8000, True),
    ]  # fmt: skip


def test_scontrol_says_it_too(tmp_path: Path):
    """`OverSubscribe=NO` is a node by itself."""
    job = (
        "JobId=9 JobName=x UserId=ada(1) Account=a Partition=p JobState=PENDING Reason=Resources"
        " SubmitTime=2026-11-02T08:00:00 NumNodes=1 NumCPUs=1 NumTasks=1 TRES=cpu=1,gres/gpu=1"
        " OverSubscribe=NO TresPerNode=gres:gpu:1\n"
    )
    (tmp_path / "jobs.txt").write_text(job)
    (tmp_path / "nodes.txt").write_text(NODES)
    past = translate.read([tmp_path], "UTC")
    assert past.attempts["gpus"].to_list() == [8]
