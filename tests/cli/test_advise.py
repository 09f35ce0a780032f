"""``tidemill advise`` as a person runs it."""

from pathlib import Path

import msgspec

from tests.advise.test_trials import TINY
from tests.cli.shell import tidemill
from tidemill.twin.spec import fleet_spec


def test_advise_prints_predicted_beside_achieved_and_writes_the_winner(tmp_path: Path):
    """The winning line is shown with both prices, and the written file holds it; nothing that
    stands there is written over.
    """
    fleet, better = tmp_path / "fleet.toml", tmp_path / "better.toml"
    fleet.write_text(f"# ours\n{TINY}", encoding="utf-8")
    shown = tidemill("advise", str(fleet), "--workers", "1", "--write", str(better)).out
    assert "changes that win" in shown
    assert "judged on seeds 2 to 4: a win is cheaper with each of them" in shown
    assert "\\x0a" not in shown, "a line break within a cell was spelt out"
    assert "contract[h100].count = " in shown
    made = better.read_text(encoding="utf-8")
    assert made.startswith("# ours\n")
    assert fleet_spec.parse(made, "better.toml").contracts[0].count < 64
    again = tidemill("advise", str(fleet), "--write", str(better))
    assert again.code == 2
    assert "exists already" in again.err
    assert better.read_text(encoding="utf-8") == made
    assert fleet.read_text(encoding="utf-8") == f"# ours\n{TINY}"


def test_what_is_said_to_be_written_is_what_is_written(tmp_path: Path):
    """Two changes that both lower a contract are written as one number; each was printed with its
    own, which is not in the file. A wait that still goes on is a lower bound.
    """
    fleet, better = tmp_path / "fleet.toml", tmp_path / "better.toml"
    spared = TINY.replace("count = 64", "count = 64\nspares = 2").replace("4 = 0.5", "4 = 0.3")
    fleet.write_text(spared, encoding="utf-8")
    ran = tidemill("advise", str(fleet), "--workers", "1", "--write", str(better))
    (contract,) = fleet_spec.parse(better.read_text(encoding="utf-8"), "better.toml").contracts
    assert "2 changes together" in ran.err
    written = [line.strip() for line in ran.err.splitlines() if line.startswith("  contract")]
    assert written == [
        f"contract[h100].count = {contract.count}",
        f"contract[h100].spares = {contract.spares}",
    ]
    (measured,) = [line for line in ran.out.splitlines() if "measure first: `" in line]
    assert f"`tidemill twin run {fleet} -j fleet.sqlite`, then `tidemill ledger" in measured


def test_advise_as_json(tmp_path: Path):
    """Everything is there for machines: before, and each trial with its edits."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(TINY, encoding="utf-8")
    found = msgspec.json.decode(tidemill("advise", str(fleet), "--workers", "1", "--json").out)
    assert found["before"]["usd_micro_per_useful_hour"] > 0
    trial = found["trials"][0]
    assert (trial["edits"][0]["table"], trial["edits"][0]["field"]) == ("contract", "count")
    assert trial["after"]["paid_usd_micro"] < found["before"]["paid_usd_micro"]
