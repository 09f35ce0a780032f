"""What is missing to know how well time worked, as those can give it whose jobs did not tell it."""

import numpy as np

from tidemill.ledger.buckets import BELOW, Bucket
from tidemill.ledger.statement import Statement
from tidemill.model import paging

LOOPS = "call tidemill.track in the loops, and import or observe with --track"
FLOPS = "loops that are tracked: give `flops=…` to run.step, or call run.efficiency(mfu=…)"
SERVICES = "services: call run.efficiency(mfu=…) of tidemill.track with what they reach"


def known_efficiency(statement: Statement) -> tuple[int, int]:
    """Milli·ms of work that lasted whose efficiency is known, and of all such work."""
    account = statement.total()
    known = account.of((*BELOW, Bucket.USEFUL))
    return known, known + account.milli_ms[Bucket.UNKNOWN]


def words(statement: Statement) -> str:
    """What to do so that the efficiency of all jobs is known; empty where it is.

    Loops that told their steps need to tell their FLOPs; services have no steps to tell.
    """
    jobs, found = np.flatnonzero(statement.held_in(Bucket.UNKNOWN)), set[str]()
    for some in paging.near(jobs):
        is_service, is_tracked = statement.are_services(some), statement.told.is_tracked(some)
        told = {
            LOOPS: ~is_service & ~is_tracked, FLOPS: ~is_service & is_tracked, SERVICES: is_service
        }  # fmt: skip
        found |= {text for text, whom in told.items() if whom.any()}
    return "; ".join(text for text in (LOOPS, FLOPS, SERVICES) if text in found)
