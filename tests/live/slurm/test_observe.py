"""A real Slurm watched while jobs run, by observers that are killed; then counted by hand.

Of three journals: the scheduler's alone; with a training loop that posts its records to whoever
observes; and with a real Prometheus.

``TIDEMILL_SLURM_JOBS=200`` plays the whole crowd (108 s by the clock, 26 CPU-seconds, played on 17
November 2026); the suite plays a small one.
"""

import json
import os
import random
import signal
import socket
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
from tests.ledger.sums import amounts, without_causes
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
from tidemill.model import lives
from tidemill.model.measures import WHOLE_MILLI
from tidemill.track.spool import VARIABLE as WAITING

JOBS = int(os.environ.get("TIDEMILL_SLURM_JOBS", "40"))
LATENESS_S = 20
"""Of what is measured: longer than an observer is away, from a kill until the next one listens."""
LIFE_S = 8
"""How long an observer that listens lives at most."""
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
IDLE = {"n5": 0.75, "n6": 0.25}
"""What of each GPU of a node stands still, by Prometheus."""
STAYING = {"loop": ("n7", 8), "whole": ("n5", 8), "half": ("n6", 4)}
"""Jobs that run beside the crowd: where, and on how many GPUs."""


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
    port: int | None = None
    """Where it listens."""


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
        """SIGKILL, wherever it is, once it has told something if asked; and another begins.

        One that listens does so first: else, where starting takes long, nobody does for too long.
        """
        if (port := self._terms.port) is not None:
            self._rig.wait_for("the observer listens", lambda: _listens(port), 60)
        if has_told:
            self._rig.wait_for("the observer tells", self._has_told, 60)
        assert self._process.poll() is None, "it ended by itself"
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)
        self.kills += 1
        self._process = self._start()

    def stop(self, until_s: float, *more: str) -> None:
        """SIGTERM, and a last answer at a moment: when the accounting has had time."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) in {0, -signal.SIGTERM}, "it may be only just starting"
        _until(self._rig, until_s)
        subprocess.run(
            self._command("--once", *more), env=self._environment(), check=True, timeout=60
        )

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
    """A rig of its own, a crowd on it, and observers of three journals that were killed."""
    if reason := cluster.missing() or server.missing():
        pytest.skip(f"this test starts a real Slurm and a real Prometheus, and cannot: {reason}")
    folder = tmp_path_factory.mktemp("watched")
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="tidemill-", dir=cluster.quick_folder())
        place = Path(stack.enter_context(made))
        place.chmod(0o755)  # the database has another user
        rig = stack.enter_context(cluster.running(place / "slurm", nodes=7))
        (place / "prometheus").mkdir()
        url = stack.enter_context(server.running(place / "prometheus", series.lines(_activity())))
        plain = Observers(rig, folder / "fleet.sqlite")
        posted = _posted(rig, folder)

        def kill() -> None:
            plain.kill()
            posted.kill(has_told=False)

        begun_s = time.time()
        crowd.play(rig, JOBS, kill, staying=STAYING)
        rig.wait_for("the accounting has all ends", lambda: _is_accounted(rig), 60)
        plain.stop(time.time() + 3)
        subprocess.run(
            ["bash", "-ec", EXPORT], cwd=folder, env=rig.environment, check=True, timeout=60
        )
        _kill_at_random(rig, posted, folder / "stopwatch.json")
        posted.stop(time.time() + LATENESS_S + 1)
        posted.once(folder / "posted-at-once.sqlite")
        _with_prometheus(rig, folder, url, begun_s)
        yield Watched(folder / "fleet.sqlite", folder, plain.kills)


def _is_accounted(rig: cluster.Cluster) -> bool:
    """Whether the database knows that nobody runs but those that stay."""
    lines = rig.run("sacct", "-X", "-D", "-n", "-P", "-a", "-S", "now-1hour",
                    "-o", "jobname,state").splitlines()  # fmt: skip
    return {line.split("|")[0] for line in lines if line.endswith("|RUNNING")} <= {*STAYING}


def _activity() -> list[series.Recorded]:
    """How busy GPUs are for a while from now on."""
    begins_s = int(time.time()) // 60 * 60 - 60
    times = [float(begins_s + s - series.BEGIN_S) for s in range(0, 1800, 15)]
    return [
        series.Recorded("DCGM_FI_PROF_GR_ENGINE_ACTIVE", series.dcgm(node, gpu),
                        [(at, 1 - idle) for at in times])
        for node, idle in IDLE.items()
        for gpu in range(8)
    ]  # fmt: skip


def _posted(rig: cluster.Cluster, folder: Path) -> Observers:
    """An observer that a loop posts to; the loop, and two that only sleep."""
    (port,) = cluster.free_ports(1)
    terms = Terms(
        f"{LATENESS_S}s",
        ("--listen", str(port), "--track", str(folder / "taken")),
        f'[track]\nlisten = "127.0.0.1:{port}"\nfolder = "taken"\n',
        port,
    )
    found = Observers(rig, folder / "posted.sqlite", terms)
    script = rig.folder / "loop.py"
    code = LOOP.format(source=str(ROOT / "src"), address=f"http://127.0.0.1:{port}",
                       out=str(folder / "stopwatch.json"))  # fmt: skip
    script.write_text(code)
    line = f"{WAITING}={folder / 'waiting'} {sys.executable} {script}"
    for name, (node, gpus) in STAYING.items():
        what = line if name == "loop" else "sleep 600"
        crowd.submit(rig, name, "-w", node, f"--gres=gpu:h100:{gpus}", "--wrap", what)
    return found


def _kill_at_random(rig: cluster.Cluster, observers: Observers, ended: Path) -> None:
    """Until the loop has ended, and once more after that."""
    chance, is_over = random.Random(8), False
    while not is_over:
        is_over = ended.exists()
        _until(rig, time.time() + chance.uniform(0, LIFE_S))
        observers.kill(has_told=False)


def _with_prometheus(rig: cluster.Cluster, folder: Path, url: str, begun_s: float) -> None:
    """An observer that is far behind and is killed; one that is not, which tells the rest.

    Devices are told of by the minute: there has to be one that jobs ran through.
    """
    edge_s = (begun_s // 60 + 2) * 60
    _until(rig, edge_s + 3)
    begins, behind_s = datetime.fromtimestamp(begun_s, UTC).isoformat(), time.time() - edge_s + 10
    asked = ("--prometheus", url, "--resolution", "1m", "--since", begins)
    tables = f'[[prometheus]]\nurl = "{url}"\nresolution = "1m"\n'
    first = Observers(rig, folder / "measured.sqlite", Terms(f"{behind_s:.0f}s", asked, tables))
    first.kill(has_told=False)
    first.stop(0)
    Observers(rig, folder / "measured.sqlite", Terms("2s", asked, tables)).stop(time.time() + 2)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _until(rig: cluster.Cluster, at_s: float) -> None:
    rig.wait_for("it is time", lambda: time.time() > at_s, 120)


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
    """Every bucket of the ledger, and every job, as an import of the same cluster afterwards.

    A node that fails as it is given to a job ends that for Slurm, which then requeues it: whoever
    looks in between sees it end, and come again as another life. When a drain begins under a job is
    in no record: an observer knows it by its look, an import by the reason, within four seconds.
    """
    statement = api.read_statement(str(watched.journal))
    begins = begins_ms(watched.journal)
    names = ("sacct.txt", "squeue.json", "nodes.txt", "events.txt")
    past = translate.read([watched.folder / name for name in names], "UTC")
    history = events.build(
        past.attempts, past.nodes, flat({"": 2_500_000}), begins, begins + statement.world.now_ms
    )
    imported = api.keep_history(history)
    seen, told = (without_causes(amounts(one, "bucket")) for one in (statement, imported.statement))
    drained = (Bucket.DRAINING,), (Bucket.CAUSE_UNKNOWN,)
    assert abs(seen[drained[0]] - told[drained[0]]) <= 4 * 8 * 1000 * WHOLE_MILLI
    assert sum(map(seen.pop, drained)) == sum(map(told.pop, drained))
    assert seen == told
    known = statement.world.job_number
    assert {lives.origin(name, known) for name in known} == {*imported.world.job_names}
    assert amounts(statement, "bucket")[(Bucket.DRAINING,)] > 0


def test_what_a_loop_posted_is_kept_once_and_booked(watched: Watched):
    """Every record, whoever listened; steps and seconds as the loop's own stopwatch has them."""
    told = json.loads((watched.folder / "stopwatch.json").read_text())
    records = whole(watched.folder / "taken").records
    assert [one.seq for one in records] == [*range(len(records))]
    assert steps(records) == told["steps"]
    assert not [*(watched.folder / "waiting").rglob("*.jsonl")]
    sums = held_of(watched.folder / "posted.sqlite")
    saving_s = sums[Bucket.CHECKPOINT, _row(watched, "loop")["JobID"]] / WHOLE_MILLI / 1000 / 8
    # Slurm knows the second in which a job ends: what the loop did in it is not booked, one
    # checkpoint of 0.2 s at most
    assert told["saving_s"] * 0.99 - 0.2 < saving_s < told["saving_s"] * 1.01


def test_observers_that_listen_and_are_killed_tell_what_one_would(watched: Watched):
    """Beginnings, ends and every bucket of the loop and the crowd: as one that was never killed."""
    journal, at_once = watched.folder / "posted.sqlite", watched.folder / "posted-at-once.sqlite"
    assert lives_of(journal) == lives_of(at_once)
    running = {_row(watched, name)["JobID"] for name in ("whole", "half")}
    held, expected = (
        {key: amount for key, amount in held_of(one).items() if key[1] not in running}
        for one in (journal, at_once)
    )
    assert held == expected


def test_what_gpus_measured_is_what_prometheus_has(watched: Watched):
    """Of each minute that a job ran through, on a whole node and on some of its GPUs, once."""
    journal = watched.folder / "measured.sqlite"
    begins_s = begins_ms(journal) / 1000  # within a second, and within a minute that counts or not
    ends_s = int(begins_s + api.read_statement(str(journal)).world.now_ms / 1000)
    sums = held_of(journal)
    for name in ("whole", "half"):
        node, gpus = STAYING[name]
        row = _row(watched, name)
        first_s = -(-_seconds(row["Start"]) // 60) * 60
        through = range(first_s, ends_s, 60)
        assert through, "there was a whole minute"
        seen_s = sum(minute + 60 - max(minute, begins_s) for minute in through)
        idle_s = sums[Bucket.IDLE, row["JobID"]] / WHOLE_MILLI / 1000 / gpus
        assert idle_s == pytest.approx(IDLE[node] * seen_s), name


def _row(watched: Watched, name: str) -> dict[str, str]:
    """What sacct says of a job, by its name."""
    header, *lines = (watched.folder / "sacct.txt").read_text().splitlines()
    rows = [dict(zip(header.split("|"), line.split("|"), strict=False)) for line in lines]
    (found,) = (row for row in rows if row["JobName"] == name)
    return found


def _seconds(text: str) -> int:
    return round(datetime.fromisoformat(f"{text}+00:00").timestamp())
