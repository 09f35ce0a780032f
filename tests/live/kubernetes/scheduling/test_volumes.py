"""Volumes are where pods may be, on a real cluster."""

from pathlib import Path
from typing import Any

from tests.live.kubernetes.scheduling.test_devices import message
from tests.live.kubernetes.scheduling.test_placing import PODS, nodes_of
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling
from tests.rigs.kubernetes.wanted import node, pod

ZONE = "topology.kubernetes.io/zone"
VOLUMES, CLAIMS = "/api/v1/persistentvolumes", "/api/v1/namespaces/ml/persistentvolumeclaims"
SIZE = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
MERGE = "application/merge-patch+json"


def claim(name: str, volume: str = "") -> dict[str, Any]:
    """A claim of a volume, of which nobody makes one."""
    told = {"volumeName": volume} if volume else {}
    return {"metadata": {"name": name}, "spec": {"storageClassName": "", **SIZE, **told}}


def using(name: str) -> dict[str, Any]:
    """The field of a pod's spec that names a claim."""
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def test_a_pod_goes_where_its_volume_is_and_waits_for_one_that_is_not(rig: Cluster, tmp_path: Path):
    """A volume of zone z2: its pod goes to the node there, although another one has more room."""
    rig.add_nodes(node("n1", 8), node("n2", 2, labels={ZONE: "z2"}))
    in_zone = {"key": ZONE, "operator": "In", "values": ["z2"]}
    where = {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}}
    rig.create(VOLUMES, {"metadata": {"name": "there"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nodeAffinity": where,
        "local": {"path": "/data"}, "claimRef": {"namespace": "ml", "name": "bound"},
    }})  # fmt: skip
    rig.create(CLAIMS, claim("bound", "there"), claim("open"))
    rig.ask("PATCH", f"{CLAIMS}/bound/status", {"status": {"phase": "Bound"}}, kind=MERGE)
    try:
        rig.create(PODS, pod("data", 1, schedulerName=OURS, **using("bound")),
                   pod("later", 1, schedulerName=OURS, **using("open")))  # fmt: skip
        with scheduling(rig, tmp_path) as ours:
            rig.wait_until_running("ml", 1)
            rig.wait_for("it is told", lambda: "`open` is not bound" in message(rig, "later"))
            assert ours.stop() == 0
        assert nodes_of(rig, "data", "later") == {"data": "n2", "later": ""}
    finally:
        for path in (CLAIMS, VOLUMES):
            for one in rig.items(path):
                at = f"{path}/{one['metadata']['name']}"
                rig.ask("PATCH", at, {"metadata": {"finalizers": None}}, kind=MERGE)
            rig.ask("DELETE", path)
