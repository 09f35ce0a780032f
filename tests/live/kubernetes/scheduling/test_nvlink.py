"""Gangs within one NVLink domain of a real cluster: by the label that the driver sets.

Devices come by the device plugin, or by claim beside a channel of the domain, which is a device of
a second driver in the same claim.
"""

from collections import Counter
from pathlib import Path

from tests.live.kubernetes.scheduling.test_placing import PODS, nodes_of
from tests.live.kubernetes.scheduling.test_saying import told
from tests.rigs.kubernetes.claimed import API, TEMPLATES, allocated, publish, wrong_claims
from tests.rigs.kubernetes.cluster import Cluster, Object
from tests.rigs.kubernetes.scheduled import OURS, scheduling, wrong
from tests.rigs.kubernetes.wanted import (
    claim_spec,
    claim_template,
    claiming,
    device,
    device_class,
    gang_notes,
    node,
    pod,
    resource_slice,
)

CLIQUE = "nvidia.com/gpu.clique"
POLICY = f"""
[policy]
backfill = "none"
[[tier]]
name = "nvlink"
label = "{CLIQUE}"
"""
DOMAINS = {"n0": "a", "n1": "b", "n2": "a", "n3": "b", "n4": "c"}


def members(name: str, **notes: str) -> list[Object]:
    """Two pods of a gang, each with a whole node of 4 GPUs."""
    told = {"annotations": gang_notes(name, 2, **notes)}
    return [pod(f"{name}{i}", 4, schedulerName=OURS, metadata=told) for i in range(2)]


def test_a_gang_is_in_one_nvlink_domain_or_waits_for_one(rig: Cluster, tmp_path: Path):
    """Domain `a` has a node free, `b` two, `c` its only one: a tied gang is in `b`; the next waits
    though two nodes are free, and one that is not tied has them.
    """
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.add_nodes(*(node(name, 4, labels={CLIQUE: at}) for name, at in DOMAINS.items()))
    rig.create(PODS, pod("theirs", 4, nodeName="n0"))
    rig.wait_until_running("ml", 1)
    rig.create(PODS, *members("tight", required_topology="nvlink"))
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_until_running("ml", 3)
        assert {*nodes_of(rig, "tight").values()} == {"n1", "n3"}
        rig.create(PODS, *members("late", required_topology="nvlink"))
        rig.wait_for("it is told", lambda: told(rig, "late")[0] == "WaitingForTopology")
        rig.create(PODS, *members("loose"))
        rig.wait_until_running("ml", 5)
        assert {*nodes_of(rig, "loose").values()} == {"n2", "n4"}
        assert {*nodes_of(rig, "late").values()} == {""}
        rig.ask("DELETE", f"{PODS}/theirs?gracePeriodSeconds=0")
        rig.ask("DELETE", f"{PODS}/loose0?gracePeriodSeconds=0")
        rig.ask("DELETE", f"{PODS}/loose1?gracePeriodSeconds=0")
        rig.wait_until_running("ml", 4)
        assert {*nodes_of(rig, "late").values()} == {"n0", "n2"}
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0


CHANNELS = "compute-domain.nvidia.com"


def test_devices_and_channels_by_claim_are_in_one_nvlink_domain(rig: Cluster, tmp_path: Path):
    """The same machines, whose GPUs come by claim, each with one channel of a second driver; those
    of `d` have none. Of `a` a machine is held by somebody else's claim: the first gang is in `b`,
    the second waits, though the three free machines of `a`, `c` and `d` have GPUs for it, until
    that claim is given back. One channel and four GPUs of its own machine are in each claim.
    """
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    domains = DOMAINS | {"n5": "d", "n6": "d"}
    gpus = {name: [device(f"gpu-{d}") for d in range(4)] for name in domains}
    publish(rig, gpus, {name: {CLIQUE: at} for name, at in domains.items()})
    rig.create(f"{API}/deviceclasses", device_class("channel", driver=CHANNELS))
    for name in DOMAINS:
        channel = {"name": "channel-0", "attributes": {"type": {"string": "channel"}}}
        rig.create(f"{API}/resourceslices", resource_slice(name, [channel], driver=CHANNELS))
    both = claim_spec(4)
    both["devices"]["requests"] += [
        {"name": "channel", "exactly": {"deviceClassName": "channel", "count": 1}}
    ]
    rig.create(TEMPLATES, claim_template("both", both), claim_template("one", claim_spec(1)))
    there: Object = {"nodeSelector": {"kubernetes.io/hostname": "n0"}}
    rig.create(PODS, pod("theirs", 0, **there, **claiming(template="one")))
    rig.wait_until_running("ml", 1)

    def members(name: str) -> list[Object]:
        told = {"annotations": gang_notes(name, 2, required_topology="nvlink")}
        mine = {"schedulerName": OURS, "metadata": told, **claiming(template="both")}
        return [pod(f"{name}{i}", 0, **mine) for i in range(2)]

    rig.create(PODS, *members("tight"))
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_until_running("ml", 3)
        assert {*nodes_of(rig, "tight").values()} == {"n1", "n3"}
        rig.create(PODS, *members("late"))
        rig.wait_for("it is told", lambda: told(rig, "late")[0] == "WaitingForTopology")
        rig.ask("DELETE", f"{PODS}/theirs?gracePeriodSeconds=0")
        rig.wait_until_running("ml", 4)
        assert {*nodes_of(rig, "late").values()} == {"n0", "n2"}
        assert ours.stop() == 0
    assert wrong_claims(rig) == []
    given = [Counter(name.split("-")[0] for _, name in some) for some in allocated(rig).values()]
    assert given == [{"gpu": 4, "channel": 1}] * 4
