"""``tidemill decision``: the last decision about a job, stage by stage."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.model.measures import count_text

if TYPE_CHECKING:
    from tidemill.explain.decision.answers import Decision, Filtering, Ranking
    from tidemill.journal.moments import Calendar

EXAMPLES = options.example(
    "tidemill decision train-0042 -j out/demo.sqlite",
    "tidemill decision train-0042 --at 3d12h",
    "tidemill decision train-0042 --json",
)


def decision(
    job: Annotated[str, typer.Argument(help="The name of a job.")],
    journal: options.Journal = options.DEFAULT_JOURNAL,
    at: options.At = None,
    as_json: options.Json = False,
) -> None:
    """Why is this job where it is? Its last decision: filters, scores, place, what was tried."""
    import msgspec

    from tidemill import api
    from tidemill.cli.job_names import job_number
    from tidemill.cli.moment import one_question, world_at
    from tidemill.explain.decision import reading

    world, policy = world_at(journal, at)
    j = job_number(world, job, journal, at)
    with api.open_journal(journal) as opened, one_question(world):
        calendar = api.Calendar.of(opened.facts())
        at_ms = None if at is None else calendar.ms(at, "--at")
        found = reading.read(opened, world, policy, j, at_ms)
    if as_json:
        screen.json_out(msgspec.json.encode(found), journal, at=at)
    else:
        _print(found, calendar)


def _print(found: "Decision", calendar: "Calendar") -> None:
    console = screen.out()

    def say(text: str, style: str = "") -> None:
        console.print(text, markup=False, soft_wrap=True, style=style)

    say(f"job `{found.job}` of team `{found.team}` requests {found.asks}; {found.state}")
    what = {"placed": "placed", "waits": "not placed", "unknown": "not decided here"}
    say(f"{calendar.text(found.at_ms)}: {what[found.outcome]}, decided by {found.decided_by}")
    if found.about:
        say(f"jobs alike stand in line as one; the first of them, `{found.about}`, was looked at")
    if found.unknown:
        say(found.unknown)
    say("1 watch", "bold")
    submitted, since = found.watch.submitted_ms, found.watch.waiting_since_ms
    again = "" if since == submitted else f", waiting again since {calendar.text(since)}"
    if found.watch.waited_ms is None:
        say(f"  {found.watch.words}")
    else:
        say(f"  submitted {calendar.text(submitted)}{again}; {found.watch.words}")
    for filtering in found.filters:
        _print_filters(filtering)
    for ranking in found.scores:
        _print_scores(ranking)
    _print_bind(found, calendar)
    say("tried, and when", "bold")
    made = screen.table("first", "last", "times", "what", right_from=9)
    for row in found.tried:
        first, last = calendar.text(row.first_ms), calendar.text(row.last_ms)
        made.add_row(first, last if row.count > 1 else "", f"{row.count:,}", row.words)
    console.print(made)


def _print_filters(one: "Filtering") -> None:
    console = screen.out()
    console.print(f"2 filter: {one.asks}", markup=False, style="bold", soft_wrap=True)
    made = screen.table("filter", "removed", "why", "such as", right_from=9)
    for row in one.removed:
        made.add_row(row.filter.replace("_", " "), f"{row.nodes:,}", row.words, row.examples[0])
    made.add_row("left", f"{one.remaining:,}", f"of {count_text(one.nodes, 'node')}", "")
    console.print(made)


def _print_scores(one: "Ranking") -> None:
    console = screen.out()
    policy = f" by {', '.join(one.policy)}" if one.policy else ""
    console.print(f"3 score{policy}", markup=False, style="bold", soft_wrap=True)
    made = screen.table(one.of, "GPU type", "", "terms", right_from=9)
    for row in one.candidates:
        taken = "taken" if row.is_taken else ""
        made.add_row(row.name, row.gpu_type, taken, "; ".join(term.words for term in row.terms))
    console.print(made)
    console.print(f"  {one.words}", markup=False, soft_wrap=True)


def _print_bind(found: "Decision", calendar: "Calendar") -> None:
    console, bind = screen.out(), found.bind
    console.print("4 bind", markup=False, style="bold")
    if bind is None:
        waits = found.words.splitlines()[-1] if found.outcome == "waits" else "nothing is known"
        words = found.not_bound or waits
        console.print(f"  {words}", markup=False, soft_wrap=True)
        return
    console.print(f"  attempt {bind.attempt}: {bind.words}", markup=False, soft_wrap=True)
    for row in bind.freed:
        console.print(f"  {calendar.text(row.at_ms)}: {row.words}", markup=False, soft_wrap=True)
    if bind.freed_jobs > len(bind.freed):
        console.print(
            f"  and {count_text(bind.freed_jobs - len(bind.freed), 'more job')} made room"
        )
