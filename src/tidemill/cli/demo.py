"""``tidemill demo``: a realistic fleet for two weeks, and where its money went."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from tidemill.cli import options, screen

EXAMPLES = options.example(
    "tidemill demo", "tidemill demo --seed 7 --out /tmp/demo", "tidemill demo --resume"
)


def demo(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the journal and the report.")
    ] = Path("out"),
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Another random seed for the same fleet.")
    ] = None,
    force: options.Force = False,
    resume: options.Resume = False,
) -> None:
    """Run the built-in fleet through the real pipeline and show its ledger.

    No cluster, no GPU, no account: a generated world answers the real scheduler. It leaves a
    journal to ask further questions of, and a report to open in a browser. The journal and the
    report of an earlier demo are replaced; a file that is neither is refused. A demo that was
    interrupted goes on with --resume.
    """
    from tidemill import api
    from tidemill.cli import demo_story, ledger_tables
    from tidemill.cli.report import refuse_page, write_report
    from tidemill.cli.twin import going_on, refuse_both

    refuse_both(force, resume)
    out.mkdir(parents=True, exist_ok=True)
    journal, page = out / "demo.sqlite", out / "demo.html"
    spec = demo_story.seeded(api.demo_spec(), seed)
    refuse_page(page, str(journal), is_forced=force)
    way = (
        nullcontext()
        if resume
        else api.replacing_run(str(journal), spec.twin.name, is_forced=force)
    )
    with screen.progress("two weeks of a fleet") as update, going_on(str(journal)), way:
        run = api.simulate(spec, str(journal), update, weighs_mix=True, is_resumed=resume)
    console = screen.out()
    for line in demo_story.scene(run):
        console.print(line)
    ledger_tables.print_ledger(run.statement)
    console.print(ledger_tables.fixes(run.statement, str(journal)), soft_wrap=True)
    write_report(run.statement, run.world, run.policy, page, title=spec.twin.name,
                 command=f"tidemill report {page} -j {journal}", journal=str(journal),
                 is_forced=force)  # fmt: skip
    screen.note(ledger_tables.footnote(run.statement))
    shown = demo_story.example(run, journal)
    if shown is not None:
        asked = screen.styled("\n[bold]why did `{}` wait?[/] (at {})", shown.job, shown.at)
        console.print(asked, soft_wrap=True)
        console.print(shown.words, markup=False, soft_wrap=True)
    for line in demo_story.next_steps(journal, page, shown):
        console.print(line, soft_wrap=True)
