"""A stage: a small scripted world for the loop, in which everything that happens is written down.

Jobs arrive when the script says, run as long as it says, and leave after a grace when asked to.
Nodes boot, break and are repaired in fixed times. What the script holds that cannot be when its
moment comes (a job cancelled that is done, a node lost that is gone) does not happen. Where two
things happen to one subject at one moment, the second comes in a batch of its own.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidemill.engine.loop import Backend, Loop
from tidemill.model import events as ev
from tidemill.model.batch.convert import to_events
from tidemill.model.measures import FOREVER_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Job, Node, Queue
from tidemill.model.states import ACTIVE, LAUNCHED, JobState, NodeState
from tidemill.model.topology import UNDECLARED, Topology
from tidemill.model.world import World
from tidemill.provisioning import life
from tidemill.workload import progress

LIVE = ACTIVE | {JobState.WAITING}
ALL = ("all", 0)  # the subject of what touches everything, and so comes alone


class Arrival(NamedTuple):
    """A job, when it comes and how long it works if nothing disturbs it."""

    at_ms: int
    job: Job
    work_ms: int


@dataclass(frozen=True)
class Script:
    """What is going to happen. ``incidents`` come from outside: faults, drains, owners' changes."""

    contracts: Sequence[Contract]
    teams: Sequence[Queue]
    arrivals: Sequence[Arrival]
    incidents: Sequence[ev.Seen] = ()
    policy: Policy = field(default_factory=Policy)
    boot_ms: int = 0
    repair_ms: int = 10 * MINUTE_MS
    return_ms: int = 0
    grace_ms: int = 0
    horizon_ms: int = FOREVER_MS
    topology: Topology = UNDECLARED
    nodes_per: tuple[tuple[str, int], ...] = ()
    """Labels that tell where a node is, and how many nodes of a contract share a value."""


class Beat(NamedTuple):
    """What was seen at one beat, and the plan it led to."""

    seen: tuple[ev.Seen, ...]
    plan: ev.Plan


class Stage:
    """Plays a script as the backend of a loop."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._agenda: list[tuple[int, int, int, ev.Seen]] = []
        self._ticket = 0
        self._nodes = 0
        self._made = [0] * len(script.contracts)
        self._wake_ms = FOREVER_MS
        self._work_ms: dict[str, int] = {a.job.name: a.work_ms for a in script.arrivals}
        self._slots: list[tuple[int, int]] = []
        if script.topology.tiers:
            self._push(ev.TopologySet(0, script.topology))
        for queue in script.teams:
            self._push(ev.QueueSet(0, queue))
        for c, row in enumerate(script.contracts):
            self._push(ev.ContractSigned(0, row))
            self._push(ev.ContractStarted(row.start_ms, c))
            if row.end_ms < FOREVER_MS:
                self._push(ev.ContractEnded(row.end_ms, c))
        for at_ms, job, _ in script.arrivals:
            self._push(ev.JobSubmitted(at_ms, job))
        for incident in script.incidents:
            self._push(incident)

    def next_ms(self) -> int | None:
        at_ms = min(self._agenda[0][0] if self._agenda else FOREVER_MS, self._wake_ms)
        return at_ms if at_ms < FOREVER_MS and at_ms <= self.script.horizon_ms else None

    def take(self, world: World) -> list[ev.Seen]:
        at_ms = self.next_ms()
        assert at_ms is not None, "the play is over"
        seen: list[ev.Seen] = [ev.Woke(at_ms)] if self._wake_ms <= at_ms else []
        later: list[tuple[int, int, int, ev.Seen]] = []
        subjects: set[tuple[str, int | str]] = set()
        while self._agenda and self._agenda[0][0] == at_ms:
            entry = heapq.heappop(self._agenda)
            event = entry[3]
            subject = _subject(event)
            is_crowded = subject in subjects or ALL in subjects or (subject == ALL and subjects)
            if is_crowded or _comes_too_early(world, event):
                later.append(entry)
            elif _can_be(world, event):
                subjects.add(subject)
                seen.append(event)
                self._follow(world, event)
        for entry in later:
            heapq.heappush(self._agenda, entry)
        if self._wake_ms <= at_ms:
            self._wake_ms = FOREVER_MS
        return seen

    def carry_out(self, world: World, plan: ev.Plan) -> None:
        for action in plan.actions:
            self._answer(world, action)
        if plan.wake_at_ms < FOREVER_MS:
            self._wake_ms = min(self._wake_ms, max(plan.wake_at_ms, world.now_ms + 1))

    def _answer(self, world: World, action: ev.Action) -> None:
        now_ms, script = world.now_ms, self.script
        match action:
            case ev.AskedPlace(job=j, attempt=attempt):
                again_ms = int(world.jobs.restart_ms[j]) if attempt > 1 else 0
                start_ms = now_ms + int(world.jobs.startup_ms[j]) + again_ms
                self._push(ev.JobStarted(start_ms, j, attempt))
            case ev.AskedEvict(job=j, attempt=attempt):
                self._push(ev.JobEvicted(now_ms + script.grace_ms, j, attempt))
            case ev.AskedMove(job=j, attempt=attempt):
                self._push(ev.JobMoved(now_ms + script.grace_ms, j, attempt))
            case ev.AskedCancel(job=j):
                self._push(ev.JobCancelled(now_ms + script.grace_ms, j))
            case ev.AskedLaunch(contract=c, nodes=count):
                self._launch(world, c, count)
            case ev.AskedRepair(node=n):
                self._push(ev.NodeMoved(now_ms, n, NodeState.REPAIRING))
            case ev.AskedReturn(node=n):
                self._push(ev.NodeMoved(now_ms + script.return_ms, n, NodeState.GONE))
            case ev.AskedDrain() | ev.AskedSpare() | ev.AskedRelease():
                pass
            case ev.CauseChanged() | ev.HalfLifeSet() | ev.MixSampled() | ev.JobPassed():
                pass

    def _launch(self, world: World, c: int, count: int) -> None:
        row, now_ms = self.script.contracts[c], world.now_ms
        nodes = row.count // row.node.devices
        for _ in range(count):
            is_spare = nodes - row.spares <= self._made[c] < nodes
            labels = self._labels(world, c, nodes)
            self._push(
                ev.NodeAdded(
                    now_ms, Node(f"{row.name}-{self._made[c]}", row.name, labels, is_spare)
                )
            )
            self._push(ev.NodeMoved(now_ms, self._nodes, NodeState.BOOTING))
            self._made[c] += 1
            self._nodes += 1

    def _labels(self, world: World, c: int, nodes: int) -> tuple[tuple[str, str], ...]:
        """The labels of the first place of a contract where no machine stands."""
        taken = {
            slot
            for n, (owner, slot) in enumerate(self._slots)
            if owner == c and (n >= world.node_count or world.nodes.state[n] != NodeState.GONE)
        }
        slot = next((slot for slot in range(nodes) if slot not in taken), nodes)
        self._slots.append((c, slot))
        return tuple((label, str(slot // size)) for label, size in self.script.nodes_per)

    def _follow(self, world: World, event: ev.Seen) -> None:
        """What happens of itself after something happened."""
        match event:
            case ev.JobStarted(at_ms=at_ms, job=j, attempt=attempt):
                jobs = world.jobs
                work_ms = max(1, self._work_ms[world.job_names[j]] - int(jobs.saved_ms[j]))
                left_ms = -(-work_ms * 1_000_000 // int(jobs.speed_ppm[j]))
                run_ms = progress.run_ms(left_ms, int(jobs.interval_ms[j]), int(jobs.cost_ms[j]))
                self._push(ev.JobFinished(at_ms + run_ms, j, attempt))
            case ev.JobMoved(at_ms=at_ms, job=j, attempt=attempt):
                pause_ms = int(world.jobs.resize_ms[j])
                if not world.moving[j].keeps_work:
                    pause_ms = int(world.jobs.startup_ms[j]) + int(world.jobs.restart_ms[j])
                self._push(ev.JobStarted(at_ms + pause_ms, j, attempt + 1))
            case ev.NodeMoved(at_ms=at_ms, node=n, to=NodeState.BOOTING):
                self._push(ev.NodeMoved(at_ms + self.script.boot_ms, n, NodeState.READY))
            case ev.NodeMoved(at_ms=at_ms, node=n, to=NodeState.REPAIRING):
                self._push(ev.NodeMoved(at_ms + self.script.repair_ms, n, NodeState.BOOTING))

    def _push(self, event: ev.Seen) -> None:
        self._ticket += 1
        heapq.heappush(self._agenda, (event.at_ms, _rank(event), self._ticket, event))


class Kept(list[ev.Event]):
    """A journal in memory, which also knows how it was cut into commits."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[int] = []

    def append(self, events: Sequence[ev.Event]) -> None:  # type: ignore[override]
        self.extend(events)
        self.commits.append(len(events))


class Player(Loop):
    """A loop that remembers its beats; on the stage of a script unless another backend is given."""

    def __init__(
        self, script: Script, beats_per_commit: int = 1, backend: Backend | None = None
    ) -> None:
        self.kept = Kept()
        self.beats: list[Beat] = []
        stage = Stage(script) if backend is None else backend
        super().__init__(
            World(), script.policy, stage, self.kept, beats_per_commit=beats_per_commit
        )
        self.driver = None  # one beat after the other, each of which is remembered

    def beat(self, at_ms: int) -> ev.Plan | None:
        before = self.world.seq
        plan = super().beat(at_ms)
        if plan is not None:
            folded = (*self.kept, *to_events(self.sheet.batch()))[before:]
            seen = folded[: len(folded) - len(plan.actions)]
            self.beats.append(Beat(seen, plan))
        return plan


def play(script: Script, beats_per_commit: int = 1) -> Player:
    """Run the loop on a script to its end."""
    player = Player(script, beats_per_commit)
    player.run()
    return player


def _rank(event: ev.Seen) -> int:
    """Jobs before nodes before the rest, so that an end and a fault at one moment are both seen."""
    match event:
        case ev.QueueSet() | ev.ContractSigned() | ev.TopologySet():
            return 0
        case ev.JobFinished() | ev.JobFailed() | ev.JobEvicted() | ev.JobCancelled():
            return 1
        case ev.JobMoved():
            return 1
        case ev.JobStarted() | ev.ActivitySeen() | ev.PaceSeen() | ev.JobSaved():
            return 2
        case ev.NodeAdded() | ev.NodeMoved() | ev.DeviceFailed() | ev.DeviceRepaired():
            return 3
        case ev.JobSubmitted():
            return 4
        case _:
            return 5


def _subject(event: ev.Seen) -> tuple[str, int | str]:
    match event:
        case ev.NodeAdded():
            return ("new node", event.node.name)
        case ev.NodeMoved() | ev.DeviceFailed() | ev.DeviceRepaired() | ev.DeviceErrorSeen():
            return ("node", event.node)
        case ev.JobSubmitted():
            return ("new job", event.job.name)
        case ev.QueueSet():
            return ("team", event.queue.name)
        case ev.ContractSigned():
            return ("new contract", event.contract.name)
        case ev.TopologySet():
            return ("topology", 0)
        case ev.ContractStarted() | ev.ContractEnded() | ev.CommitmentSeen() | ev.Woke():
            return ALL
        case ev.SightLost() | ev.SightRegained():
            return ALL
        case _:
            return ("job", event.job)


def _comes_too_early(world: World, event: ev.Seen) -> bool:
    """Whether the subject of an event is itself only seen at this moment."""
    match event:
        case ev.NodeMoved(node=n):
            return n >= world.node_count and event.to is NodeState.BOOTING
        case ev.ContractStarted(contract=c):
            return c >= world.contract_count
    return False


def _can_be(world: World, event: ev.Seen) -> bool:  # noqa: C901 - one case a kind of event
    match event:
        case ev.NodeMoved(node=n, to=to):
            is_known = n < world.node_count
            return is_known and life.may_move(NodeState(world.nodes.state[n]), to)
        case ev.DeviceFailed(node=n, device=device):
            if n >= world.node_count or device >= world.nodes.devices[n]:
                return False
            is_failed = world.devices.is_failed[world.nodes.first_device[n] + device]
            return world.nodes.state[n] in LAUNCHED and not is_failed
        case ev.JobCancelled(job=j):
            return j < world.job_count and world.jobs.state[j] in LIVE
        case ev.JobEvicted(job=j, attempt=attempt):
            is_asked = bool(world.jobs.is_leaving[j]) and j not in world.moving
            return _is_in(world, j, attempt, ACTIVE) and is_asked
        case ev.JobMoved(job=j, attempt=attempt):
            return _is_in(world, j, attempt, {JobState.RUNNING}) and j in world.moving
        case ev.JobStarted(job=j, attempt=attempt):
            return _is_in(world, j, attempt, {JobState.STARTING})
        case ev.JobFinished(job=j, attempt=attempt) | ev.ActivitySeen(job=j, attempt=attempt):
            return _is_in(world, j, attempt, {JobState.RUNNING})
        case ev.PaceSeen(job=j, attempt=attempt):
            return _is_in(world, j, attempt, {JobState.RUNNING})
        case ev.JobSaved(job=j, attempt=attempt):
            is_up = _is_in(world, j, attempt, {JobState.RUNNING})
            return is_up and _may_save(world, j, event.at_ms)
        case ev.JobFailed(job=j, attempt=attempt):
            return _is_in(world, j, attempt, ACTIVE)
        case ev.ContractEnded(contract=c):
            return bool(world.contracts.is_running[c])
    return True


def _may_save(world: World, j: int, at_ms: int) -> bool:
    """Whether a running job can have written a checkpoint by now."""
    begun_ms = at_ms - int(world.jobs.cost_ms[j])
    return bool(world.jobs.interval_ms[j] > 0 and begun_ms >= world.jobs.origin_ms[j])


def _is_in(world: World, j: int, attempt: int, states: frozenset[JobState] | set[JobState]) -> bool:
    is_known = j < world.job_count and world.jobs.attempt[j] == attempt
    return is_known and world.jobs.state[j] in states
