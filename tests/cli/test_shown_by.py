"""Commands of the cluster that `why` prints: by the kind of cluster, whatever its files are called.

That they show what they are printed beside is tested on real clusters (``tests/live``).
"""

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tests.live.kubernetes.test_expired import Forgetful, access
from tests.live.observing.test_observer import BEGIN_S, TERMS, Cluster
from tests.rigs.prometheus.lying import lying
from tidemill.journal import cluster_kinds, open_journal
from tidemill.live.kubernetes.watching.source import KubernetesSource
from tidemill.live.observing.observer import Observer
from tidemill.live.observing.several import SeveralClusters, WatchedCluster

HISTORY = ROOT / "examples" / "history"
SUBMITTED = datetime.fromtimestamp(BEGIN_S + 10, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
NAMES = ("kubernetes.json", "prod-eu.json", "slurm", "any/thing", "kubernetes")
"""Files, and folders with one."""


def placed(name: str, folder: Path, *sources: str) -> list[str]:
    """These files under another name, or in a folder that is called so."""
    path = folder / name
    if path.suffix:
        shutil.copy(HISTORY / sources[0], path)
        return [str(path)]
    path.mkdir(parents=True)
    for source in sources:
        shutil.copy(HISTORY / source, path / source)
    return [str(path)]


def imported(kind: str, files: Sequence[str], folder: Path, *more: str) -> str:
    journal = str(folder / "j.sqlite")
    done = tidemill("import", kind, *files, *more, "-j", journal)
    assert done.code == 0, done.err
    return journal


def lines(journal: str, job: str) -> list[str]:
    """What stands under the heading of commands, but for our own."""
    said = tidemill("why", job, "-j", journal)
    assert said.code == 0, said.err
    _, found, told = said.out.partition("commands that show it:\n")
    assert found, said.out
    return [line for line in told.splitlines() if not line.startswith("  tidemill ")]


def programs(journal: str, job: str) -> set[str]:
    return {line.split()[0] for line in lines(journal, job)}


@pytest.mark.parametrize("name", NAMES)
def test_why_of_a_kubernetes_history_names_kubectl_lines_whatever_its_files_are_called(
    name: str, tmp_path: Path
):
    """And the hints know how its jobs are called, and that nobody cuts its GPUs on demand."""
    journal = imported("kubernetes", placed(name, tmp_path, "kubernetes.json"), tmp_path)
    assert programs(journal, "vision/eval") == {"kubectl"}
    assert "  kubectl describe nodes" in lines(journal, "vision/eval")
    assert "kubectl get pods -A" in tidemill("why", "nosuch", "-j", journal).err
    asked = ("--team", "vision", "--profile", "1g.10gb", "-j", journal)
    assert "no node has `1G.10GB OF GPU`" in tidemill("fit", *asked).out
    decided = tidemill("decision", "ml/llama-a", "-j", journal)
    assert "default-scheduler" in decided.out, decided.out + decided.err


@pytest.mark.parametrize("name", ["sacct.txt", "prod", "kubernetes"])
def test_why_of_a_slurm_history_names_lines_of_slurm(name: str, tmp_path: Path):
    """Also of one whose folder is called like another kind."""
    files = placed(name, tmp_path, "sacct.txt", "nodes.txt")
    journal = imported("slurm", files, tmp_path, "--zone", "UTC")
    (waits,) = (row for row in (HISTORY / "sacct.txt").read_text().split() if "|PEND" in row)
    job = waits.partition("|")[0]
    assert programs(journal, job) >= {"scontrol", "squeue"}
    assert f"  scontrol show job {job}" in lines(journal, job)
    assert "kubectl" not in tidemill("why", "nosuch", "-j", journal).err


def test_jobs_of_several_clusters_of_one_accounting_are_called_there_as_they_are(tmp_path: Path):
    """`CLUSTER/JOB` is our name for them."""
    (head, *rows) = (HISTORY / "sacct.txt").read_text().splitlines()
    told = [f"{head}|Cluster"] + [f"{row}|{name}" for name in ("east", "west") for row in rows]
    (tmp_path / "sacct.txt").write_text("\n".join(told) + "\n")
    journal = imported("slurm", [str(tmp_path / "sacct.txt")], tmp_path, "--zone", "UTC")
    head, *found = lines(journal, "west/106")
    assert head == "in cluster `west`:"
    assert "  scontrol show job 106" in found


def test_a_table_of_jobs_and_a_simulation_have_no_lines_of_a_cluster(tmp_path: Path):
    """Nobody knows what kind it was; also where the file is called like one."""
    table = tmp_path / "kubernetes"
    rows = ("job,user,team,gpus,node,gpu_type,submit,start,end,state",
            "1,ann,ml,8,n0,H100,100,100,900,RUNNING", "9,ann,ml,8,,H100,200,,,PENDING")  # fmt: skip
    table.write_text("\n".join(rows) + "\n")
    assert lines(imported("csv", [str(table)], tmp_path), "9") == []


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    """A journal of two clusters of different kinds; in both a job waits."""
    journal, hpc = str(tmp_path / "fleet.sqlite"), tmp_path / "hpc"
    hpc.mkdir()
    slurm = Cluster(hpc)
    slurm.at(100, {"id": 8, "gpus": 4, "submit": 30, "state": "PENDING", "node": ""})
    server = Forgetful(is_in_stream=False)
    server.objects["pods"][0]["metadata"]["creationTimestamp"] = SUBMITTED
    with (
        lying(server.answer) as (address, _),
        KubernetesSource(access(address, tmp_path), timeout_s=20) as pods,
    ):
        both = [WatchedCluster("hpc", slurm.source), WatchedCluster("prod", pods)]
        with Observer.open(journal, SeveralClusters(both), TERMS, BEGIN_S * 1000) as observer:
            observer.ask()
    return journal


def test_each_job_of_a_fleet_has_the_lines_of_its_own_cluster(fleet: str):
    """Under its name, with what the job is called there."""
    head, *found = lines(fleet, "hpc/8")
    assert head == "in cluster `hpc`:"
    assert "  scontrol show job 8" in found
    assert not [line for line in found if "kubectl" in line]
    head, *found = lines(fleet, "prod/ml/a")
    assert head == "in cluster `prod`:"
    assert any(line.startswith("  kubectl get pods -n ml -o ") for line in found), found
    assert "kubectl" in tidemill("why", "prod/nosuch", "-j", fleet).err
    assert "kubectl" not in tidemill("why", "hpc/nosuch", "-j", fleet).err


@pytest.mark.parametrize("is_old", [False, True])
def test_kinds_are_a_fact_of_the_journal_and_older_ones_are_told_by_their_name(
    fleet: str, is_old: bool
):
    """By cluster; of one cluster under no name."""
    both = {"hpc": "slurm", "prod": "kubernetes"}
    with open_journal(fleet) as opened:
        facts, where = opened.facts(), opened.where
    if is_old:
        del facts[cluster_kinds.FACT]
        assert cluster_kinds.by_cluster({**facts, "name": "slurm"}, where) == {"": "slurm"}
        assert cluster_kinds.by_cluster({**facts, "name": "jobs.txt"}, where) == {}
        simulated = {**facts, "name": "slurm", "source": "twin"}
        assert cluster_kinds.by_cluster(simulated, where) == {}
    assert cluster_kinds.by_cluster(facts, where) == both
