"""The seam between paid and able to work, per contract."""

from tests.builders import beat, contract, fleet, job, lose_device, lose_node, submit
from tidemill.explain import why
from tidemill.model.policy import Policy
from tidemill.model.states import Terms
from tidemill.reservation.capacity_gap import Seam, seams

PRICE = 2_000_000


def test_a_healthy_contract_has_no_gap():
    """When all that is paid for can work, nothing is lost at the seam, busy or idle."""
    world = fleet(contract(gpus=16))
    submit(world, job("runs", gpus=8))
    beat(world)
    assert seams(world) == [Seam("c", 16_000, 16_000, 16_000, 0)]


def test_hot_spares_are_paid_and_not_schedulable():
    """`fleet` counted a hot spare as schedulable and free of charge, while `why` said of the same
    node at the same moment that it is not schedulable, and what is paid for it.
    """
    world = fleet(contract(gpus=16, spares=1, usd_micro_per_hour=PRICE))
    beat(world)
    assert seams(world) == [Seam("c", 16_000, 16_000, 8_000, 8 * PRICE)]
    submit(world, job("waits", gpus=16))
    beat(world)
    (spare,) = why(world, Policy(), world.job_number["waits"]).withheld
    assert (spare.place, spare.usd_micro_per_hour) == ("spare", 8 * PRICE)


def test_what_is_paid_and_cannot_work_has_its_price():
    """A lost node and a failed device are priced by the hour."""
    world = fleet(contract(gpus=24, usd_micro_per_hour=PRICE))
    lose_node(world, 0)
    lose_device(world, 1, 3)
    assert seams(world) == [Seam("c", 24_000, 24_000, 15_000, 9 * PRICE)]


def test_on_demand_is_paid_as_launched():
    """Of a contract by the hour only what is launched is paid."""
    world = fleet(contract(gpus=16, terms=Terms.ON_DEMAND))
    lose_node(world, 0)
    assert seams(world) == [Seam("c", 16_000, 16_000, 8_000, 8 * PRICE)]


def test_a_contract_that_does_not_run_has_no_seam():
    """Nothing is paid before the start."""
    assert seams(fleet(contract(start_ms=5))) == []
