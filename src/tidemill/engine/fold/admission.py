"""The cluster state in which work counts where it is admitted, whatever teams are.

The books count work by teams. Another scheduler's queues (Kueue's) let it in by quotas of their
own: whoever asks why it waits, or whether it would run, has to ask those. So in this state they are
queues beside the teams, work that goes through them counts there, and they use what their own
cluster says. A queue may have quota of several sorts of nodes (flavors): each has a row of its own,
and a job that waits is asked about as of the one that it would get. Work that holds quota already
waits in a queue without limits.
"""

import numpy as np
from msgspec.structs import replace

from tidemill.core import snapshot
from tidemill.engine.fold import jobs, queues
from tidemill.model import events as ev
from tidemill.model.admission import ADMITTED, QuotaFlavor
from tidemill.model.errors import EventRefused
from tidemill.model.node_rules import LabelTest, NodeRules, added
from tidemill.model.rows import Queue, Role, Shape
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
        used = _moved(made)
        for queue, kind, milli in told.used:
            if queue in made.queue_number and kind in made.kind_number:
                used[made.queue_number[queue], made.kind_number[kind]] = milli
        queues.count_again(made, used)
        _ask_for_flavors(made)
    except EventRefused:  # quotas that contradict each other: the teams' are what is left
        return world
    return made


def as_admitted(world: World, shape: Shape) -> Shape:
    """A shape as it is let in: on the nodes of the first flavor of its queue that has quota for it,
    else of the first that ever had, else of the largest.
    """
    every = world.admission.flavors_of(shape.quota or shape.team)
    some = [one for one in every if _may_take(shape, one)] or every
    some = [one for one in some if one.queue in world.queue_number]
    if not some:
        return shape
    need = sum(role.fewest * role.replica_milli for role in shape.roles)
    rooms = [_room(world, shape, one) for one in some]
    i = next((i for i, (left, _) in enumerate(rooms) if left >= need), -1)
    if i < 0:
        i = next((i for i, (_, most) in enumerate(rooms) if most >= need), -1)
    if i < 0:
        i = max(range(len(rooms)), key=lambda i: (rooms[i][1], -i))
    flavor = some[i]
    if not rooms[i][1]:  # it has none of these GPU types, and that is why
        return replace(shape, quota=flavor.queue)
    quota = flavor.queue if flavor.queue != shape.team else shape.quota
    shown = {key for group in world.groups for key, _ in group.labels}  # others nobody kept
    flavor = flavor._replace(labels=tuple(one for one in flavor.labels if one[0] in shown))
    roles = tuple(_on(role, flavor) if role.accelerators else role for role in shape.roles)
    return replace(shape, quota=quota, roles=roles)


def _may_take(shape: Shape, flavor: QuotaFlavor) -> bool:
    """Whether what a shape requires of its nodes leaves those of a flavor."""
    labels = dict(flavor.labels)
    for role in shape.roles:
        if any(labels.get(key, value) != value for key, value in role.labels):
            return False
        tolerates = NodeRules(tolerates=(*role.tolerates, *flavor.tolerates))
        if role.accelerators and tolerates.repelled_by(flavor.taints):
            return False
    return True


def _room(world: World, shape: Shape, flavor: QuotaFlavor) -> tuple[int, int]:
    """What the quota of a flavor leaves a shape of one GPU type now, and at most."""
    path = world.tree.paths[world.queue_number[flavor.queue]]
    named = [kind for role in shape.roles if role.accelerators for kind in role.kinds]
    kinds = [world.kind_number[kind] for kind in named if kind in world.kind_number]
    rows = [
        (int((world.limit - world.used)[path, k].min()), int(world.limit[path, k].min()))
        for k in kinds or range(len(world.kinds))
    ]
    return max(rows, default=(0, 0))


def _on(role: Role, flavor: QuotaFlavor) -> Role:
    """A role on the nodes of a flavor."""
    own = dict(role.labels)
    said = f"its queue has quota of flavor {flavor.name}, whose nodes these are not"
    more = tuple(
        added(key, LabelTest.IN, (value,), said)
        for key, value in flavor.labels if own.get(key) != value
    )  # fmt: skip
    affinity = tuple((*choice, *more) for choice in role.affinity or ((),)) if more else ()
    rest = tuple(one for one in flavor.tolerates if one not in role.tolerates)
    return replace(role, affinity=affinity or role.affinity, tolerates=(*role.tolerates, *rest))


def _ask_for_flavors(world: World) -> None:
    """Jobs that wait ask for what they will be given; who holds quota waits for nodes alone."""
    let_in = {world.job_number.get(name, -1) for name in world.admission.admitted}
    for s in [*world.queued]:
        shape = world.shape_rows[s]
        asked, free = as_admitted(world, shape), replace(shape, quota=ADMITTED)
        for j in [*world.waiting[s]]:
            request = free if j in let_in else asked
            if request != shape:
                estimate_ms = world.jobs.estimate_ms.item(j)
                jobs.changed(world, ev.RequestChanged(world.now_ms, j, request, estimate_ms))


def _moved(world: World) -> I64:
    """What queues use by the books once each shape counts where it is admitted."""
    used, kinds = world.used.copy(), world.nodes.kind
    for s, shape in enumerate(world.shape_rows[: world.shape_count]):
        before, q = world.shapes.queue.item(s), _queue_of(world, s, shape)
        if before == q:
            continue
        world.ink.shapes.queue[s] = q
        for j in world.active[s]:
            for piece in world.placements[j]:
                milli = piece.replicas * shape.roles[piece.role].replica_milli
                used[[before, q], kinds.item(piece.node)] += np.array([-milli, milli])
    return used


def _queue_of(world: World, s: int, shape: Shape) -> int:
    """The queue that counts a shape: that of the flavor on whose nodes the first of its jobs is."""
    flavors = world.admission.flavors_of(shape.quota or shape.team)
    for j in world.active[s] if len(flavors) > 1 else ():
        for piece in world.placements[j]:
            has = world.groups[world.nodes.group.item(piece.node)].labels
            for one in flavors:
                if has.issuperset(one.labels) and one.queue in world.queue_number:
                    return world.queue_number[one.queue]
    return world.queue_of(shape)
