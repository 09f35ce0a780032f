"""``tidemill pending``: every waiting job, as ``squeue`` lists them, and what they wait for."""

import csv
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.model.errors import SpecError
from tidemill.model.measures import (
    SECOND_MS,
    WHOLE_MILLI,
    amount_text,
    count_text,
    dollars_text,
    duration_text,
    milli_text,
)
from tidemill.model.names import visible
from tidemill.model.reasons import TO_SEE_IT

if TYPE_CHECKING:
    from tidemill.explain.answers import Band, Board, BoardRow, PendingJob

HELD = "not_eligible"
SHOWN = 20  # jobs on a screen; --limit 0 shows all
NAMED = 3  # jobs that are named of those that wait for the same reason
_COMMAND = re.compile(r" \((?:kubectl|scontrol|squeue) [^)]*\)")

EXAMPLES = options.example(
    "tidemill pending -j out/demo.sqlite",
    "tidemill pending --at 3d12h --team research --limit 0",
    "tidemill pending --user ada --no-eta",
    "tidemill pending --csv > pending.csv",
    "tidemill pending --at 3d12h --json",
)
HEADER = ("position", "job", "team", "user", "priority", "gpus", "asks", "cause", "waited_s",
          "eta_early_s", "eta_middle_s", "eta_late_s", "reason")  # fmt: skip


def pending(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    at: options.At = None,
    team: Annotated[str, typer.Option("--team", help="Only jobs of this team.")] = "",
    user: Annotated[str, typer.Option("--user", help="Only jobs of this user.")] = "",
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=0, help=f"How many jobs to list (0: all; tables show {SHOWN})."
        ),
    ] = None,
    eta: Annotated[
        bool,
        typer.Option("--eta/--no-eta", help="Say when each should start (--no-eta is faster)."),
    ] = True,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the jobs as CSV.")] = False,
    as_json: options.Json = False,
) -> None:
    """Jobs that wait: position, job, team, user, GPUs requested, cause, waited, ETA; a summary."""
    import msgspec
    from msgspec.structs import replace

    from tidemill import api, explain
    from tidemill.cli.moment import (
        held_jobs,
        note_decider,
        one_question,
        ordered_nodes,
        sides_of,
        world_at,
    )
    from tidemill.explain import phrasing
    from tidemill.explain.claim_sharers import with_sharers
    from tidemill.explain.held_jobs import with_held

    world, policy = world_at(journal, at, notes_decider=False)
    held = held_jobs(journal, at)
    _refuse_unknown("team", team, {*world.queue_number, *(one.team for one in held)})
    _refuse_unknown("user", user, world.job_users)

    def is_mine(row: "PendingJob") -> bool:
        return team in ("", row.team) and user in ("", row.user)

    with one_question(world) as memo:
        board = explain.board(world, policy, memo)
    most = SHOWN if limit is None and not (as_json or as_csv) else limit or len(board.waiting)
    eta = eta and not world.is_looked_on  # when jobs start there is for another scheduler to say
    if eta:
        shown = [row for row in board.waiting if is_mine(row)][:most]
        asked = None if as_json else shown
        sides = sides_of(journal, world, policy)
        board = explain.with_eta(world, policy, board, asked, sides)
    board = with_sharers(with_held(board, held), world)
    mine = [row for row in board.waiting if is_mine(row)]
    note_decider(world, [row.reason for row in mine])
    if as_json:
        kept = tuple(mine[:most])
        screen.json_out(msgspec.json.encode(replace(board, waiting=kept)), journal, at=at)
    elif as_csv:
        _print_csv(mine[:most])
    else:
        is_part = board.jobs and (team or user)
        told = _headline(board, mine, team, user) if is_part else board.words
        screen.out().print(f"{api.calendar_of(journal).text(board.at_ms)}: {told}", soft_wrap=True)
        label = partial(phrasing.said_or_label, world)
        _print_causes(board, mine, label, is_all=not team and not user)
        _print_jobs(mine, most, label, has_eta=eta)
        _print_reasons(mine, most)
        _print_ordered(mine, ordered_nodes(journal, at))
        _print_sharers(board, {row.job for row in mine} if team or user else None)
        _print_partial(board)
        _print_method(board)
        _print_alarms(mine)


def _headline(board: "Board", mine: "Sequence[PendingJob]", team: str, user: str) -> str:
    """How many of the waiting jobs were asked about, and what they request of what all do."""
    whose = " and ".join(
        f"{what} `{name}`" for what, name in (("team", team), ("user", user)) if name
    )
    asked = milli_text(sum(job.accelerator_milli for job in mine))
    are = "is" if len(mine) == 1 else "are"
    return (
        f"{len(mine):,} of {count_text(board.jobs, 'waiting job')} {are} of {whose},"
        f" with {asked} of"
        f" {amount_text(board.asked_milli, 'GPU')} requested;"
        f" {amount_text(board.free_milli, 'GPU')} free"
    )


def _refuse_unknown(option: str, asked: str, known: Iterable[str]) -> None:
    if asked and asked not in known:
        names = sorted({name for name in known if name})
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")
        raise SpecError(
            f"--{option} is `{asked}`, which the journal does not mention",
            hint=f"{option}s: {shown}" if names else f"the journal names no {option}s",
        )


def _print_causes(
    board: "Board", mine: "Sequence[PendingJob]", label: Callable[[str, str], str], *, is_all: bool
) -> None:
    """A line for each cause: how many wait, for how much, and what stands idle beneath them."""
    if not mine:
        return
    made = screen.table("cause", "owner", "jobs", "GPUs requested", "oldest",
                        "idle meanwhile $/h", right_from=2)  # fmt: skip
    made.columns[4].justify = "left"
    for row in board.rows:
        why = (row.cause, row.says, row.owner)  # one word may be of several owners
        jobs = [job for job in mine if (job.cause, job.says, job.owner) == why]
        if not jobs:
            continue
        oldest = max(jobs, key=lambda job: (job.waited_ms, -job.position))
        idle = _idle(row) if is_all else ""
        made.add_row(
            label(row.cause, row.says), row.owner, f"{len(jobs):,}",
            milli_text(sum(job.accelerator_milli for job in jobs)),
            f"{oldest.job} ({duration_text(oldest.waited_ms)})", idle,
        )  # fmt: skip
    screen.out().print(made)


def _idle(row: "BoardRow") -> str:
    """What stands idle beneath it, in dollars an hour; at least what is known of them."""
    usd, known = row.idle_usd_micro_per_hour, row.idle_known_usd_micro_per_hour
    if usd is None and known:
        return f"≥ {dollars_text(known).removeprefix('$')}"
    return dollars_text(usd).removeprefix("$")


def _print_jobs(
    mine: "Sequence[PendingJob]", limit: int, label: Callable[[str, str], str], *, has_eta: bool
) -> None:
    last = ("starts in about (p10 to p90)",) if has_eta else ()
    made = screen.table("position", "job", "team", "user", "GPUs requested", "cause", "waited",
                        *last, right_from=4)  # fmt: skip
    made.columns[0].justify = made.columns[4].justify = made.columns[6].justify = "right"
    made.columns[5].justify = "left"
    if has_eta:
        made.columns[7].justify = "left"
    shown = mine[:limit]
    for job in shown:
        made.add_row(
            f"{job.position:,}", job.job, job.team, job.user,
            _requested(job), label(job.cause, job.says), duration_text(job.waited_ms),
            *((_eta(job),) if has_eta else ()),
        )  # fmt: skip
    if shown:
        screen.out().print(made)
    if len(mine) > len(shown):
        screen.note(f"and {len(mine) - len(shown):,} more; --limit 0 lists all")


def _print_reasons(mine: "Sequence[PendingJob]", limit: int) -> None:
    """What the cluster's own scheduler says, a line for each reason with the jobs that have it;
    the reasons of most jobs first.
    """
    jobs_of: dict[str, list[PendingJob]] = {}
    for job in mine:
        if job.reason:
            jobs_of.setdefault(_alike(job), []).append(job)
    if jobs_of:
        is_ours = all(job.cause == HELD for jobs in jobs_of.values() for job in jobs)
        title = "held, whatever is free:" if is_ours else "their own scheduler says:"
        screen.out().print(title, style="dim")
    groups = sorted(jobs_of.values(), key=lambda jobs: -len(jobs))
    for jobs in groups[:limit]:
        text = f"  {_named(jobs)}: {jobs[0].reason}"
        screen.out().print(text, markup=False, style="dim", soft_wrap=True)
    if len(groups) > limit:
        screen.note(f"and {len(groups) - limit:,} more reasons; --limit 0 lists all")


def _alike(job: "PendingJob") -> str:
    """The reason without the command that shows it, which names the job."""
    said = job.reason.partition(TO_SEE_IT)[0]
    return _COMMAND.sub("", said)


def _named(jobs: "Sequence[PendingJob]") -> str:
    """How many jobs, and the first of them; of one its name."""
    names = ", ".join(job.job for job in jobs[:NAMED])
    if len(jobs) == 1:
        return names
    more = f" and {len(jobs) - NAMED:,} more" if len(jobs) > NAMED else ""
    return f"{screen.count(len(jobs), 'job')} ({names}{more})"


def _print_ordered(mine: "Sequence[PendingJob]", told: "Mapping[str, str]") -> None:
    """What autoscalers say of nodes that jobs ordered, and how many jobs each is said of."""
    jobs_of = dict[str, list[str]]()
    for job in mine:
        if said := told.get(job.job):
            jobs_of.setdefault(said, []).append(job.job)
    for said, jobs in jobs_of.items():
        text = f"ordered by {screen.count(len(jobs), 'job')}, such as `{jobs[0]}`: {said}"
        screen.out().print(text, markup=False, style="dim", soft_wrap=True)


def _print_sharers(board: "Board", mine: set[str] | None) -> None:
    """Pods that wait with the claims of jobs; ``mine``: of these jobs alone."""
    from tidemill.explain import claim_sharers

    some = [one for one in board.claim_sharers if mine is None or one.job in mine]
    if some:
        screen.out().print("with claims of jobs (DRA), in no line above:", style="dim")
    for line in claim_sharers.lines(some):
        screen.out().print(f"  {line}", markup=False, style="dim", soft_wrap=True)


def _print_partial(board: "Board") -> None:
    """Gangs of which a part is placed, and those of them that block each other."""
    if not board.partial_gangs:
        return
    held = sum(gang.held_milli for gang in board.partial_gangs) / WHOLE_MILLI
    count = screen.count(len(board.partial_gangs), "partial gang")
    verb = "holds" if len(board.partial_gangs) == 1 else "hold"
    gpus = count_text(held, "GPU")
    screen.out().print(f"{count}, which {verb} {gpus}; the rest is not placed:")
    for gang in board.partial_gangs[:SHOWN]:
        screen.out().print(f"  {gang.job}: {gang.words}", markup=False, soft_wrap=True)
    if len(board.partial_gangs) > SHOWN:
        screen.note(f"and {len(board.partial_gangs) - SHOWN:,} more; --json has all of them")
    for one in board.deadlocks:
        screen.out().print(f"{one.words}; fix: {one.way_out}", markup=False, soft_wrap=True)


def _requested(job: "PendingJob") -> str:
    """GPUs requested; of an elastic job from its smallest size: ``8 to 32``."""
    full, least = (milli_text(m) for m in (job.accelerator_milli, job.least_milli))
    return f"{least} to {full}" if job.least_milli < job.accelerator_milli else full


def _eta(job: "PendingJob") -> str:
    band = job.eta
    if band is None or job.verdict in ("now", "unknown"):
        return "never, as it is" if job.verdict == "never" else job.verdict
    if band.p10_ms is None:
        return "later"
    early, middle, late = ("later" if ms is None else duration_text(ms) for ms in _parts(band))
    return f"{middle} ({early} to {late})"


def _print_method(board: "Board") -> None:
    """How the starts were found, and what was left out."""
    if not board.eta_method:
        return
    console, reach = screen.out(), duration_text(board.eta_reach_ms)
    console.print(f"starts: {board.eta_method}", markup=False, style="dim", soft_wrap=True)
    assumed = "; ".join(board.eta_assumptions)
    is_cut = any(job.eta is not None and job.eta.p90_ms is None for job in board.waiting)
    text = f"assumed: {assumed}" + f"; `later`: not within {reach}" * is_cut
    console.print(text, markup=False, style="dim", soft_wrap=True)


def _print_alarms(mine: "Sequence[PendingJob]") -> None:
    """Jobs that were preempted as often as the policy allows, whether they are shown or not."""
    screen.alarms([(job.job, job.alarm) for job in mine if job.alarm])


def _print_csv(rows: "Sequence[PendingJob]") -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(HEADER)
    for row in rows:
        waits = [None] * 3 if row.eta is None else _parts(row.eta)
        names = (visible(text, one_line=True) for text in (row.job, row.team, row.user))
        writer.writerow(
            [row.position, *names, row.priority, milli_text(row.accelerator_milli).replace(",", ""),
             visible(row.asks, one_line=True), row.cause, row.waited_ms // SECOND_MS,
             *("" if ms is None else ms // SECOND_MS for ms in waits),
             visible(row.reason, one_line=True)]
        )  # fmt: skip


def _parts(band: "Band") -> tuple[int | None, int | None, int | None]:
    return band.p10_ms, band.p50_ms, band.p90_ms
