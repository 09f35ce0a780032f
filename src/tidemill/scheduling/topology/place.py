"""Place: a role tied by bonds, over as few and as near domains as there are, in whole columns.

What each node can host is counted once, added up tier by tier, and divided from the outside in
(``fitting.ladders``). Nothing is written: whoever asked takes the pieces, or not.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tidemill.model.columns import DEVICE, NODE, State
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Role
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.fitting import ladders
from tidemill.scheduling.fitting.columns import PART, RUNG, SPOT, Ground
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.snapshot import Filled, Snapshot
from tidemill.scheduling.topology.constraints import SHAPES_KEPT, Rung

ANYWHERE = (0, -1)
"""Instead of a tier and a domain: the whole fleet."""


class Here(NamedTuple):
    """What the loops read of a fleet: as it is in a room, or as it would be if all was well."""

    world: World
    room: Snapshot
    w: State
    ground: Ground | None
    """None: the room's."""

    def asked(self, role: Role, is_ok: I64) -> tuple[Ground, int]:
        """The columns, and the row of what each replica of a role asks for."""
        r = self.room.request(role, is_ok, PACKING)
        if self.ground is None:
            return self.room.ground, r
        own = {"spots": self.ground.spots, "parts": self.ground.parts}
        return self.room.ground._replace(**own), r


def ground(room: Snapshot) -> Here:
    """The fleet as it is in a room."""
    return Here(room.world, room, room.world.matrices, None)


def at_its_best(world: World, without: Collection[int] = ()) -> Here:
    """Every node that is known, ready, whole and empty; spares too. But for those ``without``."""
    room, rows = Snapshot(world, sweeps=True), world.node_count
    w = world.matrices
    nodes, devices = w.nodes.copy(), w.devices.copy()
    is_here = nodes[:, NODE.STATE] != NodeState.GONE
    is_here[list(without)] = False
    nodes[:, NODE.STATE] = np.where(is_here, int(NodeState.READY), int(NodeState.GONE))
    nodes[:, NODE.IS_SPARE] = devices[:, DEVICE.IS_FAILED] = 0
    spots, parts = room.ground.spots.copy(), room.ground.parts.copy()
    spots[:, SPOT.CPU] = nodes[:rows, NODE.CPU_MILLI]
    spots[:, SPOT.MEMORY] = nodes[:rows, NODE.MEMORY_MIB]
    spots[:, SPOT.FREE] = nodes[:rows, NODE.DEVICES] * WHOLE_MILLI
    parts[:, PART.FREE] = WHOLE_MILLI
    own = room.ground._replace(spots=spots, parts=parts)
    return Here(world, room, w._replace(nodes=nodes, devices=devices), own)


class Count(NamedTuple):
    """What each domain of each tier can host, in groups, and has free; nodes are the last row."""

    cap: I64
    free: I64


def fill(
    room: Snapshot, role: Role, is_ok: I64, ladder: tuple[Rung, ...], scope: tuple[int, int]
) -> Filled:
    """Where all replicas of a role would go, by the first rung that holds; or how many fit loose.

    The room is not changed.
    """
    r = room.request(role, is_ok, PACKING)
    found = ladders.fill_tied(
        room.world.matrices, room.ground, rungs(ladder), r, 0, len(ladder), *scope
    )
    return Filled(-found - 1, ()) if found < 0 else Filled(role.count, room.placed(found))


def rungs(ladder: Sequence[Rung]) -> I64:
    """A ladder as rows; those of the last ones are kept."""
    known = _rungs.get(id(ladder))
    if known is not None and known[0] is ladder:
        return known[1]
    if len(_rungs) >= SHAPES_KEPT:
        _rungs.clear()
    width = max((len(rung.ratio) for rung in ladder), default=1)
    rows: I64 = np.ones((max(1, len(ladder)), int(RUNG.RATIO) + width), np.int64)
    for row, rung in zip(rows, ladder, strict=False):
        row[: RUNG.RATIO] = (rung.block, rung.each, rung.top, rung.want)
        row[RUNG.RATIO :] = rung.ratio
    _rungs[id(ladder)] = (ladder, rows)
    return rows


_rungs: dict[int, tuple[Sequence[Rung], I64]] = {}


def gather(here: Here, role: Role, is_ok: I64, rung: Rung) -> Count:
    """What each domain can host of a role that is grouped as on a rung."""
    own, r = here.asked(role, is_ok)
    ladders.survey(here.w, own, r, rung.block, rung.each, *ANYWHERE)
    ladders.gather(here.w, own, rungs([rung]), 0)
    return Count(own.caps.copy(), own.gaps.copy())


def loose(world: World) -> Rung:
    """Replicas that are not grouped."""
    return Rung(0, 1, np.ones(len(world.domains) + 1, np.int64), 0, 1)


def rows_total(world: World, found: Count, tier: int) -> int:
    """What all domains of a tier host together."""
    return int(found.cap[tier, : count_of(world, tier)].sum())


def count_of(world: World, tier: int) -> int:
    """How many domains a tier has; nodes are the tier after those with a label."""
    return len(world.domains[tier]) if tier < len(world.domains) else world.node_count


def candidates(
    room: Snapshot, roles: tuple[Role, ...], flags: tuple[tuple[I64, ...], ...], tier: int
) -> Iterator[int]:
    """Domains of a tier that could host each of some roles, on one kind; those with least free
    first, then by number.
    """
    here, tier = ground(room), min(tier, len(room.world.domains))
    fits = np.ones(count_of(room.world, tier), bool)
    free: I64 = np.zeros(len(fits), np.int64)
    for role, options in zip(roles, flags, strict=True):
        fits_one = np.zeros(len(fits), bool)
        for is_ok in options:
            found = gather(here, role, is_ok, loose(room.world))
            fits_one |= found.cap[tier, : len(fits)] >= role.count
            free = np.maximum(free, found.free[tier, : len(fits)])
        fits &= fits_one
    able = np.flatnonzero(fits)
    yield from able[np.argsort(free[able], kind="stable")].tolist()
