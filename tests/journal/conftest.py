"""What tests of the journal share: a place for it, and a story to keep."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.journal.stories import tell
from tidemill.journal import Journal, open_journal
from tidemill.model.events import Event


@pytest.fixture(scope="session")
def story() -> list[Event]:
    """Four hundred events with a bit of everything."""
    return tell(Random("a story"), 400)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a journal may be made."""
    return tmp_path / "mill.db"


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, path: Path) -> Iterator[Callable[[], Journal]]:
    """Makes an empty journal of each sort, once a test."""
    where = ":memory:" if request.param == "memory" else str(path)
    made: list[Journal] = []

    def maker() -> Journal:
        assert not made
        made.append(open_journal(where, create=True))
        return made[0]

    yield maker
    for journal in made:
        journal.close()


@pytest.fixture
def journal(make: Callable[[], Journal]) -> Journal:
    """An empty journal of each sort."""
    return make()
