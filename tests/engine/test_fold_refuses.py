"""Fold refuses whatever contradicts the World, says why and what to do, and changes nothing."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from tests.builders import (
    NODE,
    RACK,
    cancel,
    contract,
    crash,
    finish,
    fleet,
    job,
    lose_device,
    lose_node,
    move_node,
    node,
    pass_ms,
    place,
    role,
    start,
    submit,
    team,
    teams_share,
)
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.errors import EventRefused
from tidemill.model.figures import DeviceFigure
from tidemill.model.loads import LatencyFigure, LoadFigure
from tidemill.model.reasons import Cause
from tidemill.model.rows import Efficiency, Piece, Queue, Share
from tidemill.model.states import JobClass, NodeState
from tidemill.model.topology import Bond, Topology
from tidemill.model.world import World

NOW_MS = 100
READY, DRAINING, SPARE, BROKEN, UNHEALTHY, GONE = range(6)
RUNS, STARTS, LEAVES, DONE, CANCELLED, FAILED, WAITS, GANG = range(8)
FIRST, LATER, BRIEF = range(3)
WHERE = Piece(0, READY, 1, 0b1000)


def stage() -> World:
    """A World with a node and a job in every interesting state, 100 ms into its story.

    Device 3 of node READY is free; devices 0 to 2 are held by RUNS, STARTS and LEAVES.
    """
    world = fleet(
        contract("first", gpus=24, per_node=4, cpu_milli=8_000, memory_mib=64),
        contract("later", gpus=8, start_ms=200, end_ms=1000),
        contract("brief", gpus=4, per_node=4, end_ms=NOW_MS),
        teams=[team("a")],
    )
    names = ("runs", "starts", "leaves", "done", "cancelled", "failed")
    submit(world, *(job(name, cpu_milli=1_000, memory_mib=8) for name in names))
    submit(world, job("waits", cpu_milli=1_000, memory_mib=8))
    submit(world, job("gang", roles=[role(2), role(1, gpus=2)]))
    for device, name in enumerate(names[:3]):
        place(world, name, Piece(0, READY, 1, 1 << device))
    start(world, "runs", "leaves")
    for name in names[3:]:
        place(world, name, WHERE)
        start(world, name)
        ENDS[name](world, name)
    fold(world, ev.AskedEvict(0, LEAVES, 1, ev.Why.DRAINED))
    fold(world, ev.MixSampled(0))
    move_node(world, DRAINING, NodeState.DRAINING)
    fold(world, ev.AskedSpare(0, SPARE, True))
    lose_device(world, BROKEN, 0)
    lose_node(world, UNHEALTHY)
    fold(world, ev.AskedRepair(0, UNHEALTHY))
    move_node(world, GONE, NodeState.GONE)
    pass_ms(world, NOW_MS)
    fold(world, ev.ContractEnded(NOW_MS, BRIEF))
    return world


ENDS: dict[str, Callable[[World, str], None]] = {
    "done": finish,
    "cancelled": cancel,
    "failed": partial(crash, is_final=True),
}


def submitted(**asked: object) -> ev.JobSubmitted:
    return ev.JobSubmitted(NOW_MS, job(**{"name": "new", **asked}))  # type: ignore[arg-type]


def placed(*pieces: Piece, job: int = WAITS, attempt: int = 1) -> ev.AskedPlace:
    return ev.AskedPlace(NOW_MS, job, attempt, pieces)


def signed(**asked: object) -> ev.ContractSigned:
    return ev.ContractSigned(NOW_MS, contract(**{"name": "new", **asked}))  # type: ignore[arg-type]


def moved(n: int, to: NodeState) -> ev.NodeMoved:
    return ev.NodeMoved(NOW_MS, n, to)


def shifted(
    j: int, gained: Piece = WHERE, lost: Piece | None = None, to_job: int = -1
) -> ev.AskedMove:
    lost = lost or Piece(0, READY, 1, 1 << j)
    return ev.AskedMove(NOW_MS, j, 1, ev.Why.MOVED, (gained,), (lost,), to_job)


LIMITED = Queue("a", (Share("H100", floor_milli=9000, limit_milli=8000),))
TWICE = Queue("a", (Share("H100"), Share("H100", floor_milli=1)))
GREEDY = Efficiency(mfu_ppm=600_000, host_ppm=300_000, links_ppm=200_000)

CASES: dict[str, tuple[ev.Event, str]] = {
    # the clock
    "clock backwards": (ev.Woke(NOW_MS - 1), "before the 100 ms already seen"),
    # contracts and teams
    "contract signed twice": (signed(name="first"), "`first` is signed twice"),
    "contract without end after start": (signed(start_ms=5, end_ms=5), "not after its start"),
    "count that leaves half a node": (signed(gpus=12), "12 accelerators on nodes of 8"),
    "more spares than nodes": (signed(gpus=8, spares=2), "2 nodes of them spare"),
    "unknown contract starts": (ev.ContractStarted(NOW_MS, 9), "only 3 were signed"),
    "negative contract": (ev.ContractStarted(NOW_MS, -1), "only 3 were signed"),
    "contract starts early": (ev.ContractStarted(NOW_MS, LATER), "cannot start now"),
    "contract starts twice": (ev.ContractStarted(NOW_MS, FIRST), "cannot start now"),
    "contract starts after its end": (ev.ContractStarted(NOW_MS, BRIEF), "cannot start now"),
    "contract ends that does not run": (ev.ContractEnded(NOW_MS, LATER), "it is not running"),
    "unknown contract ends": (ev.ContractEnded(NOW_MS, 9), "only 3 were signed"),
    "unknown commitment": (ev.CommitmentSeen(NOW_MS, 9, 8_000), "only 3 were signed"),
    "commitment that does not run": (ev.CommitmentSeen(NOW_MS, LATER, 8_000), "is not running"),
    "commitment of a contract with nodes of its own": (
        ev.CommitmentSeen(NOW_MS, FIRST, 8_000),
        "it says itself what it pays for",
    ),
    "launch under no contract": (ev.AskedLaunch(NOW_MS, 9, 1), "only 3 were signed"),
    "floor above limit": (
        ev.QueueSet(NOW_MS, LIMITED),
        "guaranteed 9 GPUs of `H100`, above its maximum quota of 8",
    ),
    "two shares of a kind": (ev.QueueSet(NOW_MS, TWICE), "two quotas for one GPU type"),
    "tiers out of order": (ev.TopologySet(NOW_MS, Topology((NODE, RACK))), "are not in order"),
    "a tier twice": (ev.TopologySet(NOW_MS, Topology((RACK, RACK))), "twice"),
    # nodes
    "node added twice": (ev.NodeAdded(NOW_MS, node("first-0", contract="first")), "added twice"),
    "node of nobody": (ev.NodeAdded(NOW_MS, node(contract="x")), "which nobody signed"),
    "node before its contract": (ev.NodeAdded(NOW_MS, node(contract="later")), "is not running"),
    "node after its contract": (ev.NodeAdded(NOW_MS, node(contract="brief")), "is not running"),
    "unknown node moves": (moved(99, NodeState.READY), "only 7 were added"),
    "negative node moves": (moved(-1, NodeState.READY), "only 7 were added"),
    "illegal move": (moved(READY, NodeState.BOOTING), "cannot go from ready to booting"),
    "move after the end": (moved(GONE, NodeState.READY), "cannot go from gone"),
    "move to the same state": (moved(READY, NodeState.READY), "from ready to ready"),
    "device that is not there": (ev.DeviceFailed(NOW_MS, READY, 4), "no such device"),
    "negative device": (ev.DeviceFailed(NOW_MS, READY, -1), "no such device"),
    "device of a node that is gone": (ev.DeviceFailed(NOW_MS, GONE, 0), "no such device"),
    "device of an unknown node": (ev.DeviceFailed(NOW_MS, 99, 0), "only 7 were added"),
    "device fails twice": (ev.DeviceFailed(NOW_MS, BROKEN, 0), "failed already"),
    "device that works is repaired": (ev.DeviceRepaired(NOW_MS, READY, 0), "it has not failed"),
    "repair of a device that is not there": (
        ev.DeviceRepaired(NOW_MS, BROKEN, 4),
        "no such device",
    ),
    "repair of a node at work": (ev.AskedRepair(NOW_MS, READY), "still carries work"),
    "repair of a healthy node": (ev.AskedRepair(NOW_MS, SPARE), "it is ready"),
    "repair asked twice": (ev.AskedRepair(NOW_MS, UNHEALTHY), "asked for already"),
    "return of a node at work": (ev.AskedReturn(NOW_MS, READY), "still carries work"),
    "return of a node that is gone": (ev.AskedReturn(NOW_MS, GONE), "it is gone"),
    "drain of a node that drains": (
        ev.AskedDrain(NOW_MS, DRAINING, ev.Why.MAINTENANCE, NOW_MS),
        "cannot be drained now",
    ),
    "spare that carries work": (ev.AskedSpare(NOW_MS, READY, True), "cannot be a spare"),
    # jobs
    "job submitted twice": (submitted(name="runs"), "`runs` is submitted twice"),
    "job of an unknown team": (submitted(team="z"), "known teams: `a`"),
    "fraction of several devices": (submitted(gpus=2, milli=500), "a fraction is of one device"),
    "fraction of no device": (submitted(gpus=0, milli=500), "a fraction is of one device"),
    "more than all of its time": (submitted(efficiency=GREEDY), "above one whole"),
    "unknown job": (ev.JobStarted(NOW_MS, 99, 1), "job number 99 is unknown"),
    "negative job": (ev.JobCancelled(NOW_MS, -1), "job number -1 is unknown"),
    "start of one that waits": (ev.JobStarted(NOW_MS, WAITS, 0), "it is waiting, not starting"),
    "double start": (ev.JobStarted(NOW_MS, RUNS, 1), "it is running, not starting"),
    "start of another attempt": (ev.JobStarted(NOW_MS, STARTS, 2), "attempt 2 is meant"),
    "finish before the start": (ev.JobFinished(NOW_MS, STARTS, 1), "not running"),
    "double finish": (ev.JobFinished(NOW_MS, DONE, 1), "it is done"),
    "finish of another attempt": (ev.JobFinished(NOW_MS, RUNS, 0), "attempt 0 is meant"),
    "crash of one that waits": (ev.JobFailed(NOW_MS, WAITS, 0), "it is waiting"),
    "crash after the end": (ev.JobFailed(NOW_MS, FAILED, 1), "it is failed"),
    "eviction nobody asked for": (ev.JobEvicted(NOW_MS, RUNS, 1), "it was not asked to stop"),
    "eviction of one that waits": (ev.JobEvicted(NOW_MS, WAITS, 0), "it is waiting"),
    "cancelled twice": (ev.JobCancelled(NOW_MS, CANCELLED), "it is cancelled"),
    "activity before the start": (ev.ActivitySeen(NOW_MS, STARTS, 1, 0), "not running"),
    "activity of another attempt": (ev.ActivitySeen(NOW_MS, RUNS, 2, 0), "attempt 2 is meant"),
    "pace before the start": (ev.PaceSeen(NOW_MS, STARTS, 1, 0), "not running"),
    "pace of another attempt": (ev.PaceSeen(NOW_MS, RUNS, 2, 0), "attempt 2 is meant"),
    "save before the start": (ev.JobSaved(NOW_MS, STARTS, 1), "not running"),
    "save of another attempt": (ev.JobSaved(NOW_MS, RUNS, 2), "attempt 2 is meant"),
    "save of one that never saves": (ev.JobSaved(NOW_MS, RUNS, 1), "never writes a checkpoint"),
    "asked to leave twice": (ev.AskedEvict(NOW_MS, LEAVES, 1, ev.Why.DRAINED), "leave already"),
    "asked to leave while waiting": (ev.AskedEvict(NOW_MS, WAITS, 0, ev.Why.DRAINED), "waiting"),
    "room for one that runs": (
        ev.AskedEvict(NOW_MS, RUNS, 1, ev.Why.PREEMPTED, STARTS),
        "for whom it should leave, is not waiting",
    ),
    "room for nobody known": (
        ev.AskedEvict(NOW_MS, RUNS, 1, ev.Why.PREEMPTED, 99),
        "for whom it should leave, is not waiting",
    ),
    "cancelling one that leaves": (ev.AskedCancel(NOW_MS, LEAVES, ev.Why.IDLE), "leave already"),
    "cancelling one that is done": (ev.AskedCancel(NOW_MS, DONE, ev.Why.IDLE), "it is done"),
    "seen on a device that is held": (
        ev.PlacementSeen(NOW_MS, WAITS, 1, (Piece(0, READY, 1, 1),)),
        "it is not free",
    ),
    "seen on a node that is gone": (
        ev.PlacementSeen(NOW_MS, WAITS, 1, (Piece(0, GONE, 1, 1),)),
        "it is gone",
    ),
    "another request of a job that runs": (
        ev.RequestChanged(NOW_MS, RUNS, job().shape),
        "it is running, not waiting or cancelled",
    ),
    "another request of one that is done": (
        ev.RequestChanged(NOW_MS, DONE, job().shape),
        "it is done, not waiting or cancelled",
    ),
    "another request of another class": (
        ev.RequestChanged(NOW_MS, WAITS, job(kind=JobClass.INFERENCE).shape),
        "it is training, and would be inference",
    ),
    "another request of an unknown team": (
        ev.RequestChanged(NOW_MS, WAITS, job(team="nobody").shape),
        "known teams: `a`",
    ),
    "reason of a job that runs": (
        ev.ReasonSeen(NOW_MS, RUNS, Cause.BUSY, 3, "Resources"),
        "it is running, not waiting",
    ),
    "stalls before the start": (ev.StallsSeen(NOW_MS, STARTS, 1, 0, 0, 0), "not running"),
    "efficiency of another attempt": (ev.EfficiencySeen(NOW_MS, RUNS, 2, 1), "attempt 2 is meant"),
    "slow ranks before the start": (ev.StragglerSeen(NOW_MS, STARTS, 1, 0), "not running"),
    "figures before the start": (
        ev.FigureSeen(NOW_MS, STARTS, 1, DeviceFigure.WATTS, 0),
        "not running",
    ),
    "load before the start": (
        ev.LoadSeen(NOW_MS, STARTS, 1, LoadFigure.REQUESTS, 0),
        "not running",
    ),
    "host use of another attempt": (
        ev.HostUseSeen(NOW_MS, RUNS, 2, 1, 2, -1),
        "attempt 2 is meant",
    ),
    "latencies of another attempt": (
        ev.LatencySeen(NOW_MS, RUNS, 2, LatencyFigure.WHOLE, 1_000, 1),
        "attempt 2 is meant",
    ),
    "an error of no node": (ev.DeviceErrorSeen(NOW_MS, 99, 0, 79), "were added"),
    "safe before it is done": (ev.CheckpointSeen(NOW_MS, RUNS, 1, NOW_MS + 1), "safe yet"),
    "sight lost before": (ev.SightLost(NOW_MS - 1), "before the 100 ms already seen"),
    "sight of what is seen": (ev.SightRegained(NOW_MS), "watches already"),
    "release of no promise": (ev.AskedRelease(NOW_MS, 0), "nothing is promised"),
    "a half-life that is no news": (ev.HalfLifeSet(NOW_MS, 0), "is 0 ms already"),
    "a mix of nothing new": (ev.MixSampled(NOW_MS), "no more have since arrived"),
    "passed while it runs": (ev.JobPassed(NOW_MS, RUNS), "it is running, not waiting"),
    "passed, and nobody knows it": (ev.JobPassed(NOW_MS, 99), "99"),
    "cause of an unknown shape": (ev.CauseChanged(NOW_MS, 99, Cause.BUSY), "99 is unknown"),
    "cause of a negative shape": (ev.CauseChanged(NOW_MS, -1, Cause.BUSY), "-1 is unknown"),
    # placements
    "placed twice": (placed(WHERE, job=RUNS, attempt=2), "it is running, not waiting"),
    "placed as another attempt": (placed(WHERE, attempt=2), "attempt 2 is meant"),
    "placed nowhere": (placed(), "placed with [0] replicas"),
    "placed on an unknown node": (placed(Piece(0, 99, 1, 1)), "there are 7 nodes"),
    "placed on a negative node": (placed(Piece(0, -1, 1, 1)), "there are 7 nodes"),
    "placed in an unknown role": (placed(Piece(1, READY, 1, 8)), "it has 1 roles"),
    "placed in a negative role": (placed(Piece(-1, READY, 1, 8)), "it has 1 roles"),
    "placed on a device in use": (placed(Piece(0, READY, 1, 1)), "device 0; it is not free"),
    "placed on a failed device": (placed(Piece(0, BROKEN, 1, 1)), "device 0; it is not free"),
    "placed on a draining node": (placed(Piece(0, DRAINING, 1, 1)), "takes no new work"),
    "placed on a spare": (placed(Piece(0, SPARE, 1, 1)), "it is a spare"),
    "placed on a sick node": (placed(Piece(0, UNHEALTHY, 1, 1)), "it is unhealthy"),
    "device beyond the node": (placed(Piece(0, READY, 1, 16)), "devices are meant"),
    "negative mask": (placed(Piece(0, READY, 1, -1)), "devices are meant"),
    "too many devices": (placed(Piece(0, BROKEN, 1, 6)), "devices are meant"),
    "no replicas": (placed(Piece(0, READY, 0, 0)), "devices are meant"),
    "more replicas than the role": (placed(WHERE, Piece(0, BROKEN, 1, 2)), "[2] replicas"),
    "one device for two roles": (
        placed(Piece(0, BROKEN, 2, 6), Piece(1, BROKEN, 1, 12), job=GANG),
        "device 2; it is not free",
    ),
    "moved but not running": (shifted(STARTS), "it is starting, not running"),
    "moved but leaving": (shifted(LEAVES), "it was asked to leave already"),
    "moved to what is taken": (shifted(RUNS, gained=Piece(0, READY, 1, 2)), "it is not free"),
    "moved off what it does not hold": (
        shifted(RUNS, lost=Piece(0, READY, 1, 4)),
        "does not hold what it is asked to leave",
    ),
    "shrunk though it is not elastic": (
        ev.AskedMove(NOW_MS, RUNS, 1, ev.Why.SHRUNK, (), (Piece(0, READY, 1, 1),)),
        "[0] replicas",
    ),
    "moved for one that does not wait": (shifted(RUNS, to_job=DONE), "is not waiting"),
    "has moved though nobody asked": (ev.JobMoved(NOW_MS, RUNS, 1), "nobody asked it to move"),
    "least above the count": (submitted(roles=[role(2, least=3)]), "works with 3 replicas"),
    "two elastic roles": (
        submitted(roles=[role(2, least=1), role(2, least=1)]),
        "has 2 elastic roles",
    ),
    "a speed-up of nothing elastic": (submitted(speedup=[(1, 500_000)]), "has 0 elastic roles"),
    "elastic and tied": (
        submitted(roles=[replace(role(3, least=1), bonds=(Bond("node"),))]),
        "must sit together in one way",
    ),
    "a speed-up that falls": (
        submitted(roles=[role(3, least=1)], speedup=[(1, 500_000), (2, 400_000)]),
        "does not rise",
    ),
    "partial gang": (placed(Piece(0, BROKEN, 2, 6), job=GANG), "[2, 0] replicas"),
    "gang short of a replica": (
        placed(Piece(0, READY, 1, 8), Piece(1, BROKEN, 1, 6), job=GANG),
        "[1, 1] replicas",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_contradiction_is_refused_and_changes_nothing(case: str):
    """The event is refused with what was asked, what was found and a hint; no byte changes."""
    world = stage()
    event, message = CASES[case]
    before = snapshot.dump(world)
    with pytest.raises(EventRefused) as refusal:
        fold(world, event)
    assert message in refusal.value.message
    assert refusal.value.hint
    assert snapshot.dump(world) == before


def test_every_kind_of_event_is_refused_somewhere():
    """The table of contradictions has a row for every kind of event that can contradict."""
    kinds = {type(event) for event, _ in CASES.values()}
    assert kinds == set(ev.Event.__args__)


def test_cpu_and_memory_cannot_be_over_committed():
    """Pieces that together ask for more CPU or memory than a node has left are refused."""
    world = stage()
    hungry: dict[str, dict[str, Any]] = {"cpu": {"cpu_milli": 3_000}, "memory": {"memory_mib": 30}}
    for name, asked in hungry.items():
        two = [role(1, gpus=0, **asked), role(1, gpus=0, **asked)]
        submit(world, job(name, roles=two))
        before, j = snapshot.dump(world), world.job_number[name]
        pieces = (Piece(0, READY, 1, 0), Piece(1, READY, 1, 0))
        with pytest.raises(EventRefused, match="CPU-milli and"):
            fold(world, ev.AskedPlace(NOW_MS, j, 1, pieces))
        assert snapshot.dump(world) == before


def test_a_fraction_cannot_be_over_committed():
    """Three shares of 400 milli do not fit on one device; two do."""
    world = stage()
    submit(world, job("two", roles=[role(2, milli=400)]), job("one", milli=400))
    place(world, "two", WHERE, WHERE)
    before = snapshot.dump(world)
    with pytest.raises(EventRefused, match="400 milli of `first-0` device 3"):
        place(world, "one", WHERE)
    assert snapshot.dump(world) == before


def test_a_contract_is_not_launched_beyond_its_count():
    """One node more than the contract pays for is refused."""
    world = fleet(nodes=2)
    with pytest.raises(EventRefused, match="is one more than contract `c` pays for"):
        fold(world, ev.NodeAdded(0, node("extra")))


def test_shares_of_kinds_that_nobody_has_are_welcome():
    """A team may be owed a kind before it exists."""
    world = fleet(nodes=1)
    fold(world, ev.QueueSet(0, teams_share("b", B200=(8, 16))))
    assert world.kinds == ["H100", "B200"]
