"""How the sources of an observed journal answered when they were last asked: a fact beside it.

No event follows from it, and the books do not rest on it: it says which source was down, slow or
contradicted itself, so that people know why lines of the ledger are unknown.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct

from tidemill.journal import kept_facts

FACT = "asked_sources"
MOST_NOTES = 8
LONGEST = 1_000


class SourcePart(StrEnum):
    """What a source tells of."""

    JOBS = "jobs and nodes"
    LOOPS = "loops"
    DEVICES = "devices"


class AskedSource(Struct, frozen=True, kw_only=True):
    """One source; moments are since 1970, by the clock of whoever asked."""

    name: str
    part: SourcePart
    asked_ms: int
    answered_ms: int = 0
    """Its last answer; 0: none yet."""
    took_ms: int = 0
    """How long that answer took."""
    failed: str = ""
    """What was found in its place when it was last asked; "": it answered."""
    notes: tuple[str, ...] = ()
    """What its last answer gave reason to say."""
    late: int = 0
    """What it told after its time was told, since the journal began."""


def gone_on(before: Iterable[AskedSource], now: Iterable[AskedSource]) -> list[AskedSource]:
    """What is known of all sources: of one that did not answer, when it last did."""
    known = {(one.part, one.name): one for one in before}
    for one in now:
        known[one.part, one.name] = _after(known.get((one.part, one.name)), one)
    return [known[key] for key in sorted(known)]


def _after(old: AskedSource | None, new: AskedSource) -> AskedSource:
    """What is known of one source; messages are bounded."""
    kept = old if old is not None and new.failed else new
    return AskedSource(
        name=new.name, part=new.part, asked_ms=new.asked_ms, answered_ms=kept.answered_ms,
        took_ms=kept.took_ms, failed=new.failed[:LONGEST],
        notes=tuple(note[:LONGEST] for note in kept.notes[:MOST_NOTES]),
        late=new.late + (old.late if old is not None else 0),
    )  # fmt: skip


def facts(told: Iterable[AskedSource]) -> dict[str, str]:
    """What is kept."""
    return {FACT: msgspec.json.encode(list(told)).decode()}


def of(kept: Mapping[str, str], where: str) -> list[AskedSource]:
    """The sources of a journal; none: nobody observed it, or an older version did."""
    return kept_facts.read(kept, FACT, list[AskedSource], where) or []
