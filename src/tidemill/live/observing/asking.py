"""One question to a source: when it was asked, how long it took, what came of it."""

import time
from collections.abc import Sequence

from tidemill.journal.asked_sources import AskedSource, SourcePart
from tidemill.model.errors import BackendError


class Asking:
    """A question that was just asked."""

    def __init__(self, name: str, part: SourcePart) -> None:
        self._name, self._part = name, part
        self._asked_ms, self._began_s = round(time.time() * 1000), time.monotonic()

    def answered(self, notes: Sequence[str] = (), late: int = 0) -> AskedSource:
        """It answered."""
        took_ms = round(1000 * (time.monotonic() - self._began_s))
        return AskedSource(
            name=self._name, part=self._part, asked_ms=self._asked_ms,
            answered_ms=self._asked_ms + took_ms, took_ms=took_ms, notes=tuple(notes), late=late,
        )  # fmt: skip

    def failed(self, error: BackendError) -> AskedSource:
        """It did not."""
        return AskedSource(
            name=self._name, part=self._part, asked_ms=self._asked_ms, failed=error.message
        )
