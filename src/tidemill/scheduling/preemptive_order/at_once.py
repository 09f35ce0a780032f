"""A plan of the whole fleet in one compiled call, where only nodes decide who is in.

No guaranteed or maximum quotas, no fair shares, no topology, gangs of one role, nodes ranked by
what kernels know: then every waiting and every running job is called in order, seats are found, and
what follows is written on the desk (``asking``). Anything else is ``apply``'s.
"""

from typing import TYPE_CHECKING

import numpy as np

from tidemill.model.measures import FOREVER_MS
from tidemill.model.placements import score_of
from tidemill.model.policy import Policy
from tidemill.model.rows import Shape
from tidemill.model.tables import I64, grown
from tidemill.model.views import Queued
from tidemill.model.world import World
from tidemill.scheduling.desk import layout
from tidemill.scheduling.desk.codes import CODE
from tidemill.scheduling.desk.columns import REG
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fitting.columns import Ground
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemptive_order import asking
from tidemill.scheduling.preemptive_order.calling import NO_SPACE, NOT_SIMPLE
from tidemill.scheduling.preemptive_order.columns import (
    OPTIONS,
    OUTSIDE,
    PLANNED,
    ROLL,
    SEEKER,
    TERM,
    WANT,
    RollCall,
)
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.snapshot import Snapshot

if TYPE_CHECKING:
    from tidemill.scheduling.schedule import Cycle

ROWS = 256  # of everything, to begin with
TRIES = 64  # a column that is too short is doubled each time


def keys_change(world: World, policy: Policy) -> bool:
    """Whether what a team is given moves it in the order."""
    return policy.fairness != "none" or bool((world.floor > 0).any())


def is_unbooked(world: World, policy: Policy) -> bool:
    """Whether nobody reads what teams use, and nodes are alike wherever they are."""
    has_limits = bool((world.limit < FOREVER_MS).any()) or world.tree.keeps
    return not (keys_change(world, policy) or has_limits or world.topology.tiers)


def is_simple(world: World, policy: Policy) -> bool:
    """Whether kernels know the order and the scores, and nothing but nodes decides who is in."""
    is_known = bool(layout.ranks(policy)) and score_of(policy.placement) is None
    is_whole = not world.kept and isinstance(world.queued, Queued)
    return is_known and is_whole and is_unbooked(world, policy)


def plan(one: "Cycle") -> bool:
    """Write a plan of the whole fleet on the sheet of a cycle; False: more than nodes decides."""
    world, memo, columns = one.world, one.memo, one.columns
    if not is_simple(world, one.policy):
        return False
    columns.reg[REG.NOW] = world.now_ms
    columns.reg[[REG.EVENTS, REG.EVENT_PIECES]] = 0
    for _ in range(TRIES):
        whole = of(memo, one.policy)
        actual, vacant, rolled = whole.lay_out(world, memo)
        code = asking.plan_all(
            world.matrices, one.columns, one.room.ground, actual, vacant, rolled, one.tables,
            world.job_count, world.now_ms,
        )  # fmt: skip
        if code == CODE.OVER:
            memo.members = None
            one.tell()
            return True
        if not whole.answer(one, code):
            return False
    raise AssertionError("what a plan asks for is answered, and it has space in the end")


def of(memo: Memo, policy: Policy) -> "AtOnce":
    """What plans are made with under a policy."""
    if memo.at_once is None or memo.at_once.policy != policy:
        memo.at_once = AtOnce(policy)
    return memo.at_once


class AtOnce:
    """The columns of plans of one cluster state, and what is known of its shapes."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._columns = _new(policy)
        self._known: tuple[object, ...] = ()
        self._shapes = 0

    @property
    def next_step_ms(self) -> int:
        """When the next running job steps back in the order of attained service."""
        return self._columns.terms.item(TERM.STEP_MS)

    def forget(self) -> None:
        """The roll of this moment is another by now."""
        self._columns.terms[TERM.IS_CALLED] = 0

    def lay_out(self, world: World, memo: Memo) -> tuple[Ground, Ground, RollCall]:
        """A room as the fleet is, one in which nothing runs, and the columns of the roll."""
        room = memo.planning_room(world)
        self._know(world, memo, room)
        self._columns.terms[TERM.SHARES_NOW] = world.share_changes
        return memo.trial_room(world).ground, room.ground, self._columns

    def answer(self, one: "Cycle", code: int) -> bool:
        """Do what a plan came back for; False: it is to be made job by job."""
        if code == NOT_SIMPLE:
            return False
        if code == NO_SPACE:
            self._make_space(one)
        else:
            one.answer(code)
        return True

    def _make_space(self, one: "Cycle") -> None:
        """Have twice as many rows of everything."""
        r, columns = self._columns, one.columns
        self._columns = r._replace(
            **{
                name: grown(getattr(r, name), 2 * len(r.roll))
                for name in ("roll", "newcomers", "elsewhere", "outside")
            },
            seats=grown(r.seats, 2 * len(r.seats)),
            given=grown(r.given, 2 * len(r.given)),
        )
        one.memo.laid_out.columns = one.columns = columns._replace(
            events=grown(columns.events, 2 * len(columns.events)),
            event_pieces=grown(columns.event_pieces, 2 * len(columns.event_pieces)),
        )

    def _know(self, world: World, memo: Memo, room: Snapshot) -> None:
        """Know what each shape asks for; again if nodes, or the rows of requests, are others."""
        known = (room, len(world.groups), world.contract_count)
        if known != self._known:
            self._known, self._shapes = known, 0
        count = len(world.shape_rows)
        if count > len(self._columns.wants):
            self._columns = self._columns._replace(wants=grown(self._columns.wants, count))
        for s in range(self._shapes, count):
            shape, options = world.shape_rows[s], memo.known(world, s).options
            row = self._columns.wants[s]
            row[:] = 0
            if _is_of_nodes(shape, options):
                row[WANT.IS_SIMPLE], row[WANT.COUNT] = 1, shape.roles[0].count
                row[WANT.OPTIONS] = len(options[0])
                for i, option in enumerate(options[0], start=WANT.FIRST):
                    row[i] = room.request(shape.roles[0], option.is_ok, PACKING)
        self._shapes = count


def _new(policy: Policy) -> RollCall:
    def blank(columns: int) -> I64:
        return np.zeros((ROWS, columns), np.int64)

    terms: I64 = np.zeros(len(TERM), np.int64)
    terms[[TERM.RANKS, TERM.PATIENCE_MS, TERM.MIN_RUN_MS, TERM.EVICTIONS_AT_MOST]] = (
        layout.ranks(policy), policy.patience_ms, policy.min_run_ms, policy.evictions_at_most,
    )  # fmt: skip
    return RollCall(
        roll=blank(len(ROLL)), seats=blank(len(PLANNED)), wants=blank(WANT.FIRST + OPTIONS),
        steps=np.array(policy.attained_steps_ms, np.int64), terms=terms,
        newcomers=blank(len(SEEKER)), elsewhere=blank(len(SEEKER)), outside=blank(len(OUTSIDE)),
        given=blank(len(PLANNED)),
    )  # fmt: skip


def _is_of_nodes(shape: Shape, options: tuple[tuple[Option, ...], ...]) -> bool:
    """Whether only nodes decide: one role of one size, on whole or shared devices."""
    only = shape.roles[0]
    is_one = len(shape.roles) == 1 and not (only.least or only.profile)
    is_held = only.accelerators > 0 and len(options[0]) <= OPTIONS
    return is_one and is_held and not (shape.bonds or only.bonds)
