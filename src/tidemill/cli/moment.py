"""Opening a journal at the moment that was asked for, and saying so when it ends before it.

On a machine where nothing was compiled yet a single question is answered by interpreted kernels:
``why`` on the demo takes 2.4 s then, and 22 s with compiling (processor time, measured).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tidemill import api, compiled
from tidemill.api import calendar_of
from tidemill.cli import screen
from tidemill.model.policy import Policy
from tidemill.model.world import World

if TYPE_CHECKING:
    from tidemill.explain import Glance

EVENTS_INTERPRETED = 250_000  # 26 us each more than compiled ones, and compiling takes 6 s or more
NODES_INTERPRETED = 2_000  # `why` takes 3 s on 1,000 with 500 waiting shapes, 26 on 10,000 (5,000)


def note_extent(journal: str) -> None:
    """Say so where a journal is not complete; before anything that was read from it."""
    if found := api.completeness_of(journal).words:
        screen.note(f"`{journal}`: {found}")


def note_source(journal: str) -> None:
    """Say beside every answer that its journal is a twin's, if it is."""
    if words := api.source_of(journal).words:
        screen.note(words)


def world_at(journal: str, at: str | None, *, notes_extent: bool = True) -> tuple[World, Policy]:
    """The cluster state at a moment (or at the end) and the policy it was run with."""
    if notes_extent:
        note_extent(journal)
    at_ms = None if at is None else calendar_of(journal).ms(at, "--at")
    with ExitStack() as around:
        with api.open_journal(journal) as opened:
            if len(opened) <= EVENTS_INTERPRETED:
                around.enter_context(compiled.interpreting())
        world, policy = api.open_world(journal, at_ms)
    note_source(journal)
    if at_ms is not None:
        with api.open_journal(journal) as opened:
            last_ms = api.last_ms(opened)
        if at_ms > last_ms:
            end = calendar_of(journal).text(last_ms)
            screen.note(f"the journal ends at {end}; shown as if nothing has happened since")
    return world, policy


@contextmanager
def one_question(world: World) -> Iterator["Glance"]:
    """What the scheduler is asked with, about the cluster state as it is and only once."""
    from tidemill.explain import Glance

    with ExitStack() as around:
        if world.node_count <= NODES_INTERPRETED:
            around.enter_context(compiled.interpreting())
        yield Glance(world, sweeps=True)
