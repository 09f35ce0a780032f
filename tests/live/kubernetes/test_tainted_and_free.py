"""GPUs that are free behind a taint: `fleet` says so where its counts leave them out."""

from tests.live.kubernetes.made import node, pod
from tests.live.kubernetes.test_import import world_of
from tidemill.cli import tolerations

SKU = [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}]
MAY = {"tolerations": [{"key": "sku", "operator": "Equal", "value": "gpu"}]}


def test_what_is_free_behind_a_taint_is_said_with_the_taint():
    """Six of eight are free for whoever tolerates the taint; without taints nothing is said."""
    world = world_of(node("n0", taints=SKU), node("n1"), pod("a", 2, on="n0", spec=MAY))
    usual = tolerations.of_resources(world)
    assert tolerations.left_out(world, usual.pairs) == (
        "fit now leaves out what is free behind taints that not every job tolerates: 6 GPUs"
        " (`sku=gpu`); usable counts with what jobs tolerate; `fit --tolerate sku` asks about one"
        " that does"
    )
    assert tolerations.on_nodes(world) == (
        "taints, which keep off what does not tolerate them: `sku=gpu` on 1 node"
    )
    plain = world_of(node("n0"), pod("a", 2, on="n0"))
    assert not tolerations.left_out(plain, ())
    assert not tolerations.on_nodes(plain)


def test_what_every_job_tolerates_is_not_left_out():
    """A taint called as the resource: admission adds the toleration, so it is counted as free."""
    taint = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    world = world_of(node("n0", taints=taint), node("n1"), pod("a", 2))
    assert not tolerations.left_out(world, tolerations.of_resources(world).pairs)
