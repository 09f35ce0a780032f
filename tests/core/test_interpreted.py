"""Kernels say the same compiled and interpreted: one text, and the debugger sees all of it."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.core.folded import digests
from tests.engine.stories import played, seeds

STORIES = 10
_SOURCES = ("stage", "twin")


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stories") / "stories.json"
    kept = [played(seed, source).kept for seed in seeds(STORIES) for source in _SOURCES]
    path.write_bytes(msgspec.json.encode(kept))
    return path


def test_stories_fold_to_the_same_world_interpreted(stories: Path):
    """With the compiler switched off, byte for byte; and the interpreter never loads it."""
    told = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.core.folded", str(stories)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert told[0] == "interpreted"
    assert told[1:] == digests(stories)
