"""What every test may ask for: the hypothesis profile that CI runs, and the recorded traces."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

# Same examples on every run, and no deadline: the machines that run this are shared and noisy.
# Without the profile (plain `pytest`) hypothesis looks for new examples each time, also
# without a deadline: the first example may load a compiled loop.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("plain", deadline=None)
settings.load_profile("plain")


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of recorded cluster traces; large, so not in the repository."""
    asked = os.environ.get("TIDEMILL_TRACES")
    folder = Path(asked) if asked else ROOT.parent / "shared" / "traces"
    if not folder.is_dir():
        pytest.skip(
            f"this test replays recorded traces, and there is no folder {folder}; "
            "hint: set TIDEMILL_TRACES to the folder that holds them"
        )
    return folder
