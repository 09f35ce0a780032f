"""What the commands promise beside their words: exit codes, clean pipes, quick help, JSON."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import TINY
from tests.cli.shell import Ran, tidemill

COMMANDS = (
    ("demo",), ("twin",), ("twin", "run"), ("twin", "generate"), ("twin", "import"), ("ledger",),
    ("ledger", "diff"), ("why",), ("pending",), ("fit",), ("defrag",), ("journal",),
    ("journal", "export"), ("journal", "import"), ("journal", "verify"), ("journal", "salvage"),
    ("doctor",), ("report",), ("probe",), ("probe", "compare"), ("unit", "share"),
    ("unit", "underused"), ("unit", "slivers"), ("unit", "show"), ("unit", "compare"),
    ("unit", "host"),
    ("unit", "balance"),
)  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_has_examples(words: tuple[str, ...]) -> None:
    """Every command explains itself and shows how it is called."""
    ran = tidemill(*words, "--help")
    assert ran.code == 0, ran.err
    assert "$ tidemill" in ran.out


def test_help_reaches_no_kernel() -> None:
    """`tidemill --help` loads neither numba nor numpy, so that it answers at once."""
    code = (
        "import sys; from tidemill.cli import main; "
        "sys.exit(any(name in sys.modules for name in ('numba', 'numpy', 'polars')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_lines_add_up_to_the_cent(ask: Callable[..., Ran]) -> None:
    """The dollars printed on the ledger's lines add up to the dollars printed as paid."""
    rows = [line for line in ask("ledger").out.splitlines() if "$" in line and "%" in line]
    cents = [_cents(row) for row in rows if not row.startswith(("useful:", "goodput:"))]
    assert len(cents) > 10
    assert sum(cents[1:]) == cents[0]


def test_json_is_data_and_the_rest_is_not(ask: Callable[..., Ran]) -> None:
    """With --json stdout holds one JSON document and nothing else."""
    for words in (("ledger", "--json"), ("pending", "--json"), ("doctor", "--json")):
        assert json.loads(ask(*words).out), words
    answer = json.loads(ask("why", "whole-a100", "--at", "31h", "--json").out)
    assert answer["answer"]["job"] == "whole-a100"


def test_json_ledger_is_exact(ask: Callable[..., Ran]) -> None:
    """The lines of the JSON ledger add up to what was paid, in milli·ms and in micro-dollars."""
    ledger = json.loads(ask("ledger", "--json").out)
    for unit in ("milli_ms", "usd_micro"):
        assert sum(line[unit] for line in ledger["lines"]) == ledger["totals"][unit]


def test_demo_leaves_a_journal_and_a_page(tmp_path: Path) -> None:
    """The demo prints a ledger that adds up, explains a wait, and leaves what it announces."""
    ran = tidemill("demo", "--out", str(tmp_path))
    assert ran.code == 0, ran.err
    rows = [line for line in ran.out.splitlines() if "$" in line and " % " in line]
    cents = [_cents(row) for row in rows]
    assert sum(cents[1:]) == cents[0] > 0
    assert (tmp_path / "demo.sqlite").stat().st_size > 1_000_000
    assert 'id="waterfall"' in (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert tidemill("journal", "verify", str(tmp_path / "demo.sqlite")).code == 0


def test_a_run_never_writes_into_another_story(tiny: Path) -> None:
    """A journal that exists is not appended to by a new run."""
    ran = tidemill("twin", "run", str(TINY), "-j", "tiny.sqlite", cwd=tiny)
    assert ran.code == 2
    assert "exists already" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("ledger", "-j", "nowhere.sqlite"), 3, "there is no journal `nowhere.sqlite`"),
        (("why", "pretrian", "-j", "tiny.sqlite"), 2, "did you mean `pretrain`"),
        (("ledger", "-j", "tiny.sqlite", "--by", "colour"), 2, "one of: team"),
        (("ledger", "-j", "tiny.sqlite", "--bucket", "gone"), 2, "one of: not_launched"),
        (("ledger", "-j", "tiny.sqlite", "--from", "noon"), 2, "not a time"),
        (("fit", "-j", "tiny.sqlite", "--gpus", "3", "--per-node", "2", "--team", "lab"), 2,
         "do not divide"),
        (("fit", "-j", "tiny.sqlite", "--gpus", "8"), 2, "teams: core, lab, web"),
        (("twin", "run", "absent.toml"), 2, "absent.toml"),
        (("journal", "export", "tiny.sqlite", "events.txt"), 3, "which form"),
    ],
)  # fmt: skip
def test_refusals_are_kind(words: tuple[str, ...], code: int, says: str, tiny: Path) -> None:
    """A refusal says what was found and what to do, with the documented exit code."""
    ran = tidemill(*words, cwd=tiny)
    assert ran.code == code, ran.err
    assert says in " ".join(ran.err.split())
    assert "Traceback" not in ran.err
    assert "hint:" in ran.err


def test_journals_travel(tiny: Path, tmp_path: Path) -> None:
    """Export and import give the same ledger; verify finds both sound; diff finds no change."""
    lines, copy = str(tmp_path / "events.jsonl.gz"), str(tmp_path / "copy.sqlite")
    assert tidemill("journal", "export", "tiny.sqlite", lines, cwd=tiny).code == 0
    assert tidemill("journal", "import", lines, copy).code == 0
    assert tidemill("journal", "verify", copy).code == 0
    changes = json.loads(tidemill("ledger", "diff", "tiny.sqlite", copy, "--json", cwd=tiny).out)
    assert all(change["milli_ms"] == 0 for change in changes)


def test_a_torn_journal_is_refused_and_salvaged(tiny: Path, tmp_path: Path) -> None:
    """A journal cut short is refused with a way out, and the way out works."""
    torn, saved = tmp_path / "torn.sqlite", str(tmp_path / "saved.sqlite")
    data = (tiny / "tiny.sqlite").read_bytes()
    torn.write_bytes(data[: len(data) * 2 // 3])
    ran = tidemill("ledger", "-j", str(torn))
    assert ran.code == 3, ran.out + ran.err
    assert "tidemill journal salvage" in " ".join(ran.err.split())
    assert tidemill("journal", "salvage", str(torn), saved).code == 0
    assert tidemill("journal", "verify", saved).code == 0


def _cents(row: str) -> int:
    amount = next(word for word in row.split() if word.startswith("$"))
    return round(float(amount.strip("$").replace(",", "")) * 100)
