"""Which card it was that a driver reported errors of: a fact that is kept beside the events.

An event says node and number, as the driver counts its devices. A card that is replaced leaves its
number to the next, and its own name (NVIDIA's UUID) is what somebody needs who is to pull it out.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tidemill.journal import kept_facts

FACT = "device_ids"
MOST = 10_000
"""Changes that are kept; the last ones. Devices with errors are few."""
LONGEST = 80


class DeviceNamed(NamedTuple):
    """A device of a node by number was this card, from a moment on."""

    since_ms: int
    """From the zero of the journal."""
    node: str
    minor: int
    uuid: str


class DeviceIds:
    """The cards of nodes, as far as errors told them."""

    def __init__(self, told: Iterable[DeviceNamed] = ()) -> None:
        self._told: dict[tuple[str, int], list[tuple[int, str]]] = {}
        for one in sorted(told):
            self._told.setdefault((one.node, one.minor), []).append((one.since_ms, one.uuid))

    def at(self, node: str, minor: int, at_ms: int) -> str:
        """The card that had a number at a moment; empty: nobody said."""
        told = self._told.get((node, minor), [])
        before = bisect_right(told, at_ms, key=lambda one: one[0])
        return told[before - 1][1] if before else ""


def facts(known: Iterable[DeviceNamed], told: Iterable[DeviceNamed]) -> dict[str, str]:
    """What is kept after these errors too: only where a number is another card than before."""
    last, found = dict[tuple[str, int], str](), list[DeviceNamed]()
    for one in sorted([*known, *told]):
        if one.uuid and last.get((one.node, one.minor)) != one.uuid:
            last[one.node, one.minor] = one.uuid
            found.append(one._replace(uuid=one.uuid[:LONGEST]))
    return {FACT: msgspec.json.encode(found[-MOST:]).decode()} if found else {}


def of(kept: Mapping[str, str], where: str) -> list[DeviceNamed]:
    """What a journal keeps."""
    return kept_facts.read(kept, FACT, list[DeviceNamed], where) or []
