"""Nothing is ever destroyed: what the commands do to files that are not theirs, and journals."""

from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from typer.main import get_command

from tests.cli.shell import tidemill
from tidemill.cli.main import program
from tidemill.journal import files


@pytest.fixture
def folder(tiny: Path, tmp_path: Path) -> Path:
    """A folder with a journal of its own, a fleet file, and a link to something precious."""
    copy(tiny / "tiny.sqlite", tmp_path / "run.sqlite")
    copy(tiny / "tiny.sqlite", tmp_path / "other.sqlite")
    (tmp_path / "fleet.toml").write_text("# mine\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fleet.toml",), "fleet.toml` describes a fleet"),
        (("fleet.toml", "-j", "run.sqlite"), "neither a journal nor a page"),
        (("-o", "run.sqlite", "run.sqlite", "--force"), "is the journal that the report"),
        (("-o", "other.sqlite", "run.sqlite", "--force"), "--force does not replace one"),
        (("-o", "other.sqlite", "run.sqlite"), "only a Tidemill report may be replaced"),
        (("-o", "fleet.toml", "-j", "run.sqlite"), "only a Tidemill report may be replaced"),
        (("a.html", "b.html", "-j", "run.sqlite"), "on one page"),
    ],
)
def test_a_report_replaces_only_a_report(folder: Path, words: tuple[str, ...], says: str):
    """`report X` overwrote X, whatever it was: the journal it had read, a fleet file; and with
    --force another journal, which may be the only copy of what happened.
    """
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ran = tidemill("report", *words, cwd=folder)
    assert ran.code in {2, 3}, ran.err
    assert says in ran.err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_report_of_a_journal_by_its_path(folder: Path):
    """`report run.sqlite` is a report about that journal, on a page that it names; twice too."""
    journal = (folder / "run.sqlite").read_bytes()
    planted = folder / "run.html.new"
    planted.symlink_to(folder / "fleet.toml")
    for _ in range(2):
        ran = tidemill("report", "run.sqlite", cwd=folder)
        assert ran.code == 0, ran.err
        assert ran.err.endswith("report: run.html\n")
    assert files.kind_of(folder / "run.html") == "report"
    assert (folder / "run.sqlite").read_bytes() == journal
    assert (folder / "fleet.toml").read_text() == "# mine\n"
    assert planted.is_symlink()
    assert not list(folder.glob(".tidemill*"))


@pytest.mark.parametrize(
    "words",
    [
        ("ledger", "run.sqlite", "--by", "team"), ("ledger", "--by", "team", "run.sqlite"),
        ("ledger", "-j", "run.sqlite", "--by", "team"),
        ("pending", "run.sqlite"), ("fleet", "run.sqlite"), ("doctor", "run.sqlite"),
        ("why", "pretrain", "run.sqlite"), ("journal", "verify", "-j", "run.sqlite"),
        ("ledger", "diff", "run.sqlite", "-j", "run.sqlite"),
        ("journal", "export", "-j", "run.sqlite", "run.jsonl"),
    ],
)  # fmt: skip
def test_a_journal_is_given_in_one_way(folder: Path, words: tuple[str, ...]):
    """By its path alone and by -j, in every command that reads one."""
    ran = tidemill(*words, cwd=folder)
    assert ran.code == 0, ran.err


def test_a_journal_comes_from_the_environment(folder: Path):
    """`$TIDEMILL_JOURNAL` serves when no path is given; a path goes before it."""
    ran = tidemill("journal", "verify", cwd=folder, TIDEMILL_JOURNAL="run.sqlite")
    assert (ran.code, ran.err) == (0, "")
    ran = tidemill("journal", "verify", "gone.sqlite", cwd=folder, TIDEMILL_JOURNAL="run.sqlite")
    assert "there is no such file" in ran.err


def test_every_command_that_says_so_takes_the_journal_of_the_environment():
    """Where `--help` names the variable, the option has no default of its own that would hide it.

    `schedule kubernetes` had one: its Deployment names the journal by the variable alone.
    """
    found = list[tuple[str, object]]()

    def look(name: str, command: Any) -> None:
        for inner, one in getattr(command, "commands", {}).items():
            look(f"{name} {inner}".strip(), one)
        found.extend((name, one.default) for one in command.params
                     if "$TIDEMILL_JOURNAL" in (getattr(one, "help", "") or ""))  # fmt: skip

    look("", get_command(program()))
    assert {"schedule kubernetes", "observe slurm", "import track"} <= {name for name, _ in found}
    assert [name for name, default in found if default is not None] == []


def test_two_journals_are_refused(folder: Path):
    """A path and another one behind -j: neither wins, and both are named."""
    ran = tidemill("pending", "run.sqlite", "-j", "other.sqlite", cwd=folder)
    assert ran.code == 2
    assert "two journals were given: `run.sqlite` and, with --journal, `other.sqlite`" in ran.err


def test_the_demo_removes_only_its_own(tmp_path: Path):
    """`demo` deleted `demo.sqlite.bak`; a file that is not its journal is refused at once."""
    for name in ("demo.sqlite", "demo.sqlite.bak"):
        (tmp_path / name).write_text("mine")
    ran = tidemill("demo", "--out", str(tmp_path))
    assert ran.code == 2
    assert "demo.sqlite` exists already and is not a file that Tidemill wrote" in ran.err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine", "mine"]


def test_a_run_is_replaced_only_when_told(folder: Path):
    """`twin run` over a journal is refused, and done with --force; nothing else goes."""
    (folder / "run.sqlite.bak").write_text("mine")
    spec = str(Path(__file__).with_name("tiny.toml"))
    ran = tidemill("twin", "run", spec, "run.sqlite", "--force", "--seed", "3", cwd=folder)
    assert ran.code == 0, ran.err
    assert (folder / "run.sqlite.bak").read_text() == "mine"
    assert tidemill("journal", "verify", "run.sqlite", cwd=folder).code == 0
