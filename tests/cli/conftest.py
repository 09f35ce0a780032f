"""One small story, run once through the real command, for every test of the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import Ran, tidemill

TINY = Path(__file__).with_name("tiny.toml")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the journal of the tiny story."""
    folder = tmp_path_factory.mktemp("tiny")
    ran = tidemill("twin", "run", str(TINY), "-j", "tiny.sqlite", cwd=folder)
    assert ran.code == 0, ran.err
    return folder


@pytest.fixture(scope="session")
def ask(tiny: Path) -> Callable[..., Ran]:
    """Run a command on the tiny journal."""
    return lambda *words: tidemill(*words, "-j", "tiny.sqlite", cwd=tiny)
