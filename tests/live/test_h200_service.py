"""A real service on a real H200: what was told of its requests is what its clients measured.

``stopwatch.json`` is of the clients, request by request; see ``examples/track/h200-service``.
"""

import json
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tidemill.track.serving import BOUNDS_US

FOLDER = ROOT / "examples" / "track" / "h200-service"
WATCHED: dict[str, Any] = json.loads((FOLDER / "stopwatch.json").read_text())


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `tidemill efficiency` says of the service."""
    journal = str(tmp_path_factory.mktemp("chat") / "chat.sqlite")
    files = map(str, (FOLDER / "jobs.csv", "--nodes", FOLDER / "nodes.csv"))
    tidemill("import", "csv", *files, "--track", str(FOLDER / "records.jsonl"), "-j", journal)
    found: dict[str, Any] = json.loads(tidemill("efficiency", journal, "--json").out)
    return found["total"]


@pytest.mark.parametrize("what", ["requests", "tokens_in", "tokens_out"])
def test_counts_are_the_clients_own(told: dict[str, Any], what: str):
    """Requests and tokens, to the last one."""
    assert told["load"][what] == WATCHED["all"][what]


@pytest.mark.parametrize("percent", [50, 99])
@pytest.mark.parametrize("what", ["first_token", "between_tokens", "whole"])
def test_quantiles_lie_in_the_bucket_that_is_told(told: dict[str, Any], what: str, percent: int):
    """A time is told as at most its bucket's bound; what the clients measured is in that bucket.

    They note a time a moment after the service does: a hundredth more is let through.
    """
    figures = next(one for one in told["load"]["latencies"] if one["what"] == what)
    bound_us = figures[f"p{percent}_at_most_us"]
    below_us = max([0, *(one for one in BOUNDS_US if one < bound_us)])
    assert below_us <= 1e6 * WATCHED["all"][f"{what}_s_p{percent}"] <= 1.01 * bound_us


def test_the_minute_without_requests_is_idle_and_no_other_time(told: dict[str, Any]):
    """Nobody asked for 64 seconds, which hold one minute of the clock: that one is idle."""
    parts = {part["key"]: part for part in told["parts"]}
    quiet_s = WATCHED["asking_s"] - WATCHED["quiet_s"]
    assert 60 <= quiet_s < 120
    assert parts["idle"]["known"] == "measured"
    assert parts["idle"]["milli_ms"] == pytest.approx(60_000_000, rel=0.01)


def test_coming_up_is_what_the_clock_says(told: dict[str, Any]):
    """From when it held the GPU until it could be asked; and the parts add up to what it held."""
    parts = {part["key"]: part for part in told["parts"]}
    up_s = WATCHED["ready_s"] - WATCHED["began_s"]
    assert parts["starting"]["milli_ms"] == pytest.approx(1e6 * up_s, rel=0.01)
    known = sum(part["milli_ms"] or 0 for part in told["parts"])
    assert known == told["held_milli_ms"]


def test_the_queue_of_the_burst_is_told(told: dict[str, Any]):
    """Ninety requests a second are more than it answers: many wait, and all of it was seen."""
    load = told["load"]
    assert load["waiting_milli"] > 20_000
    assert load["seen_ppm"] > 990_000
