"""What a job was measured to do, told again where nobody stops it, or where it crashes again."""

import pytest

from tests.builders import job
from tidemill.advise.shadow import retold
from tidemill.advise.shadow.story import End, SeenAttempt, SeenJob
from tidemill.advise.shadow.truths import PlayedJob
from tidemill.model import events as ev
from tidemill.twin.arrivals import Arrival

UP_MS = 5_000


def played(end: End, work_ms: int) -> PlayedJob:
    """Three attempts: 0 to 40 and 100 to 130, which end alike, and 200 to 250, which ends well."""
    seen = SeenJob(job(), 0)
    for placed_ms, end_ms, how in ((0, 40, end), (100, 130, end), (200, 250, End.DONE)):
        seen.attempts.append(SeenAttempt(placed_ms, placed_ms, (), placed_ms, end_ms, how))
    for attempt, (at_ms, ages) in enumerate(((0, (0, 10, 35)), (100, (0, 25)), (200, (0, 45))), 1):
        for age_ms in ages:
            seen.news.append(ev.EfficiencySeen(at_ms + age_ms, 0, attempt, at_ms + age_ms))
    return PlayedJob(Arrival(0, seen.job, work_ms), seen)


def told(one: PlayedJob, attempt: int) -> list[tuple[int, int]]:
    """After how long it tells what: each value is the moment at which it was measured."""
    events = list(retold.of_attempt(one, 7, attempt, UP_MS))
    assert {(event.job, event.attempt) for event in events} == {(7, attempt)}
    assert all(isinstance(event, ev.EfficiencySeen) for event in events)
    return [(event.at_ms - UP_MS, event.mfu_ppm) for event in events]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("work_ms", "wanted"),
    [
        (120, [(0, 0), (10, 10), (35, 35), (40, 100), (65, 125), (70, 200), (115, 245)]),
        (80, [(0, 0), (10, 10), (30, 200), (75, 245)]),
        (50, [(0, 200), (45, 245)]),
    ],
    ids=["nothing was lost", "thirty were saved", "all was lost"],
)
def test_it_goes_on_from_where_the_next_attempt_did(work_ms: int, wanted: list[tuple[int, int]]):
    """Whoever is not stopped does each part of its work once, as it was measured there."""
    assert told(played(End.STOPPED, work_ms), attempt=1) == wanted


def test_whoever_crashes_does_what_that_attempt_did_until_then():
    """Its next attempt tells what the one of the same number told."""
    one = played(End.CRASHED, work_ms=80)
    assert told(one, attempt=1) == [(0, 0), (10, 10), (35, 35)]
    assert told(one, attempt=2) == [(0, 100), (25, 125)]
    assert told(one, attempt=3) == [(0, 200), (45, 245)]
    assert told(one, attempt=9) == told(one, attempt=3)
