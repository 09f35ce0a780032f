"""Names that would steer a terminal: refused where they come in, spelt out where they are shown."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidemill import api
from tidemill.cli.main import app
from tidemill.journal import open_journal
from tidemill.journal.exchange import export_events, import_events
from tidemill.model.errors import JournalError, SpecError
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Job, Queue, Role, Shape, Share, Template
from tidemill.twin import traces
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec
from tidemill.twin.traces.options import Options

BAD = "[/k]\x1b[31mred\x00\u202e\n\x9b2J"
HOUR = 3_600_000
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SPEC = """
[[contract]]
name = "c"
kind = "H100"
count = 8
usd_per_hour = 2.0
[[team]]
name = "t"
[[job]]
name = "j"
team = "t"
work = "1h"
"""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal as earlier versions wrote it, with such a name for everything."""
    path = tmp_path_factory.mktemp("old") / "old.sqlite"
    contract = Contract(BAD, BAD, BAD, 8, 2_000_000, Template(8, 64_000, 64_000))
    shape = Shape(BAD, (Role(accelerators=8, kinds=(BAD,)),))
    jobs = [(i * HOUR, Job(f"{BAD}{i}", shape), 5 * HOUR) for i in range(4)]
    twin = Twin([contract], [Queue(BAD, (Share(BAD, 8000),))], jobs, horizon_ms=8 * HOUR)
    api.run(twin, Policy(), journal=str(path), name=BAD, end_ms=8 * HOUR)
    return path


COMMANDS = (
    "ledger", "ledger --by team", "ledger --by job", "ledger --by kind", "ledger --tree",
    "ledger --lending", "ledger --json", "pending", "pending --json",
    "why {job}", "why {job} --nodes", "why {job} --json", "fit --gpus 8", "fleet", "fleet --json",
    "defrag {job}", "doctor",
)  # fmt: skip


@pytest.mark.parametrize("line", COMMANDS)
def test_an_old_journal_with_such_names_prints_safely(old: Path, line: str):
    """Every command shows a journal whose names hold markup, escapes, NUL and line breaks."""
    words = [word.format(job=f"{BAD}3") for word in line.split()]
    done = CliRunner().invoke(app, [*words, "-j", str(old)])
    assert done.exit_code == 0, done.output or done.exception
    assert not STEERS.findall(done.stdout + done.stderr)


def test_the_page_of_an_old_journal_is_safe(old: Path, tmp_path: Path):
    """The report spells such characters out too."""
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["report", str(page), "-j", str(old)])
    assert done.exit_code == 0, done.output
    assert not STEERS.findall(page.read_text(encoding="utf-8"))


def test_a_message_spells_out_what_was_typed(old: Path):
    """A job that does not exist is named in the message without its escape codes."""
    done = CliRunner().invoke(app, ["why", BAD, "-j", str(old)], catch_exceptions=True)
    assert done.exit_code != 0
    assert not STEERS.findall(done.stdout + done.stderr)


@pytest.mark.parametrize("field", ['name = "c"', 'kind = "H100"', 'name = "t"', 'name = "j"'])
@pytest.mark.parametrize("bad", ["\\u001b[31m", "\\u0000", "\\u202e", "a\\nb", " a", "\\u200b"])
def test_a_spec_with_such_a_name_is_refused(field: str, bad: str):
    """A new name with a control character is refused, and the message shows it spelt out."""
    text = SPEC.replace(field, field.split('"', maxsplit=1)[0] + f'"{bad}"')
    with pytest.raises(SpecError, match="expected a name without control characters"):
        fleet_spec.parse(text)


def test_a_name_with_brackets_is_taken():
    """Square brackets are ordinary characters of a name."""
    assert fleet_spec.parse(SPEC.replace('"j"', '"[/k]"')).jobs[0].name == "[/k]"


def test_a_trace_with_such_a_name_is_refused(tmp_path: Path):
    """A team of a trace with an escape in it is refused by file, line and column."""
    path = tmp_path / "philly.csv"
    head = "timestamp,duration,num_gpus,gpu_time,cluster\n"
    path.write_text(head + "2017-10-09 07:01:55,66.0,1,66.0,a\x1b[31m\n", encoding="utf-8")
    with pytest.raises(SpecError, match="line 2, column `cluster`: expected a name without"):
        traces.load(path)
    path.write_text(head + "2017-10-09 07:01:55,66.0,1,66.0,a\n", encoding="utf-8")
    with pytest.raises(SpecError, match="the GPU type: expected a name"):
        traces.load(path, None, Options(kind="H\x1b"))


def test_an_import_of_such_names_is_refused(old: Path, tmp_path: Path):
    """A journal from outside is refused at the first name that holds a control character."""
    with open_journal(str(old)) as journal:
        export_events(journal, tmp_path / "old.jsonl")
    with pytest.raises(JournalError, match=r"names without control characters; found `\[/k\]\\x1b"):
        import_events(tmp_path / "old.jsonl", tmp_path / "new.sqlite")
