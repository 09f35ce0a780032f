"""Jobs of which sacct and squeue tell together, and jobs that were never eligible."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import Ran, tidemill
from tests.conftest import ROOT
from tidemill.live.slurm import translate
from tidemill.live.slurm.joined import SQUEUE_FORMAT

HEADER = "JobID|Account|State|Submit|Eligible|Start|End|NNodes|NodeList|AllocTRES|ReqTRES"
TRES = "cpu=8,gres/gpu:h100=8,gres/gpu=8,mem=8G,node=1"
DAY = "2026-11-02T"
NODES = "NodeName=t1 CPUTot=96 Gres=gpu:h100:8 State=IDLE\n"
RAN = (
    f"1|vision|COMPLETED|{DAY}08:00:00|{DAY}08:00:00|{DAY}08:00:00|{DAY}09:00:00|1|t1|{TRES}|{TRES}"
)


def _imported(folder: Path, rows: list[str], **files: str) -> tuple[Ran, str]:
    """What the import of these rows of sacct said, beside job 1, and its journal."""
    told = {"sacct": "\n".join([HEADER, RAN, *rows]) + "\n", "nodes": NODES, **files}
    for name, text in told.items():
        (folder / f"{name}.txt").write_text(text)
    journal = str(folder / "j.sqlite")
    paths = [str(folder / f"{name}.txt") for name in told]
    done = tidemill(
        "import", "slurm", *paths, "--zone", "UTC", "--to", f"{DAY}20:00", "-j", journal
    )
    assert done.code == 0, done.err
    return done, journal


@pytest.mark.parametrize("eligible", ["Unknown", f"{DAY}19:00:00"])
def test_who_was_never_eligible_waited_for_no_gpu(tmp_path: Path, eligible: str):
    """Held, or put off until later, and cancelled then: no demand, no wait, and a cancelled job."""
    row = (
        f"2|nlp|CANCELLED by 5|{DAY}08:00:00|{eligible}|None|{DAY}12:00:00|1|None assigned||{TRES}"
    )
    done, journal = _imported(tmp_path, [row])
    assert "2 jobs of 2 teams: 1 done, 1 cancelled" in done.out
    assert "waits: 1 job, mean 0s" in done.out
    lines = json.loads(tidemill("ledger", journal, "--json").out)["lines"]
    free = {row["key"]: row["milli_ms"] for row in lines if row["milli_ms"]}
    assert free["no_demand"] == 8_000 * 11 * 3_600_000
    assert set(free) == {"no_demand", "unknown"}


def test_who_was_eligible_and_cancelled_has_waited(tmp_path: Path):
    """Four hours for GPUs that stood free: demand, and a wait that nobody ended."""
    row = f"2|nlp|CANCELLED by 5|{DAY}08:00:00|{DAY}08:00:00|None|{DAY}12:00:00|1|||{TRES}"
    done, _ = _imported(tmp_path, [row])
    assert "waits: 2 jobs" in done.out


@pytest.mark.parametrize(
    "squeue",
    [
        "JOBID|STATE|REASON\n2|PENDING|QOSMaxGRESPerUser\n",
        "JOBID|STATE|REASON|TRES_PER_NODE\n2|PENDING|QOSMaxGRESPerUser|gres:gpu:h100:8\n",
    ],
)
def test_a_short_squeue_is_joined_with_sacct_by_number(tmp_path: Path, squeue: str):
    """GPUs and times are in sacct, the reason in squeue: one job with both."""
    row = f"2|nlp|PENDING|{DAY}09:00:00|{DAY}09:00:00|Unknown|Unknown|1|None assigned||{TRES}"
    done, journal = _imported(tmp_path, [row], squeue=squeue)
    assert "left out" not in done.err
    assert f"-o '{SQUEUE_FORMAT}'" in done.err.replace("\n", " ")
    why = tidemill("why", "2", "-j", journal).out
    assert "QOSMaxGRESPerUser" in why
    assert "has waited 11h" in why


def test_a_short_squeue_of_a_running_job_keeps_its_start(tmp_path: Path):
    """It holds what sacct says since when sacct says, once; so of one that is over."""
    row = f"2|nlp|RUNNING|{DAY}09:00:00|{DAY}09:00:00|{DAY}10:00:00|Unknown|1|t1|{TRES}|{TRES}"
    squeue = "JOBID|STATE|REASON\n2|RUNNING|None\n1|COMPLETED|None\n"
    done, _ = _imported(tmp_path, [row], squeue=squeue)
    assert "2 jobs of 2 teams: 1 done, 1 running" in done.out
    assert "left out" not in done.err


def test_an_hour_that_the_clock_shows_twice_is_read_as_in_a_table(tmp_path: Path):
    """From 02:40 to 02:20 in Berlin, as clocks go back: forty minutes."""
    day = "2026-10-25T"
    times = "|".join(f"{day}{clock}:00" for clock in ("02:30", "02:30", "02:40", "02:20"))
    row = f"2|nlp|COMPLETED|{times}|1|t1|{TRES}|{TRES}"
    (tmp_path / "sacct.txt").write_text(f"{HEADER}\n{row}\n")
    past = translate.read([tmp_path / "sacct.txt"], "Europe/Berlin")
    (attempt,) = past.attempts.iter_rows(named=True)
    assert attempt["end_ms"] - attempt["start_ms"] == 40 * 60_000
    assert any("1 time taken as the second" in note for note in past.notes)


def test_the_guide_has_the_format_of_squeue():
    """One line to copy."""
    text = (ROOT / "docs" / "guides" / "import-your-cluster.md").read_text(encoding="utf-8")
    assert f"-o '{SQUEUE_FORMAT}'" in text


def _queue(*rows: tuple[object, ...]) -> str:
    """A text of squeue in the format of the guide."""
    head = "JOBID;STATE;REASON;SUBMIT_TIME;START_TIME;END_TIME;NODES;NODELIST;USER;ACCOUNT;"
    head += "PARTITION;TRES_PER_NODE;TIME_LIMIT;REQ_NODES;EXC_NODES;FEATURES"
    return "\n".join([head, *(";".join(map(str, row)) for row in rows)]) + "\n"


def _queued(number: int, state: str, end: str, gres: str = "gres:gpu:h100:8") -> tuple[object, ...]:
    start = f"{DAY}08:00:00"
    rest = ("1", "t1", "root", "vision", "gpu", gres, "5:00", "", "", "(null)")
    return (number, state, "None", start, start, f"{DAY}{end}", *rest)


@pytest.mark.parametrize("gres", ["gres:gpu:h100:8", "N/A"])
def test_who_is_over_in_both_is_over_once(tmp_path: Path, gres: str):
    """`--states=all` shows jobs that just ended; `--gpus=8` is in no column of a text of squeue."""
    done, _ = _imported(tmp_path, [], squeue=_queue(_queued(1, "COMPLETED", "09:00:00", gres)))
    assert "1 job of 1 team: 1 done" in done.out
    assert "left out" not in done.err
    assert "stopped early" not in done.out


def test_a_text_of_squeue_alone_shows_what_runs(tmp_path: Path):
    """It says what jobs requested and where they are: they hold that."""
    (tmp_path / "squeue.txt").write_text(
        _queue(_queued(1, "COMPLETED", "09:00:00"), _queued(2, "RUNNING", "20:00:00"))
    )
    past = translate.read([tmp_path / "squeue.txt"], "UTC")
    held = past.attempts.select("outcome", "gpus", "nodes").rows()
    assert sorted(held) == [("done", 8, ["t1"]), ("running", 8, ["t1"])]


def test_who_was_given_more_than_it_requested_holds_that(tmp_path: Path):
    """`--exclusive --gres=gpu:1` has all GPUs of its node, as sacct alone says."""
    row = f"2|nlp|RUNNING|{DAY}08:00:00|{DAY}08:00:00|{DAY}08:00:00|Unknown|1|t1|{TRES}|cpu=1"
    squeue = _queue(_queued(2, "RUNNING", "20:00:00", "gres:gpu:h100:1"))
    (tmp_path / "squeue.txt").write_text(squeue)
    (tmp_path / "sacct.txt").write_text(f"{HEADER}\n{row}\n")
    past = translate.read([tmp_path / "squeue.txt", tmp_path / "sacct.txt"], "UTC")
    assert past.attempts["gpus"].to_list() == [8]


@pytest.mark.parametrize("has_queue", [False, True])
def test_the_accounting_knows_no_reason_of_jobs_that_wait(tmp_path: Path, has_queue: bool):
    """`None` is what it has of every job that was submitted; said by the queue it is a reason."""
    header, ran = f"{HEADER}|Reason", f"{RAN}|None"
    row = f"2|nlp|PENDING|{DAY}09:00:00|{DAY}09:00:00|Unknown|Unknown|1|None assigned||{TRES}|None"
    queue = {"squeue": "JOBID|STATE|REASON\n2|PENDING|None\n"} if has_queue else {}
    _, journal = _imported(tmp_path, [row], sacct=f"{header}\n{ran}\n{row}\n", **queue)
    told = tidemill("why", "2", "-j", journal).out
    assert ("None: not yet looked at" in told) == has_queue
    assert ("why is not recorded here" in told) == (not has_queue)
