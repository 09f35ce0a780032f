"""Run ``tidemill`` as a person would, without a terminal: in this process, or in one of its own.

In this process is the rule: a process of its own costs a second for what it imports, and answers
the same. It is for what depends on being a process.
"""

import io
import os
import subprocess
import sys
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from tidemill.cli.main import main

PLAIN = {"COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1"}


class Ran(NamedTuple):
    """What a command printed and how it ended."""

    out: str
    err: str
    code: int


def tidemill(*words: str, cwd: Path | None = None, **environment: str) -> Ran:
    """Run one command through the program's entry: its words, its errors and its exit code."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: str | int | None = 0
    with ExitStack() as around:
        around.enter_context(mock.patch.dict(os.environ, {**PLAIN, **environment}))
        around.enter_context(mock.patch.object(sys, "argv", ["tidemill", *words]))
        around.enter_context(chdir(cwd or Path.cwd()))
        around.enter_context(redirect_stdout(out))
        around.enter_context(redirect_stderr(err))
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    return Ran(_text(out), _text(err), code if isinstance(code, int) else int(code is not None))


def process(*words: str, cwd: Path | None = None, **environment: str) -> Ran:
    """Run one command in a process of its own, and wait for it."""
    ran = subprocess.run(
        [sys.executable, "-m", "tidemill.cli.main", *words],
        cwd=cwd,
        env={**os.environ, **PLAIN, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Ran(ran.stdout, ran.stderr, ran.returncode)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
