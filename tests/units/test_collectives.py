"""What ranks say to each other, in seconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.units import collectives
from tidemill.units.links import Ladder, Link, LinkStep, RankGroup, two_levels

GB = 1e9
THIRTEEN_BILLION = 26 * GB  # bytes of its gradients in bf16


def test_a_ring_moves_each_byte_twice_past_all_ranks_but_one():
    """An all-reduce of 8 GB on 8 ranks at 100 GB/s: 2 · 7/8 · 8/100 s, and 14 latencies."""
    over = Link(100e9, 1e-3)
    assert collectives.all_reduce_s(8, 8e9, over) == pytest.approx(2 * 7 / 8 * 0.08 + 0.014)
    assert collectives.all_gather_s(8, 8e9, over) == pytest.approx(7 / 8 * 0.08 + 0.007)
    assert collectives.all_to_all_s(4, 8e9, over) == pytest.approx(3 / 4 * 0.08 + 0.003)
    assert collectives.point_to_point_s(1e9, over) == pytest.approx(0.011)
    assert collectives.all_reduce_s(1, 8e9, over) == 0
    assert collectives.tree_all_reduce_s(1, 8e9, over) == 0


@pytest.mark.parametrize(
    ("gb_per_s", "ms"),
    [(900, 50.6), (450, 101.1), (64, 710.9)],
)
def test_the_worked_example_of_one_node(gb_per_s: float, ms: float):
    """13 billion parameters on 8 ranks: each sends 45.5 GB. NVLink's 900 GB/s is both directions,
    so 101.1 ms is the honest figure, and PCIe (64 in one direction) is 7 times slower, not 14.
    """
    over = Link(gb_per_s * GB, 0)
    assert 2 * 7 / 8 * THIRTEEN_BILLION == 45.5 * GB
    assert round(1000 * collectives.all_reduce_s(8, THIRTEEN_BILLION, over), 1) == ms


@pytest.mark.parametrize(("oversubscription", "ms"), [(1, 121.9), (2, 243.8), (4, 487.5)])
def test_the_worked_example_of_two_nodes(oversubscription: int, ms: float):
    """The same on 16 ranks: 48.75 GB each, past eight cards of 50 GB/s: 400 GB/s a node; a network
    oversubscribed 2:1 or 4:1 takes twice or four times as long.
    """
    outer = Link(50 * GB / oversubscription, 0)
    group = two_levels(8, Link(450 * GB, 0), outer).group(16)
    assert 2 * 15 / 16 * THIRTEEN_BILLION == 48.75 * GB
    ways = collectives.all_reduce_ways(group, THIRTEEN_BILLION)
    assert round(1000 * ways["ring"], 1) == ms
    if oversubscription == 1:
        assert collectives.all_reduce(group, THIRTEEN_BILLION) == ways["ring"]


def test_small_messages_take_the_tree_and_large_ones_the_ring():
    """A ring has as many latencies as ranks, a tree as many as it is deep."""
    group = two_levels(8, Link(300 * GB, 1e-6), Link(20 * GB, 10e-6)).group(1024)
    small = collectives.all_reduce_ways(group, 64e3)
    large = collectives.all_reduce_ways(group, 10 * GB)
    assert small["tree"] < small["ring"]
    assert large["ring"] < large["tree"]
    assert collectives.all_reduce(group, 64e3) == min(small.values())


def test_two_levels_help_where_one_card_carries_a_group():
    """Across nodes of slow cards an eighth of the data crosses after it was summed inside."""
    group = RankGroup(64, 8, Link(300 * GB, 0), Link(1 * GB, 0))
    ways = collectives.all_reduce_ways(group, 1 * GB)
    inside = 2 * 7 / 8 / 300
    assert ways["hierarchical"] == pytest.approx(inside + 2 * 7 / 8 / 8)
    assert ways["ring"] == pytest.approx(2 * 63 / 64 / 8)


def test_all_to_all_waits_for_the_slower_level():
    """Of 16 ranks on two nodes, eight parts of each rank's data cross, on its own card."""
    group = two_levels(8, Link(450 * GB, 0), Link(50 * GB, 0)).group(16)
    assert collectives.all_to_all(group, 16 * GB) == pytest.approx(8 / 50)
    assert collectives.send(group, 1 * GB) == pytest.approx(1 / 50)


def test_a_measured_table_is_used_between_its_rows():
    """Between 1 MB at 10 GB/s and 100 MB at 30 GB/s, 10 MB go at 20 GB/s; beyond, as at the end."""
    over = Link(50 * GB, 0, ((1e6, 10 * GB), (100e6, 30 * GB)))
    assert over.rate(10e6) == pytest.approx(20 * GB)
    assert over.rate(1e3) == 10 * GB
    assert over.rate(1e9) == 30 * GB
    assert collectives.point_to_point_s(10e6, over) == pytest.approx(10e6 / (20 * GB))


def test_a_group_lies_on_the_ladder_by_its_stride():
    """Data ranks eight apart have one rank a node; tensor ranks next to each other share one."""
    ladder = two_levels(8, Link(450 * GB, 0), Link(50 * GB, 0))
    assert ladder.group(8).domains == 1
    assert ladder.group(4, 8) == RankGroup(4, 1, Link(450 * GB, 0), Link(50 * GB, 0))
    assert ladder.group(16, 4).inside == 2


def test_the_worst_rung_on_the_way_counts():
    """A faster core above a slow rack does not help what has to leave the rack."""
    rack, core = Link(10 * GB, 0), Link(40 * GB, 0)
    ladder = Ladder((LinkStep(8, Link(450 * GB, 0)), LinkStep(64, rack), LinkStep(4096, core)))
    assert ladder.across(4096) == rack
    assert ladder.group(32, 8).outer == rack


@given(
    nodes=st.integers(1, 64),
    each=st.sampled_from([1, 2, 4, 8]),
    size=st.floats(1e3, 1e11),
    factor=st.floats(1.0, 10.0),
)
def test_a_slower_network_never_makes_a_collective_faster(
    nodes: int, each: int, size: float, factor: float
):
    """Whatever way is taken: less bandwidth outside is never less time, nor is more data."""
    inner = Link(300 * GB, 3e-6)
    fast = RankGroup(nodes * each, each, inner, Link(25 * GB, 1e-5))
    slow = RankGroup(nodes * each, each, inner, Link(25 * GB / factor, 1e-5))
    for collective in (collectives.all_reduce, collectives.all_gather, collectives.all_to_all):
        assert collective(slow, size) >= collective(fast, size)
        assert collective(fast, 2 * size) >= collective(fast, size)
