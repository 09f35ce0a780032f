"""Jobs that a real Slurm suspended, and one that it requeued and held: watched, and imported.

A rig of its own, since the jobs of others are to stay as they are.
"""

import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.ledger.sums import amounts
from tests.live.slurm.test_observe import begins_ms
from tests.rigs.slurm import cluster, crowd
from tidemill import api
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import Statement
from tidemill.live.history import events
from tidemill.live.observing.observer import Observer, ObserverTerms
from tidemill.live.prices.rules import flat
from tidemill.live.slurm import translate
from tidemill.live.slurm.polling import SlurmSource
from tidemill.model.measures import WHOLE_MILLI

LATENESS_MS = 8_000
"""Longer than a busy machine takes to write what happened into the accounting."""
PRICES = flat({"": 2_500_000})
EXPORT = """
sacct --allusers --parsable2 --duplicates --starttime now-1hour --format ALL > sacct.txt
squeue --all --states=all --json > squeue.json
scontrol --oneliner show node > nodes.txt
"""


class Seen(NamedTuple):
    """The books of an observer, and those of an import of the same time; what sacct says."""

    watched: Statement
    imported: Statement
    suspended_s: dict[str, int]
    jobs: dict[str, str]


def look(rig: cluster.Cluster, journal: Path, since_ms: int) -> None:
    """One answer, by a process that knows the journal alone."""
    source = SlurmSource(timeout_s=20, environment=rig.environment)
    terms = ObserverTerms(PRICES, lateness_ms=LATENESS_MS)
    with Observer.open(str(journal), source, terms, since_ms) as observer:
        observer.ask()


def wait(rig: cluster.Cluster, until_ms: int) -> None:
    """Until the controller's clock says so."""
    source = SlurmSource(timeout_s=20, environment=rig.environment)
    rig.wait_for("it is time", lambda: source.now_ms() >= until_ms, 60)


def play(rig: cluster.Cluster, journal: Path) -> dict[str, str]:
    """Suspend one job three times, once between two looks, one for good; requeue and hold another.

    One that is cancelled while it is suspended has ended then, as Slurm has it: it is left.
    """
    source = SlurmSource(timeout_s=20, environment=rig.environment)
    begun_ms = source.now_ms()
    jobs = {
        name: str(crowd.submit(rig, name, f"--gres=gpu:h100:{gpus}", "--wrap", "sleep 600"))
        for name, gpus in (("naps", 2), ("sleeps", 1), ("kept", 4))
    }
    rig.wait_for("they run", lambda: crowd.running(rig) >= {*jobs}, 60)

    def after(seconds: int) -> None:
        wait(rig, source.now_ms() + 1000 * seconds)

    def say(word: str, name: str) -> None:
        rig.run("scontrol", word, jobs[name])

    after(2)
    look(rig, journal, begun_ms)
    say("suspend", "naps")
    say("suspend", "sleeps")
    say("requeuehold", "kept")
    for _ in range(2):
        after(2)
        look(rig, journal, begun_ms)
    say("resume", "naps")
    after(2)
    look(rig, journal, begun_ms)
    for word in ("suspend", "resume", "suspend"):
        say(word, "naps")
        after(2)
    look(rig, journal, begun_ms)
    say("resume", "naps")
    after(1)
    rig.run("scancel", jobs["naps"])
    rig.wait_for("it is over", lambda: "naps" not in crowd.running(rig), 60)
    after(2 + LATENESS_MS // 1000)
    look(rig, journal, begun_ms)
    return jobs


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The story, watched; then its files, imported up to where the observer told."""
    if reason := cluster.missing():
        pytest.skip(f"this test starts a real Slurm, and cannot: {reason}")
    folder = tmp_path_factory.mktemp("suspended")
    with tempfile.TemporaryDirectory(prefix="tidemill-", dir=cluster.quick_folder()) as made:
        Path(made).chmod(0o755)  # the database has another user
        with cluster.running(Path(made) / "slurm", nodes=1) as rig:
            jobs = play(rig, folder / "fleet.sqlite")
            subprocess.run(
                ["bash", "-ec", EXPORT], cwd=folder, env=rig.environment, check=True, timeout=60
            )
            said = rig.run("sacct", "-n", "-X", "-P", "-o", "jobid,suspended").split()
    watched = api.read_statement(str(folder / "fleet.sqlite"))
    past = translate.read([folder / name for name in ("sacct.txt", "squeue.json", "nodes.txt")],
                          "UTC")  # fmt: skip
    begins = begins_ms(folder / "fleet.sqlite")
    history = events.build(
        past.attempts, past.nodes, PRICES, begins, begins + watched.world.now_ms,
        measured=past.paused,
    )  # fmt: skip
    seconds = dict(line.split("|") for line in said)
    return Seen(
        watched, api.keep_history(history).statement,
        {job: _seconds(text) for job, text in seconds.items()}, jobs,
    )  # fmt: skip


def _seconds(text: str) -> int:
    hours, minutes, seconds = map(int, text.split(":"))
    return (hours * 60 + minutes) * 60 + seconds


def idle_of(statement: Statement) -> Counter[str]:
    """What each job held and did nothing with, in GPU-milliseconds."""
    found = Counter[str]()
    for (bucket, j), amount in amounts(statement, "bucket", "job").items():
        if bucket == Bucket.IDLE and j >= 0:
            found[statement.world.job_names[j]] += amount // WHOLE_MILLI
    return found


def test_suspended_time_is_idle_as_long_as_sacct_says(seen: Seen):
    """Watched to the millisecond; imported as a share, of which millionths are lost."""
    job = seen.jobs["naps"]
    expected = 1000 * 2 * seen.suspended_s[job]
    assert expected > 8000
    assert idle_of(seen.watched)[job] == expected
    assert idle_of(seen.imported)[job] == pytest.approx(expected, abs=2)


def test_a_job_that_is_suspended_still_is_idle_up_to_the_end(seen: Seen):
    """From its only change on, in both books."""
    job = seen.jobs["sleeps"]
    assert idle_of(seen.watched)[job] == idle_of(seen.imported)[job] > 8000


def test_every_bucket_is_what_an_import_tells(seen: Seen):
    """Also what was free beside the job that was requeued and held: nobody asked for it."""
    watched, imported = (amounts(one, "bucket") for one in (seen.watched, seen.imported))
    assert {*watched} == {*imported}
    for place, amount in watched.items():
        assert imported[place] == pytest.approx(amount, abs=4 * WHOLE_MILLI), place
    # jobs may wait a second before they start; the held one asked for four of five free GPUs
    assert watched[(Bucket.CAUSE_UNKNOWN,)] < watched[(Bucket.NO_DEMAND,)]
    assert sum(watched.values()) == seen.watched.total().paid_milli_ms
