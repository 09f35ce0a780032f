"""Golden transcripts of `tidemill unit`: what people read, reviewed as prose.

``TIDEMILL_GOLDEN=write`` writes them anew; the difference is then read like any change. A figure
of the catalogue that changes shows up here, as it would to a reader.
"""

import os
from pathlib import Path

import pytest

from tests.cli.shell import tidemill

GOLDEN = Path(__file__).with_name("golden")

TRANSCRIPTS = {
    "unit-show-b200": ("unit", "show", "b200"),
    "unit-compare-fleets": ("unit", "compare", "a100:1024", "h100:512"),
    "unit-host-starved": ("unit", "host", "g6e.xlarge"),
    "unit-host-saving": (
        "unit", "host", "p5.48xlarge", "--state-gb", "1120", "--writer-gb-s", "5",
        "--weights-gb", "26",
    ),
    "unit-balance-p5": ("unit", "balance", "p5.48xlarge", "--mix", "training=60,decode=40"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_transcript(name: str) -> None:
    """A command prints the same for the same catalogue, and it reads well."""
    ran = tidemill(*TRANSCRIPTS[name])
    text = f"$ tidemill {' '.join(TRANSCRIPTS[name])}\n{ran.out}{ran.err}"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TIDEMILL_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert ran.code == 0, ran.err
    assert text == path.read_text(encoding="utf-8")
