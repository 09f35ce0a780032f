"""How a file is written: beside its name, then given it; and never over what is not ours.

Everything that Tidemill writes goes through here: journals, exported events, reports, probe
results. A new file is made in a private folder of an unpredictable name next to where it will be,
so that nobody can plant anything in its way, and takes its name in one step when it is whole.

What stands under the name already is recognised by its content, not by its name. A command
replaces only what it says it replaces (a report replaces a report); everything else is refused,
unless the caller was told otherwise (``is_forced``). A link, a folder and a device are never what
we wrote.
"""

import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Literal

from tidemill.model.errors import JournalError, SpecError

Kind = Literal["journal", "report", "exported events", "probe result"]
"""What Tidemill writes."""

APPLICATION_ID = 0x54644D6C  # "TdMl": marks an SQLite file as a journal
FACTS_KEY = "tidemill.facts"  # in the metadata of a Parquet file
HEAD_BYTES = 64 * 1024
TAIL_BYTES = 1024 * 1024  # the metadata of a Parquet file stands at its end

_SQLITE = b"SQLite format 3\0"
_MARK_AT = 68  # of the application id, in the header of an SQLite file
_VERSION_AT = 60  # of the version of what is in it
ROLLED_UP = 3  # the version of a journal whose first events were rolled up
_FRESH = ".tidemill-"


def kind_of(path: Path) -> Kind | None:
    """What of ours a file is, by what is in it; None: it is not ours, or nothing is there."""
    try:
        if not S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            tail = file.read(TAIL_BYTES)
    except OSError:
        return None
    return _kind(head, tail)


def words_of(path: Path) -> str:
    """What a file is, in words."""
    return _words(kind_of(path))


def _kind(head: bytes, tail: bytes) -> Kind | None:
    if head.startswith(_SQLITE):
        mark = int.from_bytes(head[_MARK_AT : _MARK_AT + 4], "big")
        return "journal" if mark == APPLICATION_ID else None
    if head[:1024].lstrip()[:15].lower() == b"<!doctype html>":
        return "report" if b'<meta name="generator" content="tidemill ' in head else None
    if head.startswith(b"PAR1"):
        return "exported events" if FACTS_KEY.encode() in tail else None
    if head.startswith((b'{"facts":{', b'{"seq":0,"is":')):
        return "exported events"
    if head.startswith(b"\x1f\x8b"):
        return "exported events" if _is_packed_export(head) else None
    is_probe = head.startswith(b"{") and b'"took_s"' in head + tail and b'"unit"' in head
    return "probe result" if is_probe and b'"made"' in head else None


def _is_packed_export(head: bytes) -> bool:
    try:
        text = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return False
    return text.startswith((b'{"facts":{', b'{"seq":0,"is":'))


def is_rolled_up(path: Path) -> bool:
    """Whether a file is a journal whose first events were rolled up."""
    try:
        with path.open("rb") as file:
            head = file.read(_MARK_AT + 4)
    except OSError:
        return False
    is_ours = head.startswith(_SQLITE) and head[_MARK_AT:] == APPLICATION_ID.to_bytes(4, "big")
    return is_ours and int.from_bytes(head[_VERSION_AT : _VERSION_AT + 4], "big") == ROLLED_UP


def refuse(
    path: Path, *, replaces: Kind | None = None, is_forced: bool = False, option: str = "--force"
) -> None:
    """Refuse to write where something stands that may not be replaced.

    ``replaces``: the kind that this command writes and may write again. ``option`` is what a
    person types to be obeyed; empty where there is no such option. A journal is the only copy of
    what happened: nothing is written over it in any case (a new run may remove it: ``forget``).
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot_write(path, error) from error
    if S_ISDIR(mode):
        raise SpecError(f"`{path}` is a folder", hint="give the path of a file to write")
    if not (S_ISREG(mode) or S_ISLNK(mode)):
        raise SpecError(
            f"`{path}` is a device or a pipe; files are written beside and renamed",
            hint="give the path of a file to write",
        )
    found = None if S_ISLNK(mode) else kind_of(path)
    if found == "journal" and is_forced:
        raise SpecError(
            f"`{path}` is a Tidemill journal; {option or 'being told to'} does not replace one",
            hint="give another name; remove the journal yourself if it is not needed",
        )
    if is_forced or (replaces is not None and found == replaces):
        return
    what = f"a link to `{path.readlink()}`" if S_ISLNK(mode) else _words(found)
    if found == "journal":
        option = ""
    may = f"only {_words(replaces)} may be replaced" if replaces else "nothing is written over it"
    told = f", or {option} to replace it" if option else ""
    raise SpecError(
        f"`{path}` exists already and is {what}; {may}",
        hint=f"give another name{told}",
    )


@contextmanager
def fresh(path: Path) -> Iterator[Path]:
    """Where to write a file that shall take the name ``path``; it does when the body is through.

    If the body raises, nothing is left. Whoever asks has refused what may not be replaced (see
    ``refuse``); a file that appeared meanwhile where there was none is not replaced either.
    """
    was_there = os.path.lexists(path)
    try:
        folder = Path(tempfile.mkdtemp(prefix=_FRESH, dir=path.parent))
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        part = folder / path.name
        yield part
        _settle(part, path, was_there=was_there)
    finally:
        rmtree(folder, ignore_errors=True)


def write(
    path: Path, data: bytes, *, replaces: Kind | None = None, is_forced: bool = False
) -> None:
    """Write a whole file, if nothing stands there that may not be replaced."""
    refuse(path, replaces=replaces, is_forced=is_forced)
    with fresh(path) as part:
        try:
            part.write_bytes(data)
        except OSError as error:
            raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> JournalError:
    """What to say when a file cannot be made or replaced."""
    return JournalError(
        f"`{path}` cannot be written: {error.strerror or error}",
        hint="check its folder, your rights there, and the space left on the disk",
    )


def _settle(part: Path, path: Path, *, was_there: bool) -> None:
    """Make sure that a finished file is on the disk, then give it its name."""
    try:
        with part.open("rb") as file:
            os.fsync(file.fileno())
        if was_there:
            _keep_mode(path, part)
            part.replace(path)
        else:
            _name(part, path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError as error:
        raise SpecError(
            f"`{path}` appeared while it was being written; it was left as it is",
            hint="give another name",
        ) from error
    except OSError as error:
        raise cannot_write(path, error) from error


def _keep_mode(path: Path, part: Path) -> None:
    """Who might read the file before may read the one that replaces it, and nobody else."""
    mode = os.lstat(path).st_mode
    if S_ISREG(mode):
        part.chmod(mode & 0o777)


def _name(part: Path, path: Path) -> None:
    """Give a name that nobody has; a second link fails where a rename would write over."""
    try:
        os.link(part, path, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        part.rename(path)


def _words(kind: Kind | None) -> str:
    match kind:
        case None:
            return "not a file that Tidemill wrote"
        case "exported events":
            return "a file of exported events"
        case _:
            return f"a Tidemill {kind}"
