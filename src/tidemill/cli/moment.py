"""Opening a journal at the moment that was asked for, and saying so when it ends before it.

On a machine where nothing was compiled yet a single question is answered by interpreted kernels:
``why`` on the demo takes 2.4 s then, and 22 s with compiling (processor time, measured).
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from tidemill import api, compiled
from tidemill.cli import screen
from tidemill.explain import supply
from tidemill.journal import Journal, asked_sources, completeness, scheduled
from tidemill.journal.asked_sources import SourcePart
from tidemill.journal.moments import Calendar
from tidemill.journal.source import OTHER_SCHEDULER, OTHER_SCHEDULERS, Source
from tidemill.model.errors import JournalError
from tidemill.model.held import UnplacedJob
from tidemill.model.policy import Policy
from tidemill.model.world import World

if TYPE_CHECKING:
    from tidemill.explain import Glance
    from tidemill.explain.bands import Sides

EVENTS_INTERPRETED = 250_000  # 26 us each more than compiled ones, and compiling takes 6 s or more
NODES_INTERPRETED = 2_000  # `why` takes 3 s on 1,000 with 500 waiting shapes, 26 on 10,000 (5,000)


def note_extent(journal: str) -> None:
    """Say so where a journal is not complete; before anything that was read from it."""
    if found := api.completeness_of(journal).words:
        screen.note(f"`{journal}`: {found}")


def world_at(
    journal: str,
    at: str | None,
    *,
    notes_extent: bool = True,
    notes_decider: bool = True,
    notes_unlisted: bool = True,
) -> tuple[World, Policy]:
    """The cluster state at a moment (or at the end) and the policy it was run with.

    What the answer itself says need not be noted: who decides, which nodes nobody lists.
    """
    with api.open_journal(journal) as opened:
        if notes_extent and (found := completeness.of(opened).words):
            screen.note(f"`{journal}`: {found}")
        facts = opened.facts()
        _refuse_untold(opened, facts)
        calendar = Calendar.of(facts)
        at_ms = _now_ms(opened, calendar) if at is None else calendar.ms(at, "--at")
        with _interpreting_if(len(opened) <= EVENTS_INTERPRETED):
            world, policy = api.world_of(opened, at_ms)
        source = Source.of(facts)
        if words := _who_decides(world, source, notes_decider):
            screen.note(words)
        if notes_unlisted:
            note_unlisted(world)
        if at is not None and at_ms is not None and world.seq == len(opened):
            last_ms = api.last_ms(opened)
            if at_ms > last_ms:
                end = calendar.text(last_ms)
                screen.note(f"the journal ends at {end}; shown as if nothing has happened since")
    return world, policy


def _refuse_untold(journal: Journal, facts: Mapping[str, str]) -> None:
    """Refuse a journal whose sources were asked, and never answered: it knows of nothing."""
    asked = [one for one in asked_sources.of(facts, journal.where) if one.part is SourcePart.JOBS]
    if len(journal) or not asked or any(one.answered_ms for one in asked):
        return
    last = asked[0]
    raise JournalError(
        f"nobody has told `{journal.where}` anything yet: what waits, and what is free, is unknown"
        f" (`{last.name}`: {last.failed})",
        hint="mend that, and observe again; `tidemill doctor` shows how each source answers",
    )


def note_unlisted(world: World, said: str = "") -> None:
    """Say which nodes nobody lists, unless the answer says it."""
    if (words := supply.unlisted_words(world)) and words not in said:
        screen.note(words)


def _now_ms(opened: Journal, calendar: Calendar) -> int | None:
    """Now, in a journal that somebody writes as things happen; None: it ends with its last event.

    A fleet in which nothing happens still waits.
    """
    is_live = Source.of(opened.facts()) is Source.LIVE and opened.is_being_written()
    if not is_live or calendar.begins is None or calendar.begins.tzinfo is None:
        return None
    return round(1000 * (time.time() - calendar.begins.timestamp()))


def _who_decides(world: World, source: Source, notes_decider: bool) -> str:
    """What to say beside answers about waiting jobs: whether they are our own scheduler's."""
    if source is not Source.LIVE:
        return source.words
    if world.scheduler or not notes_decider:
        return ""
    return _others(world)


def _others(world: World) -> str:
    return OTHER_SCHEDULERS if supply.clusters(world) else OTHER_SCHEDULER


def note_decider(world: World, reasons: Iterable[object]) -> None:
    """Say that causes are by our own policy, where the cluster's own scheduler gave no reason for
    some of these jobs.
    """
    if world.is_looked_on and not all(reasons):
        screen.note(_others(world))


def held_jobs(journal: str, at: str | None) -> tuple[UnplacedJob, ...]:
    """Jobs that the scheduler of a journal holds now; of an earlier moment nobody knows them."""
    if at is not None:
        return ()
    with api.open_journal(journal) as opened:
        return scheduled.held_jobs(opened.facts(), opened.where)


def ordered_nodes(journal: str, at: str | None) -> Mapping[str, str]:
    """What autoscalers say now of nodes that waiting jobs ordered, by the job."""
    if at is not None:
        return {}
    with api.open_journal(journal) as opened:
        return scheduled.orders(opened.facts(), opened.where)


def sides_of(journal: str, world: World, policy: Policy) -> "Sides":
    """How wide bands of this fleet are, by what came of forecasts earlier in its journal."""
    from tidemill.explain import past_forecasts

    with api.open_journal(journal) as opened:
        return past_forecasts.sides(opened, world, policy)


def _interpreting_if(is_small: bool) -> AbstractContextManager[None]:
    return compiled.interpreting() if is_small else nullcontext()


@contextmanager
def one_question(world: World) -> Iterator["Glance"]:
    """What the scheduler is asked with, about the cluster state as it is and only once."""
    from tidemill.explain import Glance

    with _interpreting_if(world.node_count <= NODES_INTERPRETED):
        yield Glance(world, sweeps=True)
