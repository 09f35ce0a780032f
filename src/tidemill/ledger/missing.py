"""What is missing to know how well time worked, as those can give it whose jobs did not tell it."""

from collections.abc import Iterator

import numpy as np

from tidemill.ledger.buckets import BELOW, Bucket
from tidemill.ledger.statement import Statement
from tidemill.model import codes, paging
from tidemill.model.states import Confidence
from tidemill.model.tables import I64
from tidemill.units import capability

LOOPS = "call tidemill.track in the loops, and import or observe with --track"
FLOPS = "loops that are tracked: give `flops=…` to run.step, or call run.efficiency(mfu=…)"
SAVES = "loops that say nothing of what they save: call run.checkpoint and run.restored"
SERVICES = "services: call run.efficiency(mfu=…) of tidemill.track with what they reach"
NO_PEAK = "no peak of {types} is known, so FLOPs are no share of it: call run.efficiency(mfu=…)"
SILENT = "loops that fell silent before their job ended: look whether they still run"
_INFERRED = codes.CONFIDENCE_CODE[Confidence.INFERRED]


def known_efficiency(statement: Statement) -> tuple[int, int]:
    """Milli·ms of work whose efficiency is known, and of all work that lasted or that loops were
    silent of.
    """
    account = statement.total()
    known = account.of((*BELOW, Bucket.USEFUL))
    return known, known + account.milli_ms[Bucket.UNKNOWN] + _silent(statement)


def assumed_efficiency(statement: Statement) -> int:
    """Milli·ms of that work whose efficiency is a figure that somebody assumed."""
    return sum(int(statement.rows.milli_ms[some].sum()) for some in _assumed_rows(statement))


def _silent(statement: Statement) -> int:
    """Milli·ms in which jobs of tracked loops did what was not saved, and no loop told of it."""
    rows, found = statement.rows, 0
    for some in statement.near(Bucket.REWORK, Bucket.UNSAVED):
        found += int(rows.milli_ms[some][rows.known[some] == _INFERRED].sum())
    return found


def words(statement: Statement, *, beyond_assumed: bool = False) -> str:
    """What to do so that the efficiency of all jobs is known; empty where it is.

    Loops that told their steps need to tell their FLOPs, and what they save: of one that was
    stopped, and did not, nobody knows what was lost. Services have no steps to tell.
    ``beyond_assumed``: also of jobs that worked as well as somebody assumed.
    """
    in_doubt = statement.held_in(Bucket.UNKNOWN) > 0
    if beyond_assumed:
        in_doubt[_assumed(statement)] = True
    jobs, found = np.flatnonzero(in_doubt), set[str]()
    unrated, kinds = _unrated(statement), set[str]()
    for some in paging.near(jobs):
        is_service, is_tracked = statement.are_services(some), statement.told.is_tracked(some)
        is_lost = ~is_service & is_tracked & ~statement.told.knows(some, Bucket.REWORK)
        is_said = np.isin(some, [*unrated]) | (is_lost & statement.told.is_rated(some))
        told = {
            LOOPS: ~is_service & ~is_tracked,
            FLOPS: ~is_service & is_tracked & ~is_said,
            SAVES: is_lost,
            SERVICES: is_service,
        }
        found |= {text for text, whom in told.items() if whom.any()}
        kinds |= {unrated[j] for j in some[~is_service & is_tracked].tolist() if j in unrated}
    no_peak = NO_PEAK.format(types=", ".join(f"`{kind}`" for kind in sorted(kinds)))
    if kinds:
        found.add(no_peak)
    if _silent(statement):
        found.add(SILENT)
    return "; ".join(
        text for text in (LOOPS, FLOPS, no_peak, SAVES, SERVICES, SILENT) if text in found
    )


def _assumed(statement: Statement) -> I64:
    """Jobs of which it is assumed how well they worked."""
    found = np.zeros(statement.world.job_count, bool)
    for some in _assumed_rows(statement):
        jobs = statement.rows.job[some]
        found[jobs[jobs >= 0]] = True
    return np.flatnonzero(found)


def _assumed_rows(statement: Statement) -> Iterator[I64]:
    """Rows of work whose efficiency is assumed."""
    is_assumed = statement.is_assumed
    return (some[is_assumed[some]] for some in statement.near(*BELOW, Bucket.USEFUL))


def _unrated(statement: Statement) -> dict[int, str]:
    """Jobs that worked at an unknown efficiency on GPUs of a type whose peak nobody knows."""
    rows, found = statement.rows, dict[int, str]()
    kinds = [contract.kind for contract in statement.world.contract_rows]
    without = [c for c, kind in enumerate(kinds) if capability.gflops(kind) is None]
    for some in statement.near(Bucket.UNKNOWN) if without else ():
        mine = some[np.isin(rows.contract[some], without)]
        for j, c in np.unique(np.stack([rows.job[mine], rows.contract[mine]], 1), axis=0).tolist():
            found[j] = kinds[c]
    return found
