"""Who held which nodes when, as a journal of an observed fleet has it: ``ATTEMPTS`` again.

What a journal does not keep is not there: the numbers of devices are those that Tidemill gave where
a scheduler told none, so they are left out.
"""

from collections.abc import Iterable

import polars as pl

from tidemill.journal import device_ids
from tidemill.journal.base import Journal
from tidemill.journal.device_ids import DeviceIds
from tidemill.journal.moments import Calendar
from tidemill.journal.replay import rebuild
from tidemill.journal.source import Source
from tidemill.live.history.rows import ATTEMPTS
from tidemill.live.measured.joining import FIGURE_COLUMNS
from tidemill.live.measured.windows import ERRORS, WINDOWS
from tidemill.model import events as ev
from tidemill.model import lives
from tidemill.model.errors import SpecError
from tidemill.model.rows import Piece
from tidemill.model.states import HOSTING

KEPT = "journal"
"""The source of windows that were read back."""
_COLUMNS = ("job", "team", "user", "gpus", "gpu_type", "nodes", "start_ms", "end_ms")


def begins_ms(journal: Journal) -> int:
    """When an observed journal begins, since 1970; others have nothing that devices could tell."""
    facts = journal.facts()
    begins = Calendar.of(facts).begins
    if Source.of(facts).is_simulated or begins is None or begins.tzinfo is None:
        raise SpecError(
            f"`{journal.where}` is not of a real fleet with dates: nothing was measured of it",
            hint="give a journal that `tidemill import` or `tidemill observe` made",
        )
    return round(begins.timestamp() * 1000)


def attempts_of(journal: Journal) -> pl.DataFrame:
    """Attempts with where and how long each held its place; one that still does has no end.

    ``is_instance``: whether MIG instances are what it held.
    """
    begins, world = begins_ms(journal), rebuild(journal)
    kinds = {row.name: row.kind for row in world.contract_rows}
    rows: list[dict[str, object]] = []
    held: dict[int, tuple[int, tuple[Piece, ...]]] = {}

    def close(j: int, end_ms: int | None) -> None:
        start_ms, pieces = held.pop(j)
        nodes = list(dict.fromkeys(world.node_rows[piece.node].name for piece in pieces))
        rows.append({
            "job": world.job_names[j], "team": world.shape_of(j).team,
            "user": world.job_users[j] or None, "gpus": _gpus(pieces),
            "gpu_type": kinds.get(world.node_rows[pieces[0].node].contract), "nodes": nodes,
            "start_ms": begins + start_ms, "end_ms": None if end_ms is None else begins + end_ms,
            "is_instance": any(piece.slices for piece in pieces),
        })  # fmt: skip

    for event in journal.read():
        match event:
            case ev.PlacementSeen(job=j):
                if j in held:
                    close(j, event.at_ms)
                if event.pieces:
                    held[j] = event.at_ms, event.pieces
            case (
                ev.JobFinished(job=j) | ev.JobFailed(job=j) | ev.JobEvicted(job=j)
                | ev.JobCancelled(job=j)
            ) if j in held:  # fmt: skip
                close(j, event.at_ms)
            case ev.NodeMoved(to=state) if state not in HOSTING:
                for j in [j for j, (_, pieces) in held.items() if _is_on(pieces, event.node)]:
                    close(j, event.at_ms)
            case _:
                pass
    for j in sorted(held):
        close(j, None)
    schema = {name: ATTEMPTS[name] for name in _COLUMNS} | {"is_instance": pl.Boolean}
    return pl.DataFrame(rows, schema=schema)


def windows_of(journal: Journal) -> pl.DataFrame:
    """What the journal keeps of what devices measured, as ``WINDOWS``: each until it changes."""
    begins, world = begins_ms(journal), rebuild(journal)
    rows, told = list[dict[str, object]](), dict[int, tuple[int, dict[str, int]]]()

    def tell(j: int, at_ms: int, changed: dict[str, int] | None) -> None:
        since_ms, figures = told.pop(j, (at_ms, {}))
        known = {name: value for name, value in figures.items() if value >= 0}
        if at_ms > since_ms and known:
            span = {"start_ms": begins + since_ms, "end_ms": begins + at_ms}
            rows.append({"job": world.job_names[j], "source": KEPT, **span, **known})
        if changed is not None:
            told[j] = at_ms, figures | changed

    for event in journal.read():
        match event:
            case ev.FigureSeen(job=j) if (name := FIGURE_COLUMNS[event.figure]) in WINDOWS:
                tell(j, event.at_ms, {name: event.value})
            case ev.ActivitySeen(job=j):
                tell(j, event.at_ms, {"busy_ppm": event.busy_ppm})
            case (
                ev.JobFinished(job=j) | ev.JobFailed(job=j) | ev.JobEvicted(job=j)
                | ev.JobCancelled(job=j) | ev.PlacementSeen(job=j)
            ):  # fmt: skip
                tell(j, event.at_ms, None)
            case _:
                pass
    for j in sorted(told):
        tell(j, world.now_ms, None)
    return pl.DataFrame(rows, schema=WINDOWS)


def errors_of(journal: Journal) -> pl.DataFrame:
    """The errors of devices that the journal keeps, as ``ERRORS``; whose jobs held them is not."""
    begins, world = begins_ms(journal), rebuild(journal)
    names = lives.sources_names(world)
    cards = DeviceIds(device_ids.of(journal.facts(), journal.where))
    rows = [
        (begins + event.at_ms, world.node_rows[event.node].name, event.minor, event.xid, None,
         cards.at(names[event.node], event.minor, event.at_ms) or None)
        for event in journal.read(journal.first_kept())
        if isinstance(event, ev.DeviceErrorSeen)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=ERRORS, orient="row")


def _gpus(pieces: Iterable[Piece]) -> int:
    return sum(piece.devices.bit_count() if not piece.slices else 1 for piece in pieces)


def _is_on(pieces: Iterable[Piece], node: int) -> bool:
    return any(piece.node == node for piece in pieces)
