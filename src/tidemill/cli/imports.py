"""``tidemill import``: the books of what a cluster did, from what it can export. Read-only."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tidemill.cli import activity, given, options, screen, twin
from tidemill.model.errors import SpecError
from tidemill.model.rows import whole_type

if TYPE_CHECKING:
    import polars as pl

    from tidemill.live.history.events import History
    from tidemill.live.history.gathered import GatheredRows
    from tidemill.live.history.rows import SeenNode
    from tidemill.live.measured.loops import Launch
    from tidemill.live.measured.windows import Measurements
    from tidemill.live.prometheus.joining import Whose

app = typer.Typer(
    help="Bring the history of a real cluster onto the books: what happened, not a simulation.",
    epilog=options.example(
        "tidemill import csv jobs.csv --nodes nodes.csv --usd-per-hour 2.50 -j fleet.sqlite",
        "tidemill ledger fleet.sqlite --by team",
    ),
    no_args_is_help=True,
)

Zone = Annotated[
    str, typer.Option("--zone", help="The time zone of dates without one.", metavar="ZONE")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="The machines are paid for since this date (default: the first submission).",
        metavar="DATE",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--to", help="When the export was made (default: the last time in it).", metavar="DATE"
    ),
]

Track = Annotated[
    Path | None,
    typer.Option(
        "--track",
        help="Records that the jobs' own loops wrote with tidemill.track: a file or a folder.",
    ),
]

CSV_EXAMPLES = options.example(
    "tidemill import csv jobs.csv --usd-per-hour 2.50 -j fleet.sqlite",
    "tidemill import csv jobs.csv --nodes nodes.csv --map gpus=num_gpus,start=start_time",
    "tidemill import csv jobs.csv --zone Europe/Berlin --usd-per-hour H100=2.80,A100=1.60",
)


@app.command("csv", epilog=CSV_EXAMPLES)
@options.takes_journal
@options.takes_groups
def csv(
    jobs: Annotated[Path, typer.Argument(help="A table of jobs, one row per job or attempt.")],
    journal: options.Target = options.DEFAULT_JOURNAL,
    nodes: Annotated[
        Path | None, typer.Option("--nodes", help="A table of nodes: node, gpus, gpu_type, …")
    ] = None,
    mapped: Annotated[
        list[str] | None,
        typer.Option("--map", help="FIELD=COLUMN where the guess is wrong; may be repeated."),
    ] = None,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            "--outcome",
            help="WORD=OUTCOME of a job, in words that are not known; may be repeated.",
        ),
    ] = None,
    said: given.Given = given.NOTHING,
    zone: Zone = "UTC",
    dates: Annotated[
        str,
        typer.Option(
            "--dates",
            help="How dates such as 03/04/2026 are meant: day-first or month-first.",
            metavar="ORDER",
        ),
    ] = "",
    start: From = None,
    end: Until = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave broken rows out and count them.")
    ] = False,
    track: Track = None,
    asked: activity.ActivityOptions = activity.NOBODY,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """The books of a table of jobs: any header, guessed and shown."""
    from tidemill.journal.source import OUT
    from tidemill.live.csv import dates as written
    from tidemill.live.csv import headers, outcomes, tables
    from tidemill.live.history import clusters
    from tidemill.live.prometheus.joining import Whose

    refuse_target(journal, *(path for path in (jobs, nodes) if path), force=force)
    told = headers.told_map(mapped or ())
    table = tables.read_jobs(
        jobs, told, checked_zone(zone), skips_broken=skip_broken, first=written.told(dates),
        ends=outcomes.told(outcome or ()),
    )  # fmt: skip
    screen.note("columns: " + ", ".join(f"{k} = `{v}`" for k, v in table.guessed.items()))
    for text in table.notes:
        screen.note(text)
    listed, by_type = _listed_nodes(nodes) if nodes else ([], {})
    window, attempts = BooksWindow.read(start, end, zone), table.attempts
    if "cluster" in attempts.columns:
        attempts = clusters.by_cluster(attempts, listed)
    whose = Whose(attempts, nodes=listed)
    if table.shapes:
        is_part = attempts["shape"].is_not_null().alias("is_part")
        whose = whose._replace(attempts=attempts.with_columns(is_part))
    measured = measured_of(track, asked, whose, *window[:2])
    del whose
    said = said._replace(by_type=by_type)
    history = build(attempts, listed, said, window, measured, shapes=table.shapes)
    history = history._replace(untold_states=OUT)
    del table, attempts  # what is needed of it is in the history
    keep(history, journal, jobs.name, zone, force=force, as_json=as_json)


def _listed_nodes(path: Path) -> "tuple[list[SeenNode], dict[str, int]]":
    """A table of nodes, and what was made of its columns, said."""
    from tidemill.live.csv import tables

    found = tables.read_nodes(path)
    told = {
        field: f"`{column}`" + (" (dollars per GPU and hour)" if field == "usd_per_hour" else "")
        for field, column in found.guessed.items()
    }
    screen.note(f"`{path.name}`: " + ", ".join(f"{k} = {v}" for k, v in told.items()))
    for text in found.notes:
        screen.note(f"`{path.name}`: {text}")
    return found.nodes, found.prices


TRACK_EXAMPLES = options.example(
    "TIDEMILL_TRACK=/shared/track python train.py",
    "tidemill import track /shared/track --gpu-type H200 --usd-per-hour 3.50 -j loops.sqlite",
    "tidemill ledger loops.sqlite --by job",
)


@app.command("track", epilog=TRACK_EXAMPLES)
@options.takes_variable
def track_command(
    path: Annotated[
        Path, typer.Argument(help="A file of records, or a folder of them (TIDEMILL_TRACK).")
    ],
    journal: options.Target = options.DEFAULT_JOURNAL,
    gpu_type: Annotated[
        str, typer.Option("--gpu-type", help="Which GPUs the loops ran on.", metavar="TYPE")
    ] = "",
    usd_per_hour: given.PerHour = None,
    prices: given.PriceFiles = None,
    list_prices: given.ListPrices = False,
    assume: given.Assumed = None,
    zone: Zone = "UTC",
    start: From = None,
    end: Until = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """The books of training loops by themselves, as they told them with tidemill.track."""
    from tidemill.journal.source import OUT
    from tidemill.live.measured import launch_names, tracking

    refuse_target(journal, path, force=force)
    told = tracked(path)
    attempts = launch_names.attempts(told, gpu_type=gpu_type)
    said = given.Given(usd_per_hour, prices, list_prices, assume)
    measured, window = tracking.measured(told), BooksWindow.read(start, end, zone)
    if window.end_ms is None:  # loops that were killed, or still run, were there until they spoke
        window = window._replace(end_ms=max(launch.last_us for launch in told) // 1000)
    history = build(attempts, [], said, window, measured)._replace(untold_states=OUT)
    keep(history, journal, path.name, checked_zone(zone), force=force, as_json=as_json)


SLURM_EXAMPLES = options.example(
    "sacct -aPD -S 2026-10-01 -o ALL > jobs.txt; scontrol -o show node > nodes.txt",
    "tidemill import slurm jobs.txt nodes.txt --zone Europe/Berlin --usd-per-hour 2.50"
    " -j fleet.sqlite",
    "tidemill import slurm jobs.json nodes.json --from 2026-10-01 --usd-per-hour H100=2.80",
    "tidemill import slurm jobs.txt nodes.txt --prometheus http://prometheus:9090"
    " --usd-per-hour 2.50",
)


@app.command("slurm", epilog=SLURM_EXAMPLES)
@options.takes_variable
@options.takes_groups
def slurm(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="What sacct, squeue, sinfo, scontrol show job|node|partition|reservation or"
            " sacctmgr show event|reservation|assoc|qos printed, as text (with a header: -P) or"
            " --json: files, or folders of such files; each is told by its content."
        ),
    ],
    journal: options.Target = options.DEFAULT_JOURNAL,
    said: given.Given = given.NOTHING,
    zone: Annotated[
        str | None,
        typer.Option("--zone", help="The time zone that Slurm printed dates in.", metavar="ZONE"),
    ] = None,
    start: From = None,
    end: Until = None,
    track: Track = None,
    asked: activity.ActivityOptions = activity.NOBODY,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """The books of a Slurm cluster, from what its own commands print."""
    from tidemill.live.prometheus import instances
    from tidemill.live.prometheus.joining import Whose
    from tidemill.live.slurm import suspended, translate

    refuse_target(journal, *files, force=force)
    shown = checked_zone(zone or "UTC")
    with screen.progress("reading " + ", ".join(path.name for path in files)):
        past = translate.read(files, zone)
    for name, refusals in past.refused.items():
        screen.note(f"`{name}`: {screen.count(refusals.total, 'record')} left out")
        for refusal in refusals.kept[:5]:
            screen.note(f"  {refusal.words()}")
    for text in past.notes:
        screen.note(text)
    if not len(past.parts):
        left = sum(refusals.total for refusals in past.refused.values())
        raise _no_job(files, left, "sacct --allusers --parsable2 --duplicates --format ALL > FILE")
    window = BooksWindow.read(start, end, shown)
    measured = None
    if track is not None or asked.is_any:
        attempts = instances.with_instances(past.attempts, past.shapes)
        whose = Whose(attempts, numbers=past.numbers, nodes=past.nodes)
        measured = measured_of(track, asked, whose, *window[:2])
        del whose, attempts
    measured = suspended.beside(measured, past.paused)
    history = build(
        past.parts, past.nodes, said, window, measured, queues=past.queues, shapes=past.shapes
    )._replace(
        untold_states=past.untold_states, deciders=past.deciders, kinds=past.kinds,
        site=past.site,
    )  # fmt: skip
    del past  # what is needed of it is in the history
    keep(history, journal, files[0].name, shown, force=force, as_json=as_json)


KUBERNETES_EXAMPLES = options.example(
    "kubectl get nodes,pods,jobs,events -A -o json > cluster.json",
    "tidemill import kubernetes cluster.json --usd-per-hour 2.50 -j fleet.sqlite",
    "tidemill import kubernetes exported/ --team-by queue --usd-per-hour H100=2.80",
    "tidemill import kubernetes nodes.json pods.json --team-by label:team --usd-per-hour 2.50",
    "tidemill import kubernetes cluster.json --prometheus http://prometheus:9090",
)


TeamBy = Annotated[
    str,
    typer.Option(
        "--team-by",
        help="What a team is: namespace, queue (Kueue, Volcano, KAI), label:KEY, or file:RULES,"
        " whose rules say what jobs are for, too.",
        metavar="WHAT",
    ),
]


@app.command("kubernetes", epilog=KUBERNETES_EXAMPLES)
@options.takes_variable
@options.takes_groups
def kubernetes(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="What `kubectl get … -o json` printed: files, or folders with such files. Nodes"
            " and pods at least; jobs, events, pod groups, Kueue's objects and more say more."
        ),
    ],
    journal: options.Target = options.DEFAULT_JOURNAL,
    said: given.Given = given.NOTHING,
    team_by: TeamBy = "namespace",
    zone: Zone = "UTC",
    start: From = None,
    end: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="When the files were made (default: the last time in them, such as the last"
            " heartbeat of a node).",
            metavar="DATE",
        ),
    ] = None,
    track: Track = None,
    asked: activity.ActivityOptions = activity.NOBODY,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """The books of a Kubernetes cluster, from what kubectl prints."""
    from tidemill.journal.cluster_kinds import KUBERNETES
    from tidemill.live.kubernetes import translate
    from tidemill.live.prometheus import instances
    from tidemill.live.prometheus.joining import Whose

    refuse_target(journal, *files, force=force)
    shown = checked_zone(zone)
    with screen.progress("reading " + ", ".join(path.name for path in files)):
        past = translate.read(files, team_by)
    if past.refusals:
        screen.note(f"{screen.count(past.refusals, 'object')} left out")
        for refusal in past.refused[:5]:
            screen.note(f"  {refusal.words()}")
    for text in past.notes:
        screen.note(text)
    window = BooksWindow.read(start, end, shown)
    if window.end_ms is None:
        window = window._replace(end_ms=past.seen_ms)
        for text in past.end_notes:
            screen.note(text)
    if not len(past.attempts):
        if not past.is_idle:
            command = "kubectl get nodes,pods,jobs,events -A -o json > FILE"
            raise _no_job(files, past.refusals, f"{command} (pods that request nvidia.com/gpu)")
        window = _of_idle(window)
    more = {"queues": past.queues, "shapes": past.shapes, "is_idle": not len(past.attempts)}
    whose = Whose(instances.with_instances(past.attempts, past.shapes), past.pods, nodes=past.nodes)
    measured = measured_of(track, asked, whose, *window[:2])
    del whose
    history = build(past.attempts, past.nodes, said, window, measured, **more)
    history = history._replace(
        deciders=past.deciders, kinds={"": KUBERNETES}, quota_use=past.quota_use,
        claim_sharers=past.claim_sharers, admission=past.admission,
    )  # fmt: skip
    del past, more  # what is needed of it is in the history
    keep(history, journal, files[0].name, shown, force=force, as_json=as_json)


IDLE_MS = 3_600_000  # an API server keeps events for so long (`--event-ttl`, by default)


def _of_idle(window: "BooksWindow") -> "BooksWindow":
    """Since when a cluster is in the books in which no pod is shown that requests GPUs."""
    screen.note(
        "no pod requests GPUs: the cluster is idle, if these are all its pods (-A). Pods that were"
        " deleted are in no file, so the books are of the last hour; --from DATE: since when you"
        " know it to be idle"
    )
    if window.start_ms is not None or window.end_ms is None:
        return window
    return window._replace(start_ms=window.end_ms - IDLE_MS)


def _no_job(files: Sequence[Path], left_out: int, command: str) -> SpecError:
    """The error for files in which no job is told of."""
    named = ", ".join(f"`{path}`" for path in files[:3]) + (" …" if len(files) > 3 else "")
    why = "; what was left out is said above" if left_out else ""
    do = "mend that, or export it again" if left_out else "add what tells of jobs"
    return SpecError(
        f"{named} {'tells' if len(files) == 1 else 'tell'} of no job with GPUs{why}",
        hint=f"{do}: {command}",
    )


class BooksWindow(NamedTuple):
    """Which time the books are of, in milliseconds since 1970; None: what the data show."""

    start_ms: int | None
    end_ms: int | None
    zone: str

    @classmethod
    def read(cls, start: str | None, end: str | None, zone: str) -> "BooksWindow":
        """As typed."""
        return cls(moment_ms(start, zone, "--from"), moment_ms(end, zone, "--to"), zone)


def build(
    attempts: "pl.DataFrame | GatheredRows",
    nodes: "Iterable[SeenNode]",
    said: given.Given,
    window: BooksWindow,
    measured: "Measurements | None" = None,
    **more: Any,  # noqa: ANN401 - what else ``events.build`` takes
) -> "History":
    """The history of attempts and nodes, with the prices and assumptions that somebody gave.

    The attempts are used up: their columns are gone after it.
    """
    from tidemill.live.history import events

    start_ms, end_ms, zone = window
    books_ms = given.window_of(attempts, start_ms, end_ms)
    rule = said.price_rule(zone, books_ms)
    intent, listed = said.intent(zone), list(nodes)
    if lost := intent.unmatched(listed):
        screen.note(
            f"--spares and --maintenance: no node that is listed is called {', '.join(lost[:5])}"
        )
    history = events.build(
        attempts, intent.of(listed, *books_ms), rule, start_ms, end_ms, measured=measured,
        assumed=said.assumptions(), is_used_up=True, **more,
    )  # fmt: skip
    given.say_prices(history.contracts)
    kinds = [whole_type(row.kind) for row in history.contracts]
    for text in (said.unheard(kinds), *said.unmet(zone, listed, kinds)):
        if text:
            screen.note(text)
    return history


def tracked(path: Path, ahead_ms: int = 0) -> "list[Launch]":
    """The launches that records tell of; what could not be read is noted."""
    from tidemill.live import foreign
    from tidemill.live.measured import loops, saves, tracking
    from tidemill.live.track import records
    from tidemill.live.track.reader import TrackReader

    foreign.refuse(path, "track")
    reader = TrackReader()
    with screen.progress(f"reading {path.name}"):
        read = reader.stream(path)
        told = loops.launches(records.moved(record, 1000 * ahead_ms) for record in read)
    if reader.refused_in_all:
        screen.note(f"{path}: {screen.count(reader.refused_in_all, 'line')} left out")
        for refused in reader.refused[:5]:
            screen.note(f"  {refused}")
    for cut in reader.truncated:
        screen.note(f"{cut}: ends within a line: its writer was killed, or is writing")
    if gaps := reader.gaps():
        missing = screen.count(sum(gap.last - gap.first + 1 for gap in gaps), "record")
        screen.note(f"{path}: {missing} lost on the way: their time is not measured")
    for text in (*tracking.said_silent(told), *saves.said_counted_again(told)):
        screen.note(text)
    if not told:
        raise SpecError(
            f"`{path}` holds no records of tidemill.track",
            hint=foreign.hint(path, "track")
            or "give the folder that TIDEMILL_TRACK named in the job, or one file in it",
        )
    return told


def measured_of(
    track: Path | None,
    asked: activity.ActivityOptions,
    whose: "Whose",
    start_ms: int | None,
    end_ms: int | None,
) -> "Measurements | None":
    """What loops and devices measured of jobs that a scheduler tells of."""
    from tidemill.live.measured import windows

    by_loops = loops_of(track, asked.track_ahead_ms, whose, end_ms)
    ups = None if by_loops is None else by_loops.ups
    by_devices = activity.measured_of(asked, whose, start_ms, end_ms, ups)
    if by_loops is None or by_devices is None:
        return by_loops or by_devices
    return windows.both(by_loops, by_devices)


def loops_of(
    path: Path | None, ahead_ms: int, whose: "Whose", end_ms: int | None
) -> "Measurements | None":
    """What loops measured, joined to the jobs by name, number or pod.

    ``ahead_ms``: how far their clocks were ahead; ``end_ms``: up to when jobs are shown.
    """
    from tidemill.live.measured import clocks, launch_names, loops, tracking

    if path is None:
        return None
    told = tracked(path, ahead_ms)
    names = launch_names.names_in(told, set(whose.attempts["job"].to_list()), whose.pods)
    known = [launch for launch in told if launch.job in names]
    if len(known) < len(told):
        lost = sorted({launch.job for launch in told} - set(names))
        screen.note(
            f"{screen.count(len(lost), 'tracked job')} not found among the jobs:"
            f" {', '.join(lost[:5])}{' …' if len(lost) > 5 else ''}"
        )
    against = [
        *clocks.contradictions(loops.renamed(known, names), whose.attempts, str(path), 0, end_ms)
    ]
    for text in clocks.said(against, len(known)):
        screen.note(text)
    return tracking.measured(known, names).with_against(against)


def keep(
    history: "History", journal: str, name: str, zone: str, *, force: bool, as_json: bool
) -> None:
    """Write a history into a journal and print its ledger."""
    from tidemill import api

    for text in history.notes:
        screen.note(text)
    way = api.replacing_run(journal, is_forced=True) if force else nullcontext()
    with screen.progress(f"booking {history.attempts:,} attempts") as update, way:
        done = api.keep_history(history, journal, name=name, zone=zone, on_progress=update)
    for text in history.said_over:
        screen.note(text)
    twin.print_run(done, as_json)


def refuse_target(journal: str, *files: Path, force: bool) -> None:
    """Refuse to write the journal over what it is to be made of, or unasked over another one."""
    from tidemill import api

    for path in files:
        if path.resolve() == Path(journal).resolve():
            raise SpecError(
                f"`{journal}` is one of the files to read",
                hint="give the journal a name of its own with -j",
            )
    if not force:
        api.refuse_existing(journal, may_resume=False)


def checked_zone(zone: str) -> str:
    """A zone by its name, if this machine knows it."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise SpecError(
            f"--zone is `{zone}`, which is no time zone that this machine knows",
            hint="a name such as Europe/Berlin or UTC (for +02:00 all year: Etc/GMT-2); names need"
            " the system's tzdata, or the Python package tzdata",
        ) from error
    return zone


def moment_ms(text: str | None, zone: str, option: str) -> int | None:
    """A date as milliseconds since 1970."""
    from datetime import datetime
    from zoneinfo import ZoneInfo

    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise SpecError(
            f"{option} is `{text}`, which is no date",
            hint="such as 2026-03-02 or 2026-03-02T06:00+01:00",
        ) from error
    if found.tzinfo is None:
        found = found.replace(tzinfo=ZoneInfo(zone))
    return round(found.timestamp() * 1000)
