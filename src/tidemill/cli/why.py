"""``tidemill why``, ``pending`` and ``fit``: why it waits, what waits, and when it would start."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.model.errors import SpecError
from tidemill.model.measures import duration_text

if TYPE_CHECKING:
    from tidemill.explain.answers import Answer, Band, Board, Certificate, Forecast
    from tidemill.journal.moments import Calendar
    from tidemill.model.rows import Job
    from tidemill.model.world import World

WHY_EXAMPLES = options.example(
    "tidemill why train-0042 -j out/demo.sqlite",
    "tidemill why train-0042 --at 3d12h --nodes",
    "tidemill why train-0042 --eta --json",
)
PENDING_EXAMPLES = options.example(
    "tidemill pending -j out/demo.sqlite",
    "tidemill pending --at 3d12h --eta",
    "tidemill pending --at 3d12h --json",
)
FIT_EXAMPLES = options.example(
    "tidemill fit --team research --gpus 64 --per-node 8 --kind H100 --hours 12",
    "tidemill fit --team research --gpus 4 --profile 1g.10gb",
    "tidemill fit --job job.json -j out/demo.sqlite --json",
)


def why(
    job: Annotated[str, typer.Argument(help="The name of a job.")],
    journal: options.Journal = options.DEFAULT_JOURNAL,
    at: options.At = None,
    nodes: Annotated[bool, typer.Option("--nodes", help="Also show what every node says.")] = False,
    eta: Annotated[
        bool, typer.Option("--eta", help="Also say when it should start (takes longer).")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Why does this job wait? Four questions, the cause, its owner, the fix and its price."""
    import msgspec

    from tidemill import explain
    from tidemill.cli.moment import world_at
    from tidemill.scheduling import plain

    world, policy = world_at(journal, at)
    j = job_number(world, job)
    answer = explain.why(world, policy, j, explain.Glance(world, plain))
    forecast = explain.eta(world, policy, j) if eta else None
    verdicts = explain.verdicts(world, j) if nodes else None
    if as_json:
        screen.json_out(
            msgspec.json.encode({"answer": answer, "forecast": forecast, "nodes": verdicts}),
            journal,
        )
        return
    asked = f" -j {journal}" + (f" --at {at}" if at else "")
    _print_answer(answer, asked)
    if forecast is not None:
        screen.out().print(forecast.words, markup=False, soft_wrap=True)
    if verdicts is not None:
        made = screen.table("node", "kind", "state", "free", "verdict", right_from=9)
        for v in verdicts:
            made.add_row(v.node, v.kind, v.state, f"{v.free_milli / 1000:g}", v.words)
        screen.out().print(made)


def pending(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    at: options.At = None,
    eta: Annotated[
        bool, typer.Option("--eta", help="Also say when the oldest of each row should start.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Everything that waits: by layer and cause, the oldest, and the dollars idle beneath it."""
    import msgspec

    from tidemill import explain
    from tidemill.cli.moment import calendar_of, world_at
    from tidemill.scheduling import plain

    world, policy = world_at(journal, at)
    board = explain.board(world, policy, explain.Glance(world, plain))
    if eta:
        board = explain.with_eta(world, policy, board)
    if as_json:
        screen.json_out(msgspec.json.encode(board), journal)
    else:
        _print_board(board, calendar_of(journal))


def fit(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    job: Annotated[
        Path | None, typer.Option("--job", help="A job row in JSON, instead of the options.")
    ] = None,
    team: Annotated[str, typer.Option("--team", help="Whose job it is.")] = "",
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="Accelerators in all.")] = 1,
    per_node: Annotated[int, typer.Option("--per-node", min=0, help="Of one replica.")] = 0,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="Accelerator kinds.")] = None,
    cpus: Annotated[float, typer.Option("--cpus", min=0, help="CPU cores a replica.")] = 0,
    memory_gib: Annotated[float, typer.Option("--memory-gib", min=0, help="A replica.")] = 0,
    priority: Annotated[int, typer.Option("--priority", help="Higher goes first.")] = 0,
    hours: Annotated[float, typer.Option("--hours", min=0, help="Estimated run time.")] = 0,
    within: Annotated[str, typer.Option("--within", help="All of it in one of this tier.")] = "",
    near: Annotated[str, typer.Option("--near", help="The same, if possible.")] = "",
    profile: Annotated[
        str, typer.Option("--profile", help="--gpus MIG instances of this profile instead.")
    ] = "",
    at: options.At = None,
    as_json: options.Json = False,
) -> None:
    """Before submitting: runs now, waits about so long because …, or never fits because …"""
    import msgspec

    from tidemill import explain
    from tidemill.cli import job_option
    from tidemill.cli.moment import world_at

    world, policy = world_at(journal, at)
    if job is not None:
        row = job_option.from_file(job)
    else:
        row = job_option.from_options(
            world, team=team, gpus=gpus, per_node=per_node, kinds=tuple(kind or ()),
            cpu_milli=round(cpus * 1000), memory_mib=round(memory_gib * 1024),
            priority=priority, hours=hours, within=within, near=near,
            profile=profile,
        )  # fmt: skip
    _refuse_known(world, row)
    forecast = explain.fit(world, policy, row)
    if as_json:
        screen.json_out(msgspec.json.encode(forecast), journal)
    else:
        _print_forecast(forecast)


def job_number(world: "World", name: str) -> int:
    """The number of a job by its name; says which names are near when there is none."""
    j = world.job_number.get(name)
    if j is None:
        from difflib import get_close_matches

        near = get_close_matches(name, world.job_names, n=3)
        like = ", ".join(f"`{n}`" for n in near)
        raise SpecError(
            f"no job is called `{name}`; the journal has {world.job_count:,} jobs",
            hint=f"did you mean {like}?" if near else "see `tidemill pending` for what waits",
        )
    return j


def _refuse_known(world: "World", row: "Job") -> None:
    if row.name in world.job_number:
        raise SpecError(
            f"a job called `{row.name}` exists already",
            hint=f"ask `tidemill why {row.name}`, or give the new one another name",
        )


def _print_answer(answer: "Answer", asked: str) -> None:
    console = screen.out()
    console.print(answer.words, markup=False, soft_wrap=True)
    for question in answer.questions:
        console.print(f"  {question.answer:>3}  {question.question}", markup=False)
        console.print(f"       {question.words}", markup=False, style="dim", soft_wrap=True)
    _print_nearest(answer.certificate, "       ")
    commands = [command for fact in answer.evidence for command in fact.shown_by]
    seen = dict.fromkeys(
        f"  {command.line}{asked}" for command in commands if command.on == "tidemill"
    )
    if seen:
        console.print("see for yourself:", style="dim")
        for line in seen:
            console.print(line, markup=False, style="dim")


def _print_nearest(proof: "Certificate | None", indent: str = "") -> None:
    """What would run now instead."""
    if proof is not None and proof.fits_now:
        near = "; ".join(made.words for made in proof.fits_now)
        screen.out().print(f"{indent}would run now: {near}", markup=False, soft_wrap=True)


def _print_board(board: "Board", calendar: "Calendar") -> None:
    console = screen.out()
    console.print(f"{calendar.text(board.at_ms)}: {board.words}", markup=False, soft_wrap=True)
    if not board.rows:
        return
    made = screen.table(
        "cause", "layer", "jobs", "accelerators", "idle $/h", "oldest", right_from=2
    )
    made.columns[5].justify = "left"
    has_eta = any(row.eta is not None for row in board.rows)
    if has_eta:
        made.add_column("which starts in about (between)")
    for row in board.rows:
        made.add_row(
            row.cause.replace("_", " "), row.owner, f"{row.jobs:,}", f"{row.asked_milli / 1000:,g}",
            f"{row.idle_usd_micro_per_hour / 1e6:,.2f}",
            f"{row.oldest_job} ({duration_text(row.oldest_waited_ms)})",
            *([_eta(row.eta)] if has_eta else []),
        )  # fmt: skip
    console.print(made)


def _eta(band: "Band | None") -> str:
    if band is None:
        return "never, as it is"
    early, middle, late = (
        "later" if ms is None else duration_text(ms)
        for ms in (band.p10_ms, band.p50_ms, band.p90_ms)
    )
    return f"{middle} ({early} and {late})"


def _print_forecast(forecast: "Forecast") -> None:
    console = screen.out()
    console.print(forecast.words, markup=False, soft_wrap=True)
    _print_nearest(forecast.certificate)
    console.print(f"method: {forecast.method}", markup=False, style="dim", soft_wrap=True)
    for text in forecast.assumptions:
        console.print(f"assumed: {text}", markup=False, style="dim", soft_wrap=True)
