"""Bills as three clouds export them in FOCUS columns: what a machine cost by the hour, and which
node it is. Columns, units and names of things as the clouds' documentation has them.
"""

import gzip
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from tests.cli.shell import tidemill
from tidemill.live.csv import tables
from tidemill.live.history.rows import SeenNode
from tidemill.live.prices import files, labels
from tidemill.live.prices.matching import PriceLine
from tidemill.model.errors import SpecError

DAY = {"ChargePeriodStart": "2026-03-01T00:00:00Z", "ChargePeriodEnd": "2026-03-02T00:00:00Z"}
LINE = {"ChargeCategory": "Usage", "BillingCurrency": "USD", "PricingUnit": "Hours", **DAY}
AWS = {**LINE, "ResourceId": "arn:aws:ec2:us-east-1:1:instance/i-0abc", "SkuId": "S",
       "x_InstanceType": "p5.48xlarge"}  # fmt: skip
SET = (
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/gpu-vmss"
)
AZURE = {**LINE, "ResourceId": SET, "x_SkuDetails": '{"ServiceType": "Standard_ND96isr_H100_v5"}'}
GOOGLE = {
    **LINE, "ResourceName": "gke-n3", "PricingUnit": "hour",
    "ResourceId": "//compute.googleapis.com/projects/p/zones/z/instances/12345",
}  # fmt: skip


def _lines(path: Path, *rows: dict[str, str]) -> tuple[PriceLine, ...]:
    table = pl.DataFrame([{"Tags": "", **row} for row in rows], infer_schema_length=None)
    table.write_csv(path)
    return files.read(path, "UTC").lines


def _cost(usd: float, hours: float, **more: str) -> dict[str, str]:
    return {"EffectiveCost": str(usd), "PricingQuantity": str(hours), **more}


def _rates(lines: tuple[PriceLine, ...]) -> set[float]:
    return {(line.node_usd_micro or 0) / 1_000_000 for line in lines}


def _node(name: str, provider: str) -> SeenNode:
    return SeenNode(name=name, gpus=8, gpu_type="H100", labels=((labels.PROVIDER_ID, provider),))


def test_a_day_of_two_prices_is_a_day(tmp_path: Path):
    """Sixteen hours on demand and eight under a plan, in one charge period: 24 hours."""
    plan = {"CommitmentDiscountId": "arn:sp", "CommitmentDiscountStatus": "Used"}
    rows = ({**AWS, **_cost(880, 16)}, {**AWS, **plan, **_cost(200, 8)})
    assert _rates(_lines(tmp_path / "b.csv", *rows)) == {45.0}


def test_what_stands_beside_a_machine_in_the_same_hours_adds_to_its_price(tmp_path: Path):
    """Cores, GPUs and memory of Google are lines of their own; disks are not the machine's."""
    rows = (
        {**GOOGLE, "SkuId": "core", **_cost(240, 4992)},
        {**GOOGLE, "SkuId": "gpu", **_cost(1680, 192)},
        {**GOOGLE, "SkuId": "ram", **_cost(192, 44928, PricingUnit="gibibyte hour")},
        {**GOOGLE, "SkuId": "disk", **_cost(50, 3, PricingUnit="gibibyte month")},
    )
    lines = _lines(tmp_path / "b.csv", *rows)
    assert _rates(lines) == {88.0}
    assert {*lines[0].nodes} == {"12345", "gke-n3"}


def test_a_scale_set_is_several_machines(tmp_path: Path):
    """Azure bills the set: 72 hours in a day are three machines, each at the rate of one."""
    lines = _lines(tmp_path / "b.csv", {**AZURE, **_cost(7200, 72)})
    assert _rates(lines) == {100.0}
    assert {line.type for line in lines} == {"", "Standard_ND96isr_H100_v5"}
    mine = _node("gpu-vmss000000", f"azure://{SET}/virtualMachines/0")
    others = _node("cpu-vmss000000", f"azure://{SET.replace('gpu', 'cpu')}/virtualMachines/0")
    for told, expected in (
        ("gpu-vmss", (True, False)),
        (f"{SET}/virtualMachines/0", (True, False)),
    ):
        assert (labels.is_called(mine, told), labels.is_called(others, told)) == expected


@pytest.mark.parametrize(("unit", "quantity"), [("100 Hours", 0.24), ("1 Hour", 24), ("Hrs", 24)])
def test_units_of_several_hours(tmp_path: Path, unit: str, quantity: float):
    """As Azure prices some of its meters."""
    row = {**AWS, **_cost(2400, quantity, PricingUnit=unit)}
    assert _rates(_lines(tmp_path / "b.csv", row)) == {100.0}


def test_a_bill_in_parquet_is_the_same_bill(tmp_path: Path):
    """With times, numbers and a map of tags in types of their own; packed CSV, too."""
    row = {**AWS, **_cost(2400, 24)}
    lines = _lines(tmp_path / "b.csv", row)
    times = {name: datetime.fromisoformat(DAY[name]).astimezone(UTC) for name in DAY}
    typed = {**row, **times, "PricingQuantity": 24.0, "Tags": [{"key": "a", "value": "b"}]}
    pl.DataFrame([typed]).write_parquet(tmp_path / "b.parquet")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress((tmp_path / "b.csv").read_bytes()))
    for name in ("b.parquet", "b.csv.gz"):
        assert files.read(tmp_path / name, "UTC").lines == lines


def test_a_table_of_jobs_may_be_parquet(tmp_path: Path):
    """With lists of nodes, and lengths of time in a type of their own."""
    start = datetime(2026, 3, 2, 6, 30, tzinfo=UTC)
    row = {"job": "A", "start": start, "end": start.replace(hour=8), "gpus": 4, "nodes": ["a", "b"]}
    pl.DataFrame([row]).write_parquet(tmp_path / "jobs.parquet")
    read = tables.read_jobs(tmp_path / "jobs.parquet", {}, "UTC").attempts.row(0, named=True)
    assert (read["nodes"], read["end_ms"] - read["start_ms"]) == (["a", "b"], 7_200_000)
    assert (read["start_ms"], read["gpus"]) == (int(start.timestamp() * 1000), 4)
    done = tidemill("import", "slurm", str(tmp_path / "jobs.parquet"))
    assert "tidemill import csv" in " ".join(done.err.split())
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "jobs.parquet").read_bytes()[:200])
    with pytest.raises(SpecError, match="cannot be read"):
        tables.read_jobs(tmp_path / "cut.parquet", {}, "UTC")
