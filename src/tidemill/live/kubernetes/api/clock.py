"""The clock of an API server, as its answers tell it.

Each answer has the time in whole seconds, cut off. Of the last answers the one that came soonest
after its second began says most, so the largest difference to this machine's clock counts. That is
the clock which nobody sets (``monotonic``): a wall clock that is off by minutes, or is set while
this runs, changes nothing here.
"""

import time
from collections import deque

REMEMBERED = 64
SLOWEST_MS = 10_000
"""Two answers in a row that seem later than this were not slow: the server's clock was set back,
and what was heard before does not hold any more."""


class ServerClock:
    """How far a server's clock is from this machine's."""

    def __init__(self) -> None:
        self._ahead_ms: deque[int] = deque(maxlen=REMEMBERED)
        self._most_ms: int | None = None
        """The largest of them."""
        self.last_ms: int | None = None
        """What its last answer said."""

    def heard(self, date_ms: int | None) -> None:
        """An answer came just now, and said this."""
        if date_ms is None:
            return
        self.last_ms = date_ms
        self._ahead_ms.append(date_ms - _running_ms())
        last = [*self._ahead_ms][-2:]
        if len(last) > 1 and max(last) < max(self._ahead_ms) - SLOWEST_MS:
            self._ahead_ms = deque(last, REMEMBERED)
        self._most_ms = max(self._ahead_ms)

    @property
    def ahead_ms(self) -> int:
        """How far it is ahead of this machine's wall clock."""
        return self.now_ms() - _wall_ms()

    def now_ms(self) -> int:
        """What it shows now; before its first answer, what this machine shows."""
        return _wall_ms() if self._most_ms is None else _running_ms() + self._most_ms


def _running_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
