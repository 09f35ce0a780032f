"""Jobs that can save before a node is taken do so, and lose only what came after the save."""

from pathlib import Path

import numpy as np
import pytest

from tidemill import api
from tidemill.core import snapshot
from tidemill.ledger.buckets import Bucket
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS, SECOND_MS
from tidemill.model.states import JobState
from tidemill.twin.attempts import SAVED_AHEAD_MS

SAVE_MS = 10 * SECOND_MS
FLEET = """
[twin]
seed = 3
horizon = "3d"
[[contract]]
name = "spot"
kind = "H100"
count = 16
usd_per_hour = 1.0
terms = "spot"
[[team]]
name = "a"
[[job]]
name = "train"
team = "a"
accelerators = 8
copies = 6
work = "11h"
checkpoint = {{ every = "1h", cost = "10s" }}
startup = "1m"
restart = "2m"
mfu = 0.4
[faults]
reclaim_rate = 4000
notice = "{notice}"
"""


def run(tmp_path: Path, notice: str) -> tuple[api.Run, list[ev.Event]]:
    """The run of the fleet with this notice, and its events."""
    spec, journal = tmp_path / "fleet.toml", str(tmp_path / "run.sqlite")
    spec.write_text(FLEET.format(notice=notice))
    done = api.simulate(api.load_spec(spec), journal)
    with api.open_journal(journal) as kept:
        return done, list(kept.read())


def stops(events: list[ev.Event]) -> int:
    """How often a node was taken by the provider."""
    return sum(
        isinstance(e, ev.NodeMoved) and e.why is ev.Why.SPOT_RECLAIM and e.deadline_ms > e.at_ms
        for e in events
    )


def test_a_notice_that_is_long_enough_costs_seconds(tmp_path: Path):
    """With two minutes of notice and saves of ten seconds, a reclaim loses seconds of work."""
    done, events = run(tmp_path, "2m")
    reclaims = stops(events)
    lost = done.statement.total().milli_ms[Bucket.REWORK]
    at_most_ms = 2 * SAVE_MS + SAVE_MS // 10 + SAVED_AHEAD_MS
    assert reclaims >= 5
    assert sum(isinstance(e, ev.JobSaved) for e in events) >= 3
    assert 0 < lost <= reclaims * 8_000 * at_most_ms


def test_a_notice_that_is_too_short_saves_nothing(tmp_path: Path):
    """With five seconds of notice nobody saves in time, and a reclaim loses minutes."""
    done, events = run(tmp_path, "5s")
    assert not any(isinstance(e, ev.JobSaved) for e in events)
    assert done.statement.total().milli_ms[Bucket.REWORK] > stops(events) * 8_000 * 5 * MINUTE_MS


@pytest.mark.parametrize("notice", ["2m", "10s", "11s", "1h"])
def test_books_and_work_are_exact(tmp_path: Path, notice: str):
    """Paid is the sum of the buckets, and finished jobs did all their work, whoever saved."""
    done, _ = run(tmp_path, notice)
    total = done.statement.total()
    assert sum(total.milli_ms) == total.paid_milli_ms
    rows, jobs = done.statement.rows, done.world.jobs
    for j in range(done.world.job_count):
        if jobs.state[j] == JobState.DONE:
            lasted = (rows.job == j) & np.isin(rows.bucket, (Bucket.BELOW_PEAK, Bucket.USEFUL))
            assert rows.milli_ms[lasted].sum() == 8_000 * 11 * HOUR_MS
    world, _ = api.open_world(str(tmp_path / "run.sqlite"))
    assert snapshot.digest(world) == snapshot.digest(done.world)
