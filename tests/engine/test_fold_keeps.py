"""Whatever legal events are folded, in whatever order, the World's books are right after each.

Hypothesis chooses the events; the auditor recomputes from the placements everything that fold
maintains step by step. At the end the journal of the run is folded again, and compared.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.builders import attempt, contract, job, role, teams_share
from tests.engine.audit import audit
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.model import events as ev
from tidemill.model.reasons import Cause
from tidemill.model.rows import Node, Piece, Role
from tidemill.model.states import ACTIVE, LAUNCHED, JobClass, JobState, NodeState
from tidemill.model.world import World
from tidemill.provisioning import life

KINDS = ("H100", "A100")
ROLES = [
    role(1),
    role(2),
    role(1, gpus=2, cpu_milli=3),
    role(3, milli=300),
    role(1, milli=500, memory_mib=5),
    role(2, gpus=0, cpu_milli=2),
    role(1, gpus=4, kinds=("A100",)),
]


class Folding(RuleBasedStateMachine):
    """A World to which anything legal may happen."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.journal: list[ev.Event] = []

    def fold(self, event: ev.Event) -> None:
        touched = fold(self.world, event)
        self.journal.append(event)
        assert len(touched) == len(set(touched)), "a job was touched twice by one event"

    def jobs(self, *states: JobState) -> list[int]:
        return [j for j in range(self.world.job_count) if self.world.jobs.state[j] in states]

    def nodes(self, *states: NodeState) -> list[int]:
        return [n for n in range(self.world.node_count) if self.world.nodes.state[n] in states]

    @property
    def now_ms(self) -> int:
        return self.world.now_ms

    @initialize()
    def open(self) -> None:
        """Two contracts of two kinds with two nodes of three each, two teams."""
        for name in ("a", "b"):
            self.fold(ev.QueueSet(0, teams_share(name, H100=(2, 8))))
        for c, kind in enumerate(KINDS):
            row = contract(kind, gpus=12, per_node=4, kind=kind, cpu_milli=8, memory_mib=16)
            self.fold(ev.ContractSigned(0, row))
            self.fold(ev.ContractStarted(0, c))
            self.a_node_comes(c, is_spare=False, boots=True)
            self.a_node_comes(c, is_spare=False, boots=True)

    @invariant()
    def the_books_are_right(self) -> None:
        audit(self.world)

    def teardown(self) -> None:
        """The journal alone rebuilds the World, and so does its snapshot."""
        bytes_now = snapshot.dump(self.world)
        assert snapshot.dump(fold_all(World(), self.journal)) == bytes_now
        assert snapshot.dump(snapshot.load(bytes_now)) == bytes_now

    # supply ------------------------------------------------------------------------------------

    @rule(c=st.integers(0, 1), is_spare=st.booleans(), boots=st.booleans())
    def a_node_comes(self, c: int, is_spare: bool, boots: bool) -> None:
        contracts, row = self.world.contracts, self.world.contract_rows[c]
        if not contracts.is_running[c] or (contracts.nodes[c] + 1) * 4 > row.count:
            return
        n = self.world.node_count
        self.fold(ev.AskedLaunch(self.now_ms, c, 1))
        self.fold(ev.NodeAdded(self.now_ms, Node(f"n{n}", row.name, (), is_spare)))
        if boots:
            self.fold(ev.NodeMoved(self.now_ms, n, NodeState.BOOTING))
            self.fold(ev.NodeMoved(self.now_ms, n, NodeState.READY))

    @precondition(lambda self: self.nodes(*set(NodeState) - {NodeState.GONE}))
    @rule(data=st.data())
    def a_node_moves(self, data: st.DataObject) -> None:
        n = data.draw(st.sampled_from(self.nodes(*set(NodeState) - {NodeState.GONE})))
        legal = sorted(life.MOVES[NodeState(self.world.nodes.state[n])] - {NodeState.GONE})
        to = data.draw(st.sampled_from([*legal[:1] * 3, *legal[1:], NodeState.GONE]))
        self.fold(ev.NodeMoved(self.now_ms, n, to, data.draw(st.sampled_from(ev.Why))))

    @precondition(lambda self: self.nodes(*LAUNCHED))
    @rule(data=st.data(), device=st.integers(0, 3))
    def a_device_fails_or_works_again(self, data: st.DataObject, device: int) -> None:
        n = data.draw(st.sampled_from(self.nodes(*LAUNCHED)))
        if not self.world.devices.is_failed[self.world.nodes.first_device[n] + device]:
            self.fold(ev.DeviceFailed(self.now_ms, n, device))
        else:
            self.fold(ev.DeviceRepaired(self.now_ms, n, device))

    @precondition(lambda self: self.nodes(NodeState.READY, NodeState.UNHEALTHY))
    @rule(data=st.data(), is_spare=st.booleans())
    def something_is_asked_of_a_node(self, data: st.DataObject, is_spare: bool) -> None:
        n = data.draw(st.sampled_from(self.nodes(NodeState.READY, NodeState.UNHEALTHY)))
        if self.world.nodes.state[n] == NodeState.UNHEALTHY:
            if not self.world.nodes.asked[n]:
                self.fold(ev.AskedRepair(self.now_ms, n))
        elif bool(self.world.aboard[n]) or data.draw(st.booleans()):
            self.fold(ev.AskedDrain(self.now_ms, n, ev.Why.MAINTENANCE, self.now_ms + 5))
        elif data.draw(st.booleans()):
            self.fold(ev.AskedSpare(self.now_ms, n, is_spare))
        else:
            self.fold(ev.AskedReturn(self.now_ms, n))

    @rule(
        team=st.sampled_from(["a", "b", "new"]),
        kind=st.sampled_from([*KINDS, "B200"]),
        ms=st.integers(0, 100),
    )
    def time_passes_and_shares_change(self, team: str, kind: str, ms: int) -> None:
        self.fold(ev.Woke(self.now_ms + ms))
        self.fold(ev.QueueSet(self.now_ms, teams_share(team, **{kind: (1, 4)})))

    @precondition(lambda self: self.world.node_count > 4 and self.world.contracts.is_running[1])
    @rule()
    def a_contract_ends(self) -> None:
        self.fold(ev.ContractEnded(self.now_ms, 1))

    # jobs --------------------------------------------------------------------------------------

    @rule(
        data=st.data(),
        team=st.sampled_from(["a", "b"]),
        roles=st.lists(st.sampled_from(ROLES), min_size=1, max_size=2),
        kind=st.sampled_from(JobClass),
        saves=st.sampled_from([0, 10]),
    )
    def a_job_comes(
        self, data: st.DataObject, team: str, roles: list[Role], kind: JobClass, saves: int
    ) -> None:
        name = f"j{self.world.job_count}"
        row = job(name, team=team, roles=roles, kind=kind, saves_every_ms=saves, save_ms=1)
        self.fold(ev.JobSubmitted(self.now_ms, row))
        if data.draw(st.integers(0, 3)):
            self.place(self.world.job_count - 1, data)

    @precondition(lambda self: self.jobs(JobState.WAITING))
    @rule(data=st.data())
    def something_happens_to_one_that_waits(self, data: st.DataObject) -> None:
        j = data.draw(st.sampled_from(self.jobs(JobState.WAITING)))
        s = int(self.world.jobs.shape[j])
        match data.draw(st.sampled_from(["place", "place", "say", "release", "cancel"])):
            case "place":
                self.place(j, data)
            case "release" if s in self.world.promised:
                self.fold(ev.AskedRelease(self.now_ms, s))
            case "cancel":
                self.fold(ev.JobCancelled(self.now_ms, j))
            case _:
                self.fold(ev.CauseChanged(self.now_ms, s, data.draw(st.sampled_from(Cause))))

    @precondition(lambda self: self.jobs(*ACTIVE))
    @rule(data=st.data(), ms=st.integers(0, 30))
    def something_happens_to_one_at_work(self, data: st.DataObject, ms: int) -> None:
        j, at_ms = data.draw(st.sampled_from(self.jobs(*ACTIVE))), self.now_ms + ms
        now, is_leaving = attempt(self.world, j), bool(self.world.jobs.is_leaving[j])
        is_running = self.world.jobs.state[j] == JobState.RUNNING
        heirs = [-1, *self.jobs(JobState.WAITING)]
        possible: list[ev.Event] = [
            ev.JobFailed(at_ms, j, now, is_final=data.draw(st.booleans())),
            ev.JobCancelled(at_ms, j),
        ]
        if is_running:
            possible.append(ev.JobFinished(at_ms, j, now))
            possible.append(
                ev.ActivitySeen(at_ms, j, now, data.draw(st.sampled_from([0, 500_000])))
            )
            pace_ppm = data.draw(st.sampled_from([0, 0, 500_000, 2_000_000]))
            possible.append(ev.PaceSeen(at_ms, j, now, pace_ppm))
            jobs = self.world.jobs
            if jobs.interval_ms[j] > 0 and at_ms - jobs.cost_ms[j] >= jobs.origin_ms[j]:
                possible.append(ev.JobSaved(at_ms, j, now))
        else:
            possible += 3 * [ev.JobStarted(at_ms, j, now)]
        if is_leaving:
            possible += 3 * [ev.JobEvicted(at_ms, j, now)]
        else:
            heir = data.draw(st.sampled_from(heirs))
            possible += 2 * [ev.AskedEvict(at_ms, j, now, ev.Why.PREEMPTED, heir)]
            possible.append(ev.AskedCancel(at_ms, j, ev.Why.IDLE))
        self.fold(data.draw(st.sampled_from(possible)))

    def place(self, j: int, data: st.DataObject) -> None:
        order = data.draw(st.permutations(self.nodes(NodeState.READY)))
        pieces = first_fit(self.world, self.world.shape_of(j).roles, order)
        if pieces is not None:
            self.fold(ev.AskedPlace(self.now_ms, j, attempt(self.world, j) + 1, pieces))


def first_fit(world: World, roles: tuple[Role, ...], order: list[int]) -> tuple[Piece, ...] | None:
    """Pieces for a gang on the first devices that are free, nodes in this order; or None."""
    nodes = world.nodes
    free: dict[int, Any] = {
        n: world.devices.free_milli[nodes.first_device[n] :][: nodes.devices[n]].tolist()
        for n in order
        if not nodes.is_spare[n]
    }
    cpu = {n: int(nodes.cpu_free_milli[n]) for n in free}
    memory = {n: int(nodes.memory_free_mib[n]) for n in free}
    usable, pieces = list(free), []
    for r, one in enumerate(roles):
        for _ in range(one.count):
            for n in usable:
                failed = world.devices.is_failed[nodes.first_device[n] :]
                able = [d for d, left in enumerate(free[n]) if left >= one.milli and not failed[d]]
                if len(able) < one.accelerators or cpu[n] < one.cpu_milli:
                    continue
                if memory[n] < one.memory_mib:
                    continue
                for d in able[: one.accelerators]:
                    free[n][d] -= one.milli
                cpu[n] -= one.cpu_milli
                memory[n] -= one.memory_mib
                mask = sum(1 << d for d in able[: one.accelerators])
                pieces.append(Piece(r, n, 1, mask))
                break
            else:
                return None
    return tuple(pieces)


TestFolding = Folding.TestCase
TestFolding.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
