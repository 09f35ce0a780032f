"""Run ``tidemill`` as a person would: a process of its own, no terminal."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from tidemill.cli.main import app


def here(*words: str) -> "Ran":
    """Run one command in this process: for what does not depend on being one of its own."""
    ran = CliRunner(env={"COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1"}).invoke(app, words)
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        return Ran(ran.stdout, f"{ran.stderr}{ran.exception}", -1)
    return Ran(ran.stdout, ran.stderr, ran.exit_code)


class Ran(NamedTuple):
    """What a command printed and how it ended."""

    out: str
    err: str
    code: int


def tidemill(*words: str, cwd: Path | None = None, **environment: str) -> Ran:
    """Run one command and wait for it."""
    ran = subprocess.run(
        [sys.executable, "-m", "tidemill.cli.main", *words],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Ran(ran.stdout, ran.stderr, ran.returncode)
