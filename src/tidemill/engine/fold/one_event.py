"""``fold(world, event)``: the only writer of the World.

An event that contradicts the World is refused before anything is changed. The fold returns the jobs
whose life the event changed, so that a reader (the ledger) needs no second dispatch. Supply events
are in ``fold_supply``, teams in ``fold_queues``, job events in ``fold_jobs``, where things are in
``fold_topology``.
"""

from collections.abc import Iterable
from typing import assert_never

from tidemill.engine.fold import jobs, measures, mix, queues, supply, topology
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
            return jobs.submitted(world, event)
        case ev.RequestChanged():
            return jobs.changed(world, event)
        case ev.AskedPlace():
            return jobs.placed(world, event)
        case ev.PlacementSeen():
            return jobs.seen(world, event)
        case ev.ReasonSeen():
            return jobs.reason_seen(world, event)
        case ev.JobStarted():
            return jobs.started(world, event)
        case ev.JobFinished():
            return jobs.finished(world, event)
        case ev.CauseChanged():
            return jobs.said_why(world, event)
        case ev.JobPassed():
            return jobs.passed(world, event)
        case ev.Woke():
            return []
        case ev.ActivitySeen():
            return jobs.activity(world, event)
        case ev.PaceSeen():
            return jobs.paced(world, event)
        case ev.JobSaved():
            return jobs.saved(world, event)
        case ev.StallsSeen():
            return measures.stalls(world, event)
        case ev.EfficiencySeen():
            return measures.efficiency(world, event)
        case ev.StragglerSeen():
            return measures.straggler(world, event)
        case ev.FigureSeen():
            return measures.figure(world, event)
        case ev.LoadSeen() | ev.LatencySeen():
            return measures.load(world, event)
        case ev.HostUseSeen():
            return measures.host_use(world, event)
        case ev.DeviceErrorSeen():
            return supply.device_error(world, event)
        case ev.CheckpointSeen():
            return jobs.secured(world, event)
        case ev.SightLost() | ev.SightRegained():
            return supply.sight(world, event)
        case ev.AskedEvict():
            return jobs.leaving(world, event)
        case ev.JobEvicted():
            return jobs.evicted(world, event)
        case ev.AskedMove():
            return jobs.asked_move(world, event)
        case ev.JobMoved():
            return jobs.moved(world, event)
        case ev.JobFailed():
            return jobs.failed(world, event)
        case ev.JobCancelled():
            return jobs.cancelled(world, event)
        case ev.AskedRelease():
            return jobs.released(world, event)
        case ev.AskedCancel():
            return jobs.asked_cancel(world, event)
        case ev.NodeMoved():
            return supply.node_moved(world, event)
        case ev.DeviceFailed():
            return supply.device_failed(world, event)
        case ev.DeviceRepaired():
            return supply.device_repaired(world, event)
        case ev.AskedRepair() | ev.AskedReturn():
            return supply.node_asked(world, event)
        case ev.AskedDrain():
            return supply.drain(world, event)
        case ev.AskedSpare():
            return supply.spare(world, event)
        case ev.AskedLaunch():
            return supply.launch(world, event)
        case ev.NodeAdded():
            return supply.node_added(world, event)
        case ev.ContractSigned():
            return supply.contract_signed(world, event)
        case ev.ContractStarted():
            return supply.contract_started(world, event)
        case ev.ContractEnded():
            return supply.contract_ended(world, event)
        case ev.CommitmentSeen():
            return supply.commitment_seen(world, event)
        case ev.HalfLifeSet():
            return queues.said_half_life(world, event)
        case ev.MixSampled():
            return mix.said_mix(world, event)
        case ev.QueueSet():
            return queues.queue_set(world, event)
        case ev.TopologySet():
            return topology.topology_set(world, event)
        case _ as never:
            assert_never(never)
