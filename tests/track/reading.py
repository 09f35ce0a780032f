"""All that is in files of records, at once."""

from pathlib import Path
from typing import NamedTuple

from tidemill.live.track.reader import RefusedLine, TrackReader
from tidemill.live.track.records import TrackRecord
from tidemill.live.track.seen import SeqGap


class Readings(NamedTuple):
    """What there is in files of records."""

    records: list[TrackRecord]
    refused: list[RefusedLine]
    gaps: list[SeqGap]
    refused_in_all: int
    repeated: int
    truncated: tuple[Path, ...]


def read(path: Path | str) -> Readings:
    """All records of a file or of the files in a folder, what was refused, and what is missing."""
    reader = TrackReader()
    records = list(reader.stream(path))
    return Readings(
        records, reader.refused, reader.gaps(), reader.refused_in_all, reader.repeated,
        tuple(reader.truncated),
    )  # fmt: skip
