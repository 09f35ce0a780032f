"""`scontrol show …` as text: blocks and single lines say the same."""

from pathlib import Path

import pytest

from tidemill.live.slurm.columns import Output
from tidemill.live.slurm.reading import open_output
from tidemill.live.slurm.rows import SlurmPartition, SlurmReservation
from tidemill.model.errors import SpecError

PRINTED = Path(__file__).parent / "printed"


def read(source, **options):
    """All rows; nothing refused."""
    with open_output(source if isinstance(source, Path) else source.encode(), **options) as reading:
        rows = list(reading.rows())
    assert [refusal.words() for refusal in reading.refusals.kept] == []
    return rows, reading.output


def test_jobs_in_blocks_and_in_single_lines():
    """`-o` without `-d` lacks the devices; everything else is equal."""
    blocks, output = read(PRINTED / "scontrol_job_22.05.txt", zone="UTC")
    lines, _ = read(PRINTED / "scontrol_job_o_22.05.txt", zone="UTC")
    assert output is Output.JOBS_BLOCKS
    keep = [name for name in blocks[0].__struct_fields__ if name != "gres_detail"]
    for block, line in zip(blocks, lines, strict=True):
        assert [getattr(block, n) for n in keep] == [getattr(line, n) for n in keep]
    gang, array, het, running = blocks
    assert gang.gres_detail == "n2=gpu:h100:8(IDX:0-7);n3=gpu:h100:8(IDX:0-7)"
    assert (gang.job_id, gang.user, gang.uid, gang.gpus_allocated) == (2, "root", 0, 16)
    assert (array.array_job_id, array.array_tasks, array.start_ms) == (8, "1-6%2", None)
    assert (het.job_id, het.het_job_id, het.het_offset, het.gpus_requested) == (11, 10, 1, 2)
    assert (running.qos, running.time_limit_ms) == ("high", None)
    assert running.alloc_tres is not None


def test_nodes_and_when_they_were_drained():
    """Free text with blanks ends where the line ends; when is taken from its brackets."""
    (busy, drained), output = read(PRINTED / "scontrol_node_22.05.txt", zone="UTC")
    assert output is Output.NODES_BLOCKS
    assert (busy.gpus, busy.gpu_type) == (8, "h100")
    assert (drained.state, drained.state_flags, drained.reason) == (
        "IDLE",
        "DRAIN",
        "ECC errors on GPU 3",
    )
    assert drained.reason_ms == 1794846586000


def test_free_text_in_a_single_line_ends_at_the_next_key():
    """A job name with blanks and `=` in it."""
    [job], _ = read(
        "JobId=7 JobName=lr=0.1 warm up UserId=ada(1000) JobState=PENDING Reason=Priority "
        "Dependency=(null) Comment=see k=v NumNodes=2-4 NumTasks=2 TresPerNode=gres/gpu:4\n"
    )
    assert (job.name, job.user, job.reason, job.dependency) == (
        "lr=0.1 warm up",
        "ada",
        "Priority",
        None,
    )
    assert (job.node_count, job.gpus_requested) == (2, 8)


def test_partitions_and_reservations():
    """Limits and windows; the block form."""
    (partition, reservation), _ = read(
        "PartitionName=gpu\n   AllowAccounts=ALL AllowQos=ALL\n   Default=YES QoS=N/A\n"
        "   MaxNodes=UNLIMITED MaxTime=1-00:00:00 DefaultTime=NONE\n   Nodes=n[1-4]\n"
        "   PriorityTier=1 PreemptMode=REQUEUE\n   State=UP TotalCPUs=256 TotalNodes=4\n"
        "   TRES=cpu=256,gres/gpu=32\n\n"
        "ReservationName=maint StartTime=1794850186 EndTime=1794857386 Duration=02:00:00\n"
        "   Nodes=n2 NodeCnt=1 CoreCnt=64 Features=(null) PartitionName=(null) Flags=MAINT\n"
        "   TRES=cpu=64\n   Users=root Groups=(null) Accounts=(null) State=INACTIVE\n"
    )
    assert partition == SlurmPartition(
        name="gpu", state="UP", nodes="n[1-4]", node_count=4, max_time_ms=86_400_000
    )
    assert reservation == SlurmReservation(
        name="maint", state="INACTIVE", start_ms=1794850186000, end_ms=1794857386000,
        node_list="n2", flags="MAINT",
    )  # fmt: skip


def test_a_record_that_makes_no_sense_is_named():
    """By its number and line; the others are kept."""
    text = b"NodeName=n1 State=IDLE\n\nNodeName=n2 State=DANCING\n\nNodeName=n3 State=DOWN*\n"
    with open_output(text) as reading:
        assert [row.name for row in reading.rows()] == ["n1", "n3"]
    assert (
        reading.refusals.kept[0].words().startswith("record 2: (line 3) `DANCING` is not a state")
    )


def test_local_times_need_a_zone():
    """As in the other texts."""
    text = (PRINTED / "scontrol_job_22.05.txt").read_bytes()
    with pytest.raises(SpecError, match="without a zone"):
        list(open_output(text).rows())
    node = b"NodeName=g1 State=IDLE\n   BootTime=2026-01-01T00:00:00 SlurmdStartTime=None\n"
    words = r"^BootTime of `g1` \(scontrol show node\) is `2026-01-01T00:00:00`, a time"
    with pytest.raises(SpecError, match=words) as error:
        list(open_output(node).rows())
    assert "--zone" in error.value.hint
