"""Nodes that are going to be taken: cordoned in time, and left by whole gangs before the deadline.

As the twin does it (``provisioning.review``): a node that is to be taken takes no new work, and
what runs there goes on, for what ends by itself loses nothing; who is still there at the end is
evicted, gang by gang, and placed anew elsewhere. Here the end is a little before the deadline, so
that pods can end in peace. Gangs that have not come up lose nothing by leaving, and do so at once.
Only pods that name us, and that somebody makes again, are evicted.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import msgspec

from tidemill.live.history import telling
from tidemill.live.kubernetes import parts
from tidemill.live.kubernetes.api.client import UNREACHABLE
from tidemill.live.kubernetes.api.writing import ApiWriter
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.notices import CORDONED, NodeNotice
from tidemill.live.kubernetes.scheduling import rights
from tidemill.live.kubernetes.scheduling.view import ClusterView
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World
from tidemill.provisioning import life

LEAD_MS = 60_000
"""So long before a deadline the last gangs are evicted: 30 s are the usual grace of pods, and as
long again for budgets and the API server. Of a shorter notice, half."""
MERGE = "application/merge-patch+json"
_AS = (
    "a moment with its zone, such as 2026-11-17T08:00:00Z; of tidemill/maintenance two of them with"
    " a slash between"
)


FIRST_MS, LONGEST_MS = 2_000, 60_000
"""A cordon that the server refuses is asked for again after a pause, that grows, as a bind is."""
(RIGHT,) = rights.TO_DRAIN
_GIVE = f"kubectl apply -f deploy/kubernetes/{RIGHT.file}: it is asked for again by itself"


class _CordonRefused(NamedTuple):
    said: str
    pause_ms: int
    next_ms: int


class DrainClock(Protocol):
    """The cluster's clock, and when the journal began by it."""

    def now_ms(self) -> int:
        """Since 1970."""


class Drains:
    """The nodes of a cluster that are going to be taken."""

    def __init__(  # noqa: PLR0913 - what it reads, what it asks, and what it sends
        self,
        world: World,
        view: ClusterView,
        writer: ApiWriter,
        clock: DrainClock,
        begins_ms: int,
        *,
        may_evict: Callable[[int], bool],
        log: Callable[..., None],
    ) -> None:
        self._world, self._view, self._writer, self._clock = world, view, writer, clock
        self._begins_ms, self._may_evict, self._log = begins_ms, may_evict, log
        self.drain_ms = 0
        """How long before a deadline a node takes no new work any more: the policy's ``drain``."""
        self._told: dict[str, int] = {}
        """By node: how often it was to be looked at so far (0: drained, 1: emptied)."""
        self._asked: dict[str, set[tuple[int, int]]] = {}
        """By node: the attempts of jobs that were asked to leave it; each is asked once."""
        self._heard: dict[str, tuple[tuple[str, int | None], int]] = {}
        """By node: whose notice it has and for when, and when that was first seen."""
        self._unread: dict[str, tuple[str, str]] = {}
        """By machine: an annotation with a moment that is none, and that was told."""
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, _CordonRefused] = {}
        """By machine: a cordon that the server did not take, and when it is asked again."""
        self.cordoned = 0

    # When ---------------------------------------------------------------------------------------

    def deadline_ms(self, name: str, notice: NodeNotice) -> int:
        """By when a node is to be empty, since 1970; where nobody says, the policy does."""
        if notice.deadline_ms is not None:
            return notice.deadline_ms
        length_ms = self.drain_ms if notice.length_ms is None else notice.length_ms
        return self._since_ms(name, notice) + length_ms

    def _since_ms(self, name: str, notice: NodeNotice) -> int:
        """When a notice was given; where nobody says, when it was first seen."""
        if notice.since_ms is not None:
            return notice.since_ms
        heard = self._heard.get(name)
        return self._clock.now_ms() if heard is None else heard[1]

    def is_on(self, node: KubeNode) -> bool:
        """Whether a node is to be drained now."""
        notice, now_ms = node.notice, self._clock.now_ms()
        if notice is None or (notice.until_ms is not None and now_ms >= notice.until_ms):
            return False
        return now_ms >= self.deadline_ms(node.name, notice) - self.drain_ms

    def _is_due(self, name: str, notice: NodeNotice) -> bool:
        """Whether everybody has to leave now."""
        deadline_ms = self.deadline_ms(name, notice)
        lead_ms = min(LEAD_MS, max(0, deadline_ms - self._since_ms(name, notice)) // 2)
        return self._clock.now_ms() >= deadline_ms - lead_ms

    def _hear(self, node: KubeNode, notice: NodeNotice) -> None:
        """Note when a notice came; of one from before we began that is not known, and long ago."""
        heard, whose = self._heard.get(node.name), (notice.said, notice.deadline_ms)
        if heard is None or heard[0] != whose:
            is_old = node.is_cordoned_by_us and heard is None
            self._heard[node.name] = whose, 0 if is_old else self._clock.now_ms()

    def _read(self, node: KubeNode) -> None:
        """Say once of an annotation that it has a moment which is none."""
        name = parts.machine(node.name)
        if node.unread is not None and self._unread.get(name) != node.unread:
            self._unread[name] = node.unread
            key, found = node.unread
            self._log("notice cannot be read", node=name, annotation=key, found=found, hint=_AS)

    def look(self) -> None:
        """Nodes whose time has come are looked at again; they are cordoned, or not any more."""
        for name, node in self._view.nodes.items():
            self._read(node)
            if node.notice is None and not node.is_cordoned_by_us:
                self._told.pop(name, None)
                self._heard.pop(name, None)
                self._asked.pop(name, None)
                continue
            step = -1
            if node.notice is not None:
                self._hear(node, node.notice)
                if self.is_on(node):
                    step = int(self._is_due(name, node.notice))
            if self._told.get(name, -1) != step or (step == 1 and self._is_left_out(name)):
                self._told[name] = step
                self._view.dirty_nodes[name] = None
                self._view.changed()
            self._set_cordon(node, is_wanted=step >= 0)

    # What is told -------------------------------------------------------------------------------

    def tell(self, at_ms: int, n: int, node: KubeNode) -> Iterator[ev.Event]:
        """A node that is to be drained, and whoever has to leave it."""
        world, notice = self._world, node.notice
        assert notice is not None, "it is on"
        deadline_ms = min(max(self.deadline_ms(node.name, notice) - self._begins_ms, 0), FOREVER_MS)
        state = NodeState(world.nodes.state.item(n))
        is_told = state is NodeState.DRAINING
        if is_told and notice.deadline_ms is not None:
            is_told = world.nodes.deadline_ms.item(n) == deadline_ms
        if not is_told:
            if not life.may_move(state, NodeState.DRAINING):
                yield ev.NodeMoved(at_ms, n, NodeState.READY)
            yield ev.NodeMoved(at_ms, n, NodeState.DRAINING, notice.why, deadline_ms)
        is_due = self._is_due(node.name, notice)
        for j in self._leaving(n):
            if is_due or world.jobs.state.item(j) == JobState.STARTING:
                attempt = world.jobs.attempt.item(j)
                self._asked.setdefault(node.name, set()).add((j, attempt))
                yield ev.AskedEvict(at_ms, j, attempt, ev.Why.DRAINED)

    def _leaving(self, n: int) -> list[int]:
        """Jobs on a node that are not leaving it yet, and that we may stop."""
        is_leaving = self._world.jobs.is_leaving
        return [
            j for j in sorted(self._world.aboard[n]) if not is_leaving[j] and self._may_evict(j)
        ]

    def _is_left_out(self, name: str) -> bool:
        """Whether somebody on a node was not asked to leave, and may be now.

        Who was there before we began is known to be ours a moment after its node.
        """
        world, asked = self._world, self._asked.get(name, set())
        life_name = telling.present(name, world.node_number)
        if life_name is None:
            return False
        leaving = self._leaving(world.node_number[life_name])
        return any((j, world.jobs.attempt.item(j)) not in asked for j in leaving)

    # What is sent -------------------------------------------------------------------------------

    def _set_cordon(self, node: KubeNode, *, is_wanted: bool) -> None:
        is_so, name = node.is_unschedulable, parts.machine(node.name)
        refusal = self._refused.get(name)
        is_early = refusal is not None and self._clock.now_ms() < refusal.next_ms
        if is_early or name in self._sending:
            return
        if is_wanted and not is_so:
            assert node.notice is not None, "it is on"
            body: dict[str, Any] = {"metadata": {"annotations": {CORDONED: node.notice.said}},
                                    "spec": {"unschedulable": True}}  # fmt: skip
        elif not is_wanted and node.is_cordoned_by_us:
            body = {"metadata": {"annotations": {CORDONED: None}},
                    "spec": {"unschedulable": False}}  # fmt: skip
        else:
            return
        task = asyncio.get_running_loop().create_task(self._send(name, body))
        self._sending[name] = task
        task.add_done_callback(lambda _: self._sending.pop(name, None))

    async def _send(self, name: str, body: dict[str, Any]) -> None:
        try:
            told = await self._writer.send(
                "PATCH", f"/api/v1/nodes/{name}", msgspec.json.encode(body), MERGE
            )
        except UNREACHABLE:
            return  # looked at again
        before = self._refused.pop(name, None)
        if told.is_done:
            self.cordoned += 1
            self._log("node cordoned" if body["spec"]["unschedulable"] else "node uncordoned",
                      node=name)  # fmt: skip
        elif not told.is_later and told.status != 404:
            pause_ms = min(2 * before.pause_ms, LONGEST_MS) if before is not None else FIRST_MS
            at_ms = self._clock.now_ms() + pause_ms
            self._refused[name] = _CordonRefused(told.said, pause_ms, at_ms)
            if before is None or before.said != told.said:
                lack = {"missing_rule": RIGHT.rule, "hint": _GIVE} if told.status == 403 else {}
                self._log("cordon refused", node=name, said=told.said, **lack)

    async def stop(self) -> None:
        """End all that is on its way."""
        tasks = [*self._sending.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
