"""The Python API: what the command line does, as functions.

>>> from tidemill import api
>>> run = api.simulate(api.load_spec("fleet.toml"))
>>> run.statement.total().paid_milli_ms

Everything here opens, runs and closes; the rooms below do the work and know nothing of files.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tidemill import __version__
from tidemill.compiled import collecting
from tidemill.engine.fold import machine_hosts
from tidemill.engine.fold.admission import admitting
from tidemill.engine.fold.one_event import pass_time
from tidemill.journal import (
    MEMORY,
    Journal,
    admission,
    claim_sharers,
    cluster_kinds,
    completeness,
    node_limits,
    node_reasons,
    open_journal,
    policies,
    quota_use,
    scheduled,
    site_rules,
    spilling,
    submissions,
)
from tidemill.journal import exists as journal_exists
from tidemill.journal.completeness import Begun, Completeness
from tidemill.journal.keeping import RunKeeper
from tidemill.journal.moments import COUNTED, Calendar
from tidemill.journal.postgres import address
from tidemill.journal.replay import rebuild
from tidemill.journal.resuming import Resumed
from tidemill.journal.rolled_up import GoneError
from tidemill.journal.source import FACT, STATES, SUBMISSIONS, Source, note_live
from tidemill.model.batch import Batch
from tidemill.model.batch.convert import to_events
from tidemill.model.errors import SpecError
from tidemill.model.events import Event
from tidemill.model.measures import FOREVER_MS, HOUR_MS, nice_bin_ms
from tidemill.model.policy import Policy
from tidemill.model.world import World

if TYPE_CHECKING:
    import polars as pl

    from tidemill.advise.shadow.comparing import ShadowReport
    from tidemill.advise.trials import Advice
    from tidemill.engine.loop import Backend
    from tidemill.explain.decision.answers import Decision
    from tidemill.ledger.attempts import HeldAttempt
    from tidemill.ledger.lending import Lent
    from tidemill.ledger.rolling import RollUp
    from tidemill.ledger.statement import Statement
    from tidemill.live.history.events import History
    from tidemill.model.rows import Queue
    from tidemill.model.topology import Topology
    from tidemill.twin.spec.tables import Spec

Retold = Callable[[Iterator[Event]], Iterator[Event]]
Progress = Callable[[int, int], None]
"""Called now and then with how much is done, and of how much."""

TWIN_BEATS_PER_COMMIT = 2_000  # a twin can be run again; a live backend commits every beat
BEGUN = Begun(version=__version__)


@dataclass(frozen=True)
class Run:
    """A finished run: where it is kept, the World at its end, and its ledger."""

    where: str
    world: World
    policy: Policy
    statement: "Statement"


@dataclass(frozen=True)
class Replay:
    """A recorded history, what another policy would have made of it, and both beside each other."""

    seen: "Statement"
    shadow: Run
    report: "ShadowReport"


def load_spec(path: str | Path) -> "Spec":
    """Read a fleet and its work from a TOML file."""
    from tidemill.twin.spec import fleet_spec

    return fleet_spec.load(path)


def demo_spec() -> "Spec":
    """The fleet that ships with Tidemill."""
    from tidemill.twin.spec import fleet_spec

    return fleet_spec.demo()


def spec_text(path: str | Path | None) -> tuple[str, str]:
    """The text of a spec file and what to call it; without a path, of the demo."""
    from tidemill.twin.spec import fleet_spec

    return fleet_spec.text_of(path)


def advise(
    text: str,
    source: str,
    *,
    workers: int = 1,
    on_progress: Progress | None = None,
    seeds: int = 3,
) -> "Advice":
    """Propose changes of a spec, replay each on its own with the same seed, and compare.

    A change that looks cheaper is replayed with so many seeds in all before it is called a win.
    With several workers, call it from a module that may be imported again (``if __name__ ==
    "__main__"``): each worker is a new process.
    """
    from tidemill.advise import trials

    return trials.advise(text, source, workers, on_progress, seeds)


def simulate(
    spec: "Spec",
    journal: str = MEMORY,
    on_progress: Progress | None = None,
    *,
    weighs_mix: bool = False,
    is_resumed: bool = False,
) -> Run:
    """Run a spec in the twin, write its journal, and return what came of it.

    ``is_resumed``: the journal holds the beginning of this very run, and is to be completed.
    """
    from tidemill.twin import fleet
    from tidemill.twin.backend import Twin

    horizon_ms = int(spec.twin.horizon)
    return run(
        Twin.from_spec(spec),
        spec.policy,
        journal=journal,
        name=spec.twin.name,
        end_ms=horizon_ms,
        on_progress=on_progress,
        weighs_mix=weighs_mix,
        calendar=fleet.calendar(spec),
        begun=_begun(spec),
        is_resumed=is_resumed,
        source=Source.TWIN,
    )


def run(  # noqa: PLR0913 - named, and each of them the caller's to choose
    backend: "Backend",
    policy: Policy,
    *,
    journal: str = MEMORY,
    name: str = "run",
    end_ms: int = FOREVER_MS,
    on_progress: Progress | None = None,
    weighs_mix: bool = False,
    calendar: Calendar = COUNTED,
    begun: Begun = BEGUN,
    is_resumed: bool = False,
    source: Source = Source.UNKNOWN,
) -> Run:
    """Let any backend beat to the end of its story, with the ledger reading along.

    ``weighs_mix``: the ledger also says what arrivals could have used of what was free.
    ``calendar``: when the story begins, if it has dates. ``begun`` says which run this is;
    ``is_resumed``: its journal was interrupted, and this run goes on with it.
    ``source``: who makes the events.
    """
    from tidemill.engine.loop import Loop
    from tidemill.ledger.reader import Ledger
    from tidemill.ledger.spans import Window
    from tidemill.ledger.statement import Statement

    if not is_resumed:
        refuse_existing(journal)
    world = World()
    window = Window(0, end_ms, nice_bin_ms(end_ms))
    ledger = Ledger(policy, window, weighs_mix)
    with (
        collecting.seldom(),
        _nothing_kept_of(journal, is_kept=is_resumed),
        open_journal(journal, create=not is_resumed) as opened,
    ):
        keeper = RunKeeper(opened, world, Resumed(opened, begun) if is_resumed else None)
        if not is_resumed:
            completeness.begin(opened, begun)
        opened.set_meta("name", name)
        opened.set_meta(FACT, source)
        for key, value in calendar.facts().items():
            opened.set_meta(key, value)
        for key, value in policies.facts(policy).items():
            opened.set_meta(key, value)
        loop = Loop(world, policy, backend, keeper, [ledger], TWIN_BEATS_PER_COMMIT)
        loop.run(on_beat=_every(100, on_progress, end_ms))
        keeper.finish()
    return Run(address.visible(journal), world, policy, Statement(ledger, calendar, source))


def replay(  # noqa: PLR0913 - named, and each of them the caller's to choose
    journal: str,
    policy: Policy,
    into: str,
    *,
    queues: "Sequence[Queue]" = (),
    topology: "Topology | None" = None,
    shadow_of: str = "",
    on_progress: Progress | None = None,
) -> "Replay":
    """Play the recorded history of a real fleet again with another policy, and compare.

    Arrivals, nodes and run times are as seen. ``into``: the journal of what would have been.
    ``queues`` and ``topology`` take the place of those that were recorded. ``shadow_of``: the
    scheduler whose jobs are placed anew, where the cluster has several (default: its own).
    """
    from tidemill.advise.shadow import comparing, holds, played, story, truths
    from tidemill.advise.shadow.replaying import RecordedTwin
    from tidemill.live.kubernetes.scheduling.running import live_policy

    with open_journal(journal) as opened:
        facts, where = opened.facts(), opened.where
        played.refuse_simulated(Source.of(facts), where)
        seen, calendar = story.read(opened), Calendar.of(facts)
        ended = rebuild(opened)
    others = played.others(seen, facts, where, shadow_of)
    supply = played.under(seen.supply, queues, topology)
    held = holds.of_story(seen, supply, {queue.name for queue in queues}, others)
    every = held | holds.of_others(seen, others)
    cast = truths.of_story(seen, others, ended, every)
    twin = RecordedTwin(supply, cast, seen.end_ms)
    done = run(
        twin, live_policy(policy), journal=into, name=f"shadow of {facts.get('name', where)}",
        end_ms=seen.end_ms, calendar=calendar, on_progress=on_progress, source=Source.SHADOW,
    )  # fmt: skip
    with open_journal(into) as opened:
        opened.claim()
        for key in {submissions.BEFORE, STATES, SUBMISSIONS} & facts.keys():
            opened.set_meta(key, facts[key])  # of jobs that are older than the journal
        shadow = story.read(opened)
    report = comparing.compare(seen, cast, shadow, done.world, twin.over_milli)
    report = report._replace(
        unmet=tuple(played.unmet(queues, ended)), held_back=comparing.held_back(seen, held, ended)
    )
    before = read_statement(journal, retold=partial(holds.retold, holds=every) if every else None)
    return Replay(before, replace(done, statement=read_statement(into)), report)


def keep_history(
    history: "History",
    journal: str = MEMORY,
    *,
    name: str = "history",
    zone: str = "UTC",
    begun: Begun = BEGUN,
    on_progress: Progress | None = None,
) -> Run:
    """Write what somebody else's cluster did into a journal, and return its books.

    ``zone``: the time zone in which its moments are shown.
    """
    from tidemill.ledger.reader import Ledger
    from tidemill.ledger.spans import Window
    from tidemill.ledger.statement import Statement

    refuse_existing(journal, may_resume=False)
    policy, tells, out = Policy(), history.tells_submissions, history.untold_states
    ledger = Ledger(policy, Window(0, FOREVER_MS, nice_bin_ms(history.length_ms)))
    ledger.foresee(history.foreseen)
    calendar = Calendar.since_1970(history.begins_ms, zone)
    facts = {"name": name, FACT: str(Source.LIVE), **calendar.facts(), **policies.facts(policy)}
    facts |= history.facts() | node_limits.facts(
        {}, history.node_limits, history.length_ms, journal
    )
    with _whole_or_absent(journal), open_journal(journal, create=True) as opened:
        keeper = RunKeeper(opened, ledger.world, foreseen=history.foreseen)
        completeness.begin(opened, begun)
        for key, value in facts.items():
            opened.set_meta(key, value)
        for batch in history.batches():
            ledger.read_batch(batch)
            keeper.append_batch(batch)
            spilling.give_back()
            if on_progress is not None:
                on_progress(ledger.world.now_ms, history.length_ms)
        keeper.finish()
    spilling.give_back_at_once()
    submissions.put_back(note_live(ledger.world, facts), facts, journal)
    statement = Statement(ledger, calendar, Source.LIVE, tells_submissions=tells, untold_states=out)
    return Run(address.visible(journal), ledger.world, policy, statement)


@contextmanager
def _whole_or_absent(journal: str) -> Iterator[None]:
    """What is not finished leaves no journal: it cannot be gone on with."""
    try:
        yield
    except BaseException:
        forget_run(journal, is_forced=True)
        raise


@contextmanager
def _nothing_kept_of(journal: str, *, is_kept: bool) -> Iterator[None]:
    """A run that cannot go on for what it was given (a plug-in) leaves no journal in the way."""
    try:
        yield
    except SpecError:
        if not is_kept:
            forget_run(journal, is_forced=True)
        raise


def refuse_existing(
    journal: str, *, may_resume: bool = True, what: str = "", option: str = "--journal"
) -> None:
    """A run writes a journal of its own; it never appends to that of another run."""
    from tidemill.journal.forgetting import refuse_others

    if journal_exists(journal):
        if not address.is_address(journal):
            refuse_others(Path(journal))
        resume = "; a run that was interrupted goes on with --resume" if may_resume else ""
        what = what or ("a run" if may_resume else "an import")
        raise SpecError(
            f"`{address.visible(journal)}` exists already; {what} begins a journal of its own",
            hint=f"choose another with {option}, or replace it with --force{resume}",
        )


def forget_run(journal: str, name: str | None = None, *, is_forced: bool = False) -> None:
    """Remove the journal of an earlier run of this name and nothing else; other files are refused.

    ``is_forced``: whatever stands there goes, unless somebody is writing it.
    """
    from tidemill.journal.forgetting import forget

    if journal != MEMORY:
        forget(journal, name, is_forced=is_forced)


@contextmanager
def replacing_run(
    journal: str, name: str | None = None, *, is_forced: bool = False
) -> Iterator[None]:
    """The same, for a run that begins now: if it leaves no journal, what was there stays."""
    from tidemill.journal.forgetting import replacing

    with nullcontext() if journal == MEMORY else replacing(journal, name, is_forced=is_forced):
        yield


def open_world(journal: str, at_ms: int | None = None) -> tuple[World, Policy]:
    """The cluster state that a journal leads to, and the policy it was run with.

    At its last event; or at a moment, to which time passes after the last event before it.
    """
    with open_journal(journal) as keeper:
        return world_of(keeper, at_ms)


def world_of(journal: Journal, at_ms: int | None = None) -> tuple[World, Policy]:
    """The same of a journal that is open."""
    world = rebuild(journal, up_to_ms=at_ms)
    facts, where = journal.facts(), journal.where
    world = submissions.put_all_back(world, facts, where)
    world = node_limits.put_back(node_reasons.put_back(world, facts, where), facts, where)
    world = cluster_kinds.put_back(scheduled.put_back(world, facts, where), facts, where)
    world = site_rules.put_back(world, facts, where)
    world = claim_sharers.put_back(quota_use.put_back(world, facts, where), facts, where)
    world = admission.put_back(machine_hosts.put_together(world), facts, where)
    return admitting(world if at_ms is None else pass_time(world, at_ms)), policy_of(journal)


def read_statement(
    journal: str,
    *,
    start_ms: int = 0,
    end_ms: int = FOREVER_MS,
    bin_ms: int | None = None,
    on_progress: Progress | None = None,
    retold: "Retold | None" = None,
) -> "Statement":
    """The ledger of a journal for any window; ``retold``: of its events as this tells them."""
    from tidemill.ledger import rolling
    from tidemill.ledger.spans import Window
    from tidemill.ledger.statement import Statement

    with open_journal(journal) as keeper:
        policy = policy_of(keeper)
        width = bin_ms or nice_bin_ms(min(end_ms, last_ms(keeper)) - start_ms)
        if bin_ms is None and keeper.rolled_up() is not None:
            width = max(width, HOUR_MS)  # its books are by the hour
        window = Window(start_ms, end_ms, width)
        ledger, first = rolling.reader_of(keeper, policy, window, weighs_mix=True)
        ledger.foresee(len(keeper))
        facts = keeper.facts()
        batches = _watched(keeper, on_progress, first)
        if retold is None:
            for batch in batches:
                ledger.read_batch(batch)
        else:
            ledger.read(retold(chain.from_iterable(map(to_events, batches))))
        ledger.put_back(facts, journal)
        return Statement(
            ledger, Calendar.of(facts), Source.of(facts), untold_states=Source.untold_states(facts),
            tells_submissions=Source.tells_submissions(facts),
        )  # fmt: skip


def roll_up(
    journal: str,
    keep_ms: int,
    on_progress: Progress | None = None,
    *,
    is_to_shrink: bool = True,
) -> "RollUp":
    """Replace events that are older than the newest by more than this by books by the hour.

    Where the books would take more than these events nothing is done, unless told otherwise.
    """
    from tidemill.ledger import rolling

    with open_journal(journal) as keeper:
        before_ms = last_ms(keeper) - keep_ms
        return rolling.roll_up(
            keeper, before_ms, policy_of(keeper), on_progress, is_to_shrink=is_to_shrink
        )


def read_lending(
    journal: str,
    *,
    start_ms: int = 0,
    end_ms: int = FOREVER_MS,
    on_progress: Progress | None = None,
) -> "Lent":
    """Who lent what to whom in a journal, for any window."""
    from tidemill.ledger.lending import Lending
    from tidemill.ledger.spans import Window

    with open_journal(journal) as keeper:
        lending, rolled = Lending(Window(start_ms, end_ms)), keeper.rolled_up()
        if rolled is not None:
            moment = Calendar.of(keeper.facts()).text
            if start_ms < rolled.at_ms:
                asked = f"who lent what to whom from {moment(start_ms)} on was asked for"
                raise GoneError(keeper.where, asked, moment(rolled.at_ms))
            lending.begin(rolled.world(keeper.where))
        for batch in _watched(keeper, on_progress, 0 if rolled is None else rolled.seq):
            lending.read_batch(batch)
        return lending.lent()


def read_attempts(
    journal: str,
    job: str,
    *,
    start_ms: int = 0,
    end_ms: int = FOREVER_MS,
    on_progress: Progress | None = None,
) -> "list[HeldAttempt]":
    """The attempts of one job of a journal: when, where, and what came of their time."""
    from tidemill.ledger import rolling
    from tidemill.ledger.attempts import attempts_of
    from tidemill.ledger.spans import Window

    with open_journal(journal) as keeper:
        window = Window(start_ms, end_ms)
        ledger, first = rolling.reader_of(keeper, policy_of(keeper), window, weighs_mix=False)
        return attempts_of(ledger, _watched(keeper, on_progress, first), job)


def read_decision(journal: str, job: str, at_ms: int | None = None) -> "Decision":
    """The decision about one job, stage by stage: the last before a moment, or before the end."""
    from tidemill.explain.decision import reading

    with open_journal(journal) as keeper:
        world, policy = world_of(keeper, at_ms)
        return reading.read(keeper, world, policy, _job_of(world, job), at_ms)


def _job_of(world: World, name: str) -> int:
    """The number of a job by its name."""
    j = world.job_number.get(name)
    if j is None:
        raise SpecError(
            f"no job is called `{name}`; the journal has {world.job_count:,} jobs",
            hint="names are those of `pending_frame` and `events_frame`",
        )
    return j


def source_of(journal: str) -> Source:
    """Who made the events of a journal: a twin, a replay, a live fleet; or nobody said."""
    with open_journal(journal) as keeper:
        return Source.of(keeper.facts())


def calendar_of(journal: str) -> Calendar:
    """When a journal begins, in dates if it says so: how its moments are written and read."""
    with open_journal(journal) as keeper:
        return Calendar.of(keeper.facts())


def events_frame(journal: str) -> "pl.DataFrame":
    """Every event of a journal as a Polars DataFrame: when, what, about whom, and all of it."""
    from tidemill.journal import parquet

    with open_journal(journal) as keeper:
        return parquet.frame(keeper.read())


def pending_frame(journal: str, at_ms: int | None = None) -> "pl.DataFrame":
    """What waits at a moment as a Polars DataFrame, one row per job: who, what, since when, why."""
    from tidemill.ledger import waiting_frame

    world, _ = open_world(journal, at_ms)
    return waiting_frame.frame(world, world.now_ms if at_ms is None else at_ms)


def policy_of(journal: Journal) -> Policy:
    """The policy a journal was written under; the default one if it does not say."""
    return policies.of(journal.facts(), journal.where)


def completeness_of(journal: str) -> Completeness:
    """How far a journal goes: complete, interrupted, or still being written."""
    with open_journal(journal) as opened:
        return completeness.of(opened)


def last_ms(journal: Journal) -> int:
    """The moment of the last event of a journal."""
    count = len(journal)
    return next((event.at_ms for event in journal.read(count - 1)), 0) if count else 0


def begun_from(*sources: str | Path, said: str = "") -> Begun:
    """Which run files make, replayed with what was said beside them; an empty name is no file."""
    parts = [Path(path).read_bytes() for path in sources if path and Path(path).is_file()]
    return Begun(given=_digest(said.encode(), *parts), version=__version__)


def _begun(spec: "Spec") -> Begun:
    """Which run a spec makes: what it says apart from its name on the disk, and its seed."""
    said = msgspec.structs.replace(spec, source="", twin=msgspec.structs.replace(spec.twin, seed=0))
    return Begun(given=_digest(repr(said).encode()), seed=spec.twin.seed, version=__version__)


def _digest(*parts: bytes) -> str:
    """A short name for what a run was given."""
    return sha256(b"\0".join(sha256(part).digest() for part in parts)).hexdigest()[:32]


def _every(beats: int, on_progress: Progress | None, end_ms: int) -> Callable[[int], None] | None:
    if on_progress is None:
        return None
    count = 0

    def on_beat(at_ms: int) -> None:
        nonlocal count
        count += 1
        if count % beats == 0:
            on_progress(at_ms, end_ms)

    return on_beat


def _watched(journal: Journal, on_progress: Progress | None, done: int = 0) -> Iterator[Batch]:
    total = len(journal)
    for batch in journal.batches(done):
        if on_progress is not None:
            on_progress(done, total)
        done += len(batch.events)
        yield batch
