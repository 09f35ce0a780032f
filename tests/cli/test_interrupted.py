"""Every output about a journal that is not complete says so, in words and in JSON."""

import json
from pathlib import Path
from shutil import copy

import pytest
from typer.testing import CliRunner

from tests.cli.conftest import TINY
from tests.journal.parts import beginning
from tidemill.cli.main import app
from tidemill.journal import open_journal

READERS = (
    ("ledger",), ("ledger", "--by", "team"), ("pending",), ("fleet",), ("why", "pretrain"),
    ("fit", "--team", "lab", "--kind", "A100"), ("unit", "slivers"), ("doctor",),
    ("journal", "verify"), ("defrag", "whole-a100"),
)  # fmt: skip


@pytest.fixture(scope="module")
def stopped(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a run that was killed after 600 events."""
    path = tmp_path_factory.mktemp("stopped") / "run.sqlite"
    return beginning(tiny / "tiny.sqlite", path, 600)


def _count(path: Path) -> int:
    """How many events a journal holds."""
    with open_journal(str(path)) as journal:
        return len(journal)


def _ask(*words: str, code: int = 0) -> str:
    """What a command says, on both streams."""
    ran = CliRunner().invoke(app, list(words))
    assert ran.exit_code == code, f"{words}\n{ran.output}\n{ran.exception}"
    return " ".join(ran.output.split())


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_every_reader_says_that_a_run_was_interrupted(words: tuple[str, ...], stopped: Path):
    """The ledger of half a run was printed as if it were the whole."""
    told = _ask(*words, "-j", str(stopped))
    assert "interrupted" in told
    assert "after 600 events" in told or words == ("doctor",)  # a table that wraps


@pytest.mark.parametrize(
    "words", [words for words in READERS if words != ("doctor",)], ids=" ".join
)
def test_json_says_it_in_a_field(words: tuple[str, ...], stopped: Path, tiny: Path):
    """`journal.state` is `interrupted`, with the number of events; `complete` of a whole run."""
    for path, state, events in (
        (stopped, "interrupted", 600),
        (tiny / "tiny.sqlite", "complete", _count(tiny / "tiny.sqlite")),
    ):
        ran = CliRunner().invoke(app, [*words, "-j", str(path), "--json"])
        assert ran.exit_code == 0, ran.output
        found = json.loads(ran.stdout)["journal"]
        assert (found["state"], found["events"]) == (state, events)


def test_the_report_says_it_on_the_page(stopped: Path, tmp_path: Path):
    """The page of an interrupted run says so below its title."""
    page = tmp_path / "page.html"
    assert "interrupted" in _ask("report", "-j", str(stopped), "-o", str(page))
    assert (
        'class="subtitle"><bdi>the run that wrote this journal was interrupted' in page.read_text()
    )


def test_a_run_is_resumed_by_its_command(stopped: Path, tiny: Path, tmp_path: Path):
    """`twin run SPEC JOURNAL --resume` completes it to the World that the whole run has."""
    path = tmp_path / "run.sqlite"
    copy(stopped, path)
    words = ["twin", "run", str(TINY), str(path), "--resume", "--force"]
    assert "--force starts anew" in str(CliRunner().invoke(app, words).exception)
    _ask("twin", "run", str(TINY), str(path), "--resume")
    told = _ask("journal", "verify", str(path))
    assert told == _ask("journal", "verify", str(tiny / "tiny.sqlite"))
    assert told.endswith("sound")


def test_a_demo_is_resumed_by_its_command(stopped: Path, tmp_path: Path):
    """After an interrupt every reader says "run it again with --resume", which `demo` refused. It
    goes on with its own journal only, and does not both go on and begin anew.
    """
    copy(stopped, tmp_path / "demo.sqlite")
    words = ["demo", "--out", str(tmp_path), "--resume"]
    assert "was begun by another run" in str(CliRunner().invoke(app, words).exception)
    assert _count(tmp_path / "demo.sqlite") == 600
    assert "--force starts anew" in str(CliRunner().invoke(app, [*words, "--force"]).exception)


def test_a_replay_is_resumed_by_its_command(tmp_path: Path):
    """`twin import TRACE JOURNAL --resume` goes on with a replay, and refuses another trace."""
    trace, path = tmp_path / "trace.csv", tmp_path / "run.sqlite"
    rows = [f"{i},{1 + i % 4},{i * 60_000},1000,600" for i in range(40)]
    trace.write_text("\n".join(["job_id,num_gpu,submit_time,iterations,iteration_time", *rows]))
    words = ("twin", "import", str(trace), str(path), "--accelerators", "16")
    _ask(*words)
    whole = _ask("journal", "verify", str(path))
    beginning(path.rename(tmp_path / "whole.sqlite"), path, 50)
    other = CliRunner().invoke(app, [*words, "--kind", "T4", "--resume"])
    assert "the file or its options differs" in str(other.exception)
    _ask(*words, "--resume")
    assert _ask("journal", "verify", str(path)) == whole
