"""One observer in the foreground: what measures beside it, what is said of each answer, its end."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer

from tidemill.cli import activity, ingest, retention, screen
from tidemill.cli.stopping import StopSignals
from tidemill.model.errors import BackendError, SpecError

if TYPE_CHECKING:
    from tidemill.live.observing.measuring import Measuring
    from tidemill.live.observing.observer import AnswerTaken, Observer, ObserverTerms, Watched

Track = Annotated[
    Path | None,
    typer.Option(
        "--track",
        help="Records that the jobs' own loops write with tidemill.track: their folder"
        " (TIDEMILL_TRACK).",
        metavar="FOLDER",
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        help="Take records that loops send here (TIDEMILL_TRACK=http://HOST:PORT); they are kept"
        " in --track, or beside the journal. Others than this machine need a token.",
        metavar="[HOST:]PORT",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help=f"A file that holds the token of --listen; also as ${ingest.VARIABLE}.",
        metavar="PATH",
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        help="How to reach the cluster (default: as kubectl does; in a pod, its service account).",
        metavar="FILE",
    ),
]
Context = Annotated[
    str | None,
    typer.Option("--context", help="Another context than the current one.", metavar="NAME"),
]
AutoscalerNamespace = Annotated[
    str,
    typer.Option(
        "--autoscaler-namespace",
        help="Where cluster-autoscaler keeps the ConfigMap cluster-autoscaler-status (default:"
        " kube-system).",
        metavar="NAMESPACE",
    ),
]
Prometheus = Annotated[
    str | None,
    typer.Option(
        "--prometheus",
        help="Activity of the GPUs: the address of a Prometheus that has dcgm-exporter's metrics"
        " (a token from $TIDEMILL_PROMETHEUS_TOKEN).",
        metavar="URL",
    ),
]


class Beside(NamedTuple):
    """Who measures beside a scheduler, as typed (``options.takes_groups``)."""

    track: Track = None
    listen: Listen = None
    token_file: TokenFile = None
    prometheus: Prometheus = None
    resolution: activity.Resolution = activity.RESOLUTION
    ahead: activity.Ahead = activity.AHEAD
    track_ahead: activity.TrackAhead = activity.AHEAD

    @property
    def devices(self) -> activity.ActivityOptions:
        """What is asked of Prometheus."""
        return activity.ActivityOptions(self.prometheus, self.resolution, self.ahead)


NOBODY = Beside()


class AskingPace(NamedTuple):
    """How often a source is asked, and how answers are printed."""

    every: str
    once: bool = False
    as_json: bool = False
    keep: str = ""
    """How long events are kept before they are rolled up; "": for good."""


def run(
    source: "Watched",
    journal: str,
    terms: "ObserverTerms",
    beside: Beside,
    begins_ms: int | None,
    pace: AskingPace,
) -> None:
    """Watch until a signal comes, or ask once."""
    with listening(beside, journal) as folder:
        measuring = measuring_of(folder, beside)
        watch(source, journal, terms, measuring, begins_ms, pace)


def watch(
    source: "Watched",
    journal: str,
    terms: "ObserverTerms",
    measuring: "list[Measuring]",
    begins_ms: int | None,
    pace: AskingPace,
    also: "Callable[[AnswerTaken], None]" = lambda _: None,
    words: Callable[[str], str] = str,
) -> None:
    """One observer, until a signal comes, or once.

    ``also``: what else is done of each answer; ``words``: how remarks are worded here.
    """
    from tidemill.live.observing.observer import Observer

    pause_s, kept = every_s(pace.every), retention.Retention(pace.keep)
    with Observer.open(journal, source, terms, begins_ms, measuring) as observer:
        tell = _teller(observer, words, as_json=pace.as_json)

        def both(taken: "AnswerTaken") -> None:
            tell(taken)
            also(taken)
            kept.tend(observer)

        kept.tend(observer)
        _watch(
            observer,
            pause_s,
            once=pace.once,
            tell=both,
            first_s=resent_s(terms, observer, measuring),
        )
        observer.finish()


@contextmanager
def listening(beside: Beside, journal: str, *, is_said: bool = True) -> Iterator[Path | None]:
    """The folder of the loops' records; a server that keeps them there, if one is asked for."""
    from tidemill.live.ingest import serve

    if beside.listen is None:
        yield beside.track
        return
    host, port = address(beside.listen, "--listen")
    if beside.track is None and "://" in journal:
        raise SpecError(
            "--listen needs a folder for what is sent, and the journal has none beside it",
            hint="give one with --track",
        )
    folder = beside.track or Path(f"{journal}.spool")
    server, stop = serve(folder, host, port, ingest.token_of(beside.token_file))
    if is_said:
        screen.note(f"loops may send to {server.url}; their records go to {folder}")
        ingest.take_left(server)
    try:
        yield folder
    finally:
        stop()


def address(told: str, option: str) -> tuple[str, int]:
    """A host and a port as typed; this machine alone, unless a host is named."""
    host, _, port = told.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise SpecError(
            f"{option} is `{told}`, which is no address", hint="such as 8787, or 0.0.0.0:8787"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def measuring_of(
    folder: Path | None, beside: Beside, prefixes: Sequence[str] = ("",)
) -> "list[Measuring]":
    """Who measures: loops by their folder, and GPUs by a Prometheus.

    ``prefixes``: of jobs in the books, which loops call by their names without it.
    """
    from tidemill.live.observing.measuring import LoopsMeasuring, PrometheusMeasuring

    asked, is_sent = beside.devices, beside.listen is not None
    ahead_ms = activity.signed_ms(beside.track_ahead, "--track-ahead")
    found: list[Measuring] = []
    if folder is not None:
        found.append(LoopsMeasuring(folder, is_sent, ahead_ms, prefixes))
    if asked.prometheus is not None:
        found.append(PrometheusMeasuring(asked.prometheus, asked.resolution_ms, asked.ahead_ms))
    return found


BEGINS_S = 2.0
"""A new journal begins about a second before its lateness; one that begins earlier was told to."""


def resent_s(terms: "ObserverTerms", observer: "Observer", measuring: "list[Measuring]") -> float:
    """How long to wait for records that could not be sent while no observer ran, also before the
    first one.

    None are waited for where the lateness alone leaves them time enough.
    """
    late_s = terms.lateness_ms / 1000
    wait_s = min(late_s, max((one.resent_s for one in measuring), default=0.0))
    down_s = time.time() - observer.mark_ms / 1000 - late_s
    is_past = observer.is_going_on or down_s > BEGINS_S
    return wait_s if is_past and down_s + wait_s > late_s else 0.0


def _watch(
    observer: "Observer",
    every_s: float,
    *,
    once: bool,
    tell: "Callable[[AnswerTaken], None]",
    first_s: float,
) -> None:
    """Until a signal comes, or once; ``first_s``: before the first question."""
    from tidemill.live.observing import watching

    if once:
        tell(observer.ask())
        return
    with StopSignals() as stopped:
        screen.note(f"watching every {every_s:g} s; stop with Ctrl-C")
        if first_s:
            screen.note(
                f"{first_s:g} s for records that loops could not send while nobody listened"
            )
        if first_s and stopped.wait(first_s):
            return
        watching.watch(observer, every_s, stopped.wait, tell, _down)
    for text in (*observer.late.words(), *_late_records(observer.late_records)):
        screen.note(f"late since this observer began: {text}")
    screen.note(f"stopped; told up to {_clock(observer.mark_ms)}")


def _down(error: BackendError, again_s: float) -> None:
    screen.complain(error)
    screen.note(f"the cluster is asked again in {again_s:g} s")


def _teller(
    observer: "Observer", words: Callable[[str], str], *, as_json: bool
) -> "Callable[[AnswerTaken], None]":
    """What to print of each answer; a remark that was made is not made again."""
    said = set[str]()

    def tell(taken: "AnswerTaken") -> None:
        late = [*taken.late.words(), *_late_records(taken.late_records)]
        for text in (*taken.notes, *late):
            if text not in said or text in late:
                screen.note(words(text))
                said.add(text)
        if taken.is_gap:
            screen.note(f"not observed for {taken.told_ms / 1000:,.0f} s before this answer")
        if as_json:
            found = {"told_up_to_ms": observer.mark_ms, **taken._asdict()}
            screen.json_out(msgspec.json.encode(found | {"late": taken.late._asdict()}))
        else:
            screen.out().print(_line(observer.mark_ms, taken), soft_wrap=True, highlight=False)

    return tell


def _late_records(count: int) -> list[str]:
    if not count:
        return []
    return [f"{screen.count(count, 'record')} of loops came after their time was told: not used"]


def _line(mark_ms: int, taken: "AnswerTaken") -> str:
    """One answer: what the journal knows now."""
    if not taken.nodes and taken.shown_nodes:
        return (
            f"{_clock(mark_ms)}  the sources show {screen.count(taken.shown_nodes, 'node')};"
            " nothing is told of them yet: the journal begins here, and goes on once every source"
            f" has told its time; {taken.lag_ms / 1000:,.0f} s behind"
        )
    over = f", {taken.in_part:,} placed in part" if taken.in_part else ""
    over += f", {taken.over:,} on GPUs that others held" if taken.over else ""
    return (
        f"{_clock(mark_ms)}  {screen.count(taken.jobs, 'job')}: {taken.running:,} running,"
        f" {taken.waiting:,} waiting{over}; {screen.count(taken.nodes, 'node')};"
        f" {taken.lag_ms / 1000:,.0f} s behind"
    )


def _clock(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def every_s(text: str) -> float:
    """How often a source is asked."""
    found = span_ms(text, "--every") / 1000
    if found < 1:
        raise SpecError(
            f"--every is `{text}`: the cluster would be asked every {found:g} s",
            hint="a second or more, such as 30s",
        )
    return found


def lengths(lateness: str, gap: str) -> tuple[int, int]:
    """The lateness and the longest gap."""
    return span_ms(lateness, "--lateness"), span_ms(gap, "--gap")


def span_ms(text: str, option: str) -> int:
    """A length of time as typed."""
    found = screen.span_ms(text, option)
    assert found is not None, "it was given"
    if found < 0:
        raise SpecError(f"{option} is `{text}`, which is no length of time", hint="such as 30s")
    return found
