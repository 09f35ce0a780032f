"""Files of records are read line by line: the good lines count, whatever stands beside them."""

import gzip
import json
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.live.track import read
from tidemill.live.track.reader import RefusedLine, TrackReader
from tidemill.live.track.records import StepsRecord, UnusableRecord, parse
from tidemill.live.track.seen import SeenNumbers, SeqGap
from tidemill.model.errors import SpecError
from tidemill.track.format import LONGEST_LINE

T0 = 1_794_847_225_000_000
HEAD = {"v": 1, "job": "train", "run": "r1", "rank": 0}


def line(kind: str = "restored", seq: int = 0, **fields: object) -> bytes:
    """A record as a line."""
    made: dict[str, Any] = {**HEAD, "is": kind, "seq": seq, "at_us": T0, **fields}
    return json.dumps({k: v for k, v in made.items() if v is not None}).encode() + b"\n"


def stretch(seq: int = 0, **fields: object) -> bytes:
    """A record of steps as a line: two steps in ten milliseconds."""
    made = {
        "at_us": None, "from_us": T0, "until_us": T0 + 10_000, "skew_us": 0, "steps": 2,
        "data_us": 1_000, "compute_us": 8_000, "other_us": 1_000, "first_step": 1, "last_step": 2,
        "min_step_us": 4_000, "median_step_us": 4_000, "max_step_us": 5_000,
    }  # fmt: skip
    return line("steps", seq, **(made | fields))


def written(folder: Path, *lines: bytes, name: str = "a.jsonl") -> Path:
    """A file of these lines."""
    path = folder / name
    path.write_bytes(b"".join(lines))
    return path


def test_a_record_is_typed_and_unknown_fields_are_passed_over():
    """A later version may add fields; what is absent is unknown."""
    record = parse(stretch(from_a_later_version={"deep": [1]}))
    assert isinstance(record, StepsRecord)
    assert (record.steps, record.compute_us, record.communication_us) == (2, 8_000, None)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"\x00\xff{\n", "it is not JSON: found "),
        (b"[]\n", "expected an object; found []"),
        (line(v=2), "version 2; this reader knows version 1"),
        (line(v="1"), "version '1'"),
        (line("slept"), "`is`: expected one of job_began, steps, load"),
        (line(seq=-1), "`seq`: expected a whole number >= 0; found -1"),
        (line(seq=2**64), "`seq`: expected a whole number <= 9223372036854775807"),
        (line(at_us=1_794_847_225), "found 1794847225 (microseconds since 1970"),
        (line(at_us=T0 * 1000), "(microseconds since 1970, from the year 2000 to 2100)"),
        (line(job=""), "length >= 1"),
        (line(job="x" * 201), "length <= 200"),
        (line(step=1.5), "`step`: expected a whole number or nothing; found "),
        (line(step=True), "`step`: expected a whole number or nothing; found "),
        (line(at_us=None), "`at_us` is missing"),
        (b'{"v":1,"is":' + b"[" * 5000 + b"\n", "nested too deep"),
        (line(why="x" * LONGEST_LINE), "bytes; a record has at most 16,384"),
        (stretch(data_us=999), "the parts add up to 9999 µs, the stretch has 10000 µs"),
        (stretch(until_us=T0 - 1), "the stretch has -1 µs"),
        (
            stretch(steps=0),
            "0 steps ended: first_step, last_step, min_step_us, median_step_us and max_step_us",
        ),
        (stretch(first_step=None), "2 steps ended: first_step, last_step, "),
        (stretch(up_us=T0 - 1), "`up_us` is -1 µs after `from_us`; until then all is `other_us`"),
        (stretch(up_us=T0 + 9_999), "`up_us` is 9999 µs after `from_us`; until then all is"),
        (stretch(median_step_us=6_000), "step times 4000, 6000, 5000 µs are not in order"),
        (
            line("job_ended", outcome="exploded"),
            "`outcome`: expected one of finished, failed, interrupted; found",
        ),
    ],
)
def test_a_bad_line_is_refused_by_number_and_reason(tmp_path: Path, bad: bytes, why: str):
    """The lines before and after it count."""
    path = written(tmp_path, line(seq=0), bad, line(seq=1))
    readings = read(path)
    assert [one.seq for one in readings.records] == [0, 1]
    assert [(one.path, one.line) for one in readings.refused] == [(path, 2)]
    assert why in readings.refused[0].why
    assert len(readings.refused[0].why) <= 300
    assert str(readings.refused[0]).startswith(f"`{path}`, line 2: ")


def test_what_came_again_is_read_once(tmp_path: Path):
    """The same record in one file or in two; another rank or run has numbers of its own."""
    written(tmp_path, line(seq=0), line(seq=0), line(seq=0, rank=1), name="a.jsonl")
    written(tmp_path, line(seq=0), line(seq=0, run="r2"), name="b.jsonl")
    written(tmp_path, b"not ours", name="notes.txt")
    readings = read(tmp_path)
    assert [(one.run, one.rank) for one in readings.records] == [("r1", 0), ("r1", 1), ("r2", 0)]
    assert readings.repeated == 2


def test_numbers_that_are_missing_are_told(tmp_path: Path):
    """Per run and rank; records out of order leave no gap."""
    path = written(
        tmp_path, *(line(seq=seq) for seq in (1, 0, 5, 7)), line(seq=2, run="r0", rank=3)
    )
    assert read(path).gaps == [
        SeqGap("r0", 3, 0, 1), SeqGap("r1", 0, 2, 4), SeqGap("r1", 0, 6, 6),
    ]  # fmt: skip


def test_a_file_that_ends_within_a_line(tmp_path: Path):
    """Its writer was killed: said so, and not refused. A whole record without an end counts."""
    cut = written(tmp_path, line(seq=0), line(seq=1)[:-20], name="a.jsonl")
    written(tmp_path, line(seq=2)[:-1], name="b.jsonl")
    written(tmp_path, name="c.jsonl")
    readings = read(tmp_path)
    assert [one.seq for one in readings.records] == [0, 2]
    assert (readings.truncated, readings.refused) == ((cut,), [])


def test_a_packed_file_is_read_as_it_was(tmp_path: Path):
    """With gzip, alone or in a folder; one without its end keeps what is before it."""
    lines = [line(seq=seq) for seq in range(100)]
    packed = gzip.compress(b"".join(lines))
    (tmp_path / "a.jsonl.gz").write_bytes(packed)
    assert [record.seq for record in read(tmp_path).records] == list(range(100))
    (tmp_path / "a.jsonl.gz").write_bytes(packed[:-20])
    readings = read(tmp_path / "a.jsonl.gz")
    assert readings.truncated == (tmp_path / "a.jsonl.gz",)
    assert [record.seq for record in readings.records] == list(range(len(readings.records)))
    (tmp_path / "a.jsonl.gz").write_bytes(lines[0])
    with pytest.raises(SpecError, match="cannot be unpacked"):
        read(tmp_path)


def test_a_file_cut_anywhere_keeps_what_is_before(tmp_path: Path):
    """At every byte: the whole lines before the cut are read, nothing is refused."""
    text = line(seq=0) + stretch(seq=1) + line(seq=2)
    ends = [i + 1 for i, byte in enumerate(text) if byte == 10]
    for cut in range(0, len(text), 3):
        readings = read(written(tmp_path, text[:cut]))
        assert len(readings.records) in (n := sum(end <= cut for end in ends), n + 1)
        assert readings.refused == []


def test_a_file_of_something_else_is_bounded(tmp_path: Path):
    """A gigabyte of one line would not be kept; a thousand reasons are, the rest is counted."""
    luck = Random(1)
    path = written(tmp_path, b"x" * 3_000_000, b"\n", line(seq=0))
    tracemalloc.start()
    readings = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500_000
    assert len(readings.records) == 1
    assert readings.refused[0].line == 1
    noise = b"\n".join(luck.randbytes(5).replace(b"\n", b" ") + b"!" for _ in range(1500)) + b"\n"
    readings = read(written(tmp_path, noise))
    assert (len(readings.refused), readings.refused_in_all) == (1000, 1500)


def test_records_are_streamed(tmp_path: Path):
    """One after the other; what was refused so far is known on the way."""
    path = written(tmp_path, line(seq=0), b"?\n", line(seq=3))
    reader = TrackReader()
    records = reader.stream(path)
    assert next(records).seq == 0
    assert reader.refused == []
    assert next(records).seq == 3
    assert reader.refused == [RefusedLine(path, 2, "it is not JSON: found `?`")]
    assert reader.gaps() == [SeqGap("r1", 0, 1, 2)]


def test_a_path_that_is_not_there(tmp_path: Path):
    """What to give instead is said."""
    with pytest.raises(SpecError, match="does not exist") as caught:
        read(tmp_path / "nothing")
    assert "TIDEMILL_TRACK" in caught.value.hint


@given(st.lists(st.integers(0, 40)))
def test_seen_numbers_are_a_set(numbers: list[int]):
    """Against Python's own set: what is new, and what is missing below the highest."""
    seen, known = SeenNumbers(), set[int]()
    for number in numbers:
        assert (number in seen) == (number in known)
        assert seen.add(number) == (number not in known)
        known.add(number)
    missing = [n for first, last in seen.missing() for n in range(first, last + 1)]
    assert missing == [n for n in range(max(known, default=0)) if n not in known]


@given(st.binary(max_size=300))
def test_noise_is_refused(data: bytes):
    """Noise is refused with a reason, and nothing else comes out of it."""
    with pytest.raises(UnusableRecord, match=r"."):
        parse(data)
