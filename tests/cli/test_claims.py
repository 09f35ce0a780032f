"""What a command claims is true: each test does what the words say."""

import re
from collections.abc import Callable

import pytest

from tests.cli.shell import Ran


@pytest.mark.parametrize("command", ["why", "defrag"])
def test_a_job_that_is_submitted_later_is_told_when(command: str, ask: Callable[..., Ran]):
    """Before its submission a job was said not to exist; the moment that is named can be asked."""
    early = ask(command, "whole-a100", "--at", "1h")
    assert early.code == 2
    assert "job `whole-a100` is submitted at day 1 06:00, after --at 1h" in early.err
    (moment,) = re.findall(r"such as --at (\S+)", early.err)
    assert ask(command, "whole-a100", "--at", moment).code == 0
    assert "no job is called `nobody`" in ask(command, "nobody", "--at", "1h").err
