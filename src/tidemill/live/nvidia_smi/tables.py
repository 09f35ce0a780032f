"""One file of nvidia-smi, read in blocks: ``--query-gpu --format=csv`` or ``dmon -o DT``.

It may be as long as a month of seconds; an hour of it is in memory at a time. Its times are those
of the clock of its machine, without a zone: of an hour that the clock showed twice the first comes
first in the file. What is no sample (a message in between, a line that was cut off) is left out
and counted.
"""

import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import polars as pl

from tidemill.live import foreign
from tidemill.live.nvidia_smi.columns import MONITORED, QUERIED, SmiColumn
from tidemill.live.prometheus.minutes import HOUR_MS
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text

BLOCK_BYTES = 8 << 20
LONGEST_LINE = 1 << 16
_BACK_MS = 60_000
"""A clock that goes back by less was set right; by more, in autumn, it is put back."""
ASKED = (
    "nvidia-smi --query-gpu=timestamp,index,uuid,name,utilization.gpu,memory.used,memory.total,"
    "power.draw,clocks.sm,temperature.gpu --format=csv -l 5, or nvidia-smi dmon -s pucm -o DT"
    " --gpm-metrics 1,2,5,10"
)
_NAMES = {"gpu_uuid": "uuid", "gpu_name": "name", "count": ""}
_NUMBER = r"^\s*(\d+(?:\.\d+)?)\s*(?:%|MiB|MB|W|MHz|C)?\s*$"
_MODELS = "name"


class SmiForm(NamedTuple):
    """How the lines of a file are to be read."""

    names: tuple[str, ...]
    """Of the columns, in order, without units."""
    header: bytes
    is_monitor: bool
    """Whether ``dmon`` wrote it."""

    @property
    def metrics(self) -> Mapping[str, SmiColumn]:
        """The columns of which something is made."""
        known = MONITORED if self.is_monitor else QUERIED
        return {name: known[name] for name in self.names if name in known}


class SmiFile:
    """The samples of one file, hour by hour."""

    def __init__(self, path: Path, zone: str) -> None:
        self.path, self._zone = path, zone
        self.form = _form(path)
        self.left_out = 0
        """Lines that are no sample."""
        self.first_left_out = ""
        self.went_back = 0
        """Samples that are older than the hour in which they stand."""
        self._is_second = False

    def hours(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Hours in order of time: ``at_ms``, ``minor``, ``uuid``, ``name``, and the metrics."""
        waiting, hour = list[pl.DataFrame](), -1
        for rows in self._frames():
            by_hour = rows.with_columns(hour=pl.col("at_ms") // HOUR_MS * HOUR_MS)
            for (found,), some in by_hour.group_by("hour", maintain_order=True):
                at = cast("int", found)
                if at < hour:
                    self.went_back += len(some)
                    continue
                if at > hour and waiting:
                    yield hour, pl.concat(waiting)
                    waiting = []
                hour = at
                waiting.append(some.drop("hour"))
        if waiting:
            yield hour, pl.concat(waiting)

    def notes(self) -> Iterator[str]:
        """What is worth a remark, in words."""
        name = f"`{self.path.name}`"
        if self.left_out:
            lines = count_text(self.left_out, "line")
            yield f"{name}: {lines} left out that are no sample, such as `{self.first_left_out}`"
        if self.went_back:
            yield (
                f"{name}: {count_text(self.went_back, 'sample')} left out that are older than what"
                " stands before them"
            )

    def _frames(self) -> Iterator[pl.DataFrame]:
        for block in _blocks(self.path):
            lines = self._without_headers(block)
            if not lines:
                continue
            cells = _cells(lines, self.form)
            at_ms = self._moments(cells)
            told = cells.select(
                at_ms=at_ms,
                minor=_whole(cells, "gpu" if self.form.is_monitor else "index"),
                uuid=_text(cells, "uuid"),
                name=_text(cells, _MODELS),
                **{name: _number(name) for name in self.form.metrics},
            )
            is_sample = told["at_ms"].is_not_null() & ((told["minor"] >= 0) | (told["uuid"] != ""))
            if not is_sample.all():
                self.left_out += int((~is_sample).sum())
                number = int((~is_sample).arg_max() or 0)
                bad = cells.row(number)
                said = ", ".join(str(cell) for cell in bad if cell is not None)
                self.first_left_out = self.first_left_out or said[:80]
            yield told.filter(is_sample)

    def _without_headers(self, block: bytes) -> bytes:
        """The lines of samples; a header that comes again is passed over, another one refused."""
        mark = b"#" if self.form.is_monitor else b"timestamp"
        if mark not in block:
            return block
        kept = []
        for line in block.splitlines(keepends=True):
            bare = line.strip()
            if not bare.startswith(mark):
                kept.append(line)
            elif bare != self.form.header and b"gpu" in bare.lower() and not _is_units(bare):
                raise SpecError(
                    f"`{self.path}` has two headers: `{_shown(self.form.header)}` and"
                    f" `{_shown(bare)}`",
                    hint="give what was written with each a file of its own",
                )
        return b"".join(kept)

    def _moments(self, cells: pl.DataFrame) -> pl.Series:
        """Since 1970; null: no moment."""
        if self.form.is_monitor:
            texts, form = cells["date"] + " " + cells["time"], "%Y%m%d %H:%M:%S"
        else:
            texts, form = cells["timestamp"], "%Y/%m/%d %H:%M:%S%.f"
        clock = texts.str.strip_chars().str.to_datetime(form, strict=False, time_unit="ms")
        first, second = (
            clock.dt.replace_time_zone(self._zone, ambiguous=which, non_existent="null")
            .dt.convert_time_zone("UTC")
            .dt.epoch("ms")
            for which in ("earliest", "latest")
        )
        is_twice = (first != second).fill_null(value=False)
        if not is_twice.any():
            self._is_second = False
            return first
        went_back = (clock.dt.epoch("ms").diff() < -_BACK_MS).fill_null(value=False)
        run = (is_twice != is_twice.shift(1)).fill_null(value=True).cum_sum()
        table = pl.DataFrame({"run": run, "back": went_back})
        is_second = table.select((pl.col("back").cum_sum() > 0).over("run")).to_series()
        if is_twice.item(0) and self._is_second:
            is_second |= run == run.item(0)
        is_second &= is_twice
        self._is_second = bool(is_second.item(-1))
        return second.zip_with(is_second, first)


def _is_units(line: bytes) -> bool:
    """Whether it is the second line of a header of ``dmon``."""
    return b"idx" in line.lower() or b"yyyymmdd" in line.lower()


def _shown(line: bytes) -> str:
    return line[:80].decode(errors="replace")


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    return cast("BinaryIO", gzip.open(path)) if is_packed else path.open("rb")


def _blocks(path: Path) -> Iterator[bytes]:
    """Whole lines, some MiB at a time; the end of a line that is still being written is not."""
    rest = b""
    try:
        with _opened(path) as file:
            while block := file.read(BLOCK_BYTES):
                whole, _, rest = (rest + block).rpartition(b"\n")
                if len(rest) > LONGEST_LINE:
                    raise _not_ours(path, f"has a line of more than {LONGEST_LINE:,} bytes")
                if whole:
                    yield whole + b"\n"
    except foreign.CUT_OFF as error:
        raise foreign.cut_off(path) from error


def _form(path: Path) -> SmiForm:
    """By its first line; refused where that is no header, or has no time or no GPU in it."""
    block = next(_blocks(path), b"")
    line = next((line.strip() for line in block.splitlines() if line.strip()), b"")
    line = line.removeprefix(foreign.MARKS[2])
    if line.startswith(b"#"):
        return _monitor_form(path, line)
    names = tuple(_bare(name) for name in line.decode(errors="replace").split(","))
    if "timestamp" not in names and not {*names} & {*QUERIED}:
        raise _not_ours(path, f"begins with `{_shown(line)}`")
    if missing := [name for name in ("timestamp",) if name not in names]:
        raise _not_ours(path, f"has no column `{missing[0]}`: nobody can say when it was")
    if not {"index", "uuid"} & {*names}:
        raise _not_ours(path, "has neither `index` nor `uuid`: nobody can say which GPU it was")
    return SmiForm(_different(names), line, is_monitor=False)


def _monitor_form(path: Path, line: bytes) -> SmiForm:
    names = tuple(re.sub(r"\s*,\s*|\s+", " ", line.decode(errors="replace")[1:].lower()).split())
    if "pid" in names:
        raise _not_ours(path, "is of `nvidia-smi pmon`, which counts by process")
    if "gpu" not in names:
        raise _not_ours(path, f"begins with `{_shown(line)}`")
    if not {"date", "time"} <= {*names}:
        raise _not_ours(path, "has no date and time: nobody can say when it was (dmon -o DT)")
    return SmiForm(_different(names), line, is_monitor=True)


def _not_ours(path: Path, what: str) -> SpecError:
    return SpecError(f"`{path}` {what}", hint=f"what is read is written by {ASKED}")


def _bare(name: str) -> str:
    """The name of a column without its unit, as newer versions call it."""
    bare = name.partition("[")[0].strip().lower()
    return _NAMES.get(bare, bare)


def _different(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns; of one that is there twice the first counts."""
    return tuple(
        name if name and name not in names[:i] else f"column {i + 1}"
        for i, name in enumerate(names)
    )


def _cells(lines: bytes, form: SmiForm) -> pl.DataFrame:
    """All cells as text; null where a line has fewer."""
    if form.is_monitor:
        lines = re.sub(rb"(?m)^[ \t]+|[ \t\r]+$", b"", lines)
        lines = re.sub(rb"[ \t]*,[ \t]*|[ \t]+", b",", lines)
    return pl.read_csv(
        lines, has_header=False, new_columns=list(form.names), quote_char=None,
        schema=dict.fromkeys(form.names, pl.String), truncate_ragged_lines=True,
        encoding="utf8-lossy",
    )  # fmt: skip


def _text(cells: pl.DataFrame, name: str) -> pl.Expr:
    if name not in cells.columns:
        return pl.lit("")
    return pl.col(name).str.strip_chars().fill_null("")


def _whole(cells: pl.DataFrame, name: str) -> pl.Expr:
    if name not in cells.columns:
        return pl.lit(-1, pl.Int64)
    return pl.col(name).str.strip_chars().cast(pl.Int64, strict=False).fill_null(-1)


def _number(name: str) -> pl.Expr:
    """A value with or without its unit; null: `-`, `[N/A]`, `[Not Supported]` and the like."""
    return pl.col(name).str.extract(_NUMBER).cast(pl.Float64)
