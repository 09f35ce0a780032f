"""Stops: attempts that ended before their job did, counted by why.

Reads events as they come; the ledger's reader says how many stops there were in all. Every attempt
is stopped (and counted here once), or ends with its job (done, failed, cancelled), or still holds
accelerators.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from tidemill.model import events as ev
from tidemill.model.events import Event, Why

WITH_NODE = "lost with a node (failed or reclaimed)"
_KINDS: tuple[tuple[str, frozenset[Why]], ...] = (
    ("retried after a crash", frozenset({Why.CRASHED, Why.UNSAID})),
    (WITH_NODE, frozenset({Why.NODE_LOST, Why.DEVICE_LOST, Why.SPOT_RECLAIM})),
    ("by preemption", frozenset({Why.PREEMPTED, Why.REORDERED})),
    ("for a guaranteed quota", frozenset({Why.RECLAIMED})),
    ("by drains", frozenset({Why.DRAINED, Why.MAINTENANCE, Why.CONTRACT_END, Why.SURPLUS})),
    ("moved or resized", frozenset({Why.MOVED, Why.SHRUNK, Why.GROWN, Why.REPACKED})),
)
OTHERWISE = "for other reasons"
_TITLE = {why: title for title, some in _KINDS for why in some}


class Keeper(Protocol):
    """Whoever keeps events."""

    def append(self, events: Sequence[Event]) -> None:
        """Keep these."""


class Stops:
    """How many attempts were stopped, by why, up to the last event that was read."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._asked: dict[int, Why] = {}

    def by_why(self, stopped: int) -> dict[str, int]:
        """All that were stopped, by why, in a fixed order, without zeros.

        Most attempts that go down with a node have no event of their own: they are the rest.
        """
        counts = Counter(self._counts)
        counts[WITH_NODE] += stopped - counts.total()
        titles = (*(title for title, _ in _KINDS), OTHERWISE)
        return {title: counts[title] for title in titles if counts[title]}

    def read(self, events: Iterable[Event]) -> Iterator[Event]:
        """The same events, counted as they go by."""
        for event in events:
            self.see(event)
            yield event

    def see(self, event: Event) -> None:
        """Count one event."""
        match event:
            case ev.AskedEvict() | ev.AskedMove():
                self._asked[event.job] = event.why
            case ev.JobEvicted() | ev.JobMoved():
                self._count(self._asked.pop(event.job, Why.UNSAID))
            case ev.JobFailed():
                self._asked.pop(event.job, None)
                if not event.is_final:
                    self._count(event.why)

    def _count(self, why: Why) -> None:
        self._counts[_TITLE.get(why, OTHERWISE)] += 1


class Counted:
    """A keeper of events that counts stops on the way."""

    def __init__(self, keeper: Keeper, stops: Stops) -> None:
        self._keeper, self._stops = keeper, stops

    def append(self, events: Sequence[Event]) -> None:
        """Keep these, and count them."""
        self._keeper.append(events)
        for event in events:
            self._stops.see(event)
