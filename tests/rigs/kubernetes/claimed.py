"""Devices that are given out by claim on a real cluster: published, and what must be so of them."""

from collections import Counter
from collections.abc import Mapping, Sequence

from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import Object, live
from tests.rigs.kubernetes.wanted import device_class, node, resource_slice

API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/ml/resourceclaims"
TEMPLATES = f"{API}/namespaces/ml/resourceclaimtemplates"


def publish(
    rig: Cluster,
    machines: Mapping[str, Sequence[Object]],
    labels: Mapping[str, dict[str, str]] | None = None,
) -> None:
    """Machines that advertise no devices and publish these instead, with a class for all."""
    rig.create(f"{API}/deviceclasses", device_class())
    rig.add_nodes(
        *(
            node(name, len(some), advertised=0, labels=(labels or {}).get(name))
            for name, some in machines.items()
        )
    )
    for name, some in machines.items():
        rig.create(f"{API}/resourceslices", resource_slice(name, [*some]))


def statuses(rig: Cluster) -> dict[str, Object]:
    """By claim that is allocated: its status."""
    return {
        one["metadata"]["name"]: one["status"]
        for one in rig.items(f"{API}/resourceclaims")
        if one.get("status", {}).get("allocation")
    }


def allocated(rig: Cluster) -> dict[str, list[tuple[str, str]]]:
    """By claim: its devices with their pools."""
    return {
        name: [(row["pool"], row["device"]) for row in status["allocation"]["devices"]["results"]]
        for name, status in statuses(rig).items()
    }


def wrong_claims(rig: Cluster) -> list[str]:
    """Devices that were given twice, and pods that do not have what they claim where they are."""
    known = statuses(rig)
    held = Counter(device for some in allocated(rig).values() for device in some)
    found = [f"{device} was given to {count} claims" for device, count in held.items() if count > 1]
    for one in live(rig):
        name, where = one["metadata"]["name"], one["spec"].get("nodeName", "")
        for told in one["status"].get("resourceClaimStatuses", ()):
            mine = known.get(told["resourceClaimName"])
            rows = mine["allocation"]["devices"]["results"] if mine else []
            users = {user["uid"] for user in mine["reservedFor"]} if mine else set[str]()
            pools = {row["pool"] for row in rows}
            if pools != ({where} if where else set()) or users > {one["metadata"]["uid"]}:
                found.append(f"{name} on `{where}` has {rows}, used by {users}")
            if where and users != {one["metadata"]["uid"]}:
                found.append(f"{name} is bound, and its claim is used by {users}")
    return found
