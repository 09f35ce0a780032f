"""The books of a Slurm history beside a real Prometheus: what stood idle is measured."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT
from tests.docs import pages
from tests.ledger.sums import amounts
from tests.live.prometheus.story import EXAMPLE_S
from tidemill import api
from tidemill.cli.main import app
from tidemill.ledger.buckets import Bucket
from tidemill.live.prometheus import answers
from tidemill.live.prometheus.client import Client

GUIDE = ROOT / "docs" / "guides" / "prometheus-dcgm.md"
HELD_S = {
    # GPUs, seconds, percent that was not busy
    "101": [(16, 4 * 3600 - 10, 40)],
    "102": [(8, 89 * 60 + 55, 75), (8, 6 * 3600 - 5, 40)],
    "105": [(8, 7 * 3600 - 1, 75)],
}


def by_hand() -> dict[str, int]:
    """Milli-GPU-milliseconds that each job held and did not use, from the story."""
    return {
        job: sum(gpus * seconds * percent * 10_000 for gpus, seconds, percent in some)
        for job, some in HELD_S.items()
    }


@pytest.fixture(scope="module")
def desk(prometheus: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the lines of the guide have been run, on a real Prometheus."""
    folder = tmp_path_factory.mktemp("guide")
    (folder / "examples").symlink_to(ROOT / "examples")
    text = GUIDE.read_text(encoding="utf-8")
    blocks = [block.text for block in pages.blocks(text, "text") if "$ tidemill" in block.text]
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in lines:
            words = line.replace("http://prometheus:9090", prometheus).split()
            if words[:2] == ["$", "tidemill"]:
                done = CliRunner().invoke(app, words[2:])
                assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception}"
    return folder


def test_what_stood_idle_is_measured(desk: Path):
    """By job, in whole milliseconds: the share of time that DCGM's counter was not busy."""
    statement = api.read_statement(str(desk / "measured.sqlite"))
    names = statement.world.job_names
    found = {
        names[job]: amount
        for (bucket, job), amount in amounts(statement, "bucket", "job").items()
        if bucket == Bucket.IDLE
    }
    assert found == by_hand()


def test_under_used_gpus_are_named(desk: Path, monkeypatch: pytest.MonkeyPatch):
    """g3 at 25 % busy, 6 % bandwidth and 9 % memory: one job; those on g1 are busy for 60 %."""
    monkeypatch.chdir(desk)
    line = "import slurm examples/history/sacct.txt examples/history/nodes.txt --zone Europe/Berlin"
    more = "--to 2026-11-02T20:00 --prometheus activity -j named.sqlite"
    said = CliRunner().invoke(app, [*line.split(), *more.split()]).stderr.replace("\n", " ")
    assert "under-used whole GPUs: 1 job of 1 user used less than half of" in said
    assert "in 56.0 measured GPU-hours; the most" in said
    assert "the most: job `105`, 56.0 hours (25 %, 6 %, 9 %)" in said


def test_a_journal_keeps_what_gpus_did(desk: Path, monkeypatch: pytest.MonkeyPatch):
    """The same under-used job from the journal alone, in steps of two percent."""
    monkeypatch.chdir(desk)
    told, kept = (
        json.loads(
            CliRunner().invoke(app, ["underused", "measured.sqlite", "--json", *more]).stdout
        )
        for more in (["--prometheus", "activity"], [])
    )
    assert [row["job"] for row in kept["jobs"]] == [row["job"] for row in told["jobs"]] == ["105"]
    for one, other in zip(told["jobs"], kept["jobs"], strict=True):
        assert other["gpu_ms"] == 8 * (7 * 3600 - 1) * 1000, "as the story holds them"
        for axis in ("compute_ppm", "bandwidth_ppm", "memory_ppm"):
            assert abs(other[axis] - one[axis]) <= 10_000, axis
    assert told["judged"] == kept["judged"]


def test_a_folder_says_what_the_address_says(desk: Path):
    """The events from kept hours are the events from the server itself."""
    one, two = (api.events_frame(str(desk / name)) for name in ("measured.sqlite", "again.sqlite"))
    assert one.equals(two)
    assert len(one) > 20


def test_the_same_figures_by_hand(prometheus: str):
    """What the guide asks Prometheus itself: busy hours, idle pods, memory at most."""
    text = GUIDE.read_text(encoding="utf-8")
    asked = [block.text.strip() for block in pages.blocks(text, "promql")]
    end_ms = (EXAMPLE_S + 12 * 3600) * 1000
    with Client(prometheus) as client:
        told = [client.curve(query, end_ms, end_ms + 1, 1000) for query in asked]
    hours, idle, memory = [answers.samples(one, end_ms, end_ms + 1).values for one in told]
    assert hours.tolist() == [pytest.approx(8 * 12 * 0.6)]
    assert idle.tolist() == []
    assert sorted(memory.tolist()) == pytest.approx([0.09375] * 8 + [0.225] * 16)
