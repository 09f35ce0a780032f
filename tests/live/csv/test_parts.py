"""Jobs of a table that hold a part of a GPU."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import tidemill

HEAD = "job,team,gpus,submit,start,end,state,node\n"
HALVES = (
    "a,x,0.6,1772431200,1772431200,1772434800,completed,g1\n"
    "b,y,0.4,1772431200,1772433000,1772438400,completed,g1\n"
    "c,y,1,1772438400,1772438400,1772442000,completed,g1\n"
)


def booked(into: Path, rows: str) -> tuple[dict[str, float], dict[str, float], str]:
    """GPU-hours of each job, and of all by bucket, and what the import said."""
    (into / "jobs.csv").write_text(HEAD + rows)
    (into / "nodes.csv").write_text("node,gpus,gpu_type\ng1,1,H100\n")
    asked = ("import", "csv", "jobs.csv", "--nodes", "nodes.csv", "-j", "a.sqlite")
    said = tidemill(*asked, cwd=into).err
    told = json.loads(tidemill("ledger", "a.sqlite", "--by", "job", "--json", cwd=into).out)
    hours = {
        row["key"]: sum(cell["milli_ms"] for cell in row["cells"]) / 3.6e9
        for row in told["breakdown"]["rows"]
    }
    return hours, {line["key"]: line["milli_ms"] / 3.6e9 for line in told["lines"]}, said


def test_parts_of_one_gpu_share_it(tmp_path: Path):
    """0.6 for an hour, 0.4 for an hour and a half, all of it for an hour; the rest was free."""
    hours, _, _ = booked(tmp_path, HALVES)
    assert hours == {"a": 0.6, "b": pytest.approx(0.6), "c": 1.0, "(nobody)": pytest.approx(0.8)}


def test_more_than_one_gpu_has_is_not_booked_twice(tmp_path: Path):
    """0.6 and 0.6 at once have no room on one GPU: what finds none is said."""
    rows = HALVES.replace("b,y,0.4,1772431200,1772433000", "b,y,0.6,1772431200,1772431200")
    hours, _, said = booked(tmp_path, rows)
    assert hours["a"] == 0.6
    assert sum(hours.values()) == pytest.approx(3.0)
    assert "b" not in hours or hours["b"] < 0.61
    assert said
