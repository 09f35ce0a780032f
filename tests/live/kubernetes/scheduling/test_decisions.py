"""What `decision` and `why` say of jobs of a real cluster: one cause, the same nodes."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tests.live.kubernetes.scheduling.test_saying import PODS, told
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling
from tests.rigs.kubernetes.wanted import device, device_class, node, pod, resource_slice
from tidemill.cli.main import app


def asked(journal: str, *words: str) -> dict[str, Any]:
    """What a command answers, in JSON."""
    done = CliRunner().invoke(app, [*words, "-j", journal, "--json"])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_decision_has_filters_scores_and_the_cause_that_why_and_the_pod_have(
    rig: Cluster, tmp_path: Path
):
    """A node of a device plugin, one with devices by claims, and one that its cluster has
    tainted. One pod runs: which nodes were removed, and why the winner won. One waits:
    its cause is the same in `decision`, `why` and its condition, whatever is free for claims.
    """
    taint = {"key": "node.kubernetes.io/being-checked", "effect": "NoSchedule"}
    rig.add_nodes(node("n0"), node("d0", 0), node("out", taints=[taint]))
    rig.create("/apis/resource.k8s.io/v1/deviceclasses", device_class())
    devices = [device(f"gpu-{i}") for i in range(8)]
    rig.create("/apis/resource.k8s.io/v1/resourceslices", resource_slice("d0", devices))
    rig.create(PODS, pod("runs", 6, schedulerName=OURS))
    with scheduling(rig, tmp_path) as ours:
        rig.wait_until_running("ml", 1)
        rig.create(PODS, pod("waits", 4, schedulerName=OURS))
        rig.wait_for("it is told why", lambda: told(rig, "waits")[0] != "", 120)
        assert ours.stop() == 0
    runs, waits = (asked(ours.journal, "decision", f"ml/{name}") for name in ("runs", "waits"))
    (found,) = runs["filters"]
    assert runs["outcome"] == "placed"
    assert {one["filter"]: one["words"] for one in found["removed"]}["state"] == "1 tainted"
    assert runs["scores"][0]["candidates"][0]["name"] == "n0"
    answer = asked(ours.journal, "why", "ml/waits")["answer"]
    assert waits["outcome"] == "waits"
    assert waits["cause"] == answer["cause"] == "busy"
    assert f"it waits: {told(rig, 'waits')[1]}" in waits["words"]
    (found,) = waits["filters"]
    removed = {one["filter"]: one["nodes"] for one in found["removed"]}
    assert removed == {"state": 1, "labels": 1, "free_gpus": 1}
