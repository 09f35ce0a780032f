"""Jobs that order a node: `why` and `pending` say what autoscalers make of that."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.test_from_zero import put
from tests.live.kubernetes.scheduling.test_reading import Read
from tests.live.kubernetes.test_autoscaler import NO_ACTIVITY, SCALING, SHOWN, group, status
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling
from tests.rigs.kubernetes.wanted import node, pod
from tidemill.cli.main import app
from tidemill.live.kubernetes import autoscaler
from tidemill.live.kubernetes.scheduling import saying

PODS, CONFIG_MAPS = "/api/v1/namespaces/ml/pods", "/api/v1/namespaces/kube-system/configmaps"
CLAIM: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
    "metadata": {"name": "gpu-x7", "namespace": "", "labels": {"pool": "gpu-a"},
                 "creationTimestamp": made.moment(0)},
    "spec": {},
    "status": {"capacity": {"cpu": "192", "memory": "2Ti", "nvidia.com/gpu": "8"},
               "conditions": [{"type": "Launched", "status": "True"}]},
}  # fmt: skip


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pods are told at once."""
    monkeypatch.setattr(saying, "PER_SECOND", 1_000_000)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Read]:
    """A full node of a group, and a job that orders one more."""
    read = Read(tmp_path / "live.sqlite")
    put(read, "n0", 8, {"pool": "gpu-a"})
    read.server.make("busy", 8)
    read.rest()
    read.server.make("more", 4)
    read.rest()
    assert read.told("more")[0] == "Unschedulable"
    yield read
    read.journal.close()


@pytest.mark.parametrize(
    ("up", "target", "most", "words"),
    [(NO_ACTIVITY, 1, 1, "is at its maximum (1 of 1)"),
     (SCALING, 2, 8, "is scaling up: 1 of 2 nodes are Ready")],
)  # fmt: skip
def test_what_the_autoscaler_says_of_its_node_group_is_told(
    up: str, target: int, most: int, words: str, story: Read
):
    """As an observer tells it: the group whose nodes could carry it, and the command that shows it.
    When the ConfigMap is gone nothing is said any more.
    """
    assert "node group" not in story.asked("why", "ml/more") + story.asked("pending")
    told = status(group("gpu-a", 1, target, most, up))
    story.server.put(told)
    story.rest()
    said = f"the autoscaler's node group `gpu-a` {words} {SHOWN}"
    assert f"ordered: {said}" in story.asked("why", "ml/more")
    assert f"ordered by 1 job, such as `ml/more`: {said}" in story.asked("pending")
    assert said in story.answered("why", "ml/more")["answer"]["words"]
    story.server.put(told, is_gone=True)
    story.rest()
    assert "node group" not in story.asked("why", "ml/more") + story.asked("pending")


def test_a_job_that_runs_or_orders_nothing_is_told_nothing_of_groups(story: Read):
    """`busy` runs, and a pod of 16 GPUs could be on no node of any group."""
    story.server.put(status(group("gpu-a", 1, 1, 1)))
    story.server.make("too-large", 16)
    story.rest()
    for job in ("ml/busy", "ml/too-large"):
        assert "node group" not in story.asked("why", job)
    story.server.finish(("ml", "busy"))
    story.rest()
    assert "node group" not in story.asked("why", "ml/more") + story.asked("pending")


def test_a_machine_that_karpenter_launched_is_told_until_its_node_joins(story: Read):
    """A NodeClaim that is launched and has no node; then its node is there, and the job on it."""
    story.server.put(CLAIM)
    story.rest()
    said = "Karpenter has launched `gpu-x7`, and no node has joined yet"
    assert f"ordered: {said} (kubectl get nodeclaims.karpenter.sh)" in story.asked("why", "ml/more")
    put(story, "n1", 8, {"pool": "gpu-a"})
    named = {"status": {**CLAIM["status"], "nodeName": "n1"}}
    story.server.put(CLAIM | named)
    story.rest()
    assert "Karpenter" not in story.asked("why", "ml/more") + story.asked("pending")


def test_a_real_scheduler_reads_it_with_the_observers_rights(rig: Cluster, tmp_path: Path):
    """The ConfigMap in `kube-system`, by the role of the manifests; its group is told beside the
    job that waits.
    """
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    rig.add_nodes(node("n0", labels={"pool": "gpu-a"}))
    rig.create(PODS, pod("busy", 8, schedulerName=OURS))
    rig.create(CONFIG_MAPS, status(group("gpu-a", 1, 1, 1), probed=now))
    try:
        with scheduling(rig, tmp_path) as ours:
            rig.wait_until_running("ml", 1)
            rig.create(PODS, pod("more", 4, schedulerName=OURS))

            def why() -> str:
                told = CliRunner().invoke(app, ["why", "ml/more", "-j", ours.journal])
                return " ".join(told.output.split())

            words = f"the autoscaler's node group `gpu-a` is at its maximum (1 of 1) {SHOWN}"
            rig.wait_for("it is told", lambda: f"ordered: {words}" in why())
            assert ours.stop() == 0
    finally:
        rig.ask("DELETE", f"{CONFIG_MAPS}/{autoscaler.NAME}")
