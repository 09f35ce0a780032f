"""Nodes as Slurm's commands show them: which are there, what they have, and when they were out.

A node that is drained or down now may be so since a time that Slurm tells (`Reason … [who@when]`,
`sacctmgr show event`, a MAINT reservation); else that is unknown, and the history says so.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import polars as pl
from msgspec.structs import replace

from tidemill.live.history import outages
from tidemill.live.history.outages import Outage
from tidemill.live.history.rows import SeenNode, is_instance
from tidemill.live.slurm import allowed_nodes, amounts, gpu_parts, hostlists, states
from tidemill.live.slurm.allowed_nodes import NodeNames
from tidemill.live.slurm.gpu_parts import GpuInstance
from tidemill.live.slurm.reservations import is_maintenance
from tidemill.live.slurm.rows import SlurmNode, SlurmNodeEvent, SlurmReservation
from tidemill.model.states import NodeState

_SHOWN = 5
"""Names in a note before the rest is only counted."""


class SlurmFleet(NamedTuple):
    """The nodes of a cluster that have GPUs."""

    nodes: list[SeenNode]
    parts: dict[str, dict[str, str]]
    """Of nodes with GPUs of several types: the node that each type is booked as."""
    notes: tuple[str, ...]
    instances: dict[tuple[str, str], GpuInstance]
    """By node and type of its GPUs: the MIG instances of which the device is known."""


class NodePart(NamedTuple):
    """GPUs of one type of a node, and what Slurm calls them."""

    type: str
    gpu_type: str
    gpus: int
    of: str = ""
    """The device that they are instances of; "": they are whole."""
    unit: Fraction = Fraction(1)
    """How much of a device each of them is."""


def fleet_of(
    told: Iterable[SlurmNode],
    events: Sequence[SlurmNodeEvent],
    reservations: Sequence[SlurmReservation],
    unknown_ms: int | None,
    told_names: NodeNames,
) -> SlurmFleet:
    """All that is known of nodes; of one that was listed several times the last counts.

    ``unknown_ms``: since when a node is out of which nobody says since when; None: nobody knows.
    ``told_names``: what nodes are labelled by.
    """
    every = {node.name: node for node in told}
    listed = {name: node for name, node in every.items() if node.gpus}
    known = {name: node for name, node in listed.items() if node.state != "FUTURE"}
    past, kept = _past(events), _maintenance(reservations)
    found, parts = list[SeenNode](), dict[str, dict[str, str]]()
    instances = dict[tuple[str, str], GpuInstance]()
    for name, node in known.items():
        seen = _seen(node, past.get(name, []), kept.get(name, []), unknown_ms)
        seen = replace(seen, labels=allowed_nodes.labels_of(node, told_names))
        mine = _instances(types := _types(node))
        instances |= {(name, kind): one for kind, one in mine.items()}
        split = _split(types, mine)
        names = [name if i == 0 else f"{name}:{one.type}" for i, one in enumerate(split)]
        if len(split) > 1:
            parts[name] = {one.type: part for part, one in zip(names, split, strict=True)}
        if len(split) > 1 or mine:
            found += [_part(seen, part, one) for part, one in zip(names, split, strict=True)]
        else:
            found.append(seen)
    notes = [*_notes([*known.values()]), *_said_parts(parts), *_said_instances(instances)]
    if lost := sorted(({*past} | {*kept}) - {*every}):
        notes.append(
            f"{_many(lost, 'was', 'were')} down, drained or in maintenance, and listed by no"
            " file: that time is not booked as such; add what `scontrol -o show node` prints"
        )
    if planned := sorted({*listed} - {*known}):
        notes.append(f"{_many(planned, 'is', 'are')} to come (FUTURE) and not there: left out")
    return SlurmFleet(found, parts, tuple(notes), instances)


def one_by_one(told: Iterable[SlurmNode]) -> Iterator[SlurmNode]:
    """Nodes that `sinfo` prints together (`gpu[01-04]`), each by itself."""
    for node in told:
        for name in _names(node.name):
            yield replace(node, name=name)


def _names(text: str) -> tuple[str, ...]:
    """The nodes of a list; what is no list that Slurm prints is a name."""
    try:
        return hostlists.expand(text) if {"[", ","} & {*text} else (text,)
    except ValueError:
        return (text,)


def on_parts(attempts: pl.DataFrame, parts: dict[str, dict[str, str]]) -> pl.DataFrame:
    """Attempts on the nodes that GPUs of their type are booked as."""
    if not parts:
        return attempts
    named, masks = list[list[str] | None](), list[list[int] | None]()
    for nodes, kind, devices in attempts.select("nodes", "gpu_type", "devices").iter_rows():
        is_split = any(node in parts for node in nodes or ())
        types = [parts.get(node, {}) for node in nodes or ()]
        named.append(
            nodes and [one.get(kind or "", node) for node, one in zip(nodes, types, strict=True)]
        )
        masks.append(None if is_split else devices)  # numbers count over the whole machine
    return attempts.with_columns(
        nodes=pl.Series(named, dtype=pl.List(pl.String)),
        devices=pl.Series(masks, dtype=pl.List(pl.Int64)),
    )


def out_as(state: str | None, flags: str | None) -> NodeState | None:
    """How a node takes no new work; None: it does."""
    words = {*(state or "").split("+"), *(flags or "").split("+")}
    if words & states.SILENT:
        words -= {"NOT_RESPONDING"}
    if words & states.BROKEN and "REBOOT_ISSUED" not in words:
        return NodeState.UNHEALTHY
    if words & states.CLOSED:
        return NodeState.DRAINING
    return NodeState.CORDONED if words & states.PAUSED else None


def _seen(
    node: SlurmNode, past: list[Outage], maintenance: list[Outage], unknown_ms: int | None
) -> SeenNode:
    flags = {*(node.state_flags or "").split("+")}
    state, now = out_as(node.state, node.state_flags), None
    is_off = {"CLOUD", "POWERED_DOWN"} <= flags
    out = [*past, *maintenance, *_before_record(state, node.reason_ms, past)]
    is_told = any(end is None for _, end, _ in past)
    is_told |= state is NodeState.CORDONED and bool(maintenance)
    if state is not None and not is_told and not is_off:
        since = unknown_ms if node.reason_ms is None else node.reason_ms
        if since is None:
            now = state
        else:
            out.append((since, None, state))
    return SeenNode(
        name=node.name, gpus=node.gpus or 0, gpu_type=node.gpu_type or "",
        cpu_milli=1000 * (node.cpus or 0), memory_mib=node.memory_mib or 0,
        host_free=_host_free(node),
        out=tuple(outages.apart(out)), now=now, is_off=is_off, box=node.instance_type or "",
        reason=_why_out(node, state),
        since_ms=node.boot_ms if "CLOUD" in flags and not is_off else None,
    )  # fmt: skip


def _host_free(node: SlurmNode) -> tuple[int, int] | None:
    """CPUs (milli) and memory (MiB) that no job has; None: not told, or all are."""
    if node.cpus is None or node.memory_mib is None or node.cpus_allocated is None:
        return None
    memory = node.memory_allocated_mib or 0
    if not node.cpus_allocated and not memory:
        return None
    return max(0, 1000 * (node.cpus - node.cpus_allocated)), max(0, node.memory_mib - memory)


def _why_out(node: SlurmNode, state: NodeState | None) -> str:
    """Why a node is out; Slurm gives no reason for one that does not respond and has jobs still."""
    is_silent = "NOT_RESPONDING" in (node.state_flags or "").split("+")
    if state is NodeState.UNHEALTHY and is_silent and node.state not in states.BROKEN:
        return ": ".join(filter(None, ("not responding", node.reason)))
    return node.reason or ""


def _before_record(
    state: NodeState | None, reason_ms: int | None, past: Sequence[Outage]
) -> Iterator[Outage]:
    """The part of a drain in which jobs were on the node: Slurm's record begins after them."""
    opened = [start for start, end, _ in past if end is None]
    if state is not NodeState.DRAINING or reason_ms is None or not opened:
        return
    is_apart = all(end <= reason_ms for _, end, _ in past if end is not None)
    if reason_ms < opened[0] and is_apart:
        yield reason_ms, opened[0], state


def recorded(
    events: Iterable[SlurmNodeEvent], reservations: Iterable[SlurmReservation]
) -> dict[str, list[Outage]]:
    """When nodes took no work, as far as Slurm has written it down."""
    past, kept = _past(events), _maintenance(reservations)
    return {name: [*past.get(name, ()), *kept.get(name, ())] for name in {*past, *kept}}


def _past(events: Iterable[SlurmNodeEvent]) -> dict[str, list[Outage]]:
    """When nodes were down or drained, by Slurm's own record."""
    found = dict[str, list[Outage]]()
    for event in events:
        state = out_as(event.state, event.state_flags)
        if event.node and event.start_ms is not None and state is not None:
            found.setdefault(event.node, []).append((event.start_ms, event.end_ms, state))
    return found


def _maintenance(reservations: Iterable[SlurmReservation]) -> dict[str, list[Outage]]:
    """When nodes are kept for maintenance."""
    found = dict[str, list[Outage]]()
    for row in reservations:
        if is_maintenance(row) and row.start_ms is not None:
            stretch = (row.start_ms, row.end_ms, NodeState.CORDONED)
            for name in _names(row.node_list or ""):
                found.setdefault(name, []).append(stretch)
    return found


def _types(node: SlurmNode) -> dict[str, int]:
    """GPUs by type, whole ones first, of a node that says more than their number."""
    entries = [one for one in amounts.gres(node.gres or "") or () if one.name == "gpu"]
    found = dict[str, int]()
    for one in sorted(entries, key=lambda one: is_instance(one.type or "")):
        found[one.type or ""] = found.get(one.type or "", 0) + one.number
    return found


def _instances(types: dict[str, int]) -> dict[str, GpuInstance]:
    """The types that are MIG instances of devices that are known."""
    whole = [kind for kind in types if not is_instance(kind)]
    found = {kind: gpu_parts.instance_of(kind, whole) for kind in types if is_instance(kind)}
    return {kind: one for kind, one in found.items() if one is not None}


def _split(types: dict[str, int], instances: dict[str, GpuInstance]) -> list[NodePart]:
    """The GPUs of a node by type; each type of instances with how much of a device it is."""
    found = [NodePart(kind, kind, number) for kind, number in types.items()
             if kind not in instances]  # fmt: skip
    for device in sorted({one.kind for one in instances.values()}):
        mine = {kind: one for kind, one in instances.items() if one.kind == device}
        numbers = Counter[GpuInstance]()
        for kind, one in mine.items():
            numbers[one] += types[kind]
        units = gpu_parts.units_of(numbers)
        found += [NodePart(kind, one.shown, types[kind], device, units[one])
                  for kind, one in mine.items()]  # fmt: skip
    return found


def _part(seen: SeenNode, name: str, part: NodePart) -> SeenNode:
    """A node on the books, of GPUs of one type."""
    mine = replace(seen, name=name, gpu_type=part.gpu_type, gpus=part.gpus)
    if not part.of:
        return mine
    machine = replace(seen, gpu_type=part.of)
    return replace(mine, machine=machine, unit=part.unit.as_integer_ratio())


def _said_instances(instances: dict[tuple[str, str], GpuInstance]) -> Iterator[str]:
    told = sorted({f"{kind} of {one.kind}" for (_, kind), one in instances.items()})
    if told:
        yield (
            f"MIG instances ({_listed(told)}) are parts of GPUs: as many GPUs are paid for as hold"
            " those that are listed, and each is its share of them"
        )


def _said_parts(parts: dict[str, dict[str, str]]) -> Iterator[str]:
    if parts:
        names = [name for types in parts.values() for name in types.values()]
        yield (
            f"{_many(sorted(parts), 'has', 'have')} GPUs of several types: a node on the books for"
            f" each type ({_listed(names)})"
        )


def _notes(told: Sequence[SlurmNode]) -> Iterator[str]:
    """What a person should know of how nodes are counted."""
    out = [node for node in told if out_as(node.state, node.state_flags) and node.reason]
    if out:
        said = [f"{one.name} ({_state(one)}: {one.reason})" for one in out]
        yield f"out now, in Slurm's words: {_listed(said)}"
    saving = [
        node.name
        for node in told
        if "POWERED_DOWN" in (node.state_flags or "") and "CLOUD" not in (node.state_flags or "")
    ]
    if saving:
        yield (
            f"{_many(saving, 'is', 'are')} powered down, and no cloud node by its flags: counted as"
            " there and paid for"
        )


def _state(node: SlurmNode) -> str:
    return "+".join(word for word in (node.state, node.state_flags) if word)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _many(names: Sequence[str], one: str, several: str) -> str:
    count, verb = (f"1 node ({names[0]})", one) if len(names) == 1 else (
        f"{len(names):,} nodes ({_listed(names)})", several
    )  # fmt: skip
    return f"{count} {verb}"
