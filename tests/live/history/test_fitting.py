"""What does not fit on its nodes as a whole is booked as far as it is there, by counts by hand."""

from typing import Any

import polars as pl
import pytest

from tests.ledger.sums import amounts
from tests.live.history.test_history import EPOCH_MS, NODES, PRICES, attempts, read
from tidemill.engine.fold.batch import fold_batch
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.live.history import gathered
from tidemill.live.history.advance import Advance, SourceAnswer
from tidemill.live.history.events import History, build
from tidemill.live.history.held import most_at_once
from tidemill.live.history.rows import SeenNode
from tidemill.model import events as ev
from tidemill.model.batch.convert import to_events
from tidemill.model.rows import Role, Shape
from tidemill.model.world import World

SMALL = [SeenNode(name="n0", gpus=4, gpu_type="h100"), SeenNode(name="n1", gpus=8, gpu_type="h100")]
GANG = Shape("a", (Role("part 0", 1, 8), Role("part 1", 2, 2)))
OVER = "shown on GPUs that others held, or that the node does not have"
SO = (
    "what found no free GPU is not booked; who found none at all, and is no gang, is from when one"
    " is free"
)


def _held(history: History) -> int:
    """Milli·ms that jobs held by the ledger."""
    found = amounts(read(history), "bucket")
    return sum(found[(bucket,)] for bucket in ALLOCATED)


def test_of_a_replica_that_others_hold_in_part_the_rest_is_booked():
    """8 GPUs of which others hold 3 for the whole time: 3 and 5 are held, 3 are over, named."""
    rows = attempts(
        {"job": "first", "gpus": 3, "nodes": ["n1"], "start_ms": 0, "end_ms": 100},
        {"job": "second", "gpus": 8, "nodes": ["n1"], "start_ms": 0, "end_ms": 100},
    )
    history = build(rows, NODES, PRICES)
    assert _held(history) == 3_000 * 100 + 5_000 * 100
    assert history.over == 1
    assert history.said_over == [f"1 attempt {OVER} (`second`): {SO}"]


ONE = [SeenNode(name="m1", gpus=1, gpu_type="h100")]
AFTER = attempts(
    {"job": "o1", "gpus": 1, "nodes": ["m1"], "submit_ms": 20, "start_ms": 20, "end_ms": 40},
    {"job": "o2", "gpus": 1, "nodes": ["m1"], "submit_ms": 30, "start_ms": 30, "end_ms": 50},
)
"""The second has the GPU alone in the last 10 of 30 ms."""
OF_JOBS = (ev.JobSubmitted, ev.PlacementSeen, ev.JobStarted, ev.JobFinished, ev.JobFailed)


def test_what_an_attempt_has_alone_once_others_ended_is_booked():
    """Two attempts on one GPU, 20-40 and 30-50: 30 are held, by 20 and 10; nobody waited."""
    history = build(AFTER, ONE, PRICES, until_ms=EPOCH_MS + 60)
    statement = read(history)
    found = amounts(statement, "job", "bucket")
    held = {job: sum(found[job, bucket] for bucket in ALLOCATED) for job in (0, 1)}
    assert held == {0: 20_000, 1: 10_000}
    assert history.over == 1
    assert not any(found[1, bucket] for bucket in Bucket if bucket not in ALLOCATED)


def test_what_finds_no_gpu_up_to_its_end_is_not_booked():
    """The second ends before the first does: 20 are held, and it is counted."""
    rows = AFTER.with_columns(end_ms=pl.Series([EPOCH_MS + 50, EPOCH_MS + 40]))
    history = build(rows, ONE, PRICES, until_ms=EPOCH_MS + 60)
    assert _held(history) == 30_000
    assert history.over == 1


@pytest.mark.parametrize("mark", [10, 25, 35, 40, 45, 55])
def test_observers_book_it_as_imports_do(mark: int):
    """Asked once or twice, an observer has the same events."""

    def told(*marks: int) -> list[Any]:
        world, found = World(), list[Any]()
        for at in marks:
            now = EPOCH_MS + at
            is_over = (pl.col("end_ms") <= now).fill_null(value=False)
            rows = AFTER.filter(pl.col("start_ms") <= now)
            rows = rows.with_columns(end_ms=pl.when(is_over).then("end_ms"))
            going = Advance(world, EPOCH_MS, SourceAnswer(rows, ONE, now), PRICES)
            for batch in going.batches(now):
                fold_batch(world, batch)
                found += [e for e in to_events(batch) if isinstance(e, OF_JOBS)]
        return found

    assert told(mark, 60) == told(60)
    placed = [e for e in told(60) if isinstance(e, ev.PlacementSeen)]
    assert [(e.at_ms, e.job, e.attempt, len(e.pieces), e.over_milli) for e in placed] == [
        (20, 0, 1, 1, 0), (30, 1, 1, 0, 1_000), (40, 1, 1, 1, 0)
    ]  # fmt: skip


POD = Shape("a", (Role("worker", 1, 6),))


MINUTE = 60_000


def _pods(now: int) -> pl.DataFrame:
    """Node of 8: a plain job has 4 of it in minutes 0-6, a pod 6 from minute 3 on."""
    at = {"start_ms": 3 * MINUTE, "submit_ms": 3 * MINUTE}
    pod = {"job": "b", "gpus": 6, "nodes": ["n1"], "roles": [0], "shape": 0} | at
    plain = {"job": "a", "gpus": 4, "nodes": ["n1"], "start_ms": 0}
    end = 9 * MINUTE if now >= 9 * MINUTE else None
    return attempts(
        plain | {"end_ms": 6 * MINUTE if now >= 6 * MINUTE else None},
        *([pod | {"end_ms": end}] if now >= 3 * MINUTE else []),
    )


@pytest.mark.parametrize("minutes", [(10,), (4, 10), (4, 7, 10)])
def test_of_a_pod_the_rest_is_booked_too(minutes: tuple[int, ...]):
    """4 of its 6 GPUs are free: they are its own for all of its time, imported or observed."""
    marks = [MINUTE * minute for minute in minutes]
    last = EPOCH_MS + 10 * MINUTE
    history = build(_pods(10 * MINUTE), SMALL, PRICES, until_ms=last, shapes=[POD])
    assert _held(history) == 4_000 * 6 * MINUTE + 4_000 * 6 * MINUTE
    world = World()
    for at in marks:
        going = Advance(
            world, EPOCH_MS, SourceAnswer(_pods(at), SMALL, EPOCH_MS + at, shapes=[POD]), PRICES
        )
        for batch in going.batches(EPOCH_MS + at):
            fold_batch(world, batch)
        held = [piece.devices.bit_count() for piece in world.placements.get(1, ())]
        assert held == ([4] if at < 9 * MINUTE else [])
    assert world.job_names[:3] == ["a", "b"]


@pytest.mark.parametrize(
    ("overlaps_s", "gpus_after"), [(2, 8), (60, 8), (61, 5)], ids=["2 s", "60 s", "61 s"]
)
def test_what_others_leave_within_a_minute_is_the_next_ones(overlaps_s: int, gpus_after: int):
    """Clocks that differ do not cost a job its GPUs for all of its life; who overlaps for longer
    contradicts the others, and keeps what it found.
    """
    hour, overlap = 3_600_000, 1000 * overlaps_s
    rows = attempts(
        {"job": "first", "gpus": 3, "nodes": ["n1"], "start_ms": 0, "end_ms": hour + overlap},
        {"job": "second", "gpus": 8, "nodes": ["n1"], "start_ms": hour, "end_ms": 2 * hour},
    )
    history = build(rows, NODES, PRICES)
    statement = read(history)
    found = amounts(statement, "job", "bucket")
    held = {job: sum(found[job, bucket] for bucket in ALLOCATED) for job in (0, 1)}
    assert held[0] == 3_000 * (hour + overlap)
    assert held[1] == 5_000 * overlap + gpus_after * 1_000 * (hour - overlap)
    assert statement.world.jobs.attempt.item(1) == 1, "it is one attempt all the same"


@pytest.mark.parametrize(("overlaps_s", "gpus_after"), [(2, 12), (60, 12), (61, 8)])
def test_a_replica_of_a_gang_takes_what_others_leave_within_a_minute(
    overlaps_s: int, gpus_after: int
):
    """Three replicas of four GPUs; one is placed a little before who was there is over."""
    hour, overlap = 3_600_000, 1000 * overlaps_s
    gang = Shape("a", (Role("worker", 3, 4),))
    seats = {"nodes": ["n0", "n1", "n1"], "roles": [0, 0, 0], "shape": 0, "gpus": 12}
    rows = attempts(
        {"job": "old", "gpus": 4, "nodes": ["n0"], "start_ms": 0, "end_ms": hour + overlap},
        {"job": "z", "start_ms": hour, "up_ms": hour, "end_ms": 2 * hour} | seats,
    )
    statement = read(build(rows, SMALL, PRICES, shapes=[gang]))
    found = amounts(statement, "job", "bucket")
    held = sum(found[1, bucket] for bucket in ALLOCATED)
    assert held == 8_000 * overlap + gpus_after * 1_000 * (hour - overlap)
    lost = found[1, Bucket.STARTING]
    assert lost == (8_000 * overlap if gpus_after == 12 else 0), "it works when it is whole"


def test_a_replica_that_waits_for_the_end_of_others_is_whole():
    """It begins in the moment in which others end: nothing is over, and it stays one replica."""
    rows = attempts(
        {"job": "first", "gpus": 3, "nodes": ["n1"], "start_ms": 0, "end_ms": 50},
        {"job": "second", "gpus": 8, "nodes": ["n1"], "start_ms": 50, "end_ms": 100},
    )
    history = build(rows, NODES, PRICES)
    assert _held(history) == 3_000 * 50 + 8_000 * 50
    assert history.over == 0
    world = World()
    for batch in build(rows, NODES, PRICES).batches():
        fold_batch(world, batch)
    assert [(r.count, r.accelerators) for r in world.shape_rows[1].roles] == [(1, 8)]


def _gang_rows(**more: Any) -> pl.DataFrame:
    seats = {"nodes": ["n0", "n1", "n1"], "roles": [0, 1, 1], "shape": 0}
    return attempts({"job": "gang", "gpus": 12, "start_ms": 0, "end_ms": 100} | seats | more)


@pytest.mark.parametrize("devices", [None, [0xFF, 0b0011, 0b1100]])
def test_a_gang_with_a_role_larger_than_its_node_is_on_the_books(devices: list[int] | None):
    """Of 8 GPUs on a node of 4, 4 are held; of the other role all 4; it is named, once."""
    history = build(_gang_rows(devices=devices), SMALL, PRICES, shapes=[GANG])
    assert _held(history) == 4_000 * 100 + 4_000 * 100
    assert any("`gang`: 8 on n0, listed with 4" in note for note in history.notes)
    assert (history.over, history.said_over) == (1, [])


def _observed(rows: pl.DataFrame, until_ms: int, shapes: list[Shape]) -> tuple[World, Advance]:
    world = World()
    answer = SourceAnswer(rows, SMALL, EPOCH_MS + until_ms, shapes=shapes)
    going = Advance(world, EPOCH_MS, answer, PRICES)
    for batch in going.batches(EPOCH_MS + until_ms):
        fold_batch(world, batch)
    return world, going


def test_observers_name_them_in_the_same_words():
    """A plain job and a gang that are larger than their node: once, in the words of an import."""
    plain = attempts({"job": "p", "gpus": 8, "nodes": ["n0"], "start_ms": 0, "end_ms": 100})
    for rows, shapes in ((plain, []), (_gang_rows(), [GANG])):
        history = build(rows, SMALL, PRICES, until_ms=EPOCH_MS + 200, shapes=shapes)
        assert _held(history)
        _, going = _observed(rows, 200, shapes)
        said = [note for note in history.notes if "listed with" in note] + history.said_over
        assert len(said) == 1
        assert [note for note in going.notes if note in said] == said
        _, later = _observed(rows, 50, shapes)
        assert [note for note in later.notes if note in said] == said
        assert not any(OVER in note for note in (*going.notes, *later.notes))
    held = {
        piece.role: piece.replicas for piece in _observed(_gang_rows(), 50, [GANG])[0].placements[0]
    }
    assert held == {0: 4, 1: 2}


def test_an_observer_keeps_what_others_leave_of_a_new_job():
    """3 of 8 GPUs are held when it is first seen: 5 are its own, by the state of the cluster."""
    rows = attempts(
        {"job": "first", "gpus": 3, "nodes": ["n1"], "start_ms": 0},
        {"job": "second", "gpus": 8, "nodes": ["n1"], "start_ms": 10},
    )
    world, going = _observed(rows, 100, [])
    assert [piece.devices.bit_count() for piece in world.placements[1]] == [5]
    assert going.over == 1
    assert any("(`second`)" in note for note in going.notes)


def test_parts_by_ranges_of_names_are_the_whole(monkeypatch: pytest.MonkeyPatch):
    """A table that is put in order in ranges of a few rows gives the same events."""
    rows = attempts(*(
        {"job": f"j{i * 37 % 100}", "gpus": 1 + i % 8, "nodes": [f"n{i % 4}"], "user": "u",
         "submit_ms": 5 * i, "start_ms": 5 * i + i % 3, "end_ms": 5 * i + 2 + i % 40}
        for i in range(150)
    ))  # fmt: skip

    def told() -> list[Any]:
        history = build(rows, NODES, PRICES)
        return [(b.events.tolist(), b.pieces.tolist(), b.jobs.tolist(), b.job_names)
                for b in history.batches()] + [history.notes, history.over]  # fmt: skip

    whole = told()
    monkeypatch.setattr(gathered, "AT_ONCE", 16)
    monkeypatch.setattr(gathered, "MOST_IN_MEMORY", 8)
    assert told() == whole


def test_the_most_that_was_held_is_that_of_a_count_by_hand():
    """Two at once on one node, one after the other on another; who goes on holds for ever."""
    rows = attempts(
        {"gpus": 2, "nodes": ["x"], "start_ms": 0, "end_ms": 10, "gpu_type": "a"},
        {"gpus": 3, "nodes": ["x"], "start_ms": 5, "gpu_type": "b"},
        {"gpus": 4, "nodes": ["y", "x"], "start_ms": 10, "end_ms": 20, "gpu_type": "b"},
    )
    assert [*most_at_once([rows])] == [("x", 5, "b"), ("y", 2, "b")]
    assert [*most_at_once([rows[:1], rows[1:]], ["y"])] == [("x", 5, "b")]
