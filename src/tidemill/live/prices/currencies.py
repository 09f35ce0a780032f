"""In which currency prices are: the books are in dollars, and nobody converts anything."""

import polars as pl

from tidemill.model.errors import SpecError

COLUMNS = ("currency", "currencycode", "billingcurrency", "pricingcurrency")
"""What people call the column of a table that says it."""
_DOLLARS = frozenset({"", "USD", "US$", "$"})


def refuse_others(said: pl.Series, words: str) -> None:
    """Refuse prices in anything but dollars; ``words``: what is said before which they are."""
    named = {one.strip().upper() for one in said.cast(pl.String).unique().to_list() if one}
    if others := named - _DOLLARS:
        raise SpecError(
            f"{words} {', '.join(sorted(others))}; the books are in USD",
            hint="convert its prices to USD first",
        )
