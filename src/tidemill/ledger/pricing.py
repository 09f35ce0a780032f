"""Pricing: who said what the accelerators of a statement cost, and of how many nobody did."""

from tidemill.ledger.statement import Statement
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, dollars_text

NO_PRICES = (
    "dollars: unknown, because nobody said a price (import again with --usd-per-hour, --prices or"
    " --list-prices)"
)


def sources(statement: Statement) -> dict[str, int]:
    """Milli·ms paid for by who said their price; "": the contracts themselves."""
    found: dict[str, int] = {}
    paid = statement.paid.sum(axis=0).tolist()
    for row, milli_ms in zip(statement.world.contract_rows, paid, strict=True):
        if row.is_priced and milli_ms:
            who = row.price_source or ""
            found[who] = found.get(who, 0) + milli_ms
    return found


def words(statement: Statement) -> list[str]:
    """What is to be said of where the dollars come from; nothing where contracts say it all."""
    account, found = statement.total(), sources(statement)
    if account.is_unpriced:
        return [NO_PRICES]
    told = [f"{_hours(milli_ms)} by {who}" for who, milli_ms in found.items() if who]
    if account.unpriced_milli_ms:
        known = dollars_text(account.paid_usd_micro)
        without = _hours(account.unpriced_milli_ms)
        told.append(f"the known part is {known}, and nobody said a price of {without}")
    return [f"dollars: {'; '.join(told)}"] if told else []


def _hours(milli_ms: int) -> str:
    return f"{milli_ms / MILLI_MS_PER_UNIT_HOUR:,.1f} accelerator-hours"
