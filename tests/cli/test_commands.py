"""What the commands promise beside their words: exit codes, clean pipes, quick help, JSON."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.main import get_group

from tests.cli.conftest import TINY
from tests.cli.shell import Ran, process, tidemill
from tidemill import api
from tidemill.cli.main import COMMANDS as COMMAND_TABLE
from tidemill.cli.main import program

COMMANDS = (
    ("demo",), ("twin",), ("twin", "run"), ("twin", "generate"), ("twin", "import"), ("ledger",),
    ("ledger", "diff"), ("diff",), ("why",), ("decision",), ("pending",), ("fit",), ("defrag",),
    ("journal",), ("journal", "export"), ("journal", "import"), ("journal", "verify"),
    ("journal", "salvage"),
    ("ingest",), ("ingest", "serve"),
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
    """`tidemill --help` loads neither a compiler nor numpy, so that it answers at once."""
    code = (
        "import sys; sys.argv = ['tidemill', '--help']; from tidemill.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print([name for name in ('llvmlite', 'numpy', 'polars') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("question", ["why", "decision"])
def test_a_question_loads_no_compiler(question: str, tiny: Path) -> None:
    """It does without polars, pydantic and other commands' modules, once it was asked.

    To load them took longer than all the rest.
    """
    words = ["tidemill", question, "whole-a100", "--at", "31h", "-j", str(tiny / "tiny.sqlite")]
    code = (
        f"import sys; sys.argv = {words}; from tidemill.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "others = ('polars', 'pydantic', 'tidemill.cli.demo')\n"
        "print([m for m in others if m in sys.modules])"
    )
    for _ in range(2):  # the first may have to compile
        ran = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
    assert ran.stdout.startswith("job `whole-a100`")
    assert ran.stdout.splitlines()[-1] == "[]"


def test_each_command_alone_is_the_one_among_all() -> None:
    """Whoever asks for one command gets it without the others, with the same options."""
    everything = get_group(program())
    assert sorted(everything.commands) == sorted(COMMAND_TABLE)
    for name in COMMAND_TABLE:
        alone = get_group(program(name)).commands
        assert list(alone) == [name]
        options = [param.name for param in alone[name].params]
        assert options == [param.name for param in everything.commands[name].params]


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
        (("why", "pre", "-j", "tiny.sqlite"), 2, "did you mean `pretrain`?"),
        (("efficiency", "--job", "pre", "-j", "tiny.sqlite"), 2, "meant: pretrain?"),
        (("ledger", "-j", "tiny.sqlite", "--by", "colour"), 2, "one of: team"),
        (("ledger", "-j", "tiny.sqlite", "--bucket", "gone"), 2, "one of: not_observed"),
        (("ledger", "-j", "tiny.sqlite", "--from", "noon"), 2, "not a time"),
        (("fit", "-j", "tiny.sqlite", "--gpus", "3", "--per-node", "2", "--team", "lab"), 2,
         "does not divide"),
        (("fit", "-j", "tiny.sqlite", "--team", "lab", "--priority", "5000000000"), 2,
         "--priority is 5,000,000,000; a job has one from -2,147,483,648 to 4,294,967,295"),
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
    assert all(change["milli_ms"] in (0, None) for change in changes["buckets"])
    assert all(row["change"]["value"] in (0, None) for row in changes["figures"])
    assert not changes["warnings"]
    assert json.loads(tidemill("diff", "tiny.sqlite", copy, "--json", cwd=tiny).out) == changes


def test_a_process_of_its_own_answers_the_same(tiny: Path) -> None:
    """What other tests ask within their own process, a shell gets too: data, errors and codes."""
    for words in (("ledger", "--json", "-j", "tiny.sqlite"), ("why", "pretrian", "tiny.sqlite")):
        assert process(*words, cwd=tiny) == tidemill(*words, cwd=tiny)


def test_python_runs_it_too() -> None:
    """`python -m tidemill` is the same program."""
    ran = subprocess.run(
        [sys.executable, "-m", "tidemill", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("tidemill ")


@pytest.mark.parametrize(
    ("typed", "found"), [("tidemill led", "ledger"), ("tidemill twin r", "run")]
)
def test_the_shell_completes(typed: str, found: str) -> None:
    """What `--install-completion` sets up asks the program, and it answers with its commands."""
    script = Path(sys.executable).with_name("tidemill")
    words = typed.split()
    told = {"COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    ran = subprocess.run(
        [script], env={**os.environ, **told, "_TIDEMILL_COMPLETE": "complete_bash"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found in ran.stdout.split()
    assert "--install-completion" in tidemill("--help").out


def test_csv_adds_up(ask: Callable[..., Ran]) -> None:
    """Lines, teams, waits and top jobs as CSV: the same numbers as in the JSON."""
    whole = json.loads(ask("ledger", "--by", "team", "--json").out)
    rows = {
        words: list(csv.DictReader(ask("ledger", *words, "--csv").out.splitlines()))
        for words in ((), ("--by", "team"), ("--waits", "--by", "team"), ("--top", "3"))
    }
    paid = whole["totals"]["usd_micro"]
    assert sum(int(row["usd_micro"] or 0) for row in rows[()]) == paid
    assert sum(int(row["usd_micro"]) for row in rows["--by", "team"]) == paid
    by_team = {row["key"]: row["jobs"] for row in whole["waits"]["rows"]}
    assert {r["team"]: int(r["jobs"]) for r in rows["--waits", "--by", "team"]} == by_team
    assert [row["job"] for row in rows["--top", "3"]] == [
        row["job"] for row in whole["top_jobs"][:3]
    ]


def test_events_as_csv(tiny: Path, tmp_path: Path) -> None:
    """One row per event, by the file's ending; it says that it cannot come back."""
    out = tmp_path / "events.csv"
    assert tidemill("journal", "export", "tiny.sqlite", str(out), cwd=tiny).code == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    with api.open_journal(str(tiny / "tiny.sqlite")) as journal:
        assert len(rows) == len(journal)
    ran = tidemill("journal", "import", str(out), str(tmp_path / "again.sqlite"))
    assert ran.code == 3
    assert "is CSV" in ran.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--waits", "--top", "3"), "two different questions"),
        (("--json", "--csv"), "two forms"),
        (("--previous",), "--previous needs a window; found no --from"),
        (("--from", "1h", "--to", "1d", "--previous"), "would begin before the journal does"),
        (("--waits", "--by", "contract"), "waits are by team, user, size, class, kind"),
        (("--from", "2026-03-05"), "this journal does not say when it began"),
    ],
)
def test_ledger_questions_that_do_not_go_together(
    ask: Callable[..., Ran], words: tuple[str, ...], says: str
) -> None:
    """Contradictions are refused with what to do instead."""
    ran = ask("ledger", *words)
    assert ran.code == 2, ran.out
    assert says in " ".join(ran.err.split())


def test_the_previous_period_stands_beside(ask: Callable[..., Ran]) -> None:
    """The second day beside the first: paid on both sides, and what each ledger says alone."""
    ran = ask("ledger", "--from", "1d", "--to", "2d", "--previous", "--json")
    figures = {row["key"]: row for row in json.loads(ran.out)["figures"]}
    for side, window in (("before", ("0d", "1d")), ("after", ("1d", "2d"))):
        alone = json.loads(ask("ledger", "--from", window[0], "--to", window[1], "--json").out)
        assert figures["paid"][side]["value"] == alone["totals"]["usd_micro"]
        assert figures["wait_mean"][side]["value"] == alone["waits"]["total"]["wait_ms"]["mean"]


def test_dates_are_shown_and_typed(tmp_path: Path) -> None:
    """With `begins` a window is typed as dates and headed with them; a date outside is refused."""
    dated = TINY.read_text().replace('horizon = "2d"', 'horizon = "2d"\nbegins = 2026-03-02')
    spec = tmp_path / "dated.toml"
    spec.write_text(dated.replace("begins = 2026-03-02", 'begins = 2026-03-02\nzone = "UTC"'))
    journal = str(tmp_path / "dated.sqlite")
    assert tidemill("twin", "run", str(spec), "-j", journal).code == 0
    words = ("ledger", journal, "--from", "2026-03-02T12:00", "--to", "2026-03-03T12:00Z")
    shown = tidemill(*words)
    assert shown.out.startswith("ledger Mon 2026-03-02 12:00 +00:00 to Tue 2026-03-03 12:00 +00:00")
    counted = tidemill("ledger", journal, "--from", "12h", "--to", "1d12h")
    assert counted.out == shown.out
    early = tidemill("ledger", journal, "--from", "2026-03-01")
    assert early.code == 2
    assert "the journal begins at Mon 2026-03-02 00:00 +00:00" in " ".join(early.err.split())


def test_fit_speaks_of_no_job_to_cancel(ask: Callable[..., Ran]) -> None:
    """`fit` offered what would run "once this job is cancelled"; nothing was submitted yet."""
    ran = ask(
        "fit", "--at", "26h", "--team", "core", "--gpus", "16", "--per-node", "8", "--kind", "H100"
    )
    assert "would run now instead: " in ran.out
    assert "cancelled" not in ran.out
    found = ask(
        "fit", "--at", "26h", "--team", "core", "--gpus", "16", "--per-node", "8", "--kind", "H100",
        "--json",
    )  # fmt: skip
    assert '"needs_cancel":true' not in found.out.replace(" ", "")
    assert "cancelled" not in found.out


def test_a_torn_journal_is_refused_and_salvaged(tiny: Path, tmp_path: Path) -> None:
    """A journal cut short is refused with a way out, and the way out works."""
    torn, saved = tmp_path / "torn.sqlite", str(tmp_path / "saved.sqlite")
    data = (tiny / "tiny.sqlite").read_bytes()
    torn.write_bytes(data[: len(data) * 2 // 3])
    ran = tidemill("ledger", "-j", str(torn))
    assert ran.code == 3, ran.out + ran.err
    assert "tidemill journal salvage" in " ".join(ran.err.split())
    kept = tidemill("journal", "salvage", str(torn), saved)
    assert kept.code == 0
    count = kept.out.split()[0]
    assert f"event {count}" in ran.err or f"all {count} events" in ran.err
    assert tidemill("journal", "verify", str(torn)).out.startswith(f"{count} events up to")
    assert tidemill("journal", "verify", saved).code == 0


def _cents(row: str) -> int:
    amount = next(word for word in row.split() if word.startswith("$"))
    return round(float(amount.strip("$").replace(",", "")) * 100)
