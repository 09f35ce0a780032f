"""What people said of nodes beforehand: spares and warm pools that are kept free, maintenance.

Free time of a spare is no leak by mistake, and is told apart from what stands free for want of
work. A node in maintenance takes no new work, whatever its cluster shows of it. Either may hold for
a time only, or every day or week at the same hours of the clock on the wall.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from tidemill.live.history import outages
from tidemill.live.history.rows import SeenNode
from tidemill.model.states import NodeState


class IntendedSpan(NamedTuple):
    """Nodes by name, in which `*` and `?` stand for anything, and for how long; since 1970."""

    names: tuple[str, ...]
    from_ms: int = 0
    to_ms: int | None = None
    """None: for good."""

    def holds(self, node: SeenNode) -> bool:
        """Whether it is about a node."""
        called = {node.name, node.machine_name}
        return any(fnmatchcase(one, name) for one in called for name in self.names)


class RepeatedSpan(NamedTuple):
    """The same at the same hours of some days of the week, by the clock of a zone."""

    names: tuple[str, ...]
    days: frozenset[int]
    """On which it begins; Monday is 0."""
    from_min: int
    to_min: int
    """Minutes after midnight; if it is not after ``from_min``, on the next day."""
    zone: str

    def spans(self, from_ms: int, to_ms: int) -> Iterator[IntendedSpan]:
        """Each time that it holds between two moments, and a day before and after.

        An hour that a day has twice counts the first time; one that it has not counts as the same
        time after the clock was put forward. So a night has one window, longer or shorter.
        """
        zone = ZoneInfo(self.zone)
        day = datetime.fromtimestamp(from_ms / 1000, zone).date() - timedelta(days=1)
        last = datetime.fromtimestamp(to_ms / 1000, zone).date() + timedelta(days=1)
        while day <= last:
            if day.weekday() in self.days:
                after = day if self.to_min > self.from_min else day + timedelta(days=1)
                start, stop = (
                    datetime(one.year, one.month, one.day, tzinfo=zone)
                    .replace(hour=minute // 60 % 24, minute=minute % 60)
                    for one, minute in ((day, self.from_min), (after, self.to_min))
                )  # fmt: skip
                stop += timedelta(days=self.to_min // (24 * 60))
                if _ms(start) < _ms(stop):
                    yield IntendedSpan(self.names, _ms(start), _ms(stop))
            day += timedelta(days=1)


def _ms(at: datetime) -> int:
    return round(at.astimezone(UTC).timestamp() * 1000)


class NodeIntent(NamedTuple):
    """What is intended with nodes."""

    spares: tuple[IntendedSpan | RepeatedSpan, ...] = ()
    maintenance: tuple[IntendedSpan | RepeatedSpan, ...] = ()

    def of(self, nodes: Sequence[SeenNode], from_ms: int, to_ms: int) -> list[SeenNode]:
        """The nodes, with what is intended with them; what is repeated, between two moments."""
        if self == NO_INTENT:
            return list(nodes)
        spares, closed = (
            [one for span in spans for one in _spread(span, from_ms, to_ms)]
            for spans in (self.spares, self.maintenance)
        )
        return [_with(node, spares, closed) for node in nodes]

    def unmatched(self, nodes: Iterable[SeenNode]) -> list[str]:
        """The names that no node has."""
        listed = {name for node in nodes for name in (node.name, node.machine_name)}
        names = [name for span in (*self.spares, *self.maintenance) for name in span.names]
        return [name for name in names if not any(fnmatchcase(one, name) for one in listed)]


def _spread(span: IntendedSpan | RepeatedSpan, from_ms: int, to_ms: int) -> Iterable[IntendedSpan]:
    return (span,) if isinstance(span, IntendedSpan) else span.spans(from_ms, to_ms)


def _with(
    node: SeenNode, spares: Iterable[IntendedSpan], maintenance: Iterable[IntendedSpan]
) -> SeenNode:
    spare = tuple((span.from_ms, span.to_ms) for span in spares if span.holds(node))
    closed = [
        (span.from_ms, span.to_ms, NodeState.CORDONED) for span in maintenance if span.holds(node)
    ]
    out = tuple(outages.apart((*node.out, *closed))) if closed else node.out
    return replace(node, spare=spare, out=out)


NO_INTENT = NodeIntent()
