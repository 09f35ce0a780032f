"""Whether a journal is whole: a run that began it says so, and says again when it is through.

Two facts beside the events. ``run``: which run it is (what it was given, its seed, the version of
Tidemill), kept before the first event. ``completed``: how many events there were when the run was
through, kept after the last. A journal with the first and without the second was interrupted, or
is still being written if somebody holds its lock. Neither fact holds a date: the same run writes
the same journal.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from tidemill.journal.base import Journal
from tidemill.journal.scheduled import SCHEDULES
from tidemill.model import decoding
from tidemill.model.errors import JournalError

RUN, COMPLETED = "run", "completed"

OBSERVED = "observed"
"""What the run of an observer or of a live scheduler was given: it has no end of its own."""

State = Literal[
    "complete", "interrupted", "not observed now", "not scheduled now", "being written",
    "cut short", "unrecorded",
]  # fmt: skip


class Begun(Struct, frozen=True, kw_only=True):
    """Which run a journal is of; two that are equal tell the same story."""

    given: str = ""
    """A digest of what the run was given: a spec without its seed, a trace with its options."""
    seed: int | None = None
    version: str = ""
    """Of Tidemill."""


class Completeness(NamedTuple):
    """How far a journal goes: how many events it has, and how many it had when it was completed."""

    state: State
    events: int
    completed_events: int | None = None

    @property
    def words(self) -> str:
        """What a reader must know; empty where there is nothing to be said."""
        match self.state:
            case "being written":
                return (
                    f"the journal is still being written; this is what there was after"
                    f" {self.events:,} events"
                )
            case "interrupted":
                return (
                    f"the run that wrote this journal was interrupted after {self.events:,} events;"
                    " all that is said here is about that part (run it again with --resume to go"
                    " on)"
                )
            case "not observed now" | "not scheduled now":
                who = "observer" if self.state == "not observed now" else "scheduler"
                return (
                    f"no {who} is writing this journal now; this is what there was after"
                    f" {self.events:,} events (start it again to go on)"
                )
            case "cut short":
                return (
                    f"this journal has {self.events:,} of the {self.completed_events:,} events"
                    " that its run wrote; all that is said here is about that part"
                )
        return ""


def begin(journal: Journal, begun: Begun) -> None:
    """Say that a run begins; before its first event."""
    journal.set_meta(RUN, msgspec.json.encode(begun).decode())


def complete(journal: Journal) -> None:
    """Say that a run is through; after its last event."""
    journal.set_meta(COMPLETED, str(len(journal)))


def begun(journal: Journal) -> Begun | None:
    """Which run began a journal; None where none said so."""
    text = journal.meta(RUN)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Begun)
    except msgspec.MsgspecError as error:
        raise JournalError(
            f"journal `{journal.where}` says in a way that cannot be read which run it is of:"
            f" {decoding.in_words(error, text, Begun)}",
            hint="use the newer Tidemill that wrote it",
        ) from error


def is_observed(facts: Mapping[str, str]) -> bool:
    """Whether an observer, or a live scheduler, writes this journal: it is never through."""
    return RUN in facts and COMPLETED not in facts


def of(journal: Journal) -> Completeness:
    """How far a journal goes."""
    was_held = journal.is_being_written()  # first: a writer that ends says so before it lets go
    facts, events = journal.facts(), len(journal)
    text = facts.get(COMPLETED, "")
    if text.isdecimal():
        expected = int(text)
        return Completeness("complete" if events >= expected else "cut short", events, expected)
    if RUN not in facts:
        return Completeness("unrecorded", events)
    if was_held or journal.is_being_written():
        return Completeness("being written", events)
    found = begun(journal)
    if found is None or found.given != OBSERVED:
        return Completeness("interrupted", events)
    return Completeness("not scheduled now" if SCHEDULES in facts else "not observed now", events)
