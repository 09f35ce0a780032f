"""Folding what happens to jobs: submitted, placed, started, finished, stopped, asked to leave."""

from typing import NoReturn

from tidemill.core import fold as core
from tidemill.core import lines, places, quotas
from tidemill.engine.fold import room, shapes
from tidemill.model import events as ev
from tidemill.model import tables
from tidemill.model.columns import AT, JOB, NONE, SHAPE
from tidemill.model.errors import EventRefused
from tidemill.model.measured import BACK
from tidemill.model.measures import ONE_PPM
from tidemill.model.reasons import Cause
from tidemill.model.rows import Efficiency, Job, Piece
from tidemill.model.states import CONFIDENCES, JobClass, JobState, NodeState
from tidemill.model.topology import NO_HOP
from tidemill.model.world import Move, SeenReason, World
from tidemill.units import speedup
from tidemill.workload import progress

# Plain integers: comparing a numpy scalar with an enum costs a microsecond.
Pieces = tuple[Piece, ...]
_WAITING, _STARTING, _RUNNING, _CANCELLED = (
    int(state)
    for state in (JobState.WAITING, JobState.STARTING, JobState.RUNNING, JobState.CANCELLED)
)


def submitted(world: World, event: ev.JobSubmitted) -> list[int]:
    """A new job waits."""
    job = event.job
    if job.name in world.job_number:
        raise EventRefused(
            f"job `{job.name}` is submitted twice",
            hint="give every job a name of its own, for example with a date or a counter",
        )
    q = shapes.queue_of(world, job)
    efficiency = job.efficiency
    if efficiency.mfu_ppm + efficiency.host_ppm + efficiency.links_ppm > ONE_PPM:
        raise EventRefused(
            f"job `{job.name}` has shares of useful, host and link time above one whole",
            hint="mfu, host and links are parts of the same time; make them add up to less",
        )
    j = world.job_count
    _write_row(world, j, job, shapes.number_of(world, job.shape, q), event.at_ms)
    world.job_names.append(job.name, job.user)
    w = world.ink.w
    lines.line_up(w.at, w.jobs, w.shapes, w.queued, j)
    return [j]


def changed(world: World, event: ev.RequestChanged) -> list[int]:
    """A waiting job waits for something else, where it stood among its equals."""
    j, w = event.job, world.ink.w
    refuse_unless(world, j, None, (_WAITING, _CANCELLED))
    known, is_back = world.shape_of(j), world.jobs.state[j] == _CANCELLED
    if event.request.kind is not known.kind:
        _refuse(world, j, f"it is {known.kind}, and would be {event.request.kind}")
    if world.jobs.attempt[j] and event.request.team != known.team:
        _refuse(world, j, f"it had a place, which is booked for team `{known.team}`")
    if is_back and world.jobs.ran_ms[j] and not world.jobs.evictions[j]:
        _refuse(world, j, "it worked, and is over")
    q = shapes.queue_of(world, Job(world.job_names[j], event.request))
    was, said = world.jobs.shape.item(j), w.jobs.item(j, JOB.SAID)
    if not is_back:
        core.dequeue(w, j)
        quotas.gave_back(w.queues, world.shapes.queue.item(was))
    s = shapes.number_of(world, event.request, q)
    if is_back:
        core.is_back(world.ink.w, j)  # by what it requested when it ended
    jobs = world.ink.jobs
    jobs.shape[j], jobs.state[j], jobs.estimate_ms[j] = s, _WAITING, event.estimate_ms
    if world.ink.w.at[AT.RECENT] <= j < world.mix_point:
        noted = world.ink.w.shapes[:, SHAPE.NOTED]
        noted[was] -= 1
        noted[s] += 1
    world.request_changes += 1
    w = world.ink.w
    core.line_up_again(w, j)
    lines.say(w.jobs, w.shapes, j, said)
    quotas.gave_back(w.queues, q)  # so that it is looked at, though nobody came
    return [j]


def placed(world: World, event: ev.AskedPlace) -> list[int]:
    """A waiting gang takes its devices, whole."""
    j = event.job
    refuse_unless(world, j, event.attempt, (_WAITING,), 1)
    shape = world.shape_of(j)
    counts = [0] * len(shape.roles)
    room.refuse_if_taken(world, j, shape.roles, event.pieces)
    for piece in event.pieces:
        counts[piece.role] += piece.replicas
    _refuse_unless_whole(world, j, counts)
    _take_place(world, j, event.pieces, event.at_ms)
    return [j]


def seen(world: World, event: ev.PlacementSeen) -> list[int]:
    """A gang, or a part of one, sits where somebody else put it, whatever our rules say of that.

    What a job that sits somewhere already is seen to hold is all that it holds from now on.
    """
    j = event.job
    refuse_unless(world, j, None, (_WAITING, _STARTING, _RUNNING))
    state = world.jobs.state.item(j)
    refuse_unless(world, j, event.attempt, (state,), 0 if state == _STARTING else 1)
    room.refuse_if_booked(world, j, world.shape_of(j).roles, event.pieces)
    if state == _WAITING:
        _take_place(world, j, event.pieces, event.at_ms)
    else:
        _change_place(world, j, event.pieces, event.at_ms)
    world.ink.w.jobs[j, JOB.OVER_MILLI] = event.over_milli
    world.ink.w.at[AT.SEEN] += 1
    return [j]


def reason_seen(world: World, event: ev.ReasonSeen) -> list[int]:
    """Another scheduler says why a job waits, or the rest of one that is placed in part."""
    j = event.job
    refuse_unless(world, j, None, (_WAITING, _STARTING))
    attempt, known = world.jobs.attempt.item(j), world.reason_of(j)
    if event.reason or event.cause is not Cause.NONE:
        was_held = known is not None and known.cause == Cause.NOT_ELIGIBLE
        held_ms = known.held_ms if known is not None and was_held else event.at_ms
        world.reasons[j] = SeenReason(
            attempt, int(event.cause), event.layer, event.reason, held_ms
        )  # fmt: skip
    else:
        world.reasons.pop(j, None)
    w, is_held = world.ink.w, int(event.cause is Cause.NOT_ELIGIBLE)
    said = int(event.cause) + 1 if j in world.reasons else 0
    if world.jobs.state.item(j) != _WAITING:
        w.jobs[j, JOB.SAID] = said
        return []
    is_same = w.jobs[j, JOB.IS_HELD] == is_held
    if not is_same and not is_held and known is not None:  # what it did not ask for is no wait
        began_ms = world.jobs.since_ms.item(j)
        world.ink.jobs.since_ms[j] = began_ms + event.at_ms - max(known.held_ms, began_ms)
    lines.say(w.jobs, w.shapes, j, said)
    return [] if is_same else [j]


def started(world: World, event: ev.JobStarted) -> list[int]:
    """The gang works from now on."""
    j = event.job
    refuse_unless(world, j, event.attempt, (_STARTING,))
    core.started(world.ink.w.jobs, j, event.slow_ppm, event.at_ms)
    return [j]


def activity(world: World, event: ev.ActivitySeen) -> list[int]:
    """The share of busy time changed."""
    refuse_unless(world, event.job, event.attempt, (_RUNNING,))
    w = world.ink.w
    core.be_busy(w.at, w.jobs, event.job, event.busy_ppm, event.at_ms)
    return [event.job]


def paced(world: World, event: ev.PaceSeen) -> list[int]:
    """Neighbours on its devices slow a running job from now on, or do so no more."""
    j, at_ms = event.job, event.at_ms
    refuse_unless(world, j, event.attempt, (_RUNNING,))
    earlier = world.paces.get(j, ())
    if earlier and earlier[-1][0] == at_ms:
        earlier = earlier[:-1]
    if event.beside_ppm != (earlier[-1][1] if earlier else 0):
        earlier = (*earlier, (at_ms, event.beside_ppm))
    if earlier:
        world.paces[j] = earlier
    else:
        world.paces.pop(j, None)
    world.ink.w.jobs[j, JOB.IS_PACED] = bool(earlier)
    return [j]


def saved(world: World, event: ev.JobSaved) -> list[int]:
    """All the work of a running attempt up to the save lasts, and its rhythm begins again."""
    j, at_ms, jobs = event.job, event.at_ms, world.ink.jobs
    refuse_unless(world, j, event.attempt, (_RUNNING,))
    cost_ms, origin_ms = jobs.cost_ms.item(j), jobs.origin_ms.item(j)
    if jobs.interval_ms.item(j) <= 0:
        _refuse(world, j, "it never writes a checkpoint")
    if at_ms - cost_ms < origin_ms:
        _refuse(world, j, f"it takes {cost_ms} ms to save, and began {at_ms - origin_ms} ms ago")
    _save(world, j, at_ms - cost_ms, keeps_all=True)
    jobs.ran_ms[j] += cost_ms
    jobs.origin_ms[j] = at_ms
    if (paces := world.paces.get(j)) is not None:
        world.paces[j] = ((at_ms, paces[-1][1]),)
    return [j]


def secured(world: World, event: ev.CheckpointSeen) -> list[int]:
    """What a running attempt did up to a moment is safe."""
    refuse_unless(world, event.job, event.attempt, (_RUNNING,))
    if event.covers_ms > event.at_ms:
        _refuse(world, event.job, f"what it does until {event.covers_ms} ms cannot be safe yet")
    j, covers_ms, jobs = event.job, event.covers_ms, world.ink.jobs
    paces = world.paces.get(j)
    if paces is not None and covers_ms > jobs.origin_ms.item(j):
        _save(world, j, covers_ms, keeps_all=True)
        jobs.origin_ms[j] = covers_ms
        before = [ppm for at_ms, ppm in paces if at_ms <= covers_ms]
        after = tuple(pace for pace in paces if pace[0] > covers_ms)
        world.paces[j] = ((covers_ms, before[-1] if before else 0), *after)
    is_off = world.matrices.jobs.item(j, JOB.STALLS) & BACK != 0
    if paces is not None and (event.is_again if is_off else event.is_back):
        _save(world, j, event.at_ms, keeps_all=False)
        jobs.origin_ms[j] = event.at_ms
        world.paces[j] = ((event.at_ms, paces[-1][1]),)
    flags = int(event.is_back), int(event.is_again)
    core.secured(world.ink.w.jobs, j, covers_ms, event.at_ms, *flags)
    return [j]


def finished(world: World, event: ev.JobFinished) -> list[int]:
    """All of it was worth it."""
    j = event.job
    refuse_unless(world, j, event.attempt, (_RUNNING,))
    _leave(world, j)
    core.finished(world.ink.w, j, event.at_ms)
    return [j]


def failed(world: World, event: ev.JobFailed) -> list[int]:
    """An attempt died; the job waits again or has failed for good."""
    j = event.job
    refuse_unless(world, j, event.attempt, (_STARTING, _RUNNING))
    interrupt(world, j, event.at_ms)
    world.ink.w.jobs[j, JOB.RACES] += event.why is ev.Why.LOST_RACE
    if event.is_final:
        core.dequeue(world.ink.w, j)
        _end(world, j, JobState.FAILED, event.at_ms)
    return [j]


def cancelled(world: World, event: ev.JobCancelled) -> list[int]:
    """Its owner took it back, wherever it was."""
    j = event.job
    refuse_unless(world, j, None, (_WAITING, _STARTING, _RUNNING))
    if world.jobs.state[j] != _WAITING:
        interrupt(world, j, event.at_ms)
    core.dequeue(world.ink.w, j)
    quotas.gave_back(world.ink.w.queues, world.shapes.queue.item(world.jobs.shape.item(j)))
    _end(world, j, JobState.CANCELLED, event.at_ms)
    return [j]


def leaving(world: World, event: ev.AskedEvict) -> list[int]:
    """An attempt was asked to leave; it holds its devices until it is seen to be gone."""
    j, heir = event.job, event.to_job
    refuse_unless(world, j, event.attempt, (_STARTING, _RUNNING))
    _refuse_if_leaving(world, j, heir)
    _leave_for(world, j, heir)
    return []


def evicted(world: World, event: ev.JobEvicted) -> list[int]:
    """An attempt that was asked to leave has left."""
    j = event.job
    refuse_unless(world, j, event.attempt, (_STARTING, _RUNNING))
    if not world.jobs.is_leaving[j] or j in world.moving:
        _refuse(world, j, "it was not asked to stop")
    saved_ms, is_for_another = world.jobs.saved_ms.item(j), world.leaving_for[j] >= 0
    interrupt(world, j, event.at_ms)
    if is_for_another:
        core.count_eviction(world.ink.w.jobs, j, saved_ms)
    return [j]


def asked_move(world: World, event: ev.AskedMove) -> list[int]:
    """A running job was asked to change its place; it holds both until it is seen to have moved."""
    j = event.job
    refuse_unless(world, j, event.attempt, (_RUNNING,))
    _refuse_if_leaving(world, j, event.to_job)
    shape, rest = world.shape_of(j), without(world.placements[j], event.lost)
    if rest is None or not (event.gained or event.lost):
        _refuse(world, j, "it does not hold what it is asked to leave")
    room.refuse_if_taken(world, j, shape.roles, event.gained)
    counts = [0] * len(shape.roles)
    for piece in (*rest, *event.gained):
        counts[piece.role] += piece.replicas
    _refuse_unless_whole(world, j, counts)
    _know_slices(world)
    core.hold(world.ink.w, j, room.write_found(world, event.gained), 1, event.at_ms)
    world.moving[j] = Move(event.gained, event.lost, event.why is not ev.Why.MOVED)
    _leave_for(world, j, event.to_job)
    world.ink.w.jobs[j, JOB.IS_MOVING] = 1
    return [j]


def moved(world: World, event: ev.JobMoved) -> list[int]:
    """A job left what it was to leave and comes up again, as its next attempt."""
    j = event.job
    refuse_unless(world, j, event.attempt, (_RUNNING,))
    move = world.moving.pop(j, None)
    if move is None:
        _refuse(world, j, "nobody asked it to move")
    rest = without(world.placements[j], move.lost)
    assert rest is not None, "what is to be left was held when it was asked"
    _save(world, j, event.at_ms, move.keeps_work)
    _know_slices(world)
    core.lose(world.ink.w, j, room.write_found(world, move.lost), event.at_ms)
    core.arrive(world.ink.w.jobs, world.ink.w.pieces, j)
    core.come_up_again(world.ink.w, j, event.at_ms)
    world.ink.jobs.speed_ppm[j] = speedup.speed_of(world.shape_of(j), world.placements[j])
    world.paces.pop(j, None)
    if any(world.nodes.state[piece.node] != NodeState.READY for piece in rest):
        world.ink.w.at[AT.SUPPLY_CHANGES] += 1  # it does not leave any more, and a drain may be due
    return [j]


def call_off(world: World, j: int, at_ms: int) -> None:
    """The place that a job was to move to is lost: it stays where it is."""
    del world.moving[j]
    _know_slices(world)
    w = world.ink.w
    core.release(w, j, 1, at_ms)
    core.stay(w.at, w.jobs, w.shapes, j)


def released(world: World, event: ev.AskedRelease) -> list[int]:
    """A shape loses the precedence that evictions gave it."""
    if event.shape not in world.promised:
        raise EventRefused(
            f"nothing is promised to shape number {event.shape}", hint="see the journal"
        )
    w = world.ink.w
    core.unpromise(w.at, w.shapes, event.shape)
    return []


def asked_cancel(world: World, event: ev.AskedCancel) -> list[int]:
    """A cancellation was sent; it holds its devices until it is seen to be gone."""
    refuse_unless(world, event.job, None, (_STARTING, _RUNNING))
    if world.jobs.is_leaving[event.job]:
        _refuse(world, event.job, "it was asked to leave already")
    _leave_for(world, event.job, -1)
    return []


def said_why(world: World, event: ev.CauseChanged) -> list[int]:
    """The cause for which a shape waits."""
    if not 0 <= event.shape < world.shape_count:
        raise EventRefused(f"shape number {event.shape} is unknown", hint="see the journal")
    world.ink.shapes.cause[event.shape] = event.cause
    return []


def passed(world: World, event: ev.JobPassed) -> list[int]:
    """A waiting job was passed by a later one; the first time counts."""
    refuse_unless(world, event.job, None, (_WAITING,))
    if world.jobs.passed_ms.item(event.job) != tables.NEVER_PASSED:
        _refuse(world, event.job, "it was passed before in this wait")
    world.ink.jobs.passed_ms[event.job] = event.at_ms
    return []


def interrupt(world: World, j: int, at_ms: int) -> None:
    """Stop an active attempt: keep what was saved, free its devices, wait again."""
    if world.jobs.state.item(j) == _RUNNING:
        _save(world, j, at_ms, keeps_all=False)
    _leave(world, j)
    core.wait_again(world.ink.w, j, at_ms)


def _save(world: World, j: int, at_ms: int, keeps_all: bool) -> None:
    """Count the work of this attempt, at full speed, that lasts: what was saved, or all of it."""
    if j not in world.paces:
        core.saved(world.ink.w.jobs, j, at_ms, int(keeps_all))
        return
    jobs = world.ink.jobs
    elapsed_ms = at_ms - int(jobs.origin_ms[j])
    interval_ms, cost_ms = int(jobs.interval_ms[j]), int(jobs.cost_ms[j])
    parts = progress.split(elapsed_ms, interval_ms, cost_ms)
    lasting_ms = parts.saved_ms + (parts.unsaved_ms if keeps_all else 0)
    steps = progress.steps(world.paces[j], int(jobs.origin_ms[j]), interval_ms, cost_ms)
    lasting_ms = progress.paced_ms(lasting_ms, steps)
    elapsed_ms = progress.paced_ms(parts.saved_ms + parts.unsaved_ms, steps)
    saved_ms, reached_ms = (
        speedup.work_ms(progress.work_ms(ms, int(jobs.slow_ppm[j])), int(jobs.speed_ppm[j]))
        for ms in (lasting_ms, elapsed_ms)
    )
    jobs.reached_ms[j] = max(jobs.reached_ms.item(j), jobs.saved_ms.item(j) + reached_ms)
    jobs.saved_ms[j] += saved_ms
    jobs.ran_ms[j] += at_ms - int(jobs.origin_ms[j])


def _leave_for(world: World, j: int, heir: int) -> None:
    w, s = world.ink.w, world.jobs.shape.item(heir) if heir >= 0 else NONE
    core.leave_for(w.at, w.jobs, w.shapes, j, s)


def without(pieces: Pieces, lost: Pieces) -> Pieces | None:
    """Pieces less some parts of them; None when they do not hold all of those."""
    rest = list(pieces)
    for part in lost:
        i = next((i for i, piece in enumerate(rest) if _is_part(part, piece)), -1)
        if i < 0:
            return None
        whole = rest[i]
        replicas, devices = whole.replicas - part.replicas, whole.devices ^ part.devices
        assert not (whole.slices and replicas), "an instance is one replica"
        rest[i : i + 1] = [Piece(part.role, part.node, replicas, devices)] if replicas else []
    return tuple(rest)


def _is_part(part: Piece, whole: Piece) -> bool:
    """Whether a piece holds at least as much as another, as many devices for each replica."""
    return (
        (part.role, part.node, part.slices) == (whole.role, whole.node, whole.slices)
        and 1 <= part.replicas <= whole.replicas
        and part.devices & ~whole.devices == 0
        and part.devices.bit_count() * whole.replicas == whole.devices.bit_count() * part.replicas
    )


def _write_row(world: World, j: int, job: Job, s: int, at_ms: int) -> None:
    if j >= len(world.ink.w.jobs):
        world.grow(jobs=j + 1, active=j + 1)
    world.ink.w.jobs[j, [JOB.FIRST_PIECE, JOB.LEAVING_FOR, JOB.IDLE_MS]] = NONE
    jobs, saving, efficiency = world.ink.jobs, job.checkpointing, job.efficiency
    is_training = job.shape.kind is JobClass.TRAINING
    jobs.shape[j] = s
    jobs.state[j] = _WAITING
    jobs.submit_ms[j] = at_ms
    jobs.since_ms[j] = at_ms
    jobs.passed_ms[j] = tables.NEVER_PASSED
    jobs.estimate_ms[j] = job.estimate_ms
    jobs.startup_ms[j] = job.startup_ms
    jobs.restart_ms[j] = job.restart_ms
    jobs.interval_ms[j] = saving.interval_ms if is_training else progress.CONTINUOUS
    jobs.cost_ms[j] = saving.cost_ms if is_training else 0
    jobs.busy_ppm[j] = ONE_PPM
    jobs.mfu_ppm[j] = efficiency.mfu_ppm
    jobs.host_ppm[j] = efficiency.host_ppm
    jobs.links_ppm[j] = efficiency.links_ppm
    jobs.memory_ppm[j] = memory_ppm(efficiency)
    jobs.resize_ms[j] = job.resize_ms
    jobs.speed_ppm[j] = ONE_PPM
    jobs.confidence[j] = CONFIDENCES.index(efficiency.confidence)
    jobs.hop[j] = NO_HOP


def _take_place(world: World, j: int, pieces: Pieces, at_ms: int) -> None:
    """A waiting job holds these pieces, and comes up there."""
    shape = world.shape_of(j)
    _know_slices(world)
    count = room.write_found(world, pieces)  # may renew the columns
    core.placed(world.ink.w, j, count, at_ms)
    if shape.elastic_role is not None:
        world.ink.jobs.speed_ppm[j] = speedup.speed_of(shape, pieces)


def _change_place(world: World, j: int, pieces: Pieces, at_ms: int) -> None:
    """A job that holds something holds these pieces instead; one that worked comes up again."""
    is_running, shape = world.jobs.state.item(j) == _RUNNING, world.shape_of(j)
    if is_running:
        _save(world, j, at_ms, keeps_all=True)
    _leave(world, j)
    core.release(world.ink.w, j, 0, at_ms)
    count = room.write_found(world, pieces)  # may renew the columns
    core.hold(world.ink.w, j, count, 0, at_ms)
    world.placements.forget(j)
    if is_running:
        core.come_up_again(world.ink.w, j, at_ms)
    elif world.ink.w.at.item(AT.TIERS):
        world.ink.w.jobs[j, JOB.HOP] = places.hop_of(world.ink.w, j)
    if shape.elastic_role is not None:
        world.ink.jobs.speed_ppm[j] = speedup.speed_of(shape, pieces)


def memory_ppm(efficiency: Efficiency) -> int:
    """The memory-bound share as a column holds it; -1: unknown."""
    bound_ppm = efficiency.memory_bound_ppm
    return -1 if bound_ppm is None else bound_ppm


def _leave(world: World, j: int) -> None:
    """What is kept in Python of a job that is about to give up all that it holds."""
    world.moving.pop(j, None)
    world.paces.pop(j, None)
    _know_slices(world)


def _know_slices(world: World) -> None:
    """What a job holds is about to change: know what devices that are cut then have free."""
    if world.sliced:
        room.know_slices(world)


def _end(world: World, j: int, state: JobState, at_ms: int) -> None:
    core.ended(world.ink.w, j, int(state), at_ms)


def _refuse_unless_whole(world: World, j: int, counts: list[int]) -> None:
    roles = world.shape_of(j).roles
    if not all(
        role.fewest <= count <= role.count for count, role in zip(counts, roles, strict=True)
    ):
        raise EventRefused(
            f"job `{world.job_names[j]}` is placed with {counts} replicas;"
            f" its roles have {[role.count for role in roles]}",
            hint="gangs are placed whole or not at all; an elastic role may have fewer",
        )


def _refuse_if_leaving(world: World, j: int, heir: int) -> None:
    if world.jobs.is_leaving[j]:
        _refuse(world, j, "it was asked to leave already")
    if heir != -1 and not (0 <= heir < world.job_count and world.jobs.state[heir] == _WAITING):
        _refuse(world, j, f"job number {heir}, for whom it should leave, is not waiting")


def refuse_unless(
    world: World, j: int, attempt: int | None, states: tuple[int, ...], step: int = 0
) -> None:
    """Refuse an event about a job that is unknown, in another state, or in another attempt."""
    if not 0 <= j < world.job_count:
        raise EventRefused(
            f"job number {j} is unknown; {world.job_count} were submitted",
            hint="an event must come after the submission of its job",
        )
    state = world.jobs.state.item(j)
    if state not in states:
        wanted = " or ".join(JobState(s).name.lower() for s in states)
        _refuse(world, j, f"it is {JobState(state).name.lower()}, not {wanted}")
    if attempt is not None and attempt != world.jobs.attempt.item(j) + step:
        _refuse(world, j, f"attempt {attempt} is meant; attempt {world.jobs.attempt[j]} is known")


def _refuse(world: World, j: int, found: str) -> NoReturn:
    raise EventRefused(
        f"an event about job `{world.job_names[j]}` cannot be: {found}",
        hint="the event is late, repeated or out of order; nothing was changed",
    )
