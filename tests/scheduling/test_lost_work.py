"""What it would cost to stop a job now."""

from tests.builders import beat, fleet, job, pass_ms, submit
from tidemill.model.measures import MINUTE_MS
from tidemill.model.states import JobClass
from tidemill.scheduling.preemption.cost import lost_ms


def test_a_training_job_loses_what_it_did_since_its_checkpoint():
    """Work after the last checkpoint, start-up and restart are lost."""
    world = fleet()
    submit(world, job("t", saves_every_ms=10 * MINUTE_MS, startup_ms=3, restart_ms=4))
    beat(world)
    pass_ms(world, 25 * MINUTE_MS)
    assert lost_ms(world, 0) == 5 * MINUTE_MS + 3 + 4


def test_a_service_loses_only_the_way_back():
    """What a service or a notebook did was worth something at once."""
    world = fleet()
    submit(world, job("s", kind=JobClass.INFERENCE, startup_ms=3, restart_ms=4))
    beat(world)
    pass_ms(world, 25 * MINUTE_MS)
    assert lost_ms(world, 0) == 7


def test_a_job_without_checkpoints_loses_everything():
    """Without checkpoints all work is at risk until the end."""
    world = fleet()
    submit(world, job("t"))
    beat(world)
    pass_ms(world, 25 * MINUTE_MS)
    assert lost_ms(world, 0) == 25 * MINUTE_MS
