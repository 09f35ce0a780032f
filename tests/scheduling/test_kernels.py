"""The compiled loops do exactly what their plain oracle does, ties and all."""

from enum import IntEnum
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import role
from tests.scheduling import oracle
from tests.scheduling.oracle import Yard
from tidemill.model.columns import DEVICE, NODE
from tidemill.model.rows import Role
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.fitting import sweeps
from tidemill.scheduling.fitting.columns import (
    BITS,
    OUT,
    PART,
    REQUEST,
    REQUEST_COLUMNS,
    SPOT,
)
from tidemill.scheduling.snapshot import ALL_BITS, Snapshot, signed


class Columns:
    """A yard as the columns that kernels read and write, with one group for open nodes."""

    def __init__(self, yard: Yard, luck: int) -> None:
        rows = self.rows = len(yard.cpu)
        sizes = [len(devices) for devices in yard.free]
        nodes, devices = _blank(rows, NODE), _blank(sum(sizes), DEVICE)
        spots, parts = _blank(rows, SPOT), _blank(sum(sizes), PART)
        ready = (int(NodeState.READY), 0, 0)
        shut = [ready if yard.is_open[n] else _shut(luck + n) for n in range(rows)]
        nodes[:, [NODE.STATE, NODE.IS_SPARE, NODE.GROUP]] = shut
        nodes[:, NODE.DEVICES] = sizes
        nodes[:, NODE.FIRST_DEVICE] = np.cumsum(sizes) - sizes
        devices[:, DEVICE.IS_FAILED] = flat(yard.is_failed)
        parts[:, PART.FREE] = flat(yard.free)
        spots[:, SPOT.CPU], spots[:, SPOT.MEMORY] = yard.cpu, yard.memory
        spots[:, SPOT.FREE] = [yard.node_free(n) for n in range(rows)]
        self.w = World().matrices._replace(nodes=nodes, devices=devices)
        self.ground = Snapshot(World()).ground._replace(
            regs=np.array([0, rows, 0, 0, 0, 0, 0, 0], np.int64), spots=spots, parts=parts,
            requests=np.zeros((2, REQUEST_COLUMNS), np.int64), out=_blank(16, OUT),
            oks=np.array([[1, 0], [1, 0]], np.int64), hosts=np.zeros((2, rows), np.int64),
            hosting=np.zeros((2, rows // BITS + 1), np.int64), able=np.zeros(rows, np.int64),
        )  # fmt: skip
        self.spots, self.parts = spots, parts

    @property
    def device_free(self) -> I64:
        found: I64 = self.parts[:, PART.FREE]
        return found

    def ask(self, role: Role) -> None:
        """The first request is what each replica of a role asks for."""
        self.ground.requests[0, : REQUEST.SCORE] = _request(role)

    def count_hosts(self, role: Role) -> int:
        self.ask(role)
        return int(sweeps.count_hosts(self.w, self.ground, 0))

    def keep_count(self, role: Role) -> None:
        """The second request is what each replica of a role asks for; what fits is kept."""
        self.ground.requests[1, : REQUEST.SCORE] = _request(role)
        self.ground.requests[1, REQUEST.HOSTS_ROW] = 1

    def kept_count(self) -> tuple[int, list[int]]:
        """How many of those would fit, in all and by node, as it is kept."""
        total = int(sweeps.count_hosts(self.w, self.ground, 1))
        found: list[int] = self.ground.hosts[1].tolist()
        bits = [self.ground.hosting.item(1, n // BITS) >> n % BITS & 1 for n in range(self.rows)]
        assert bits == [int(hosted > 0) for hosted in found]
        return total, found

    def fill(self, role: Role, spreads: bool) -> list[oracle.Placed] | int:
        """What was placed, or how many replicas would have fitted."""
        self.ask(role)
        found = sweeps.fill(self.w, self.ground, 0, role.count, int(spreads))
        return int(-found - 1) if found < 0 else self.placed(found)

    def placed(self, count: int) -> list[oracle.Placed]:
        """The pieces that were found last."""
        rows = self.ground.out[:count].tolist()
        return [(n, replicas, mask & ALL_BITS) for n, replicas, mask in rows]

    def give(self, role: Role, piece: oracle.Placed, sign: int) -> None:
        n, replicas, mask = piece
        regs, spots, parts, touched, *_ = self.ground
        sweeps.give(
            self.w.nodes, regs, touched, spots, parts, n, replicas, signed(mask), *_request(role),
            sign,
        )  # fmt: skip

    def agrees_with(self, yard: Yard) -> bool:
        return (
            self.device_free.tolist() == flat(yard.free)
            and self.spots[:, SPOT.CPU].tolist() == yard.cpu
            and self.spots[:, SPOT.MEMORY].tolist() == yard.memory
            and self.spots[:, SPOT.FREE].tolist() == [yard.node_free(n) for n in range(self.rows)]
        )


def _blank(rows: int, columns: type[IntEnum]) -> I64:
    return np.zeros((rows, len(columns)), np.int64)


def flat(rows: list[list[Any]]) -> list[Any]:
    return [value for row in rows for value in row]


def _request(role: Role) -> tuple[int, int, int, int]:
    return role.accelerators, role.milli, role.cpu_milli, role.memory_mib


def _shut(luck: int) -> tuple[int, int, int]:
    """One of the ways in which a node takes no work: its state, a spare, or another group."""
    ready = int(NodeState.READY)
    return ((int(NodeState.CORDONED), 0, 0), (ready, 1, 0), (ready, 0, 1))[luck % 3]


FREE = st.sampled_from([0, 100, 250, 500, 700, 750, 1000, 1000, 1000])


@st.composite
def yards(draw: st.DrawFn) -> Yard:
    """Up to six nodes of up to five devices; few distinct values, so that ties are common."""
    rows = draw(st.integers(1, 6))
    sizes = [draw(st.integers(1, 5)) for _ in range(rows)]
    return Yard(
        is_open=[draw(st.sampled_from([True, True, True, False])) for _ in range(rows)],
        cpu=[draw(st.sampled_from([0, 4, 8, 64])) for _ in range(rows)],
        memory=[draw(st.sampled_from([0, 4, 8, 64])) for _ in range(rows)],
        free=[[draw(FREE) for _ in range(size)] for size in sizes],
        is_failed=[[draw(st.integers(0, 5)) == 0 for _ in range(size)] for size in sizes],
    )


@st.composite
def roles(draw: st.DrawFn) -> Role:
    """Whole devices, a fraction of one, or none."""
    gpus, milli = draw(
        st.sampled_from([(0, 1000), (1, 1000), (2, 1000), (3, 1000), (1, 250), (1, 300), (1, 500)])
    )
    count = draw(st.integers(1, 9))
    cpu, memory = draw(st.sampled_from([0, 0, 1, 3])), draw(st.sampled_from([0, 0, 1, 3]))
    return role(count, gpus=gpus, milli=milli, cpu_milli=cpu, memory_mib=memory)


@settings(max_examples=400, deadline=None)
@given(yards(), roles(), st.integers(0, 2))
def test_count_hosts_equals_the_oracle(yard: Yard, role: Role, luck: int):
    """Each node hosts as many replicas as the oracle counts, and their sum is returned."""
    columns = Columns(yard, luck)
    expected = oracle.hosts(yard, role)
    assert columns.count_hosts(role) == sum(expected)
    assert columns.ground.hosts[0].tolist() == expected
    assert columns.agrees_with(yard)


@settings(max_examples=400, deadline=None)
@given(yards(), roles(), st.lists(roles(), min_size=1, max_size=4), st.integers(0, 2))
def test_what_nodes_could_take_is_kept_as_they_change(
    yard: Yard, asked: Role, others: list[Role], luck: int
):
    """After others were placed, and taken away again, it is what the oracle counts anew."""
    columns = Columns(yard, luck)
    columns.keep_count(asked)
    for other in others:
        expected = oracle.hosts(yard, asked)
        assert columns.kept_count() == (sum(expected), expected)
        oracle.fill(yard, other, False)
        placed = columns.fill(other, False)
        expected = oracle.hosts(yard, asked)
        assert columns.kept_count() == (sum(expected), expected)
        for piece in placed[:1] if isinstance(placed, list) else ():
            columns.give(other, piece, 1)
            oracle.give(yard, other, piece, 1)
    expected = oracle.hosts(yard, asked)
    assert columns.kept_count() == (sum(expected), expected)


@settings(max_examples=800, deadline=None)
@given(yards(), st.lists(roles(), min_size=1, max_size=3), st.booleans(), st.integers(0, 2))
def test_fill_equals_the_oracle(yard: Yard, asked: list[Role], spreads: bool, luck: int):
    """Roles placed one after the other take the same nodes and devices as the oracle's."""
    columns = Columns(yard, luck)
    for wanted in asked:
        before = sum(oracle.hosts(yard, wanted))
        expected = oracle.fill(yard, wanted, spreads)
        found = columns.fill(wanted, spreads)
        assert found == (min(before, oracle.PLENTY) if expected is None else expected)
        assert columns.agrees_with(yard)


@settings(max_examples=300, deadline=None)
@given(yards(), roles(), st.booleans())
def test_give_undoes_fill(yard: Yard, role: Role, spreads: bool):
    """Pieces given back one by one leave the room as it was; taken again, as it became."""
    columns, untouched = Columns(yard, 0), Columns(yard, 0)
    placed = columns.fill(role, spreads)
    if isinstance(placed, int):
        assert columns.agrees_with(yard)
        return
    filled = columns.device_free.copy()
    for piece in placed:
        columns.give(role, piece, 1)
    assert columns.agrees_with(yard)
    for piece in placed:
        columns.give(role, piece, -1)
        oracle.give(yard, role, piece, -1)
    assert columns.device_free.tolist() == filled.tolist()
    assert columns.agrees_with(yard)
    assert untouched.device_free.tolist() != filled.tolist() or not role.accelerators


def test_the_last_device_of_the_largest_node_is_in_the_mask():
    """A node of 64 devices is a full 64-bit mask, and is given back whole."""
    yard = Yard([True], [0], [0], [[1000] * 64], [[False] * 64])
    columns = Columns(yard, 0)
    assert columns.fill(role(8, gpus=8), spreads=False) == [(0, 8, 2**64 - 1)]
    columns.give(role(8, gpus=8), (0, 8, 2**64 - 1), 1)
    assert columns.agrees_with(yard)
