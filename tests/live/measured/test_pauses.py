"""Attempts that stood still, told look by look: in all as long as their scheduler says."""

from random import Random

import polars as pl
import pytest

from tidemill.live.measured import pauses
from tidemill.live.measured.pauses import PAUSES, ToldPauses
from tidemill.model.measures import ONE_PPM

LATE = 60


def looked_at(edges: list[int], start: int, end: int | None, now: int) -> pl.DataFrame:
    """What Slurm shows of an attempt that was stopped and went on at these moments, in turn."""
    before = [at for at in edges if at <= now]
    last = now if end is None or end > now else end
    stops = list(zip(before[::2], [*before[1::2], last], strict=False))
    if not before:
        return pl.DataFrame(schema=PAUSES)
    is_open, changed = len(before) % 2 == 1, before[-1]
    closed = sum(b - a for a, b in stops[: len(stops) - is_open])
    is_over = end is not None and end <= now
    after = (last - changed if is_over else None) if is_open else 0
    row = ("j", start, end if is_over else None, 2, closed, changed, after)
    return pl.DataFrame([row], schema=PAUSES, orient="row")


def stood_still(frame: pl.DataFrame, since: int, until: int) -> int:
    """For how long the windows say so, of the time that is told."""
    found = 0
    for row in frame.iter_rows(named=True):
        length = min(until, row["end_ms"]) - max(since, row["start_ms"])
        found += max(0, length) * (ONE_PPM - row["busy_ppm"]) // ONE_PPM
    return found


@pytest.mark.parametrize("seed", range(200))
def test_looks_at_any_time_tell_the_whole(seed: int):
    """However often it is stopped between two looks: what is told is what Slurm counts at last.

    What was told is all that is known from look to look: each may be another process.
    """
    luck = Random(seed)
    start = luck.randrange(1, 500)
    edges = sorted(luck.sample(range(start + 1, 4000), luck.randrange(1, 9)))
    end = luck.randrange(edges[-1] + 1, 4100)
    told, found = ToldPauses(0), 0
    looks = sorted({*luck.sample(range(start + LATE, 4100), luck.randrange(1, 40)), 4100 + LATE})
    for now in looks:
        mark = told.mark_ms
        rows = looked_at(edges, start, end, now)
        measured, told = pauses.since(rows, told, 0, now - LATE, now)
        found += stood_still(measured.windows, mark, now - LATE)
    ends = [*edges[1::2], end]
    assert found == sum(b - a for a, b in zip(edges[::2], ends, strict=False))
    assert told.jobs == {}


def test_of_one_pause_its_moments_are_told():
    """Stopped at 100, goes on at 300: whoever looks at 150, 250 and 400 tells exactly that."""
    told, found = ToldPauses(0), list[tuple[int, int]]()
    for now in (150, 250, 400):
        mark = told.mark_ms
        measured, told = pauses.since(looked_at([100, 300], 10, None, now), told, 0, now - 20, now)
        for row in measured.windows.iter_rows(named=True):
            found.append((max(mark, row["start_ms"]), min(now - 20, row["end_ms"])))
            assert row["busy_ppm"] == 0
    assert found == [(100, 130), (130, 230), (230, 300)]


def test_what_nobody_looked_at_is_a_share_as_in_an_import():
    """It ended before the first look, and the queue forgot when it was stopped: all along."""
    row = ("j", 100, 500, 2, 100, None, 0)
    rows = pl.DataFrame([row], schema=PAUSES, orient="row")
    measured, told = pauses.since(rows, ToldPauses(0), 0, 1000, 1000)
    imported = pauses.all_along(rows, 1000)
    names = ["job", "start_ms", "end_ms", "busy_ppm", "source"]
    assert measured.windows.select(names).rows() == imported.windows.select(names).rows()
    assert measured.windows["busy_ppm"].to_list() == [750_000]
    assert told.jobs == {}


def test_an_attempt_older_than_the_journal_has_its_share_of_what_was_before():
    """Since 0, a quarter of it stopped, by 800; the journal begins at 400: 100 of 200 are told."""
    rows = pl.DataFrame([("j", 0, None, 2, 200, 800, 0)], schema=PAUSES, orient="row")
    measured, told = pauses.since(rows, ToldPauses(400), 400, 1000, 1000)
    assert stood_still(measured.windows, 400, 1000) == 100
    assert told.jobs["j"].told_ms == 200
