"""Loops whose clock is not the scheduler's are said: on the real records of one H200."""

import polars as pl
import pytest

from tests.conftest import ROOT
from tidemill.live.measured import clocks, loops
from tidemill.live.track import read
from tidemill.live.track.records import TrackRecord

RECORDS = ROOT / "examples" / "track" / "h200" / "records.jsonl"
JOBS = ROOT / "examples" / "track" / "h200" / "jobs.csv"


def said(ahead_s: int) -> list[str]:
    """What is said where the jobs ran by a clock that is so much ahead of the scheduler's."""
    told: list[TrackRecord] = [*read(RECORDS).records]
    launches = loops.launches(told)
    ms = {f"{name}_ms": (pl.col(name) * 1000).cast(pl.Int64) - 1000 * ahead_s
          for name in ("start", "end")}  # fmt: skip
    attempts = pl.read_csv(JOBS).with_columns(**ms)
    return [*clocks.said([*clocks.contradictions(launches, attempts, "track")], len(launches))]


def test_loops_within_their_jobs_need_no_word():
    """Nor do clocks that differ by less than a job takes to end."""
    assert said(0) == said(3) == []


@pytest.mark.parametrize(
    ("ahead_s", "word"),
    [(300, "`shared`, its loop ran 4m 59s after its end"),
     (-120, "`shared`, its loop ran 1m 59s before its start")],
)  # fmt: skip
def test_a_clock_that_is_minutes_off_is_said(ahead_s: int, word: str):
    """By how much, of which job, and on which side."""
    (text,) = said(ahead_s)
    assert text.startswith("5 of 5 tracked launches reach beyond")
    assert word in text
