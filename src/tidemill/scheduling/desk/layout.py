"""Layout: the columns of a cycle, kept from one to the next; what the last left is wiped off."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from tidemill.core.fair_shares import SHARING, WORTH
from tidemill.core.ranks import ATTAINED, SHORTEST, SMALLEST
from tidemill.model.batch import EventColumn, PieceColumn
from tidemill.model.orders import BY_SHAPE
from tidemill.model.placements import score_of
from tidemill.model.policy import Policy
from tidemill.model.tables import I64, grown
from tidemill.model.world import World
from tidemill.scheduling.desk.columns import (
    ASK,
    CLAIM,
    LINE,
    OFFER,
    PASSABLE,
    PROMISE,
    REG,
    UNKNOWN,
    VICTIM,
    Desk,
    Search,
)
from tidemill.scheduling.fitting.columns import KEPT_COLUMNS, OUT
from tidemill.scheduling.snapshot import Snapshot

if TYPE_CHECKING:
    from tidemill.scheduling.memo import Memo

_BACKFILL = {"none": 0, "easy": 1, "conservative": 2}
_RANKS = {"shortest": SHORTEST, "smallest": SMALLEST, "attained": ATTAINED}
FAIRNESS = {"none": 0, "drf": 1, "bill": 2}
PIECES = 256  # of placements that are told at once, and of reservations, to begin with
PROMISES = 64
GOING = 256  # jobs that are asked to go in one cycle, to begin with
JOBS_TOLD = 8  # of as many pieces as any may have, in one cycle
_NOTHING: I64 = np.zeros((1, 1), np.int64)


def ranks(policy: Policy) -> int:
    """The number by which kernels know an order that reads jobs; 0: they do not."""
    return _RANKS.get(policy.order, 0)


class Laid:
    """The columns of the last cycle, and what they were laid out for."""

    def __init__(self) -> None:
        self.stamp: tuple[object, ...] = ()
        self.columns: Desk | None = None
        self.hunt: Search | None = None


def of(world: World, policy: Policy, memo: "Memo", room: Snapshot) -> Desk:
    """The columns of a new cycle, which a kernel wipes; what is free is the room's."""
    kept, keeps = memo.laid_out, world.tree.keeps
    columns, looks, waiting = kept.columns, *memo.waiting(world)
    stamp = (policy, world.share_changes, len(world.queue_rows), len(world.kinds))
    is_long = columns is not None and waiting + 2 <= len(columns.line)
    if columns is None or kept.stamp != stamp or not is_long:
        columns = _new(world, policy, 2 * waiting + 64)
        columns.reg[REG.SERIAL] = memo.asks.rows[:, ASK.OWED].max(initial=0)
        memo.asks.rows[:, ASK.LINE_LENGTH] = UNKNOWN  # another policy reads lines in another order
        kept.stamp = stamp
    columns.reg[REG.LOOKS], columns.reg[REG.SHAPES] = waiting, len(world.shape_rows)
    out, asks = len(room.ground.out), memo.asks
    kept.columns = renewed(
        columns,
        used=room.used,
        below=room.below if keeps else _NOTHING,
        kept=room.kind_kept if keeps else _NOTHING[0],
        free=room.kind_free,
        changed=memo.changed,
        notes=memo.notes,
        asks=asks.rows,
        looks=looks,
        types=asks.types,
        options=asks.options,
        rungs=asks.rungs,
        members=asks.gangs.members,
        seats=asks.gangs.seats,
        firsts=_firsts(columns, asks.sets),
        event_pieces=with_pieces(columns, out).event_pieces,
        learnt=memo.lines(policy).estimates.columns(world),
        **_scratch(columns, asks.rows, world),
    )
    return kept.columns


def renewed(columns: Desk, **fields: I64) -> Desk:
    """The columns with these; the same if they are these already, so that kernels know them."""
    if all(getattr(columns, name) is field for name, field in fields.items()):
        return columns
    return columns._replace(**fields)


def _scratch(columns: Desk, asks: I64, world: World) -> dict[str, I64]:
    """What a search for victims writes into, where the fleet or the jobs have become more."""
    shapes, jobs = len(world.shape_rows), len(world.placements)
    found: dict[str, I64] = {}
    most = int(asks[:, ASK.COUNT].max(initial=0))
    if 2 * most > len(columns.promised):
        found["promised"] = np.zeros((4 * most, KEPT_COLUMNS), np.int64)
        columns.reg[REG.STANDS] = 0
    if shapes > len(columns.evictable):
        found["evictable"] = np.zeros(2 * shapes, np.int64)
    if jobs > len(columns.candidates):
        found["candidates"] = np.zeros(2 * jobs, np.int64)
    return found


def hunt(kept: Laid, world: World, room: Snapshot) -> Search:
    """What a search for victims writes into; the same until the fleet or the jobs become more."""
    found, jobs, out = kept.hunt, len(world.placements), len(room.ground.out)
    nodes, pieces = world.node_count, len(world.matrices.pieces)
    if (
        found is not None
        and jobs <= len(found.victims)
        and out <= len(found.seat)
        and nodes == len(found.offers)
        and pieces <= len(found.aboard)
    ):
        return found

    def blank(*size: int) -> I64:
        return np.zeros(size, np.int64)

    jobs = 2 * jobs + 8
    kept.hunt = Search(
        blank(jobs, len(VICTIM)), blank(jobs + nodes + pieces, len(LINE)), blank(nodes, len(OFFER)),
        blank(pieces), blank(pieces), blank(jobs), blank(jobs), blank(jobs), blank(jobs),
        blank(out, len(OUT)),
    )  # fmt: skip
    return kept.hunt


def let_go(columns: Desk, jobs: Iterable[int]) -> Desk:
    """The same columns; these jobs are asked to go, and are no candidates any more."""
    leaving, before = sorted(jobs), columns.reg.item(REG.GOING)
    end = before + len(leaving)
    if end > len(columns.going):
        columns = columns._replace(going=grown(columns.going, end))
    columns.going[before:end] = leaving
    columns.reg[REG.GOING] = end
    return columns


def with_pools(columns: Desk, memo: "Memo") -> Desk:
    """The same columns; pools may have grown when others than the waiting were looked at."""
    asks = memo.asks
    return renewed(
        columns,
        types=asks.types,
        options=asks.options,
        rungs=asks.rungs,
        members=asks.gangs.members,
        seats=asks.gangs.seats,
        firsts=_firsts(columns, asks.sets),
    )


def with_pieces(columns: Desk, count: int) -> Desk:
    """The same columns, with room to tell of several jobs of so many pieces each.

    Nothing is told yet. Where one could not be told any more, Python takes over what was decided,
    and finishes the cycle: that shall be rare.
    """
    if JOBS_TOLD * count <= len(columns.event_pieces):
        return columns
    return columns._replace(event_pieces=_pieces(2 * JOBS_TOLD * count))


def _pieces(count: int) -> I64:
    return np.zeros((count, len(PieceColumn)), np.int64)


def _firsts(columns: Desk, sets: int) -> I64:
    if sets <= columns.firsts.shape[1]:
        return columns.firsts
    return np.zeros((len(columns.firsts), 2 * sets), np.int64)


def sharing_of(world: World) -> I64:
    """Where queues are in their tree, and how much they weigh."""
    queues, tree = len(world.queue_rows), world.tree
    found: I64 = np.full((queues, SHARING.TOP + tree.depth), UNKNOWN, np.int64)
    found[:, SHARING.ORDER] = range(queues)
    found[:, SHARING.WEIGHT] = tree.weights
    for q, path in enumerate(tree.paths):
        found[q, SHARING.TOP : SHARING.TOP + len(path)] = path[::-1]
    return found


def _new(world: World, policy: Policy, length: int) -> Desk:
    queues, kinds = len(world.queue_rows), len(world.kinds)

    def blank(*size: int) -> I64:
        return np.zeros(size, np.int64)

    reg = blank(max(REG) + 1)
    reg[REG.BY_SHAPE] = policy.order in BY_SHAPE
    reg[REG.BY_PRIORITY] = policy.order == "priority"
    reg[REG.PATIENCE_MS] = policy.patience_ms
    reg[REG.BACKFILL] = _BACKFILL[policy.backfill]
    reg[REG.HOLD_AFTER_MS] = policy.hold_after_ms
    reg[REG.RESERVATIONS_AT_MOST] = policy.reservations_at_most
    reg[REG.DEPTH] = world.tree.depth
    reg[REG.KEYS_CHANGE] = policy.fairness != "none" or bool((world.floor > 0).any())
    reg[REG.MAY_MOVE] = policy.may_move
    reg[REG.MOVES_AT_MOST] = policy.moves_at_most
    reg[REG.MOVES_APART_MS] = policy.moves_apart_ms
    reg[REG.IS_PLAIN] = score_of(policy.placement) is None
    reg[REG.FAIRNESS] = FAIRNESS[policy.fairness]
    reg[REG.RANKS] = ranks(policy)
    reg[REG.COUNTS_PAST] = policy.usage_half_life_ms > 0
    reg[REG.MAY_PREEMPT] = policy.may_preempt
    reg[REG.MAY_RECLAIM] = policy.may_reclaim
    reg[REG.VICTIMS_AT_MOST] = policy.victims_at_most
    reg[REG.MIN_RUN_MS] = policy.min_run_ms
    reg[REG.EVICTIONS_AT_MOST] = policy.evictions_at_most
    reg[REG.PRICES] = policy.victims != "time"
    reg[REG.SEARCHES_AT_MOST] = policy.searches_per_cycle
    reg[REG.GAIN_PPM] = policy.preempt_gain_ppm
    inner = blank(queues)
    inner[:] = [not is_leaf for is_leaf in world.tree.is_leaf]
    nothing = _NOTHING
    return Desk(
        reg, nothing, nothing[0], nothing[0], nothing, blank(length, len(LINE)),
        blank(length, len(LINE)), blank(queues), nothing, nothing, nothing[0], nothing[0],
        blank(kinds), blank(kinds), blank(queues, kinds), blank(kinds), blank(queues, kinds),
        blank(queues + 1, 1), blank(4 * length, len(EventColumn)),
        _pieces(PIECES), nothing, blank(PROMISES, len(PROMISE)),
        blank(PIECES, KEPT_COLUMNS), blank(length, len(CLAIM)),
        blank(length, len(PASSABLE)), blank(length * max(1, kinds), 2), inner, blank(GOING),
        blank(queues), blank(kinds), blank(kinds), blank(0), blank(0), nothing[0],
        sharing_of(world), blank(kinds, len(WORTH)), blank(queues, kinds),
        np.array(policy.attained_steps_ms, np.int64), nothing, nothing, nothing, blank(queues),
    )  # fmt: skip
