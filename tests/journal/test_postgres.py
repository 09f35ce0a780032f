"""A journal on a real PostgreSQL: what only a server can do to it, and what people are told."""

import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Event as Signal
from threading import Thread

import psycopg
import pytest

from tests.conftest import ROOT
from tests.journal.writer import event_at
from tests.rigs import postgres
from tests.rigs.postgres import Server
from tidemill.journal import Journal, exists, open_journal
from tidemill.journal import postgres as package
from tidemill.journal.building import building
from tidemill.journal.copying import copy
from tidemill.journal.faults import OtherWriterError
from tidemill.journal.forgetting import forget, replacing
from tidemill.journal.postgres import address as addresses
from tidemill.journal.postgres import server as talking
from tidemill.journal.replay import rebuild
from tidemill.journal.sqlite.journal import SqliteJournal
from tidemill.journal.table_journal import TableJournal
from tidemill.journal.trying import refuse_unless_writable
from tidemill.journal.verify import verify
from tidemill.model import events as ev
from tidemill.model.errors import JournalError, SpecError
from tidemill.model.events import Event

SECRET = "gr%C3%BCn-42"  # as it stands in an address
PLAIN = "grün-42"


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said of a server that went away, and back."""
    heard: list[str] = []
    monkeypatch.setattr(talking, "tell", heard.append)
    return heard


def schema_of(address: str) -> str:
    """The schema that keeps a journal."""
    return f'"tidemill_{addresses.of(address).name}"'


def told(server: Server, statement: str) -> list[tuple[object, ...]]:
    """What the server answers to somebody else."""
    with psycopg.connect(
        host="127.0.0.1", port=server.port, user="postgres", autocommit=True
    ) as other:
        found = other.execute(statement)
        return found.fetchall() if found.description else []


def drop_sessions(server: Server) -> None:
    """End every session of a journal, as a broken network does."""
    told(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
         " WHERE application_name = 'tidemill'")  # fmt: skip


# The connection --------------------------------------------------------------------------------


def test_a_writer_goes_on_after_the_server_was_killed(said: list[str]):
    """The server is killed with -9 at random instants of appends: each is kept once, in order."""
    rng = Random("server")
    with postgres.running(fsync="on", full_page_writes="on") as server:
        with open_journal(server.address("one"), create=True) as journal:
            for round_ in range(2):
                restart = Thread(target=_kill_and_start, args=(server, rng.uniform(0, 0.05)))
                restart.start()
                first = len(journal)
                while restart.is_alive() or len(journal) < first + 100:
                    some = [event_at(len(journal) + i) for i in range(rng.randint(1, 30))]
                    before = len(journal)
                    journal.append(some)
                    assert len(journal) == before + len(some)
                    if rng.random() < 0.1:
                        journal.set_meta("round", str(round_))
                restart.join()
            count = len(journal)
        with open_journal(server.address("one")) as reader:
            assert list(reader.read()) == [event_at(n) for n in range(count)]
        assert verify(server.address("one")).is_sound
    assert sum("went away" in text for text in said) >= 2
    assert sum("is back; going on" in text for text in said) >= 2


def _kill_and_start(server: Server, after_s: float) -> None:
    Signal().wait(after_s)
    server.kill()
    server.start()


def test_a_reader_goes_on_after_its_connection_broke(server: Server, address: str, said: list[str]):
    """A reader in the middle of a journal reads on over another connection."""
    events = [event_at(n) for n in range(200)]
    with open_journal(address, create=True) as writer:
        for first in range(0, 200, 2):
            writer.append(events[first : first + 2])
    with open_journal(address) as reader:
        reading = reader.read()
        seen = [next(reading)]
        drop_sessions(server)
        assert seen + list(reading) == events
        assert len(said) == 2


def test_a_writer_that_was_passed_over_cannot_write_on(
    server: Server, address: str, said: list[str]
):
    """Its connection broke and another wrote meanwhile, or was only the writer: it is refused."""
    for second_writes in (True, False):
        with open_journal(address, create=True) as first:
            first.append([ev.Woke(1)])
            drop_sessions(server)
            with open_journal(address) as second:
                second.claim()
                if second_writes:
                    second.append([ev.Woke(2)])
            with pytest.raises(JournalError, match=r"had 1 events|another writer") as refused:
                first.append([ev.Woke(3)])
            assert "open it again" in refused.value.hint
            with pytest.raises(JournalError):
                first.set_meta("a", "b")
        forget(address, is_forced=True)


def test_the_fence_stops_a_writer_whose_lock_was_forgotten(server: Server, address: str):
    """A server that failed over knows no locks: the number of the newest writer still counts."""
    with open_journal(address, create=True) as first:
        first.append([ev.Woke(1)])
        told(server, f"UPDATE {schema_of(address)}.form SET fence = fence + 1")
        with pytest.raises(JournalError, match="another writer"):
            first.append([ev.Woke(2)])
        assert list(first.read()) == [ev.Woke(1)]


def test_a_right_that_passes_on_takes_the_journal_along(
    server: Server, address: str, said: list[str]
):
    """Who has the Lease now writes, though the one before still has its session; that one is told
    at once when it goes on. Who writes by no right, or by another one, is left alone.
    """
    right = "the Lease a/b"
    with open_journal(address, create=True) as first, open_journal(address) as second:
        first.take_over(right)
        first.append([ev.Woke(1)])
        for other in ("the Lease a/c", ""):
            with open_journal(address) as third, pytest.raises(OtherWriterError, match=right):
                third.take_over(other) if other else third.claim()
    with open_journal(address) as first, open_journal(address) as second:
        first.take_over(right)
        second.take_over(right)
        second.append([ev.Woke(2)])
        for write in (lambda: first.append([ev.Woke(3)]), lambda: first.set_meta("a", "b")):
            begun = time.monotonic()
            with pytest.raises(OtherWriterError, match=r"had 1 events|another writer"):
                write()
            assert time.monotonic() - begun < 5
        second.append([ev.Woke(4)])
        assert list(second.read()) == [ev.Woke(1), ev.Woke(2), ev.Woke(4)]


def test_the_session_of_another_role_is_not_ended(server: Server, address: str):
    """The server does not let us: whoever wants the journal is told why, and what to do."""
    told(server, "CREATE ROLE helper LOGIN")
    with open_journal(address, create=True) as first:
        first.take_over("the Lease a/b")
        told(server, f"GRANT USAGE ON SCHEMA {schema_of(address)} TO helper")
        told(server, f"GRANT ALL ON ALL TABLES IN SCHEMA {schema_of(address)} TO helper")
        name = addresses.of(address).name
        with (
            open_journal(server.address(name, user="helper")) as second,
            pytest.raises(OtherWriterError, match="cannot be ended") as refused,
        ):
            second.take_over("the Lease a/b")
        assert "one role" in refused.value.hint
        first.append([ev.Woke(1)])
    told(server, "DROP OWNED BY helper; DROP ROLE helper")


def test_a_writer_takes_its_right_again(server: Server, address: str, said: list[str]):
    """A connection that broke between two appends costs nothing: it is the writer again."""
    with open_journal(address, create=True) as first, open_journal(address) as second:
        first.append([ev.Woke(1)])
        drop_sessions(server)
        first.append([ev.Woke(2)])
        assert second.is_being_written()
        with pytest.raises(JournalError, match=f"being written by process {os.getpid()} on "):
            second.claim()
        first.save_snapshot(rebuild(first))
        assert list(second.read()) == [ev.Woke(1), ev.Woke(2)]
    with open_journal(address) as third:
        assert not third.is_being_written()


def test_a_server_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch, said: list[str]):
    """After its patience a writer says that the server did not come back; no endless loop."""
    monkeypatch.setattr(talking, "PATIENCE_S", 0.2)
    with postgres.running() as server:
        with open_journal(server.address("one"), create=True) as journal:
            journal.append([ev.Woke(1)])
            server.stop()
            with pytest.raises(JournalError, match="did not come back in 0 s"):
                journal.append([ev.Woke(2)])
            with pytest.raises(JournalError, match="closed"):
                journal.append([ev.Woke(2)])
        with pytest.raises(JournalError, match="cannot be used now") as refused:
            open_journal(server.address("one"))
    assert "server runs" in refused.value.hint


# What people type and see ----------------------------------------------------------------------


def test_an_address_is_read():
    """Everything but the journal is for libpq; the journal must be named, by a plain name."""
    found = addresses.of("postgresql://me@h1,h2:5433/db?sslmode=require&journal=a.b-1")
    assert found.name == "a.b-1"
    assert found.server == "postgresql://me@h1,h2:5433/db?sslmode=require"
    assert addresses.of("postgres:///db?host=/run/pg&journal=x").server == (
        "postgres:///db?host=/run/pg"
    )
    for wrong in ("postgresql://h/db", "postgresql://h/db?journal=a&journal=b",
                  "postgresql://h/db?journal=", 'postgresql://h/db?journal=a"b',
                  f"postgresql://h/db?journal={'x' * 41}"):  # fmt: skip
        with pytest.raises(SpecError):
            addresses.of(wrong)


@pytest.mark.parametrize(
    "given",
    [
        f"postgresql://me:{SECRET}@127.0.0.1:1/db?journal=x",
        f"postgresql://me@127.0.0.1:1/db?journal=x&password={SECRET}",
    ],
)
def test_a_password_is_never_shown(given: str):
    """Not in what an address looks like, nor in the error of a server that cannot be reached."""
    read = addresses.of(given)
    assert read.secrets == {"password": PLAIN}
    shown = [read.shown, repr(read), str(read.server), addresses.visible(given)]
    with pytest.raises(JournalError) as refused:
        open_journal(given)
    shown += [str(refused.value), *addresses.without_passwords(["-j", f"--journal={given}"])]
    assert not [text for text in shown if SECRET in text or PLAIN in text]
    assert "postgresql://me@127.0.0.1:1/db?journal=x" in str(refused.value)
    assert addresses.of(read.shown).secrets == {"password": PLAIN}, "remembered in this process"


def test_commands_show_no_password(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    """Given on the command line or by the variable, a password is used and not printed."""
    told(server, f"CREATE ROLE keeper LOGIN SUPERUSER PASSWORD '{PLAIN}'")
    given = server.address("shown", user="keeper", password=SECRET)
    spec, page = str(ROOT / "tests" / "docs" / "tiny.toml"), tmp_path / "page.html"
    run(monkeypatch, 0, "twin", "run", spec, "-j", given)
    run(monkeypatch, 2, "twin", "run", spec, given)  # it exists
    run(monkeypatch, 0, "report", given, f"--out={page}")
    run(monkeypatch, 0, "journal", "verify", given, "--json")
    monkeypatch.setenv("TIDEMILL_JOURNAL", given)
    run(monkeypatch, 0, "ledger", "--json")
    printed = "".join(capfd.readouterr()) + page.read_text()
    assert "keeper@127.0.0.1" in printed
    assert SECRET not in printed
    assert PLAIN not in printed


def run(monkeypatch: pytest.MonkeyPatch, code: int, *words: str) -> None:
    """Run a command as a person types it."""
    from tidemill.cli.main import main

    monkeypatch.setattr(sys, "argv", ["tidemill", *words])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == code, words


def test_what_cannot_be_opened_is_said_with_what_to_do(server: Server, address: str):
    """No such journal, database or user; another's schema; a later version."""
    with pytest.raises(JournalError, match="there is no journal"):
        open_journal(address)
    with pytest.raises(JournalError, match="does not exist") as refused:
        open_journal(address.replace("/postgres?", "/nowhere?"), create=True)
    assert "createdb" in refused.value.hint
    with pytest.raises(JournalError, match="does not exist") as refused:
        open_journal(address.replace("postgres@", "nobody@"), create=True)
    assert "createuser" in refused.value.hint
    told(server, f"CREATE SCHEMA {schema_of(address)}")
    with pytest.raises(JournalError, match="not a Tidemill journal"):
        open_journal(address, create=True)
    told(server, f"DROP SCHEMA {schema_of(address)}")
    open_journal(address, create=True).close()
    told(server, f"UPDATE {schema_of(address)}.form SET version = 99")
    with pytest.raises(JournalError, match="has version 99; this Tidemill knows version 1"):
        open_journal(address)


def test_a_reader_needs_no_right_to_write(server: Server, address: str):
    """Who may only read a schema reads its journal; to write is refused with what it takes."""
    with open_journal(address, create=True) as journal:
        journal.append([ev.Woke(1)])
    schema, reader = schema_of(address), address.replace("postgres@", "reader@")
    told(server, "CREATE ROLE reader LOGIN")
    told(server, f"GRANT USAGE ON SCHEMA {schema} TO reader")
    told(server, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
    with open_journal(reader) as journal:
        assert list(journal.read()) == [ev.Woke(1)]
        with pytest.raises(JournalError, match="permission denied") as refused:
            journal.append([ev.Woke(2)])
    assert "ask for the right" in refused.value.hint
    with open_journal(address) as journal:
        journal.append([ev.Woke(2)])  # the refused one kept no lock


def schemas(server: Server) -> list[tuple[object, ...]]:
    """All schemas of the server."""
    return told(server, "SELECT nspname FROM pg_namespace ORDER BY 1")


def test_whether_a_journal_could_be_written_is_tried_with_nothing_left(
    server: Server, address: str
):
    """A new one needs CREATE on the database, the next event the right to write its tables.

    A standby, and a schema of somebody else, are told as what they are.
    """
    before = schemas(server)
    refuse_unless_writable(address)
    assert schemas(server) == before
    told(server, "CREATE ROLE trier LOGIN")
    mine = address.replace("postgres@", "trier@")
    with pytest.raises(JournalError, match="permission denied for database") as refused:
        refuse_unless_writable(mine)
    assert "CREATE on the database" in refused.value.hint
    with open_journal(address, create=True) as journal:
        journal.append([ev.Woke(1)])
        refuse_unless_writable(address)  # while it is being written
        assert len(rows_of(server, address)) == 1
    with pytest.raises(JournalError, match="permission denied for schema"):
        refuse_unless_writable(mine)
    told(server, f"GRANT USAGE ON SCHEMA {schema_of(address)} TO trier")
    for right in ("SELECT", "INSERT", "UPDATE", "DELETE"):
        with pytest.raises(JournalError, match="permission denied for table"):
            refuse_unless_writable(mine)
        told(server, f"GRANT {right} ON ALL TABLES IN SCHEMA {schema_of(address)} TO trier")
    refuse_unless_writable(mine)
    told(server, "ALTER ROLE trier SET default_transaction_read_only = on")
    with pytest.raises(JournalError, match="read-only") as refused:
        refuse_unless_writable(mine)
    assert "standby" in refused.value.hint
    told(server, f"DROP SCHEMA {schema_of(address)} CASCADE")
    told(server, f"CREATE SCHEMA {schema_of(address)}")
    with pytest.raises(JournalError, match="not a Tidemill journal"):
        refuse_unless_writable(address)


def rows_of(server: Server, address: str) -> list[tuple[object, ...]]:
    """The batches of a journal."""
    return told(server, f"SELECT seq FROM {schema_of(address)}.batches")


def test_without_psycopg_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch):
    """The library is an extra; nothing else needs it."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(JournalError, match="needs psycopg") as refused:
        open_journal("postgresql://h/db?journal=x")
    assert refused.value.hint == "pip install 'tidemill[postgres]'"
    assert package.__doc__


def test_nothing_else_loads_psycopg():
    """A command about a file, and the program's help, come up without it."""
    code = (
        "import sys, tidemill.cli.main, tidemill.api, tidemill.journal.verify;"
        "sys.exit('psycopg' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Journals that come and go ---------------------------------------------------------------------


def test_journals_of_one_database_know_nothing_of_each_other(server: Server):
    """Each has its own events, facts and writer."""
    one, two = server.address("one"), server.address("two")
    with open_journal(one, create=True) as first, open_journal(two, create=True) as second:
        first.append([ev.Woke(1)])
        second.append([ev.Woke(2), ev.Woke(3)])
        first.set_meta("name", "one")
        assert (list(first.read()), second.meta("name")) == ([ev.Woke(1)], None)
    forget(one, "one")
    assert (exists(one), exists(two)) == (False, True)
    with pytest.raises(SpecError, match="of another run"):
        forget(two, "one")


def _append_and_fail(journal: Journal | None, address: str) -> None:
    if journal is not None:
        journal.append([ev.Woke(1)])
    assert not exists(address)
    raise SpecError("it comes to nothing")


def test_a_new_journal_appears_whole_or_not_at_all(address: str):
    """While it is built nobody finds it; if that fails nothing is left, and nothing is replaced."""
    with pytest.raises(SpecError), building(address) as journal:
        _append_and_fail(journal, address)
    assert not exists(address)
    with building(address) as journal:
        journal.append([ev.Woke(1)])
    with pytest.raises(SpecError, match="exists already"), building(address):
        pass
    with open_journal(address) as journal:
        assert len(journal) == 1


def test_what_is_replaced_stays_until_there_is_something_new(server: Server, address: str):
    """A run that comes to nothing leaves the one before it; another takes its place."""
    with open_journal(address, create=True) as journal:
        journal.append([ev.Woke(1)])
    with pytest.raises(SpecError), replacing(address, is_forced=True):
        _append_and_fail(None, address)
    with open_journal(address) as journal:
        assert list(journal.read()) == [ev.Woke(1)]
    with replacing(address, is_forced=True), open_journal(address, create=True) as journal:
        journal.append([ev.Woke(2)])
    with open_journal(address) as journal:
        assert list(journal.read()) == [ev.Woke(2)]
    name = addresses.of(address).name
    left = told(server, f"SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tidemill_{name}~%'")
    assert left == []


# Copies and damage -----------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path, story: list[Event]) -> Path:
    """A story in a file, in several rows, with facts and a snapshot."""
    path = tmp_path / "kept.sqlite"
    with open_journal(str(path), create=True) as journal:
        for first, last in pairwise((0, 50, 51, 300, len(story))):
            journal.append(story[first:last])
        journal.set_meta("name", "zwölf 🌊")
        journal.save_snapshot(rebuild(journal))
    return path


def rows(where: str) -> list[object]:
    """Every row of a journal, its facts and snapshots, as they are kept."""
    with open_journal(where) as journal:
        assert isinstance(journal, TableJournal)
        found = journal.rows() or ()
        kept = [journal.stored_snapshot(seq) for seq in journal.snapshot_numbers()]
        return [[row for some, _ in found for row in some], journal.facts(), kept]


def test_a_copy_is_equal_both_ways(kept: Path, address: str, tmp_path: Path):
    """From a file to the server and back: the same rows, checksums, facts and snapshots."""
    assert copy(str(kept), address).events == 400
    back = tmp_path / "back.sqlite"
    copy(address, str(back))
    assert rows(str(kept)) == rows(address) == rows(str(back))
    assert verify(address)._replace(path="") == verify(back)._replace(path="")
    with pytest.raises(SpecError, match="exists already"):
        copy(str(kept), address)


def test_damage_is_found_and_the_intact_part_copied(
    kept: Path, server: Server, address: str, tmp_path: Path
):
    """A changed byte in a row: verify says where; a copy is refused, or keeps what came before."""
    copy(str(kept), address)
    told(server, f"UPDATE {schema_of(address)}.batches SET body = set_byte(body, 9,"
         " 255 - get_byte(body, 9)) WHERE seq = 51")  # fmt: skip
    found = verify(address)
    assert (found.events, found.is_sound) == (51, False)
    assert "checksum" in found.faults[0].found
    assert "--keep-prefix" in found.hint
    saved = tmp_path / "saved.sqlite"
    with pytest.raises(JournalError, match="broken at event 51"):
        copy(address, str(saved))
    assert not saved.exists()
    assert copy(address, str(saved), keep_prefix=True).events == 51
    with SqliteJournal(saved) as journal, SqliteJournal(kept) as before:
        assert list(journal.read()) == list(before.read())[:51]
