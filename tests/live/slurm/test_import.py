"""The books of a real Slurm, against a count by hand from what ``sacct`` itself prints."""

import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs import pages
from tests.ledger.sums import amounts
from tests.live.slurm.conftest import Played
from tests.live.slurm.test_real import history as settled
from tests.rigs.slurm.story import STORY
from tidemill import api, explain
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.live.history import events
from tidemill.live.prices import rules
from tidemill.live.slurm import translate
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.reasons import Layer

PRICES = rules.flat({rules.ANY: 2_000_000})
GUIDE = ROOT / "docs" / "guides" / "import-your-cluster.md"


@pytest.fixture(scope="module")
def exported(rig: Played, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the lines of the guide write, on a real cluster, in UTC."""
    settled(rig)
    folder = tmp_path_factory.mktemp("exported")
    text = GUIDE.read_text(encoding="utf-8")
    first, rest = (block.text for block in pages.blocks(text) if block.text.startswith("sacct"))
    lines = f"{first}\n{rest}"
    environment = {**rig.cluster.environment, "TZ": "UTC"}
    subprocess.run(["bash", "-ec", lines.replace("2026-10-01", "now-1hour")], cwd=folder,
                   env=environment, check=True, timeout=60)  # fmt: skip
    return folder


def by_hand(folder: Path, until: str) -> Counter[str]:
    """GPU-seconds by account: allocated GPUs times end less start, of every row that is a job."""
    found = Counter[str]()
    header, *lines = (folder / "sacct.txt").read_text().splitlines()
    cut = "\x1f" if "\x1f" in header else "|"
    names = header.split(cut)
    for line in lines:
        row = dict(zip(names, line.split(cut), strict=False))
        if "." in row["JobID"] or row["Start"] in {"Unknown", "None"}:
            continue
        gpus = [part.split("=")[1] for part in row["AllocTRES"].split(",") if "gres/gpu=" in part]
        end = until if row["End"] == "Unknown" else row["End"]
        if gpus:
            found[row["Account"]] += int(gpus[0]) * (_seconds(end) - _seconds(row["Start"]))
    return +found


def _seconds(text: str) -> int:
    day, _, clock = text.partition("T")
    hours, minutes, seconds = map(int, clock.split(":"))
    return int(day.replace("-", "")) * 86_400 + hours * 3600 + minutes * 60 + seconds


def test_the_books_are_what_sacct_says(exported: Path):
    """Requeued, preempted, failed, suspended, arrays, het jobs: GPU-time by account, exactly."""
    until = (exported / "nodes.txt").stat().st_mtime_ns // 10**9 + 2
    files = [exported / name for name in ("sacct.txt", "nodes.txt", "events.txt")]
    past = translate.read(files, "UTC")
    assert {name: refusals.total for name, refusals in past.refused.items()} == {}
    history = events.build(
        past.attempts, past.nodes, PRICES, until_ms=until * 1000, shapes=past.shapes
    )
    run = api.keep_history(history)
    statement, found = run.statement, Counter[str]()
    teams = [queue.name for queue in statement.world.queue_rows]
    for (bucket, team), amount in amounts(statement, "bucket", "team").items():
        if bucket in ALLOCATED:
            found[teams[team]] += amount
    end = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    assert history.over == 0
    assert found == {
        account: seconds * 1000 * WHOLE_MILLI for account, seconds in by_hand(exported, end).items()
    }
    assert statement.total().paid_milli_ms == 32_000 * history.length_ms
    assert amounts(statement, "bucket")[(Bucket.DRAINING,)] > 0


def test_every_reason_is_told_at_the_right_layer(rig: Played, exported: Path):
    """Each job that waits, held ones too, with Slurm's word and the layer that owns it."""
    queue = exported / "squeue.json"
    queue.write_text(rig.cluster.run("squeue", "--json"))
    past = translate.read([exported / "sacct.txt", queue, exported / "nodes.txt"], "UTC")
    world = api.keep_history(
        events.build(past.attempts, past.nodes, PRICES, shapes=past.shapes)
    ).world
    told = [one for one in STORY if one.state == "PENDING" and one.gpus]
    for one in told:
        job_id = str(rig.ids[one.name])
        j = world.job_number[job_id]
        reason = world.reason_of(j)
        assert reason is not None, one.name
        assert (one.name, reason.words.startswith(one.reason)) == (one.name, True)
        assert (one.name, Layer(reason.layer)) == (one.name, one.layer)
        said = explain.why(world, Policy(), j).words
        words, _, command = reason.words.replace("JOBID", job_id).partition("; to see it: ")
        assert f"its own scheduler says: {words}" in said
        assert command in said
    assert len(told) >= 6
