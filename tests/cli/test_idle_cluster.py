"""A Kubernetes cluster with GPUs of which no pod requests any is on the books, as what it costs."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import Ran, tidemill
from tests.live.kubernetes.made import Object, listed, node, pod
from tidemill import api
from tidemill.ledger.buckets import Bucket


def imported(folder: Path, *objects: Object, options: tuple[str, ...] = ()) -> Ran:
    """`import kubernetes` of these objects, at $1 per GPU-hour."""
    (folder / "c.json").write_text(json.dumps(listed(*objects)))
    asked = ("c.json", "--usd-per-hour", "1", "-j", "j.sqlite", *options)
    return tidemill("import", "kubernetes", *asked, cwd=folder)


@pytest.mark.parametrize(("since", "hours"), [(None, 1), ("2026-11-02 05:00", 4)])
def test_an_idle_cluster_costs_what_nobody_uses(tmp_path: Path, since: str | None, hours: int):
    """Two nodes of eight, seen at 09:00: the hour before, or since when somebody knows it idle."""
    web = pod("web", 0, on="n0")
    options = () if since is None else ("--from", since)
    done = imported(tmp_path, node("n0"), node("n1", since=-7_200), web, options=options)
    assert done.code == 0, done.err
    assert "no pod requests GPUs: the cluster is idle, if these are all its pods" in done.err
    where = str(tmp_path / "j.sqlite")
    total = api.read_statement(where).total()
    paid = 16 * hours if since is None else 8 * 4 + 8 * 3  # n1 joined at 06:00
    assert total.paid_milli_ms == paid * 3_600_000_000
    assert total.milli_ms[Bucket.NO_DEMAND] == total.paid_milli_ms
    assert "nothing waits; 16 GPUs free" in tidemill("pending", where).out
    assert tidemill("ledger", where).code == 0
    assert tidemill("report", where, "--out", str(tmp_path / "r.html")).code == 0


@pytest.mark.parametrize("objects", [
    [node("n0")],  # whose pods nobody exported
    [pod("web", 0, on="n0")],
    [node("n0", amounts={"nvidia.com/gpu": None}, labels={"nvidia.com/gpu.product": ""}),
     pod("web", 0, on="n0")],
])  # fmt: skip
def test_what_shows_no_idle_gpus_is_refused(tmp_path: Path, objects: list[Object]):
    """Nodes alone, pods alone, and a cluster without GPUs: there is nothing to account."""
    done = imported(tmp_path, *objects)
    assert done.code == 2
    assert "tells of no job with GPUs" in done.err
