"""A World as bytes, and back. Equal Worlds give equal bytes, so bytes are also how we compare.

Nothing is derived on the way: what is loaded is what was dumped. A dump names its layout; one with
another layout is refused, and the journal is folded instead.
"""

import copy as copy_module
import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidemill.core import lines, places, rows
from tidemill.core.arrivals import REMEMBERED
from tidemill.model import paging, tables, tree
from tidemill.model.columns import (
    AT,
    CONTRACT,
    DEVICE,
    JOB,
    MEASURED,
    MIG_STATES,
    NODE,
    NONE,
    QUEUE,
    SHAPE,
    State,
)
from tidemill.model.errors import JournalError
from tidemill.model.job_names import JobNames, Texts
from tidemill.model.rows import Contract, Node, Piece, Queue, Shape
from tidemill.model.states import JobState, Level
from tidemill.model.tables import I64
from tidemill.model.topology import Topology
from tidemill.model.world import Domain, Group, Ink, Move, SeenReason, World

LAYOUT = 8

TABLES = {
    "jobs": len(JOB), "nodes": len(NODE), "devices": len(DEVICE), "contracts": len(CONTRACT),
    "shapes": len(SHAPE),
}  # fmt: skip
"""The tables of a World, and how many columns each has, of which the first are dumped."""
QUOTAS = ("used", "floor", "limit", "guard", "below", "past")
KINDS = ("kind_free_milli", "kind_freed", "kind_taken", "kind_kept")
QUEUES = {QUEUE.FREED: "queue_freed", QUEUE.ENDED: "ended", QUEUE.PAST_MS: "past_ms"}

COLUMNS_AT_ONCE = 2
"""Columns of a table that are made of its rows, or its rows of them, in one go: rows that are at
hand for one are at hand for the next, and no more columns take memory beside the table."""

Pieces = tuple[Piece, ...]
Packed = tuple[str, tuple[int, ...], bytes]
"""An array at rest: its type, its shape, its bytes."""


class TableRows(NamedTuple):
    """A table of a World, and how many of its rows are in use."""

    used: int
    matrix: I64


def dump(world: World, array_out: Callable[[NDArray[Any]], object] | None = None) -> bytes:
    """All of the World; ``array_out`` writes its arrays in another way."""
    state = {"layout": LAYOUT} | world.state()
    return msgspec.msgpack.encode(state, enc_hook=array_out or _array_out)


def digest(world: World) -> str:
    """A short fingerprint: equal exactly when the Worlds are equal."""
    return hashlib.sha256(dump(world)).hexdigest()


def copy(world: World) -> World:
    """An independent World, for asking *what if*; with what no event tells of it."""
    made = load(dump(world))
    made.scheduler, made.kept, made.node_words = world.scheduler, world.kept, {**world.node_words}
    made.keepers, made.rules_of = world.keepers, world.rules_of
    made.cluster_kinds, made.site = world.cluster_kinds, world.site
    made.quota_use, made.is_live = world.quota_use, world.is_live
    made.claim_sharers, made.admission = world.claim_sharers, world.admission
    return made


def branch(world: World) -> World:
    """A copy for events about waiting jobs and teams only: it shares nodes and what runs on them.

    Quick at any size of the fleet. A fold that would write into what is shared fails.
    """
    made = copy_module.copy(world)
    for name, value in vars(world).items():
        if isinstance(value, list | dict | JobNames):
            setattr(made, name, value.copy())
    w = world.ink.w
    lent = {name: getattr(w, name) for name in SHARED} | dict(world.ink.lent)
    made.ink = Ink(State(*(_branched(name, getattr(w, name)) for name in State._fields)), lent)
    made.ink.parent = world.ink.parent
    made.bind()
    made.seal()
    return made


def load(data: bytes) -> World:
    """The World that was dumped."""
    try:
        state = msgspec.msgpack.decode(data)
    except msgspec.DecodeError as error:
        raise JournalError(
            f"a snapshot cannot be read: {error}", hint="read the journal instead"
        ) from error
    if not isinstance(state, dict):
        raise _other_layout()
    return of_state(with_tables(state))


def with_tables(state: dict[str, Any]) -> dict[str, Any]:
    """What was dumped, with the rows of tables instead of their columns."""
    columns = {name: map(_array_of, state[name].values()) for name in TABLES if name in state}
    return state | {name: rows_of(name, some) for name, some in columns.items()}


def rows_of(name: str, columns: Iterable[NDArray[Any]]) -> TableRows:
    """The rows of a table, of its columns: they are taken a few at a time."""
    count, matrix, c, left = 0, np.zeros((0, 0), np.int64), 0, iter(columns)
    while some := [*islice(left, COLUMNS_AT_ONCE)]:
        if not c:
            count = len(some[0])
            matrix = paging.blank(max(8, count), TABLES[name])
        for at in paging.stretches(count):
            for i, array in enumerate(some, c):
                matrix[at, i] = array[at]
        c += len(some)
    return TableRows(count, matrix)


def of_state(state: dict[str, Any]) -> World:
    """The same of what was dumped and decoded, with the rows of tables."""
    if state.get("layout") != LAYOUT:
        raise _other_layout()
    world = World()
    _load_columns(world, state)
    _load_rows(world, state)
    _load_chains(world, state)
    return world


def _other_layout() -> JournalError:
    return JournalError(
        "a snapshot has another layout than this version writes", hint="read the journal instead"
    )


SHARED = frozenset({"nodes", "devices", "pieces", "active", "log", "position", "slices"})
"""What a branch does not copy: where things are, and what runs there."""


def _branched(name: str, matrix: I64) -> I64:
    return tables.sealed_array(matrix) if name in SHARED else matrix.copy()


def _load_columns(world: World, state: dict[str, Any]) -> None:
    world.device_count = state["devices"].used
    jobs = state["jobs"].matrix
    for some in paging.stretches(len(jobs)):
        jobs[some, [JOB.FIRST_PIECE, JOB.LEAVING_FOR, JOB.IDLE_MS]] = NONE
    world.renew(**{name: state[name].matrix for name in TABLES})
    levels, w = _array_in(state["levels"]), world.ink.w
    world.renew(
        levels=np.zeros((len(w.contracts), len(Level)), np.int64),
        active=np.zeros(len(w.jobs), np.int64),
        queued=np.zeros(len(w.shapes), np.int64),
        run_times=_array_in(state["run_times"]),
        ratios=_array_in(state["ratios"]),
        quotas=np.stack([_array_in(state[name]) for name in QUOTAS], axis=-1),
        queues=np.zeros((len(state["queue_rows"]), len(QUEUE)), np.int64),
        kinds=np.stack([_array_in(state[name]) for name in KINDS], axis=-1),
        slices=np.zeros((len(state["kinds"]), 2 * MIG_STATES), np.int64),
    )
    w = world.ink.w
    w.levels[: len(levels), : levels.shape[1]] = levels
    for column, name in QUEUES.items():
        w.queues[:, column] = _array_in(state[name])
    w.at[AT.SUPPLY_CHANGES] = state["supply_changes"]
    w.at[AT.LASTING_CHANGES] = state["lasting_changes"]
    w.at[AT.SLICED] = state["sliced"]
    w.at[AT.HALF_LIFE_MS] = state["half_life_ms"]


def _load_rows(world: World, state: dict[str, Any]) -> None:
    convert = msgspec.convert
    world.now_ms, world.seq = state["now_ms"], state["seq"]
    world.job_names = JobNames(state["job_names"], state["job_users"])
    world.node_rows = convert(state["node_rows"], list[Node])
    world.contract_rows = convert(state["contract_rows"], list[Contract])
    world.queue_rows = convert(state["queue_rows"], list[Queue])
    world.kinds = state["kinds"]
    world.groups = [
        Group(kind, pool, _pairs(labels), _pairs(chain(*taints)))
        for kind, pool, labels, *taints in state["groups"]  # of earlier versions without taints
    ]
    _load_topology(world, state)
    world.shape_rows = convert(state["shape_rows"], list[Shape])
    world.shape_count = len(world.shape_rows)
    world.paces = {j: tuple((at, ppm) for at, ppm in paces) for j, paces in state["paces"]}
    world.moving = {
        j: Move(convert(gained, Pieces), convert(lost, Pieces), keeps_work)
        for j, (gained, lost, keeps_work) in state["moving"]
    }
    world.share_changes = state["share_changes"]
    world.mix_point = state["mix_point"]
    world.mix_changes = state["mix_changes"]
    world.mix_free_milli = state["mix_free_milli"]
    world.mix_turnover_ppm = state["mix_turnover_ppm"]
    world.node_number = {row.name: n for n, row in enumerate(world.node_rows)}
    world.contract_number = {row.name: c for c, row in enumerate(world.contract_rows)}
    world.queue_number = {row.name: q for q, row in enumerate(world.queue_rows)}
    world.tree = tree.grown(world.queue_rows, world.queue_number)
    world.kind_number = {name: k for k, name in enumerate(world.kinds)}
    world.group_number = {group: g for g, group in enumerate(world.groups)}
    world.shape_number = {shape: s for s, shape in enumerate(world.shape_rows)}


def _load_chains(world: World, state: dict[str, Any]) -> None:
    """Chains are not dumped: who waits, who sits where, and what follows from rows."""
    rows.write_tiers(world)
    for s in range(len(world.shape_rows)):
        rows.write_roles(world, s)
    w = world.ink.w
    w.shapes[: len(world.shape_rows), SHAPE.RETURNS] = _array_in(state["returns"])
    w.shapes[:, [SHAPE.WAITING, SHAPE.HELD, SHAPE.SAID]] = 0
    for waiting in state["waiting"]:
        for j in waiting:
            lines.line_up(w.at, w.jobs, w.shapes, w.queued, j)
    w.nodes[:, NODE.FIRST_PIECE] = NONE
    lacks = np.array([row.node.unadvertised for row in world.contract_rows], np.int64)
    if lacks.any():
        mine = w.nodes[: world.node_count]
        mine[:, NODE.UNADVERTISED] = lacks[mine[:, NODE.CONTRACT]]
    for j, pieces in state["placements"]:
        lines.become_active(w.at, w.jobs, w.shapes, w.active, j)
        count = rows.write_found(world, msgspec.convert(pieces, Pieces))
        places.hang(world.ink.w, j, count, 0)
    for j, move in world.moving.items():
        places.hang(world.ink.w, j, rows.write_found(world, move.gained), 1)
    w = world.ink.w
    w.jobs[list(world.paces), JOB.IS_PACED] = 1
    w.jobs[list(world.moving), JOB.IS_MOVING] = 1
    for notes, register, matrix, column, plus in (
        (state["leaving_for"], AT.LEAVING, w.jobs, JOB.LEAVING_FOR, 0),
        (state["idle"], AT.IDLE, w.jobs, JOB.IDLE_MS, 0),
        (state["promised"], AT.PROMISED, w.shapes, SHAPE.PROMISED, 1),
    ):
        w.at[register] = len(notes)
        for i, value in notes:
            matrix[i, column] = value + plus
    _load_observed(world, state)
    _load_sight(world, state)
    w.at[AT.BLIND], measured = state.get("measured", (0, ()))
    for j, *told in measured:  # earlier versions know fewer columns
        w.jobs[j, MEASURED[: len(told)]] = told
    parents = [path[1] if len(path) > 1 else NONE for path in world.tree.paths]
    w.queues[:, QUEUE.PARENT] = parents
    w.at[AT.KEEPS] = world.tree.keeps
    w.at[AT.RECENT] = max(0, world.mix_point - REMEMBERED)
    w.at[AT.LEFT] = _left(w.jobs[w.at[AT.RECENT] : world.job_count])


def _load_observed(world: World, state: dict[str, Any]) -> None:
    """What others were seen to do, and what they say of jobs that wait, or of which a part does."""
    w = world.ink.w
    w.at[AT.SEEN], over, said = state.get("observed", (0, (), ()))
    for column, told in ((JOB.OVER_MILLI, over), (JOB.RACES, state.get("races", ()))):
        for j, value in told:
            w.jobs[j, column] = value
    world.reasons = {j: SeenReason(*reason) for j, reason in said}
    for j, reason in world.reasons.items():
        if w.jobs[j, JOB.STATE] == JobState.WAITING:
            lines.say(w.jobs, w.shapes, j, reason.cause + 1)
        else:
            w.jobs[j, JOB.SAID] = reason.cause + 1


def _left(jobs: I64) -> int:
    """How many of these jobs ran and are over."""
    found = 0
    for some in paging.stretches(len(jobs)):
        has_left = (jobs[some, JOB.ATTEMPT] > 0) & (jobs[some, JOB.STATE] >= JobState.DONE)
        found += int(np.count_nonzero(has_left))
    return found


def _load_sight(world: World, state: dict[str, Any]) -> None:
    """Which nodes nobody watches, and what is free there."""
    prefixes, free = state.get("unseen", ((), None))
    world.unseen = frozenset(prefixes)
    if free is None:
        return
    w = world.ink.w
    w.levels[: len(world.contract_rows), Level.UNSEEN] = _array_in(free)
    for n, row in enumerate(world.node_rows):
        w.nodes[n, NODE.IS_UNSEEN] = world.is_unseen(row.name)


def _load_topology(world: World, state: dict[str, Any]) -> None:
    ink, position = world.ink, _array_in(state["position"])
    world.topology = msgspec.convert(state["topology"], Topology)
    world.domains = [[Domain(*row) for row in tier] for tier in state["domains"]]
    world.domain_number = [{row: d for d, row in enumerate(tier)} for tier in world.domains]
    world.hidden_labels = tuple(state["hidden_labels"])
    ink.parent = np.zeros((len(position), len(ink.w.nodes)), np.int64)
    world.renew(position=ink.parent.copy())
    ink.w.position[:, : position.shape[1]] = position
    for t, tier in enumerate(world.domains):
        ink.parent[t, : len(tier)] = [row.parent for row in tier]


def _pairs(rows: Iterable[Sequence[str]]) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, value in rows)


def _array_out(value: object) -> Packed | list[str]:
    if isinstance(value, Texts):
        return [*value]
    assert isinstance(value, np.ndarray), f"{type(value)} has no place in a snapshot"
    return (value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes())


def _array_in(packed: Packed) -> NDArray[Any]:
    return _array_of(packed).copy()


def _array_of(packed: Packed) -> NDArray[Any]:
    """The same, and not to be written."""
    dtype, shape, data = packed
    return np.frombuffer(data, dtype).reshape(shape)
