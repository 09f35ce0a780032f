"""A folder of records that grows: what was read once is not read again.

A folder may hold months of records. Of files that nobody has written into since a moment nothing
can be news, so they are never opened.
"""

from collections.abc import Iterator
from pathlib import Path

from tidemill.live.track.reader import TrackReader, files_of
from tidemill.live.track.records import TrackRecord


class FollowedRecords:
    """The records of a folder, or of one file, each once, as they come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = TrackReader()
        self._offsets: dict[Path, int] = {}

    @property
    def refused(self) -> int:
        """Lines so far that are no records."""
        return self._reader.refused_in_all

    def more(self, since_ms: int) -> Iterator[TrackRecord]:
        """Records that were not read yet, of files that were written into since a moment."""
        for path in files_of(self.path) if self.path.exists() else ():
            told = path.stat()
            at = self._offsets.get(path)
            if at is None and told.st_mtime * 1000 < since_ms:
                continue
            offset = at if at is not None and at <= told.st_size else 0
            for record, after in self._reader.stream_from(path, offset):
                self._offsets[path] = after
                if record is not None:
                    yield record
            self._offsets.setdefault(path, 0)
