"""What tests of the journal share: a place for it, and a story to keep."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.journal.stories import tell
from tests.rigs import postgres
from tests.rigs.postgres import Server
from tidemill.journal import Journal, open_journal
from tidemill.model.events import Event

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def story() -> list[Event]:
    """Four hundred events with a bit of everything."""
    return tell(Random("a story"), 400)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a journal may be made."""
    return tmp_path / "mill.db"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A real PostgreSQL."""
    if why := postgres.missing():
        pytest.skip(f"this test needs a real PostgreSQL: {why}")
    with postgres.running() as started:
        yield started


@pytest.fixture
def address(server: Server) -> str:
    """The address of a journal that nobody has made yet."""
    return server.address(f"j{next(_NUMBERS)}")


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest) -> str:
    """Where a journal may be made that outlives its process: in a file, on a server."""
    name = "path" if request.param == "sqlite" else "address"
    return str(request.getfixturevalue(name))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[], Journal]]:
    """Makes an empty journal of each sort, once a test."""
    names = {"sqlite": "path", "postgres": "address"}
    name = names.get(request.param)
    where = str(request.getfixturevalue(name)) if name else ":memory:"
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
