"""The clock of an API server is known from its answers, whatever this machine's clock shows."""

import pytest

from tidemill.live.kubernetes.api import clock
from tidemill.live.kubernetes.api.clock import ServerClock


class Machine:
    """Two clocks of a machine: one that is set now and then, and one that only runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_ms, self.running_ms = 5_000_000, 1_000
        monkeypatch.setattr(clock, "_wall_ms", lambda: self.wall_ms)
        monkeypatch.setattr(clock, "_running_ms", lambda: self.running_ms)

    def wait(self, ms: int) -> None:
        self.wall_ms += ms
        self.running_ms += ms


def test_a_wall_clock_that_is_set_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    """Half an hour forth or back while this runs: the server's time goes on as it did."""
    machine, server = Machine(monkeypatch), ServerClock()
    assert server.now_ms() == 5_000_000
    server.heard(9_000_000)
    machine.wait(700)
    for set_ms in (1_800_000, -3_600_000):
        machine.wall_ms += set_ms
        assert server.now_ms() == 9_000_700
    assert server.ahead_ms == 9_000_700 - machine.wall_ms


def test_the_answer_that_came_soonest_after_its_second_counts(monkeypatch: pytest.MonkeyPatch):
    """Answers name whole seconds, cut off, and some are late: the largest is the nearest."""
    machine, server = Machine(monkeypatch), ServerClock()
    for date_ms in (9_000_000, 9_000_000, 9_001_000, 9_001_000):
        server.heard(date_ms)
        machine.wait(400)
    assert server.now_ms() == 9_001_800


def test_a_server_whose_clock_is_set_back_is_believed_the_second_time(
    monkeypatch: pytest.MonkeyPatch,
):
    """One answer may be very late; two in a row are what the server's clock shows."""
    machine, server = Machine(monkeypatch), ServerClock()
    server.heard(9_000_000)
    machine.wait(1000)
    server.heard(8_400_000)
    assert server.now_ms() == 9_001_000
    machine.wait(1000)
    server.heard(8_401_000)
    assert server.now_ms() == 8_401_000
