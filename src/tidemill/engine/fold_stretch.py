"""A stretch: the World laid out for compiled beats, and written back as if folded event by event.

Most of a long history is the plain life of jobs: submitted, placed, started, finished. For as long
as nothing else can happen (``may_begin``, ``is_plain``) the beats run compiled over columns
(``engine.kernels``), and their events come out as a ``Story``. The World that comes of it is, byte
for byte, the one that the fold of these events makes; tests hold it to that.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidemill.core import lines, places, rows
from tidemill.engine import fold_history, fold_jobs, fold_mix, kernels
from tidemill.engine.layout import (
    BEHIND_ROWS,
    Aboard,
    Asks,
    Before,
    Behind,
    Counts,
    Failures,
    Options,
    Queues,
    Rules,
    Scratch,
    Trees,
)
from tidemill.engine.story import Lines, Pieces, Story
from tidemill.model import events as ev
from tidemill.model import tables
from tidemill.model.columns import AT, JOB, KIND, NODE, NONE, QUEUE, QUOTA, SHAPE
from tidemill.model.measures import FOREVER_MS, ONE_PPM, WHOLE_MILLI
from tidemill.model.placements import score_of
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Job, Piece, Shape
from tidemill.model.states import CONFIDENCES, JobClass, JobState, NodeState
from tidemill.model.tables import I64
from tidemill.model.topology import NO_HOP
from tidemill.model.world import World
from tidemill.scheduling import diagnose
from tidemill.scheduling.backfill.kernels import DEVICES
from tidemill.scheduling.fitting.columns import WASTED
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.scores import scoring
from tidemill.scheduling.scores.tables import BLANK
from tidemill.workload import progress

KINDS_AT_MOST = 63  # the kinds that a shape may use are bits of one number
ORDERS = ("fifo", "priority")
TREE_BYTES_AT_MOST = 256 << 20
LOG_ENTRIES = 1 << 16

_ACTIVE = (int(JobState.STARTING), int(JobState.RUNNING))


def may_begin(world: World, policy: Policy) -> bool:
    """Whether nothing is going on that compiled beats do not know."""
    if world.promised or world.leaving_for or world.moving or policy.cull_idle_after_ms:
        return False
    if world.sliced or world.paces:
        return False
    if policy.fairness != "none" or world.half_life_ms or policy.may_move:
        return False
    if policy.may_resize and _has_elastic(world):
        return False
    if world.topology.tiers or not _knows_backfill(world, policy):
        return False
    if policy.order not in ORDERS or len(world.kinds) > KINDS_AT_MOST:
        return False
    if score_of(policy.placement) is not None:
        return False
    if world.tree.depth > 1 or world.tree.keeps:
        return False
    nodes, rows = world.nodes, world.node_count
    carrying = world.ink.w.nodes[:rows, NODE.FIRST_PIECE] >= 0
    return not (carrying & (nodes.state[:rows] != NodeState.READY)).any()


def _knows_backfill(world: World, policy: Policy) -> bool:
    """Whether nobody backfills, or by what owners said, among plain jobs and services alone."""
    if policy.backfill == "none":
        return True
    is_known = policy.backfill == "easy" and policy.estimates == "given"
    return is_known and not any(
        jobs and not (is_plain(shape) or shape.kind is JobClass.INFERENCE)
        for jobs, shape in zip(world.active, world.shape_rows, strict=True)
    )


def _has_elastic(world: World) -> bool:
    """Whether an elastic job is active, which may shrink for others and grow."""
    return any(
        jobs and world.shape_rows[s].elastic_role is not None for s, jobs in enumerate(world.active)
    )


def is_plain(shape: Shape) -> bool:
    """Whether jobs of a shape live the plain life: one role of one size, and an end."""
    role = shape.roles[0]
    is_fixed = len(shape.roles) == 1 and not role.least
    is_free = not (role.bonds or shape.bonds or shape.parallelism or role.profile)
    return is_fixed and is_free and shape.kind is not JobClass.INFERENCE


class Stretch:
    """One stretch: laid out from a World for these coming jobs, run by a backend, written back."""

    def __init__(
        self, world: World, policy: Policy, memo: Memo, coming: Sequence[Job], events: int
    ) -> None:
        self.world, self.policy, self.memo, self.coming = world, policy, memo, coming
        self.first_job, self.first_shape = world.job_count, len(world.shape_rows)
        self._write_rows()
        shapes = {*world.queued, *world.jobs.shape[self.first_job :][: len(coming)].tolist()}
        self.may_run = not any(memo.may_evict(world, s) for s in sorted(shapes))
        """Whether nobody here has a right to another's place, and there is room for all trees."""
        if not self.may_run:
            return
        self.asks, self.options, self.trees = _asks(world, memo, scoring.needs_tables(policy))
        if len(self.trees.read) >= _trees_at_most(world) and scoring.needs_tables(policy):
            self.may_run = False  # a score needs its tree
            return
        self.queues, waiting = self._queues()
        kinds, queues = world.ink.w.kinds, world.ink.w.queues
        self.counts = Counts(
            kinds[:, KIND.FREE_MILLI], kinds[:, KIND.FREED], kinds[:, KIND.TAKEN],
            queues[:, QUEUE.FREED],
        )  # fmt: skip
        self.failures = self._failures()
        self.at: I64 = np.zeros(kernels.NUMBERS, np.int64)
        self.at[kernels.NEXT_MIX] = (
            fold_mix.next_point(world) if scoring.looks_ahead(policy) else FOREVER_MS
        )
        self.scores = BLANK
        self.take_scores()
        self._lay_out_pieces(events)
        self.lines: Lines = tables.blank(Lines, events)
        self.log: I64 = np.zeros(LOG_ENTRIES, np.int64)
        self.scratch = self._scratch()
        self.behind = self._behind()
        self._lay_out_look()
        seen, decided_ms = memo.last_decision()
        self.at[kernels.NOW], self.at[kernels.JOBS] = world.now_ms, self.first_job
        self.at[kernels.QUEUED], self.at[kernels.WAITING_ALL] = len(world.queued), waiting
        self.at[kernels.DECIDED] = decided_ms
        if seen:
            jobs, _, freed, queue_freed, _ = seen
            self.at[kernels.IS_SEEN] = world.supply_changes == seen[1]
            self.at[kernels.SEEN_JOBS], self.at[kernels.SEEN_FREED] = jobs, freed
            self.at[kernels.SEEN_QUEUES] = queue_freed
        self.at[kernels.HAS_REFUSED] = self.memo.has_refused
        self.at[kernels.MADE_CLAIMS] = -1
        self.before = self._before()

    @property
    def columns(self) -> tuple[Any, ...]:
        """What the compiled beats read and write, in their order."""
        ink, quotas = self.world.ink, self.world.ink.w.quotas
        return (
            self.at, self.rules, ink.jobs, ink.nodes, ink.devices, ink.shapes, ink.w.levels,
            quotas[:, :, QUOTA.USED], quotas[:, :, QUOTA.LIMIT], quotas[:, :, QUOTA.FLOOR],
            self.counts, self.asks, self.options, self.trees, self.queues,
            self.aboard, self.failures, self.scratch, self.log, self.scores,
            self.behind,
        )  # fmt: skip

    def give_up(self) -> None:
        """Leave the World as if nothing had been laid out."""
        self._forget_unseen_shapes()

    def look_at_mix(self) -> None:
        """Between the events of a beat and its cycle: fold the look, and tell it."""
        world, at = self.world, self.at
        self._write_names()
        fold_mix.said_mix(world, ev.SaidMix(int(at[kernels.NOW])))
        i = int(at[kernels.EVENTS])
        self.lines.kind[i], self.lines.at_ms[i] = kernels.SAID_MIX, at[kernels.NOW]
        at[kernels.EVENTS] += 1
        at[kernels.NEXT_MIX] = fold_mix.next_point(world)

    def take_scores(self) -> None:
        """Place by what the World says of the mix now; what the trees know may be out of date."""
        world, policy = self.world, self.policy
        found = self.memo.scoring(world, policy)
        self.rules = Rules(
            policy.order == "priority", found.spreads, policy.patience_ms,
            bool(world.floor.any()), policy.backfill == "easy", policy.hold_after_ms,
            policy.unknown_run_ms,
        )  # fmt: skip
        if self.at[kernels.IS_SCORED] and found.tables is self.scores:
            return
        self.at[kernels.IS_SCORED] = found.tables is not None
        self.scores = BLANK if found.tables is None else found.tables
        self.trees.read[:] = -1
        self.trees.wasted[:] = -1

    def finish(self) -> Story:
        """Write back what the columns say, and return what happened."""
        world, at = self.world, self.at
        submitted = int(at[kernels.JOBS]) - self.first_job
        self._write_names()
        self._forget_unseen_shapes()
        events = int(at[kernels.EVENTS])
        story = Story(
            tables.copied(self.lines, events),
            tables.copied(self.pieces, int(at[kernels.PIECES])),
            self.first_job,
            list(self.coming[:submitted]),
        )
        self._write_leavers()
        self._write_queues()
        self._write_places(story)
        if events:  # the last beats may have met nothing but what was called off
            world.now_ms, world.seq = int(story.lines.at_ms[-1]), world.seq + events
        self._write_history(story)
        self._write_memo()
        return story

    # Laying out --------------------------------------------------------------------------------

    def _write_rows(self) -> None:
        """The rows of coming jobs, beyond those in use; shapes that are new with them."""
        world, coming = self.world, self.coming
        rows = self.first_job + len(coming)
        if rows > len(world.ink.w.jobs):
            world.grow(jobs=rows, active=rows)
        world.ink.w.jobs[self.first_job : rows, JOB.FIRST_PIECE] = NONE
        numbers: dict[int, int] = {}
        shapes = np.empty(len(coming), np.int64)
        for i, job in enumerate(coming):
            s = numbers.get(id(job.shape))
            if s is None:
                q = world.queue_number[job.shape.team]
                s = numbers[id(job.shape)] = fold_jobs.shape_number(world, job.shape, q)
            shapes[i] = s
        some, jobs = slice(self.first_job, rows), world.ink.jobs
        is_training = np.array(
            [shape.kind is JobClass.TRAINING for shape in world.shape_rows], bool
        )[shapes]
        saving = [job.checkpointing for job in coming]
        effects = [job.efficiency for job in coming]
        jobs.shape[some] = shapes
        jobs.passed_ms[some] = tables.NEVER_PASSED
        jobs.estimate_ms[some] = [job.estimate_ms for job in coming]
        jobs.startup_ms[some] = [job.startup_ms for job in coming]
        jobs.restart_ms[some] = [job.restart_ms for job in coming]
        interval, cost = [row.interval_ms for row in saving], [row.cost_ms for row in saving]
        jobs.interval_ms[some] = np.where(is_training, interval, progress.CONTINUOUS)
        jobs.cost_ms[some] = np.where(is_training, cost, 0)
        jobs.resize_ms[some] = [job.resize_ms for job in coming]
        jobs.busy_ppm[some] = jobs.speed_ppm[some] = ONE_PPM
        jobs.hop[some] = NO_HOP
        jobs.mfu_ppm[some] = [row.mfu_ppm for row in effects]
        jobs.host_ppm[some] = [row.host_ppm for row in effects]
        jobs.links_ppm[some] = [row.links_ppm for row in effects]
        jobs.memory_ppm[some] = [fold_jobs.memory_ppm(row) for row in effects]
        jobs.confidence[some] = [CONFIDENCES.index(row.confidence) for row in effects]
        jobs.hop[some] = NO_HOP

    def _queues(self) -> tuple[Queues, int]:
        world = self.world
        room = len(world.ink.shapes.queue)
        after = np.full(len(world.ink.jobs.state), -1, np.int64)
        last, place = np.full(room, -1, np.int64), np.zeros(room, np.int64)
        queued, waiting = np.zeros(room, np.int64), 0
        for i, s in enumerate(world.queued):
            jobs = np.array(world.waiting[s], np.int64)
            after[jobs[:-1]] = jobs[1:]
            last[s], queued[i], place[s] = jobs[-1], s, i
            waiting += len(jobs)
        return Queues(after, last, queued, place), waiting

    def _failures(self) -> Failures:
        room = len(self.world.ink.shapes.queue)
        rows: Failures = tables.blank(Failures, room)
        for s in self.memo.limited:
            rows.is_limited[s] = 1
        for s, failure in self.memo.failures():
            freed, queue_freed, supply = failure.stamp
            if s >= room:
                continue
            if supply == self.world.supply_changes:
                rows.failed[s], rows.cause[s] = 1, failure.cause
                rows.freed[s], rows.queue_freed[s] = freed, queue_freed
                rows.look[s] = failure.look
        return rows

    def _lay_out_pieces(self, events: int) -> None:
        world = self.world
        rows = len(world.ink.jobs.state)
        first, pieces = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        held = [(j, piece) for j, placed in world.placements.items() for piece in placed]
        most = int((world.nodes.devices[: world.node_count]).sum()) * _replicas_per_device(world)
        size = len(held) + most + 2 * events
        self.pieces: Pieces = tables.blank(Pieces, size)
        for i, (j, piece) in enumerate(held):
            if not pieces[j]:
                first[j] = i
            pieces[j] += 1
            self.pieces.node[i] = piece.node
            self.pieces.replicas[i] = piece.replicas
            self.pieces.devices[i] = piece.devices
        self.at[kernels.PIECES] = len(held)
        self._most_pieces = most
        count = np.fromiter(map(len, world.aboard), np.int64, world.node_count)
        self.aboard = Aboard(first, pieces, count)
        self._held = list(world.placements)

    def _lay_out_look(self) -> None:
        """Nodes that changed since the scheduler's last look are the beginning of the log."""
        self.at[kernels.LOOK], fresh = self.memo.last_look(self.world)
        if fresh is None or len(fresh) > LOG_ENTRIES // 2:
            self.at[kernels.IS_LOST] = 1
        else:
            self.log[: len(fresh)] = fresh
            self.at[kernels.LOGGED] = len(fresh)

    def _scratch(self) -> Scratch:
        world = self.world
        room = max(1, self._most_pieces, *(self.asks.replicas.tolist() or [0]))
        return Scratch(
            np.zeros(len(world.ink.shapes.queue), np.int64),
            np.zeros(len(world.ink.shapes.queue), np.int64),
            np.zeros(len(world.ink.shapes.queue), np.int64),
            np.zeros(len(world.queue_rows), np.uint64),
            np.zeros(len(self.options.kind) + 1, np.int64),
            np.zeros(len(world.ink.shapes.queue), np.int64),
            np.zeros(1, np.int64),
            np.zeros(len(world.kinds), np.int64),
            np.zeros(world.node_count, np.int64),
            np.zeros(room, np.int64),
            np.zeros(room, np.int64),
            np.zeros(room, np.uint64),
            np.zeros(room, np.int64),
            np.array([self._most_pieces]),
        )

    def _behind(self) -> Behind:
        """Room for backfill, if the policy has any; active jobs are on the list of ends."""
        world, is_used = self.world, self.policy.backfill != "none"
        rows = {"end": 1, "asked": 1, "piece": 1, "kind": len(world.kinds) + 1}
        rows["shape"], rows["queue"] = len(world.ink.shapes.queue), len(world.limit)
        rows["first"] = rows["kind"] * (1 + rows["queue"])
        if is_used:
            rows["end"], rows["asked"] = len(world.ink.jobs.state), len(self.pieces.node)
            rows["piece"] = rows["kind"] * int(self.asks.replicas.max(initial=1))
        rows["part"] = rows["piece"] * DEVICES
        columns = tables.dtypes(Behind).items()
        behind = Behind(*(np.zeros(rows[BEHIND_ROWS[name]], kind) for name, kind in columns))
        if is_used:
            self._lay_out_ends(behind)
        return behind

    def _lay_out_ends(self, behind: Behind) -> None:
        world = self.world
        ending = [j for j in self._held if world.shape_of(j).kind is not JobClass.INFERENCE]
        behind.end_job[: len(ending)] = ending
        behind.end_attempt[: len(ending)] = world.jobs.attempt[ending]
        self.at[kernels.ENDS] = len(ending)  # in the past, so that they are worked out at once
        for j in ending:
            role, first = world.shape_of(j).roles[0], int(self.aboard.first[j])
            mine = slice(first, first + int(self.aboard.pieces[j]))
            behind.accelerators[mine], behind.milli[mine] = role.accelerators, role.milli
            behind.cpu[mine], behind.memory[mine] = role.cpu_milli, role.memory_mib

    def _before(self) -> Before:
        world, shapes = self.world, self.world.shapes
        count = int(self.at[kernels.PIECES])
        return Before(
            world.levels.copy(), world.used.copy(), shapes.waiting.copy(), shapes.head.copy(),
            self.queues.last.copy(), shapes.cause.copy(), self.queues.after.copy(),
            world.jobs.state.copy(), world.jobs.attempt.copy(), world.nodes.cpu_free_milli.copy(),
            world.nodes.memory_free_mib.copy(), world.devices.free_milli.copy(),
            tables.copied(self.aboard), tables.copied(self.pieces, count),
        )  # fmt: skip

    # Writing back ------------------------------------------------------------------------------

    def _write_names(self) -> None:
        """The names of those who have come so far."""
        world, known = self.world, self.world.job_count
        came = self.coming[known - self.first_job : int(self.at[kernels.JOBS]) - self.first_job]
        names = [job.name for job in came]
        world.job_names += names
        world.job_users += [job.user for job in came]
        world.job_number.update(zip(names, range(known, world.job_count), strict=True))

    def _forget_unseen_shapes(self) -> None:
        """Shapes of jobs that were laid out and did not come: nobody has seen them."""
        world = self.world
        seen = self.first_shape
        if world.job_count > self.first_job:
            mine = world.jobs.shape[self.first_job : world.job_count]
            seen = max(seen, int(mine.max()) + 1)
        for shape in world.shape_rows[seen:]:
            del world.shape_number[shape]
        world.ink.w.shapes[seen : len(world.shape_rows)] = 0
        del world.shape_rows[seen:]

    def _write_leavers(self) -> None:
        """Those who left, or were placed anew, sit nowhere for now."""
        world, w = self.world, self.world.ink.w
        state, attempt, before = world.jobs.state, world.jobs.attempt, self.before.attempt
        for j in self._held:
            if state[j] not in _ACTIVE or attempt[j] != before[j]:
                places.unhang(w, j)
                lines.cease_active(w.at, w.jobs, w.shapes, w.active, j)

    def _write_queues(self) -> None:
        """Who waits; shapes were counted as the queues changed."""
        w, after, rows = self.world.ink.w, self.queues.after.tolist(), len(self.world.shape_rows)
        counts, heads = (w.shapes[:rows, c].tolist() for c in (SHAPE.WAITING, SHAPE.HEAD))
        w.shapes[:rows, SHAPE.WAITING] = w.at[AT.QUEUED] = w.at[AT.WAITING] = 0
        for j, count in zip(heads, counts, strict=True):
            for _ in range(count):
                lines.line_up(w.at, w.jobs, w.shapes, w.queued, j)
                j = after[j]  # noqa: PLW2901 - the chain of a shape, from its head

    def _write_places(self, story: Story) -> None:
        """Who has come to stay."""
        world, state = self.world, self.world.jobs.state
        placed = np.unique(story.lines.subject[story.lines.kind == kernels.PLACED])
        columns = (column.tolist() for column in (self.aboard.first, self.aboard.pieces))
        first, pieces = columns
        nodes, replicas, devices = (column.tolist() for column in story.pieces)
        for j in placed[np.isin(state[placed], _ACTIVE)].tolist():
            mine = range(first[j], first[j] + pieces[j])
            found = tuple(Piece(0, nodes[i], replicas[i], devices[i]) for i in mine)
            count, w = rows.write_found(world, found), world.ink.w
            lines.become_active(w.at, w.jobs, w.shapes, w.active, j)
            places.hang(w, j, count, 0)

    def _write_history(self, story: Story) -> None:
        """How long those ran who have ended, and which shapes had jobs come back."""
        world, kind, subject = self.world, story.lines.kind, story.lines.subject
        stopped = (kind == kernels.FAILED) | (kind == kernels.CANCELLED)
        np.add.at(world.ink.w.shapes[:, SHAPE.RETURNS], world.jobs.shape[subject[stopped]], 1)
        has_ended = (kind == kernels.FINISHED) | (kind == kernels.CANCELLED)
        has_ended |= (kind == kernels.FAILED) & (story.lines.pieces == 1)
        fold_history.note_all(world, subject[has_ended])

    def _write_memo(self) -> None:
        world, at, memo = self.world, self.at, self.memo
        supply = world.supply_changes
        memo.has_refused = bool(at[kernels.HAS_REFUSED])
        if at[kernels.IS_SEEN]:
            seen = at[[kernels.SEEN_JOBS, kernels.SEEN_FREED, kernels.SEEN_QUEUES]].tolist()
            memo.remember_decision((seen[0], supply, *seen[1:], 0), int(at[kernels.DECIDED]))
        fresh: list[int] | None = None
        if not at[kernels.IS_LOST] and at[kernels.LOGGED] <= LOG_ENTRIES:
            fresh = self.log[int(at[kernels.LOOKED]) : int(at[kernels.LOGGED])].tolist()
        world.changes.forget()
        memo.remember_look(world, int(at[kernels.LOOK]), is_whole=fresh is not None)
        for n in fresh or ():
            world.changes.add(n)
        rows = zip(*(column.tolist() for column in self.failures), strict=True)
        for s, (is_one, freed, queue_freed, cause, look, is_limited) in enumerate(rows):
            if s < len(world.shape_rows) and is_plain(world.shape_rows[s]):
                memo.remember_limit(s, bool(is_limited))
                if is_one:
                    memo.recall_failure(s, (freed, queue_freed, supply), Cause(cause), look)


def _replicas_per_device(world: World) -> int:
    """How many replicas the smallest fraction among all shapes lets onto one device."""
    fractions = [row.roles[0].milli for row in world.shape_rows if row.roles[0].accelerators]
    return WHOLE_MILLI // min(fractions, default=WHOLE_MILLI)


def _leaves(world: World) -> int:
    return 1 << max(1, (world.node_count - 1).bit_length())


def _trees_at_most(world: World) -> int:
    return TREE_BYTES_AT_MOST // (17 * _leaves(world))


def _asks(world: World, memo: Memo, scores: bool) -> tuple[Asks, Options, Trees]:
    """Every shape as numbers; equal requests share a tree."""
    room, groups = len(world.ink.shapes.queue) + 1, max(1, len(world.groups))
    asks: Asks = tables.blank(Asks, room)
    asks.only_kind[:] = asks.together[:] = -1
    kinds, trees, bare, scored = list[int](), list[int](), list[int](), list[int]()
    allowed = list[I64]()
    numbers: dict[tuple[Any, ...], int] = {}
    likes: dict[tuple[Any, ...], int] = {}
    leaves, at_most = _leaves(world), _trees_at_most(world)

    def grow(key: tuple[Any, ...]) -> int:
        """The number of a request's tree; -1: there are too many."""
        if key not in numbers and len(numbers) < at_most:
            numbers[key] = len(numbers)
        return numbers.get(key, -1)

    widest = int(world.nodes.devices[: world.node_count].max(initial=1))
    for s, shape in enumerate(world.shape_rows):
        asks.first_option[s + 1] = asks.first_option[s]
        if not is_plain(shape):
            continue
        role, known = shape.roles[0], memo.known(world, s)
        asks.accelerators[s], asks.milli[s] = role.accelerators, role.milli
        asks.cpu[s], asks.memory[s] = role.cpu_milli, role.memory_mib
        asks.replicas[s], asks.need[s] = role.count, role.total_milli
        asks.kinds[s] = sum(1 << k for k in known.kinds)
        asks.only_kind[s] = known.kinds[0] if len(known.kinds) == 1 else -1
        asks.supply[s] = diagnose.supply_cause(world, memo, s)
        asks.outlasts[s] = diagnose.fits_when_others_end(world, memo, s)
        everywhere = tuple(option.is_ok.tobytes() for option in known.options[0])
        if scores and role.count == 1 and not role.kinds and len(known.options[0]) > 1:
            asks.together[s] = grow(
                (everywhere, role.accelerators, role.milli, role.cpu_milli, role.memory_mib)
            )
        everything = (role.count, role.accelerators, role.milli, role.cpu_milli, role.memory_mib)
        asks.like[s] = likes.setdefault((*everything, everywhere, known.kinds), s)
        one_a_node = role.milli == WHOLE_MILLI and 2 * role.accelerators > widest
        for option in known.options[0]:
            is_ok = np.zeros(groups, np.int64)
            is_ok[: len(option.is_ok)] = option.is_ok
            has_tree = role.count == 1 or one_a_node
            where = (is_ok.tobytes(), role.accelerators, role.milli)
            trees.append(grow((*where, role.cpu_milli, role.memory_mib)) if has_tree else -1)
            bare.append(grow((*where, 0, 0)) if has_tree else -1)
            goes_alone = scores and (role.count == 1 or role.milli < WHOLE_MILLI)
            by_score = (*where, role.cpu_milli, role.memory_mib, "scored")
            scored.append(grow(by_score) if goes_alone else -1)
            kinds.append(option.kind)
            allowed.append(is_ok)
        asks.first_option[s + 1] = len(kinds)
    options = Options(
        np.array(kinds, np.int64), np.array(trees, np.int64), np.array(bare, np.int64),
        np.array(scored, np.int64), np.array(allowed, np.int64).reshape(-1, groups),
    )  # fmt: skip
    count = len(numbers)
    forest = Trees(
        np.zeros((count, leaves), np.int64), np.zeros((count, 2 * leaves), np.int64),
        np.full(count, -1, np.int64), np.zeros((count, leaves), np.bool_),
        np.zeros(count, np.uint64), np.zeros((count, groups), np.int64),
        np.zeros(world.node_count, np.int64), np.full((world.node_count, WASTED), -1, np.int64),
    )  # fmt: skip
    return asks, options, forest
