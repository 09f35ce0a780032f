"""Why nodes are out, in their own cluster's words: a fact that is kept beside the events.

It is of the last time that somebody looked, and only of nodes that were out then: what was said of
an outage is of no use when it is over.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tidemill.engine.fold import earlier
from tidemill.journal import kept_facts
from tidemill.model.world import World

FACT = "node_reasons"
MOST = 10_000
LONGEST = 200


class NodeReason(NamedTuple):
    """What was said of one node."""

    node: str
    since_ms: int
    """From the zero of the journal."""
    words: str


def facts(told: Iterable[NodeReason]) -> dict[str, str]:
    """What is kept; also that nothing is said any more."""
    kept = {one.node: (one.since_ms, one.words[:LONGEST]) for one in sorted(told)[:MOST]}
    return {FACT: msgspec.json.encode(kept).decode()}


def put_back(world: World, kept: Mapping[str, str], where: str) -> World:
    """A cluster state that knows why its nodes are out, as far as that was so by then."""
    if known := _known(world, kept, where):
        earlier.said_of_nodes(world, known)
    return world


def note(world: World, kept: Mapping[str, str], where: str) -> None:
    """The words alone: nodes stay in the state that events tell."""
    earlier.note_words(world, _known(world, kept, where))


def _known(world: World, kept: Mapping[str, str], where: str) -> dict[str, str]:
    told = kept_facts.read(kept, FACT, dict[str, tuple[int, str]], where) or {}
    return {name: words for name, (since_ms, words) in told.items() if since_ms <= world.now_ms}
