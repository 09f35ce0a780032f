"""Stories from seeds: the same seed is the same story, and a failure says how to see it again."""

import pytest

from tests.engine.stories import SOURCES, played, replayable, seeds, story
from tidemill.model import events as ev


def test_a_seed_is_a_story():
    """Equal seeds give equal scripts, other seeds others."""
    assert story(3) == story(3)
    assert story(3) != story(4)


def test_a_failure_names_the_one_command_that_replays_it():
    """Whatever fails inside a story carries the command with its seed and its test."""
    with pytest.raises(AssertionError) as failure, replayable(17):
        raise AssertionError("over-committed")
    (note,) = failure.value.__notes__
    assert note.startswith("replay: TIDEMILL_SEEDS=17 ")
    assert "test_stories.py::test_a_failure_names" in note


def test_the_environment_chooses_the_seeds(monkeypatch: pytest.MonkeyPatch):
    """By default the first so many; otherwise the one, or the range, that is asked for."""
    monkeypatch.delenv("TIDEMILL_SEEDS", raising=False)
    assert seeds(5) == range(5)
    monkeypatch.setenv("TIDEMILL_SEEDS", "17")
    assert seeds(5) == range(17, 18)
    monkeypatch.setenv("TIDEMILL_SEEDS", "20:40")
    assert seeds(5) == range(20, 40)


@SOURCES
def test_stories_meet_every_kind_of_event(source: str):
    """Over the seeds that are tried, everything that a backend may say or be asked does happen."""
    kinds = {type(event) for seed in range(60) for event in played(seed, source).kept}
    rare: set[type] = {ev.AskedRelease}  # a promise that could not be kept: its room was lost
    rare |= {ev.PlacementSeen, ev.ReasonSeen}  # another scheduler's: test_seen
    rare |= {ev.RequestChanged}  # of a live cluster: test_requests
    rare |= {ev.DeviceRepaired}  # of a live cluster: tests/live/kubernetes/test_lost_gpus
    rare |= {ev.CommitmentSeen}  # of somebody else's fleet: tests/live/prices/test_commitments
    rare |= {ev.StallsSeen, ev.EfficiencySeen, ev.StragglerSeen}
    rare |= {ev.CheckpointSeen, ev.FigureSeen, ev.DeviceErrorSeen}  # tests/ledger/test_measured
    rare |= {ev.LoadSeen, ev.LatencySeen}
    rare |= {ev.HostUseSeen}  # tests/live/slurm/test_step_use
    rare |= {ev.SightLost, ev.SightRegained}
    owners = {ev.JobFailed, ev.JobCancelled, ev.ActivitySeen, ev.AskedCancel}  # scripted only
    assert kinds >= set(ev.Event.__args__) - rare - (owners if source == "twin" else set())
