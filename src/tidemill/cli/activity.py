"""``--prometheus`` or ``--nvidia-smi`` of every import: what GPUs measured while the jobs ran."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tidemill.cli import prometheus, screen
from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    import polars as pl

    from tidemill.live.measured.windows import Measurements
    from tidemill.live.prometheus.joining import Activity, Whose
    from tidemill.live.prometheus.reading import Hour

Source = Annotated[
    str | None,
    typer.Option(
        "--prometheus",
        help="Activity of the GPUs: the address of a Prometheus that has dcgm-exporter's metrics"
        " (a token from $TIDEMILL_PROMETHEUS_TOKEN), or a folder that `tidemill prometheus fetch`"
        " made.",
        metavar="URL|FOLDER",
    ),
]
Smi = Annotated[
    list[str] | None,
    typer.Option(
        "--nvidia-smi",
        help="Activity of the GPUs from files: what `nvidia-smi --query-gpu=… --format=csv -l N` or"
        " `nvidia-smi dmon -o DT` wrote, or a folder of such files. NODE= says of which node, where"
        " no file or folder is called as one. May be repeated.",
        metavar="[NODE=]PATH",
    ),
]
SmiZone = Annotated[
    str | None,
    typer.Option(
        "--nvidia-smi-zone",
        help="The time zone of the nodes on which nvidia-smi ran: it prints none.",
        metavar="ZONE",
    ),
]
SmiAhead = Annotated[
    str,
    typer.Option(
        "--nvidia-smi-ahead",
        help="How far the clocks of those nodes were ahead of the cluster's (-30s: behind it).",
        metavar="TIME",
    ),
]
Resolution = Annotated[
    str,
    typer.Option(
        "--resolution",
        help="Average activity over so long (files of nvidia-smi: over a minute).",
        metavar="TIME",
    ),
]
Ahead = Annotated[
    str,
    typer.Option(
        "--prometheus-ahead",
        help="How far the clock of Prometheus was ahead of the cluster's (-30s: behind it).",
        metavar="TIME",
    ),
]
TrackAhead = Annotated[
    str,
    typer.Option(
        "--track-ahead",
        help="How far the clocks of tracked loops were ahead of the cluster's (-300s: behind it).",
        metavar="TIME",
    ),
]
Patience = Annotated[
    str,
    typer.Option(
        "--patience",
        help="How long to go on asking a Prometheus that does not answer.",
        metavar="TIME",
    ),
]
RESOLUTION, AHEAD, PATIENCE = "5m", "0s", "15s"


class ActivityOptions(NamedTuple):
    """What was asked for on the command line (``options.takes_groups``)."""

    prometheus: Source = None
    resolution: Resolution = RESOLUTION
    ahead: Ahead = AHEAD
    patience: Patience = PATIENCE
    track_ahead: TrackAhead = AHEAD
    nvidia_smi: Smi = None
    nvidia_smi_zone: SmiZone = None
    nvidia_smi_ahead: SmiAhead = AHEAD

    @property
    def is_any(self) -> bool:
        """Whether anybody measured GPUs."""
        return self.prometheus is not None or bool(self.nvidia_smi)

    @property
    def resolution_ms(self) -> int:
        """The length of a window."""
        return screen.span_ms(self.resolution, "--resolution") or 0

    @property
    def ahead_ms(self) -> int:
        """How far the clock of Prometheus was ahead."""
        return signed_ms(self.ahead, "--prometheus-ahead")

    @property
    def smi_ahead_ms(self) -> int:
        """How far the clocks of nodes whose nvidia-smi wrote files were ahead."""
        return signed_ms(self.nvidia_smi_ahead, "--nvidia-smi-ahead")

    @property
    def track_ahead_ms(self) -> int:
        """How far the clocks of tracked loops were ahead."""
        return signed_ms(self.track_ahead, "--track-ahead")


def signed_ms(text: str, option: str) -> int:
    """A length of time as typed, with a sign or without."""
    sign = -1 if text.startswith("-") else 1
    return sign * (screen.span_ms(text.lstrip("+-"), option) or 0)


NOBODY = ActivityOptions()
_FILES = "nvidia-smi"
"""Who says it, where files of nvidia-smi do."""


def measured_of(
    asked: ActivityOptions,
    whose: "Whose",
    start_ms: int | None,
    end_ms: int | None,
    ups: "pl.DataFrame | None" = None,
) -> "Measurements | None":
    """What devices measured of these jobs; None where nobody asked.

    ``ups``: when loops came up, as they told it (``windows.UPS``).
    """
    from msgspec.structs import replace

    from tidemill.live.measured.windows import nothing
    from tidemill.live.prometheus.contradicting import DevicesAgainst, by_bare_name

    if not asked.is_any:
        return None
    if asked.prometheus is not None and asked.nvidia_smi:
        raise SpecError(
            "both --prometheus and --nvidia-smi say what GPUs did",
            hint="give the one that knows more of your nodes",
        )
    # how nodes are now says nothing of the past
    past = {name: replace(node, now=None) for name, node in by_bare_name(whose.nodes).items()}
    if asked.prometheus is None:
        against = DevicesAgainst(_FILES, past, whose.attempts, asked.smi_ahead_ms)
        found = read_files(asked, whose, (start_ms, end_ms), ups, against.take)
    else:
        against = DevicesAgainst(asked.prometheus, past, whose.attempts, asked.ahead_ms)
        found = read(asked, asked.prometheus, whose, (start_ms, end_ms), against.take)
    for text in found.notes:
        screen.note(text)
    if len(found.xids):
        screen.note(_errors(found))
    windows = found.measured()
    for text in _underused(windows, whose):
        screen.note(text)
    told = nothing()._replace(windows=windows, errors=found.errors(), loads=found.loads)
    return told.with_against(against.found())


def read(
    asked: ActivityOptions,
    source: str,
    whose: "Whose",
    span: tuple[int | None, int | None],
    on_hour: "Callable[[Hour], None] | None" = None,
) -> "Activity":
    """The activity of jobs from an address or a folder, in the time in which they ran.

    ``on_hour`` is called with each hour as it is read.
    """
    from tidemill.live.prometheus import joining

    hours, ahead_ms = hours_of(asked._replace(prometheus=source), whose, span)
    watched = hours if on_hour is None else _watched(hours, on_hour)
    return joining.join(watched, whose, asked.resolution_ms, ahead_ms)


def read_files(
    asked: ActivityOptions,
    whose: "Whose",
    span: tuple[int | None, int | None],
    ups: "pl.DataFrame | None" = None,
    on_hour: "Callable[[Hour], None] | None" = None,
) -> "Activity":
    """The same from files that nvidia-smi wrote, minute by minute."""
    from tidemill.live.measured import joining as measured
    from tidemill.live.nvidia_smi import hours
    from tidemill.live.prometheus import joining
    from tidemill.live.prometheus.minutes import MINUTE_MS
    from tidemill.live.slurm.times import zone_of

    if asked.nvidia_smi_zone is None:
        raise SpecError(
            "nvidia-smi prints times of day without a zone, and nobody says which it is",
            hint="say it with --nvidia-smi-zone (such as UTC or Europe/Berlin): `date +%Z` on that"
            " node shows it",
        )
    zone, ahead_ms = str(zone_of(asked.nvidia_smi_zone)), asked.smi_ahead_ms
    names = {node.machine_name for node in whose.nodes}
    if "nodes" in whose.attempts.columns:
        names |= {*whose.attempts["nodes"].explode().drop_nulls().to_list()}
    files = hours.sources(asked.nvidia_smi or (), zone, sorted(names))
    if ups is not None:
        whose = whose._replace(attempts=measured.cut_at_ups(whose.attempts, ups))
    start_ms, end_ms = (ms + ahead_ms for ms in _ran(whose, *span))
    cuts = hours.cuts_of(whose.attempts, ahead_ms)
    told = _within(hours.read(files, cuts, start_ms, end_ms), start_ms, end_ms)
    watched = told if on_hour is None else _watched(told, on_hour)
    with screen.progress("reading what nvidia-smi wrote"):
        found = joining.join(watched, whose, MINUTE_MS, ahead_ms)
    for one in files:
        for text in one.file.notes():
            screen.note(text)
    return found


def hours_of(
    asked: ActivityOptions, whose: "Whose", span: tuple[int | None, int | None]
) -> "tuple[Iterator[Hour], int]":
    """The hours in which jobs ran, and how far their clock is ahead of the jobs', in ms."""
    assert asked.prometheus is not None, "somebody asked"
    ahead = asked.ahead_ms
    start_ms, end_ms = _ran(whose, *span)
    start_ms, end_ms = start_ms + ahead, end_ms + ahead
    return _within(_hours(asked, asked.prometheus, start_ms, end_ms), start_ms, end_ms), ahead


def _within(hours: "Iterator[Hour]", start_ms: int, end_ms: int) -> "Iterator[Hour]":
    """Of hours, which are read and kept whole, the minutes that were asked for."""
    import polars as pl

    from tidemill.live.prometheus.minutes import MINUTE_MS

    is_asked = (pl.col("at_ms") > start_ms - MINUTE_MS) & (pl.col("at_ms") < end_ms - 1)
    for hour in hours:
        gpus, nodes, loads = (one.filter(is_asked) for one in (hour.gpus, hour.nodes, hour.loads))
        yield hour._replace(gpus=gpus, nodes=nodes, loads=loads)


def _watched(hours: "Iterator[Hour]", on_hour: "Callable[[Hour], None]") -> "Iterator[Hour]":
    for hour in hours:
        on_hour(hour)
        yield hour


def _hours(asked: ActivityOptions, source: str, start_ms: int, end_ms: int) -> "Iterator[Hour]":
    from tidemill.live.prometheus import fetching, store
    from tidemill.live.prometheus.client import Access, Client

    if not fetching.is_address(source):
        folder = fetching.folder_of(source)
        prometheus.say_skew(folder.about.ahead_ms)
        yield from store.kept(folder, start_ms, end_ms)
        return
    patience_s = (screen.span_ms(asked.patience, "--patience") or 0) / 1000
    with (
        Client(
            source,
            Access.told(),
            patience_s=patience_s,
            timeout_s=fetching.ANSWER_S,
            within_s=fetching.answers_s(start_ms, end_ms),
            on_retry=screen.note,
        ) as client,
        screen.progress(f"reading {client.url}") as update,
    ):
        prometheus.say_skew(client.clock_ahead_ms())
        yield from fetching.read(client, start_ms, end_ms, update)
        prometheus.say_warnings(client)


def _ran(whose: "Whose", start_ms: int | None, end_ms: int | None) -> tuple[int, int]:
    """From the first start to the last that is known, within what was asked for."""
    rows = whose.attempts
    first, last = rows["start_ms"].min(), rows.select("start_ms", "end_ms").max().row(0)
    begins = max(ms for ms in (first, start_ms, 0) if isinstance(ms, int))
    ends = max((ms for ms in last if isinstance(ms, int)), default=begins)
    return begins, max(begins, ends if end_ms is None else end_ms) + 1


def _errors(found: "Activity") -> str:
    """The errors that drivers reported, by code, and which GPU had the last one."""
    from tidemill.units.catalogue import xids

    by_code: Mapping[int, int] = dict(found.xids.group_by("xid").len().sort("xid").iter_rows())
    held = found.xids["job"].drop_nulls().n_unique()
    told = ", ".join(f"{xids.words(code)}: {count:,}" for code, count in by_code.items())
    last = found.xids.row(-1, named=True)
    number = f"GPU {last['minor']} of " if last["minor"] >= 0 else ""
    which = f" ({last['uuid']})" if last["uuid"] else ""
    return (
        f"errors that GPU drivers reported: {told}; on GPUs of {screen.count(held, 'job')}; the"
        f" last: XID {last['xid']} on {number}`{last['node']}`{which}"
    )


def _underused(windows: "pl.DataFrame", whose: "Whose") -> Iterator[str]:
    """Jobs that held whole GPUs and used little of them on every axis."""
    from tidemill.live.measured import underused

    found = underused.find(windows, whose.attempts, {})
    if found.jobs:
        hours, first = sum(job.gpu_hours for job in found.jobs), found.jobs[0]
        yield (
            f"under-used whole GPUs: {screen.count(len(found.jobs), 'job')} of"
            f" {screen.count(len(found.users), 'user')} used less than half of compute, memory"
            f" bandwidth and memory in {hours:,.1f} measured GPU-hours; the most: job"
            f" `{first.job}`, {first.gpu_hours:,.1f} hours ({first.compute_ppm / 10_000:.0f} %,"
            f" {first.bandwidth_ppm / 10_000:.0f} %, {first.memory_ppm / 10_000:.0f} %)"
        )
    if found.unknown:
        yield (
            f"{screen.count(found.unknown, 'job')} not judged as under-used or not: compute,"
            " memory bandwidth (DCGM 1005) or memory is not known of them"
        )
