"""Pods that share the claims of jobs (DRA), as last seen: a fact beside the events.

The GPUs of a claim count once, so no event tells of the other pods. ``why`` of one of them names
the job, and ``pending`` those that wait.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tidemill.journal import kept_facts
from tidemill.model.claim_sharers import ClaimSharer
from tidemill.model.world import World

FACT = "claim_sharers"
MOST = 10_000


class SeenSharers(NamedTuple):
    """What was seen, and first when, from the zero of the journal."""

    since_ms: int
    pods: tuple[ClaimSharer, ...] = ()


NOBODY = SeenSharers(0)


def facts(
    kept: Mapping[str, str], told: Iterable[ClaimSharer], now_ms: int, where: str
) -> dict[str, str]:
    """What is kept; nothing if it is no news."""
    before = kept_facts.read(kept, FACT, SeenSharers, where) or NOBODY
    now = tuple(sorted(told)[:MOST])
    if now == before.pods:
        return {}
    return {FACT: msgspec.json.encode(SeenSharers(now_ms, now)).decode()}


def put_back(world: World, kept: Mapping[str, str], where: str) -> World:
    """A cluster state that knows them, as far as it was so by then."""
    found = kept_facts.read(kept, FACT, SeenSharers, where) or NOBODY
    if found.since_ms <= world.now_ms:
        world.claim_sharers = found.pods
    return world
