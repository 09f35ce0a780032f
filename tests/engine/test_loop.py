"""The loop: fold a moment, decide, check, keep, and only then act."""

from collections.abc import Sequence

import pytest

from tests.builders import contract, job, team
from tests.engine.stage import Arrival, Kept, Script, Stage, play
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold_all
from tidemill.engine.loop import BEATS_AT_ONE_MOMENT, Loop
from tidemill.model import events as ev
from tidemill.model.errors import BackendError, EventRefused
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World

JOBS = [Arrival(1000 * i, job(f"j{i}", gpus=8), HOUR_MS) for i in range(4)]
SCRIPT = Script([contract(gpus=16)], [team("a")], JOBS, boot_ms=500)


class Watching(Stage):
    """A stage that notes how much was kept whenever it is told to act."""

    def __init__(self, script: Script, kept: Kept) -> None:
        super().__init__(script)
        self.kept, self.safe = kept, list[bool]()

    def carry_out(self, world: World, plan: ev.Plan) -> None:
        self.safe.append(len(self.kept) == world.seq)
        super().carry_out(world, plan)


class Diary(list[ev.Event]):
    """A reader that writes down what it is told."""

    def take(self, events: Sequence[ev.Event]) -> None:
        self.extend(events)


class Stuck:
    """A backend whose time does not go on."""

    def __init__(self, at_ms: int, seen: list[ev.Seen]) -> None:
        self.at_ms, self.seen = at_ms, seen

    def next_ms(self) -> int:
        return self.at_ms

    def take(self, world: World) -> list[ev.Seen]:
        return self.seen

    def carry_out(self, world: World, plan: ev.Plan) -> None:
        pass


def test_a_story_is_played_to_its_end():
    """Jobs wait for nodes to boot, run two by two, and all are done."""
    world = play(SCRIPT).world
    assert set(world.jobs.state[:4].tolist()) == {JobState.DONE}
    assert world.now_ms == 1000 + 2 * HOUR_MS


def test_everything_is_kept_before_it_is_carried_out():
    """With one beat a commit, every event and action is safe before the backend acts on it."""
    kept = Kept()
    stage = Watching(SCRIPT, kept)
    Loop(World(), Policy(), stage, kept).run()
    assert stage.safe
    assert all(stage.safe)


def test_several_beats_may_share_a_commit():
    """With more beats a commit there are fewer commits, and the rest is kept at the end."""
    one, many = play(SCRIPT), play(SCRIPT, beats_per_commit=5)
    assert list(many.kept) == list(one.kept)
    assert len(many.kept.commits) < len(one.kept.commits)


def test_one_moment_is_one_cycle():
    """All that happens at one moment is folded before the plan: two arrivals, one plan."""
    arrivals = [
        Arrival(HOUR_MS, job("low", gpus=8), 1),
        Arrival(HOUR_MS, job("high", gpus=8, priority=1), 1),
    ]
    player = play(Script([contract(gpus=8)], [team("a")], arrivals))
    (beat,) = [
        beat for beat in player.beats if any(isinstance(e, ev.JobSubmitted) for e in beat.seen)
    ]
    assert [a.job for a in beat.plan.actions if isinstance(a, ev.AskedPlace)] == [1]


def test_the_loop_stops_where_it_is_told_and_goes_on_from_there():
    """A run until a moment, continued, is the same as one run."""
    kept = Kept()
    loop = Loop(World(), Policy(), Stage(SCRIPT), kept)
    loop.run(until_ms=HOUR_MS)
    assert 0 < loop.world.now_ms <= HOUR_MS
    loop.run()
    assert list(kept) == list(play(SCRIPT).kept)


def test_on_beat_tells_the_time():
    """Whoever shows progress is told the moment of every beat."""
    moments: list[int] = []
    Loop(World(), Policy(), Stage(SCRIPT), Kept()).run(on_beat=moments.append)
    assert moments == sorted(moments)
    assert moments[-1] == play(SCRIPT).world.now_ms


def test_readers_read_along():
    """A reader is told every event in its order, actions included."""
    diary, kept = Diary(), Kept()
    Loop(World(), Policy(), Stage(SCRIPT), kept, [diary]).run()
    assert list(diary) == list(kept)
    assert any(isinstance(event, ev.AskedPlace) for event in diary)


@pytest.mark.parametrize("seen", [[], [ev.Woke(7)]], ids=["silent", "chatty"])
def test_a_backend_whose_time_does_not_go_on_is_refused(seen: list[ev.Seen]):
    """A backend that answers at one moment for ever, with something or nothing, is broken."""
    loop = Loop(World(), Policy(), Stuck(7, seen), Kept())
    with pytest.raises(BackendError, match=f"answered {BEATS_AT_ONE_MOMENT} times at 7 ms"):
        loop.run()


def test_a_refused_event_loses_nothing_before_it():
    """What was folded before a refusal is kept, and rebuilds the World as it stands."""
    wrong: list[ev.Seen] = [ev.QueueSet(7, team("a")), ev.JobStarted(7, 0, 1)]
    kept, loop_world = Kept(), World()
    with pytest.raises(EventRefused, match="job number 0 is unknown"):
        Loop(loop_world, Policy(), Stuck(7, wrong), kept).run()
    assert list(kept) == wrong[:1]
    assert snapshot.dump(fold_all(World(), kept)) == snapshot.dump(loop_world)


def test_eviction_takes_its_grace():
    """A victim holds its place until it is seen to be gone; then its heir gets it."""
    arrivals = [
        Arrival(0, job("low", gpus=8), HOUR_MS),
        Arrival(1000, job("high", gpus=8, priority=1), HOUR_MS),
    ]
    policy = Policy(min_run_ms=0, preempt_gain_ppm=0)
    player = play(Script([contract(gpus=8)], [team("a")], arrivals, policy=policy, grace_ms=300))
    starts = {
        e.job: e.at_ms for e in player.kept if isinstance(e, ev.JobStarted) and e.attempt == 1
    }
    assert starts == {0: 0, 1: 1300}


def test_a_fault_is_survived():
    """A node lost in mid-run is repaired, and its job starts again and ends."""
    lost = ev.NodeMoved(HOUR_MS // 2, 0, NodeState.UNHEALTHY, ev.Why.NODE_LOST)
    script = Script([contract(gpus=8)], [team("a")], JOBS[:1], incidents=[lost])
    world = play(script).world
    assert world.jobs.attempt[0] == 2
    assert world.jobs.state[0] == JobState.DONE
