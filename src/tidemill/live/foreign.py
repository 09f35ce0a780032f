"""Files that were given to the wrong command: what a file is, by its beginning, and who reads it.

Readers ask ``refuse`` before they read (what it names can be nothing of theirs), and ``hint`` where
they could make nothing of a file.
"""

import gzip
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tidemill.live.csv import headers
from tidemill.model.errors import SpecError

Source = Literal["slurm", "kubernetes", "track", "csv", ""]
CUT_OFF = (EOFError, zlib.error, gzip.BadGzipFile)
"""What is raised by a packed file that is not whole."""
MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")
"""How texts of UTF-16 begin, and UTF-8 that has a mark."""
_LOOKED_AT = 1 << 16
_KUBERNETES = re.compile(rb'"(apiVersion|kind)"\s*:\s*"')
_SLURM = re.compile(rb'"(Slurm|slurm)"\s*:\s*\{|^\s*\{\s*"(jobs|nodes|reservations)"\s*:\s*\[')
_TRACK = re.compile(rb'^\s*\{[^\n]*"run"\s*:\s*"[^\n]*\}')
_JOURNAL = re.compile(rb'^\s*\{[^\n]*("seq"\s*:\s*\d+\s*,\s*"is"|"facts")\s*:')
_BLOCKS = re.compile(rb"^(JobId|NodeName|PartitionName|ReservationName)=")
_BARS = re.compile(rb"^(JobID|JobIDRaw|JOBID|NODELIST|HOSTNAMES|Cluster|Account|NodeName)\|")
_YAML = re.compile(rb"^(?:---[^\n]*\n|#[^\n]*\n|\s*\n)*(apiVersion|kind|items):")
_TAR = slice(257, 262)
"""Where an archive of tar says that it is one."""
_SHEET = (b"[Content_Types].xml", b"mimetype", b"xl/", b"_rels/")
"""What a spreadsheet holds first."""
_TOML = re.compile(rb"^\[{1,2}(\w+)[\].]")
_SOURCES = ("fleet", "slurm", "kubernetes", "prometheus", "prices", "teams")


class KnownFile(NamedTuple):
    """What a file is, or holds, and what to do with it."""

    what: str
    hint: str
    source: Source = ""
    """By which command it is read; "": by no import."""
    is_sure: bool = True
    """Whether it can be nothing else; a table may be many things."""


def known(path: Path) -> KnownFile | None:
    """What a file is; None: nobody knows."""
    if not path.is_file():
        return None
    try:
        head = _beginning(path)
    except (OSError, *CUT_OFF):
        return None
    return _by_beginning(head, path)


def refuse(path: Path, mine: Source) -> None:
    """Refuse a file that another command reads, or none."""
    found = known(path)
    if found is not None and found.is_sure and found.source != mine:
        raise SpecError(f"`{path}` {found.what}", hint=found.hint)


def hint(path: Path, mine: Source) -> str:
    """What to do with a file that may be another command's; "": nobody knows."""
    found = known(path)
    is_mine = found is None or found.is_sure or found.source == mine
    return "" if found is None or is_mine else f"it {found.what}: {found.hint}"


def cut_off(path: Path) -> SpecError:
    """The error for a packed file that is not whole."""
    return SpecError(f"`{path}` is cut off, or damaged", hint="pack it again, or give it unpacked")


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        head = file.read(_LOOKED_AT)
    if head.startswith(b"\x1f\x8b"):
        head = zlib.decompressobj(wbits=31).decompress(head, _LOOKED_AT)
    return as_utf_8(head).lstrip()


def as_utf_8(text: bytes) -> bytes:
    """A text as UTF-8 without a mark; PowerShell writes UTF-16, and some editors a mark."""
    if text.startswith(MARKS[:2]):
        return text[: len(text) & ~1].decode("utf-16", "replace").encode()
    return text.removeprefix(MARKS[2])


def _by_beginning(head: bytes, path: Path) -> KnownFile | None:
    slurm = KnownFile("is what a command of Slurm prints", f"tidemill import slurm {path}", "slurm")
    if head.startswith(b"SQLite format 3\0"):
        return KnownFile(
            "is a journal, or another SQLite database", f"ask it: tidemill ledger {path}"
        )
    if packed := _packed(head, path):
        return packed
    if head.startswith(b"PAR1"):
        return KnownFile("is a Parquet file", f"tidemill import csv {path}", "csv")
    if head.startswith((b"{", b"[{")):
        return _of_json(head, path)
    if _BLOCKS.match(head):
        return slurm
    if _BARS.match(head):
        return slurm._replace(is_sure=False)
    if _YAML.match(head):
        run = f"tidemill import kubernetes {path}"
        return KnownFile("is YAML of Kubernetes", run, "kubernetes")
    if found := _TOML.match(head):
        return _of_toml(found[1].decode(), path)
    return _of_table(head.partition(b"\n")[0].decode("utf-8", "replace"), path)


def _packed(head: bytes, path: Path) -> KnownFile | None:
    """A spreadsheet, or an archive of files."""
    if head.startswith(b"PK\x03\x04") and head[30:].startswith(_SHEET):
        return KnownFile("is a spreadsheet", "save its table as CSV UTF-8")
    if head.startswith(b"PK\x03\x04"):
        return KnownFile("is an archive", f"unpack it, and give the folder: unzip {path} -d NEW")
    if head[_TAR] == b"ustar":
        new = f"mkdir NEW; tar -xf {path} -C NEW"
        return KnownFile("is an archive", f"unpack it, and give the folder: {new}")
    return None


def _of_json(head: bytes, path: Path) -> KnownFile:
    if _TRACK.match(head):
        run = f"tidemill import track {path}"
        return KnownFile("holds records of tidemill.track", f"{run}, or --track {path}", "track")
    if _JOURNAL.match(head):
        return KnownFile("is an exported journal", f"tidemill journal import {path} NEW.sqlite")
    if _SLURM.search(head):
        run = f"tidemill import slurm {path}"
        return KnownFile("is what a command of Slurm prints with --json", run, "slurm")
    if _KUBERNETES.search(head):
        run = f"tidemill import kubernetes {path}"
        return KnownFile("is what `kubectl get … -o json` prints", run, "kubernetes")
    tables = "write it as a table: one line per job, the names of its columns in the first"
    return KnownFile("is JSON, and not of a cluster", tables, is_sure=False)


def _of_toml(table: str, path: Path) -> KnownFile:
    if table in _SOURCES:
        return KnownFile("is a list of sources", f"tidemill observe --config {path}")
    return KnownFile("is a spec, or a policy", f"tidemill twin run {path}")


def _of_table(line: str, path: Path) -> KnownFile | None:
    """A table by its header."""
    for sign in ",;\t|":
        columns = [cell.strip('"\r ') for cell in line.split(sign)]
        if len(columns) > 1 and (found := _of_columns(columns, path)):
            return found
    return None


def _of_columns(columns: Sequence[str], path: Path) -> KnownFile | None:
    jobs, nodes = (headers.match(columns, words, {}) for words in (headers.JOBS, headers.NODES))
    if "gpus" in jobs and {"submit", "start"} & {*jobs}:
        run = f"tidemill import csv {path}"
        return KnownFile("is a table of jobs", run, "csv", is_sure=False)
    if {"node", "gpus"} <= {*nodes}:
        run = f"tidemill import csv JOBS --nodes {path}"
        return KnownFile("is a table of nodes", run, is_sure=False)
    if {"usd_per_hour", "usd_per_node_hour"} & {*nodes}:
        run = f"give it beside the jobs: --prices {path}"
        return KnownFile("is a table of prices", run, is_sure=False)
    return None
