"""An observer of Slurm commands that lie, fail and come back: said, survived, never booked twice.

The commands are scripts that print files, as a real cluster's would at that moment; the real ones
are in ``tests/live/slurm/test_observe.py``.
"""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.ledger.sums import amounts
from tidemill import api
from tidemill.journal import completeness, open_journal
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.live.observing import watching
from tidemill.live.observing.observer import AnswerTaken, Observer, ObserverTerms
from tidemill.live.prices.rules import flat
from tidemill.live.slurm.commands import DELIMITER, SACCT_COLUMNS
from tidemill.live.slurm.polling import SlurmSource
from tidemill.model.errors import BackendError, JournalError

BEGIN_S = 1_794_000_000
TERMS = ObserverTerms(flat({"": 2_000_000}), lateness_ms=30_000, gap_ms=600_000)
COMMANDS = ("sacct", "squeue", "scontrol", "sacctmgr", "sdiag")
NODE = (
    "NodeName=n{n} CPUTot=64 Gres=gpu:h100:8 State=IDLE RealMemory=512000"
    " CfgTRES=cpu=64,mem=500G,gres/gpu=8\n"
)


class Cluster:
    """Scripts by the names of Slurm's commands, and what they print."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.jobs = folder, list[dict[str, Any]]()
        for name in COMMANDS:
            script = folder / name
            script.write_text(
                f"#!/bin/sh\n[ -e {folder}/down ] && exit 1\ncat {folder}/{name}.out\n"
            )
            script.chmod(script.stat().st_mode | stat.S_IEXEC)
        self.print("scontrol", NODE.format(n=1) + NODE.format(n=2))
        self.print("sacctmgr", "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n")
        self.print("squeue", json.dumps({"jobs": []}))
        self.source = SlurmSource(
            timeout_s=20, environment={"PATH": f"{folder}:/usr/bin:/bin", "LC_ALL": "C"}
        )

    def print(self, name: str, text: str) -> None:
        """What a command prints from now on."""
        (self.folder / f"{name}.out").write_text(text)

    def at(self, seconds: int, *jobs: dict[str, Any]) -> None:
        """It is so many seconds after the beginning, and these are the rows of sacct."""
        self.print("sdiag", f"sdiag output at now ({BEGIN_S + seconds})\n")
        lines = [DELIMITER.join(SACCT_COLUMNS)]
        lines += [DELIMITER.join(_cells(job)) for job in jobs]
        self.print("sacct", "\n".join(lines) + "\n")


def _cells(job: dict[str, Any]) -> list[str]:
    """A row of sacct; times are seconds after the beginning."""
    tres = f"cpu=8,gres/gpu:h100={job['gpus']},gres/gpu={job['gpus']},mem=64G,node=1"
    known = {
        "JobIDRaw": job["id"], "JobID": job["id"], "Cluster": "lab", "User": "ada",
        "Account": job.get("account", "research"), "State": job.get("state", "RUNNING"),
        "NodeList": job.get("node", "n1"), "NNodes": 1, "ReqTRES": tres,
        "AllocTRES": tres if "start" in job else "", "TimelimitRaw": 60,
    }  # fmt: skip
    for name, field in (("Submit", "submit"), ("Start", "start"), ("End", "end")):
        known[name] = BEGIN_S + job[field] if field in job else "Unknown"
    known["Eligible"] = known["Submit"]
    return [str(known.get(name, "")) for name in SACCT_COLUMNS]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Cluster(folder)


@pytest.fixture
def ask(cluster: Cluster, tmp_path: Path) -> Callable[[], AnswerTaken]:
    """Ask once, as a process that knows nothing but the journal."""

    def once() -> AnswerTaken:
        where = str(tmp_path / "fleet.sqlite")
        with Observer.open(where, cluster.source, TERMS, BEGIN_S * 1000) as observer:
            return observer.ask()

    return once


def worked_s(where: Path) -> int:
    """GPU-seconds that jobs held, with paid = Σ buckets on the way."""
    found = api.read_statement(str(where))
    sums = amounts(found, "bucket")
    assert sum(sums.values()) == found.total().paid_milli_ms
    return sum(sums[(bucket,)] for bucket in ALLOCATED) // 1_000_000


RUNNING = {"id": 7, "gpus": 4, "submit": 10, "start": 20}


def test_a_journal_grows_with_every_answer(
    cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path
):
    """A job is told up to the watermark, 30 s behind the controller; then its end, once."""
    cluster.at(100, RUNNING)
    taken = ask()
    assert (taken.running, taken.nodes, taken.lag_ms, taken.told_ms) == (1, 2, 30_000, 70_000)
    assert worked_s(tmp_path / "fleet.sqlite") == 4 * 50
    cluster.at(200, RUNNING | {"end": 120, "state": "COMPLETED"})
    assert ask().running == 0
    cluster.at(260, RUNNING | {"end": 120, "state": "COMPLETED"})
    assert ask().late.words() == []
    assert worked_s(tmp_path / "fleet.sqlite") == 4 * 100


def test_duplicate_rows_are_told_once(cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path):
    """The same line three times in one answer."""
    cluster.at(100, RUNNING, RUNNING, RUNNING)
    assert ask().jobs == 1
    assert worked_s(tmp_path / "fleet.sqlite") == 4 * 50


@pytest.mark.parametrize(
    ("command", "text", "found"),
    [
        ("squeue", '{"jobs": [{"job_id": 7, "job_st', "breaks off"),
        ("sacct", "JobIDRaw\x1fState\x1fSubmit\x1fStart\n", "no column AllocTRES, End, ReqTRES"),
        ("sacct", "", "the file is empty"),
        ("scontrol", "slurm_load_node error: Unable to contact", "no output of Slurm"),
        ("sdiag", "nothing", "no time in its answer"),
    ],
)
def test_an_answer_that_cannot_be_is_not_taken(
    cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path, command: str, text: str, found: str
):
    """Truncated JSON, missing columns, an empty file: said; the next good answer tells all."""
    cluster.at(100, RUNNING)
    ask()
    good = (cluster.folder / f"{command}.out").read_text()
    cluster.at(200, RUNNING)
    if command != "sacct":
        good = (cluster.folder / f"{command}.out").read_text()
    cluster.print(command, text)
    with pytest.raises(BackendError, match=found):
        ask()
    cluster.print(command, good)
    cluster.at(300, RUNNING | {"end": 150, "state": "FAILED"})
    assert ask().late.words() == []
    assert worked_s(tmp_path / "fleet.sqlite") == 4 * 130


def test_a_line_that_cannot_be_read_is_said_and_ends_nothing(
    cluster: Cluster, ask: Callable[[], AnswerTaken]
):
    """The row of a running job is garbled: it still runs, for nobody said that it ended."""
    cluster.at(100, RUNNING, {"id": 8, "gpus": 1, "submit": 5, "start": 6, "node": "n2"})
    assert ask().running == 2
    cluster.at(200, RUNNING)
    with (cluster.folder / "sacct.out").open("a") as out:
        out.write("8\x1fgarbled\n")
    taken = ask()
    assert taken.running == 2
    assert any("sacct: line 3" in note for note in taken.notes)


def test_the_clock_of_the_controller_counts(
    cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path
):
    """Five minutes (and years) beside this machine's clock: said, and nothing is late for it."""
    cluster.at(100, RUNNING)
    taken = ask()
    assert any("the controller's clock is" in note for note in taken.notes)
    assert (taken.lag_ms, taken.late.words()) == (30_000, [])


def test_a_source_five_minutes_late_is_taken_at_the_watermark(
    cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path
):
    """The accounting is five minutes behind: every start and end is late, counted, told once."""
    for now in range(100, 1000, 60):
        is_known, is_over = now - 300 >= 20, now - 300 >= 320
        end = {"end": 320, "state": "COMPLETED"} if is_over else {}
        cluster.at(now, *([RUNNING | end] if is_known else []))
        taken = ask()
    assert taken.jobs == 1
    assert worked_s(tmp_path / "fleet.sqlite") == 4 * 300


def test_a_source_that_is_down_is_asked_less_often(cluster: Cluster, tmp_path):
    """Each failure is told; pauses double up to five minutes; an answer brings them back."""
    cluster.at(100, RUNNING)
    where, pauses, downs = str(tmp_path / "fleet.sqlite"), list[float](), 0

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 1:
            (cluster.folder / "down").touch()
        if len(pauses) == 6:
            (cluster.folder / "down").unlink()
            cluster.at(160, RUNNING)
        return len(pauses) == 8

    def on_down(error: BackendError, _: float) -> None:
        nonlocal downs
        downs += 1
        assert "exit code 1" in error.message

    taken = list[AnswerTaken]()
    with Observer.open(where, cluster.source, TERMS, BEGIN_S * 1000) as observer:
        watching.watch(observer, 60.0, wait, taken.append, on_down)
        observer.finish()
    assert pauses == [60, 60, 120, 240, 300, 300, 60, 60]
    assert (downs, len(taken)) == (5, 3)
    assert worked_s(tmp_path / "fleet.sqlite") == 4 * 110


def test_time_without_an_answer_is_not_observed(
    cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path
):
    """An hour between two answers: what jobs held is told afterwards, free GPUs are unknown."""
    cluster.at(100, RUNNING)
    ask()
    cluster.at(3700, RUNNING | {"end": 1100, "state": "COMPLETED"})
    assert ask().is_gap
    statement = api.read_statement(str(tmp_path / "fleet.sqlite"))
    sums = amounts(statement, "bucket")
    gap_s = 3600
    assert worked_s(tmp_path / "fleet.sqlite") == 4 * (1100 - 20)
    assert sums[(Bucket.NOT_OBSERVED,)] // 1_000_000 == 16 * gap_s - 4 * (1100 - 70)


def test_a_journal_is_read_while_it_is_written(cluster: Cluster, tmp_path):
    """Readers are told that it grows; after a kill, that nobody writes it now."""
    where = str(tmp_path / "fleet.sqlite")
    cluster.at(100, RUNNING)
    with Observer.open(where, cluster.source, TERMS, BEGIN_S * 1000) as observer:
        observer.ask()
        assert worked_s(tmp_path / "fleet.sqlite") == 4 * 50
        assert api.completeness_of(where).state == "being written"
    assert api.completeness_of(where).state == "not observed now"
    assert "start it again to go on" in api.completeness_of(where).words


def test_an_observer_goes_on_with_its_own_journal_alone(cluster: Cluster, tmp_path):
    """A journal of something else is refused and left as it was."""
    other = tmp_path / "other.sqlite"
    with open_journal(str(other), create=True) as journal:
        completeness.begin(journal, completeness.Begun())
        from tidemill.model.events import Woke

        journal.append([Woke(5)])
    cluster.at(100)
    with pytest.raises(JournalError, match="not that of an observer"):
        Observer.open(str(other), cluster.source, TERMS)


def test_a_source_that_never_answered_leaves_no_journal(cluster: Cluster, tmp_path):
    """Nothing is begun before the cluster has said what time it is."""
    (cluster.folder / "down").touch()
    where = tmp_path / "fleet.sqlite"
    with pytest.raises(BackendError):
        Observer.open(str(where), cluster.source, TERMS, BEGIN_S * 1000)
    assert not where.exists()


def test_jobs_older_than_the_journal_wait_since_they_were_submitted(
    cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path
):
    """As with an import: answers tell the whole wait, and the ledger's waits leave them out."""
    waits = {"id": 9, "gpus": 4, "submit": -3600, "state": "PENDING", "node": "None assigned"}
    runs = RUNNING | {"submit": -1800, "start": -600}
    late = {"id": 11, "gpus": 1, "submit": 40, "start": 60, "node": "n2"}
    where = str(tmp_path / "fleet.sqlite")
    cluster.at(100, waits, runs, late)
    ask()
    cluster.at(200, waits, runs, late)
    ask()
    world, _ = api.open_world(where)
    submitted = {name: world.jobs.submit_ms.item(j) for name, j in world.job_number.items()}
    assert submitted == {"9": -3_600_000, "7": -1_800_000, "11": 40_000}
    assert world.jobs.since_ms.item(world.job_number["9"]) == -3_600_000
    waits_told = api.read_statement(where).waits
    named = [world.job_names[j] for j in waits_told.job.tolist()]
    assert (named, waits_told.wait_ms.tolist()) == (["11"], [20_000])


def test_why_a_node_is_drained_is_known_until_it_is_back(
    cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path
):
    """Slurm's own words, as long as the node is out."""
    where = str(tmp_path / "fleet.sqlite")
    drained = NODE.format(n=2).replace("State=IDLE", "State=IDLE+DRAIN").strip()
    cluster.print("scontrol", f"{NODE.format(n=1)}{drained} Reason=bad fan [root@{BEGIN_S + 40}]\n")
    cluster.at(100, RUNNING)
    ask()
    world, _ = api.open_world(where)
    assert world.node_words == {1: "bad fan"}
    assert api.open_world(where, 30_000)[0].node_words == {}
    cluster.print("scontrol", NODE.format(n=1) + NODE.format(n=2))
    for now, words in ((200, {1: "bad fan"}), (240, {})):  # told up to 170, and up to 210
        cluster.at(now, RUNNING)
        ask()
        assert api.open_world(where)[0].node_words == words


def test_which_gpus_a_job_held_is_known_after_its_end(cluster: Cluster):
    """Slurm forgets them with the job's end; what they measured until then is asked for later."""
    times = {"submit_time": BEGIN_S + 10, "start_time": BEGIN_S + 20, "end_time": 0}
    told = {"job_id": 7, "job_state": "RUNNING", "cluster": "lab", "nodes": "n1",
            "gres_detail": ["gpu:h100:4(IDX:2-5)"], **times}  # fmt: skip
    cluster.at(100, RUNNING)
    cluster.print("squeue", json.dumps({"jobs": [told]}))
    masks = [cluster.source.poll(BEGIN_S * 1000).attempts["devices"].to_list()]
    cluster.at(200, RUNNING | {"end": 150, "state": "COMPLETED"})
    cluster.print("squeue", json.dumps({"jobs": []}))
    masks += [cluster.source.poll(BEGIN_S * 1000).attempts["devices"].to_list() for _ in range(2)]
    assert masks == [[[0b111100]]] * 3
    cluster.at(300)
    assert not len(cluster.source.poll(BEGIN_S * 1000).attempts)


def test_nodes_that_join_one_by_one_are_one_group_that_grows(
    cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path
):
    """Each is paid from when it joined; ledger and fleet show one row for all."""
    where = str(tmp_path / "fleet.sqlite")
    for now, nodes in ((100, 2), (200, 3), (300, 4), (400, 5)):
        cluster.print("scontrol", "".join(NODE.format(n=n + 1) for n in range(nodes)))
        cluster.at(now, RUNNING)
        ask()
    found = api.read_statement(where)
    assert len(found.world.contract_rows) == 4, "an event never changes a contract"
    ((name, account),) = found.by("contract").items()
    assert (name, account.paid_milli_ms) == ("H100 x8", found.total().paid_milli_ms)
    _, row, _ = tidemill("ledger", where, "--by", "contract").out.splitlines()
    assert row.split()[:2] == ["H100", "x8"]
    fleet = json.loads(tidemill("fleet", where, "--json").out)
    assert [(row["contract"], row["paid_milli"]) for row in fleet["contracts"]] == [(name, 40_000)]
