"""The table of a node's life: closed, connected, and the source of its diagram."""

import re

import pytest

from tests.builders import contract, move_node, opening
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.model import events as ev
from tidemill.model.errors import EventRefused
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.provisioning import life

PAIRS = [(origin, to) for origin in NodeState for to in NodeState]


def test_every_state_has_its_row():
    """The table names every state, and only states."""
    assert set(life.MOVES) == set(NodeState)


def test_every_state_can_be_reached():
    """From the moment it is asked for, a node can come into every state."""
    assert reachable(NodeState.ASKED) == set(NodeState)


def test_from_everywhere_a_node_can_go():
    """Every state leads to the end, and nothing leads back from it."""
    assert all(NodeState.GONE in reachable(state) for state in NodeState)
    assert life.MOVES[NodeState.GONE] == frozenset()


def test_whatever_is_launched_can_become_ready_again():
    """No state but the last is a trap."""
    for state in set(NodeState) - {NodeState.GONE}:
        assert NodeState.READY in reachable(state)


def test_the_diagram_draws_the_table():
    """The arrows of the diagram are the moves of the table, with a beginning and an end."""
    arrows = re.findall(r"^    (\S+) --> (\S+)$", life.diagram(), flags=re.MULTILINE)
    moves = {
        (origin.name.lower(), to.name.lower()) for origin, to in PAIRS if to in life.MOVES[origin]
    }
    assert set(arrows) == moves | {("[*]", "asked"), ("gone", "[*]")}
    assert len(arrows) == len(set(arrows))


@pytest.mark.parametrize(("origin", "to"), PAIRS, ids=lambda state: state.name.lower())
def test_fold_takes_the_moves_of_the_table_and_no_other(origin: NodeState, to: NodeState):
    """A legal move is folded; any other is refused, names what would be legal, changes nothing."""
    world = node_in(origin)
    before = snapshot.dump(world)
    if life.may_move(origin, to):
        move_node(world, 0, to)
        assert world.nodes.state[0] == to
        return
    with pytest.raises(
        EventRefused, match=f"from {origin.name.lower()} a node may become"
    ) as error:
        fold(world, ev.NodeMoved(world.now_ms, 0, to))
    assert to.name.lower() in error.value.message
    assert snapshot.dump(world) == before


def reachable(origin: NodeState) -> set[NodeState]:
    """Every state that some moves lead to."""
    found, edge = {origin}, [origin]
    while edge:
        fresh = life.MOVES[edge.pop()] - found
        found |= fresh
        edge += fresh
    return found


def node_in(state: NodeState) -> World:
    """A World whose only node came into this state by the shortest way."""
    ways: dict[NodeState, list[NodeState]] = {NodeState.READY: []}
    edge = [NodeState.READY]
    while edge:
        origin = edge.pop(0)
        for to in sorted(life.MOVES[origin]):
            if to not in ways:
                ways[to] = [*ways[origin], to]
                edge.append(to)
    world = fold_all(World(), opening(contract())[: -2 if state is NodeState.ASKED else None])
    move_node(world, 0, *ways.get(state, []))
    return world
