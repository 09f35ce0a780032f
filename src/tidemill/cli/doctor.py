"""``tidemill doctor``: is this machine able, and what can a journal's ledger not know?"""

from typing import TYPE_CHECKING

import typer

from tidemill.cli import options, screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.cli.examination import Finding

EXAMPLES = options.example("tidemill doctor", "tidemill doctor -j out/demo.sqlite")


def doctor(
    journal: options.JournalIfAny = None,
    as_json: options.Json = False,
) -> None:
    """Which parts work here, which inputs are missing, which ledger lines are therefore unknown."""
    from tidemill.cli import examination

    with screen.progress("looking"):
        findings = examination.of_machine()
        findings += examination.of_journal(journal) if journal is not None else []
    raise typer.Exit(0 if tell(findings, as_json=as_json) else 1)


def tell(findings: "Sequence[Finding]", *, as_json: bool) -> bool:
    """Print what was found; whether there is nothing without which nothing works."""
    import msgspec

    if as_json:
        screen.json_out(msgspec.json.encode([finding._asdict() for finding in findings]))
    else:
        made = screen.table("", "what", "found", "so", right_from=9)
        for finding in findings:
            mark = screen.styled("[green]ok[/]" if finding.is_ok else "[yellow]--[/]")
            made.add_row(mark, finding.what, finding.found, finding.so)
        screen.out().print(made)
    return not any(finding.is_fatal for finding in findings)
