"""Inventory: contracts, nodes and teams of a cluster state, as ``tidemill fleet`` lists them.

What is in use is counted by ``supply.in_use_milli``, as in every other answer.
"""

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tidemill.explain import phrasing, supply
from tidemill.journal.device_errors import DeviceErrors
from tidemill.model import lives, node_groups
from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import UNKNOWN_HOST, UNLISTED
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.reservation.capacity_gap import seams

SPARE = "spare"
STATES = (
    *(state.name.lower() for state in NodeState if state is not NodeState.GONE), phrasing.TAINTED,
    SPARE,
)  # fmt: skip
"""What a node may be listed as; a Ready node kept as a hot spare is ``spare``."""


class ContractRow(Struct, frozen=True):
    """One running contract: what is paid, launched, schedulable and in use of it."""

    contract: str
    kind: str
    terms: str
    paid_milli: int
    launched_milli: int
    can_work_milli: int
    in_use_milli: int
    seam_usd_micro_per_hour: int | None


class NodeRow(Struct, frozen=True):
    """One node that is not gone, its state since when, what is free on it, and its jobs."""

    node: str
    kind: str
    pool: str
    contract: str
    state: str
    since_ms: int
    accelerators: int
    failed: int
    free_milli: int | None
    """None where no source lists the node: then it has ``accelerators`` at least."""
    cpu_milli: int | None
    """This and the next three: None where nobody said how much the node has."""
    cpu_free_milli: int | None
    memory_mib: int | None
    memory_free_mib: int | None
    jobs: tuple[str, ...]
    reason: str = ""
    """Why it is out, as its own cluster says; "": nobody said."""
    errors: tuple[DeviceErrors, ...] = ()
    """What drivers of its devices reported in the 30 days before; empty: nothing is known."""
    usable_milli: int | None = None
    """What new work may have of what is free: nothing of a node that takes none, or is a spare."""


class TeamRow(Struct, frozen=True):
    """One team and GPU type: what it uses, is guaranteed and may use at most (None: no bound)."""

    team: str
    parent: str
    kind: str
    used_milli: int
    guaranteed_milli: int
    maximum_milli: int | None


def contracts(world: World) -> list[ContractRow]:
    """The running contracts; of an observed cluster, groups of nodes that are alike."""
    in_use = supply.in_use_milli(world)
    alike = node_groups.first_alike(world.contract_rows, is_observed=world.is_observed)
    found = dict[tuple[int, str], ContractRow]()
    for seam in seams(world):
        c = world.contract_number[seam.contract]
        row, key = world.contract_rows[alike[c]], (alike[c], node_groups.shown_name(world, c))
        mine = world.nodes.contract[: world.node_count] == c
        one = ContractRow(
            key[1], row.kind, row.terms, seam.paid_milli, seam.launched_milli,
            seam.schedulable_milli, row.in_gpus(int(in_use[mine].sum())),
            seam.gap_usd_micro_per_hour,
        )  # fmt: skip
        found[key] = _together(found[key], one) if key in found else one
    return [*found.values()]


def _together(one: ContractRow, other: ContractRow) -> ContractRow:
    """Two contracts of one group; without a price where one of them has none."""
    amounts = ("paid_milli", "launched_milli", "can_work_milli", "in_use_milli")
    sums = {name: getattr(one, name) + getattr(other, name) for name in amounts}
    usd = (one.seam_usd_micro_per_hour, other.seam_usd_micro_per_hour)
    known = [amount for amount in usd if amount is not None]
    return replace(one, **sums, seam_usd_micro_per_hour=sum(known) if len(known) == 2 else None)


def nodes(
    world: World,
    states: Collection[str] = (),
    errors: Mapping[int, tuple[DeviceErrors, ...]] | None = None,
) -> list[NodeRow]:
    """Every node that is not gone, or those in these states, by name."""
    here = np.flatnonzero(world.nodes.state[: world.node_count] != NodeState.GONE).tolist()
    told = errors or {}
    found = [
        _node(world, n, told.get(n, ())) for n in here if not states or _state(world, n) in states
    ]
    return sorted(found, key=lambda row: row.node)


def states(world: World) -> dict[str, int]:
    """How many nodes are in each state that any is in; one with several parts counts once."""
    found = {state: set[str]() for state in STATES}
    for n in np.flatnonzero(world.nodes.state[: world.node_count] != NodeState.GONE).tolist():
        found[_state(world, n)].add(node_groups.machine(world, n))
    return {state: len(machines) for state, machines in found.items() if machines}


def teams(world: World) -> list[TeamRow]:
    """Every team and GPU type of which it uses, is guaranteed or is limited to something."""
    found, elsewhere = [], _charged_elsewhere(world)
    for q, row in enumerate(world.queue_rows):
        if row.name in world.admission.together:  # that is of no type
            continue
        for k, kind in enumerate(world.kinds):
            used, floor, limit = (int(m[q, k]) for m in (world.used, world.floor, world.limit))
            used += elsewhere[row.name, k]
            if used or floor or limit < FOREVER_MS:
                most = limit if limit < FOREVER_MS else None
                found.append(TeamRow(row.name, row.parent, kind, used, floor, most))
    return found


def _charged_elsewhere(world: World) -> Counter[tuple[str, int]]:
    """What teams hold of each GPU type by quotas of queues that are no teams (Kueue's)."""
    found, kinds = Counter[tuple[str, int]](), world.nodes.kind
    for s, shape in enumerate(world.shape_rows[: world.shape_count]):
        if world.shapes.queue[s] == world.queue_number[shape.team]:
            continue
        for piece in (piece for j in world.active[s] for piece in world.placements[j]):
            held = piece.replicas * shape.roles[piece.role].replica_milli
            found[shape.team, kinds.item(piece.node)] += held
    return found


def _state(world: World, n: int) -> str:
    state = NodeState(world.nodes.state[n])
    is_spare = state is NodeState.READY and bool(world.nodes.is_spare[n])
    return SPARE if is_spare else phrasing.state(world, n)


def _told(amount: int) -> int | None:
    return None if amount == UNKNOWN_HOST else amount


def _node(world: World, n: int, errors: tuple[DeviceErrors, ...]) -> NodeRow:
    table, row = world.nodes, world.node_rows[n]
    contract = world.contract_rows[int(table.contract[n])]
    cpu, memory = _told(table.cpu_milli.item(n)), _told(table.memory_mib.item(n))
    free = None if UNLISTED in row.labels else int(table.free_milli[n])
    is_open = table.state[n] == NodeState.READY and not table.is_spare[n]
    return NodeRow(
        lives.origin(row.name, world.node_number), contract.kind, contract.pool,
        node_groups.shown_name(world, int(table.contract[n])), _state(world, n),
        int(table.since_ms[n]), int(table.devices[n]), int(table.failed[n]), free,
        cpu, None if cpu is None else table.cpu_free_milli.item(n),
        memory, None if memory is None else table.memory_free_mib.item(n),
        tuple(world.job_names[j] for j in sorted(world.aboard[n])), world.node_words.get(n, ""),
        errors, free if is_open or free is None else 0,
    )  # fmt: skip
