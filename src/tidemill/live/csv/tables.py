"""Tables of jobs and of nodes, read into what a history needs (``live.history.rows``)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import polars as pl

from tidemill.live import foreign
from tidemill.live.csv import files, gpu_cells, headers, moments, outcomes, parts, times
from tidemill.live.csv.cells import CellFaults
from tidemill.live.csv.text_rows import TextRows
from tidemill.live.history import by_job
from tidemill.live.history.attempts import MOST_GPUS, kind_of
from tidemill.live.history.clusters import label
from tidemill.live.history.rows import ATTEMPTS, AttemptEnd, SeenNode
from tidemill.live.prices import currencies
from tidemill.live.prices.labels import REGION
from tidemill.live.slurm import hostlists
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text
from tidemill.model.rows import MAX_DEVICES, Shape

_LARGEST = 1e15
_MEND = "mend the row"
_TAKEN_BACK = (AttemptEnd.REQUEUED, AttemptEnd.PREEMPTED, AttemptEnd.EVICTED, AttemptEnd.NODE_LOST)
_STARTED = {*outcomes.OUTCOMES} - {AttemptEnd.WAITING, AttemptEnd.CANCELLED}
"""What only jobs come to that were started."""

_PRICES = ("usd_per_hour", "usd_per_node_hour")
_SACCT = frozenset({"JobID", "State", "Submit"})
"""Columns by which the output of sacct is known."""


class ReadTable(NamedTuple):
    """A table of jobs as it was understood."""

    attempts: pl.DataFrame
    guessed: dict[str, str]
    """What each column that was used says."""
    notes: tuple[str, ...]
    shapes: tuple[Shape, ...] = ()
    """What jobs request that hold a part of a GPU, by number (``ATTEMPTS.shape``)."""


class ReadNodes(NamedTuple):
    """A table of nodes as it was understood."""

    nodes: list[SeenNode]
    prices: dict[str, int]
    """Micro-dollars per GPU and hour by GPU type, if it says any."""
    guessed: dict[str, str]
    notes: tuple[str, ...]


def read_jobs(
    path: Path,
    told: Mapping[str, str],
    zone: str,
    *,
    skips_broken: bool = False,
    first: str = "",
    ends: Mapping[str, str] = MappingProxyType({}),
) -> ReadTable:
    """A table of jobs.

    ``skips_broken``: rows that cannot be read are left out and counted; ``first``: whether the day
    or the month is first in dates, where it is said; ``ends``: what words for outcomes mean.
    """
    (rows, notes), faults = files.read_long(path), CellFaults(skips=skips_broken)
    found = headers.match(rows.columns, headers.JOBS, told)
    _mind_queue(rows, found, told)
    _refuse_unless_told(path, rows, found)
    _refuse_parts(rows, faults)
    columns: dict[str, pl.Series] = {
        **_names(rows, found, notes),
        **{name: rows[found[name]] for name in ("team", "user", "gpu_type") if name in found},
        **moments.moments(rows, found, zone, notes, faults, first),
        **{
            name: _whole(rows[found[name]], found[name], faults)
            for name in ("node_count", "cpus", "priority")
            if name in found
        },
    }
    columns |= _gpus(rows, found, columns, notes, faults)
    if "nodes" in found:
        columns["nodes"] = _nodes(rows[found["nodes"]], found["nodes"], faults)
    if "outcome" in found:
        columns["outcome"] = outcomes.read(rows[found["outcome"]], found["outcome"], ends, faults)
        if "start_ms" not in columns and columns["outcome"].is_in([*_STARTED]).any():
            raise _without_start(path, rows)
        columns |= _as_it_stands(columns, found["outcome"], notes)
    shapes = tuple[Shape, ...]()
    if "milli" in columns:
        shapes, more = parts.shapes_of(columns, rows[found["gpus"]], faults)
        columns |= more
    if "limit" in found:
        columns["limit_ms"], _ = times.lengths_ms(rows[found["limit"]], found["limit"], faults)
    made = pl.DataFrame({name: column for name, column in columns.items() if name in ATTEMPTS})
    is_empty = rows.is_empty
    row = pl.int_range(2, pl.len() + 2, dtype=pl.Int64)
    made = faults.kept(made.with_columns(row=row, is_empty=is_empty)).filter(~pl.col("is_empty"))
    if not len(made):
        raise SpecError(f"every row of `{path}` is broken: {faults.rows[0]}", hint="mend the table")
    notes += _unread(rows, found)
    del rows, columns  # all cells as text: three times what was made of them
    made = _without_older(made, notes)
    _say_overlaps(made, notes)
    kept = made.drop("row", "is_empty")
    return ReadTable(kept, found, (*notes, *faults.notes()), shapes)


def _gpus(
    rows: TextRows,
    found: Mapping[str, str],
    columns: Mapping[str, pl.Series],
    notes: list[str],
    faults: CellFaults,
) -> dict[str, pl.Series]:
    """How many GPUs jobs have, and of which type where no column of its own says it."""
    nodes = columns.get("node_count")
    if "gpus" not in found:
        column = found["instance_type"]
        machines = pl.repeat(1, len(rows), dtype=pl.Int64, eager=True) if nodes is None else nodes
        of = gpu_cells.of_boxes(rows[column], machines, column, faults)
        by = "one machine for each job" if nodes is None else f"as many as `{found['node_count']}`"
        notes.append(f"GPUs by `{column}`, as the catalogue knows such machines: {by}")
        return {name: of[name] for name in ("gpus", "gpu_type") if name == "gpus" or
                "gpu_type" not in columns}  # fmt: skip
    column = found["gpus"]
    texts, kinds = gpu_cells.counts(rows[column], column, nodes, faults)
    milli = parts.milli_of(texts)
    number = _whole(texts.set(milli.is_not_null(), "1"), column, faults)
    is_none = (number < 0) | (number > MOST_GPUS)
    faults.check(rows[column], is_none, column, f"where 0 to {MOST_GPUS:,} GPUs can be", _MEND)
    if "gpu_type" in columns or not kinds.count():
        return {"gpus": number, "milli": milli}
    notes.append(f"`{column}` says the GPU type, too")
    return {"gpus": number, "milli": milli, "gpu_type": kinds}


def _mind_queue(rows: TextRows, found: dict[str, str], told: Mapping[str, str]) -> None:
    """A column `queue` names a team, or says how long a job waited: its cells tell which."""
    for field, other in (("team", "wait"), ("wait", "team")):
        column = found.get(field, "")
        if field in told or headers.plain(column) != "queue":
            continue
        given = times.blank(rows[column])
        is_length = not times.number_of(given).is_null().all()
        if is_length != (field == "wait"):
            del found[field]
            if other not in found:
                found[other] = column


def _refuse_unless_told(path: Path, rows: TextRows, found: Mapping[str, str]) -> None:
    """A table must say how many GPUs, and when; every column that is read has a name of its own."""
    columns = ", ".join(rows.columns)
    missing = [] if {"gpus", "instance_type"} & {*found} else ["gpus"]
    if not {"submit", "start"} & {*found}:
        missing.append("start")
    if missing:
        shown = " nor ".join(f"`{field}`" for field in missing)
        asked = ",".join(f"{field}=COLUMN" for field in missing)
        hint = (
            f"say which: --map {asked} (GPUs and a start are enough; fields that say more: submit,"
            " end, duration, team, nodes); a table without a header needs one in its first line"
        )
        if len(rows.columns) == 1 and len(rows.columns[0].split()) > 1:
            hint = "put a comma, semicolon, tab or bar between the cells, where now blanks are"
        if {*rows.columns} >= _SACCT:
            hint = "this is what sacct prints: tidemill import slurm reads it with bars (sacct -P)"
        hint = foreign.hint(path, "csv") or hint
        raise SpecError(
            f"`{path}` has no column that says {shown}; its columns are {columns}", hint=hint
        )
    if not {"start", "wait"} & {*found} and {"duration", "end"} & {*found}:
        raise _without_start(path, rows)
    for name in found.values():
        if f"{name}_duplicated_0" in rows.columns:
            raise SpecError(
                f"`{path}` has two columns that are called `{name}`",
                hint="give one of them another name, or leave it out",
            )


def _without_start(path: Path, rows: TextRows) -> SpecError:
    columns = ", ".join(rows.columns)
    return SpecError(
        f"`{path}` has no column that says when jobs started; its columns are {columns}",
        hint="say which it is: --map start=COLUMN, or --map wait=COLUMN if it is how long they"
        " waited; `tidemill twin import` simulates starts that nobody recorded",
    )


def _refuse_parts(rows: TextRows, faults: CellFaults) -> None:
    """Jobs that hold a part of a GPU, by a column beside the number of GPUs, are not read."""
    for name in rows.columns:
        if headers.plain(name) in ("gpumilli", "gpufraction", "gpushare"):
            whole = 1000 if headers.plain(name) == "gpumilli" else 1
            number = times.number_of(times.blank(rows[name]))
            faults.check(rows[name], (number > 0) & (number < whole), name, "a part of a GPU",
                         "parts of GPUs are not read yet from CSV")  # fmt: skip


def read_nodes(path: Path) -> ReadNodes:
    """A table of nodes, and prices of GPU types if it says any."""
    rows, notes = files.read(path)
    found = headers.match(rows.columns, headers.NODES, {})
    for field in ("node", "gpus"):
        if field not in found:
            raise SpecError(
                f"`{path}` has no column that says `{field}`; its columns are"
                f" {', '.join(rows.columns)}",
                hint=foreign.hint(path, "")
                or "a table of nodes needs a name and the number of GPUs of each: node,gpus",
            )
    currencies.refuse_columns(rows.columns, (name for field in _PRICES for name in
                              headers.NODES[field]), path)  # fmt: skip
    if "currency" in found and {*_PRICES} & {*found}:
        currencies.refuse_others(rows[found["currency"]], f"`{path}` has prices in")
    empty = times.nothing(len(rows))
    gpus = _whole(rows[found["gpus"]], found["gpus"]).to_list()
    names, kinds, instances, regions, clusters = (
        times.blank(rows[found[name]] if name in found else empty).to_list()
        for name in ("node", "gpu_type", "instance_type", "region", "cluster")
    )
    is_one = len({*clusters} - {None}) <= 1
    cpus, memory = (
        numbers(rows[found[name]] if name in found else empty, found.get(name, "")).to_list()
        for name in ("cpus", "memory_gib")
    )
    each, whole = (
        currencies.dollars(rows[found[name]] if name in found else empty, found.get(name, ""))
        for name in _PRICES
    )
    nodes, priced = dict[str, tuple[int, SeenNode]](), dict[str, int]()
    for i, bare in _each_node(names):
        count = gpus[i]
        if bare is None or count is None or not 0 <= count <= MAX_DEVICES:
            many = "no number of" if count is None else f"{count:,}"
            raise SpecError(
                f"`{path}` row {i + 2} gives node `{bare or ''}` {many} GPUs",
                hint=f"every node has a name, and 0 to {MAX_DEVICES} GPUs; one that is left out is"
                " as large as the most that jobs held there",
            )
        cluster = None if is_one else clusters[i]
        name = f"{cluster}/{bare}" if cluster else bare
        region = ((REGION, regions[i]),) if regions[i] else ()
        node = SeenNode(
            name=name, gpus=count, gpu_type=kinds[i] or "",
            cpu_milli=round(1000 * (cpus[i] or 0)), memory_mib=round(1024 * (memory[i] or 0)),
            labels=(*region, *label(cluster)), box=instances[i] or "",
        )  # fmt: skip
        first, before = nodes.setdefault(name, (i, node))
        if before != node:
            raise SpecError(
                f"`{path}` lists node `{name}` twice, in rows {first + 2} and {i + 2}, and not as"
                " the same",
                hint="leave one of them out",
            )
        usd = whole[i] / count if whole[i] is not None and count else each[i]
        if usd is not None:
            _price(priced, kind_of(kinds[i] or ""), round(usd * 1_000_000), path)
    notes += _unread(rows, found)
    return ReadNodes([node for _, node in nodes.values()], priced, found, tuple(notes))


def _each_node(names: Sequence[str | None]) -> Iterator[tuple[int, str | None]]:
    """Rows with their node; one that stands for several (`gpu[01-04]`) once for each."""
    for i, name in enumerate(names):
        folded = _unfolded(name) if name and re.search(_FOLDED, name) else []
        yield from ((i, one) for one in folded)
        if not folded:
            yield i, name


def _unread(rows: pl.DataFrame | TextRows, found: Mapping[str, str]) -> list[str]:
    """Columns that nothing is made of, in words."""
    unread = [f"`{name}`" for name in rows.columns if name.strip() and name not in found.values()]
    return [f"not read: {', '.join(unread)}"] if unread else []


def _price(priced: dict[str, int], kind: str, usd_micro: int, path: Path) -> None:
    if priced.setdefault(kind, usd_micro) != usd_micro:
        raise SpecError(
            f"`{path}` gives two prices for one `{kind}`",
            hint="prices are of a GPU type; give those that differ another gpu_type, or a price"
            " file with a column `node` (--prices)",
        )


def _names(rows: TextRows, found: Mapping[str, str], notes: list[str]) -> dict[str, pl.Series]:
    """What jobs are called: `CLUSTER/JOB` where there are several clusters, as of Slurm."""
    names = times.nothing(len(rows))
    if "job" in found:
        names = _as_names(rows[found["job"]], found["job"], notes)
    if names.null_count():
        numbers = pl.int_range(2, len(rows) + 2, eager=True).cast(pl.String)
        names = names.zip_with(names.is_not_null(), "row " + numbers)
    if "cluster" not in found:
        return {"job": names}
    of = times.blank(rows[found["cluster"]])
    if of.n_unique() <= 1:
        return {"job": names}
    several = of.drop_nulls().unique().sort()
    shown = ", ".join(several.head(5).to_list()) + (" …" if len(several) > 5 else "")
    notes.append(f"jobs of several clusters ({shown}) are called `CLUSTER/JOB`")
    return {"job": ((of + "/").fill_null("") + names).alias("job"), "cluster": of}


def _as_names(texts: pl.Series, column: str, notes: list[str]) -> pl.Series:
    """Names of jobs; a word that elsewhere stands for nothing is one where a single row has it."""
    trimmed, known = texts.str.strip_chars(), times.blank(texts)
    is_word = known.is_null() & trimmed.is_not_null() & (trimmed != "")
    is_name = is_word & trimmed.is_unique()
    if count := int((is_word & ~is_name).sum()):
        word = trimmed[(is_word & ~is_name).arg_max() or 0]
        rows = count_text(count, "row")
        notes.append(f"`{column}` holds words such as `{word}` in {rows}: taken as no name")
    return trimmed.zip_with(is_name, known)


def _without_older(made: pl.DataFrame, notes: list[str]) -> pl.DataFrame:
    """Rows without those that say that a job waits, where another row says that it began since.

    One that was taken back to wait (requeued, preempted, lost with its node) waits again.
    """
    if not {"outcome", "start_ms"} <= {*made.columns}:
        return made
    is_waiting = made["start_ms"].is_null() & (made["outcome"] == AttemptEnd.WAITING)
    of = ["job", "user"] if "user" in made.columns else ["job"]
    begun = made.filter(made["start_ms"].is_not_null())
    if not is_waiting.any() or not len(begun):
        return made
    last = begun.sort("start_ms").group_by(of).agg(
        began_ms=pl.col("start_ms").last(), was=pl.col("outcome").last().fill_null("")
    )  # fmt: skip
    told = made.select(*of, "submit_ms").join(last, on=of, how="left", maintain_order="left")
    is_older = (told["submit_ms"] <= told["began_ms"]) & ~told["was"].is_in(_TAKEN_BACK)
    is_older = (is_waiting & is_older).fill_null(value=False)
    if count := int(is_older.sum()):
        rows = count_text(count, "row")
        notes.append(f"{rows} of jobs that wait left out: another row says that they began since")
    return made.filter(~is_older)


def _say_overlaps(made: pl.DataFrame, notes: list[str]) -> None:
    """Which rows of one job (and user) are not over when the next begins, in words."""
    if not {"start_ms", "end_ms"} <= {*made.columns}:
        return
    user = pl.col("user") if "user" in made.columns else pl.lit("")
    rows = made.select("job", "start_ms", "end_ms", "row", user=user).drop_nulls("start_ms")
    rows = rows.filter(by_job.are_several(rows.select("job", "user")))  # few, as a rule, or none
    several = len(rows)
    rows = rows.unique(["job", "user", "start_ms", "end_ms"], keep="first", maintain_order=True)
    if same := several - len(rows):
        notes.append(f"rows with the job, start and end of an earlier one: {same:,}")
    by_start = pl.col("row", "start_ms").shift(-1).over("job", "user", order_by="start_ms")
    after = rows.with_columns(by_start.name.prefix("next_"))
    cut = after.filter(pl.col("end_ms") > pl.col("next_start_ms")).sort("row")
    if not len(cut):
        return
    pairs = [f"{a} and {b} (`{job}`)" for a, b, job in
             cut.select("row", "next_row", "job").head(5).iter_rows()]  # fmt: skip
    notes.append(
        f"rows of one job that overlap: {', '.join(pairs)}{' …' if len(cut) > 5 else ''}: the first"
        " is cut where the second begins; if they are jobs of their own, name the column that"
        " tells them apart: --map job=COLUMN, or --map cluster=COLUMN"
    )


def _as_it_stands(
    columns: Mapping[str, pl.Series], column: str, notes: list[str]
) -> dict[str, pl.Series]:
    """Times without those that are only planned: an end of what runs, a start of what waits."""
    found = dict[str, pl.Series]()
    for outcome, names, words in (
        (AttemptEnd.RUNNING, ("end_ms",), "runs, and when it ended"),
        (AttemptEnd.WAITING, ("start_ms", "end_ms"), "waits, and when it started or ended"),
    ):
        is_so = columns["outcome"] == outcome
        for name in (name for name in names if name in columns):
            times_ms = found.get(name, columns[name])
            is_planned = (is_so & times_ms.is_not_null()).fill_null(value=False)
            if count := int(is_planned.sum()):
                found[name] = times_ms.set(is_planned, None)
                rows = f"{count_text(count, 'row')} (first: {(is_planned.arg_max() or 0) + 2})"
                notes.append(f"`{column}` says that a job {words}, in {rows}: taken as planned")
    return found


_FOLDED = r"[^\s,;|+\[\]\"']\[[\d,\s-]+\]"
"""A name that goes on in brackets, as Slurm folds names: `gpu[01-04,07]`."""


def _nodes(texts: pl.Series, column: str, faults: CellFaults) -> pl.Series:
    """Names of nodes, parted by commas, blanks, semicolons or bars, or folded as Slurm prints."""
    given = times.blank(texts).str.replace_all(r"[\"']", "")
    given = given.zip_with(~given.is_in([*hostlists.NO_NODES]), times.nothing(len(given)))
    is_folded = given.str.contains(_FOLDED).fill_null(value=False)
    parted = given.str.strip_chars("[]").str.replace_all(r"[\s,;|+]+", ",").str.split(",")
    if not is_folded.any():
        return parted
    names = {text: _unfolded(text) for text in given.filter(is_folded).unique().to_list()}
    is_bad = is_folded & given.is_in([text for text, found in names.items() if not found])
    hint = "write names one by one, or as Slurm folds them: gpu[01-04,07]"
    faults.check(given, is_bad, column, "which is no list of nodes", hint)
    unfolded = pl.Series([names.get(text) for text in given], dtype=pl.List(pl.String))
    return unfolded.zip_with(is_folded, parted)


def _unfolded(text: str) -> list[str]:
    """The names that a folded list stands for; none where it is no list."""
    inner = re.sub(r"\[[^\[\]]*\]", lambda found: re.sub(r"\s", "", found[0]), text.strip())
    try:
        return [*hostlists.expand(re.sub(r"[\s,;|+]+(?![^\[\]]*\])", ",", inner).strip(","))]
    except ValueError:
        return []


def _whole(texts: pl.Series, column: str, faults: CellFaults | None = None) -> pl.Series:
    hint = "a job has whole GPUs, or a part of one GPU"
    number = numbers(texts, column, faults)
    faults = faults or CellFaults()
    is_part = number != number.round()
    faults.check(texts, is_part, column, "where whole numbers are read", hint)
    is_large = number.abs() > _LARGEST
    faults.check(texts, is_large, column, "which is too large to be true", "check that column")
    return number.round().clip(-_LARGEST, _LARGEST).cast(pl.Int64)


_NUMBERS = "numbers only; where the guess of a column is wrong, --map FIELD=COLUMN says another"


def numbers(texts: pl.Series, column: str, faults: CellFaults | None = None) -> pl.Series:
    """Numbers; null where nothing was said."""
    given = times.blank(texts)
    number = times.number_of(given)
    is_bad = number.is_null() & given.is_not_null()
    hint = "numbers only, such as 2.50" if faults is None else _NUMBERS
    (faults or CellFaults()).check(given, is_bad, column, "which is no number", hint)
    return number
