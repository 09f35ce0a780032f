"""Carrying out: binds and evictions, sent over kept connections until the server's answer is sure.

Each ends in what the cluster shows: the pod is bound (here or, by somebody else, elsewhere), is
gone, or still waits. Where an answer was lost the pod is asked for; nothing is assumed of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from tidemill.live.kubernetes import budgets, pods
from tidemill.live.kubernetes.api.client import UNREACHABLE
from tidemill.live.kubernetes.api.writing import CONNECTIONS, ApiWriter, Written
from tidemill.live.kubernetes.dra import DeviceClaim
from tidemill.live.kubernetes.scheduling.allocating import ClaimWriter, NotGiven
from tidemill.live.kubernetes.scheduling.limits import KubeletRefusal, NodeLimits
from tidemill.live.kubernetes.scheduling.units import Vacant
from tidemill.live.kubernetes.scheduling.view import ClusterView

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 10.0
MOST_TRIES = 12
"""Of one bind: with the pauses between them, about a minute."""
MOST_SILENT = 5
"""So often in a row the server may give no answer before a preemption is called off."""
SILENT = "the API server did not answer"
BEYOND_LIMITS = -1
"""Instead of a status of HTTP: it was not sent, as the kubelet would have refused the pod."""


class SendCounts(msgspec.Struct):
    """What was sent since the beginning, and what came of it."""

    bound: int = 0
    conflicts: int = 0
    retries: int = 0
    refused: int = 0
    evicted: int = 0
    eviction_waits: int = 0
    """Evictions that a PodDisruptionBudget, or the server, put off."""
    given_back: int = 0
    """Preemptions that were called off, with nobody evicted: not all of the victims may go."""


class BindRefused(NamedTuple):
    """A bind that the server does not take, and will not take if asked again."""

    seat: Vacant
    status: int
    """Of HTTP; 0: it did not answer; or ``BEYOND_LIMITS``."""
    said: str
    room: int = 0
    """As in ``KubeletRefusal``."""

    @property
    def lack(self) -> KubeletRefusal | None:
        """What its kubelet would have said; None: it was sent."""
        is_beyond = self.status == BEYOND_LIMITS
        return KubeletRefusal(self.seat, self.said, self.room) if is_beyond else None

    @property
    def is_forbidden(self) -> bool:
        """Whether it is we who may not."""
        return self.status in (401, 403)


class Leaver(NamedTuple):
    """A job that has to leave, and its pods that are still there."""

    job: int
    pods: tuple[pods.KubePod, ...]


class PutOff(NamedTuple):
    """Jobs that were to leave together, of which none was evicted: some may not be."""

    jobs: tuple[int, ...]
    kept: tuple[int, ...]
    said: str
    by: str = "the API server"
    """Who does not let them go."""


class Sender:
    """Sends what was decided; ``may_write``: false as soon as somebody else may be the leader.

    ``on_settled`` is told of each job about which all answers have come, and whether all of it was
    bound as asked.
    """

    def __init__(
        self,
        writer: ApiWriter,
        view: ClusterView,
        may_write: Callable[[], bool],
        on_settled: Callable[[int, bool], None],
    ) -> None:
        self._writer, self._view, self._may_write = writer, view, may_write
        self._on_settled = on_settled
        self.on_bound: Callable[[Vacant], None] = lambda _: None
        """Told of each pod that was bound."""
        self._queue: deque[Vacant] = deque()
        self._working = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: dict[int, int] = {}
        """By job: how many answers are to come."""
        self._otherwise: set[int] = set()
        """Jobs of which not everything was bound as asked."""
        self._evicting: set[str] = set()
        self.claims = ClaimWriter(writer, view, may_write)
        self._limits = NodeLimits(view)
        self.counts = SendCounts()
        self.refusals: list[BindRefused] = []
        self.put_off: list[PutOff] = []
        self.evicting: list[Leaver] = []
        """Jobs whose pods are being evicted now. Whoever reads these lists empties them."""

    def is_being_sent(self, j: int) -> bool:
        """Whether answers about a job are still to come."""
        return j in self._open

    @property
    def is_idle(self) -> bool:
        """Whether every answer has come."""
        return not self._tasks

    def bind(self, seats: Iterable[Vacant]) -> None:
        """Bind pods to nodes; those of a job of which a kubelet would refuse one are not sent."""
        claimed, jobs = dict[int, list[Vacant]](), dict[int, list[Vacant]]()
        for seat in seats:
            jobs.setdefault(seat.job, []).append(seat)
        for seat in (seat for mine in jobs.values() if self._is_taken(mine) for seat in mine):
            self._limits.begin(seat)
            self._open[seat.job] = self._open.get(seat.job, 0) + 1
            if self.claims.has_claims(seat):
                claimed.setdefault(seat.job, []).append(seat)
            else:
                self._queue.append(seat)
        for some in claimed.values():
            self.claims.begin(some)
            self._begin(self._allocate(some))
        self._start()

    def _is_taken(self, seats: Sequence[Vacant]) -> bool:
        """Whether kubelets will take these pods of a job; else that is told."""
        lack = self._limits.lack(seats)
        if lack is not None:
            self.refusals.append(BindRefused(lack.seat, BEYOND_LIMITS, lack.said, lack.room))
            j = seats[0].job
            if j in self._open:
                self._otherwise.add(j)
            else:
                self._on_settled(j, False)
        return lack is None

    def take_back(self) -> None:
        """Take back devices that were given to pods of ours in vain."""
        for claim in self.claims.stale():
            self._begin(self._take_back(claim))

    async def _take_back(self, claim: DeviceClaim) -> None:
        pause_s = FIRST_PAUSE_S
        while not await self.claims.take_back(claim) and self._may_write():
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            left = [one for one in self.claims.stale() if one.uid == claim.uid]
            if not left:
                return
            claim = left[0]

    def _start(self) -> None:
        while self._working < min(CONNECTIONS, len(self._queue)):
            self._working += 1
            self._begin(self._work())

    async def _allocate(self, seats: list[Vacant]) -> None:
        """Give all pods of a gang their devices, then bind them; or none of them."""
        lack: NotGiven | None = NotGiven(0, "the scheduler was stopped", is_short=False)
        try:
            lack = await self.claims.allocate(seats)
        finally:
            if lack is not None:
                status = BEYOND_LIMITS if lack.is_short else 0
                self.refusals.append(BindRefused(seats[lack.at], status, lack.said))
                for seat in seats:
                    self.claims.end(seat)
                    self._limits.end(seat)
                    self._settled(seat.job)
        if lack is None:
            self._queue.extend(seats)
            self._start()

    def evict(self, group: Sequence[Leaver], *, is_begun: bool, may_stay: bool) -> None:
        """Ask for the eviction of all pods of some jobs, if all of them may go.

        ``is_begun``: pods of them are gone already, so the rest follows whatever it takes.
        ``may_stay``: if not all may go none has to, and that is told (``put_off``); else they are
        asked again.
        """
        fresh = [
            Leaver(one.job, tuple(p for p in one.pods
                                  if p.leaves_ms is None and p.uid not in self._evicting))
            for one in group
        ]  # fmt: skip
        fresh = [one for one in fresh if one.pods]
        if not fresh:
            return
        for one in fresh:
            self._evicting.update(pod.uid for pod in one.pods)
            self._open[one.job] = self._open.get(one.job, 0) + 1
        self._begin(self._evict_all(fresh, is_begun=is_begun, may_stay=may_stay))

    async def stop(self) -> None:
        """End all that is on its way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        try:
            while self._queue:
                seat, is_bound = self._queue.popleft(), False
                self._view.sent[seat.uid] = seat.node
                try:
                    is_bound = await self._bind(seat)
                finally:
                    self._view.sent.pop(seat.uid, None)
                    self.claims.end(seat)
                    self._limits.end(seat)
                    self._settled(seat.job, is_bound=is_bound)
        finally:
            self._working -= 1

    def _settled(self, j: int, *, is_bound: bool = False) -> None:
        left = self._open.pop(j) - 1
        if not is_bound:
            self._otherwise.add(j)
        if left:
            self._open[j] = left
            return
        self._on_settled(j, j not in self._otherwise)
        self._otherwise.discard(j)

    async def _bind(self, seat: Vacant) -> bool:
        """Whether it was bound where it was asked for."""
        path, body = _binding_path(seat), _binding(seat)
        pause_s = FIRST_PAUSE_S
        for _ in range(MOST_TRIES):
            if not self._may_write():
                return False
            if (lack := self._limits.lack([seat])) is not None:  # since it was planned
                self.refusals.append(BindRefused(seat, BEYOND_LIMITS, lack.said))
                return False
            answer = await self._sent("POST", path, body)
            if answer is not None and answer.is_done:
                self.counts.bound += 1
                self._view.assume(seat.uid, seat.key, seat.node)
                self.on_bound(seat)
                return True
            if answer is not None and not answer.is_later:
                await self._lost(seat, answer)
                return False
            self.counts.retries += 1
            if answer is None and await self._is_decided(seat):
                return False
            await asyncio.sleep(max(pause_s, answer.retry_s if answer is not None else 0.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        self.refusals.append(BindRefused(seat, 0, SILENT))
        return False

    async def may_bind(self, seat: Vacant) -> bool:
        """Whether the server would take a bind that it refused before; asked without doing it."""
        path = f"{_binding_path(seat)}?dryRun=All"
        answer = await self._sent("POST", path, _binding(seat))
        return answer is not None and (answer.is_done or answer.status in (404, 409))

    async def _lost(self, seat: Vacant, answer: Written) -> None:
        """The server says no: the pod is gone or bound, or it may not be bound by us."""
        if answer.status in (404, 409):
            self.counts.conflicts += 1
            await self._is_decided(seat)
            return
        self.counts.refused += 1
        self.refusals.append(BindRefused(seat, answer.status, f"{answer.status} {answer.said}"))

    async def _is_decided(self, seat: Vacant) -> bool:
        """Whether a pod is bound or gone, as the server shows it."""
        path = f"/api/v1/namespaces/{seat.key[0]}/pods/{seat.key[1]}"
        answer = await self._sent("GET", path)
        if answer is None or answer.is_later:
            return False
        if not answer.is_done:
            return answer.status == 404
        found = pods.read(msgspec.json.decode(answer.body))
        if found.uid != seat.uid:
            return True
        if found.node:
            self._view.assume(seat.uid, seat.key, found.node)
        return bool(found.node)

    async def _evict_all(self, group: Sequence[Leaver], *, is_begun: bool, may_stay: bool) -> None:
        try:
            if is_begun or await self._may_all_go(group, may_stay=may_stay):
                self.evicting += group
                some = [pod for one in group for pod in one.pods]
                await asyncio.gather(*(self._evict(pod) for pod in self._budgeted_first(some)))
        finally:
            for one in group:
                self._evicting.difference_update(pod.uid for pod in one.pods)
                self._settled(one.job)

    def _budgeted_first(self, some: Iterable[pods.KubePod]) -> list[pods.KubePod]:
        """Pods that somebody may still refuse go first: as long as none went, none has to."""

        def is_free(pod: pods.KubePod) -> bool:
            mine = self._view.budgets_of(pod.namespace)
            return not any(one.selects(pod.namespace, pod.labels) for one in mine)

        return sorted(some, key=lambda pod: (is_free(pod), pod.namespace, pod.name))

    async def _may_all_go(self, group: Sequence[Leaver], *, may_stay: bool) -> bool:
        """Ask the budgets and the server, which does nothing yet, about all of them."""
        pause_s, silent = 1.0, 0
        while self._may_write():
            left = [one._replace(pods=tuple(p for p in one.pods if self._is_there(p)))
                    for one in group]  # fmt: skip
            said = self._over_budget(left) or await self._refused_by_server(left)
            if said is None:
                return True
            silent = silent + 1 if said.said == SILENT else 0
            self.counts.eviction_waits += 1
            if may_stay and silent in (0, MOST_SILENT):
                self.counts.given_back += 1
                self.put_off.append(said)
                return False
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return False

    def _over_budget(self, group: Sequence[Leaver]) -> PutOff | None:
        """Whether a budget lets fewer go than all of them; whoever is over it may not."""
        some = list[pods.KubePod]()
        jobs = tuple(one.job for one in group)
        for i, one in enumerate(group):
            some += one.pods
            here = {budget for pod in some for budget in self._view.budgets_of(pod.namespace)}
            found = budgets.shortfall(sorted(here, key=lambda b: (b.namespace, b.name)), some)
            if found is not None:
                return PutOff(jobs, jobs[i:], found.words, found.budget.words)
        return None

    async def _refused_by_server(self, group: Sequence[Leaver]) -> PutOff | None:
        """Whether the server would refuse to evict one of them; asked without doing it."""
        jobs = tuple(one.job for one in group)
        for one in group:
            answers = await asyncio.gather(*(self._ask_to_evict(pod) for pod in one.pods))
            for answer in answers:
                if answer is None or answer.status >= 500:
                    return PutOff(jobs, (), SILENT)
                if not answer.is_done and answer.status not in (404, 409):
                    said = f"the API server does not let it be evicted: {answer.status}"
                    return PutOff(jobs, (one.job,), f"{said} {answer.said}")
        return None

    async def _ask_to_evict(self, pod: pods.KubePod) -> Written | None:
        return await self._sent("POST", _eviction_path(pod), _eviction(pod, is_dry=True))

    async def _evict(self, pod: pods.KubePod) -> None:
        """Until it is taken: what was begun is brought to its end."""
        body, pause_s = _eviction(pod), 1.0
        while self._may_write() and self._is_there(pod):
            answer = await self._sent("POST", _eviction_path(pod), body)
            if answer is not None and answer.is_done:
                self.counts.evicted += 1
                return
            if answer is not None and answer.status in (404, 409):
                return
            self.counts.eviction_waits += 1
            await asyncio.sleep(max(pause_s, answer.retry_s if answer is not None else 0.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _is_there(self, pod: pods.KubePod) -> bool:
        found = self._view.pods.get((pod.namespace, pod.name))
        return found is not None and found.uid == pod.uid and not found.is_over

    async def _sent(self, method: str, path: str, body: bytes = b"") -> Written | None:
        """An answer; None: nobody knows whether it was done."""
        try:
            return await self._writer.send(method, path, body)
        except UNREACHABLE:
            return None


def _binding_path(seat: Vacant) -> str:
    return f"/api/v1/namespaces/{seat.key[0]}/pods/{seat.key[1]}/binding"


def _binding(seat: Vacant) -> bytes:
    """The uid is that of the pod that was planned for: another of its name is not bound."""
    return msgspec.json.encode({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": seat.key[1], "uid": seat.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": seat.node},
    })  # fmt: skip


def _eviction_path(pod: pods.KubePod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"


def _eviction(pod: pods.KubePod, *, is_dry: bool = False) -> bytes:
    """``is_dry``: the server only says what it would do."""
    options = {"preconditions": {"uid": pod.uid}} | ({"dryRun": ["All"]} if is_dry else {})
    return msgspec.json.encode({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace}, "deleteOptions": options,
    })  # fmt: skip
