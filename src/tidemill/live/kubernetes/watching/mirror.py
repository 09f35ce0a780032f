"""A copy of a cluster's objects: every kind is listed once, then watched.

A watch that ends goes on at the version where it ended. Where the server has forgotten that version
(410) the kind is listed again, and what is missing then was deleted meanwhile. What may not be
watched is listed again and again; what may not be read any more is unknown from then on
(``KindCopy.hide``). Objects are kept as what is made of them (``kinds.READERS``), not as JSON.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.kubernetes import groups
from tidemill.live.kubernetes.api.client import (
    PAGE,
    UNREACHABLE,
    ApiClient,
    ApiRefusal,
)
from tidemill.live.kubernetes.dra import DeviceSlice
from tidemill.live.kubernetes.fields import MalformedObjectError, Object
from tidemill.live.kubernetes.groups import GroupKey
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.objects import MOST_REFUSED, RefusedObject
from tidemill.live.kubernetes.owners import OwnerObject
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.watching import kinds, lacking
from tidemill.live.kubernetes.watching.kind_copy import Key, KindCopy, OnChange, WatchState
from tidemill.live.kubernetes.watching.kinds import READERS, Discovered, Readers, ServedKind
from tidemill.live.kubernetes.watching.lacking import HiddenNodes
from tidemill.model.errors import BackendError

FIRST_PAUSE_S, LONGEST_SILENT_S, LONGEST_PAUSE_S = 0.1, 5.0, 30.0
"""Between two tries, twice as long each time that one is in vain. A server that does not answer is
spared nothing by a long pause, and a scheduler is blind until all that it needs is watched again;
one that answers no (too many requests, not well) is left alone for longer."""
FIRST_FORBIDDEN_S, LONGEST_FORBIDDEN_S = 1.0, 300.0
"""What may not be read is tried again: somebody may have allowed it, or a server that was just
started does not know yet who may what. What was read once is tried as often as a lost connection.
"""
LOST_S = 3.0
"""So long what was read once has to be refused until that counts: a server that was just started
refuses all until it knows who may what, and its own kinds come before those of others."""
MOST_EXPIRED = 3
"""So often in a row a watch may be refused as expired (410) soon after it was listed; then it is
listed when somebody asks, and no more often: a list of all pods is dear, and would go on for ever.
"""
LOOK_AGAIN_S, LOOK_SOON_S = 600.0, 30.0
"""Kinds that a cluster did not have may come: how often that is looked for, and how often after
somebody asked for one of them."""

Read = TypeVar("Read")


class ShownObjects(Struct):
    """All objects at one moment, as ``translate`` reads them."""

    rows: dict[tuple[str, str], list[Any]]
    refused: list[RefusedObject]
    refusals: int
    notes: tuple[str, ...]

    def read(self, kind: str, groups: Iterable[str], take: Callable[[Object], Read]) -> list[Read]:
        """What was made of each object of a kind."""
        del take  # it was used when the object came
        return [row for group in groups for row in self.rows.get((group, kind), ())]

    def left(self) -> Counter[str]:
        """Other kinds are not asked for."""
        return Counter()


class ClusterCopy:
    """All kinds of one cluster, kept up to date by one task for each."""

    def __init__(
        self,
        client: ApiClient,
        now_ms: Callable[[], int],
        *,
        limit: int = PAGE,
        on_change: OnChange | None = None,
        readers: Readers = READERS,
        autoscaler_namespace: str = "",
    ) -> None:
        self._client, self._now_ms, self._limit = client, now_ms, limit
        self._autoscaler_namespace = autoscaler_namespace
        self._on_change, self._readers = on_change, readers
        self.copies: dict[ServedKind, KindCopy] = {}
        self._tasks: dict[ServedKind, asyncio.Task[None]] = {}
        self._notes: tuple[str, ...] = ()
        self._wake = asyncio.Event()
        self._moved = asyncio.Condition()
        self._looking: asyncio.Task[None] | None = None
        self._missed: dict[tuple[str, str], int] = {}
        """Kinds that somebody asked for and the server did not have: how often to look soon."""
        self._is_missed = asyncio.Event()
        self._lost: dict[str, int] = {}
        """When nodes were deleted that pods still name."""
        self._failure: Exception | None = None
        """What a task ended with that should never end."""

    async def start(self) -> None:
        """Find out what the server has, and begin to copy it; raises what the server says."""
        self._follow(await self._discover())
        self._looking = self._task(self._look_again())

    def heed(self) -> None:
        """Raise what a task ended with: a kind that nobody keeps would pass for a quiet one."""
        if self._failure is not None:
            raise self._failure

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.create_task(self._for_ever(work))

    async def _for_ever(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that ends only if something is wrong with it, which is then told to who asks."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever it is, ``heed`` raises it
            self._failure = error
            async with self._moved:
                self._moved.notify_all()

    async def stop(self) -> None:
        """End all tasks."""
        tasks = [*self._tasks.values(), *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def is_read(self, group: str, kind: str) -> bool:
        """Whether objects of a kind are known, now or as soon as the server answers.

        One that the server did not have may have come: it is looked for soon.
        """
        for of, copy in self.copies.items():
            if (of.group, of.kind) == (group, kind) and copy.state is not WatchState.ABSENT:
                return not copy.is_forbidden or copy.is_lost
        if (group, kind) in self._readers:
            self._miss(group, kind)
        return False

    def _miss(self, group: str, kind: str) -> None:
        self._missed[group, kind] = round(LOOK_AGAIN_S / LOOK_SOON_S)
        self._is_missed.set()

    async def settle(self, timeout_s: float) -> None:
        """Wait until every kind is watched, or known not to be readable; some may stay behind.

        What is listed instead of watched is listed now.
        """
        for copy in self.copies.values():
            if copy.state is WatchState.POLLED or copy.is_lost:
                copy.state = WatchState.LISTING
        self._wake.set()
        self._wake = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s), self._moved:
                await self._moved.wait_for(lambda: self.is_settled or self._failure is not None)
        except TimeoutError:
            return
        self.heed()

    def shown(self, told_ms: int) -> ShownObjects:
        """Everything as it is now, and what was deleted since a moment."""
        self.heed()
        needed = self._needed(told_ms)
        self._lose_nodes()
        for copy in self.copies.values():
            copy.forget(told_ms, needed)
        refused = [one for copy in self.copies.values() for one in copy.refused.values()]
        rows = (row for copy in self.copies.values() for row in copy.rows.values())
        claimed = (row.node for row in rows if isinstance(row, DeviceSlice))
        hidden = HiddenNodes(self.copies.values(), claimed)
        return ShownObjects(
            {
                (kind.group, kind.kind): [self._placed(row, hidden) for row in copy.shown()]
                for kind, copy in self.copies.items()
            },
            refused[:MOST_REFUSED], len(refused),
            (*self._notes, *lacking.said(self.copies.values(), MOST_EXPIRED)),
        )  # fmt: skip

    def _lose_nodes(self) -> None:
        """Keep when nodes were deleted as long as a pod names them: some are deleted much later."""
        nodes, pods = self.copies.get(kinds.NODES), self.copies.get(kinds.PODS)
        if nodes is None or pods is None or not (nodes.gone_nodes or self._lost):
            return
        self._lost |= {name: node.gone_ms or 0 for (_, name), node in nodes.gone_nodes.items()}
        named = {pod.node for pod in (*pods.rows.values(), *pods.gone) if isinstance(pod, KubePod)}
        there = {name for _, name in nodes.rows}
        self._lost = {name: ms for name, ms in self._lost.items() if name in named - there}

    def _placed(self, row: Any, nodes: HiddenNodes) -> Any:  # noqa: ANN401 - whatever was made
        if isinstance(row, KubePod) and row.node in self._lost:
            return row.without_node(self._lost[row.node])
        if isinstance(row, KubeNode) and (unseen := nodes.spans(row.name)):
            return replace(row, unseen=unseen)
        return row

    def _needed(self, told_ms: int) -> set[str | GroupKey]:
        """The owners of pods that are shown, by uid, and theirs; and the pods' groups."""
        pods = self.copies.get(kinds.PODS)
        if pods is None or not any(copy.gone or copy.is_lost for copy in self.copies.values()):
            return set()
        alive = [pod for pod in pods.gone if (pod.deleted_ms or 0) > told_ms]
        shown: list[KubePod] = [*pods.rows.values(), *(p for p in alive if isinstance(p, KubePod))]
        needed = {row.owner.uid for row in shown if row.owner is not None}
        above = {
            row.uid: row.owner.uid
            for copy in self.copies.values()
            for row in (*copy.rows.values(), *copy.gone)
            if isinstance(row, OwnerObject) and row.owner is not None
        }
        edge = needed
        while edge := {above[uid] for uid in edge if uid in above} - needed:
            needed = needed | edge
        return {*needed, *(key for row in shown if (key := groups.of_pod(row)) is not None)}

    @property
    def is_settled(self) -> bool:
        """Whether every kind is watched, or known not to be readable."""
        return all(copy.is_settled for copy in self.copies.values())

    def _follow(self, found: Discovered) -> None:
        self._notes = found.notes
        for kind in found.kinds:
            before = next((one for one in self.copies if one.is_same(kind)), None)
            if before is not None and self.copies[before].state is not WatchState.ABSENT:
                continue
            copy = KindCopy(kind, self._now_ms, self._on_change, self._readers)
            if before is not None:
                copy.gone = self.copies.pop(before).gone
            self.copies[kind] = copy
            self._tasks[kind] = self._task(self._keep(copy))

    async def _discover(self) -> Discovered:
        return await kinds.discover(self._client, self._readers, self._autoscaler_namespace)

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SOON_S)
            if not self._missed:
                await self._until_missed(LOOK_AGAIN_S - LOOK_SOON_S)
            there = {(kind.group, kind.kind) for kind, copy in self.copies.items()
                     if copy.state is not WatchState.ABSENT}  # fmt: skip
            self._missed = {
                kind: left - 1 for kind, left in self._missed.items()
                if left > 1 and kind not in there
            }  # fmt: skip
            try:
                self._follow(await self._discover())
            except (*UNREACHABLE, ApiRefusal, msgspec.DecodeError):
                continue  # the watches say that the server is down

    async def _until_missed(self, timeout_s: float) -> None:
        """Until somebody asks for a kind that is not there, or so long."""
        self._is_missed.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_missed.wait()
        except TimeoutError:
            pass

    async def _keep(self, copy: KindCopy) -> None:
        """List and watch one kind for as long as the server has it."""
        pause_s, forbidden_s = FIRST_PAUSE_S, FIRST_FORBIDDEN_S
        clock = asyncio.get_running_loop().time
        while copy.state is not WatchState.ABSENT:
            began_s, longest_s, copy.watched, lists = clock(), LONGEST_PAUSE_S, None, copy.lists
            try:
                await self._list_and_watch(copy)
                pause_s, copy.expiries = FIRST_PAUSE_S, 0
            except ApiRefusal as error:
                is_soon = clock() - began_s < LONGEST_PAUSE_S
                await self._said_no(copy, error, is_listed=copy.lists > lists, is_soon=is_soon)
                is_well = error.is_expired or copy.has_stood(clock())
                pause_s = FIRST_PAUSE_S if is_well else pause_s
                pause_s = max(pause_s, min(error.retry_s, LONGEST_PAUSE_S))
                if copy.is_newly_refused(clock(), LOST_S):
                    longest_s = FIRST_FORBIDDEN_S
            except (*UNREACHABLE, BackendError, MalformedObjectError, msgspec.DecodeError) as error:
                pause_s = FIRST_PAUSE_S if copy.has_stood(clock()) else pause_s
                longest_s = LONGEST_SILENT_S
                await self._set(copy, WatchState.DOWN, str(error) or type(error).__name__)
            if copy.is_forbidden and not copy.lists:
                await asyncio.sleep(forbidden_s)
                forbidden_s = min(2 * forbidden_s, LONGEST_FORBIDDEN_S)
                continue
            if copy.state is WatchState.POLLED or copy.is_forbidden:
                is_asked = self._on_change is None  # a scheduler asks for nothing: it is told
                await self._pause(LONGEST_FORBIDDEN_S if is_asked else LONGEST_PAUSE_S)
                continue
            pause_s = min(pause_s, longest_s)
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, longest_s)

    async def _list_and_watch(self, copy: KindCopy) -> None:
        """Until the server ends it, or says no."""
        if not copy.version:
            if copy.lists or not copy.is_forbidden:
                await self._set(copy, WatchState.LISTING)
            await self._list(copy)
        await self._watch(copy)

    async def _said_no(
        self, copy: KindCopy, error: ApiRefusal, *, is_listed: bool, is_soon: bool
    ) -> None:
        """The server answers, and refuses; ``is_listed``: it listed the kind just before,
        ``is_soon``: it took it until a short time ago.
        """
        is_ended = error.status == 401 and copy.lists  # a token that ended takes no right away
        if error.is_expired:  # the server is well: it is listed at once
            await self._expired(copy, str(error), is_soon=is_soon)
        elif error.is_absent or (error.is_forbidden and not is_ended):
            await self._refused(copy, error, is_listed=is_listed)
        else:
            await self._set(copy, WatchState.DOWN, str(error))

    async def _refused(self, copy: KindCopy, error: ApiRefusal, *, is_listed: bool) -> None:
        """It may not be read, or the server does not have it; ``is_listed``: it was just now, and
        the watch of it is refused.
        """
        now_s = asyncio.get_running_loop().time()
        if copy.refused_since is None:
            copy.refused_since = now_s, self._now_ms()
        if is_listed:
            copy.version, copy.is_unwatchable = "", True
            await self._set(copy, WatchState.POLLED, str(error))
        elif not copy.lists:
            await self._set(copy, WatchState.FORBIDDEN, str(error))
        elif copy.is_newly_refused(now_s, LOST_S):
            await self._set(copy, WatchState.DOWN, str(error))
        elif error.is_absent:
            await self._lose(copy, error)
        elif copy.version:  # the watch of it: it may be listed all the same
            copy.version = ""
            await self._set(copy, WatchState.LISTING, str(error))
        else:
            copy.hide()
            await self._set(copy, WatchState.FORBIDDEN, str(error))

    async def _lose(self, copy: KindCopy, error: ApiRefusal) -> None:
        """The server does not have a kind under its version: it may have it under another one, or
        have lost it, and with it all such objects. Then it is looked for again, soon.
        """
        copy.version, kind = "", copy.kind
        try:
            served = (await self._discover()).kinds
        except (*UNREACHABLE, ApiRefusal, msgspec.DecodeError):
            await self._set(copy, WatchState.DOWN, str(error))
            return
        now = next((one for one in served if one.is_same(kind)), None)
        if now is None:
            copy.end_list(set())
            await self._set(copy, WatchState.ABSENT, str(error))
            self._miss(kind.group, kind.kind)
            return
        copy.kind, task = now, self._tasks.pop(kind)
        self.copies = {one.kind: one for one in self.copies.values()}
        self._tasks[now] = task
        await self._set(copy, WatchState.DOWN, str(error))

    async def _expired(self, copy: KindCopy, said: str, *, is_soon: bool) -> None:
        """A version was forgotten: it is listed again, or, where that goes on, when asked for.

        ``is_soon``: after a short time.
        """
        copy.version = ""
        copy.expiries = copy.expiries + 1 if is_soon else 1
        is_listed = copy.expiries >= MOST_EXPIRED and copy.lists > 0
        await self._set(copy, WatchState.POLLED if is_listed else WatchState.LISTING, said)

    async def _list(self, copy: KindCopy) -> None:
        there, version = set[Key](), ""
        kind = copy.kind
        pages = self._client.pages(kind.path, kind.query, limit=self._limit, shape=kind.shape)
        async with aclosing(pages) as found:
            async for page in found:
                copy.listed(page.items, there)
                version = page.version
        copy.end_list(there)
        copy.version = version

    async def _watch(self, copy: KindCopy) -> None:
        """Until the server ends it."""
        kind = copy.kind
        watched = self._client.watching(kind.path, copy.version, kind.query, shape=kind.shape)
        async with watched as changes:
            copy.watched = asyncio.get_running_loop().time(), copy.changes
            copy.refused_since, copy.is_unwatchable = None, False
            await self._set(copy, WatchState.WATCHING)
            async for change in changes:
                copy.version = copy.changed(change) or copy.version

    async def _pause(self, seconds: float) -> None:
        """Wait, or until somebody asks."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _set(self, copy: KindCopy, state: WatchState, said: str = "") -> None:
        async with self._moved:
            copy.state, copy.said = state, said
            self._moved.notify_all()
