"""MIG instances at the fold and before the second reader: what is legal is said twice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import attempt, beat, fleet, job, place, role, submit
from tests.engine.audit import audit
from tidemill.core import snapshot
from tidemill.engine.check import violations
from tidemill.engine.check.book import axis, profile
from tidemill.engine.check.columns import OF
from tidemill.engine.check.pieces import is_legal
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.columns import ROLE
from tidemill.model.errors import EventRefused
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Job, Piece, Role, Template
from tidemill.model.topology import Bond
from tidemill.model.world import World
from tidemill.units.mig import geometry
from tidemill.units.mig.profiles import GEOMETRIES, Geometry

ONE = role(milli=125, profile="1g.10gb")
THREE = role(milli=500, profile="3g.40gb")


@pytest.mark.parametrize("part", GEOMETRIES, ids=lambda row: row.key)
def test_the_plan_checker_knows_the_same_geometry(part: Geometry):
    """In every state its rule without tables allows exactly the starts that drivers list."""
    for row in part.profiles:
        asks = Role(milli=part.milli(row), profile=row.name)
        listed = {geometry.claim(row, start) for start in row.starts}
        of_role, roles = np.zeros((1, len(OF)), np.int64), np.zeros((1, len(ROLE)), np.int64)
        of_role[0, [OF.COMPUTE, OF.MEDIA]], roles[0, ROLE.MILLI] = profile(asks), asks.milli
        axes = np.array([axis(part.title.split()[0])], np.int64)
        found = {m for m in range(1024) if is_legal(axes, of_role, roles, 0, 0, m)}
        assert found == listed


@pytest.mark.parametrize(
    ("piece", "said"),
    [
        (Piece(0, 0, 1, 1, 0b11), "no `1g.10gb` may sit there"),
        (Piece(0, 0, 1, 1, 1 << 7), "no `1g.10gb` may sit there"),
        (Piece(0, 0, 1, 1, 0x101), "no `1g.10gb` may sit there"),
        (Piece(0, 0, 1, 1, 0b10000), "they are not free"),
        (Piece(0, 0, 1, 0b10, 1), "they are not free"),
        (Piece(0, 0, 1, 1, 0), "a piece with slices"),
        (Piece(0, 0, 2, 0b101, 1), "a piece with slices"),
    ],
)
def test_pieces_that_cannot_be_are_refused_twice(piece: Piece, said: str):
    """What is not a legal, free instance neither folds nor passes the second reader."""
    world = _world()
    submit(world, job("t", roles=[role(piece.replicas, milli=125, profile="1g.10gb")]))
    action = ev.AskedPlace(0, 2, 1, (piece,))
    before = snapshot.dump(world)
    assert violations(world, ev.Plan((action,)), Policy())
    with pytest.raises(EventRefused, match=said):
        fold(world, action)
    assert snapshot.dump(world) == before


def test_slices_without_a_profile_are_refused():
    """A fraction does not take slices, and a cut device gives no milli."""
    world = _world()
    submit(world, job("t", milli=125))
    for piece in (Piece(0, 0, 1, 4, 1), Piece(0, 0, 1, 1)):
        action = ev.AskedPlace(0, 2, 1, (piece,))
        assert violations(world, ev.Plan((action,)), Policy())
        with pytest.raises(EventRefused):
            fold(world, action)


def test_two_actions_may_not_cut_and_share_one_device():
    """A plan that gives a device by the slice to one job and by the milli to another is wrong."""
    world = fleet(nodes=1, gpus=2)
    submit(world, job("cut", roles=[ONE]), job("part", milli=500), job("twin", roles=[ONE]))
    slices = ev.AskedPlace(0, 0, 1, (Piece(0, 0, 1, 1, 1),))
    milli = ev.AskedPlace(0, 1, 1, (Piece(0, 0, 1, 1),))
    same = ev.AskedPlace(0, 2, 1, (Piece(0, 0, 1, 1, 1),))
    assert violations(world, ev.Plan((slices,)), Policy()) == []
    assert violations(world, ev.Plan((slices, milli)), Policy()) == [
        "device 0 of `c-0` is cut and shared by the milli"
    ]
    assert violations(world, ev.Plan((slices, same)), Policy()) == [
        "slice 0 of device 0 of `c-0` is over-committed"
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (job("t", roles=[role(milli=125, profile="9g.1gb")]), "which no part has"),
        (job("t", roles=[role(profile="1g.10gb")]), "it is 250 milli .a100-40. or 125 milli"),
        (job("t", roles=[role(gpus=2, milli=1000, profile="7g.80gb")]), "of 2 devices"),
        (job("t", roles=[ONE], bonds=[Bond("node")]), "which instances cannot have"),
    ],
)
def test_requests_that_contradict_themselves_are_refused(row: Job, said: str):
    """A profile that nobody has, of another share, of several devices, or tied to others."""
    world = fleet(nodes=1)
    with pytest.raises(EventRefused, match=said):
        fold(world, ev.JobSubmitted(0, row))


def test_a_snapshot_keeps_slices():
    """A World with cut devices survives being dumped and loaded."""
    world = _world()
    again = snapshot.load(snapshot.dump(world))
    assert snapshot.dump(again) == snapshot.dump(world)
    assert (again.sliced, again.devices.slices[0].item()) == (1, 0xF0)


def test_a_failed_device_ends_its_instances_and_strands_nothing():
    """When a cut device fails, its jobs wait again and nothing is left stranded on it."""
    world = _world()
    fold(world, ev.DeviceFailed(0, 0, 0))
    audit(world)
    assert world.sliced == 0
    assert world.nodes.stranded_milli[0] == 0
    assert attempt(world, 0) == 1


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_free_and_stranded_follow_every_change(data: st.DataObject):
    """Whatever comes and goes, what is free and stranded is what a slow look at the axis says."""
    world = fleet(nodes=1, gpus=2)
    part = geometry.known("H100")
    running: list[str] = []
    for i in range(data.draw(st.integers(1, 15))):
        is_leaving: bool = data.draw(st.booleans())
        if running and is_leaving:
            gone = running.pop(data.draw(st.integers(0, len(running) - 1)))
            fold(world, ev.JobCancelled(0, world.job_number[gone]))
        else:
            row = data.draw(st.sampled_from(part.profiles))
            submit(world, job(f"j{i}", roles=[role(milli=part.milli(row), profile=row.name)]))
            beat(world)
            running.append(f"j{i}")
        audit(world)


def _world() -> World:
    """One node of three: a 3g on the upper half of the first, a fraction on the second."""
    world = fleet(contract_of_three(), nodes=1)
    submit(world, job("cut", roles=[THREE]), job("part", milli=500))
    place(world, "cut", Piece(0, 0, 1, 1, 0xF0))
    place(world, "part", Piece(0, 0, 1, 2))
    return world


def contract_of_three() -> Contract:
    return Contract("c", "main", "H100", 3, 2_000_000, Template(3, 1_000_000, 1_000_000))
