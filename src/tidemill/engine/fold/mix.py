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
from tidemill.core.arrivals import HOSTED
from tidemill.model import events as ev
from tidemill.model.errors import EventRefused
from tidemill.model.measures import ONE_PPM
from tidemill.model.rows import Role
from tidemill.model.tables import I64
from tidemill.model.world import World

FIRST_LOOK = 10
ARRIVALS_BETWEEN = 250  # measured: as good as 64; with every 1,000 large pods were lost early
NODES_BETWEEN = 16  # and one more for so many nodes: a look at the fleet costs what it has nodes
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
    w, shapes, count, end = world.ink.w, world.ink.shapes, len(world.shape_rows), world.job_count
    first = max(0, end - arrivals.REMEMBERED)
    turnover_ppm = int(arrivals.note(w, world.mix_point, first, end))
    arrivals.take_over(w.shapes, count)
    world.mix_point = end
    world.mix_changes += 1
    world.mix_free_milli = int(world.kind_free_milli.sum())
    if abs(turnover_ppm - world.mix_turnover_ppm) > TURNOVER_STEP_PPM:
        world.mix_turnover_ppm = turnover_ppm
    found: I64 = np.zeros(LARGE_AT_MOST, np.int64)
    large = found[: arrivals.find_large(w.shapes, count, found)].tolist()
    shapes.hosts[large] = _hosts(world, [_largest_role(world, s) for s in large])
    return []


def _hosts(world: World, roles: list[Role]) -> list[int]:
    """How many nodes could take one replica of each of these roles, by GPU type and size."""
    asks = [(role.accelerators, role.cpu_milli, role.memory_mib, role.kinds) for role in roles]
    rows = {ask: i for i, ask in enumerate(dict.fromkeys(asks))}  # many teams ask for the same
    counts: I64 = np.zeros((len(rows), HOSTED.KINDS + len(world.kinds)), np.int64)
    for (*sizes, kinds), i in rows.items():
        counts[i, : HOSTED.FOUND] = sizes
        counts[i, HOSTED.KINDS :] = [not kinds or kind in kinds for kind in world.kinds]
    w = world.ink.w
    arrivals.count_hosts(w.nodes, w.devices, counts, world.node_count)
    found = counts[:, HOSTED.FOUND].tolist()
    return [found[rows[ask]] for ask in asks]


def _largest_role(world: World, s: int) -> Role:
    roles = world.shape_rows[s].roles
    return roles[0] if len(roles) == 1 else max(roles, key=lambda role: role.accelerators)
