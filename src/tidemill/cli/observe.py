"""``tidemill observe``: the books of a running cluster, as it runs. Read-only."""

import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tidemill.cli import given, imports, options, screen
from tidemill.model.errors import BackendError, SpecError

if TYPE_CHECKING:
    from tidemill.live.observing.observer import AnswerTaken, Observer

app = typer.Typer(
    help="Watch a running cluster and keep its books: what happens, not a simulation.",
    epilog=options.example(
        "tidemill observe slurm --usd-per-hour 2.50 -j fleet.sqlite",
        "tidemill ledger fleet.sqlite --by team",
    ),
    no_args_is_help=True,
)


@app.callback()
def observe() -> None:
    """Watch a running cluster and keep its books: what happens, not a simulation."""


SLURM_EXAMPLES = options.example(
    "tidemill observe slurm --usd-per-hour 2.50 -j fleet.sqlite",
    "tidemill observe slurm --usd-per-hour H100=2.80,A100=1.60 --every 1m --since 2026-11-01",
    "tidemill observe slurm --usd-per-hour 2.50 --once",
)

Every = Annotated[
    str, typer.Option("--every", help="How often the cluster is asked.", metavar="TIME")
]
Lateness = Annotated[
    str,
    typer.Option(
        "--lateness",
        help="The journal stays so far behind, so that what comes late is still in time.",
        metavar="TIME",
    ),
]
Gap = Annotated[
    str,
    typer.Option(
        "--gap",
        help="A longer time without an answer was not observed: free GPUs in it are unknown.",
        metavar="TIME",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        help="Begin a new journal at this date, from Slurm's own records (default: now).",
        metavar="DATE",
    ),
]


@app.command("slurm", epilog=SLURM_EXAMPLES)
def slurm(
    journal: options.Target = options.DEFAULT_JOURNAL,
    usd_per_hour: given.PerHour = None,
    prices: given.PriceFiles = None,
    list_prices: given.ListPrices = False,
    every: Every = "30s",
    lateness: Lateness = "1m",
    gap: Gap = "10m",
    since: Since = None,
    zone: imports.Zone = "UTC",
    timeout: Annotated[
        str, typer.Option("--timeout", help="The longest wait for one command.", metavar="TIME")
    ] = "1m",
    once: Annotated[bool, typer.Option("--once", help="Ask once, and stop.")] = False,
    as_json: options.Json = False,
) -> None:
    """Watch a Slurm cluster with sacct, squeue, scontrol and sacctmgr until stopped.

    Started again with the same journal it goes on where that stops, whatever stopped it: no event
    is lost and none is told twice. Other commands read the journal meanwhile.
    """
    from tidemill.live.observing.observer import Observer, ObserverTerms
    from tidemill.live.slurm.polling import SlurmSource

    shown = imports.checked_zone(zone)
    begins_ms, now_ms = imports.moment_ms(since, shown, "--since"), round(time.time() * 1000)
    said = given.Given(usd_per_hour, prices, list_prices)
    rule = said.price_rule(shown, (now_ms if begins_ms is None else begins_ms, now_ms))
    late_ms, gap_ms = _span_ms(lateness, "--lateness"), _span_ms(gap, "--gap")
    terms = ObserverTerms(rule, late_ms, gap_ms, shown)
    source = SlurmSource(timeout_s=_span_ms(timeout, "--timeout") / 1000)
    every_s = max(1, _span_ms(every, "--every")) / 1000
    with Observer.open(journal, source, terms, begins_ms) as observer:
        _watch(observer, every_s, once=once, tell=_teller(observer, as_json=as_json))
        observer.finish()


def _watch(
    observer: "Observer", every_s: float, *, once: bool, tell: "Callable[[AnswerTaken], None]"
) -> None:
    """Until a signal comes, or once."""
    from tidemill.live.observing import watching

    if once:
        tell(observer.ask())
        return
    stopped = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    screen.note(f"watching every {every_s:g} s; stop with Ctrl-C")
    watching.watch(observer, every_s, lambda s: _is_stopped(stopped, s), tell, _down)
    for text in observer.late.words():
        screen.note(f"late since this observer began: {text}")
    screen.note(f"stopped; told up to {_clock(observer.mark_ms)}")


def _is_stopped(stopped: Event, seconds: float) -> bool:
    """Wait in slices: a handler runs between them at the latest."""
    while seconds > 0:
        if stopped.wait(min(1.0, seconds)):
            return True
        seconds -= 1.0
    return stopped.is_set()


def _down(error: BackendError, again_s: float) -> None:
    screen.complain(error)
    screen.note(f"the cluster is asked again in {again_s:g} s")


def _teller(observer: "Observer", *, as_json: bool) -> "Callable[[AnswerTaken], None]":
    """What to print of each answer; a remark that was made is not made again."""
    said = set[str]()

    def tell(taken: "AnswerTaken") -> None:
        for text in (*taken.notes, *taken.late.words()):
            if text not in said or text in taken.late.words():
                screen.note(text)
                said.add(text)
        if taken.is_gap:
            screen.note(f"not observed for {taken.told_ms / 1000:,.0f} s before this answer")
        if as_json:
            found = {"told_up_to_ms": observer.mark_ms, **taken._asdict()}
            screen.json_out(msgspec.json.encode(found | {"late": taken.late._asdict()}))
        else:
            screen.out().print(_line(observer.mark_ms, taken), soft_wrap=True, highlight=False)

    return tell


def _line(mark_ms: int, taken: "AnswerTaken") -> str:
    """One answer: what the journal knows now."""
    over = f", {taken.over:,} on GPUs that others held" if taken.over else ""
    return (
        f"{_clock(mark_ms)}  {screen.count(taken.jobs, 'job')}: {taken.running:,} running,"
        f" {taken.waiting:,} waiting{over}; {screen.count(taken.nodes, 'node')};"
        f" {taken.lag_ms / 1000:,.0f} s behind"
    )


def _clock(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _span_ms(text: str, option: str) -> int:
    found = screen.span_ms(text, option)
    assert found is not None, "it was given"
    if found < 0:
        raise SpecError(f"{option} is `{text}`, which is no length of time", hint="such as 30s")
    return found
