"""A pod that a later export lacks: what nobody saw is no measured zero in any answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.live.kubernetes import made
from tests.live.kubernetes.test_exports import export, running
from tests.report.reading import read

AFTER = ("--from", "4h", "--to", "10h")
"""The six hours after the export that shows the pod."""


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """8 GPUs are held from the beginning and shown so at 4 h; at 10 h the pod is gone."""
    folder = tmp_path_factory.mktemp("exports")
    for name, told in (("one", export(4, running("train", 8, 0))), ("two", export(10))):
        (folder / f"{name}.json").write_text(json.dumps(told))
    path = str(folder / "fleet.sqlite")
    begin = made.BEGIN.isoformat()
    asked("import", "kubernetes", str(folder), "--usd-per-hour", "2", "--from", begin, "-j", path)
    return path


def asked(*words: str) -> str:
    """What a command answers, on one line."""
    ran = tidemill(*words)
    assert ran.code == 0, ran.err
    return " ".join(ran.out.replace("\u00a0", " ").split())


def page(journal: str, *window: str) -> Any:
    """The report, as a tree."""
    path = Path(journal).with_suffix(".html")
    asked("report", journal, *window, "--out", str(path), "--force")
    return read(path.read_text().replace("\u00a0", " "))


def marks(tree: Any) -> list[str]:
    """What the report says of the three utilisations."""
    found = tree.one("svg", id="utilisations").all("g", of="mark")
    return [mark.one(of="percent").text for mark in found]


def test_allocation_is_at_least_what_was_seen(journal: str):
    """32 h held, 48 h unknown: allocation from 40 to 100 %, occupancy up to 100 %."""
    said = asked("ledger", journal)
    assert "allocation ≥ 40.0% (60.0% not observed)" in said
    assert "occupancy ≤ 100.0% (not measured for all jobs), MFU unknown" in said
    told = json.loads(asked("ledger", journal, "--json"))["utilisation"]
    bounds = [told[f"allocation{end}"]["decimal"] for end in ("", "_most")]
    assert bounds == ["0.400000", "1.000000"]
    assert told["occupancy"] == told["occupancy_most"] == told["allocation_most"]
    assert (told["allocation_known"], told["occupancy_known"]) == ("unknown", "unknown")
    assert (told["allocation_is_lower_bound"], told["occupancy_is_upper_bound"]) == (True, True)
    assert marks(page(journal)) == ["≥ 40.00 %", "≤ 100.00 %", "unknown"]
    assert "at least 40.0% of what was paid for" in asked("efficiency", journal)
    assert "≥ 40.00 % unknown" in asked("ledger", journal, "--by", "team")


def test_a_window_that_nobody_observed_is_unknown(journal: str):
    """Neither useful nor any ratio is zero, and no program is defended against it."""
    said = asked("ledger", journal, *AFTER)
    assert "useful: unknown, because nobody was seen to work, and 100.0% of the hours were" in said
    assert "allocation unknown (100.0% not observed), occupancy unknown" in said
    assert "measured " not in said
    assert "misleading" not in said
    assert "goodput" not in said
    told = json.loads(asked("ledger", journal, *AFTER, "--json"))
    assert told["totals"]["useful_milli_ms"] is None
    assert [line["key"] for line in told["lines"]] == ["not_observed"]
    assert (told["goodput"]["runtime"], told["goodput"]["program"]) == (None, None)
    assert told["utilisation"]["mfu"] is told["utilisation"]["misleading"] is None
    tree = page(journal, *AFTER)
    assert marks(tree) == ["unknown", "unknown", "unknown"]
    assert tree.one("p", of="verdict").text == "Nobody knows: not all that was done was observed."
    assert "no job was seen to hold a GPU" in asked("efficiency", journal, *AFTER)


def test_before_it_all_is_as_it_was_measured(journal: str):
    """The four hours in which the pod was shown to hold all 8 GPUs."""
    said = asked("ledger", journal, "--to", "4h")
    assert "allocation 100.0% (measured), occupancy ≤ 100.0% (not measured for all jobs)" in said
    assert marks(page(journal, "--to", "4h")) == ["100.00 %", "≤ 100.00 %", "unknown"]
