"""The board: everything that waits, counted once, and what stands idle beneath it."""

import msgspec

from tests.builders import DEFAULTS, beat, contract, fleet, job, pass_ms, submit, team
from tests.engine.stage import Player
from tests.explain.test_agreement import IMPATIENT, story
from tidemill import explain
from tidemill.explain.answers import Board
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.reader import Ledger
from tidemill.ledger.spans import Window
from tidemill.model.measures import HOUR_MS
from tidemill.model.reasons import Cause
from tidemill.model.states import Level

DOLLAR = 1_000_000


def test_counts_by_layer_and_cause():
    """Jobs are counted under their cause and its layer, the oldest and its team are named."""
    world = fleet(nodes=2, teams=[team("a"), team("b")])
    submit(world, job("r0", gpus=16, priority=1))
    beat(world)
    submit(world, job("w0", gpus=8), job("w1", gpus=8, team="b"), job("odd", kinds=["B200"]))
    beat(world)
    pass_ms(world, HOUR_MS)
    board = explain.board(world, DEFAULTS)
    assert msgspec.json.decode(msgspec.json.encode(board), type=Board) == board
    assert (board.jobs, board.asked_milli, board.free_milli) == (3, 17_000, 0)
    assert board.words.endswith("; 0 GPUs free")  # no dollars, and nothing to be of use
    assert {row.cause: row.jobs for row in board.rows} == {"busy": 2, "nothing_claimed": 1}
    assert [(row.layer, row.jobs) for row in board.layers] == [(1, 1), (3, 2)]
    busy = board.rows[0]
    assert (busy.oldest_job, busy.oldest_waited_ms, busy.first) == ("w0", HOUR_MS, ("w0", "w1"))
    assert [(who.team, who.jobs) for who in busy.teams] == [("a", 1), ("b", 1)]


def test_idle_beneath_the_queue_is_shared_in_its_order():
    """Free accelerators are claimed by waiting jobs in queue order, none of them twice."""
    world = fleet(nodes=4, teams=[team("a", limit=16)])
    submit(world, job("r0", gpus=16, priority=1))
    beat(world)
    submit(world, job("w0", gpus=8), job("w1", gpus=8, priority=1), job("w2", gpus=12, per_node=4))
    beat(world)
    board = explain.board(world, DEFAULTS)
    over = {row.cause: row for row in board.rows}["over_limit"]
    assert (over.jobs, over.asked_milli) == (3, 28_000)
    assert (over.idle_milli, over.idle_usd_micro_per_hour) == (16_000, 32 * DOLLAR)
    assert (board.unclaimed_milli, board.free_usd_micro_per_hour) == (0, 32 * DOLLAR)
    assert board.words.endswith("16 GPUs free ($32.00 an hour), all of use to some waiting job")


def test_what_can_never_run_claims_nothing():
    """Free accelerators are not held against jobs that could not use them anyway."""
    world = fleet(contract(gpus=16), contract("d", gpus=8, kind="A100"))
    submit(world, job("never", gpus=16, per_node=16))
    beat(world)
    board = explain.board(world, DEFAULTS)
    assert (board.rows[0].cause, board.rows[0].idle_milli) == ("impossible_size", 0)
    assert board.unclaimed_milli == board.free_milli == 24_000
    assert board.unclaimed_usd_micro_per_hour == 48 * DOLLAR


def test_nothing_waits():
    """An empty queue has an empty board, and says what is free."""
    board = explain.board(fleet(nodes=1), DEFAULTS)
    assert (board.jobs, board.rows) == (0, ())
    assert board.words == "nothing waits; 8 GPUs free"


def test_idle_parts_add_up_to_what_is_free():
    """All through a story the idle parts and the unclaimed rest are what contracts have free."""
    player = Player(story(4, IMPATIENT))
    looked = 0

    def compare(at_ms: int) -> None:
        nonlocal looked
        world = player.world
        board = explain.board(world, IMPATIENT)
        free = int(world.levels[: world.contract_count, Level.READY].sum())
        assert board.free_milli == free
        assert sum(row.idle_milli for row in board.rows) + board.unclaimed_milli == free
        dollars = [row.idle_usd_micro_per_hour for row in board.rows]
        dollars.append(board.unclaimed_usd_micro_per_hour)
        assert sum(usd or 0 for usd in dollars) == board.free_usd_micro_per_hour
        assert board.jobs == sum(len(world.waiting[s]) for s in world.queued)
        looked += bool(board.rows)

    player.run(on_beat=compare)
    assert looked > 50


def test_the_ledger_divides_the_same():
    """What nobody claims on the board is what the ledger counts as free without demand."""
    player = Player(story(6, IMPATIENT))
    looked = 0

    def compare(at_ms: int) -> None:
        nonlocal looked
        world = player.world
        board = explain.board(world, IMPATIENT)
        said = {Cause(world.shapes.cause[s]).name.lower() for s in world.queued}
        if {row.cause for row in board.rows} != said:
            return  # the ledger goes by what was said; the board looked again
        ledger = Ledger(IMPATIENT, Window(at_ms)).read(player.kept)
        ledger.pass_time(at_ms + 1)
        unheld = ledger.supply.unheld[0, 0]
        assert unheld[:, Bucket.NO_DEMAND, 0].sum() == board.unclaimed_milli
        looked += board.unclaimed_milli < board.free_milli

    player.run(on_beat=compare)
    assert looked > 20
