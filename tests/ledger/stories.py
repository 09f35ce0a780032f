"""Stories: legal events chosen at random, without any scheduler, so that everything comes up.

An `Author` proposes one event after the other from what is possible in the World, and folds it; an
event that the fold refuses is left out. So floors are ignored, causes are said for no reason, nodes
fail with half of a gang aboard: a ledger must add up whatever the journal says.
"""

from collections.abc import Callable, Iterator
from random import Random

from hypothesis import strategies as st
from msgspec.structs import replace

from tests.builders import contract, job, role, teams_share
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.errors import EventRefused
from tidemill.model.measures import FOREVER_MS
from tidemill.model.reasons import Cause
from tidemill.model.rows import Efficiency, Job, Node, Piece, Role
from tidemill.model.states import Confidence, JobClass, JobState, NodeState, Terms
from tidemill.model.world import World

KINDS = ("H100", "A100", "X1")
RATES = (1, 999_983, 2_000_000, 3_333_333)
EFFICIENCIES = (
    Efficiency(),
    Efficiency(400_000, 100_000, 50_000, Confidence.MODELLED),
    Efficiency(333_333, 333_333, 333_334, Confidence.MEASURED),
    Efficiency(1, 0, 999_999, Confidence.INFERRED),
    Efficiency(0, 0, 0, Confidence.MEASURED),
    Efficiency(300_000, 100_000, 50_000, Confidence.MODELLED, 612_345),
    Efficiency(3_391, 0, 0, Confidence.MODELLED, 3_390),
    Efficiency(500_000, 1, 0, Confidence.MEASURED, 1_000_000),
    Efficiency(700_001, 99_999, 7, Confidence.UNKNOWN),
)


Story = list[ev.Event]


def story(seed: int, length: int = 60) -> Story:
    """A journal of about this many events; a shorter one of the same seed begins like it."""
    return Author(Random(seed)).write(length)


STORIES = st.builds(story, st.integers(0, 1_000_000), st.integers(1, 90))
"""Any story; a failing one is shown as `story(seed, length)`, which replays it."""


class Author:
    """Writes a journal, one legal event after the other."""

    def __init__(self, luck: Random) -> None:
        self.luck, self.world = luck, World()
        self.journal: list[ev.Event] = []
        self.now_ms = 0
        self._nodes = self._jobs = self._contracts = 0
        self._open()

    def write(self, length: int) -> list[ev.Event]:
        """Try this many events; what the fold refuses is left out."""
        verbs: list[tuple[int, Callable[[], Iterator[ev.Event]]]] = [
            (8, self._submit), (14, self._place), (10, self._start), (4, self._finish),
            (3, self._fail), (2, self._cancel), (4, self._evict), (6, self._leave),
            (6, self._activity), (3, self._save), (8, self._say_why), (1, self._release),
            (4, self._add_node),
            (8, self._move_node), (2, self._fail_device), (2, self._spare), (1, self._set_team),
            (1, self._sign), (3, self._begin_contract), (1, self._end_contract), (2, self._wake),
            (16, self._move), (8, self._has_moved),
        ]  # fmt: skip
        weights, choices = zip(*verbs, strict=True)
        for _ in range(length):
            self.now_ms += self.luck.choice((0, 0, 1, 3, 10, 17, 40))
            for event in self.luck.choices(choices, weights)[0]():
                self._try(event)
        self._try(ev.Woke(self.now_ms + 7))
        return self.journal

    def _try(self, event: ev.Event) -> None:
        try:
            fold(self.world, event)
        except EventRefused:
            return
        self.journal.append(event)

    def _open(self) -> None:
        for name in ("a", "b", "c"):
            self._set_team(name)
        for _ in range(self.luck.randint(1, 3)):
            for event in (*self._sign(), *self._begin_contract()):
                self._try(event)
        for _ in range(5):
            for event in self._add_node():
                self._try(event)

    # Supply ----------------------------------------------------------------------------------

    def _sign(self) -> Iterator[ev.Event]:
        luck, per_node = self.luck, self.luck.choice((1, 2, 4))
        start_ms = luck.choice((0, 0, self.now_ms, self.now_ms + 50))
        row = contract(
            f"c{self._contracts}",
            gpus=per_node * luck.randint(1, 3),
            per_node=per_node,
            kind=luck.choice(KINDS),
            pool=luck.choice(("main", "main", "other")),
            usd_micro_per_hour=luck.choice(RATES),
            terms=luck.choice(tuple(Terms)),
            start_ms=start_ms,
            end_ms=start_ms + luck.choice((FOREVER_MS // 2, 300)),
            labels=luck.choice((None, {"zone": "z"})),
        )
        self._contracts += 1
        yield ev.ContractSigned(self.now_ms, row)

    def _begin_contract(self) -> Iterator[ev.Event]:
        if self.world.contract_rows:
            c = self.luck.randrange(len(self.world.contract_rows))
            yield ev.ContractStarted(self.now_ms, c)

    def _end_contract(self) -> Iterator[ev.Event]:
        if self.world.contract_rows:
            c = self.luck.randrange(len(self.world.contract_rows))
            yield ev.ContractEnded(self.now_ms, c)

    def _add_node(self) -> Iterator[ev.Event]:
        if not self.world.contract_rows:
            return
        name = self.luck.choice(self.world.contract_rows).name
        labels = self.luck.choice(((), (), (("rack", "r"),)))
        taints = self.luck.choice(((), (), (), (("dedicated", "x"),)))
        node = Node(f"n{self._nodes}", name, labels, self.luck.random() < 0.15, taints)
        self._nodes += 1
        yield ev.NodeAdded(self.now_ms, node)
        n = self.world.node_number.get(node.name)
        if n is not None and self.luck.random() < 0.9:
            yield ev.NodeMoved(self.now_ms, n, NodeState.BOOTING)
            if self.luck.random() < 0.7:
                yield ev.NodeMoved(self.now_ms, n, NodeState.READY)

    def _move_node(self) -> Iterator[ev.Event]:
        n = self._some_node()
        if n is not None:
            to = self.luck.choice((NodeState.READY, NodeState.READY, *NodeState))
            if to is NodeState.DRAINING and self.luck.random() < 0.5:
                yield ev.AskedDrain(self.now_ms, n, ev.Why.MAINTENANCE, self.now_ms + 100)
            yield ev.NodeMoved(self.now_ms, n, to)

    def _fail_device(self) -> Iterator[ev.Event]:
        n = self._some_node()
        if n is not None:
            device = self.luck.randrange(4)
            yield ev.DeviceFailed(self.now_ms, n, device)
            if self.luck.random() < 0.5:
                yield ev.DeviceRepaired(self.now_ms + 10, n, device)

    def _spare(self) -> Iterator[ev.Event]:
        n = self._some_node()
        if n is not None:
            yield ev.AskedSpare(self.now_ms, n, self.luck.random() < 0.5)

    def _some_node(self) -> int | None:
        return self.luck.randrange(self.world.node_count) if self.world.node_count else None

    def _set_team(self, name: str = "") -> Iterator[ev.Event]:
        shares = {
            kind: (self.luck.randint(0, 2), self.luck.choice((None, 2, 4)))
            for kind in KINDS
            if self.luck.random() < 0.5
        }
        event = ev.QueueSet(self.now_ms, teams_share(name or self.luck.choice("abcd"), **shares))
        self._try(event)
        return iter(())

    def _wake(self) -> Iterator[ev.Event]:
        yield ev.Woke(self.now_ms + self.luck.choice((0, 100)))
        self.now_ms = self.world.now_ms

    # Jobs ------------------------------------------------------------------------------------

    def _submit(self) -> Iterator[ev.Event]:
        for _ in range(self.luck.randint(1, 3)):
            yield ev.JobSubmitted(self.now_ms, self._job())

    def _job(self) -> Job:
        luck = self.luck
        roles = [self._role() for _ in range(luck.choice((1, 1, 1, 2)))]
        if luck.random() < 0.4:
            roles[0] = replace(roles[0], count=luck.randint(2, 4), least=luck.randint(1, 2))
        self._jobs += 1
        return job(
            f"j{self._jobs}",
            roles=roles,
            team=luck.choice("aabc"),
            kind=luck.choice((JobClass.TRAINING, JobClass.TRAINING, *JobClass)),
            priority=luck.choice((0, 0, 5, -3)),
            saves_every_ms=luck.choice((0, 5, 10, 13)),
            save_ms=luck.choice((0, 1, 4)),
            efficiency=luck.choice(EFFICIENCIES),
        )

    def _role(self) -> Role:
        luck = self.luck
        kinds = luck.choice(((), (), ("H100",), ("A100", "X1"), ("never",)))
        labels = luck.choice((None, None, None, {"rack": "r"}, {"zone": "z"}))
        if luck.random() < 0.3:
            milli = luck.choice((125, 333, 500))
            made = role(luck.randint(1, 2), milli=milli, kinds=kinds, labels=labels)
        else:
            gpus = luck.choice((0, 1, 1, 2, 4))
            made = role(luck.randint(1, 2), gpus=gpus, kinds=kinds, labels=labels)
        return replace(made, tolerates=luck.choice(((), (("dedicated", "x"),))))

    def _place(self) -> Iterator[ev.Event]:
        j = self._some_job(JobState.WAITING)
        if j is not None:
            pieces = self._fit(self._sized(self.world.shape_of(j).roles))
            if pieces is not None:
                yield ev.AskedPlace(self.now_ms, j, int(self.world.jobs.attempt[j]) + 1, pieces)

    def _start(self) -> Iterator[ev.Event]:
        j = self._some_job(JobState.STARTING)
        if j is not None:
            attempt = int(self.world.jobs.attempt[j])
            slow_ppm = (0, 0, 125_000, 1_000_001)[(j + attempt) % 4]
            yield ev.JobStarted(self.now_ms, j, attempt, slow_ppm)

    def _finish(self) -> Iterator[ev.Event]:
        j = self._some_job(JobState.RUNNING)
        if j is not None:
            yield ev.JobFinished(self.now_ms, j, int(self.world.jobs.attempt[j]))

    def _fail(self) -> Iterator[ev.Event]:
        j = self._some_job(JobState.RUNNING, JobState.STARTING)
        if j is not None:
            is_final = self.luck.random() < 0.3
            attempt = int(self.world.jobs.attempt[j])
            yield ev.JobFailed(self.now_ms, j, attempt, is_final=is_final)

    def _cancel(self) -> Iterator[ev.Event]:
        j = self._some_job(JobState.RUNNING, JobState.STARTING, JobState.WAITING)
        if j is not None:
            if self.luck.random() < 0.3:
                yield ev.AskedCancel(self.now_ms, j, ev.Why.IDLE)
            else:
                yield ev.JobCancelled(self.now_ms, j)

    def _evict(self) -> Iterator[ev.Event]:
        j, heir = (
            self._some_job(JobState.RUNNING, JobState.STARTING),
            self._some_job(JobState.WAITING),
        )
        if j is not None:
            to_job = -1 if heir is None or self.luck.random() < 0.3 else heir
            attempt = int(self.world.jobs.attempt[j])
            yield ev.AskedEvict(self.now_ms, j, attempt, ev.Why.PREEMPTED, to_job)

    def _leave(self) -> Iterator[ev.Event]:
        for j in sorted(self.world.leaving_for)[:1]:
            yield ev.JobEvicted(self.now_ms, j, int(self.world.jobs.attempt[j]))

    def _move(self) -> Iterator[ev.Event]:
        """A job goes elsewhere; an elastic one may also grow or shrink."""
        j, heir = self._some_job(JobState.RUNNING), self._some_job(JobState.WAITING)
        if j is None:
            return
        shape, held = self.world.shape_of(j), self.world.placements[j]
        attempt, to_job = int(self.world.jobs.attempt[j]), -1 if heir is None else heir
        r = shape.elastic_role
        if r is None or self.luck.random() < 0.2:
            gained = self._fit(self._sized(shape.roles)) or ()
            yield ev.AskedMove(self.now_ms, j, attempt, ev.Why.MOVED, gained, held, to_job)
        elif self.luck.random() < 0.5:
            lost = [piece for piece in held if piece.role == r][-1:]
            yield ev.AskedMove(self.now_ms, j, attempt, ev.Why.SHRUNK, (), tuple(lost), to_job)
        else:
            one = self._fit((replace(shape.roles[r], count=1, least=0),)) or ()
            gained = tuple(replace(piece, role=r) for piece in one)
            yield ev.AskedMove(self.now_ms, j, attempt, ev.Why.GROWN, gained)

    def _has_moved(self) -> Iterator[ev.Event]:
        for j in sorted(self.world.moving)[:1]:
            yield ev.JobMoved(self.now_ms, j, int(self.world.jobs.attempt[j]))

    def _sized(self, roles: tuple[Role, ...]) -> tuple[Role, ...]:
        """The roles as they might be placed: an elastic one with any number that it allows."""
        return tuple(
            replace(row, count=self.luck.randint(row.least, row.count), least=0)
            if row.least
            else row
            for row in roles
        )

    def _activity(self) -> Iterator[ev.Event]:
        j = self._some_job(JobState.RUNNING)
        if j is not None:
            busy_ppm = self.luck.choice((0, 0, 1_000_000, 333_333, 500_000, 999_999))
            yield ev.ActivitySeen(self.now_ms, j, int(self.world.jobs.attempt[j]), busy_ppm)
            beside_ppm = self.luck.choice((0, 0, 333_333, 1_000_000, 7_000_000))
            if self.luck.random() < 0.5:
                yield ev.PaceSeen(self.now_ms, j, int(self.world.jobs.attempt[j]), beside_ppm)

    def _save(self) -> Iterator[ev.Event]:
        j, jobs = self._some_job(JobState.RUNNING), self.world.jobs
        if j is None or jobs.interval_ms[j] <= 0:
            return
        if self.now_ms - jobs.cost_ms[j] >= jobs.origin_ms[j]:
            yield ev.JobSaved(self.now_ms, j, int(jobs.attempt[j]))

    def _say_why(self) -> Iterator[ev.Event]:
        if self.world.shape_rows:
            s = self.luck.randrange(len(self.world.shape_rows))
            cause = self.luck.choice((Cause.OVER_LIMIT, Cause.OVER_LIMIT, Cause.BEHIND, *Cause))
            yield ev.CauseChanged(self.now_ms, s, cause)

    def _release(self) -> Iterator[ev.Event]:
        for s in sorted(self.world.promised)[:1]:
            yield ev.AskedRelease(self.now_ms, s)

    def _some_job(self, *states: JobState) -> int | None:
        wanted = {int(state) for state in states}
        jobs = [j for j in range(self.world.job_count) if int(self.world.jobs.state[j]) in wanted]
        return self.luck.choice(jobs) if jobs else None

    def _fit(self, roles: tuple[Role, ...]) -> tuple[Piece, ...] | None:
        """Replica by replica on the first node, in random order, that has the devices free."""
        taken: dict[tuple[int, int], int] = {}
        pieces = []
        for r, wanted in enumerate(roles):
            for _ in range(wanted.count):
                piece = self._fit_replica(r, wanted, taken)
                if piece is None:
                    return None
                pieces.append(piece)
        return tuple(pieces)

    def _fit_replica(self, r: int, wanted: Role, taken: dict[tuple[int, int], int]) -> Piece | None:
        world = self.world
        for n in self.luck.sample(range(world.node_count), world.node_count):
            first, found = int(world.nodes.first_device[n]), list[int]()
            for d in range(int(world.nodes.devices[n])):
                free = int(world.devices.free_milli[first + d]) - taken.get((n, d), 0)
                if len(found) < wanted.accelerators and free >= wanted.milli:
                    found.append(d)
            is_open = world.nodes.state[n] == NodeState.READY and not world.nodes.is_spare[n]
            if is_open and len(found) == wanted.accelerators:
                for d in found:
                    taken[n, d] = taken.get((n, d), 0) + wanted.milli
                return Piece(r, n, 1, sum(1 << d for d in found))
        return None
