"""Kueue itself, of now, in front of a real cluster: its words, its queues and cohorts, as read.

A cluster of its own, since its webhooks look at all that is made.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bench import kueue
from tests.cli.shell import tidemill
from tests.live.kubernetes import beside
from tests.live.kubernetes.conftest import ROLE
from tests.rigs.kubernetes import cluster
from tests.rigs.kubernetes.cluster import Cluster, Object
from tests.rigs.kubernetes.wanted import GPU, gang, node
from tests.rigs.slurm.cluster import quick_folder

H100 = "NVIDIA-H100-80GB-HBM3"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ml/workloads"
JOBS = "/apis/batch/v1/namespaces/ml/jobs"


def quotas(gpus: int) -> list[Object]:
    """So many GPUs of the one flavor, and CPU and memory for everybody."""
    amounts = {"cpu": "1000", "memory": "10Ti", GPU: str(gpus)}
    resources = [{"name": name, "nominalQuota": much} for name, much in amounts.items()]
    return [{"coveredResources": [*amounts], "flavors": [{"name": "h100", "resources": resources}]}]


def queues(rig: Cluster) -> None:
    """Two queues of 8 and 4 in a cohort that has 4 of its own, below another that has none."""
    kueue.make(rig, "resourceflavors", "h100", {"nodeLabels": {"nvidia.com/gpu.product": H100}})
    kueue.make(rig, "cohorts", "org", {})
    kueue.make(rig, "cohorts", "lab", {"parentName": "org", "resourceGroups": quotas(4)})
    for name, gpus in (("research", 8), ("vision", 4)):
        told = {"cohortName": "lab", "namespaceSelector": {}, "resourceGroups": quotas(gpus)}
        kueue.make(rig, "clusterqueues", name, told)
        kueue.make(rig, "namespaces/ml/localqueues", name, {"clusterQueue": name})


def job(name: str, pods: int, gpus: int, queue: str) -> Object:
    """A gang that Kueue keeps suspended until its queue has quota."""
    found = gang(name, pods, gpus)
    found["spec"]["suspend"] = True
    found["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    return found


class Seen(NamedTuple):
    """A cluster under Kueue, and what an observer kept of it."""

    rig: Cluster
    journal: str

    def why(self, name: str) -> dict[str, Any]:
        """The answer for a job."""
        answer = tidemill("why", name, "-j", self.journal, "--json")
        assert answer.code == 0, answer.err
        found: dict[str, Any] = json.loads(answer.out)["answer"]
        return found


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    """12 of 16 GPUs are in use; a job waits for quota, one requests too much, one has no queue."""
    if reason := cluster.missing() or kueue.missing():
        pytest.skip(f"this test starts a real Kubernetes with Kueue, and cannot: {reason}")
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        cluster.running(Path(folder) / "rig") as rig,
    ):
        rig.create("/api/v1/namespaces", {"metadata": {"name": "ml"}})
        rig.kubectl("apply", "-f", str(ROLE))
        rig.add_nodes(node("n0"), node("n1"))
        kueue.install(rig)
        kueue.start(rig)
        queues(rig)
        rig.create(JOBS, job("runs", 2, 6, "research"))
        rig.wait_until_running("ml", 2)
        rig.create(
            JOBS, job("full", 1, 8, "vision"), job("never", 4, 8, "research"),
            job("lost", 1, 1, "nowhere"),
        )  # fmt: skip
        rig.wait_for("Kueue has spoken of all", lambda: _has_spoken(rig))
        journal = str(Path(folder) / "k.sqlite")
        made = tidemill(
            "observe", "kubernetes", "--kubeconfig", str(rig.kubeconfig), "--team-by", "queue",
            "--usd-per-hour", "2", "-j", journal, "--once", "--lateness", "0s",
        )  # fmt: skip
        assert made.code == 0, made.err
        yield Seen(rig, journal)


def _has_spoken(rig: Cluster) -> bool:
    told = [
        condition["message"]
        for one in rig.items(WORKLOADS)
        for condition in one.get("status", {}).get("conditions", ())
        if (condition["type"], condition["status"]) == ("QuotaReserved", "False")
    ]
    return len(told) == 3 and all(told)


def test_its_queues_and_cohorts_are_teams_with_their_quotas(seen: Seen):
    """16 below `org`, all of them below `lab`; queues are sure of their own."""
    rows = json.loads(tidemill("fleet", seen.journal, "--teams", "--json").out)
    assert [tuple(row.values()) for row in rows["teams"]] == [
        ("cohort org", "", "H100", 12_000, 16_000, 16_000),
        ("cohort lab", "cohort org", "H100", 12_000, 16_000, None),
        ("research", "cohort lab", "H100", 12_000, 8_000, None),
        ("vision", "cohort lab", "H100", 0, 4_000, None),
    ]


CAUSES = {
    "ml/full": ("over_limit", "the quota of its queue is used up"),
    "ml/never": ("over_limit_always", "requests more than its queue may ever use"),
    "ml/lost": ("none", "its queue does not exist"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_what_it_says_of_a_job_is_its_cause(seen: Seen, name: str):
    """With its words, the workload that has them, and no node to buy."""
    cause, words = CAUSES[name]
    answer = seen.why(name)
    assert answer["cause"] == cause
    assert words in answer["reason"]
    bought = [
        fix["words"]
        for fix in (answer["fix"], *answer["other_fixes"])
        if re.search(r"\badd \d+ node", fix["words"])
        and "raise the maximum quota" not in fix["words"]
    ]
    assert bought == []


def test_a_job_above_the_quota_of_a_cohort_hears_of_that_first(seen: Seen):
    """What Kueue calls the maximum capacity is the quota of the cohort, 16 by the books."""
    answer = seen.why("ml/never")
    assert re.search(r"> maximum capacity \(\d+\)", answer["reason"])  # it says less until it knows
    assert answer["evidence"][0]["name"] == "limit"
    assert "team `cohort org` is 16 `H100`, it requests 32" in answer["evidence"][0]["words"]
    assert answer["fix"]["words"] == "request at most 2 replicas of 8 GPUs"
    assert answer["other_fixes"][0]["words"] == (
        "raise the maximum quota of team `cohort org` from 16 to 32 `H100` and add 2 nodes of"
        " 8×`H100`"
    )


@pytest.mark.parametrize("name", CAUSES)
def test_every_line_shows_the_thing_that_it_stands_beside(seen: Seen, name: str):
    """Of jobs that have no pods: their workload, and the queue with their workloads."""
    assert beside.check(seen.rig, name, seen.journal) >= 3
