"""Nodes that come under another price stand under that one, each in its time."""

from pathlib import Path

from tests.cli.shell import tidemill

HEAD = (
    "BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,PricingQuantity,PricingUnit,"
    "EffectiveCost,ResourceId,CommitmentDiscountId,PricingCategory,x_InstanceType"
)


def line(hour: int, node: str, is_committed: bool) -> str:
    """An hour of a node on a bill, under the commitment or on demand."""
    day = "2026-11-02T"
    terms = "16.8,{},ri-1,Committed" if is_committed else "32,{},,Standard"
    return (
        f"USD,Usage,{day}{hour:02}:00:00Z,{day}{hour + 1:02}:00:00Z,1,Hours,"
        f"{terms.format(node)},p5.48xlarge"
    )


def test_fleet_has_each_node_under_what_it_costs_then(tmp_path: Path):
    """Both under the commitment until noon, then one on demand: `fleet` tells them apart."""
    rows = [line(hour, node, node == "g1" or hour < 12)
            for hour in range(23) for node in ("g1", "g2")]  # fmt: skip
    (tmp_path / "bill.csv").write_text("\n".join([HEAD, *rows, ""]))
    (tmp_path / "nodes.csv").write_text(
        "node,gpus,gpu_type,instance_type\ng1,8,H100,p5.48xlarge\ng2,8,H100,p5.48xlarge\n"
    )
    (tmp_path / "jobs.csv").write_text(
        "job,user,gpus,submit,start,end,state,node\n"
        "a,ann,8,2026-11-02T00:00:00Z,2026-11-02T00:00:00Z,2026-11-02T23:00:00Z,completed,g2\n"
    )
    files = ("jobs.csv", "--nodes", "nodes.csv", "--prices", "bill.csv", "-j", "c.sqlite")
    tidemill("import", "csv", *files, cwd=tmp_path)
    before = tidemill("fleet", "c.sqlite", "--at", "11h", cwd=tmp_path).out
    after = tidemill("fleet", "c.sqlite", "--at", "22h", cwd=tmp_path).out
    assert "p5.48xlarge (ri-1)" in before
    assert "on demand" not in before
    assert "p5.48xlarge (ri-1)" in after
    assert "p5.48xlarge (on demand)" in after
    nodes = tidemill("fleet", "c.sqlite", "--at", "22h", "--nodes", cwd=tmp_path).out
    assert {tuple(row.split()[:4]) for row in nodes.splitlines() if " ready " in row} == {
        ("g1", "H100", "p5.48xlarge", "(ri-1)"), ("g2", "H100", "p5.48xlarge", "(on"),
    }  # fmt: skip
