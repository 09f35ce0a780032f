"""The cluster state in which work counts where it is admitted, whatever teams are.

The books count work by teams. Another scheduler's queues (Kueue's) let it in by quotas of their
own: whoever asks why it waits, or whether it would run, has to ask those. So in this state they are
queues beside the teams, work that goes through them counts there, and they use what their own
cluster says. Work that holds quota already waits in a queue without limits.
"""

import numpy as np
from msgspec.structs import replace

from tidemill.core import snapshot
from tidemill.engine.fold import jobs, queues
from tidemill.model import events as ev
from tidemill.model.admission import ADMITTED
from tidemill.model.errors import EventRefused
from tidemill.model.rows import Queue
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.world import World


def admitting(world: World) -> World:
    """The state in which another scheduler's queues admit; the same where there are none."""
    told = world.admission
    if not told.queues or not world.is_looked_on:
        return world
    made = snapshot.branch(world)
    try:
        for row in (*told.queues, Queue(ADMITTED)):
            queues.queue_set(made, ev.QueueSet(made.now_ms, row))
        _let_in(made)
    except EventRefused:  # quotas that contradict each other: the teams' are what is left
        return world
    used = _moved(made)
    for queue, kind, milli in told.used:
        if queue in made.queue_number and kind in made.kind_number:
            used[made.queue_number[queue], made.kind_number[kind]] = milli
    queues.count_again(made, used)
    return made


def _let_in(world: World) -> None:
    """Jobs that hold quota wait for nodes alone."""
    for name in world.admission.admitted:
        j = world.job_number.get(name, -1)
        if j >= 0 and world.jobs.state[j] == JobState.WAITING:
            shape = replace(world.shape_of(j), quota=ADMITTED)
            estimate_ms = world.jobs.estimate_ms.item(j)
            jobs.changed(world, ev.RequestChanged(world.now_ms, j, shape, estimate_ms))


def _moved(world: World) -> I64:
    """What queues use by the books once each shape counts where it is admitted."""
    used, kinds = world.used.copy(), world.nodes.kind
    for s, shape in enumerate(world.shape_rows[: world.shape_count]):
        before, q = world.shapes.queue.item(s), world.queue_of(shape)
        if before == q:
            continue
        world.ink.shapes.queue[s] = q
        for j in world.active[s]:
            for piece in world.placements[j]:
                milli = piece.replicas * shape.roles[piece.role].replica_milli
                used[[before, q], kinds.item(piece.node)] += np.array([-milli, milli])
    return used
