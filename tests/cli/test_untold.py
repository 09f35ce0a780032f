"""A journal whose sources never answered knows of nothing, and says no zero."""

from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tidemill.journal import asked_sources, open_journal
from tidemill.journal.asked_sources import AskedSource, SourcePart

REFUSED = "found 403 pods is forbidden"


def journal(folder: Path, answered_ms: int) -> str:
    """What an observer leaves that began, asked once, and told of nothing."""
    path = folder / "fleet.sqlite"
    asked = AskedSource(name="kubernetes", part=SourcePart.JOBS, asked_ms=1_000,
                        answered_ms=answered_ms, failed="" if answered_ms else REFUSED)  # fmt: skip
    with open_journal(str(path), create=True) as kept:
        for key, value in {"source": "live", **asked_sources.facts([asked])}.items():
            kept.set_meta(key, value)
    return str(path)


@pytest.mark.parametrize("command", [("pending",), ("pending", "--json"), ("fleet",)])
def test_what_nobody_told_is_unknown(tmp_path: Path, command: tuple[str, ...]):
    """Neither "nothing waits" nor "no nodes": it names the source, and what that answered."""
    ran = tidemill(*command, "-j", journal(tmp_path, 0))
    assert ran.code == 3
    assert not ran.out
    assert "nobody has told" in ran.err
    assert REFUSED in " ".join(ran.err.split())


def test_an_empty_cluster_that_answered_is_empty(tmp_path: Path):
    """Its source answered, and had nothing to tell."""
    ran = tidemill("pending", "-j", journal(tmp_path, 2_000))
    assert ran.code == 0
    assert "nothing waits" in ran.out
