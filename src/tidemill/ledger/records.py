"""The ledger as flat records: the same rows for CSV files and for DataFrames.

A record is a dict with the same keys in every row of a table; amounts are whole numbers in the unit
of their name, as in the JSON document. None is unknown.
"""

from typing import Any

from tidemill.ledger.buckets import ABOUT, DIVIDED
from tidemill.ledger.document import document
from tidemill.ledger.statement import DIMENSIONS, Dimension, Statement
from tidemill.ledger.top import top_jobs
from tidemill.ledger.waits import WAIT_DIMENSIONS, WaitDimension, WaitFigures, WaitSpread
from tidemill.model.errors import SpecError
from tidemill.model.states import JobState

Records = list[dict[str, Any]]

_SPREADS = (
    ("wait", "ms"), ("total_wait", "ms"), ("completion", "ms"), ("slowdown", "milli")
)  # fmt: skip
_STATS = ("mean", "p50", "p90", "p99", "max")


def lines(statement: Statement) -> Records:
    """One record per bucket, from paid to useful; those that nothing can fill yet are unknown."""
    whole = document(statement)
    known = [
        {
            "key": row.key, "title": row.title, "group": row.group, "owner": row.owner,
            "confidence": row.confidence, "milli_ms": row.milli_ms, "usd_micro": row.usd_micro,
            "share_ppm": row.share_ppm,
        }
        for row in whole.lines
    ]  # fmt: skip
    unknown = [
        {
            "key": row.key, "title": row.title, "group": row.group, "owner": row.owner,
            "confidence": "unknown", "milli_ms": None, "usd_micro": None, "share_ppm": None,
        }
        for row in whole.unknown
    ]  # fmt: skip
    return known + unknown


def breakdown(statement: Statement, by: Dimension) -> Records:
    """One record per key, with a column of dollars for every bucket; rows add up to the total.

    None where nobody can say, as in ``unknowns``.
    """
    whole = document(statement, by)
    found = whole.breakdown
    assert found is not None, "it was asked for"
    keys = [ABOUT[bucket].key for bucket in ABOUT]
    nobody_knows = {row.key for row in whole.unknown}
    records: Records = []
    for row in found.rows:
        cells: dict[str, int | None] = dict.fromkeys(nobody_knows)
        if row.useful_milli_ms is None:
            cells |= dict.fromkeys(ABOUT[bucket].key for bucket in DIVIDED)
        cells |= {cell.key: cell.usd_micro for cell in row.cells if cell.milli_ms}
        first: dict[str, Any] = {by: row.key}
        if by == "time":
            first = {"start_ms": int(row.key), "start": statement.calendar.iso(int(row.key))}
        records.append(
            first
            | {
                "milli_ms": row.milli_ms, "usd_micro": row.usd_micro, "share_ppm": row.share_ppm,
                "useful_milli_ms": row.useful_milli_ms, "held_milli_ms": row.held_milli_ms,
            }
            | {f"{key}_usd_micro": cells.get(key, 0) for key in keys}
        )  # fmt: skip
    return records


def waits(statement: Statement, by: WaitDimension | None = None) -> Records:
    """One record per group (or one for all): what became of its jobs, and how long it took."""
    if by is None:
        return [figures(statement.waits.figures())]
    return [{by: key} | figures(found) for key, found in statement.waits_by(by).items()]


def figures(found: WaitFigures) -> dict[str, Any]:
    """The figures of some jobs, flat."""
    record: dict[str, Any] = {
        name: value for name, value in found._asdict().items() if isinstance(value, int)
    }
    for name, unit in _SPREADS:
        spread: WaitSpread | None = getattr(found, name)
        record[f"{name}_open"] = 0 if spread is None else spread.censored
        record[f"{name}_at_least"] = "" if spread is None else " ".join(sorted(spread.at_least))
        for stat in _STATS:
            record[f"{name}_{unit}_{stat}"] = None if spread is None else getattr(spread, stat)
    return record


def jobs(statement: Statement) -> Records:
    """One record per job submitted in the window: who, what, how long it waited, how it ended."""
    world, rows, calendar = statement.world, statement.waits, statement.calendar
    columns = (column.tolist() for column in (*rows, rows.slowdown()))
    records: Records = []
    for (
        j, submit_ms, wait_ms, started, total_ms, waiting, completion_ms, ended, outcome, held,
        told, _, slowdown,
    ) in zip(*columns, strict=True):  # fmt: skip
        shape = world.shape_of(j)
        state = JobState(outcome).name.lower() if ended else _open_state(waiting, held)
        records.append(
            {
                "job": world.job_names[j], "team": shape.team, "user": world.job_users[j] or None,
                "class": str(shape.kind), "gpu_milli": shape.total_milli,
                "submit_ms": submit_ms if told else None,
                "submitted": calendar.iso(submit_ms) if told else None, "state": state,
                "is_started": started, "wait_ms": wait_ms if told else None,
                "total_wait_ms": total_ms if told else None,
                "completion_ms": completion_ms if told else None,
                "slowdown_milli": slowdown if started and ended and told else None,
            }
        )  # fmt: skip
    return records


def _open_state(is_waiting: bool, is_held: bool) -> str:
    return "held" if is_held else "waiting" if is_waiting else "running"


def top(statement: Statement, most: int = 10) -> Records:
    """One record per job, the most wasteful first."""
    return [row._asdict() | {"leak": ABOUT[row.leak].key} for row in top_jobs(statement, most)]


def table(statement: Statement, what: str, by: str | None = None) -> Records:
    """A table by its name: lines, jobs, top, waits (by something), or a dimension."""
    dimension = next((known for known in DIMENSIONS if known == what), None)
    if dimension is not None and by is None:
        return breakdown(statement, dimension)
    group = next((known for known in WAIT_DIMENSIONS if known == by), None)
    if what == "waits" and (by is None or group is not None):
        return waits(statement, group)
    plain = {"lines": lines, "jobs": jobs, "top": top}
    if what not in plain or by is not None:
        raise SpecError(
            f"there is no table `{what}`" + (f" by `{by}`" if by is not None else ""),
            hint=f"one of: {', '.join((*plain, *DIMENSIONS))}, or waits,"
            f" also by {', '.join(WAIT_DIMENSIONS)}",
        )
    return plain[what](statement)
