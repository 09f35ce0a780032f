"""What `fit` and `fleet` say would fit, of CPUs, memory, other partitions and parts of GPUs."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import tidemill

HEADER = (
    "JobID|User|Account|Partition|State|Submit|Eligible|Start|End|NNodes|NodeList|AllocTRES"
    "|ReqTRES|Timelimit\n"
)
BEGAN, LATER = "2026-11-02T08:00:00", "2026-11-02T09:00:00"


def _row(number: int, node: str, asked: str, *, held: str = "", partition: str = "train") -> str:
    state, start = ("RUNNING", BEGAN) if node else ("PENDING", "Unknown")
    cells = (number, "ann", "phys", partition, state, BEGAN, BEGAN, start, "Unknown", 1,
             node or "None assigned", held, asked, "1-00:00:00")  # fmt: skip
    return "|".join(map(str, cells)) + "\n"


def _imported(folder: Path, nodes: str, *rows: str) -> str:
    (folder / "nodes.txt").write_text(nodes)
    (folder / "sacct.txt").write_text(HEADER + "".join(rows))
    journal = str(folder / "j.sqlite")
    done = tidemill("import", "slurm", str(folder / "nodes.txt"), str(folder / "sacct.txt"),
                    "--zone", "UTC", "--to", "2026-11-02T12:00", "-j", journal)  # fmt: skip
    assert done.code == 0, done.err
    return journal


FULL = "".join(
    f"NodeName=h{n} CPUAlloc=8 CPUTot=96 RealMemory=512000 AllocMem=512000 Gres=gpu:h100:8"
    " State=MIXED Partitions=train\n"
    for n in (1, 2)
)
ASKED = "cpu=8,mem=500G,gres/gpu=2"
HELD = "cpu=8,mem=500G,gres/gpu:h100=2,gres/gpu=2"


@pytest.fixture
def full(tmp_path: Path) -> str:
    """Twelve GPUs are free on two nodes, and no memory."""
    rows = (_row(n, f"h{n}", ASKED, held=HELD) for n in (1, 2))
    return _imported(tmp_path, FULL, *rows, _row(3, "", ASKED))


FIT = ("fit", "--team", "phys", "--gpus")


def test_fit_takes_cpus_and_memory_as_jobs_of_that_size_request_them(full: str):
    """Three jobs of two GPUs request 8 CPUs and 500 GiB: said, and no memory is free for them."""
    told = tidemill(*FIT, "2", "-j", full).out
    assert "memory is not: 12 accelerators free" in told or "memory is not: 12 `H100` free" in told
    assert (
        "assumed: each replica requests 8 cores and 500 GiB of memory, as the books have it of 3"
        " jobs with 2 GPUs a replica (the median); say more with --cpus, --memory-gib"
    ) in told
    told = tidemill(*FIT, "2", "--cpus", "4", "-j", full).out
    assert "assumed: each replica requests 500 GiB of memory, as the books" in told


def test_where_nothing_is_known_and_none_is_free_it_may_run_or_wait(full: str):
    """No job of one GPU says what such jobs request: it fits only if it needs no memory."""
    found = json.loads(tidemill(*FIT, "1", "-j", full, "--json").out)
    assert found["verdict"] == "unknown"
    assert "may run now, or wait: 12 " in found["words"]
    assert "it fits only if it needs none" in found["words"]
    (assumed,) = found["assumptions"]
    assert assumed.startswith("each replica requests no CPU and no memory, for no job here has 1")


def test_fleet_says_that_fewer_fit_than_by_accelerators_alone(full: str, tmp_path: Path):
    """Five pairs of GPUs are free, of which none is usable: the line beside the table says why."""
    told = tidemill("fleet", full)
    assert "0.0%" in told.out
    assert "fit now: by free accelerators alone" in told.err
    roomy = FULL.replace("AllocMem=512000", "AllocMem=0")
    (tmp_path / "other").mkdir()
    asked, held = (text.replace("500G", "5G") for text in (ASKED, HELD))
    journal = _imported(tmp_path / "other", roomy, _row(1, "h1", asked, held=held))
    assert "fit now: by free" not in tidemill("fleet", journal).err


def test_node_groups_of_another_partition_are_not_listed(tmp_path: Path):
    """`dev` has nodes of two GPUs that a job in `train` may not use."""
    node = "NodeName={} CPUTot=96 RealMemory=512000 Gres=gpu:h100:{} State=IDLE Partitions={}\n"
    nodes = node.format("t1", 8, "train") + node.format("d1", 2, "dev")
    dev = _row(2, "d1", "gres/gpu=2", held="gres/gpu=2", partition="dev")
    journal = _imported(tmp_path, nodes, _row(1, "", "gres/gpu=8"), dev)
    told = tidemill("why", "1", "-j", journal).out
    assert "8 accelerators in the cluster (`H100 x8`)" in told.replace(
        "`H100` in", "accelerators in"
    )


def test_shares_of_gpus_do_not_fit_into_mig_instances(tmp_path: Path):
    """A job of a quarter of a GPU is none for `1g.10gb`, of which seven are free; nor for the H100,
    which are in another partition than it.
    """
    nodes = (
        "NodeName=m1 CPUTot=96 RealMemory=512000 Gres=gpu:h100:2,gpu:1g.10gb:7 State=IDLE"
        " Partitions=mig\n"
        "NodeName=s1 CPUTot=96 RealMemory=512000 Gres=gpu:a100:4,shard:16 State=IDLE"
        " Partitions=shard\n"
    )
    shard = _row(1, "s1", "gres/shard=1", held="gres/shard=1", partition="shard")
    journal = _imported(tmp_path, nodes, shard)
    lots = json.loads(tidemill("fleet", "--json", "-j", journal).out)["schedulability"]
    sizes = {lot["kind"]: {size["milli"] for size in lot["sizes"]} for lot in lots}
    assert sizes == {"1G.10GB OF H100": {1000}, "H100": {1000}, "A100": {250, 1000}}
