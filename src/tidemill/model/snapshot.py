"""A World as bytes, and back. Equal Worlds give equal bytes, so bytes are also how we compare.

Nothing is derived on the way: what is loaded is what was dumped. A dump names its layout; one with
another layout is refused, and the journal is folded instead.
"""

import copy as copy_module
import hashlib
from collections import deque
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidemill.model import tables, tree
from tidemill.model.errors import JournalError
from tidemill.model.rows import Contract, Node, Piece, Queue, Shape
from tidemill.model.topology import Topology
from tidemill.model.world import Domain, Group, Ink, Move, World

LAYOUT = 6

Pieces = tuple[Piece, ...]
Packed = tuple[str, tuple[int, ...], bytes]
"""An array at rest: its type, its shape, its bytes."""


def dump(world: World) -> bytes:
    """All of the World."""
    return msgspec.msgpack.encode({"layout": LAYOUT} | world.state(), enc_hook=_array_out)


def digest(world: World) -> str:
    """A short fingerprint: equal exactly when the Worlds are equal."""
    return hashlib.sha256(dump(world)).hexdigest()


def copy(world: World) -> World:
    """An independent World, for asking *what if*."""
    return load(dump(world))


def branch(world: World) -> World:
    """A copy for events about waiting jobs and teams only: it shares nodes and what runs on them.

    Quick at any size of the fleet. A fold that would write into what is shared fails.
    """
    made = copy_module.copy(world)
    for name, value in vars(world).items():
        if isinstance(value, list | dict):
            setattr(made, name, value.copy())
    made.waiting = [jobs.copy() for jobs in world.waiting]
    made.active = [jobs.copy() for jobs in world.active]
    made.ink = Ink()
    for name in Ink.__slots__:
        setattr(made.ink, name, _branched(name, getattr(world.ink, name)))
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
    if not isinstance(state, dict) or state.get("layout") != LAYOUT:
        raise JournalError(
            "a snapshot has another layout than this version writes",
            hint="read the journal instead",
        )
    world = World()
    _load_columns(world, state)
    _load_rows(world, state)
    world.seal()
    return world


def _branched(name: str, column: Any) -> Any:  # noqa: ANN401 - an array, or a table of them
    if name in ("nodes", "devices"):
        return tables.sealed(column)
    return column.copy() if isinstance(column, np.ndarray) else tables.copied(column)


def _load_columns(world: World, state: dict[str, Any]) -> None:
    ink = world.ink
    ink.jobs = _table(tables.Jobs, state["jobs"])
    ink.nodes = _table(tables.Nodes, state["nodes"])
    ink.devices = _table(tables.Devices, state["devices"])
    ink.contracts = _table(tables.Contracts, state["contracts"])
    ink.shapes = _table(tables.Shapes, state["shapes"])
    world.device_count = len(state["devices"]["free_milli"][2]) // 4
    levels = _array_in(state["levels"])
    ink.levels = np.zeros((len(ink.contracts.kind), levels.shape[1]), np.int64)
    ink.levels[: len(levels)] = levels
    for matrix in ("used", "floor", "limit", "guard", "below", "kind_kept", "past", "past_ms"):
        setattr(ink, matrix, _array_in(state[matrix]))
    ink.run_times, ink.ratios = _array_in(state["run_times"]), _array_in(state["ratios"])


def _load_rows(world: World, state: dict[str, Any]) -> None:
    convert = msgspec.convert
    world.now_ms, world.seq = state["now_ms"], state["seq"]
    world.job_names, world.job_users = state["job_names"], state["job_users"]
    world.node_rows = convert(state["node_rows"], list[Node])
    world.contract_rows = convert(state["contract_rows"], list[Contract])
    world.queue_rows = convert(state["queue_rows"], list[Queue])
    world.kinds = state["kinds"]
    world.groups = [
        Group(kind, pool, frozenset((key, value) for key, value in labels))
        for kind, pool, labels in state["groups"]
    ]
    _load_topology(world, state)
    world.shape_rows = convert(state["shape_rows"], list[Shape])
    world.waiting = [deque(jobs) for jobs in state["waiting"]]
    world.queued = {s: None for s, jobs in enumerate(world.waiting) if jobs}
    world.placements = {j: convert(p, tuple[Piece, ...]) for j, p in state["placements"]}
    world.aboard = [dict.fromkeys(jobs) for jobs in state["aboard"]]
    world.active = [dict.fromkeys(jobs) for jobs in state["active"]]
    world.idle = dict(state["idle"])
    world.paces = {j: tuple((at, ppm) for at, ppm in paces) for j, paces in state["paces"]}
    world.promised = dict(state["promised"])
    world.leaving_for = dict(state["leaving_for"])
    world.moving = {
        j: Move(convert(gained, Pieces), convert(lost, Pieces), keeps_work)
        for j, (gained, lost, keeps_work) in state["moving"]
    }
    world.kind_free_milli, world.sliced = state["kind_free_milli"], state["sliced"]
    world.kind_freed = state["kind_freed"]
    world.kind_taken = state["kind_taken"]
    world.queue_freed = state["queue_freed"]
    world.returns, world.ended = state["returns"], state["ended"]
    world.lasting_changes = state["lasting_changes"]
    world.share_changes = state["share_changes"]
    world.supply_changes = state["supply_changes"]
    world.mix_point = state["mix_point"]
    world.mix_changes = state["mix_changes"]
    world.mix_free_milli = state["mix_free_milli"]
    world.mix_turnover_ppm = state["mix_turnover_ppm"]
    world.half_life_ms = state["half_life_ms"]
    world.job_number = {name: j for j, name in enumerate(world.job_names)}
    world.node_number = {row.name: n for n, row in enumerate(world.node_rows)}
    world.contract_number = {row.name: c for c, row in enumerate(world.contract_rows)}
    world.queue_number = {row.name: q for q, row in enumerate(world.queue_rows)}
    world.tree = tree.grown(world.queue_rows, world.queue_number)
    world.kind_number = {name: k for k, name in enumerate(world.kinds)}
    world.group_number = {group: g for g, group in enumerate(world.groups)}
    world.shape_number = {shape: s for s, shape in enumerate(world.shape_rows)}


def _load_topology(world: World, state: dict[str, Any]) -> None:
    ink, position = world.ink, _array_in(state["position"])
    world.topology = msgspec.convert(state["topology"], Topology)
    world.domains = [[Domain(*row) for row in tier] for tier in state["domains"]]
    world.domain_number = [{row: d for d, row in enumerate(tier)} for tier in world.domains]
    world.hidden_labels = tuple(state["hidden_labels"])
    ink.position, ink.parent = (
        np.zeros((len(position), len(ink.nodes.state)), np.int32) for _ in range(2)
    )
    ink.position[:, : position.shape[1]] = position
    for t, tier in enumerate(world.domains):
        ink.parent[t, : len(tier)] = [row.parent for row in tier]


def _table(kind: type[tables.Table], columns: dict[str, Packed]) -> tables.Table:
    arrays = {name: _array_in(packed) for name, packed in columns.items()}
    rows = len(next(iter(arrays.values())))
    table = tables.empty(kind, max(8, rows))
    for name, array in arrays.items():
        getattr(table, name)[:rows] = array
    return table


def _array_out(value: object) -> Packed:
    assert isinstance(value, np.ndarray), f"{type(value)} has no place in a snapshot"
    return (value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes())


def _array_in(packed: Packed) -> NDArray[Any]:
    dtype, shape, data = packed
    return np.frombuffer(data, dtype).reshape(shape).copy()
