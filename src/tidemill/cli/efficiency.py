"""``tidemill efficiency``: what jobs made of the GPUs that they held, the costliest waste first."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text

if TYPE_CHECKING:
    from tidemill.ledger.attempts import HeldAttempt
    from tidemill.ledger.efficiency import Efficiencies, EfficiencyDimension
    from tidemill.ledger.statement import Statement

SHOWN = 20

EXAMPLES = options.example(
    "tidemill efficiency out/demo.sqlite",
    "tidemill efficiency --by user",
    "tidemill efficiency --top 5 --from 7d",
    "tidemill efficiency --job train-7b",
    "tidemill efficiency --by team --devices",
    "tidemill efficiency --by team --json",
)


def efficiency(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    by: Annotated[
        str | None, typer.Option("--by", help="One row per job (default), user, team or class.")
    ] = None,
    job: Annotated[str, typer.Option("--job", help="One job by its name, with its attempts.")] = "",
    top: Annotated[
        int, typer.Option("--top", min=0, help="How many rows to show (0: all).")
    ] = SHOWN,
    devices: Annotated[
        bool,
        typer.Option(
            "--devices",
            help="Also what devices measured: SM, tensor and memory activity, memory, power.",
        ),
    ] = False,
    start: options.Start = None,
    end: options.End = None,
    as_json: options.Json = False,
) -> None:
    """What jobs made of the GPUs that they held, with dollars: the costliest waste first.

    Services whose requests were counted have a second table: requests and tokens per GPU-hour, what
    a million tokens cost, how long requests wait and take.
    """
    from tidemill.cli.ledger import read_window
    from tidemill.ledger import efficiency as held

    dimension = _dimension(by)
    if job and by is not None:
        raise SpecError("--job and --by ask two different questions", hint="give one of them")
    statement = read_window(journal, start, end)
    if job:
        _print_job(statement, journal, job, as_json)
        return
    found = held.efficiencies(statement, dimension, top or None)
    if as_json:
        _print_json(statement, found, None, journal)
        return
    from tidemill.cli import efficiency_tables as tables

    console, money = screen.out(), tables.printed_money(statement, found)
    console.print(tables.headline(statement, found, money), soft_wrap=True)
    if found.total.held_milli_ms:
        console.print(tables.rows(found, money))
        screen.note(tables.LEGEND)
        _print_measured(found, devices)


def _print_measured(found: "Efficiencies", devices: bool) -> None:
    """What loops did and services were asked for and, if that is wanted, what devices did."""
    from tidemill.cli import efficiency_tables as tables
    from tidemill.ledger import served_text

    for made, legend in (
        (tables.steps(found), served_text.STEP_LEGEND),
        (tables.loads(found), served_text.LOAD_LEGEND),
        (tables.hosts(found), tables.HOST_LEGEND),
    ):
        if made is not None:
            screen.out().print(made)
            screen.note(legend)
    if not devices:
        return
    if (figures := tables.devices(found)) is None:
        screen.note("no device was measured while these jobs ran: see `tidemill doctor`")
        return
    screen.out().print(figures)
    screen.note(served_text.DEVICE_LEGEND)


def _print_job(statement: "Statement", journal: str, job: str, as_json: bool) -> None:
    from tidemill.cli import efficiency_tables as tables
    from tidemill.ledger import efficiency as held

    j = _number(statement, job)
    attempts = _attempts(statement, journal, job)
    row = held.of_job(statement, j)
    if as_json:
        _print_json(statement, held.Efficiencies("job", (row,), None, row), attempts, journal)
        return
    console = screen.out()
    for line in tables.job_lines(statement, row):
        console.print(line, soft_wrap=True)
    if row.held_milli_ms:
        console.print(tables.parts(row))
        console.print(tables.use(row), soft_wrap=True)
        for line in tables.measured_lines(row):
            console.print(line, soft_wrap=True, markup=False)
    if attempts:
        console.print(tables.attempts(statement, row, attempts))


def _attempts(statement: "Statement", journal: str, job: str) -> "list[HeldAttempt]":
    from tidemill import api

    with screen.progress("reading its attempts") as update:
        return api.read_attempts(
            journal, job, start_ms=statement.start_ms, end_ms=statement.end_ms, on_progress=update
        )


def _print_json(
    statement: "Statement", found: object, attempts: "list[HeldAttempt] | None", journal: str
) -> None:
    import msgspec

    from tidemill.ledger.efficiency import Efficiencies
    from tidemill.ledger.efficiency_document import efficiency_document

    assert isinstance(found, Efficiencies)
    made = efficiency_document(statement, found, attempts)
    screen.json_out(msgspec.json.format(msgspec.json.encode(made), indent=2), journal)


def _number(statement: "Statement", job: str) -> int:
    from tidemill.cli.job_names import meant

    known = statement.world.job_number
    if job in known:
        return known[job]
    near = meant(job, {*[*known][:100_000]})[:3]
    raise SpecError(
        f"--job is `{job}`; the journal has {count_text(len(known), 'job')}, and none of that name",
        hint=f"is one of these meant: {', '.join(near)}?" if near else
        "`tidemill efficiency --top 0` lists all",
    )  # fmt: skip


def _dimension(by: str | None) -> "EfficiencyDimension":
    from tidemill.ledger.efficiency import EFFICIENCY_DIMENSIONS

    found = next((known for known in EFFICIENCY_DIMENSIONS if known == (by or "job")), None)
    if found is None:
        raise SpecError(f"--by is `{by}`", hint=f"one of: {', '.join(EFFICIENCY_DIMENSIONS)}")
    return found
