"""Source: where the events of a journal come from, a fact that whoever writes it sets.

Numbers of a twin are *simulated*, however exactly they are counted; nothing may call them measured.
Journals from before this fact was kept have an unknown source.
"""

from collections.abc import Mapping
from enum import StrEnum

from tidemill.journal.scheduled import SCHEDULES
from tidemill.model.world import World

FACT = "source"
SUBMISSIONS = "submissions"
"""A fact that is kept where the source does not say when jobs were submitted: ``unknown``."""
STATES = "node_states"
"""The same of how nodes are: then they count as Ready all the time. Or some of ``OUT``, with commas
between: of these states not all is known."""
UNTOLD = "unknown"
OUT = frozenset({"unhealthy", "cordoned", "draining"})
"""The states in which nodes are out of service, as the ledger calls them."""


class Source(StrEnum):
    """Who made the events."""

    TWIN = "twin"
    TRACE = "trace replay"
    LIVE = "live"
    SHADOW = "shadow"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, facts: Mapping[str, str]) -> "Source":
        """From the facts of a journal; unknown where it does not say what we know."""
        said = facts.get(FACT, "")
        return cls(said) if said in {str(one) for one in cls} else cls.UNKNOWN

    @staticmethod
    def tells_submissions(facts: Mapping[str, str]) -> bool:
        """Whether it is known when jobs were submitted, and so whether and how long they waited."""
        return facts.get(SUBMISSIONS) != UNTOLD

    @staticmethod
    def untold_states(facts: Mapping[str, str]) -> frozenset[str]:
        """The states (``OUT``) of which it is not known of all nodes when they were in them."""
        said = facts.get(STATES, "")
        return OUT if said == UNTOLD else OUT.intersection(said.split(","))

    @property
    def is_simulated(self) -> bool:
        """Whether a twin made the events, from a file or around a recorded trace."""
        return self in _WORDS

    @property
    def words(self) -> str:
        """What to say beside every number; empty where nothing was simulated."""
        return _WORDS.get(self, "")


def note_live(world: World, facts: Mapping[str, str]) -> World:
    """A cluster state that knows whether a real cluster told of it, and a scheduler of its own is
    there: also one on which nothing ran yet. Where ours decides, ``scheduled`` says so.
    """
    world.is_live = Source.of(facts) is Source.LIVE and SCHEDULES not in facts
    return world


def untold_facts(*, tells_submissions: bool, states: frozenset[str]) -> dict[str, str]:
    """What is kept of what a source does not say; ``states``: as ``Source.untold_states``."""
    found = {} if tells_submissions else {SUBMISSIONS: UNTOLD}
    return found | ({STATES: ",".join(sorted(states))} if states else {})


_OURS = "causes and starts are what Tidemill's own policy makes of the same state, not what"
OTHER_SCHEDULER = f"this cluster has a scheduler of its own: {_OURS} that scheduler will do"
OTHER_SCHEDULERS = f"these clusters have schedulers of their own: {_OURS} those will do"
"""What to say beside every answer about waiting jobs of a live fleet; of several clusters."""

_WORDS = {
    Source.TWIN: "simulated: a twin ran the fleet that a file describes; nothing was measured",
    Source.TRACE: "simulated: a recorded trace, replayed by a twin; only the arrivals are recorded",
    Source.SHADOW: (
        "modelled: what a policy would have done with a recorded history; arrivals, nodes and run"
        " times are as seen, who sat where and when is not"
    ),
}
