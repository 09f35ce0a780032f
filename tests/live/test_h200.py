"""Records of a real training loop on a GPU agree with a stopwatch of its own."""

import json
from collections import Counter

import pytest

from tests.conftest import ROOT
from tidemill.live import track

FOLDER = ROOT / "examples" / "track" / "h200"
WATCHED = json.loads((FOLDER / "stopwatch.json").read_text())
PARTS = ("data_us", "compute_us", "checkpoint_us")


def sums() -> dict[str, Counter[str]]:
    """By run: microseconds by part, and steps."""
    found: dict[str, Counter[str]] = {}
    readings = track.read(FOLDER / "records.jsonl")
    assert not readings.refused
    for record in readings.records:
        run = found.setdefault(record.run, Counter())
        for name in (*PARTS, "steps"):
            run[name] += getattr(record, name, None) or 0
    return found


@pytest.mark.parametrize("watched", WATCHED[1:], ids=lambda one: one["what"])
def test_parts_are_within_a_hundredth_of_the_stopwatch(watched: dict[str, int]):
    """Where the loop was not killed: every part, of the whole run, within 1 %; steps exactly."""
    found = sums()[str(watched["run"])]
    assert found["steps"] == watched["steps"]
    for part in PARTS:
        assert abs(found[part] - watched[part]) < 0.01 * watched["whole_us"]
        if watched[part] > 0.05 * watched["whole_us"]:
            assert found[part] == pytest.approx(watched[part], rel=0.01)


def test_a_killed_run_loses_its_last_second_at_most():
    """All steps are there; of its last checkpoint less than a second is missing."""
    watched, found = WATCHED[0], sums()[WATCHED[0]["run"]]
    assert found["steps"] == watched["steps"]
    missing = watched["whole_us"] - sum(found[part] for part in PARTS)
    assert 0 <= missing < 1_000_000
