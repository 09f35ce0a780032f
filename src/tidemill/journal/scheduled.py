"""What a scheduler of ours keeps beside the events: its name, whom it holds, whom it must spare.

Jobs that are held are in no queue, so no event tells of them; who may not be stopped is up to the
cluster's budgets, which come and go. Both are of the last time that the scheduler looked.
"""

from collections.abc import Iterable, Mapping

import msgspec

from tidemill.journal import kept_facts
from tidemill.model.held import UnplacedJob
from tidemill.model.world import World

SCHEDULES = "schedules"
"""For whom the scheduler that writes a journal decides: the name that pods ask for."""
HELD, KEPT = "held_jobs", "kept_jobs"
MOST, LONGEST = 1_000, 400


def facts(held: Iterable[UnplacedJob], kept: Iterable[str]) -> dict[str, str]:
    """What is kept; also that nobody is held, or spared, any more."""
    some = [msgspec.structs.replace(one, words=one.words[:LONGEST]) for one in sorted(held)[:MOST]]
    return {HELD: _text(some), KEPT: _text(sorted(kept)[:MOST])}


def held_jobs(kept: Mapping[str, str], where: str) -> tuple[UnplacedJob, ...]:
    """Jobs that a journal says are held."""
    return tuple(kept_facts.read(kept, HELD, list[UnplacedJob], where) or ())


def put_back(world: World, kept: Mapping[str, str], where: str) -> World:
    """A cluster state that knows who decides here, and who must not be stopped now."""
    world.scheduler = kept.get(SCHEDULES, "")
    names = kept_facts.read(kept, KEPT, list[str], where) or ()
    world.kept = frozenset(world.job_number[name] for name in names if name in world.job_number)
    return world


def _text(rows: object) -> str:
    return msgspec.json.encode(rows).decode()
