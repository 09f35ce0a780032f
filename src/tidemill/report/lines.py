"""The ledger's lines: hours, dollars, percent, owner and how each is known.

What no layer can fill yet is a line too, without numbers: unknown is never shown as zero.
"""

from typing import NamedTuple

from tidemill.ledger import leaks as leaking
from tidemill.ledger import printed
from tidemill.ledger.account import Account
from tidemill.ledger.buckets import ABOUT, ALLOCATED, Bucket, Stage
from tidemill.ledger.statement import Statement
from tidemill.ledger.unknowns import unknowns_of
from tidemill.model.measures import share_out
from tidemill.model.states import CONFIDENCES, Confidence, mostly
from tidemill.report import stages, words

KNOWN_AS: dict[Confidence, str] = {
    Confidence.MEASURED: "seen in the journal, to the millisecond",
    Confidence.INFERRED: "follows from what was seen, by a rule that the ledger states",
    Confidence.MODELLED: "divided by an efficiency that was estimated, not observed",
    Confidence.UNKNOWN: "it is real, and nobody said how well it worked or why it stood free",
    Confidence.SIMULATED: "counted to the millisecond, in a fleet that a twin made up",
    Confidence.ASSUMED: "rests on a figure that somebody assumed, because nothing was measured",
}


class ReportLine(NamedTuple):
    """One bucket; ``is_known`` is false where nothing can measure it yet."""

    key: str
    title: str
    style: str
    is_known: bool
    is_empty: bool
    percent: str
    """Of the accelerator-hours."""
    usd: str
    usd_percent: str
    """Of the dollars."""
    hours: str
    equivalent: str
    why: str
    """Why it is unknown, where it is."""
    owner: str
    confidence: str


class Total(NamedTuple):
    """What the lines add up to."""

    percent: str
    usd: str
    usd_percent: str
    hours: str
    equivalent: str


class KnownShare(NamedTuple):
    """How much of what was paid is known in one way."""

    confidence: str
    percent: str
    words: str


def lines(statement: Statement, account: Account) -> tuple[ReportLine, ...]:
    """Every bucket of a statement and its total, top to bottom.

    Nothing in a bucket of what nobody knows is nothing to be told.
    """
    known_as = {leak.bucket: leak.confidence for leak in leaking.leaks(statement)}
    known_as[Bucket.USEFUL] = _useful(statement, account)
    unit, is_unknown = words.unit_micro(account), unknowns_of(statement)
    units, money = printed.units(account), account.in_units(unit)
    time, equal = account.hours_in(units.hour), account.h100_hours_in(units.hour)
    points = account.basis_points()
    of_dollars = account.dollar_points()
    found = []
    for bucket, about in ABOUT.items():
        is_told = account.milli_ms[bucket] or about.confidence is not Confidence.UNKNOWN
        if bucket not in is_unknown and not is_told:
            continue
        confidence = known_as.get(bucket, statement.as_known(about.confidence))
        found.append(
            ReportLine(
                about.key, about.title, stages.style(about.group),
                bucket not in is_unknown, not account.milli_ms[bucket],
                words.percent(points[bucket]),
                account.told(words.usd(money[bucket], unit), bucket),
                words.percent(of_dollars[bucket]) if of_dollars else "—",
                units.hours(time[bucket]), units.hours(equal[bucket]) if equal else "",
                is_unknown.get(bucket, ""),
                words.owner(about.owner), str(confidence),
            )
        )  # fmt: skip
    return tuple(found)


def total(account: Account) -> Total:
    """The last row: the sums of the printed lines."""
    units, unit = printed.units(account), words.unit_micro(account)
    equal = account.h100_hours_in(units.hour)
    of_dollars = account.dollar_points()
    return Total(
        words.percent(sum(account.basis_points())),
        account.told(words.usd(sum(account.in_units(unit)), unit)),
        words.percent(sum(of_dollars)) if of_dollars else "—",
        units.hours(sum(account.hours_in(units.hour))),
        units.hours(sum(equal)) if equal else "",
    )


def known(statement: Statement, account: Account) -> tuple[KnownShare, ...]:
    """How much of the paid hours is measured, inferred, modelled, …; adds up to 100 %."""
    sums = dict.fromkeys(CONFIDENCES, 0)
    for bucket, amount in enumerate(account.milli_ms):
        for confidence, part in _parts(statement, bucket, amount).items():
            sums[confidence] += part
    points = share_out(10_000 if account.paid_milli_ms else 0, list(sums.values()))
    never = {Confidence.MEASURED, Confidence.SIMULATED, Confidence.ASSUMED}
    never -= {statement.as_known(Confidence.MEASURED)}
    return tuple(
        KnownShare(str(confidence), words.percent(share), KNOWN_AS[confidence])
        for confidence, share in zip(sums, points, strict=True)
        if sums[confidence] or confidence not in never
    )


def basis(statement: Statement, account: Account) -> str:
    """How the page's numbers are known, in a sentence for its head."""
    shares = ", ".join(f"{s.percent} {s.confidence}" for s in known(statement, account))
    said = statement.source.words
    return f"{said.capitalize()}. Of the hours: {shares}." if said else f"Of the hours: {shares}."


def _parts(statement: Statement, bucket: int, amount: int) -> dict[Confidence, int]:
    """What jobs hold is known as was measured, or as is known of the jobs."""
    if bucket not in ALLOCATED:
        return {statement.as_known(ABOUT[bucket].confidence): amount}
    by_jobs = statement.confidence_of(bucket)
    assert sum(by_jobs.values()) == amount, f"{ABOUT[bucket].key} is held by jobs alone"
    return by_jobs


def _useful(statement: Statement, account: Account) -> Confidence:
    """As most of it is known; nothing so far, while work may yet turn out useful, is unknown."""
    by_jobs = statement.confidence_of(Bucket.USEFUL)
    if by_jobs:
        return mostly(by_jobs)
    is_open = account.of(stages.members(Stage.UNKNOWN)) > 0
    return Confidence.UNKNOWN if is_open else statement.confidence(Bucket.USEFUL)
