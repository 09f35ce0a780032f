"""``tidemill advise``: what to change in a fleet, each change replayed before it is told."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.cli.suggested import located
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, dollars_text, duration_text

if TYPE_CHECKING:
    from rich.table import Table

    from tidemill.advise.replay import Outcome
    from tidemill.advise.trials import Advice, Trial

EXAMPLES = options.example(
    "tidemill advise fleet.toml",
    "tidemill advise fleet.toml --seeds 5 --json",
    "tidemill advise fleet.toml --write better.toml",
)


def advise(
    spec: Annotated[
        Path | None,
        typer.Argument(help="A fleet and its jobs, in TOML (default: the demo's)."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", help="Write the spec with the winning changes, as far as they"
                     " win together too."),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", min=0, max=64, help="Worker processes; 0: one per core.")
    ] = 0,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=10, help="Random seeds that a change which looks"
                          " cheaper is replayed with: the spec's own and the following ones.")
    ] = 3,
    as_json: options.Json = False,
) -> None:  # fmt: skip
    """Propose changes, replay each on its own with the same seed, and say what came of it.

    Each change is judged by what a useful accelerator-hour costs with it. A change wins if it is
    cheaper with every seed, by more than chance; a single seed tells no difference below 2 %.
    The file itself is never changed.
    """
    from tidemill import api
    from tidemill.journal import files

    text, source = api.spec_text(spec)
    if write is not None:
        files.refuse(write, option="")  # before minutes of replays, not after
    many = workers or os.cpu_count() or 1
    with screen.progress("replaying each change") as update:
        found = api.advise(text, source, workers=many, on_progress=update, seeds=seeds)
    if as_json:
        import msgspec

        screen.json_out(msgspec.json.format(msgspec.json.encode(found), indent=2))
    else:
        _print(found, spec)
    if write is not None:
        _write(text, source, found, write, many)


def _write(text: str, source: str, found: "Advice", path: Path, workers: int) -> None:
    from tidemill.advise import trials
    from tidemill.journal import files

    with screen.progress("replaying the changes together") as update:
        edited, kept, after = trials.together(text, source, found, update, workers)
    with files.fresh(path) as part:
        part.write_text(edited, encoding="utf-8")
    screen.note(
        f"`{path}`: {screen.count(len(kept), 'change')} together;"
        f" a useful hour costs {_price(after)} instead of {_price(found.before)}"
    )
    for edit in trials.merged(kept):
        screen.note(f"  {edit.text}")


def _print(found: "Advice", spec: Path | None) -> None:
    console, before = screen.out(), found.before
    console.print(
        f"a useful hour costs {_price(before)};"
        f" {'≥ ' * before.is_lower_bound}{before.useful_milli_ms / MILLI_MS_PER_UNIT_HOUR:,.0f}"
        " useful hours for"
        f" {dollars_text(before.paid_usd_micro, 0)}; jobs waited {_mean(before)} on"
        " average"
    )
    winners = [trial for trial in found.trials if trial.verdict == "wins"]
    others = [trial for trial in found.trials if trial.verdict != "wins"]
    if winners:
        console.print(_table("changes that win", winners, found))
        for trial in winners:
            _tell(trial, found)
    else:
        console.print("no change that was tried wins more than chance would")
    if others:
        console.print(_table("tried, and no win", others, found))
    console.print(_judged(found), soft_wrap=True)
    for trial in others:
        if trial.refused:
            changes = ", ".join(edit.text for edit in trial.edits)
            console.print(f"{changes} is not judged: {trial.refused}", soft_wrap=True)
    for leak, words, who, measure in found.untried:
        screen.out().print(
            f"not replayed: {leak} ({', '.join(who)}): {words};"
            f" measure first: {_measured(measure, spec)}",
            soft_wrap=True,
        )


def _measured(measure: str, spec: Path | None) -> str:
    """The command that measures it; where that reads a journal, the run that writes one first."""
    journal = "out/demo.sqlite" if spec is None else f"{spec.stem}.sqlite"
    found = located(measure, journal)
    if found == measure:
        return measure
    run = f"twin run {shlex.quote(str(spec))} -j {shlex.quote(journal)}" if spec else "demo"
    return f"`tidemill {run}`, then `{found}`"


def _judged(found: "Advice") -> str:
    """On how many seeds the verdicts stand, and what they mean."""
    own, *further = found.seeds
    if not further:
        return (
            f"judged on seed {own} alone: a difference of 2 % or less is not clear, since a change"
            " without effect may make as much"
        )
    return (
        f"judged on seeds {own} to {further[-1]}: a win is cheaper with each of them, and on"
        " average by more than chance (95 %); what is not cheaper with the first was not repeated."
        f" Predicted, achieved, hours, paid and waits are of seed {own}"
    )


def _tell(trial: "Trial", found: "Advice") -> None:
    """A winner in words: who, what, and what it costs."""
    from tidemill.advise import trials

    lines = [f"• {trial.words}", f"  touches {', '.join(trial.who)}; costs: {trial.costs}"]
    if trial.after is not None and trials.is_slower(found.before, trial.after):
        lines.append(
            f"  note: jobs wait {_mean(trial.after)} instead of {_mean(found.before)} on average"
        )
    for line in lines:
        screen.out().print(line, soft_wrap=True)


def _table(title: str, rows: "list[Trial]", found: "Advice") -> "Table":
    made = screen.table(
        "change", "predicted $ per useful hour", "achieved", "by seed", "verdict", "useful hours",
        "paid", "wait, mean", "p90", title=title,
    )  # fmt: skip
    for trial in rows:
        change = ", ".join(edit.text for edit in trial.edits)
        predicted = trial.predicted_usd_micro_per_useful_hour
        after = trial.after
        if after is None:
            made.add_row(change, "", "unknown", "", "not judged", "", "", "", "")
            continue
        made.add_row(
            change,
            "none" if predicted is None else dollars_text(predicted),
            _price(after),
            " ".join(f"{ppm / 10_000:+.2f}%" for ppm in trial.changes_ppm) or "unknown",
            trial.verdict,
            _change(after.useful_milli_ms, found.before.useful_milli_ms),
            _change(after.paid_usd_micro, found.before.paid_usd_micro),
            _mean(after),
            _time(after.wait_ms_p90, is_at_least=after.is_p90_at_least),
        )
    return made


def _price(outcome: "Outcome") -> str:
    """What a useful hour costs: at most that where some efficiency is unknown."""
    usd_micro = outcome.usd_micro_per_useful_hour
    mark = "≤ " if outcome.is_lower_bound else ""
    return "unknown" if usd_micro is None else mark + dollars_text(usd_micro)


def _mean(outcome: "Outcome") -> str:
    return _time(outcome.wait_ms_mean, is_at_least=outcome.is_mean_at_least)


def _time(ms: int | None, *, is_at_least: bool) -> str:
    """How long jobs waited: at least that where some of them still wait."""
    return "unknown" if ms is None else "≥ " * is_at_least + duration_text(ms)


def _change(after: int, before: int) -> str:
    return f"{after / before - 1:+.2%}" if before else "unknown"
