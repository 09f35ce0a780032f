"""What tests of Prometheus may ask for: a real one, with two hours of a small cluster in it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.prometheus import services, story
from tests.rigs.prometheus import series, server
from tests.rigs.slurm.cluster import quick_folder


@pytest.fixture(scope="session")
def prometheus() -> Iterator[str]:
    """The address of a real Prometheus that holds the story; stopped at the end."""
    if reason := server.missing():
        pytest.skip(f"this test starts a real Prometheus, and cannot: {reason}")
    told = [*story.whole(), *story.example(), *services.whole()]
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        server.running(Path(folder), series.lines(told)) as url,
    ):
        yield url
