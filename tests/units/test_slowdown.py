"""What a worse place costs a gang, in parts per million."""

from tidemill.model.topology import Parallelism, Tier, Topology
from tidemill.units import links, slowdown
from tidemill.units.links import Link

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
BEST = (("tensor", NODE), ("pipeline", RACK), ("data", SPINE))


def slow(**worse: int) -> int:
    """Of a Llama on H100, with some of its groups further apart than at best."""
    here = tuple((name, worse.get(name, hop)) for name, hop in BEST)
    found = slowdown.slow_ppm(TOPOLOGY, LLAMA, "H100", 8, here, BEST)
    assert found is not None
    return found


def test_oversubscription_divides_bandwidth():
    """Four to one leaves a quarter; beyond every tier it is as in the outermost."""
    spine = links.link(TOPOLOGY, SPINE)
    assert spine == Link(12.5e9, 5e-6)
    assert links.link(TOPOLOGY, APART) == spine
    assert links.link(Topology((Tier("rack", "rack"),)), 1) is None


def test_the_best_placement_is_not_slowed():
    """Where every group crosses what it would cross at best, a step takes as long."""
    assert slow() == 0


def test_tensor_groups_across_racks_cost_more_than_pipelines_across_racks():
    """What is said in every layer is dearest to move away; so the order of the bonds is right."""
    assert slow(tensor=SPINE) > 10 * slow(pipeline=SPINE) > 0
    assert slow(tensor=SPINE) > slow(tensor=RACK) > 0


def test_gradients_that_run_behind_compute_cost_little_to_move_away():
    """Data ranks meet once a step, most of it behind the last backward pass."""
    near = (("tensor", NODE), ("pipeline", RACK), ("data", RACK))
    found = slowdown.slow_ppm(TOPOLOGY, LLAMA, "H100", 8, BEST, near)
    assert found is not None
    assert 0 < found < 50_000


def test_a_share_on_links_grows_as_bandwidth_shrinks():
    """A fifth of the time on links at four times less bandwidth: 60 % longer."""
    assert slowdown.share_slow_ppm(TOPOLOGY, 200_000, SPINE, RACK) == 600_000
    assert slowdown.share_slow_ppm(TOPOLOGY, 200_000, RACK, RACK) == 0


def test_what_is_unknown_is_not_priced():
    """Without the model, the kind or a bandwidth there is no price, and none is made up."""
    worse = (("tensor", RACK), ("pipeline", RACK), ("data", SPINE))
    assert slowdown.slow_ppm(TOPOLOGY, LLAMA, "abacus", 8, worse, BEST) is None
    unknown = Parallelism(tensor=8, data=2)
    hops = (("tensor", NODE), ("data", RACK))
    assert slowdown.slow_ppm(TOPOLOGY, unknown, "H100", 8, hops, hops) is None
    dark = Topology((Tier("rack", "rack"), Tier("node")))
    assert slowdown.slow_ppm(dark, LLAMA, "H100", 8, worse, worse) is None
    assert slowdown.share_slow_ppm(dark, 200_000, 1, 2) == 0


def test_the_stated_figures_make_the_model():
    """70 billion parameters in 80 layers of 8,192 are what the model then has, within 1 %."""
    model = slowdown.model_of(LLAMA)
    assert model is not None
    matrices = model.layers * (4 * model.hidden**2 + 2 * model.hidden * model.width)
    assert abs(matrices / 70e9 - 1) < 0.01
