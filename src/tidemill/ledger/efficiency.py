"""Efficiency: what jobs made of the accelerators that they held, the costliest waste first.

As ``seff`` and ``jobstats`` tell of a job, from the rows of a ledger: of the time that a job, user,
team or class held, how much went into each bucket, what that cost, and how each figure is known.
Sums are the ledger's own, to the last milli·ms. A figure that nobody can know is None, never 0.
"""

from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import Literal, NamedTuple, get_args

import numpy as np

from tidemill.ledger import host_use, ratios, served
from tidemill.ledger.account import DENOMINATOR, Account, rounded
from tidemill.ledger.buckets import (
    ABOUT,
    ALLOCATED,
    BELOW,
    DIVIDED,
    NOT_PRODUCED,
    OCCUPIED,
    RAN,
    Bucket,
)
from tidemill.ledger.host_use import HostUse
from tidemill.ledger.rows import NO_JOB, LedgerRows, accounts
from tidemill.ledger.served import MeasuredGroup
from tidemill.ledger.statement import Statement
from tidemill.ledger.top import wasted_buckets, worth_unknown
from tidemill.ledger.unknowns import LOSSES, is_useful_unknown, unknowns
from tidemill.ledger.waits import UNKNOWN_USER
from tidemill.model import partial
from tidemill.model.measures import ONE_PPM
from tidemill.model.states import CONFIDENCES, Confidence, JobState, mostly
from tidemill.model.tables import I64

_TOLD = frozenset({*LOSSES, Bucket.HOST, Bucket.LINKS})
"""What has to be measured of a job: its scheduler does not tell it."""
_UP = RAN | {Bucket.IDLE}
_RATED = BELOW | {Bucket.USEFUL}
"""What an efficiency says."""

EfficiencyDimension = Literal["job", "user", "team", "class"]
EFFICIENCY_DIMENSIONS: tuple[EfficiencyDimension, ...] = get_args(EfficiencyDimension)


class HeldFigure(NamedTuple):
    """What of the time that was held went into some buckets, and how that is known."""

    milli_ms: int | None
    """None: nobody can say."""
    confidence: Confidence


class HeldJob(NamedTuple):
    """What is known of one job beside its accelerators' time."""

    job: int
    user: str | None
    team: str
    job_class: str
    gpu_milli: int
    """What it requests; an elastic job may run on less."""
    cpu_milli: int | None
    memory_mib: int | None
    attempts: int
    elapsed_ms: int | None
    """How long it held its place, all attempts together; None where the window hides it."""
    asked_ms: int | None
    """The time limit (or the run time that its owner gave) of an attempt; None: nobody said."""
    mfu_source: str | None = None
    """Who says how efficient it was, in their own words; None: nobody said."""
    host: HostUse = host_use.NOTHING
    """What it used of its CPUs and of its memory."""

    @property
    def asked_ppm(self) -> int | None:
        """How much of the time asked for its attempts used, on the mean; None: unknown."""
        if self.elapsed_ms is None or not self.asked_ms or not self.attempts:
            return None
        return rounded(self.elapsed_ms * ONE_PPM, self.asked_ms * self.attempts)


class HeldRow(NamedTuple):
    """One job, user, team or class: what it held, and what became of that."""

    key: str
    jobs: int
    account: Account
    known: tuple[tuple[int, ...], ...]
    """Milli·ms by bucket and by place in ``CONFIDENCES``."""
    unknown: dict[int, str]
    """Empty buckets that nobody can know, and why."""
    empty: dict[int, Confidence]
    """How it is known of a bucket that nothing is in it."""
    told: frozenset[int]
    """Buckets that somebody measured of all its jobs; of idle ones, of almost all of the time."""
    is_observed: bool
    """Whether another scheduler placed its jobs: what nobody measured is not known."""
    facts: HeldJob | None
    """Of a row that is one job."""
    measured: MeasuredGroup = served.NOTHING
    """What was measured beside the buckets: the load of services, what devices did."""

    def figure(self, buckets: Iterable[int]) -> HeldFigure:
        """What went into some buckets, as most of it is known; unknown where nothing is known to be
        in them, and something may be.
        """
        some = [*buckets]
        amount = self.account.of(some)
        if amount:
            sums = {word: sum(self.known[b][i] for b in some) for i, word in enumerate(CONFIDENCES)}
            return HeldFigure(amount, mostly(sums))
        is_open = any(bucket in self.unknown and bucket not in NOT_PRODUCED for bucket in some)
        if is_open or all(bucket in self.unknown for bucket in some):
            return HeldFigure(None, Confidence.UNKNOWN)
        ways = [self.empty[bucket] for bucket in some if bucket not in self.unknown]
        return HeldFigure(0, ways[0] if len({*ways}) == 1 else Confidence.INFERRED)

    def may_be_more(self, buckets: Collection[int]) -> bool:
        """Whether what is known to be in some buckets is the least that is: it was neither measured
        of all nor assumed, or time whose worth nobody knows may belong there.
        """
        if self.figure(buckets).confidence is not Confidence.ASSUMED and any(
            self.is_observed and b in _TOLD and b not in self.told for b in buckets
        ):
            return True
        return self.is_lower_bound and not _RATED.isdisjoint(buckets)

    @property
    def may_waste_more(self) -> bool:
        """Whether what is known to be wasted is the least that was.

        It is all where the rest is useful, and that was measured: what nobody told apart is in it.
        """
        is_whole = not self.account.of(worth_unknown()) and (
            self.figure([Bucket.USEFUL]).confidence is Confidence.MEASURED
        )
        return not is_whole and self.may_be_more(wasted_buckets())

    @property
    def is_busy_told(self) -> bool:
        """Whether it is known of all its jobs when their accelerators were busy."""
        return not self.is_observed or Bucket.IDLE in self.told

    def is_up_told(self, start_ms: int, up_ms: int | None) -> bool:
        """Whether it is known when an attempt came up: if not, it counts as up at once."""
        return up_ms != start_ms or not self.is_observed or Bucket.STARTING in self.told

    @property
    def held_milli_ms(self) -> int:
        """All that it held."""
        return self.account.paid_milli_ms

    @property
    def wasted(self) -> HeldFigure:
        """What is known not to be useful; unknown where nothing is, and something may be."""
        return self.figure(bucket for bucket in wasted_buckets() if bucket in ALLOCATED)

    @property
    def wasted_money(self) -> int:
        """What is known not to be useful, as ``Account.money``."""
        return sum(self.account.money[bucket] for bucket in wasted_buckets())

    @property
    def usd_micro(self) -> int | None:
        """What all that it held cost, in micro-dollars; None: nobody said a price of any of it."""
        return self.account.known_usd(self.account.paid_usd_micro)

    @property
    def wasted_usd_micro(self) -> int | None:
        """What is known not to be useful, in micro-dollars; None: unknown, or without a price."""
        return None if self.wasted.milli_ms is None else self._usd(wasted_buckets())

    @property
    def unknown_usd_micro(self) -> int | None:
        """What time of unknown worth cost, in micro-dollars; None: without a price."""
        return self._usd(worth_unknown())

    def _usd(self, buckets: list[int]) -> int | None:
        account = self.account
        without = sum(account.unpriced[bucket] for bucket in buckets)
        if account.is_unpriced or (without and without == account.of(buckets)):
            return None
        return rounded(sum(account.money[bucket] for bucket in buckets), DENOMINATOR)

    @property
    def occupancy(self) -> HeldFigure:
        """Of what it held, busy; unknown where nobody said when its devices were, or saw it."""
        if not self.is_busy_told or self.account.milli_ms[Bucket.NOT_OBSERVED]:
            return HeldFigure(None, Confidence.UNKNOWN)
        return HeldFigure(self.account.of(OCCUPIED), self.figure([Bucket.IDLE]).confidence)

    @property
    def mfu(self) -> HeldFigure:
        """Of what it held, useful: a lower bound where some efficiency is unknown."""
        if is_useful_unknown(self.account):
            return HeldFigure(None, Confidence.UNKNOWN)
        return self.figure([Bucket.USEFUL])

    @property
    def is_lower_bound(self) -> bool:
        """Whether more of what it held may be useful, or wasted: nobody knows it of all."""
        return ratios.goodput(self.account).is_lower_bound

    @property
    def misleading(self) -> ratios.Misleading | None:
        """Which of occupancy and MFU misleads; None: neither, or nobody can say."""
        return ratios.misleading(self.account)


class Efficiencies(NamedTuple):
    """Rows, the costliest waste first; what the others held; and all that jobs held."""

    by: EfficiencyDimension
    rows: tuple[HeldRow, ...]
    rest: HeldRow | None
    """Those that are not shown by themselves, together."""
    total: HeldRow


def efficiencies(
    statement: Statement, by: EfficiencyDimension = "job", most: int | None = None
) -> Efficiencies:
    """What was held, by job, user, team or class; the ``most`` that wasted most, or all."""
    keys, names = statement.keys(by)
    is_held = statement.rows.job != NO_JOB
    rows = LedgerRows(*(column[is_held] for column in statement.rows))
    known = statement.known_as[is_held]
    found, group = np.unique(keys[is_held], return_inverse=True)
    order = _worst_first(statement, rows, group, len(found))
    shown = len(found) if most is None else min(most, len(found))
    place = np.empty(len(found), np.int64)
    place[order] = np.minimum(np.arange(len(found)), shown)
    made = _rows(
        statement, rows, known, place[group],
        [*(names(int(found[i])) for i in order[:shown]), f"{len(found) - shown:,} others"],
        by == "job",
    )  # fmt: skip
    told = served.by_group(statement.measured, _places(statement, by, found, place), shown + 1)
    made = [row._replace(measured=told[i]) for i, row in enumerate(made)]
    total = _rows(statement, rows, known, np.zeros_like(group), ["all jobs"], False)[0]
    (whole,) = served.by_group(statement.measured, np.zeros_like(statement.measured.job), 1)
    rest = made[shown] if shown < len(found) else None
    return Efficiencies(by, tuple(made[:shown]), rest, total._replace(measured=whole))


def _places(statement: Statement, by: EfficiencyDimension, found: I64, place: I64) -> I64:
    """To which row each row of what was measured belongs; -1: to none that held anything."""
    keys = statement.measured_keys(by)
    if not len(found):
        return np.full_like(keys, -1)
    at = np.minimum(np.searchsorted(found, keys), len(found) - 1)
    return np.where(found[at] == keys, place[at], -1)


def of_job(statement: Statement, j: int) -> HeldRow:
    """One job; it may have held nothing."""
    statement.refuse_past("books by job")
    mask = statement.rows.job == j
    rows = LedgerRows(*(column[mask] for column in statement.rows))
    group = np.zeros(len(rows.job), np.int64)
    names = [statement.world.job_names[j]]
    (row,) = _rows(statement, rows, statement.known_as[mask], group, names, False)
    mine = np.where(statement.measured.job == j, 0, -1)
    (told,) = served.by_group(statement.measured, mine, 1)
    return row._replace(jobs=1, facts=facts_of(statement, j), measured=told)


def facts_of(statement: Statement, j: int) -> HeldJob:
    """What is known of a job beside its accelerators' time."""
    world, waits = statement.world, statement.waits
    shape = world.shape_of(j)
    at = int(np.searchsorted(waits.job, j))
    is_there = at < len(waits.job) and waits.job[at] == j
    is_partial = world.jobs.state.item(j) == JobState.STARTING and bool(partial.lacking(world, j))
    elapsed = int(waits.held_ms[at]) if is_there and not is_partial else None  # it waits as well
    return HeldJob(
        j, world.job_users[j] or None, shape.team, str(statement.class_of(j)), shape.total_milli,
        sum(role.count * role.cpu_milli for role in shape.roles) or None,
        sum(role.count * role.memory_mib for role in shape.roles) or None,
        int(world.jobs.attempt[j]), elapsed, int(world.jobs.estimate_ms[j]) or None,
        statement.mfu_sources.get(world.job_names[j]), statement.host_uses.of(j),
    )  # fmt: skip


def ratio(figure: HeldFigure, held_milli_ms: int) -> Fraction | None:
    """A figure over what was held; None: unknown."""
    if figure.milli_ms is None or not held_milli_ms:
        return None
    return Fraction(figure.milli_ms, held_milli_ms)


def _worst_first(statement: Statement, rows: LedgerRows, group: I64, count: int) -> I64:
    """Groups by what they wasted in dollars, then by what they held; ties by their order.

    In hours instead of dollars where some of the fleet has no price. In floating point: it only
    orders, and exact sums of a million jobs take long.
    """
    is_wasted = np.isin(rows.bucket, wasted_buckets())
    money = rows.milli_ms.astype(float)
    if not statement.total().unpriced_milli_ms:
        money *= statement.prices.rates.astype(float)[rows.period, rows.contract]
    wasted = np.bincount(group, money * is_wasted, count)
    held = np.bincount(group, rows.milli_ms, count)
    return np.lexsort((np.arange(count), -held, -wasted))


def _rows(
    statement: Statement,
    rows: LedgerRows,
    known: I64,
    group: I64,
    names: list[str],
    are_jobs: bool,
) -> list[HeldRow]:
    """One row per group; ``group`` says to which of ``names`` each row of the ledger belongs."""
    world, count = statement.world, len(names)
    is_assumed = known == CONFIDENCES.index(Confidence.ASSUMED)
    each = accounts(rows, group, count, world.contract_rows, is_assumed)
    sums = np.zeros((count, max(ABOUT) + 1, len(CONFIDENCES)), np.int64)
    np.add.at(sums, (group, rows.bucket, known), rows.milli_ms)
    order = np.lexsort((rows.job, group))
    by_group = np.stack([group[order], rows.job[order]])
    is_new = np.ones(len(order), bool)
    is_new[1:] = (by_group[:, 1:] != by_group[:, :-1]).any(axis=0)
    by_group = by_group[:, is_new]
    starts = np.searchsorted(by_group[0], np.arange(count + 1))
    made = []
    for i, (name, account) in enumerate(zip(names, each, strict=True)):
        jobs = by_group[1, starts[i] : starts[i + 1]]
        told = statement.told.of(jobs)
        if 2000 * account.of(_UP) < account.paid_milli_ms:
            told = frozenset(ABOUT)  # who never came up did nothing else, to a tenth of a percent
        unknown = unknowns(account, is_observed=world.is_observed, told=told)
        divided = sums[i, [*DIVIDED]].sum(axis=0)
        worked = (divided if divided.any() else sums[i].sum(axis=0)).tolist()
        most = mostly(dict(zip(CONFIDENCES, worked, strict=True)))
        empty = {bucket: statement.as_known(_empty(bucket, told, most)) for bucket in ABOUT}
        facts = facts_of(statement, int(jobs[0])) if are_jobs and len(jobs) == 1 else None
        matrix = tuple(tuple(row) for row in sums[i].tolist())
        open_ = _held_only(unknown)
        made.append(
            HeldRow(name, len(jobs), account, matrix, open_, empty, told, world.is_observed, facts)
        )
    return made


def _empty(bucket: int, told: Collection[int], most: Confidence) -> Confidence:
    """How it is known of a bucket that it is empty; ``most``: how most of the time is known.

    What some ranks told is inferred of the others. Where no time was divided by an efficiency,
    nobody estimated one.
    """
    if bucket in told:
        return most if most is Confidence.INFERRED else Confidence.MEASURED
    return most if bucket in DIVIDED else ABOUT[bucket].confidence


def _held_only(unknown: dict[int, str]) -> dict[int, str]:
    """Of the unknown buckets, those that a job can fill."""
    return {bucket: why for bucket, why in unknown.items() if bucket in ALLOCATED}


def user_of(facts: HeldJob) -> str:
    """Who submitted it, in words."""
    return facts.user or UNKNOWN_USER
