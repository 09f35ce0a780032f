"""The clock of an API server, as its answers tell it.

Each answer has the time in whole seconds, cut off. Of the last answers the one that came soonest
after its second began says most, so the largest difference to this machine's clock counts.
"""

import time
from collections import deque

REMEMBERED = 64


class ServerClock:
    """How far a server's clock is from this machine's."""

    def __init__(self) -> None:
        self._ahead_ms: deque[int] = deque(maxlen=REMEMBERED)
        self.last_ms: int | None = None
        """What its last answer said."""

    def heard(self, date_ms: int | None) -> None:
        """An answer came just now, and said this."""
        if date_ms is not None:
            self.last_ms = date_ms
            self._ahead_ms.append(date_ms - _here_ms())

    @property
    def ahead_ms(self) -> int:
        """How far it is ahead of this machine's."""
        return max(self._ahead_ms, default=0)

    def now_ms(self) -> int:
        """What it shows now."""
        return _here_ms() + self.ahead_ms


def _here_ms() -> int:
    return time.time_ns() // 1_000_000
