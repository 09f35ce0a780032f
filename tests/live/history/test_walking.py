"""Moments are told one after the other: the kernel against sets of devices in plain Python."""

from collections import defaultdict
from random import Random
from typing import Any

import pytest

from tests.live.history.test_history import EPOCH_MS, PRICES, attempts
from tidemill.live.history.events import build
from tidemill.live.history.fitting import BRIEF_MS
from tidemill.live.history.rows import SeenNode
from tidemill.model import events as ev
from tidemill.model.batch.convert import to_events

SIZES = (4, 8, 8, 64)
Told = tuple[int, str, str, frozenset[tuple[str, int]], int]
"""When, what, to which job, on which devices of which nodes, and how many found none."""


def _rows(luck: Random, unit_ms: int, *, is_named: bool) -> list[dict[str, Any]]:
    """Jobs of one attempt each, more of them at once than there is room for."""
    found = []
    for i in range(120):
        nodes = sorted(luck.sample([f"n{i}" for i in range(len(SIZES))], luck.choice((1, 1, 2, 3))))
        gpus = luck.choice((1, 1, 2, 4, 8)) * len(nodes)
        start = luck.randrange(300)
        times = {
            "submit_ms": start - luck.randrange(20), "start_ms": start,
            "end_ms": start + luck.choice((0, 1, 30, 90)),
        }  # fmt: skip
        row = {name: unit_ms * at for name, at in times.items()} | {"job": f"j{i:03}", "gpus": gpus}
        if is_named:
            row |= {"nodes": nodes}
            if luck.random() < 0.5:
                row |= {"devices": [luck.choice((0b11, 0b1100, 0xFF, 1 << 62)) for _ in nodes]}
        found.append(row)
    return found


def _by_hand(rows: list[dict[str, Any]], begins: int) -> set[Told]:
    """The same with a set of free devices for each node."""
    free = {f"n{i}": set(range(size)) for i, size in enumerate(SIZES)}
    held = defaultdict[str, set[tuple[str, int]]](set)
    found, lacking = set[Told](), dict[str, dict[str, Any]]()
    for at in sorted({row[name] for row in rows for name in ("start_ms", "end_ms")}):
        begins_now = {row["job"]: row for row in rows if row["start_ms"] == at}
        ends_now = [row["job"] for row in rows if row["end_ms"] == at]
        for job in ends_now:
            lacking.pop(job, None)
            for node, device in held.pop(job, ()):
                free[node].add(device)
            found.add((at - begins, "end", job, frozenset(), 0))
        for job, row in sorted((lacking | begins_now).items()):
            before = len(held[job])
            if before and at - row["start_ms"] > BRIEF_MS:
                continue  # it works with what it found
            over = _seat(row, free, held[job]) if row["end_ms"] > at else 0
            if len(held[job]) > before or job in begins_now:
                found.add((at - begins, "place", job, frozenset(held[job]), over))
            if over and row.get("nodes"):
                lacking[job] = row
    return found


def _seat(row: dict[str, Any], free: dict[str, set[int]], held: set[tuple[str, int]]) -> int:
    """Take what is free of what a job was shown to hold, GPU by GPU; how many it lacks."""
    nodes, gpus = row.get("nodes"), row["gpus"]
    masks = row.get("devices") or [0] * len(nodes or free)
    left = gpus
    share = gpus // len(nodes or free)
    for node, mask in zip(nodes or sorted(free), masks, strict=True):
        has = {d for other, d in held if other == node}
        wanted = share - len(has) if nodes else left
        told = {d for d in range(64) if mask >> d & 1} - has
        fits = len(told) == wanted and told <= free[node]
        taken = told if fits else set(sorted(free[node])[:wanted])
        free[node] -= taken
        held |= {(node, d) for d in taken}
        left -= len(taken | has)
    return left


@pytest.mark.parametrize("unit_ms", [1, 1_500, 61_000])
@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_devices_are_given_and_taken_back_in_order(seed: int, is_named: bool, unit_ms: int):
    """Devices that were told, else the first that are free; the rest is over; ends before starts.

    What found nothing on the nodes it was shown on takes what is free there later; what found too
    little does within a minute.

    One of the nodes has 64 devices, so the last bit of a mask is used too.
    """
    rows = _rows(Random(seed), unit_ms, is_named=is_named)
    nodes = [SeenNode(name=f"n{i}", gpus=size, gpu_type="h") for i, size in enumerate(SIZES)]
    history = build(attempts(*rows), nodes, PRICES)
    names, added, found = list[str](), list[str](), set[Told]()
    for event in (event for batch in history.batches() for event in to_events(batch)):
        match event:
            case ev.NodeAdded():
                added.append(event.node.name)
            case ev.JobSubmitted():
                names.append(event.job.name)
            case ev.PlacementSeen():
                devices = frozenset(
                    (added[piece.node], d)
                    for piece in event.pieces for d in range(64) if piece.devices >> d & 1
                )  # fmt: skip
                over = event.over_milli // 1000
                found.add((event.at_ms, "place", names[event.job], devices, over))
            case ev.JobFinished() | ev.JobCancelled() | ev.JobFailed():
                found.add((event.at_ms, "end", names[event.job], frozenset(), 0))
    begins = history.begins_ms - EPOCH_MS
    assert found == _by_hand(rows, begins)
    assert history.over == sum(told[4] > 0 for told in found) > 0
