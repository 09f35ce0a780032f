"""``tidemill decision``: the last decision about a job, stage by stage."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.model.measures import count_text

if TYPE_CHECKING:
    from tidemill.explain.decision.answers import Decision, Filtering, Ranking
    from tidemill.journal.moments import Calendar
    from tidemill.model.policy import Policy
    from tidemill.model.world import World

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
    from tidemill.cli.moment import world_at

    world, policy = world_at(journal, at)
    found = _found(world, policy, job, journal, at)
    if as_json:
        screen.json_out(msgspec.json.encode(found), journal, at=at)
    else:
        _print(found, api.calendar_of(journal))


def _found(
    world: "World", policy: "Policy", job: str, journal: str, at: str | None
) -> "Decision":  # fmt: skip
    """The decision about a job of the journal's events, or about one that is in no queue."""
    from tidemill import api
    from tidemill.cli import moment
    from tidemill.cli.job_names import full, held_job, job_number, names_of
    from tidemill.explain import held_jobs
    from tidemill.explain.decision import reading

    every = moment.held_jobs(journal, at)
    job = full(world, job, [one.name for one in every])
    if (held := held_job(world, job, every)) is not None:
        return held_jobs.decision(held, world.now_ms)
    j = job_number(world, job, journal, at, names_of(every))
    with api.open_journal(journal) as opened, moment.one_question(world):
        at_ms = None if at is None else api.Calendar.of(opened.facts()).ms(at, "--at")
        return reading.read(opened, world, policy, j, at_ms)


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
    if not found.tried:
        return
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
