"""What the guide says of the scheduler is so: its Job is bound whole under its policy."""

import re
from pathlib import Path

from tests.conftest import ROOT
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, live, scheduling, wrong
from tests.rigs.kubernetes.wanted import node, pod

GUIDE = (ROOT / "docs" / "guides" / "schedule-kubernetes.md").read_text()


def block(language: str, begins: str) -> str:
    """A block of the guide."""
    found = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    return next(text for text in found if text.startswith(begins))


def test_the_job_and_the_gang_of_the_guide_are_placed(rig: Cluster, tmp_path: Path):
    """16 pods of 8 GPUs on 16 nodes; a gang by the guide's annotations in one rack."""
    policy = tmp_path / "policy.toml"
    tier = re.findall(r"`(name = \S+)` and `(label = \S+)`", GUIDE)[0]
    policy.write_text("\n".join([block("toml", "[policy]"), "[[tier]]", *tier, ""]))
    rig.add_nodes(*(node(f"n{i}", rack=f"r{i // 4}") for i in range(20)))
    pairs = re.findall(r"(tidemill/[a-z-]+): \"?([\w-]+)", block("yaml", "metadata:"))
    annotations = dict(pairs) | {"tidemill/gang-size": "4"}
    told = {"annotations": annotations}
    assert set(annotations) == {"tidemill/gang", "tidemill/gang-size", "tidemill/required-topology"}
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        for i in range(4):
            rig.create("/api/v1/namespaces/ml/pods",
                       pod(f"tied-{i}", 8, schedulerName=OURS, metadata=told))  # fmt: skip
        rig.wait_until_running("ml", 4)
        rig.kubectl("apply", "-n", "ml", "-f", "-", told=block("yaml", "apiVersion: batch/v1"))
        rig.wait_until_running("ml", 20)
        assert ours.stop() == 0
    tied = [one for one in live(rig) if one["metadata"]["name"].startswith("tied")]
    assert len({int(one["spec"]["nodeName"][1:]) // 4 for one in tied}) == 1
    assert wrong(rig, ours.journal) == []
