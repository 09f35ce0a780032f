"""How long an observer keeps events: older ones become books by the hour, once a day."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemill.cli import screen
from tidemill.model.errors import JournalError, SpecError
from tidemill.model.measures import DAY_MS

if TYPE_CHECKING:
    from tidemill.journal.base import Journal
    from tidemill.ledger.rolling import RollUp
    from tidemill.live.observing.observer import Observer

AGAIN_S = 86_400.0
"""Rolling up reads all that goes, and books are by the hour: more often than daily wins nothing."""
GONE = (
    "of their time `why`, `efficiency` and whatever else asks for single jobs is refused from then"
    " on; `tidemill journal copy` keeps a copy, if it runs before"
)


class Retention:
    """Rolls up what is older than ``keep``, as typed; "": nothing ever is."""

    def __init__(self, keep: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._keep, self._clock, self._next_s = keep, clock, 0.0
        self._keep_ms = keep_ms_of(keep)

    def tend(self, observer: "Observer") -> None:
        """Roll up, if a day has passed since it was last tried; at first at once."""
        if self._keep_ms is None or self._clock() < self._next_s:
            return
        self._next_s = self._clock() + AGAIN_S
        try:
            found = observer.roll_up(self._keep_ms, _rolled)
        except JournalError as error:  # what it had is still there: the books go on
            screen.complain(error)
            return
        if found.is_larger:
            screen.note(
                f"what is older than {self._keep} is not rolled up yet: books by the hour would"
                " take more than its events"
            )
        elif found.gone:
            screen.note(
                f"{screen.count(found.gone, 'event')} older than {self._keep} rolled up into"
                f" {screen.count(found.lines, 'line')} by the hour; left: {found.left:,}; {GONE}"
            )


def keep_ms_of(keep: str) -> int | None:
    """A length of time as typed; None: all is kept."""
    if not keep:
        return None
    found = screen.span_ms(keep, "--keep") or 0
    if found < DAY_MS:
        raise SpecError(f"--keep is `{keep}`, less than a day", hint="a day or more, such as 90d")
    return found


def _rolled(journal: "Journal", before_ms: int) -> "RollUp":
    from tidemill import api
    from tidemill.ledger import rolling

    return rolling.roll_up(journal, before_ms, api.policy_of(journal), is_to_shrink=True)
