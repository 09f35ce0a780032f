"""How files are written: whole, under their name in one step, and over nothing that is not ours."""

import os
from pathlib import Path

import pytest

from tidemill.journal import files, lock, open_journal
from tidemill.journal.exchange import export_events
from tidemill.journal.forgetting import forget
from tidemill.journal.trying import refuse_unless_writable
from tidemill.model import events as ev
from tidemill.model.errors import JournalError, SpecError

PAGE = b'<!doctype html>\n<meta name="generator" content="tidemill 0.1">\n'


def _journal(path: Path, name: str = "demo") -> Path:
    with open_journal(str(path), create=True) as journal:
        journal.set_meta("name", name)
        journal.append([ev.Woke(1)])
    return path


def test_our_files_are_known_by_what_is_in_them(tmp_path: Path):
    """A journal, its exports and a report are recognised whatever they are called; others not."""
    made = {_journal(tmp_path / "a.html"): "journal"}
    with open_journal(str(tmp_path / "a.html")) as journal:
        for name in ("b.jsonl", "b.jsonl.gz", "b.parquet"):
            export_events(journal, tmp_path / name)
            made[tmp_path / name] = "exported events"
    (tmp_path / "c.sqlite").write_bytes(PAGE)
    (tmp_path / "d.html").write_bytes(b"<!doctype html>\n<p>tidemill\n")
    (tmp_path / "fleet.toml").write_text("[twin]\n")
    (tmp_path / "e.json").write_text('{"seq": 1}')
    found = {path: files.kind_of(path) for path in tmp_path.iterdir() if files.kind_of(path)}
    assert found == made | {tmp_path / "c.sqlite": "report"}


def test_a_probe_result_is_known():
    """The probe results that ship as examples are recognised."""
    folder = Path(__file__).parents[2] / "examples" / "cards"
    assert {files.kind_of(path) for path in folder.iterdir()} == {"probe result"}


@pytest.mark.parametrize("name", ["precious.txt", "journal", "link", "dangling"])
def test_what_is_not_ours_is_left_alone(tmp_path: Path, name: str):
    """A text, a journal and any link are refused under the name of a page, and stay as they are."""
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    _journal(tmp_path / "journal")
    (tmp_path / "report").write_bytes(PAGE)
    (tmp_path / "link").symlink_to(tmp_path / "report")  # even a link to a report is not a report
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.exists()}
    with pytest.raises(SpecError, match="exists already"):
        files.write(tmp_path / name, PAGE, replaces="report")
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.exists()} == before


def test_a_link_is_replaced_and_not_followed(tmp_path: Path):
    """Told to, a link is replaced; what it led to is not touched."""
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    (tmp_path / "page").symlink_to(precious)
    files.write(tmp_path / "page", PAGE, is_forced=True)
    assert precious.read_text() == "precious"
    assert (tmp_path / "page").read_bytes() == PAGE
    assert not (tmp_path / "page").is_symlink()


def test_a_page_replaces_a_page_and_keeps_its_rights(tmp_path: Path):
    """What the same command wrote before is replaced, readable by whoever could read it before."""
    page = tmp_path / "page"
    files.write(page, PAGE, replaces="report")
    page.chmod(0o600)
    files.write(page, PAGE + b"more", replaces="report")
    assert page.read_bytes() == PAGE + b"more"
    assert page.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


def test_a_failure_leaves_what_was_there(tmp_path: Path):
    """If writing fails half-way, the old page is still whole and nothing else is left."""
    page = tmp_path / "page"
    page.write_bytes(PAGE)
    with pytest.raises(ZeroDivisionError), files.fresh(page) as part:
        part.write_bytes(b"%d" % (1 // 0))
    assert page.read_bytes() == PAGE
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path):
    """Two that write the same new name do not write over each other."""
    page = tmp_path / "page"
    with pytest.raises(SpecError, match="appeared"), files.fresh(page) as part:
        _write_both(part, page)
    assert page.read_bytes() == b"first"


def _write_both(part: Path, page: Path) -> None:
    part.write_bytes(b"second")
    page.write_bytes(b"first")


def test_devices_and_folders_are_refused(tmp_path: Path):
    """Neither a folder nor a pipe is written to or replaced, even when told to."""
    os.mkfifo(tmp_path / "pipe")
    for path, found in ((tmp_path, "is a folder"), (tmp_path / "pipe", "a device or a pipe")):
        with pytest.raises(SpecError, match=found):
            files.write(path, PAGE, is_forced=True)


@pytest.mark.parametrize("how", ["link", "text", "pipe"])
def test_the_lock_of_a_journal_harms_no_file(tmp_path: Path, how: str):
    """What stands under the name of the lock and is no lock is refused, and not cut to nothing."""
    precious, taken = tmp_path / "precious", tmp_path / "mill.db.lock"
    precious.write_text("12 monkeys")
    match how:
        case "link":
            taken.symlink_to(precious)
        case "text":
            taken.write_text("12 monkeys")
        case "pipe":
            os.mkfifo(taken)
    with pytest.raises(JournalError, match="the lock of journal"):
        open_journal(str(tmp_path / "mill.db"), create=True)
    assert precious.read_text() == "12 monkeys"
    assert os.path.lexists(taken)
    assert not (tmp_path / "mill.db").exists()


def test_no_journal_begins_beside_the_remains_of_another(tmp_path: Path):
    """A write-ahead file whose journal is gone is neither read as ours nor written over."""
    rest = tmp_path / "mill.db-wal"
    rest.write_text("the last events of somebody")
    with pytest.raises(JournalError, match="left over from a journal"):
        refuse_unless_writable(str(tmp_path / "mill.db"))
    with pytest.raises(JournalError, match="left over from a journal"):
        open_journal(str(tmp_path / "mill.db"), create=True)
    assert rest.read_text() == "the last events of somebody"


def test_forgetting_takes_the_files_of_one_journal(tmp_path: Path):
    """A run is forgotten with its own files; a copy beside it with a longer name stays."""
    path = _journal(tmp_path / "demo.sqlite")
    for name in ("demo.sqlite.bak", "demo.sqlite-old", "demo.sqlite2"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "demo.sqlite-wal").touch()
    forget(path, "demo")
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "demo.sqlite-old", "demo.sqlite.bak", "demo.sqlite2",
    ]  # fmt: skip


def test_another_run_is_not_forgotten(tmp_path: Path):
    """A journal of another name, a text and one that is being written are refused."""
    path = _journal(tmp_path / "mill.db", "ours")
    with pytest.raises(SpecError, match="is the Tidemill journal of another run"):
        forget(path, "demo")
    writer = lock.WriterLock(path)
    writer.take()
    with pytest.raises(JournalError, match="is being written"):
        forget(path, is_forced=True)
    writer.release()
    assert files.kind_of(path) == "journal"
    forget(path, is_forced=True)
    assert list(tmp_path.iterdir()) == []
