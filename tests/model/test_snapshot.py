"""A World as bytes: all of it, the same bytes for equal Worlds, and independent copies."""

import msgspec
import pytest

from tests.builders import (
    beat,
    contract,
    decide,
    fall_idle,
    fleet,
    job,
    lose_device,
    pass_ms,
    role,
    submit,
    team,
)
from tests.engine.audit import audit
from tidemill.core import snapshot
from tidemill.model.errors import JournalError
from tidemill.model.measures import HOUR_MS
from tidemill.model.states import JobClass
from tidemill.model.world import World


def lively() -> World:
    """A World in which everything is in use: promises, fractions, idle work, broken devices."""
    world = fleet(
        contract("h", gpus=16, spares=0, labels={"zone": "x", "rack": "1"}),
        contract("a", gpus=8, kind="A100", pool="other"),
        teams=[team("a", floor=8), team("b")],
        node_labels=[{}, {"rack": "2"}],
    )
    submit(world, job("notebook", milli=300, kind=JobClass.INTERACTIVE, team="b", kinds=["A100"]))
    submit(world, job("big", gpus=16, team="b", kinds=["H100"]))
    beat(world)
    fall_idle(world, "notebook")
    lose_device(world, 2, 7)
    pass_ms(world, HOUR_MS)
    submit(world, job("owed", roles=[role(1, gpus=8, kinds=["H100"])]))
    beat(world)  # drains the node with the broken device; evictions wait for the next one
    beat(world)
    assert world.promised
    assert world.leaving_for
    assert world.idle
    return world


def test_dump_and_load_round_trip_byte_for_byte():
    """What is loaded is what was dumped, in every byte and every invariant."""
    world = lively()
    again = snapshot.load(snapshot.dump(world))
    assert snapshot.dump(again) == snapshot.dump(world)
    audit(again)


def test_everything_the_world_holds_is_restored():
    """Every attribute of a loaded World equals that of the original."""
    world = lively()
    again = snapshot.load(snapshot.dump(world))
    for name, value in vars(world).items():
        if isinstance(value, int | list | dict):
            assert getattr(again, name) == value, name
    assert vars(again).keys() == vars(world).keys()


def test_a_copy_decides_the_same():
    """The plan that follows from a copy is the plan that follows from the original."""
    world = lively()
    submit(world, job("later", gpus=8, kinds=["A100"]))
    assert decide(snapshot.copy(world)) == decide(world)


def test_a_copy_is_independent():
    """What happens to a copy does not happen to the original."""
    world = lively()
    before = snapshot.digest(world)
    other = snapshot.copy(world)
    submit(other, *(job(f"more-{i}") for i in range(100)))
    lose_device(other, 2, 0)
    assert snapshot.digest(world) == before
    assert snapshot.digest(other) != before


def test_room_to_grow_is_not_part_of_the_world():
    """A World whose tables grew has the same bytes as one that was loaded at its size."""
    world = fleet()
    submit(world, *(job(f"j{i}", priority=i) for i in range(300)))
    again = snapshot.copy(world)
    assert len(world.ink.jobs.state) != len(again.ink.jobs.state)
    assert snapshot.dump(again) == snapshot.dump(world)
    submit(world, job("last"))
    submit(again, job("last"))
    assert snapshot.dump(again) == snapshot.dump(world)


def test_an_empty_world_round_trips():
    """Nothing is a World too."""
    empty = World()
    assert snapshot.dump(snapshot.copy(empty)) == snapshot.dump(empty)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91\x01", msgspec.msgpack.encode({"layout": 0})])
def test_other_bytes_are_refused_with_a_way_out(data: bytes):
    """What is not a snapshot of this layout is refused, and the hint names the journal."""
    with pytest.raises(JournalError) as refusal:
        snapshot.load(data)
    assert refusal.value.hint == "read the journal instead"
