"""One journal that goes on with what a source shows, however often its writer is killed."""

from typing import NamedTuple, Protocol, Self

import tidemill
from tidemill.engine.fold.batch import fold_batch
from tidemill.journal import Journal, completeness, open_journal, policies
from tidemill.journal.completeness import Begun
from tidemill.journal.keeping import RunKeeper
from tidemill.journal.moments import Calendar
from tidemill.journal.replay import rebuild
from tidemill.journal.source import FACT, Source
from tidemill.live.history.advance import Advance, SourceAnswer
from tidemill.live.history.telling import NOTHING_LATE, Late
from tidemill.live.prices.rules import PriceRule
from tidemill.model.columns import AT
from tidemill.model.errors import JournalError
from tidemill.model.policy import Policy
from tidemill.model.states import LAUNCHED

WATCHES = "watches"
"""The fact of a journal that says what its observer watches."""


class Watched(Protocol):
    """A cluster that can be asked."""

    name: str

    def now_ms(self) -> int:
        """Its own clock, since 1970."""

    def poll(self, since_ms: int) -> SourceAnswer:
        """What it shows of the time since a moment."""


class ObserverTerms(NamedTuple):
    """What an observer was told by whoever started it."""

    price_of: PriceRule
    lateness_ms: int = 60_000
    gap_ms: int = 600_000
    """A longer time between two answers was not watched."""
    zone: str = "UTC"


class AnswerTaken(NamedTuple):
    """What came of one answer."""

    told_ms: int
    """How much time was told."""
    jobs: int
    waiting: int
    running: int
    nodes: int
    lag_ms: int
    """How far the journal is behind the clock of the source."""
    late: Late
    over: int
    is_gap: bool
    notes: tuple[str, ...]


class Observer:
    """The one writer of an observed journal; a context manager."""

    def __init__(self, journal: Journal, source: Watched, terms: ObserverTerms) -> None:
        self._journal, self._source, self._terms = journal, source, terms
        journal.claim()
        self._world = rebuild(journal)
        self._keeper = RunKeeper(journal, self._world)
        self._begins_ms = self._begun_ms()
        self._is_going_on = len(journal) > 0
        self.late = NOTHING_LATE
        """All that was late since this observer was started."""

    @classmethod
    def open(
        cls, where: str, source: Watched, terms: ObserverTerms, since_ms: int | None = None
    ) -> Self:
        """Go on with a journal, or begin one at a moment (default: now, less the lateness)."""
        opened = open_journal(where, create=True)
        try:
            opened.claim()
            if not len(opened):
                begins = source.now_ms() - terms.lateness_ms if since_ms is None else since_ms
                _begin(opened, source.name, begins, terms.zone)
            _refuse_other(opened, source.name)
            return cls(opened, source, terms)
        except BaseException:
            opened.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()

    @property
    def mark_ms(self) -> int:
        """Up to when the journal tells, since 1970."""
        return self._begins_ms + self._world.now_ms

    def ask(self) -> AnswerTaken:
        """Ask the source once, and tell what it shows; ``BackendError`` if it does not answer."""
        return self.take(self._source.poll(self.mark_ms))

    def take(self, answer: SourceAnswer) -> AnswerTaken:
        """Tell what an answer shows, up to its moment less the lateness."""
        before, until_ms = self.mark_ms, answer.now_ms - self._terms.lateness_ms
        if until_ms <= before:
            return self._taken(answer, 0, NOTHING_LATE, 0, is_gap=False)
        is_gap = self._is_going_on and until_ms - before > self._terms.gap_ms
        going = Advance(
            self._world, self._begins_ms, answer, self._terms.price_of, is_unwatched=is_gap
        )
        for batch in going.batches(until_ms):
            fold_batch(self._world, batch)
            self._keeper.append_batch(batch)
        self._is_going_on = True
        self.late = self.late.plus(going.late)
        notes = answer._replace(notes=(*answer.notes, *going.notes))
        return self._taken(notes, until_ms - before, going.late, going.over, is_gap=is_gap)

    def finish(self) -> None:
        """Stop in good order: the next reader needs no more than the last snapshot."""
        self._journal.save_snapshot(self._world)

    def _taken(
        self, answer: SourceAnswer, told_ms: int, late: Late, over: int, *, is_gap: bool
    ) -> AnswerTaken:
        world = self._world
        at, count = world.matrices.at, world.node_count
        nodes = sum(state in LAUNCHED for state in world.nodes.state[:count].tolist())
        return AnswerTaken(
            told_ms, world.job_count, at.item(AT.WAITING), len(world.placements), nodes,
            answer.now_ms - self.mark_ms, late, over, is_gap, answer.notes,
        )  # fmt: skip

    def _begun_ms(self) -> int:
        begins = Calendar.of(self._journal.facts()).begins
        if begins is None or begins.tzinfo is None:
            raise JournalError(
                f"journal `{self._journal.where}` does not say when it began, in which zone",
                hint="an observer writes a journal of its own: give another path",
            )
        return round(begins.timestamp() * 1000)


def _begin(journal: Journal, name: str, begins_ms: int, zone: str) -> None:
    """Facts of a journal that nobody wrote into yet; safe to do again after a kill."""
    completeness.begin(journal, Begun(given=completeness.OBSERVED, version=tidemill.__version__))
    calendar = Calendar.since_1970(begins_ms, zone)
    facts = {"name": name, FACT: str(Source.LIVE), WATCHES: name}
    for key, value in {**facts, **calendar.facts(), **policies.facts(Policy())}.items():
        journal.set_meta(key, value)


def _refuse_other(journal: Journal, name: str) -> None:
    found = journal.facts().get(WATCHES)
    if found != name:
        raise JournalError(
            f"journal `{journal.where}` is not that of an observer of {name}",
            hint="an observer goes on only with its own journal: give another path",
        )
