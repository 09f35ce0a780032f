"""Records that no server takes wait in a folder of the test, not in the home of who runs it."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def waiting(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where records wait that could not be sent."""
    folder = tmp_path_factory.mktemp("waiting")
    monkeypatch.setenv("TIDEMILL_TRACK_SPOOL", str(folder))
    return folder
