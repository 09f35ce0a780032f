"""What a command claims is true: each test does what the words say."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import Ran, process


@pytest.mark.parametrize("command", ["why", "defrag"])
def test_a_job_that_is_submitted_later_is_told_when(command: str, ask: Callable[..., Ran]):
    """Before its submission a job was said not to exist; the moment that is named can be asked."""
    early = ask(command, "whole-a100", "--at", "1h")
    assert early.code == 2
    assert "job `whole-a100` is submitted at day 1 06:00, after --at 1h" in early.err
    (moment,) = re.findall(r"such as --at (\S+)", early.err)
    assert ask(command, "whole-a100", "--at", moment).code == 0
    assert "no job is called `nobody`" in ask(command, "nobody", "--at", "1h").err


def test_an_answer_of_a_machine_that_has_compiled_nothing_is_json_too(tiny: Path):
    """There kernels are interpreted, and their numbers were none that JSON has."""
    asked = ("--team", "lab", "--gpus", "64", "--per-node", "8", "--kind", "H100")
    where = ("-j", "tiny.sqlite", "--at", "26h", "--json")
    ran = process("fit", *asked, *where, cwd=tiny, NUMBA_DISABLE_JIT="1")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["verdict"] == "never"
