"""Opening a journal at the moment that was asked for, and saying so when it ends before it."""

from tidemill import api
from tidemill.api import calendar_of
from tidemill.cli import screen
from tidemill.model.policy import Policy
from tidemill.model.world import World


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
    world, policy = api.open_world(journal, at_ms)
    note_source(journal)
    if at_ms is not None:
        with api.open_journal(journal) as opened:
            last_ms = api.last_ms(opened)
        if at_ms > last_ms:
            end = calendar_of(journal).text(last_ms)
            screen.note(f"the journal ends at {end}; shown as if nothing has happened since")
    return world, policy
