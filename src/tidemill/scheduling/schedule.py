"""The scheduler's beat: order the waiting, fit each gang, make room for the entitled, say why.

1. *Order*: whoever stays within its team's floor first, then by priority, then the oldest.
2. *Fit*: the whole gang or nothing. Equal jobs are one shape: when the first does not fit, the
   others are not tried, and none of them again until something they need was freed.
3. *Make room*: an entitled or higher job that does not fit may evict (``victims``).
4. *Hold*: behind a job that the starvation guard protects, or for which room is being made, nobody
   passes who wants the same accelerators. So every job that can fit finally runs. One that a
   maximum quota keeps out holds back only jobs under that quota.
5. *Say why*: the cause of each shape that still waits, when it changed.
"""

from collections.abc import Iterable, Sequence, Set
from itertools import islice

from tidemill.model.batch.sheet import Sheet
from tidemill.model.events import (
    AskedEvict,
    AskedMove,
    AskedPlace,
    AskedRelease,
    CauseChanged,
    Why,
)
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Piece
from tidemill.model.world import World
from tidemill.scheduling import moves, resize
from tidemill.scheduling.backfill.columns import Ends
from tidemill.scheduling.backfill.reservations import Reservations
from tidemill.scheduling.desk import cycle as desk
from tidemill.scheduling.desk import (
    failures,
    fair_shares,
    gathering,
    layout,
    opening,
    placing,
    rights,
    searching,
)
from tidemill.scheduling.desk import lines as desk_lines
from tidemill.scheduling.desk import order as lining
from tidemill.scheduling.desk.codes import CODE
from tidemill.scheduling.desk.columns import ASK, REG, UNKNOWN, Search
from tidemill.scheduling.diagnose import diagnose, fits_when_others_end, supply_cause
from tidemill.scheduling.elastic import fit_largest
from tidemill.scheduling.fairness import Fair
from tidemill.scheduling.fit import Fit, redo, undo
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemption import select
from tidemill.scheduling.preemption.search import Hunt
from tidemill.scheduling.preemptive_order import apply as reordering
from tidemill.scheduling.preemptive_order import at_once
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.scores.tables import BLANK, Tables

CURED_BY_WAITING = frozenset(
    {
        Cause.BUSY,
        Cause.PARTIAL_GANG,
        Cause.SCATTERED,
        Cause.CPU_BINDS,
        Cause.MEMORY_BINDS,
        Cause.HOST_BINDS,
        Cause.KEPT_BACK,
        Cause.TOPOLOGY,
    }
)
"""Causes that go away when running jobs end; behind such a job a queue may be held."""
ASKED_AT_ONCE = 64
"""Shapes that are answered when one is asked about: of thousands that wait few are looked at."""
_QUESTIONS = {ASK.OUTLASTS: fits_when_others_end, ASK.SUPPLY: supply_cause}
CURED_BY_MOVING = CURED_BY_WAITING - {Cause.BUSY, Cause.KEPT_BACK}
CURED_BY_EVICTION = CURED_BY_WAITING | {Cause.OVER_LIMIT}


def schedule(
    world: World, policy: Policy, memo: Memo, sheet: Sheet, leaving: Set[int] = frozenset()
) -> None:
    """Whom to place, whom to evict, and why the others wait: written at the end of a sheet.

    ``leaving``: jobs that are asked to go already, in the same beat.
    """
    if not world.queued:
        return
    memo.lines(policy).begin(world)
    one = Cycle(world, policy, memo, sheet, leaving)
    if reordering.may_reorder(policy):
        if leaving or not at_once.plan(one):
            sheet.write(reordering.reorder(world, policy, memo, leaving))
        return
    if one.has_news() or memo.forgets:
        one.begin()
        one.gather()
        one.work_off()


class Cycle:
    """One cycle at work: the compiled one, and in Python what it comes back for."""

    def __init__(
        self, world: World, policy: Policy, memo: Memo, sheet: Sheet, going: Set[int] = frozenset()
    ) -> None:
        self.world, self.policy, self.memo = world, policy, memo
        self.going = going
        """Jobs that are asked to go already, before this cycle."""
        self.room = memo.room_to_begin(world)
        self.scoring = memo.scoring(world, policy)
        self.sheet = sheet
        self.lines = memo.lines(policy)
        memo.know_changes(world)
        columns = layout.of(world, policy, memo, self.room)
        columns.reg[REG.MAY_RESIZE] = policy.may_resize and bool(memo.elastic_shapes(world))
        columns.reg[REG.IS_MOVING] = bool(world.moving)
        columns.reg[REG.SPREADS] = self.scoring.spreads
        columns.reg[REG.SCORES] = self.scoring is not PACKING
        columns.reg[REG.ROOM_AT] = memo.asks.room_at(self.room, self.scoring, world.topology)
        if policy.fairness != "none":
            Fair(world, policy).write_worth(columns.worth)
        self.columns = layout.with_pools(columns, memo)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what Python did in the cycle before."""
        self.reservations = Reservations(
            self.world, self.policy, self.memo, self.room, self.columns
        )
        self.again_ms = FOREVER_MS

    @property
    def leaving(self) -> set[int]:
        """Jobs that are asked to go, in this cycle or before it."""
        going = self.columns.going[: self.columns.reg.item(REG.GOING)].tolist()
        return {*going}.difference(self.world.kept).union(self.going)

    def has_news(self) -> bool:
        """Whether there is anything to decide."""
        world, now_ms = self.world, self.world.now_ms
        is_news = opening.is_news(world.matrices, self.columns, world.job_count, now_ms)
        return bool(is_news) or self.memo.patience_was_lost(world, self.policy)

    @property
    def hunt(self) -> Search:
        """What a search for victims writes into."""
        return layout.hunt(self.memo.laid_out, self.world, self.room)

    @property
    def ends(self) -> Ends:
        """Who ends when; with room for all that run."""
        return self.reservations.running.columns

    @property
    def tables(self) -> Tables:
        """What nodes are scored by."""
        return BLANK if self.scoring.tables is None else self.scoring.tables

    def work_off(self) -> None:
        """Go through the line until it is empty."""
        w = self.world.matrices
        while True:
            code = desk.work_off(
                w, self.columns, self.room.ground, self.tables, self.hunt, self.ends
            )
            self.tell()
            if code == CODE.OVER:
                break
            self.answer(code)
        opening.close(self.columns)
        self.memo.reservations = self.reservations.made()

    def answer(self, code: int) -> None:
        """Do what the compiled cycle came back for."""
        self._answer(code, self.columns.reg.item(REG.WHO))
        self._renew()

    def know_all(self, shapes: Iterable[int]) -> None:
        """Answer everything at once that the compiled cycle will ask of shapes it has not seen."""
        for s in shapes:
            self._prepare(s)
            supply_cause(self.world, self.memo, s)
            self.memo.outlasts(self.world, s)
        self._renew()

    def know_new(self, first: int) -> None:
        """The same of those from one on of which something is not known, or not any more."""
        end = len(self.world.shape_rows)
        if first < end:
            self.know_all(self.memo.asks.unprepared(first, end))

    def _renew(self) -> None:
        """Pools may have grown, and gangs become larger."""
        columns = layout.with_pools(self.columns, self.memo)
        self.columns = layout.with_pieces(columns, len(self.room.ground.out))

    def _answer(self, code: int, s: int) -> None:
        world, memo = self.world, self.memo
        match code:
            case CODE.KNOW:
                memo.known(world, s)
            case CODE.OUTLASTS:
                self._ask_all(s, ASK.OUTLASTS)
            case CODE.SUPPLY:
                self._ask_all(s, ASK.SUPPLY)
            case CODE.PREPARE:
                self._prepare(s)
            case CODE.MAKE:
                self.columns = self.reservations.make_all(self.columns)
            case _:
                self._decide_on(s, code)

    def _ask_all(self, s: int, column: ASK) -> None:
        """Answer something of a shape, and of some that wait and that it is not known of: they ask.

        What is found serves all that are like one.
        """
        question, rows = _QUESTIONS[column], self.memo.rows(self.world)
        unknown = (one for one in (s, *self.world.queued) if rows[one, column] == UNKNOWN)
        for one in islice(unknown, ASKED_AT_ONCE):
            question(self.world, self.memo, one)

    def _decide_on(self, s: int, code: int) -> None:
        """Do what may place somebody, stop somebody, or say why somebody waits."""
        cause = self.columns.reg.item(REG.CAUSE)
        match code:
            case CODE.FIT:
                self._fit(s)
            case CODE.FAILED:
                self._not_placed(s, self._upcoming(s), Cause(cause))
            case CODE.STEP:
                if self._step_on(s):
                    lining.enter(self.world.matrices, self.columns, s)
            case _:
                assert code == CODE.TELL, f"nobody asked for {code}"

    def _prepare(self, s: int) -> None:
        """Write what fitting a shape needs, if it is done by kernels."""
        known = self.memo.known(self.world, s)
        if self.memo.asks.is_fitted(s):
            self.memo.asks.prepare(self.world, s, self.room, self.scoring, known)

    def _upcoming(self, s: int) -> int:
        """The job of a shape that is looked at."""
        return self.columns.asks.item(s, ASK.UPCOMING)

    # Laying out --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a cycle: the desk is wiped, and the room is as the fleet is."""
        world, columns = self.world, self.columns
        opening.begin(world.matrices, columns, self.room.ground, world.now_ms)
        self.columns = layout.let_go(columns, self.going | world.kept)

    def gather(self) -> None:
        """Line up whoever is looked at."""
        w, columns = self.world.matrices, self.columns
        if desk_lines.is_asked(columns.reg):
            for s in self.world.queued:
                self._write_head(s)
                columns.asks[s, ASK.PATIENCE_MS] = self.lines.first_to_lose_patience_ms(
                    self.world, s
                )
        while (code := gathering.gather(w, self.columns)) != CODE.OVER:
            self.answer(code)

    def _write_head(self, s: int) -> None:
        """Who is next of a shape, and its place in the policy's own order."""
        (first, second), j = self.lines.head(self.world, s)
        row = self.columns.asks[s]
        row[ASK.UPCOMING], row[ASK.FIRST], row[ASK.SECOND] = j, first, second

    def tell(self) -> None:
        """Take over what the compiled cycle said."""
        reg, columns = self.columns.reg, self.columns
        count, pieces = reg.item(REG.EVENTS), reg.item(REG.EVENT_PIECES)
        if count:
            self.sheet.take(columns.events[:count], columns.event_pieces[:pieces])
            reg[REG.EVENTS] = reg[REG.EVENT_PIECES] = 0

    # Fitting -----------------------------------------------------------------------------------

    def _fit(self, s: int) -> None:
        """Place the next job of a shape and line up the one after it, or deal with why not."""
        world, known, j = self.world, self.memo.known(self.world, s), self._upcoming(s)
        shape = world.shape_rows[s]
        found = fit_largest(self.room, known.queue, shape, known.options, self.scoring)
        if found.shortage is not None:
            if self.columns.asks[s, ASK.IS_SIMPLE] and found.shortage.is_of_nodes:
                self.memo.asks.mark_unfit(s, self.columns.reg.item(REG.CYCLE))
                lining.enter(world.matrices, self.columns, s)  # it is known now why it fails
            else:
                self._not_placed(s, j, diagnose(world, self.memo, self.room, s, found.shortage))
        elif self._place(s, j, found) and self._step_on(s):
            lining.enter(world.matrices, self.columns, s)

    def _place(self, s: int, j: int, found: Fit) -> bool:
        """Place a job that fits, if it may pass; whether the next of its shape may be asked."""
        world = self.world
        pieces = self._let_past(s, j, found.pieces)
        if not pieces:
            self._say(s, Cause.RESERVED)
            return self.reservations.may_try_next(s)
        attempt = int(world.jobs.attempt[j]) + 1
        self.sheet.write_one(AskedPlace(world.now_ms, j, attempt, pieces))
        placing.pass_by(world.matrices, self.columns, s, world.shapes.queue.item(s))
        self.tell()
        reg = self.columns.reg
        reg[REG.PLACED] += 1
        reg[REG.KEYED] = reg[REG.PLACED]
        fair_shares.rank_again(world.matrices, self.columns, world.shapes.queue.item(s))
        return True

    def _let_past(self, s: int, j: int, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
        """Where a job that was fitted may sit without disturbing whoever goes before it.

        The pieces as they are, others, or none; the room is left accordingly.
        """
        if self.columns.reg[REG.PENDING]:
            shape, q = self.world.shape_rows[s], self.world.shapes.queue.item(s)
            undo(self.room, q, shape, pieces)
            self.columns = self.reservations.make_all(self.columns)
            redo(self.room, q, shape, pieces)
        return self.reservations.let_past(s, j, pieces)

    def _step_on(self, s: int) -> bool:
        """Go on to the next job of a shape that may have a chance; whether there is one."""
        while self._take(s):
            if not self.reservations.is_refused(s, self._upcoming(s)):
                return True
            if not self.reservations.may_try_next(s):
                return False
        return False

    def _take(self, s: int) -> bool:
        """Take the job that is looked at out of its line in this cycle; whether one comes after."""
        if not desk_lines.is_asked(self.columns.reg):
            return bool(desk_lines.take_next(self.world.matrices, self.columns, s))
        self.columns.asks[s, ASK.TAKEN] += 1
        is_left = self.lines.take(self.world, s)
        if is_left:
            self._write_head(s)
        return is_left

    def _not_placed(self, s: int, j: int, cause: Cause) -> None:
        world = self.world
        if world.promised.get(s, 0) > 0:
            searching.keep_promise(world.matrices, self.columns, s)
            self.tell()
            return
        if s in world.promised and not self.columns.asks[s, ASK.TAKEN]:
            self.sheet.write_one(AskedRelease(world.now_ms, s))
            self._say(s, cause)
            return
        if searching.may_make_room(self.columns.reg, self.columns.asks, s, int(cause)):
            if not searching.begin_search(self.columns, s):
                self._say(s, cause)
                self._hold_behind(s, cause)
                return
            leaving = self._make_room(s, j, cause)
            if leaving:
                self._say(s, Cause.PROMISED)
                self._hold(s, leaving)
                return
        if not self.memo.is_doubted(s):
            failures.remember(world.matrices, self.columns, s, int(cause))
        self._say(s, cause)
        self._hold_behind(s, cause)

    def _make_room(self, s: int, j: int, cause: Cause) -> list[int]:
        """Ask others to shrink, else to move, else to stop; who was asked."""
        self.memo.ask_again_at(s, FOREVER_MS)
        self.again_ms = FOREVER_MS
        lent: list[select.Victim] = []
        if self.policy.may_resize:
            hunt = self._hunt(s)
            self.memo.heed_taken(s)
            lent, is_final = resize.cuts(hunt, self.leaving)
            if not is_final:
                self.memo.doubt(s)
            given = resize.shrink(hunt, lent) if lent else []
            if given:
                return self._ask_to_shrink(given, j)
        asked = self._move(s, j, cause) or self._evict(s, j, lent)
        if not asked:
            self.memo.ask_again_at(s, self.again_ms)
        return asked

    def _ask_to_shrink(self, given: Sequence[select.Victim], j: int) -> list[int]:
        asked = resize.asked(self.world, given, j)
        self.sheet.write(asked)
        return self._let_go([action.job for action in asked])

    def _move(self, s: int, j: int, cause: Cause) -> list[int]:
        """Move others elsewhere; their new places are taken at once, in this cycle too."""
        world, now_ms = self.world, self.world.now_ms
        if not self.policy.may_move or cause not in CURED_BY_MOVING:
            return []
        self.memo.heed_taken(s)
        if self.columns.reg[REG.MOVES_LEFT] <= 0:
            self.memo.doubt(s)
            return []
        self.columns.reg[REG.MOVES_LEFT] -= 1
        found = moves.plan(world, self.policy, self.memo, self.room, s, self.leaving)
        if not found.is_final:
            self.memo.doubt(s)
        self.again_ms = found.again_ms
        for victim, gained in found.movers:
            attempt = int(world.jobs.attempt[victim.job])
            self.sheet.write_one(
                AskedMove(now_ms, victim.job, attempt, Why.MOVED, gained, victim.pieces, j)
            )
            redo(self.room, victim.queue, victim.shape, gained)
        return self._let_go([mover.victim.job for mover in found.movers])

    def _evict(self, s: int, j: int, lent: Sequence[select.Victim]) -> list[int]:
        world = self.world
        if not self.memo.may_evict(world, s):
            return []
        found = self._search(s, lent)
        if not found.is_final:
            self.memo.doubt(s)
        self.again_ms = min(self.again_ms, found.again_ms)
        given = [victim for victim in found.victims if victim.why is Why.SHRUNK]
        stopped = [victim for victim in found.victims if victim.why is not Why.SHRUNK]
        self.sheet.write(
            AskedEvict(world.now_ms, v.job, int(world.jobs.attempt[v.job]), v.why, j)
            for v in stopped
        )
        jobs = self._let_go([victim.job for victim in stopped])
        return jobs + self._ask_to_shrink(given, j)

    def _search(self, s: int, lent: Sequence[select.Victim]) -> select.Choice:
        """Whom to stop, as the compiled cycle found; where it has not searched, it is done here.

        Nobody, without a search, where that is sure to be in vain.
        """
        reg = self.columns.reg
        count = reg.item(REG.FOUND)
        if count > 0:
            reg[REG.FOUND] = UNKNOWN
            hunt = self._hunt(s)._replace(reach=reg.item(REG.REACH))
            return select.judged(hunt, self.hunt.victims[self.hunt.chosen[:count]])
        if not lent and rights.is_in_vain(self.world.matrices, self.columns, self.room.ground, s):
            return select.Choice([], bool(reg[REG.IS_FINAL]), reg.item(REG.AGAIN_MS))
        return select.choose(self._hunt(s), self.columns, self.hunt, lent)

    def _hunt(self, s: int) -> Hunt:
        """A search for room for a shape, on all types that it may use."""
        return Hunt(self.world, self.policy, self.memo, self.room, s)

    def victims_for(self, s: int) -> list[select.Victim]:
        """Whom a search in Python would stop for a shape; nothing is decided."""
        self.begin()
        self.memo.known(self.world, s)
        self.columns = layout.with_pools(self.columns, self.memo)
        return select.choose(self._hunt(s), self.columns, self.hunt).victims

    def _let_go(self, jobs: list[int]) -> list[int]:
        """These jobs are asked to go."""
        self.columns = layout.let_go(self.columns, jobs)
        return jobs

    def _hold_behind(self, s: int, cause: Cause) -> None:
        """Let nobody pass a job that the starvation guard protects, unless waiting is no cure.

        Before that, with backfill: a reservation (``desk.hold``).
        """
        w, columns, q = self.world.matrices, self.columns, self.world.shapes.queue.item(s)
        may_hold = gathering.may_hold(
            columns.reg, w.jobs, columns.asks, columns.types, columns.claimed, columns.limited,
            s, q, int(cause),
        )  # fmt: skip
        if may_hold and fits_when_others_end(self.world, self.memo, s):
            desk.hold(w, columns, s, int(cause))

    def _hold(self, s: int, leaving: Sequence[int]) -> None:
        """Keep others off the kinds of a shape, and off whatever those who leave for it held."""
        searching.hold_types(self.columns, s)
        for j in leaving:
            searching.hold_left(self.world.matrices, self.columns, j)

    def _say(self, s: int, cause: Cause) -> None:
        row = self.columns.asks[s]
        if row.item(ASK.SAID) != cause:  # a number of numpy takes long to compare with an enum
            row[ASK.SAID] = cause
            self.sheet.write_one(CauseChanged(self.world.now_ms, s, cause))
