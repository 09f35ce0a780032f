"""What ranks say to each other, in seconds and in parts per million."""

import pytest

from tidemill.model.topology import Parallelism, Tier, Topology
from tidemill.units import collectives
from tidemill.units.collectives import Link

TOPOLOGY = Topology(
    (
        Tier("spine", "spine", mb_per_s=50_000, latency_ns=5_000, oversubscription_milli=4000),
        Tier("rack", "rack", mb_per_s=50_000, latency_ns=3_000),
        Tier("node", mb_per_s=450_000, latency_ns=1_000),
    )
)
APART, SPINE, RACK, NODE = range(4)
LLAMA = Parallelism(
    tensor=8, pipeline=2, data=4,
    parameters_m=70_000, layers=80, hidden=8192, sequence=4096, batch=256,
)  # fmt: skip


def test_a_ring_moves_each_byte_twice_past_all_ranks_but_one():
    """An all-reduce of 8 GB on 8 ranks at 100 GB/s: 2 · 7/8 · 8/100 s, and 14 latencies."""
    over = Link(100e9, 1e-3)
    assert collectives.all_reduce_s(8, 8e9, over) == pytest.approx(2 * 7 / 8 * 0.08 + 0.014)
    assert collectives.all_gather_s(8, 8e9, over) == pytest.approx(7 / 8 * 0.08 + 0.007)
    assert collectives.reduce_scatter_s(8, 8e9, over) == collectives.all_gather_s(8, 8e9, over)
    assert collectives.all_to_all_s(4, 8e9, over) == pytest.approx(3 / 4 * 0.08 + 0.003)
    assert collectives.point_to_point_s(1e9, over) == pytest.approx(0.011)
    assert collectives.all_reduce_s(1, 8e9, over) == 0


def test_oversubscription_divides_bandwidth():
    """Four to one leaves a quarter; beyond every tier it is as in the outermost."""
    spine = collectives.link(TOPOLOGY, SPINE)
    assert spine == Link(12.5e9, 5e-6)
    assert collectives.link(TOPOLOGY, APART) == spine
    assert collectives.link(Topology((Tier("rack", "rack"),)), 1) is None


def test_the_best_placement_is_not_slowed():
    """Where every group crosses what it would cross at best, a step takes as long."""
    best = {"tensor": NODE, "pipeline": RACK, "data": SPINE}
    assert collectives.slow_ppm(TOPOLOGY, LLAMA, 989_000, best, best) == 0


def test_tensor_groups_across_racks_cost_more_than_pipelines_across_racks():
    """What is said in every layer is dearest to move away; so the order of the bonds is right."""
    best = {"tensor": NODE, "pipeline": RACK, "data": SPINE}
    slow = {
        name: collectives.slow_ppm(TOPOLOGY, LLAMA, 989_000, best | {name: SPINE}, best)
        for name in ("tensor", "pipeline")
    }
    assert slow["tensor"] is not None
    assert slow["pipeline"] is not None
    assert slow["tensor"] > 10 * slow["pipeline"] > 0


def test_a_share_on_links_grows_as_bandwidth_shrinks():
    """A fifth of the time on links at four times less bandwidth: 60 % longer."""
    assert collectives.share_slow_ppm(TOPOLOGY, 200_000, SPINE, RACK) == 600_000
    assert collectives.share_slow_ppm(TOPOLOGY, 200_000, RACK, RACK) == 0


def test_what_is_unknown_is_not_priced():
    """Without the model, the kind or a bandwidth there is no price, and none is made up."""
    hops = {"tensor": NODE}
    assert collectives.slow_ppm(TOPOLOGY, LLAMA, None, hops, hops) is None
    unknown = Parallelism(tensor=8, data=2)
    assert collectives.slow_ppm(TOPOLOGY, unknown, 989_000, hops, hops) is None
    dark = Topology((Tier("rack", "rack"), Tier("node")))
    assert collectives.slow_ppm(dark, LLAMA, 989_000, {"tensor": 2}, {"tensor": 2}) is None
    assert collectives.share_slow_ppm(dark, 200_000, 1, 2) == 0
