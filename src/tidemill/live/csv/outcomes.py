"""How jobs of a table ended, in others' words.

A word that is not known is asked for, and not guessed: whoever has the table says what it means
(`--outcome Archived=done`). Numbers are those of Slurm's own database where its columns are.
"""

from collections.abc import Iterable, Mapping

import polars as pl

from tidemill.live.csv import times
from tidemill.live.csv.cells import CellFaults
from tidemill.live.history.rows import AttemptEnd
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text

OUTCOMES: dict[AttemptEnd, tuple[str, ...]] = {
    AttemptEnd.DONE: ("completed", "complete", "done", "succeeded", "success", "successful",
                   "finished", "pass", "passed", "ok", "0", "cd", "terminated", "published",
                   "closed"),
    AttemptEnd.FAILED: ("failed", "fail", "failure", "error", "errored", "crashed", "crash", "f",
                   "exit", "exited"),
    AttemptEnd.TIMED_OUT: ("timeout", "timedout", "to", "deadline", "dl", "maxruntimeexceeded",
                   "maxwaittimeexceeded"),
    AttemptEnd.OUT_OF_MEMORY: ("outofmemory", "oom", "oomkilled"),
    AttemptEnd.NODE_LOST: ("nodefail", "nodefailure", "nodelost", "bootfail", "nf", "bf"),
    AttemptEnd.PREEMPTED: ("preempted", "pr", "interrupted"),
    AttemptEnd.EVICTED: ("evicted",),
    AttemptEnd.REJECTED: ("rejected", "outofgpu"),
    AttemptEnd.REQUEUED: ("requeued", "rescheduled", "rq"),
    AttemptEnd.CANCELLED: ("cancelled", "canceled", "aborted", "stopped", "deleted", "ca",
                   "killed", "revoked"),
    AttemptEnd.RUNNING: ("running", "r", "run", "active", "inprogress", "completing", "cg",
                   "stopping", "terminating"),
    AttemptEnd.WAITING: ("pending", "pend", "waiting", "queued", "submitted", "pd", "scheduled",
                   "runnable", "created", "draft"),
}  # fmt: skip
WORDS = {word: str(outcome) for outcome, words in OUTCOMES.items() for word in words}
_ENDS = {plain: str(end) for end in OUTCOMES for plain in (str(end), str(end).replace(" ", "-"))}
_SHOWN = 5


def told(pairs: Iterable[str]) -> dict[str, str]:
    """``Archived=done``, once or several times: the word as it is compared, and the outcome."""
    found = dict[str, str]()
    for pair in pairs:
        word, sign, end = (part.strip() for part in pair.rpartition("="))
        if not sign or end.lower() not in _ENDS:
            known = ", ".join(sorted({end.replace(" ", "-") for end in _ENDS}))
            raise SpecError(
                f"--outcome is `{pair}`, which is not WORD=OUTCOME",
                hint=f"such as --outcome Archived=done; outcomes are: {known}",
            )
        found[_plain(pl.Series([word]))[0]] = _ENDS[end.lower()]
    return found


def read(texts: pl.Series, column: str, ends: Mapping[str, str], faults: CellFaults) -> pl.Series:
    """The outcome of each row; null where nothing was said."""
    given = times.blank(texts)
    known = _plain(given).replace_strict({**WORDS, **ends}, default=None, return_dtype=pl.String)
    is_bad = (known.is_null() & given.is_not_null()).fill_null(value=False)
    if is_bad.any():
        unknown = given.filter(is_bad).value_counts(sort=True)
        shown = [f"`{word}` in {count_text(n, 'row')}" for word, n in unknown.head(_SHOWN).rows()]
        more = " …" if len(unknown) > _SHOWN else ""
        word = unknown[0, 0]
        hint = (
            f"all such words: {', '.join(shown)}{more}; say what they mean, such as --outcome"
            f" '{word}=failed', or take the outcome from another column: --map outcome=COLUMN"
        )
        faults.check(given, is_bad, column, "which is no known outcome", hint)
    return known


def _plain(given: pl.Series) -> pl.Series:
    """Words as they are compared."""
    word = given.str.to_lowercase().str.replace_all(r"[^a-z0-9]", "")
    return word.str.replace(r"^(cancel+ed)by.*$", "${1}")
