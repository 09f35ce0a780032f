"""Placements that somebody else's scheduler made are taken as they are, and booked once."""

import pytest
from msgspec.structs import replace

from tests.builders import contract, fleet, job, role, submit, team
from tests.engine.stories import played, seeds
from tests.ledger.sums import amounts
from tidemill.core import snapshot
from tidemill.engine.fold.batch import columns_of, fold_batch
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.ledger.statement import read
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary
from tidemill.model.batch.convert import of_events, to_events
from tidemill.model.columns import AT, JOB
from tidemill.model.errors import EventRefused
from tidemill.model.rows import Piece
from tidemill.model.states import Level, NodeState
from tidemill.model.world import World

STORIES = 6


def as_seen(event: ev.Event) -> ev.Event:
    """The same placement, made by somebody else."""
    if isinstance(event, ev.AskedPlace):
        return ev.PlacementSeen(event.at_ms, event.job, event.attempt, event.pieces)
    return event


@pytest.mark.parametrize("source", ["twin"])
def test_what_we_could_have_decided_is_the_same_when_seen(source: str):
    """Whole stories: the same cluster state and the same books, one by one and in batches."""
    for seed in seeds(STORIES):
        events = played(seed, source).kept
        seen = [as_seen(event) for event in events]
        world = fold_all(World(), seen)
        batch = of_events(seen, Dictionary())
        assert to_events(batch) == seen
        assert snapshot.digest(fold_batch(World(), batch)) == snapshot.digest(world)
        assert snapshot.digest(snapshot.copy(world)) == snapshot.digest(world)
        columns_of(world).at[AT.SEEN] = 0
        assert snapshot.digest(world) == snapshot.digest(fold_all(World(), events))
        assert amounts(read(seen)) == amounts(read(events))


def test_a_part_of_a_gang_on_a_cordoned_node_is_taken():
    """Neither a whole gang nor a node that takes work is asked for; what it holds is allocated."""
    world = fleet(contract(gpus=16), teams=[team("a")])
    submit(world, job("g", team="a", roles=[role(gpus=8, count=2)]))
    fold(world, ev.NodeMoved(1, 0, NodeState.CORDONED))
    fold(world, ev.PlacementSeen(2, 0, 1, (Piece(0, 0, 1, 0xFF),)))
    assert world.levels[0, Level.ALLOCATED] == 8_000
    assert world.levels[0, Level.CORDONED] == 0


def test_cpu_may_be_over_committed():
    """More CPU than the node has is what the world shows; nothing new fits there then."""
    world = fleet(contract(gpus=8, cpu_milli=4_000), teams=[team("a")])
    submit(world, job("g", team="a", roles=[role(gpus=1, cpu_milli=6_000)]))
    fold(world, ev.PlacementSeen(1, 0, 1, (Piece(0, 0, 1, 1),)))
    assert world.nodes.cpu_free_milli[0] == -2_000


def test_what_others_hold_is_not_booked_twice():
    """A device that is held is refused; the rest of the placement is said beside it, and kept."""
    world = fleet(contract(gpus=8), teams=[team("a")])
    submit(world, job("g", gpus=8, team="a"), job("h", gpus=8, team="a"))
    fold(world, ev.PlacementSeen(1, 0, 1, (Piece(0, 0, 1, 0xFF),)))
    with pytest.raises(EventRefused, match="not free"):
        fold(world, ev.PlacementSeen(2, 1, 1, (Piece(0, 0, 1, 0xFF),)))
    fold(world, ev.PlacementSeen(2, 1, 1, (), 8_000))
    assert world.levels[0, Level.ALLOCATED] == 8_000
    assert columns_of(world).jobs[1, JOB.OVER_MILLI] == 8_000
    assert snapshot.digest(snapshot.copy(world)) == snapshot.digest(world)
    fold(world, ev.JobStarted(3, 1, 1))
    fold(world, ev.JobFinished(4, 1, 1))
    assert columns_of(world).jobs[1, JOB.OVER_MILLI] == 0
    assert world.levels[0, Level.ALLOCATED] == 8_000


def test_a_placement_on_a_node_that_is_gone_is_refused():
    """A node without a machine has no devices to hold."""
    world = fleet(contract(gpus=8), teams=[team("a")])
    submit(world, job("g", gpus=8, team="a"))
    fold(world, ev.NodeMoved(1, 0, NodeState.GONE))
    with pytest.raises(EventRefused, match="gone"):
        fold(world, ev.PlacementSeen(2, 0, 1, (Piece(0, 0, 1, 0xFF),)))


def test_it_survives_every_form():
    """An event with all its fields reads back equal."""
    event = ev.PlacementSeen(7, 3, 2, (Piece(0, 1, 1, 3), Piece(1, 2, 1, 1 << 63)), 500)
    assert to_events(of_events([event, replace(event, pieces=())], Dictionary())) == [
        event,
        replace(event, pieces=()),
    ]
