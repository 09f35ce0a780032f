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
    place,
    placed,
    start,
    submit,
    team,
)
from tidemill.engine.cycle import CycleMemo
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Piece
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.scheduling.desk.columns import NOTE
from tidemill.scheduling.fitting.columns import CALL
from tidemill.scheduling.snapshot import Snapshot

EASY = Policy(backfill="easy")
PLAIN = Policy(backfill="none")
"""Reservations try placements of their own."""


@pytest.fixture
def memo() -> CycleMemo:
    return CycleMemo()


def tries(world: World, memo: CycleMemo) -> int:
    """How many placements one beat tries."""
    room = memo.scheduling._room = Snapshot(world)
    beat(world, PLAIN, memo)
    return room.ground.regs.item(CALL.SOUGHT)


def full(memo: CycleMemo) -> World:
    """A fleet whose node has one accelerator free; two kinds."""
    world = fleet(contract("h", gpus=8), contract("a", gpus=8, kind="A100"))
    submit(world, job("h7", gpus=7, kinds=["H100"]), job("a7", gpus=7, kinds=["A100"]))
    beat(world, PLAIN, memo)
    return world


def test_equal_jobs_are_tried_once(memo: CycleMemo):
    """A thousand equal jobs that do not fit cost one try."""
    world = fleet(nodes=1)
    submit(world, job("runs", gpus=1, cpu_milli=500_000))
    beat(world, PLAIN, memo)
    submit(world, *(job(f"k{i}", gpus=2, cpu_milli=600_000) for i in range(1000)))
    assert tries(world, memo) == 1
    assert cause_of(world, "k999") is Cause.CPU_BINDS


def test_what_did_not_fit_is_not_tried_again_while_nothing_is_freed(memo: CycleMemo):
    """Another beat, a new job of another kind, a placement: none of them is a reason."""
    world = full(memo)
    submit(world, job("wide", gpus=8, kinds=["H100"]))
    beat(world, PLAIN, memo)
    pass_ms(world, 1)
    assert tries(world, memo) == 0
    submit(world, job("small", gpus=1, kinds=["A100"]))
    assert tries(world, memo) == 1


def reserved(memo: CycleMemo) -> World:
    """A gang waits for a job of an hour, and beside it one that would run for too long."""
    world = fleet(nodes=2)
    submit(world, job("runs", gpus=8, estimate_ms=HOUR_MS))
    beat(world, EASY, memo)
    submit(world, job("gang", gpus=16), job("long", gpus=4, estimate_ms=9 * HOUR_MS))
    beat(world, EASY, memo)
    assert cause_of(world, "long") is Cause.RESERVED
    return world


def cycles(memo: CycleMemo) -> int:
    return memo.scheduling.notes.item(NOTE.CYCLE)


def test_who_was_kept_from_passing_is_not_asked_again_while_the_same_is_reserved(memo: CycleMemo):
    """Time alone is no reason to look again: whoever would have run for too long still would."""
    world, before = reserved(memo), cycles(memo)
    pass_ms(world, 1)
    beat(world, EASY, memo)
    assert cycles(memo) == before
    submit(world, job("short", gpus=4, estimate_ms=1))
    assert placed(world, decide(world, EASY, memo)) == {"short": {1: 4}}


def test_who_was_kept_from_passing_is_asked_again_when_somebody_does_not_end(memo: CycleMemo):
    """Whoever was to end by now runs on: what is reserved begins later, and the other may pass."""
    world, before = reserved(memo), cycles(memo)
    pass_ms(world, 8 * HOUR_MS)
    beat(world, EASY, memo)
    assert cycles(memo) > before


def test_what_did_not_fit_is_tried_again_when_its_kind_is_freed(memo: CycleMemo):
    """A job of its kind ends: it is tried. One of another kind ends: it is not."""
    world = full(memo)
    submit(world, job("wide", gpus=8, kinds=["H100"]))
    beat(world, PLAIN, memo)
    finish(world, "a7")
    assert tries(world, memo) == 0
    finish(world, "h7")
    assert tries(world, memo) == 1
    assert world.placements.keys() == {world.job_number["wide"]}


def test_what_did_not_fit_is_tried_again_when_a_node_comes(memo: CycleMemo):
    """A node that becomes Ready is a reason to look again."""
    world = fleet(nodes=2)
    move_node(world, 1, NodeState.CORDONED)
    submit(world, job("large", gpus=16))
    beat(world, PLAIN, memo)
    move_node(world, 1, NodeState.READY)
    assert placed(world, decide(world, memo=memo)) == {"large": {0: 8, 1: 8}}


def test_what_was_over_its_limit_is_tried_again_when_the_limit_is_raised(memo: CycleMemo):
    """New shares are a reason to look again, and the old verdict is forgotten."""
    world = fleet(nodes=1, teams=[team("a", limit=4)])
    submit(world, job("large", gpus=8))
    beat(world, PLAIN, memo)
    assert cause_of(world, "large") is Cause.OVER_LIMIT_ALWAYS
    fold(world, ev.QueueSet(0, team("a", limit=8)))
    assert placed(world, decide(world, memo=memo)) == {"large": {0: 8}}


def test_a_new_team_is_understood_at_once(memo: CycleMemo):
    """A team that appears after the supply was looked at is judged with its own row."""
    world = fleet(nodes=1)
    submit(world, job("first", gpus=16, per_node=4))
    beat(world, PLAIN, memo)
    fold(world, ev.QueueSet(0, team("b", limit=4, kind="B200")))
    submit(world, job("second", gpus=16, per_node=4, team="b"))
    beat(world, PLAIN, memo)
    assert cause_of(world, "second") is Cause.IMPOSSIBLE_GANG


def test_work_before_any_node_waits(memo: CycleMemo):
    """A job submitted before the first node exists waits for it and is placed on it."""
    world = World()
    fold(world, ev.QueueSet(0, team("a")))
    fold(world, ev.ContractSigned(0, contract(gpus=8)))
    submit(world, job("early", gpus=8))
    beat(world, PLAIN, memo)
    assert cause_of(world, "early") is Cause.NOTHING_LAUNCHED
    fold(world, ev.ContractStarted(0, 0))
    fold(world, ev.NodeAdded(0, node("n")))
    move_node(world, 0, NodeState.BOOTING, NodeState.READY)
    assert placed(world, decide(world, memo=memo)) == {"early": {0: 8}}


def busy(memo: CycleMemo) -> World:
    """Two nodes, full but for one accelerator each: jobs of 4, 2 and 1 on both."""
    world = fleet(nodes=2)
    for n in range(2):
        for size, mask in ((4, 0b1111), (2, 0b110000), (1, 0b1000000)):
            submit(world, job(f"{size}-{n}", gpus=size))
            place(world, f"{size}-{n}", Piece(0, n, 1, mask))
            start(world, f"{size}-{n}")
    beat(world, PLAIN, memo)
    return world


def test_what_is_freed_in_pieces_too_small_is_no_reason(memo: CycleMemo):
    """A job of four is not tried while nodes that changed have less than four free."""
    world = busy(memo)
    submit(world, job("four", gpus=4))
    beat(world, PLAIN, memo)
    assert cause_of(world, "four") is Cause.BUSY
    finish(world, "1-0")
    assert tries(world, memo) == 0
    finish(world, "1-1")
    assert tries(world, memo) == 1, "four are free by now: they are scattered, and that is said"
    assert cause_of(world, "four") is Cause.SCATTERED
    finish(world, "4-1")
    assert tries(world, memo) == 1
    assert world.job_number["four"] in world.placements


def test_a_gang_is_no_reason_to_look_while_no_replica_fits(memo: CycleMemo):
    """Of a gang of two times six not even one replica fits: what is freed is too small for it."""
    world = busy(memo)
    submit(world, job("gang", gpus=12, per_node=6))
    beat(world, PLAIN, memo)
    for name in ("1-0", "2-0", "1-1", "2-1"):
        finish(world, name)
        assert tries(world, memo) == 0
    finish(world, "4-0")
    assert tries(world, memo) == 1
    assert cause_of(world, "gang") is Cause.SCATTERED
    finish(world, "4-1")
    assert tries(world, memo) == 1
    assert world.job_number["gang"] in world.placements


def test_cores_that_are_freed_are_a_reason(memo: CycleMemo):
    """A job that only CPU kept out is tried when a node gets cores back."""
    world = fleet(nodes=1)
    submit(world, job("eats", gpus=1, cpu_milli=900_000))
    beat(world, PLAIN, memo)
    submit(world, job("wants", gpus=1, cpu_milli=500_000))
    beat(world, PLAIN, memo)
    assert cause_of(world, "wants") is Cause.CPU_BINDS
    finish(world, "eats")
    assert tries(world, memo) == 1
    assert world.job_number["wants"] in world.placements


def test_what_a_limit_kept_out_is_tried_when_its_team_frees_anything(memo: CycleMemo):
    """A limit on one kind and no room on the other: the team's next end is a reason."""
    world = fleet(
        contract("h", gpus=8), contract("t", gpus=8, kind="A100"), teams=[team("a", limit=4)]
    )
    submit(world, job("small", gpus=4, kinds=["H100"]), job("large", gpus=7, kinds=["A100"]))
    beat(world, PLAIN, memo)
    submit(world, job("either", gpus=4))
    beat(world, PLAIN, memo)
    assert cause_of(world, "either") is Cause.BUSY
    finish(world, "small")
    assert tries(world, memo) == 1
    assert world.job_number["either"] in world.placements
