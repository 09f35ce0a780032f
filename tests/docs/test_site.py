"""The documentation as a site."""

import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT


def test_the_site_builds_without_a_warning(tmp_path: Path):
    """`mkdocs build --strict` finds no page left out and no link that leads nowhere."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(
        [*command, "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "index.html").is_file()
