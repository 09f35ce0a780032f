"""What no event tells, before the first one or beside them: put into the state afterwards."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from tidemill.core import snapshot
from tidemill.engine.fold import room, topology
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model import node_groups
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import UNKNOWN_HOST
from tidemill.model.states import ACTIVE, LAUNCHED, JobState, NodeState
from tidemill.model.tables import I64
from tidemill.model.world import FULL, World

OVER_COMMITTED = "over-committed: "
"""How words begin that are said of a node where more is in use than it has. Nobody is placed there,
or stopped for a place there; but nothing is wrong with it, and who waits for it waits for others.
"""


def submitted(world: World, before_ms: Mapping[str, int]) -> None:
    """Jobs were submitted so long before the beginning, by their names; below zero: after it.

    That is earlier than their events tell: they were there at a first look.
    """
    for name, ms in before_ms.items():
        j = world.job_number.get(name)
        if j is None or (told_ms := world.jobs.submit_ms.item(j)) <= -ms:
            continue
        world.ink.jobs.submit_ms[j] = -ms
        if world.jobs.state[j] == JobState.WAITING and world.jobs.since_ms[j] == told_ms:
            world.ink.jobs.since_ms[j] = -ms


def placed(world: World, before_ms: Mapping[str, int]) -> None:
    """Jobs were on their nodes so long before the beginning, as far as they are there since."""
    for name, ms in before_ms.items():
        j = world.job_number.get(name)
        if j is None or world.jobs.attempt[j] != 1 or world.jobs.state[j] not in ACTIVE:
            continue
        told_ms = world.jobs.placed_ms.item(j)
        if told_ms <= -ms:
            continue
        world.ink.jobs.placed_ms[j] = -ms
        if world.jobs.since_ms[j] == told_ms:
            world.ink.jobs.since_ms[j] = -ms


def said_of_nodes(world: World, words: Mapping[str, str]) -> None:
    """Why nodes that are out are so, by their names, in the words of their own cluster."""
    note_words(world, words)
    _open(world)


def note_words(world: World, words: Mapping[str, str]) -> None:
    """The same, and nothing follows from it: for whoever only tells what was so."""
    for name, said in words.items():
        n = world.node_number.get(name)
        if n is not None and world.nodes.state[n] in LAUNCHED - {NodeState.READY}:
            world.node_words[n] = said


class NodeLimit(NamedTuple):
    """What a node does not give now, though it is there."""

    unadvertised: int
    """Accelerators that nobody may have, while others are had."""
    taints: tuple[tuple[str, str], ...]
    """Who does not tolerate them stays away."""
    host_free: tuple[int, int] | None = None
    """CPUs (milli) and memory (MiB) that nobody has, also not work that no event tells of; None:
    what events leave."""
    is_told: bool = False
    """Whether events tell since when its accelerators are not to be had."""
    host_taken: tuple[int, int] | None = None
    """CPUs (milli) and memory (MiB) that work has of which no event tells; None: nobody says."""
    full: str = ""
    """Why it takes nothing more, though it is in order, in words; "": it does."""

    def without_host(self) -> "NodeLimit":
        """The same, and nothing of what other work leaves: that changes all the time."""
        return self._replace(host_free=None, host_taken=None, full="")


def limited(world: World, limits: Mapping[str, NodeLimit]) -> None:
    """Nodes give less than events told, by their names: fewer accelerators, behind taints, with
    less of their host, or nothing more for now.

    Which of them nobody may have is not said: the last that are free.
    """
    taken = dict[int, tuple[int, int]]()
    for name, limit in limits.items():
        n = world.node_number.get(name)
        if n is None or world.nodes.state[n] not in LAUNCHED:
            continue
        if world.node_rows[n].taints != limit.taints:
            _taint(world, n, limit.taints)
        if limit.host_free is not None:
            _take_host(world, n, *limit.host_free)
        if limit.host_taken is not None:
            taken[n] = limit.host_taken
        if limit.unadvertised and world.nodes.state[n] == NodeState.READY:
            whole = world.nodes.devices.item(n)
            told = f"advertises {whole - limit.unadvertised} of {whole} GPUs"
            world.node_words.setdefault(n, told)
            lacking = limit.unadvertised - world.nodes.failed.item(n)
            for device in _free_devices(world, n)[-lacking:] if lacking > 0 else ():
                room.fail_device(world, n, device)
        if limit.full and world.nodes.state[n] == NodeState.READY:
            since_ms, world.node_words[n] = world.nodes.since_ms.item(n), limit.full
            fold(world, ev.NodeMoved(world.now_ms, n, NodeState.CORDONED))
            world.seq -= 1  # no event of the journal
            world.ink.nodes.since_ms[n] = since_ms
        elif limit.full and world.nodes.state[n] == NodeState.CORDONED:
            said = world.node_words.get(n, "cordoned")
            if FULL not in said:
                world.node_words[n] = f"{said}; {limit.full}"
    _take_others(world, taken)


def _take_others(world: World, taken: Mapping[int, tuple[int, int]]) -> None:
    """Other work has so much of nodes; the parts of a machine give it together, for a pod on one
    of them may have more than that part has on the books.
    """
    if not taken:
        return
    nodes = world.nodes
    there = np.flatnonzero(nodes.state[: world.node_count] != NodeState.GONE).tolist()
    for parts in node_groups.machines(world, there):
        if not any(n in taken for n in parts):
            continue
        asked = [taken.get(n, (0, 0)) for n in parts]
        cpu = _left(nodes.cpu_milli[parts], nodes.cpu_free_milli[parts], [a[0] for a in asked])
        memory = _left(nodes.memory_mib[parts], nodes.memory_free_mib[parts], [a[1] for a in asked])
        for n, cpu_milli, memory_mib in zip(parts, cpu, memory, strict=True):
            _take_host(world, n, cpu_milli, memory_mib)


def _left(whole: I64, free: I64, taken: Sequence[int]) -> list[int]:
    """What is left of what is free on parts; of what nobody knows, all. Each gives what is taken of
    it as far as it has that, and the others give the rest.
    """
    left: list[int] = free.tolist()
    lacking = 0
    if UNKNOWN_HOST in whole:
        return left
    for i, amount in enumerate(taken):
        given = min(amount, max(0, left[i]))
        left[i] -= given
        lacking += amount - given
    for i, has in enumerate(left):
        given = min(lacking, max(0, has))
        left[i] -= given
        lacking -= given
    return left


def _take_host(world: World, n: int, cpu_milli: int, memory_mib: int) -> None:
    """Of a node no more CPUs and memory than these are free."""
    nodes = world.ink.nodes
    room.take_out(world, n)
    nodes.cpu_free_milli[n] = min(nodes.cpu_free_milli.item(n), cpu_milli)
    nodes.memory_free_mib[n] = min(nodes.memory_free_mib.item(n), memory_mib)
    room.put_back(world, n)


def _taint(world: World, n: int, taints: tuple[tuple[str, str], ...]) -> None:
    row = world.node_rows[n] = replace(world.node_rows[n], taints=taints)
    contract = world.contract_rows[world.nodes.contract.item(n)]
    group = topology.group(world, world.nodes.kind.item(n), contract, row)
    room.take_out(world, n)
    world.ink.nodes.group[n] = topology.group_number(world, group)
    room.put_back(world, n)


def _free_devices(world: World, n: int) -> list[int]:
    first, devices = world.nodes.first_device.item(n), world.devices
    return [
        device for device in range(world.nodes.devices.item(n))
        if devices.free_milli[first + device] == WHOLE_MILLI
        and not devices.is_failed[first + device]
    ]  # fmt: skip


def as_busy(world: World) -> World:
    """The state with nodes that are over-committed as busy ones; itself where there are none."""
    if not any(said.startswith(OVER_COMMITTED) for said in world.node_words.values()):
        return world
    found = snapshot.copy(world)
    _open(found)
    return found


def _open(world: World) -> None:
    """Nodes that are over-committed take work, of which there is no room: what the books have free
    there is in use by somebody whom they found no place for.
    """
    for n, said in world.node_words.items():
        is_closed = world.nodes.state.item(n) == NodeState.CORDONED
        if is_closed and said.startswith(OVER_COMMITTED):
            room.fill(world, n)
            fold(world, ev.NodeMoved(world.now_ms, n, NodeState.READY))
            world.seq -= 1  # no event of the journal
