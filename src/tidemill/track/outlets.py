"""Where records go: ``TIDEMILL_TRACK`` is a folder (``file:/path``) or a server (``http://…``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tidemill.track.identity import ProcessIdentity

if TYPE_CHECKING:
    from tidemill.track.spool import RecordSpool


class Outlet(Protocol):
    """Takes lines, from one thread."""

    longest_pause_s: float
    """At most this long until it is tried again after it failed."""
    lost: int
    """Lines that it took and nobody will read; who tells of them sets it back."""
    lost_why: str

    @property
    def spool(self) -> RecordSpool | None:
        """Where lines wait on disk while it takes none; None: they wait in memory alone."""
        ...

    def send(self, lines: Sequence[bytes], within_s: float) -> int:
        """Take the lines, or the first of them; returns how many. Raises ``OSError``."""
        ...

    def hang_up(self) -> None:
        """Let go of what ``send`` waits for; called by another thread, where a run ends."""
        ...

    def close(self) -> None:
        """Nothing more will come. Raises ``OSError``."""
        ...


def first_lines(lines: Sequence[bytes], most_lines: int, most_bytes: int) -> Sequence[bytes]:
    """As many of the first lines as go together, and at least one."""
    size = 0
    for count, line in enumerate(lines[:most_lines]):
        size += len(line)
        if count and size > most_bytes:
            return lines[:count]
    return lines[:most_lines]


def open_outlet(to: str, who: ProcessIdentity, run: str) -> Outlet:
    """The outlet for an address; ``ValueError`` where it is none."""
    stem = f"{who.job}-rank{who.rank}-{run}"
    if to.startswith("file:"):
        from tidemill.track.files import FileOutlet  # noqa: PLC0415 - as below

        folder = to.removeprefix("file:").removeprefix("//")
        if not folder:
            raise ValueError("`file:` is followed by a folder, as in file:/var/log/tidemill")
        return FileOutlet(folder, stem)
    if to.startswith(("http://", "https://")):
        from tidemill.track.http import HttpOutlet  # noqa: PLC0415 - not loaded where files are used
        from tidemill.track.spool import RecordSpool, folder_of  # noqa: PLC0415 - as above

        place = folder_of(to)
        return HttpOutlet.to(to, RecordSpool(place, stem) if place else None)
    raise ValueError(f"`{to}` is neither file:/a/folder nor http://host:port")
