"""What a journal says of who held what, and at which price: for commands that read devices."""

from typing import TYPE_CHECKING, NamedTuple

from tidemill.cli import screen
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR

if TYPE_CHECKING:
    from tidemill.journal.moments import Calendar
    from tidemill.live.prometheus.joining import Whose


class JournalHoldings(NamedTuple):
    """Attempts of a journal with their prices."""

    whose: "Whose"
    usd_micro_per_hour: dict[str, int]
    """Of one GPU, by job; a job of which nobody said a price is not there."""
    calendar: "Calendar"
    end_ms: int
    """When the books end, since 1970: what still ran then is known until then."""


def read(journal: str) -> JournalHoldings:
    """Who held what in an observed journal."""
    from tidemill import api
    from tidemill.cli.ledger import read_window
    from tidemill.journal import open_journal
    from tidemill.ledger import efficiency
    from tidemill.live.history import journalled
    from tidemill.live.prometheus.joining import Whose

    with open_journal(journal) as keeper:
        begins_ms = journalled.begins_ms(keeper)
        with screen.progress("reading who held what"):
            attempts = journalled.attempts_of(keeper)
    books = read_window(journal, None, None)
    rows = efficiency.efficiencies(books, "job", None).rows
    prices = {
        row.key: row.usd_micro * MILLI_MS_PER_UNIT_HOUR // row.held_milli_ms
        for row in rows
        if row.usd_micro is not None and row.held_milli_ms
    }
    end_ms = begins_ms + books.end_ms
    return JournalHoldings(Whose(attempts), prices, api.calendar_of(journal), end_ms)
