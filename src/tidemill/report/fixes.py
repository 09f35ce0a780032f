"""What to do first: predicted wins, then what to measure about the largest leaks."""

from typing import NamedTuple

from tidemill.ledger import leaks
from tidemill.ledger.buckets import ABOUT
from tidemill.ledger.fix import MOST_NAMED, Fix
from tidemill.ledger.printed import about_usd
from tidemill.ledger.statement import Statement
from tidemill.report import stages, words

MOST_FIXES = 6  # a page of paper


class FixCard(NamedTuple):
    """One fix. ``words``, ``rule``, ``who`` and ``evidence`` have ids in backticks."""

    style: str
    bucket: str
    leak: str
    """What the whole leak costs, as its line of the ledger says on the same page."""
    wins: str
    """Empty where nothing is predicted."""
    words: str
    edits: tuple[str, ...]
    costs: str
    rule: str
    who: str
    owner: str
    confidence: str
    evidence: str
    command: str


def cards(statement: Statement) -> tuple[FixCard, ...]:
    """The best fixes of a statement; each of the three largest leaks has one."""
    account = statement.total()
    unit = words.unit_micro(account)
    money = account.in_units(unit)
    return tuple(
        _card(remedy, _cost(remedy.leak, words.usd(money[remedy.leak.bucket], unit)))
        for remedy in leaks.remedies(statement, MOST_FIXES)
    )


def _cost(leak: leaks.Leak, text: str) -> str:
    """Dollars as the page's unit has them, or as the ledger says what is not known in full."""
    return leak.cost if leak.unpriced_milli_ms else text


def _named(fix: Fix) -> str:
    """The largest of those whom it touches, and how many more there are."""
    more = fix.touches - MOST_NAMED
    return ", ".join(fix.who[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _card(remedy: leaks.LeakRemedy, costs: str) -> FixCard:
    leak, fix, wins, part = remedy
    more = f", no more than {part} alone" if part else ""
    about = ABOUT[leak.bucket]
    return FixCard(
        stages.style(about.group),
        about.title,
        costs,
        "" if wins is None else about_usd(wins) + more,
        fix.words,
        tuple(edit.text for edit in fix.edits),
        fix.costs,
        fix.rule,
        _named(fix),
        words.owner(leak.owner),
        str(leak.confidence),
        fix.evidence,
        fix.measure or leak.command,
    )
