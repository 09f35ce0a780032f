"""Tables of several clusters, as a user reads them: names, prices, waits, what is free."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import tidemill

BEGIN_S = 1_762_732_800


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Both clusters have nodes n0 and n1 of eight H100; jobs 1 ran, jobs 9 wait."""
    rows = ["cluster,job,user,team,gpus,node,gpu_type,submit,start,end,state"]
    for cluster, hours in (("alpha", 2), ("beta", 4)):
        end = BEGIN_S + 3600 * hours
        rows.append(f"{cluster},1,ann,ml,8,n0,H100,{BEGIN_S},{BEGIN_S},{end},COMPLETED")
        rows.append(f"{cluster},9,ann,ml,8,,H100,{BEGIN_S + 60},,,PENDING")
    (tmp_path / "jobs.csv").write_text("\n".join(rows) + "\n")
    nodes = [f"{cluster},n{n},8,H100" for cluster in ("alpha", "beta") for n in (0, 1)]
    (tmp_path / "nodes.csv").write_text("\n".join(["cluster,node,gpus,gpu_type", *nodes]) + "\n")
    prices = "node,usd_per_gpu_hour\nalpha/n0,3\nalpha/n1,3\nbeta/*,2\n"
    (tmp_path / "prices.csv").write_text(prices)
    made = tidemill("import", "csv", "jobs.csv", "--nodes", "nodes.csv", "--prices", "prices.csv",
                    "-j", "j.sqlite", cwd=tmp_path)  # fmt: skip
    assert made.code == 0, made.err
    return tmp_path / "j.sqlite"


def test_nodes_of_equal_names_have_their_own_prices(journal: Path):
    """16 GPUs for four hours each: 64 x $3 and 64 x $2; held 16 and 32 GPU-hours."""
    rows = json.loads(tidemill("ledger", str(journal), "--by", "pool", "--json").out)["breakdown"][
        "rows"
    ]
    found = {row["key"]: row["usd_micro"] / 1e6 for row in rows}
    assert found == {"alpha/H100": 192.0, "beta/H100": 128.0}


def test_a_job_waits_in_its_own_cluster(journal: Path):
    """Nobody of another cluster is ahead of it, and what is free there is no label's fault."""
    said = " ".join(tidemill("why", "beta/9", "-j", str(journal)).out.split())
    assert "requests 8×1 `H100` in cluster `beta`" in said
    assert "no job ahead" in said
    assert "that it may not use: it is of another cluster" in said
    assert "tidemill/cluster" not in said
    lost = tidemill("why", "9", "-j", str(journal))
    assert "did you mean `alpha/9`, `beta/9`?" in " ".join(lost.err.split())


def test_what_is_free_of_a_cluster_is_weighed_by_its_own_jobs(journal: Path):
    """All of it could be used by jobs like those that came there."""
    lots = json.loads(tidemill("fleet", str(journal), "--json").out)["schedulability"]
    assert {lot["pool"]: lot["arrivals"] for lot in lots} == {
        "": 4, "alpha/H100": 2, "beta/H100": 2,
    }  # fmt: skip
    assert all(lot["usable_milli"] == lot["free_milli"] for lot in lots)


def test_a_gang_fits_one_cluster_and_never_two(journal: Path):
    """Two nodes of eight in each: 16 run in either, 24 in none, although 32 are there."""
    asked = ("fit", "-j", str(journal), "--team", "ml", "--gpu-type", "H100", "--per-node", "8")
    told = json.loads(tidemill(*asked, "--gpus", "16", "--json").out)
    assert (told["verdict"], told["cluster"]) == ("now", "alpha")
    told = json.loads(tidemill(*asked, "--gpus", "16", "--cluster", "beta", "--json").out)
    assert (told["verdict"], told["cluster"]) == ("now", "beta")
    never = " ".join(tidemill(*asked, "--gpus", "24").out.split())
    for cluster in ("alpha", "beta"):
        assert f"in cluster `{cluster}`: job `(not submitted)` never fits" in never
    assert "2 replicas of 8 `H100`" in never
    assert not any(more in never for more in ("3×8", "4×8"))
    lost = tidemill(*asked, "--gpus", "8", "--cluster", "gamma")
    assert "clusters: alpha, beta" in " ".join(lost.err.split())


def test_what_fits_in_all_clusters_is_what_fits_in_each(journal: Path, tmp_path: Path):
    """Of a gang of three nodes none fits, although four nodes are free in two clusters."""
    rows = (tmp_path / "jobs.csv").read_text()
    rows += f"alpha,11,ann,ml,24,,H100,{BEGIN_S + 70},,,PENDING\n"
    (tmp_path / "more.csv").write_text(rows)
    made = tidemill("import", "csv", "more.csv", "--nodes", "nodes.csv", "-j", "more.sqlite",
                    cwd=tmp_path)  # fmt: skip
    assert made.code == 0, made.err
    lots = json.loads(tidemill("fleet", str(tmp_path / "more.sqlite"), "--json").out)
    whole = next(lot for lot in lots["schedulability"] if not lot["pool"])
    assert whole["free_milli"] == 32_000
    (gang,) = [s for s in whole["sizes"] if s["accelerators"] * s["replicas"] == 24]
    assert (gang["now"], gang["consolidated"]) == (0, 0)


def test_columns_that_need_words_have_them(journal: Path):
    """`fleet` says what its shares are shares of."""
    said = tidemill("fleet", str(journal)).err
    assert said.startswith("usable: the share of what is free")
    assert "\nif together: the same" in said


def test_whose_schedulers_decide_is_said_of_all_and_once(journal: Path):
    """`pending` speaks of both clusters; `fit` says it in its answer about one, and not again."""
    assert "these clusters have schedulers of their own" in tidemill("pending", str(journal)).err
    asked = tidemill("fit", "-j", str(journal), "--team", "ml", "--gpus", "8")
    assert asked.out.count("this cluster has another, which decides") == 1
    assert "of their own" not in asked.err
    assert "of its own" not in asked.err
