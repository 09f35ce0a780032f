"""The twin as a backend: what it answers, and when."""

import pytest

from tests.twin import greedy
from tests.twin.builders import TEAM, contract, job
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.errors import SpecError
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.twin.faults import Faults, LogNormal

SECOND = 1000


def of_kind(journal, kind):
    return [event for event in journal if isinstance(event, kind)]


def test_the_first_page_is_contracts_teams_and_starts():
    """At time 0 contracts are signed in order, teams set, and contracts that begin have begun."""
    twin = Twin([contract("a"), contract("b", start_ms=5)], [TEAM], [])
    world = World()
    assert [type(event).__name__ for event in twin.take(world)] == [
        "ContractSigned",
        "ContractSigned",
        "QueueSet",
        "ContractStarted",
    ]
    assert twin.next_ms() == 5


def test_a_job_starts_after_its_start_up_and_ends_when_its_work_is_done():
    """Placed at 0: started after start-up, finished after work and checkpoints but the last."""
    a = job(startup_ms=30 * SECOND, every_ms=60 * SECOND, cost_ms=5 * SECOND)
    _, journal = greedy.run(Twin([contract()], [TEAM], [(0, a, 150 * SECOND)]))
    assert of_kind(journal, ev.JobStarted) == [ev.JobStarted(30 * SECOND, 0, 1)]
    assert of_kind(journal, ev.JobFinished) == [ev.JobFinished(190 * SECOND, 0, 1)]


def test_a_restart_costs_more_and_keeps_what_was_saved():
    """Evicted after two checkpoints, the second attempt pays the restart and does only the rest."""
    a = job(startup_ms=10 * SECOND, restart_ms=20 * SECOND, every_ms=60 * SECOND)
    wake = job("b")
    twin = Twin([contract(count=8)], [TEAM], [(0, a, 300 * SECOND), (140 * SECOND, wake, 1)])

    def plan(world):
        if world.now_ms == 140 * SECOND and world.jobs.attempt[0] == 1 and 0 in world.placements:
            yield ev.AskedEvict(world.now_ms, 0, 1, ev.Why.PREEMPTED)
        elif world.now_ms != 140 * SECOND or not world.leaving_for:
            yield from greedy.decide(world)

    _, journal = greedy.run(twin, plan)
    starts = of_kind(journal, ev.JobStarted)
    assert [s for s in starts if s.job == 0] == [
        ev.JobStarted(10 * SECOND, 0, 1),
        ev.JobStarted(170 * SECOND, 0, 2),
    ]
    # 130 s of running saved 120 of the 300; the first attempt's own end at 310 s never came.
    ends = [end for end in of_kind(journal, ev.JobFinished) if end.job == 0]
    assert ends == [ev.JobFinished(350 * SECOND, 0, 2)]


def test_an_eviction_takes_its_grace():
    """The evicted job leaves after the grace; one that ends within it has simply ended."""
    for work_ms, expected in ((60 * SECOND, ev.JobEvicted), (25 * SECOND, ev.JobFinished)):
        coming = [(0, job("a"), work_ms), (20 * SECOND, job("b"), 1)]
        twin = Twin([contract()], [TEAM], coming, faults=Faults(evict_ms=10 * SECOND))

        def plan(world):
            if world.now_ms == 20 * SECOND and 0 in world.placements and not world.leaving_for:
                yield ev.AskedEvict(world.now_ms, 0, 1, ev.Why.PREEMPTED)
            yield from greedy.decide(world)

        _, journal = greedy.run(twin, plan)
        ends = [e for e in journal if isinstance(e, ev.JobEvicted | ev.JobFinished) and e.job == 0]
        assert isinstance(ends[0], expected)
        assert ends[0].at_ms == min(work_ms, 30 * SECOND)


def test_a_cancelled_job_is_gone_for_good():
    """AskedCancel is answered at once; what was scheduled for the job never happens."""
    twin = Twin([contract()], [TEAM], [(0, job("a"), HOUR_MS), (60 * SECOND, job("b"), 1)])

    def plan(world):
        if world.now_ms == 60 * SECOND and 0 in world.placements and not world.leaving_for:
            yield ev.AskedCancel(world.now_ms, 0, ev.Why.IDLE)
        yield from greedy.decide(world)

    world, journal = greedy.run(twin, plan)
    assert world.jobs.state[0] == JobState.CANCELLED
    assert [end.job for end in of_kind(journal, ev.JobFinished)] == [1]


def test_launched_nodes_have_names_racks_and_spares():
    """Nodes are named after their contract and sit in racks; the last ones are the spares."""
    twin = Twin([contract("h", count=40, spares=2)], [TEAM], [], nodes_per={"h": {"rack": 2}})
    world, journal = greedy.run(twin)
    nodes = [event.node for event in of_kind(journal, ev.NodeAdded)]
    assert [node.name for node in nodes] == ["h-0001", "h-0002", "h-0003", "h-0004", "h-0005"]
    racks = [dict(node.labels)["rack"] for node in nodes]
    assert racks == ["h-001", "h-001", "h-002", "h-002", "h-003"]
    assert [node.is_spare for node in nodes] == [False, False, False, True, True]
    assert [NodeState(s) for s in world.nodes.state[:5].tolist()] == [NodeState.READY] * 5


def test_no_more_is_launched_than_is_paid_for():
    """A launch beyond the contract, or of a contract that has not begun, gives what there is."""
    twin = Twin([contract("a", count=16), contract("b", start_ms=HOUR_MS)], [TEAM], [])
    world = World()
    for event in twin.take(world):
        fold(world, event)
    twin.carry_out(world, ev.Plan((ev.AskedLaunch(0, 0, 99), ev.AskedLaunch(0, 1, 1))))
    seen = twin.take(world)
    assert [e.node.contract for e in seen if isinstance(e, ev.NodeAdded)] == ["a", "a"]


def test_booting_takes_its_time():
    """A node is ready when its boot is over, not before."""
    faults = Faults(boot=LogNormal(5 * MINUTE_MS))
    _, journal = greedy.run(Twin([contract(count=8)], [TEAM], [], faults=faults))
    moves = [(e.at_ms, e.to) for e in of_kind(journal, ev.NodeMoved)]
    assert moves == [(0, NodeState.BOOTING), (5 * MINUTE_MS, NodeState.READY)]


def test_the_end_of_a_contract_takes_its_nodes():
    """After the end nothing happens to the nodes any more, and what ran there waits."""
    faults = Faults(node_rate=1000, boot=LogNormal(MINUTE_MS))
    twin = Twin(
        [contract(end_ms=HOUR_MS)],
        [TEAM],
        [(0, job(), 99 * HOUR_MS)],
        faults=faults,
        horizon_ms=HOUR_MS * 99,
    )
    world, journal = greedy.run(twin)
    assert isinstance(next(e for e in journal if e.at_ms == HOUR_MS), ev.ContractEnded)
    assert not [e for e in of_kind(journal, ev.NodeMoved) if e.at_ms > HOUR_MS]
    assert world.jobs.state[0] == JobState.WAITING


def test_a_plan_is_woken_once_at_the_earliest_moment_it_asked_for():
    """Of several wakes the earliest counts; none comes when something else happens then."""
    twin = Twin([], [TEAM], [(50, job(), 1)], horizon_ms=100)
    world = World()
    for event in twin.take(world):
        fold(world, event)
    twin.carry_out(world, ev.Plan((), wake_at_ms=30))
    twin.carry_out(world, ev.Plan((), wake_at_ms=20))
    twin.carry_out(world, ev.Plan((), wake_at_ms=25))
    assert twin.next_ms() == 20
    assert twin.take(world) == [ev.Woke(20)]
    twin.carry_out(world, ev.Plan((), wake_at_ms=50))
    assert [type(e) for e in twin.take(world)] == [ev.JobSubmitted]


def test_a_wake_that_is_due_comes_at_once():
    """A plan that asks to be woken now, or in the past, is woken at the same moment, once."""
    twin = Twin([], [TEAM], [(40, job(), 1)], horizon_ms=100)
    world = World()
    for _ in range(2):
        for event in twin.take(world):
            fold(world, event)
    twin.carry_out(world, ev.Plan((), wake_at_ms=30))
    assert twin.take(world) == [ev.Woke(40)]
    assert twin.next_ms() == 100


def test_the_story_ends_at_the_horizon_with_a_look_at_the_clock():
    """Nothing after the horizon is told; the last event is at the horizon itself."""
    twin = Twin([contract()], [TEAM], [(0, job(), HOUR_MS)], horizon_ms=MINUTE_MS)
    world, journal = greedy.run(twin)
    assert world.now_ms == MINUTE_MS
    assert journal[-1] == ev.Woke(MINUTE_MS)


def test_a_list_of_arrivals_is_sorted_and_a_stream_must_be():
    """Lists may come in any order; a stream that goes back in time is refused by name."""
    coming = [(9, job("late"), 1), (3, job("early"), 1)]
    _, journal = greedy.run(Twin([contract()], [TEAM], coming))
    assert [e.job.name for e in of_kind(journal, ev.JobSubmitted)] == ["early", "late"]
    with pytest.raises(SpecError, match="job `early` arrives at 3 ms, after one at 9 ms"):
        greedy.run(Twin([contract()], [TEAM], iter(coming)))


def test_endless_faults_need_a_horizon():
    """Faults never run out, so a twin with faults and no horizon is refused."""
    with pytest.raises(SpecError, match="needs a horizon"):
        Twin([contract()], [TEAM], [], faults=Faults(node_rate=1))
