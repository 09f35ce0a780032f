"""The second reader: does this plan keep every promise? It shares no code with the layers.

It reads the World's rows in plain Python, adds up what the plan takes, and names each promise that
would be broken: nothing over-committed, gangs whole, constraints and limits kept, evictions within
their rights, nothing asked twice. It runs before every act, in tests, in the twin and in
production; its cost grows with the plan, not with the fleet. (Reservations are the exception: they
are read again for one plan in ``FLEET_EVERY``.)
"""

from collections import Counter

from tidemill.engine import check_bonds, check_reservations
from tidemill.engine.check_order import goes_before, loses_nothing
from tidemill.engine.check_slices import Slices
from tidemill.model import events as ev
from tidemill.model.errors import PlanRefused
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece, Role
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World

Pieces = tuple[Piece, ...]
FLEET_EVERY = 16
"""Reading all that runs takes a millisecond or two on 512 accelerators, as long as deciding; so it
is done for the plans that come after this many events, again and again."""
_WAITING = int(JobState.WAITING)
_ACTIVE = (int(JobState.STARTING), int(JobState.RUNNING))
_READY = int(NodeState.READY)
_FROM = {
    ev.AskedDrain: ("drained", {NodeState.READY, NodeState.CORDONED}),
    ev.AskedRepair: ("repaired", {NodeState.UNHEALTHY, NodeState.DRAINING}),
    ev.AskedReturn: ("returned", {*NodeState} - {NodeState.GONE}),
    ev.AskedSpare: ("a spare, or not one any more", {NodeState.READY}),
}
"""What may be asked of a node in which state; said again here, not taken from the layers."""


def check(world: World, plan: ev.Plan, policy: Policy) -> None:
    """Refuse a plan that would break a promise."""
    if not plan.actions:
        return
    found = violations(world, plan, policy, reads_fleet=world.seq % FLEET_EVERY == 0)
    if found:
        raise PlanRefused(
            f"a plan at {world.now_ms} ms would break {len(found)} promises: " + "; ".join(found),
            hint="nothing was carried out; this is a bug, please report it with the journal",
        )


def violations(
    world: World, plan: ev.Plan, policy: Policy, *, reads_fleet: bool = True
) -> list[str]:
    """Everything that is wrong with a plan, in words; empty when it is right.

    Whether somebody is delayed by who passes it can only be said by reading all that runs.
    """
    reader = _Reader(world, policy)
    for action in plan.actions:
        reader.read(action)
    wrong = reader.finish()
    return wrong + (check_reservations.broken(world, policy, plan.actions) if reads_fleet else [])


class _Reader:
    def __init__(self, world: World, policy: Policy) -> None:
        self.world, self.policy = world, policy
        self.wrong: list[str] = []
        self.device_milli: Counter[tuple[int, int]] = Counter()
        self.slices = Slices(world)
        self.cpu_milli: Counter[int] = Counter()
        self.memory_mib: Counter[int] = Counter()
        self.team_milli: Counter[tuple[int, int]] = Counter()
        self.leaving_milli: Counter[tuple[int, int]] = Counter()
        self.jobs: Counter[int] = Counter()
        self.nodes: Counter[int] = Counter()
        self.placed_on: set[int] = set()

    def read(self, action: ev.Action) -> None:  # noqa: C901, PLR0912 - one case a kind
        if action.at_ms != self.world.now_ms:
            self.wrong.append(f"an action is dated {action.at_ms}, not now")
        unknown = self._unknown(action)
        if unknown:
            self.wrong += unknown
            return
        match action:
            case ev.AskedPlace():
                self._read_place(action)
            case ev.AskedEvict() | ev.AskedCancel():
                self._read_stop(action)
            case ev.AskedMove():
                self._read_move(action)
            case ev.AskedDrain() | ev.AskedRepair() | ev.AskedReturn() | ev.AskedSpare():
                self._read_node(action)
            case ev.AskedLaunch():
                self._read_launch(action)
            case ev.AskedRelease():
                if action.shape not in self.world.promised:
                    self.wrong.append(f"nothing is promised to shape number {action.shape}")
            case ev.SaidMix():
                if self.world.job_count <= self.world.mix_point:
                    self.wrong.append("the mix is looked at again, though nothing has arrived")
            case ev.JobPassed():
                self._read_passed(action)
            case ev.SaidWhy() | ev.SaidHalfLife():
                pass

    def _unknown(self, action: ev.Action) -> list[str]:
        """Numbers in an action that nothing has."""
        world = self.world
        match action:
            case ev.AskedPlace():
                numbers = [("node", piece.node, world.node_count) for piece in action.pieces]
                numbers.append(("job", action.job, world.job_count))
            case ev.AskedEvict():
                jobs = (action.job, max(0, action.to_job))
                numbers = [("job", j, world.job_count) for j in jobs]
            case ev.AskedMove():
                pieces = (*action.gained, *action.lost)
                numbers = [("node", piece.node, world.node_count) for piece in pieces]
                jobs = (action.job, max(0, action.to_job))
                numbers += [("job", j, world.job_count) for j in jobs]
            case ev.AskedCancel() | ev.JobPassed():
                numbers = [("job", action.job, world.job_count)]
            case ev.AskedDrain() | ev.AskedRepair() | ev.AskedReturn() | ev.AskedSpare():
                numbers = [("node", action.node, world.node_count)]
            case ev.AskedLaunch():
                numbers = [("contract", action.contract, world.contract_count)]
            case ev.SaidHalfLife() | ev.SaidMix():
                numbers = []
            case ev.AskedRelease() | ev.SaidWhy():
                numbers = [("shape", action.shape, len(world.shape_rows))]
        return [
            f"{what} number {i} is unknown; there are {count}"
            for what, i, count in numbers
            if not 0 <= i < count
        ]

    def finish(self) -> list[str]:
        self._finish_nodes()
        self.wrong += self.slices.finish(self.device_milli)
        self._finish_teams()
        names = self.world.job_names
        self.wrong += [f"job `{names[j]}` is named twice" for j, n in self.jobs.items() if n > 1]
        nodes = self.world.node_rows
        self.wrong += [
            f"node `{nodes[n].name}` is named twice" for n, m in self.nodes.items() if m > 1
        ]
        self.wrong += [
            f"node `{nodes[n].name}` is given work and taken away at once"
            for n in sorted(self.placed_on & self.nodes.keys())
        ]
        return self.wrong

    # Placements --------------------------------------------------------------------------------

    def _read_place(self, action: ev.AskedPlace) -> None:
        world, j = self.world, action.job
        self.jobs[j] += 1
        if world.jobs.state.item(j) != _WAITING:
            self.wrong.append(f"job `{world.job_names[j]}` is placed but not waiting")
        if action.attempt != world.jobs.attempt[j] + 1:
            self.wrong.append(f"job `{world.job_names[j]}` is placed as attempt {action.attempt}")
        self._read_gang(j, action.pieces, (), ())

    def _read_passed(self, action: ev.JobPassed) -> None:
        """Whoever is said to be passed for the first time waits, and somebody else is placed."""
        world, name = self.world, self.world.job_names[action.job]
        if world.jobs.state.item(action.job) != _WAITING or self.jobs[action.job]:
            self.wrong.append(f"job `{name}` is passed but does not wait")
        if world.jobs.passed_ms.item(action.job) >= 0:
            self.wrong.append(f"job `{name}` is passed for the first time a second time")
        if not self.placed_on:
            self.wrong.append(f"job `{name}` is passed by nobody")

    def _read_gang(self, j: int, pieces: Pieces, kept: Pieces, lost: Pieces) -> None:
        """A gang with new pieces, beside those it keeps less those it loses, must be whole."""
        world, shape = self.world, self.world.shape_of(j)
        for piece in pieces:
            if not 0 <= piece.role < len(shape.roles):
                self.wrong.append(f"job `{world.job_names[j]}` has no role number {piece.role}")
            else:
                self._read_piece(j, shape.roles[piece.role], piece)
        sits: Counter[tuple[int, int]] = Counter()
        for sign, some in ((1, pieces), (1, kept), (-1, lost)):
            for piece in some:
                sits[piece.role, piece.node] += sign * piece.replicas
        replicas: Counter[int] = Counter()
        kinds: dict[int, set[int]] = {}
        for (r, n), count in sits.items():
            replicas[r] += count
            if count:
                kinds.setdefault(r, set()).add(int(world.nodes.kind[n]))
        self._read_roles(j, replicas, kinds)
        if shape.bonds or any(role.bonds for role in shape.roles):
            self.wrong += check_bonds.broken(world, j, (*pieces, *kept), lost)

    def _read_roles(self, j: int, replicas: Counter[int], kinds: dict[int, set[int]]) -> None:
        name = self.world.job_names[j]
        for r, role in enumerate(self.world.shape_of(j).roles):
            if not (role.least or role.count) <= replicas[r] <= role.count:
                self.wrong.append(f"job `{name}` gets {replicas[r]} of {role.count} `{role.name}`")
            if role.accelerators and len(kinds.get(r, ())) > 1:
                self.wrong.append(f"job `{name}` role `{role.name}` mixes GPU types")

    def _read_piece(self, j: int, role: Role, piece: Piece) -> None:
        world, n = self.world, piece.node
        row, contract = world.node_rows[n], world.contract_rows[int(world.nodes.contract[n])]
        if role.kinds and contract.kind not in role.kinds:
            self.wrong.append(f"job `{world.job_names[j]}` gets `{contract.kind}`")
        if not {*role.labels} <= {*row.labels, *contract.node.labels}:
            self.wrong.append(f"job `{world.job_names[j]}` gets `{row.name}` against its labels")
        held, most = piece.devices.bit_count(), contract.node.devices
        devices = [d for d in range(most) if piece.devices >> d & 1]
        if held != piece.replicas * role.accelerators or piece.replicas < 1 or len(devices) < held:
            self.wrong.append(f"job `{world.job_names[j]}` gets {held} of `{row.name}`")
        if role.profile or piece.slices:
            self.wrong += self.slices.read(j, role, piece)
        for d in [] if role.profile else devices:
            self.device_milli[n, d] += role.milli
        self.cpu_milli[n] += piece.replicas * role.cpu_milli
        self.memory_mib[n] += piece.replicas * role.memory_mib
        self.placed_on.add(n)
        for q in self._line(int(world.shapes.queue[world.jobs.shape[j]])):
            self.team_milli[q, int(world.nodes.kind[n])] += len(devices) * role.milli

    def _finish_nodes(self) -> None:
        world, nodes = self.world, self.world.nodes
        for n in sorted(self.placed_on):
            name = world.node_rows[n].name
            if nodes.state.item(n) != _READY or nodes.is_spare.item(n):
                self.wrong.append(f"node `{name}` takes no new work")
            if self.cpu_milli[n] > nodes.cpu_free_milli[n]:
                self.wrong.append(f"node `{name}` has too little CPU")
            if self.memory_mib[n] > nodes.memory_free_mib[n]:
                self.wrong.append(f"node `{name}` has too little memory")
        for (n, d), milli in sorted(self.device_milli.items()):
            i = int(nodes.first_device[n]) + d
            if world.devices.is_failed[i] or milli > world.devices.free_milli[i]:
                self.wrong.append(f"device {d} of `{world.node_rows[n].name}` is over-committed")

    def _finish_teams(self) -> None:
        world = self.world
        for (q, k), milli in sorted(self.team_milli.items()):
            if milli and world.used[q, k] + milli > world.limit[q, k]:
                team, kind = world.queue_rows[q].name, world.kinds[k]
                self.wrong.append(f"team `{team}` would exceed its limit of `{kind}`")
        if any(share.lend_milli < FOREVER_MS for row in world.queue_rows for share in row.shares):
            for k in range(len(world.kinds)):
                self._finish_kept(k)

    def _finish_kept(self, k: int) -> None:
        """What queues do not lend of their floors must stay free for them, or not get less."""
        world = self.world
        taken = sum(
            milli
            for (q, kind), milli in self.team_milli.items()
            if kind == k and not world.queue_rows[q].parent
        )
        kept, left = self._kept(k, before=True), self._kept(k, before=False)
        if taken and left + taken > max(world.kind_free_milli.item(k), kept):
            self.wrong.append(f"{taken} milli of `{world.kinds[k]}` are taken that others keep")

    def _kept(self, k: int, *, before: bool) -> int:
        """What is kept back of a kind, before the plan or after it; from the leaves up."""
        world, below, total = self.world, Counter[int](), 0
        lines = [self._line(q) for q in range(len(world.queue_rows))]
        for line in sorted(lines, key=len, reverse=True):
            q = line[0]
            used = int(world.used[q, k]) + (0 if before else self.team_milli[q, k])
            lends = [s.lend_milli for s in world.queue_rows[q].shares if s.kind == world.kinds[k]]
            keeps = max(0, int(world.floor[q, k]) - lends[0]) - used if lends else 0
            if len(line) > 1:
                below[line[1]] += max(keeps, below[q])
            else:
                total += max(keeps, below[q])
        return total

    def _line(self, q: int) -> list[int]:
        """A queue and all that is above it."""
        line, rows = [q], self.world.queue_rows
        while rows[line[-1]].parent:
            line.append(self.world.queue_number[rows[line[-1]].parent])
        return line

    # Moves -------------------------------------------------------------------------------------

    def _read_move(self, action: ev.AskedMove) -> None:
        """A running job holds what it leaves, its gang stays whole, and it moves by a right."""
        world, j = self.world, action.job
        self.jobs[j] += 1
        name, shape = world.job_names[j], world.shape_of(j)
        if world.jobs.state.item(j) != _ACTIVE[1] or action.attempt != world.jobs.attempt[j]:
            self.wrong.append(f"job `{name}` is moved but not running")
            return
        if world.jobs.is_leaving[j]:
            self.wrong.append(f"job `{name}` is moved but leaving already")
        held = world.placements.get(j, ())
        self._read_gang(j, action.gained, held, action.lost)
        if not self._holds(held, action.lost):
            self.wrong.append(f"job `{name}` is to leave what it does not hold")
        if action.to_job >= 0 and world.jobs.state.item(action.to_job) != _WAITING:
            self.wrong.append(f"job `{name}` makes room for one that does not wait")
        match action.why:
            case ev.Why.MOVED:
                is_all = Counter(held) == Counter(action.lost) and bool(action.gained)
                if not (is_all and shape.is_preemptible and action.to_job >= 0):
                    self.wrong.append(f"job `{name}` is moved without a reason or not whole")
            case ev.Why.SHRUNK:
                self._read_shrink(action)
            case ev.Why.GROWN:
                if action.lost or action.to_job >= 0 or shape.elastic_role is None:
                    self.wrong.append(f"job `{name}` does not grow, whatever is said")
            case _:
                self.wrong.append(f"job `{name}` is moved for no reason that moves")

    def _read_shrink(self, action: ev.AskedMove) -> None:
        """What is above the least is lent: to its own team by rank, to others when it borrows."""
        world, name = self.world, self.world.job_names[action.job]
        mine = world.shape_of(action.job)
        if action.gained or action.to_job < 0 or mine.elastic_role is None:
            self.wrong.append(f"job `{name}` does not shrink for anybody, whatever is said")
            return
        theirs = world.shape_of(action.to_job)
        line = self._line(int(world.shapes.queue[world.jobs.shape[action.job]]))
        if mine.team == theirs.team:
            if mine.priority > theirs.priority:
                self.wrong.append(f"job `{name}` shrinks for one of its team that is lower")
        elif not self._borrows(action, line):
            self.wrong.append(f"job `{name}` shrinks for another team, and borrows nothing")
        for q in line:
            for piece in action.lost:
                milli = piece.replicas * mine.roles[piece.role].replica_milli
                self.leaving_milli[q, int(world.nodes.kind[piece.node])] += milli

    def _borrows(self, action: ev.AskedMove, line: list[int]) -> bool:
        """Whether a team and all above it, below where it meets the heir's, borrow what goes."""
        world = self.world
        heirs = self._line(int(world.shapes.queue[world.jobs.shape[action.to_job]]))
        return any(
            all(
                self._used(a, k) - self.leaving_milli[a, k] > world.floor[a, k]
                for a in line
                if a not in heirs
            )
            for k in {int(world.nodes.kind[piece.node]) for piece in action.lost}
        )

    def _holds(self, held: Pieces, lost: Pieces) -> bool:
        """Whether every device and replica that is left was held."""
        devices = {
            (p.role, p.node, d, p.slices) for p in held for d in range(64) if p.devices >> d & 1
        }
        replicas: Counter[tuple[int, int]] = Counter()
        for piece in held:
            replicas[piece.role, piece.node] += piece.replicas
        for piece in lost:
            replicas[piece.role, piece.node] -= piece.replicas
            for d in range(64):
                place = (piece.role, piece.node, d, piece.slices)
                if piece.devices >> d & 1 and place not in devices:
                    return False
        return min(replicas.values(), default=0) >= 0

    # Evictions ---------------------------------------------------------------------------------

    def _read_stop(self, action: ev.AskedEvict | ev.AskedCancel) -> None:
        world, j = self.world, action.job
        self.jobs[j] += 1
        name = world.job_names[j]
        if world.jobs.state.item(j) not in _ACTIVE:
            self.wrong.append(f"job `{name}` is stopped but not active")
        if world.jobs.is_leaving[j]:
            self.wrong.append(f"job `{name}` is stopped but leaving already")
        if isinstance(action, ev.AskedCancel):
            if j not in world.idle:
                self.wrong.append(f"job `{name}` is cancelled but not idle")
            return
        if action.attempt != world.jobs.attempt[j]:
            self.wrong.append(f"job `{name}` is stopped as attempt {action.attempt}")
        if action.to_job >= 0:
            self._read_right(action)
        elif not any(self._drain_is_due(piece.node) for piece in world.placements.get(j, ())):
            self.wrong.append(f"job `{name}` is stopped for nobody, and no drain is due")

    def _drain_is_due(self, n: int) -> bool:
        nodes, now_ms = self.world.nodes, self.world.now_ms
        return bool(nodes.state[n] == NodeState.DRAINING and nodes.deadline_ms[n] <= now_ms)

    def _read_right(self, action: ev.AskedEvict) -> None:
        world, heir = self.world, action.to_job
        mine, theirs = world.shape_of(action.job), world.shape_of(heir)
        name = world.job_names[action.job]
        if world.jobs.state.item(heir) != _WAITING:
            self.wrong.append(f"job `{name}` makes room for one that does not wait")
        if not mine.is_preemptible:
            self.wrong.append(f"job `{name}` is not preemptible")
        self._read_protection(action)
        if action.why in (ev.Why.REORDERED, ev.Why.REPACKED):
            self._read_reorder(action)
        elif mine.team == theirs.team and mine.priority >= theirs.priority:
            self.wrong.append(f"job `{name}` yields to one of its team that is not higher")
        elif mine.team != theirs.team and not self._may_reclaim(action.job, heir):
            self.wrong.append(f"job `{name}` yields to another team without a claim")
        for q in self._line(int(world.shapes.queue[world.jobs.shape[action.job]])):
            for piece in world.placements.get(action.job, ()):
                milli = piece.replicas * mine.roles[piece.role].replica_milli
                self.leaving_milli[q, int(world.nodes.kind[piece.node])] += milli

    def _read_protection(self, action: ev.AskedEvict) -> None:
        """Nobody is stopped for another before its time, nor too often without saving anything."""
        jobs, j, policy = self.world.jobs, action.job, self.policy
        name = self.world.job_names[j]
        if action.why in (ev.Why.REORDERED, ev.Why.REPACKED) and loses_nothing(self.world, j):
            return
        least_ms = policy.min_run_ms * 2 ** min(4, int(jobs.evictions[j]))
        is_up = jobs.state.item(j) == _ACTIVE[1]
        if least_ms and not (is_up and self.world.now_ms - int(jobs.since_ms[j]) >= least_ms):
            self.wrong.append(f"job `{name}` is stopped within its minimum run time")
        is_spent = int(jobs.fruitless[j]) >= policy.evictions_at_most
        if is_spent and action.why is not ev.Why.RECLAIMED:
            self.wrong.append(f"job `{name}` was stopped too often without saving any work")

    def _read_reorder(self, action: ev.AskedEvict) -> None:
        """An heir goes before whom it puts off, or its team does; who is repacked loses nothing."""
        world, policy, name = self.world, self.policy, self.world.job_names[action.job]
        if not policy.may_reorder or policy.order in ("fifo", "priority"):
            self.wrong.append(f"job `{name}` is put off, but the order is of waiting jobs only")
        elif action.why is ev.Why.REPACKED:
            if not loses_nothing(world, action.job):
                self.wrong.append(f"job `{name}` is moved and loses work")
        elif not goes_before(world, policy, action.to_job, action.job):
            q = int(world.shapes.queue[world.jobs.shape[action.to_job]])
            is_due = any((world.floor[a] > 0).any() for a in world.tree.paths[q])
            if not is_due and policy.fairness == "none":
                heir = world.job_names[action.to_job]
                self.wrong.append(f"job `{name}` is put off for `{heir}`, which comes after it")

    def _may_reclaim(self, victim: int, heir: int) -> bool:
        """Whether one branch of the tree takes back what another borrows, below where they meet."""
        world = self.world
        lenders = self._line(int(world.shapes.queue[world.jobs.shape[heir]]))
        borrowers = self._line(int(world.shapes.queue[world.jobs.shape[victim]]))
        met = {*lenders} & {*borrowers}
        lender = [a for a in lenders if a not in met][-1]
        kinds = {int(world.nodes.kind[p.node]) for p in world.placements.get(victim, ())}
        need = sum(
            (role.least or role.count) * role.replica_milli for role in world.shape_of(heir).roles
        )
        is_entitled = any(
            self._used(lender, k) + need <= world.floor[lender, k] for k in range(len(world.kinds))
        )
        borrows = any(
            all(
                self._used(a, k) - self.leaving_milli[a, k] > world.floor[a, k]
                for a in borrowers
                if a not in met
            )
            for k in kinds
        )
        return is_entitled and borrows

    def _used(self, q: int, k: int) -> int:
        """What a team uses of a kind, with what the plan has given it so far."""
        return int(self.world.used[q, k]) + self.team_milli[q, k]

    # Supply ------------------------------------------------------------------------------------

    def _read_node(
        self, action: ev.AskedDrain | ev.AskedRepair | ev.AskedReturn | ev.AskedSpare
    ) -> None:
        world, n = self.world, action.node
        self.nodes[n] += 1
        name, state = world.node_rows[n].name, NodeState(world.nodes.state[n])
        if not isinstance(action, ev.AskedDrain) and world.aboard[n]:
            self.wrong.append(f"node `{name}` still carries work")
        what, states = _FROM[type(action)]
        if state not in states or world.nodes.asked[n]:
            found = "asked for already" if world.nodes.asked[n] else state.name.lower()
            self.wrong.append(f"node `{name}` is {found} and cannot be {what}")

    def _read_launch(self, action: ev.AskedLaunch) -> None:
        contract, contracts = self.world.contract_rows[action.contract], self.world.contracts
        nodes = int(contracts.nodes[action.contract]) + int(contracts.asked_nodes[action.contract])
        if not contracts.is_running[action.contract]:
            self.wrong.append(f"contract `{contract.name}` is not running")
        if (nodes + action.nodes) * contract.node.devices > contract.count:
            self.wrong.append(f"contract `{contract.name}` does not pay for so many nodes")
