"""What tests of Slurm may ask for: output recorded elsewhere, of more versions than are here."""

import os
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="session")
def recorded() -> Path:
    """The folder of recorded output of two versions; not in the repository."""
    asked = os.environ.get("TIDEMILL_SLURM_RECORDED")
    folder = Path(asked) if asked else ROOT.parent / "shared" / "slurm"
    if not folder.is_dir():
        pytest.skip(
            f"this test reads recorded output of Slurm, and there is no folder {folder}; "
            "hint: set TIDEMILL_SLURM_RECORDED to the folder that holds it"
        )
    return folder
