"""A real Slurm watched while jobs run, by observers that are killed; then counted by hand.

One keeps the books of the scheduler alone. Another has a real Prometheus beside it, and listens to
a training loop that posts its records to it.

``TIDEMILL_SLURM_JOBS=200`` plays the whole crowd (108 s by the clock, 26 CPU-seconds, played on 17
November 2026); the suite plays a small one.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT
from tests.ledger.sums import amounts
from tests.live.slurm.test_import import by_hand
from tests.rigs.observers import held_of, lives_of
from tests.rigs.prometheus import series, server
from tests.rigs.slurm import cluster, crowd
from tests.track.played import steps, whole
from tidemill import api
from tidemill.journal import open_journal
from tidemill.journal.moments import Calendar
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.ledger.statement import Statement
from tidemill.live.history import events
from tidemill.live.prices.rules import flat
from tidemill.live.slurm import translate
from tidemill.model import events as ev
from tidemill.model.measures import WHOLE_MILLI
from tidemill.track.spool import VARIABLE as WAITING

JOBS = int(os.environ.get("TIDEMILL_SLURM_JOBS", "40"))
LATENESS_S = 8
"""Of what is measured: longer than an observer is away."""
EXPORT = """
sacct --allusers --parsable2 --duplicates --starttime now-1hour --format ALL > sacct.txt
scontrol --oneliner show node > nodes.txt
sacctmgr --parsable2 show event start=now-1hour > events.txt
squeue --all --states=all --json > squeue.json
"""
LOOP = """
import json, sys, time
sys.path.insert(0, {source!r})
from tidemill import track
begun_s, saving_s = time.monotonic(), 0.0
with track.job(to={address!r}, every_s=0.1) as run:
    while time.monotonic() < begun_s + 40:
        with run.step(tokens=8):
            time.sleep(0.05)
        if run.last_step % 20 == 0:
            with run.checkpoint():
                at_s = time.monotonic()
                time.sleep(0.2)
                saving_s += time.monotonic() - at_s
told = {{"steps": run.last_step, "saving_s": saving_s, "all_s": time.monotonic() - begun_s}}
with open({out!r}, "w") as file:
    json.dump(told, file)
"""
"""What a job runs; its own stopwatch is beside what it tells."""
IDLE = {"n1": 0.75, "n2": 0.25, "n3": 0.5, "n4": 0.0}
"""What of each GPU of a node stands still, by Prometheus."""


class Watched(NamedTuple):
    """What observers wrote, what the cluster exported afterwards, and how many were killed."""

    journal: Path
    folder: Path
    kills: int


class Terms(NamedTuple):
    """How an observer is told who measures beside the cluster: by options, and in a file."""

    lateness: str = "2s"
    options: tuple[str, ...] = ()
    tables: str = ""


class Observers:
    """One observer after the other, on one journal: by options, and by a file, in turn."""

    def __init__(self, rig: cluster.Cluster, journal: Path, terms: Terms = Terms()) -> None:  # noqa: B008 - nobody writes into it
        self._rig, self._journal, self._terms, self.kills = rig, journal, terms, 0
        self._told = 0
        self._file = journal.with_suffix(".toml")
        self._file.write_text(
            f'[fleet]\njournal = "{journal.name}"\nevery = "1s"\nlateness = "{terms.lateness}"\n'
            f"[[slurm]]\n[prices]\nusd_per_hour = 2.50\n{terms.tables}"
        )
        self._process = self._start()
        rig.wait_for("the observer tells", self._has_told, 60)

    def kill(self, *, has_told: bool = True) -> None:
        """SIGKILL, wherever it is, once it has told something if asked; and another begins."""
        if has_told:
            self._rig.wait_for("the observer tells", self._has_told, 60)
        assert self._process.poll() is None, "it ended by itself"
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)
        self.kills += 1
        self._process = self._start()

    def stop(self, until_s: float) -> None:
        """SIGTERM, and a last answer at a moment: when the accounting has had time."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0
        self._rig.wait_for("the lateness is over", lambda: time.time() > until_s, 120)
        subprocess.run(self._command("--once"), env=self._environment(), check=True, timeout=60)

    def once(self, journal: Path) -> None:
        """The journal of one answer, by somebody who was never killed."""
        begins = datetime.fromtimestamp(begins_ms(self._journal) / 1000, UTC).isoformat()
        self._file.write_text(self._file.read_text().replace(
            f'"{self._journal.name}"', f'"{journal.name}"\nsince = "{begins}"'
        ))  # fmt: skip
        command = [sys.executable, "-m", "tidemill", "observe", "--config", str(self._file)]
        subprocess.run([*command, "--once"], env=self._environment(), check=True, timeout=60)

    def _has_told(self) -> bool:
        """Whether there are more events than when this was last so."""
        if not self._journal.exists():
            return False
        before, self._told = self._told, api.completeness_of(str(self._journal)).events
        return self._told > before

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command(), env=self._environment())

    def _command(self, *more: str) -> list[str]:
        if self.kills % 2:
            program = [sys.executable, "-m", "tidemill", "observe"]
            return [*program, "--config", str(self._file), *more]
        return [
            sys.executable, "-m", "tidemill", "observe", "slurm", "-j", str(self._journal),
            "--usd-per-hour", "2.50", "--every", "1s", "--lateness", self._terms.lateness,
            *self._terms.options, *more,
        ]  # fmt: skip

    def _environment(self) -> dict[str, str]:
        waiting = {WAITING: str(self._journal.with_name("waiting"))}
        return {**os.environ, **self._rig.environment, **waiting}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A rig of its own, a crowd on it, and observers of two journals that were killed."""
    if reason := cluster.missing() or server.missing():
        pytest.skip(f"this test starts a real Slurm and a real Prometheus, and cannot: {reason}")
    folder = tmp_path_factory.mktemp("watched")
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="tidemill-", dir=cluster.quick_folder())
        place = Path(stack.enter_context(made))
        rig = stack.enter_context(cluster.running(place / "slurm", nodes=4))
        (place / "prometheus").mkdir()
        url = stack.enter_context(server.running(place / "prometheus", series.lines(_activity())))
        plain = Observers(rig, folder / "fleet.sqlite")
        beside = _beside(rig, folder, url)

        def kill() -> None:
            plain.kill()
            beside.kill(has_told=False)

        crowd.play(rig, JOBS, kill)
        _kill_at_random(rig, beside, folder / "stopwatch.json")
        edge_s = time.time() // 60 * 60 + 60  # devices are told of by the minute
        plain.stop(time.time() + 3)
        beside.stop(edge_s + LATENESS_S + 1)
        beside.once(folder / "at-once.sqlite")
        subprocess.run(
            ["bash", "-ec", EXPORT], cwd=folder, env=rig.environment, check=True, timeout=60
        )
        yield Watched(folder / "fleet.sqlite", folder, plain.kills)


def _activity() -> list[series.Recorded]:
    """How busy GPUs are for a while from now on."""
    begins_s = int(time.time()) // 60 * 60 - 60
    times = [float(begins_s + s - series.BEGIN_S) for s in range(0, 1800, 5)]
    return [
        series.Recorded("DCGM_FI_PROF_GR_ENGINE_ACTIVE", series.dcgm(node, gpu),
                        [(at, 1 - idle) for at in times])
        for node, idle in IDLE.items()
        for gpu in range(8)
    ]  # fmt: skip


def _beside(rig: cluster.Cluster, folder: Path, url: str) -> Observers:
    """An observer with Prometheus that a loop posts to, which runs on half of a node."""
    (port,) = cluster.free_ports(1)
    terms = Terms(
        f"{LATENESS_S}s",
        ("--prometheus", url, "--resolution", "1m", "--listen", str(port), "--track",
         str(folder / "taken")),
        f'[[prometheus]]\nurl = "{url}"\nresolution = "1m"\n'
        f'[track]\nlisten = "127.0.0.1:{port}"\nfolder = "taken"\n',
    )  # fmt: skip
    found = Observers(rig, folder / "measured.sqlite", terms)
    script = rig.folder / "loop.py"
    code = LOOP.format(source=str(ROOT / "src"), address=f"http://127.0.0.1:{port}",
                       out=str(folder / "stopwatch.json"))  # fmt: skip
    script.write_text(code)
    line = f"{WAITING}={folder / 'waiting'} {sys.executable} {script}"
    crowd.submit(rig, "loop", "-w", "n2", "--gres=gpu:h100:4", "--wrap", line)
    return found


def _kill_at_random(rig: cluster.Cluster, observers: Observers, ended: Path) -> None:
    """Until the loop has ended, and once more after that."""
    chance, is_over = random.Random(len(str(ended))), False
    while not is_over:
        is_over = ended.exists()
        until_s = time.monotonic() + chance.uniform(0, LATENESS_S)
        rig.wait_for("it has time", lambda at_s=until_s: time.monotonic() > at_s)
        observers.kill(has_told=False)


def begins_ms(journal: Path) -> int:
    with open_journal(str(journal)) as opened:
        begins = Calendar.of(opened.facts()).begins
    assert begins is not None
    return round(begins.timestamp() * 1000)


def of_teams(statement: Statement) -> Counter[tuple[Bucket, str]]:
    """Sums by bucket and the name of a team."""
    names, found = (
        [queue.name for queue in statement.world.queue_rows],
        Counter[tuple[Bucket, str]](),
    )
    for (bucket, team), amount in amounts(statement, "bucket", "team").items():
        found[Bucket(bucket), names[team] if team >= 0 else ""] += amount
    return found


def test_what_was_watched_is_what_sacct_says(watched: Watched):
    """GPU-time by account against a count by hand from sacct, exactly; three kills in between."""
    statement = api.read_statement(str(watched.journal))
    end_s = (begins_ms(watched.journal) + statement.world.now_ms) // 1000
    until = datetime.fromtimestamp(end_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    found = Counter[str]()
    for (bucket, team), amount in of_teams(statement).items():
        if bucket in ALLOCATED:
            found[team] += amount
    counted = by_hand(watched.folder, until)
    assert watched.kills == 3
    assert len(counted) == 2
    assert found == {team: seconds * 1000 * WHOLE_MILLI for team, seconds in counted.items()}


def test_what_was_watched_is_what_an_import_tells(watched: Watched):
    """Every bucket of the ledger, and every job, as an import of the same cluster afterwards."""
    statement = api.read_statement(str(watched.journal))
    begins = begins_ms(watched.journal)
    names = ("sacct.txt", "squeue.json", "nodes.txt", "events.txt")
    past = translate.read([watched.folder / name for name in names], "UTC")
    history = events.build(
        past.attempts, past.nodes, flat({"": 2_500_000}), begins, begins + statement.world.now_ms
    )
    imported = api.keep_history(history)
    assert amounts(statement, "bucket") == amounts(imported.statement, "bucket")
    assert {*statement.world.job_names} == {*imported.world.job_names}
    assert amounts(statement, "bucket")[(Bucket.DRAINING,)] > 0


def test_a_prometheus_and_a_loop_are_joined_whoever_is_killed(watched: Watched):
    """Beginnings, ends and every bucket of every job as one observer that was never killed."""
    journal, at_once = watched.folder / "measured.sqlite", watched.folder / "at-once.sqlite"
    assert lives_of(journal) == lives_of(at_once)
    assert held_of(journal) == held_of(at_once)


def test_what_gpus_measured_is_what_prometheus_has(watched: Watched):
    """Jobs on one node, of some length: idle is the share in which its GPUs were not busy."""
    journal = str(watched.folder / "measured.sqlite")
    statement, placed = api.read_statement(journal), dict[str, set[str]]()
    world = statement.world
    with open_journal(journal) as opened:
        for event in opened.read():
            if isinstance(event, ev.PlacementSeen):
                nodes = {world.node_rows[piece.node].name for piece in event.pieces}
                placed.setdefault(world.job_names[event.job], set()).update(nodes)
    sums, found = held_of(Path(journal)), Counter[str]()
    for name, nodes in placed.items():
        held = sum(amount for (bucket, job), amount in sums.items() if job == name)
        if len(nodes) == 1 and held > 20_000 * WHOLE_MILLI and not sums[Bucket.CHECKPOINT, name]:
            (node,) = nodes
            assert sums[Bucket.IDLE, name] == round(held * IDLE[node]), (name, node)
            found[node] += 1
    assert found["n1"]
    assert found["n3"]


def test_what_a_loop_posted_is_kept_once_and_booked(watched: Watched):
    """Every record, whoever listened; steps and seconds as the loop's own stopwatch has them."""
    told = json.loads((watched.folder / "stopwatch.json").read_text())
    records = whole(watched.folder / "taken").records
    assert [one.seq for one in records] == [*range(len(records))]
    assert steps(records) == told["steps"]
    assert not [*(watched.folder / "waiting").rglob("*.jsonl")]
    sums = held_of(watched.folder / "measured.sqlite")
    (name,) = (job for bucket, job in sums if bucket == Bucket.CHECKPOINT)
    saving_s = sums[Bucket.CHECKPOINT, name] / WHOLE_MILLI / 1000 / 4
    assert saving_s == pytest.approx(told["saving_s"], rel=0.01)
