"""Who is who, as a stranger's records tell it: names that are used again, users, clusters."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tidemill import api
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import Statement
from tidemill.live.history import events
from tidemill.live.history.rows import SeenNode
from tidemill.live.kubernetes import translate as kubernetes
from tidemill.live.slurm import translate as slurm
from tidemill.model.errors import SpecError
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import CLUSTER

HOUR_MS = 3_600_000
HEAD = (
    "JobID|JobIDRaw|Cluster|User|Account|Submit|Eligible|Start|End|State|AllocTRES|ReqTRES|NodeList"
    "|NNodes\n"
)


def row(job: str, user: str, day: int, tres: str, on: str = "gpu01", **more: str) -> str:
    """A job of two hours that begins at six on a day in March."""
    at, end = f"2026-03-{day:02}T06:00:00", f"2026-03-{day:02}T08:00:00"
    state, cluster = more.get("state", "COMPLETED"), more.get("cluster", "c1")
    return f"{job}|{job}|{cluster}|{user}|ml|{at}|{at}|{at}|{end}|{state}|{tres}|{tres}|{on}|1\n"


def built(folder: Path, rows: str, nodes: str = "") -> events.History:
    """The history of what sacct and scontrol printed."""
    files = [folder / "sacct.txt"]
    files[0].write_text(HEAD + rows)
    if nodes:
        files.append(folder / "nodes.txt")
        files[1].write_text(nodes)
    past = slurm.read(files, "UTC")
    return events.build(past.attempts, past.nodes, queues=past.queues, shapes=past.shapes)


def held(history: events.History) -> dict[str, float]:
    """GPU-hours that each job held, by the ledger."""
    from tidemill.ledger.reader import Ledger
    from tidemill.ledger.span_binning import Window
    from tidemill.model.policy import Policy

    ledger = Ledger(Policy(), Window(0, history.length_ms, HOUR_MS))
    for batch in history.batches():
        ledger.read_batch(batch)
    ledger.pass_time(history.length_ms)
    found = Statement(ledger)
    sums = dict[str, float]()
    for j, milli_ms in zip(found.rows.job.tolist(), found.rows.milli_ms.tolist(), strict=True):
        if j >= 0:
            name = found.world.job_names[j]
            sums[name] = sums.get(name, 0) + milli_ms / 1000 / HOUR_MS
    return sums


def test_parts_of_a_heterogeneous_job_show_the_size_of_their_own_nodes(tmp_path: Path):
    """8 GPUs on one node, and 2 of another type on two: divided part by part."""
    more = "gres/gpu=2,gres/gpu:a100=2,node=2"
    rows = row("300+0", "ann", 2, "gres/gpu=8,gres/gpu:h100=8,node=1", "g1")
    rows += row("300+1", "ann", 2, more, "g[2-3]").replace("|1\n", "|2\n")
    history = built(tmp_path, rows.replace("|300+", "|30"))
    sizes = {row.name: (row.kind, row.count) for row in history.contracts}
    assert sizes == {"A100 x1": ("A100", 2), "H100 x8": ("H100", 8)}
    assert held(history) == {"300": 20}
    rows += row("400", "ann", 3, "gres/gpu=1,gres/gpu:a100=1,node=1", "g2")
    listed = "".join(f"NodeName=g{i} Gres=gpu:{kind} State=IDLE\n"
                     for i, kind in ((1, "h100:8"), (2, "a100:1"), (3, "a100:1")))  # fmt: skip
    history = built(tmp_path, rows.replace("|300+", "|30"), listed)
    assert not [note for note in history.notes if "type" in note]  # none was another machine
    assert held(history) == {"300": 20, "400": 2}


def test_a_node_that_got_other_gpus_keeps_what_ran_on_the_old_ones(tmp_path: Path):
    """Eight A100 were there before the four H100 that are called so now."""
    rows = row("1", "alice", 2, "gres/gpu:a100=8,gres/gpu=8")
    rows += row("2", "bob", 10, "gres/gpu:h100=4,gres/gpu=4")
    history = built(tmp_path, rows, "NodeName=gpu01 Gres=gpu:h100:4 State=IDLE CPUTot=8\n")
    assert held(history) == {"1": 16.0, "2": 8.0}
    assert [(c.kind, c.node.devices) for c in history.contracts] == [("A100", 8), ("H100", 4)]
    assert any("gpu01 (earlier)" in note for note in history.notes)


def test_types_that_are_only_spelled_otherwise_are_no_other_machine():
    """Where all work is of another type than the list says, the list is believed."""
    rows = [{"job": str(i), "submit_ms": i * HOUR_MS, "start_ms": i * HOUR_MS,
             "end_ms": (i + 1) * HOUR_MS, "gpus": 4, "gpu_type": "gpu-large", "nodes": ["n1"]}
            for i in range(3)]  # fmt: skip
    node = SeenNode(name="n1", gpus=8, gpu_type="H100")
    history = events.build(pl.DataFrame(rows), [node])
    assert [c.kind for c in history.contracts] == ["H100"]
    words = "3 attempts say another GPU type than the node is listed with (`0`: GPU-LARGE on n1,"
    assert any(note.startswith(words) for note in history.notes)


def test_a_number_that_comes_again_is_another_user_s_job(tmp_path: Path):
    """Nobody waited a week for the second."""
    history = built(tmp_path, row("7", "alice", 2, "gres/gpu=4") + row("7", "bob", 9, "gres/gpu=4"))
    assert held(history) == {"7": 8.0, "7@bob": 8.0}
    words = "several users have jobs called `7`: the first keeps the name, others are `7@USER` on"
    assert any(note.startswith(words) for note in history.notes)


def test_a_job_that_was_done_and_is_submitted_again_is_another(tmp_path: Path):
    """It did not wait in between; one that lost its node did, and is the same."""
    rows = row("7", "alice", 2, "gres/gpu=4") + row("7", "alice", 9, "gres/gpu=4")
    rows += row("8", "alice", 2, "gres/gpu=4", state="NODE_FAIL")
    rows += row("8", "alice", 9, "gres/gpu=4")
    assert held(built(tmp_path, rows)) == {"7": 8.0, "7#2": 8.0, "8": 16.0}


def test_clusters_share_neither_numbers_nor_nodes(tmp_path: Path):
    """Job 1 and node gpu01 of both are told apart."""
    rows = row("1", "alice", 2, "gres/gpu=4", cluster="alpha")
    rows += row("1", "carol", 2, "gres/gpu=8", cluster="beta")
    history = built(tmp_path, rows)
    assert held(history) == {"alpha/1": 8.0, "beta/1": 16.0}
    assert sorted(c.node.devices for c in history.contracts) == [4, 8]


def test_a_list_of_nodes_cannot_be_of_two_clusters(tmp_path: Path):
    """It does not say of which it is."""
    rows = row("1", "alice", 2, "gres/gpu=4", cluster="alpha")
    rows += row("1", "carol", 2, "gres/gpu=4", cluster="beta")
    with pytest.raises(SpecError, match="does not say of which cluster") as caught:
        built(tmp_path, rows, "NodeName=gpu01 Gres=gpu:h100:8 State=IDLE CPUTot=8\n")
    assert "--clusters" in (caught.value.hint or "")


def _kubernetes(folder: Path, *days: list[dict[str, Any]]) -> events.History:
    import json

    for i, objects in enumerate(days):
        (folder / f"day{i}.json").write_text(json.dumps(made.listed(*objects)))
    past = kubernetes.read([folder], "namespace")
    return events.build(past.attempts, past.nodes, until_ms=past.seen_ms, shapes=past.shapes)


def test_a_node_that_was_created_again_keeps_what_ran_before(tmp_path: Path):
    """The pod of eight GPUs was over before the node of four was made."""
    pods = [made.pod("old", 8, on="n1", created=0, end=7200),
            made.pod("new", 4, on="n1", created=50_000, end=53_600)]  # fmt: skip
    history = _kubernetes(tmp_path, [made.node("n1", 4, at=86_400, since=40_000), *pods])
    assert held(history) == {"ml/old": 16.0, "ml/new": 4.0}


def test_pods_of_one_name_in_exports_of_two_days_are_both_booked(tmp_path: Path):
    """An object that was read twice is booked once; what has its name later is another job."""
    node = made.node("n1", 8, at=86_400)
    first = made.pod("web-0", 1, on="n1", created=0, end=3600)
    second = made.pod("web-0", 2, on="n1", created=7200, end=10_800)
    second["metadata"]["uid"] = "another"
    history = _kubernetes(tmp_path, [node, first], [node, first, second])
    assert held(history) == {"ml/web-0": 1.0, "ml/web-0#2": 2.0}


def test_work_stays_in_its_cluster(tmp_path: Path):
    """A job of one cluster waits while a node of another is free: no GPU there is for it."""
    one = "gres/gpu=8,gres/gpu:h100=8,node=1"
    rows = row("1", "ann", 2, one, "a1", cluster="alpha")
    rows += row("1", "eve", 1, one, "b1", cluster="beta")
    late = row("2", "ann", 2, one, "a1", cluster="alpha")
    late = late.replace("T08:00:00", "T10:00:00").replace("T06:00:00", "T08:00:00")
    at = "|ml|2026-03-02T08:00:00|2026-03-02T08:00:00|"
    assert at in late
    rows += late.replace(at, at.replace("08:", "06:"))  # submitted when the other began
    parts = row("3+0", "eve", 1, one, "b1", cluster="beta").replace("|3+0|", "|3|")
    rows += parts.replace("T08", "T10").replace("T06", "T08")
    history = built(tmp_path, rows)
    statement = api.keep_history(history).statement
    world = statement.world
    of = {node.name: dict(node.labels).get(CLUSTER) for node in world.node_rows}
    assert of == {"a1": "alpha", "b1": "beta"}
    required = {
        name: {dict(role.labels)[CLUSTER] for role in world.shape_of(j).roles}
        for j, name in enumerate(world.job_names)
    }
    assert required == {
        "alpha/1": {"alpha"}, "alpha/2": {"alpha"}, "beta/1": {"beta"}, "beta/3": {"beta"}
    }  # fmt: skip
    hours = {b: n // HOUR_MS // WHOLE_MILLI for (b,), n in amounts(statement, "bucket").items()}
    assert hours == {Bucket.NO_DEMAND: 28 * 16 - 4 * 16, Bucket.UNKNOWN: 4 * 16}
