"""Which nodes jobs may use, by partition, constraint and named nodes, up to what `why` says."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tidemill.live.slurm import constraints, translate
from tidemill.live.slurm.commands import DELIMITER
from tidemill.model.node_rules import NodeRules

HEADER = (
    *("JobID", "User", "Account", "Partition", "Constraints", "State", "Submit", "Eligible"),
    *("Start", "End", "NNodes", "NodeList", "AllocTRES", "ReqTRES"),
)
TRES = "cpu=8,gres/gpu:h100={0},gres/gpu={0},mem=8G,node=1"
NODES = """\
NodeName=t1 CPUTot=96 Gres=gpu:h100:8 State=ALLOCATED ActiveFeatures=rack0,ib Partitions=train
NodeName=d1 CPUTot=96 Gres=gpu:h100:8 State=IDLE ActiveFeatures=rack1 Partitions=debug
"""
SQUEUE = (
    "JOBID|STATE|SUBMIT_TIME|NODES|PARTITION|TRES_PER_NODE|ACCOUNT|FEATURES|REQ_NODES|EXC_NODES"
)


def _row(number: int, partition: str, constraint: str, state: str, nodes: int = 1) -> str:
    """A job of 8 GPUs per node: it runs on t1, or waits."""
    asked = TRES.format(8 * nodes)
    start, where, held = ("Unknown", "None assigned", "")
    if state == "RUNNING":
        start, where, held = "2026-11-02T08:00:00", "t1", asked
    at = "2026-11-02T08:00:00"
    cells = (number, "ann", "nlp", partition, constraint, state, at, at, start, "Unknown", nodes)
    return DELIMITER.join(map(str, (*cells, where, held, asked)))


def _imported(folder: Path, waiting: str, nodes: str = NODES, **files: str) -> str:
    """A journal in which job 1 holds node t1, and these rows are beside it."""
    rows = [DELIMITER.join(HEADER), _row(1, "train", "", "RUNNING"), waiting]
    told = {"sacct": "\n".join(row for row in rows if row) + "\n", "nodes": nodes, **files}
    for name, text in told.items():
        (folder / f"{name}.txt").write_text(text)
    paths = [str(folder / f"{name}.txt") for name in told if told[name]]
    journal = str(folder / "j.sqlite")
    done = tidemill("import", "slurm", *paths, "--zone", "UTC", "--to", "2026-11-02T12:00",
                    "--force", "-j", journal)  # fmt: skip
    assert done.code == 0, done.err
    return journal


def _fits(journal: str, job: str = "2") -> str:
    """What `why` says to the last question."""
    answer = json.loads(tidemill("why", job, "-j", journal, "--json").out)["answer"]
    return answer["questions"][-1]["answer"]


@pytest.mark.parametrize(
    ("partition", "constraint", "fits"),
    [
        ("train", "", "no"), ("debug", "", "yes"), ("train,debug", "", "yes"),
        ("train,debug", "rack0", "no"), ("train,debug", "rack0|rack1", "yes"),
        ("train,debug", "rack0&ib", "no"), ("train,debug", "(rack0&ib)|rack1", "yes"),
        ("train,debug", "[rack0|rack1]", "yes"), ("train,debug", "!ib", "yes"),
        ("train,debug", "rack1*1", "yes"), ("debug", "rack9", "unknown"),
        ("gone", "", "unknown"), ("debug", "rack1&", "unknown"),
    ],
)  # fmt: skip
def test_what_is_free_in_another_partition_is_none_of_its(
    tmp_path: Path, partition: str, constraint: str, fits: str
):
    """Job 1 holds all of `train`; `debug` has a free node: who may use it would fit, others not."""
    journal = _imported(tmp_path, _row(2, partition, constraint, "PENDING"))
    assert _fits(journal) == fits


def test_the_ledger_pending_and_fit_keep_to_partitions(tmp_path: Path):
    """A free node that no waiting job may use is free without demand, and `fit` knows it too."""
    journal = _imported(tmp_path, _row(2, "train", "", "PENDING"))
    assert "of which 8 of no use to any waiting job" in tidemill("pending", journal).out
    lines = json.loads(tidemill("ledger", journal, "--json").out)["lines"]
    hours = {row["key"]: row["milli_ms"] for row in lines}
    assert hours["no_demand"] == 8_000 * 4 * 3_600_000
    assert not hours.get("waiting_unknown")
    fit = ("fit", "--team", "nlp", "--gpus", "8", "-j", journal)
    assert "submitted)` would run now" in tidemill(*fit, "--partition", "debug").out
    assert "submitted)` would run now" not in tidemill(*fit, "--partition", "train").out
    refused = tidemill(*fit, "--partition", "tarin")
    assert "no node is in a partition `tarin`" in refused.err
    assert "debug, train" in refused.err


@pytest.mark.parametrize(
    ("asked", "fits"),
    [("||", "yes"), ("|t1|", "no"), ("|d1|", "yes"), ("||d1", "no"), ("||t[1-9]", "yes")],
)
def test_named_and_excluded_nodes_count(tmp_path: Path, asked: str, fits: str):
    """`--nodelist` and `--exclude`, as squeue prints them."""
    row = f"2|PENDING|2026-11-02T08:00:00|1|train,debug|gres:gpu:h100:8|nlp|{asked}"
    assert _fits(_imported(tmp_path, "", squeue=f"{SQUEUE}\n{row}\n")) == fits


def test_who_was_requeued_and_waits_keeps_the_nodes_that_it_names(tmp_path: Path):
    """The accounting of its first attempt does not say them; the queue, of its wait, does."""
    first = _row(2, "train,debug", "", "REQUEUED").split(DELIMITER)
    first[HEADER.index("Start")], first[HEADER.index("End")] = (
        "2026-11-02T08:00:00", "2026-11-02T09:00:00",
    )  # fmt: skip
    first[-3:] = ["d1", TRES.format(8), TRES.format(8)]
    row = "2|PENDING|2026-11-02T09:00:00|1|train,debug|gres:gpu:h100:8|nlp||t1|"
    journal = _imported(tmp_path, DELIMITER.join(first), squeue=f"{SQUEUE}\n{row}\n")
    assert _fits(journal) == "no"
    assert "`node` in `t1`" in tidemill("why", "2", "-j", journal).out


def test_a_node_that_does_not_respond_is_unhealthy_with_a_job_on_it(tmp_path: Path):
    """Nobody cordoned it; Slurm gives no reason of its own."""
    nodes = NODES.replace("State=ALLOCATED", "State=ALLOCATED+NOT_RESPONDING")
    fleet = tidemill("fleet", "-j", _imported(tmp_path, "", nodes)).out
    assert "1 unhealthy" in fleet
    assert "t1: not responding" in fleet
    assert "cordoned" not in fleet


def test_partitions_may_be_told_by_their_lists_alone(tmp_path: Path):
    """Nodes without `Partitions=`, and what `scontrol show partition` prints with ranges."""
    nodes = NODES.replace(" Partitions=train", "").replace(" Partitions=debug", "")
    waiting = _row(2, "train", "", "PENDING")
    listed = "PartitionName=train Nodes=t[1-4] State=UP\nPartitionName=debug Nodes=d1 State=UP\n"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert _fits(_imported(tmp_path / "a", waiting, nodes, partitions=listed)) == "no"
    assert _fits(_imported(tmp_path / "b", waiting, nodes.replace("rack", ""))) == "yes"


def test_what_the_books_cannot_keep_is_unknown_and_said(tmp_path: Path):
    """`[a|b]` over several nodes: both must have the same one, which no label of a node says."""
    nodes = NODES + NODES.splitlines()[1].replace("d1", "d2") + "\n"
    row = _row(2, "debug", "[rack0|rack1]", "PENDING", nodes=2)
    journal = _imported(tmp_path, row, nodes)
    assert _fits(journal) == "unknown"
    assert "constraint [rack0|rack1]" in tidemill("why", "2", "-j", journal).out
    past = translate.read([tmp_path / "sacct.txt", tmp_path / "nodes.txt"], "UTC")
    assert any("1 job with rules about nodes" in note for note in past.notes)
    assert "[rack0|rack1]" in past.deciders["2"]


@pytest.mark.parametrize(
    ("text", "nodes", "allowed", "is_whole"),
    [
        ("a", 1, "a ab ac abc", True), ("a&b", 1, "ab abc", True), ("a,b", 1, "ab abc", True),
        ("a|b&c", 1, "ac bc abc", True), ("a|(b&c)", 1, "a ab ac bc abc", True),
        ("!a&b", 1, "b bc", True), ("[a|b]", 1, "a b ab ac bc abc", True),
        ("[a|b]", 2, "a b ab ac bc abc", False), ("a*2", 2, "a ab ac abc", True),
        ("a*2", 4, "- a b c ab ac bc abc", False), ("[a*2&b*4]", 6, "- a b c ab ac bc abc", False),
        ("a&", 1, "- a b c ab ac bc abc", False), ("(a", 1, "- a b c ab ac bc abc", False),
    ],
)  # fmt: skip
def test_constraints_by_the_book(text: str, nodes: int, allowed: str, is_whole: bool):
    """For each set of features (`-`: none), whether a node with just these may be used."""
    found = constraints.parse(text, nodes)
    rules = NodeRules(affinity=() if found.choices == ((),) else found.choices)
    sets = ("", "a", "b", "c", "ab", "ac", "bc", "abc")
    named = {one: frozenset((f"feature/{name}", "") for name in one) for one in sets}
    may = [one or "-" for one, labels in named.items() if rules.allow(labels)]
    assert (may, found.is_whole) == (allowed.split(), is_whole)
