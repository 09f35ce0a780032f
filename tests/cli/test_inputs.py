"""What the commands of the twin say about a file: notes, load by GPU type, refusals."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidemill.cli.main import app

FLEET = """
[twin]
horizon = "1d"
[[contract]]
name = "h"
gpu_type = "H100"
nodes = 8
usd_per_hour = 2.0
[[contract]]
name = "a"
gpu_type = "A100"
nodes = 1
usd_per_hour = 1.0
[[queue]]
name = "t"
quota = { H100 = 8 }
[[job]]
name = "j"
queue = "t"
gpus = 8
gpu_type = "A100"
copies = 2
work = "1d"
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the words of other systems, in which one GPU type is short."""
    monkeypatch.chdir(tmp_path)
    path = Path("fleet.toml")
    path.write_text(FLEET, encoding="utf-8")
    return path


def test_a_short_type_is_said_although_the_total_fits(fleet: Path):
    """Sixteen A100 are asked of eight: 200 % of them, 22 % of the fleet."""
    done = CliRunner().invoke(app, ["twin", "load", str(fleet)])
    assert done.exit_code == 0, done.output
    assert "A100 is short: the work that can run nowhere else is 200%" in done.stdout
    assert "offered load 22% of 72 accelerators" in done.stdout
    assert "H100 is short" not in done.stdout


def test_types_beside_a_short_one_are_not_called_short(fleet: Path):
    """Forty A100 are asked of eight, and H100 or A100 for eight: only A100 cannot do its work.

    Together 48 are asked of 16, but what A100 lacks no H100 can do.
    """
    text = fleet.read_text(encoding="utf-8").replace("nodes = 8", "nodes = 1")
    text = text.replace("copies = 2", "copies = 5")
    text += '[[job]]\nname = "k"\nqueue = "t"\ngpus = 8\ngpu_type = ["A100", "H100"]\nwork = "1d"\n'
    fleet.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["twin", "load", str(fleet)])
    assert done.exit_code == 0, done.output
    assert "A100 is short: the work that can run nowhere else is 500%" in done.stdout
    assert "offered load 300% of 16 accelerators" in done.stdout
    assert done.stdout.count("is short") == 1


def test_the_load_by_type_is_in_json_too(fleet: Path):
    """The document has one part per GPU type, and the whole fleet last."""
    done = CliRunner().invoke(app, ["twin", "load", str(fleet), "--json"])
    parts = json.loads(done.stdout)["parts"]
    assert [(part["kinds"], part["share"]) for part in parts[:2]] == [(["A100"], 2), (["H100"], 0)]
    assert parts[-1]["kinds"] == ["A100", "H100"]


def test_a_run_says_which_words_it_took_for_which(fleet: Path):
    """The notes go to stderr, one for all rows that say the same."""
    done = CliRunner().invoke(app, ["twin", "run", str(fleet), "-j", "run.sqlite"])
    assert done.exit_code == 0, done.output
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert "note: `fleet.toml`, [[contract]]: `gpu_type` is read as `kind` (in 2 rows)" in notes
    assert "note: `fleet.toml`, [[team]]: `quota` is read as `guaranteed`" in notes
    assert "note:" not in done.stdout


def test_a_job_after_the_horizon_is_refused_by_run_and_load(fleet: Path):
    """It would be left out of the run without a word."""
    fleet.write_text(FLEET + 'at = "2d"\n', encoding="utf-8")
    for words in (
        ["twin", "run", "fleet.toml", "-j", "run.sqlite"],
        ["twin", "load", "fleet.toml"],
    ):
        done = CliRunner().invoke(app, words)
        assert "comes at 2d, after the horizon of 1d" in str(done.exception)
