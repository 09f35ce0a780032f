"""Files cut short and bytes turned over: damage is found, said kindly, and what is intact is kept.

Each case is a copy of one of two journals: one at rest, and one as a crash leaves it, with half of
its events in the write-ahead file.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.journal import version1
from tests.journal.stories import tell
from tidemill.engine.fold.one_event import fold_all
from tidemill.journal import open_journal
from tidemill.journal.faults import DamageError, StrangeFileError
from tidemill.journal.sqlite import intact, wal
from tidemill.journal.sqlite.salvage import salvage
from tidemill.journal.verify import verify
from tidemill.model import events as ev
from tidemill.model.errors import JournalError, SpecError
from tidemill.model.events import Event
from tidemill.model.rows import Job, Queue, Role, Shape
from tidemill.model.world import World

CUTS = 30
FLIPS = 60
SIDES = ("", "-wal")


@pytest.fixture(scope="module")
def told() -> list[Event]:
    """Three hundred events with a bit of everything."""
    return tell(Random("damage"), 300)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, told: list[Event]) -> dict[str, Path]:
    """The journal at rest, and as a crash leaves it."""
    folder = tmp_path_factory.mktemp("sound")
    rest, crashed = folder / "rest.db", folder / "crashed.db"
    with open_journal(str(rest), create=True) as journal:
        journal.append(told[:150])
        journal.save_snapshot(fold_all(World(), told[:100]))
    with open_journal(str(rest)) as journal:
        for start in range(150, 300, 10):
            journal.append(told[start : start + 10])
        journal.set_meta("spec", "tides")
        shutil.copy(rest, crashed)
        shutil.copy(wal.beside(rest), wal.beside(crashed))
    return {"rest": rest, "crashed": crashed}


def test_a_cut_file_is_refused_and_salvaged(
    tmp_path: Path, sound: dict[str, Path], told: list[Event]
):
    """Wherever the file ends early, opening is refused and a true beginning is kept."""
    whole = sound["rest"].read_bytes()
    rng, kept_before = Random("cut"), 0
    edges = {0, 1, 15, 16, 99, 100, 101, 4095, 4096, 4097, len(whole) - 1}
    for cut in sorted(edges | {rng.randrange(len(whole)) for _ in range(CUTS)}):
        broken = _copy(sound["rest"], tmp_path / f"cut{cut}.db")
        broken.write_bytes(whole[:cut])
        with pytest.raises(JournalError) as refused:
            open_journal(str(broken))
        assert "tidemill journal salvage" in refused.value.hint
        kept = _salvaged(broken, told)
        assert _counts(broken) in ({kept}, set())
        assert kept >= kept_before, "a longer file kept less"
        kept_before = kept
    assert kept_before >= 240  # of 300: the last page is lost


def test_a_cut_write_ahead_file_loses_its_end_only(
    tmp_path: Path, sound: dict[str, Path], told: list[Event]
):
    """Wherever the write-ahead file ends, what opens or is salvaged is a true beginning."""
    whole = wal.beside(sound["crashed"]).read_bytes()
    rng = Random("cut wal")
    for cut in sorted({0, 1, 31, 32, 33, 56} | {rng.randrange(len(whole)) for _ in range(CUTS)}):
        broken = _copy(sound["crashed"], tmp_path / f"cut{cut}.db")
        wal.beside(broken).write_bytes(whole[:cut])
        kept = _salvaged(broken, told)
        events = _read_or_refused(broken)
        assert events == told[: len(events)]
        assert kept >= len(events)
        assert kept >= 150


@pytest.mark.parametrize("state", ["rest", "crashed"])
def test_flipped_bytes_never_tell_another_story(
    tmp_path: Path, sound: dict[str, Path], told: list[Event], state: str
):
    """Bytes turned over anywhere are found, or did not matter; salvage keeps a true beginning."""
    rng, harmless = Random(f"flip {state}"), 0
    for flip in range(FLIPS):
        broken = _copy(sound[state], tmp_path / f"{state}{flip}.db")
        _turn_over(rng.choice(_files(broken)), rng)
        events = _read_or_refused(broken)
        assert events == told[: len(events)]
        kept = _salvaged(broken, told)
        if _is_sound(broken):
            harmless += 1
            assert kept == len(events)
            assert state == "crashed" or events == told
        broken.unlink()
    assert harmless < FLIPS // 2


def test_every_byte_of_an_event_is_watched(tmp_path: Path, sound: dict[str, Path]):
    """No bit of a row can change without being found."""
    whole = bytearray(sound["rest"].read_bytes())
    with open_journal(str(sound["rest"])) as journal:
        wanted = list(journal.read())
    (body,) = _bodies(sound["rest"], "WHERE seq = 200")
    at = whole.index(body)
    for offset in range(at - 20, at + len(body) + 5, 2):
        broken = tmp_path / f"{offset}.db"
        data = bytearray(whole)
        data[offset] ^= 1 << offset % 8
        broken.write_bytes(data)
        assert not _is_sound(broken) or _read_or_refused(broken) == wanted
        broken.unlink()


def test_garbage_beside_a_journal_costs_only_what_it_replaced(
    tmp_path: Path, sound: dict[str, Path], told: list[Event]
):
    """Garbage for a write-ahead file: the journal is refused, and what the file holds is kept."""
    for size in (1, 32, 100, 4096, 50_000):
        broken = _copy(sound["crashed"], tmp_path / f"garbage{size}.db")
        wal.beside(broken).write_bytes(Random(size).randbytes(size))
        with pytest.raises(JournalError, match="write-ahead"):
            open_journal(str(broken))
        assert _salvaged(broken, told) == 150


@pytest.mark.parametrize("page", range(6))
def test_a_lost_page_costs_only_its_own_events(
    tmp_path: Path, sound: dict[str, Path], told: list[Event], page: int
):
    """The header, the schema and the inner pages of the tree are not needed to salvage. Verifying
    counts the same: it said 0 events where salvage kept a hundred.
    """
    broken = _copy(sound["rest"], tmp_path / "page.db")
    data = bytearray(broken.read_bytes())
    lost = bytes(data[page * 4096 : (page + 1) * 4096])
    data[page * 4096 : (page + 1) * 4096] = bytes(4096)
    held = any(body[:20] in lost or body[-20:] in lost for body in _bodies(sound["rest"]))
    broken.write_bytes(data)
    kept = _salvaged(broken, told)
    assert (kept < len(told)) == held
    assert _counts(broken) == {kept}


def test_overflowing_events_are_salvaged(tmp_path: Path):
    """Events that fill many pages are put together again, from the file and beside it."""
    path, copy = tmp_path / "long.db", tmp_path / "copy.db"
    long: list[Event] = [ev.QueueSet(0, Queue("red"))]
    long += [ev.JobSubmitted(n, _long_job(n)) for n in range(1, 64)]
    with open_journal(str(path), create=True) as journal:
        journal.append(long[:30])
    with open_journal(str(path)) as journal:
        journal.append(long[30:])
        _copy(path, copy)
    assert _salvaged(path, long) == len(long)
    assert _salvaged(copy, long) == len(long)


def test_facts_are_salvaged_too(tmp_path: Path, sound: dict[str, Path]):
    """The small facts come along, in their latest form; damaged ones stay behind."""
    for state in ("rest", "crashed"):
        salvage(sound[state], tmp_path / f"{state}.db")
        with open_journal(str(tmp_path / f"{state}.db")) as journal:
            assert journal.meta("spec") == "tides"


def test_salvage_says_where_and_why(tmp_path: Path, sound: dict[str, Path], told: list[Event]):
    """The report tells how many were kept, up to when, and why it ended there."""
    broken = _copy(sound["rest"], tmp_path / "gap.db")
    connection = sqlite3.connect(broken, isolation_level=None)
    connection.execute("DELETE FROM batches WHERE seq = 170")
    connection.execute("VACUUM")
    connection.close()
    report = salvage(broken, tmp_path / "out.db")
    assert (report.broken, report.out) == (str(broken), str(tmp_path / "out.db"))
    assert (report.kept, report.last_ms) == (170, told[169].at_ms)
    assert report.why == (
        f"lost: events 170 to {len(told) - 1}, {len(told) - 170} in all. Event 170: it is missing"
        " or damaged; what follows names jobs, nodes and contracts by the order in which lost"
        " events brought them"
    )


def test_salvage_of_a_sound_journal_leaves_nothing_behind(tmp_path: Path, sound: dict[str, Path]):
    """It said "no event 300 was found", which sounds like a loss; a lost fact is named."""
    assert salvage(sound["rest"], tmp_path / "a.db").why == "every event that was found is intact"
    broken = _copy(sound["rest"], tmp_path / "fact.db")
    broken.write_bytes(broken.read_bytes().replace(b"spectides", b"spectidas"))
    assert salvage(broken, tmp_path / "b.db").why == (
        "every event that was found is intact; the fact `spec` was damaged and is not kept"
    )


@pytest.mark.parametrize("content", [b"", b"hello", b"seq,at_ms\n" * 500])
def test_salvage_of_another_file_makes_nothing(tmp_path: Path, content: bytes):
    """It made an empty journal of a text, and said that event 0 was not found."""
    other = tmp_path / "other.txt"
    other.write_bytes(content)
    with pytest.raises(JournalError, match="` holds no event of a Tidemill journal"):
        salvage(other, tmp_path / "out.db")
    with pytest.raises(JournalError, match="is a folder, not a journal"):
        salvage(tmp_path, tmp_path / "out.db")
    assert [file.name for file in tmp_path.iterdir()] == ["other.txt"]


def test_salvage_writes_over_nothing(tmp_path: Path, sound: dict[str, Path]):
    """Salvage refuses a target that exists, a source that does not, and a living journal."""
    taken = tmp_path / "taken.db"
    taken.write_text("precious")
    with pytest.raises(SpecError, match="exists already"):
        salvage(sound["rest"], taken)
    with pytest.raises(JournalError, match="there is no journal"):
        salvage(tmp_path / "absent.db", tmp_path / "out.db")
    with open_journal(str(sound["rest"])) as journal:
        journal.claim()
        with pytest.raises(JournalError, match="is being written now"):
            salvage(sound["rest"], tmp_path / "out.db")
    assert taken.read_text() == "precious"
    assert [file.name for file in tmp_path.iterdir()] == ["taken.db"]


def test_version_1_is_salvaged(tmp_path: Path, told: list[Event]):
    """Of a journal of version 1 everything before the damage is kept, in one of this version."""
    broken = version1.write(tmp_path / "old.db", told, {"spec": "tides"})
    assert _salvaged(broken, told) == len(told)
    data = bytearray(broken.read_bytes())
    data[data.index(b"asked_place")] ^= 1
    broken.write_bytes(data)
    assert 0 < _salvaged(broken, told) < len(told)


def _bodies(path: Path, where: str = "") -> list[bytes]:
    """What the rows of a journal at rest hold."""
    with closing(sqlite3.connect(path)) as connection:
        return [body for (body,) in connection.execute(f"SELECT body FROM batches {where}")]


def _copy(source: Path, target: Path) -> Path:
    for file in _files(source):
        shutil.copy(file, target.with_name(target.name + file.name[len(source.name) :]))
    return target


def _files(path: Path) -> list[Path]:
    """The files of a journal that hold anything."""
    found = (path.with_name(path.name + side) for side in SIDES)
    return [file for file in found if file.exists() and file.stat().st_size]


def _turn_over(file: Path, rng: Random) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= rng.randint(1, 255)
    file.write_bytes(data)


def _read_or_refused(path: Path) -> list[Event]:
    """What can be read of a copy before a kind error, if one comes; the original stays."""
    copy = _copy(path, path.with_name(f"read-{path.name}"))
    events: list[Event] = []
    try:
        with open_journal(str(copy)) as journal:
            for event in journal.read():
                events.append(event)  # noqa: PERF402 - those before the error count
    except JournalError:
        pass
    _remove(copy)
    return events


def _is_sound(path: Path) -> bool:
    copy = _copy(path, path.with_name(f"verified-{path.name}"))
    try:
        return verify(copy).is_sound
    except JournalError:
        return False
    finally:
        _remove(copy)


def _salvaged(broken: Path, told: list[Event]) -> int:
    """Salvage, check that the broken files are as they were, and that the new journal is true."""
    before = [file.read_bytes() for file in _files(broken)]
    out = broken.with_name(f"out-{broken.name}")
    try:
        report = salvage(broken, out)
    except JournalError:
        assert not out.exists()
        return 0  # there is nothing to salvage
    assert [file.read_bytes() for file in _files(broken)] == before
    with open_journal(str(out)) as journal:
        assert list(journal.read()) == told[: report.kept]
    assert verify(out).is_sound
    _remove(out)
    return report.kept


def _counts(broken: Path) -> set[int]:
    """How many events verifying says are intact, and what a reader's error says; none where both
    say that it is no journal.
    """
    try:
        with open_journal(str(broken)) as journal:
            list(journal.read())
    except DamageError as error:
        told = intact.placed(error)
        if isinstance(told, StrangeFileError):
            with pytest.raises(StrangeFileError):
                verify(broken)
            return set()
        return {verify(broken).events, told.seq}
    return {verify(broken).events}


def _remove(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def _long_job(roles: int) -> Job:
    """A job of up to sixteen kilobytes."""
    return Job(f"j{roles}", Shape("red", tuple(Role("r" * 200) for _ in range(roles))))
