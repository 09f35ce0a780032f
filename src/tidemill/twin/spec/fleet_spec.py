"""A fleet and its work as a file. ``load`` and ``parse`` give a ``Spec`` whose parts agree.

What cannot be used is a ``SpecError`` that names the file, the table, the row and the field, says
what was asked for and what was found, and ends with a hint.
"""

from importlib import resources
from pathlib import Path

from tidemill.model.errors import SpecError
from tidemill.twin.spec import check, read
from tidemill.twin.spec.tables import Spec

MAX_BYTES = 4 * 1024 * 1024  # a thousand times the demo; more is not a file that somebody wrote


def load(path: str | Path) -> Spec:
    """Read a file and check it."""
    return parse(*text_of(path))


def text_of(path: str | Path | None) -> tuple[str, str]:
    """The text of a file and what to call it; without a path, of the fleet that ships."""
    if path is None:
        shipped = resources.files("tidemill.twin") / "demo.toml"
        return shipped.read_text(encoding="utf-8"), "demo.toml"
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise SpecError(
                f"`{path}` is larger than {MAX_BYTES:,} bytes, the most that a spec file has",
                hint="is this a trace? see `tidemill twin formats`",
            )
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SpecError(
            f"`{path}` cannot be read: {reason}", hint="check the path of the file"
        ) from error
    return _decoded(data, str(path)), str(path)


def parse_bytes(data: bytes, source: str) -> Spec:
    """Read and check what a file holds."""
    return parse(_decoded(data, source), source)


SQLITE = b"SQLite format 3\x00"


def _decoded(data: bytes, source: str) -> str:
    if data.startswith(SQLITE):
        raise SpecError(
            f"`{source}` is a journal, the record of what a fleet did; a spec was asked for, which"
            " describes a fleet that is to be simulated",
            hint=f"`tidemill ledger {source}` reads a journal and advises on it; a spec begins"
            " with `tidemill twin init`",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"`{source}` is not text: byte {error.start} is not UTF-8",
            hint="save the file as UTF-8 text",
        ) from error


def parse(text: str, source: str = "spec") -> Spec:
    """Read and check a text."""
    spec = read.read(text, source)
    check.check(spec)
    return spec


def demo() -> Spec:
    """The fleet that ships with Tidemill."""
    return parse(*text_of(None))
