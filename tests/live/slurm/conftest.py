"""What tests of Slurm may ask for: recorded output of two versions, and a real cluster."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT
from tests.rigs.slurm import cluster, story


class Played(NamedTuple):
    """The rig after its story: the cluster, and the id of each job by its name."""

    cluster: cluster.Cluster
    ids: dict[str, int]


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


@pytest.fixture(scope="session")
def rig() -> Iterator[Played]:
    """A real Slurm with jobs of every fate on it; started once, stopped at the end."""
    if reason := cluster.missing():
        pytest.skip(f"this test starts a real Slurm, and cannot: {reason}")
    # Not pytest's own folder: other users (of jobs, of the database) may not enter that, and
    # paths of sockets have to be short.
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=cluster.quick_folder()) as folder,
        cluster.running(Path(folder), nodes=4) as found,
    ):
        yield Played(found, story.play(found))
