"""What nodes do not give now, though the events of a journal say so: a fact beside them.

A node under work stays as the events said: what jobs held there was booked so. Whoever asks what is
free now is told of accelerators that it does not advertise any more, of taints that it has got
since, and of CPUs and memory that work without accelerators holds, of which no event tells. It is
of the last time that somebody looked.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tidemill.engine.fold import earlier
from tidemill.engine.fold.earlier import NodeLimit
from tidemill.journal import kept_facts
from tidemill.model.world import World

FACT = "node_limits"
MOST = 30_000  # GKE has up to 15,000 nodes, and some are several on the books


class SeenLimit(NamedTuple):
    """What was seen of one node, and first when, from the zero of the journal."""

    since_ms: int
    """But for what other work leaves of it."""
    limit: NodeLimit
    host_ms: int | None = None
    """Since when that is left; None: since the same."""

    def at(self, now_ms: int) -> NodeLimit:
        """As far as it was so by then."""
        is_known = self.host_ms is None or self.host_ms <= now_ms
        return self.limit if is_known else self.limit.without_host()


def facts(
    kept: Mapping[str, str], told: Iterable[tuple[str, NodeLimit]], now_ms: int, where: str
) -> dict[str, str]:
    """What is kept, beside what was kept before; also that nothing is said any more."""
    known = kept_facts.read(kept, FACT, dict[str, SeenLimit], where) or {}
    found = dict[str, SeenLimit]()
    for name, limit in sorted(told)[:MOST]:
        before = known.get(name)
        if before is None or before.limit.without_host() != limit.without_host():
            found[name] = SeenLimit(now_ms, limit)
        elif before.limit != limit:
            found[name] = SeenLimit(before.since_ms, limit, now_ms)
        else:
            found[name] = before
    return {FACT: msgspec.json.encode(found).decode()}


def unadvertised(kept: Mapping[str, str], until_ms: int, where: str) -> int:
    """How many accelerators nodes did not advertise that gave others, at the last look by then, and
    no event tells since when.
    """
    told = kept_facts.read(kept, FACT, dict[str, SeenLimit], where) or {}
    return sum(
        one.limit.unadvertised for one in told.values()
        if one.since_ms <= until_ms and not one.limit.is_told
    )  # fmt: skip


def put_back(world: World, kept: Mapping[str, str], where: str) -> World:
    """A cluster state that knows what its nodes do not give, as far as that was so by then."""
    told = kept_facts.read(kept, FACT, dict[str, SeenLimit], where) or {}
    earlier.limited(
        world,
        {
            name: one.at(world.now_ms)
            for name, one in told.items() if one.since_ms <= world.now_ms
        },
    )  # fmt: skip
    return world
