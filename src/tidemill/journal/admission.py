"""Which queues let work in, and what of their quotas is used up (``model.admission``): a fact.

Work that waits may hold quota too, which no event tells. It is of the last time that somebody
looked.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tidemill.journal import kept_facts
from tidemill.model.admission import NO_ADMISSION, Admission
from tidemill.model.world import World

FACT = "admission"
MOST = 10_000
"""Jobs that hold quota and wait."""


class SeenAdmission(NamedTuple):
    """What was seen, and first when, from the zero of the journal."""

    since_ms: int
    told: Admission = NO_ADMISSION


def facts(kept: Mapping[str, str], told: Admission, now_ms: int, where: str) -> dict[str, str]:
    """What is kept; nothing if it is no news."""
    before = kept_facts.read(kept, FACT, SeenAdmission, where) or SeenAdmission(0)
    now = told._replace(admitted=told.admitted[:MOST])
    if now == before.told:
        return {}
    return {FACT: msgspec.json.encode(SeenAdmission(now_ms, now)).decode()}


def put_back(world: World, kept: Mapping[str, str], where: str) -> World:
    """A cluster state that knows it, as far as it was so by then."""
    found = kept_facts.read(kept, FACT, SeenAdmission, where) or SeenAdmission(0)
    if found.since_ms <= world.now_ms:
        world.admission = found.told
    return world
