"""What people who know only the guides met: each claim of an answer, held against what is so."""

from pathlib import Path

from tests.cli.shell import tidemill


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
