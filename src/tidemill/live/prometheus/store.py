"""Hours of a Prometheus in a folder: one Parquet file per hour and table, each whole or absent.

A file is written under another name and renamed, so that what is there can be believed and a second
call goes on where the first was interrupted. The last hour of all is read again: it had not ended.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from msgspec import Struct

from tidemill.live.prometheus.load_minutes import LOAD_MINUTES
from tidemill.live.prometheus.minutes import GPU_MINUTES, HOUR_MS
from tidemill.live.prometheus.reading import NODE_WAITS, PODS, Hour
from tidemill.model import decoding
from tidemill.model.errors import SpecError

ABOUT = "prometheus.json"
_TABLES: dict[str, Mapping[str, Any]] = {
    "loads": LOAD_MINUTES, "pods": PODS, "nodes": NODE_WAITS, "gpus": GPU_MINUTES,
}  # fmt: skip
"""In the order of writing: an hour is there when its last file is."""

ADDED = ("clock_mhz", "celsius", "busy", "length_ms")
"""Columns that folders of earlier versions do not have: not known there."""
LATER = ("loads",)
"""Tables that folders of earlier versions do not have: nothing is known there."""


class HourCounts(Struct):
    """How much of an hour was read."""

    samples: int = 0
    dropped: int = 0
    doubled: int = 0
    is_whole: bool = True


class FolderNote(Struct):
    """What a folder holds, and from where."""

    url: str = ""
    ahead_ms: int = 0
    """How far the server's clock was ahead of the machine's that asked."""
    hours: dict[str, HourCounts] = {}


class HourFolder:
    """A folder of hours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.about = FolderNote()
        if (path / ABOUT).exists():
            data = (path / ABOUT).read_bytes()
            try:
                self.about = msgspec.json.decode(data, type=FolderNote)
            except decoding.FAULTS as error:
                raise SpecError(
                    f"`{path / ABOUT}` is not what `tidemill prometheus fetch` writes:"
                    f" {decoding.in_words(error, data, FolderNote)}",
                    hint="give another folder, or remove it and fetch again",
                ) from error

    @classmethod
    def to_read(cls, path: Path) -> "HourFolder":
        """A folder that was fetched before."""
        if not (path / ABOUT).exists():
            raise SpecError(
                f"`{path}` is no folder that `tidemill prometheus fetch` made",
                hint="give the address of a Prometheus, or fetch into that folder first",
            )
        return cls(path)

    def begin(self, url: str, ahead_ms: int) -> None:
        """Note where the hours come from; another server's are refused."""
        if self.about.url and self.about.url != url:
            raise SpecError(
                f"`{self.path}` holds hours of {self.about.url}, and {url} is asked now",
                hint="give a folder of its own",
            )
        self.path.mkdir(parents=True, exist_ok=True)
        self.about.url, self.about.ahead_ms = url, ahead_ms
        self._note()

    def has(self, start_ms: int) -> bool:
        """Whether an hour is there, whole."""
        told = self.about.hours.get(str(start_ms))
        return told is not None and told.is_whole and self._file("gpus", start_ms).exists()

    def keep(self, hour: Hour, *, is_whole: bool) -> None:
        """Write an hour."""
        tables = (hour.loads, hour.pods, hour.nodes, hour.gpus)
        for name, table in zip(_TABLES, tables, strict=True):
            place = self._file(name, hour.start_ms)
            draft = place.with_suffix(".new")
            table.write_parquet(draft, compression="zstd")
            draft.replace(place)
        self.about.hours[str(hour.start_ms)] = HourCounts(
            hour.samples, hour.dropped, hour.doubled, is_whole
        )
        self._note()

    def starts(self) -> list[int]:
        """The beginnings of the hours that are there."""
        return sorted(int(start) for start in self.about.hours)

    def hour(self, start_ms: int) -> Hour:
        """One hour."""
        loads, pods, nodes, gpus = (self._read(name, start_ms) for name in _TABLES)
        told = self.about.hours[str(start_ms)]
        return Hour(start_ms, gpus, pods, nodes, told.samples, told.dropped, told.doubled, loads)

    def _read(self, name: str, start_ms: int) -> pl.DataFrame:
        place = self._file(name, start_ms)
        if name in LATER and not place.exists():
            return pl.DataFrame(schema=_TABLES[name])
        try:
            kept = pl.read_parquet(place)
            return kept.select(
                (pl.col(column) if column in kept.columns or column not in ADDED else pl.lit(None))
                .cast(kind)
                .alias(column)
                for column, kind in _TABLES[name].items()
            )
        except (pl.exceptions.PolarsError, OSError) as error:
            raise SpecError(
                f"`{place}` cannot be read: {str(error)[:200]}",
                hint="remove it and fetch again: the hours that are there are kept",
            ) from error

    def _file(self, name: str, start_ms: int) -> Path:
        return self.path / f"{name}-{start_ms // 1000}.parquet"

    def _note(self) -> None:
        draft = self.path / f"{ABOUT}.new"
        with draft.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(self.about), indent=1))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path / ABOUT)


def kept(folder: HourFolder, start_ms: int, end_ms: int) -> Iterator[Hour]:
    """The hours of a folder that touch a stretch of time."""
    for start in folder.starts():
        if start < end_ms and start + HOUR_MS > start_ms:
            yield folder.hour(start)
