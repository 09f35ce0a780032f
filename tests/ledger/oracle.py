"""A naive ledger: every accelerator looked at again between any two instants, in plain Python.

It shares the fold and the names of the buckets with the real ledger, the order of one team's jobs
with the plan checker, and nothing else. Between two
events it asks the World from scratch who holds what, simulates every checkpoint that takes time one
by one, lets waiting jobs claim what is free in a plain loop, and keeps a log of small facts
(`Held`). Fates are looked up when all is known: was this work saved later, finished, or lost?
"""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise, product
from typing import NamedTuple

from tests.engine import audit
from tidemill.engine.check import order as check_order
from tidemill.engine.fold.one_event import fold
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import Statement
from tidemill.model import events as ev
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Contract, Piece, Queue, Role, Shape
from tidemill.model.states import LAUNCHED, Confidence, JobClass, JobState, NodeState, Terms
from tidemill.model.world import World
from tidemill.units.mig import geometry

MILLION = 1_000_000
OF_STATE = {
    NodeState.BOOTING: Bucket.NOT_READY,
    NodeState.UNHEALTHY: Bucket.UNHEALTHY,
    NodeState.REPAIRING: Bucket.UNHEALTHY,
    NodeState.CORDONED: Bucket.CORDONED,
    NodeState.DRAINING: Bucket.DRAINING,
}
HOPELESS = {
    Cause.NOTHING_CLAIMED,
    Cause.IMPOSSIBLE_LABEL,
    Cause.IMPOSSIBLE_SIZE,
    Cause.IMPOSSIBLE_GANG,
    Cause.IMPOSSIBLE_TOPOLOGY,
    Cause.NOT_ELIGIBLE,
}
HOLDING = {
    Cause.BEHIND,
    Cause.RESERVED,
    Cause.PROMISED,
    Cause.PARTIAL_GANG,
    Cause.NOT_ENOUGH_READY,
    Cause.NOTHING_LAUNCHED,
    Cause.NOTHING_READY,
}

Cell = tuple[int, int, int, int, int]
"""(bin, contract, bucket, team or -1, job or -1)"""


class Held(NamedTuple):
    """A job holds accelerators of a contract for a while, in one phase."""

    start_ms: int
    end_ms: int
    job: int
    attempt: int
    contract: int
    milli: int
    phase: str
    busy_ppm: int
    beside_ppm: int
    stretch: int
    """Counts the changes of the busy share and of the pace."""


class Oracle:
    """Reads a journal once; `cells` and `paid` are what the ledger should have found."""

    def __init__(
        self, events: Iterable[ev.Event], window: Window, policy: Policy | None = None
    ) -> None:
        self.world, self.window, self.policy = World(), window, policy or Policy()
        self.cells: Counter[Cell] = Counter()
        self.paid: Counter[tuple[int, int]] = Counter()
        self.jobs: list[ev.JobSubmitted] = []
        self.causes: dict[int, Cause] = {}
        self.said: dict[int, Cause] = {}
        self.origin_ms: dict[tuple[int, int], int] = {}
        self.busy_ppm: dict[tuple[int, int], int] = {}
        self.slow_ppm: dict[tuple[int, int], int] = {}
        self.beside_ppm: Counter[tuple[int, int]] = Counter()
        self.changes: Counter[tuple[int, int]] = Counter()
        self.saved_ms: dict[tuple[int, int], int] = {}
        self.finished: set[tuple[int, int]] = set()
        self.resizing: set[int] = set()
        self.held: list[Held] = []
        now_ms = 0
        for event in events:
            self._pass(now_ms, event.at_ms)
            now_ms = event.at_ms
            fold(self.world, event)
            self._note(event)
            waits = self.world.jobs.state[: self.world.job_count] == JobState.WAITING
            self.said = {j: cause for j, cause in self.said.items() if waits[j]}
        self._resolve()

    def _note(self, event: ev.Event) -> None:  # noqa: C901 - one case a kind of event
        match event:
            case ev.JobSubmitted():
                self.jobs.append(event)
            case ev.CauseChanged():
                self.causes[event.shape] = event.cause
            case ev.ReasonSeen():
                self.said[event.job] = event.cause
            case ev.JobStarted():
                self.origin_ms[event.job, event.attempt] = event.at_ms
                self.busy_ppm[event.job, event.attempt] = MILLION
                self.slow_ppm[event.job, event.attempt] = event.slow_ppm
            case ev.ActivitySeen():
                run = (event.job, event.attempt)
                self.changes[run] += event.busy_ppm != self.busy_ppm[run]
                self.busy_ppm[run] = event.busy_ppm
            case ev.PaceSeen():
                run = (event.job, event.attempt)
                self.changes[run] += event.beside_ppm != self.beside_ppm[run]
                self.beside_ppm[run] = event.beside_ppm
            case ev.JobSaved():
                run = (event.job, event.attempt)
                self._relabel(run, event.at_ms - self.jobs[event.job].job.checkpointing.cost_ms)
                self.saved_ms[run] = self.origin_ms[run] = event.at_ms
                self.changes[run] += 1
            case ev.AskedMove():
                self.resizing.discard(event.job)
                if event.why is not ev.Why.MOVED:
                    self.resizing.add(event.job)
            case ev.JobMoved():
                if event.job in self.resizing:
                    self.finished.add((event.job, event.attempt))
            case ev.JobFinished():
                self.finished.add((event.job, event.attempt))

    def _relabel(self, run: tuple[int, int], since_ms: int) -> None:
        """What a run did since a moment was saving, whatever it was taken for then."""
        kept = []
        for fact in self.held:
            is_other = (fact.job, fact.attempt) != run or fact.phase == "moving"
            if is_other or fact.end_ms <= since_ms:
                kept.append(fact)
                continue
            if fact.start_ms < since_ms:
                kept.append(fact._replace(end_ms=since_ms))
            kept.append(fact._replace(start_ms=max(fact.start_ms, since_ms), phase="saving"))
        self.held = kept

    # Between two events ----------------------------------------------------------------------

    def _pass(self, start_ms: int, end_ms: int) -> None:
        if start_ms == end_ms:
            return
        now, self.free = Counter[Cell](), Counter[int]()
        for c in range(len(self.world.contract_rows)):
            self._look_at_contract(c, now)
        for j in sorted(self.world.placements):
            self._log(j, start_ms, end_ms)
        for number, a, b in self._bins(start_ms, end_ms):
            for (_, c, bucket, team, job), milli in now.items():
                self.cells[number, c, bucket, team, job] += milli * (b - a)
            for c in range(len(self.world.contract_rows)):
                self.paid[number, c] += self._paid_milli(c) * (b - a)

    def _bins(self, start_ms: int, end_ms: int) -> Iterable[tuple[int, int, int]]:
        """The parts of a time that are inside the window, each inside one bin."""
        window = self.window
        start_ms, end_ms = max(start_ms, window.start_ms), min(end_ms, window.end_ms)
        while start_ms < end_ms:
            number = (start_ms - window.start_ms) // window.bin_ms
            edge_ms = min(end_ms, window.start_ms + (number + 1) * window.bin_ms)
            yield number, start_ms, edge_ms
            start_ms = edge_ms

    def _paid_milli(self, c: int) -> int:
        row = self.world.contract_rows[c]
        if row.terms == Terms.RESERVED and self.world.contracts.is_running[c]:
            return row.count * 1000
        return sum(row.node.devices * 1000 for n in self._nodes(c) if self._state(n) in LAUNCHED)

    def _look_at_contract(self, c: int, now: Counter[Cell]) -> None:
        """Every device of every node, one by one; what does not exist is not launched."""
        row, launched = self.world.contract_rows[c], 0
        for n in self._nodes(c):
            state = self._state(n)
            if state not in LAUNCHED:
                continue
            launched += row.node.devices * 1000
            for d in range(row.node.devices):
                lost = self._stranded_milli(n, d) if state is NodeState.READY else 0
                left = 1000 - self._taken_milli(n, d)
                if self.world.devices.is_failed[int(self.world.nodes.first_device[n]) + d]:
                    assert left == 1000, "a failed device holds nothing"
                    now[0, c, Bucket.UNHEALTHY, -1, -1] += left
                elif state in OF_STATE:
                    now[0, c, OF_STATE[state], -1, -1] += left
                elif self.world.nodes.is_spare[n]:
                    now[0, c, Bucket.BY_DESIGN, -1, -1] += left
                else:
                    self.free[n] += left - lost
                    now[0, c, Bucket.NO_DEMAND, -1, -1] += left - lost
                    now[0, c, Bucket.STRANDED, -1, -1] += lost
        now[0, c, Bucket.NOT_LAUNCHED, -1, -1] += self._paid_milli(c) - launched
        if c == len(self.world.contract_rows) - 1:
            self._claim(now)

    def _claim(self, now: Counter[Cell]) -> None:
        """Waiting shapes, in the order of the queue, take from what nobody has claimed yet."""
        waiting = self._waiting()
        for s in sorted(waiting, key=lambda s: self._place_in_queue(s, waiting[s])):
            if not self._fits_somewhere(s) or self.causes.get(s) in HOPELESS:
                continue
            team = self.world.queue_number[self.world.shape_rows[s].team]
            for role, j in product(self.world.shape_rows[s].roles, sorted(waiting[s])):
                if self.said.get(j) is Cause.NOT_ELIGIBLE:
                    continue
                bucket, wanted = self._claimed_as(s, j), role.total_milli
                for c, row in enumerate(self.world.contract_rows):
                    if not role.accelerators or not self._may_use(row, role):
                        continue
                    if not self._could_hold(row.kind, role):
                        continue
                    for n in sorted(self._nodes(c), key=self._turn_of_node):
                        part = min(wanted, self.free[n]) if self._may_be_on(n, role) else 0
                        self.free[n] -= part
                        now[0, c, Bucket.NO_DEMAND, -1, -1] -= part
                        now[0, c, bucket, team, -1] += part
                        wanted -= part

    def _fits_somewhere(self, s: int) -> bool:
        """Whether a node of some contract has as many devices as each replica of a shape."""
        sizes = [row.node.devices for row in self.world.contract_rows]
        return all(role.accelerators <= max(sizes) for role in self.world.shape_rows[s].roles)

    def _could_hold(self, kind: str, role: Role) -> bool:
        """Whether contracts have the devices for all its replicas on a kind; or on none of its."""
        hosts = Counter[str]()
        for row in self.world.contract_rows:
            nodes = row.count // row.node.devices - row.spares
            hosts[row.kind] += nodes * (
                row.node.devices * (1000 // role.milli) // role.accelerators
            )
        able = {one for one in role.kinds or hosts if hosts[one] >= (role.least or role.count)}
        return bool(role.profile) or not able or kind in able

    def _waiting(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for j in range(self.world.job_count):
            if self.world.jobs.state[j] == JobState.WAITING:
                found.setdefault(int(self.world.jobs.shape[j]), []).append(j)
        return found

    # The order of the queue, said again -------------------------------------------------------

    def _place_in_queue(self, s: int, waiting: list[int]) -> tuple[object, ...]:
        """Room that was made, guaranteed quotas, fair shares, the policy's order, age."""
        shape, policy = self.world.shape_rows[s], self.policy
        head, place = min(waiting), (1, 0)
        if policy.order == "priority":
            place = (1, -shape.priority)
        elif policy.order != "fifo":
            reg = check_order.registers(policy)
            head = min(waiting, key=lambda j: (check_order.place(self.world, policy, reg, j), j))
            place = check_order.place(self.world, policy, reg, head)
        if s in self.world.promised:
            return ((-1,), (), (0, 0), head)
        path = self._path(shape.team)
        kinds = self._kinds(shape)
        rights = [
            all(self._used(team, kind) >= self._floor(team, kind) for kind in kinds)
            for team in path
        ]
        rights += [True] * (max(len(self._path(q.name)) for q in self.world.queue_rows) - len(path))
        fair = () if policy.fairness == "none" else tuple(self._share(team) for team in path)
        return (tuple(map(int, rights)), fair, place, head)

    def _path(self, team: str) -> list[str]:
        """A team and all that is above it, from the top down."""
        parent = self._queue(team).parent
        return [*(self._path(parent) if parent else ()), team]

    def _queue(self, team: str) -> Queue:
        return self.world.queue_rows[self.world.queue_number[team]]

    def _kinds(self, shape: Shape) -> set[str]:
        """The kinds of nodes ever seen that a role of a job may use; one without a device: all."""
        found = set[str]()
        for role in shape.roles:
            if not role.accelerators:
                return set(self.world.kinds)
            for n in range(self.world.node_count):
                if self._may_use(self._row_of(n), role) and self._may_be_on(n, role):
                    found.add(self._row_of(n).kind)
        return found

    def _share(self, team: str) -> int:
        """What a team uses above its floor, as a part of all there is, or of what it costs."""
        launched, cost = Counter[str](), Counter[str]()
        for c, row in enumerate(self.world.contract_rows):
            milli = int(self.world.contracts.launched_milli[c])
            launched[row.kind] += milli
            cost[row.kind] += milli * row.usd_micro_per_hour
        parts = []
        for kind in self.world.kinds:
            above = max(0, self._used(team, kind) - self._floor(team, kind))
            if self.policy.fairness == "drf":
                parts.append(above * 10**12 // max(1, launched[kind]))
            elif cost.total():
                each = 10**12 * cost[kind] // max(1, launched[kind])
                parts.append(above * each // cost.total())
            else:
                parts.append(above * 10**12 // max(1, launched.total()))
        whole = max(parts, default=0) if self.policy.fairness == "drf" else sum(parts)
        return whole // self._queue(team).weight

    def _claimed_as(self, s: int, j: int) -> Bucket:
        """By the cause of its shape; where there is none, by what its own scheduler said."""
        cause = self.causes.get(s, Cause.NONE)
        if cause is Cause.NONE and self.said.get(j) not in HOPELESS:
            cause = self.said.get(j, Cause.NONE)
        if cause in (Cause.OVER_LIMIT, Cause.OVER_LIMIT_ALWAYS, Cause.KEPT_BACK):
            return Bucket.QUOTA
        if cause is Cause.TOPOLOGY:
            return Bucket.TOPOLOGY
        if cause is Cause.NONE:
            return Bucket.CAUSE_UNKNOWN
        return Bucket.HELD if cause in HOLDING else Bucket.FRAGMENTED

    def _stranded_milli(self, n: int, d: int) -> int:
        """Free slices of a cut device that no placement covers, the slow way."""
        state = audit.sliced(self.world).get((n, d), 0)
        return audit.stranded_milli(self._row_of(n).kind, state) if state else 0

    def _may_use(self, row: Contract, role: Role) -> bool:
        if role.profile:
            part = geometry.of_kind(row.kind)
            found = part.find(role.profile) if part else None
            if part is None or found is None or part.milli(found) != role.milli:
                return False
        if role.kinds and row.kind not in role.kinds:
            return False
        labels = [{*row.node.labels}]
        for node in self.world.node_rows:
            other = self.world.contract_rows[self.world.contract_number[node.contract]]
            if (other.pool, other.kind) == (row.pool, row.kind):
                labels.append({*other.node.labels, *node.labels})
        return any({*role.labels} <= found for found in labels)

    def _may_be_on(self, n: int, role: Role) -> bool:
        """Labels that it asks for, taints that it tolerates, one of its choices."""
        node, contract = self.world.node_rows[n], self._row_of(n).node
        labels = dict((*contract.labels, *node.labels))
        return (
            {*role.labels} <= {*contract.labels, *node.labels}
            and not role.rules.repelled_by((*contract.taints, *node.taints))
            and (not role.affinity or any(
                all(one.holds(labels.get(one.key)) for one in choice) for choice in role.affinity
            ))
        )  # fmt: skip

    def _turn_of_node(self, n: int) -> tuple[int, int, int]:
        """Nodes behind most taints are claimed first; then by the age of their group."""
        g = int(self.world.nodes.group[n])
        return -len(self.world.groups[g].taints), g, n

    def _used(self, team: str, kind: str) -> int:
        """What a team and those below it use."""
        return sum(
            piece.replicas * self.world.shape_of(j).roles[piece.role].replica_milli
            for j, pieces in self._everything().items()
            for piece in pieces
            if team in self._path(self.world.shape_of(j).team)
            and self._row_of(piece.node).kind == kind
        )

    def _floor(self, team: str, kind: str) -> int:
        """What a team is sure of: its floor, or those of the teams right below it together."""
        shares = self._queue(team).shares
        below = [q.name for q in self.world.queue_rows if q.parent == team]
        own = sum(share.floor_milli for share in shares if share.kind == kind)
        return max(own, sum(self._floor(child, kind) for child in below))

    def _nodes(self, c: int) -> list[int]:
        name = self.world.contract_rows[c].name
        return [n for n, node in enumerate(self.world.node_rows) if node.contract == name]

    def _row_of(self, n: int) -> Contract:
        return self.world.contract_rows[
            self.world.contract_number[self.world.node_rows[n].contract]
        ]

    def _state(self, n: int) -> NodeState:
        return NodeState(int(self.world.nodes.state[n]))

    def _taken_milli(self, n: int, d: int) -> int:
        return sum(
            self.world.shape_of(j).roles[piece.role].milli
            for j, pieces in self._everything().items()
            for piece in pieces
            if piece.node == n and piece.devices >> d & 1
        )

    def _everything(self) -> dict[int, tuple[Piece, ...]]:
        """What each job holds, the place it moves to included."""
        return {
            j: pieces + (self.world.moving[j].gained if j in self.world.moving else ())
            for j, pieces in self.world.placements.items()
        }

    # Jobs ------------------------------------------------------------------------------------

    def _log(self, j: int, start_ms: int, end_ms: int) -> None:
        attempt = int(self.world.jobs.attempt[j])
        phases = [(start_ms, end_ms, "starting")]
        if self.world.jobs.state[j] == JobState.RUNNING:
            phases = self._phases(j, attempt, start_ms, end_ms)
        busy_ppm, stretch = self.busy_ppm.get((j, attempt), MILLION), self.changes[j, attempt]
        beside_ppm = self.beside_ppm[j, attempt]
        for a, b, phase in phases:
            for c, milli in self._by_contract(j, self.world.placements[j]).items():
                self.held.append(
                    Held(a, b, j, attempt, c, milli, phase, busy_ppm, beside_ppm, stretch)
                )
        if j in self.world.moving:
            for c, milli in self._by_contract(j, self.world.moving[j].gained).items():
                self.held.append(Held(start_ms, end_ms, j, attempt, c, milli, "moving", 0, 0, 0))

    def _by_contract(self, j: int, pieces: tuple[Piece, ...]) -> Counter[int]:
        found = Counter[int]()
        for piece in pieces:
            c = self.world.contract_number[self.world.node_rows[piece.node].contract]
            role = self.world.shape_of(j).roles[piece.role]
            found[c] += piece.devices.bit_count() * role.milli
        return found

    def _phases(
        self, j: int, attempt: int, start_ms: int, end_ms: int
    ) -> list[tuple[int, int, str]]:
        """Work, save, work, save, …: one checkpoint after the other from the run's beginning."""
        saving = self.jobs[j].job.checkpointing
        if self._kind(j) is not JobClass.TRAINING or not saving.interval_ms:
            return [(start_ms, end_ms, "working")]
        found = []
        at_ms = self.origin_ms[j, attempt]
        if not saving.cost_ms:  # only the last save parts anything, and there may be millions
            last_ms = end_ms - (end_ms - at_ms) % saving.interval_ms
            if last_ms > at_ms:
                self.saved_ms[j, attempt] = last_ms
            cuts = sorted({start_ms, max(start_ms, last_ms), end_ms})
            return [(a, b, "working") for a, b in pairwise(cuts)]
        while at_ms < end_ms:
            for phase, length_ms in (("working", saving.interval_ms), ("saving", saving.cost_ms)):
                a, b = max(at_ms, start_ms), min(at_ms + length_ms, end_ms)
                if a < b:
                    found.append((a, b, phase))
                at_ms += length_ms
            if at_ms <= end_ms:
                self.saved_ms[j, attempt] = at_ms
        return found

    def _kind(self, j: int) -> JobClass:
        return self.jobs[j].job.shape.kind

    def _resolve(self) -> None:
        """Now that all is known: where did each held millisecond go?"""
        worked: Counter[tuple[int, int, int, int]] = Counter()
        for fact in self.held:
            if fact.phase in ("starting", "moving"):
                is_first = fact.phase == "starting" and fact.attempt == 1
                bucket = Bucket.STARTING if is_first else Bucket.RESTART
                self._book(fact, lambda ms, fact=fact, b=bucket: {b: fact.milli * ms})
            elif fact.phase == "saving":
                self._book(fact, lambda ms, fact=fact: {Bucket.CHECKPOINT: fact.milli * ms})
            else:
                stretch = (fact.job, fact.attempt, fact.contract, fact.stretch)
                self._book(
                    fact,
                    lambda ms, fact=fact, w=worked[stretch]: self._divide(
                        fact, w + fact.milli * ms
                    ),
                )
                worked[stretch] += fact.milli * (fact.end_ms - fact.start_ms)

    def _book(self, fact: Held, up_to) -> None:
        """Book a fact bin by bin: what it comes to up to the end, less what up to the start."""
        team = self.world.queue_number[self.jobs[fact.job].job.shape.team]
        for number, a, b in self._bins(fact.start_ms, fact.end_ms):
            until, upto = up_to(b - fact.start_ms), up_to(a - fact.start_ms)
            for bucket in until:
                cell = (number, fact.contract, int(bucket), team, fact.job)
                self.cells[cell] += until[bucket] - upto[bucket]

    def _divide(self, fact: Held, work: int) -> dict[Bucket, int]:
        """The rule of division, for all the work of a stretch up to some moment."""
        idle = work * (MILLION - fact.busy_ppm) // MILLION
        busy = work - idle
        fate, shares = self._fate(fact), self.jobs[fact.job].job.efficiency
        if fate is not None:
            return {Bucket.IDLE: idle, fate: busy}
        slow_ppm = self.slow_ppm[fact.job, fact.attempt]
        beside = busy * fact.beside_ppm // (MILLION + fact.beside_ppm)
        slow = (busy - beside) * slow_ppm // (MILLION + slow_ppm)
        found = {Bucket.IDLE: idle, Bucket.INTERFERENCE: beside}
        if shares.confidence is Confidence.UNKNOWN:
            return found | {Bucket.LINKS: slow, Bucket.UNKNOWN: busy - beside - slow}
        rest, whole = busy - beside - slow, MILLION
        for bucket, ppm in (
            (Bucket.HOST, shares.host_ppm),
            (Bucket.LINKS, shares.links_ppm),
            (Bucket.USEFUL, shares.mfu_ppm),
        ):
            found[bucket] = rest * ppm // whole if whole else 0
            rest, whole = rest - found[bucket], whole - ppm
        found[Bucket.LINKS] += slow
        roof_ppm = shares.attainable_ppm
        if roof_ppm is None:
            return found | {Bucket.BELOW_PEAK: rest}
        at_roof_ppm = min(shares.mfu_ppm * (MILLION - roof_ppm) // roof_ppm, whole)
        bound = rest * at_roof_ppm // whole if whole else 0
        return found | {Bucket.MEMORY_BOUND: bound, Bucket.BELOW_ROOF: rest - bound}

    def _fate(self, fact: Held) -> Bucket | None:
        """None: the work lasted."""
        run = (fact.job, fact.attempt)
        if self._kind(fact.job) is not JobClass.TRAINING or run in self.finished:
            return None
        if self.saved_ms.get(run, -1) >= fact.end_ms:
            return None
        is_over = (
            self.world.jobs.attempt[fact.job] != fact.attempt
            or self.world.jobs.state[fact.job] != JobState.RUNNING
        )
        return Bucket.REWORK if is_over else Bucket.UNSAVED


def expect_equal(statement: Statement, oracle: Oracle) -> None:
    """Assert that a statement is what the oracle found, cell by cell."""
    rows = statement.rows
    columns = (rows.bin, rows.contract, rows.bucket, rows.team, rows.job)
    keys = zip(*(column.tolist() for column in columns), strict=True)
    found = dict(zip(keys, rows.milli_ms.tolist(), strict=True))
    assert not rows.known.any(), "the oracle knows nothing of measurements"
    assert len(found) == len(rows.milli_ms), "two rows say the same"
    assert found == {cell: amount for cell, amount in oracle.cells.items() if amount}
    paid = {
        (number, c): amount
        for number, row in zip(statement.bins.tolist(), statement.paid.tolist(), strict=True)
        for c, amount in enumerate(row)
        if amount
    }
    assert paid == {where: amount for where, amount in oracle.paid.items() if amount}
