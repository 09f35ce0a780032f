"""Rows as columns and back: the schema of a frame is the fields of the row's class."""

import typing
from collections.abc import Iterable, Iterator
from functools import cache

import polars as pl
from msgspec import Struct, structs

from tidemill.live.slurm.fields import TYPES


@cache
def schema(kind: type[Struct]) -> dict[str, type[pl.DataType]]:
    """Name and type of each column, in the order of the fields."""
    hints = typing.get_type_hints(kind)
    return {name: TYPES[_plain(hints[name])] for name in kind.__struct_fields__}


def _plain(hint: object) -> type:
    inner = [kind for kind in typing.get_args(hint) or (hint,) if kind is not type(None)]
    assert len(inner) == 1, f"a field of a row is one plain thing or None, not {hint}"
    found = inner[0]
    assert isinstance(found, type)
    return found


def frame_of(kind: type[Struct], columns: dict[str, pl.Series], height: int) -> pl.DataFrame:
    """These columns under the schema of a row; what is not among them is unknown."""
    return pl.DataFrame(
        {
            name: columns[name].cast(dtype)
            if name in columns
            else pl.repeat(None, height, dtype=dtype, eager=True)
            for name, dtype in schema(kind).items()
        }
    )


def frame_of_rows(kind: type[Struct], rows: Iterable[Struct]) -> pl.DataFrame:
    """Rows as columns."""
    return pl.DataFrame([structs.astuple(row) for row in rows], schema=schema(kind), orient="row")


def rows_of(kind: type[Struct], frame: pl.DataFrame) -> Iterator[Struct]:
    """Columns as rows."""
    names = kind.__struct_fields__
    for values in frame.select(names).iter_rows():
        yield kind(**dict(zip(names, values, strict=True)))
