"""What people who know only the guides met: each claim of an answer, held against what is so."""

from pathlib import Path

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tidemill.ledger import missing


def test_a_shadow_with_a_policy_file_that_is_not_there_does_not_start(tmp_path: Path):
    """Nor one whose file cannot be used: before any cluster is looked for."""
    asked = ("schedule", "kubernetes", "--shadow", "-j", str(tmp_path / "j.sqlite"))
    missing = tidemill(*asked, "--policy", str(tmp_path / "none.toml"))
    assert missing.code != 0
    assert "none.toml` cannot be read" in missing.err
    (tmp_path / "bad.toml").write_text("[policy]\nbackfil = 'none'\n", encoding="utf-8")
    bad = tidemill(*asked, "--policy", str(tmp_path / "bad.toml"))
    assert bad.code != 0
    assert "backfil" in bad.err
    assert not (tmp_path / "j.sqlite").exists()


def test_a_service_that_counts_its_requests_is_called_one(tmp_path: Path):
    """It is of class inference, and is not advised to call what it calls."""
    folder, journal = ROOT / "examples" / "track" / "h200-service", str(tmp_path / "j.sqlite")
    files = (folder / "jobs.csv", "--nodes", folder / "nodes.csv")
    track = ("--track", str(folder / "records.jsonl"), "-j", journal)
    made = tidemill("import", "csv", *map(str, files), *track)
    assert missing.LOOPS not in made.out.replace("\n", " ")
    assert missing.SERVICES in made.out.replace("\n", " ")
    assert "user bob, inference" in tidemill("efficiency", journal, "--job", "chat").out
    assert (
        "1 job said while running to be a service"
        in tidemill("ledger", journal, "--by", "class").err
    )
    doctor = " ".join(tidemill("doctor", "-j", journal).out.split())
    assert "services whose requests are counted 1 of 1 service" in doctor
