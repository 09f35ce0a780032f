"""Why pods of ours wait, said on the pods themselves: a condition, and an Event when it changes.

`PodScheduled=False` with the reason `Unschedulable` is an order to an autoscaler to buy a node. It
is written only where one more node would help; everything else (a quota, a topology, a preemption
that is under way, a rule that we do not know) has another reason, with the cause in words.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from tidemill.live.kubernetes.api.client import UNREACHABLE
from tidemill.live.kubernetes.api.writing import MERGE, ApiWriter
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling.differ import Differ
from tidemill.model.reasons import Cause
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.provisioning.looking import CURED_BY_NODES

UNSCHEDULABLE = "Unschedulable"
HELPED_BY_NODES = CURED_BY_NODES | {
    Cause.NOTHING_CLAIMED, Cause.IMPOSSIBLE_LABEL, Cause.IMPOSSIBLE_SIZE, Cause.IMPOSSIBLE_GANG,
    Cause.CPU_BINDS, Cause.MEMORY_BINDS,
}  # fmt: skip
"""Causes that one more node helps against. Contracts here are the nodes that are there, so what can
never fit them may fit nodes that an autoscaler can launch."""
OTHER_REASONS = {
    Cause.OVER_LIMIT: "OverQuota", Cause.OVER_LIMIT_ALWAYS: "OverQuota",
    Cause.PROMISED: "Preempting", Cause.TOPOLOGY: "WaitingForTopology",
    Cause.IMPOSSIBLE_TOPOLOGY: "WaitingForTopology",
}  # fmt: skip
WAITING = "Waiting"
AFTER_S = 1.0
"""A pod that is bound sooner is told nothing."""
PER_SECOND = 50
"""Pods that are told why they wait; more wait for their turn."""
EVENTS_PER_SECOND = 5
MOST_WAITING = 100_000

CauseWords = Callable[[World, Cause], str]


class WaitReason(NamedTuple):
    """Why a job waits, as its pods say it."""

    reason: str
    words: str


class WaitSayer:
    """Tells pods why they wait, at a bounded rate, one time for each reason."""

    def __init__(self, writer: ApiWriter, differ: Differ, words: CauseWords, name: str) -> None:
        self._writer, self._differ, self._words, self._name = writer, differ, words, name
        self._due: deque[tuple[float, UnitKey]] = deque()
        self._queued: set[UnitKey] = set()
        self._said: dict[str, WaitReason] = {}
        """By uid of the pod: what it was told last."""
        self._task: asyncio.Task[None] | None = None
        self._events_left, self._events_at = float(EVENTS_PER_SECOND), 0.0
        self.told = 0
        self.events = 0

    def note(self, units: Iterable[UnitKey]) -> None:
        """These jobs wait, or wait for another reason than before."""
        at = time.monotonic() + AFTER_S
        for unit in units:
            if unit not in self._queued and len(self._queued) < MOST_WAITING:
                self._queued.add(unit)
                self._due.append((at, unit))
        if self._due and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Say nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def reason_of(self, unit: UnitKey) -> WaitReason | None:
        """Why a job of ours waits now; None: it does not, or nobody has looked yet."""
        differ, world = self._differ, self._differ.world
        if (refused := differ.refused.get(unit)) is not None:
            return WaitReason(refused.reason, refused.words)
        j = differ.lives.job(unit)
        if j is None or world.jobs.state.item(j) != JobState.WAITING:
            return None
        cause = Cause(world.shapes.cause.item(world.jobs.shape.item(j)))
        if cause is Cause.NONE:
            return None
        reason = UNSCHEDULABLE if cause in HELPED_BY_NODES else OTHER_REASONS.get(cause, WAITING)
        return WaitReason(reason, self._words(world, cause))

    async def _work(self) -> None:
        while self._due:
            at, unit = self._due.popleft()
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            self._queued.discard(unit)
            found = self.reason_of(unit)
            if found is None:
                continue
            pods = [pod for pod in self._differ.view.unit_pods(unit) if pod.is_pending]
            news = [pod for pod in pods if self._said.get(pod.uid) != found]
            for pod in news:
                await self._tell(pod, found)
                await asyncio.sleep(1 / PER_SECOND)
            if news:
                await self._happen(news[0], found)
        self._forget()
        self._task = None

    async def _tell(self, pod: KubePod, found: WaitReason) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "PodScheduled", "status": "False", "reason": found.reason,
            "message": found.words, "lastTransitionTime": now,
        }  # fmt: skip
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        if await self._is_sent("PATCH", path, body, MERGE):
            self._said[pod.uid] = found
            self.told += 1

    async def _happen(self, pod: KubePod, found: WaitReason) -> None:
        """An Event of a job, of its first pod; those over the rate are left out."""
        now = time.monotonic()
        self._events_left = min(
            float(EVENTS_PER_SECOND),
            self._events_left + (now - self._events_at) * EVENTS_PER_SECOND,
        )
        self._events_at = now
        if self._events_left < 1:
            return
        self._events_left -= 1
        body = {
            "metadata": {"generateName": f"{pod.name[:200]}-", "namespace": pod.namespace},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": self._name, "reportingInstance": self._name,
            "action": "Scheduling", "reason": "FailedScheduling", "type": "Warning",
            "note": found.words[:1000],
            "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace,
                          "name": pod.name, "uid": pod.uid},
        }  # fmt: skip
        path = f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events"
        self.events += await self._is_sent("POST", path, body)

    async def _is_sent(
        self, method: str, path: str, body: dict[str, Any], kind: str = "application/json"
    ) -> bool:
        """Whether it was done; what is not is no more than a word that is missing."""
        try:
            return (await self._writer.send(method, path, msgspec.json.encode(body), kind)).is_done
        except UNREACHABLE:
            return False

    def _forget(self) -> None:
        there = {pod.uid for pod in self._differ.view.pods.values()}
        self._said = {uid: found for uid, found in self._said.items() if uid in there}
