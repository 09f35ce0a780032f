"""Columns and batches as bytes: they come back, damage is refused, and they are few."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model import any_event
from tidemill.journal import columns, packing
from tidemill.journal.codec import UNREADABLE
from tidemill.model import events as ev
from tidemill.model.batch import Batch, Dictionary, EventColumn, convert
from tidemill.model.events import Event
from tidemill.model.rows import Job, Piece, Role, Shape

WHOLE = st.integers(-(2**63), 2**63 - 1)
COLUMNS = st.one_of(
    st.lists(WHOLE, max_size=40),
    st.lists(st.sampled_from([0, 7, -1, 2**62]), max_size=600),
    st.lists(st.integers(-300, 300), max_size=600),
)


def unpacked(body: bytes, count: int, dictionary: Dictionary) -> Batch:
    """The batch of so many events that was packed."""
    unpacking = packing.Unpacking([count])
    unpacking.add(body, count)
    return unpacking.batch(dictionary)


def naively_packed(numbers: list[int], in_steps: bool) -> bytes:
    """A column as ``journal.columns`` says: zero, one number, few of them, or all."""
    if len({*numbers}) < 2:
        return (
            (bytes([1]) + _planes(numbers[:1]) if any(numbers) else bytes([0])) if numbers else b""
        )
    steps = _steps(numbers) if in_steps else numbers
    table = sorted({*steps})
    if len(numbers) < 32 or len(table) > min(256, len(numbers) // 4):
        return bytes([4 if in_steps else 3]) + _planes(steps)
    head = bytes([2, in_steps, len(table) - 1])
    return head + _planes(_steps(table)) + bytes(table.index(step) for step in steps)


def _steps(numbers: list[int]) -> list[int]:
    """Differences, as 64 bits hold them."""
    every = (now - before for now, before in zip(numbers, [0, *numbers], strict=False))
    return [(step + 2**63) % 2**64 - 2**63 for step in every]


def _planes(numbers: list[int]) -> bytes:
    """The lowest bytes of all, then the next."""
    words = [(number << 1 if number >= 0 else ~number << 1 | 1) for number in numbers]
    planes = -(-max(words).bit_length() // 8)
    each = (bytes(word >> 8 * plane & 255 for word in words) for plane in range(planes))
    return bytes([planes]) + b"".join(each)


@given(COLUMNS, st.booleans())
def test_a_column_comes_back(numbers: list[int], in_steps: bool):
    """Whatever its numbers, a column comes back equal, and nothing of the bytes is left.

    The bytes are those that a plain reading of the format makes.
    """
    body = columns.pack(np.array(numbers, np.int64), in_steps=in_steps)
    assert body == naively_packed(numbers, in_steps)
    reader = columns.ColumnReader(body)
    assert list(reader.column(len(numbers))) == numbers
    reader.finish()


@given(st.lists(any_event.events(), min_size=1, max_size=8))
@settings(max_examples=30)
def test_a_batch_comes_back(events: list[Event]):
    """A batch and what it added to the dictionary are read back without what was there before."""
    written, read = Dictionary(), Dictionary()
    before = written.sizes()
    batch = convert.of_events(events, written)
    if (added := packing.added(written, before)) is not None:
        packing.add(read, added)
    assert read.sizes() == written.sizes()
    assert convert.to_events(unpacked(packing.pack(batch), len(events), read)) == events


def test_damaged_bodies_are_refused(story: list[Event]):
    """Bytes that were cut or turned over raise what readers expect, and nothing else."""
    batch, rng = convert.of_events(story, Dictionary()), Random("bodies")
    body = packing.pack(batch)
    for _ in range(300):
        broken = bytearray(body[: rng.choice((len(body), rng.randrange(len(body))))])
        if broken:
            broken[rng.randrange(len(broken))] ^= rng.randint(1, 255)
        try:
            unpacked(bytes(broken), len(story), batch.dictionary)
        except UNREADABLE:
            continue


def test_columns_of_a_newer_version_are_refused():
    """A batch that says more of its events than this version knows is not read in part."""
    body = columns.inflated(packing.pack(convert.of_events([ev.Woke(1)], Dictionary())))
    newer = columns.deflated(bytes([body[0] + 1]) + body[1:])
    with pytest.raises(ValueError, match="use a newer one"):
        unpacked(newer, 1, Dictionary())


def test_columns_that_are_lacking_are_zero():
    """A batch of before a column was added is read, with 0 in that column."""
    event = ev.NodeMoved(5, 1, to=2)  # type: ignore[arg-type]
    batch = convert.of_events([event], Dictionary())
    parts = [bytes([4, 0, 0]), *(columns.pack(batch.events[:, c]) for c in (0, 1, 2, 3, 4, 5))]
    older = unpacked(columns.deflated(b"".join(parts)), 1, Dictionary())
    assert older.events[0].tolist() == [5, 6, 1, 0, 0, 2, 0, 0, 0]


def test_additions_must_follow():
    """What a batch adds is refused where it was damaged, or where other rows are missing."""
    dictionary = Dictionary()
    before = dictionary.sizes()
    convert.of_events([_submitted(0)], dictionary)
    added = packing.added(dictionary, before)
    assert added is not None
    with pytest.raises(ValueError, match="checksum"):
        packing.add(Dictionary(), added[:-1] + b"?")
    with pytest.raises(ValueError, match="does not follow"):
        packing.add(dictionary, added)


@pytest.mark.parametrize(("size", "most"), [(4_096, 5), (64, 9), (8, 18)])
def test_an_event_takes_few_bytes(size: int, most: int):
    """The plain life of jobs takes a few bytes an event, names included, in small batches too."""
    events, dictionary, taken = _life(600), Dictionary(), 0
    for start in range(0, len(events), size):
        before = dictionary.sizes()
        batch = convert.of_events(events[start : start + size], dictionary)
        taken += len(packing.pack(batch)) + len(packing.added(dictionary, before) or b"")
    assert taken <= most * len(events)


def _life(jobs: int) -> list[Event]:
    """Jobs that come, start and end at random moments, on random nodes."""
    rng, told = Random("life"), list[Event]()
    for j in range(jobs):
        at_ms = rng.randrange(10**9)
        piece = Piece(0, rng.randrange(100), 1, 1 << rng.randrange(8))
        told += [
            _submitted(j, at_ms),
            ev.AskedPlace(at_ms, j, 1, (piece,)),
            ev.JobStarted(at_ms + 60_000, j, 1),
            ev.JobFinished(at_ms + 60_000 + rng.randrange(10**8), j, 1),
        ]
    return sorted(told, key=lambda event: event.at_ms)


def _submitted(j: int, at_ms: int = 0) -> Event:
    return ev.JobSubmitted(at_ms, Job(f"train-{j:05}", Shape(f"team-{j % 5}", (Role(),))))


def test_a_batch_has_no_room_for_doubt():
    """What is left out of the bytes is what the rest determines: where pools begin."""
    batch: Batch = convert.of_events(_life(10), Dictionary())
    body = packing.pack(batch)
    batch.events[:, EventColumn.FIRST] += 1
    assert packing.pack(batch) == body
