"""MIG instances as requests: where they go, who may not join them, and what is said of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import (
    asked,
    beat,
    carry_out,
    cause_of,
    contract,
    decide,
    evicted,
    finish,
    fleet,
    job,
    leave,
    pass_ms,
    place,
    placed,
    role,
    start,
    submit,
    team,
)
from tests.engine.audit import audit
from tidemill import explain
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Job, Piece, Role
from tidemill.model.world import World
from tidemill.scheduling import slices
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.snapshot import Snapshot
from tidemill.units.mig import geometry

MILLI = {"1g.10gb": 125, "1g.10gb+me": 125, "1g.20gb": 250, "2g.20gb": 250, "3g.40gb": 500,
         "4g.40gb": 500, "7g.80gb": 1000}  # fmt: skip


def cut(name: str, profile: str, count: int = 1, priority: int = 0) -> Job:
    """A job of MIG instances on H100."""
    return job(name, roles=[instances(profile, count)], priority=priority)


def instances(profile: str, count: int = 1) -> Role:
    return role(count, milli=MILLI[profile], profile=profile)


def states(world: World) -> list[int]:
    return world.devices.slices[: world.device_count].tolist()


def test_instances_share_a_device_and_leave_the_others_whole():
    """Seven single slices fill one device; the eighth opens another."""
    world = fleet(nodes=1, gpus=4)
    submit(world, cut("t", "1g.10gb", 8))
    beat(world)
    audit(world)
    assert states(world) == [0x7F, 1 << 6, 0, 0]


def test_an_instance_goes_to_the_device_with_least_left():
    """A 3g takes the free half of a device in use, not an empty one and not the emptier one."""
    world = fleet(nodes=1, gpus=3)
    submit(world, cut("a", "4g.40gb"))
    beat(world)
    submit(world, cut("b", "7g.80gb"), cut("c", "3g.40gb"))
    beat(world)
    assert states(world) == [0xFF, 0xFF, 0]


def test_a_cut_device_is_closed_to_fractions_and_whole_requests():
    """Half a cut device stays empty beside a fraction that would fit by its numbers."""
    world = fleet(nodes=1, gpus=1)
    submit(world, cut("cut", "3g.40gb"))
    beat(world)
    submit(world, job("part", milli=250), job("whole"))
    assert placed(world, decide(world)) == {}
    finish(world, "cut")
    assert placed(world, decide(world)) == {"part": {0: 1}}


def test_a_shared_device_is_closed_to_instances():
    """Where somebody holds a fraction by the milli, no instance begins."""
    world = fleet(nodes=1, gpus=1)
    submit(world, job("part", milli=125))
    beat(world)
    submit(world, cut("cut", "1g.10gb"))
    assert placed(world, decide(world)) == {}


def test_one_set_of_media_engines_a_device():
    """Of three instances with media engines two are placed on two devices."""
    world = fleet(nodes=1, gpus=2)
    submit(world, *(cut(f"m{i}", "1g.10gb+me") for i in range(3)))
    beat(world)
    assert sorted(world.placements) == [0, 1]
    assert [state >> 8 for state in states(world)] == [1, 1]


def test_a_name_is_not_a_size():
    """1g.10gb is an eighth of an H100 and a quarter of an A100 40GB: each goes to its own."""
    world = fleet(contract("a", gpus=8, kind="A100"), contract("h", gpus=8))
    submit(world, job("eighth", roles=[role(milli=125, profile="1g.10gb")]),
           job("quarter", roles=[role(milli=250, profile="1g.10gb")]))  # fmt: skip
    beat(world)
    audit(world)
    kinds = [world.kinds[world.nodes.kind[world.placements[j][0].node]] for j in (0, 1)]
    assert kinds == ["H100", "A100"]


def test_memory_and_cores_bind_instances_too():
    """A node with cores left for two instances hosts no three, however many slices are free."""
    world = fleet(contract(gpus=8, cpu_milli=3_000))
    submit(world, job("loader", gpus=0, cpu_milli=1_000))
    beat(world)
    hungry = role(3, milli=125, profile="1g.10gb", cpu_milli=1_000)
    submit(world, job("t", roles=[hungry]))
    beat(world)
    assert cause_of(world, "t") is Cause.CPU_BINDS


def test_an_important_instance_takes_the_place_of_the_cheapest_in_its_way():
    """A 3g with priority stops the lone 1g on one half, not the three on the other."""
    world = fleet(nodes=1, gpus=1)
    policy = Policy(order="priority", min_run_ms=0, preempt_gain_ppm=0)
    submit(world, *(cut(f"s{i}", "1g.10gb") for i in range(3)))
    for name in ("s0", "s1", "s2"):
        beat(world, policy)
        assert name in world.job_number
    assert states(world) == [0b1110000]
    submit(world, cut("left", "1g.10gb"))
    beat(world, policy)
    submit(world, cut("urgent", "3g.40gb", priority=5))
    plan = decide(world, policy)
    assert evicted(world, plan) == {"left": ev.Why.PREEMPTED}


def test_room_that_was_made_for_an_instance_is_used_by_it():
    """When the victim has left, the heir sits on its slices."""
    world = fleet(nodes=1, gpus=1)
    submit(world, cut("low", "7g.80gb"))
    beat(world)
    submit(world, cut("high", "2g.20gb", priority=5))
    beat(world)
    leave(world)
    assert placed(world, beat(world)) == {"high": {0: 1}}
    audit(world)


def test_instances_move_so_that_a_larger_one_may_begin():
    """A single on slice 0 moves to slice 6 of the same device, and a 4g has the lower half."""
    world = fleet(nodes=2, gpus=1)
    submit(world, cut("s0", "1g.10gb"), cut("s1", "1g.10gb"))
    for n in (0, 1):
        place(world, f"s{n}", Piece(0, n, 1, 1, 1))
    start(world, "s0", "s1")
    pass_ms(world, HOUR_MS)
    submit(world, cut("wide", "4g.40gb"))
    policy = Policy(may_move=True)
    plan = decide(world, policy)
    (move,) = asked(plan, ev.AskedMove)
    assert isinstance(move, ev.AskedMove)
    assert (move.gained, move.lost) == ((Piece(0, 0, 1, 1, 1 << 6),), (Piece(0, 0, 1, 1, 1),))
    carry_out(world, plan)
    leave(world)
    start(world, "s0")
    assert placed(world, beat(world, policy)) == {"wide": {0: 1}}
    audit(world)


def test_instances_move_together_so_that_a_device_is_whole_again():
    """Of two cut devices one is emptied onto the other for a whole request."""
    world = fleet(nodes=2, gpus=1)
    submit(world, cut("s0", "1g.10gb"), cut("s1", "1g.10gb"))
    for n in (0, 1):
        place(world, f"s{n}", Piece(0, n, 1, 1, 1))
    start(world, "s0", "s1")
    pass_ms(world, HOUR_MS)
    submit(world, job("whole"))
    (move,) = asked(decide(world, Policy(may_move=True)), ev.AskedMove)
    assert isinstance(move, ev.AskedMove)
    assert {piece.node for piece in (*move.gained, *move.lost)} == {0, 1}


def test_an_elastic_gang_of_instances_grows_and_shrinks_by_the_slice():
    """It gives up exactly the instances that a newcomer needs, and the fold agrees."""
    world = fleet(nodes=1, gpus=1, teams=[team("a")])
    policy = Policy(may_resize=True)
    springy = role(7, milli=125, profile="1g.10gb", least=1)
    submit(world, job("e", roles=[springy]))
    beat(world, policy)
    submit(world, cut("new", "1g.10gb"))
    plan = beat(world, policy)
    moves = asked(plan, ev.AskedMove)
    assert len(moves) == 1
    leave(world)
    audit(world)
    start(world, "e")
    assert placed(world, beat(world, policy)) == {"new": {0: 1}}
    audit(world)


def test_what_stands_in_the_way_of_an_instance_is_said():
    """Half of each of two devices is free, and a 4g may begin on neither: free but scattered."""
    world = fleet(nodes=2, gpus=1)
    submit(world, cut("a", "4g.40gb"), cut("b", "4g.40gb"))
    beat(world)
    submit(world, cut("c", "4g.40gb"))
    beat(world)
    assert cause_of(world, "c") is Cause.SCATTERED
    answer = explain.why(world, Policy(), world.job_number["c"], explain.Glance(world, sweeps=True))
    said = " ".join(fact.words for fact in answer.evidence)
    assert "no other device has free slices where one may start for `4g.40gb`" in said
    assert answer.certificate is not None
    assert [near.words for near in answer.certificate.fits_now][:1] == ["`3g.40gb` `H100`"]


def test_a_running_instance_says_which_slices_it_holds():
    """`why` of a job that runs names profile, slices and device."""
    world = fleet(nodes=1, gpus=2)
    submit(world, cut("t", "3g.40gb"), cut("m", "1g.10gb+me"))
    beat(world)
    memo = explain.Glance(world, sweeps=True)
    answers = [explain.why(world, Policy(), j, memo).words for j in (0, 1)]
    assert "on `c-0` (`3g.40gb` on slices 4 to 7 of device 0)" in answers[0]
    assert "(`1g.10gb+me` on slice 0 of device 0)" in answers[1]


def test_a_profile_that_no_claimed_part_has_never_fits():
    """A profile of the H200 on a fleet of H100: the proof names what the part has, and the next."""
    world = fleet(nodes=1)
    submit(world, job("t", roles=[role(milli=125, profile="1g.18gb")]))
    beat(world)
    assert cause_of(world, "t") is Cause.IMPOSSIBLE_SIZE
    answer = explain.why(world, Policy(), 0, explain.Glance(world, sweeps=True))
    assert answer.certificate is not None
    assert "no GPU type that it may use has a profile `1g.18gb`" in answer.certificate.words
    assert "request `1g.20gb` (0.25) on `H100`" in answer.certificate.nearest


def test_a_gang_of_more_instances_than_all_devices_hold_never_fits():
    """Eight 1g need two devices' worth of starts: one H100 has seven."""
    world = fleet(nodes=1, gpus=1)
    submit(world, cut("t", "1g.10gb", 8))
    beat(world)
    assert cause_of(world, "t") is Cause.IMPOSSIBLE_GANG


def test_the_survey_counts_what_fits_beside_and_on_empty_devices():
    """One 3g on a node of two: a 4g fits beside it, and all else as the tables say."""
    world = fleet(nodes=1, gpus=2)
    submit(world, cut("t", "3g.40gb"))
    beat(world)
    (found,) = slices.survey(world)
    assert (found.kind, found.devices, found.free_milli, found.stranded_milli) == (
        "H100",
        1,
        500,
        0,
    )
    fits = {row.profile: (row.beside, row.empty) for row in found.fits}
    assert fits["4g.40gb"] == (1, 1)
    assert fits["1g.10gb"] == (4, 7)
    assert fits["7g.80gb"] == (0, 1)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_as_many_are_placed_as_are_counted(data: st.DataObject):
    """On random rooms, a role of exactly as many instances as counted fits; one more does not.

    And both count what a plain look at every start of every device says.
    """
    world = fleet(nodes=2, gpus=2)
    room = Snapshot(world, sweeps=True)
    is_ok = np.ones(len(world.groups), np.int64)
    names = data.draw(st.lists(st.sampled_from(sorted(MILLI)), max_size=8))
    for name in names:
        room.fill(instances(name), is_ok, PACKING)
    name = data.draw(st.sampled_from(sorted(MILLI)))
    row = geometry.profile(geometry.known("H100"), name)
    free = sum(
        min(row.most, sum(not geometry.claim(row, at) & state for at in row.starts))
        for state in room.slices.tolist()
    )
    assert room.count_hosts(instances(name), is_ok) == free
    before = room.slices.copy(), room.node_free.copy(), list(room.kind_free)
    filled = room.fill(instances(name, free + 1), is_ok, PACKING)
    assert (filled.hosted, filled.placed) == (free, ())
    if free:
        filled = room.fill(instances(name, free), is_ok, PACKING)
        assert len(filled.placed) == free
        for n, _, mask, taken in filled.placed:
            d = int(world.nodes.first_device[n]) + mask.bit_length() - 1
            room.slide(instances(name), n, d, taken, 1)
    assert (room.slices == before[0]).all()
    assert (room.node_free == before[1]).all()
    assert room.kind_free == before[2]


@pytest.mark.parametrize("profile", sorted(MILLI))
def test_what_leaves_a_device_leaves_nothing_behind(profile: str):
    """When the last instance has gone, the device is whole again and takes anything."""
    world = fleet(nodes=1, gpus=1)
    submit(world, cut("t", profile))
    beat(world)
    finish(world, "t")
    audit(world)
    assert (states(world), world.sliced) == ([0], 0)
    submit(world, job("whole"))
    assert placed(world, decide(world)) == {"whole": {0: 1}}
