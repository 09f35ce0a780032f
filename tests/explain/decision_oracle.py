"""Which filter removes a node, in plain Python: every node is asked by itself, row by row."""

from collections import Counter

from tidemill.model.rows import Role
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.units.mig import geometry as mig


def removed(world: World, team: str, role: Role) -> Counter[str]:
    """How many nodes each filter removes for a role of a team; those it leaves are ``passed``.

    Up to the quotas: what is about a whole gang comes after them.
    """
    found = Counter[str]()
    for n in range(world.node_count):
        if world.nodes.state[n] != NodeState.GONE:
            found[_of_node(world, role, n) or _quota(world, team, role, n) or "passed"] += 1
    return found


def _of_node(world: World, role: Role, n: int) -> str:
    row, nodes = world.node_rows[n], world.nodes
    contract = next(c for c in world.contract_rows if c.name == row.contract)
    labels = {*contract.node.labels, *row.labels}
    taints = {*contract.node.taints, *row.taints}
    if nodes.state[n] != NodeState.READY:
        return "state"
    if nodes.is_spare[n]:
        return "spare"
    if role.kinds and contract.kind not in role.kinds:
        return "gpu_type"
    if role.profile and not mig.offers(contract.kind, role.profile, role.milli):
        return "gpu_type"
    if not {*role.labels} <= labels:
        return "labels"
    if any(key not in {k for k, _ in role.tolerates} for key, _ in taints):
        return "taints"
    if not role.profile and nodes.free_milli[n] < role.accelerators * role.milli:
        return "free_gpus"
    if nodes.cpu_free_milli[n] < role.cpu_milli:
        return "cpu"
    if nodes.memory_free_mib[n] < role.memory_mib:
        return "memory"
    return "" if _devices(world, role, n) >= role.accelerators else "devices"


def _devices(world: World, role: Role, n: int) -> int:
    """GPUs of a node with room for what a replica needs on each."""
    first, devices = world.nodes.first_device[n], world.devices
    here = range(first, first + world.nodes.devices[n])
    working = [d for d in here if not devices.is_failed[d]]
    if not role.profile:
        return sum(devices.free_milli[d] >= role.milli for d in working)
    part = mig.of_kind(world.kinds[world.nodes.kind[n]])
    assert part is not None, "it offers the profile"
    at = [row.name for row in part.profiles].index(role.profile)
    most = mig.tables(part).most[at]
    states = [(int(devices.slices[d]), int(devices.free_milli[d])) for d in working]
    return sum(bool(most[state]) for state, free in states if state or free == 1000)


def _quota(world: World, team: str, role: Role, n: int) -> str:
    """Whether a maximum quota, of the team or of one above it, keeps the role off the GPU type."""
    k, rows = world.nodes.kind[n], {row.name: row for row in world.queue_rows}
    while team and role.total_milli:
        q = world.queue_number[team]
        if world.used[q, k] + role.total_milli > world.limit[q, k]:
            return "quota"
        team = rows[team].parent
    return ""
