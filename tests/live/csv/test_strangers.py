"""Tables as strangers have them: each is read right, or refused with what was found and what to do.

Every table of ``READ`` tells of the same job: four GPUs, submitted at six, from half past six to
half past eight on 2 March 2026 in UTC.
"""

import gzip
from pathlib import Path

import polars as pl
import pytest

from tidemill.live.csv import tables
from tidemill.model.errors import SpecError

SUBMIT, START, END = 1_772_431_200_000, 1_772_433_000_000, 1_772_440_200_000
ISO = "A,2026-03-02T06:00:00Z,2026-03-02T06:30:00Z,2026-03-02T08:30:00Z,4"
ISO_RAN = "A,2026-03-02T06:30:00Z,2026-03-02T08:30:00Z"
HEAD = "job,submit,start,end,gpus\n"
WITH_LENGTH = "job,submit,start,{},gpus\nA,2026-03-02 06:00,2026-03-02 06:30,{},4\n"

READ: dict[str, bytes] = {
    "semicolons, days first": (
        b"job;submit;start;end;gpus\nA;02.03.2026 06:00;02.03.2026 06:30;02.03.2026 08:30;4,0\n"
        b"B;13.03.2026 06:00;13.03.2026 06:30;13.03.2026 08:30;4\n"
    ),
    "a header with commas in quotes": (
        'job;submit;start;end;gpus;"a, b, c, d, e, f"\n' + ISO.replace(",", ";") + ";x\n"
    ).encode(),
    "the mark of UTF-8": (HEAD + ISO).encode("utf-8-sig"),
    "UTF-16 with tabs": (HEAD + ISO).replace(",", "\t").encode("utf-16"),
    "UTF-16, high byte first": b"\xfe\xff" + (HEAD + ISO).encode("utf-16-be"),
    "UTF-16, packed": gzip.compress((HEAD + ISO).encode("utf-16")),
    "a line that says what parts cells": ("sep=;\r\n" + (HEAD + ISO).replace(",", ";")).encode(),
    "lines of Windows, and empty ones": (HEAD + "\n" + ISO + "\n\n").replace("\n", "\r\n").encode(),
    "seconds": (HEAD + "A,1772431200,1772433000,1772440200,4\n").encode(),
    "a unit per column": (HEAD + "A,1772431200,1772433000000,1772440200000000,4\n").encode(),
    "nanoseconds": (HEAD + "A,1772431200000000000,1772433000000000000,1772440200000000000,4\n"
                    ).encode(),
    "dates with and without a zone": (
        HEAD + "A,2026-03-02 07:00:00+01:00,2026-03-02 06:30,2026-03-02T08:30:00Z,4\n"
    ).encode(),
    "AM and PM": (
        HEAD + "A,3/2/2026 6:00 AM,3/2/2026 6:30 AM,3/2/2026 8:30:00 AM,4\n"
        "B,3/14/2026 1:00 PM,3/14/2026 1:30 PM,3/14/2026 3:30:00 PM,4\n"
    ).encode(),
    "ISO dates with AM": (
        HEAD + "A,2026-03-02 06:00 AM,2026-03-02 06:30 AM,2026-03-02 08:30:00 AM,4\n"
    ).encode(),
    "hours, minutes and seconds": WITH_LENGTH.format("elapsed", "02:00:00").encode(),
    "days before them": WITH_LENGTH.format("elapsed", "0-02:00:00").encode(),
    "days in words before them": WITH_LENGTH.format("elapsed", "0d 02:00:00").encode(),
    "a timedelta of Python": WITH_LENGTH.format("elapsed", '"0 days, 2:00:00"').encode(),
    "a length in words": WITH_LENGTH.format("runtime", "1h 60m").encode(),
    "seconds with a decimal comma": WITH_LENGTH.format("duration", '"7200,0"').encode(),
    "milliseconds by the header": WITH_LENGTH.format("duration_ms", "7200000").encode(),
    "minutes by the header": WITH_LENGTH.format("Elapsed (min)", "120").encode(),
    "hours by the header": WITH_LENGTH.format("runtimeHours", "2").encode(),
    "how long it waited": (
        b"job,submit,queue_time_s,duration,num_gpu\nA,2026-03-02T06:00:00Z,1800,7200,4\n"
    ),
    "how long it waited before it started": (
        b"job,start,wait_time,duration,num_gpu\nA,2026-03-02T06:30:00Z,1800,7200,4\n"
    ),
    "a queue that is a wait": (
        b"job,submit_time,gpu_num,duration,queue\nA,2026-03-02 06:00:00,4,7200.0,1800.0\n"
    ),
    "pods of a published trace": (
        b"name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
        b"A,4,1000,1772431200,1772440200,1772433000\n"
    ),
    "blanks around everything": (
        " Job ID , Submit Time , Start Time , End Time , # GPUs \n" + ISO.replace(",", " , ")
    ).encode(),
}  # fmt: skip


def _read(folder: Path, text: bytes, *, skips_broken: bool = False) -> tables.ReadTable:
    (folder / "jobs.csv").write_bytes(text)
    return tables.read_jobs(folder / "jobs.csv", {}, "UTC", skips_broken=skips_broken)


@pytest.mark.parametrize("what", READ)
def test_a_table_is_read_as_it_is_meant(what: str, tmp_path: Path):
    """The same job comes out of every form."""
    row = _read(tmp_path, READ[what]).attempts.row(0, named=True)
    assert row["job"] == "A"
    found = (row["submit_ms"], row["start_ms"], row["end_ms"], row["gpus"])
    assert found == (SUBMIT, START, END, 4)


REFUSED = {
    "Windows-1252": ((HEAD + ISO + "\n" + ISO.replace("A", "Ä")).encode("cp1252"), "iconv"),
    "thousands": (WITH_LENGTH.format("duration", '"7,200"').encode(), "thousands"),
    "minutes or hours": (WITH_LENGTH.format("elapsed", "45:30").encode(), "hours:minutes:seconds"),
    "two of a name": ((HEAD.replace("\n", ",gpus\n") + ISO + ",8\n").encode(), "another name"),
    "no header": ((ISO + "\n" + ISO + "\n").encode(), "header"),
    "no start": (b"job_id,submission_time,duration,num_gpu\nA,5810,7200,4\n", "--map start="),
    "a part of a GPU of no node": ((HEAD + ISO[:-1] + "0.5\n").encode(), "on one node"),
    "a GPU and a half": ((HEAD + ISO[:-1] + "1.5\n").encode(), "a part of one GPU"),
    "a part of a GPU in a column beside": (
        b"name,num_gpu,gpu_milli,submit,start,end\nA,1,460,1772431200,1772433000,1772440200\n",
        "parts of GPUs",
    ),
    "what sacct prints": (b"JobID,State,Submit\n1,FAILED,2026-03-02T06:00:00\n", "slurm"),
    "a half-written date": ((HEAD + ISO + "\n" + ISO.replace("08:30", "08:")).encode(), "write"),
    "dates either way": (HEAD.encode() + b"A,3/2/2026,3/3/2026,3/4/2026,4\n", "2026-03-04"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_known_is_refused_with_a_way_out(what: str, tmp_path: Path):
    """The hint names what to do; nothing is guessed."""
    text, way_out = REFUSED[what]
    with pytest.raises(SpecError) as caught:
        _read(tmp_path, text)
    assert way_out in (caught.value.hint or "")


@pytest.mark.parametrize("unset", ["0", ""])
def test_an_end_that_programs_leave_unset_is_unknown(unset: str, tmp_path: Path):
    """A 0 among seconds since 1970 is no moment: that job still runs, and the note says so."""
    rows = f"A,1772431200,1772433000,{unset},4\nB,1772431200,1772433000,1772440200,4\n"
    table = _read(tmp_path, (HEAD + rows).encode())
    assert table.attempts["end_ms"].to_list() == [None, END]
    assert any("say nothing" in note for note in table.notes) is bool(unset)


def test_a_date_of_zeros_is_unknown(tmp_path: Path):
    """MySQL writes it where there is none."""
    row = ISO.replace("2026-03-02T08:30:00Z", "0000-00-00 00:00:00")
    table = _read(tmp_path, (HEAD + row + "\n" + ISO.replace("A", "B")).encode())
    assert table.attempts["end_ms"].to_list() == [None, END]


def test_zero_is_a_moment_in_a_table_that_begins_there(tmp_path: Path):
    """Published traces count seconds from their own beginning."""
    table = _read(tmp_path, (HEAD + "A,0,1800,9000,4\nB,60,1800,9000,4\n").encode())
    assert table.attempts["submit_ms"].to_list() == [0, 60_000]


def test_what_is_not_read_is_said(tmp_path: Path):
    """Also that nothing says when jobs ended: they would all count as running."""
    text = "job,submit,start,Laufzeit,gpus\nA,2026-03-02 06:00,2026-03-02 06:30,120,4\n"
    notes = " ".join(_read(tmp_path, text.encode()).notes)
    assert "not read: `Laufzeit`" in notes
    assert "all still run" in notes


def test_rows_are_counted_as_spreadsheets_do(tmp_path: Path):
    """A cell with several lines is in one row."""
    text = HEAD.replace("\n", ",note\n") + ISO + ',"two\nlines, ""so"""\n'
    broken = ISO.replace("2026-03-02T08:30:00Z", "oops") + ",x\n"
    with pytest.raises(SpecError, match="`oops` in row 3"):
        _read(tmp_path, (text + broken).encode())
    kept = _read(tmp_path, (text + broken).encode(), skips_broken=True)
    assert kept.attempts["job"].to_list() == ["A"]


def test_the_hour_in_which_clocks_go_back_comes_twice(tmp_path: Path):
    """From 02:50 to 02:20 in Berlin: to the second 02:20, unless it says its offset."""
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job,submit,start,end,gpus\nA,2026-10-25 02:10,2026-10-25 02:50,2026-10-25 02:20,8\n"
        "B,2026-10-25 02:40,2026-10-25 02:10,2026-10-25 02:20,8\n"
        "C,2026-10-25 02:10,2026-10-25 02:20,2026-10-25 02:50,8\n"
    )
    table = tables.read_jobs(path, {}, "Europe/Berlin")
    minutes = table.attempts.select(
        start=(pl.col("start_ms") - pl.col("submit_ms")) // 60_000,
        ran=(pl.col("end_ms") - pl.col("start_ms")) // 60_000,
    )
    assert minutes.rows() == [(40, 30), (30, 10), (10, 30)]
    said = [note for note in table.notes if "taken as the second time" in note]
    assert said[0].startswith("`start` in row 3 ")
    assert said[1].startswith("`end` in rows 2, 3 ")
    path.write_text(
        "job,submit,start,end,gpus\n"
        "A,2026-10-25 02:10,2026-10-25 02:50+02:00,2026-10-25 02:20+02:00,8\n"
    )
    with pytest.raises(SpecError, match=r"`end` holds .* in row 2, before its start"):
        tables.read_jobs(path, {}, "Europe/Berlin")


def test_all_that_is_missing_is_said_at_once(tmp_path: Path):
    """Headers in another language: which fields, and that a start is enough."""
    text = "Job;Anzahl;Beginn;Ende\n1;2;2026-03-02 06:00;2026-03-02 08:00\n"
    words = "says `gpus` nor `start`; its columns are Job"
    with pytest.raises(SpecError, match=words) as error:
        _read(tmp_path, text.encode())
    assert "--map gpus=COLUMN,start=COLUMN (GPUs and a start are enough" in error.value.hint


def _nodes(folder: Path, text: str) -> tables.ReadNodes:
    (folder / "nodes.csv").write_text(text)
    return tables.read_nodes(folder / "nodes.csv")


def test_prices_of_nodes_in_another_currency_are_refused(tmp_path: Path):
    """As in a price file: nobody converts euros, and two euros are not two dollars."""
    text = "node,gpus,gpu_type,price,currency\nn1,8,h100,2,usd\nn2,8,h100,2,{}\n"
    with pytest.raises(SpecError, match="has prices in EUR"):
        _nodes(tmp_path, text.format("EUR"))
    for dollars in ("USD", "US$", "$", ""):
        read = _nodes(tmp_path, text.format(dollars))
        assert read.prices == {"H100": 2_000_000}
        assert read.notes == ()


def test_a_currency_of_no_price_says_nothing(tmp_path: Path):
    """A column that says in what nothing is priced refuses nothing."""
    read = _nodes(tmp_path, "node,gpus,currency\nn1,8,EUR\n")
    assert [node.name for node in read.nodes] == ["n1"]


def said(tmp_path: Path, text: str) -> tuple[pl.DataFrame, str]:
    """What a table is read as, and what is said of it."""
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    found = tables.read_jobs(path, {}, "UTC")
    return found.attempts, "\n".join(found.notes)


def test_a_row_without_an_end_ends_after_its_duration(tmp_path: Path):
    """Where it has a start; also in a table with a column of ends. An end that is told counts."""
    rows, notes = said(
        tmp_path,
        "job,submit,start,end,runtime_hours,gpus\n"
        "A,2026-03-02 06:00,2026-03-02 06:30,,2,4\n"
        "B,2026-03-02 06:00,2026-03-02 06:30,2026-03-02 08:30,2,4\n"
        "C,2026-03-02 06:00,2026-03-02 06:30,,,4\n"
        "D,2026-03-02 06:00,,,3,4\n",
    )
    assert rows["end_ms"].to_list() == [END, END, None, None]
    assert "numbers of `runtime_hours` read as hours, in 1 row without `end`" in notes
    assert "not needed" not in notes


@pytest.mark.parametrize("none", ["", "NULL", "1970-01-01"])
def test_a_column_of_times_without_any_is_not_said_to_be_read_as_something(
    none: str, tmp_path: Path
):
    """Nobody wrote seconds there, or anything."""
    rows, notes = said(tmp_path, f"job,start,end,gpus\nA,2026-03-02 06:30,{none},4\n")
    assert rows["end_ms"].to_list() == [None]
    assert "`end` says no time at all" in notes
    assert "1970" not in notes


@pytest.mark.parametrize("hours", ["2", "2.5"])
def test_a_duration_is_called_needless_only_where_the_times_say_it(hours: str, tmp_path: Path):
    """Up to a unit of its own it may be rounded."""
    _, notes = said(tmp_path, f"job,start,end,runtime_hours,gpus\n{ISO_RAN},{hours},4\n")
    assert "`runtime_hours` not needed: the times say it" in notes


def test_a_duration_that_differs_from_the_times_is_said(tmp_path: Path):
    """The times are booked."""
    rows, notes = said(tmp_path, f"job,start,end,runtime_hours,gpus\n{ISO_RAN},5,4\n")
    assert rows["end_ms"].to_list() == [END]
    assert (
        "`runtime_hours` and the times differ in 1 row (row 2 has `5`, and 2h by its times): the"
        " times are booked" in notes
    )
    assert "not needed" not in notes


def test_a_date_in_another_way_than_its_column_is_called_that(tmp_path: Path):
    """Not a time that no clock showed."""
    german = "A;02.03.2026 06:30;02.03.2026 08:30;4\n"
    iso = "B;2026-03-02 06:30;2026-03-02 08:30;4\n"
    with pytest.raises(SpecError) as refused:
        said(tmp_path, "job;start;end;gpus\n" + german + iso)
    assert refused.value.message == (
        "the column `start` holds `02.03.2026 06:30` in row 2, which is another way to write dates"
        " than the column has: they are read year first"
    )
    assert "in one way" in (refused.value.hint or "")


def test_a_job_may_be_called_none(tmp_path: Path):
    """One row with a word that stands for nothing elsewhere; several have no name."""
    row = "2026-03-02 06:30,2026-03-02 08:30,4\n"
    rows, notes = said(tmp_path, f"job,start,end,gpus\nnone,{row}B,{row},{row}")
    assert rows["job"].to_list() == ["none", "B", "row 4"]
    assert "taken as no name" not in notes
    rows, notes = said(tmp_path, f"job,start,end,gpus\nnone,{row}none,{row}B,{row}")
    assert rows["job"].to_list() == ["row 2", "row 3", "B"]
    assert "`job` holds words such as `none` in 2 rows: taken as no name" in notes


@pytest.mark.parametrize(
    ("cell", "nodes"),
    [
        ("n1", ["n1"]), ("n1 n2", ["n1", "n2"]), ("['n1', 'n2']", ["n1", "n2"]),
        ("n[1-3]", ["n1", "n2", "n3"]), ("gpu[01,03-04]", ["gpu01", "gpu03", "gpu04"]),
        ("n[1-2];m7", ["n1", "n2", "m7"]), ("a[1-2]b", ["a1b", "a2b"]), ("None assigned", None),
    ],
)  # fmt: skip
def test_nodes_may_be_folded_as_slurm_prints_them(tmp_path: Path, cell: str, nodes: list[str]):
    """`n[1-3]` is three nodes, and no node is called `n[1-3`."""
    where = tmp_path / "jobs.csv"
    where.write_text(f'job,submit,start,end,gpus,nodelist\n{ISO},"{cell}"\n')
    read = tables.read_jobs(where, {}, "UTC")
    assert read.attempts["nodes"].to_list() == [nodes]


def test_a_folded_list_that_is_none_is_refused_with_its_row(tmp_path: Path):
    """A range that ends before it begins."""
    where = tmp_path / "jobs.csv"
    where.write_text(f'job,submit,start,end,gpus,nodelist\n{ISO},"n[3-1]"\n')
    with pytest.raises(SpecError, match=r"`n\[3-1\]` in row 2, which is no list of nodes"):
        tables.read_jobs(where, {}, "UTC")


def test_a_row_of_a_table_of_nodes_may_stand_for_several(tmp_path: Path):
    """`gpu[01-03]`, as sinfo prints nodes that are alike."""
    where = tmp_path / "nodes.csv"
    where.write_text("node,gpus,gpu_type\ngpu[01-03],8,H100\nlogin,0,\n")
    names = [(node.name, node.gpus) for node in tables.read_nodes(where).nodes]
    assert names == [("gpu01", 8), ("gpu02", 8), ("gpu03", 8), ("login", 0)]
