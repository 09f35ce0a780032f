"""The decision about a job, put together: what the cycle saw, what it compared, what followed.

Reads a cluster state as it was before the decision, the policy, and what the journal tells of the
job. The cycle is run again (``watching``), so what is told is what the scheduler does; where its
result is not what the journal has, the answer says so instead of explaining something else.
"""

from typing import NamedTuple

from msgspec.structs import replace

from tidemill.explain import phrasing, rerun
from tidemill.explain.decision import filters, past, scores
from tidemill.explain.decision.answers import (
    Bind,
    Decision,
    Filtering,
    NodeSeat,
    Ranking,
    Reserved,
    Watch,
)
from tidemill.explain.decision.filters import FilteredRole
from tidemill.explain.decision.history import JobHistory
from tidemill.explain.decision.watching import Sight, Watching, watch
from tidemill.explain.rerun import Glance
from tidemill.model import lives
from tidemill.model.events import PlacementSeen
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Piece, Shape
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.scheduling import elastic
from tidemill.scheduling.fit import fit, undo
from tidemill.scheduling.shape_eligibility import Known
from tidemill.scheduling.topology import constraints

SEATS = 16  # nodes of a placement that are told one by one
OURS, THEIRS = "Tidemill", "another scheduler"

OTHERS = (
    "another scheduler decided here and records neither which nodes it removed nor how it scored"
    " the others; what was seen of the job is told"
)
OTHERS_KEEP = f"{OTHERS}, and `tidemill why` says what our own policy makes of the same state"
"""The same of a job that waits: of one that holds a place `why` has nothing more to say."""
NEVER = "nothing was decided about it: it was never placed, and it does not wait"
PLANNED = (
    "its place follows from the plan of the whole fleet: scores of single nodes did not decide it"
)
OTHERWISE = (
    "run again, the scheduling cycle does not place it where the journal has it: how the nodes"
    " compared then is not known"
)


class Placing(NamedTuple):
    """A decision that the journal has: the state before its plan, and what was placed where."""

    before: World
    at_ms: int
    attempt: int
    pieces: tuple[Piece, ...]


def placed(
    now: World, policy: Policy, j: int, history: JobHistory, made: Placing, room: past.Room
) -> Decision:
    """Why a job was placed where it is, or was last."""
    world, s = made.before, now.jobs.shape.item(j)
    memo = Glance(world)
    found = watch(world, policy, memo, j)
    shape = elastic.as_placed(world.shape_rows[s], made.pieces)
    is_same = found.sight is not None and found.pieces == made.pieces
    filtering: tuple[Filtering, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    unknown = "" if is_same else OTHERWISE
    if is_same and found.sight is not None:
        known = memo.known(world, s)
        filtering, domains = _by_role(world, found.sight, shape, known, made.pieces)
        rankings = _rankings(world, policy, memo, found.sight, shape, known, made.pieces, domains)
        unknown = "" if rankings else PLANNED
    bind = _bind(now, made, shape, found, history, room)
    return _decision(now, j, history, found, made.at_ms, "placed", filtering, rankings, bind,
                     unknown, world)  # fmt: skip


def waits(now: World, policy: Policy, j: int, history: JobHistory) -> Decision:
    """Why a job that waits was not placed when the scheduler looks now."""
    s, memo = now.jobs.shape.item(j), Glance(now)
    lines = memo.lines(policy)
    lines.begin(now)
    head = lines.head(now, s)[1]
    found = watch(now, policy, memo, head)
    cause = rerun.from_the_ground(now, memo, s, found.cause)  # as ``why`` and the pods have it
    cause = rerun.for_pods(now, memo, s, cause)
    found = found._replace(cause=rerun.as_told(now, j, cause))
    filtering: tuple[Filtering, ...] = ()
    if found.sight is not None and not found.pieces:
        filtering = (_short_role(now, policy, memo, found.sight, s),)
    made = _decision(now, j, history, found, now.now_ms, "waits", filtering, (), None, "", now)
    return made if head == j else replace(made, about=now.job_names[head])


def unknown(
    now: World, j: int, history: JobHistory, text: str, by: str, *, tells_waits: bool = True
) -> Decision:
    """What is known of a job about which our scheduler decided nothing.

    ``tells_waits``: whether it is known when jobs were submitted.
    """
    at_ms = history.placed.at_ms if history.placed is not None else now.now_ms
    nothing = Watching(None, (), Cause(now.shapes.cause.item(now.jobs.shape.item(j))))
    made = _decision(now, j, history, nothing, at_ms, "unknown", (), (), None, text, now)
    since_ms = history.waited_from_ms
    earlier_ms = history.placed_before_ms
    until_ms = earlier_ms if earlier_ms is not None and since_ms <= earlier_ms else at_ms
    line = _watch(now, j, since_ms, until_ms, None)
    if history.placed is None:
        waits = f"it has waited {phrasing.since(max(0, at_ms - since_ms))}"
    else:
        waits = f"seen placed after a wait of {phrasing.since(max(0, until_ms - since_ms))}"
    line = replace(line, words=waits)
    if history.placed is not None and at_ms == 0 and since_ms < 0:
        early = "it had its place when the journal began: how long it waited for it is not known"
        line = replace(line, waited_ms=None, words=early)
    if not tells_waits:
        line = replace(line, waited_ms=None, words="how long it waited, nobody told")
    words = made.words.replace(made.watch.words, line.words, 1)
    return replace(made, decided_by=by, watch=line, words=words)


def by_others(made: Decision, now: World, j: int, seen: PlacementSeen | None, who: str) -> Decision:
    """The same with what another scheduler, ``who``, was seen to do: where it put a job, or not."""
    named = f"its own scheduler, `{who}`," if who else "its own scheduler"
    if now.jobs.state.item(j) == JobState.WAITING or seen is None:
        said = phrasing.own_reason(now, j)
        words = f"{named} has not placed it" + (f"; it says: {said}" if said else "")
        return replace(made, words=f"{made.words}\n{words}", not_bound=words)
    shape = now.shape_of(j)
    pieces = tuple(now.placements.get(j, seen.pieces))  # pods of a gang may come one by one
    seats, names = _seats(now, pieces, shape)
    count, whole = sum(p.replicas for p in pieces), sum(role.fewest for role in shape.roles)
    part = f", {count:,} of {phrasing.many(whole, 'replica')}" if count < whole else ""
    where = f"{phrasing.ids(names)}{part}"
    words = f"{named} placed it on {where}; which other nodes it weighed, nobody told"
    if part and made.watch.waited_ms is not None:
        rest = f"a part of it was {made.watch.words}; the rest waits"
        made = replace(made, watch=replace(made.watch, words=rest))
    bind = Bind(seen.at_ms, seen.attempt, seats, len(names), (), 0, (), (), words)
    return replace(made, bind=bind, words=f"{made.words}\n{words}")


# Stages ---------------------------------------------------------------------------------------


def _by_role(
    world: World, sight: Sight, shape: Shape, known: Known, pieces: tuple[Piece, ...]
) -> tuple[tuple[Filtering, ...], list[Ranking | None]]:
    """What each role met, those before it in their places; the rooms are left as they were."""
    found, domains = [], list[Ranking | None]()
    rooms = [sight.bare] if sight.bare is sight.beside else [sight.bare, sight.beside]
    is_tied = bool(world.topology.tiers) and constraints.of(world.topology, shape) is not None
    for r, role in enumerate(shape.roles):
        asked = FilteredRole(world, known.queue, shape, r, known.options[r])
        found.append(filters.filtering(asked, sight.bare, sight.beside))
        mine = tuple(piece for piece in pieces if piece.role == r)
        option = next(
            one for one in known.options[r]
            if one.kind in (-1, world.nodes.kind.item(mine[0].node))
        )  # fmt: skip
        made = scores.ScoredRole(world, role)
        domains.append(
            scores.domains(made, sight.beside, shape, r, option, pieces) if is_tied else None
        )
        for room in rooms:
            room.take(shape, mine)
            room.book(known.queue, shape, mine, 1)
    for room in rooms:
        undo(room, known.queue, shape, pieces)
    return tuple(found), domains


def _rankings(  # noqa: PLR0913, PLR0917 - what the scheduler fits with
    world: World, policy: Policy, memo: Glance, sight: Sight, shape: Shape, known: Known,
    pieces: tuple[Piece, ...], domains: list[Ranking | None],
) -> tuple[Ranking, ...]:  # fmt: skip
    """How nodes compared for each role, if fitting it again leads to the same place."""
    room = sight.beside
    room.noted.clear()
    found = fit(room, known.queue, shape, known.options, memo.scoring(world, policy))
    if found.pieces != pieces:
        return ()
    noted = [one for one in room.noted if one.filled.placed]
    noted = noted[len(noted) - len(shape.roles) :] if len(noted) >= len(shape.roles) else []
    rows = []
    for r, role in enumerate(shape.roles):
        row = domains[r]
        if row is None and noted:
            row = scores.ranking(scores.ScoredRole(world, role), noted[r])
        if row is not None:
            rows.append(row)
    return tuple(rows)


def _short_role(world: World, policy: Policy, memo: Glance, sight: Sight, s: int) -> Filtering:
    """What the role met that did not fit; the first where all would.

    As the scheduler does: first on all that is free, then beside what reservations keep.
    """
    shape, known = elastic.smallest(world.shape_rows[s]), memo.known(world, s)
    scoring, beside = memo.scoring(world, policy), sight.bare
    found = fit(sight.bare, known.queue, shape, known.options, scoring)
    if found.shortage is None:
        undo(sight.bare, known.queue, shape, found.pieces)
        beside = sight.beside
        found = fit(beside, known.queue, shape, known.options, scoring)
    r = 0 if found.shortage is None else found.shortage.role
    undo(beside, known.queue, shape, found.pieces)
    if r:
        first = replace(shape, roles=shape.roles[:r], bonds=(), parallelism=None)
        for room in {id(one): one for one in (sight.bare, beside)}.values():
            fit(room, known.queue, first, known.options, scoring)
    asked = FilteredRole(world, known.queue, shape, r, known.options[r])
    return filters.filtering(asked, sight.bare, beside)


# Told -----------------------------------------------------------------------------------------


def _bind(
    now: World, made: Placing, shape: Shape, found: Watching, history: JobHistory, room: past.Room
) -> Bind:
    seats, names = _seats(now, made.pieces, shape)
    freed = past.freed(now, history, room)
    reserved = _reserved(now, found.sight)
    passed = tuple(now.job_names[i] for i in history.passed)
    words = [f"placed on {phrasing.ids(names)}"]
    if freed:
        words.append(f"{phrasing.many(len(history.room), 'job')} made room for it")
    if reserved:
        words.append(f"backfilled, {_kept(reserved)}")
    if passed:
        words.append(f"the first to pass {phrasing.ids(passed)}")
    return Bind(
        made.at_ms, made.attempt, seats, len(names), freed, len(history.room), reserved, passed,
        "; ".join(words),
    )  # fmt: skip


def _seats(
    now: World, pieces: tuple[Piece, ...], shape: Shape
) -> tuple[tuple[NodeSeat, ...], list[str]]:
    """What of a job sits where, the first of it; and all of its nodes by name."""
    seats = tuple(
        NodeSeat(
            lives.node_name(now, piece.node), now.kinds[now.nodes.kind.item(piece.node)],
            shape.roles[piece.role].name, piece.replicas,
            tuple(d for d in range(piece.devices.bit_length()) if piece.devices >> d & 1),
        )
        for piece in pieces[:SEATS]
    )  # fmt: skip
    return seats, [lives.node_name(now, n) for n in sorted({piece.node for piece in pieces})]


def _kept(reserved: tuple[Reserved, ...]) -> str:
    beside = [one.job for one in reserved if one.is_beside]
    if beside:
        return f"beside the reservation of {phrasing.ids(beside)}"
    names = phrasing.ids([one.job for one in reserved])
    return f"expected to end before the reservation of {names} begins"


def _reserved(world: World, sight: Sight | None) -> tuple[Reserved, ...]:
    if sight is None:
        return ()
    return tuple(
        Reserved(world.job_names[one.job], one.at_ms, one in sight.disturbed)
        for one in sight.reserved
    )


def _decision(  # noqa: PLR0913, PLR0917 - the parts of one answer
    now: World, j: int, history: JobHistory, found: Watching, at_ms: int, outcome: str,
    filtering: tuple[Filtering, ...], rankings: tuple[Ranking, ...], bind: Bind | None,
    unknown: str, before: World,
) -> Decision:  # fmt: skip
    shape, sight = now.shape_of(j), found.sight
    since_ms = _waits_since_ms(now, before, j)
    tried = past.tried(history, before, j, found.cause if outcome == "waits" else None)
    line = _watch(now, j, since_ms, at_ms, sight)
    parts = [
        f"job `{now.job_names[j]}` of team `{shape.team}` requests {phrasing.asks(shape)}",
        line.words,
        *(_filtered(one) for one in filtering),
        *(one.words for one in rankings),
        bind.words if bind is not None else "",
        f"it waits: {phrasing.cause(now, found.cause)}" if outcome == "waits" else "",
        unknown,
    ]
    return Decision(
        now.job_names[j], shape.team, JobState(now.jobs.state[j]).name.lower(),
        phrasing.asks(shape), outcome, at_ms, OURS, found.cause.name.lower(), line, filtering,
        rankings, bind, tried, "\n".join(part for part in parts if part), unknown=unknown,
    )  # fmt: skip


def _waits_since_ms(now: World, before: World, j: int) -> int:
    """Since when a job waited at a decision; one that never ran, since it was submitted.

    That may be before its events: while something held it, or nobody wrote the journal.
    """
    since_ms = before.jobs.since_ms.item(j)
    never_ran = since_ms == before.jobs.submit_ms.item(j)
    return now.jobs.submit_ms.item(j) if never_ran else since_ms


def _filtered(one: Filtering) -> str:
    removed = ", ".join(f"{row.nodes:,} by {row.filter.replace('_', ' ')}" for row in one.removed)
    return f"{one.words}" + (f"; removed: {removed}" if removed else "")


def _watch(world: World, j: int, since_ms: int, at_ms: int, sight: Sight | None) -> Watch:
    waited = max(0, at_ms - since_ms)
    words = f"decided after a wait of {phrasing.since(waited)}"
    if sight is not None:
        alike = " (jobs alike count once)" if sight.looked_before else ""
        words += (
            f"; the same cycle looked at {phrasing.many(sight.looked_before, 'other request')}"
            f"{alike} before it and placed {phrasing.many(sight.placed_before, 'job')}"
        )
    return Watch(
        world.jobs.submit_ms.item(j), since_ms, waited,
        None if sight is None else sight.looked_before,
        None if sight is None else sight.placed_before, words,
    )  # fmt: skip
