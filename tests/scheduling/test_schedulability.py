"""Schedulability says what a search over every arrangement says, and in milliseconds."""

import time
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import beat, contract, fleet, job, lose_device, place, role, submit, team
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Piece
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.scheduling import demand_mix as mixing
from tidemill.scheduling.demand_mix import Mix
from tidemill.scheduling.schedulability import Fits, FreeLot, survey

STEP = 250  # fractions are of quarters, so that every arrangement can be tried


# Brute force ----------------------------------------------------------------------------------


def open_nodes(world: World, kind: str, pool: str) -> list[int]:
    """Nodes of a lot that take work."""
    return [
        n for n in range(world.node_count)
        if world.nodes.state[n] == NodeState.READY and not world.nodes.is_spare[n]
        and world.kinds[world.nodes.kind[n]] == kind
        and pool in ("", world.groups[world.nodes.group[n]].pool)
    ]  # fmt: skip


def working(world: World, n: int) -> list[int]:
    """Free milli of each device of a node that works."""
    first = int(world.nodes.first_device[n])
    devices = range(first, first + int(world.nodes.devices[n]))
    return [int(world.devices.free_milli[d]) for d in devices if not world.devices.is_failed[d]]


def replicas_on(free: list[int], accelerators: int, milli: int) -> int:
    """Replicas that devices with this much free host, taken one after another."""
    left, hosted = list(free), 0
    while True:
        able = [d for d, part in enumerate(left) if part >= milli][:accelerators]
        if len(able) < accelerators:
            return hosted
        for d in able:
            left[d] -= milli
        hosted += 1


def best_arrangement(world: World, nodes: list[int], accelerators: int, milli: int) -> int:
    """The most replicas that the free quarters host, over every way of laying them out."""
    sizes = tuple(len(working(world, n)) for n in nodes)
    if milli < WHOLE_MILLI:  # of one device: each may be filled as far as is best
        sizes = (1,) * sum(sizes)
    free = sum(sum(working(world, n)) for n in nodes) // STEP

    @cache
    def best(i: int, left: int) -> int:
        if i == len(sizes):
            return 0
        tops = range(min(left, sizes[i] * WHOLE_MILLI // STEP) + 1)
        return max(on_node(sizes[i], top) + best(i + 1, left - top) for top in tops)

    @cache
    def on_node(devices: int, quarters: int) -> int:
        """Whole devices of one node: it is best to fill one after another."""
        filled = [min(4, max(0, quarters - 4 * d)) * STEP for d in range(devices)]
        return replicas_on(filled, accelerators, milli)

    return best(0, free)


def asked(world: World) -> list[tuple[int, int, int, int, int, tuple[str, ...]]]:
    """Every role that arrived and wants accelerators."""
    return [
        (r.accelerators, r.milli, r.count, r.cpu_milli, r.memory_mib, r.kinds)
        for j in range(world.job_count)
        for r in world.shape_of(j).roles
        if r.accelerators
    ]


def hosts(world: World, n: int, wants: tuple[int, int, int, int, int, tuple[str, ...]]) -> int:
    """Replicas that one node hosts now, CPU and memory included."""
    accelerators, milli, _, cpu, memory, _ = wants
    most = replicas_on(working(world, n), accelerators, milli)
    if cpu:
        most = min(most, int(world.nodes.cpu_free_milli[n]) // cpu)
    if memory:
        most = min(most, int(world.nodes.memory_free_mib[n]) // memory)
    return most


def usable(world: World, kind: str, pool: str) -> int | None:
    """The mean over all arrivals of what jobs like each could take here."""
    came = [wants for wants in asked(world) if not wants[5] or kind in wants[5]]
    if not came:
        return None
    total = 0
    for wants in came:
        everywhere = sum(hosts(world, n, wants) for n in open_nodes(world, kind, ""))
        here = sum(hosts(world, n, wants) for n in open_nodes(world, kind, pool))
        total += here * wants[0] * wants[1] if everywhere >= wants[2] else 0
    return total // len(came)


# Random fleets --------------------------------------------------------------------------------


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Two small pools of H100 and one of A100, some devices lost, random work placed."""
    rows = [
        contract("a", gpus=4 * draw(st.integers(1, 3)), per_node=4, cpu_milli=16_000),
        contract("b", gpus=3 * draw(st.integers(1, 2)), per_node=3, pool="other"),
        contract("c", gpus=4, per_node=2, kind="A100", spares=draw(st.integers(0, 1))),
    ]
    world = fleet(*rows, teams=[team("a")])
    for n in draw(st.sets(st.integers(0, world.node_count - 1), max_size=2)):
        lose_device(world, n, draw(st.integers(0, 1)))
    for i in range(draw(st.integers(0, 9))):
        milli = draw(st.sampled_from([250, 500, 750, 1000, 1000, 1000]))
        wants = role(
            draw(st.integers(1, 3)),
            gpus=draw(st.integers(1, 3)) if milli == WHOLE_MILLI else 1,
            milli=milli,
            cpu_milli=draw(st.sampled_from([0, 0, 5_000])),
            kinds=draw(st.sampled_from([(), ("H100",), ("A100",)])),
        )
        submit(world, job(f"j{i}", roles=[wants]))
        if draw(st.booleans()):
            beat(world)
    return world


@given(world=worlds())
@settings(max_examples=120, deadline=None)
def test_every_count_is_what_a_search_finds(world: World):
    """Fits now is a placement one by one; consolidated is the best of all arrangements."""
    for lot in survey(world):
        nodes = open_nodes(world, lot.kind, lot.pool)
        assert lot.free_milli == sum(sum(working(world, n)) for n in nodes)
        assert lot.nodes == sum(any(working(world, n)) for n in nodes)
        for fits in lot.sizes:
            now = sum(replicas_on(working(world, n), fits.accelerators, fits.milli) for n in nodes)
            best = best_arrangement(world, nodes, fits.accelerators, fits.milli)
            assert (fits.now, fits.consolidated) == (now // fits.replicas, best // fits.replicas)
            assert fits.now <= fits.consolidated


@given(world=worlds())
@settings(max_examples=120, deadline=None)
def test_the_one_number_is_the_mean_over_arrivals(world: World):
    """Usable is what jobs like a random arrival could take; pools add up but for rounding."""
    lots = survey(world)
    for lot in lots:
        assert lot.usable_milli == usable(world, lot.kind, lot.pool)
        if lot.usable_milli is not None:
            assert lot.consolidated_milli is not None
            assert lot.usable_milli <= lot.consolidated_milli <= lot.free_milli
    parts = [lot for lot in lots if lot.pool]
    if not parts:
        return
    whole = next(lot for lot in lots if lot.kind == parts[0].kind)
    assert sum(lot.free_milli for lot in parts) == whole.free_milli
    if whole.usable_milli is not None:
        assert 0 <= whole.usable_milli - sum(lot.usable_milli or 0 for lot in parts) < len(parts)


# What it is for -------------------------------------------------------------------------------


def scattered() -> World:
    """Four nodes of eight, each with four accelerators taken."""
    world = fleet(nodes=4)
    submit(world, *(job(f"half{n}", gpus=4) for n in range(4)))
    for n in range(4):
        place(world, f"half{n}", Piece(0, n, 1, 0b1111))
    return world


def test_scattered_halves_are_counted_as_halves():
    """16 free on four nodes: no job of 8 fits, two would if they lay together."""
    world = scattered()
    submit(world, job("whole", gpus=8), job("gang", gpus=16))
    lot = survey(world)[0]
    assert lot.sizes == (
        Fits(1, 1000, 1, 0, 16, 16), Fits(2, 1000, 1, 0, 8, 8), Fits(4, 1000, 1, 4, 4, 4),
        Fits(8, 1000, 1, 1, 0, 2), Fits(8, 1000, 2, 1, 0, 1),
    )  # fmt: skip
    assert (lot.usable_milli, lot.consolidated_milli) == (16_000 * 4 // 6, 16_000)


def test_a_kind_that_nobody_asked_for_has_no_share():
    """Without arrivals nothing is said about what they could use."""
    world = fleet(contract("h", gpus=8), contract("t", gpus=8, kind="TPU"))
    submit(world, job("x", gpus=1, kinds=["H100"]))
    by_kind = {lot.kind: lot for lot in survey(world)}
    assert by_kind["H100"].usable_milli == 8_000
    assert (by_kind["TPU"].usable_milli, by_kind["TPU"].free_milli) == (None, 8_000)


def test_labels_and_hosts_count():
    """Free accelerators without the label, or without enough cores beside them, are not usable."""
    racks = [{"rack": "a"}, {"rack": "b"}]
    world = fleet(contract(gpus=16, cpu_milli=8_000), node_labels=racks)
    submit(world, job("x", gpus=1, cpu_milli=4_000, labels={"rack": "a"}))
    lot = survey(world)[0]
    assert (lot.free_milli, lot.usable_milli, lot.consolidated_milli) == (16_000, 2_000, 2_000)


def test_nothing_ready_is_an_empty_answer():
    """A World without nodes has nothing to say."""
    assert survey(World()) == ()


def test_the_mix_grows_with_the_world_and_stays_small(monkeypatch: pytest.MonkeyPatch):
    """Counting job by job is counting at once; a full table counts alike by accelerators."""
    monkeypatch.setattr(mixing, "ASKS_AT_MOST", 3)
    world, along = fleet(nodes=1), Mix()
    for i in range(6):
        submit(world, job(f"j{i}", gpus=1, cpu_milli=i), job(f"k{i}", gpus=2))
        along.update(world)
    submit(world, job("last", gpus=3))
    along.update(world)
    at_once = Mix()
    at_once.update(world)
    assert along.asks == at_once.asks
    assert [a.accelerators for a in along.asks] == [1, 2, 1]
    assert along.arrivals[:3].tolist() == at_once.arrivals[:3].tolist() == [5, 6, 1]
    assert along.left_out == at_once.left_out == 1


def test_twelve_thousand_nodes_take_milliseconds():
    """The survey of 12,500 nodes with forty different asks takes well under a second."""
    world = fleet(contract(gpus=100_000))
    submit(world, *(job(f"j{i}", gpus=1 + i % 8, cpu_milli=i % 5) for i in range(400)))
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        lots: tuple[FreeLot, ...] = survey(world)
        best = min(best, time.perf_counter() - start)
    assert lots[0].free_milli == 100_000_000
    assert best < 0.3
