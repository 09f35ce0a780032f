"""Tables for analysis say what the commands say."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.shell import Ran
from tidemill import api
from tidemill.model.measures import HOUR_MS


def test_the_frame_of_what_waits_says_what_pending_says(tiny: Path, ask: Callable[..., Ran]):
    """The same jobs, of the same teams, for the same causes and as long."""
    waiting = 0
    for hour in (1, 2, 3):
        told = json.loads(ask("pending", "--no-eta", "--at", f"{hour}h", "--json").out)["waiting"]
        frame = api.pending_frame(str(tiny / "tiny.sqlite"), hour * HOUR_MS)
        columns = ("job", "team", "cause", "waited_ms", "priority")
        said = sorted(tuple(job[name] for name in columns) for job in told)
        assert said == sorted(frame.select(columns).rows())
        waiting += len(said)
    assert waiting
