"""Errors that the drivers of devices reported, by node: read from the events of a journal.

They change no state, so they are looked up where somebody asks, and not for ever: what a driver
said months ago says nothing of today.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from tidemill.journal import device_ids
from tidemill.journal.base import Journal
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import EventColumn
from tidemill.model.measures import DAY_MS
from tidemill.model.tables import I64

LOOKED_BACK_MS = 30 * DAY_MS
_ERROR = codes.KIND_CODE[ev.DeviceErrorSeen]


class DeviceErrors(Struct, frozen=True):
    """One number of error on one node: how often, on which devices, since when."""

    xid: int
    times: int
    devices: tuple[int, ...]
    """As the driver counts them; empty: nobody said which."""
    uuids: tuple[str, ...]
    """The cards themselves, as NVIDIA names them; empty: nobody said."""
    first_ms: int
    last_ms: int


def of_nodes(
    journal: Journal, until_ms: int, names: Sequence[str]
) -> dict[int, tuple[DeviceErrors, ...]]:
    """By number of the node, the errors of the 30 days before a moment; the latest first.

    ``names``: of the nodes, by number, as their source calls them.
    """
    cards = device_ids.DeviceIds(device_ids.of(journal.facts(), journal.where))
    since_ms = until_ms - LOOKED_BACK_MS
    rows = _rows(journal, since_ms, until_ms)
    found = dict[int, list[DeviceErrors]]()
    for node, xid in sorted({(int(n), int(x)) for n, x in rows[:, [1, 3]]}):
        some = rows[(rows[:, 1] == node) & (rows[:, 3] == xid)]
        devices = tuple(sorted({int(minor) for minor in some[:, 2] if minor >= 0}))
        told = {cards.at(names[node], int(minor), int(at)) for at, _, minor, _ in some}
        one = DeviceErrors(
            xid, len(some), devices, tuple(sorted(told - {""})), int(some[:, 0].min()),
            int(some[:, 0].max()),
        )  # fmt: skip
        found.setdefault(node, []).append(one)
    return {
        node: tuple(sorted(some, key=lambda one: (-one.last_ms, one.xid)))
        for node, some in found.items()
    }


def _rows(journal: Journal, since_ms: int, until_ms: int) -> I64:
    """When, node, device and number of each error in a stretch of time."""
    columns = [EventColumn.AT, EventColumn.WHO, EventColumn.TO, EventColumn.VALUE]
    found = [np.zeros((0, len(columns)), np.int64)]
    for batch in journal.batches(max(journal.ends_before(since_ms), journal.first_kept())):
        events = batch.events
        if len(events) and events[0, EventColumn.AT] > until_ms:
            break
        at = events[:, EventColumn.AT]
        is_there = (events[:, EventColumn.KIND] == _ERROR) & (at >= since_ms) & (at <= until_ms)
        found.append(events[is_there][:, columns])
    return np.concatenate(found)
