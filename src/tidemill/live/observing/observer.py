"""One journal that goes on with what a source shows, however often its writer is killed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, Protocol, Self, TypeVar

import msgspec
from msgspec.structs import replace

import tidemill
from tidemill.engine.fold.batch import fold_batch
from tidemill.journal import (
    Journal,
    admission,
    asked_sources,
    claim_sharers,
    cluster_kinds,
    completeness,
    contradictions,
    deciders,
    device_ids,
    exists,
    mfu_sources,
    node_limits,
    node_reasons,
    open_journal,
    policies,
    quota_use,
    site_rules,
    submissions,
)
from tidemill.journal.asked_sources import AskedSource, SourcePart
from tidemill.journal.completeness import Begun
from tidemill.journal.keeping import RunKeeper
from tidemill.journal.moments import Calendar
from tidemill.journal.replay import rebuild
from tidemill.journal.source import FACT, Source
from tidemill.journal.submissions import Submissions
from tidemill.live.history import events
from tidemill.live.history.advance import Advance, SourceAnswer, WorkFigures
from tidemill.live.history.assuming import NOTHING, Assumptions
from tidemill.live.history.attempts import kind_of
from tidemill.live.history.intent import NO_INTENT, NodeIntent
from tidemill.live.history.telling import NOTHING_LATE, Late, present
from tidemill.live.measured import pauses, windows
from tidemill.live.measured.joining import devices_of
from tidemill.live.measured.pauses import ToldPauses
from tidemill.live.measured.windows import Measurements
from tidemill.live.observing.asking import Asking
from tidemill.live.observing.measuring import MeasuredSpan, Measuring
from tidemill.live.prices.rules import PriceRule
from tidemill.live.prometheus import instances
from tidemill.live.prometheus.joining import Whose
from tidemill.model import partial
from tidemill.model.columns import AT
from tidemill.model.errors import BackendError, JournalError
from tidemill.model.node_groups import machine
from tidemill.model.policy import Policy
from tidemill.model.states import LAUNCHED, JobState

LATE = "late"
"""The fact of a journal that says how much was told after its time."""
WATCHES = "watches"
"""The fact of a journal that says what its observer watches."""
CLUSTER = "cluster"
"""The fact that says which cluster that is, if it can be told from others."""
PAUSED = "paused"
"""The fact that says for how long attempts that go on were told to have stood still."""
FIRST_TOLD_MS = 1_000
"""So much at least is told by the first answer: clocks of clusters are known to the second."""

_Rolled = TypeVar("_Rolled")


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
    assumed: Assumptions = NOTHING
    intent: NodeIntent = NO_INTENT
    unheard: Callable[[Iterable[str]], str] = lambda _: ""
    """Given the GPU types of nodes, that some were priced which no node has, in words."""


class AnswerTaken(NamedTuple):
    """What came of one answer."""

    told_ms: int
    """How much time was told."""
    jobs: int
    waiting: int
    running: int
    nodes: int
    shown_nodes: int
    """Nodes that the source showed; those of the journal may be fewer while nothing is told."""
    lag_ms: int
    """How far the journal is behind the clock of the source."""
    late: Late
    over: int
    is_gap: bool
    notes: tuple[str, ...]
    late_records: int = 0
    """Of training loops: their time was told already, and they are not used."""
    in_part: int = 0
    """Jobs of which only a part is placed: they hold GPUs, and do not run."""


class Observer:
    """The one writer of an observed journal; a context manager.

    ``measuring``: who measures what jobs do, beside the source that shows them.
    """

    def __init__(
        self,
        journal: Journal,
        source: Watched,
        terms: ObserverTerms,
        measuring: Sequence[Measuring] = (),
    ) -> None:
        self._journal, self._source, self._terms = journal, source, terms
        self._measuring = measuring
        self._gap_ms = terms.gap_ms + max((one.step_ms for one in measuring), default=0)
        journal.claim()
        self._world = rebuild(journal)
        self._keeper = RunKeeper(journal, self._world)
        self._begins_ms = self._begun_ms()
        self._cluster = journal.facts().get(CLUSTER, "")
        self.is_going_on = len(journal) > 0
        """Whether there were events before this observer told any."""
        self.late = NOTHING_LATE
        """All that was late since this observer was started."""
        self.late_records = 0

    @classmethod
    def open(
        cls,
        where: str,
        source: Watched,
        terms: ObserverTerms,
        since_ms: int | None = None,
        measuring: Sequence[Measuring] = (),
    ) -> Self:
        """Go on with a journal, or begin one at a moment (default: now, less the lateness and a
        second, so that the first answer tells something).

        A source that does not answer leaves no journal behind.
        """
        if not exists(where):
            source.now_ms()
        opened = open_journal(where, create=True)
        try:
            opened.claim()
            if not len(opened):
                begins = since_ms
                if begins is None:
                    begins = source.now_ms() - terms.lateness_ms - FIRST_TOLD_MS
                _begin(opened, source.name, begins, terms.zone)
            refuse_other(opened, source.name)
            return cls(opened, source, terms, measuring)
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

    def roll_up(self, keep_ms: int, by: Callable[[Journal, int], _Rolled]) -> _Rolled:
        """Have what is older rolled up, by whoever can; this observer is the one writer."""
        return by(self._journal, self._world.now_ms - keep_ms)

    def ask(self) -> AnswerTaken:
        """Ask the source once, and tell what it shows; ``BackendError`` if it does not answer."""
        asking = Asking(self._source.name, SourcePart.JOBS)
        try:
            answer = self._source.poll(self.mark_ms)
        except BackendError as error:
            self._keep_asked([asking.failed(error)])
            raise
        self._keep_asked(answer.asked or [asking.answered(answer.notes)])
        return self.take(answer)

    def take(self, answer: SourceAnswer) -> AnswerTaken:
        """Tell what an answer shows, up to its moment less the lateness."""
        self._refuse_other_cluster(answer.cluster)
        nodes = self._terms.intent.of(answer.nodes, self.mark_ms, answer.now_ms)
        answer = answer._replace(nodes=nodes, notes=(*answer.notes, *self._lost(answer)))
        before, until_ms = self.mark_ms, answer.now_ms - self._terms.lateness_ms
        if answer.until_ms is not None:
            until_ms = answer.until_ms
        for one in self._measuring:
            until_ms = min(until_ms, one.settled_ms(until_ms))
        if until_ms <= before:
            return self._taken(answer, 0, NOTHING_LATE, 0, is_gap=False)
        is_gap = self._is_gap(answer, until_ms)
        measured, late_records, notes = self._measured(answer, until_ms)
        measured, told_pauses = self._with_pauses(measured, answer, until_ms)
        going = Advance(
            self._world, self._begins_ms, answer, self._terms.price_of,
            WorkFigures(measured, self._terms.assumed),
            is_unwatched=is_gap,
        )  # fmt: skip
        self._keep_devices(measured)
        self._keep_mfu_sources(measured)
        against = [*answer.against, *(measured.contradictions() if measured is not None else ())]
        notes += self._keep_contradictions(against)
        for batch in going.batches(until_ms):
            self._keep_submissions(Submissions(going.submitted_before, going.placed_before))
            fold_batch(self._world, batch)
            self._keeper.append_batch(batch)
        notes += self._keep_contradictions(going.against)
        self._keep_pauses(told_pauses)
        self._keep_reasons(answer, until_ms)
        self._keep_deciders(answer.deciders)
        self._keep_kinds(answer.kinds)
        self._keep_site(answer, until_ms)
        self.is_going_on = True
        self._keep_late(going.late)
        self.late = self.late.plus(going.late)
        self.late_records += late_records
        told = answer._replace(notes=(*answer.notes, *going.notes, *notes))
        taken = self._taken(told, until_ms - before, going.late, going.over, is_gap=is_gap)
        return taken._replace(late_records=late_records)

    def _lost(self, answer: SourceAnswer) -> list[str]:
        """Names of which something is intended, and which no node has."""
        if answer.silent or not answer.is_whole:
            return []
        lost = self._terms.intent.unmatched(answer.nodes)
        more = " …" if len(lost) > 5 else ""
        named = f"spares and maintenance: no node is called {', '.join(lost[:5])}{more}"
        types = ((node.machine or node).gpu_type for node in answer.nodes)
        unheard = self._terms.unheard(map(kind_of, types))
        return [*([named] if lost else []), *([unheard] if unheard else [])]

    def _with_pauses(
        self, measured: Measurements | None, answer: SourceAnswer, until_ms: int
    ) -> tuple[Measurements | None, ToldPauses]:
        """What was measured, and when jobs stood still; with what is told of that then."""
        kept = self._journal.facts().get(PAUSED, "[0, {}]")
        told = msgspec.json.decode(kept, type=ToldPauses)
        if not told.jobs:
            told = ToldPauses(self.mark_ms)
        if answer.pauses.is_empty() and not told.jobs:
            return measured, told
        found, told = pauses.since(answer.pauses, told, self._begins_ms, until_ms, answer.now_ms)
        return found if measured is None else windows.both(measured, found), told

    def _keep_pauses(self, told: ToldPauses) -> None:
        """After the batches: an observer that is killed between them tells the same again."""
        if told.jobs or PAUSED in self._journal.facts():
            self._journal.set_meta(PAUSED, msgspec.json.encode(told).decode())

    def _keep_submissions(self, told: Submissions) -> None:
        """Jobs that are older than the journal: a fact beside it, as an import keeps it."""
        for key, value in submissions.facts(*told).items():
            if self._journal.facts().get(key) != value:
                self._journal.set_meta(key, value)

    def _keep_reasons(self, answer: SourceAnswer, until_ms: int) -> None:
        """Why nodes are out, or give less; of those that an answer does not show, nothing."""
        told = events.said_of_nodes(answer.nodes, self._begins_ms, until_ms)
        numbers = self._world.node_number
        lives = [one._replace(node=present(one.node, numbers) or one.node) for one in told]
        for key, value in node_reasons.facts(lives).items():
            if self._journal.facts().get(key, "{}") != value:
                self._journal.set_meta(key, value)
        kept, now_ms = self._journal.facts(), until_ms - self._begins_ms
        limits = events.limits_of(answer.nodes, self._world)
        for key, value in node_limits.facts(kept, limits, now_ms, self._journal.where).items():
            if kept.get(key, "{}") != value:
                self._journal.set_meta(key, value)
        where = self._journal.where
        used = quota_use.facts(kept, answer.quota_use, now_ms, where)
        used |= claim_sharers.facts(kept, answer.claim_sharers, now_ms, where)
        for key, value in (used | admission.facts(kept, answer.admission, now_ms, where)).items():
            self._journal.set_meta(key, value)

    def _keep_site(self, answer: SourceAnswer, until_ms: int) -> None:
        """For whom nodes are kept, and what partitions allow."""
        if answer.site is None:
            return
        known = site_rules.of(self._journal.facts(), self._journal.where)
        told, now_ms = answer.site.moved(-self._begins_ms), until_ms - self._begins_ms
        is_whole = not answer.silent and answer.is_whole
        for key, value in site_rules.facts(known, told, now_ms, is_whole=is_whole).items():
            self._journal.set_meta(key, value)

    def _keep_deciders(self, told: Mapping[str, str]) -> None:
        """Who decides for jobs, where it is not the cluster's own scheduler."""
        known = deciders.by_job(self._journal.facts(), self._journal.where) if told else {}
        for key, value in deciders.facts(known, told.items()).items():
            self._journal.set_meta(key, value)

    def _keep_kinds(self, told: Mapping[str, str]) -> None:
        """What kind each cluster is; of those that do not answer now, as it was."""
        kept = self._journal.facts()
        known = cluster_kinds.by_cluster(kept, self._journal.where)
        for key, value in cluster_kinds.facts({**known, **told}).items():
            if told and kept.get(key) != value:
                self._journal.set_meta(key, value)

    def _keep_devices(self, measured: Measurements | None) -> None:
        """Which cards drivers report errors of; kept first, so that no kill parts the two."""
        if not (told := devices_of(measured, self._begins_ms)):
            return
        kept = self._journal.facts()
        known = device_ids.of(kept, self._journal.where)
        for key, value in device_ids.facts(known, told).items():
            if kept.get(key) != value:
                self._journal.set_meta(key, value)

    def _keep_mfu_sources(self, measured: Measurements | None) -> None:
        """Who says how efficient jobs are."""
        if measured is None or measured.said.is_empty():
            return
        known = mfu_sources.by_job(self._journal.facts(), self._journal.where)
        for key, value in mfu_sources.facts(known, measured.mfu_sources()).items():
            self._journal.set_meta(key, value)

    def _keep_contradictions(self, told: Sequence[contradictions.Contradiction]) -> list[str]:
        """Where sources contradict each other; what of it is news, in words."""
        if not told:
            return []
        before = contradictions.of(self._journal.facts(), self._journal.where)
        for key, value in contradictions.facts(contradictions.gone_on(before, told)).items():
            self._journal.set_meta(key, value)
        known = {(one.sort, one.name, one.source) for one in before}
        news = [one for one in told if (one.sort, one.name, one.source) not in known]
        more = [f"… and {len(news) - 5:,} more contradictions"] if len(news) > 5 else []
        return [*(f"`{one.name}`: {one.says} (see doctor)" for one in news[:5]), *more]

    def _keep_late(self, late: Late) -> None:
        """All that was late since the journal began, by what it was."""
        if late != NOTHING_LATE:
            sums = {**late.plus(late_of(self._journal))._asdict()}
            self._journal.set_meta(LATE, msgspec.json.encode(sums).decode())

    def _keep_asked(self, told: Sequence[AskedSource]) -> None:
        """How sources answered; what all clusters of a fleet share is said of each of them."""
        kept = self._journal.facts()
        before = asked_sources.of(kept, self._journal.where)
        known = [one for one in before if one.part is SourcePart.JOBS]
        if [one.name for one in told] == [self._source.name] and told[0].failed and known:
            told = [replace(told[0], name=one.name) for one in known]
        for key, value in asked_sources.facts(asked_sources.gone_on(before, told)).items():
            self._journal.set_meta(key, value)

    def _is_gap(self, answer: SourceAnswer, until_ms: int) -> bool:
        """Whether nobody looked for too long; a journal that was held back was watched."""
        since_ms, before = answer.watched_ms, self.mark_ms
        if since_ms is not None and since_ms - self._terms.lateness_ms <= before:
            return False
        return self.is_going_on and until_ms - before > self._gap_ms

    def _measured(
        self, answer: SourceAnswer, until_ms: int
    ) -> tuple[Measurements | None, int, list[str]]:
        """What was measured of the jobs, late records, and notes.

        Who measures and does not answer is waited for, as long as a gap may be; then the journal
        goes on, and that time is not measured.
        """
        found, late, notes = list[Measurements](), 0, list[str]()
        placed = [self._world.jobs.placed_ms.item(j) for j in self._world.placements]
        oldest_ms = self._begins_ms + min(placed, default=self._world.now_ms)
        attempts = instances.with_instances(answer.attempts, answer.shapes)
        booked = self._world.job_number
        whose = Whose(attempts, answer.pods, answer.numbers, answer.nodes, booked)
        span = MeasuredSpan(self.mark_ms, until_ms, oldest_ms, answer.now_ms)
        for one in self._measuring:
            asking = Asking(one.where, one.part)
            try:
                part = one.measure(span, whose)
            except BackendError as error:
                self._keep_asked([asking.failed(error)])
                if until_ms - self.mark_ms <= self._gap_ms:
                    raise
                notes.append(f"{error.message}: nothing is measured of this time")
                continue
            self._keep_asked([asking.answered(part.notes, part.late)])
            found.append(part.measured)
            notes += [*part.notes, *part.remarks]
            late += part.late
        return (reduce(windows.both, found) if found else None), late, notes

    def _refuse_other_cluster(self, found: str) -> None:
        """A context that leads to another cluster than yesterday would end every job."""
        if not found or found == self._cluster:
            return
        if self._cluster:
            raise JournalError(
                f"journal `{self._journal.where}` is of the cluster {self._cluster}; this is"
                f" {found}",
                hint="give each cluster a journal of its own, or correct --context",
            )
        self._cluster = found
        self._journal.set_meta(CLUSTER, found)

    def finish(self) -> None:
        """Stop in good order: the next reader needs no more than the last snapshot."""
        self._journal.save_snapshot(self._world)

    def _taken(
        self, answer: SourceAnswer, told_ms: int, late: Late, over: int, *, is_gap: bool
    ) -> AnswerTaken:
        world = self._world
        at, states = world.matrices.at, world.nodes.state[: world.node_count].tolist()
        nodes = {machine(world, n) for n, state in enumerate(states) if state in LAUNCHED}
        shown = {node.machine_name for node in answer.nodes}
        in_part = sum(
            world.jobs.state.item(j) == JobState.STARTING and bool(partial.lacking(world, j))
            for j in world.placements
        )
        return AnswerTaken(
            told_ms, world.job_count, at.item(AT.WAITING), len(world.placements) - in_part,
            len(nodes), len(shown), answer.now_ms - self.mark_ms, late, over, is_gap, answer.notes,
            in_part=in_part,
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


def refuse_other(journal: Journal, name: str) -> None:
    """Refuse a journal that is not that of an observer of this."""
    found = journal.facts().get(WATCHES)
    if found != name:
        raise JournalError(
            f"journal `{journal.where}` is not that of an observer of {name}",
            hint="an observer goes on only with its own journal: give another path",
        )


def late_of(journal: Journal) -> Late:
    """What was told after its time since a journal began."""
    return Late(**msgspec.json.decode(journal.facts().get(LATE, "{}"), type=dict[str, int]))
