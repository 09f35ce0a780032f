"""Decisions by stage: every placement of the demo is explained, and compared with what was taken.

The cycle is run again from the state before each plan (``tidemill decision``, without reading the
journal). Counted are placements of which the winner that is named is where the job was put.
"""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tidemill import api
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.engine.loop import Loop
from tidemill.explain.decision import past, stages
from tidemill.explain.decision.answers import Decision
from tidemill.explain.decision.history import JobHistory
from tidemill.journal.memory import MemoryJournal
from tidemill.model import events as ev
from tidemill.model.policy import Policy
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.twin.spec.tables import Spec


def run(spec: str | None = None) -> dict[str, Any]:
    """Explain every placement of the demo, or of another spec."""
    loaded = api.demo_spec() if spec is None else api.load_spec(spec)
    ways, spent_s, count, beside = Counter[str](), 0.0, 0, 0
    for world, event in _placements(_events(loaded)):
        start_s = time.process_time()
        told = explained(world, loaded.policy, event)
        spent_s += time.process_time() - start_s
        ways.update(_way(world, event, told))
        count += 1
        beside += told.bind is not None and any(row.is_beside for row in told.bind.reservations)
    return {
        "placements": count,
        "beside_a_reservation": beside,
        "as_taken": dict(sorted(ways.items())),
        "cpu_ms_each": round(1000 * spent_s / max(1, count), 1),
    }


def explained(world: World, policy: Policy, event: ev.AskedPlace) -> Decision:
    """What is told of a placement, from the state before its plan."""
    j = event.job
    history = JobHistory(j, world.jobs.shape.item(j), world.jobs.submit_ms.item(j))
    made = stages.Placing(world, event.at_ms, event.attempt, event.pieces)
    return stages.placed(world, policy, j, history, made, past.Room())


def _events(spec: Spec) -> Iterator[ev.Event]:
    journal = MemoryJournal()
    Loop(World(), spec.policy, Twin.from_spec(spec), journal).run(int(spec.twin.horizon))
    return journal.read()


def _placements(events: Iterator[ev.Event]) -> Iterator[tuple[World, ev.AskedPlace]]:
    """Every placement, with the state from which its plan was made."""
    world, plan = World(), list[ev.Event]()
    for event in events:
        if isinstance(event, ev.Action):
            plan.append(event)
            continue
        yield from ((world, one) for one in plan if isinstance(one, ev.AskedPlace))
        fold_all(world, plan)
        plan.clear()
        fold(world, event)
    yield from ((world, one) for one in plan if isinstance(one, ev.AskedPlace))


def _way(world: World, event: ev.AskedPlace, told: Decision) -> Iterator[str]:
    """How the place of each role was chosen, or that it is not told as it was."""
    if told.unknown:
        yield "not explained"
    for r, row in enumerate(told.scores):
        first = next(piece for piece in event.pieces if piece.role == r)
        name = row.candidates[0].name.split(" device ")[0]
        is_right = row.of == "domain" or name == world.node_rows[first.node].name
        yield row.way if row.candidates[0].is_taken and is_right else "told wrongly"
    for role in told.filters:
        if sum(row.nodes for row in role.removed) + role.remaining != role.nodes:
            yield "filters do not add up"
