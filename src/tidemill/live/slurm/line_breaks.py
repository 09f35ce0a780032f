"""Rows in several lines, since a field holds line breaks (the `SubmitLine` of `sbatch --wrap`).

Lines that have too few fields, one after the other, are one row where together they have exactly
as many as the header. Nothing else says where a row ends: Slurm quotes nothing.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl


def joined(
    lines: pl.Series, numbers: np.ndarray, is_short: np.ndarray, delimiter: str, needed: int
) -> tuple[pl.Series, np.ndarray] | None:
    """The same lines with such rows put together, at the number of their first line; None: there
    are none. ``is_short``: has fewer than the ``needed`` delimiters.
    """
    texts, is_left = list[str](), np.ones(len(lines), dtype=bool)
    places = list[int]()
    for first, last in _rows(lines, is_short, delimiter, needed):
        places.append(first)
        texts.append("\n".join(lines[first : last + 1].to_list()))
        is_left[first + 1 : last + 1] = False
    if not places:
        return None
    whole = lines.scatter(places, texts)
    return whole.filter(pl.Series(is_left)), numbers[is_left]


def tail(lines: pl.Series, is_short: np.ndarray) -> int:
    """Where the lines begin that may be the beginning of a row which goes on after the last one."""
    is_open = is_short | (lines == "").to_numpy()
    ends = np.flatnonzero(~is_open)
    begin = int(ends[-1]) + 1 if len(ends) else 0
    shorts = np.flatnonzero(is_short[begin:])
    return begin + int(shorts[0]) if len(shorts) else len(lines)


def _rows(
    lines: pl.Series, is_short: np.ndarray, delimiter: str, needed: int
) -> Iterator[tuple[int, int]]:
    """The first and the last line of each such row."""
    is_part = is_short | (lines == "").to_numpy()
    found = lines.str.count_matches(delimiter, literal=True).to_numpy()
    before = np.concatenate([[0], np.cumsum(found)])
    stops = np.append(np.flatnonzero(~is_part), len(lines))
    free = 0
    for first in np.flatnonzero(is_short & (found > 0)):
        if first < free:
            continue
        last = int(np.searchsorted(before, before[first] + needed)) - 1
        is_whole = last < stops[np.searchsorted(stops, first)]
        if last > first and is_whole and before[last + 1] == before[first] + needed:
            yield int(first), last
            free = last + 1
