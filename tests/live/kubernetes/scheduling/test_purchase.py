"""Who is an order for a node, and who only waits for somebody else's."""

from tests.live.kubernetes.scheduling.pretended import Scheduler
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.explain import said
from tidemill.live.kubernetes.scheduling.saying import WaitSayer
from tidemill.model.policy import Policy


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
