"""What was measured of jobs, told in parts by observers that are killed, as if told at once."""

from collections.abc import Iterable
from random import Random
from typing import Any

import polars as pl
import pytest

from tests.live.history.test_advance import (
    LATENESS_MS,
    Observer,
    a_story,
    as_of,
    jobs_of,
    named,
)
from tests.live.history.test_history import EPOCH_MS, NODES, PRICES, attempts, read
from tidemill.journal.memory import MemoryJournal
from tidemill.live.history import assuming
from tidemill.live.history.advance import SourceAnswer, WorkFigures
from tidemill.live.history.events import History, build
from tidemill.live.measured.windows import SAVES, UPS, WINDOWS, Measurements
from tidemill.model.events import Event

Row = dict[str, Any]
UNIT_MS = 100_000
"""Of the story's times: the clocks of a job and its scheduler may differ by minutes."""
EDGES = 15
"""Windows of devices end at the same moments for all, and observers tell up to one of these."""


def a_measurement(story: list[Row], luck: Random) -> dict[str, list[Row]]:
    """Windows of two sources with gaps, launches, and checkpoints, of some of the jobs."""
    windows, ups, saves = list[Row](), list[Row](), list[Row]()
    for row in story:
        if int(row["job"][1:]) % 4 == 0:
            continue  # nobody measures it
        start, end = row["start_ms"], row["end_ms"]
        if int(row["job"][1:]) % 2:
            ups += some_launches(row, len(ups), luck)
            for at in range(start + 5, end, 35):
                saves += a_save(row["job"], at, luck)
        for source, step in (("track", 10), ("dcgm", EDGES), ("ranks", 20)):
            first = start - start % EDGES if source == "dcgm" else start
            for at in range(first, end, step):
                if luck.random() < 0.2:
                    continue
                told = {"job": row["job"], "source": source, "start_ms": max(at, start)}
                told["end_ms"] = min(at + step, end)
                if source == "dcgm":
                    told["busy_ppm"] = luck.choice((400_000, 900_000, 1_000_000))
                    told["watts"] = luck.choice((None, 400, 400, 405, 700))
                    told["memory_ppm"] = luck.choice((300_000, 310_000, 900_000))
                elif source == "ranks":
                    told["straggler_ppm"] = luck.choice((0, 500_000))
                else:
                    told["communication_ppm"] = luck.choice((None, 100_000))
                    told["data_ppm"] = luck.choice((0, 200_000))
                    told["mfu_ppm"] = luck.choice((None, 300_000, 300_000))
                windows.append(told)
    return {"windows": windows, "saves": saves, "ups": ups}


def some_launches(row: Row, number: int, luck: Random) -> list[Row]:
    """The launch of an attempt; some are launched again within it."""
    start, end = row["start_ms"], row["end_ms"]
    up = start + luck.choice((1, 3, 10, 25))
    one = {"job": row["job"], "began_ms": start + 1, "last_ms": end, "launch": number}
    found = [one | {"up_ms": up if up < end else None}]
    if luck.random() < 0.3 and up + 20 < end:
        found.append(one | {"began_ms": up + 5, "up_ms": up + 20, "launch": number + 1})
    return found


def a_save(job: str, at: int, luck: Random) -> list[Row]:
    """A checkpoint; after some of them its loop goes back, and works again later."""
    saved: Row = {"job": job, "at_ms": at, "covers_ms": at - 4}
    if luck.random() < 0.7:
        return [saved]
    back, again = at + 7, at + 7 + luck.choice((1, 6, 15))
    saved |= {"left_ms": luck.choice((None, back - 2))}
    return [saved, saved | {"at_ms": back, "covers_ms": back, "is_back": True},
            saved | {"at_ms": again, "covers_ms": again, "is_again": True}]  # fmt: skip


def known(told: dict[str, list[Row]], now: int, since: int) -> Measurements:
    """What of it is known at a moment, of the time since another one."""
    windows = [row for row in told["windows"] if since < row["end_ms"] <= now]
    saves = [row for row in told["saves"] if since <= row["at_ms"] <= now]
    ups = [row | {"up_ms": row["up_ms"] if row["up_ms"] and row["up_ms"] <= now else None}
           for row in told["ups"] if row["began_ms"] <= now]  # fmt: skip
    return Measurements(_frame(windows, WINDOWS), _frame(saves, SAVES), _frame(ups, UPS))


def _frame(rows: list[Row], form: dict[str, Any]) -> pl.DataFrame:
    never = {name: False for name, kind in form.items() if kind == pl.Boolean}
    made = pl.DataFrame([never | row for row in rows], schema=form)
    times = [name for name in form if name.endswith("_ms")]
    return made.with_columns(pl.col(name) * UNIT_MS + EPOCH_MS for name in times)


def seen(*rows: Row) -> pl.DataFrame:
    """Attempts, in the story's times."""
    times = ("submit_ms", "start_ms", "end_ms")
    return attempts(*(
        row | {name: row[name] * UNIT_MS for name in times if row[name] is not None} for row in rows
    ))  # fmt: skip


def by_moment(events: Iterable[Event]) -> list[tuple[int, str]]:
    """Events by their moment, in any order within one."""
    return sorted((event.at_ms, repr(event)) for event in events)


ASSUMED = {
    "nothing": "",
    "figures": "training.mfu=0.3,training.checkpoint_interval=30m",
    "startup": "training.startup=10m,training.restart=15m",
}


@pytest.mark.parametrize("assumed", ASSUMED)
@pytest.mark.parametrize("seed", range(2))
def test_what_was_measured_in_parts_is_what_was_measured_at_once(seed: int, assumed: str):
    """Observers killed 30 times: no measurement lost, none doubled, equal sums of every bucket.

    Start-up is assumed only where no loop ever tells it: an import knows that from the beginning.
    """
    luck = Random(seed)
    story, _ = a_story(luck)
    told, figures = a_measurement(story, luck), assuming.read([ASSUMED[assumed]])
    if assumed == "startup":
        told["ups"] = []
    end = max(row["end_ms"] for row in story) + 5

    def whole() -> History:
        window = (EPOCH_MS, EPOCH_MS + end * UNIT_MS)
        measured = known(told, end, -1)
        return build(seen(*story), NODES, PRICES, *window, measured=measured, assumed=figures)

    kept = MemoryJournal()
    for batch in whole().batches():
        kept.append_batch(batch)
    observer, kills, now = Observer(), 0, 0
    while kills < 30 or observer.world.now_ms < end * UNIT_MS:
        now += luck.randrange(1, max(2, end // 25))
        mark = observer.world.now_ms // UNIT_MS
        answer = SourceAnswer(seen(*as_of(story, now, mark - 50)), NODES, 0)
        settled = now - LATENESS_MS
        until = min(end, settled - settled % EDGES)
        is_killed = kills < 30
        if until > mark or (is_killed and now > 2 * end):
            observer.figures = WorkFigures(known(told, now, mark), figures)
            at_ms = EPOCH_MS + max(until, mark) * UNIT_MS
            observer.take(answer, at_ms, luck.randrange(3) if is_killed else 9)
            observer.restart()
            kills += is_killed
    assert by_moment(jobs_of(observer.journal.read())) == by_moment(jobs_of(kept.read()))
    for by in (("bucket",), ("bucket", "team", "job")):
        assert named(observer.books(), *by) == named(read(whole()), *by)
