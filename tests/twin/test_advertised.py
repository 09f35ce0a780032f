"""Accelerators that a node has and does not advertise: paid, and nobody can have them."""

import pytest
from msgspec.structs import replace

from tests.builders import beat, contract, fleet, job, lose_device, move_node, placed, submit
from tests.ledger.sums import amounts
from tidemill import api, explain
from tidemill.core import snapshot
from tidemill.ledger.buckets import Bucket
from tidemill.model.columns import NODE
from tidemill.model.errors import SpecError
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.twin.spec import fleet_spec

SPEC = """
[twin]
horizon = "2d"

[[contract]]
name = "c"
kind = "H100"
count = 16
usd_per_hour = 2
advertised = {advertised}
terms = "{terms}"

[[team]]
name = "a"

[[job]]
name = "j"
team = "a"
at = "1h"
accelerators = 6
work = "10h"
"""


def six_of_eight(nodes: int = 1) -> Contract:
    row = contract(gpus=8 * nodes)
    return replace(row, node=replace(row.node, advertised=6))


def free_gpus(world: World) -> int:
    return int(world.nodes.free_milli[: world.node_count].sum()) // 1000


def test_what_is_not_advertised_is_given_to_nobody():
    """Of 8 GPUs 6 are shown: one who asks for 8 waits, and `why` says what is missing."""
    world = fleet(six_of_eight())
    assert free_gpus(world) == 6
    submit(world, job("six", gpus=6), job("eight", gpus=8))
    assert set(placed(world, beat(world))) == {"six"}
    answer = explain.why(world, Policy(), world.job_number["eight"])
    assert answer.cause == "not_enough_ready"
    assert "2 not advertised (advertises 6 of 8) on 1 node" in answer.words
    assert "mend the device plugin or the driver of" in answer.words


def test_no_repair_is_asked_for_it_and_none_brings_it_back():
    """A node that shows 6 of 8 is well; after a device failed and was repaired it shows 6 again."""
    world = fleet(six_of_eight())
    beat(world)
    assert NodeState(world.nodes.state[0]) is NodeState.READY
    assert not world.nodes.asked[0]
    lose_device(world, 0, 1)
    assert free_gpus(world) == 5
    for state in (NodeState.UNHEALTHY, NodeState.REPAIRING, NodeState.BOOTING, NodeState.READY):
        move_node(world, 0, state)
    assert free_gpus(world) == 6
    again = snapshot.load(snapshot.dump(world))
    assert again.matrices.nodes.item(0, NODE.UNADVERTISED) == 2
    assert snapshot.digest(again) == snapshot.digest(world)


def test_a_twin_books_it_as_unhealthy():
    """Two nodes of 8 that show 6 each, for two days: 4 GPUs are out of service while they are up.

    Failures come on top of that, and never of what is not shown.
    """
    run = api.simulate(fleet_spec.parse(SPEC.format(advertised=6, terms="reserved")))
    found, whole = amounts(run.statement, "bucket"), run.statement.total()
    assert sum(found.values()) == whole.paid_milli_ms
    up = whole.paid_milli_ms - found.get((Bucket.NOT_LAUNCHED,), 0)
    assert found[(Bucket.UNHEALTHY,)] >= up // 4
    all_shown = api.simulate(fleet_spec.parse(SPEC.format(advertised=8, terms="reserved")))
    healthy = amounts(all_shown.statement, "bucket")
    assert found[(Bucket.UNHEALTHY,)] > healthy.get((Bucket.UNHEALTHY,), 0) + up // 5


@pytest.mark.parametrize(("advertised", "terms"), [(9, "reserved"), (6, "on_demand")])
def test_what_cannot_be_is_refused(advertised: int, terms: str):
    """More than a node has; or of nodes that are launched for what they give when all is well."""
    with pytest.raises(SpecError, match="advertised"):
        fleet_spec.parse(SPEC.format(advertised=advertised, terms=terms))
