"""SRTF and SRSF through the whole loop give the table of an independent simulator."""

from pathlib import Path

import pytest

from bench import muri


@pytest.mark.parametrize("order", ["shortest", "smallest"])
def test_trace3_as_an_independent_simulator_has_it(
    order: str, traces: Path, monkeypatch: pytest.MonkeyPatch
):
    """Average completion time and makespan within 0.05 %."""
    monkeypatch.setenv("TIDEMILL_TRACES", str(traces))
    found, (jct_s, makespan_s) = muri.played("trace3", order), muri.TABLE["trace3", order]
    assert found["jct_s"] == pytest.approx(jct_s, rel=0.0005)
    assert found["makespan_s"] == pytest.approx(makespan_s, rel=0.0005)
