"""Delimited text: any columns in any order, and what is wrong with a line is told by its number."""

import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.live.slurm import columns, delimited, fields, identity, times
from tidemill.live.slurm.columns import Output
from tidemill.live.slurm.reading import open_output
from tidemill.live.slurm.refusals import Refusals
from tidemill.live.slurm.rows import (
    SlurmAssociation,
    SlurmJob,
    SlurmNode,
    SlurmNodeEvent,
    SlurmQos,
)
from tidemill.live.slurm.text_tables import TextReader
from tidemill.model.errors import SpecError

PRINTED = Path(__file__).parent / "printed"
T0 = 1794846586000  # 2026-11-16T16:29:46 UTC


def read(text: str, **options):
    """All rows of a text, and its refusals in words."""
    with open_output(text.encode(), **options) as reading:
        rows = list(reading.rows())
    return rows, [refusal.words() for refusal in reading.refusals.kept]


def test_recorded_sacct_text():
    """Requeue, preemption, array, het job, as 22.05 printed them; steps are left out."""
    with open_output(PRINTED / "sacct_22.05.txt", zone="UTC") as reading:
        rows = list(reading.rows())
    assert reading.output is Output.SACCT_TEXT
    assert reading.refusals.total == 0
    jobs = [row for row in rows if isinstance(row, SlurmJob)]
    lines = (PRINTED / "sacct_22.05.txt").read_text().splitlines()[1:]
    assert jobs == rows
    assert len(jobs) == sum("." not in line.partition("|")[0] for line in lines) < len(lines)
    first, second = (job for job in jobs if job.job_id == 1)
    assert (first.state, first.start_ms, first.end_ms) == ("REQUEUED", T0 + 1000, T0 + 3000)
    assert (second.state, second.gpus_allocated, second.gpu_type) == ("COMPLETED", 8, "h100")
    tasks = [job.array_task_id for job in jobs if job.array_job_id == 8]
    assert tasks == [1, 2, 3, 4, 5, 6]
    assert [(j.job_id, j.het_offset) for j in jobs if j.het_job_id == 10] == [(10, 0), (11, 1)]
    pending = next(job for job in jobs if job.job_id == 9)
    assert (pending.start_ms, pending.node_list, pending.gpus_allocated) == (None, None, None)
    assert (pending.gpus_requested, pending.time_limit_ms) == (24, None)


def test_columns_that_are_missing_are_unknown():
    """Two columns are enough; everything else is None, never zero."""
    rows, refused = read("State|JobID\nFAILED|7\n")
    assert rows == [SlurmJob(job_id=7, state="FAILED")]
    assert refused == []


def test_any_order_any_delimiter_and_the_trailing_one_of_lower_p():
    """`sacct -p`, tabs and `\\x1f` are told from the header."""
    for delimiter in ("|", "\x1f", "\t"):
        text = "JobID|State|JobName|\n7|RUNNING|a b|\n".replace("|", delimiter)
        rows, _ = read(text)
        assert rows == [SlurmJob(job_id=7, state="RUNNING", name="a b")]
    rows, _ = read("JobID@@State\n7@@RUNNING\n", delimiter="@@")
    assert rows == [SlurmJob(job_id=7, state="RUNNING")]


def test_windows_line_ends_blank_lines_a_mark_and_a_second_header():
    """What editors and joined files add is read past."""
    rows, refused = read("\ufeffJobID|State\r\n1|RUNNING\r\n\r\nJobID|State\r\n2|RUNNING\r\n")
    assert [row.job_id for row in rows] == [1, 2]
    assert refused == []


def test_wrong_rows_are_named_and_the_rest_is_kept():
    """Line, column and text of each; the good rows stay."""
    rows, refused = read(
        "JobID|State|Start|NNodes|AllocTRES\n"
        "1|COMPLETED|1794846586|1|gres/gpu=1\n"
        "2|COMPLETED|yesterday|1|gres/gpu=1\n"
        "3|COMPLETED|1794846586|one|gres/gpu=1\n"
        "4|DANCING|1794846586|1|gres/gpu=1\n"
        "5|COMPLETED|1794846586|1|gres/gpu=many\n"
        "x|COMPLETED|1794846586|1|gres/gpu=1\n"
        "7|COMPLETED|1794846586|1\n"
        "8|COMPLETED|1794846586|1|gres/gpu=1|extra\n"
        "9|COMPLETED|1794846586|1|gres/gpu=1\n"
    )
    assert [row.job_id for row in rows] == [1, 9]
    assert sorted(words.partition(";")[0] for words in refused) == [
        "line 3: Start is `yesterday`: not a time that this reads (ISO, or seconds since 1970)",
        "line 4: NNodes is `one`: `one` is no number",
        "line 5: State is `DANCING`: not a state of a job that Slurm has",
        "line 6: AllocTRES is `gres/gpu=many`: `many` is no number",
        "line 7: JobID is `x`: not a job id such as 123, 123_4, 123_[5-9] or 123+0",
        "line 8: 4 fields, the header has 5",
        "line 9: 6 fields, the header has 5",
    ]


def test_the_same_line_twice_counts_once():
    """An export that was joined with itself; a requeued attempt is another line."""
    once = "5|RUNNING|100\n5|REQUEUED|50\n"
    rows, refused = read("JobID|State|Submit\n" + once + once)
    assert [row.submit_ms for row in rows] == [100_000, 50_000]
    assert [words.partition(":")[0] for words in refused] == ["line 4", "line 5"]


def test_bytes_that_are_not_utf8_are_named_by_line():
    """One name in another encoding costs one row, or none when the encoding is said."""
    text = "JobID|JobName\n1|a\n2|\xe9t\xe9\n3|b\n".encode("latin-1")
    with open_output(text) as reading:
        assert [row.job_id for row in reading.rows()] == [1, 3]
    assert reading.refusals.kept[0].words().startswith("line 3: byte 0xe9 at column 3 is not utf-8")
    with open_output(text, encoding="latin-1") as reading:
        assert [row.name for row in reading.rows()] == ["a", "été", "b"]
    with open_output(b"JobID|Nam\xe9") as reading:
        assert list(reading.rows()) == []
    assert reading.refusals.total == 1


SUBMITTED = "JobID|SubmitLine|State|NodeList"


@pytest.mark.parametrize("end", ["", "|"])
@pytest.mark.parametrize("block_bytes", [40, 64, 200, 1 << 20])
def test_a_row_with_line_breaks_in_it_is_one_row(block_bytes: int, end: str):
    """Wherever blocks end; with empty lines in it too, and beside lines that are refused.

    What a command complains of is part of none, and a row that was cut off is none.
    """
    lines = [SUBMITTED, "1|sbatch a|FAILED|n1", "2|sbatch --wrap", "", "srun x", "wait|FAILED|n2",
             "5|sbatch a", "b|FAILED|n5", "sacct: error: x|y",
             "6|a|b|FAILED|n6", "7|a", "b", "c|FAILED|n7", "8|cut", "off|FAILED"]  # fmt: skip
    text = "\n".join(line + end * (line.count("|") == 3 or line[-2:-1] == "n") for line in lines)
    header, refusals = delimited.header_of(SUBMITTED + end), Refusals()
    found = delimited.chunks(io.BytesIO(text.encode()), header, refusals, block_bytes=block_bytes)
    told = [
        (number, *(column[i] for column in chunk.fields))
        for chunk in found for i, number in enumerate(chunk.numbers.tolist())
    ]  # fmt: skip
    assert told == [
        (2, "1", "sbatch a", "FAILED", "n1"),
        (3, "2", "sbatch --wrap\n\nsrun x\nwait", "FAILED", "n2"),
        (7, "5", "sbatch a\nb", "FAILED", "n5"),
        (11, "7", "a\nb\nc", "FAILED", "n7"),
    ]
    assert sorted(refusal.number for refusal in refusals.kept) == [9, 10, 14, 15]


LINE = st.lists(
    st.sampled_from(
        [b"1|a", b"", b"|", b"x", b"\r", b"\x01", b"\xc3\xa9", b"\xe9", b'"', b"#", b" "]
    ),
    max_size=3,
).map(b"".join)


@settings(max_examples=150)
@given(lines=st.lists(LINE, min_size=1, max_size=8), ends=st.booleans())
def test_lines_are_what_lies_between_line_ends(lines: list[bytes], ends: bool):
    """Quotes, blanks, odd letters and bytes that are no text: a line is a line, by its number."""
    header = delimited.header_of("A|B")
    refusals, expected = Refusals(), list[tuple[object, ...]]()
    found = delimited.chunks(io.BytesIO(b"\n".join(lines) + b"\n" * ends), header, refusals)
    told = [
        (number, *(column[i] for column in chunk.fields))
        for chunk in found for i, number in enumerate(chunk.numbers.tolist())
    ]  # fmt: skip
    seen = set[str]()
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            continue
        text = text.removesuffix("\r")
        if text.count("|") == 1 and text not in seen and text != "A|B":
            expected.append((number, *text.split("|")))
        seen.add(text)
    assert told == expected


def test_local_times_need_a_zone():
    """Nobody's zone is guessed."""
    with pytest.raises(SpecError, match="without a zone") as caught:
        read("JobID|Start\n1|2026-11-16T16:29:46\n")
    assert "SLURM_TIME_FORMAT=%s" in caught.value.hint
    rows, _ = read("JobID|Start\n1|2026-11-16T16:29:46\n", zone="UTC")
    assert rows[0].start_ms == T0


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "empty"),
        ("hello\n", "no output of Slurm"),
        ("1|COMPLETED\n", "no output of Slurm"),
        ("    JOBID PARTITION     NAME\n    1  gpu  wrap\n", "padded with blanks"),
    ],
)
def test_what_is_no_output_of_slurm_is_refused(text, match):
    """With what was found and what to do."""
    with pytest.raises(SpecError, match=match) as caught:
        read(text)
    assert caught.value.hint


def test_utf16_is_told():
    """What PowerShell's `>` writes."""
    with pytest.raises(SpecError, match="UTF-16"):
        open_output("JobID|State\n".encode("utf-16"))


def test_squeue_text_tells_plans_from_facts():
    """The start of a pending job is Slurm's plan; the end of a running one too."""
    rows, refused = read(
        "JOBID|JOBID|STATE|NODES|TRES_PER_NODE|TIME_LIMIT|START_TIME|END_TIME|NODELIST(REASON)\n"
        "8_[1-6%2]|8|PENDING|3|gres:gpu:8|UNLIMITED|200|N/A|(Resources)\n"
        "2|2|RUNNING|2|gres/gpu:h100:8|5:00|100|400|n[2-3]\n"
    )
    assert refused == []
    pending, running = rows
    assert (pending.start_ms, pending.reason) == (None, "Resources")
    assert (pending.job_id, pending.array_tasks, pending.gpus_requested) == (8, "1-6%2", 24)
    assert (running.start_ms, running.end_ms) == (100_000, None)
    assert (running.node_list, running.gpus_requested, running.gpu_type) == ("n[2-3]", 16, "h100")


def test_sinfo_and_sacctmgr_text():
    """Nodes with why they are drained, limits of accounts and QOS, stretches of downtime."""
    nodes, _ = read(
        "NODELIST|PARTITION|STATE|GRES|REASON|USER|TIMESTAMP\n"
        "n1|gpu*|idle|gpu:h100:8|none|Unknown|Unknown\n"
        "n4|gpu*|drained|gpu:h100:8|ECC errors on GPU 3|root|1794846586\n"
    )
    same: dict[str, Any] = {
        "state": "IDLE",
        "gres": "gpu:h100:8",
        "partitions": "gpu*",
        "gpus": 8,
        "gpu_type": "h100",
    }
    assert nodes == [
        SlurmNode(name="n1", **same),
        SlurmNode(name="n4", **same, state_flags="DRAIN", reason="ECC errors on GPU 3",
                  reason_ms=T0),
    ]  # fmt: skip
    limits, _ = read(
        "Cluster|Account|User|Share|GrpJobs|GrpTRES|MaxWall|QOS|Def QOS\n"
        "lab|research|||60||gres/gpu=20|1-00:00:00|normal|\n".replace("||60", "|60")
    )
    assert limits == [
        SlurmAssociation(cluster="lab", account="research", shares="60", grp_tres="gres/gpu=20",
                         max_wall_ms=86_400_000, qos="normal"),
    ]  # fmt: skip
    qos, _ = read(
        "Name|Priority|GraceTime|Preempt|MaxTRESPU\nhigh|100|00:00:30|normal|gres/gpu=8\n"
    )
    assert qos == [
        SlurmQos(name="high", priority=100, preempt="normal",
                 max_tres_per_user="gres/gpu=8"),
    ]  # fmt: skip
    events, _ = read(
        "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"
        "lab|n4|1794846586|Unknown|DRAIN|ECC errors on GPU 3|root(0)\n"
    )
    assert events == [
        SlurmNodeEvent(node="n4", start_ms=T0, state="DRAIN", state_flags="DRAIN"),
    ]


def test_small_blocks_read_the_same_as_one():
    """Where the bytes are cut does not show, nor in the numbers of lines."""
    text = (PRINTED / "sacct_22.05.txt").read_bytes() + b"broken\n"

    def rows(block_bytes: int) -> tuple[list[dict], list[str]]:
        header = delimited.header_of(text.split(b"\n")[0].decode())
        table, refusals = columns.table_of(header.names), Refusals()
        assert table is not None
        reader = TextReader(table, header, times.zone_of("UTC"), refusals)
        found = list(reader.frames(io.BytesIO(text), block_bytes=block_bytes))
        rows = [row for part in found for row in part.frame.to_dicts()]
        return sorted(rows, key=str), [refusal.words() for refusal in refusals.kept]

    assert rows(700) == rows(1 << 20)


# --- the fast forms are the slow ones, only faster -----------------------------------------------

TEXTS = st.one_of(
    st.sampled_from(["", "0", "Unknown", "None", "N/A", "-1", "+5", "1e3", "007", "٣"]),
    st.integers(0, 4_000_000_000).map(str),
    st.datetimes().map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")),
    st.from_regex(r"[0-9]{2}:[0-9]{2}:[0-9]{2}", fullmatch=True),
    st.from_regex(identity.PATTERN[1:-1], fullmatch=True),
    st.text("0123456789_[]+.%-:T", max_size=12),
)
BERLIN = times.zone_of("Europe/Berlin")
RULES = {
    "number": fields.number("n"),
    "moment": fields.moment("t", BERLIN),
    "moment without a zone": fields.moment("t", None),
    "job id": fields.JOB_ID,
    "raw id": fields.RAW_ID,
}


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=40)
@given(texts=st.lists(TEXTS, min_size=1, max_size=20))
def test_whole_columns_and_single_texts_agree(name, texts):
    """What a rule makes of a column at once is what it makes of each text alone."""
    rule = RULES[name]

    def made(texts: list[str], rule: fields.FieldRule) -> tuple[list, list[str]]:
        [found] = fields.RuleSet([rule]).apply([pl.Series(texts, dtype=pl.String)])
        return [column.to_list() for column in found.columns], sorted(
            found.wrong.faults
        ) if found.wrong else []

    slow = rule._replace(fast=None, prepare=None)
    assert made(texts, rule) == made(texts, slow)


@pytest.mark.parametrize(
    ("start", "end", "elapsed", "hours"),
    [
        ("00:30:00", "01:30:00", "02:00:00", (0, 2)),  # the second half past one
        ("00:30:00", "01:30:00", "01:00:00", (0, 1)),
        ("00:30:00", "01:30:00", "7200", (0, 2)),
        ("01:30:00", "02:30:00", "01:00:00", (2, 3)),
        ("01:30:00", "02:30:00", "02:00:00", (1, 3)),
        ("00:30:00", "01:30:00", "01:07:00", (0, 1)),  # it contradicts both
        ("00:30:00", "01:30:00", "", (0, 1)),
    ],
)
def test_elapsed_says_which_of_two_hours_it_is(
    start: str, end: str, elapsed: str, hours: tuple[int, int]
):
    """Clocks in Lisbon went back from 2:00 to 1:00 on 25 October 2026, by Slurm's own count."""
    column = "ElapsedRaw" if elapsed.isdigit() else "Elapsed"
    text = f"JobID|State|Start|End|{column}\n1|COMPLETED|2026-10-25T{start}|2026-10-25T{end}|"
    with open_output(f"{text}{elapsed}\n".encode(), zone="Europe/Lisbon") as opened:
        (job,) = opened.rows()
    zero_ms = 1_792_884_600_000  # 2026-10-24T23:30Z: half past midnight there
    assert (job.start_ms - zero_ms, job.end_ms - zero_ms) == tuple(3_600_000 * h for h in hours)
