"""The policy in a journal and the version of its form: what is not understood is refused."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tidemill import api
from tidemill.journal import open_journal
from tidemill.journal.exchange import export_events, import_events
from tidemill.journal.sqlite.salvage import salvage
from tidemill.journal.verify import verify
from tidemill.model import events as ev
from tidemill.model.errors import JournalError
from tidemill.model.events import Event

CANNOT = "a policy that this Tidemill cannot read"


@pytest.fixture(params=["garbage", '{"order":"chaos"}', '{"invented_later":1}', "[]"])
def odd(request: pytest.FixtureRequest, path: Path) -> Path:
    """A journal whose policy is garbage, or of a later version."""
    with open_journal(str(path), create=True) as journal:
        journal.set_meta("policy", request.param)
        journal.append([ev.Woke(1)])
    return path


def test_every_reader_refuses_a_policy_it_does_not_know(odd: Path, tmp_path: Path):
    """The World, the ledger, `verify` and an import say so with words; it was a traceback."""
    for read in (api.open_world, api.read_statement, verify):
        with pytest.raises(JournalError, match=CANNOT) as refused:
            read(str(odd))
        assert "export the journal" in refused.value.hint
    with open_journal(str(odd)) as journal:
        export_events(journal, tmp_path / "odd.jsonl")
    with pytest.raises(JournalError, match=CANNOT):
        import_events(tmp_path / "odd.jsonl", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_what_the_hint_says_helps(odd: Path, tmp_path: Path):
    """Exported, corrected in the first line and imported again, the journal can be read."""
    with open_journal(str(odd)) as journal:
        export_events(journal, tmp_path / "odd.jsonl")
    first, rest = (tmp_path / "odd.jsonl").read_text().split("\n", maxsplit=1)
    facts = json.loads(first)
    facts["facts"]["policy"] = '{"order":"fifo"}'
    (tmp_path / "mended.jsonl").write_text(f"{json.dumps(facts)}\n{rest}")
    import_events(tmp_path / "mended.jsonl", tmp_path / "mended.db")
    assert api.open_world(str(tmp_path / "mended.db"))[1].order == "fifo"


def test_the_commands_say_so(path: Path):
    """A command ends with exit code 3 and a hint, not with a traceback."""
    with open_journal(str(path), create=True) as journal:
        journal.set_meta("policy", '{"invented_later":1}')
        journal.append([ev.Woke(1)])
    for words in (("fleet",), ("doctor",), ("journal", "verify")):
        ran = tidemill(*words, str(path))
        assert ran.code == 3, ran.err
        assert CANNOT in ran.err


def test_salvage_refuses_a_later_version(path: Path, tmp_path: Path, story: list[Event]):
    """A journal of a later version is not salvaged into one of this, unless its header lies."""
    with open_journal(str(path), create=True) as journal:
        journal.append(story)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=4")
    connection.close()
    with pytest.raises(JournalError, match="has version 4; this Tidemill knows version 3"):
        salvage(path, tmp_path / "saved.db")
    assert not (tmp_path / "saved.db").exists()
    assert salvage(path, tmp_path / "saved.db", any_version=True).kept == len(story)
