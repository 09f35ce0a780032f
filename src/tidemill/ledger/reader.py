"""The reader: goes through a journal in batches, or takes what a loop tells, and keeps the ledger.

It folds the events into a cluster state of its own. Kernels do that, and keep the ledger's columns
on the way (``core.accounting``): supply is integrated level by level, jobs span by span; the two
routes meet in the sum, which must be what was paid. Where a kernel comes back, Python does what is
rare: one event by itself, another time bin, whose turn it is, a move.

Events that a loop tells are gathered, and read as a batch when there are many or somebody asks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Self

import numpy as np

from tidemill.core.accounting import attempts as kernels
from tidemill.core.accounting import reading, usable
from tidemill.core.accounting.columns import (
    HELD,
    LACK,
    MARK,
    NEVER,
    NOT_RUNNING,
    SIZE,
    SPAN,
    STOP,
    UNLINED,
    LedgerState,
)
from tidemill.engine.fold.batch import Folding, columns_of
from tidemill.journal import node_reasons, source, submissions
from tidemill.journal.scheduled import SCHEDULES
from tidemill.ledger import beside_events, price_periods, state
from tidemill.ledger.beside_events import BesideEvents
from tidemill.ledger.books import HourlyBooks
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.cells import Cells
from tidemill.ledger.host_use import HostUses
from tidemill.ledger.idle_attribution import Claimants
from tidemill.ledger.measured import MeasuredRows, MeasuredSums
from tidemill.ledger.spans import Spans, Window
from tidemill.ledger.stops import Stops, StopsSoFar
from tidemill.ledger.supply import SupplySums
from tidemill.ledger.told import Told
from tidemill.ledger.turns import Turns, with_shares
from tidemill.ledger.usable import Usable
from tidemill.model import partial
from tidemill.model.batch import Batch, Dictionary
from tidemill.model.batch.convert import of_events
from tidemill.model.batch.sheet import Sheet
from tidemill.model.columns import AT, NONE, NOTHING_SEEN, SHAPE, State
from tidemill.model.events import Event
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.states import JobState
from tidemill.model.tables import I64, grown
from tidemill.model.world import World
from tidemill.scheduling import protection
from tidemill.scheduling.estimates import Estimates

GATHERED = 16_384  # events of a loop that are read at once: a batch costs as much as a hundred
_WAITING = int(JobState.WAITING)


class MovingHold(NamedTuple):
    """A place that a job holds beside its own until it has moved there."""

    held: tuple[tuple[int, int], ...]
    since_ms: int
    keeps_work: bool


class Settled(NamedTuple):
    """What later events cannot change any more: cells of jobs, and the sums of supply by bin."""

    cells: Cells
    supply: SupplySums
    free_use: dict[int, I64]
    """As ``Usable.sums``; empty where nobody asked."""
    measured: MeasuredRows
    """What was measured beside the buckets."""


class Waited(NamedTuple):
    """How the jobs waited, one row per job; see ``core.accounting.columns.HELD``."""

    first_ms: I64
    end_ms: I64
    balance_ms: I64
    phase: I64
    outcome: I64
    off_ms: I64
    is_late: I64
    held_ms: I64


class Ledger:
    """Reads a journal (``read_batch``), events (``read``), or along with a loop (``take``)."""

    def __init__(
        self,
        policy: Policy | None = None,
        window: Window | None = None,
        weighs_mix: bool = False,
    ) -> None:
        self.window = window or Window()
        self.waits_from_ms = self.window.start_ms
        """Jobs that were submitted before are in no wait of this window."""
        self.beside = BesideEvents()
        self.policy = policy or Policy()
        self._world = World()
        self._supply = SupplySums()
        self._usable = Usable() if weighs_mix else None
        self._stops = Stops()
        self._measured = Told()
        self._host_uses = HostUses()
        self._sums = MeasuredSums(self.window)
        self._alarms: list[tuple[int, int, str]] = []
        self.past: HourlyBooks | None = None
        """What lies in the window of events that were rolled up before this ledger began."""
        self.begins_ms = 0
        """When it began to read: what came before is in ``past``, or before the window."""
        self.returns: Counter[STOP] = Counter()
        """How often kernels came back to Python, and why: each costs as much as many events."""
        self._spans = Spans(self.window)
        self._moving: dict[int, MovingHold] = {}
        self._claimants = Claimants()
        self._turns = Turns(self.policy)
        self._estimates = Estimates(self.policy)
        self._b = state.blank(self.window, self.policy, self._usable)
        self._blank = 0
        """Up to which job rows were made blank: no more than are used take memory."""
        self._foreseen = 0
        self._seen: tuple[int, ...] = ()
        self._request_changes = 0
        self._shared_at: tuple[int, ...] = ()
        self._dictionary = Dictionary()
        self._told = Sheet(self._dictionary)

    # What it found ----------------------------------------------------------------------------

    @property
    def world(self) -> World:
        """The cluster state that all events led to."""
        self._settle()
        return self._world

    @property
    def now_ms(self) -> int:
        """Up to when it has read."""
        self._settle()
        return self._mark(MARK.NOW_MS)

    @property
    def supply(self) -> SupplySums:
        """What was paid, and what of it no job held."""
        self._settle()
        return self._supply

    @property
    def usable(self) -> Usable | None:
        """What arrivals could have used of what was free; None: nobody asked."""
        self._settle()
        return self._usable

    @property
    def cut_short(self) -> int:
        """How many attempts of training jobs were stopped at work, inside the window."""
        self._settle()
        return self._mark(MARK.CUT_SHORT)

    @property
    def stops(self) -> dict[str, int]:
        """Attempts that were stopped before their job ended, at any time, by why."""
        self._settle()
        return self._stops.by_why(self._mark(MARK.STOPPED))

    @property
    def told(self) -> Told:
        """Of which jobs somebody measured what."""
        self._settle()
        return self._measured

    @property
    def host_uses(self) -> HostUses:
        """What jobs used of their CPUs and memory, of the events that it read."""
        self._settle()
        return self._host_uses

    @property
    def measured(self) -> MeasuredRows:
        """What was measured beside the buckets, of the events that it read."""
        self._settle()
        return self._sums.rows(self._world, self._mark(MARK.NOW_MS))

    @property
    def alarms(self) -> dict[int, str]:
        """Jobs that were preempted as often as the policy allows, inside the window, in words."""
        past = () if self.past is None else self.past.alarms
        return {j: text for _, j, text in (*past, *self.alarms_told)}

    @property
    def alarms_told(self) -> list[tuple[int, int, str]]:
        """The same in the order in which they came, with their moments."""
        self._settle()
        return self._alarms

    def waited(self, some: slice) -> Waited:
        """How long some jobs waited, up to the end of the window, as copies."""
        rows = self._b.attempts[some]
        return Waited(*(rows[:, column].copy() for column in range(HELD.FIRST_MS, len(HELD))))

    def put_back(self, facts: Mapping[str, str], where: str) -> None:
        """Take in what a journal keeps of submissions that its events tell too late, and of nodes.

        Jobs that were there when a scheduler began count in the window that begins with it.
        """
        told, rows = submissions.kept(facts, where), self._b.attempts
        earlier, placed_ms = submissions.by_number(self.world, told)
        for j, ms in earlier.items():
            rows[j, HELD.OFF_MS if rows[j, HELD.IS_LATE] else HELD.BALANCE_MS] += ms
        for j, at_ms in placed_ms.items():
            if at_ms < rows[j, HELD.FIRST_MS] < NEVER:
                rows[j, HELD.BALANCE_MS] -= rows[j, HELD.FIRST_MS] - at_ms
                rows[j, HELD.HELD_MS] += rows[j, HELD.FIRST_MS] - at_ms
                rows[j, HELD.FIRST_MS] = at_ms
        submissions.put_back(source.note_live(self.world, facts), facts, where)
        node_reasons.note(self.world, facts, where)
        self.beside = beside_events.of(facts, self.world.now_ms, where)
        if self.window.start_ms == 0 and SCHEDULES in facts:
            self.waits_from_ms = -FOREVER_MS

    def cells(self) -> Cells:
        """What jobs did with their accelerators up to now, what still runs included."""
        world, still_open, i = self.world, list[I64](), 0
        w = columns_of(world)
        self._take_out()
        while i < w.at[AT.ACTIVE]:
            i = int(kernels.write_open(w, self._b, i))
            still_open.append(self._written().copy())
            self._b.marks[MARK.SPANS] = 0
        for j, moving in self._moving.items():
            still_open.append(self._reserved(j, moving))
        return self._spans.cells(world, still_open)

    # Going on from a moment ------------------------------------------------------------------

    def hand_over(self) -> Settled:
        """What is settled so far, which this ledger then forgets."""
        self._settle()
        self._take_out()
        found = Settled(
            self._spans.hand_over(self._world),
            self._supply,
            {} if self._usable is None else self._usable.sums,
            self._sums.hand_over(self._world, self._mark(MARK.NOW_MS)),
        )
        self._supply = SupplySums()
        if self._usable is not None:
            self._usable.sums = {}
        self._b.marks[MARK.BIN] = NONE  # whose arrays were handed over
        return found

    def begin(
        self,
        world: World,
        b: LedgerState,
        moving: dict[int, MovingHold],
        unseen: list[tuple[int, int]],
        stops: StopsSoFar,
    ) -> None:
        """Begin with the state of another ledger, which had read the events of this World."""
        self._world, self._b, self._moving = world, b, moving
        self._blank = world.job_count
        self._spans.unseen = unseen
        self._stops.begin(*stops)
        self.begins_ms = self._mark(MARK.NOW_MS)
        self._sums.begin(world, self.begins_ms)
        self._look_again()
        self._mind_parts(sorted(world.placements) if world.is_observed else ())

    @property
    def columns(self) -> LedgerState:
        """All that changes from event to event."""
        self._settle()
        return self._b

    @property
    def moving(self) -> dict[int, MovingHold]:
        """Jobs that hold a second place until they have moved there."""
        self._settle()
        return self._moving

    @property
    def unseen(self) -> list[tuple[int, int]]:
        """When nobody watched."""
        self._settle()
        return self._spans.unseen

    @property
    def stops_so_far(self) -> StopsSoFar:
        """Stops by why, what was asked for and has not happened yet, who was seen where."""
        self._settle()
        return self._stops.so_far

    def foresee(self, events: int) -> None:
        """So many events there will be: room for their jobs is made at once."""
        self._foreseen = events

    # Reading ----------------------------------------------------------------------------------

    def read(self, events: Iterable[Event]) -> Self:
        """Read these events, after all that were read before."""
        rest = iter(events)
        while some := list(islice(rest, GATHERED)):
            self.read_batch(of_events(some, self._dictionary))
        return self

    def take_batch(self, batch: Batch) -> None:
        """Events that happened, as a loop tells them."""
        self._name_by(batch.dictionary)
        self._told.extend(batch)
        if len(self._told) >= GATHERED:
            self._settle()

    def take(self, events: Sequence[Event]) -> None:
        """The same as messages."""
        self._name_by(self._dictionary)
        self._told.write(events)
        if len(self._told) >= GATHERED:
            self._settle()

    def _name_by(self, dictionary: Dictionary) -> None:
        """Gather events that name things by another dictionary: a loop's are not numbered anew."""
        if self._told.dictionary is not dictionary:
            self._settle()
            self._told = Sheet(dictionary)

    def read_batch(self, batch: Batch) -> None:
        """Read a batch of events, after all that were read before."""
        self._settle()
        self._stops.count(batch)
        self._measured.count(batch)
        self._host_uses.count(batch)
        self._sums.count(batch)
        folding = Folding(self._world, batch, room=self._room(batch))
        while not folding.is_over:
            self._b.marks[MARK.STOP] = STOP.EVENT
            folding.plain(self._read)
            if not self._is_helped() and folding.at < len(batch.events):
                self._pass(folding.next_ms)
                _, touched = folding.single()
                self._follow(touched)
        self._pass(self._world.now_ms)

    def _room(self, batch: Batch) -> int:
        """How many jobs there will be if they go on to come as often, and some more."""
        jobs, events = len(batch.job_names), len(batch.events)
        jobs, events = self._world.job_count + jobs, self._world.seq + events
        return jobs * self._foreseen // max(1, events) * 3 // 2

    def pass_time(self, at_ms: int) -> None:
        """Time goes on to a moment at which nothing happens."""
        self._settle()
        self._pass(at_ms)

    def _settle(self) -> None:
        """Read what was told and not read yet."""
        if len(self._told):
            told = self._told.batch()
            self._told.clear()
            self.read_batch(told)

    def _read(self, w: State, events: I64, pieces: I64, counts: I64, e: int, now_ms: int) -> int:
        self._look_again()
        self._make_room(w, counts.item(0, 1))
        return int(reading.read(w, self._b, events, pieces, counts, e, now_ms))

    def _pass(self, at_ms: int) -> None:
        while True:
            w = columns_of(self._world)
            self._make_room(w, self._world.job_count)
            if reading.pass_time(w, self._b, self._world.job_count, at_ms):
                return
            self._is_helped()

    def _is_helped(self) -> bool:
        """Do what a kernel came back for; False: it was for the next event."""
        why = STOP(self._mark(MARK.STOP))
        self.returns[why] += 1
        match why:
            case STOP.BIN:
                self._open_bin()
            case STOP.ORDER:
                self._b.turns[self._turns.ask(self._world)] = range(len(self._world.queued))
                self._b.marks[MARK.IS_FRESH] = 1
            case STOP.FULL:
                self._take_out()
            case STOP.EVENT:
                return False
        return True

    # One event by itself ----------------------------------------------------------------------

    def _follow(self, touched: Sequence[int]) -> None:
        """An event was folded by itself; follow the jobs that it touched."""
        world, now_ms = self._world, self._mark(MARK.NOW_MS)
        self._look_again()
        self._spans.mind_sight(columns_of(world).at.item(AT.BLIND) == NOTHING_SEEN, now_ms)
        self._b.marks[MARK.IS_FRESH] = 0
        self._b.marks[MARK.LINE] = UNLINED.UNKNOWN
        for j in touched:
            self._make_room(columns_of(world), world.job_count)
            row = self._b.attempts[j]
            most = self._most_spans(int(row[HELD.EARLIER]))
            if self._mark(MARK.SPANS) + most > len(self._b.spans):
                self._take_out()
            keeps = self._mind_move(j) if self._moving or world.moving else False
            paces, was_open = world.paces.get(j), bool(row[HELD.ATTEMPT])
            row[HELD.PACE_PPM] = paces[-1][1] if paces else 0
            kernels.follow(columns_of(world), self._b, j, int(keeps), now_ms)
            if was_open and not row[HELD.ATTEMPT]:
                self._mind_alarm(j)
        if world.is_observed:
            self._mind_parts(touched)

    def _mind_parts(self, jobs: Sequence[int]) -> None:
        """These jobs may have become partial gangs, or be whole now: kernels place only whole."""
        world, w = self._world, columns_of(self._world)
        rows = [row for row in self._b.parts.tolist() if row[LACK.JOB] not in jobs]
        rows = [row for row in rows if world.jobs.state[row[LACK.JOB]] == JobState.STARTING]
        for j in jobs:
            lacks = partial.lacking(world, j) if world.jobs.state[j] == JobState.STARTING else ()
            s, attempt = world.jobs.shape.item(j), world.jobs.attempt.item(j)
            first, roles = w.shapes.item(s, SHAPE.FIRST_ROLE), world.shape_rows[s].roles
            for r, count in lacks:
                rows.append([j, attempt, first + r, count * roles[r].replica_milli])
        if rows or len(self._b.parts):
            parts = np.array(rows, np.int64).reshape(-1, len(LACK))
            self._b = self._b._replace(parts=parts)

    def _mind_alarm(self, j: int) -> None:
        """An attempt is over; it may have been one preemption too many."""
        now_ms, is_waiting = self._mark(MARK.NOW_MS), self._world.jobs.state[j] == _WAITING
        if is_waiting and self.window.start_ms <= now_ms < self.window.end_ms:
            alarm = protection.alarm(self._world, self.policy, j)
            if alarm:
                self._alarms.append((now_ms, j, alarm))

    def _mind_move(self, j: int) -> bool:
        """A job holds a second place, or not any more; whether the move that ends keeps work."""
        move, was = self._world.moving.get(j), self._moving.get(j)
        if move is not None and was is None:
            held = self._held_in(j, move.gained)
            self._moving[j] = MovingHold(held, self._mark(MARK.NOW_MS), move.keeps_work)
        elif move is None and was is not None:
            del self._moving[j]
            self._spans.add(self._world, self._reserved(j, was))
            return was.keeps_work
        return False

    def _reserved(self, j: int, moving: MovingHold) -> I64:
        """What a job holds before it is there: it is on its way to a restart."""
        since_ms, now_ms = moving.since_ms, self._mark(MARK.NOW_MS)
        is_inside = now_ms > self.window.start_ms and since_ms < self.window.end_ms
        held = moving.held if since_ms < now_ms and is_inside else ()
        spans: I64 = np.zeros((len(held), len(SPAN)), np.int64)
        for i, (c, milli) in enumerate(held):
            spans[i, : SPAN.BUSY_PPM] = (
                since_ms, now_ms, Bucket.RESTART, j, c, milli, NOT_RUNNING, since_ms
            )  # fmt: skip
        return spans

    def _held_in(self, j: int, pieces: tuple[Piece, ...]) -> tuple[tuple[int, int], ...]:
        """Contracts and milli of some pieces of a job."""
        world, sums = self._world, dict[int, int]()
        roles = world.shape_of(j).roles
        for piece in pieces:
            c = world.nodes.contract.item(piece.node)
            sums[c] = sums.get(c, 0) + piece.replicas * roles[piece.role].replica_milli
        return tuple((c, milli) for c, milli in sums.items() if milli)

    # Its columns ------------------------------------------------------------------------------

    def _mark(self, mark: MARK) -> int:
        return int(self._b.marks[mark])

    def _look_again(self) -> None:
        """Take in what is new: contracts, shapes, kinds, groups, queues, nodes."""
        world, marks = self._world, self._b.marks
        marks[MARK.DEPTH] = world.tree.depth
        self._know_shares()
        if world.request_changes != self._request_changes:  # rare: all are counted anew
            self._request_changes = world.request_changes
            self._b.sizes[:, SIZE.ARRIVALS], marks[MARK.COUNTED] = 0, 0
        seen = (
            world.contract_count, len(world.shape_rows), len(world.kinds), len(world.groups),
            len(world.queue_rows), world.node_count,
        )  # fmt: skip
        if seen == self._seen:
            return
        self._seen = seen
        marks[MARK.CONTRACTS], marks[MARK.NODES] = world.contract_count, world.node_count
        new, claimants = self._claimants.update(world), self._claimants
        if world.contract_count > len(self._b.could):
            self._b = self._b._replace(could=np.zeros((world.contract_count, 1), np.int64))
            marks[MARK.IS_CHANGED] = 1
        if world.node_count > len(self._b.counted):
            self._b = self._b._replace(counted=grown(self._b.counted, world.node_count))
        marks[MARK.LOTS], marks[MARK.LOTS_READ] = len(claimants.lots), NONE
        marks[MARK.IS_PARTED] = claimants.is_parted
        self._b = self._b._replace(
            demands=claimants.demands, may_use=claimants.may_use, reach=claimants.reach,
            lots=claimants.lots, lot_of=claimants.lot_of,
            standings=np.zeros((len(claimants.reach), len(world.queue_rows)), np.int64),
            learnt=self._estimates.columns(world),
        )  # fmt: skip
        if self._usable is not None:
            first, roles = self._usable.asks, claimants.roles
            self._usable.update(world, new, claimants.demands[roles - len(new) : roles])
            self._b = self._b._replace(**self._usable.weighing._asdict())
            marks[MARK.ASKS], marks[MARK.SIZES] = self._usable.asks, len(self._usable.mix.sizes)
            marks[MARK.IS_CHANGED] = 1
            if first < self._usable.asks:
                usable.rehost_all(columns_of(world), self._b, first)
        if self._mark(MARK.BIN) >= 0:
            self._open_bin()

    def _know_shares(self) -> None:
        """Take in what fair shares are counted by: teams, and what the fleet has and costs."""
        world = self._world
        self._b.marks[MARK.EVENT_MS] = world.now_ms
        if self._mark(MARK.FAIRNESS):
            stamp = (
                world.supply_changes, world.share_changes, len(world.queue_rows), len(world.kinds)
            )  # fmt: skip
            if stamp != self._shared_at:
                self._shared_at = stamp
                self._b = with_shares(self._b, world, self.policy)
                self._b.marks[MARK.IS_FRESH] = 0

    def _open_bin(self) -> None:
        """Let kernels add to the sums of the bin that time is in now."""
        world, marks, window = self._world, self._b.marks, self.window
        now_ms = min(max(self._mark(MARK.NOW_MS), window.start_ms), window.end_ms - 1)
        number = (now_ms - window.start_ms) // window.bin_ms
        contracts = world.contract_count
        changes = price_periods.edges(world.contract_rows)
        period = int(price_periods.period_at(changes, now_ms))
        marks[MARK.EDGE_MS] = changes[period] if period < len(changes) else FOREVER_MS
        paid, unheld = self._supply.of_bin(number, period, contracts, len(world.queue_rows))
        self._b = self._b._replace(paid=paid, unheld=unheld)
        if self._usable is not None:
            self._b = self._b._replace(free_use=self._usable.of_bin(number, contracts))
        marks[MARK.BIN] = number

    def _make_room(self, w: State, jobs: int) -> None:
        """See to it that the columns have a row for whatever the next call may write.

        ``jobs``: how many there are then at most.
        """
        b = self._b
        if len(b.attempts) < len(w.jobs):
            b = state.with_attempts(b, len(w.jobs))
        if self._blank < jobs:
            state.make_blank(b, self._blank, jobs)
            self._blank = jobs
        if len(b.holds) < len(w.pieces):
            b = state.with_holds(b, len(w.pieces))
        if b.marks[MARK.FREE_EARLIER] < 0:
            b = state.with_earlier(b)
        if len(b.turns) < len(w.shapes):
            turns, heads = np.zeros(len(w.shapes), np.int64), grown(b.heads, len(w.shapes))
            b = b._replace(turns=turns, heads=heads, claims=grown(b.claims, len(w.shapes)))
        self._b = b

    def _written(self) -> I64:
        return self._b.spans[: self._mark(MARK.SPANS)]

    def _take_out(self) -> None:
        """Add up the spans that kernels wrote; there is room for those of any event then."""
        if self._mark(MARK.SPANS):
            self._spans.add(self._world, self._written())
            self._b.marks[MARK.SPANS] = 0
        w = columns_of(self._world)
        held = self._b.attempts[w.active[: w.at[AT.ACTIVE]], HELD.EARLIER]
        most = self._most_spans(int(held.max(initial=0)))
        if most > len(self._b.spans):
            self._b = self._b._replace(spans=np.zeros((2 * most, len(SPAN)), np.int64))

    def _most_spans(self, earlier: int) -> int:
        """How many spans the next event of a job may write; as ``attempts.most_spans``."""
        return 2 * (earlier + 2) * self._world.contract_count
