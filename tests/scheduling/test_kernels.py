"""The compiled loops do exactly what their plain oracle does, ties and all."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import contract, fleet, lose_device, role
from tests.scheduling import oracle
from tests.scheduling.oracle import Yard
from tidemill.model.rows import Role
from tidemill.model.states import NodeState
from tidemill.scheduling import kernels


class Columns:
    """A yard as the columns that kernels read and write, with one group for open nodes."""

    def __init__(self, yard: Yard, luck: int) -> None:
        rows = len(yard.cpu)
        self.rows = rows
        shut = [_shut(luck + n) for n in range(rows)]
        ready = (int(NodeState.READY), 0, 0)
        states = [ready if yard.is_open[n] else shut[n] for n in range(rows)]
        self.state = np.array([state for state, _, _ in states], np.int64)
        self.is_spare = np.array([spare for _, spare, _ in states], np.int64)
        self.group = np.array([group for _, _, group in states], np.int64)
        self.is_ok = np.array([1, 0], np.int64)
        sizes = [len(devices) for devices in yard.free]
        self.devices = np.array(sizes, np.int64)
        self.first_device = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self.is_failed = np.array(flat(yard.is_failed), np.int64)
        self.device_free = np.array(flat(yard.free), np.int64)
        self.cpu = np.array(yard.cpu, np.int64)
        self.memory = np.array(yard.memory, np.int64)
        self.node_free = np.array([yard.node_free(n) for n in range(rows)], np.int64)
        self.hosts = np.zeros(rows, np.int64)

    def count_hosts(self, role: Role) -> int:
        return int(kernels.count_hosts(*self._both(), *_request(role), self.hosts))

    def fill(self, role: Role, spreads: bool) -> list[oracle.Placed] | int:
        """What was placed, or how many replicas would have fitted."""
        node, replicas = np.zeros(role.count, np.int64), np.zeros(role.count, np.int64)
        mask = np.zeros(role.count, np.uint64)
        found = kernels.fill(
            *self._both(), *_request(role), role.count, spreads, self.hosts, node, replicas, mask
        )
        if found < 0:
            return int(-found - 1)
        columns = (node[:found].tolist(), replicas[:found].tolist(), mask[:found].tolist())
        return list(zip(*columns, strict=True))

    def give(self, role: Role, piece: oracle.Placed, sign: int) -> None:
        n, replicas, mask = piece
        kernels.give(
            n, replicas, np.uint64(mask), *_request(role), self.first_device, self.cpu,
            self.memory, self.node_free, self.device_free, sign,
        )  # fmt: skip

    def agrees_with(self, yard: Yard) -> bool:
        return (
            self.device_free.tolist() == flat(yard.free)
            and self.cpu.tolist() == yard.cpu
            and self.memory.tolist() == yard.memory
            and self.node_free.tolist() == [yard.node_free(n) for n in range(self.rows)]
        )

    def _both(self) -> tuple[object, ...]:
        return (
            self.state, self.is_spare, self.group, self.first_device, self.devices,
            self.is_failed, self.is_ok, self.cpu, self.memory, self.node_free, self.device_free,
            self.rows,
        )  # fmt: skip


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
    assert columns.hosts.tolist() == expected
    assert columns.agrees_with(yard)


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


def test_kernels_cannot_write_what_is_sealed():
    """A kernel that would write into the World's own columns is refused by numba."""
    world = fleet(contract(gpus=2, per_node=2))
    lose_device(world, 0, 1)
    before = world.devices.free_milli[:2].tolist()
    nodes, devices = world.nodes, world.devices
    with pytest.raises(Exception, match="Cannot modify readonly array"):
        kernels.give(
            0, 1, np.uint64(1), 1, 1000, 0, 0, nodes.first_device, nodes.cpu_free_milli,
            nodes.memory_free_mib, nodes.free_milli, devices.free_milli, -1,
        )  # fmt: skip
    assert world.devices.free_milli[:2].tolist() == before
