"""Tables of other programs: their dates, numbers of GPUs, words for outcomes, and clocks.

What only one thing can be meant by is read; the rest is asked for, with the option that answers.
"""

from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tidemill.live.csv import dates, outcomes, tables
from tidemill.model.errors import SpecError

HEAD = "job,start,end,gpus"
START, END = 1_772_433_000_000, 1_772_440_200_000  # 2 March 2026, 06:30 and 08:30 in UTC
RAN = "2026-03-02T06:30:00Z,2026-03-02T08:30:00Z"


def _read(folder: Path, *lines: str, **more: object) -> tables.ReadTable:
    (folder / "jobs.csv").write_text("\n".join(lines) + "\n")
    return tables.read_jobs(folder / "jobs.csv", {}, "UTC", **more)  # type: ignore[arg-type]


def _refusal(folder: Path, *lines: str, **more: object) -> SpecError:
    with pytest.raises(SpecError) as caught:
        _read(folder, *lines, **more)
    return caught.value


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("Mon, 02 Mar 2026 06:30:00 GMT", "Mon, 02 Mar 2026 08:30:00 +0000"),
        ("Mon Mar  2 06:30:00 2026", "Mon Mar  2 08:30:00 UTC 2026"),
        ("Mar 2, 2026 6:30 AM", "March 2nd, 2026 at 8:30:00 AM"),
        ("02-Mar-2026 06:30:00", "2 March 2026 08:30"),
        ("2026-03-02 06:30:00 UTC", "2026-03-02 08:30:00.000 +0000 UTC"),
        ("2026-03-02 07:30:00+01", "2026-03-02 09:30:00 +01:00"),
        ("2026-03-02T07:30:00+01:00[Europe/Berlin]", "2026-03-02 00:30:00 -0800 PST"),
        ("20260302T063000Z", "20260302 08:30:00"),
        ("20260302063000", "20260302083000"),
        ("2026/03/02 06:30:00.0", "2026.03.02 08:30"),
        ("02-03-2026 06:30:00", "02-03-2026 08:30:00"),
        ("03/02/2026, 6:30 a.m.", "03/02/2026, 8:30 AM"),
    ],
)
def test_dates_of_other_programs(tmp_path: Path, start: str, end: str):
    """Mails, `date`, databases, spreadsheets, Go and Java each have their own."""
    first = "day first" if start.startswith("02-") else "month first"
    row = _read(tmp_path, HEAD, f'A,"{start}","{end}",4', first=first).attempts.row(0, named=True)
    assert (row["start_ms"], row["end_ms"]) == (START, END)


def test_one_column_tells_how_the_dates_of_all_are_meant(tmp_path: Path):
    """`04/03` is the fourth of March where another date of the table can be nothing else."""
    table = _read(tmp_path, HEAD, "A,04/03/2026 06:00,22/03/2026 06:00,4")
    assert table.attempts["end_ms"][0] - table.attempts["start_ms"][0] == 18 * 86_400_000


def test_dates_that_nobody_tells_are_asked_for(tmp_path: Path):
    """The hint names the option, and the option answers."""
    lines = (HEAD, "A,04/03/2026 06:00,05/03/2026 06:00,4")
    assert "--dates day-first" in (_refusal(tmp_path, *lines).hint or "")
    day, month = (
        _read(tmp_path, *lines, first=dates.told(said)).attempts["start_ms"][0]
        for said in ("day-first", "month-first")
    )
    assert month - day == 30 * 86_400_000  # 4 March, 3 April
    with pytest.raises(SpecError, match="--dates is `american`"):
        dates.told("american")


@pytest.mark.parametrize(
    ("start", "words", "way_out"),
    [
        ("22/03/26 06:00", "before 1970", "four digits"),
        ("2026-03-02 06:00:00 PST", "letters", "--zone"),
        ("46083.27", "spreadsheets", "format the column"),
        ("600000000", "1989", "start_ms"),
    ],
)
def test_moments_that_may_be_others_are_refused(
    tmp_path: Path, start: str, words: str, way_out: str
):
    """A year of two digits, letters for a zone, days of a spreadsheet, an unknown unit."""
    refused = _refusal(tmp_path, "job,start,duration,gpus", f"A,{start},60,4")
    assert words in refused.message
    assert way_out in (refused.hint or "")


def test_a_table_that_counts_from_its_beginning_has_no_calendar(tmp_path: Path):
    """Published traces begin at 0: their books show days, and no date of 1970."""
    (tmp_path / "jobs.csv").write_text("job,start,end,gpus\nA,600,4200,4\n")
    journal = str(tmp_path / "j.sqlite")
    done = tidemill("import", "csv", str(tmp_path / "jobs.csv"), "-j", journal)
    assert done.code == 0, done.err
    assert "1970" not in tidemill("journal", "show", journal).out


def test_milliseconds_from_the_beginning_are_said_by_the_header(tmp_path: Path):
    """The unit at the end of a header is that of a moment, too."""
    path = tmp_path / "jobs.csv"
    path.write_text("job,start_ms,end_ms,gpus\nA,600000000,604000000,4\n")
    told = {"start": "start_ms", "end": "end_ms"}
    row = tables.read_jobs(path, told, "UTC").attempts.row(0, named=True)
    assert (row["start_ms"], row["end_ms"]) == (600_000_000, 604_000_000)


def test_a_beginning_and_a_date_are_not_joined(tmp_path: Path):
    """Seconds from the beginning in one column and dates in another: a wait of fifty years."""
    refused = _refusal(tmp_path, "job,submit,start,end,gpus", f"A,120,{RAN},4")
    assert "`submit` counts from the beginning" in refused.message


@pytest.mark.parametrize(
    ("cell", "gpus", "kind"),
    [
        ("8xA100", 8, "A100"), ("8 x NVIDIA A100-SXM4-80GB", 8, "NVIDIA A100-SXM4-80GB"),
        ("V100:4", 4, "V100"), ("RTX 3090 x2", 2, "RTX 3090"), ("4 GPUs", 4, None),
        ("gpu:volta:2", 2, "volta"), ("gres/gpu:a100:4(S:0-1)", 4, "a100"),
        ("cpu=8,gres/gpu:a100=4,gres/gpu=4,node=1", 4, "a100"), ("nvidia.com/gpu: 8", 8, None),
    ],
)  # fmt: skip
def test_a_number_of_gpus_may_stand_with_their_type(
    tmp_path: Path, cell: str, gpus: int, kind: str | None
):
    """Beside plain numbers in the same column."""
    attempts = _read(tmp_path, HEAD, f'A,{RAN},"{cell}"', f"B,{RAN},2").attempts
    kinds = attempts["gpu_type"].to_list() if "gpu_type" in attempts.columns else [None, None]
    assert (attempts["gpus"].to_list(), kinds) == ([gpus, 2], [kind, None])


def test_a_job_that_names_no_gpu_beside_others_has_none(tmp_path: Path):
    """Where TRES list GPUs at all."""
    rows = (f'A,{RAN},"cpu=8,gres/gpu=4,node=1"', f'B,{RAN},"cpu=8,node=1"')
    assert _read(tmp_path, HEAD, *rows).attempts["gpus"].to_list() == [4, 0]


def test_gres_of_several_nodes_may_be_of_each(tmp_path: Path):
    """`gpu:4` on two nodes is four GPUs or eight: nobody guesses."""
    refused = _refusal(tmp_path, f"{HEAD},num_nodes", f"A,{RAN},gpu:4,2")
    assert "each node" in refused.message


def test_machines_that_the_catalogue_knows_say_their_gpus(tmp_path: Path):
    """Exports of managed services name a type of machines and how many."""
    lines = (
        "TrainingJobName,TrainingJobStatus,TrainingStartTime,TrainingEndTime,InstanceType,InstanceCount",
        f"A,Completed,{RAN},ml.p5.48xlarge,2",
        f"B,Stopped,{RAN},gpu_1x_a10,1",
    )
    table = _read(tmp_path, *lines)
    assert table.attempts["gpus"].to_list() == [16, 1]
    assert table.attempts["gpu_type"].to_list() == ["H100", "A10"]
    assert any("catalogue" in note for note in table.notes)
    refused = _refusal(tmp_path, *lines, f"C,Stopped,{RAN},ml.z9.large,1")
    assert "not in the catalogue" in refused.message


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [
        (("1,234,567", "7,200"), (1_234_567, 7_200)),
        (("1.234,5", "7.200"), (1_234.5, 7_200)),
        (("1 234 567", "7200,5"), (1_234_567, 7_200.5)),
        (("7'200", "60"), (7_200, 60)),
        (("PT1H30M", "P1DT2H"), (5_400, 93_600)),
        (("1-02:03:04", "3h20m"), (93_784, 12_000)),
    ],
)
def test_thousands_and_lengths(
    tmp_path: Path, cells: tuple[str, str], seconds: tuple[float, float]
):
    """A column that can be meant in one way only is read so in all its cells."""
    rows = (f'{i},2026-03-02T06:30:00Z,"{cell}",4' for i, cell in enumerate(cells))
    attempts = _read(tmp_path, "job,start,duration,gpus", *rows).attempts
    ran = (attempts["end_ms"] - attempts["start_ms"]) / 1000
    assert tuple(ran.to_list()) == seconds


@pytest.mark.parametrize("nothing", ["NaT", "NaN", "\\N", "<null>", "None", "Unknown", "--"])
def test_what_stands_for_nothing(tmp_path: Path, nothing: str):
    """In the words of pandas, databases and people: that job still runs."""
    rows = (f"A,2026-03-02T06:30:00Z,{nothing},4", f"B,{RAN},4")
    assert _read(tmp_path, HEAD, *rows).attempts["end_ms"].to_list() == [None, END]


def test_outcomes_in_others_words(tmp_path: Path):
    """Experiment trackers, managed services and batch systems."""
    words = ("Published", "Errored", "KILLED", "Stopped", "InProgress", "EXIT", "TIMEOUT",
             "CANCELLED by 1000", "MaxRuntimeExceeded")  # fmt: skip
    rows = (f"{i},{RAN},4,{word}" for i, word in enumerate(words))
    found = _read(tmp_path, f"{HEAD},state", *rows).attempts["outcome"].to_list()
    assert found == ["done", "failed", "cancelled", "cancelled", "running", "failed", "timed out",
                     "cancelled", "timed out"]  # fmt: skip


def test_an_unknown_outcome_is_asked_for_with_all_its_kind(tmp_path: Path):
    """All words at once, with the option that says what they mean."""
    words = ("Archived", "archived", "Parked", "done")
    lines = (f"{HEAD},state", *(f"{i},{RAN},4,{word}" for i, word in enumerate(words)))
    hint = _refusal(tmp_path, *lines).hint or ""
    assert all(word in hint for word in ("`Archived`", "`archived`", "`Parked`", "--outcome"))
    ends = outcomes.told(["Archived=done", "parked=timed-out"])
    found = _read(tmp_path, *lines, ends=ends).attempts["outcome"].to_list()
    assert found == ["done", "done", "timed out", "done"]
    with pytest.raises(SpecError, match="not WORD=OUTCOME"):
        outcomes.told(["Archived=finished"])
