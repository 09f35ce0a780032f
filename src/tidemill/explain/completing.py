"""Completing: which cordoned nodes, or machines that boot, would have to take work for the rest of
a gang to be placed.

It is tried: the missing replicas are placed, beside all that is held now, on a copy of the cluster
state in which those nodes take work, with their CPUs and memory. So no node is named that cannot
help, and none that is not needed.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from tidemill.explain import phrasing, supply, trials
from tidemill.model import lives
from tidemill.model.rows import NODE_CLAIM, Role, Shape
from tidemill.model.world import World
from tidemill.scheduling import eligibility, mixed_types
from tidemill.scheduling.fit import Options, fit
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.snapshot import Snapshot

GANGS_AT_MOST = 8
"""Gangs of a deadlock that are tried: each takes a few copies of the state, by what it lacks."""


class Rest(NamedTuple):
    """What a partial gang lacks."""

    job: int
    missing: tuple[tuple[int, Role], ...]


def uncordoned(world: World, rests: Sequence[Rest]) -> str:
    """To uncordon the fewest nodes with which one of these can be completed, and which of them
    those are enough for; "": no cordoned node is.
    """
    cordoned = supply.Place.CORDONED
    found = [
        (nodes, rest) for rest in rests[:GANGS_AT_MOST]
        if (nodes := _fewest(world, rest, cordoned))
    ]  # fmt: skip
    if not found:
        return ""
    nodes = min((one for one, _ in found), key=lambda some: (len(some), some))
    opened = trials.opened(world, nodes)
    helped = [rest for _, rest in found if has_room(opened, rest)]
    whom = helps(opened, helped)
    is_known = not any(phrasing.unkept(world.shape_of(rest.job)) for rest in helped)
    named = phrasing.ids([lives.node_name(world, n) for n in nodes], len(nodes))
    return (
        f"uncordon {named}: what is free there {'is' if is_known else 'may be'} enough for {whom}"
    )


def joined(world: World, rest: Rest) -> str:
    """To wait for the machines that boot, if it can be completed on them; "": it cannot."""
    nodes = _fewest(world, rest, supply.Place.BOOTING)
    if not nodes:
        return ""
    names = [lives.node_name(world, n) for n in nodes]
    is_claimed, are = all(name.startswith(NODE_CLAIM) for name in names), len(names) > 1
    shown = ""
    if is_claimed:
        claims = " ".join(name.removeprefix(NODE_CLAIM) for name in names)
        shown = f" (kubectl describe nodeclaims.karpenter.sh {claims})"
    return (
        f"wait for the {'nodes' if are else 'node'} of {phrasing.ids(names, len(names))}, which"
        f" {'are' if are else 'is'} launched and {'have' if are else 'has'} not joined yet: what"
        f" {'they have' if are else 'it has'} is enough for the rest of"
        f" `{world.job_names[rest.job]}`{shown}"
    )


def helps(world: World, some: Sequence[Rest]) -> str:
    """Gangs of which each has room, by name; "one of" them, where they do not fit together."""
    named = phrasing.ids([world.job_names[rest.job] for rest in some])
    return named if len(some) == 1 or _fit_together(world, some) else f"one of {named}"


def has_room(world: World, rest: Rest) -> bool:
    """Whether the rest of a gang fits beside all that is placed."""
    return _fits(Snapshot(world), rest)


def _fewest(world: World, rest: Rest, place: supply.Place) -> tuple[int, ...]:
    """The nodes in this place that hold the most of what is missing, as few as are enough; ():
    none.
    """
    hosts = np.zeros(world.node_count, np.int64)
    for _, role in rest.missing:
        options = eligibility.options(world, role)
        hosts += supply.hosts_there(world, role, options, place)
    useful = [n for n in np.flatnonzero(hosts).tolist() if not world.is_full_too(n)]
    useful.sort(key=lambda n: (-hosts[n], n))
    if not useful:
        return ()
    return trials.shortest(useful, lambda nodes: _is_enough(world, rest, nodes))


def _is_enough(world: World, rest: Rest, nodes: tuple[int, ...]) -> bool:
    return has_room(trials.opened(world, nodes), rest)


def _fits(room: Snapshot, rest: Rest) -> bool:
    """Whether the rest of a gang is placed in this room; what was placed there stays."""
    q, shape, options = _asked(room.world, rest)
    return fit(room, q, shape, options, PACKING).shortage is None or mixed_types.fits(
        room, q, shape, options
    )


def _fit_together(world: World, rests: Sequence[Rest]) -> bool:
    room = Snapshot(world)
    asked = [_asked(world, rest) for rest in rests]
    return all(fit(room, q, shape, able, PACKING).shortage is None for q, shape, able in asked)


def _asked(world: World, rest: Rest) -> tuple[int, Shape, Options]:
    """The rest of a gang as a gang of its own."""
    s = world.jobs.shape.item(rest.job)
    roles = tuple(replace(role, count=count, least=0) for count, role in rest.missing)
    shape = replace(world.shape_rows[s], roles=roles, speedup=(), parallelism=None)
    options = tuple(eligibility.options(world, role) for role in roles)
    return world.shapes.queue.item(s), shape, options
