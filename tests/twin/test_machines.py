"""The lives of the twin's nodes."""

from collections import Counter

import pytest

from tests.twin import greedy
from tests.twin.builders import TEAM, contract, job
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS
from tidemill.model.states import NodeState, Terms
from tidemill.twin.backend import Twin
from tidemill.twin.faults import INFINITEHBD_REPAIR, FaultAt, Faults, LogNormal, Quantiles


def moves(journal, n=None):
    found = [e for e in journal if isinstance(e, ev.NodeMoved) and n in (None, e.node)]
    return [(e.at_ms, e.to.name.lower(), str(e.why)) for e in found]


def test_a_broken_node_is_repaired_boots_and_is_ready():
    """A fault is followed by repair, boot and ready, each after its own time."""
    faults = Faults(schedule=(FaultAt(HOUR_MS, 0, 2 * HOUR_MS),), boot=LogNormal(MINUTE_MS))
    _, journal = greedy.run(Twin([contract(count=8)], [TEAM], [], faults=faults))
    assert moves(journal)[2:] == [
        (HOUR_MS, "unhealthy", "node lost"),
        (HOUR_MS, "repairing", ""),
        (3 * HOUR_MS, "booting", "repaired"),
        (3 * HOUR_MS + MINUTE_MS, "ready", ""),
    ]


def test_a_fault_of_a_node_that_is_not_there_does_not_happen():
    """Scheduled faults of nodes that were never launched or are down already are dropped."""
    down = (FaultAt(HOUR_MS, 0, DAY_MS), FaultAt(2 * HOUR_MS, 0, 1), FaultAt(HOUR_MS, 99, 1))
    _, journal = greedy.run(Twin([contract(count=8)], [TEAM], [], faults=Faults(schedule=down)))
    assert sum(to == "unhealthy" for _, to, _ in moves(journal)) == 1


def test_faults_come_at_their_rate_and_share():
    """125 nodes for 400 days at 4 per 1,000 node-days: about 200 faults, a quarter of devices."""
    faults = Faults(node_rate=4.0, device_share=0.25)
    fleet = [contract(count=1000)]
    twin = Twin(fleet, [TEAM], [], faults=faults, horizon_ms=400 * DAY_MS, seed=1)
    _, journal = greedy.run(twin)
    nodes = sum(to == "unhealthy" for _, to, _ in moves(journal))
    devices = sum(isinstance(e, ev.DeviceFailed) for e in journal)
    assert nodes + devices == pytest.approx(200, rel=0.2)
    assert devices / (nodes + devices) == pytest.approx(0.25, abs=0.08)


def test_a_repaired_node_has_all_its_devices_again():
    """After the repair of a failed device the whole node is free."""
    faults = Faults(node_rate=200.0, device_share=1.0)
    twin = Twin([contract(count=8)], [TEAM], [], faults=faults, horizon_ms=30 * DAY_MS, seed=2)
    world, journal = greedy.run(twin)
    assert any(isinstance(e, ev.DeviceFailed) for e in journal)
    assert world.nodes.failed[0] == 0
    assert world.nodes.free_milli[0] == 8000


def test_spot_nodes_are_taken_back_with_notice():
    """A spot node drains with a deadline and is gone at it; its successor has a new name."""
    faults = Faults(reclaim_rate=500.0, notice_ms=2 * MINUTE_MS)
    fleet = [contract("s", count=8, terms=Terms.SPOT)]
    twin = Twin(fleet, [TEAM], [(0, job(), 9 * DAY_MS)], faults=faults, horizon_ms=9 * DAY_MS)
    _, journal = greedy.run(twin)
    notices = [e for e in journal if isinstance(e, ev.NodeMoved) and e.to is NodeState.DRAINING]
    assert notices
    first = notices[0]
    assert first.deadline_ms == first.at_ms + 2 * MINUTE_MS
    assert (first.deadline_ms, "gone", "spot reclaim") in moves(journal, first.node)
    names = [e.node.name for e in journal if isinstance(e, ev.NodeAdded)]
    assert names[:2] == ["s-0001", "s-0002"]


def test_reserved_nodes_are_never_reclaimed():
    """The reclaim rate is of spot nodes only."""
    faults = Faults(reclaim_rate=5000.0)
    twin = Twin([contract()], [TEAM], [], faults=faults, horizon_ms=9 * DAY_MS)
    assert not any(to == "draining" for _, to, _ in moves(greedy.run(twin)[1]))


def test_maintenance_cordons_and_lets_go():
    """A cordoned node is ready again after its maintenance, and its work was not touched."""
    faults = Faults(maintenance_rate=500.0, maintenance=LogNormal(3 * HOUR_MS))
    twin = Twin(
        [contract(count=8)], [TEAM], [(0, job(), 5 * DAY_MS)], faults=faults, horizon_ms=9 * DAY_MS
    )
    _, journal = greedy.run(twin)
    cordons = [at for at, to, _ in moves(journal) if to == "cordoned"]
    assert cordons
    assert (cordons[0] + 3 * HOUR_MS, "ready", "") in moves(journal)
    assert sum(isinstance(e, ev.JobStarted) for e in journal) == 1


def test_a_spare_that_was_put_to_use_is_replaced_by_another():
    """A new node takes the part that is missing: work first, then spares."""
    faults = Faults(reclaim_rate=300.0, notice_ms=MINUTE_MS)
    fleet = [contract("s", count=32, spares=1, terms=Terms.SPOT)]
    twin = Twin(fleet, [TEAM], [], faults=faults, horizon_ms=60 * DAY_MS)
    world, journal = greedy.run(twin)
    alive = [n for n in range(world.node_count) if world.nodes.state[n] != NodeState.GONE]
    assert len(alive) <= 4
    assert sum(int(world.nodes.is_spare[n]) for n in alive) == 1
    assert sum(isinstance(e, ev.NodeAdded) for e in journal) > 4


def test_a_node_meets_the_same_first_fault_whatever_else_is_there():
    """Faults follow the node's name: another contract before it changes nothing."""
    faults = Faults(node_rate=50.0)

    def first_fault(fleet):
        twin = Twin(fleet, [TEAM], [], faults=faults, horizon_ms=99 * DAY_MS, seed=5)
        _, journal = greedy.run(twin)
        names = [e.node.name for e in journal if isinstance(e, ev.NodeAdded)]
        downs = [e for e in journal if isinstance(e, ev.NodeMoved) and e.to is NodeState.UNHEALTHY]
        return next(e.at_ms for e in downs if names[e.node] == "h-0001")

    assert first_fault([contract("h")]) == first_fault([contract("a"), contract("h")])


def test_repairs_are_as_long_as_published():
    """InfiniteHBD: median 0.85 d, p90 13.0 d, mean 5.5 d (here within 5 %)."""
    days = [INFINITEHBD_REPAIR.at_quantile((i + 0.5) / 20_000) / DAY_MS for i in range(20_000)]
    assert days[10_000] == pytest.approx(0.85, rel=0.01)
    assert days[18_000] == pytest.approx(13.0, rel=0.01)
    assert sum(days) / len(days) == pytest.approx(5.5, rel=0.05)


def test_delays_rise_with_their_quantile():
    """A delay never exceeds its longest, and bad luck is never quicker than good luck."""
    for delay in (
        LogNormal(HOUR_MS, 1.0, 5 * HOUR_MS),
        LogNormal(HOUR_MS),
        LogNormal(0),
        Quantiles(((0.0, 1), (0.5, 10), (1.0, 100))),
        INFINITEHBD_REPAIR,
    ):
        found = [delay.at_quantile(i / 100) for i in range(101)]
        assert found == sorted(found)
    assert LogNormal(HOUR_MS, 1.0, 5 * HOUR_MS).at_quantile(1.0) <= 5 * HOUR_MS


def test_counts_of_moves_add_up():
    """Every node that breaks is repaired or gone or still broken at the end."""
    faults = Faults(node_rate=40.0, repair=LogNormal(DAY_MS, 1.0), boot=LogNormal(MINUTE_MS, 0.2))
    twin = Twin([contract(count=160)], [TEAM], [], faults=faults, horizon_ms=60 * DAY_MS)
    world, journal = greedy.run(twin)
    counts = Counter(to for _, to, _ in moves(journal))
    down = sum(int(s) == NodeState.REPAIRING for s in world.nodes.state[:20])
    assert counts["unhealthy"] == counts["repairing"]
    assert counts["booting"] == 20 + counts["repairing"] - down
