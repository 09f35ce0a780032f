"""584 faults of 400 GPU servers over 348 days, as published with InfiniteHBD (SIGCOMM'25).

A JSON list of ``node_id, event_time`` (**days**), ``event_type`` (fault_start or fault_end) and
``fault_type``, in order of time. Gives a fault schedule to add to another story.
"""

from pathlib import Path
from typing import NoReturn

import msgspec

from tidemill.model import decoding
from tidemill.model.decoding import shown
from tidemill.model.errors import SpecError
from tidemill.model.measures import DAY_MS, duration_text
from tidemill.twin.faults import FaultAt, Faults
from tidemill.twin.traces import rows
from tidemill.twin.traces.options import AS_PUBLISHED, Options
from tidemill.twin.traces.trace import Trace

MAX_CHARACTERS = 500_000_000
MAX_DAY = 100_000.0


class FaultType(msgspec.Struct, frozen=True, rename="pascal"):
    """What broke, from coarse to fine."""

    level: str = ""
    class_: str = msgspec.field(name="Class", default="")
    desc: str = ""


class FaultLine(msgspec.Struct, frozen=True):
    """One element of the list."""

    node_id: str
    event_time: float
    event_type: str
    fault_type: FaultType = FaultType()


def load(path: Path, options: Options) -> Trace:
    """A story without work: the schedule is its ``faults``."""
    schedule, broken = schedule_of(path, options)
    rows.refuse_empty(path, len(schedule), "faults")
    last_ms = max(fault.at_ms for fault in schedule)
    return Trace(
        name=path.stem,
        contracts=(),
        queues=(),
        arrivals=(),
        faults=Faults(schedule=tuple(schedule)),
        horizon_ms=last_ms,
        skipped=len(broken),
        broken=tuple(broken[: rows.MAX_BROKEN_SHOWN]),
        notes=(f"{len(schedule):,} faults over {duration_text(last_ms)}, to add to other jobs",),
    )


def schedule_of(path: Path, options: Options = AS_PUBLISHED) -> tuple[list[FaultAt], list[str]]:
    """Each fault with its repair; nodes are numbered as they first appear."""
    faults: list[FaultAt] = []
    broken: list[str] = []
    numbers: dict[str, int] = {}
    began: dict[tuple[str, FaultType], list[float]] = {}
    for number, raw in enumerate(_list(path, options), 1):
        try:
            line = _line(path, number, raw)
            key = (line.node_id, line.fault_type)
            n = numbers.setdefault(line.node_id, len(numbers))
            if line.event_type == "fault_start":
                began.setdefault(key, []).append(line.event_time)
            elif began.get(key):
                faults.append(_fault(n, began[key].pop(0), line.event_time))
            else:
                _refuse(path, number, "event_type", "an end after its start", line.event_type)
        except SpecError as error:
            if not options.skip_broken:
                raise
            broken.append(error.message)
    return sorted(faults, key=lambda fault: (fault.at_ms, fault.node)), broken


def _fault(n: int, start_days: float, end_days: float) -> FaultAt:
    start_ms = round(start_days * DAY_MS)
    return FaultAt(start_ms, n, max(0, round(end_days * DAY_MS) - start_ms))


def _list(path: Path, options: Options) -> list[object]:
    with rows.opened(path) as file:
        text = file.read(MAX_CHARACTERS + 1)
    if len(text) > MAX_CHARACTERS:
        raise SpecError(
            f"`{path}` holds more than {MAX_CHARACTERS:,} characters, unpacked",
            hint="cut the file, and import it part by part",
        )
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        said = decoding.broken(error, text)
        raise SpecError(f"`{path}` is not JSON: {said}", hint="fetch the file again") from error
    if not isinstance(found, list) or len(found) > options.rows_at_most:
        raise SpecError(
            f"`{path}`: expected a list of at most {options.rows_at_most:,} faults",
            hint="see `tidemill twin formats`",
        )
    return found


def _line(path: Path, number: int, raw: object) -> FaultLine:
    try:
        line = msgspec.convert(raw, FaultLine)
    except msgspec.ValidationError as error:
        said = decoding.mismatch(error, FaultLine, raw)
        raise SpecError(f"`{path}`, entry {number}: {said}", hint=_HINT) from error
    if not 0 <= line.event_time <= MAX_DAY:
        _refuse(path, number, "event_time", "days from 0", line.event_time)
    if line.event_type not in ("fault_start", "fault_end"):
        _refuse(path, number, "event_type", "fault_start or fault_end", line.event_type)
    return line


_HINT = "mend the entry, or leave such entries out with `--skip-broken`"


def _refuse(path: Path, number: int, field: str, asked: str, found: object) -> NoReturn:
    raise SpecError(
        f"`{path}`, entry {number}, `{field}`: expected {asked}; found {shown(found)}", hint=_HINT
    )
