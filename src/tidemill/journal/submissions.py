"""Submissions that the events of a journal cannot tell: a fact that is kept beside them.

A journal begins at zero, and a job may have been submitted before that (``--from``), or while no
scheduler wrote it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tidemill.engine.fold import earlier
from tidemill.journal import kept_facts
from tidemill.model.world import World

BEFORE, PLACED = "submitted_before", "placed_before"
MOST = 100_000
"""Jobs of which it is kept that they were submitted before the beginning; the oldest ones."""


class Submissions(NamedTuple):
    """By job, how long before the beginning it was submitted, and placed; below zero: after."""

    submitted: dict[str, int]
    placed: dict[str, int]
    """Of jobs that were found on nodes."""


def facts(before_ms: Mapping[str, int], placed: Mapping[str, int] | None = None) -> dict[str, str]:
    """What is kept: by job, how long before the beginning it was submitted; below zero: after."""
    return {
        key: msgspec.json.encode(dict(oldest)).decode()
        for key, told in ((BEFORE, before_ms), (PLACED, placed or {}))
        if (oldest := sorted(told.items(), key=lambda one: (-one[1], one[0]))[:MOST])
    }


def kept(facts: Mapping[str, str], where: str) -> Submissions:
    """All of it."""
    placed = kept_facts.read(facts, PLACED, dict[str, int], where) or {}
    return Submissions(before_ms(facts, where), placed)


def by_number(world: World, told: Submissions) -> tuple[dict[int, int], dict[int, int]]:
    """By number of a job: how much earlier than events say it was submitted, and when placed.

    Before that is put back into the cluster state.
    """
    number, submit_ms = world.job_number, world.jobs.submit_ms
    earlier = {
        j: submit_ms.item(j) + ms
        for name, ms in told.submitted.items()
        if (j := number.get(name)) is not None and submit_ms.item(j) > -ms
    }
    placed = {j: -ms for name, ms in told.placed.items() if (j := number.get(name)) is not None}
    return earlier, placed


def before_ms(kept: Mapping[str, str], where: str) -> dict[str, int]:
    """By job, how long before the beginning of the journal it was submitted."""
    return kept_facts.read(kept, BEFORE, dict[str, int], where) or {}


def put_back(world: World, kept: Mapping[str, str], where: str) -> World:
    """A cluster state in which jobs that waited at a first look do so since they were submitted.

    For answers alone: it is in no event.
    """
    earlier.submitted(world, before_ms(kept, where))
    return world


def put_all_back(world: World, facts: Mapping[str, str], where: str) -> World:
    """The same, where jobs that ran at a first look also do so since they were placed.

    Not for the books: what they held before the beginning is not in them.
    """
    told = kept(facts, where)
    earlier.submitted(world, told.submitted)
    earlier.placed(world, told.placed)
    return world
