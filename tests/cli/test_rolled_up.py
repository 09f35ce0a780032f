"""What a roll-up takes away is said before it is done, and is so."""

import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.shell import Ran, tidemill

BEGINS = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def of_few_jobs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A journal of 3,000 jobs, an hour apart."""
    folder = tmp_path_factory.mktemp("rolled")
    starts = [BEGINS + timedelta(hours=i) for i in range(3000)]
    rows = [f"{i},1,{at:%FT%TZ},{at + timedelta(minutes=50):%FT%TZ},n1"
            for i, at in enumerate(starts)]  # fmt: skip
    (folder / "jobs.csv").write_text("\n".join(["job,gpus,start,end,node", *rows]) + "\n")
    journal = str(folder / "j.sqlite")
    done = tidemill("import", "csv", str(folder / "jobs.csv"), "-j", journal)
    assert done.code == 0, done.err
    return journal


@pytest.fixture(scope="module")
def rolled(of_few_jobs: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Ran]:
    """That journal, of which the first months were rolled up although the books take more."""
    journal = str(tmp_path_factory.mktemp("rolled") / "j.sqlite")
    shutil.copy(of_few_jobs, journal)
    return journal, tidemill("journal", "roll-up", journal, "--keep", "30d", "--anyway")


def test_it_is_said_before_it_is_done(rolled: tuple[str, Ran]):
    """Which commands are refused afterwards, and how to keep what they read."""
    _, done = rolled
    assert done.code == 0, done.err
    said = " ".join(done.err.split())
    assert said.startswith("events that are rolled up are gone for good")
    assert "`tidemill journal copy` keeps them elsewhere" in said


@pytest.mark.parametrize(
    "asked",
    [
        "why 5 --at 5d -j {}", "decision 5 --at 5d -j {}", "pending {} --at 5d", "fleet {} --at 5d",
        "report {} --out {}.html", "efficiency {}", "ledger {} --by job", "twin replay {}",
        "underused {}", "journal export {} {}.jsonl",
    ],
)  # fmt: skip
def test_what_is_said_to_be_refused_is(rolled: tuple[str, Ran], asked: str):
    """Each of the commands that the note, the help and the guide name."""
    journal, told = rolled
    done = tidemill(*asked.format(*[journal] * 2).split())
    assert done.code in (2, 3)
    assert "rolled up" in done.err
    words = [word for word in asked.split() if word.isalpha()]
    name = " ".join(words[:2]) if words[0] in ("twin", "journal") else words[0]
    assert name in " ".join(told.err.split())


def test_what_is_left_is_answered(rolled: tuple[str, Ran]):
    """The books of all hours, and single jobs after the cut."""
    journal, _ = rolled
    assert tidemill("ledger", journal).code == 0
    assert tidemill("efficiency", journal, "--from", "2026-05-01").code == 0
    assert tidemill("why", "2999", "-j", journal).code == 0


def test_a_month_before_the_cut_is_told_to_its_end(rolled: tuple[str, Ran]):
    """All but waits, of which a line says that they are not kept."""
    journal, _ = rolled
    done = tidemill("ledger", journal, "--from", "2026-01-01T00:00Z", "--to", "2026-02-01T00:00Z")
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert "waits: not kept in the hourly books, into which all before" in said
    assert "one idle percentage point" in said or "dollars: unknown" in said
    refused = tidemill("ledger", journal, "--waits", "--to", "2026-02-01T00:00Z")
    assert refused.code == 2


def test_what_became_of_the_size_is_said(rolled: tuple[str, Ran]):
    """An hour of one job has fewer bytes as events than as books."""
    _, done = rolled
    assert re.search(r"events up to .* rolled up into [\d,]+ lines", " ".join(done.out.split()))
    said = " ".join(done.err.split())
    told = re.search(r"the file has ([\d,]+) KB, before ([\d,]+) KB", said)
    assert told is not None
    after, before = (int(size.replace(",", "")) for size in told.groups())
    assert after > before


def test_where_books_would_take_more_nothing_is_rolled_up(of_few_jobs: str):
    """Unless one says that it is to be: the answer names the option."""
    before = Path(of_few_jobs).read_bytes()
    done = tidemill("journal", "roll-up", of_few_jobs, "--keep", "30d")
    assert Path(of_few_jobs).read_bytes() == before
    said = " ".join(done.out.split())
    assert said.startswith("nothing was rolled up, and the journal is as it was")
    assert "--anyway" in said
    assert "the file has" not in done.err
