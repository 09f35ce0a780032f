"""What a real Slurm says of jobs of every fate, against what was done to them and a count by hand.

The rig is started once for all of these (``tests/rigs/slurm``). Counts by hand read the commands'
own text with `split` and nothing of ``tidemill``.
"""

import re
import signal
from collections import defaultdict
from typing import Any

import pytest

from tests.live.slurm.conftest import Played
from tests.rigs.slurm.story import DRAINED_BECAUSE, STORY
from tidemill.live.slurm import amounts, commands, reasons
from tidemill.live.slurm.columns import Output
from tidemill.live.slurm.commands import SlurmCommand
from tidemill.live.slurm.polling import SlurmSource
from tidemill.live.slurm.reading import open_output
from tidemill.live.slurm.rows import (
    SlurmAssociation,
    SlurmJob,
    SlurmNode,
    SlurmNodeEvent,
    SlurmPartition,
    SlurmQos,
    SlurmReservation,
)
from tidemill.model.errors import BackendError
from tidemill.model.reasons import Cause


def read(rig: Played, command: SlurmCommand, output: Output | None = None) -> list:
    """Run one of our commands against the rig; all its rows, none refused."""
    with commands.read(command, timeout_s=20, environment=rig.cluster.environment) as reading:
        rows = list(reading.rows())
    assert [refusal.words() for refusal in reading.refusals.kept] == []
    assert output is None or reading.output is output
    return rows


def by_name(rows: list) -> dict[str, Any]:
    """Jobs by their name; of an array and of a het job the last."""
    return {row.name: row for row in rows}


JOBS = SlurmCommand(
    "jobs in detail", ("scontrol", "--all", "--details", "--oneliner", "show", "job")
)


@pytest.mark.parametrize("command", [commands.QUEUE, JOBS], ids=["squeue", "scontrol"])
def test_every_job_is_told_as_it_was_made(rig, command):
    """State, reason, GPUs requested and the layer that owns the wait: as the story wants them."""
    jobs = by_name(read(rig, command))
    out = reasons.nodes_out(read(rig, commands.NODES))
    for told in STORY:
        job = jobs[told.name]
        assert (told.name, job.state in told.state) == (told.name, True)
        assert (told.name, job.gpus_requested) == (told.name, told.gpus)
        if told.state == "PENDING":
            said = job.reason or ""
            assert (told.name, said.startswith(told.reason)) == (told.name, True)
            found = reasons.meaning(said, job.reason_text, required=job.required_nodes, out=out)
            assert (told.name, found.layer) == (told.name, told.layer)
            assert job.start_ms is None
            assert job.gpus_allocated is None
        elif told.state == "RUNNING":
            assert (told.name, job.gpus_allocated) == (told.name, told.gpus)
            assert job.gpu_type == "h100"
    assert jobs["nobody"].user == "nobody"
    assert (jobs["urgent"].qos, jobs["limited"].account) == ("high", "small")
    assert jobs["dependent"].dependency.startswith(f"afterok:{rig.ids['gang']}")


def test_arrays_het_jobs_and_requeues_keep_their_identity(rig):
    """Ids are those that sbatch printed."""
    rows = read(rig, commands.QUEUE, Output.QUEUE_JSON)
    array = [row for row in rows if row.name == "array"]
    assert {row.array_job_id for row in array} == {rig.ids["array"]}
    assert sorted(row.array_task_id for row in array if row.state == "RUNNING") == [1, 2]
    assert [row.array_tasks for row in array if row.state == "PENDING"] == ["3-4%2"]
    het = [row for row in rows if row.name == "het"]
    assert {row.het_job_id for row in het} == {rig.ids["het"]}
    assert sorted((row.het_offset, row.gpus_allocated) for row in het) == [(0, 1), (1, 2)]
    jobs = by_name(rows)
    assert jobs["again"].job_id == rig.ids["again"]
    assert jobs["victim"].job_id == rig.ids["victim"]


def test_devices_are_told_and_nobody_shares_one(rig):
    """Indices of all running jobs: as many as they have GPUs, each on one node at most once."""
    taken = defaultdict[str, list[int]](list)
    for job in read(rig, JOBS, Output.JOBS_BLOCKS):
        for entry in (job.gres_detail or "").split(";") if job.state == "RUNNING" else ():
            node, _, text = entry.partition("=")
            for gres in amounts.gres(text) or ():
                taken[node] += gres.devices or ()
    used = dict(re.findall(r"NodeName=(\S+) .*GresUsed=gpu:h100:(\d+)", rig.cluster.run(
        "scontrol", "--details", "--oneliner", "show", "node")))  # fmt: skip
    for name, devices in taken.items():
        assert len(devices) == len(set(devices))
        assert set(devices) <= set(range(8))
        suspended = 1 if name == "n3" else 0  # `asleep` keeps its GPU, and is not running
        assert int(used[name]) == len(devices) + suspended
    assert sorted(taken) == ["n1", "n2", "n3"]


def test_nodes(rig):
    """Four of eight GPUs; one drained by root, with the reason and the time."""
    nodes = {node.name: node for node in read(rig, commands.NODES)}
    assert sorted(nodes) == ["n1", "n2", "n3", "n4"]
    assert {(node.gpus, node.gpu_type) for node in nodes.values()} == {(8, "h100")}
    drained = nodes["n4"]
    assert (drained.state, drained.state_flags) == ("IDLE", "DRAIN")
    assert drained.reason == DRAINED_BECAUSE
    events = read(rig, commands.downtime("now-1hour"), Output.EVENTS_TEXT)
    down = [row for row in events if isinstance(row, SlurmNodeEvent) and row.node == "n4"]
    assert [row.end_ms for row in down] == [None]
    assert down[0].start_ms == drained.reason_ms
    job = by_name(read(rig, commands.QUEUE))["drained"]
    found = reasons.meaning(
        job.reason or "",
        job.reason_text,
        required=job.required_nodes,
        out=reasons.nodes_out([drained]),
    )
    assert (found.cause, found.nodes) == (Cause.NOTHING_READY, "n4")


def test_partitions_reservations_and_limits(rig):
    """What was configured, read back."""
    [partition] = [row for row in read(rig, commands.PARTITIONS) if row.name == "gpu"]
    assert isinstance(partition, SlurmPartition)
    assert (partition.state, partition.node_count, partition.max_time_ms) == ("UP", 4, None)
    [maintenance] = [row for row in read(rig, commands.RESERVATIONS) if row.name == "maint"]
    assert isinstance(maintenance, SlurmReservation)
    assert (maintenance.name, maintenance.node_list) == ("maint", "n3")
    assert (maintenance.end_ms or 0) - (maintenance.start_ms or 0) == 2 * 3_600_000
    limits = read(rig, commands.ASSOCIATIONS)
    small = next(row for row in limits if row.account == "small" and row.user is None)
    assert isinstance(small, SlurmAssociation)
    assert (small.grp_tres, small.shares) == ("gres/gpu=1", "10")
    high = next(row for row in read(rig, commands.QOS) if row.name == "high")
    assert isinstance(high, SlurmQos)
    assert (high.priority, high.preempt) == (100, "normal")


STARTED = 14
"""Attempts of the story that have begun: the early ones (two of an array), two of a het job …"""


def history(rig: Played) -> list:
    """The accounting, once it has all that began; the database hears of it a moment later."""
    columns = ("sacct", "-n", "-X", "-D", "-P", "-a", "-S", "now-1hour", "-o", "state")

    def is_there() -> bool:
        states = rig.cluster.run(*columns).splitlines()
        ended = {"REQUEUED", "PREEMPTED", "FAILED", "COMPLETED", "CANCELLED by 0", "SUSPENDED"}
        return sum(state != "PENDING" for state in states) == STARTED and ended <= {*states}

    rig.cluster.wait_for("the accounting is whole", is_there)
    return read(rig, commands.history("now-1hour"), Output.SACCT_TEXT)


def test_the_accounting_tells_every_attempt(rig):
    """A requeued and a preempted job have an ended attempt each."""
    rows = history(rig)
    jobs = [row for row in rows if isinstance(row, SlurmJob)]
    ended = {row.name: row for row in jobs if row.end_ms is not None}
    assert ended["again"].state == "REQUEUED"
    assert ended["victim"].state == "PREEMPTED"
    assert [ended[name].state for name in ("cancelled", "failing", "done")] == [
        *("CANCELLED", "FAILED", "COMPLETED")
    ]
    assert {row.name for row in jobs}.isdisjoint({"held", "later", "dependent"})  # not eligible
    assert {row.cluster for row in jobs} == {"lab"}
    assert jobs == rows


def test_every_way_to_print_says_the_same(rig):
    """JSON and text of sacct; blocks, lines and `%all` of the others; nothing is refused."""
    by_text = {(r.job_id, r.start_ms): r for r in history(rig) if isinstance(r, SlurmJob)}
    asked = SlurmCommand("history", ("sacct", "--json", "-D", "-a"))
    compared = 0
    for row in read(rig, asked, Output.SACCT_JSON):
        if isinstance(row, SlurmJob) and row.state != "PENDING":
            other = by_text[row.job_id, row.start_ms]
            for name in ("array_job_id", "array_task_id", "het_job_id", "het_offset", "user"):
                assert getattr(row, name) == getattr(other, name)
            assert (row.gpus_allocated, row.gpu_type) == (other.gpus_allocated, other.gpu_type)
            assert row.node_list == other.node_list
            compared += 1
    assert compared >= STARTED
    for arguments in (
        ("squeue", "-t", "all", "-o", "%all"),
        ("sinfo", "-N", "-o", "%all"),
        ("sinfo", "--json"),
        ("scontrol", "show", "job"),
        ("scontrol", "-d", "show", "node"),
        ("scontrol", "show", "partition"),
    ):
        printed = rig.cluster.run(*arguments)
        with open_output(printed.encode(), zone="UTC") as reading:
            rows = list(reading.rows())
        assert (arguments, reading.refusals.kept) == (arguments, [])
        assert len(rows) >= 1
        if isinstance(rows[0], SlurmNode):
            assert {row.name for row in rows} == {"n1", "n2", "n3", "n4"}
            assert {row.gpus for row in rows} == {8}
        if isinstance(rows[0], SlurmJob):
            jobs = by_name(rows)
            assert jobs["starved"].gpus_requested == 8
            assert {told.name for told in STORY} <= jobs.keys()


def other_configuration(rig: Played, key: str) -> dict[str, str]:
    """The environment of clients that look for a daemon where none is."""
    text = (rig.cluster.folder / "slurm.conf").read_text()
    path = rig.cluster.folder / f"{key}.conf"
    path.write_text(re.sub(rf"{key}=\d+", f"{key}=1", text))
    return {**rig.cluster.environment, "SLURM_CONF": str(path)}


def test_a_controller_that_does_not_answer_is_told_in_time(rig):
    """Slurm's clients would go on trying for minutes."""
    environment = other_configuration(rig, "SlurmctldPort")
    with pytest.raises(BackendError, match="asked Slurm for the queue") as caught:
        commands.run(commands.QUEUE, timeout_s=1, environment=environment)
    assert "scontrol ping" in caught.value.hint


def test_no_accounting_database_is_told(rig):
    """sacct without slurmdbd: what that means, and what still works."""
    environment = other_configuration(rig, "AccountingStoragePort")
    with pytest.raises(BackendError, match="no accounting database") as caught:
        commands.run(commands.history("now-1hour"), timeout_s=20, environment=environment)
    assert "squeue and scontrol" in caught.value.hint


@pytest.mark.parametrize(
    ("daemon", "asked"), [("slurmdbd", "the history of jobs"), ("slurmctld", "the controller's")]
)
def test_a_daemon_that_stands_still_is_no_answer(rig, daemon, asked):
    """It keeps its port and says nothing (SIGSTOP): said in time, and the next answer is whole."""
    patient = SlurmSource(timeout_s=30, environment=rig.cluster.environment)
    since_ms = patient.now_ms() - 3_600_000
    before = patient.poll(since_ms)
    source = SlurmSource(timeout_s=3, environment=rig.cluster.environment)
    process = rig.cluster.processes[daemon]
    process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(BackendError, match=f"asked Slurm for {asked}.*no answer in time"):
            source.poll(since_ms)
    finally:
        process.send_signal(signal.SIGCONT)
    after = patient.poll(since_ms)
    assert after.is_whole
    assert set(after.attempts["job"]) >= set(before.attempts["job"])


def test_a_job_over_its_time_limit_is_told(rig):
    """Slurm looks at time limits every 30 s, so this stands late."""
    rig.cluster.wait_for(
        "the time limit is enforced",
        lambda: "TIMEOUT" in rig.cluster.run("sacct", "-n", "-X", "-P", "-o", "state", "-j",
                                             str(rig.ids["overtime"])),
        timeout_s=60,
    )  # fmt: skip
    [job] = [
        row for row in read(rig, commands.history("now-1hour")) if row.job_id == rig.ids["overtime"]
    ]
    assert (job.state, job.end_ms > job.start_ms) == ("TIMEOUT", True)


def test_the_accounting_agrees_with_a_count_by_hand(rig):
    """GPU-seconds of all attempts that are over, by user and account, exactly.

    After the time limit was enforced: nearly all others ran for less than a second.
    """
    rows = history(rig)
    ours = defaultdict[tuple, int](int)
    for row in rows:
        if isinstance(row, SlurmJob) and row.end_ms and row.start_ms and row.gpus_allocated:
            ours[row.user, row.account] += row.gpus_allocated * (row.end_ms - row.start_ms)
    text = rig.cluster.run(
        "sacct", "-X", "-D", "-P", "-n", "-a", "-S", "now-1hour",
        "-o", "user,account,elapsedraw,state,alloctres",
    )  # fmt: skip
    by_hand = defaultdict[tuple, int](int)
    for line in text.splitlines():
        user, account, seconds, state, tres = line.split("|")
        gpus = re.search(r"gres/gpu=(\d+)", tres)
        if gpus and not state.startswith(("RUNNING", "SUSPENDED", "PENDING")):
            by_hand[user, account] += int(seconds) * int(gpus[1]) * 1000
    assert dict(ours) == dict(by_hand)
    assert sum(ours.values()) > 0
