"""Rules about other pods are kept on a real cluster, and what cannot be kept is named."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from tests.live.kubernetes.scheduling.test_devices import message
from tests.live.kubernetes.scheduling.test_placing import JOBS, PODS, nodes_of
from tests.live.kubernetes.scheduling.test_saying import told
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang, node, pod
from tidemill.live.kubernetes.scheduling.saying import UNSCHEDULABLE

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
RACK = "topology.kubernetes.io/rack"
MUST = "requiredDuringSchedulingIgnoredDuringExecution"
POLICY = f"""
[[tier]]
name = "rack"
label = "{RACK}"
"""


def near(kind: str, key: str, app: str) -> dict[str, Any]:
    """A rule of affinity to pods of an app."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {MUST: [term]}}}


def spread(key: str, app: str) -> dict[str, Any]:
    """An even spread of the pods of an app."""
    return {"topologySpreadConstraints": [{
        "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }]}  # fmt: skip


def app(name: str, i: int, gpus: int, **spec: Any) -> dict[str, Any]:
    """A replica of an app."""
    told = {"labels": {"app": name}}
    return pod(f"{name}-{i}", gpus, schedulerName=OURS, metadata={"name": f"{name}-{i}", **told},
               **spec)  # fmt: skip


def tied(name: str, pods: int, gpus: int, **spec: Any) -> dict[str, Any]:
    """A gang whose pods carry the name of its app."""
    one = gang(name, pods, gpus, schedulerName=OURS, **spec)
    one["spec"]["template"]["metadata"] = {"labels": {"app": name}}
    return one


def is_kept_apart(rig: Cluster, name: str) -> bool:
    """Whether a pod says that it waits for others from which it has to be apart."""
    return "has to be apart" in message(rig, name)


def test_replicas_keep_apart_and_spread_and_a_gang_keeps_together(rig: Cluster, tmp_path: Path):
    """Four nodes in two zones and two racks: each rule is kept by pods of ours, one by one.

    A fifth replica that has to be on a node of its own waits; a gang of small pods that has to be
    apart is refused by the field, one whose pods need a node each is placed.
    """
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.add_nodes(*(
        node(f"n{i}", rack=f"r{i % 2}", labels={ZONE: f"z{i // 2}"}) for i in range(4)
    ))  # fmt: skip
    apart, even = near("podAntiAffinity", HOST, "apart"), spread(ZONE, "even")
    rig.create(PODS, *(app("apart", i, 1, **apart) for i in range(5)))
    rig.create(PODS, *(app("even", i, 1, **even) for i in range(4)))
    rig.create(JOBS, tied("small", 2, 1, **near("podAntiAffinity", HOST, "small")))
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_until_running("ml", 8)
        rig.create(JOBS, tied("rack", 4, 3, **near("podAffinity", RACK, "rack")))
        rig.wait_until_running("ml", 12)
        rig.create(JOBS, tied("big", 2, 5, **near("podAntiAffinity", HOST, "big")))
        rig.wait_until_running("ml", 14)
        zones = near("podAntiAffinity", ZONE, "zone")
        rig.create(PODS, *(app("zone", i, 1, **zones) for i in range(3)))
        rig.wait_until_running("ml", 16)
        small = next(name for name in rig.pods("ml") if name.startswith("small"))
        rig.wait_for("it is told", lambda: "podAntiAffinity" in message(rig, small))
        left = {"apart": UNSCHEDULABLE, "zone": "Waiting"}  # a new node has a name of its own
        for name, reason in left.items():
            last = next(one for one, there in nodes_of(rig, name).items() if not there)
            rig.wait_for("it is told", partial(is_kept_apart, rig, last))
            assert told(rig, last)[0] == reason
            assert f"(ml/{name}-" in message(rig, last)
        assert ours.stop() == 0
    assert sorted(nodes_of(rig, "apart").values()) == ["", "n0", "n1", "n2", "n3"]
    halves = Counter(int(name[1]) // 2 for name in nodes_of(rig, "even").values())
    assert halves == {0: 2, 1: 2}
    assert len({int(name[1]) % 2 for name in nodes_of(rig, "rack").values()}) == 1
    assert len({*nodes_of(rig, "big").values()}) == 2
    assert not any(nodes_of(rig, "small").values())
    assert wrong(rig, ours.journal) == []
