"""What a cluster rules beside the events (``model.site_rules``): a fact of its journal.

Reservations are kept with their times, also when they are over; what partitions allow is of the
last look, and counts from when it was first seen.
"""

from collections.abc import Mapping

import msgspec

from tidemill.journal import kept_facts
from tidemill.model.site_rules import NO_RULES, SiteRules
from tidemill.model.world import World

FACT = "site_rules"
MOST = 1_000
"""Reservations of which it is kept; the last that began."""
MOST_JOBS = 10_000
"""Jobs of each, likewise the last."""


def of(kept: Mapping[str, str], where: str) -> SiteRules:
    """What a journal keeps of it."""
    return kept_facts.read(kept, FACT, SiteRules, where) or NO_RULES


def facts(
    known: SiteRules, told: SiteRules, now_ms: int, *, is_whole: bool = True
) -> dict[str, str]:
    """What is kept, after this too; nothing if it is no news.

    A reservation that is not told any more is over, unless not all was told (``is_whole``).
    """
    kept = {(one.name, one.since_ms): one for one in known.reservations}
    shown = {(one.name, one.since_ms): one for one in told.reservations}
    for key, one in kept.items():
        if key in shown:
            jobs = tuple(dict.fromkeys((*one.jobs, *shown[key].jobs)))[-MOST_JOBS:]
            kept[key] = shown[key]._replace(jobs=jobs)
        elif is_whole and (one.until_ms is None or one.until_ms > now_ms):
            kept[key] = one._replace(until_ms=now_ms)
    ordered = sorted((shown | kept).values(), key=lambda one: (one.since_ms, one.name))
    before = {(one.cluster, one.name): one for one in known.partitions}
    limits = {} if is_whole else dict(before)
    for limit in told.partitions:
        key_of = limit.cluster, limit.name
        old = before.get(key_of)
        is_same = old is not None and old._replace(since_ms=limit.since_ms) == limit
        limits[key_of] = old if old and is_same else limit._replace(since_ms=now_ms)
    rules = SiteRules(tuple(ordered[-MOST:]), tuple(limits[key] for key in sorted(limits)))
    return {} if rules == known else {FACT: msgspec.json.encode(rules).decode()}


def put_back(world: World, kept: Mapping[str, str], where: str) -> World:
    """A cluster state that knows them."""
    world.site = of(kept, where)
    return world
