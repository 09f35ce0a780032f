"""What the cluster itself rules: nodes that it keeps for others, limits of its partitions, and by
which queues it lets work in.

One rule for `why`, its nodes and `fit`: on nodes that a reservation keeps nobody here can tell who
may run, and what a partition does not allow never runs there.
"""

from typing import NamedTuple

import numpy as np

from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold_all
from tidemill.explain import phrasing, rerun, supply
from tidemill.explain.supply import Mask
from tidemill.model import events as ev
from tidemill.model.admission import Entrance
from tidemill.model.measures import WHOLE_MILLI, duration_text
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import CLUSTER, PARTITION, QUOTA_QUEUE, Job, Role, Shape
from tidemill.model.site_rules import KeptNodes, PartitionLimit
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.scheduling import elastic, eligibility
from tidemill.scheduling.fit import Options
from tidemill.scheduling.snapshot import Snapshot


def doubt(world: World, policy: Policy, j: int, options: Options) -> str:
    """Which reservations keep nodes without which a job that fits would not, in words; "": none."""
    free = supply.open_mask(world, tuple(one for some in options for one in some))
    free &= world.nodes.free_milli[: world.node_count] > 0
    kept = [one for one in kept_from(world, j) if (mask_of(world, one) & free).any()]
    if not kept:
        return ""
    closed = np.any([mask_of(world, one) & free for one in kept], axis=0)
    rest = snapshot.copy(world)
    shut = [
        ev.NodeMoved(rest.now_ms, n, NodeState.CORDONED) for n in np.flatnonzero(closed).tolist()
    ]
    fold_all(rest, shut)
    fits = rerun.alone(rest, policy, world.jobs.shape.item(j), sweeps=False) is Cause.NONE
    if fits and not _needs_more_nodes(world, rest, world.shape_of(j)):
        return ""
    return ", ".join(one.words for one in kept)


def _needs_more_nodes(world: World, rest: World, shape: Shape) -> bool:
    """Whether so many nodes as replicas are free only with those that are closed in ``rest``.

    Replicas of ours may share a node; those of Slurm may not, if it was asked for so many nodes.
    """
    for role in elastic.smallest(shape).roles:
        some, every = (
            int((Snapshot(one, sweeps=True).hosts(role, is_ok) > 0).sum())
            for one, is_ok in ((of, eligibility.anywhere(of, role).is_ok) for of in (rest, world))
        )
        if some < min(role.count, every):
            return True
    return False


def kept_from(world: World, j: int) -> tuple[KeptNodes, ...]:
    """The reservations that keep nodes now, and for others than this job."""
    return world.site.keeping(world.job_names[j], world.now_ms)


def mask_of(world: World, kept: KeptNodes) -> Mask:
    """The nodes that a reservation keeps."""
    found = np.zeros(world.node_count, bool)
    found[[world.node_number[name] for name in kept.nodes if name in world.node_number]] = True
    return found


def entrances(world: World, team: str) -> tuple[Entrance, ...]:
    """The queues with quotas through which the work of a team comes; (): there are none.

    Those of its namespace, where that is the team; else those through which its jobs have come.
    """
    told = {one.queue: one for one in world.admission.entrances if one.team == team}
    for shape in world.shape_rows if world.admission.queues else ():
        if shape.team == team and shape.quota.startswith(QUOTA_QUEUE):
            name = shape.quota.removeprefix(QUOTA_QUEUE)
            told.setdefault(shape.quota, Entrance(team, name, shape.quota))
    known = {one.of for one in world.admission.flavors}
    return tuple(told[name] for name in sorted(told) if name in known)


def ahead_in_queue(world: World, shape: Shape, without: int = -1) -> tuple[int, ...]:
    """Jobs that nobody passes in the queue that has to admit new work of this shape."""
    told = world.admission
    mine = _admitting(world, shape)
    if not mine or not told.rule_of(mine).is_strict:
        return ()
    first = [
        j for s in world.queued if world.shapes.priority[s] >= shape.priority
        and _admitting(world, world.shape_rows[s]) == mine
        for j in world.asking(s) if j != without
    ]  # fmt: skip
    return tuple(sorted(first))


def closed(world: World, shape: Shape) -> str:
    """Why the queue that has to admit a shape lets nothing more in, in words; "": it does."""
    return world.admission.rule_of(_admitting(world, shape)).closed


def preempts(world: World, shape: Shape) -> str:
    """By which rules the queue that has to admit a shape stops others for it; "": by none."""
    return world.admission.rule_of(_admitting(world, shape)).preempts


def _admitting(world: World, shape: Shape) -> str:
    """The queue that has to admit a shape, as rules name it; "": none, or it was admitted."""
    every = world.admission.flavors
    return next((one.of for one in every if one.queue == (shape.quota or shape.team)), "")


class Refusal(NamedTuple):
    """Why a job does not run in any partition that it may be in."""

    words: str
    hint: str
    is_for_good: bool
    """Whether it is too large, or too long, for each of them; else one is closed."""


def refusal(world: World, job: Job) -> Refusal | None:
    """What partitions say against a job, as far as their limits are known; None: nothing."""
    limits = [one for one in world.site.partitions if one.since_ms <= world.now_ms]
    labels = [pair for role in job.shape.roles for pair in role.labels]
    cluster = dict(labels).get(CLUSTER, "")
    by_name = {one.name: one for one in limits if one.cluster == cluster}
    own = {key for key, _ in labels if key.startswith(PARTITION)}
    every = {key for group in world.groups for key, _ in group.labels if key.startswith(PARTITION)}
    names = [key.removeprefix(PARTITION) for key in sorted(own or every)] if by_name else []
    found = list[Refusal]()
    for name in names:
        said = _against(world, job, by_name[name]) if name in by_name else None
        if said is None:
            return None
        found.append(said)
    if not found:
        return None
    words = "; ".join(one.words for one in found)
    return Refusal(words, found[0].hint, all(one.is_for_good for one in found))


def _against(world: World, job: Job, limit: PartitionLimit) -> Refusal | None:
    whose, look = f"partition `{limit.name}`", f"(scontrol show partition {limit.name})"
    roles = elastic.smallest(job.shape).roles
    least = max((_fewest_nodes(world, role, limit.name) for role in roles), default=0)
    if limit.max_nodes is not None and least > limit.max_nodes:
        return Refusal(
            f"it needs {phrasing.many(least, 'node')}, {whose} has MaxNodes={limit.max_nodes}",
            f"request what {phrasing.many(limit.max_nodes, 'node')} can hold, another partition, or"
            f" a QOS with the flag PartitionMaxNodes {look}",
            is_for_good=True,
        )  # fmt: skip
    if limit.max_time_ms is not None and job.estimate_ms > limit.max_time_ms:
        most = duration_text(limit.max_time_ms)
        return Refusal(
            f"it is to run {duration_text(job.estimate_ms)}, {whose} has MaxTime={most}",
            f"request at most {most}, another partition, or a QOS with the flag PartitionTimeLimit"
            f" {look}",
            is_for_good=True,
        )  # fmt: skip
    if limit.state:
        does = "starts no job" if limit.state == "DOWN" else "takes no new job"
        return Refusal(
            f"{whose} has State={limit.state} and {does}", f"name another partition {look}",
            is_for_good=False,
        )  # fmt: skip
    return None


def _fewest_nodes(world: World, role: Role, partition: str) -> int:
    """On how few nodes of a partition the replicas of a role could be, if those were empty."""
    flags = eligibility.anywhere(world, role).is_ok
    inside = [
        any(key == PARTITION + partition for key, _ in group.labels) for group in world.groups
    ]
    is_ok = np.array([*(flags[: len(inside)].astype(bool) & np.array(inside, bool)), False], bool)
    rows = world.node_count
    here = is_ok[world.nodes.group[:rows]] & (world.nodes.state[:rows] != NodeState.GONE)
    devices = int(world.nodes.devices[:rows][here].max(initial=0))
    each = devices * (WHOLE_MILLI // max(1, role.milli)) // max(1, role.accelerators)
    return -(-role.count // each) if each and role.accelerators else 0
