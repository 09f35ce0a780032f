"""Which formats are known, which one a file has, and where recorded traces are kept.

``load`` finds the file (as given, else under ``$TIDEMILL_TRACES``), guesses its format from its
header unless told, and gives a ``Trace``.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.model import names
from tidemill.model.decoding import nearest
from tidemill.model.errors import SpecError
from tidemill.twin.traces import (
    acme,
    elasticflow,
    faults,
    llm_requests,
    muri,
    openb,
    philly,
    pollux,
    rows,
)
from tidemill.twin.traces.options import AS_PUBLISHED, Options
from tidemill.twin.traces.trace import Trace

FOLDER_VARIABLE = "TIDEMILL_TRACES"


class Format(NamedTuple):
    """A format: what it is, how it is read, and the columns by which it is known."""

    about: str
    load: Callable[[Path, Options], Trace]
    columns: tuple[str, ...] = ()


# In this order a header is compared, so those with more columns of their own come first.
FORMATS = {
    "openb": Format("Alibaba 2023: node list and pod lists", openb.load, openb.POD_COLUMNS),
    "muri": Format("Muri: jobs of a 64-GPU cluster", muri.load, muri.COLUMNS),
    "elasticflow": Format("Microsoft ITP training jobs", elasticflow.load, elasticflow.COLUMNS),
    "philly": Format("Microsoft Philly, compact", philly.load, philly.COLUMNS),
    "pollux": Format("Pollux: elastic training workloads", pollux.load, pollux.COLUMNS),
    "llm-requests": Format(
        "Azure LLM requests, as the load of a service", llm_requests.load, llm_requests.COLUMNS
    ),
    "acme": Format("statistics of five clusters (nothing to run)", acme.load, acme.COLUMNS),
    "faults": Format("InfiniteHBD faults of 400 servers (JSON)", faults.load),
}


def load(path: str | Path, form: str | None = None, options: Options = AS_PUBLISHED) -> Trace:
    """Import a trace; without a format it is guessed."""
    if fault := names.fault(options.kind):
        raise SpecError(f"the GPU type: {fault}", hint="such as H100")
    found = find(path)
    trace = named(form or sniff(found)).load(found, options)
    instant = sum(arrival.work_ms <= 1 for arrival in trace.arrivals)
    if not instant:
        return trace
    note = f"{instant:,} of {len(trace.arrivals):,} jobs ran for no time; they count as 1 ms each"
    return replace(trace, notes=(*trace.notes, note))


def formats() -> dict[str, str]:
    """The known formats and what each is."""
    return {name: form.about for name, form in FORMATS.items()}


def named(form: str) -> Format:
    """The format of this name."""
    if form not in FORMATS:
        raise SpecError(f"there is no trace format `{form}`", hint=nearest(form, FORMATS))
    return FORMATS[form]


def find(path: str | Path) -> Path:
    """The file as given, else within the folder of traces."""
    path = Path(path)
    folder = os.environ.get(FOLDER_VARIABLE, "")
    for candidate in (path, Path(folder) / path if folder else path):
        if candidate.exists():
            return candidate
    raise SpecError(
        f"there is no file `{path}`" + (f", nor in `{folder}`" if folder else ""),
        hint=f"give the path, or set {FOLDER_VARIABLE} to the folder that holds the traces",
    )


def sniff(path: Path) -> str:
    """The name of the format that a file seems to have."""
    if path.is_dir():
        if (path / openb.NODE_LIST).is_file():
            return "openb"
        raise SpecError(f"`{path}` is a folder", hint="give one file of it")
    if path.suffix == ".json":
        return _sniff_json(path)
    header = rows.header_of(path)
    if set(openb.NODE_COLUMNS) <= set(header):
        return "openb"
    for name, form in FORMATS.items():
        if form.columns and set(form.columns) <= set(header):
            return name
    raise SpecError(
        f"`{path}` has no known header; found {', '.join(header)[:200] or 'nothing'}",
        hint=f"name its format with --format, one of: {', '.join(FORMATS)}",
    )


def _sniff_json(path: Path) -> str:
    with rows.opened(path) as file:
        start = file.read(4096)
    if '"event_type"' in start:
        return "faults"
    known = "measured speeds (Gavel)" if "(batch size" in start else "an unknown kind of JSON"
    raise SpecError(
        f"`{path}` holds {known}, not a record of jobs or faults",
        hint=f"formats with something to run: {', '.join(FORMATS)}",
    )
