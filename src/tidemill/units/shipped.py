"""Tables that come with the package: CSV files whose columns are the fields of a row.

An empty cell is a field's default. A table is read as code is, once and by the package's loader,
and never written; a row with an unknown column or a cell of another type is refused.
"""

import csv
import pkgutil
from functools import cache
from typing import Any

import msgspec


@cache
def rows(table: str, kind: type[msgspec.Struct]) -> tuple[Any, ...]:
    """The rows of a table, by its path in this package. ``names`` are several, with spaces."""
    text = pkgutil.get_data("tidemill.units", table)
    assert text is not None, f"{table} is not in the package"
    cells = (
        {name: cell.split() if name == "names" else cell for name, cell in row.items() if cell}
        for row in csv.DictReader(text.decode().splitlines())
    )
    return tuple(msgspec.convert(row, kind, strict=False) for row in cells)
