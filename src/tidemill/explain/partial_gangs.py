"""Partial gangs: jobs of which only a part is placed, and those that block each other for good.

A gang that another scheduler placed pod by pod holds GPUs and does nothing until the rest is
placed. Two of them may each hold what the other lacks. That is a *mutual deadlock* if it outlasts
everything else: suppose that every other job ended. A partial gang that could be completed then
would run and end, and give back what it holds, so it is taken out, and the question asked again;
those that are left wait for each other forever. (The banker's algorithm, for gangs.)

Room is counted generously (whole devices by node, one role at a time, no CPU or memory), so that
what is called a deadlock is one. Tidemill's own scheduler places gangs whole or not at all.
"""

from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct

from tidemill.explain import certificates, commands, completing, phrasing, supply, trials
from tidemill.explain.answers import Certificate, Fact, GangDeadlock, PartialGang
from tidemill.explain.completing import Rest
from tidemill.model import lives, partial
from tidemill.model.measures import WHOLE_MILLI, count_text, hourly_text
from tidemill.model.reasons import Cause
from tidemill.model.rows import Role, Shape
from tidemill.model.states import JobState, NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import contract_capacity, diagnose, elastic, eligibility

MILLI = "accelerator_milli"
_NEVER_WHOLE = frozenset({Cause.NOTHING_CLAIMED, Cause.IMPOSSIBLE_SIZE, Cause.IMPOSSIBLE_GANG})
"""Why the rest of a gang has no place even in an empty cluster: what nodes there are, and not where
another scheduler may put it by rules of its own."""


class PartialGangs(Struct, frozen=True):
    """All partial gangs now, and the deadlocks among them."""

    gangs: tuple[PartialGang, ...] = ()
    deadlocks: tuple[GangDeadlock, ...] = ()


def partial_gangs(world: World) -> PartialGangs:
    """All partial gangs now."""
    if not world.is_observed:
        return PartialGangs()
    parts = [part for j in sorted(world.placements) if (part := _part(world, j)) is not None]
    stuck = _stuck(world, parts)
    deadlocks = tuple(
        _deadlock(world, group)
        for group in _groups(world, stuck)
        if len(group) > 1 and any(_could_fit(world, part, [part]) for part in group)
    )
    return PartialGangs(tuple(_gang(world, part) for part in parts), deadlocks)


def facts(world: World, j: int) -> tuple[Fact, ...]:
    """About one active job: that it is a partial gang, what the rest waits for, who blocks it."""
    part = _part(world, j) if world.is_observed else None
    if part is None:
        return _works_with_fewer(world, j) if world.is_observed else ()
    found, name = partial_gangs(world), world.job_names[j]
    mine = next(gang for gang in found.gangs if gang.job == name)
    made = [Fact("partial gang", mine.held_milli, MILLI, mine.words, commands.job(world, name))]
    if mine.reason:
        text = f"of the rest its own scheduler says: {mine.reason}"
        made.append(Fact("missing", mine.missing_milli, MILLI, text, commands.job(world, name)))
    blocked = (one for one in found.deadlocks if name in one.jobs)
    shown = commands.running()
    return (*made, *(Fact("deadlock", d.held_milli, MILLI, d.words, shown) for d in blocked))


def _works_with_fewer(world: World, j: int) -> tuple[Fact, ...]:
    """That a gang at work has fewer replicas than it began with; nothing: it has all."""
    if world.jobs.state.item(j) != JobState.RUNNING or not partial.lacking(world, j):
        return ()
    placed, wanted, on = _extent(world, j)
    text = (
        f"{placed:,} of {phrasing.many(wanted, 'replica')} are placed, on"
        f" {phrasing.ids(on)}; the others ended, or"
        " are gone"
    )
    if lost := _lost_then(world, j):
        text += (
            f" with {phrasing.ids(lost)}, which left the cluster at that moment: nobody here knows"
            " whether it works without them"
        )
    if world.scheduler:
        text += (
            "; when its owner makes pods in their place, the scheduler stops the whole gang, and"
            " places it anew (pods without an owner: delete the others too, and make all anew)"
        )
    held = supply.held_milli(world, j)
    return (Fact("replicas", held, MILLI, text, commands.job(world, world.job_names[j])),)


def _lost_then(world: World, j: int) -> list[str]:
    """The nodes that were gone when a job was seen to hold less than before."""
    nodes, count = world.nodes, world.node_count
    gone = nodes.state[:count] == NodeState.GONE
    then = nodes.since_ms[:count] == world.jobs.since_ms.item(j)
    return [lives.node_name(world, n) for n in np.flatnonzero(gone & then).tolist()]


def _extent(world: World, j: int) -> tuple[int, int, list[str]]:
    """How many replicas with accelerators are placed, with how many a gang works, and the nodes."""
    roles, pieces = world.shape_of(j).roles, world.placements[j]
    placed = sum(piece.replicas for piece in pieces if roles[piece.role].accelerators)
    wanted = sum(role.fewest for role in roles if role.accelerators)
    return placed, wanted, sorted({lives.node_name(world, piece.node) for piece in pieces})


def never_whole(world: World, j: int) -> Certificate | None:
    """Why the rest of a partial gang never fits, and what would; None: it may fit some day."""
    shape = elastic.smallest(world.shape_of(j))
    cause = diagnose.ever_cause(world, shape)
    if cause not in _NEVER_WHOLE or (cause is Cause.IMPOSSIBLE_GANG and _fits_mixed(world, shape)):
        return None
    return certificates.certificate(world, shape)


def _fits_mixed(world: World, shape: Shape) -> bool:
    """Whether nodes of all GPU types together hold each role: other schedulers may mix them."""
    return all(
        sum(contract_capacity.hosts_by_kind(world, role, claimed).values()) >= role.count
        for role in shape.roles
        if (claimed := contract_capacity.running_contracts(world, role))
    )


def way_out(world: World, j: int) -> str:
    """What would end the deadlock that a job is in; "": it is in none, or nothing simple would."""
    name = world.job_names[j]
    found = (one for one in partial_gangs(world).deadlocks if name in one.jobs)
    return next((one.way_out for one in found), "")


def completed(world: World, j: int) -> str:
    """Which cordoned nodes would complete a partial gang now; "": none."""
    part = _part(world, j)
    return completing.uncordoned(world, [part]) if part is not None else ""


def joined(world: World, j: int) -> str:
    """Which machines that boot will complete a partial gang; "": none."""
    part = _part(world, j)
    return completing.joined(world, part) if part is not None else ""


def in_the_way(world: World, nodes: supply.Mask) -> tuple[GangDeadlock, ...]:
    """The deadlocks whose jobs hold something on any of these nodes."""
    return tuple(
        one
        for one in partial_gangs(world).deadlocks
        if any(
            nodes[piece.node] for name in one.jobs
            for piece in world.placements[world.job_number[name]]
        )
    )  # fmt: skip


def _part(world: World, j: int) -> Rest | None:
    """A job of which fewer replicas are placed than it works with; None: it is whole, or works.

    One that works with fewer lacks none: the others have ended well.
    """
    if world.jobs.state.item(j) == JobState.RUNNING:
        return None
    roles, lacks = world.shape_of(j).roles, partial.lacking(world, j)
    return Rest(j, tuple((count, roles[r]) for r, count in lacks)) if lacks else None


def _stuck(world: World, parts: Sequence[Rest]) -> list[Rest]:
    """Those that could not be completed even if everything else ended."""
    left = list(parts)
    while True:
        done = [part for part in left if _could_fit(world, part, left)]
        if not done:
            return left
        left = [part for part in left if part not in done]


def _could_fit(world: World, part: Rest, holders: Collection[Rest]) -> bool:
    """Whether the rest of a gang has room, if only these held anything."""
    free = _free(world, holders)
    return all(_hosts(world, role, free) >= count for count, role in part.missing)


def _free(world: World, holders: Collection[Rest]) -> I64:
    """Devices of each node that none of these jobs holds, on nodes that take work."""
    rows, nodes = world.node_count, world.nodes
    takes = (nodes.state[:rows] == NodeState.READY) & (nodes.is_spare[:rows] == 0)
    free: I64 = np.where(takes, nodes.devices[:rows] - nodes.failed[:rows], 0)
    for part in holders:
        for piece in world.placements[part.job]:
            if not piece.slices and _is_whole(world, part.job, piece.role):
                free[piece.node] -= piece.devices.bit_count()
    return np.maximum(free, 0)


def _is_whole(world: World, j: int, role: int) -> bool:
    return world.shape_of(j).roles[role].milli == WHOLE_MILLI


def _hosts(world: World, role: Role, free: I64) -> int:
    """Replicas of a role for which there is room; parts of a device always find some."""
    if role.milli < WHOLE_MILLI or role.profile:
        return role.count
    mine = supply.node_mask(world, eligibility.options(world, role))
    return int((free[mine] // role.accelerators).sum())


def _groups(world: World, stuck: Sequence[Rest]) -> list[list[Rest]]:
    """Those that lack what another one holds, together."""
    groups = list[list[Rest]]()
    for part in stuck:
        near = [group for group in groups if any(_meet(world, part, other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([part, *(one for group in near for one in group)])
    return [sorted(group, key=lambda part: part.job) for group in groups]


def _meet(world: World, part: Rest, other: Rest) -> bool:
    return _blocks(world, part, other) or _blocks(world, other, part)


def _blocks(world: World, part: Rest, other: Rest) -> bool:
    """Whether a job holds something that a partial gang could use."""
    held = {piece.node for piece in world.placements[other.job]}
    for _, role in part.missing:
        mine = supply.node_mask(world, eligibility.options(world, role))
        if any(mine[n] for n in held):
            return True
    return False


def _gang(world: World, part: Rest) -> PartialGang:
    j, shape = part.job, world.shape_of(part.job)
    placed, wanted, on = _extent(world, j)
    held, usd = supply.held_milli(world, j), _usd_per_hour(world, [part])
    missing = sum(count * role.replica_milli for count, role in part.missing)
    rest = phrasing.many(sum(count for count, _ in part.missing), "more replica")
    does = f"does not work before {rest} are placed"
    does = does.replace("replica are", "replica is")
    words = (
        f"partial gang: {placed:,} of {phrasing.many(wanted, 'replica')} are placed,"
        f" on {phrasing.ids(on)}; it"
        f" holds {phrasing.amounts(held, 'GPU')} ({hourly_text(usd)}) and {does}"
    )
    if proof := never_whole(world, j):
        words += f", which the cluster can never hold: {proof.words}"
    return PartialGang(
        world.job_names[j], shape.team, placed, wanted, held, missing, usd,
        world.now_ms - world.jobs.since_ms.item(j), tuple(on), words, phrasing.own_reason(world, j),
    )  # fmt: skip


def _deadlock(world: World, group: Sequence[Rest]) -> GangDeadlock:
    names = tuple(world.job_names[part.job] for part in group)
    held = sum(supply.held_milli(world, part.job) for part in group)
    usd = _usd_per_hour(world, group)
    words = (
        f"mutual deadlock: {phrasing.ids(names)} together hold {phrasing.amounts(held, 'GPU')}"
        f" ({hourly_text(usd)}), each lacks what the others hold, and even if every other job ended"
        " none of them could be completed on nodes that take work"
    )
    return GangDeadlock(names, held, usd, words, _way_out(world, group))


def _way_out(world: World, group: Sequence[Rest]) -> str:
    """What to do so that one of them can be completed: open what is cordoned, or stop another."""
    ways = (completing.uncordoned(world, group), _stopped(world, group))
    return "; or ".join(way for way in ways if way)


def _stopped(world: World, group: Sequence[Rest]) -> str:
    """Whom to stop so that another can be completed beside all else that is placed: it is tried.

    Whoever holds least; where none is enough, with those outside the deadlock that hold the rest.
    """
    least_first = sorted(group, key=lambda part: (supply.held_milli(world, part.job), -part.job))
    for part in least_first[: completing.GANGS_AT_MOST]:
        without = trials.stopped(world, [part.job])
        rest = [other for other in group if other is not part]
        helped = [other for other in rest if completing.has_room(without, other)]
        if helped:
            is_known = not any(phrasing.unkept(world.shape_of(one.job)) for one in helped)
            holds = count_text(supply.held_milli(world, part.job) / WHOLE_MILLI, "GPU")
            return (
                f"{_stop(world, part)}: it holds {holds}; then there"
                f" {'is' if is_known else 'may be'} room for the rest of"
                f" {completing.helps(without, helped)}"
            )
    for part in least_first:
        rest = [other for other in group if other is not part]
        for other in rest:
            if _could_fit(world, other, rest):
                return _stopped_beside(world, part, other, group)
    return ""


def _stopped_beside(world: World, part: Rest, other: Rest, group: Sequence[Rest]) -> str:
    """The same where others outside the deadlock hold what is missing too."""
    lacks = sum(count * role.replica_milli for count, role in other.missing)
    has = supply.held_milli(world, part.job)
    gpus = count_text(lacks / WHOLE_MILLI, "GPU")
    text = (
        f"{_stop(world, part)}: of the {gpus} that {_named(world, [other])} lacks it holds"
        f" {phrasing.amount(has)}"
    )
    also = _in_its_way(world, part, other, group, lacks - has)
    if not also:
        return f"{text}, and whether the others come free is not known"
    names, them = (
        phrasing.ids([world.job_names[j] for j in also]),
        "it" if len(also) == 1 else "them",
    )
    more = phrasing.amount(sum(supply.held_milli(world, j) for j in also))
    do, them = ("ends", "it") if len(also) == 1 else ("end", "them")
    return f"{text}, and {names} {more} more: wait until {names} {do}, or stop {them} too"


def _in_its_way(
    world: World, part: Rest, other: Rest, group: Sequence[Rest], more_milli: int
) -> tuple[int, ...]:
    """The fewest outside a deadlock without which a gang can be completed, if another is stopped.

    One that holds enough comes first, the smallest; then the largest.
    """
    stuck = {one.job for one in group}
    held = {j: supply.held_milli(world, j) for j in sorted(world.placements) if j not in stuck}
    enough = [j for j in sorted(held, key=held.__getitem__) if held[j] >= more_milli]
    order = [*enough[:1], *sorted(held.keys() - enough[:1], key=lambda j: (-held[j], j))]

    def is_enough(some: tuple[int, ...]) -> bool:
        return completing.has_room(trials.stopped(world, (part.job, *some)), other)

    return trials.shortest(order, is_enough) if order else ()


def _stop(world: World, part: Rest) -> str:
    return f"stop {_named(world, [part])} and start it again later"


def _named(world: World, some: Sequence[Rest]) -> str:
    return phrasing.ids([world.job_names[one.job] for one in some])


def _usd_per_hour(world: World, parts: Sequence[Rest]) -> int | None:
    """Micro-dollars per hour of what these hold; None: nobody said a price of some of it."""
    total = 0
    for part in parts:
        roles = world.shape_of(part.job).roles
        for piece in world.placements[part.job]:
            row = world.contract_rows[world.nodes.contract.item(piece.node)].at(world.now_ms)
            if not row.is_priced:
                return None
            total += piece.replicas * roles[piece.role].replica_milli * row.rate_usd_micro
    return total // WHOLE_MILLI
