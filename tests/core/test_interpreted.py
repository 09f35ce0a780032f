"""Kernels say the same compiled and interpreted: one text, and the debugger sees all of it."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from tests.core.both_ways import digests, filled, journals

STORIES = 10


def test_stories_are_the_same_interpreted(tmp_path: Path):
    """With the compiler switched off the same events are decided, fold to the same state, and have
    the same ledger.

    Without a warning, byte for byte; and the interpreter never loads the compiler. The stories have
    racks, both kinds of backfill, every score and MIG instances among them.
    """
    path = tmp_path / "stories.json"
    path.write_bytes(journals(STORIES))
    told = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.core.both_ways", str(path), str(STORIES)],
        env=os.environ | {"TIDEMILL_INTERPRETED": "1"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert told[0] == "interpreted"
    assert told[1:] == [*digests(path), sha256(path.read_bytes()).hexdigest(), filled()]
