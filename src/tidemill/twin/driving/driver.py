"""The driver: lays out what the compiled loop takes, and does what it comes back for.

Only where a beat is jobs, nodes and the scheduler: where devices are shared with neighbours, or a
policy orders by more than columns hold, every beat is Python's (``engine.loop``), with the same
journal.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from tidemill.compiled.ahead import prepare_all
from tidemill.core import rows
from tidemill.engine import cycle as one
from tidemill.engine.check.columns import Rows
from tidemill.engine.check.order import reads
from tidemill.engine.fold import mix
from tidemill.model.batch import Batch, JobColumn
from tidemill.model.batch.convert import to_event
from tidemill.model.events import Action, MixSampled
from tidemill.model.measures import FOREVER_MS
from tidemill.model.orders import BY_SHAPE
from tidemill.model.tables import I64
from tidemill.provisioning.review import look_again_after_ms
from tidemill.scheduling.desk.codes import CODE
from tidemill.scheduling.desk.columns import REG
from tidemill.scheduling.desk.layout import ranks
from tidemill.scheduling.preemptive_order import apply, asking, at_once
from tidemill.scheduling.preemptive_order.columns import TERM
from tidemill.scheduling.schedule import Cycle
from tidemill.scheduling.scores import scoring
from tidemill.twin.driving import beats
from tidemill.twin.driving.ahead import KERNELS
from tidemill.twin.driving.beats import BACK
from tidemill.twin.driving.columns import DRIVE, STAGE, Beat
from tidemill.twin.event_queue import lives
from tidemill.twin.event_queue.columns import CLOCK

if TYPE_CHECKING:
    from tidemill.engine.loop import Loop
    from tidemill.twin.backend import Twin

BEATS_AT_ONCE = 4_096  # then whoever waits for news of how far it is may have some
EVENTS, PIECES = 4_096, 4_096  # rows that there is room for in one call
_NO_JOBS: I64 = np.zeros((0, len(JobColumn)), np.int64)
_MAY_DECIDE = (CODE.FIT, CODE.FAILED, CODE.STEP, CODE.TELL)
_IN_CYCLE = range(STAGE.GATHERING, STAGE.CARRYING + 1)


class Driver:
    """One for a twin and a loop."""

    def __init__(self, twin: "Twin", loop: "Loop") -> None:
        self._twin, self._loop = twin, loop
        self._beat = Beat(np.zeros(len(DRIVE), np.int64))
        self._cycle: Cycle | None = None
        self._last: Cycle | None = None
        """The last that was laid out."""
        self._is_prepared = False
        self._is_mix_new = False
        """Whether the mix was looked at, and cycles do not go by it yet."""
        self._number = -1
        """Of the cycle that Python answered last."""
        self._shares = -1
        """Changes of quotas that were seen."""
        self._shapes = 0
        """Shapes of which everything that a cycle may ask was known when they came, or before."""
        self._planned = int(CODE.OVER)
        """What the last plan of the whole fleet came to."""
        self._whole: tuple[Any, ...] = ()
        """What such plans are made with: rooms, and the columns of the roll."""
        self.codes = dict.fromkeys(BACK, 0)
        """How often the compiled loop came back, and why;"""
        self.answers = dict.fromkeys(CODE, 0)
        """and for which codes of the compiled cycle."""

    def drive(self, until_ms: int) -> bool:
        """Beat as long as it may; whether time went on, be it by moments at which nothing was."""
        if not self._may_begin():
            return False
        if not self._is_prepared:
            self._is_prepared = True
            reorders = apply.may_reorder(self._loop.policy)
            prepare_all((*KERNELS, asking.plan_all) if reorders else KERNELS)
        drive, loop = self._beat.drive, self._loop
        before = self._twin.agenda.t.clock.item(CLOCK.BATCH)
        drive[DRIVE.STAGE], drive[DRIVE.MADE] = STAGE.MOMENT, 0
        drive[DRIVE.UNTIL_MS] = min(until_ms, self._twin.horizon_ms)
        drive[DRIVE.HORIZON_MS] = self._twin.horizon_ms
        drive[DRIVE.LEFT] = min(BEATS_AT_ONCE, loop.beats_to_commit)
        drive[DRIVE.SAME] = 0
        is_finished = False
        while True:
            made = drive.item(DRIVE.MADE)
            code = self._beat_on(self._laid_out())
            self._take_over()
            loop.made(drive.item(DRIVE.MADE) - made)
            self.codes[BACK(code)] += 1
            if code in (BACK.OVER, BACK.PAUSE):
                break
            is_finished = self._answer(BACK(code)) or is_finished
            if drive.item(DRIVE.STAGE) == STAGE.MOMENT and (is_finished or not self._may_begin()):
                break
        if self._cycle is not None:
            loop.memo.scheduling.reservations = self._at_work(self._cycle).reservations.made()
            self._cycle = None
        return self._twin.agenda.t.clock.item(CLOCK.BATCH) > before

    def _beat_on(self, laid: tuple[Any, ...]) -> int:
        """Beat until Python has more to do than to have the whole fleet planned; why."""
        drive, counts, whole = self._beat.drive, self._twin.agenda.t.counts, self._whole
        while (code := int(beats.drive(*laid))) == BACK.REORDER:
            came, now_ms = counts.item(0, 0), drive.item(DRIVE.NOW)
            self._planned = int(asking.plan_all(*laid[:3], *whole, laid[3], came, now_ms))
            if self._planned != CODE.OVER:
                break
            self.codes[BACK.REORDER] += 1
            self._loop.memo.scheduling.members = None
            drive[DRIVE.STEP_MS] = whole[-1].terms.item(TERM.STEP_MS)
        return code

    def _may_begin(self) -> bool:
        """Whether beats are of the kind that the compiled loop makes."""
        loop, twin = self._loop, self._twin
        world, policy = loop.world, loop.policy
        is_known = policy.order in BY_SHAPE or ranks(policy)
        if not is_known or not policy.may_provision:
            return False
        if policy.usage_half_life_ms != world.half_life_ms:  # that is to be said first
            return False
        if apply.may_reorder(policy) and not (at_once.is_simple(world, policy) and reads(policy)):
            return False
        return not twin.has_neighbours

    # Laying out --------------------------------------------------------------------------------

    def _laid_out(self) -> tuple[Any, ...]:
        """Everything that the compiled loop takes, with room for more."""
        loop, twin, drive = self._loop, self._twin, self._beat.drive
        world, policy, memo = loop.world, loop.policy, loop.memo
        agenda, sheet = twin.agenda, loop.sheet
        twin.foresee(loop.inflow)
        at_work = self._at_work_next()
        if apply.may_reorder(policy):
            self._whole = at_once.of(memo.scheduling, policy).lay_out(world, memo.scheduling)
        book = loop.checker.laid_out(policy, world.job_count + EVENTS)
        d = at_work.columns
        more, more_pieces = EVENTS + len(d.events), PIECES + len(d.event_pieces)
        agenda.make_room(2 * len(agenda) + more)
        rows.make_pieces(world, more_pieces)
        events, pieces = sheet.room(more, more_pieces)
        agenda.renew(events=events, event_pieces=pieces, asked=d.events)
        clock, hunt, yard = agenda.t.clock, at_work.hunt, book.yard()
        clock[CLOCK.EVENTS] = clock[CLOCK.FOLDED] = len(sheet)
        clock[CLOCK.FIRST] = clock[CLOCK.CAME] - sheet.job_count
        drive[DRIVE.PIECES], drive[DRIVE.SEQ] = sheet.piece_count, world.seq
        drive[DRIVE.FOLDED_MS] = world.now_ms
        drive[DRIVE.ACTIVE_AT_MOST] = min(len(hunt.victims), len(d.candidates), len(yard.ends))
        self._write_layers()
        w = loop.inflow.ready(agenda.t.counts)
        return (
            w, d, at_work.room.ground, at_work.tables, hunt, at_work.ends, agenda.t, book.view,
            book.sums, book.facts, Rows(d.events, d.event_pieces), yard,
            memo.provisioning.supply(world, policy), self._beat,
        )  # fmt: skip

    def _at_work_next(self) -> Cycle:
        """The cycle that is at work, or the next; not laid out yet where Python will make that."""
        loop, drive, before = self._loop, self._beat.drive, self._cycle
        if before is not None and drive.item(DRIVE.STAGE) in _IN_CYCLE:
            return before if not self._is_mix_new else self._after(before)
        if self._last is not None and self._is_pythons():
            drive[DRIVE.IS_STALE] = 1
            return self._last
        if not self._twin.declares_next:
            loop.inflow.foretell()
        return self._next()

    def _after(self, before: Cycle) -> Cycle:
        """The next cycle, of which the mix is known now, while the plan of one is carried out.

        If the columns where that is written stay where they are; else it is laid out after it.
        """
        drive, self._is_mix_new = self._beat.drive, False
        if drive.item(DRIVE.STAGE) not in (STAGE.FOLDING, STAGE.CARRYING):
            return before
        made, d = self._next(), before.columns
        if made.columns.events is d.events and made.columns.event_pieces is d.event_pieces:
            return made
        drive[DRIVE.IS_STALE] = 1
        self._cycle = self._last = before
        return before

    def _next(self) -> Cycle:
        """Lay out the next cycle."""
        loop, drive = self._loop, self._beat.drive
        loop.memo.sheet.clear()
        made = Cycle(loop.world, loop.policy, loop.memo.scheduling, loop.memo.sheet)
        made.know_new(min(self._shapes, loop.world.shape_count))
        self._shapes = len(loop.world.shape_rows)
        drive[DRIVE.IS_STALE] = 0
        self._cycle = self._last = made
        return made

    def _is_pythons(self) -> bool:
        """Whether nodes change at this moment, or will at the next: whole cycles are Python's."""
        loop, stage = self._loop, self._beat.drive.item(DRIVE.STAGE)
        if stage == STAGE.TELLING:
            return loop.world.supply_changes != loop.memo.provisioning.supply_changes
        return stage == STAGE.MOMENT and self._twin.is_rare_soon()

    def _write_layers(self) -> None:
        """Write when the layers above the scheduler look again."""
        loop, drive = self._loop, self._beat.drive
        world, policy, memo = loop.world, loop.policy, loop.memo
        supply, nodes, contracts = world.supply_changes, memo.provisioning, memo.reservation
        is_seen = nodes.supply_changes == contracts.supply_changes == supply
        drive[DRIVE.SUPPLY] = supply if is_seen else -1
        drive[DRIVE.LASTING] = world.lasting_changes
        drive[DRIVE.PROVISION_MS], drive[DRIVE.RESERVE_MS] = nodes.wake_ms, contracts.wake_ms
        drive[DRIVE.IS_ELASTIC] = nodes.is_elastic
        drive[DRIVE.LOOK_AGAIN_MS] = look_again_after_ms(policy)
        drive[DRIVE.CULL_AFTER_MS] = policy.cull_idle_after_ms
        drive[DRIVE.REORDERS] = reorders = apply.may_reorder(policy)
        may_grow = policy.may_resize and not reorders
        grows = may_grow and bool(memo.scheduling.elastic_shapes(world))
        drive[DRIVE.GROW_AFTER_MS] = policy.grow_after_ms if grows else -1
        if self._shares != world.share_changes:
            self._shares, drive[DRIVE.GREW_OF] = world.share_changes, -1
        looks_ahead = scoring.looks_ahead(policy)
        drive[DRIVE.MIX_AT] = mix.next_point(world) if looks_ahead else FOREVER_MS

    def _take_over(self) -> None:
        """What was told and folded is the loop's, and the World's."""
        loop, drive, clock = self._loop, self._beat.drive, self._twin.agenda.t.clock
        jobs, names = self._twin.came(loop.sheet)
        loop.sheet.wrote(clock.item(CLOCK.EVENTS), drive.item(DRIVE.PIECES), jobs, names)
        folded = drive.item(DRIVE.SEQ) - loop.world.seq
        loop.inflow.done(self._twin.agenda.t.counts, folded, drive.item(DRIVE.FOLDED_MS))
        loop.memo.provisioning.wake_ms = drive.item(DRIVE.PROVISION_MS)
        self._twin.forget_next()

    # Answers -----------------------------------------------------------------------------------

    def _answer(self, code: BACK) -> bool:
        """Do what the compiled loop came back for; whether that finished the beat."""
        match code:
            case BACK.TELL:
                return self._tell(self._beat.drive.item(DRIVE.ROW))
            case BACK.READ_ON:
                self._twin.read_on()
            case BACK.DECIDE:
                self._decide()
                return True
            case BACK.REORDER:
                return self._plan_again()
            case BACK.ANSWER:
                return self._go_on(self._beat.drive.item(DRIVE.ROW))
            case BACK.SUPPLY | BACK.RESIZE:
                self._finish()
                return True
            case BACK.WRONG:
                self._judge()
            case BACK.FOLD:
                self._fold()
            case BACK.CARRY:
                self._twin.answer(self._loop.world, self._row())
                self._beat.drive[DRIVE.ROW] += 1
            case _:
                assert code in (BACK.GROW, BACK.ANEW), f"nobody asked for {code!r}"
        return False

    def _tell(self, code: int) -> bool:
        """What happens now is rare; the rest of the moment goes on after it.

        Where nothing is left of it, and the cycle is Python's, that is made at once: True.
        """
        loop, twin, drive = self._loop, self._twin, self._beat.drive
        now_ms = drive.item(DRIVE.NOW)
        twin.tell_rare(loop.world, code, loop.sheet, loop.inflow)
        while twin.is_rare_next(now_ms):
            twin.tell_rare(loop.world, lives.RARE, loop.sheet, loop.inflow)
        if twin.has_followers or not self._may_begin():
            drive[DRIVE.IS_RARE] = 1
        is_pythons = drive.item(DRIVE.IS_RARE) or self._is_pythons()
        is_told = len(loop.sheet) > drive.item(DRIVE.BEFORE)
        if not (is_pythons and is_told and twin.is_over(now_ms)):
            return False
        self._decide()
        return True

    def _decide(self) -> None:
        """A whole cycle in Python."""
        self._cycle, loop = None, self._loop
        loop.settle(one.cycle(loop.world, loop.policy, loop.memo))
        self._beat.drive[DRIVE.STAGE] = STAGE.MOMENT

    def _plan_again(self) -> bool:
        """Do what a plan of the whole fleet asks for, and begin it again; or make it in Python."""
        loop, at_work = self._loop, self._cycle
        assert at_work is not None, "a cycle is at work"
        if not at_once.of(loop.memo.scheduling, loop.policy).answer(at_work, self._planned):
            self._decide()
            return True
        self._beat.drive[DRIVE.STAGE] = STAGE.CYCLE
        return False

    def _go_on(self, code: int) -> bool:
        """Answer the compiled cycle; where that decided something, finish it in Python."""
        loop, at_work, drive = self._loop, self._cycle, self._beat.drive
        assert at_work is not None, "a cycle is at work"
        self.answers[CODE(code)] += 1
        self._at_work(at_work)
        if code in _MAY_DECIDE:
            at_work.tell()
        if code == CODE.KNOW:
            at_work.know_all([at_work.columns.reg.item(REG.WHO)])
        else:
            at_work.answer(code)
        if not len(at_work.sheet):
            return False
        loop.settle(one.resume(loop.world, loop.policy, loop.memo, at_work, self._cull_ms))
        self._cycle, drive[DRIVE.STAGE] = None, STAGE.MOMENT
        return True

    def _finish(self) -> None:
        """The scheduler is through; what the layers above it ask for is said in Python."""
        at_work, loop = self._cycle, self._loop
        assert at_work is not None, "a cycle was made"
        at_work.tell()
        loop.settle(one.climb(loop.world, loop.policy, loop.memo, wake_ms=self._cull_ms))
        self._cycle, self._beat.drive[DRIVE.STAGE] = None, STAGE.MOMENT

    def _at_work(self, one: Cycle) -> Cycle:
        """The cycle of now: what Python did in another is forgotten."""
        number = one.columns.reg.item(REG.CYCLE)
        if number != self._number:
            one.begin_anew()
            self._number = number
        return one

    @property
    def _cull_ms(self) -> int:
        """When the next idle job is to be cancelled."""
        return self._beat.drive.item(DRIVE.CULL_MS)

    def _judge(self) -> None:
        """Have Python say what is wrong with the plan."""
        self._finish()
        raise AssertionError("a plan is wrong that is right")

    def _fold(self) -> None:
        """Fold one row of the plan by itself, and write it."""
        loop, drive = self._loop, self._beat.drive
        action = self._row()
        loop.inflow.single(action)
        loop.sheet.write_one(action)
        self._is_mix_new = isinstance(action, MixSampled)
        drive[DRIVE.ROW] += 1

    def _row(self) -> Action:
        """The row of the plan that the compiled loop is at."""
        assert self._cycle is not None, "a plan was made"
        d = self._cycle.columns
        count, pieces = d.reg.item(REG.EVENTS), d.reg.item(REG.EVENT_PIECES)
        batch = Batch(
            d.events[:count], d.event_pieces[:pieces], _NO_JOBS, [], [], self._loop.sheet.dictionary
        )
        found: Any = to_event(batch, self._beat.drive.item(DRIVE.ROW))
        return found
