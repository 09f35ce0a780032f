"""A real Slurm watched while jobs run, by observers that are killed; then counted by hand.

``TIDEMILL_SLURM_JOBS=200`` plays the whole crowd (108 s by the clock, 26 CPU-seconds, played on 17
November 2026); the suite plays a small one.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.ledger.sums import amounts
from tests.live.slurm.test_import import by_hand
from tests.rigs.slurm import cluster, crowd
from tidemill import api
from tidemill.journal import open_journal
from tidemill.journal.moments import Calendar
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.ledger.statement import Statement
from tidemill.live.history import events
from tidemill.live.prices.rules import flat
from tidemill.live.slurm import translate
from tidemill.model.measures import WHOLE_MILLI

JOBS = int(os.environ.get("TIDEMILL_SLURM_JOBS", "40"))
EXPORT = """
sacct --allusers --parsable2 --duplicates --starttime now-1hour --format ALL > sacct.txt
scontrol --oneliner show node > nodes.txt
sacctmgr --parsable2 show event start=now-1hour > events.txt
squeue --all --states=all --json > squeue.json
"""


class Watched(NamedTuple):
    """What observers wrote, what the cluster exported afterwards, and how many were killed."""

    journal: Path
    folder: Path
    kills: int


class Observers:
    """One observer after the other, on one journal: by options, and by a file, in turn."""

    def __init__(self, rig: cluster.Cluster, journal: Path) -> None:
        self._rig, self._journal, self.kills = rig, journal, 0
        self._told = 0
        self._file = journal.with_name("fleet.toml")
        self._file.write_text(
            f'[fleet]\njournal = "{journal.name}"\nevery = "1s"\nlateness = "2s"\n[[slurm]]\n'
            "[prices]\nusd_per_hour = 2.50\n"
        )
        self._process = self._start()
        rig.wait_for("the observer tells", self._has_told, 60)

    def kill(self) -> None:
        """SIGKILL, wherever it is, once it has told something; and another begins."""
        self._rig.wait_for("the observer tells", self._has_told, 60)
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)
        self.kills += 1
        self._process = self._start()

    def stop(self) -> None:
        """SIGTERM, and a last answer when the accounting has had time."""
        self._rig.wait_for("the last one tells", self._has_told, 60)
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0
        until = time.monotonic() + 3
        self._rig.wait_for("the lateness is over", lambda: time.monotonic() > until)
        subprocess.run(self._command("--once"), env=self._environment(), check=True, timeout=60)

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
            "--usd-per-hour", "2.50", "--every", "1s", "--lateness", "2s", *more,
        ]  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self._rig.environment}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A rig of its own, a crowd on it, and three observers that were killed."""
    if reason := cluster.missing():
        pytest.skip(f"this test starts a real Slurm, and cannot: {reason}")
    folder = tmp_path_factory.mktemp("watched")
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=cluster.quick_folder()) as place,
        cluster.running(Path(place), nodes=4) as rig,
    ):
        observers = Observers(rig, folder / "fleet.sqlite")
        crowd.play(rig, JOBS, observers.kill)
        observers.stop()
        subprocess.run(
            ["bash", "-ec", EXPORT], cwd=folder, env=rig.environment, check=True, timeout=60
        )
        yield Watched(folder / "fleet.sqlite", folder, observers.kills)


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
