"""What is remembered saves work and changes nothing: equal shapes are tried once, and not again."""

import pytest

from tests.builders import (
    beat,
    cause_of,
    contract,
    decide,
    finish,
    fleet,
    job,
    move_node,
    node,
    pass_ms,
    placed,
    submit,
    team,
)
from tidemill.engine.cycle import Memo
from tidemill.engine.fold import fold
from tidemill.model import events as ev
from tidemill.model.reasons import Cause
from tidemill.model.rows import Role
from tidemill.model.states import NodeState
from tidemill.model.tables import U8
from tidemill.model.world import World
from tidemill.scheduling.room import Filled, Room


class Counting(Room):
    """A room that counts how often something was tried in it."""

    tries = 0

    def fill(self, role: Role, is_ok: U8, spreads: bool) -> Filled:
        self.tries += 1
        return super().fill(role, is_ok, spreads)


@pytest.fixture
def memo() -> Memo:
    return Memo()


def tries(world: World, memo: Memo) -> int:
    """How many placements one beat tries."""
    room = memo.scheduling._room = Counting(world)
    beat(world, memo=memo)
    return room.tries


def full(memo: Memo) -> World:
    """A fleet whose node has one accelerator free; two kinds."""
    world = fleet(contract("h", gpus=8), contract("a", gpus=8, kind="A100"))
    submit(world, job("h7", gpus=7, kinds=["H100"]), job("a7", gpus=7, kinds=["A100"]))
    beat(world, memo=memo)
    return world


def test_equal_jobs_are_tried_once(memo: Memo):
    """A thousand equal jobs that do not fit cost one try."""
    world = fleet(nodes=1)
    submit(world, job("runs", gpus=1, cpu_milli=500_000))
    beat(world, memo=memo)
    submit(world, *(job(f"k{i}", gpus=2, cpu_milli=600_000) for i in range(1000)))
    assert tries(world, memo) == 1
    assert cause_of(world, "k999") is Cause.CPU_BINDS


def test_what_did_not_fit_is_not_tried_again_while_nothing_is_freed(memo: Memo):
    """Another beat, a new job of another kind, a placement: none of them is a reason."""
    world = full(memo)
    submit(world, job("wide", gpus=8, kinds=["H100"]))
    beat(world, memo=memo)
    pass_ms(world, 1)
    assert tries(world, memo) == 0
    submit(world, job("small", gpus=1, kinds=["A100"]))
    assert tries(world, memo) == 1


def test_what_did_not_fit_is_tried_again_when_its_kind_is_freed(memo: Memo):
    """A job of its kind ends: it is tried. One of another kind ends: it is not."""
    world = full(memo)
    submit(world, job("wide", gpus=8, kinds=["H100"]))
    beat(world, memo=memo)
    finish(world, "a7")
    assert tries(world, memo) == 0
    finish(world, "h7")
    assert tries(world, memo) == 1
    assert world.placements.keys() == {world.job_number["wide"]}


def test_what_did_not_fit_is_tried_again_when_a_node_comes(memo: Memo):
    """A node that becomes Ready is a reason to look again."""
    world = fleet(nodes=2)
    move_node(world, 1, NodeState.CORDONED)
    submit(world, job("large", gpus=16))
    beat(world, memo=memo)
    move_node(world, 1, NodeState.READY)
    assert placed(world, decide(world, memo=memo)) == {"large": {0: 8, 1: 8}}


def test_what_was_over_its_limit_is_tried_again_when_the_limit_is_raised(memo: Memo):
    """New shares are a reason to look again, and the old verdict is forgotten."""
    world = fleet(nodes=1, teams=[team("a", limit=4)])
    submit(world, job("large", gpus=8))
    beat(world, memo=memo)
    assert cause_of(world, "large") is Cause.OVER_LIMIT_ALWAYS
    fold(world, ev.QueueSet(0, team("a", limit=8)))
    assert placed(world, decide(world, memo=memo)) == {"large": {0: 8}}


def test_a_new_team_is_understood_at_once(memo: Memo):
    """A team that appears after the supply was looked at is judged with its own row."""
    world = fleet(nodes=1)
    submit(world, job("first", gpus=16, per_node=4))
    beat(world, memo=memo)
    fold(world, ev.QueueSet(0, team("b", limit=4, kind="B200")))
    submit(world, job("second", gpus=16, per_node=4, team="b"))
    beat(world, memo=memo)
    assert cause_of(world, "second") is Cause.IMPOSSIBLE_GANG


def test_work_before_any_node_waits(memo: Memo):
    """A job submitted before the first node exists waits for it and is placed on it."""
    world = World()
    fold(world, ev.QueueSet(0, team("a")))
    fold(world, ev.ContractSigned(0, contract(gpus=8)))
    submit(world, job("early", gpus=8))
    beat(world, memo=memo)
    assert cause_of(world, "early") is Cause.NOTHING_LAUNCHED
    fold(world, ev.ContractStarted(0, 0))
    fold(world, ev.NodeAdded(0, node("n")))
    move_node(world, 0, NodeState.BOOTING, NodeState.READY)
    assert placed(world, decide(world, memo=memo)) == {"early": {0: 8}}
