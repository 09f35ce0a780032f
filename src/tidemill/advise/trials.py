"""Trials: each proposed edit on its own, applied to the spec, replayed with the same seeds.

The twin draws its luck by purpose, so two runs of one seed meet the same jobs and the same
failures and differ only by what was changed. What looks cheaper with the spec's own seed is
replayed with further ones, and judged over all of them (``verdict``).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from statistics import fmean
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tidemill import extend
from tidemill.advise import edits, replay, verdict
from tidemill.advise.replay import Outcome
from tidemill.advise.verdict import Verdict
from tidemill.ledger import leaks
from tidemill.ledger.buckets import ABOUT
from tidemill.ledger.fix import Edit
from tidemill.ledger.leaks import LeakRemedy
from tidemill.model import plugins
from tidemill.model.errors import SpecError
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, WHOLE_MILLI

TRIALS_AT_MOST = 12
SEEDS = 3  # that a promising change is judged on: the spec's own and the two that follow
SLOWER = 2  # a mean wait that grows by more than this factor is said beside the win

Progress = Callable[[int, int], None]


class SpecChange(NamedTuple):
    """A spec, edits of it, and the seed to replay it with; None: its own."""

    text: str
    edits: tuple[Edit, ...]
    seed: int | None = None


class Trial(Struct, frozen=True):
    """A fix, and what came of it when it was tried."""

    leak: str
    words: str
    who: tuple[str, ...]
    edits: tuple[Edit, ...]
    costs: str
    rule: str
    predicted_usd_micro: int | None
    """None: nothing was predicted, it was tried to find out."""
    predicted_usd_micro_per_useful_hour: int | None
    after: Outcome | None
    """None where the edited spec cannot be run, or its run does not hold the same work."""
    refused: str = ""
    """Why not."""
    changes_ppm: tuple[int, ...] = ()
    """The price of a useful hour against the spec as it is, for each seed that was replayed."""
    verdict: Verdict = "no clear difference"

    @property
    def change_ppm(self) -> int | None:
        """The mean of the changes; None where no price is known."""
        return round(fmean(self.changes_ppm)) if self.changes_ppm else None


class Advice(Struct, frozen=True):
    """A spec as it is, everything that was tried, and what could not be."""

    before: Outcome
    """As it is, with its own seed."""
    seeds: tuple[int, ...]
    """What promising changes were judged on, its own first; no more where none was promising."""
    befores: tuple[Outcome, ...]
    """As it is, for each of these seeds."""
    trials: tuple[Trial, ...]
    untried: tuple[tuple[str, str, tuple[str, ...], str], ...]
    """Advice for the largest leaks that no edit stands for: leak, words, who, what to measure."""


def advise(
    text: str,
    source: str,
    workers: int = 1,
    on_progress: Progress | None = None,
    seeds: int = SEEDS,
) -> Advice:
    """Run a spec, propose fixes, try each on its own, and say what each came to."""
    statement = replay.run(text, source)
    before = replay.outcome(statement)
    proposed = leaks.to_try(statement)[:TRIALS_AT_MOST]
    outcomes = tried(
        [SpecChange(text, remedy.fix.edits) for remedy in proposed], source, workers, on_progress
    )
    trials = [
        _trial(remedy, before, outcome) for remedy, outcome in zip(proposed, outcomes, strict=True)
    ]
    promising = [trial for trial in trials if _is_promising(trial)]
    befores = _befores(text, source, before, seeds if promising else 1, workers)
    repeated = _repeated(text, source, promising, befores, workers)
    replayed = {remedy.leak.bucket for remedy in proposed}
    untried = tuple(
        (ABOUT[r.leak.bucket].title, r.fix.words, r.fix.who, r.fix.measure)
        for r in leaks.remedies(statement)
        if not r.fix.edits and r.leak.bucket not in replayed
    )
    found = [repeated.get(trial.edits, trial) for trial in trials]
    return Advice(
        before, tuple(befores), tuple(befores.values()), tuple(sorted(found, key=_by_merit)),
        untried,
    )  # fmt: skip


def _is_promising(trial: Trial) -> bool:
    """Whether it is worth more replays: cheaper with the spec's own seed."""
    return bool(trial.changes_ppm) and trial.changes_ppm[0] < -verdict.SAME_PPM


def _befores(
    text: str, source: str, before: Outcome, seeds: int, workers: int
) -> dict[int, Outcome]:
    """The spec as it is, by seed: its own, then those that follow."""
    own = replay.seed_of(text, source)
    wanted = list(range(own + 1, own + seeds))
    others = tried([SpecChange(text, (), seed) for seed in wanted], source, workers)
    known = zip(wanted, others, strict=True)
    return {own: before} | {seed: found for seed, found in known if isinstance(found, Outcome)}


def _repeated(
    text: str, source: str, promising: Sequence[Trial], befores: dict[int, Outcome], workers: int
) -> dict[tuple[Edit, ...], Trial]:
    """The promising trials, by their edits, with what they came to on every seed."""
    further = list(befores)[1:]
    asked = [SpecChange(text, trial.edits, seed) for trial in promising for seed in further]
    outcomes = iter(tried(asked, source, workers))
    found = {}
    for trial in promising:
        others = [_comparable(befores[seed], next(outcomes)) for seed in further]
        after = [trial.after, *(_known(other) for other in others)]
        found[trial.edits] = _judged(trial, befores.values(), after)
    return found


def _judged(trial: Trial, befores: Iterable[Outcome], afters: Iterable[Outcome | None]) -> Trial:
    changes = _changes(befores, afters)
    return replace(trial, changes_ppm=changes, verdict=verdict.of(changes))


def _changes(befores: Iterable[Outcome], afters: Iterable[Outcome | None]) -> tuple[int, ...]:
    """The change of the price for each seed; none at all where one of them is not known."""
    found = [
        verdict.change_ppm(before, after) for before, after in zip(befores, afters, strict=True)
    ]
    known = tuple(change for change in found if change is not None)
    return known if len(known) == len(found) else ()


def _comparable(before: Outcome, found: Outcome | SpecError) -> Outcome | SpecError:
    """What a change came to; an error where its run does not hold the same work.

    Gangs that are drawn by chance are cut to half of what a GPU type has and to the maximum quota
    of their team, so another contract or quota may change what is asked for.
    """
    if isinstance(found, SpecError) or found.is_same_work(before):
        return found
    return SpecError(
        f"its jobs would request {found.requested_milli // WHOLE_MILLI:,} GPUs in all instead of"
        f" {before.requested_milli // WHOLE_MILLI:,}: not the same work"
    )


def _known(found: Outcome | SpecError) -> Outcome | None:
    return found if isinstance(found, Outcome) else None


def tried(
    changes: Sequence[SpecChange],
    source: str,
    workers: int,
    on_progress: Progress | None = None,
) -> list[Outcome | SpecError]:
    """What each changed text comes to, in the order given; several processes if asked."""
    found: dict[int, Outcome | SpecError] = {}
    texts: dict[int, tuple[str, int | None]] = {}
    for n, (text, wanted, seed) in enumerate(changes):
        try:
            texts[n] = (edits.apply(text, wanted), seed)
        except SpecError as error:
            found[n] = error
    for n, outcome in _replayed(texts, source, workers):
        found[n] = outcome
        if on_progress is not None:
            on_progress(len(found), len(changes))
    return [found[n] for n in range(len(changes))]


def _replayed(
    texts: dict[int, tuple[str, int | None]], source: str, workers: int
) -> Iterator[tuple[int, Outcome | SpecError]]:
    if workers == 1 or len(texts) < 2:
        for n, (text, seed) in texts.items():
            yield n, _replay(text, source, seed)
        return
    with ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),
        initializer=extend.load_installed if plugins.LOADED else None,
    ) as pool:
        asked: dict[Future[Outcome | SpecError], int] = {
            pool.submit(_replay, text, source, seed): n for n, (text, seed) in texts.items()
        }
        for done in as_completed(asked):
            yield asked[done], done.result()


def _replay(text: str, source: str, seed: int | None) -> Outcome | SpecError:
    try:
        return replay.replay(text, source, seed)
    except SpecError as error:  # an edit may contradict another table
        return error


def is_slower(before: Outcome, after: Outcome) -> bool:
    """Whether jobs wait much longer than before: then a win must say so."""
    return (after.wait_ms_mean or 0) > SLOWER * (before.wait_ms_mean or 0)


def together(
    text: str,
    source: str,
    advice: Advice,
    on_progress: Progress | None = None,
    workers: int = 1,
) -> tuple[str, tuple[Trial, ...], Outcome]:
    """The text with the winners applied: one after the other, each only if it still wins."""
    kept: list[Trial] = []
    best, edited = list(advice.befores), text
    winners = [trial for trial in advice.trials if trial.verdict == "wins"]
    for n, trial in enumerate(winners):
        wanted = merged([*kept, trial])
        asked = [SpecChange(text, wanted, seed) for seed in advice.seeds]
        outcomes = zip(advice.befores, tried(asked, source, workers), strict=True)
        found = [_known(_comparable(before, outcome)) for before, outcome in outcomes]
        if verdict.of(_changes(best, found)) == "wins":
            kept.append(trial)
            best = [outcome for outcome in found if outcome is not None]
            edited = edits.apply(text, wanted)
        if on_progress is not None:
            on_progress(n + 1, len(winners))
    return edited, tuple(kept), best[0]


def merged(trials: Iterable[Trial]) -> tuple[Edit, ...]:
    """The edits of several fixes; numbers that two of them lower are lowered by both."""
    found: dict[tuple[str, str, str], Edit] = {}
    for edit in (edit for trial in trials for edit in trial.edits):
        value, was, earlier = edit.value, edit.was, found.get(edit.place)
        if earlier is not None and isinstance(value, int) and isinstance(was, int):
            value = int(earlier.value) + value - was
        found[edit.place] = replace(edit, value=value)
    return tuple(found.values())


def _trial(remedy: LeakRemedy, before: Outcome, outcome: Outcome | SpecError) -> Trial:
    outcome = _comparable(before, outcome)
    fix, after = remedy.fix, _known(outcome)
    changes = _changes([before], [after])
    return Trial(
        leak=ABOUT[remedy.leak.bucket].title,
        words=fix.words,
        who=fix.who,
        edits=fix.edits,
        costs=fix.costs,
        rule=fix.rule,
        predicted_usd_micro=remedy.wins_usd_micro,
        predicted_usd_micro_per_useful_hour=_predicted(remedy, before),
        after=after,
        refused=outcome.message if isinstance(outcome, SpecError) else "",
        changes_ppm=changes,
        verdict=verdict.of(changes),
    )


def _predicted(remedy: LeakRemedy, before: Outcome) -> int | None:
    """What a useful hour would cost if the prediction came true."""
    useful = before.useful_milli_ms + remedy.fix.adds_useful_milli_ms
    if remedy.wins_usd_micro is None or not useful:
        return None
    paid = before.paid_usd_micro - (remedy.fix.saves_usd_micro or 0)
    return paid * MILLI_MS_PER_UNIT_HOUR // useful


def _by_merit(trial: Trial) -> tuple[int, int, str]:
    """What is cheapest on average over the seeds first; what is not known last."""
    change = trial.change_ppm
    return (change is None, change or 0, trial.words)
