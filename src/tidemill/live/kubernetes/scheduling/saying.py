"""Why pods of ours wait, said on the pods themselves: a condition, and an Event when it changes.

`PodScheduled=False` with the reason `Unschedulable` is an order to an autoscaler to buy a node. It
is written only where one more node would help (``purchase``); everything else (a quota, a topology,
a preemption that is under way, a gang that is not there yet, a rule that we do not know) has
another reason, with the cause in words. Pods that are bound are told nothing: a patch carries the
version of the pod that it is about.
"""

import asyncio
import heapq
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any, NamedTuple, Protocol

import msgspec

from tidemill.live.kubernetes.api.client import UNREACHABLE
from tidemill.live.kubernetes.api.writing import MERGE, ApiWriter, Written
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.pod_rules import HOSTNAME, RuleKind
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import extras, nominating, purchase
from tidemill.live.kubernetes.scheduling.differ import Differ
from tidemill.live.kubernetes.scheduling.following import CauseFollower
from tidemill.live.kubernetes.scheduling.kept_back import KeptBack
from tidemill.live.kubernetes.scheduling.neighbours import NO_SUCH_NODE, UNSCHEDULABLE, WAITING
from tidemill.live.kubernetes.scheduling.resizing import Resize
from tidemill.live.kubernetes.scheduling.units import Vacant, note
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.states import JobState
from tidemill.model.world import World

PREEMPTING = "Preempting"
OTHER_REASONS = {
    Cause.OVER_LIMIT: "OverQuota", Cause.OVER_LIMIT_ALWAYS: "OverQuota",
    Cause.PROMISED: PREEMPTING, Cause.TOPOLOGY: "WaitingForTopology",
    Cause.NOTHING_CLAIMED: NO_SUCH_NODE, Cause.IMPOSSIBLE_TOPOLOGY: NO_SUCH_NODE,
    Cause.IMPOSSIBLE_LABEL: NO_SUCH_NODE, Cause.IMPOSSIBLE_SIZE: NO_SUCH_NODE,
    Cause.IMPOSSIBLE_GANG: NO_SUCH_NODE,
}  # fmt: skip
"""Where no node of a kind that the cluster has would help."""
AFTER_S = 1.0
"""A pod that is bound sooner is told nothing."""
PER_SECOND = 50
"""Pods that are told why they wait; more wait for their turn."""
EVENTS_PER_SECOND, EVENTS_AT_ONCE = 5, 50
"""Events of why jobs wait; those over it are left out, and the pods' conditions say the same."""
BINDS_PER_SECOND, BINDS_AT_ONCE = 10, 100
"""Events of pods that were bound; those over it are left out: the pods' nodes say the same. One
costs us 0.04 ms (17 November 2026, without TLS), and the API server as much as the bind itself."""
MOST_WAITING = 100_000


class Explainer(Protocol):
    """Whoever knows causes and has words for them: those of ``why`` and ``pending``."""

    def cause(self, world: World, s: int) -> Cause:
        """Why the jobs of a shape wait; none: nobody has looked yet."""

    def anew(self, world: World, policy: Policy) -> Mapping[int, Cause]:
        """The same of all shapes, by a look that remembers nothing."""

    def words(self, world: World, found: Cause) -> str:
        """That in words."""

    def spared(self, world: World, policy: Policy, s: int, found: Cause) -> str:
        """Who would be stopped for the jobs of a shape, and is not; "": nobody."""


class WaitReason(NamedTuple):
    """Why a job waits, as its pods say it."""

    reason: str
    words: str
    nodes: tuple[tuple[str, str], ...] = ()
    """By uid of its pods: where room is being made for them."""


class _Allowance:
    """So many per second, and so many at once after a while without any."""

    def __init__(self, per_second: int, at_once: int) -> None:
        self._per_second, self._at_once = per_second, at_once
        self._left, self._at = float(at_once), 0.0

    def takes(self) -> bool:
        """Whether one more may be now; then it counts."""
        now = time.monotonic()
        more = (now - self._at) * self._per_second
        self._left, self._at = min(float(self._at_once), self._left + more), now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class WaitSayer:
    """Tells pods why they wait, at a bounded rate, one time for each reason."""

    def __init__(self, writer: ApiWriter, differ: Differ, explain: Explainer, name: str) -> None:
        self._writer, self._differ, self._explain, self._name = writer, differ, explain, name
        self.anew = CauseFollower(differ.world, explain.anew)
        self.kept_back = KeptBack(differ.world, explain.spared)
        self._due: list[tuple[float, int, UnitKey]] = []
        self._queued: dict[UnitKey, float] = {}
        self._number = count()
        self._more = asyncio.Event()
        self._said: dict[str, tuple[str, str, str]] = {}
        """By uid of the pod: what it was told last."""
        self._task: asyncio.Task[None] | None = None
        self._may_happen = _Allowance(EVENTS_PER_SECOND, EVENTS_AT_ONCE).takes
        self._may_tell_bind = _Allowance(BINDS_PER_SECOND, BINDS_AT_ONCE).takes
        self._events: set[asyncio.Task[None]] = set()
        self.ordered: dict[UnitKey, None] = {}
        """Jobs of which a pod was told last that one more node would help."""
        self.told = 0
        self.events = 0

    def note(self, units: Iterable[UnitKey], *, at_once: bool = False) -> None:
        """These jobs wait, or wait for another reason than before."""
        at = time.monotonic() + (0.0 if at_once else AFTER_S)
        first = self._due[0][0] if self._due else at + 1
        for unit in units:
            if at < self._queued.get(unit, at + 1) and len(self._queued) < MOST_WAITING:
                self._queued[unit] = at
                heapq.heappush(self._due, (at, next(self._number), unit))
        if self._due and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())
        if at < first:  # before what is waited for
            self._more.set()

    @property
    def is_idle(self) -> bool:
        """Whether nobody is still to be told."""
        return self._task is None or self._task.done()

    def happened(self, pods: Iterable[KubePod], action: str, reason: str, words: str) -> None:
        """Each of these pods that sits on a node, or did just now, gets an Event."""
        for pod in pods:
            if pod.node and not pod.is_over:
                self._begin(self._happen(pod, action, reason, words))

    def warned(self, pods: Iterable[KubePod], reason: str, words: str) -> None:
        """Each of these pods gets an Event, if not too many did."""
        for pod in pods:
            if self._may_happen():
                self._begin(self._happen(pod, "Scheduling", reason, words))

    def bound(self, seat: Vacant) -> None:
        """A pod was bound: it gets an Event, if not too many were."""
        if self._may_tell_bind():
            namespace, name = seat.key
            about = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name,
                     "uid": seat.uid}  # fmt: skip
            words = f"assigned {namespace}/{name} to {seat.node}"
            self._begin(self._say_of(about, "Binding", "Scheduled", words, "Normal"))

    def _begin(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._events.add(task)
        task.add_done_callback(self._events.discard)

    def resized(self, one: Resize, words: str) -> None:
        """The owner of a gang was asked for another number of pods: it gets an Event."""
        owner, served = one.owner, self._differ.view.served[one.owner.group, one.owner.kind]
        about = {"apiVersion": served.api_version, "kind": owner.kind,
                 "namespace": owner.namespace, "name": owner.name, "uid": owner.uid}  # fmt: skip
        reason = "Shrunk" if one.wanted < one.now else "Grown"
        self._begin(self._say_of(about, "Resizing", reason, words, "Normal"))

    async def stop(self) -> None:
        """Say nothing more; Events that were begun are sent."""
        if self._events:
            await asyncio.wait(self._events, timeout=1.0)
        tasks = [*self._events, *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def reason_of(self, unit: UnitKey) -> WaitReason | None:
        """Why a job of ours waits now; None: it does not, or nobody has looked yet."""
        differ, world = self._differ, self._differ.world
        if (held := differ.held.get(unit)) is not None:
            return WaitReason(held.reason, held.words)
        j = differ.lives.job(unit)
        if j is None or world.jobs.state.item(j) != JobState.WAITING:
            return None
        s = world.jobs.shape.item(j)
        cause = self.anew.found.get(s) or self._explain.cause(world, s)
        if unit in differ.cutting.heirs:
            cause = Cause.PROMISED
        if cause is Cause.NONE:
            return None
        reason = OTHER_REASONS.get(cause, WAITING)
        is_spread = self._is_spread(unit)
        order = purchase.helps(world, world.shape_rows[s], cause, is_spread=is_spread)
        beside = self._differ.gpuless.beside(unit)
        if order is not None or (beside and reason != PREEMPTING):
            reason = UNSCHEDULABLE
        nodes = self._nominated(unit, s) if reason == PREEMPTING else ()
        words = "; ".join(filter(None, (self._explain.words(world, cause), order, beside)))
        if cause is Cause.IMPOSSIBLE_LABEL and (named := self._extras(unit)):
            words = f"{words}; it requests {named}"
        if reason != PREEMPTING and (
            spared := self.kept_back.words(differ.cutting.policy, s, cause)
        ):
            words = f"{words}; {spared}"
        return WaitReason(reason, words, nodes)

    def _is_spread(self, unit: UnitKey) -> bool:
        """Whether its pods are spread over nodes by their names."""
        rules = (rule for pod in self._differ.view.unit_pods(unit) for rule in pod.request.near)
        return any(rule.kind is RuleKind.SPREAD and rule.key == HOSTNAME for rule in rules)

    def _extras(self, unit: UnitKey) -> str:
        """What the pods of a job request beside accelerators, CPU and memory."""
        pods = self._differ.view.unit_pods(unit)
        return "; ".join(sorted({s.label for p in pods for s in extras.shares(p.request)}))

    def _nominated(self, unit: UnitKey, s: int) -> tuple[tuple[str, str], ...]:
        left = nominating.nodes_for(self._differ.world, s)
        found = list[tuple[str, str]]()
        for pod, r in self._differ.waiting(unit):
            if left.get(r):
                found.append((pod.uid, self._differ.lives.node_name(left[r].pop(0))))
        return tuple(found)

    async def _work(self) -> None:
        while self._due:
            at, _, unit = self._due[0]
            if (left_s := at - time.monotonic()) > 0:
                await self._wait(left_s)
                continue
            heapq.heappop(self._due)
            if self._queued.get(unit) == at:
                del self._queued[unit]
                await self.say(unit)
        self._forget()
        self._task = None

    async def _wait(self, left_s: float) -> None:
        """Until it is time for the next, or for one that came meanwhile."""
        self._more.clear()
        try:
            async with asyncio.timeout(left_s):
                await self._more.wait()
        except TimeoutError:
            pass

    async def say(self, unit: UnitKey) -> None:
        """Tell the pods of a job why they wait, as far as they were not told."""
        found = self.reason_of(unit)
        note(self.ordered, unit, is_so=found is not None and found.reason == UNSCHEDULABLE)
        if found is None:
            return
        nodes, first = dict(found.nodes), None
        for pod in self._differ.view.unit_pods(unit):
            told = (found.reason, found.words, nodes.get(pod.uid, ""))
            says = (pod.reason, pod.message, pod.nominated)  # who was here before may have told it
            if self._said.get(pod.uid, says) == told or not self._is_waiting(pod):
                continue
            if await self._tell(pod, *told) and first is None:
                first = pod
            await asyncio.sleep(1 / PER_SECOND)
        if first is not None and self._may_happen():
            await self._happen(first, "Scheduling", "FailedScheduling", found.words)

    def _is_waiting(self, pod: KubePod) -> bool:
        """Whether a pod is still to be told; a gated one is told by the API server itself."""
        now = self._differ.view.pods.get((pod.namespace, pod.name))
        is_same = now is not None and now.uid == pod.uid and now.is_pending
        return is_same and not pod.gates and pod.leaves_ms is None

    async def _tell(self, pod: KubePod, reason: str, words: str, node: str) -> bool:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "PodScheduled", "status": "False", "reason": reason,
            "message": words, "lastTransitionTime": now,
        }  # fmt: skip
        status: dict[str, Any] = {"conditions": [condition]}
        if node or pod.nominated:
            status["nominatedNodeName"] = node or None
        known = self._differ.view.pods.get((pod.namespace, pod.name)) or pod
        body = {
            "metadata": {"uid": pod.uid, "resourceVersion": known.version or None},
            "status": status,
        }
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        answer = await self._sent("PATCH", path, body, MERGE)
        if answer is not None and answer.status == 409:
            unit = self._differ.view.unit_of((pod.namespace, pod.name))
            self.note([unit] if unit is not None else [])  # it changed meanwhile: look at it again
        if answer is None or not answer.is_done:
            return False
        self._said[pod.uid] = (reason, words, node)
        self.told += 1
        return True

    async def _happen(self, pod: KubePod, action: str, reason: str, words: str) -> None:
        """An Event of a pod."""
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace,
                 "name": pod.name, "uid": pod.uid}  # fmt: skip
        await self._say_of(about, action, reason, words, "Warning")

    async def _say_of(
        self, about: dict[str, str], action: str, reason: str, words: str, kind: str
    ) -> None:
        """An Event of an object."""
        name, namespace = about["name"], about["namespace"]
        body = {
            "metadata": {"generateName": f"{name[:200]}-", "namespace": namespace},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": self._name, "reportingInstance": self._name,
            "action": action, "reason": reason, "type": kind, "note": words[:1000],
            "regarding": about,
        }  # fmt: skip
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        answer = await self._sent("POST", path, body)
        self.events += answer is not None and answer.is_done

    async def _sent(
        self, method: str, path: str, body: dict[str, Any], kind: str = "application/json"
    ) -> Written | None:
        """What is not done is no more than a word that is missing."""
        try:
            return await self._writer.send(method, path, msgspec.json.encode(body), kind)
        except UNREACHABLE:
            return None

    def _forget(self) -> None:
        there = {pod.uid for pod in self._differ.view.pods.values()}
        self._said = {uid: told for uid, told in self._said.items() if uid in there}
