"""What tracking costs a loop, measured in small; bench/README.md has the figures."""

from typing import Any

import pytest

from bench import track


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """The bench, with a second at ten steps a second."""
    return track.run(seconds=1, calls=3000, records=300)


def test_a_step_costs_less_than_a_thousandth(found: dict[str, Any]):
    """At ten steps a second that is 100 µs: the calls stay below it, and all together near it."""
    assert found["calls_us"]["with a checkpoint"]["tracked"] < 100
    paced = found["at_10_steps_per_s"]  # ten cold steps, on a busy machine
    assert max(paced["cost_us"], *paced["threads_us"].values()) < 400


def test_not_to_track_costs_next_to_nothing(found: dict[str, Any]):
    """Without an address the calls stay in the loop, and take a few microseconds."""
    for costs in found["calls_us"].values():
        assert costs["not tracked"] < 30
