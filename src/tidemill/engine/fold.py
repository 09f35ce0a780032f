"""``fold(world, event)``: the only writer of the World.

An event that contradicts the World is refused before anything is changed. The fold returns the jobs
whose life the event changed, so that a reader (the ledger) needs no second dispatch. Supply events
are in ``fold_supply``, teams in ``fold_queues``, job events in ``fold_jobs``, where things are in
``fold_topology``.
"""

from collections.abc import Iterable
from typing import assert_never

from tidemill.engine import fold_jobs, fold_mix, fold_queues, fold_supply, fold_topology
from tidemill.model import events as ev
from tidemill.model.errors import EventRefused
from tidemill.model.world import World


def fold(world: World, event: ev.Event) -> list[int]:
    """Write one event into the World; return the jobs it touched."""
    if event.at_ms < world.now_ms:
        raise EventRefused(
            f"event {world.seq} is at {event.at_ms} ms, before the {world.now_ms} ms already seen",
            hint="events must come in order of time; sort them, or fix the clock that wrote this",
        )
    touched = _write(world, event)
    world.now_ms = event.at_ms
    world.seq += 1
    return touched


def fold_all(world: World, events: Iterable[ev.Event]) -> World:
    """Write many events into the World and return it."""
    for event in events:
        fold(world, event)
    return world


def pass_time(world: World, at_ms: int) -> World:
    """Let time pass up to a moment at which nothing happens; never backwards."""
    world.now_ms = max(world.now_ms, at_ms)
    return world


def _write(world: World, event: ev.Event) -> list[int]:
    match event:
        case ev.JobSubmitted():
            return fold_jobs.submitted(world, event)
        case ev.AskedPlace():
            return fold_jobs.placed(world, event)
        case ev.JobStarted():
            return fold_jobs.started(world, event)
        case ev.JobFinished():
            return fold_jobs.finished(world, event)
        case ev.SaidWhy():
            return fold_jobs.said_why(world, event)
        case ev.JobPassed():
            return fold_jobs.passed(world, event)
        case ev.Woke():
            return []
        case ev.ActivitySeen():
            return fold_jobs.activity(world, event)
        case ev.PaceSeen():
            return fold_jobs.paced(world, event)
        case ev.JobSaved():
            return fold_jobs.saved(world, event)
        case ev.AskedEvict():
            return fold_jobs.leaving(world, event)
        case ev.JobEvicted():
            return fold_jobs.evicted(world, event)
        case ev.AskedMove():
            return fold_jobs.asked_move(world, event)
        case ev.JobMoved():
            return fold_jobs.moved(world, event)
        case ev.JobFailed():
            return fold_jobs.failed(world, event)
        case ev.JobCancelled():
            return fold_jobs.cancelled(world, event)
        case ev.AskedRelease():
            return fold_jobs.released(world, event)
        case ev.AskedCancel():
            return fold_jobs.asked_cancel(world, event)
        case ev.NodeMoved():
            return fold_supply.node_moved(world, event)
        case ev.DeviceFailed():
            return fold_supply.device_failed(world, event)
        case ev.AskedRepair() | ev.AskedReturn():
            return fold_supply.node_asked(world, event)
        case ev.AskedDrain():
            return fold_supply.drain(world, event)
        case ev.AskedSpare():
            return fold_supply.spare(world, event)
        case ev.AskedLaunch():
            return fold_supply.launch(world, event)
        case ev.NodeAdded():
            return fold_supply.node_added(world, event)
        case ev.ContractSigned():
            return fold_supply.contract_signed(world, event)
        case ev.ContractStarted():
            return fold_supply.contract_started(world, event)
        case ev.ContractEnded():
            return fold_supply.contract_ended(world, event)
        case ev.SaidHalfLife():
            return fold_queues.said_half_life(world, event)
        case ev.SaidMix():
            return fold_mix.said_mix(world, event)
        case ev.QueueSet():
            return fold_queues.queue_set(world, event)
        case ev.TopologySet():
            return fold_topology.topology_set(world, event)
        case _ as never:
            assert_never(never)
