"""``tidemill stragglers``: slow ranks, nodes and devices, with evidence and what waiting cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import activity, options, screen
from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.cli.held_by import JournalHoldings
    from tidemill.live.measured.loops import Launch
    from tidemill.live.measured.slow_devices import DeviceStragglers
    from tidemill.live.measured.stragglers import Stragglers

SHOWN = 20

EXAMPLES = options.example(
    "tidemill stragglers --track /shared/track",
    "tidemill stragglers fleet.sqlite --track /shared/track --job pretrain-70b",
    "tidemill stragglers fleet.sqlite --prometheus activity",
    "tidemill stragglers --track /shared/track --usd-per-hour 2.50 --json",
)

Track = Annotated[
    Path | None,
    typer.Option(
        "--track",
        help="Records that the ranks of jobs wrote with tidemill.track: a file or a folder.",
    ),
]


def stragglers(
    journal: options.JournalIfAny = None,
    track: Track = None,
    prometheus: activity.Source = None,
    ahead: activity.Ahead = activity.AHEAD,
    job: Annotated[str, typer.Option("--job", help="Only this job.")] = "",
    usd_per_hour: Annotated[
        float | None,
        typer.Option("--usd-per-hour", min=0, help="Price of one GPU, where no journal says it."),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", min=0, help="How many suspects to show (0: all).")
    ] = SHOWN,
    as_json: options.Json = False,
) -> None:
    """Slow ranks, nodes and devices among their peers: since when, how sure, what waiting cost."""
    from tidemill.cli import held_by

    _refuse_too_little(journal, track, prometheus)
    held = None if journal is None else held_by.read(journal)
    launches = [] if track is None else _launches(track, held, job)
    found = _found(launches, held, usd_per_hour)
    devices = None
    if prometheus is not None and held is not None:
        devices = _devices(activity.ActivityOptions(prometheus, ahead=ahead), held, job)
    if as_json:
        _print_json(found, devices)
        return
    from tidemill.cli import straggler_tables as tables

    calendar = tables.calendar_of(launches) if held is None else held.calendar
    if track is not None:
        tables.print_ranks(found, calendar, top)
    if devices is not None:
        tables.print_devices(devices, calendar, top)


def _refuse_too_little(journal: str | None, track: Path | None, prometheus: str | None) -> None:
    if track is None and prometheus is None:
        raise SpecError(
            "neither step times (--track) nor device figures (--prometheus) were given; a journal"
            " keeps neither by rank or device",
            hint="give --track FOLDER (what tidemill.track wrote), or a journal and --prometheus",
        )
    if prometheus is not None and journal is None:
        raise SpecError(
            "--prometheus tells what GPUs did, and no journal says which job held them",
            hint="give the journal that `tidemill import` or `tidemill observe` made",
        )


def _launches(track: Path, held: "JournalHoldings | None", job: str) -> "list[Launch]":
    """What was tracked, by the names of the journal's jobs where there is one."""
    from tidemill.cli.imports import tracked
    from tidemill.live.measured import launch_names

    told = tracked(track)
    if held is not None:
        names = launch_names.names_in(told, set(held.whose.attempts["job"].to_list()))
        told = [launch._replace(job=names.get(launch.job, launch.job)) for launch in told]
    if job and not any(launch.job == job for launch in told):
        some = sorted({launch.job for launch in told})
        raise SpecError(
            f"--job is `{job}`; the records are of {screen.count(len(some), 'job')}, and none has"
            " that name",
            hint=f"they are: {', '.join(some[:5])}{' …' if len(some) > 5 else ''}",
        )
    return [launch for launch in told if job in ("", launch.job)]


def _found(
    launches: "list[Launch]", held: "JournalHoldings | None", usd_per_hour: float | None
) -> "Stragglers":
    from tidemill.live.measured import stragglers as measured

    prices: dict[str, int] = {} if held is None else dict(held.usd_micro_per_hour)
    if usd_per_hour is not None:
        prices.setdefault(measured.ANY_JOB, round(usd_per_hour * 1_000_000))
    with screen.progress("comparing ranks"):
        return measured.find(launches, prices)


def _devices(
    asked: activity.ActivityOptions, held: "JournalHoldings", job: str
) -> "DeviceStragglers":
    from tidemill.live.measured import slow_devices
    from tidemill.live.prometheus.joining import HeldGpus

    whose = held.whose
    if job:
        import polars as pl

        whose = whose._replace(attempts=whose.attempts.filter(pl.col("job") == job))
    hours, ahead_ms = activity.hours_of(asked, whose, (None, held.end_ms))
    return slow_devices.find(hours, HeldGpus(whose, ahead_ms))


def _print_json(found: "Stragglers", devices: "DeviceStragglers | None") -> None:
    import msgspec

    from tidemill.workload.slow.peers import RULE

    made: Mapping[str, object] = {
        "rule": RULE._asdict(), "ranks": found.document(),
        "devices": None if devices is None else devices.document(),
    }  # fmt: skip
    screen.json_out(msgspec.json.format(msgspec.json.encode(made), indent=2))
