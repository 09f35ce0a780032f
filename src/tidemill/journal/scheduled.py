"""What a scheduler of ours keeps beside the events: its name, whom it holds, whom it must spare.

Jobs that are held are in no queue, so no event tells of them; who may not be stopped is up to the
cluster's budgets, which come and go. Both are of the last time that the scheduler looked.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from tidemill.journal import kept_facts
from tidemill.model.held import UnplacedJob
from tidemill.model.world import World

SCHEDULES = "schedules"
"""For whom the scheduler that writes a journal decides: the name that pods ask for."""
HELD, KEPT = "held_jobs", "kept_jobs"
ORDERS = "ordered_nodes"
"""By job that waits for one more node: what autoscalers say of that."""
RULES = "rules_of"
"""Where its policy is: `file` or `object`, by its name; nobody named one: neither."""
MOST, LONGEST = 1_000, 400
_NOWHERE: Mapping[str, str] = MappingProxyType({})
_KEEPERS: Any = dict[str, str] | list[str]  # of earlier versions without what keeps them


def facts(
    held: Iterable[UnplacedJob], kept: Mapping[str, str], rules_of: Mapping[str, str] = _NOWHERE
) -> dict[str, str]:
    """What is kept; also that nobody is held, or spared, any more. ``kept``: by job, by what."""
    some = [msgspec.structs.replace(one, words=one.words[:LONGEST]) for one in sorted(held)[:MOST]]
    spared = {name: words[:LONGEST] for name, words in sorted(kept.items())[:MOST]}
    return {HELD: _text(some), KEPT: _text(spared), RULES: _text(dict(rules_of))}


def order_facts(words: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What is kept of nodes that were ordered; also that none is any more."""
    return {ORDERS: _text({name: told[:LONGEST] for name, told in sorted(words)[:MOST]})}


def orders(kept: Mapping[str, str], where: str) -> Mapping[str, str]:
    """What autoscalers say of nodes that jobs ordered, by the job."""
    return kept_facts.by_name(kept, ORDERS, where)


def held_jobs(kept: Mapping[str, str], where: str) -> tuple[UnplacedJob, ...]:
    """Jobs that a journal says are held."""
    return tuple(kept_facts.read(kept, HELD, list[UnplacedJob], where) or ())


def put_back(world: World, kept: Mapping[str, str], where: str) -> World:
    """A cluster state that knows who decides here, and who must not be stopped now."""
    world.scheduler = kept.get(SCHEDULES, "")
    world.rules_of = kept_facts.by_name(kept, RULES, where)
    told = kept_facts.read(kept, KEPT, _KEEPERS, where) or {}
    told = told if isinstance(told, dict) else dict.fromkeys(told, "")
    number = world.job_number
    world.keepers = {number[name]: words for name, words in told.items() if name in number}
    world.kept = frozenset(world.keepers)
    return world


def _text(rows: object) -> str:
    return msgspec.json.encode(rows).decode()
