"""What to do first: the fixes that could win back most, with price, owner, evidence and proof."""

from typing import NamedTuple

from tidemill.ledger import leaks
from tidemill.ledger.buckets import ABOUT
from tidemill.ledger.statement import Statement
from tidemill.model.measures import dollars_text
from tidemill.report import stages, words

MOST_FIXES = 5  # a page of paper


class Card(NamedTuple):
    """One fix. ``words``, ``rule`` and ``evidence`` have ids in backticks."""

    style: str
    bucket: str
    at_most: str
    price: str
    words: str
    rule: str
    owner: str
    confidence: str
    evidence: str
    command: str


def cards(statement: Statement) -> tuple[Card, ...]:
    """The best fixes of a statement, the one worth most first; unknown prices last."""
    return tuple(_card(leak) for leak in leaks.top_fixes(statement, MOST_FIXES))


def _card(leak: leaks.Leak) -> Card:
    about = ABOUT[leak.bucket]
    return Card(
        stages.style(about.group),
        about.title,
        dollars_text(leak.fix.at_most_usd_micro, 0),
        _price(leak.fix.price_usd_micro),
        leak.fix.words,
        leak.fix.rule,
        words.owner(leak.owner),
        str(leak.confidence),
        leak.evidence,
        leak.command,
    )


def _price(usd_micro: int | None) -> str:
    if usd_micro is None:
        return "unknown"
    return dollars_text(usd_micro, 0) if usd_micro else "a setting"
