"""Starts that `pending`, `why --eta` and `fit` tell, against those that came: the story goes on."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.cli.shell import tidemill
from tidemill import api
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS
from tidemill.model.rows import Job
from tidemill.twin.spec import template

JOURNAL = "played.sqlite"


class Played(NamedTuple):
    """A week of a busy fleet: where it lies, who came when, and who was placed when."""

    folder: Path
    came: list[tuple[int, Job]]
    placed: dict[str, list[int]]

    def ask(self, *words: str, at_ms: int) -> Any:
        """What a command says at a moment."""
        ran = tidemill(*words, "-j", JOURNAL, "--at", f"{at_ms}ms", "--json", cwd=self.folder)
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    def wait_ms(self, name: str, at_ms: int) -> int | None:
        """How long a job went on to wait; None: until the story was over, or it was withdrawn."""
        return min((ms - at_ms for ms in self.placed.get(name, ()) if ms >= at_ms), default=None)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("bands")
    fleet = template.describe(seed=21, accelerators=64, weeks=1, teams=2, load=0.85)
    (folder / "fleet.toml").write_text(fleet)
    ran = tidemill("twin", "run", "fleet.toml", "-j", JOURNAL, cwd=folder)
    assert ran.code == 0, ran.err
    came, placed = list[tuple[int, Job]](), dict[str, list[int]]()
    with api.open_journal(str(folder / JOURNAL)) as journal:
        for event in journal.read():
            if isinstance(event, ev.JobSubmitted):
                came.append((event.at_ms, event.job))
            elif isinstance(event, ev.AskedPlace):
                placed.setdefault(came[event.job][1].name, []).append(event.at_ms)
    return Played(folder, came, placed)


def is_in(band: dict[str, int | None], wait_ms: int) -> bool:
    """Whether a wait lies from p10 to p90; an end that is null is open."""
    low, middle, high = band["p10_ms"], band["p50_ms"], band["p90_ms"]
    assert low is not None
    assert middle is not None
    assert low <= middle <= (middle if high is None else high)
    return low <= wait_ms and (high is None or wait_ms <= high)


def test_what_pending_tells_comes_true(played: Played):
    """Of the starts of a week 65 to 95 % lie in the band; `why` tells a job the same.

    One queue errs as a whole: many forecasts, but of ten moments.
    """
    held = []
    for at_ms in range(DAY_MS, 6 * DAY_MS, 12 * HOUR_MS):
        rows = played.ask("pending", at_ms=at_ms)["waiting"]
        for row in rows:
            wait_ms = played.wait_ms(row["job"], at_ms)
            if row["verdict"] == "waits" and wait_ms is not None:
                held.append(is_in(row["eta"], wait_ms))
        if at_ms % DAY_MS == 0 and rows:
            told = played.ask("why", rows[-1]["job"], "--eta", at_ms=at_ms)
            assert told["forecast"]["wait"] == rows[-1]["eta"]
    assert len(held) >= 500
    assert 0.65 <= sum(held) / len(held) <= 0.95, f"{sum(held)} of {len(held)}"


def test_what_fit_tells_before_a_job_comes_is_what_it_then_waits(played: Played):
    """Jobs that are told to start now do, to the second; of the others most start in the band."""
    now, held = 0, []
    late = [(at_ms, job) for at_ms, job in played.came if DAY_MS < at_ms < 6 * DAY_MS]
    for at_ms, job in late[:: len(late) // 25]:
        (played.folder / "job.json").write_bytes(msgspec.json.encode(job))
        told = played.ask("fit", "--job", "job.json", at_ms=at_ms - 1)
        wait_ms = played.wait_ms(job.name, at_ms)
        if wait_ms is None:
            continue
        if told["verdict"] == "now":
            assert wait_ms <= MINUTE_MS, job.name
            now += 1
        elif told["verdict"] == "waits":
            held.append(is_in(told["wait"], wait_ms))
    assert now >= 5
    assert len(held) >= 10
    assert sum(held) / len(held) >= 0.65, f"{sum(held)} of {len(held)}"
