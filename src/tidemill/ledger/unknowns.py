"""Unknowns: buckets of an account that are empty because nobody can say, each with its reason.

An empty bucket is zero only where somebody would have told. Shown as unknown, never as zero.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from tidemill.ledger.account import Account
from tidemill.ledger.buckets import (
    ABOUT,
    BELOW,
    DIVIDED,
    NOT_PRODUCED,
    OCCUPIED,
    PRODUCTIVE,
    Bucket,
)
from tidemill.model.rows import UNLISTED
from tidemill.model.states import Confidence, Terms
from tidemill.model.world import World
from tidemill.reservation.types import UNFILLED

if TYPE_CHECKING:
    from tidemill.ledger.statement import Statement

NO_EFFICIENCY = "nobody says how efficient the work was that lasted; within `unknown`"
NOT_SEEN = "nobody saw what was done; within `not_observed`"
NO_STALLS = (
    "not every job that worked says how long it waits for this; within the buckets below its peak"
)
NOT_SAVED = "most of the work is not saved yet, and is divided once it is; within `unsaved`"
NO_ROOF = "no job says its arithmetic intensity or its attainable roof; within `below_peak`"


OTHERS_SAY_NOT = "another scheduler's records do not tell it; within others"
UNTOLD = (
    Bucket.NOT_LAUNCHED, Bucket.NOT_READY, Bucket.FRAGMENTED, Bucket.QUOTA, Bucket.HELD,
    Bucket.BY_DESIGN, Bucket.STARTING, Bucket.IDLE, Bucket.REWORK, Bucket.RESTART,
    Bucket.CHECKPOINT, Bucket.STRANDED, Bucket.UNSAVED,
)  # fmt: skip
"""What our own loop would tell, and the history of another cluster does not."""
CLAIMED = (Bucket.FRAGMENTED, Bucket.QUOTA, Bucket.HELD)
"""Of those, the causes that another scheduler may give of jobs that wait."""
NO_REASON = (
    "of some time in which jobs waited beside what was free nobody saw a reason (one that is seen"
    " now says nothing of before); within `cause_unknown`"
)


OUT = (Bucket.UNHEALTHY, Bucket.CORDONED, Bucket.DRAINING)
NO_STATES = "no source says when nodes were out of service; they count as Ready all the time"

NOT_ALL_STATES = (
    "the files that were given do not tell all of it; nodes count as Ready but for what they tell"
)

LOSSES = (Bucket.STARTING, Bucket.IDLE, Bucket.REWORK, Bucket.RESTART, Bucket.CHECKPOINT)
"""What jobs hold without making progress that lasts."""


def unknowns_of(statement: "Statement") -> dict[int, str]:
    """The unknown buckets of a whole ledger, top to bottom, and why."""
    told, account = statement.told.of(statement.holders), statement.total()
    if is_commitment_told(statement.world):
        told |= {Bucket.NOT_LAUNCHED}
    found = unknowns(account, is_observed=statement.world.is_observed, told=told)
    why = NO_STATES if len(statement.untold_states) == len(OUT) else NOT_ALL_STATES
    untold = [bucket for bucket in OUT if ABOUT[bucket].key in statement.untold_states]
    found |= {bucket: why for bucket in untold if not account.milli_ms[bucket]}
    return {bucket: found[bucket] for bucket in ABOUT if bucket in found}


def is_commitment_told(world: World) -> bool:
    """Whether somebody says how much every commitment pays for, whether nodes are there or not."""
    rows = world.contract_rows
    is_said = any(row.terms == UNFILLED for row in rows)
    return is_said and all(
        row.terms in _BY_THE_HOUR or any(price.commitment for price in row.prices) for row in rows
    )


_BY_THE_HOUR = (UNFILLED, Terms.ON_DEMAND.value, Terms.SPOT.value)


def is_busy_told(statement: "Statement") -> bool:
    """Whether it is known of all jobs when their accelerators were busy.

    If not, occupancy is an upper bound: what was not seen to be idle.
    """
    is_told = Bucket.IDLE in statement.told.of(statement.holders)
    return not statement.world.is_observed or is_told or not statement.total().of(OCCUPIED)


def is_loss_told(statement: "Statement") -> bool:
    """Whether it is known of all jobs what of their time made no progress that lasted.

    If not, runtime goodput is an upper bound: what was not seen to be lost.
    """
    holders = statement.holders
    if not statement.world.is_observed or not statement.total().of(PRODUCTIVE):
        return True
    return bool(holders.min() >= 0) and all(
        (statement.told.knows(holders, b) | (statement.held_by_jobs(b)[holders] > 0)).all()
        for b in LOSSES
    )


def unknowns(
    account: Account, *, is_observed: bool = False, told: Collection[int] = ()
) -> dict[int, str]:
    """The unknown buckets of an account, top to bottom, and why.

    ``is_observed``: it is of a cluster with a scheduler of its own. ``told``: buckets that somebody
    measured of all its jobs, so that what is empty is zero.
    """
    found = {**NOT_PRODUCED}
    if is_observed:
        found |= dict.fromkeys(UNTOLD, OTHERS_SAY_NOT)
        if account.milli_ms[Bucket.CAUSE_UNKNOWN]:
            found |= dict.fromkeys(CLAIMED, NO_REASON)
        elif account.of(CLAIMED):  # of all that was claimed it is known for what
            found = {bucket: why for bucket, why in found.items() if bucket not in CLAIMED}
    if account.milli_ms[Bucket.NOT_OBSERVED] == account.paid_milli_ms > 0:
        return {b: NOT_SEEN for b in ABOUT if not account.milli_ms[b]}
    if is_useful_unknown(account):
        found |= dict.fromkeys(DIVIDED, NO_EFFICIENCY if is_work_seen(account) else NOT_SEEN)
    elif account.of(BELOW | {Bucket.USEFUL}):
        found |= dict.fromkeys((Bucket.HOST, Bucket.LINKS), NO_STALLS)
    if 2 * account.milli_ms[Bucket.UNSAVED] > account.of(PRODUCTIVE):
        waits = (Bucket.HOST, Bucket.LINKS)
        found |= dict.fromkeys(waits, NOT_SAVED)
        told = {*told} - {*waits}
    if account.milli_ms[Bucket.BELOW_PEAK]:
        found |= dict.fromkeys((Bucket.MEMORY_BOUND, Bucket.BELOW_ROOF), NO_ROOF)
    return {b: found[b] for b in ABOUT if b in found and b not in told and not account.milli_ms[b]}


class KnownWays(NamedTuple):
    """How the three utilisations are known."""

    allocation: Confidence
    occupancy: Confidence
    mfu: Confidence


def known_ways(statement: "Statement") -> KnownWays:
    """Allocation by events alone; occupancy as idle time is; MFU as useful time is.

    Neither of the first two is known where only bounds of it are.
    """
    account, unknown = statement.total(), Confidence.UNKNOWN
    is_seen = not account.milli_ms[Bucket.NOT_OBSERVED]
    allocation = statement.as_known(Confidence.MEASURED)
    occupancy = statement.confidence(Bucket.IDLE)
    return KnownWays(
        allocation if is_seen and is_all_listed(statement) else unknown,
        occupancy if is_seen and is_busy_told(statement) else unknown,
        unknown if is_useful_unknown(account) else statement.confidence(Bucket.USEFUL),
    )


def is_all_listed(statement: "Statement") -> bool:
    """Whether some source lists all nodes.

    If not, nobody knows how much more the others had: allocation is at most what it seems.
    """
    return not any(UNLISTED in row.labels for row in statement.world.node_rows)


def is_useful_unknown(account: Account) -> bool:
    """Whether work was done, or may have been, and nobody knows how well: useful is unknown then,
    not zero.

    Time below the peak is known by an efficiency alone: beside it, useful time that rounds to
    nothing is zero, as a loop measured it.
    """
    may_have = is_work_seen(account) or account.milli_ms[Bucket.NOT_OBSERVED] > 0
    return may_have and not account.of(BELOW | {Bucket.USEFUL})


def is_work_seen(account: Account) -> bool:
    """Whether somebody worked of whom nobody knows yet how well."""
    return account.of((Bucket.UNKNOWN, Bucket.UNSAVED)) > 0
