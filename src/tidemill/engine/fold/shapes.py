"""Folding what jobs request: which queue that is of, and the rows of shapes, also ahead of them."""

from tidemill.core import rows
from tidemill.engine.fold import topology
from tidemill.model.errors import EventRefused
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.reasons import Cause
from tidemill.model.rows import Job, Role, Shape
from tidemill.model.topology import Topology
from tidemill.model.world import World
from tidemill.units import speedup
from tidemill.units.mig import geometry as mig


def queue_of(world: World, job: Job) -> int:
    """The queue of a job, if it may ask for what it does; else it is refused."""
    q = world.queue_number.get(job.shape.team)
    if q is None:
        known = ", ".join(f"`{name}`" for name in sorted(world.queue_number)) or "none"
        raise EventRefused(
            f"job `{job.name}` belongs to team `{job.shape.team}`; known teams: {known}",
            hint="declare the team before its jobs",
        )
    q = world.queue_of(job.shape)
    if not world.tree.is_leaf[q]:
        raise EventRefused(
            f"job `{job.name}` belongs to team `{job.shape.team}`, which has teams below it",
            hint="give the job to one of those; jobs belong to the lowest queues",
        )
    is_known = job.shape in world.shape_number
    if not is_known or topology.is_adrift(world.topology, job.shape):
        refuse_unless_possible(world.topology, job)
    return q


def refuse_unless_possible(tiers: Topology, job: Job) -> None:
    """Refuse a job that asks for what contradicts itself, or for a tier that there is not."""
    for role in job.shape.roles:
        if role.milli < WHOLE_MILLI and role.accelerators != 1:
            raise EventRefused(
                f"job `{job.name}` role `{role.name}` asks for {role.milli} milli of"
                f" {role.accelerators} devices; a fraction is of one device",
                hint="ask for one accelerator with `milli`, or for several whole ones",
            )
        if role.profile:
            _refuse_unless_profile(job, role)
    _refuse_unless_elastic(job)
    topology.refuse_bonds(tiers, job.name, job.shape)


def number_of(world: World, shape: Shape, q: int) -> int:
    """The number of a shape of which a job came; a new one for a shape never seen."""
    s = world.shape_number.get(shape)
    if s is None or s > world.shape_count:
        withdraw(world)  # another came than was foreseen
        topology.reveal_labels(world, shape.roles)
        s = _add_shape(world, shape, q)
    world.shape_count = max(world.shape_count, s + 1)
    return s


def foretell(world: World, shape: Shape) -> bool:
    """Write the rows of a shape before its first job comes; whether that changes nothing else.

    It may be refused, let labels be seen, be cut out of devices, or grow: then it must come first.
    So must one that is lower than all of its team: others may stop it from then on, not before.
    """
    is_plain = not any(role.least or role.profile or role.rules.keys for role in shape.roles)
    try:
        q = queue_of(world, Job("", shape))
    except EventRefused:
        return False
    shapes, known = world.shapes, len(world.shape_rows)
    priorities = shapes.priority[:known][shapes.queue[:known] == q]
    if not is_plain or (len(priorities) and shape.priority < priorities.min()):
        return False
    _add_shape(world, shape, q)
    return True


def withdraw(world: World) -> list[Shape]:
    """Forget the shapes of which no job has come; those that were forgotten."""
    ahead = world.shape_rows[world.shape_count :]
    for shape in ahead:
        del world.shape_number[shape]
    del world.shape_rows[world.shape_count :]
    return ahead


def _add_shape(world: World, shape: Shape, q: int) -> int:
    """Write the rows of a new shape; its number."""
    s = len(world.shape_rows)
    if s >= len(world.ink.w.shapes):
        world.grow(shapes=s + 1, queued=s + 1)
    shapes = world.ink.shapes
    shapes.queue[s] = q
    shapes.priority[s] = shape.priority
    shapes.total_milli[s] = shape.total_milli
    shapes.cause[s] = Cause.NONE
    world.shape_rows.append(shape)
    world.shape_number[shape] = s
    rows.write_roles(world, s)
    return s


def _refuse_unless_profile(job: Job, role: Role) -> None:
    """Refuse a profile that no part has, whose share is another, or that is tied to others."""
    what = f"job `{job.name}` role `{role.name}` asks for profile `{role.profile}`"
    sizes = mig.shares(role.profile)
    if not sizes:
        raise EventRefused(
            f"{what}, which no part has", hint="see `tidemill unit mig PART` for those of a part"
        )
    if role.accelerators != 1 or role.milli not in sizes:
        found = " or ".join(f"{milli} milli ({', '.join(keys)})" for milli, keys in sizes.items())
        raise EventRefused(
            f"{what} as {role.milli} milli of {role.accelerators} devices; it is {found} of one",
            hint="give `milli` the share that the profile takes on the GPU types it may use",
        )
    if job.shape.bonds or job.shape.parallelism or any(row.bonds for row in job.shape.roles):
        raise EventRefused(
            f"{what} and has topology constraints or a parallelism, which instances cannot have",
            hint="ask for whole accelerators where replicas must sit together",
        )


def _refuse_unless_elastic(job: Job) -> None:
    """Refuse sizes and speeds that contradict each other."""
    elastic = [role for role in job.shape.roles if role.least]
    for role in elastic:
        if role.least > role.count:
            raise EventRefused(
                f"job `{job.name}` role `{role.name}` works with {role.least} replicas at least"
                f" and {role.count} at most",
                hint="`least` is the smaller number, `count` the larger",
            )
    if len(elastic) > 1 or (job.shape.speedup and not elastic):
        raise EventRefused(
            f"job `{job.name}` has {len(elastic)} elastic roles",
            hint="a speed-up is of one role: give `least` to exactly one",
        )
    bonds = (*job.shape.bonds, *(bond for role in job.shape.roles for bond in role.bonds))
    if elastic and (job.shape.parallelism or any(bond.is_required for bond in bonds)):
        raise EventRefused(
            f"job `{job.name}` is elastic and its replicas must sit together in one way",
            hint="leave out `least` or its parallelism, or only prefer its topology",
        )
    if elastic and not speedup.is_curve(job.shape.speedup, elastic[0].count):
        raise EventRefused(
            f"job `{job.name}` has a speed-up that does not rise from point to point",
            hint="points are (replicas, ppm), both rising, below the count and 1,000,000",
        )
