"""Unknowns: buckets of an account that are empty because nobody can say, each with its reason.

An empty bucket is zero only where somebody would have told. Shown as unknown, never as zero.
"""

from tidemill.ledger.account import Account
from tidemill.ledger.buckets import ABOUT, DIVIDED, NOT_PRODUCED, Bucket

NO_EFFICIENCY = "no job that worked says how efficient it was; within `unknown`"
NO_STALLS = "no job that worked says how long it waits for this; within the buckets below its peak"
NO_ROOF = "no job says its arithmetic intensity or its attainable roof; within `below_peak`"


OTHERS_SAY_NOT = "another scheduler's records do not tell it; within others"
UNTOLD = (
    Bucket.NOT_LAUNCHED, Bucket.NOT_READY, Bucket.FRAGMENTED, Bucket.QUOTA, Bucket.HELD,
    Bucket.BY_DESIGN, Bucket.STARTING, Bucket.IDLE, Bucket.REWORK, Bucket.RESTART,
    Bucket.CHECKPOINT, Bucket.STRANDED, Bucket.UNSAVED,
)  # fmt: skip
"""What our own loop would tell, and the history of another cluster does not."""


def unknowns(account: Account, *, is_observed: bool = False) -> dict[int, str]:
    """The unknown buckets of an account, top to bottom, and why.

    ``is_observed``: it is of a cluster with a scheduler of its own.
    """
    found = {**NOT_PRODUCED}
    if is_observed:
        found |= dict.fromkeys(UNTOLD, OTHERS_SAY_NOT)
    if is_useful_unknown(account):
        found |= dict.fromkeys(DIVIDED, NO_EFFICIENCY)
    elif account.milli_ms[Bucket.USEFUL]:
        found |= dict.fromkeys((Bucket.HOST, Bucket.LINKS), NO_STALLS)
    if account.milli_ms[Bucket.BELOW_PEAK]:
        found |= dict.fromkeys((Bucket.MEMORY_BOUND, Bucket.BELOW_ROOF), NO_ROOF)
    return {b: found[b] for b in ABOUT if b in found and not account.milli_ms[b]}


def is_useful_unknown(account: Account) -> bool:
    """Whether work was done but nobody knows yet how well: then useful is unknown, not zero."""
    worked = account.milli_ms[Bucket.UNKNOWN] + account.milli_ms[Bucket.UNSAVED]
    return worked > 0 and not account.milli_ms[Bucket.USEFUL]
