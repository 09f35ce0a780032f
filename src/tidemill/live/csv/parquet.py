"""A table in Parquet, as clouds and notebooks write them: its cells as text, as CSV has them.

Times are written with their offset, where the file has one; lists and maps as JSON.
"""

from pathlib import Path

import polars as pl

from tidemill.model.errors import SpecError

_MARK = b"PAR1"


def is_parquet(path: Path) -> bool:
    """Whether a file begins as Parquet does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MARK)) == _MARK


def read(path: Path) -> pl.DataFrame:
    """All cells as text."""
    try:
        rows = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SpecError(
            f"`{path}` is Parquet that cannot be read", hint="is it whole? write it again"
        ) from error
    if not len(rows):
        raise SpecError(f"`{path}` has no rows", hint="export at least one row")
    return rows.with_columns(_text(rows[name]).alias(name) for name in rows.columns)


def _text(cells: pl.Series) -> pl.Series:
    match cells.dtype:
        case pl.Datetime(time_zone=None):
            return cells.dt.strftime("%Y-%m-%dT%H:%M:%S%.6f")
        case pl.Datetime():
            return cells.dt.convert_time_zone("UTC").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
        case pl.Duration():
            return (cells.dt.total_microseconds() / 1e6).cast(pl.String)
        case pl.Struct():
            return cells.struct.json_encode().set(cells.is_null(), None)
        case pl.List():
            texts = cells.to_frame("of").select(pl.struct("of")).to_series().struct.json_encode()
            return texts.str.strip_prefix('{"of":').str.strip_suffix("}").set(cells.is_null(), None)
        case _:
            return cells.cast(pl.String)
