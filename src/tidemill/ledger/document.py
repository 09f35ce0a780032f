"""The ledger as a document: one JSON-able value with a stable schema.

``tidemill ledger --json`` prints it, the HTTP API will serve it. Lines add up to the totals, and so
do the rows of a breakdown, in every column. Each bucket is in ``lines`` or, if nobody can say what
is in it, in ``unknown``: unknown is never shown as zero.
"""

from collections.abc import Mapping
from fractions import Fraction

from msgspec import UNSET, UnsetType

from tidemill.ledger import prices, ratios, top, waits
from tidemill.ledger.account import DENOMINATOR, Account, rounded
from tidemill.ledger.buckets import ABOUT, ALLOCATED, Bucket
from tidemill.ledger.fix import MOST_NAMED, Fix
from tidemill.ledger.free import free, total
from tidemill.ledger.leaks import Leak, leaks
from tidemill.ledger.schema import (
    VERSION,
    AlarmPart,
    Breakdown,
    BreakdownRow,
    BucketLine,
    Cell,
    EditPart,
    FixPart,
    FreePart,
    FreeRow,
    GoodputPart,
    LeakPart,
    LedgerDocument,
    LendingPart,
    Period,
    Ratio,
    RolledUpPart,
    SpreadPart,
    TopJobPart,
    Totals,
    Unknown,
    UtilisationPart,
    WaitRow,
    WaitsPart,
)
from tidemill.ledger.statement import Dimension, Statement
from tidemill.ledger.unknowns import (
    is_busy_told,
    is_loss_told,
    is_useful_unknown,
    known_ways,
    unknowns_of,
)
from tidemill.ledger.waits import WAIT_DIMENSIONS, WaitFigures, WaitSpread
from tidemill.model.measures import FOREVER_MS, ONE_PPM, share_out
from tidemill.model.states import Confidence

PLACES = 6  # decimals of a ratio: as fine as the parts per million of a line


def document(
    statement: Statement,
    by: Dimension | None = None,
    lending: LendingPart | None = None,
    *,
    most_jobs: int = 10,
) -> LedgerDocument:
    """The document of a statement, broken down if asked, with who lent what to whom if given."""
    account = statement.total()
    bin_ms = statement.bin_ms if statement.bin_ms < FOREVER_MS else None
    return LedgerDocument(
        version=VERSION,
        source=str(statement.source),
        is_simulated=statement.source.is_simulated,
        currency="USD",
        window=window_part(statement, bin_ms),
        totals=_totals(account, statement.length_ms),
        lines=_lines(statement, account),
        unknown=tuple(_unknown(bucket, why) for bucket, why in unknowns_of(statement).items()),
        goodput=_goodput(statement),
        utilisation=_utilisation(statement),
        breakdown=None if by is None else Breakdown(by, _rows(statement.by(by))),
        leaks=tuple(_leak(statement, leak) for leak in leaks(statement)),
        free=_free(statement),
        lending=UNSET if lending is None else lending,
        waits=_waits(statement, by) if statement.has_waits else UNSET,
        top_jobs=()
        if statement.past is not None
        else tuple(_top(row) for row in top.top_jobs(statement, most_jobs)),
        rolled_up=_rolled_up(statement),
        alarms=tuple(
            AlarmPart(statement.world.job_names[j], statement.world.shape_of(j).team, text)
            for j, text in statement.alarms.items()
        ),
    )


def _rolled_up(statement: Statement) -> RolledUpPart | UnsetType:
    if statement.past is None:
        return UNSET
    until_ms = statement.read_from_ms
    not_told = ("leaks", "top_jobs", *(() if statement.has_waits else ("waits",)))
    return RolledUpPart(until_ms, statement.calendar.iso(until_ms), not_told)


def _waits(statement: Statement, by: str | None) -> WaitsPart:
    group = next((known for known in WAIT_DIMENSIONS if known == by), None)
    parts = {} if group is None else statement.waits_by(group)
    rows = tuple(_wait_row(key, found) for key, found in parts.items())
    return WaitsPart(waits.RULE, _wait_row("total", statement.waits.figures()), group, rows)


def _wait_row(key: str, found: WaitFigures) -> WaitRow:
    return WaitRow(
        key, found.jobs, found.done, found.failed, found.cancelled, found.running, found.waiting,
        found.never_started, _spread(found.wait), _spread(found.total_wait),
        _spread(found.completion), _spread(found.slowdown), found.held,
    )  # fmt: skip


def _spread(found: WaitSpread | None) -> SpreadPart | None:
    if found is None:
        return None
    return SpreadPart(
        found.jobs, found.censored, found.mean, found.p50, found.p90, found.p99, found.max,
        tuple(sorted(found.at_least)),
    )  # fmt: skip


def _top(row: top.TopJob) -> TopJobPart:
    user = None if row.user == waits.UNKNOWN_USER else row.user
    return TopJobPart(
        row.job, row.team, user, row.gpu_milli, row.paid_usd_micro, row.wasted_usd_micro,
        row.unknown_usd_micro, ABOUT[row.leak].key, row.leak_usd_micro, row.paid_milli_ms,
        row.wasted_milli_ms, row.known,
    )  # fmt: skip


def window_part(statement: Statement, bin_ms: int | None = None) -> Period:
    """The window of a statement."""
    moments = (statement.start_ms, statement.end_ms)
    return Period(*moments, bin_ms, *(statement.calendar.iso(ms) for ms in moments))


def _totals(account: Account, window_ms: int) -> Totals:
    equivalent = account.h100_milli_ms()
    return Totals(
        milli_ms=account.paid_milli_ms,
        usd_micro=account.known_usd(account.paid_usd_micro),
        capability_h100_milli_ms=None if equivalent is None else sum(equivalent),
        useful_milli_ms=_useful(account),
        usd_micro_per_paid_hour=ratios.usd_micro_per_paid_hour(account),
        usd_micro_per_useful_hour=ratios.usd_micro_per_useful_hour(account),
        usd_micro_per_useful_h100_hour=ratios.usd_micro_per_useful_h100_hour(account),
        idle_point_usd_micro_per_year=ratios.idle_point_usd_micro_per_year(account, window_ms),
        mean_accelerators=_ratio(ratios.mean_accelerators(account, window_ms)),
        unpriced_milli_ms=account.unpriced_milli_ms,
    )


def _lines(statement: Statement, account: Account) -> tuple[BucketLine, ...]:
    usd_micro, shares_ppm = account.usd_micro(), account.shares_ppm()
    equivalent, usd_shares_ppm = account.h100_milli_ms(), account.dollar_shares_ppm()
    is_unknown = unknowns_of(statement)
    return tuple(
        BucketLine(
            key=about.key,
            title=about.title,
            group=about.group.name.lower(),
            owner=about.owner.name.lower(),
            confidence=statement.confidence(bucket),
            milli_ms=account.milli_ms[bucket],
            usd_micro=account.known_usd(usd_micro[bucket], bucket),
            share_ppm=shares_ppm[bucket],
            capability_h100_milli_ms=None if equivalent is None else equivalent[bucket],
            usd_share_ppm=None if usd_shares_ppm is None else usd_shares_ppm[bucket],
            unpriced_milli_ms=account.unpriced[bucket],
        )
        for bucket, about in ABOUT.items()
        if bucket not in is_unknown
    )


def _useful(account: Account) -> int | None:
    return None if is_useful_unknown(account) else account.milli_ms[Bucket.USEFUL]


def _unknown(bucket: int, why: str) -> Unknown:
    about = ABOUT[bucket]
    return Unknown(
        about.key,
        about.title,
        about.group.name.lower(),
        about.owner.name.lower(),
        why,
    )


def _goodput(statement: Statement) -> GoodputPart:
    found = ratios.goodput(statement.total())
    return GoodputPart(
        _ratio(found.scheduling),
        _ratio_or_none(found.runtime),
        _ratio_or_none(found.program),
        _ratio_or_none(found.overall),
        found.is_lower_bound,
        not is_loss_told(statement),
        found.is_assumed,
        _ratio(found.scheduling_most),
        found.is_program_bound,
    )


def _utilisation(statement: Statement) -> UtilisationPart:
    account = statement.total()
    found, misleading = ratios.utilisation(account), ratios.misleading(account)
    known, is_told = known_ways(statement), is_busy_told(statement)
    is_unseen = found.not_observed > 0
    return UtilisationPart(
        _ratio(found.allocation),
        _ratio(found.occupancy if is_told else found.occupancy_most),
        _ratio_or_none(found.mfu),
        None if misleading is None else misleading.words,
        known.allocation,
        known.occupancy,
        not is_told,
        known.mfu,
        ratios.goodput(account).is_lower_bound,
        allocation_is_lower_bound=is_unseen,
        occupancy_is_lower_bound=is_unseen and is_told,
        allocation_most=_ratio(found.allocation_most),
        occupancy_most=_ratio(found.occupancy_most),
    )


def _rows(accounts: Mapping[str, Account]) -> tuple[BreakdownRow, ...]:
    """Rows whose dollars and shares add up to those of the whole."""
    money = [account.paid_money for account in accounts.values()]
    time = [account.paid_milli_ms for account in accounts.values()]
    usd_micro = share_out(rounded(sum(money), DENOMINATOR), money)
    shares_ppm = share_out(ONE_PPM if sum(time) else 0, time)
    usd_ppm = share_out(ONE_PPM, money) if sum(money) else [None] * len(money)
    return tuple(
        BreakdownRow(
            key,
            account.paid_milli_ms,
            account.known_usd(usd),
            ppm,
            _useful(account),
            _cells(account, usd),
            of_usd,
            account.unpriced_milli_ms,
            account.of(ALLOCATED),
        )
        for (key, account), usd, ppm, of_usd in zip(
            accounts.items(), usd_micro, shares_ppm, usd_ppm, strict=True
        )
    )


def _cells(account: Account, usd_micro: int) -> tuple[Cell, ...]:
    parts = share_out(usd_micro, account.money) if account.paid_money else account.usd_micro()
    return tuple(
        Cell(ABOUT[bucket].key, account.milli_ms[bucket], account.known_usd(parts[bucket], bucket))
        for bucket in ABOUT
        if account.milli_ms[bucket]
    )


def _free(statement: Statement) -> FreePart | None:
    rows = free(statement)
    if rows is None:
        return None
    money = [row.unusable_money for row in rows]
    known = share_out(rounded(sum(money), DENOMINATOR), money) if sum(money) else [0] * len(rows)
    usd_micro = [usd if row.is_priced else None for usd, row in zip(known, rows, strict=True)]
    whole = total(rows)
    return FreePart(
        Confidence.INFERRED, whole.free_milli_ms, whole.usable_milli_ms, whole.unusable_milli_ms,
        whole.unasked_milli_ms, sum(known) if whole.is_priced else None,
        tuple(
            FreeRow(
                row.kind, row.pool, row.free_milli_ms, row.usable_milli_ms, row.unusable_milli_ms,
                row.unasked_milli_ms, usd,
            )
            for row, usd in zip(rows, usd_micro, strict=True)
        ),
    )  # fmt: skip


def _leak(statement: Statement, leak: Leak) -> LeakPart:
    about = ABOUT[leak.bucket]
    fixes = tuple(_fix(statement, leak, fix) for fix in leak.fixes)
    return LeakPart(
        about.key,
        about.title,
        leak.owner.name.lower(),
        leak.confidence,
        leak.milli_ms,
        None if leak.is_unpriced else leak.usd_micro,
        leak.evidence,
        leak.command,
        fixes[0],
        fixes,
    )


def _fix(statement: Statement, leak: Leak, fix: Fix) -> FixPart:
    is_claimed = prices.is_claimed(statement, fix)
    return FixPart(
        words=fix.words,
        rule=fix.rule,
        at_most_usd_micro=(
            None if fix.touches_usd_micro is None else min(fix.touches_usd_micro, leak.usd_micro)
        ),
        price_usd_micro=fix.price_usd_micro,
        who=fix.who[:MOST_NAMED],
        evidence=fix.evidence,
        edits=tuple(EditPart(*edit.place, edit.value, edit.was, edit.text) for edit in fix.edits),
        is_claimed=is_claimed,
        predicted_usd_micro=prices.wins_usd_micro(statement, fix) if is_claimed else None,
        saves_milli_ms=fix.saves_milli_ms,
        saves_usd_micro=fix.saves_usd_micro,
        adds_useful_milli_ms=fix.adds_useful_milli_ms,
        costs=fix.costs,
        measure=fix.measure,
        who_count=fix.touches,
    )


def _ratio_or_none(value: Fraction | None) -> Ratio | None:
    return None if value is None else _ratio(value)


def _ratio(value: Fraction) -> Ratio:
    units = rounded(value.numerator * 10**PLACES, value.denominator)
    whole, rest = divmod(units, 10**PLACES)
    return Ratio(value.numerator, value.denominator, f"{whole}.{rest:0{PLACES}d}")
