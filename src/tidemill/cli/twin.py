"""``tidemill twin``: run a fleet from a file, write one, or replay what was recorded."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.cli import replay as replays
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text

if TYPE_CHECKING:
    from tidemill.api import Run
    from tidemill.twin.offered_load import Load
    from tidemill.twin.spec.tables import Spec

app = typer.Typer(
    help="Simulate a fleet from a file, a seed or a recorded trace.",
    epilog=options.example(
        "tidemill twin generate --accelerators 512 --weeks 2 > fleet.toml",
        "tidemill twin run fleet.toml --journal run.sqlite",
        "tidemill twin import philly.csv.gz --accelerators 512 --journal philly.sqlite",
        "tidemill twin replay fleet.sqlite --policy policy.toml",
        "tidemill twin formats",
    ),
    no_args_is_help=True,
)
app.command("replay", epilog=replays.EXAMPLES)(replays.replay)


@app.command(
    "run",
    epilog=options.example(
        "tidemill twin run fleet.toml run.sqlite",
        "tidemill twin run fleet.toml -j run.sqlite --resume",
    ),
)
@options.takes_journal
def run(
    spec: Annotated[Path, typer.Argument(help="A fleet and its jobs, in TOML.")],
    journal: options.Target = options.DEFAULT_JOURNAL,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Another random seed.")] = None,
    force: options.Force = False,
    resume: options.Resume = False,
    as_json: options.Json = False,
) -> None:
    """Run a fleet that a file describes, and print its ledger."""
    from tidemill import api
    from tidemill.cli import demo_story
    from tidemill.twin import effort

    loaded = demo_story.seeded(api.load_spec(spec), seed)
    _say_notes(loaded)
    if said := effort.expected(loaded).words:
        screen.note(f"note: {said}")
    refuse_both(force, resume)
    way = api.replacing_run(journal, is_forced=True) if force else nullcontext()
    with screen.progress(f"running {spec.name}") as update, going_on(journal), way:
        done = api.simulate(loaded, journal, update, is_resumed=resume)
    print_run(done, as_json)


@app.command(
    "generate",
    epilog=options.example("tidemill twin generate --seed 7 --accelerators 2048 > fleet.toml"),
)
def generate(
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed.")] = 1,
    accelerators: Annotated[
        int,
        typer.Option("--accelerators", "--gpus", min=8, max=1_000_000, help="Size of the fleet."),
    ] = 1024,
    weeks: Annotated[
        int, typer.Option("--weeks", min=1, max=104, help="Length of the run in weeks.")
    ] = 2,
    teams: Annotated[int, typer.Option("--teams", min=1, max=200, help="Number of teams.")] = 4,
) -> None:
    """Write the description of a fleet and its work, to run or to change by hand."""
    from tidemill.twin.spec import template

    typer.echo(template.describe(seed=seed, accelerators=accelerators, weeks=weeks, teams=teams))


@app.command(
    "import",
    epilog=options.example(
        "tidemill twin import philly.csv.gz --accelerators 512 -j philly.sqlite",
        "tidemill twin import openb_pod_list_default.csv --nodes openb_node_list_gpu_node.csv",
        "tidemill twin import trace1.csv --format muri --skip-broken",
    ),
)
@options.takes_journal
def import_(
    trace: Annotated[Path, typer.Argument(help="A recorded trace.")],
    journal: options.Target = options.DEFAULT_JOURNAL,
    form: Annotated[
        str | None, typer.Option("--format", help="The format (default: guess by the header).")
    ] = None,
    accelerators: Annotated[
        int,
        typer.Option(
            "--accelerators",
            "--gpus",
            min=0,
            max=10_000_000,
            help="Size of the fleet; 0: as recorded.",
        ),
    ] = 0,
    per_node: Annotated[
        int,
        typer.Option("--per-node", "--gpus-per-node", min=0, max=64, help="Accelerators per node."),
    ] = 0,
    kind: Annotated[
        str, typer.Option("--gpu-type", "--kind", help="GPU type of the accelerators.")
    ] = "GPU",
    usd_per_hour: Annotated[
        float,
        typer.Option("--usd-per-hour", min=0, max=10_000_000, help="Price of one accelerator."),
    ] = 2.0,
    nodes: Annotated[
        str, typer.Option("--nodes", help="The file that lists the nodes, if there is one.")
    ] = "",
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave broken rows out and count them.")
    ] = False,
    force: options.Force = False,
    resume: options.Resume = False,
    as_json: options.Json = False,
) -> None:
    """Replay a recorded trace through the scheduler, and print its ledger."""
    from tidemill import api
    from tidemill.compiled import collecting
    from tidemill.journal.source import Source
    from tidemill.model.policy import Policy
    from tidemill.twin import traces
    from tidemill.twin.backend import Twin
    from tidemill.twin.traces.options import Options

    told = Options(
        accelerators=accelerators, per_node=per_node, kind=kind, nodes=nodes,
        usd_micro_per_hour=round(usd_per_hour * 1_000_000), skip_broken=skip_broken,
    )  # fmt: skip
    refuse_both(force, resume)
    if not force and not resume:
        api.refuse_existing(journal)
    with screen.progress(f"reading {trace.name}"), collecting.kept():
        try:
            read = traces.load(trace, form, told)
        except SpecError as error:
            raise _of_a_cluster(trace, error) from error
    for text in (*read.notes, *read.broken):
        screen.note(text)
    if not any(a.job.checkpointing.interval_ms for a in read.arrivals):
        screen.note("the trace does not mention checkpoints: an evicted job loses all its work")
    if read.skipped:
        screen.note(f"{screen.count(read.skipped, 'broken row')} left out")
    way = api.replacing_run(journal, is_forced=True) if force else nullcontext()
    begun = api.begun_from(trace, told.nodes, said=repr((form, told)))
    replaying = f"replaying {count_text(len(read.arrivals), 'job')}"
    with screen.progress(replaying) as update, going_on(journal), way:
        end_ms = max((a.at_ms for a in read.arrivals), default=0)
        done = api.run(
            Twin.from_trace(read), Policy(), journal=journal, name=read.name,
            calendar=read.calendar, begun=begun, is_resumed=resume,
            source=Source.TRACE,
            on_progress=lambda at_ms, _: update(min(at_ms, end_ms), end_ms),
        )  # fmt: skip
    print_run(done, as_json)


@app.command("load", epilog=options.example("tidemill twin load fleet.toml"))
def load(
    spec: Annotated[Path, typer.Argument(help="A fleet and its jobs, in TOML.")],
    as_json: options.Json = False,
) -> None:
    """How much work a file asks for, against what it pays for: will it queue?"""
    import msgspec

    from tidemill import api
    from tidemill.twin.offered_load import measure

    loaded = api.load_spec(spec)
    _say_notes(loaded)
    found = measure(loaded)
    if as_json:
        screen.json_out(msgspec.json.encode(_load_document(found)))
        return
    made = screen.table("team", "GPU types", "jobs", "accelerator-hours", right_from=2)
    for asked in found.asked:
        kinds = ", ".join(asked.kinds) or "any"
        made.add_row(asked.team, kinds, f"{asked.jobs:,}", f"{asked.accelerator_hours:,.0f}")
    screen.out().print(made)
    _print_parts(found)


def _load_document(found: "Load") -> dict[str, object]:
    """The load as JSON; a share is null where there is work and nothing to do it."""
    parts = [
        part._asdict() | {"share": part.share, "busiest_hour": part.busiest} for part in found.parts
    ]
    whole = {"asked": [asked._asdict() for asked in found.asked], "parts": parts}
    return found._asdict() | whole | {"share": found.share}


def _print_parts(found: "Load") -> None:
    made = screen.table(
        "GPU type", "GPUs", "GPU-hours that need it", "GPU-hours there", "offered load",
        "busiest hour",
    )  # fmt: skip
    for part in found.parts[:-1] if len(found.parts) > 1 else ():
        made.add_row(
            " or ".join(part.kinds), f"{part.accelerators:,}", f"{part.accelerator_hours:,.0f}",
            f"{part.paid_hours:,.0f}", _percent(part.share), _percent(part.busiest),
        )  # fmt: skip
    if made.row_count:
        screen.out().print(made)
    screen.out().print(
        f"offered load {_percent(found.share)} of"
        f" {count_text(found.parts[-1].accelerators, 'accelerator')},"
        f" {_percent(found.parts[-1].busiest)} in the busiest hour"
    )
    for part in found.short:
        screen.out().print(
            f"{' or '.join(part.kinds)} is short: the work that can run nowhere else is"
            f" {_percent(part.share)}"
            " of the capacity there, so its queue grows to the end"
        )
    if found.late:
        screen.note(f"{screen.count(len(found.late), 'job')} after the horizon not counted")


def _percent(share: float) -> str:
    return "no capacity" if share == float("inf") else f"{share:.0%}"


def _say_notes(spec: "Spec") -> None:
    for text in spec.notes:
        screen.note(f"note: {text}")


def _of_a_cluster(path: Path, error: SpecError) -> SpecError:
    """The same refusal; of a file that an import of histories reads, with the command for it."""
    from tidemill.live import foreign

    other = foreign.known(path)
    if other is None or not other.source:
        return error
    return SpecError(error.message, hint=f"it {other.what}; for what happened: {other.hint}")


@app.command("formats", epilog=options.example("tidemill twin formats"))
def formats() -> None:
    """The trace formats that can be imported."""
    from tidemill.twin import traces

    made = screen.table("format", "what it is", right_from=2)
    for name, about in traces.formats().items():
        made.add_row(name, about)
    screen.out().print(made)


def refuse_both(force: bool, resume: bool) -> None:
    """Refuse to begin anew and to continue at once."""
    if force and resume:
        raise SpecError("--force starts anew, --resume continues", hint="give one of them")


@contextmanager
def going_on(journal: str) -> Iterator[None]:
    """Say how to go on when a run is stopped from the keyboard."""
    try:
        yield
    except KeyboardInterrupt:
        screen.note(f"interrupted; what there is of it is in {journal}. The same command with"
                    " --resume goes on")  # fmt: skip
        raise


def print_run(done: "Run", as_json: bool) -> None:
    from tidemill.cli import demo_story, ledger_tables
    from tidemill.cli.ledger import print_json

    if as_json:
        print_json(done.statement, None, None, done.where)
        return
    for line in demo_story.scene(done):
        screen.out().print(line)
    ledger_tables.print_ledger(done.statement)
    screen.out().print(ledger_tables.fixes(done.statement, done.where), soft_wrap=True)
    ledger_tables.print_alarms(done.statement)
    screen.note(f"journal: {done.where}")
