"""The plan checker on rare rows: moves, drains, orders of a plug-in, nodes, contracts.

One after the other, in Python, over the sums that the kernels keep (``reading``).
"""

from collections import Counter

import numpy as np

from tidemill.engine.check import gangs, pieces, words
from tidemill.engine.check.book import Book, parents_of
from tidemill.engine.check.columns import Rows
from tidemill.engine.check.order import goes_before
from tidemill.model import events as ev
from tidemill.model.batch import PieceColumn
from tidemill.model.batch.sheet import columns_of
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.states import JobState, NodeState

Pieces = tuple[Piece, ...]
_WAITING = int(JobState.WAITING)
_ACTIVE = (int(JobState.STARTING), int(JobState.RUNNING))
_FROM = {
    ev.AskedDrain: ("drained", {NodeState.READY, NodeState.CORDONED}),
    ev.AskedRepair: ("repaired", {NodeState.UNHEALTHY, NodeState.DRAINING}),
    ev.AskedReturn: ("returned", {*NodeState} - {NodeState.GONE}),
    ev.AskedSpare: ("a spare, or not one any more", {NodeState.READY}),
}
"""What may be asked of a node in which state; said again here, not taken from the layers."""


class Rare:
    """The rare rows of one plan."""

    def __init__(self, book: Book, policy: Policy, plan: Rows) -> None:
        self.world, self.policy, self.plan, self.book = book.world, policy, plan, book
        self.wrong: list[str] = []
        self._parents = parents_of(book.world)

    def read(self, action: ev.Event, e: int) -> None:
        """Read one row; what is wrong with it is in ``wrong``, or in the sums."""
        match action:
            case ev.AskedEvict():
                self._read_right(action)
            case ev.AskedMove():
                self._read_move(action, e)
            case ev.AskedDrain() | ev.AskedRepair() | ev.AskedReturn() | ev.AskedSpare():
                self._read_node(action)
            case ev.AskedLaunch():
                self._read_launch(action)
            case ev.MixSampled():  # kernels read those that are right
                self.wrong.append("the mix is looked at again, though nothing has arrived")
            case _:
                pass  # a half-life; all that is common was read by the kernels

    def _read_move(self, action: ev.AskedMove, e: int) -> None:
        """A running job holds what it leaves, its gang stays whole, and it moves by a right."""
        world, j = self.world, action.job
        name, shape = world.job_names[j], world.shape_of(j)
        if world.jobs.state.item(j) != _ACTIVE[1] or action.attempt != world.jobs.attempt[j]:
            self.wrong.append(f"job `{name}` is moved but not running")
            return
        if world.jobs.is_leaving[j]:
            self.wrong.append(f"job `{name}` is moved but leaving already")
        held = world.placements.get(j, ())
        self._read_gang(j, e, held, action)
        if not self._holds(held, action.lost):
            self.wrong.append(f"job `{name}` is to leave what it does not hold")
        if action.to_job >= 0:
            self._read_heir(name, action.to_job)
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

    def _read_heir(self, name: str, heir: int) -> None:
        """For whom a job makes room: it waits, and may have others disturbed."""
        if self.world.jobs.state.item(heir) != _WAITING:
            self.wrong.append(f"job `{name}` makes room for one that does not wait")
        if not self.world.shape_of(heir).may_preempt:
            self.wrong.append(f"job `{name}` makes room for one that may not preempt")

    def _read_gang(self, j: int, e: int, held: Pieces, action: ev.AskedMove) -> None:
        """What is gained is added up; with what is kept the gang must be whole."""
        view, book = self.book.view, self.book
        pieces.take_pieces(view, book.sums, book.facts, self.plan, e, len(action.gained))
        rows = [columns_of(piece) for piece in left((*action.gained, *held), action.lost)]
        after = np.array(rows, np.int64).reshape(-1, len(PieceColumn))
        s = self.world.jobs.shape.item(j)
        gangs.read_gang(view, book.sums, book.facts, after, 0, len(after), e, j, s)

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
                self.book.sums.leaving[q, world.nodes.kind.item(piece.node)] += milli

    def _borrows(self, action: ev.AskedMove, line: list[int]) -> bool:
        """Whether a team and all above it, below where it meets the heir's, borrow what goes."""
        world = self.world
        heirs = self._line(int(world.shapes.queue[world.jobs.shape[action.to_job]]))
        return any(
            all(self._used(a, k) > world.floor[a, k] for a in line if a not in heirs)
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

    def _read_right(self, action: ev.AskedEvict) -> None:
        """By what right a job is stopped; what protects it was read by the kernels."""
        world, j = self.world, action.job
        name, heir = world.job_names[j], action.to_job
        if heir < 0:
            if not any(self._drain_is_due(piece.node) for piece in world.placements.get(j, ())):
                self.wrong.append(f"job `{name}` is stopped for nobody, and no drain is due")
        elif action.why is ev.Why.REORDERED:
            self._read_order(action)

    def _drain_is_due(self, n: int) -> bool:
        nodes, now_ms = self.world.nodes, self.world.now_ms
        return bool(nodes.state[n] == NodeState.DRAINING and nodes.deadline_ms[n] <= now_ms)

    def _read_order(self, action: ev.AskedEvict) -> None:
        """An heir goes before whom it puts off, in an order that kernels do not know."""
        world, policy = self.world, self.policy
        if goes_before(world, policy, action.to_job, action.job) or policy.fairness != "none":
            return
        q = int(world.shapes.queue[world.jobs.shape[action.to_job]])
        if not any((world.floor[a] > 0).any() for a in self._line(q)):
            self.wrong.append(words.comes_after(world, action.job, action.to_job))

    def _used(self, q: int, k: int) -> int:
        """What a team uses of a kind, with what the plan has given it, or taken from it, so far."""
        sums = self.book.sums
        return int(self.world.used[q, k] + sums.on_team[q, k] - sums.leaving[q, k])

    def _line(self, q: int) -> list[int]:
        """A queue and all that is above it."""
        line = [q]
        while self._parents[line[-1]] >= 0:
            line.append(self._parents[line[-1]])
        return line

    # Supply ------------------------------------------------------------------------------------

    def _read_node(
        self, action: ev.AskedDrain | ev.AskedRepair | ev.AskedReturn | ev.AskedSpare
    ) -> None:
        world, n = self.world, action.node
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


def left(some: Pieces, lost: Pieces) -> Pieces:
    """What is left of some pieces when others are taken off them."""
    replicas, devices = Counter[tuple[int, int]](), dict[tuple[int, int], int]()
    for piece in lost:
        where = (piece.role, piece.node)
        replicas[where] += piece.replicas
        devices[where] = devices.get(where, 0) | piece.devices
    found = []
    for piece in some:
        where = (piece.role, piece.node)
        gone = min(piece.replicas, replicas[where])
        replicas[where] -= gone
        mask = piece.devices & ~devices.get(where, 0)
        if gone < piece.replicas:
            found.append(Piece(piece.role, piece.node, piece.replicas - gone, mask))
    return tuple(found)
