"""Pricing: who said what the accelerators of a statement cost, and of how many nobody did."""

import numpy as np

from tidemill.ledger import printed
from tidemill.ledger.statement import Statement
from tidemill.model import paging
from tidemill.model.measures import dollars_text
from tidemill.model.states import Confidence

NO_PRICES = (
    "dollars: unknown, because nobody said a price (give --usd-per-hour, --prices or --list-prices:"
    " import again, start the scheduler again, or observe into a new journal)"
)

NAMED = 3  # node groups without a price
THE_RATE = "the rate that was given"
ASSUMED = str(Confidence.ASSUMED)
"""What says of a source of prices that they are assumed is a part of its name."""


def sources(statement: Statement) -> dict[str, int]:
    """Milli·ms paid for by who said their price; "": the contracts themselves."""
    found: dict[str, int] = {}
    rows, prices = statement.rows, statement.prices
    paid = np.zeros(prices.is_unpriced.shape, np.int64)
    for some in paging.stretches(len(rows.bin)):
        np.add.at(paid, (rows.period[some], rows.contract[some]), rows.milli_ms[some])
    for period, c in zip(*np.nonzero(paid * ~prices.is_unpriced), strict=True):
        who = prices.sources[period][c]
        found[who] = found.get(who, 0) + int(paid[period, c])
    return found


def is_assumed(statement: Statement) -> bool:
    """Whether some of the dollars are list prices: assumed, and not what was paid."""
    return any(ASSUMED in who for who in sources(statement))


def words(statement: Statement) -> list[str]:
    """What is to be said of where the dollars come from; nothing where contracts say it all."""
    account, found = statement.total(), sources(statement)
    if account.is_unpriced:
        return [NO_PRICES]
    told = [
        f"{_hours(milli_ms)} by {who or THE_RATE}" for who, milli_ms in found.items() if any(found)
    ]
    if account.unpriced_milli_ms:
        known = dollars_text(account.paid_usd_micro)
        without = _hours(account.unpriced_milli_ms)
        told.append(
            f"the known part is {known}, and nobody said a price of {without}{_unpriced(statement)}"
        )
    return [f"dollars: {'; '.join(told)}"] if told else []


def _unpriced(statement: Statement) -> str:
    """The contracts, or node groups, without a price: those with most that was paid for first."""
    milli_ms = dict[str, int]()
    rows, prices, contracts = statement.rows, statement.prices, statement.world.contract_rows
    for some in paging.stretches(len(rows.bin)):
        is_bare = prices.is_unpriced[rows.period[some], rows.contract[some]]
        sums = np.bincount(rows.contract[some][is_bare], rows.milli_ms[some][is_bare])
        for c in np.flatnonzero(sums).tolist():
            name = contracts[c].name
            milli_ms[name] = milli_ms.get(name, 0) + int(sums[c])
    first = sorted(milli_ms, key=lambda name: (-milli_ms[name], name))
    named = ", ".join(f"`{name}`" for name in first[:NAMED])
    more = f" and {len(first) - NAMED:,} more" if len(first) > NAMED else ""
    return f" ({named}{more})" if first else ""


def sentence(statement: Statement) -> str:
    """The same as a sentence of a page; empty where there is nothing to be said."""
    return "".join(f"{line[0].upper()}{line[1:]}." for line in words(statement))


def _hours(milli_ms: int) -> str:
    return f"{printed.hours_text(milli_ms)} accelerator-hours"
