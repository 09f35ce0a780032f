"""What is used up of the quotas of teams, as their cluster counts: a fact beside the events.

Work that waits counts there too, which no event tells. It is of the last time that somebody looked.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tidemill.journal import kept_facts
from tidemill.model.quota_use import QuotaUse
from tidemill.model.world import World

FACT = "quota_use"
MOST = 10_000


class SeenUse(NamedTuple):
    """What was seen, and first when, from the zero of the journal."""

    since_ms: int
    quotas: tuple[QuotaUse, ...] = ()


NOTHING = SeenUse(0)


def facts(
    kept: Mapping[str, str], told: Iterable[QuotaUse], now_ms: int, where: str
) -> dict[str, str]:
    """What is kept; nothing if it is no news."""
    before = kept_facts.read(kept, FACT, SeenUse, where) or NOTHING
    now = tuple(told)[:MOST]
    if now == before.quotas:
        return {}
    return {FACT: msgspec.json.encode(SeenUse(now_ms, now)).decode()}


def put_back(world: World, kept: Mapping[str, str], where: str) -> World:
    """A cluster state that knows it, as far as it was so by then."""
    found = kept_facts.read(kept, FACT, SeenUse, where) or NOTHING
    if found.since_ms <= world.now_ms:
        world.quota_use = tuple(one for one in found.quotas if not one.keeper)
    return world
