"""Golden transcripts: what the commands print, reviewed as prose.

``TIDEMILL_GOLDEN=write make test`` writes them anew; the difference is then read like any change.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import Ran

GOLDEN = Path(__file__).with_name("golden")

TRANSCRIPTS = {
    "ledger": ("ledger",),
    "ledger-tree": ("ledger", "--tree"),
    "ledger-by-team": ("ledger", "--by", "team"),
    "ledger-by-kind-window": ("ledger", "--by", "kind", "--from", "6h", "--to", "30h"),
    "ledger-rework-by-job": ("ledger", "--bucket", "rework", "--by", "job", "--most", "5"),
    "ledger-lending": ("ledger", "--lending", "--most", "8"),
    "pending": ("pending", "--at", "31h"),
    "why-waiting": ("why", "whole-a100", "--at", "31h"),
    "why-running": ("why", "pretrain", "--at", "31h"),
    "decision-waiting": ("decision", "whole-a100", "--at", "31h"),
    "decision-running": ("decision", "pretrain", "--at", "31h"),
    "fit-never": ("fit", "--team", "lab", "--gpus", "24", "--kind", "H100"),
    "fit-large-replica": ("fit", "--team", "core", "--gpus", "16", "--per-node", "16"),
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_transcript(name: str, ask: Callable[..., Ran]) -> None:
    """A command prints the same for the same journal, and it reads well."""
    ran = ask(*TRANSCRIPTS[name])
    text = f"$ tidemill {' '.join(TRANSCRIPTS[name])}\n{ran.out}"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TIDEMILL_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert ran.code == 0, ran.err
    assert text == path.read_text(encoding="utf-8")
