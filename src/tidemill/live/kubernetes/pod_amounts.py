"""How much of each resource a pod requests, by its containers, or for itself."""

from tidemill.live.kubernetes import fields
from tidemill.live.kubernetes.fields import Object


def requested(spec: Object) -> dict[str, float]:
    """What a pod requests: for itself, else by its containers; and what its runtime takes."""
    total = _by_containers(spec)
    most, least = (fields.amounts(spec, "resources", one) for one in ("limits", "requests"))
    total |= {name: amount for name, amount in most.items() if not total.get(name)} | least
    for resource, amount in fields.amounts(spec, "overhead").items():
        total[resource] = total.get(resource, 0) + amount
    return total


def _by_containers(spec: Object) -> dict[str, float]:
    """What all containers request together; those that run before the others, at most as much."""
    total: dict[str, float] = {}
    for container in fields.each(spec, "containers"):
        for resource, amount in _of_container(container).items():
            total[resource] = total.get(resource, 0) + amount
    beside, most = dict[str, float](), dict[str, float]()
    for container in fields.each(spec, "initContainers"):
        mine = _of_container(container)
        if fields.text(container, "restartPolicy") == "Always":  # a sidecar: it stays
            for resource, amount in mine.items():
                beside[resource] = beside.get(resource, 0) + amount
            continue
        for resource, amount in mine.items():
            most[resource] = max(most.get(resource, 0), amount + beside.get(resource, 0))
    for resource, amount in beside.items():
        total[resource] = total.get(resource, 0) + amount
    for resource, amount in most.items():
        total[resource] = max(total.get(resource, 0), amount)
    return total


def _of_container(container: Object) -> dict[str, float]:
    limits = fields.amounts(container, "resources", "limits")
    return limits | fields.amounts(container, "resources", "requests")
