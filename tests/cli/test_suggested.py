"""Whatever command an output suggests can be run as it is printed, and names its journal."""

import html
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import TINY
from tests.cli.shell import tidemill
from tidemill import api, explain
from tidemill.cli.suggested import located, located_json, located_page

MOMENTS = ("20h", "31h")
_SUGGESTED = re.compile(
    r"tidemill (?:why|pending|fit|fleet|defrag|ledger|report|doctor|journal|twin|unit|demo)\b"
    r"[^`\"<\n]*"
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A journal in a folder whose name has to be quoted."""
    where = str(tmp_path_factory.mktemp("a b") / "it.sqlite")
    api.simulate(api.load_spec(TINY), where)
    return where


def suggested(text: str) -> Iterator[str]:
    """The commands in a text, without what stands around them."""
    for found in _SUGGESTED.findall(text):
        yield found.rstrip(" .,;)")


def outputs(journal: str, page: Path) -> Iterator[str]:
    """What the commands say about a journal at several moments, as text, JSON and a page."""
    for at in MOMENTS:
        world, _ = api.open_world(journal, api.calendar_of(journal).ms(at, "--at"))
        where = ("-j", journal, "--at", at)
        waiting = [world.job_names[jobs[0]] for jobs in world.waiting if jobs]
        yield tidemill("pending", *where).out
        yield tidemill("fleet", *where).out
        for name in waiting[:2]:
            yield tidemill("why", name, *where).out
            yield tidemill("why", name, *where, "--json").out
        yield tidemill("why", "no such job", *where).err
        team = max(world.queue_number)
        yield tidemill("fit", "--team", team, "--gpus", "64", "--per-node", "8", *where).out
        fit = tidemill("fit", "--team", team, "--gpus", "8", "--per-node", "8", *where, "--json")
        shown = shown_by(json.loads(fit.out))
        assert all(f" --at {at}" in line for line in shown), shown
        assert len(shown) > 2, fit.out
        yield "\n".join(shown)
    for words in (("ledger",), ("ledger", "--json"), ("doctor",)):
        ran = tidemill(*words, "-j", journal)
        yield ran.out + ran.err
    assert tidemill("report", str(page), "-j", journal).code == 0
    yield html.unescape(page.read_text(encoding="utf-8"))


def shown_by(value: object) -> list[str]:
    """Every command of ours that a document says a number can be seen with."""
    if isinstance(value, list):
        return [line for item in value for line in shown_by(item)]
    if not isinstance(value, dict):
        return []
    lines = [c["line"] for c in value.get("shown_by", ()) if c["on"] == "tidemill"]
    return lines + [line for item in value.values() for line in shown_by(item)]


def test_what_a_forecast_names_shows_its_numbers(told: str):
    """The command beside *free* lists nodes whose free GPUs add up to it, at the same moment.

    It was `why '(not submitted)' --nodes`, without the moment: a job that no journal knows.
    """
    asked = ("fit", "--team", "lab", "--gpus", "8", "--per-node", "8", "--gpu-type", "H100")
    answer = json.loads(tidemill(*asked, "-j", told, "--at", "20h", "--json").out)["answer"]
    (free,) = (fact for fact in answer["evidence"] if fact["name"] == "free")
    (line,) = shown_by(free)
    nodes = json.loads(tidemill(*shlex.split(line)[1:], "--json").out)["nodes"]
    is_open = [node for node in nodes if (node["kind"], node["state"]) == ("H100", "ready")]
    assert sum(node["free_milli"] for node in is_open) == free["value"] > 0
    (needs,) = (fact for fact in answer["evidence"] if fact["name"] == "needs")
    assert shown_by(needs) == [], "what it requests was said by whoever asks"


def test_every_suggested_command_runs_as_it_is_printed(told: str, tmp_path: Path):
    """Each one is run, word for word, and names the journal that the output is about."""
    page = tmp_path / "page.html"
    found = {line for text in outputs(told, page) for line in suggested(text)}
    found = {line for line in found if not re.search(r"\b[A-Z]{4}\b", line)}  # a word to fill in
    assert len(found) > 8, found
    wrong = []
    for line in sorted(found):
        words = shlex.split(line)
        ran = tidemill(*words[1:])
        reads = words[1] not in ("unit", "twin", "demo", "journal")
        if ran.code or (reads and told not in words):
            wrong.append((line, ran.err))
    assert wrong == []


def test_a_command_that_names_its_journal_stays_as_it_is():
    """Only what lacks a journal gets one; quotes are those of a shell, JSON and HTML as due."""
    assert located("see `tidemill fleet`", "a.db", "3h") == "see `tidemill fleet -j a.db --at 3h`"
    assert (
        located("`tidemill ledger --by job`", "a.db", "3h") == "`tidemill ledger --by job -j a.db`"
    )
    assert located("`tidemill why x -j b.db`", "a.db") == "`tidemill why x -j b.db`"
    assert located_json(b'{"c":"tidemill why x"}', 'a"b') == b'{"c":"tidemill why x -j \'a\\"b\'"}'
    assert located_page("<code>tidemill fleet</code>", "a&b") == (
        "<code>tidemill fleet -j &#x27;a&amp;b&#x27;</code>"
    )


def test_every_fix_of_every_waiting_job_has_words_and_a_price(told: str):
    """No fix is printed without words, and what has to be bought is never free."""
    for at in MOMENTS:
        world, policy = api.open_world(told, api.calendar_of(told).ms(at, "--at"))
        for jobs in world.waiting:
            for fix in explain.why(world, policy, jobs[0]).other_fixes if jobs else ():
                assert fix.words
                if fix.words.startswith(("sign", "replace", "repair")):
                    assert fix.usd_micro_per_hour is None
