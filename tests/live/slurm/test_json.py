"""Slurm's JSON of 22.05 and 24.11: two forms, one meaning; and what breaks off is told."""

import io
import json
from pathlib import Path

import pytest

from tidemill.live.slurm import frames, json_records
from tidemill.live.slurm.columns import Output
from tidemill.live.slurm.json_records import JsonDocument
from tidemill.live.slurm.reading import open_output
from tidemill.live.slurm.refusals import Refusals
from tidemill.live.slurm.rows import SlurmJob, SlurmNode, SlurmPartition, SlurmReservation
from tidemill.model.errors import SpecError

PRINTED = Path(__file__).parent / "printed"


def rows_of(path_or_text, output: Output | None = None):
    """All rows; nothing refused."""
    source = path_or_text if isinstance(path_or_text, Path) else json.dumps(path_or_text).encode()
    with open_output(source) as reading:
        rows = list(reading.rows())
    assert [refusal.words() for refusal in reading.refusals.kept] == []
    assert output is None or reading.output is output
    return rows


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_sacct_json_says_what_sacct_text_says(version):
    """Of the same moment: identity, state, times and GPUs are the same in both forms."""
    by_json = rows_of(PRINTED / f"sacct_{version}.json", Output.SACCT_JSON)
    with open_output(PRINTED / f"sacct_{version}.txt", zone="UTC") as reading:
        by_text = list(reading.rows())
    assert reading.refusals.kept == []
    texts = {(row.job_id, row.start_ms): row for row in by_text if isinstance(row, SlurmJob)}
    began = [row for row in by_json if isinstance(row, SlurmJob) and row.state != "PENDING"]
    for job in began:
        other = texts[job.job_id, job.start_ms]
        for name in (
            *("array_job_id", "array_task_id", "het_job_id", "het_offset", "user", "account"),
            *("submit_ms", "gpus_requested", "gpus_allocated", "gpu_type", "node_list"),
        ):
            assert getattr(job, name) == getattr(other, name), name
    assert len(began) == {"22.05": 3, "24.11": 8}[version]


def test_what_the_accounting_of_22_05_gets_wrong():
    """Pending tasks of an array are bits."""
    by_json = rows_of(PRINTED / "sacct_22.05.json")
    array = next(row for row in by_json if isinstance(row, SlurmJob) and row.array_job_id == 8)
    assert (array.array_task_id, array.array_tasks) == (None, "1-6%2")


def test_a_reservation_without_a_readable_name_loses_no_record():
    """22.05 prints a number where the name of a job's reservation should be."""
    printed = json.loads((PRINTED / "sacct_22.05.json").read_text())
    for job in printed["jobs"]:
        job["reservation"] = {"id": 2, "name": 3799177280}
    jobs = [row for row in rows_of(printed) if isinstance(row, SlurmJob)]
    assert len(jobs) == len(printed["jobs"])
    assert {job.reservation for job in jobs} == {None}


def test_what_json_does_not_say_is_not_looked_for_in_json():
    """The hint of a record that cannot be read names another form."""
    broken = json.dumps({"jobs": [{"job_id": 1, "job_state": "PENDING", "name": 5}]})
    with open_output(broken.encode()) as reading:
        assert list(reading.rows()) == []
    (refusal,) = reading.refusals.kept
    assert "without --json" in refusal.words()


def test_the_accounting_of_24_11():
    """Numbers that mean *not set* are negative there."""
    by_json = rows_of(PRINTED / "sacct_24.11.json")
    failed = next(row for row in by_json if isinstance(row, SlurmJob) and row.state == "FAILED")
    assert failed.gpus_allocated == 2
    pending = next(row for row in by_json if isinstance(row, SlurmJob) and row.state == "PENDING")
    assert (pending.gpus_requested, pending.node_count) == (2, 1)


def test_squeue_json_of_both_versions():
    """Plain numbers and `{set, infinite, number}`; a state and a list of states."""
    old = {row.job_id: row for row in rows_of(PRINTED / "squeue_22.05.json", Output.QUEUE_JSON)}
    gang, failed, held, array, starved, het = (old[i] for i in (2, 3, 5, 8, 9, 11))
    assert (gang.gpus_allocated, gang.node_count, gang.gpu_type) == (16, 2, "h100")
    assert gang.gres_detail == "n2=gpu:h100:8(IDX:0-7);n3=gpu:h100:8(IDX:0-7)"
    assert gang.end_ms is None
    assert (failed.state, failed.gpus_requested) == ("FAILED", 2)
    assert (held.reason, held.gpus_requested, held.time_limit_ms) == ("JobHeldUser", 1, None)
    assert (array.array_tasks, array.start_ms) == ("1-6%2", None)
    assert starved.reason_text.startswith("Nodes required for job are DOWN, DRAINED")
    assert (het.het_job_id, het.het_offset, het.gpus_requested) == (10, 1, 2)
    new = {row.job_id: row for row in rows_of(PRINTED / "squeue_24.11.json", Output.QUEUE_JSON)}
    assert (new[1].state, new[1].gpus_allocated, new[1].gpu_type) == ("RUNNING", 8, "h100")
    assert new[1].time_limit_ms == 600_000
    assert (new[5].reason, new[5].start_ms, new[5].gpus_requested) == ("Resources", None, 2)


def test_a_job_that_asked_for_no_gpu_requests_zero_and_one_that_did_not_say_is_unknown():
    """All four ways to ask are there and empty: zero. A way is missing: unknown."""
    none = {"job_id": 1, "job_state": "RUNNING", "tres_req_str": "cpu=1"}
    none |= {"tres_per_job": "", "tres_per_node": "", "tres_per_task": "", "tres_per_socket": ""}
    assert rows_of({"jobs": [none]})[0].gpus_requested == 0
    assert rows_of({"jobs": [{"job_id": 1, "job_state": "RUNNING"}]})[0].gpus_requested is None


def test_nodes_of_both_versions():
    """A drained node with why and when; newer sinfo has one record for many nodes."""
    first, drained = rows_of(PRINTED / "sinfo_22.05.json", Output.NODES_JSON)
    assert (first.state, first.gpus, first.gpu_type) == ("MIXED", 8, "h100")
    assert (drained.state, drained.state_flags) == ("IDLE", "DRAIN")
    assert drained.reason == "ECC errors on GPU 3"
    assert drained.reason_ms == 1794846586000
    [node] = rows_of(PRINTED / "scontrol_node_24.11.json", Output.NODES_JSON)
    assert (node.state, node.state_flags, node.gpus) == ("MIXED", "PLANNED", 8)
    many = rows_of(PRINTED / "sinfo_24.11.json", Output.SINFO_JSON)
    assert [row.name for row in many] == ["n1", "n2", "n3", "n4"]
    assert [row.gpus for row in many] == [8, 8, 8, 8]


def test_partitions_and_reservations():
    """As `scontrol show … --json` prints them since 23.02."""
    rows = rows_of(
        {
            "partitions": [
                {
                    "name": "gpu",
                    "nodes": {"configured": "n[1-4]", "total": 4},
                    "maximums": {"time": {"set": True, "infinite": False, "number": 60}},
                    "partition": {"state": ["UP"]},
                }
            ],
            "reservations": [
                {
                    "name": "maint",
                    "start_time": {"set": True, "infinite": False, "number": 1794850186},
                    "node_list": "n2",
                    "flags": ["MAINT", "SPEC_NODES"],
                }
            ],
        }
    )
    assert rows == [
        SlurmPartition(
            name="gpu", state="UP", nodes="n[1-4]", node_count=4, max_time_ms=3_600_000
        ),
        SlurmReservation(name="maint", start_ms=1794850186000, node_list="n2",
                         flags="MAINT,SPEC_NODES"),
    ]  # fmt: skip


def test_a_document_that_breaks_off_keeps_what_came_before():
    """Cut at any place: the whole records before it are read, and the next is refused by number."""
    text = (PRINTED / "sinfo_22.05.json").read_bytes()
    ends = [text.index(b'"name": "n4"'), text.index(b'"errors"') + 3, len(text) - 3]
    counts, refused = [], []
    for end in ends:
        with open_output(text[:end]) as reading:
            counts.append(len(list(reading.rows())))
        refused.append([(r.unit, r.number) for r in reading.refusals.kept])
    assert counts == [1, 0, 2]
    assert refused == [[("record", 2)], [("record", 1)], [("record", 3)]]
    assert "run it again" in reading.refusals.kept[0].hint


def test_a_record_that_makes_no_sense_is_named_and_the_rest_is_kept():
    """A number that is a text, a state that Slurm does not have, a record that is no object."""
    good = {"job_id": 1, "job_state": ["RUNNING"], "submit_time": 5}
    wrong = [{**good, "submit_time": "soon"}, {**good, "job_state": ["DANCING"]}, 7]
    with open_output(json.dumps({"jobs": [good, *wrong, good]}).encode()) as reading:
        assert list(reading.rows()) == [SlurmJob(job_id=1, state="RUNNING", submit_ms=5000)] * 2
    words = [refusal.words() for refusal in reading.refusals.kept]
    assert [found.partition(":")[0] for found in words] == ["record 2", "record 3", "record 4"]
    assert "`soon` is no whole number" in words[0]


def test_bytes_that_are_not_utf8_spoil_one_record():
    """A job name in latin-1 inside JSON."""
    text = b'{"jobs": [{"job_id": 1, "name": "\xe9t\xe9"}, {"job_id": 2, "name": "b"}]}'
    with open_output(text) as reading:
        assert [row.job_id for row in reading.rows()] == [2]
    assert reading.refusals.kept[0].number == 1


def test_what_the_command_itself_complained_about_is_passed_on():
    """`errors` of the document."""
    with open_output(b'{"jobs": [], "errors": [{"error": "no contact to slurmdbd"}]}') as reading:
        assert list(reading.rows()) == []
    assert "no contact to slurmdbd" in reading.errors[0]


def test_json_is_read_record_by_record(monkeypatch):
    """A document of many records is never held whole: the text in hand stays a few blocks."""
    monkeypatch.setattr(json_records, "BLOCK_BYTES", 1000)
    records = [{"job_id": i, "job_state": "RUNNING", "name": "x" * 50} for i in range(2000)]
    document = JsonDocument(io.BytesIO(json.dumps({"jobs": records}).encode()), Refusals())
    sizes = [len(document._cursor.text) for _ in document.records()]
    assert len(sizes) == 2000
    assert max(sizes) <= 3000


def test_no_object_is_refused():
    """JSON that no Slurm command prints."""
    with pytest.raises(SpecError, match="no output of Slurm"):
        open_output(b"[1, 2]")


def test_recorded_output_of_both_versions(recorded):
    """Every recorded file is read whole, as rows and as columns alike."""
    counts = {
        "sacct_22.05": 6,
        "squeue_22.05": 12,
        "sinfo_22.05": 4,
        "squeue_24.11": 6,
        "scontrol_job_24.11": 6,
        "scontrol_node_24.11": 4,
        "sinfo_24.11": 4,
    }
    for name, count in counts.items():
        rows = rows_of(recorded / f"{name}.json")
        assert sum(isinstance(row, SlurmJob | SlurmNode) for row in rows) == count, name
        with open_output(recorded / f"{name}.json") as reading:
            parts = list(reading.frames())
        again = [row for part in parts for row in frames.rows_of(part.makes, part.frame)]
        assert sorted(map(str, again)) == sorted(map(str, rows))
