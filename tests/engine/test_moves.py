"""Moving, growing and shrinking: both places are held, a resize loses nothing, books are kept."""

import pytest

from tests.builders import (
    cancel,
    finish,
    fleet,
    job,
    leave,
    lose_device,
    lose_node,
    move_node,
    pass_ms,
    place,
    role,
    start,
    submit,
    team,
)
from tests.engine import audit
from tidemill.core import snapshot
from tidemill.engine.check import violations
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS, SECOND_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.units import speedup

HERE, THERE = Piece(0, 0, 1, 0b11), Piece(0, 1, 1, 0b11)


def on_the_way() -> World:
    """Job `m` of two devices, an hour at work on node 0, was asked to go to node 1."""
    world = fleet(nodes=3)
    submit(world, job("m", gpus=2, saves_every_ms=25 * MINUTE_MS), job("w", gpus=1))
    place(world, "m", HERE)
    start(world, "m")
    pass_ms(world, HOUR_MS)
    fold(world, ev.AskedMove(HOUR_MS, 0, 1, ev.Why.MOVED, (THERE,), (HERE,), 1))
    return world


def elastic(count: int = 4, least: int = 1) -> World:
    """Job `e` runs with two of four replicas of one device each, at half its speed."""
    world = fleet(nodes=2)
    submit(world, job("e", roles=[role(count, least=least)], resize_ms=30 * SECOND_MS))
    place(world, "e", Piece(0, 0, 2, 0b11))
    start(world, "e")
    return world


def audited(world: World) -> World:
    """The World, after all of its books were added up again; and it survives a copy."""
    for check in (audit.audit_devices, audit.audit_levels, audit.audit_teams, audit.audit_jobs):
        check(world)
    audit.audit_gangs(world)
    assert snapshot.digest(snapshot.copy(world)) == snapshot.digest(world)
    return world


def test_a_mover_holds_both_places_until_it_is_seen_to_have_left():
    """Four devices are taken, of two nodes; then two, of the new one, by the next attempt."""
    world = audited(on_the_way())
    assert world.nodes.free_milli[:2].tolist() == [6000, 6000]
    assert world.used[0, 0] == 4000
    leave(world)
    audited(world)
    assert world.nodes.free_milli[:2].tolist() == [8000, 6000]
    assert world.placements == {0: (THERE,)}
    assert world.jobs.attempt[0] == 2
    assert world.jobs.state[0] == JobState.STARTING
    assert world.promised == {1: 0}


def test_a_move_keeps_what_was_saved_and_a_resize_all_of_it():
    """Of an hour with a checkpoint every 25 minutes, 50 last a move; all of it a resize."""
    world = on_the_way()
    leave(world)
    assert world.jobs.saved_ms[0] == 50 * MINUTE_MS
    world = elastic()
    pass_ms(world, HOUR_MS)
    fold(world, ev.AskedMove(HOUR_MS, 0, 1, ev.Why.GROWN, (Piece(0, 1, 2, 0b11),)))
    leave(audited(world))
    assert world.jobs.saved_ms[0] == HOUR_MS // 2  # at half speed
    assert world.jobs.speed_ppm[0] == 1_000_000
    audited(world)


def test_a_part_of_a_piece_can_be_given_up():
    """A shrink leaves the other devices of the node with the job, which stays aboard."""
    world = elastic()
    fold(world, ev.AskedMove(0, 0, 1, ev.Why.SHRUNK, (), (Piece(0, 0, 1, 0b10),)))
    leave(world)
    assert world.placements == {0: (Piece(0, 0, 1, 0b01),)}
    assert world.jobs.speed_ppm[0] == 250_000
    audited(world)


@pytest.mark.parametrize("to", [NodeState.UNHEALTHY, NodeState.CORDONED, NodeState.DRAINING])
def test_a_move_whose_target_is_lost_is_off(to: NodeState):
    """The job stays where it is, works on, and is asked for nothing; the room is given back."""
    world = on_the_way()
    move_node(world, 1, to)
    audited(world)
    assert world.placements == {0: (HERE,)}
    assert not world.moving
    assert not world.leaving_for
    assert world.jobs.state[0] == JobState.RUNNING
    assert world.used[0, 0] == 2000


def test_a_device_lost_at_the_target_calls_a_move_off():
    """One of the devices it was to have fails: it stays."""
    world = on_the_way()
    lose_device(world, 1, 1)
    assert audited(world).placements == {0: (HERE,)}


def test_whatever_ends_a_mover_frees_both_places():
    """Its node is lost, it is done, its owner cancels it: nothing is held any more."""
    for end in (lambda w: lose_node(w, 0), lambda w: finish(w, "m"), lambda w: cancel(w, "m")):
        world = on_the_way()
        end(world)
        audited(world)
        assert not world.placements
        assert world.nodes.free_milli[1] == 8000


def test_a_mover_is_asked_for_nothing_else():
    """Neither an eviction nor a second move of it is taken."""
    world = on_the_way()
    with pytest.raises(Exception, match="asked to leave already"):
        fold(world, ev.AskedEvict(HOUR_MS, 0, 1, ev.Why.DRAINED))
    with pytest.raises(Exception, match="it was not asked to stop"):
        fold(world, ev.JobEvicted(HOUR_MS, 0, 1))


# The second reader ----------------------------------------------------------------------------


def found(world: World, *actions: ev.AskedMove) -> str:
    return "; ".join(violations(world, ev.Plan(actions), Policy()))


def test_the_second_reader_knows_a_right_move():
    """A whole gang to free devices, for one that waits: nothing is wrong with it."""
    world = on_the_way()
    leave(world)
    start(world, "m")
    move = ev.AskedMove(HOUR_MS, 0, 2, ev.Why.MOVED, (Piece(0, 2, 1, 0b11),), (THERE,), 1)
    assert found(world, move) == ""


def test_the_second_reader_finds_what_is_wrong_with_a_move():
    """Not whole, to what is taken, for nobody, of what is not held, growth that is none."""
    world = elastic()
    submit(world, job("high", priority=1), job("theirs", gpus=8))
    held = Piece(0, 0, 2, 0b11)
    two, three = Piece(0, 1, 2, 0b11), Piece(0, 1, 3, 0b111)
    cases = {
        "without a reason": ev.AskedMove(0, 0, 1, ev.Why.MOVED, (two,), (held,)),
        "not whole": ev.AskedMove(0, 0, 1, ev.Why.MOVED, (two,), (), 1),
        "over-committed": ev.AskedMove(0, 0, 1, ev.Why.GROWN, (held,)),
        "gets 5 of 4": ev.AskedMove(0, 0, 1, ev.Why.GROWN, (three,)),
        "gets 0 of 4": ev.AskedMove(0, 0, 1, ev.Why.SHRUNK, (), (held,), 1),
        "does not grow": ev.AskedMove(0, 0, 1, ev.Why.GROWN, (two,), (), 1),
        "does not shrink": ev.AskedMove(0, 0, 1, ev.Why.SHRUNK, (), (Piece(0, 0, 1, 1),)),
        "does not hold": ev.AskedMove(0, 0, 1, ev.Why.SHRUNK, (), (Piece(0, 0, 1, 4),), 1),
        "no reason that moves": ev.AskedMove(0, 0, 1, ev.Why.DRAINED, (two,), (held,), 1),
        "not running": ev.AskedMove(0, 1, 1, ev.Why.MOVED, (two,), (), 1),
    }
    for words, action in cases.items():
        assert words in found(world, action), words


def test_the_second_reader_guards_what_is_not_lent():
    """A team that borrows nothing does not shrink for another one."""
    world = fleet(nodes=1, teams=[team("a", floor=8), team("b")])
    submit(world, job("e", roles=[role(4, least=1)]), job("theirs", team="b", priority=9))
    place(world, "e", Piece(0, 0, 4, 0b1111))
    start(world, "e")
    shrink = ev.AskedMove(0, 0, 1, ev.Why.SHRUNK, (), (Piece(0, 0, 1, 1),), 1)
    assert "borrows nothing" in found(world, shrink)


# Speed ----------------------------------------------------------------------------------------


def test_a_speed_up_is_a_line_between_its_points():
    """Linear without points; with them a line from nothing to each, and to full speed."""
    shape = elastic().shape_rows[0]
    assert [speedup.speed_ppm(shape, m) for m in (1, 2, 4)] == [250_000, 500_000, 1_000_000]
    submit(
        world := fleet(nodes=1),
        job("c", roles=[role(8, least=1)], speedup=[(2, 400_000), (4, 700_000)]),
    )
    curve = world.shape_rows[0]
    speeds = [speedup.speed_ppm(curve, m) for m in (1, 2, 3, 4, 6, 8)]
    assert speeds == [200_000, 400_000, 550_000, 700_000, 850_000, 1_000_000]


def test_work_and_time_are_exact_in_whole_milliseconds():
    """Done work is rounded down and time to do it up: never more work than was paid for."""
    for speed in (1, 333_333, 700_000, 1_000_000):
        for work in (1, 7, 1_000_003):
            took = speedup.time_ms(work, speed)
            assert speedup.work_ms(took, speed) >= work
            assert speedup.work_ms(took - 1, speed) < work


def test_the_twin_resumes_a_resized_job_at_its_new_speed():
    """Half an hour at half speed, a pause, and the other three quarters of its work at full."""
    world = fleet(nodes=2)
    row = job("e", roles=[role(4, least=1)], resize_ms=30 * SECOND_MS)
    twin = Twin([world.contract_rows[0]], [team("a")], [(0, row, HOUR_MS)])
    told = _told(twin)
    assert told["moved"] == 30 * MINUTE_MS
    assert told["started"] == 30 * MINUTE_MS + 30 * SECOND_MS
    assert told["finished"] == told["started"] + 45 * MINUTE_MS


def _told(twin: Twin) -> dict[str, int]:
    """Play by hand: place on two devices, grow to four after half an hour; when did what happen?"""
    world, told = World(), dict[str, int]()
    while (at_ms := twin.next_ms()) is not None:
        for event in twin.take(world):
            fold(world, event)
            told |= {str(event.__struct_config__.tag).removeprefix("job_"): event.at_ms}
        actions: list[ev.Action] = []
        if at_ms == 0 and world.contract_count and not world.contracts.asked_nodes[0]:
            if not world.node_count:
                actions.append(ev.AskedLaunch(0, 0, 2))
            elif world.nodes.state[0] == NodeState.READY and not world.placements:
                actions.append(ev.AskedPlace(0, 0, 1, (Piece(0, 0, 2, 0b11),)))
        if at_ms == 30 * MINUTE_MS and world.jobs.attempt[0] == 1:
            actions.append(ev.AskedMove(at_ms, 0, 1, ev.Why.GROWN, (Piece(0, 0, 2, 0b1100),)))
        for action in actions:
            fold(world, action)
        twin.carry_out(world, ev.Plan(tuple(actions), 30 * MINUTE_MS if at_ms == 0 else 1 << 62))
    return told
