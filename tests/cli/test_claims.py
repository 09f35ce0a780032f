"""What a command claims is true: each test does what the words say."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import TINY
from tests.cli.shell import Ran, process, tidemill


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


def test_what_waits_of_a_team_is_headed_by_what_waits_of_it(ask: Callable[..., Ran]):
    """Above the jobs of one team stood how many wait in all."""
    rows = json.loads(ask("pending", "--at", "36h", "--no-eta", "--json").out)["waiting"]
    mine = [row for row in rows if row["team"] == "lab"]
    gpus = [sum(row["accelerator_milli"] for row in some) / 1000 for some in (mine, rows)]
    told = ask("pending", "--at", "36h", "--team", "lab", "--no-eta").out
    assert f"{len(mine)} of {len(rows)} waiting jobs are of team `lab`, with {gpus[0]:g}" in told
    assert f" of {gpus[1]:g} GPUs requested" in told


def test_a_spec_is_not_called_a_journal(tiny: Path):
    """`report fleet.toml` called it a broken journal, or one of two; what it advises works."""
    (tiny / "fleet.toml").write_bytes(TINY.read_bytes())
    for words in (("fleet.toml",), ("fleet.toml", "tiny.sqlite")):
        ran = tidemill("report", *words, cwd=tiny)
        assert (ran.code, "it is neither a journal nor a page" in ran.err) == (2, True)
    for command in re.findall(r"`tidemill (.*?)`", ran.err.split("hint:")[1]):
        assert tidemill(*command.split(), cwd=tiny).code == 0
    assert (tiny / "run.html").exists()


def test_nothing_is_claimed_of_the_next_cycle_of_another_scheduler(tmp_path: Path):
    """Two jobs wait, and either would fit alone: whom that scheduler starts is not for us to say.

    So none takes anything from the other, and no cycle of ours is said to start anything.
    """
    (tmp_path / "jobs.csv").write_text(
        "job_id,user,submit_time,start_time,end_time,num_gpus,node,state\n"
        "1,ann,2026-11-02 08:00:00,2026-11-02 08:00:00,2026-11-02 09:00:00,24,g1 g2 g3,COMPLETED\n"
        "2,ann,2026-11-02 09:10:00,,,16,,PENDING\n3,ann,2026-11-02 09:20:00,,,16,,PENDING\n"
    )
    tidemill("import", "csv", "jobs.csv", "--usd-per-hour", "2", "-j", "j.sqlite", cwd=tmp_path)
    said = {(c, j): tidemill(c, j, "j.sqlite", cwd=tmp_path).out for c in ("why", "defrag")
            for j in "23"}  # fmt: skip
    assert not [text for text in said.values() if "next" in text or not text]
    for job in "23":
        assert (
            "what it requests is free, and the cluster's own scheduler has not" in said["why", job]
        )
        assert "24 accelerators free" in said["why", job]
