"""From the sizes of a job to the bonds of its replicas."""

from tests.builders import NODE, PAIR, RACK, SPINE, job
from tidemill.model.topology import UNDECLARED, Bond, Parallelism, Topology
from tidemill.units import parallelism

TOPOLOGY = Topology((SPINE, RACK, NODE, PAIR))


def bonds(per_node: int, **sizes: int) -> tuple[Bond, ...]:
    stated = Parallelism(**sizes)
    gpus = parallelism.ranks(stated)
    row = job("t", gpus=gpus, per_node=per_node, parallelism=stated)
    return parallelism.bonds(TOPOLOGY, row.shape)[0]


def wished(*pairs: tuple[str, int]) -> tuple[Bond, ...]:
    return tuple(Bond(tier, each, is_required=False) for tier, each in pairs)


def test_tensor_groups_go_inside_pipelines_near_and_data_across():
    """Replicas of four: a tensor group is two of them on a node, a pipeline eight in a rack."""
    found = bonds(4, tensor=8, pipeline=4, data=2)
    assert found == wished(("node", 2), ("node", 8), ("rack", 16))


def test_small_groups_go_to_the_smallest_block_that_holds_them():
    """Tensor groups of two single devices fit a pair; of four, the node."""
    assert bonds(1, tensor=2, data=2)[0] == Bond("pair", 2, is_required=False)
    assert bonds(1, tensor=4, data=2)[0] == Bond("node", 4, is_required=False)


def test_expert_groups_are_made_of_data_ranks():
    """An expert group spans its tensor groups; it is not one more factor of the size."""
    stated = Parallelism(tensor=2, expert=4, data=8)
    assert parallelism.ranks(stated) == 16
    assert dict(parallelism.groups(stated)) == {"tensor": 2, "expert": 8, "data": 16}


def test_sizes_that_are_not_those_of_the_job_tie_nothing():
    """Where no role has as many accelerators as the sizes multiply to, nothing is derived."""
    row = job("t", gpus=16, parallelism=Parallelism(tensor=8, data=4))
    assert parallelism.bonds(TOPOLOGY, row.shape) == ((),)
    assert parallelism.worker(row.shape) == -1


def test_a_fleet_without_tiers_ties_nothing():
    """Nobody knows where anything is: no bonds."""
    row = job("t", gpus=16, parallelism=Parallelism(tensor=8, data=2))
    assert parallelism.bonds(UNDECLARED, row.shape) == ((),)
