"""A job that was held and is not any more: nobody says why it waits since then."""

from pathlib import Path

from tests.cli.shell import tidemill

SACCT = """\
JobID|User|Account|State|Submit|Eligible|Start|End|NNodes|NodeList|AllocTRES|ReqTRES
50|ann|ml|REQUEUED|2026-11-02T08:00:00|2026-11-02T08:00:00|2026-11-02T08:00:00\
|2026-11-02T10:00:00|1|n1|gres/gpu=8,node=1|gres/gpu=8,node=1
50|ann|ml|COMPLETED|2026-11-02T10:00:00|2026-11-02T16:00:00|2026-11-02T16:30:00\
|2026-11-02T18:00:00|1|n1|gres/gpu=8,node=1|gres/gpu=8,node=1
"""


def test_why_a_job_waits_that_was_released_is_not_recorded(tmp_path: Path):
    """Requeued at 10:00, eligible at 16:00, started at 16:30; no file has a reason."""
    (tmp_path / "sacct.txt").write_text(SACCT)
    journal = str(tmp_path / "s.sqlite")
    tidemill("import", "slurm", str(tmp_path / "sacct.txt"), "--zone", "UTC", "-j", journal)
    at = ("--at", "2026-11-02T16:15")
    pending = tidemill("pending", "-j", journal, *at).out
    why = tidemill("why", "50", "-j", journal, *at).out
    assert "not recorded" in pending
    assert "why is not recorded here" in why
    assert "own scheduler says" not in pending + why


def test_the_time_before_a_requeued_job_is_eligible_is_no_part_of_its_wait(tmp_path: Path):
    """Requeued at 10:00, eligible at 16:00: at 16:15 it has waited a quarter of an hour."""
    (tmp_path / "sacct.txt").write_text(SACCT)
    journal = str(tmp_path / "s.sqlite")
    tidemill("import", "slurm", str(tmp_path / "sacct.txt"), "--zone", "UTC", "-j", journal)
    at = ("--at", "2026-11-02T16:15")
    assert "has waited 15m" in tidemill("why", "50", "-j", journal, *at).out
    assert "50 (15m)" in tidemill("pending", "-j", journal, *at).out
