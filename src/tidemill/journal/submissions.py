"""Submissions that the events of a journal cannot tell: a fact that is kept beside them.

A journal begins at zero, and a job may have been submitted before that (``--from``), or while no
scheduler wrote it.
"""

from collections.abc import Mapping

import msgspec

from tidemill.engine.fold import earlier
from tidemill.journal import kept_facts
from tidemill.model.world import World

BEFORE = "submitted_before"
MOST = 100_000
"""Jobs of which it is kept that they were submitted before the beginning; the oldest ones."""


def facts(before_ms: Mapping[str, int]) -> dict[str, str]:
    """What is kept: by job, how long before the beginning it was submitted; below zero: after."""
    oldest = sorted(before_ms.items(), key=lambda one: (-one[1], one[0]))[:MOST]
    return {BEFORE: msgspec.json.encode(dict(oldest)).decode()} if oldest else {}


def before_ms(kept: Mapping[str, str], where: str) -> dict[str, int]:
    """By job, how long before the beginning of the journal it was submitted."""
    return kept_facts.read(kept, BEFORE, dict[str, int], where) or {}


def put_back(world: World, kept: Mapping[str, str], where: str) -> World:
    """A cluster state in which jobs that waited at a first look do so since they were submitted.

    For answers alone: it is in no event.
    """
    earlier.submitted(world, before_ms(kept, where))
    return world
