"""Exports of several moments: what a later one that lacks an object says of it.

Files show what was there when they were made. An object that a later export would show, and does
not, was gone by then: it went between the last export that shows it and the first that lacks it.
An export says that of what it lists, if it is *whole*: it lists nodes and pods, in a list that the
server did not cut. A list of a single namespace says nothing of others, a single object or a list
without nodes nothing of what is not in it, and one that shares no node or pod with others may be of
another cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from tidemill.live.kubernetes import fields, moments
from tidemill.live.kubernetes.fields import MalformedObjectError, Object

Kind = tuple[str, str]
"""API group and kind."""
Key = tuple[str, str]
"""Namespace and name."""
NODES, PODS = ("", "Node"), ("", "Pod")


class LastShown(NamedTuple):
    """An object that later exports do not show; times since 1970."""

    last_ms: int
    """When the last export was made that shows it, by the youngest time in that."""
    gone_ms: int | None
    """The same of the first that lacks it; None: none says that it is gone."""


class _Ran(Struct):
    startedAt: str | None = None  # noqa: N815 - as the API writes it
    finishedAt: str | None = None  # noqa: N815


class _DatedState(Struct):
    running: _Ran | None = None
    terminated: _Ran | None = None


class _DatedContainer(Struct):
    state: _DatedState | None = None
    lastState: _DatedState | None = None  # noqa: N815


class _DatedCondition(Struct):
    type: str = ""
    status: str = ""
    lastHeartbeatTime: str | None = None  # noqa: N815
    lastTransitionTime: str | None = None  # noqa: N815


class _DatedStatus(Struct):
    conditions: list[_DatedCondition] | None = None
    containerStatuses: list[_DatedContainer] | None = None  # noqa: N815
    completionTime: str | None = None  # noqa: N815


class _DatedSpec(Struct):
    nodeName: object = None  # noqa: N815
    """Of a pod."""


class _DatedMeta(Struct):
    creationTimestamp: str | None = None  # noqa: N815


class _Dated(Struct):
    """The times of an object of any kind at which something had happened."""

    metadata: _DatedMeta | None = None
    spec: _DatedSpec | None = None
    status: _DatedStatus | None = None
    lastTimestamp: str | None = None  # noqa: N815
    eventTime: str | None = None  # noqa: N815


_DATED = msgspec.json.Decoder(_Dated)


class ExportFile:
    """What one file shows."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name = folder, name
        self.told_ms = 0
        """The youngest time in it, but for those that kubelets tell."""
        self.beats: dict[str, tuple[int, bool]] = {}
        """Heartbeats of its nodes, and whether they are Ready."""
        self.on: dict[str, int] = {}
        """By node: the youngest time that its kubelet tells of pods."""
        self.shown: dict[Kind, set[Key]] = {}
        self.listed: set[Kind] = set()
        """Kinds that it has a list of."""
        self.is_cut = False
        """Whether the server left the rest of a list for another page."""

    def show(self, kind: Kind, key: Key, one: Object | bytes, *, is_listed: bool) -> int:
        """It has an object; the youngest time in that."""
        dated = _dated(one)
        by_server_ms, by_node_ms = _youngest(_times(dated)), _youngest(_times_of_node(dated))
        found_ms = max(by_server_ms, by_node_ms)
        place = dated.spec.nodeName if dated.spec is not None else None
        if kind == NODES:
            self.beats[key[1]] = found_ms, _is_ready(dated)
        elif kind == PODS and isinstance(place, str):
            self.told_ms = max(self.told_ms, by_server_ms)
            self.on[place] = max(self.on.get(place, 0), by_node_ms)
        else:
            self.told_ms = max(self.told_ms, found_ms)
        if kind[1] == "Event":  # the server forgets them, and they hold nothing
            return found_ms
        self.shown.setdefault(kind, set()).add(key)
        if is_listed:
            self.listed.add(kind)
        return found_ms

    def covers(self, kind: Kind, namespace: str) -> bool:
        """Whether it lists a kind, of a namespace among others."""
        if kind not in self.listed:
            return False
        found = {key[0] for key in self.shown[PODS if PODS in self.listed else kind]}
        return len(found) > 1 or namespace in found

    @property
    def stem(self) -> str:
        """Its name without that of its kind: `pods-mon.json` and `nodes-mon.json` are together."""
        if len(self.listed) != 1:
            return self.name
        ((_, kind),) = self.listed
        return self.name.lower().replace(f"{kind.lower()}s", "")


class _FilesTogether(NamedTuple):
    """Files that were made together."""

    files: list[ExportFile]

    @property
    def moment_ms(self) -> int:
        """The youngest time in it, by clocks that are not ahead of most: about when it was made."""
        told_ms = max(file.told_ms for file in self.files)
        beats = {name: beat for file in self.files for name, beat in file.beats.items()}
        usual_ms = moments.usual(ms for ms, is_ready in beats.values() if is_ready)
        most_ms = max(usual_ms, told_ms) + moments.APART_MS if usual_ms is not None else None
        ahead = {name for name, (ms, _) in beats.items() if most_ms is not None and ms > most_ms}
        by_node = [(name, ms) for file in self.files for name, ms in file.on.items()]
        by_node += [(name, ms) for name, (ms, _) in beats.items()]
        return max(told_ms, *(ms for name, ms in by_node if name not in ahead), 0)

    @property
    def is_whole(self) -> bool:
        return self.lists(NODES) and self.lists(PODS) and not any(f.is_cut for f in self.files)

    def lists(self, kind: Kind) -> bool:
        return any(kind in file.listed for file in self.files)

    def covers(self, kind: Kind, namespace: str) -> bool:
        """Whether it would show an object of a namespace: a list of several is of all.

        What one file lists was asked for at once: its pods say of which namespaces.
        """
        return not namespace or any(file.covers(kind, namespace) for file in self.files)

    def things(self) -> Iterator[tuple[Kind, Key]]:
        """Its nodes and pods."""
        for file in self.files:
            for kind in (NODES, PODS):
                for key in file.shown.get(kind, ()):
                    yield kind, key


def last_shown(files: Iterable[ExportFile]) -> dict[Kind, dict[Key, LastShown]]:
    """The objects that are in no export of the last moment, by kind."""
    every = sorted(_together(files), key=lambda one: one.moment_ms)
    cluster, moment_ms = _clusters(every), [one.moment_ms for one in every]
    ends = dict[int, int]()
    shown = dict[Kind, dict[Key, int]]()
    for i, export in enumerate(every):
        ends[cluster[i]] = moment_ms[i]
        for file in export.files:
            for kind, keys in file.shown.items():
                shown.setdefault(kind, {}).update(dict.fromkeys(keys, i))
    found = dict[Kind, dict[Key, LastShown]]()
    for kind, mine in shown.items():
        tells = [i for i, one in enumerate(every) if one.is_whole and one.lists(kind)]
        for key, i in mine.items():
            last_ms = moment_ms[i]
            if last_ms == ends[cluster[i]]:
                continue
            later = (
                moment_ms[k]
                for k in tells
                if cluster[k] == cluster[i]
                and moment_ms[k] > last_ms
                and every[k].covers(kind, key[0])
            )
            found.setdefault(kind, {})[key] = LastShown(last_ms, next(later, None))
    return found


def _together(files: Iterable[ExportFile]) -> list[_FilesTogether]:
    """The files of a folder are one export, unless two of them list the same."""
    found = list[_FilesTogether]()
    for some in _by(files, lambda file: file.folder):
        if _is_one(some):
            found.append(_FilesTogether(some))
            continue
        for alike in _by(some, lambda file: file.stem):
            found += (
                [_FilesTogether(alike)]
                if _is_one(alike)
                else [_FilesTogether([one]) for one in alike]
            )
    return found


def _by(files: Iterable[ExportFile], name: Callable[[ExportFile], str]) -> list[list[ExportFile]]:
    found = dict[str, list[ExportFile]]()
    for file in files:
        found.setdefault(name(file), []).append(file)
    return list(found.values())


def _is_one(files: Iterable[ExportFile]) -> bool:
    """Whether no two of these files list the same kind in the same namespace."""
    seen = set[tuple[Kind, str]]()
    for file in files:
        mine = {(kind, namespace) for kind in file.listed for namespace, _ in file.shown[kind]}
        if seen & mine:
            return False
        seen |= mine
    return True


def _clusters(every: list[_FilesTogether]) -> list[int]:
    """By export the number of its cluster: those that share a node or a pod are of one."""
    above = list(range(len(every)))
    first = dict[tuple[Kind, Key], int]()
    for i, export in enumerate(every):
        for thing in export.things():
            a, b = _root(above, first.setdefault(thing, i)), _root(above, i)
            above[max(a, b)] = min(a, b)
    return [_root(above, i) for i in range(len(every))]


def _root(above: list[int], i: int) -> int:
    while above[i] != i:
        i = above[i]
    return i


def _dated(one: Object | bytes) -> _Dated:
    """The times of an object; none where they cannot be read."""
    try:
        if isinstance(one, Mapping):
            return msgspec.convert(one, _Dated)
        return _DATED.decode(one)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Dated()


def _is_ready(dated: _Dated) -> bool:
    told = dated.status.conditions if dated.status is not None else None
    return any(one.type == "Ready" and one.status == "True" for one in told or ())


_OF_SERVER = ("PodScheduled", "DisruptionTarget")
"""Conditions of pods that no kubelet sets."""


def _times(dated: _Dated) -> Iterator[str | None]:
    yield from (dated.lastTimestamp, dated.eventTime)
    if dated.metadata is not None:
        yield dated.metadata.creationTimestamp
    if dated.status is not None:
        yield dated.status.completionTime
        for condition in dated.status.conditions or ():
            if condition.type in _OF_SERVER:
                yield condition.lastTransitionTime


def _times_of_node(dated: _Dated) -> Iterator[str | None]:
    """Those of a node or a pod that are by the clock of its kubelet."""
    if dated.status is None:
        return
    for condition in dated.status.conditions or ():
        if condition.type not in _OF_SERVER:
            yield from (condition.lastHeartbeatTime, condition.lastTransitionTime)
    for container in dated.status.containerStatuses or ():
        for state in (container.state, container.lastState):
            for ran in (state.running, state.terminated) if state is not None else ():
                yield from (ran.startedAt, ran.finishedAt) if ran is not None else ()


def _youngest(some: Iterator[str | None]) -> int:
    return max((_ms(told) for told in some if told), default=0)


def _ms(told: str) -> int:
    try:
        return fields.moment_ms({"time": told}, "time") or 0
    except MalformedObjectError:
        return 0
