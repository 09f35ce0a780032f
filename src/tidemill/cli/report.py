"""``tidemill report``: the ledger as one HTML file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    from tidemill.ledger.schema import LendingPart
    from tidemill.ledger.statement import Statement
    from tidemill.model.policy import Policy
    from tidemill.model.world import World

EXAMPLES = options.example(
    "tidemill report report.html -j out/demo.sqlite",
    "tidemill report week2.html --from 7d --to 14d --lending",
)


def report(
    page: Annotated[Path, typer.Argument(help="The HTML file to write.")] = Path("report.html"),
    journal: options.Journal = options.DEFAULT_JOURNAL,
    start: options.Start = None,
    end: options.End = None,
    title: Annotated[str, typer.Option("--title", help="The heading.")] = "",
    lending: Annotated[bool, typer.Option("--lending", help="Add who lent what to whom.")] = False,
) -> None:
    """Write a self-contained page: waterfall, utilisation over time, waiting work, top fixes."""
    from tidemill.cli.ledger import read_lending, read_window
    from tidemill.cli.moment import world_at

    statement = read_window(journal, start, end)
    world, policy = world_at(journal, end)
    command = f"tidemill report {page} -j {journal}" + " --lending" * lending
    lent = read_lending(journal, statement) if lending else None
    name = title or Path(journal).stem
    write_report(statement, world, policy, page, title=name, command=command, lent=lent)
    screen.note(f"report: {page}")


def write_report(
    statement: "Statement",
    world: "World",
    policy: "Policy",
    page: Path,
    *,
    title: str,
    command: str,
    lent: "LendingPart | None" = None,
) -> None:
    """Render and write; the page is replaced in one step."""
    from tidemill.explain import board
    from tidemill.report import render
    from tidemill.scheduling.schedulability import survey

    html = render(
        statement,
        title=title,
        board=board(world, policy),
        lots=survey(world),
        lent=lent,
        command=command,
    )
    if page.is_dir():
        raise SpecError(f"`{page}` is a folder", hint="give the path of an HTML file to write")
    fresh = page.with_suffix(page.suffix + ".new")
    fresh.write_text(html, encoding="utf-8")
    fresh.replace(page)
