"""The objects of one kind, as a watch keeps them.

What is deleted stays, as deleted, until whoever reads this has told of that time: pods, nodes and
claims of devices for their own sake, owners as long as a pod needs them.
"""

from collections.abc import Callable, Iterable, Set
from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from tidemill.live.kubernetes import fields
from tidemill.live.kubernetes.api.client import WatchedChange
from tidemill.live.kubernetes.cluster import KubeEvent
from tidemill.live.kubernetes.dra import DeviceClaim, DeviceSlice
from tidemill.live.kubernetes.fields import LATEST_MS, MalformedObjectError, Object
from tidemill.live.kubernetes.groups import GroupKey, PodGroup
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.objects import RefusedObject
from tidemill.live.kubernetes.owners import OwnerObject
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.reasons import HEARD
from tidemill.live.kubernetes.watching import kinds, node_turns
from tidemill.live.kubernetes.watching.kinds import READERS, Readers, ServedKind
from tidemill.model.errors import BackendError

MOST_OBJECTS = 1_000_000
"""Of one kind; a cluster of 5,000 nodes has 150,000 pods."""
STOOD_S = 1.0
"""A watch that stood for so long was no try in vain, whatever ended it: most kinds are quiet."""
AT_ONCE_MS = 2_000
"""A clock that is known to the second, and the way from the server to here."""
_KEPT = ("Pod", "Node", *kinds.OF_DEVICES)
"""Kinds of which all stays as it was when they may not be read any more (``KindCopy.hide``)."""

Gone = KubePod | OwnerObject | PodGroup | DeviceClaim
Key = tuple[str, str]
"""Namespace and name."""
OnChange = Callable[[ServedKind, Key, Any, bool], None]
"""Told of each object that came, changed or (the last argument) is gone, as it was made."""


class WatchState(StrEnum):
    """How a kind is read now."""

    LISTING = "being listed"
    WATCHING = "watched"
    POLLED = "listed at every question"
    """Its watch is refused: as expired each time, or since it may be listed alone."""
    FORBIDDEN = "forbidden"
    ABSENT = "not served any more"
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
        self.gone: list[Gone] = []
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
        self.refused_since: tuple[float, int] | None = None
        """Since when it is refused for want of a right, or as not served, by the clock of the loop
        and by the server's; None: it is not."""
        self.is_unwatchable = False
        """Whether it may be listed, and not watched."""
        self.hidden: tuple[tuple[int, int], ...] = ()
        """Stretches of time in which it could not be read, though it was before; in order."""

    @property
    def is_settled(self) -> bool:
        """Whether it is watched, was just listed instead, or is known not to be readable."""
        return self.state not in (WatchState.LISTING, WatchState.DOWN)

    @property
    def is_forbidden(self) -> bool:
        """Whether it may not be read."""
        return self.state is WatchState.FORBIDDEN

    @property
    def is_lost(self) -> bool:
        """Whether it was read once, and may not be any more."""
        return bool(self.hidden) and self.hidden[-1][1] == LATEST_MS

    def has_stood(self, now_s: float) -> bool:
        """Whether its watch told something, or stood for a while: it was no try in vain."""
        if self.watched is None:
            return False
        since_s, before = self.watched
        return self.changes > before or now_s - since_s > STOOD_S

    def is_newly_refused(self, now_s: float, lost_s: float) -> bool:
        """Whether it is refused, and was not yet so long ago."""
        return self.refused_since is not None and now_s - self.refused_since[0] < lost_s

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
        self.refused_since = None
        if self.is_lost:
            self.hidden = (*self.hidden[:-1], (self.hidden[-1][0], self._now_ms()))

    def hide(self) -> None:
        """It may not be read any more: what it had is unknown from when it was refused on.

        Pods are asked for again before anything is told. Nodes stay, with nobody who sees them; so
        do devices and who has them, as else they would be free. Owners and groups still say which
        pods belong together. Whoever is told of each change keeps all, and stands still.
        """
        if self.is_lost:
            return
        since_ms = self.refused_since[1] if self.refused_since is not None else self._now_ms()
        self.hidden, self.is_unwatchable = (*self.hidden, (since_ms, LATEST_MS)), False
        if self._on_change is None and self.kind.kind not in _KEPT:
            self.rows = {key: row for key, row in self.rows.items() if _is_named(row)}
            self.refused.clear()

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
        self.hidden = tuple(span for span in self.hidden if span[1] > told_ms)
        if self.is_lost and self.kind.kind not in _KEPT:
            self.rows = {key: row for key, row in self.rows.items() if _is_needed(row, needed)}
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
        if isinstance(row, DeviceClaim) and self._on_change is None:
            row = row.after(before)
        if isinstance(row, KubeNode) and self._on_change is None:
            row = node_turns.after(before, row, self._now_ms())
            self.gone_nodes.pop(key, None)
        self.rows[key] = row
        if self._on_change is not None:
            self._on_change(self.kind, key, row, False)

    def _remove(self, key: Key, at_ms: int) -> None:
        row = self.rows.pop(key, None)
        self.refused.pop(key, None)
        if isinstance(row, Gone):
            row = row.deleted(at_ms)
            if self._on_change is None:  # who is told of each needs no memory of them
                self.gone.append(row)
        if isinstance(row, KubeNode) and self._on_change is None:
            self.gone_nodes[key] = replace(row, gone_ms=at_ms)
        if row is not None and self._on_change is not None:
            self._on_change(self.kind, key, row, True)


def _needed_as(one: Gone) -> str | GroupKey | None:
    """By which those name it that still need what was deleted; None: nobody does."""
    match one:
        case OwnerObject():
            return one.uid
        case PodGroup():
            return one.key
    return None


def _is_named(row: Any) -> bool:  # noqa: ANN401 - whatever was made of an object
    """Whether others name it: what they belong to does not change."""
    return isinstance(row, OwnerObject | PodGroup | list)


def _is_needed(row: Any, needed: Set[str | GroupKey]) -> bool:  # noqa: ANN401
    """Whether pods that are shown name it, or a group in it."""
    some = row if isinstance(row, list) else [row]
    return any(_is_named(one) and _needed_as(one) in needed for one in some)


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
