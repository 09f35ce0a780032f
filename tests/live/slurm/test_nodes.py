"""Every state in which Slurm shows a node counts as what it is: there, out, switched off, none."""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.ledger.sums import amounts
from tidemill.engine.fold.batch import fold_batch
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.reader import Ledger
from tidemill.ledger.statement import Statement
from tidemill.live.history import events
from tidemill.live.prices import rules
from tidemill.live.slurm import nodes, states, translate
from tidemill.model.rows import Contract
from tidemill.model.states import NodeState
from tidemill.model.world import World

JOBS = """\
JobID|User|Account|State|Submit|Eligible|Start|End|NNodes|NodeList|AllocTRES|ReqTRES
1|a|x|RUNNING|2026-03-02T08:00:00|2026-03-02T08:00:00|2026-03-02T08:00:00|Unknown|1|m1|\
cpu=4,gres/gpu:h100=1,gres/gpu=1,node=1|cpu=4,gres/gpu=1,node=1
"""
RAN = """\
2|a|x|COMPLETED|2026-03-02T09:00:00|2026-03-02T09:00:00|2026-03-02T09:00:00|2026-03-02T10:00:00|1|\
m2|cpu=4,gres/gpu:h100=8,gres/gpu=8,node=1|cpu=4,gres/gpu=8,node=1
"""
EVENT = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"
UNTIL_MS = 1_772_452_800_000  # 2026-03-02T12:00Z
HOUR_MS = 3_600_000


class BooksAtEnd(NamedTuple):
    """What became of files, at their end."""

    states: dict[str, NodeState]
    hours: dict[Bucket, float]
    notes: tuple[str, ...]
    contracts: list[Contract]
    over: int


def told(tmp_path: Path, *listed: str, jobs: str = JOBS, more: str = "") -> BooksAtEnd:
    """The books until 12:00 of nodes with these `Key=value` pairs, called m1, m2 …"""
    lines = [f"NodeName=m{i} CPUTot=64 {pairs}\n" for i, pairs in enumerate(listed, start=1)]
    texts = {"jobs": jobs, "nodes": "".join(lines), "more": more}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    past = translate.read([tmp_path / name for name, text in texts.items() if text], "UTC")
    price = rules.flat({rules.ANY: 2_000_000})
    history = events.build(past.attempts, past.nodes, price, until_ms=UNTIL_MS, shapes=past.shapes)
    ledger, world = Ledger(), World()
    for batch in history.batches():
        ledger.read_batch(batch)
        fold_batch(world, batch)
    found = amounts(Statement(ledger), "bucket")
    hours = {Bucket(b): amount / HOUR_MS / 1000 for (b,), amount in found.items() if amount}
    now = world.nodes.state[: world.node_count].tolist()
    states = {row.name: NodeState(s) for row, s in zip(world.node_rows, now, strict=True)}
    notes = (*past.notes, *history.notes)
    return BooksAtEnd(states, hours, notes, history.contracts, history.over)


@pytest.mark.parametrize(
    ("state", "now"),
    [
        ("IDLE", NodeState.READY),
        ("IDLE+PLANNED", NodeState.READY),
        ("IDLE+RESERVED", NodeState.READY),
        ("IDLE+CLOUD", NodeState.READY),
        ("IDLE+POWERED_DOWN", NodeState.READY),
        ("IDLE+CLOUD+NOT_RESPONDING+POWERING_UP", NodeState.READY),
        ("IDLE+DRAIN", NodeState.DRAINING),
        ("IDLE+POWERING_DOWN", NodeState.DRAINING),
        ("IDLE+MAINTENANCE+RESERVED", NodeState.CORDONED),
        ("DOWN+REBOOT_ISSUED", NodeState.CORDONED),
        ("DOWN+DRAIN", NodeState.UNHEALTHY),
        ("IDLE+NOT_RESPONDING", NodeState.UNHEALTHY),
        ("DOWN+POWERED_DOWN", NodeState.UNHEALTHY),
        ("IDLE+CLOUD+POWERED_DOWN", None),
        ("DOWN+CLOUD+NOT_RESPONDING+POWERED_DOWN", None),
        ("FUTURE", None),
    ],
)
def test_a_state_without_a_time_is_so_at_the_end(tmp_path: Path, state: str, now: NodeState | None):
    """What a node is now it is from the moment of the listing on; what is not there is not paid."""
    books = told(tmp_path, "Gres=gpu:h100:8 State=MIXED", f"Gres=gpu:h100:8 State={state}")
    assert books.states.get("m2") == now
    paid = 4 * 8 * (2 if now is not None else 1)
    assert sum(books.hours.values()) == paid
    said = "; ".join(books.notes)
    if now not in (None, NodeState.READY):
        assert "1 node (m2) out of service, since when nobody says" in said
    elif now is None:
        assert "(m2)" in said


def test_sinfo_without_times_tells_what_is_out_now(tmp_path: Path):
    """`sinfo` prints drained and down without since when: so at the end, and said."""
    more = "NODELIST|STATE|GRES|CPUS|MEMORY\nm1|mixed|gpu:h100:8|64|512000\n" + "".join(
        f"{name}|{state}|gpu:h100:8|64|512000\n"
        for name, state in (("m2", "drained"), ("m3", "down"), ("m4", "idle"))
    )
    books = told(tmp_path, more=more)
    assert books.states == {
        "m1": NodeState.READY, "m2": NodeState.DRAINING, "m3": NodeState.UNHEALTHY,
        "m4": NodeState.READY,
    }  # fmt: skip
    assert "2 nodes (m2, m3) out of service, since when nobody says" in "; ".join(books.notes)


def test_nodes_that_sinfo_prints_together_are_counted_one_by_one(tmp_path: Path):
    """Without -N it prints a line for all nodes that are alike."""
    more = (
        "NODELIST|STATE|GRES|CPUS|MEMORY\nm1|mixed|gpu:h100:8|64|512000\n"
        "m[2-3]|drained|gpu:h100:8|64|512000\n"
    )
    books = told(tmp_path, more=more)
    assert books.states == {
        "m1": NodeState.READY, "m2": NodeState.DRAINING, "m3": NodeState.DRAINING,
    }  # fmt: skip


def test_a_maintenance_reservation_closes_its_nodes_for_its_time(tmp_path: Path):
    """From 09:00 to 11:00, whatever the node shows now; other reservations close nothing."""
    more = (
        "ReservationName=upgrade StartTime=2026-03-02T09:00:00 EndTime=2026-03-02T11:00:00"
        " Nodes=m[2-3] NodeCnt=2 Flags=MAINT,SPEC_NODES\n"
        "ReservationName=class StartTime=2026-03-02T08:00:00 EndTime=2026-03-02T12:00:00"
        " Nodes=m1 NodeCnt=1 Flags=SPEC_NODES\n"
    )
    listed = ["Gres=gpu:h100:8 State=MIXED", *["Gres=gpu:h100:8 State=IDLE"] * 2]
    books = told(tmp_path, *listed, more=more)
    assert books.hours[Bucket.CORDONED] == 2 * 8 * 2
    assert {*books.states.values()} == {NodeState.READY}


RESERVED = "Cluster|Name|NodeName|Flags|TimeStart|TimeEnd\n"


def test_a_maintenance_that_is_over_is_in_slurms_record(tmp_path: Path):
    """`scontrol` shows it no more; `sacctmgr show reservation` does."""
    over = "lab|mnt|m[2-3]|MAINT,SPEC_NODES|2026-03-02T09:00:00|2026-03-02T10:30:00\n"
    node = "Gres=gpu:h100:8 State=IDLE"
    found = told(tmp_path, node, node, node, more=RESERVED + over)
    assert found.hours[Bucket.CORDONED] == 1.5 * 16


@pytest.mark.parametrize(
    ("more", "untold"),
    [
        ((), {"unhealthy", "cordoned", "draining"}),
        ((EVENT,), {"cordoned", "draining"}),
        ((EVENT, RESERVED), {"draining"}),
    ],
)
def test_what_no_file_tells_of_nodes_is_unknown(tmp_path: Path, more: tuple[str, ...], untold):
    """A list of nodes says how they are now; a drain under jobs is in no record at all."""
    texts = [JOBS, "NodeName=m1 Gres=gpu:h100:8 State=IDLE\n", *more]
    for i, text in enumerate(texts):
        (tmp_path / f"{i}.txt").write_text(text)
    assert translate.read([tmp_path], "UTC").untold_states == untold


def test_where_stretches_overlap_the_worst_counts(tmp_path: Path):
    """Drained 09:00-11:00, down 10:00-10:30 within it, and down at once after it until 11:30."""
    more = "NodeName|TimeStart|TimeEnd|State|Reason|User\n" + "".join(
        f"m2|2026-03-02T{start}:00|2026-03-02T{end}:00|{state}|xid|root\n"
        for start, end, state in (
            ("09:00", "11:00", "DRAIN"), ("10:00", "10:30", "DOWN"), ("11:00", "11:30", "DOWN"),
        )
    )  # fmt: skip
    listed = ["Gres=gpu:h100:8 State=MIXED", "Gres=gpu:h100:8 State=IDLE"]
    found = told(tmp_path, *listed, more=more).hours
    assert (found[Bucket.DRAINING], found[Bucket.UNHEALTHY]) == (8 * 1.5, 8 * 1.0)


def test_a_drain_that_jobs_outlast_begins_before_its_record(tmp_path: Path):
    """m1 drains since nine, by its reason; its event begins with the end of a job, at ten."""
    job = JOBS.replace("RUNNING", "COMPLETED").replace("Unknown", "2026-03-02T10:00:00")
    node = "Gres=gpu:h100:8 State=IDLE+DRAIN Reason=Xid [root@2026-03-02T09:00:00]"
    for start, hours in (("10:00:00", 7 + 2 * 8), ("08:30:00", 3.5 * 8 - 1.5)):
        event = f"{EVENT}lab|m1|2026-03-02T{start}|Unknown|DRAIN|Xid|root\n"
        assert told(tmp_path, node, jobs=job, more=event).hours[Bucket.DRAINING] == hours


def test_a_cloud_node_that_is_off_was_there_while_it_worked(tmp_path: Path):
    """One hour of eight GPUs is paid for, and the node is gone afterwards."""
    listed = ["Gres=gpu:h100:8 State=MIXED", "Gres=gpu:h100:8 State=IDLE+CLOUD+POWERED_DOWN"]
    books = told(tmp_path, *listed, jobs=JOBS + RAN)
    assert sum(books.hours.values()) == 4 * 8 + 8
    assert books.states["m2"] is NodeState.GONE


def test_a_cloud_node_is_paid_for_since_it_booted(tmp_path: Path):
    """Booted at 11:00: one hour."""
    listed = "Gres=gpu:h100:8 State=IDLE+CLOUD BootTime=2026-03-02T11:00:00"
    books = told(tmp_path, "Gres=gpu:h100:8 State=MIXED", listed)
    assert sum(books.hours.values()) == 4 * 8 + 8


def test_the_reason_of_a_node_is_kept_in_the_words_of_slurm(tmp_path: Path):
    """Drained since 10:00 for `Xid 79`; also where the last thing that is known is that."""
    listed = "Gres=gpu:h100:8 State=IDLE+DRAIN Reason=Xid 79 [root@2026-03-02T10:00:00]"
    books = told(tmp_path, "Gres=gpu:h100:8 State=MIXED", listed)
    assert books.hours[Bucket.DRAINING] == 8 * 2
    assert "out now, in Slurm's words: m2 (IDLE+DRAIN: Xid 79)" in books.notes


def test_mig_instances_of_an_unknown_device_are_types_of_their_own(tmp_path: Path):
    """Nobody says what the seven are parts of: one by one, and the price of a GPU is not theirs."""
    jobs = JOBS.replace("gres/gpu:h100=1", "gres/gpu:1g.10gb=1")
    books = told(tmp_path, "Gres=gpu:1g.10gb:7 State=MIXED", jobs=jobs)
    assert {(row.kind, row.count, row.is_priced) for row in books.contracts} == {
        ("1G.10GB", 7, False)
    }
    assert (books.over, books.hours[Bucket.UNKNOWN]) == (0, 4.0)
    assert any("MIG instances (1G.10GB) count one by one" in text for text in books.notes)


@pytest.mark.parametrize(
    ("gres", "held", "share", "expected"),
    [
        ("gpu:h100:2,gpu:1g.10gb:7", "1g.10gb", 1 / 7, {("H100", 2), ("1G.10GB OF H100", 7)}),
        ("gpu:h100_1g.10gb:14", "h100_1g.10gb", 1 / 7, {("1G.10GB OF H100", 14)}),
        ("gpu:a100_3g.40gb:2", "a100_3g.40gb", 1 / 2, {("3G.40GB OF A100-80GB", 2)}),
        (
            "gpu:h100_3g.40gb:1,gpu:h100_1g.10gb:4",
            "h100_1g.10gb",
            1 / 8,
            {("3G.40GB OF H100", 1), ("1G.10GB OF H100", 4)},
        ),
    ],
)
def test_mig_instances_of_a_known_device_are_parts_of_it(
    tmp_path: Path, gres: str, held: str, share: float, expected: set[tuple[str, int]]
):
    """By their own name, or by that of the whole GPUs beside them: devices with a price.

    One instance is held for four hours: its share of the GPUs that are cut.
    """
    jobs = JOBS.replace("gres/gpu:h100=1", f"gres/gpu:{held}=1")
    books = told(tmp_path, f"Gres={gres} State=MIXED", jobs=jobs)
    assert {(row.kind, row.count) for row in books.contracts} == expected
    assert all(row.is_priced for row in books.contracts)
    assert books.over == 0
    assert books.hours[Bucket.UNKNOWN] == pytest.approx(4.0 * share)
    assert any(
        "are parts of GPUs: as many GPUs are paid for as hold" in text for text in books.notes
    )


@pytest.mark.parametrize(("shards", "share"), [(8, 3 / 8), (16, 3 / 16)])
def test_shards_are_shares_of_a_gpu(tmp_path: Path, shards: int, share: float):
    """Three of the shards of one of four GPUs, beside a job that holds a whole one."""
    more = JOBS.replace("1|a|x", "3|a|x").replace(
        "gres/gpu:h100=1,gres/gpu=1", "gres/shard=3"
    ).replace("cpu=4,gres/gpu=1", "cpu=4,gres/shard=3").splitlines(keepends=True)[1:]  # fmt: skip
    books = told(
        tmp_path, f"Gres=gpu:h100:4,shard:{4 * shards} State=MIXED", jobs=JOBS + "".join(more)
    )
    assert {(row.kind, row.count) for row in books.contracts} == {("H100", 4)}
    assert books.over == 0
    held = books.hours[Bucket.UNKNOWN]
    assert held == pytest.approx(4.0 * (1 + share), abs=0.01)


def test_every_flag_of_slurm_is_thought_of():
    """No word that a node may have is neither a state that is judged nor one that takes work."""
    takes_work = {
        "ALLOCATED", "IDLE", "MIXED", "UNKNOWN", "BLOCKED", "CLOUD", "COMPLETING", "PERFCTRS",
        "DYNAMIC_FUTURE", "DYNAMIC_NORM", "EXTERNAL", "PLANNED", "POWERED_DOWN", "POWERING_UP",
        "POWER_DOWN", "POWER_UP", "REBOOT_CANCELED", "REBOOT_REQUESTED", "RESERVED", "RESUME",
        "UNDRAIN", "FUTURE",
    }  # fmt: skip
    words = {*states.NODE_STATES.values(), *states.NODE_FLAGS.values()}
    assert {word for word in words if nodes.out_as("IDLE", word) is None} == takes_work
