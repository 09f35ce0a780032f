"""``tidemill decision``: what is printed, and the same as JSON."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.cli.shell import Ran
from tidemill import api
from tidemill.explain.decision.answers import Decision


def test_a_running_job_is_told_in_four_stages(ask: Callable[..., Ran], tiny: Path):
    """Watch, filter, score, bind, and what was tried; ``why`` says when and why, and where more."""
    world, _ = api.open_world(str(tiny / "tiny.sqlite"))
    name = world.job_names[max(world.placements)]
    node = world.node_rows[world.placements[max(world.placements)][0].node].name
    ran = ask("decision", name)
    assert ran.code == 0, ran.err
    heads = [line for line in ran.out.splitlines() if line[:2] in {"1 ", "2 ", "3 ", "4 "}]
    assert [line[0] for line in heads] == ["1", "2", "3", "4"]
    assert f"placed on `{node}`" in ran.out
    assert "tried, and when" in ran.out
    why = ask("why", name).out
    assert "placed " in why
    assert f"`tidemill decision {name} -j tiny.sqlite`" in why


def test_json_is_what_python_returns(ask: Callable[..., Ran], tiny: Path):
    """The document has the fields of the reference, and is the answer of the API."""
    journal = str(tiny / "tiny.sqlite")
    world, _ = api.open_world(journal)
    name = world.job_names[max(world.placements)]
    told = msgspec.json.decode(ask("decision", name, "--json").out, type=Decision)
    assert told == api.read_decision(journal, name)
    assert told.version == 1
    again = msgspec.json.decode(ask("why", name, "--json").out)["decision"]
    assert msgspec.convert(again, Decision) == told


def test_a_job_that_nobody_submitted_is_refused(ask: Callable[..., Ran]):
    """The message says how many jobs there are, and a near name if there is one."""
    ran = ask("decision", "no-such-job")
    assert ran.code == 2
    assert "no job is called `no-such-job`" in ran.err
