"""What loops and GPUs measured while a cluster is watched, against an import of the same data."""

import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import Request, urlopen

import polars as pl
import pytest

from tests.ledger.sums import amounts
from tests.live.observing.test_observer import BEGIN_S, TERMS, Cluster
from tests.rigs.prometheus import series, server
from tests.rigs.slurm.cluster import quick_folder
from tidemill import api
from tidemill.cli import device_evidence, observers
from tidemill.journal.asked_sources import SourcePart
from tidemill.ledger import efficiency, unknowns
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.ledger.statement import Statement
from tidemill.live.history import assuming
from tidemill.live.history.events import build
from tidemill.live.history.rows import ATTEMPTS
from tidemill.live.measured import launch_names, loops, tracking
from tidemill.live.measured.windows import ERRORS, WINDOWS, Measurements, nothing
from tidemill.live.observing.measuring import (
    LoopsMeasuring,
    MeasuredPart,
    MeasuredSpan,
    Measuring,
    PrometheusMeasuring,
)
from tidemill.live.observing.observer import AnswerTaken, Observer
from tidemill.live.prometheus import fetching, joining
from tidemill.live.prometheus.client import Client
from tidemill.live.track.reader import TrackReader
from tidemill.model.errors import BackendError, SpecError
from tidemill.model.loads import LatencyFigure

Record = dict[str, Any]
JOBS: tuple[Record, ...] = (
    {"id": 7, "gpus": 4, "submit": 10, "start": 20, "end": 300, "state": "COMPLETED"},
    {"id": 8, "gpus": 8, "submit": 15, "start": 40, "end": 260, "state": "FAILED", "node": "n2"},
    {"id": 9, "gpus": 2, "submit": 30, "start": 60, "end": 200, "state": "COMPLETED"},
)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Cluster(folder)


def shown(now_s: int) -> list[Record]:
    """Rows of sacct at a moment."""
    found = list[Record]()
    for job in JOBS:
        if job["start"] <= now_s:
            known = dict(job)
            if known["end"] > now_s:
                known |= {"state": "RUNNING"}
                del known["end"]
            found.append(known)
    return found


def a_loop(job: int, rank: int, began_s: int, up_s: int, end_s: int, luck: Random) -> list[Record]:
    """The records of one rank, a second each, in order."""
    at = {"v": 1, "job": f"train-{job}", "run": f"run-{job}-{rank}", "rank": rank}
    ids = {"slurm_job": str(job)}
    found = [at | {"is": "job_began", "at_us": us(began_s), "gpus": 2, "ids": ids}]
    found.append(at | _stretch(began_s, up_s, other=up_s - began_s))
    for s in range(up_s, end_s):
        data = luck.choice((0, 0.25))
        found.append(at | _stretch(s, s + 1, data=data, checkpoint=0.5 if s % 60 == 0 else 0))
        if s % 60 == 0:
            saved = {"checkpoint": s // 60, "step": s}
            begun = {"is": "checkpoint_begun", "at_us": us(s), "is_async": False}
            found.append(at | begun | saved)
            found.append(at | {"is": "checkpoint_saved", "at_us": us(s + 3)} | saved)
    found.append(at | {"is": "job_ended", "at_us": us(end_s), "outcome": "finished"})
    return [record | {"seq": seq} for seq, record in enumerate(found)]


def us(seconds: float) -> int:
    """Seconds after the beginning, as records have them."""
    return round((BEGIN_S + seconds) * 1_000_000)


def _stretch(from_s: int, until_s: int, **parts: float) -> Record:
    """What a loop did between two moments; nothing but start-up if ``other`` is given."""
    told = {f"{name}_us": round(1_000_000 * part) for name, part in parts.items()}
    told.setdefault("other_us", 0)
    found = {"is": "steps", "from_us": us(from_s), "until_us": us(until_s), "skew_us": 0}
    if "other" in parts:
        return found | told | {"steps": 0}
    step = {"min_step_us": 1_000_000, "median_step_us": 1_000_000, "max_step_us": 1_000_000}
    work = {"compute_us": 1_000_000 - sum(told.values()), "mflop": 800_000_000}
    done = {"steps": 1, "first_step": from_s, "last_step": from_s, "tokens": 100 + from_s}
    return found | told | work | step | done


def written(record: Record) -> int:
    """When a record reaches the disk: a second after what it tells."""
    told_us: int = record["until_us"] if "until_us" in record else record["at_us"]
    return told_us + 1_000_000


def ask(cluster: Cluster, where: Path, measuring: Sequence[Measuring]) -> AnswerTaken:
    """Ask once, as a process that knows nothing but the journal."""
    terms = TERMS._replace(assumed=assuming.read(["training.mfu=0.3"]))
    with Observer.open(str(where), cluster.source, terms, BEGIN_S * 1000, measuring) as observer:
        return observer.ask()


def imported(cluster: Cluster, measured: Measurements, until_s: int) -> Statement:
    """The books of one import of all that the cluster shows in the end."""
    answer, assumed = cluster.source.poll(BEGIN_S * 1000), assuming.read(["training.mfu=0.3"])
    window = (BEGIN_S * 1000, (BEGIN_S + until_s) * 1000)
    rule = TERMS.price_of
    history = build(
        answer.attempts, answer.nodes, rule, *window, measured=measured, assumed=assumed
    )
    return api.keep_history(history).statement


def by_name(statement: Statement) -> dict[tuple[str, str], int]:
    """Sums of every bucket by the names of jobs."""
    names = [*statement.world.job_names, ""]
    found = amounts(statement, "bucket", "job")
    return {(Bucket(b).name, names[j]): amount for (b, j), amount in found.items() if amount}


def steps_done(statement: Statement) -> dict[str, tuple[int, int | None]]:
    """Steps and tokens of each job that counted them."""
    rows = efficiency.efficiencies(statement, "job").rows
    told = {row.key: row.measured.steps for row in rows}
    return {key: (steps.steps, steps.tokens) for key, steps in told.items() if steps is not None}


@pytest.mark.parametrize("is_killed", [True, False])
def test_what_loops_tell_is_booked_as_an_import_books_it(
    cluster: Cluster, tmp_path: Path, *, is_killed: bool
):
    """Two jobs that tell their steps, one that does not; records come while the cluster runs.

    With and without a new process for every answer: equal books, and nothing is late.
    """
    luck, folder, where = Random(5), tmp_path / "track", tmp_path / "fleet.sqlite"
    folder.mkdir()
    told = [*a_loop(7, 0, 22, 35, 290, luck), *a_loop(7, 1, 23, 33, 290, luck),
            *a_loop(8, 0, 41, 50, 255, luck)]  # fmt: skip
    left, now, same = sorted(told, key=written), 60, LoopsMeasuring(folder)
    while now < 420:
        here = [record for record in left if written(record) <= us(now)]
        left = left[len(here) :]
        for record in here:
            with (folder / f"{record['run']}.jsonl").open("a") as file:
                file.write(json.dumps(record) + "\n")
        cluster.at(now, *shown(now))
        taken = ask(cluster, where, [LoopsMeasuring(folder) if is_killed else same])
        assert (taken.late_records, taken.late.words()) == (0, [])
        now += luck.randrange(7, 41)
    found = api.read_statement(str(where))
    reader = TrackReader()
    launches = loops.launches(reader.stream(folder))
    names = launch_names.names_in(launches, {"7", "8", "9"})
    whole = imported(cluster, tracking.measured(launches, names), found.world.now_ms // 1000)
    assert by_name(found) == by_name(whole)
    assert steps_done(found) == steps_done(whole)
    assert steps_done(found)["8"] == (205, sum(100 + s for s in range(50, 255)))
    assert steps_done(found)["7"][0] == 290 - 35, "as its first rank counts them"
    assert found.total().milli_ms[Bucket.CHECKPOINT] > 0
    assert found.total().milli_ms[Bucket.STARTING] == (4 * 15 + 8 * 10) * 1_000_000


def test_a_record_that_comes_after_its_time_was_told_is_counted_and_left_out(
    cluster: Cluster, tmp_path: Path
):
    """A loop whose disk was away for two minutes: that time stays unmeasured; said once."""
    folder, where = tmp_path / "track", tmp_path / "fleet.sqlite"
    folder.mkdir()
    told = LoopsMeasuring(folder)
    records = a_loop(9, 0, 61, 65, 190, Random(1))
    early = [r for r in records if written(r) <= us(90)]

    def write(some: list[Record]) -> None:
        with (folder / "a.jsonl").open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in some)

    write(early)
    for now in (90, 120, 150, 180):
        cluster.at(now, *shown(now))
        assert ask(cluster, where, [told]).late_records == 0
    write([record for record in records if record not in early])
    cluster.at(260, *shown(260))
    taken = ask(cluster, where, [told])
    assert taken.late_records == sum(
        written(r) - 1_000_000 <= us(150) for r in records if r not in early
    )
    cluster.at(300, *shown(300))
    assert ask(cluster, where, [told]).late_records == 0


@pytest.mark.parametrize("is_saved", [True, False])
def test_time_before_a_loop_speaks_is_unknown_not_measured(
    cluster: Cluster, tmp_path: Path, *, is_saved: bool
):
    """A job that is told to run from 20 s on; its loop speaks at 200 s and steps from 230 s on.

    Until its first step nobody measured anything: neither work since a checkpoint, nor rework, nor
    time below the peak. What it loses when it fails before it told a checkpoint nobody knows.
    """
    folder, where = tmp_path / "track", tmp_path / "fleet.sqlite"
    folder.mkdir()
    end_s = 295 if is_saved else 239
    loop = [*a_loop(7, 0, 200, 230, end_s, Random(1)), *a_loop(7, 1, 200, 230, end_s, Random(1))]
    told = [record for record in loop if record["is"] != "job_ended"]
    row: Record = {"id": 7, "gpus": 4, "submit": 10, "start": 20}
    same, buckets = LoopsMeasuring(folder), dict[int, dict[Bucket, float]]()
    for now in range(60, 360, 30):
        here = [record for record in told if written(record) <= us(now)]
        with (folder / "a.jsonl").open("w") as file:
            file.writelines(json.dumps(record) + "\n" for record in here)
        over = {"end": end_s, "state": "FAILED"} if now >= end_s else {}
        cluster.at(now, row | over)
        with Observer.open(str(where), cluster.source, TERMS, BEGIN_S * 1000, [same]) as observer:
            assert observer.ask().late_records == 0
        found = api.read_statement(str(where)).total()
        buckets[now] = {b: found.milli_ms[b] / 4_000_000 for b in Bucket if found.milli_ms[b]}
    held = {now: {b: s for b, s in some.items() if b in ALLOCATED} for now, some in buckets.items()}
    assert held[240] == {Bucket.UNKNOWN: 190}, "the loop speaks, and has made no step"
    assert held[330][Bucket.UNKNOWN] == 210 + (0 if is_saved else 9)
    assert sum(held[330].values()) == end_s - 20
    lost_s = held[330].get(Bucket.REWORK, 0)
    assert 0 < lost_s <= end_s - 240 if is_saved else lost_s == 0


def test_only_what_is_new_is_read(cluster: Cluster, tmp_path: Path):
    """A file that nobody has written into since the oldest job began is never opened."""
    folder, where = tmp_path / "track", tmp_path / "fleet.sqlite"
    folder.mkdir()
    old = folder / "old.jsonl"
    old.write_text("this is no record\n")
    os.utime(old, (BEGIN_S - 3600, BEGIN_S - 3600))
    (folder / "new.jsonl").write_text("nor is this\n")
    cluster.at(100, *shown(100))
    told = LoopsMeasuring(folder)
    assert any("1 line is no record of" in note for note in ask(cluster, where, [told]).notes)
    cluster.at(150, *shown(150))
    assert not any("no records" in note for note in ask(cluster, where, [told]).notes)


NOBODY = "http://127.0.0.1:9"
LONG: Record = {"id": 7, "gpus": 8, "submit": 10, "start": 300, "end": 4200, "state": "COMPLETED"}


@pytest.fixture(scope="module")
def activity() -> Iterator[str]:
    """A real Prometheus with eight GPUs of a node that are busier from minute to minute.

    An engine on it is asked for more and more.
    """
    if reason := server.missing():
        pytest.skip(f"this test starts a real Prometheus, and cannot: {reason}")
    began_s = BEGIN_S - series.BEGIN_S
    samples = [(began_s + s, (s // 420 % 5) / 5) for s in range(0, 4800, 30)]
    told = [
        series.Recorded("DCGM_FI_PROF_GR_ENGINE_ACTIVE", series.dcgm("n1", gpu), samples)
        for gpu in range(8)
    ]
    served = {"instance": "n1:8000", "model_name": "llama"}
    asked = [(began_s + s, float(s * s // 900)) for s in range(0, 4800, 30)]
    waiting = [(at, float(at // 600 % 3)) for at, _ in asked]
    told += [
        series.Recorded("vllm:request_success_total", served, asked, is_counter=True),
        series.Recorded("vllm:num_requests_waiting", served, waiting),
        *(series.Recorded("vllm:e2e_request_latency_seconds_bucket", served | {"le": bound},
                          [(at, value * share) for at, value in asked])
          for bound, share in (("0.5", 0.5), ("+Inf", 1.0))),
    ]  # fmt: skip
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        server.running(Path(folder), series.lines(told)) as url,
    ):
        yield url


def test_what_gpus_tell_is_booked_as_an_import_books_it(
    cluster: Cluster, activity: str, tmp_path: Path
):
    """An hour of DCGM in windows of five minutes, told a window at a time by new processes."""
    where = tmp_path / "fleet.sqlite"
    for now in range(400, 4700, 170):
        row = LONG if now >= LONG["end"] else {k: v for k, v in LONG.items() if k != "end"}
        cluster.at(now, row | ({} if now >= LONG["end"] else {"state": "RUNNING"}))
        taken = ask(cluster, where, [PrometheusMeasuring(activity)])
        assert taken.late.words() == []
    found = api.read_statement(str(where))
    until_s = found.world.now_ms // 1000
    assert (BEGIN_S + until_s) % 300 == 0, "the journal ends with a window"
    answer = cluster.source.poll(BEGIN_S * 1000)
    with Client(activity) as client:
        hours = fetching.read(client, BEGIN_S * 1000, (BEGIN_S + until_s) * 1000)
        read = joining.join(hours, joining.Whose(answer.attempts))
    measured = nothing()._replace(windows=read.measured(), loads=read.loads)
    whole = imported(cluster, measured, until_s)
    assert by_name(found) == by_name(whole)
    assert found.total().milli_ms[Bucket.IDLE] > 0
    one, other = (efficiency.of_job(books, 0).measured for books in (found, whole))
    assert one == other
    assert one.load is not None
    first, last = -(-LONG["start"] // 30) * 30, LONG["end"] // 30 * 30
    assert abs(one.load.requests - (last**2 - first**2) // 900) <= 300, "but for its edges"
    assert one.load.waiting_milli
    assert one.load.latencies[LatencyFigure.WHOLE].at_most_us(Fraction(1, 2)) == 500_000


class AlwaysBusy:
    """Devices of job 7 that are busy all the time, in windows of a minute, and seen since then."""

    name, part, where, step_ms, resent_s = "devices", SourcePart.DEVICES, "here", 60_000, 0.0

    def __init__(self, since_s: int) -> None:
        self.since_s = since_s

    def settled_ms(self, until_ms: int) -> int:
        """The end of a minute."""
        return until_ms // 60_000 * 60_000

    def measure(self, span: MeasuredSpan, whose: joining.Whose) -> MeasuredPart:
        """Those of the time that is asked for."""
        assert len(whose.attempts)
        first = self.settled_ms((BEGIN_S + self.since_s) * 1000)
        starts = range(max(first, self.settled_ms(span.mark_ms)), span.until_ms, 60_000)
        rows = [
            {"job": "7", "start_ms": at, "end_ms": at + 60_000, "source": "dcgm",
             "busy_ppm": 1_000_000}
            for at in starts
        ]  # fmt: skip
        windows = pl.DataFrame(rows, schema={name: WINDOWS[name] for name in WINDOWS})
        return MeasuredPart(nothing()._replace(windows=windows))


@pytest.mark.parametrize(("since_s", "is_known"), [(0, True), (80, False)])
def test_devices_that_were_always_busy_are_told_as_an_import_tells_them(
    cluster: Cluster, tmp_path: Path, since_s: int, is_known: bool
):
    """By a new process for every answer: idle is measured, 0, and the events are the same. Where
    the first minute is unseen it is unknown.
    """
    where = tmp_path / "fleet.sqlite"
    for now in range(100, 420, 30):
        cluster.at(now, *[row for row in shown(now) if row["id"] == 7])
        ask(cluster, where, [AlwaysBusy(since_s)])
    found = api.read_statement(str(where))
    until_s = found.world.now_ms // 1000
    span = MeasuredSpan(BEGIN_S * 1000, (BEGIN_S + until_s) * 1000, 0, 0)
    answer = cluster.source.poll(BEGIN_S * 1000)
    whole = AlwaysBusy(since_s).measure(span, joining.Whose(answer.attempts)).measured
    once = imported(cluster, whole, until_s)
    assert by_name(found) == by_name(once)
    for books in (found, once):
        assert unknowns.is_busy_told(books) is is_known
        assert (Bucket.IDLE not in unknowns.unknowns_of(books)) is is_known
    seen = api.events_frame(str(where)).filter(pl.col("kind") == "figure_seen")
    assert len(seen) == 1, "it is told once, whoever was killed in between"


class Errors:
    """Devices that report two errors of one number: the card was replaced in between."""

    name, part, where, step_ms, resent_s = "devices", SourcePart.DEVICES, "here", 0, 0.0

    def settled_ms(self, until_ms: int) -> int:
        """Any moment."""
        return until_ms

    def measure(self, span: MeasuredSpan, whose: joining.Whose) -> MeasuredPart:
        """Those of the time that is asked for."""
        told = [(1000 * (BEGIN_S + s), "n1", 3, 79, None, uuid)
                for s, uuid in ((30, "GPU-a"), (200, "GPU-b"))]  # fmt: skip
        now = [one for one in told if span.mark_ms <= one[0] < span.until_ms]
        assert whose.nodes
        errors = pl.DataFrame(now, schema=ERRORS, orient="row")
        return MeasuredPart(nothing()._replace(errors=errors))


def test_an_observed_error_names_its_card(cluster: Cluster, tmp_path: Path):
    """The journal keeps which card it was, also where the next observer tells the next error."""
    where = tmp_path / "fleet.sqlite"
    for now_s in (150, 400):
        cluster.at(now_s, *shown(now_s))
        ask(cluster, where, [Errors()])
    with api.open_journal(str(where)) as opened:
        world, _ = api.world_of(opened)
    (found,) = device_evidence.of_nodes(str(where), world).values()
    assert [(one.xid, one.times, one.devices, one.uuids) for one in found] == [
        (79, 2, (3,), ("GPU-a", "GPU-b"))
    ]
    assert "on GPU 3 (GPU-a, GPU-b)" in device_evidence.words(found, world.now_ms)


def test_a_prometheus_that_is_down_is_waited_for_and_then_left_out(
    cluster: Cluster, tmp_path: Path
):
    """Within the gap the journal waits; after it, it goes on, and says that nothing is measured."""
    where, nobody = tmp_path / "fleet.sqlite", [PrometheusMeasuring(NOBODY, patience_s=0.1)]
    cluster.at(400, *shown(400))
    with pytest.raises(BackendError, match=re.escape(NOBODY)):
        ask(cluster, where, nobody)
    cluster.at(2000, *shown(2000))
    taken = ask(cluster, where, nobody)
    assert any("nothing is measured of this time" in note for note in taken.notes)
    assert taken.jobs == 3


def test_records_that_are_sent_while_watching_are_measured(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """`--listen` keeps what loops send where the observer reads it; it says where to send."""
    where = tmp_path / "fleet.sqlite"
    with observers.listening(observers.Beside(listen="0"), str(where)) as folder:
        assert folder == tmp_path / "fleet.sqlite.spool"
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+", capsys.readouterr().err)
        sent = "".join(json.dumps(r) + "\n" for r in a_loop(9, 0, 61, 65, 190, Random(1)))
        urlopen(Request(f"{url}/v1/records", sent.encode(), method="POST"), timeout=10).close()
        cluster.at(300, *shown(300))
        ask(cluster, where, [LoopsMeasuring(folder)])
    assert api.read_statement(str(where)).total().milli_ms[Bucket.CHECKPOINT] > 0


@pytest.mark.parametrize(
    ("listen", "found"),
    [("0.0.0.0:0", "no token was given"), ("here", "which is no address"),
     ("127.0.0.1:99999", "which is no address")],
)  # fmt: skip
def test_nobody_listens_where_anybody_could_send(tmp_path: Path, listen: str, found: str):
    """Other machines need a token; an address that is none is refused."""
    asked = observers.Beside(listen=listen)
    with (
        pytest.raises(SpecError, match=found),
        observers.listening(asked, str(tmp_path / "fleet.sqlite")),
    ):
        pass


def attempts_of(*jobs: str, since_s: int) -> pl.DataFrame:
    """Attempts of eight GPUs of a node of their own cluster, by the names of a fleet."""
    rows = [
        {"job": job, "start_ms": 1000 * (BEGIN_S + since_s), "gpus": 8,
         "nodes": [job.replace("/7", "/n1")]}
        for job in jobs
    ]  # fmt: skip
    return pl.DataFrame([dict.fromkeys(ATTEMPTS) | row for row in rows], schema=ATTEMPTS)


@pytest.mark.parametrize(
    ("prefixes", "found"), [(["east/"], ["east/7"]), (["east/", "west/"], [])]
)  # fmt: skip
def test_a_prometheus_of_one_cluster_measures_its_own_jobs(
    activity: str, prefixes: list[str], found: list[str]
):
    """Both clusters have a node n1: whose GPUs they are is known only if somebody says it."""
    whose = joining.Whose(attempts_of("east/7", "west/7", since_s=0))
    begin_ms = 1000 * (BEGIN_S // 300 * 300 + 300)
    span = MeasuredSpan(begin_ms, begin_ms + 600_000, begin_ms, begin_ms + 600_000)
    told = PrometheusMeasuring(activity, prefixes=prefixes).measure(span, whose)
    assert sorted(set(told.measured.windows["job"].to_list())) == found


@pytest.mark.parametrize(
    ("prefixes", "nodes", "found"),
    [(["east/"], ["east/n1", "west/n1"], ["east/n1"]),
     (["east/", "west/"], ["west/n1"], ["west/n1"]),
     (["east/", "west/"], ["east/n1", "west/n1"], [])],
)  # fmt: skip
def test_an_error_is_of_a_node_of_its_cluster(
    activity: str, prefixes: list[str], nodes: list[str], found: list[str]
):
    """Nodes have their clusters' names in the books; a name that two have says nothing."""
    told = PrometheusMeasuring(activity, prefixes=prefixes)
    errors = pl.DataFrame([(0, "n1", 3, 79, None, "GPU-a")], schema=ERRORS, orient="row")
    assert told.with_clusters(errors, nodes)["node"].to_list() == found


def test_a_loop_whose_job_is_on_the_books_is_found(cluster: Cluster, tmp_path: Path):
    """Also when its job is over and shown no more, and the observer was started again."""
    folder, where = tmp_path / "track", tmp_path / "fleet.sqlite"
    folder.mkdir()
    told = [*a_loop(9, 0, 61, 65, 90, Random(1)), *a_loop(5, 0, 61, 65, 90, Random(1))]
    (folder / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in told))
    same, lost = LoopsMeasuring(folder), "tracked, and not found among the jobs: train-5"
    for now, jobs in ((240, JOBS), (300, JOBS[:1])):
        cluster.at(now, *(job for job in shown(now) if job["id"] in {one["id"] for one in jobs}))
        assert lost in ask(cluster, where, [same]).notes
    cluster.at(330, *shown(330)[:1])
    assert lost in ask(cluster, where, [LoopsMeasuring(folder)]).notes


@pytest.mark.parametrize(
    ("booked", "notes"),
    [({"east/9"}, ()), ({"north/9"}, ("tracked, and not found among the jobs: train-9",))],
)
def test_a_loop_is_found_in_the_books_of_a_fleet(
    tmp_path: Path, booked: set[str], notes: tuple[str, ...]
):
    """There its job has the name of its cluster before its own."""
    records = a_loop(9, 0, 61, 65, 90, Random(1))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    whose = joining.Whose(attempts_of("east/7", since_s=0), booked=booked)
    begin_ms = 1000 * BEGIN_S
    span = MeasuredSpan(begin_ms, begin_ms + 80_000, begin_ms, begin_ms + 110_000)
    told = LoopsMeasuring(tmp_path, prefixes=["", "east/", "west/"]).measure(span, whose)
    assert told.notes == notes


@pytest.mark.parametrize(
    "whose",
    [
        joining.Whose(attempts_of("east/7", since_s=0), numbers={"9": "east/7"}),
        joining.Whose(attempts_of("east/7", since_s=0), pods={("ml", "p-0"): "east/7"}),
    ],
    ids=["number", "pod"],
)
def test_a_loop_is_known_by_what_else_names_it(tmp_path: Path, whose: joining.Whose):
    """By the number that its own cluster has for it, and by its pod."""
    records = a_loop(9, 0, 61, 65, 90, Random(1))
    records[0]["ids"] |= {"namespace": "ml", "pod": "p-0"}
    if not whose.numbers:
        del records[0]["ids"]["slurm_job"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    begin_ms = 1000 * BEGIN_S
    told = LoopsMeasuring(tmp_path).measure(
        MeasuredSpan(begin_ms, begin_ms + 80_000, begin_ms, begin_ms + 110_000), whose
    )
    assert set(told.measured.windows["job"].to_list()) == {"east/7"}
    assert told.measured.ups["up_ms"].to_list() == [begin_ms + 65_000]
