"""What is measured beside a scheduler that is watched: training loops, and GPUs by Prometheus.

Asked after every answer of the scheduler for the time from the watermark to where the journal will
be told; of what was told before nothing is read again. What comes later than that is left out, and
counted: an hour that is booked stays as it is.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import polars as pl

from tidemill.journal.asked_sources import SourcePart
from tidemill.live.measured import clocks, loops, processes, tracking
from tidemill.live.measured.joining import SKEW_MS
from tidemill.live.measured.windows import Measurements, nothing
from tidemill.live.prometheus import contradicting, fetching, joining
from tidemill.live.prometheus.client import Access, Client
from tidemill.live.prometheus.joining import Whose
from tidemill.live.track import records
from tidemill.live.track.following import FollowedRecords
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text
from tidemill.track import http
from tidemill.track.http import HttpOutlet

PATIENCE_S = 10.0
"""With a Prometheus that does not answer; the observer asks it again a little later."""
SKEW_SAID_MS = 5_000


class MeasuredSpan(NamedTuple):
    """The time that is asked for, since 1970."""

    mark_ms: int
    until_ms: int
    oldest_ms: int
    """When the oldest attempt began that goes on at the watermark."""
    now_ms: int
    """The clock of the scheduler."""


class MeasuredPart(NamedTuple):
    """What was measured in a span."""

    measured: Measurements
    late: int = 0
    """Records of the time before the watermark."""
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """What is said beside, and is no complaint about the source."""


class Measuring(Protocol):
    """Somebody who measures."""

    name: str
    part: SourcePart
    where: str
    """Its address or folder, as people know it."""
    step_ms: int
    """The journal is told in steps of this length, or of any length (0)."""
    resent_s: float
    """How long after it was down it is sent what it was not sent meanwhile (0: it asks itself)."""

    def settled_ms(self, until_ms: int) -> int:
        """Up to when at most it can tell all, of a moment."""

    def measure(self, span: MeasuredSpan, whose: Whose) -> MeasuredPart:
        """What it measured of these jobs; ``BackendError`` if it does not answer."""


class LoopsMeasuring:
    """Records that training loops write into a folder, or send to a server that keeps them there.

    Records come within a few seconds, so the lateness of the journal is enough for them.
    ``is_sent``: to a server that stops with the observer; ``ahead_ms``: how far the loops' clocks
    are ahead of the scheduler's; ``prefixes``: with which the books may have the names of jobs.
    """

    name, step_ms, part = "track", 0, SourcePart.LOOPS

    def __init__(
        self,
        path: Path,
        is_sent: bool = False,
        ahead_ms: int = 0,
        prefixes: Sequence[str] = ("",),
    ) -> None:
        self._prefixes, self._found = prefixes, set[str]()
        self.path, self.where, self._ahead_ms = path, str(path), ahead_ms
        self.resent_s = HttpOutlet.longest_pause_s + http.PATIENCE_S if is_sent else 0.0
        self._followed, self._loops = FollowedRecords(path), loops.LoopRecords()
        self._refused, self._is_going_on = 0, False

    def settled_ms(self, until_ms: int) -> int:
        """Any moment."""
        return until_ms

    def measure(self, span: MeasuredSpan, whose: Whose) -> MeasuredPart:
        """What loops told since they were last asked, and what of the rest is still to be told."""
        late, ahead = 0, dict[str, int]()
        since_ms = span.oldest_ms - SKEW_MS
        for told in self._followed.more(since_ms + min(0, self._ahead_ms)):
            record = records.moved(told, 1000 * self._ahead_ms)
            self._loops.take(record)
            until_us = processes.times_of(record)[1]
            late += self._is_going_on and until_us <= 1000 * span.mark_ms
            ahead[record.job] = max(ahead.get(record.job, 0), until_us // 1000 - span.now_ms)
        self._is_going_on = True
        self._loops.forget(1000 * span.mark_ms, 1000 * since_ms)
        launches = self._loops.launches()
        jobs = {*whose.attempts["job"].to_list(), *whose.numbers}
        found_in = loops.names_in(launches, jobs, whose.pods)
        names = {job: whose.numbers.get(name, name) for job, name in found_in.items()}
        known = [launch for launch in launches if launch.job in names]
        found = tracking.measured(known, names, 1000 * span.mark_ms, 1000 * span.until_ms)
        # jobs that are over are shown for a while only: who was found once is not lost then
        self._found = {
            one.job for one in launches
            if one.job in names or one.job in self._found or self._is_booked(one, whose)
        }  # fmt: skip
        notes = [*self._notes(launches), *_clocks_ahead(ahead)]
        against = clocks.contradictions(
            loops.renamed(known, names), whose.attempts, self.where, span.mark_ms, span.now_ms
        )
        return MeasuredPart(found.with_against(against), late, tuple(notes))

    def _is_booked(self, launch: loops.Launch, whose: Whose) -> bool:
        names = [*loops.names_of(launch)]
        return any(prefix + name in whose.booked for prefix in self._prefixes for name in names)

    def _notes(self, told: list[loops.Launch]) -> list[str]:
        notes = list[str]()
        if not self.path.exists():
            notes.append(f"{self.path}: no such folder; jobs name it in TIDEMILL_TRACK")
        if refused := self._followed.refused - self._refused:
            self._refused += refused
            is_none = "is no record" if refused == 1 else "are no records"
            notes.append(f"{self.path}: {count_text(refused, 'line')} {is_none} of tidemill.track")
        if lost := sorted({launch.job for launch in told} - self._found):
            more = " …" if len(lost) > 5 else ""
            notes.append(f"tracked, and not found among the jobs: {', '.join(lost[:5])}{more}")
        return notes


def _clocks_ahead(ahead_ms: dict[str, int]) -> list[str]:
    """Loops that tell of a time that is yet to come, by the clock of the scheduler."""
    wrong = sorted((ms, job) for job, ms in ahead_ms.items() if ms > SKEW_SAID_MS)
    if not wrong:
        return []
    most_ms, job = wrong[-1]
    said = (
        f"clocks of tracked jobs are ahead of the scheduler's ({len(wrong):,}), that of `{job}`"
        f" by {most_ms / 1000:,.0f} s: what they tell is booked by so much too late (set the clock"
        f" of its machine, or say --track-ahead {most_ms / 1000:.0f}s if all of them are)"
    )
    return [said]


class PrometheusMeasuring:
    """GPUs as dcgm-exporter and the like show them, in windows of one length.

    The journal is told up to the end of a window, so that each is told once, and whole.
    ``prefixes``: of jobs and nodes that it may know, which it calls by their names without it.
    """

    name, part, resent_s = "prometheus", SourcePart.DEVICES, 0.0

    def __init__(
        self,
        url: str,
        resolution_ms: int = joining.RESOLUTION_MS,
        ahead_ms: int = 0,
        patience_s: float = PATIENCE_S,
        answer_s: float = fetching.ANSWER_S,
        prefixes: Sequence[str] = ("",),
    ) -> None:
        if not fetching.is_address(url):
            raise SpecError(
                f"--prometheus is `{url}`, which is no address",
                hint="an observer asks a server, such as http://prometheus:9090",
            )
        joining.refuse_resolution(resolution_ms)
        self.url = self.where = Client(
            url
        ).url  # refuses what is no address, or has a password in it
        self.step_ms, self._ahead_ms = resolution_ms, ahead_ms
        self._patience_s, self._answer_s, self._prefixes = patience_s, answer_s, prefixes
        self._said: dict[str, str] = {}
        """What was first said of each sort of time that is left out: later amounts are no news."""

    def settled_ms(self, until_ms: int) -> int:
        """The end of a window."""
        return self._edge_ms(until_ms)

    def measure(self, span: MeasuredSpan, whose: Whose) -> MeasuredPart:
        """The windows from the watermark on."""
        start_ms = self._edge_ms(span.mark_ms) + self._ahead_ms
        end_ms = span.until_ms + self._ahead_ms
        against = contradicting.DevicesAgainst(
            self.where, contradicting.by_bare_name(whose.nodes, self._prefixes),
            self._own(whose).attempts, self._ahead_ms,
        )  # fmt: skip
        with Client(
            self.url, Access.told(), patience_s=self._patience_s, timeout_s=self._answer_s,
            within_s=fetching.answers_s(start_ms, end_ms),
        ) as client:  # fmt: skip
            notes = self._clock(client)
            try:
                hours = against.watched(fetching.read_minutes(client, start_ms, end_ms))
                found = joining.join(hours, self._own(whose), self.step_ms, self._ahead_ms)
            except SpecError as error:  # it has no metrics of GPUs in this time
                return MeasuredPart(nothing(), notes=(*notes, error.message))
        if not (len(found.windows) or len(found.loads)):
            notes.append("no GPU that a job holds was sampled")
        remarks = [self._said.setdefault(sort, words) for sort, words in found.left_out.items()]
        errors = self.with_clusters(found.errors(), [node.name for node in whose.nodes])
        if len(found.xids):
            notes.append(f"{count_text(len(found.xids), 'error')} that GPU drivers reported (XID)")
        if lost := len(found.xids) - len(errors):
            notes.append(
                f"{count_text(lost, 'error')} of drivers on nodes that clusters share by name"
            )
        loads = found.loads.filter(pl.col("start_ms") >= span.mark_ms)  # each stretch once
        told = nothing()._replace(windows=found.measured(), errors=errors, loads=loads)
        return MeasuredPart(told.with_against(against.found()), 0, tuple(notes), tuple(remarks))

    def _clock(self, client: Client) -> list[str]:
        """That its clock is another than was declared, if it is."""
        ahead_ms = client.clock_ahead_ms() - self._ahead_ms
        if abs(ahead_ms) < SKEW_SAID_MS:
            return []
        way, sign = ("ahead of", "") if ahead_ms > 0 else ("behind", "-")
        beside = (
            f" and the {self._ahead_ms / 1000:g} s that were declared" if self._ahead_ms else ""
        )
        said = (
            f"the clock of Prometheus is {abs(ahead_ms) / 1000:,.0f} s {way} this machine's"
            f"{beside}: what it measured belongs to other minutes (--prometheus-ahead"
            f" {sign}{abs(ahead_ms + self._ahead_ms) / 1000:.0f}s, if this machine's is right)"
        )
        return [said]

    def _own(self, whose: Whose) -> Whose:
        """Jobs that it may know, with nodes as it calls them."""
        rows = [
            whose.attempts.filter(pl.col("job").str.starts_with(prefix)).with_columns(
                pl.col("nodes").list.eval(pl.element().str.strip_prefix(prefix))
            )
            for prefix in self._prefixes
        ]
        return whose._replace(attempts=pl.concat(rows))

    def with_clusters(self, errors: pl.DataFrame, nodes: Sequence[str]) -> pl.DataFrame:
        """Errors on nodes as the books call them; without those that may be of two clusters."""
        if [*self._prefixes] == [""]:
            return errors
        names = dict[str, list[str]]()
        for prefix in self._prefixes:
            for node in nodes:
                if node.startswith(prefix):
                    names.setdefault(node.removeprefix(prefix), []).append(node)
        whole = {bare: full[0] for bare, full in names.items() if len(full) == 1}
        is_two = pl.col("node").is_in([bare for bare, full in names.items() if len(full) > 1])
        return errors.filter(~is_two).with_columns(pl.col("node").replace(whole))

    def _edge_ms(self, ms: int) -> int:
        """The last edge of a window up to a moment; windows are cut by the server's clock."""
        at = ms + self._ahead_ms
        return at // self.step_ms * self.step_ms - self._ahead_ms
