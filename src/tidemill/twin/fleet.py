"""From the tables of a spec to the rows of the model: contracts, teams, faults, shapes."""

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from tidemill.journal.moments import Calendar
from tidemill.model.measures import FOREVER_MS, ONE_PPM, WHOLE_MILLI
from tidemill.model.node_rules import ANY
from tidemill.model.rows import (
    Checkpointing,
    Contract,
    Demand,
    Efficiency,
    Queue,
    Role,
    Shape,
    Template,
)
from tidemill.model.rows import Share as QueueShare
from tidemill.model.states import Confidence
from tidemill.model.topology import Bond, Parallelism, Tier, Topology
from tidemill.model.tree import MAX_DEPTH
from tidemill.twin import durations
from tidemill.twin.faults import INFINITEHBD_REPAIR, Delay, Faults, LogNormal, Quantiles
from tidemill.twin.spec import words
from tidemill.twin.spec.tables import (
    ContractTable,
    DivisionTable,
    FaultsTable,
    Spec,
    Spread,
    TeamTable,
    Traits,
)
from tidemill.units import models
from tidemill.units.mig import geometry as mig
from tidemill.units.model_zoo import Zoo


def calendar(spec: Spec) -> Calendar:
    """When the story of a spec begins."""
    return Calendar.read(spec.twin.begins, spec.twin.zone)


def contract(row: ContractTable) -> Contract:
    """A contract as the World knows it; its pool is its kind unless it says otherwise."""
    return Contract(
        name=row.name,
        pool=row.pool or row.kind,
        kind=row.kind,
        count=row.count,
        usd_micro_per_hour=int(row.usd_per_hour),
        node=Template(
            row.accelerators_per_node,
            int(row.cpu_per_node),
            int(row.memory_gib_per_node),
            tuple(sorted(row.labels.items())),
            tuple(sorted(row.taints.items())),
            row.advertised or UNSET,
        ),
        terms=row.terms,
        start_ms=int(row.start),
        end_ms=FOREVER_MS if row.end is None else int(row.end),
        spares=row.spares,
    )


def queue(row: TeamTable) -> Queue:
    """A team as the World knows it."""
    kinds = sorted({*row.floor, *row.limit, *row.borrow, *row.lend})
    most = (row.limit, row.borrow, row.lend)
    return Queue(
        row.name,
        tuple(
            QueueShare(
                kind,
                row.floor.get(kind, 0) * WHOLE_MILLI,
                *(by[kind] * WHOLE_MILLI if kind in by else FOREVER_MS for by in most),
            )
            for kind in kinds
        ),
        row.parent,
        row.weight,
    )


def queues(spec: Spec) -> list[Queue]:
    """All teams, those above before those below; otherwise in the order of the file."""
    rows = list(spec.teams)
    if any(row.parent for row in rows):
        by_name = {team.name: team for team in spec.teams}
        rows.sort(key=lambda row: len(upward(by_name, row)))
    return [queue(row) for row in rows]


def line(spec: Spec, row: TeamTable) -> list[TeamTable]:
    """A team and all that are above it, itself first; a ring ends where it closes."""
    return upward({team.name: team for team in spec.teams}, row)


def upward(by_name: dict[str, TeamTable], row: TeamTable) -> list[TeamTable]:
    """The same, where the teams are known by name; at most as deep as any tree may be."""
    found = {row.name: row}
    while (above := by_name.get(row.parent)) is not None and above.name not in found:
        found[above.name] = row = above
        if len(found) > MAX_DEPTH:
            break
    return list(found.values())


def faults(row: FaultsTable) -> Faults:
    """Rates and delays as the twin draws them."""
    return Faults(
        node_rate=row.node_rate,
        device_share=row.device_share / ONE_PPM,
        repair=repair(row.repair),
        maintenance_rate=row.maintenance_rate,
        maintenance=LogNormal(int(row.maintenance)),
        reclaim_rate=row.reclaim_rate,
        notice_ms=int(row.notice),
        retries=row.retries,
        boot=LogNormal(
            int(row.boot), 0.25 if row.boot else 0.0
        ),  # a third quicker to a half slower
        evict_ms=int(row.evict),
        startup_spread=row.startup_spread / ONE_PPM,
        lost_races=row.lost_races / ONE_PPM,
    )


def repair(given: str | Spread) -> Delay:
    """Repair times: as seen in a published trace, always equal, or by median and mean."""
    if given == "infinitehbd":
        return INFINITEHBD_REPAIR
    if isinstance(given, str):
        return LogNormal(int(words.span(given)))
    times = durations.fit(int(given.median), int(given.mean), int(given.longest))
    return Quantiles(times.points())


def share_milli(row: Traits, contracts: Iterable[ContractTable]) -> int:
    """The share of an accelerator that each MIG instance takes; a whole one without a profile."""
    if not row.profile:
        return WHOLE_MILLI
    kinds = dict.fromkeys(contract.kind for contract in usable(contracts, row.kinds))
    return mig.share_of(row.profile, kinds)


def shape(row: Traits, milli: int, node_devices: int, each_milli: int = WHOLE_MILLI) -> Shape:
    """The shape of a job of this size; a gang is cut into equal replicas that fit a node.

    With a profile it is MIG instances of ``each_milli``.
    """
    if row.profile:
        return _instances(row, milli, each_milli)
    accelerators, each = (1, milli) if milli < WHOLE_MILLI else (milli // WHOLE_MILLI, WHOLE_MILLI)
    replica = replica_size(accelerators, node_devices)
    used = replica * each if replica else WHOLE_MILLI
    count = accelerators // replica if replica else 1
    role = Role(
        count=count,
        accelerators=replica,
        milli=each if milli else WHOLE_MILLI,
        cpu_milli=row.cpu_per_accelerator * used // WHOLE_MILLI,
        memory_mib=row.memory_gib_per_accelerator * used // WHOLE_MILLI,
        kinds=row.kinds,
        **_node_rules(row),
        least=_least(row, count),
    )
    return Shape(
        row.team, (role,), row.job_class, row.priority, row.preemptible, bonds=bonds(row),
        may_preempt=row.preempts,
        parallelism=parallelism(row, accelerators if milli >= WHOLE_MILLI else 0),
    )  # fmt: skip


def _instances(row: Traits, milli: int, each_milli: int) -> Shape:
    """A gang of MIG instances; cores and memory go with the share of each."""
    count = max(1, milli // each_milli)
    role = Role(
        count=count,
        milli=each_milli,
        cpu_milli=row.cpu_per_accelerator * each_milli // WHOLE_MILLI,
        memory_mib=row.memory_gib_per_accelerator * each_milli // WHOLE_MILLI,
        kinds=row.kinds,
        **_node_rules(row),
        least=_least(row, count),
        profile=row.profile,
    )
    return Shape(
        row.team, (role,), row.job_class, row.priority, row.preemptible, may_preempt=row.preempts
    )


def _node_rules(row: Traits) -> dict[str, Any]:
    """Which nodes its roles may be on; `*` tolerates every value of a taint."""
    tolerated = ((key, ANY if value == "*" else value) for key, value in row.tolerates.items())
    return {
        "labels": tuple(sorted(row.labels.items())),
        "tolerates": tuple(sorted(tolerated)),
        "affinity": (row.affinity,) if row.affinity else (),
    }


def _least(row: Traits, count: int) -> int:
    """The fewest replicas of an elastic gang; 0 where it has one size."""
    least = max(1, -(-count * int(row.elastic) // ONE_PPM))
    return 0 if least >= count else least


def replica_size(accelerators: int, node_devices: int) -> int:
    """The largest equal part of a gang that fits a node: 256 on nodes of 8 are 32 parts of 8."""
    return next(
        (n for n in range(min(accelerators, node_devices), 0, -1) if accelerators % n == 0), 0
    )


def checkpointing(row: Traits) -> Checkpointing:
    """How the job saves."""
    if row.checkpoint is None:
        return Checkpointing()
    return Checkpointing(int(row.checkpoint.every), int(row.checkpoint.cost))


def demand(row: Traits) -> Demand | None:
    """What a replica uses of its device; None: nobody said."""
    uses = row.uses
    if uses is None:
        return None
    return Demand(int(uses.compute), int(uses.bandwidth), round(uses.memory_gb * 1000))


def efficiency(row: Traits, mfu_ppm: int) -> Efficiency:
    """How productive time divides; unknown unless the file says something about it."""
    if row.mfu is None:
        return Efficiency()
    known = Confidence.MEASURED if row.measured else Confidence.MODELLED
    roof = None if row.attainable is None else int(row.attainable)
    return Efficiency(mfu_ppm, int(row.host_stall), int(row.link_stall), known, roof)


def usable(contracts: Iterable[ContractTable], kinds: tuple[str, ...]) -> list[ContractTable]:
    """The contracts whose accelerators a job of these kinds may use."""
    return [row for row in contracts if not kinds or row.kind in kinds]


def given(row: ContractTable) -> int:
    """The accelerators of a contract that work is given: not hot spares, nor what no node shows."""
    nodes = row.count // row.accelerators_per_node - row.spares
    return nodes * (row.advertised or row.accelerators_per_node)


def at_once(contracts: Iterable[ContractTable]) -> int:
    """The most accelerators that these contracts ever give at the same time, spares left out."""
    changes: list[tuple[int, int]] = []
    for row in contracts:
        count = given(row)
        changes.append((int(row.start), count))
        changes.append((FOREVER_MS if row.end is None else int(row.end), -count))
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def node_devices(contracts: Iterable[ContractTable], kinds: tuple[str, ...]) -> int:
    """The accelerators of the smallest node that a job of these kinds may land on."""
    sizes = (row.advertised or row.accelerators_per_node for row in usable(contracts, kinds))
    return min(sizes, default=1)


def nodes_per(spec: Spec) -> dict[str, dict[str, int]]:
    """How many nodes of a contract share a label that says where they are, by label."""
    return {
        row.name: ({"rack": row.nodes_per_rack} if row.nodes_per_rack else {}) | row.nodes_per
        for row in spec.contracts
    }


def topology(spec: Spec) -> Topology:
    """The tiers of the fleet as the World knows them."""
    return Topology(
        tuple(
            Tier(
                row.name, row.label, row.devices, round(row.gb_per_s * 1000),
                round(row.latency_us * 1000), round(row.oversubscription * 1000),
            )
            for row in spec.tiers
        )
    )  # fmt: skip


def parallelism(row: Traits, accelerators: int) -> Parallelism | None:
    """How a job of this size divides its model; None where its sizes do not go into it."""
    given = row.parallelism
    inner = given.tensor * given.context * given.pipeline if given else 0
    if given is None or not accelerators or accelerators % inner:
        return None
    parameters_m, layers, hidden = _figures(row, given)
    return Parallelism(
        given.tensor, given.context, given.expert, given.pipeline, accelerators // inner,
        parameters_m, layers, hidden, given.sequence, given.batch,
    )  # fmt: skip


def _figures(row: Traits, given: DivisionTable) -> tuple[int, int, int]:
    """Parameters in millions, layers and hidden size: as given, else those of the model named."""
    stated = (round(given.parameters_billion * 1000), given.layers, given.hidden)
    named = Zoo().find(row.computes.model) if row.computes and row.computes.model else None
    if named is None or all(stated):
        return stated
    of_model = (round(models.active_parameters(named) / 1e6), named.layers, named.hidden)
    return tuple(own or theirs for own, theirs in zip(stated, of_model, strict=True))  # type: ignore[return-value]


def bonds(row: Traits) -> tuple[Bond, ...]:
    """What a job says about where its gang is to sit."""
    wished = (Bond(row.near, is_required=False),) if row.near else ()
    return ((Bond(row.within),) if row.within else ()) + wished
