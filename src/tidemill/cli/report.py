"""``tidemill report``: the ledger as one HTML file."""

import shlex
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
    "tidemill report out/demo.sqlite",
    "tidemill report report.html -j out/demo.sqlite",
    "tidemill report --out week2.html --from 7d --to 14d --lending",
)

PAGES = (".html", ".htm")  # a path that ends like this is a page


def report(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JOURNAL] [PAGE.html]", help="The journal, instead of -j, and the "
                       "page to write, instead of --out.", show_default=False),
    ] = None,
    journal: options.Named = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="PAGE", help="The page to write; default: the "
                     "journal's name with .html, in this folder."),
    ] = None,
    start: options.Start = None,
    end: options.End = None,
    title: Annotated[str, typer.Option("--title", help="The heading.")] = "",
    lending: Annotated[bool, typer.Option("--lending", help="Add who lent what to whom.")] = False,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Write a self-contained page: waterfall, utilisation over time, waiting work, top fixes.

    Only a report is ever replaced; --force replaces another file, but never a journal.
    """
    from tidemill import api
    from tidemill.cli.ledger import read_lending, read_window
    from tidemill.cli.moment import world_at

    source, page = _meant(paths or [], journal, out)
    refuse_page(page, source, is_forced=force)
    statement = read_window(source, start, end)
    statement.refuse_past("a report")
    world, policy = world_at(source, end, notes_extent=False, notes_decider=False)
    window = "".join(
        f" {option} {shlex.quote(given)}"
        for option, given in (("--from", start), ("--to", end))
        if given
    )
    where = f"{shlex.quote(str(page))} -j {shlex.quote(source)}"
    command = f"tidemill report {where}{window}" + " --lending" * lending
    lent = read_lending(source, statement) if lending else None
    name = title or Path(source).stem
    write_report(statement, world, policy, page, title=name, command=command, lent=lent,
                 subtitle=api.completeness_of(source).words, journal=source, at=end,
                 is_forced=force)  # fmt: skip
    screen.note(f"report: {page}")


def refuse_page(page: Path, journal: str, *, is_forced: bool = False) -> None:
    """Refuse a page that would take the place of something else; before a long read, not after."""
    from tidemill.journal import files

    if page.exists() and Path(journal).exists() and page.samefile(journal):
        raise SpecError(
            f"`{page}` is the journal that the report is to be about",
            hint="give the page another name, such as --out report.html",
        )
    files.refuse(page, replaces="report", is_forced=is_forced)


def _meant(paths: list[str], named: str | None, out: Path | None) -> tuple[str, Path]:
    """Which journal and which page: a path is what it holds, and where that is unknown, its name.

    So `tidemill report run.sqlite` is a report about that journal, whatever was meant by it, and
    never a page in its place.
    """
    for path in paths:
        _refuse_spec(path)
    journals = [path for path in paths if _is_journal(path, named)]
    pages = [path for path in paths if path not in journals] + ([str(out)] if out else [])
    if len(journals) > 1 or len(pages) > 1:
        what = "journals" if len(journals) > 1 else "pages"
        found = ", ".join(f"`{path}`" for path in (journals if len(journals) > 1 else pages))
        raise SpecError(f"a report is of one journal, on one page; these are {what}: {found}",
                        hint="see `tidemill report --help`")  # fmt: skip
    source = options.which(journals[0] if journals else None, named) or options.DEFAULT_JOURNAL
    return source, Path(pages[0] if pages else f"{_name(source)}.html")


def _name(source: str) -> str:
    """What a report is called after: the file of its journal, or its name on a server."""
    from tidemill.journal.postgres import address

    return address.of(source).name if address.is_address(source) else Path(source).stem


def _refuse_spec(path: str) -> None:
    if path.lower().endswith(".toml"):
        raise SpecError(
            f"`{path}` describes a fleet; it is neither a journal nor a page",
            hint=f"`tidemill twin run {shlex.quote(path)} run.sqlite` makes a journal of it, then"
            " `tidemill report run.sqlite`",
        )


def _is_journal(path: str, named: str | None) -> bool:
    from tidemill.journal import files
    from tidemill.journal.postgres import address

    if address.is_address(path) or files.kind_of(Path(path)) == "journal":
        return True
    return named is None and not path.lower().endswith(PAGES)


def write_report(
    statement: "Statement",
    world: "World",
    policy: "Policy",
    page: Path,
    *,
    title: str,
    command: str,
    lent: "LendingPart | None" = None,
    subtitle: str = "",
    journal: str,
    at: str | None = None,
    is_forced: bool = False,
) -> None:
    """Render and write; a page that was a report is replaced in one step."""
    from tidemill.cli import tolerations
    from tidemill.cli.suggested import located_page
    from tidemill.explain import board
    from tidemill.journal import files
    from tidemill.report import render
    from tidemill.scheduling.schedulability import survey

    html = render(
        statement,
        title=title,
        board=board(world, policy),
        lots=survey(world, tolerations.of_resources(world).pairs),
        lent=lent,
        command=command,
        subtitle=subtitle,
    )
    html = located_page(html, journal, at)
    files.write(page, html.encode(), replaces="report", is_forced=is_forced)
