"""Cells that cannot be used: the first is refused with its row, or all such rows are left out."""

import polars as pl

from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text

SKIP = "or leave such rows out with --skip-broken"


class CellFaults:
    """What of a table cannot be read.

    ``skips``: rows with such cells are left out and counted; None: there is no such choice.
    """

    def __init__(self, *, skips: bool | None = None) -> None:
        self._skips = skips
        self.rows: dict[int, str] = {}
        """What is wrong with a row, in words; the first thing. Rows are counted from 0."""

    def check(
        self, given: pl.Series, is_bad: pl.Series, column: str, fault: str, hint: str
    ) -> None:
        """Refuse these cells of a column, or remember that their rows are to be left out."""
        bad = is_bad.fill_null(value=False).arg_true().to_list()
        for i in bad:
            words = f"the column `{column}` holds `{given[i]}` in row {i + 2}, {fault}"
            if not self._skips:
                raise SpecError(words, hint=hint if self._skips is None else f"{hint}; {SKIP}")
            self.rows.setdefault(i, words)

    def kept(self, table: pl.DataFrame) -> pl.DataFrame:
        """A table without the rows that are to be left out."""
        is_broken = pl.Series(list(self.rows), dtype=pl.Int64)
        return table.filter(~pl.int_range(pl.len(), dtype=pl.Int64).is_in(is_broken.implode()))

    def notes(self, shown: int = 5) -> list[str]:
        """How many rows were left out, and the first of them."""
        if not self.rows:
            return []
        count = count_text(len(self.rows), "row")
        first = [self.rows[i] for i in sorted(self.rows)[:shown]]
        return [f"{count} left out as broken", *(f"  {words}" for words in first)]
