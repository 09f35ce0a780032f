"""Journals where nothing can be written: a read-only mount, or a folder of somebody else's."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import copy

import pytest

from tests.cli.shell import tidemill
from tidemill.core import snapshot
from tidemill.journal import open_journal
from tidemill.journal.replay import rebuild
from tidemill.journal.sqlite import wal
from tidemill.journal.verify import verify
from tidemill.model.errors import JournalError
from tidemill.model.events import Event


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Path]:
    """A folder that is read-only from here on, as a second view of ``tmp_path / "open"``."""
    (tmp_path / "open").mkdir()
    folder = tmp_path / "frozen"
    if os.geteuid() != 0:
        folder.symlink_to(tmp_path / "open")
        yield folder
        (tmp_path / "open").chmod(0o755)
        return
    folder.mkdir()
    yield folder
    subprocess.run(["umount", str(folder)], check=False, capture_output=True)


def freeze(folder: Path) -> None:
    """Let nobody write in it any more; root is stopped by a mount only."""
    source = folder.parent / "open"
    if os.geteuid() != 0:
        source.chmod(0o555)
        return
    for words in (["--bind", str(source), str(folder)], ["-o", "remount,ro,bind", str(folder)]):
        done = subprocess.run(["mount", *words], check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"root needs a read-only mount for this: {done.stderr.strip()}")


def test_a_journal_at_rest_is_read(frozen: Path, story: list[Event]):
    """It opens, verifies and rebuilds on a read-only mount, and leaves nothing there."""
    with open_journal(str(frozen.parent / "open" / "mill.db"), create=True) as journal:
        journal.append(story)
        before = snapshot.digest(rebuild(journal))
    freeze(frozen)
    with open_journal(str(frozen / "mill.db")) as journal:
        assert list(journal.read()) == story
        assert snapshot.digest(rebuild(journal)) == before
        with pytest.raises(JournalError, match="cannot be written"):
            journal.append(story[-1:])
    assert verify(frozen / "mill.db").is_sound
    assert [file.name for file in frozen.iterdir()] == ["mill.db"]


def test_a_journal_with_a_write_ahead_file_is_read(frozen: Path, story: list[Event]):
    """What a killed writer left in its write-ahead file is read too, by way of a copy."""
    place = frozen.parent / "live.db"
    with open_journal(str(place), create=True) as journal:
        journal.append(story)
        for file in (place, wal.beside(place)):  # as a kill would leave them
            copy(file, frozen.parent / "open" / file.name)
    freeze(frozen)
    assert wal.is_in_use(frozen / "live.db")
    with open_journal(str(frozen / "live.db")) as journal:
        assert list(journal.read()) == story
    assert sorted(file.name for file in frozen.iterdir()) == ["live.db", "live.db-wal"]


def test_the_commands_read_it(frozen: Path, story: list[Event]):
    """A command answers about a journal on a read-only mount; it said that it could not open it."""
    with open_journal(str(frozen.parent / "open" / "mill.db"), create=True) as journal:
        journal.append(story)
    freeze(frozen)
    ran = tidemill("journal", "verify", str(frozen / "mill.db"))
    assert (ran.code, ran.err) == (0, "")
