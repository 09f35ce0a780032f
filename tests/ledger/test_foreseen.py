"""Room for jobs that are yet to come is made at once, and changes nothing that is told."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.stories import STORIES, Story
from tidemill.core import snapshot
from tidemill.ledger.reader import Ledger
from tidemill.ledger.statement import Statement
from tidemill.model.batch import Dictionary
from tidemill.model.batch.convert import of_events


@settings(max_examples=40)
@given(story=STORIES, foreseen=st.integers(0, 10_000), size=st.integers(1, 50))
def test_room_that_was_foreseen_changes_nothing(story: Story, foreseen: int, size: int):
    """Books and cluster state are the same, however many events somebody expected."""
    events, read = list(story), list[Ledger]()
    for expected in (0, foreseen):
        ledger, dictionary = Ledger(), Dictionary()
        ledger.foresee(expected)
        for first in range(0, len(events), size):
            ledger.read_batch(of_events(events[first : first + size], dictionary))
        read.append(ledger)
    one, other = read
    assert snapshot.digest(one.world) == snapshot.digest(other.world)
    books = [Statement(ledger) for ledger in read]
    assert books[0].total() == books[1].total()
    assert books[0].waits.figures() == books[1].waits.figures()
