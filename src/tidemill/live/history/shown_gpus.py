"""Accelerators that nodes stop to advertise, and advertise again: which of the books' devices fail.

A source says how many a node gives out, and not which. The last ones that nobody holds fail, the
others as they get free: what is held stays booked. They are repaired as soon as they are shown
again, and those that a job is seen on though they were taken for failed are repaired for it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tidemill.live.history.rows import SeenNode
from tidemill.live.history.seating import Seating, SeatRequest
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.states import HOSTING, NodeState
from tidemill.model.world import World


class Advertised(NamedTuple):
    """How many accelerators a node shows from a moment on."""

    gpus: int


class DeviceTurn(NamedTuple):
    """A device that fails, or that works again."""

    node: int
    device: int
    is_failed: bool


class ShownDevices:
    """Of nodes whose source says how many accelerators they show: those that are out.

    ``sizes``: how many each node has, by number.
    """

    def __init__(self, world: World, sizes: Sequence[int], seating: Seating) -> None:
        self._sizes, self._seating = sizes, seating
        self._lacking = dict[int, int]()
        """How many a node does not show, by number; nodes of which nobody says it are absent."""
        self._failed = _failed(world)
        """Their masks, by node."""
        for n, mask in self._failed.items():
            seating.close(n, mask)
        self._turned = list[DeviceTurn]()

    def begins(self, n: int, node: SeenNode, mark_ms: int) -> None:
        """What a node shows at a moment, if anybody says."""
        for at_ms, count in node.advertised:
            if at_ms <= mark_ms:
                self.shows(n, count)

    def shows(self, n: int, count: int) -> None:
        """A node shows so many from now on."""
        self._lacking[n] = max(0, self._sizes[n] - count)

    def is_short(self, n: int) -> bool:
        """Whether more are held on a node than it shows: the next that get free fail."""
        return self._lacking.get(n, 0) > self._failed.get(n, 0).bit_count()

    def settle(self, n: int, state: NodeState) -> None:
        """As many devices of a node fail, or work again, as bring it nearer to what it shows."""
        if n not in self._lacking or state not in HOSTING:
            return
        failed, more = self._failed.get(n, 0), self._lacking[n]
        more -= failed.bit_count()
        for device in _devices(failed)[: max(0, -more)]:
            self._repair(n, device)
        for device in self._seating.free_devices(n)[-more:] if more > 0 else ():
            self._failed[n] = self._failed.get(n, 0) | 1 << device
            self._seating.close(n, 1 << device)
            self._turned.append(DeviceTurn(n, device, is_failed=True))

    def make_way(self, who: int, asked: SeatRequest) -> None:
        """An attempt is seen to hold more on nodes than works there: so much is repaired."""
        for n in {*asked.nodes} & self._failed.keys() if asked.roles is not None else ():
            told = 0
            count = -sum(one.devices.bit_count() for one in self._seating.held(who)
                         if one.node == n)  # fmt: skip
            for i, (role, at) in enumerate(zip(asked.roles or (), asked.nodes, strict=True)):
                if at == n and asked.shape[role].milli == WHOLE_MILLI:
                    count += asked.shape[role].accelerators
                    told |= asked.masks[i] if asked.masks else 0
            lost = _devices(self._failed[n])
            named = [device for device in lost if told >> device & 1]
            count -= len(self._seating.free_devices(n)) + len(named)
            others = [device for device in lost if device not in named]
            for device in [*named, *others[: max(0, count)]]:
                self._repair(n, device)

    def turned(self) -> list[DeviceTurn]:
        """Devices that failed, or work again, since this was last asked."""
        found, self._turned = self._turned, []
        return found

    def _repair(self, n: int, device: int) -> None:
        self._failed[n] &= ~(1 << device)
        self._seating.open(n, 1 << device)
        self._turned.append(DeviceTurn(n, device, is_failed=False))


def turns_of(n: int, node: SeenNode) -> list[tuple[int, int, Advertised]]:
    """When a node shows more or fewer accelerators than before."""
    return [(at_ms, n, Advertised(count)) for at_ms, count in node.advertised]


def _failed(world: World) -> dict[int, int]:
    """The devices that failed alone, by node."""
    found, first = dict[int, int](), world.nodes.first_device[: world.node_count]
    devices = np.flatnonzero(world.devices.is_failed[: world.device_count])
    for d, n in zip(devices.tolist(), (np.searchsorted(first, devices, "right") - 1).tolist(),
                    strict=True):  # fmt: skip
        found[n] = found.get(n, 0) | 1 << (d - first.item(n))
    return found


def _devices(mask: int) -> list[int]:
    return [device for device in range(mask.bit_length()) if mask >> device & 1]


def left(seating: Seating, shown: ShownDevices, nodes: Iterable[int]) -> list[int]:
    """Of nodes that somebody left those that may change now: empty ones, and short ones."""
    return [n for n in sorted({*nodes}) if seating.is_empty(n) or shown.is_short(n)]
