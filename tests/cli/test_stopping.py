"""A signal stops what waits for it, at whatever moment it comes."""

import signal
import subprocess
import sys

import pytest

from tidemill.cli.stopping import StopSignals

AT_EVERY_STEP = """
import signal, sys
from tidemill.cli.stopping import StopSignals

def send(frame, event, arg):
    signal.raise_signal(signal.SIGTERM)
    return send

with StopSignals() as stopped:
    sys.settrace(send)
    heard = stopped.wait(30)
    sys.settrace(None)
print(heard)
"""


def test_a_signal_may_come_within_any_step_of_the_wait():
    """One that comes while the wait holds what its handler needs would be waited for for ever."""
    ran = subprocess.run(
        [sys.executable, "-c", AT_EVERY_STEP],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout == "True\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_heard_before_and_after_and_then_as_before(number: signal.Signals):
    """It stays heard until the end, any number of them; then others handle it again."""
    before = signal.getsignal(number)
    with StopSignals() as stopped:
        assert not stopped.wait(0)
        for _ in range(100_000):
            signal.raise_signal(number)
        assert stopped.wait(0)
        assert stopped.wait()
    assert signal.getsignal(number) is before
