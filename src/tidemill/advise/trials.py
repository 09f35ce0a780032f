"""Trials: each proposed edit on its own, applied to the spec, replayed with the same seed.

The twin draws its luck by purpose, so two runs of one seed meet the same jobs and the same
failures and differ only by what was changed. Still, a change moves which job sits on the node that
breaks: a win that is smaller than this luck is told as none.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from msgspec import Struct
from msgspec.structs import replace

from tidemill.advise import edits, replay
from tidemill.advise.replay import Outcome
from tidemill.ledger import leaks
from tidemill.ledger.buckets import ABOUT
from tidemill.ledger.fix import Edit
from tidemill.ledger.leaks import Remedy
from tidemill.model.errors import SpecError
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, ONE_PPM

TRIALS_AT_MOST = 12
SAME_PPM = 1_000  # of the dollars per useful hour: less is nobody's merit
SLOWER = 2  # a mean wait that grows by more than this factor is said beside the win

Progress = Callable[[int, int], None]


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
    """None where the edited spec cannot be run."""
    refused: str = ""
    """Why it cannot."""


class Advice(Struct, frozen=True):
    """A spec as it is, everything that was tried, and what could not be."""

    before: Outcome
    trials: tuple[Trial, ...]
    untried: tuple[tuple[str, str, tuple[str, ...], str], ...]
    """Advice for the largest leaks that no edit stands for: leak, words, who, what to measure."""


def advise(text: str, source: str, workers: int = 1, on_progress: Progress | None = None) -> Advice:
    """Run a spec, propose fixes, try each on its own, and say what each came to."""
    statement = replay.run(text, source)
    before = replay.outcome(statement)
    proposed = leaks.to_try(statement)[:TRIALS_AT_MOST]
    outcomes = tried(
        [(text, remedy.fix.edits) for remedy in proposed], source, workers, on_progress
    )
    trials = [
        _trial(remedy, before, outcome) for remedy, outcome in zip(proposed, outcomes, strict=True)
    ]
    replayed = {remedy.leak.bucket for remedy in proposed}
    untried = tuple(
        (ABOUT[r.leak.bucket].title, r.fix.words, r.fix.who, r.fix.measure)
        for r in leaks.remedies(statement)
        if not r.fix.edits and r.leak.bucket not in replayed
    )
    return Advice(before, tuple(sorted(trials, key=_by_merit)), untried)


def tried(
    changes: Sequence[tuple[str, tuple[Edit, ...]]],
    source: str,
    workers: int,
    on_progress: Progress | None = None,
) -> list[Outcome | SpecError]:
    """What each changed text comes to, in the order given; several processes if asked."""
    found: dict[int, Outcome | SpecError] = {}
    texts: dict[int, str] = {}
    for n, (text, wanted) in enumerate(changes):
        try:
            texts[n] = edits.apply(text, wanted)
        except SpecError as error:
            found[n] = error
    for n, outcome in _replayed(texts, source, workers):
        found[n] = outcome
        if on_progress is not None:
            on_progress(len(found), len(changes))
    return [found[n] for n in range(len(changes))]


def _replayed(
    texts: dict[int, str], source: str, workers: int
) -> Iterator[tuple[int, Outcome | SpecError]]:
    if workers == 1 or len(texts) < 2:
        for n, text in texts.items():
            yield n, _replay(text, source)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        asked: dict[Future[Outcome | SpecError], int] = {
            pool.submit(_replay, text, source): n for n, text in texts.items()
        }
        for done in as_completed(asked):
            yield asked[done], done.result()


def _replay(text: str, source: str) -> Outcome | SpecError:
    try:
        return replay.replay(text, source)
    except SpecError as error:  # an edit may contradict another table
        return error


def wins(before: Outcome, after: Outcome | None) -> bool:
    """Whether a useful hour costs less than before, by more than luck."""
    was = before.usd_micro_per_useful_hour
    now = None if after is None else after.usd_micro_per_useful_hour
    return was is not None and now is not None and (was - now) * ONE_PPM > was * SAME_PPM


def is_slower(before: Outcome, after: Outcome) -> bool:
    """Whether jobs wait much longer than before: then a win must say so."""
    return (after.wait_ms_mean or 0) > SLOWER * (before.wait_ms_mean or 0)


def together(
    text: str, source: str, advice: Advice, on_progress: Progress | None = None
) -> tuple[str, tuple[Trial, ...], Outcome]:
    """The text with the winners applied: one after the other, each only if it still wins."""
    kept: list[Trial] = []
    best, edited = advice.before, text
    winners = [trial for trial in advice.trials if wins(advice.before, trial.after)]
    for n, trial in enumerate(winners):
        wanted = _merged([*kept, trial])
        (found,) = tried([(text, wanted)], source, 1)
        if isinstance(found, Outcome) and wins(best, found):
            kept.append(trial)
            best, edited = found, edits.apply(text, wanted)
        if on_progress is not None:
            on_progress(n + 1, len(winners))
    return edited, tuple(kept), best


def _merged(trials: Iterable[Trial]) -> tuple[Edit, ...]:
    """The edits of several fixes; numbers that two of them lower are lowered by both."""
    found: dict[tuple[str, str, str], Edit] = {}
    for edit in (edit for trial in trials for edit in trial.edits):
        value, was, earlier = edit.value, edit.was, found.get(edit.place)
        if earlier is not None and isinstance(value, int) and isinstance(was, int):
            value = int(earlier.value) + value - was
        found[edit.place] = replace(edit, value=value)
    return tuple(found.values())


def _trial(remedy: Remedy, before: Outcome, outcome: Outcome | SpecError) -> Trial:
    fix = remedy.fix
    return Trial(
        leak=ABOUT[remedy.leak.bucket].title,
        words=fix.words,
        who=fix.who,
        edits=fix.edits,
        costs=fix.costs,
        rule=fix.rule,
        predicted_usd_micro=remedy.wins_usd_micro,
        predicted_usd_micro_per_useful_hour=_predicted(remedy, before),
        after=None if isinstance(outcome, SpecError) else outcome,
        refused=outcome.message if isinstance(outcome, SpecError) else "",
    )


def _predicted(remedy: Remedy, before: Outcome) -> int | None:
    """What a useful hour would cost if the prediction came true."""
    useful = before.useful_milli_ms + remedy.fix.adds_useful_milli_ms
    if remedy.wins_usd_micro is None or not useful:
        return None
    paid = before.paid_usd_micro - (remedy.fix.saves_usd_micro or 0)
    return paid * MILLI_MS_PER_UNIT_HOUR // useful


def _by_merit(trial: Trial) -> tuple[int, str]:
    cost = trial.after.usd_micro_per_useful_hour if trial.after else None
    return (cost or 2**62, trial.words)
