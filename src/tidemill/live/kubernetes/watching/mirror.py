"""A copy of a cluster's objects: every kind is listed once, then watched.

A watch that ends goes on at the version where it ended. Where the server has forgotten that version
(410) the kind is listed again, and what is missing then was deleted meanwhile. What is deleted
stays here, as deleted, until whoever reads this has told of that time: pods and nodes for their own
sake, owners as long as a pod needs them. Objects are kept as what is made of them
(``kinds.READERS``), not as JSON.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Set
from contextlib import aclosing
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.kubernetes import fields, groups
from tidemill.live.kubernetes.api.client import (
    PAGE,
    UNREACHABLE,
    ApiClient,
    ApiRefusal,
    WatchedChange,
)
from tidemill.live.kubernetes.cluster import KubeEvent
from tidemill.live.kubernetes.dra import DeviceSlice
from tidemill.live.kubernetes.fields import LATEST_MS, MalformedObjectError, Object
from tidemill.live.kubernetes.groups import GroupKey, PodGroup
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.objects import MOST_REFUSED, RefusedObject
from tidemill.live.kubernetes.owners import OwnerObject
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.reasons import HEARD
from tidemill.live.kubernetes.watching import kinds, node_turns
from tidemill.live.kubernetes.watching.kinds import READERS, Discovered, Readers, ServedKind
from tidemill.model.errors import BackendError
from tidemill.model.measures import count_text

MOST_OBJECTS = 1_000_000
"""Of one kind; a cluster of 5,000 nodes has 150,000 pods."""
FIRST_PAUSE_S, LONGEST_SILENT_S, LONGEST_PAUSE_S = 0.1, 5.0, 30.0
"""Between two tries, twice as long each time that one is in vain. A server that does not answer is
spared nothing by a long pause, and a scheduler is blind until all that it needs is watched again;
one that answers no (too many requests, not well) is left alone for longer."""
STOOD_S = 1.0
"""A watch that stood for so long was no try in vain, whatever ended it: most kinds are quiet."""
FIRST_FORBIDDEN_S, LONGEST_FORBIDDEN_S = 1.0, 300.0
"""What may not be read is tried again: somebody may have allowed it, or a server that was just
started does not know yet who may what. What was read once is tried as often as a lost connection.
"""
MOST_EXPIRED = 3
"""So often in a row a watch may be refused as expired (410) soon after it was listed; then it is
listed when somebody asks, and no more often: a list of all pods is dear, and would go on for ever.
"""
AT_ONCE_MS = 2_000
"""A clock that is known to the second, and the way from the server to here."""
LOOK_AGAIN_S, LOOK_SOON_S = 600.0, 30.0
"""Kinds that a cluster did not have may come: how often that is looked for, and how often after
somebody asked for one of them."""

Read = TypeVar("Read")
Key = tuple[str, str]
"""Namespace and name."""
OnChange = Callable[[ServedKind, Key, Any, bool], None]
"""Told of each object that came, changed or (the last argument) is gone, as it was made."""


class WatchState(StrEnum):
    """How a kind is read now."""

    LISTING = "being listed"
    WATCHING = "watched"
    POLLED = "listed at every question"
    """Its watch is refused as expired each time."""
    FORBIDDEN = "forbidden"
    DOWN = "not answered"


class KindCopy:
    """The objects of one kind."""

    def __init__(
        self,
        kind: ServedKind,
        now_ms: Callable[[], int],
        on_change: OnChange | None = None,
        readers: Readers = READERS,
    ) -> None:
        self.kind, self._now_ms, self._on_change = kind, now_ms, on_change
        self._take = readers[kind.group, kind.kind]
        self.rows: dict[Key, Any] = {}
        self.gone: list[KubePod | OwnerObject | PodGroup] = []
        self.gone_nodes: dict[Key, KubeNode] = {}
        self.refused: dict[Key, RefusedObject] = {}
        self.state, self.said = WatchState.LISTING, ""
        self.version = ""
        """Up to which it is known; "": it has to be listed."""
        self.changes = 0
        """Changes that a watch told."""
        self.lists = 0
        self.watched: tuple[float, int] | None = None
        """When the server began to send changes, by the clock of the loop, and how many it had sent
        by then; None: it does not."""
        self.expiries = 0
        """How often in a row its watch was refused as expired."""
        self.unseen = 0
        """Objects that were deleted while nobody watched."""

    @property
    def is_settled(self) -> bool:
        """Whether it is watched, was just listed instead, or is known not to be readable."""
        return self.state in (WatchState.WATCHING, WatchState.POLLED, WatchState.FORBIDDEN)

    def has_stood(self, now_s: float) -> bool:
        """Whether its watch told something, or stood for a while: it was no try in vain."""
        if self.watched is None:
            return False
        since_s, before = self.watched
        return self.changes > before or now_s - since_s > STOOD_S

    def listed(self, items: Iterable[dict[str, Any]], there: set[Key]) -> None:
        """Take a page of a list in; ``there`` collects what exists."""
        for one in items:
            one.setdefault("apiVersion", self.kind.api_version)  # as the list said for all
            there.add(_key(one))
            self._put(one)

    def end_list(self, there: set[Key]) -> None:
        """All pages were taken: what is not among them was deleted meanwhile."""
        for key in [key for key in self.rows if key not in there]:
            self.unseen += 1
            leaves_ms = getattr(self.rows[key], "leaves_ms", None)
            self._remove(key, min(self._now_ms(), leaves_ms or LATEST_MS))
        for key in [key for key in self.refused if key not in there]:
            del self.refused[key]
        self.lists += 1

    def changed(self, change: WatchedChange) -> str:
        """Take a change in; the version that it leads to."""
        one = change.body
        version = fields.text(one, "metadata", "resourceVersion")
        if change.kind == "BOOKMARK":
            return version
        self.changes += 1
        if change.kind == "DELETED":
            self._put(one)
            self._remove(_key(one), _deleted_ms(one, self._now_ms()))
        else:
            self._put(one)
        return version

    def shown(self) -> list[Any]:
        """All that there is, and what was deleted and is not forgotten yet."""
        return [*self.rows.values(), *self.gone, *self.gone_nodes.values()]

    def forget(self, told_ms: int, needed: Set[str | GroupKey]) -> None:
        """Drop what was deleted before a moment and is no owner or group that is still needed."""
        self.gone = [
            one for one in self.gone
            if (one.deleted_ms or 0) > told_ms or _needed_as(one) in needed
        ]  # fmt: skip
        self.gone_nodes = {
            key: node for key, node in self.gone_nodes.items() if (node.gone_ms or 0) > told_ms
        }
        for key, row in self.rows.items():
            if isinstance(row, KubeNode):
                self.rows[key] = node_turns.untold(row, told_ms)
            elif isinstance(row, DeviceSlice):
                self.rows[key] = replace(row, given=node_turns.later(row.given, told_ms))

    def _put(self, one: Object) -> None:
        key = _key(one)
        try:
            row = self._take(one)
        except MalformedObjectError as error:
            self.refused[key] = RefusedObject(f"{self.kind.kind} {'/'.join(key)}", str(error))
            before = self.rows.pop(key, None)
            if before is not None and self._on_change is not None:
                self._on_change(self.kind, key, before, True)
            return
        self.refused.pop(key, None)
        if isinstance(row, KubeEvent) and row.reason not in HEARD:
            return
        before = self.rows.get(key)
        if isinstance(row, DeviceSlice):
            row = node_turns.published(before, row, self._now_ms())
        if isinstance(row, KubePod) and before is not None and before.uid != row.uid:
            self._remove(key, row.created_ms)  # a new one of the same name: that one had gone
        if len(self.rows) >= MOST_OBJECTS and before is None:
            raise BackendError(
                f"the cluster has more than {MOST_OBJECTS:,} {self.kind.shown}",
                hint="nothing so large was tried; import files of single namespaces instead",
            )
        if isinstance(row, KubeNode) and self._on_change is None:
            row = node_turns.after(before, row, self._now_ms())
            self.gone_nodes.pop(key, None)
        self.rows[key] = row
        if self._on_change is not None:
            self._on_change(self.kind, key, row, False)

    def _remove(self, key: Key, at_ms: int) -> None:
        row = self.rows.pop(key, None)
        self.refused.pop(key, None)
        if isinstance(row, KubePod | OwnerObject | PodGroup):
            row = row.deleted(at_ms)
            if self._on_change is None:  # who is told of each needs no memory of them
                self.gone.append(row)
        if isinstance(row, KubeNode) and self._on_change is None:
            self.gone_nodes[key] = replace(row, gone_ms=at_ms)
        if row is not None and self._on_change is not None:
            self._on_change(self.kind, key, row, True)


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
            if (of.group, of.kind) == (group, kind):
                return copy.state is not WatchState.FORBIDDEN
        if (group, kind) in self._readers:
            self._missed[group, kind] = round(LOOK_AGAIN_S / LOOK_SOON_S)
            self._is_missed.set()
        return False

    async def settle(self, timeout_s: float) -> None:
        """Wait until every kind is watched, or known not to be readable; some may stay behind.

        What is listed instead of watched is listed now.
        """
        for copy in self.copies.values():
            if copy.state is WatchState.POLLED:
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
        return ShownObjects(
            {
                (kind.group, kind.kind): [self._placed(row) for row in copy.shown()]
                for kind, copy in self.copies.items()
            },
            refused[:MOST_REFUSED], len(refused), (*self._notes, *self._told()),
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

    def _placed(self, row: Any) -> Any:  # noqa: ANN401 - whatever was made of an object
        if isinstance(row, KubePod) and row.node in self._lost:
            return row.without_node(self._lost[row.node])
        return row

    def _needed(self, told_ms: int) -> set[str | GroupKey]:
        """The owners of pods that are shown, by uid, and theirs; and the pods' groups."""
        pods = self.copies.get(kinds.PODS)
        if pods is None or not any(copy.gone for copy in self.copies.values()):
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

    def _told(self) -> Iterator[str]:
        blind = [kind.shown for kind, copy in self.copies.items() if not copy.is_settled]
        if blind:
            yield f"not watched now, and as they were last seen: {', '.join(sorted(blind))}"
        remedies = dict[str, None]()
        for kind, copy in self.copies.items():
            if copy.state is WatchState.FORBIDDEN and kind.lost:
                remedies[kind.remedy] = None
                yield (
                    f"may not read {kind.shown}: {kind.lost}; to allow it, add to the ClusterRole:"
                    f" {kind.rule}"
                )
            if copy.expiries >= MOST_EXPIRED:
                yield (
                    f"the server refuses to go on watching {kind.shown} (410, {copy.said}): they"
                    " are listed at every question instead, and what comes and goes between two"
                    " questions is not seen"
                )
            if copy.unseen and kind == kinds.PODS:
                yield (
                    f"{count_text(copy.unseen, 'pod')} deleted while the connection was lost: taken"
                    " as ended when that was seen"
                )
        yield from remedies

    @property
    def is_settled(self) -> bool:
        """Whether every kind is watched, or known not to be readable."""
        return all(copy.is_settled for copy in self.copies.values())

    def _follow(self, found: Discovered) -> None:
        self._notes = found.notes
        for kind in found.kinds:
            if not any((one.group, one.kind) == (kind.group, kind.kind) for one in self.copies):
                self.copies[kind] = KindCopy(kind, self._now_ms, self._on_change, self._readers)
                self._tasks[kind] = self._task(self._keep(self.copies[kind]))

    async def _discover(self) -> Discovered:
        return await kinds.discover(self._client, self._readers, self._autoscaler_namespace)

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SOON_S)
            if not self._missed:
                await self._until_missed(LOOK_AGAIN_S - LOOK_SOON_S)
            there = {(kind.group, kind.kind) for kind in self.copies}
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
        """List and watch one kind for ever."""
        pause_s, forbidden_s = FIRST_PAUSE_S, FIRST_FORBIDDEN_S
        clock = asyncio.get_running_loop().time
        while True:
            began_s, longest_s, copy.watched = clock(), LONGEST_PAUSE_S, None
            try:
                if not copy.version:
                    await self._set(copy, WatchState.LISTING)
                    await self._list(copy)
                await self._watch(copy)
            except ApiRefusal as error:
                if (error.is_forbidden or error.is_absent) and not copy.lists:
                    await self._set(copy, WatchState.FORBIDDEN, str(error))
                    await asyncio.sleep(forbidden_s)
                    forbidden_s = min(2 * forbidden_s, LONGEST_FORBIDDEN_S)
                    continue
                if error.is_expired:  # the server is well: it is listed at once
                    pause_s, is_soon = FIRST_PAUSE_S, clock() - began_s < LONGEST_PAUSE_S
                    await self._expired(copy, str(error), is_soon=is_soon)
                else:
                    pause_s = FIRST_PAUSE_S if copy.has_stood(clock()) else pause_s
                    pause_s = max(pause_s, min(error.retry_s, LONGEST_PAUSE_S))
                    await self._set(copy, WatchState.DOWN, str(error))
            except (*UNREACHABLE, BackendError, MalformedObjectError, msgspec.DecodeError) as error:
                pause_s = FIRST_PAUSE_S if copy.has_stood(clock()) else pause_s
                longest_s = LONGEST_SILENT_S
                await self._set(copy, WatchState.DOWN, str(error) or type(error).__name__)
            else:
                pause_s, copy.expiries = FIRST_PAUSE_S, 0
            if copy.state is WatchState.POLLED:
                is_asked = self._on_change is None  # a scheduler asks for nothing: it is told
                await self._pause(LONGEST_FORBIDDEN_S if is_asked else LONGEST_PAUSE_S)
                continue
            pause_s = min(pause_s, longest_s)
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, longest_s)

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


def _needed_as(one: KubePod | OwnerObject | PodGroup) -> str | GroupKey | None:
    """By which those name it that still need what was deleted; None: nobody does."""
    match one:
        case OwnerObject():
            return one.uid
        case PodGroup():
            return one.key
    return None


def _deleted_ms(one: Object, seen_ms: int) -> int:
    """When an object was deleted that is seen to be gone: when that was asked for, if it was now.

    Seen much later than asked, its containers took their time: then it was when it was seen. Whole
    seconds, as all times of the API.
    """
    asked_ms = fields.moment_ms(one, "metadata", "deletionTimestamp")
    if asked_ms is not None and seen_ms - asked_ms < AT_ONCE_MS:
        return asked_ms
    return seen_ms // 1000 * 1000


def _key(one: Object) -> Key:
    return fields.text(one, "metadata", "namespace"), fields.text(one, "metadata", "name")
