"""Who is an order for a node, and who only waits for somebody else's."""

from msgspec.structs import replace

from tests.builders import fleet, job, role, submit
from tests.live.kubernetes.scheduling.pretended import Scheduler
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.explain import said
from tidemill.live.kubernetes.scheduling import purchase
from tidemill.live.kubernetes.scheduling.saying import WaitSayer
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.topology import Bond, Tier


def test_who_would_fit_and_is_behind_a_reservation_is_no_order_for_a_node():
    """One node of two is held for an hour, a gang is to have both then, and a pod fits on one."""
    story = Story(8, 8)
    story.scheduler = Scheduler(story.server, story.journal, Policy(order="fifo", backfill="easy"))
    trains = ("batch/v1", "Job", "busy")  # a service would not end
    story.server.make("busy", 8, owner=trains, annotations={"tidemill/expected-duration": "1h"})
    story.rest()
    for i in range(2):
        story.server.make(f"g{i}", 8, gang="g", size=2)
    story.rest()
    story.server.make("late", 8)
    story.rest()
    differ = story.scheduler.differ
    sayer = WaitSayer(story.server, differ, said, "tidemill")  # type: ignore[arg-type]
    told = {unit.name: sayer.reason_of(unit) for unit in differ.view.units()}
    assert {name: found.reason for name, found in told.items() if found is not None} == {
        "g": "Unschedulable", "late": "Waiting",
    }  # fmt: skip
    assert told["late"] is not None
    assert told["late"].words == "behind a backfill reservation"


def test_a_gang_that_selects_the_rack_it_requires_is_an_order_for_a_node_there():
    """3 × 8 in one rack, where each of two has two nodes of 8: with the rack named, a node in it
    would do. Without, nobody knows where a new node will be.
    """
    racks = [{"topology.kubernetes.io/rack": rack} for rack in ("a", "a", "b", "b")]
    world = fleet(node_labels=racks, topology=[Tier("rack", "topology.kubernetes.io/rack")])
    for labels, is_order in ((racks[0], True), ({"topology.kubernetes.io/rack": "c"}, False),
                             ({}, False)):  # fmt: skip
        made = job(f"g{len(labels)}{is_order}", roles=[role(3, gpus=8, labels=labels)])
        submit(world, replace(made, shape=replace(made.shape, bonds=(Bond("rack"),))))
        told = purchase.helps(world, world.shape_rows[-1], Cause.IMPOSSIBLE_GANG)
        assert told == ("" if is_order else None)
