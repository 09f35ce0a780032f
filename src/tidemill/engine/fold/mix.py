"""Folding a look at the mix: what arrived of late, by shape, as placement looks ahead with it.

Placement must be a function of the World, and its tables must change rarely. So what scores read is
written down only when the cycle says so (``said_mix``): after 10 arrivals, then when they tripled,
and then every so many (``is_due``). The hosts of large requests and what is free are counted anew
at each look; the mix itself is taken over if it moved by more than a twentieth, but not before
three times as many arrived as made the last one. So is the turnover (how much of what was placed
has left again), if it moved by more than an eighth. Only the last arrivals count: what came long
ago is forgotten.
"""

import numpy as np

from tidemill.core import arrivals
from tidemill.model import events as ev
from tidemill.model.errors import EventRefused
from tidemill.model.measures import ONE_PPM, WHOLE_MILLI
from tidemill.model.rows import Role
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World

FIRST_LOOK = 10
ARRIVALS_BETWEEN = 250  # measured: as good as 64; with every 1,000 large pods were lost early
NODES_BETWEEN = 16  # and one more for so many nodes: a look at the fleet costs what it has nodes
DRIFT = 20  # parts: a mix that moved by less than one of them stays
REMEMBERED = 20_000  # arrivals; a fleet of 1,000 nodes fills up with half as many
LARGE_AT_MOST = 32
TURNOVER_STEP_PPM = ONE_PPM // 8  # a turnover that moved by less stays: scores depend on it


def is_due(world: World) -> bool:
    """Whether enough arrived since the last look at the mix."""
    return world.job_count >= next_point(world)


def next_point(world: World) -> int:
    """After how many arrivals in all the mix is looked at next."""
    step = ARRIVALS_BETWEEN + world.node_count // NODES_BETWEEN
    return world.mix_point + min(max(FIRST_LOOK, 2 * world.mix_point), step)


def said_mix(world: World, event: ev.MixSampled) -> list[int]:
    """Write down what arrived of late, what is free, and how many nodes can host what is large."""
    if world.job_count <= world.mix_point:
        raise EventRefused(
            f"the mix was looked at after {world.mix_point} jobs, and no more have since arrived",
            hint="the event is late or repeated; nothing was changed",
        )
    del event
    shapes, count = world.ink.shapes, len(world.shape_rows)
    noted, mixed = shapes.noted[:count], shapes.mixed[:count]
    w, end = world.ink.w, world.job_count
    turnover_ppm = int(arrivals.note(w.jobs, w.shapes, count, max(0, end - REMEMBERED), end))
    if _has_drifted(noted, mixed):
        mixed[:] = noted
    world.mix_point = world.job_count
    world.mix_changes += 1
    world.mix_free_milli = int(world.kind_free_milli.sum())
    if abs(turnover_ppm - world.mix_turnover_ppm) > TURNOVER_STEP_PPM:
        world.mix_turnover_ppm = turnover_ppm
    shapes.hosts[:count] = 0
    room = _Free(world)
    for s in _large(world):
        shapes.hosts[s] = room.hosts(_largest_role(world, s))
    return []


def _has_drifted(noted: I64, mixed: I64) -> bool:
    """Whether more than one part in so many came from elsewhere than before."""
    now, then = int(noted.sum()), int(mixed.sum())
    if now < min(3 * then, REMEMBERED):
        return False
    moved = int(np.abs(noted * then - mixed * now).sum()) // 2
    return moved * DRIFT > now * then or not then


def _large(world: World) -> list[int]:
    """The shapes that want several accelerators on one node, most wanted first."""
    count, shapes = len(world.shape_rows), world.shapes
    wanted = shapes.total_milli[:count] * shapes.noted[:count]
    ranked: list[int] = np.argsort(-wanted, kind="stable").tolist()
    found = (s for s in ranked if wanted[s] and _largest_role(world, s).accelerators > 1)
    return [s for s, _ in zip(found, range(LARGE_AT_MOST), strict=False)]


def _largest_role(world: World, s: int) -> Role:
    roles = world.shape_rows[s].roles
    return roles[0] if len(roles) == 1 else max(roles, key=lambda role: role.accelerators)


class _Free:
    """The nodes that take work, and how many whole devices are free on each."""

    def __init__(self, world: World) -> None:
        self.world, rows = world, world.node_count
        nodes, devices = world.nodes, world.devices
        self.is_open = (nodes.state[:rows] == NodeState.READY) & (nodes.is_spare[:rows] == 0)
        is_whole = devices.free_milli[: world.device_count] == WHOLE_MILLI
        is_whole &= devices.is_failed[: world.device_count] == 0
        ends = np.concatenate([[0], np.cumsum(is_whole)])
        first = nodes.first_device[:rows]
        self.whole = ends[first + nodes.devices[:rows]] - ends[first]
        self._found: dict[tuple[object, ...], int] = {}

    def hosts(self, role: Role) -> int:
        """How many nodes could take one replica of a role, by kind and size."""
        asked = (role.accelerators, role.cpu_milli, role.memory_mib, role.kinds)
        if asked not in self._found:  # many teams ask for the same
            self._found[asked] = self._hosts(role)
        return self._found[asked]

    def _hosts(self, role: Role) -> int:
        nodes, rows = self.world.nodes, self.world.node_count
        is_kind: I64 = np.array(
            [not role.kinds or kind in role.kinds for kind in self.world.kinds], np.int64
        )
        able = self.is_open & (self.whole >= role.accelerators)
        able &= nodes.cpu_free_milli[:rows] >= role.cpu_milli
        able &= nodes.memory_free_mib[:rows] >= role.memory_mib
        return int((is_kind[nodes.kind[:rows]] * able).sum()) if rows else 0
