"""The scores: how the nodes that were left compare, term by term, and why the first of them won.

All numbers are read off the ranks that the scheduler itself compared. A rank of several scores is
one number in which each has its bits; a rank without scores is what is left over on the node.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidemill.explain import phrasing
from tidemill.explain.decision.answers import Ranking, ScoredCandidate, Term
from tidemill.explain.decision.noting import FEW, Noted, NotingRoom, Ranked
from tidemill.model import lives
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.placements import COMPILED
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import slices
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fitting.sweeps import TIGHTNESS
from tidemill.scheduling.scores.codes import BITS, PACK, SPREAD, TIDE
from tidemill.scheduling.scores.kernels import PACK_NODE, TIDE_ZERO
from tidemill.scheduling.scores.tables import BLANK
from tidemill.scheduling.topology import constraints, place
from tidemill.scheduling.topology.constraints import Rung

HIGHER, LOWER, PART = "higher", "lower", ""

WAYS = {
    "scores": "the node with the highest score",
    "pack": "the node that has least left over",
    "spread": "the node that has most free",
    "fewest": "nodes that take most of the gang, so that it is on the fewest",
    "plug-in": "the node with the highest score of the plug-in",
    "mig": "the GPU that carries instances and has least left; else one of the fullest node",
    "domain": "the tightest domain that takes all of it; where none does, the largest first",
}
"""What each way of choosing takes."""


class ScoredRole(NamedTuple):
    """What the placing of one role is explained by."""

    world: World
    role: Role


def ranking(made: ScoredRole, noted: Noted) -> Ranking:
    """How the best few nodes compare for the first replica; whichever the job got are taken."""
    world, of = made.world, "device" if noted.way == "mig" else "node"
    taken = _taken(world, noted)
    rows = tuple(
        ScoredCandidate(
            _name(world, noted, one), world.kinds[world.nodes.kind.item(one.node)],
            _terms(noted, one), (one.rank if of == "device" else one.node) in taken,
        )
        for one in noted.best
    )  # fmt: skip
    way = noted.scoring.names[0] if noted.way == "plain" else noted.way
    policy = () if noted.way in ("mig", "fewest") else noted.scoring.names
    types = types_of(world, noted.is_ok)
    words = _on(made, types) + _won(rows, way)
    return Ranking(made.role.name, way, policy, of, types, rows, words)


def _taken(world: World, noted: Noted) -> set[int]:
    """The nodes that the replicas were put on; of instances, their devices."""
    if noted.way != "mig":
        return {piece[0] for piece in noted.filled.placed}
    return {
        world.nodes.first_device.item(n) + d
        for n, _, mask, *_ in noted.filled.placed
        for d in range(world.nodes.devices.item(n))
        if mask >> d & 1
    }


def types_of(world: World, is_ok: I64) -> tuple[str, ...]:
    """The GPU types of the groups of nodes that were compared."""
    kinds = {world.groups[g].kind for g in np.flatnonzero(is_ok).tolist()}
    return tuple(world.kinds[k] for k in sorted(kinds))


def _on(made: ScoredRole, types: tuple[str, ...]) -> str:
    if len(types) != 1 or len(made.role.kinds) == 1:
        return ""
    return f"on `{types[0]}`, the first GPU type that has room: "


def _terms(noted: Noted, one: Ranked) -> tuple[Term, ...]:
    role = noted.role
    match noted.way:
        case "fewest":
            hosts, free = -one.key[0], one.key[1]
            words = f"takes {hosts:,} of {phrasing.many(role.count, 'replica')}"
            return Term("hosts", hosts, "replicas", HIGHER, words), _free(free)
        case "plug-in":
            return (Term("score", one.rank, "points", HIGHER, f"score {one.rank:,}"),)
        case "mig":
            return (_on_device(one),)
        case "plain" if noted.scoring.spreads:
            return (_free(one.rank, HIGHER),)
        case "plain":
            return (
                _left(role, *divmod(-one.rank, TIGHTNESS)) if _shares(role) else (_free(-one.rank),)
            )
        case _:
            return _by_tables(noted, one)


def _by_tables(noted: Noted, one: Ranked) -> tuple[Term, ...]:
    """A rank by tables, taken apart: the first score is in its highest bits."""
    tables = BLANK if noted.scoring.tables is None else noted.scoring.tables
    found: list[Term] = []
    shift = sum(BITS[code] for code in tables.codes.tolist())
    for code in tables.codes.tolist():
        shift -= BITS[code]
        score = one.rank >> shift & (1 << BITS[code]) - 1
        found += _score(noted, one, code, score)
    return tuple(found)


def _score(noted: Noted, one: Ranked, code: int, score: int) -> tuple[Term, ...]:
    name = COMPILED[code]
    if code == PACK:
        worth = (1 << BITS[PACK]) - 1 - score
        spare, total = divmod(worth, PACK_NODE)
        return _left(noted.role, spare, total) if _shares(noted.role) else (_free(total),)
    if code == SPREAD:
        return (_free(score, HIGHER),)
    if code != TIDE:
        return (Term(name, score, "points", HIGHER, f"`{name}` {score} of 100"),)
    assert noted.scoring.tables is not None, "`tide` has tables"
    (gain, price), grain = one.ahead, int(noted.scoring.tables.limits[4])
    head = Term(name, score - TIDE_ZERO, "grains", HIGHER, f"`tide` {score - TIDE_ZERO:+,}")
    waste = Term("empty_later", -gain, "milli", PART, _empty(gain, grain))
    scarce = Term("scarce_hosts", price, "grains", PART, f"{price:,} grains for scarce large hosts")
    return (head, waste, scarce) if price else (head, waste)


def _empty(gain: int, grain: int) -> str:
    change = f"{phrasing.amounts(abs(gain), 'GPU')} {'less' if gain >= 0 else 'more'}"
    return f"of it, {change} are expected to stay empty (a grain is {phrasing.amount(grain)})"


def _shares(role: Role) -> bool:
    return role.accelerators > 0 and role.milli < WHOLE_MILLI


def _left(role: Role, spare: int, total: int) -> tuple[Term, ...]:
    words = f"{phrasing.amount(spare)} left on the GPU beside {phrasing.amount(role.milli)}"
    return Term("left_on_device", spare, "milli", LOWER, words), _free(total)


def _free(milli: int, is_better: str = LOWER) -> Term:
    words = f"{phrasing.amounts(milli, 'GPU')} free on the node"
    return Term("free", milli, "milli", is_better, words)


def _on_device(one: Ranked) -> Term:
    rank = one.key[0]
    if rank < slices.EMPTY:
        words = f"carries instances, {phrasing.amount(rank)} of it left"
        return Term("left_on_device", rank, "milli", LOWER, words)
    free = rank - slices.EMPTY
    words = f"an empty GPU, {phrasing.amounts(free, 'GPU')} free on its node"
    return Term("free", rank, "milli", LOWER, words)


def _name(world: World, noted: Noted, one: Ranked) -> str:
    name = lives.node_name(world, one.node)
    if noted.way != "mig":
        return name
    return f"{name} device {one.rank - world.nodes.first_device.item(one.node)}"


# Topology -------------------------------------------------------------------------------------


def domains(
    made: ScoredRole,
    room: NotingRoom,
    shape: Shape,
    r: int,
    option: Option,
    pieces: Sequence[Piece],
) -> Ranking | None:
    """How the domains compare that a gang with topology constraints could be divided over."""
    world, role = made.world, shape.roles[r]
    wish = constraints.of(world.topology, shape)
    assert wish is not None, "it is tied"
    tier, around = _scope(world, wish.scopes, pieces)
    rung = _rung_that_holds(room, role, option, wish.ladders[r], (tier, around))
    if rung is None:
        return None
    top, count = min(rung.top, len(world.domains)), place.count_of(world, rung.top)
    own = room.ground
    caps, gaps, portions = (m[top, :count].copy() for m in (own.caps, own.gaps, own.portions))
    order = _in_order(caps, gaps, portions)
    rows = tuple(_domain(made, top, c, caps, gaps, portions, rung) for c in order[:FEW])
    taken = sum(row.is_taken for row in rows)
    words = _won(rows, "domain") if taken == 1 else (
        f"{WAYS['domain']}: divided over {phrasing.many(int((portions > 0).sum()), 'domain')}"
    )  # fmt: skip
    types = types_of(world, option.is_ok)
    return Ranking(role.name, "domain", (), "domain", types, rows, _on(made, types) + words)


def _scope(
    world: World, scopes: tuple[constraints.Scope, ...], pieces: Sequence[Piece]
) -> tuple[int, int]:
    """The domain that the whole gang was put in, where its roles are to be in one."""
    for tier, _ in scopes:
        at = {
            world.position.item(tier, piece.node) if tier < len(world.domains) else piece.node
            for piece in pieces
        }
        if len(at) == 1:
            return tier, at.pop()
    return place.ANYWHERE


def _rung_that_holds(
    room: NotingRoom, role: Role, option: Option, ladder: tuple[Rung, ...], scope: tuple[int, int]
) -> Rung | None:
    """The first way to tie the replicas for which there is room; its portions stay in the room."""
    for rung in ladder:
        if place.fill(room, role, option.is_ok, (rung,), scope).placed:
            return rung
    return None


def _in_order(caps: I64, gaps: I64, portions: I64) -> list[int]:
    """Those that take a part first; then those that could take all of it, the tightest first."""
    left = int(portions.sum())
    able = np.flatnonzero(caps > 0).tolist()
    return sorted(
        able,
        key=lambda c: (
            portions[c] == 0, caps[c] < left, caps[c] if caps[c] >= left else -caps[c], gaps[c], c
        ),
    )  # fmt: skip


def _domain(  # noqa: PLR0913, PLR0917 - one row of four columns
    made: ScoredRole, top: int, c: int, caps: I64, gaps: I64, portions: I64, rung: Rung
) -> ScoredCandidate:
    world, cap, left = made.world, caps.item(c), rung.want
    is_node = top == len(world.domains)
    name = lives.node_name(world, c) if is_node else world.domains[top][c].value
    if not is_node and world.domains[top][c].island >= 0:
        name = lives.node_name(world, world.domains[top][c].island)
    what = "node" if is_node else world.topology.tiers[top].name
    free, takes = (
        phrasing.amounts(gaps.item(c), "GPU"),
        f"takes {min(cap, left):,} of {_groups(rung, left)}",
    )
    terms = (
        Term("misses", max(0, left - cap), "groups", LOWER, takes),
        Term("hosts", cap, "groups", LOWER, f"could take {_groups(rung, cap)}"),
        Term("free", gaps.item(c), "milli", LOWER, f"{free} free in it"),
    )
    return ScoredCandidate(f"{what} {name}", "", terms, portions.item(c) > 0)


def _groups(rung: Rung, count: int) -> str:
    """So many of what domains are compared by: replicas, or groups that have to be in one place."""
    size = rung.each * int(rung.ratio.prod())
    if size == 1:
        return phrasing.many(count, "replica")
    return f"{phrasing.many(count, 'group')} of {phrasing.many(size, 'replica')}"


# Why it won -----------------------------------------------------------------------------------


def _won(rows: Sequence[ScoredCandidate], way: str) -> str:
    rule = WAYS.get(way, WAYS["scores"])
    if not rows:
        return "no node was left to compare"
    if len(rows) == 1:
        return f"`{rows[0].name}` was the only one left"
    first, second = rows[0], rows[1]
    for one, other in zip(first.terms, second.terms, strict=False):
        if one.is_better and one.value != other.value:
            return f"{rule}: `{first.name}` ({one.words}) before `{second.name}` ({other.words})"
    return f"{rule}: `{first.name}` and `{second.name}` are equal; ties go to the lower number"
