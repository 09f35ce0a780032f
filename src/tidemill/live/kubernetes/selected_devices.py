"""What the selectors of claims (DRA) mean for books that count GPUs by node and by type.

Books have one GPU type for each node. So what a claim selects is told by the types of the nodes
that have such devices; that is all of it where every GPU of these nodes is such a device, and no
other node has their types. Else nobody can say there how many of what is free would do. Selectors
that are not understood select nothing out: what they mean is unknown.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tidemill.live.kubernetes import dra
from tidemill.live.kubernetes.dra import Device, DeviceId
from tidemill.live.kubernetes.resources import CLAIMED
from tidemill.model.measures import count_text
from tidemill.model.rows import SELECTED

ENOUGH = ", which is enough for it"
"""After how much is free."""
_CLAIMED = re.compile(f"{CLAIMED}(?!/)")


class SelectedDevices(NamedTuple):
    """The devices that requests select."""

    words: str
    """By which expressions."""
    nodes: frozenset[str] | None
    """Where there are as many as are wanted on one; None: nobody can say."""
    types: tuple[str, ...] = ()
    """The GPU types of the nodes that have some; () tells nothing."""
    is_exact: bool = False
    """Whether all GPUs of these types are such, and as many of them as are wanted would do."""
    resource: str = CLAIMED
    """As what they are counted."""
    choices: tuple["DeviceChoice", ...] = ()
    """Requests for other numbers of devices of which any does (`firstAvailable`)."""


class AlikeDevices(NamedTuple):
    """The devices that nodes publish of one sort: whole GPUs, or instances of a profile."""

    resource: str
    every: Sequence[Device]
    node: Mapping[DeviceId, str]
    type_of: Callable[[str], str]
    """The GPU type of a node; "": nobody says."""

    def selected(self, selectors: Sequence[str], shown: str, count: int) -> SelectedDevices | None:
        """Those for which expressions hold, so many of a node (0: all of it); None: all are so."""
        known = [one for one in selectors if not dra.unknown_in((one,))]
        mine = [device for device in self.every if dra.matches(known, device)]
        words = f"{devices_text(count)}{SELECTED}{shown}"
        if problem := dra.unknown_in(selectors):
            types = self._types(mine) if len(mine) < len(self.every) else ()
            words = f"{words} (not understood: {problem})"
            return SelectedDevices(words, None, types, resource=self.resource)
        if len(mine) == len(self.every):
            return None
        counts = self._by_node(mine)
        enough = frozenset(node for node, has in counts.items() if has >= max(1, count))
        whole = self._by_node(self.every)
        is_alone = all(counts[node] == whole[node] for node in counts)
        types = self._types(mine)
        if is_alone and self._tell(types, counts):  # how large nodes are tells the rest
            return SelectedDevices(words, frozenset(counts), types, True, self.resource)
        return SelectedDevices(words, enough, types, resource=self.resource)

    def alike(
        self, devices: Iterable[Device], attributes: tuple[str, ...], count: int
    ) -> SelectedDevices | None:
        """Nodes with so many of these that have attributes in common; None: that is so anywhere."""
        on = dict[str, list[Device]]()
        for device in devices:
            on.setdefault(self.node[device.id], []).append(device)
        most = {node: max(map(len, dra.alike(some, attributes).values()), default=0)
                for node, some in on.items()}  # fmt: skip
        enough = frozenset(node for node, has in most.items() if has >= count)
        is_plain = all(most[node] == len(on[node]) for node in enough)
        if is_plain and len(enough) == len(on):
            return None
        types = self._types([one for node in sorted(enough) for one in on[node]])
        words = alike_words(attributes, count)
        is_exact = is_plain and self._tell(types, enough)
        return SelectedDevices(words, enough, types, is_exact, self.resource)

    def _by_node(self, devices: Iterable[Device]) -> Counter[str]:
        return Counter(self.node[device.id] for device in devices)

    def _types(self, devices: Iterable[Device]) -> tuple[str, ...]:
        """The types of their nodes, where they are of those themselves; () tells nothing."""
        found = set[str]()
        for device in devices:
            node_type = self.type_of(self.node[device.id])
            if not node_type or device.gpu_type not in ("", node_type):
                return ()
            found.add(node_type)
        return tuple(sorted(found))

    def _tell(self, types: tuple[str, ...], nodes: Iterable[str]) -> bool:
        """Whether no other node has devices of these types."""
        others = self._by_node(self.every).keys() - {*nodes}
        return bool(types) and not {*types} & {*map(self.type_of, others)}


class DeviceChoice(NamedTuple):
    """One of several requests of which any does."""

    number: int
    selected: SelectedDevices | None
    """None: any device is such."""

    @property
    def words(self) -> str:
        """How many of which."""
        return self.selected.words if self.selected is not None else devices_text(self.number)

    @property
    def nodes(self) -> frozenset[str] | None:
        """Where there are so many; None: nobody can say, or anywhere."""
        return None if self.selected is None else self.selected.nodes


def devices_text(count: int) -> str:
    """So many devices; 0: all of a node."""
    return count_text(count, "device") if count else "all devices"


def either(some: Sequence[DeviceChoice]) -> SelectedDevices | None:
    """What a choice between requests selects (`firstAvailable`); None: any device is such."""
    if len(some) == 1:
        return some[0].selected
    is_equal = len({one.number for one in some}) == 1
    known = [one.selected for one in some if one.selected is not None]
    is_narrow = len(known) == len(some)
    if is_equal and not is_narrow:
        return None
    nodes = [one.nodes for one in some if one.nodes is not None]
    is_typed = is_narrow and all(one.types for one in known)
    return SelectedDevices(
        ", or else ".join(one.words for one in some),
        frozenset[str]().union(*nodes) if len(nodes) == len(some) else None,
        tuple(sorted({kind for one in known for kind in one.types})) if is_typed else (),
        is_equal and all(one.is_exact for one in known),
        known[0].resource if known else CLAIMED,
        () if is_equal else tuple(some),
    )


def said(words: str, types: Sequence[str], unkept: Iterable[str]) -> str:
    """Words about what is free, of a request by claims: of which types, and if that would do."""
    words = _CLAIMED.sub(f"{' or '.join(types) or 'GPUs'} by claim", words)
    if any(SELECTED in one for one in unkept):
        words = words.replace(ENOUGH, ", and whether its claims select as many is unknown")
    return words


def alike_words(attributes: Iterable[str], count: int) -> str:
    """So many devices that have attributes in common."""
    return f"{devices_text(count)}{SELECTED}{', '.join(attributes)} is the same (matchAttribute)"
