"""A recorded history is played again: what is as it was, what is another, what is unknown."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.builders import contract, job, opening, team
from tests.live.history.test_history import EPOCH_MS, NODES, PRICES, _random_history, attempts
from tests.live.kubernetes import made
from tidemill import api, explain
from tidemill.advise.shadow import comparing, story
from tidemill.api import Replay
from tidemill.cli import comparison_tables, shadow_tables
from tidemill.journal import deciders, open_journal
from tidemill.journal.memory import MemoryJournal
from tidemill.journal.replay import rebuild
from tidemill.journal.source import Source
from tidemill.ledger.buckets import ABOUT, ALLOCATED, Bucket
from tidemill.ledger.difference import difference_document
from tidemill.ledger.unknowns import UNTOLD, unknowns_of
from tidemill.live.history.events import build
from tidemill.live.history.rows import AttemptEnd, SeenNode
from tidemill.live.kubernetes import translate
from tidemill.model import events as ev
from tidemill.model.errors import SpecError
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece, Queue, Share
from tidemill.model.states import Confidence, JobState, NodeState

H = HOUR_MS


def row(job: str, gpus: int, submit: int, start: int | None, end: int | None, *nodes: str,
        **more: Any) -> dict[str, Any]:  # fmt: skip
    """An attempt, in hours."""
    times = {"submit_ms": submit * H, "start_ms": None if start is None else start * H,
             "end_ms": None if end is None else end * H}  # fmt: skip
    return {"job": job, "gpus": gpus, "nodes": list(nodes) or None, **times, **more}


def kept(
    folder: Path, rows: list[dict[str, Any]], nodes: list[SeenNode] = NODES, **facts: str
) -> str:
    """A journal of these attempts, which begins an hour before the first of them."""
    where = str(folder / "seen.sqlite")
    first = [row("first", 1, 0, 0, 0, nodes[-1].name)]
    api.keep_history(build(attempts(*first, *rows), nodes, PRICES), where)
    with open_journal(where) as journal:
        for key, value in facts.items():
            journal.set_meta(key, value)
    return where


def played(folder: Path, rows: list[dict[str, Any]], **more: Any) -> Replay:
    """The same rows, played again by the policy that there is without another."""
    return api.replay(kept(folder, rows, **more), Policy(), str(folder / "shadow.sqlite"))


def starts(found: Replay) -> dict[str, int | None]:
    """When the shadow starts whom, in hours."""
    return {
        one.name: None if one.shadow_ms is None else one.shadow_ms // H
        for one in found.report.starts
    }


SPREAD = [row(f"small{i}", 1, 1, 1, 10, f"n{i}") for i in range(4)]


def test_small_jobs_that_were_spread_kept_large_ones_out(tmp_path: Path):
    """Packed on one node they leave three whole: two jobs of 8 GPUs start nine hours earlier.

    Of 32 GPUs 28 were free for 8 hours, and 16 were waited for: 256 dollars.
    """
    large = [row(f"large{i}", 8, 2, 10, 12, f"n{i}") for i in range(2)]
    found = played(tmp_path, SPREAD + large)
    assert starts(found) == {"small0": 1, "small1": 1, "small2": 1, "small3": 1,
                             "large0": 2, "large1": 2}  # fmt: skip
    assert [one.name for one in found.report.earlier] == ["large0", "large1"]
    assert found.report.later == []
    sides = found.seen.total(), found.shadow.statement.total()
    assert [comparing.stranded_usd_micro(side) for side in sides] == [256_000_000, 0]
    assert sides[0].paid_usd_micro == sides[1].paid_usd_micro
    assert found.report.unknown.jobs == 0
    assert found.shadow.statement.source is Source.SHADOW
    known = {found.shadow.statement.confidence(bucket) for bucket in Bucket}
    assert not known & {Confidence.MEASURED, Confidence.SIMULATED}


def test_the_same_jobs_work_as_long_as_they_were_seen_to(tmp_path: Path):
    """Done, failed for good, tried again after a lost place: as much as all of their attempts.

    Nobody said what these save, so nobody knows that they lost anything.
    """
    rows = [
        row("done", 2, 1, 1, 4, "n0"),
        row("fails", 2, 1, 1, 2, "n1", outcome=AttemptEnd.REQUEUED),
        row("fails", 2, 1, 3, 5, "n1", outcome=AttemptEnd.FAILED),
        row("stopped", 2, 1, 1, 2, "n2", outcome=AttemptEnd.PREEMPTED),
        row("stopped", 2, 1, 6, 9, "n2", outcome=AttemptEnd.DONE),
    ]
    found = played(tmp_path, rows)
    with open_journal(str(tmp_path / "shadow.sqlite")) as journal:
        told = {one.job.name: one for one in story.read(journal).jobs}
    ran = {name: [one.run_ms for one in job.attempts] for name, job in told.items()}
    assert ran["done"] == [3 * H]
    assert ran["fails"] == [3 * H]
    assert told["fails"].is_failed
    assert ran["stopped"] == [4 * H]
    assert found.report.interrupted == 2


@pytest.mark.parametrize(("gpus", "hours"), [(4, 16), (8, 24)])
def test_hours_that_others_held_are_no_gain(tmp_path: Path, gpus: int, hours: int):
    """Two jobs of 2 h on one node of 8, overlapping by one: the replay works no more than they did.

    With 4 GPUs of 8 for the first, the second has 4 for 2 h; with all 8, it has 8 for 1 h.
    """
    rows = [row("a", gpus, 1, 1, 3, "n0"), row("b", 8, 2, 2, 4, "n0"), row("z", 1, 9, 9, 9, "n0")]
    found = played(tmp_path, rows, nodes=NODES[:1])
    for statement in (found.seen, found.shadow.statement):
        assert statement.total().of(ALLOCATED) == hours * 1_000 * H
    is_said = any("played with those that it had alone" in note for note in found.report.notes())
    assert is_said == (gpus == 4)


def test_what_nobody_saw_the_end_of_goes_on_and_is_counted(tmp_path: Path):
    """A job of 8 GPUs that never started has no run time: in the shadow it works to the end."""
    rows = [*SPREAD, row("waits", 8, 2, None, None, outcome=AttemptEnd.WAITING)]
    found = played(tmp_path, rows)
    assert starts(found)["waits"] == 2
    unknown = found.report.unknown
    assert (unknown.jobs, unknown.milli_ms) == (1, 8_000 * 8 * H)
    assert unknown.usd_micro == 8 * 8 * 2_000_000
    assert any("not known" in text for text in found.report.notes())
    worked = comparing.worked_milli_ms((found.seen, found.shadow.statement), found.report)
    assert worked.after_at_most == worked.after + unknown.milli_ms
    (first, *_) = shadow_tables.headline((found.seen, found.shadow.statement), found.report)
    assert "36.000 to 100.0 with this policy" in first
    assert first.endswith("each of them cost $17.78, and would have cost $6.40 to $17.78")


def test_what_its_owner_ended_ends_at_the_same_moment(tmp_path: Path):
    """A notebook that was deleted at 12 is deleted at 12, however early it started."""
    rows = [*SPREAD, row("notebook", 8, 2, 10, 12, "n0", outcome=AttemptEnd.CANCELLED)]
    found = played(tmp_path, rows)
    world = found.shadow.world
    j = world.job_number["notebook"]
    assert world.jobs.state.item(j) == JobState.CANCELLED
    assert world.jobs.since_ms.item(j) == 12 * H
    assert starts(found)["notebook"] == 2


def test_jobs_of_others_stay_where_they_were_seen(tmp_path: Path):
    """A job of another scheduler takes its node when it was seen there, and ends when it did.

    What ours hold there by then is counted beside it, and said.
    """
    others = deciders.facts({}, [("theirs", "volcano")])
    rows = [row("ours", 8, 1, 1, 6, "n1"), row("theirs", 8, 2, 2, 4, "n0")]
    found = played(tmp_path, rows, **others)
    assert starts(found) == {"ours": 1}
    assert found.report.others == 1
    assert found.report.over_milli == 8_000  # ours went to n0 first
    worked = comparing.worked_milli_ms((found.seen, found.shadow.statement), found.report)
    assert worked == (8_000 * 7 * H,) * 3
    assert found.report.beside_milli_ms == 8_000 * 2 * H
    world = found.shadow.world
    why = explain.why(world, Policy(), world.job_number["theirs"]).words
    assert "none" not in why
    again = api.replay(
        str(tmp_path / "seen.sqlite"), Policy(), str(tmp_path / "of.sqlite"), shadow_of="volcano"
    )
    assert set(starts(again)) == {"theirs"}
    nobody = api.replay(
        str(tmp_path / "seen.sqlite"), Policy(), str(tmp_path / "no.sqlite"), shadow_of="nobody"
    )
    sides = nobody.seen, nobody.shadow.statement
    assert shadow_tables.headline(sides, nobody.report) == [shadow_tables.NOBODY]


def test_jobs_of_others_are_never_stopped_for_ours(tmp_path: Path):
    """They have every node, and ours comes with a higher priority: in the shadow it waits too."""
    others = deciders.facts({}, [(f"theirs{i}", "volcano") for i in range(4)])
    rows = [row(f"theirs{i}", 8, 1, 1, 9, f"n{i}") for i in range(4)]
    rows.append(row("ours", 8, 2, 9, 10, "n0", priority=100))
    policy = Policy(order="priority", min_run_ms=0, preempt_gain_ppm=0)
    where, shadow = kept(tmp_path, rows, NODES, **others), str(tmp_path / "shadow.sqlite")
    found = api.replay(where, policy, shadow)
    assert starts(found) == {"ours": 9}
    with open_journal(shadow) as journal:
        assert not any(isinstance(one, ev.AskedEvict) for one in journal.read())
    without = api.replay(where, policy, str(tmp_path / "all.sqlite"), shadow_of="volcano")
    assert set(starts(without)) == {f"theirs{i}" for i in range(4)}


def test_whom_the_policy_stops_is_counted_and_why(tmp_path: Path):
    """Every node is taken when one comes with a higher priority: in the shadow one is stopped."""
    rows = [row(f"low{i}", 8, 1, 1, 9, f"n{i}") for i in range(4)]
    rows.append(row("high", 8, 2, 9, 10, "n0", priority=100))
    where = kept(tmp_path, rows)
    policy = Policy(order="priority", min_run_ms=0, preempt_gain_ppm=0)
    found = api.replay(where, policy, str(tmp_path / "shadow.sqlite"))
    assert found.report.stopped == comparing.StoppedJobs(1, (("preempted by priority", 1),))
    sides = found.seen, found.shadow.statement
    assert shadow_tables.headline(sides, found.report)[-1] == (
        "1 job would have been stopped on the way (preempted by priority: 1), and would have waited"
        " again"
    )
    told = comparing.document(sides, ("a", "b"), found.report)["stopped"]
    assert told == {"jobs": 1, "times": {"preempted by priority": 1}}
    calm = api.replay(where, Policy(may_preempt=False), str(tmp_path / "calm.sqlite"))
    assert calm.report.stopped == comparing.StoppedJobs()
    assert not any("stopped" in line for line in shadow_tables.headline(sides, calm.report))


def test_who_grows_while_it_works_holds_at_each_moment_what_it_was_seen_to_hold(tmp_path: Path):
    """A job of others on one GPU for two hours, then on two: so it is in the shadow, beside ours.

    Ours, which sat on the second of them before, has it as long as it did.
    """
    others = deciders.facts({}, [("theirs", "volcano")])
    going: dict[str, Any] = {"outcome": AttemptEnd.RUNNING}
    rows = [row("theirs", 1, 0, 0, None, "n0", **going), row("ours", 4, 0, 0, 2, "n0"),
            row("last", 1, 1, 1, 3, "n3")]  # fmt: skip
    where = kept(tmp_path, rows, NODES, **others)
    with open_journal(where) as journal:
        world = rebuild(journal)
        j, ours = world.job_number["theirs"], world.job_number["ours"]
        held = story.read(journal).jobs[ours].attempts[0].pieces[0]
        (mine,) = world.placements[j]
        grown = Piece(0, mine.node, 2, mine.devices | held.devices & -held.devices)
        now_ms = world.now_ms
        journal.append([ev.PlacementSeen(now_ms, j, 2, (grown,)), ev.JobStarted(now_ms, j, 2),
                        ev.Woke(now_ms + H)])  # fmt: skip
        rebuild(journal)  # the books take it: ours is gone by then
    found = api.replay(where, Policy(), str(tmp_path / "shadow.sqlite"))
    assert (found.report.pinned, found.report.others, found.report.over_milli) == (1, 1, 0)
    with open_journal(str(tmp_path / "shadow.sqlite")) as journal:
        told = {one.job.name: one.attempts[0] for one in story.read(journal).jobs}
    (first,), (later,), (second,) = (told[name].pieces for name in ("theirs", "theirs#2", "ours"))
    assert [one.devices.bit_count() for one in (first, later, second)] == [1, 2, 4]
    assert not first.devices & second.devices
    assert told["theirs"].end_ms == told["theirs#2"].placed_ms == told["theirs#2"].up_ms == now_ms
    sides = found.seen, found.shadow.statement
    used = [sum(one.total().milli_ms[b] for b in ALLOCATED) for one in sides]
    assert used[0] == used[1]
    again = api.replay(where, Policy(), str(tmp_path / "of.sqlite"), shadow_of="volcano")
    assert again.report.resized == 1
    assert any("played with the last" in note for note in again.report.notes())


def test_who_was_moved_is_not_stopped_with_the_node_it_left():
    """Seen on another node, it goes on when the first one is lost."""
    journal = MemoryJournal()
    journal.append([
        *opening(contract(gpus=4, per_node=2), teams=[team("a")]),
        ev.JobSubmitted(0, job("x", gpus=2)),
        ev.PlacementSeen(0, 0, 1, (Piece(0, 0, 1, 0b11),)),
        ev.JobStarted(0, 0, 1),
        ev.PlacementSeen(H, 0, 2, (Piece(0, 1, 1, 0b11),)),
        ev.JobStarted(H, 0, 2),
        ev.NodeMoved(2 * H, 0, NodeState.UNHEALTHY),
        ev.JobFinished(4 * H, 0, 2),
    ])  # fmt: skip
    (seen,) = story.read(journal).jobs
    assert [(one.end, one.end_ms) for one in seen.attempts] == [(story.End.DONE, 4 * H)]


def test_waits_of_others_are_on_one_side_alone_and_said(tmp_path: Path):
    """A job of another scheduler that waited is no gain of the shadow in which it does not."""
    others = deciders.facts({}, [("theirs", "volcano")])
    rows = [*SPREAD, row("theirs", 8, 2, 10, 12, "n0")]
    found = played(tmp_path, rows, **others)
    said = shadow_tables.headline((found.seen, found.shadow.statement), found.report)
    assert said[1].startswith("not to be compared, for 1 job of other schedulers waited too")
    assert " lost" not in said[1]


def test_who_has_a_place_when_the_journal_begins_keeps_it(tmp_path: Path):
    """Nobody is moved by a shadow: four nodes with a job each since the beginning stay so."""
    there = [row(f"there{i}", 1, 0, 0, 10, f"n{i}") for i in range(4)]
    found = played(tmp_path, [*there, row("large", 8, 2, 10, 12, "n0")])
    assert starts(found) == {"large": 10}
    assert found.report.pinned == 4


def test_nodes_are_as_they_were(tmp_path: Path):
    """A node that was out is out: whoever the shadow had put there waits again, and is placed."""
    out = [(5 * H + EPOCH_MS, 7 * H + EPOCH_MS, NodeState.UNHEALTHY)]
    nodes = [SeenNode(name="n3", gpus=8, gpu_type="h100", out=tuple(out)), NODES[0]]
    found = played(tmp_path, [row("job", 8, 2, 2, 9, "n0")], nodes=nodes)
    assert found.seen.total().paid_milli_ms == found.shadow.statement.total().paid_milli_ms


def test_a_simulated_fleet_is_changed_in_its_file(tmp_path: Path):
    """A journal of a twin, or of a shadow, is refused in words."""
    played(tmp_path, SPREAD)
    with pytest.raises(SpecError, match="what a replay made"):
        api.replay(str(tmp_path / "shadow.sqlite"), Policy(), str(tmp_path / "again.sqlite"))


@pytest.mark.parametrize("seed", range(5))
def test_any_history_is_played_with_what_was_paid_and_who_came(tmp_path: Path, seed: int):
    """The same is paid on both sides, the same jobs are over, and known run times are kept."""
    luck = Random(seed)
    rows, _ = _random_history(luck)
    others = deciders.facts({}, [(f"j{i}", "volcano") for i in range(60) if luck.random() < 0.2])
    out = (
        (EPOCH_MS + 500, EPOCH_MS + 900, luck.choice((NodeState.UNHEALTHY, NodeState.CORDONED))),
    )
    nodes = [*NODES[:3], replace(NODES[3], out=out)]
    where = str(tmp_path / "seen.sqlite")
    api.keep_history(build(rows, nodes, PRICES), where)
    with open_journal(where) as journal:
        for key, value in others.items():
            journal.set_meta(key, value)
        seen = story.read(journal)
    found = api.replay(where, Policy(), str(tmp_path / "shadow.sqlite"))
    assert found.seen.total().paid_money == found.shadow.statement.total().paid_money
    with open_journal(str(tmp_path / "shadow.sqlite")) as journal:
        played = {one.job.name: one for one in story.read(journal).jobs}
    held = deciders.by_job(others, "")
    for one in seen.jobs:
        if one.job.name in held or one.last_run_ms is None:
            continue
        after = played[one.job.name]
        if after.over_ms is not None and not after.is_cancelled:
            assert _worked_ms(after) == _worked_ms(one), one.job.name


def _worked_ms(job: story.SeenJob) -> int:
    return sum(one.run_ms or 0 for one in job.attempts)


def moved(name: str, start: int, stop: int | None, state: NodeState) -> list[SeenNode]:
    """The nodes, one of which took no new work for some hours."""
    end_ms = None if stop is None else EPOCH_MS + stop * H
    out = ((EPOCH_MS + start * H, end_ms, state),)
    return [replace(node, out=out) if node.name == name else node for node in NODES]


@pytest.mark.parametrize("state", [NodeState.DRAINING, NodeState.CORDONED, NodeState.UNHEALTHY])
def test_closed_nodes_are_closed_in_the_shadow(tmp_path: Path, state: NodeState):
    """With the same places, all buckets are the same: what was closed is not free."""
    rows = [row("a", 8, 1, 1, 6, "n0"), row("b", 4, 2, 2, 9, "n1"), row("z", 1, 12, 12, 13, "n0")]
    found = played(tmp_path, rows, nodes=moved("n3", 3, 8, state))
    sides = found.seen.total(), found.shadow.statement.total()
    assert sides[0].milli_ms == sides[1].milli_ms
    bucket = {NodeState.DRAINING: Bucket.DRAINING, NodeState.CORDONED: Bucket.CORDONED}
    assert sides[0].milli_ms[bucket.get(state, Bucket.UNHEALTHY)] == 8_000 * 5 * H


def test_where_the_shadow_works_on_a_closed_node_that_is_said(tmp_path: Path):
    """A job of the shadow sits on the node that is drained: another stands free instead."""
    rows = [
        row("a", 8, 1, 1, 4, "n0"), row("long", 8, 2, 2, 12, "n3"),
        row("wide", 32, 6, None, None, outcome=AttemptEnd.WAITING), row("z", 1, 12, 12, 13, "n0"),
    ]  # fmt: skip
    found = played(tmp_path, rows, nodes=moved("n1", 5, 9, NodeState.DRAINING))
    sides = found.seen, found.shadow.statement
    closed = [comparing.closed_usd_micro(side.total()) for side in sides]
    assert closed == [8 * 4 * 2_000_000, 0]
    said = " ".join(shadow_tables.headline(sides, found.report))
    assert "stood empty for $64.00 as it was, $0.00 with this policy" in said


def test_who_never_starts_is_not_counted_among_those_that_would_have(tmp_path: Path):
    """Of two jobs one is larger than the fleet: one would have started."""
    rows = [
        row("a", 8, 1, 1, 4, "n0"),
        row("never", 640, 2, None, None, outcome=AttemptEnd.WAITING),
    ]
    found = played(tmp_path, rows)
    said = " ".join(shadow_tables.headline((found.seen, found.shadow.statement), found.report))
    assert "of 2 jobs that it decides on, 1 would have started by the end of the books" in said
    assert shadow_tables.counted(found.seen) == []


def test_who_waits_for_something_else_than_gpus_is_said_beside_the_waits(tmp_path: Path):
    """It is not among those that wait, and in no queue wait."""
    held = row("held", 8, 2, None, None, outcome=AttemptEnd.WAITING, is_eligible=False)
    found = played(tmp_path, [row("a", 8, 1, 1, 4, "n0"), held])
    (said,) = shadow_tables.counted(found.seen)
    assert said.startswith("1 job as it was waiting for something else than GPUs")


def test_who_is_held_until_it_is_cancelled_is_left_out_of_the_shadow(tmp_path: Path):
    """It never asked for GPUs: none are given to it, and who came after it starts as it did."""
    held = row("held", 32, 2, None, 9, outcome=AttemptEnd.CANCELLED, is_eligible=False)
    later = row("b", 32, 5, 5, 8, "n0", "n1", "n2", "n3")
    found = played(tmp_path, [row("a", 8, 1, 1, 4, "n0"), held, later])
    assert starts(found) == {"a": 1, "b": 5}
    # with the one that is over at once
    assert "2 jobs never free to be placed: left out" in found.report.notes()


def test_spares_that_were_declared_are_spares_in_the_shadow(tmp_path: Path):
    """As soon as the jobs that the shadow put there are gone: nobody is stopped for it."""
    spare = ((EPOCH_MS + 2 * H, None),)
    nodes = [replace(node, spare=spare if node.name == "n0" else ()) for node in NODES]
    rows = [row("a", 8, 1, 1, 5, "n1"), row("b", 8, 6, 6, 8, "n1"), row("z", 1, 12, 12, 13, "n1")]
    found = played(tmp_path, rows, nodes=nodes)
    spared = [
        side.total().milli_ms[Bucket.BY_DESIGN] for side in (found.seen, found.shadow.statement)
    ]
    assert spared == [8_000 * 11 * H, 8_000 * 8 * H]  # from 2, and from 5 on: "a" went to n0
    assert starts(found) == {"a": 1, "b": 6, "z": 12}


def test_who_is_cancelled_while_it_waits_has_waited_until_then(tmp_path: Path):
    """Not to the end of the books; and the one that the shadow starts is said to be no run time."""
    rows = [row("large", 8, 2, None, 6, outcome=AttemptEnd.CANCELLED), *SPREAD]
    found = played(tmp_path, rows)
    one = next(one for one in found.report.earlier if one.name == "large")
    assert (one.seen_ms, one.shadow_ms, one.change_ms) == (None, 2 * H, -4 * H)
    assert shadow_tables.waited(one, one.seen_ms) == "4h, then cancelled"
    assert found.report.unknown == comparing.UnknownTime(1, 8_000 * 4 * H, 8 * 4 * 2_000_000)


def test_a_policy_that_refuses_work_does_not_look_like_a_win(tmp_path: Path):
    """Half of the jobs never start: that is lost to their quota, and so many hours not worked."""
    rows = [*SPREAD, *(row(f"large{i}", 8, 2, 10, 12, f"n{i}") for i in range(2))]
    where = kept(tmp_path, rows)
    queues = [Queue("a", (Share("H100", limit_milli=4_000),))]
    found = api.replay(where, Policy(), str(tmp_path / "shadow.sqlite"), queues=queues)
    assert found.report.undone == comparing.UndoneWork(2, 2 * 8_000 * 2 * H)
    sides = found.seen, found.shadow.statement
    said = shadow_tables.headline(sides, found.report)
    assert said[0] == (
        "GPU-hours that jobs worked: 68.000 as it was, 36.000 with this policy (modelled);"
        " each of them cost $11.29, and would have cost $21.33"
    )
    assert "$64.00 more lost; and 2 jobs that ended would not have ended by then" in said[1]
    assert "32.000 GPU-hours of work would not be done" in said[1]


def test_each_attempt_comes_up_as_it_was_seen_to(tmp_path: Path):
    """An hour for images at the first try is an hour in the shadow."""
    rows = [row("a", 8, 1, 1, 8, "n0", up_ms=EPOCH_MS + 2 * H), row("z", 1, 12, 12, 13, "n0")]
    found = played(tmp_path, rows)
    sides = found.seen.total(), found.shadow.statement.total()
    assert sides[1].milli_ms[Bucket.STARTING] == 8_000 * H
    assert sides[0].milli_ms == sides[1].milli_ms


def test_pods_of_other_schedulers_and_with_other_constraints_are_noted():
    """Who decides for a job is kept beside its events, unless it is the cluster's own scheduler."""
    spread = {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
                                             "whenUnsatisfiable": "DoNotSchedule"}]}  # fmt: skip
    pods = [made.pod("plain", 1, created=0), made.pod("theirs", 1, created=0),
            made.pod("tied", 1, created=0)]  # fmt: skip
    pods[1]["spec"]["schedulerName"] = "volcano"
    pods[2]["spec"] |= spread
    found = translate.translate(made.taken(made.node("n0"), *pods)).deciders
    names = {name.partition("/")[2]: who for name, who in found.items()}
    assert names["theirs"] == "volcano"
    assert names["tied"].startswith(deciders.UNKEPT)
    assert "plain" not in names


def test_what_the_records_do_not_tell_is_no_zero(tmp_path: Path):
    """A gang that waits is held for in the shadow; of another scheduler's records nobody knows."""
    rows = [row(f"long-{n}", 5, 1, 1, 9, f"n{n}") for n in range(4)]
    rows.append(row("gang", 32, 2, 9, 10, "n0", "n1", "n2", "n3"))
    found = played(tmp_path, rows)
    before, after = found.seen, found.shadow.statement
    told = {b for b in UNTOLD if after.total().milli_ms[b] and not before.total().milli_ms[b]}
    assert told
    unknown = unknowns_of(before), unknowns_of(after)
    table = comparison_tables.buckets(before.total(), after.total(), shadow_tables.NAMES, unknown)
    cells = zip(*(map(str, column.cells) for column in table.columns), strict=True)
    shown = {title.strip(): rest for title, *rest in cells}
    document = difference_document(before, after, shadow_tables.NAMES)["buckets"]
    for b in told:
        first, second, *differences = shown[ABOUT[b].title]
        assert first == "unknown"
        assert second != "unknown"
        assert set(differences) == {"unknown"}
        (change,) = (one for one in document if one["bucket"] == ABOUT[b].key)
        assert change["before_milli_ms"] is change["milli_ms"] is change["usd_micro"] is None
        assert change["after_milli_ms"] == after.total().milli_ms[b]
