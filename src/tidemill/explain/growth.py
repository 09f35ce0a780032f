"""Growth: what an elastic job runs on, what it could grow to, and why it stays as it is.

The rule is the scheduler's (``resize``): a running job grows only into what nobody waits for. A
guaranteed quota is taken back for jobs that wait, never to grow one that runs.
"""

from collections.abc import Sequence

from tidemill.explain import commands, phrasing, rerun, supply
from tidemill.explain.answers import Fact
from tidemill.explain.rerun import Glance
from tidemill.model.measures import duration_text
from tidemill.model.policy import Policy
from tidemill.model.rows import Role
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.scheduling import elastic, resize
from tidemill.scheduling.resize import NOBODYS, Stays

MILLI = "accelerator_milli"


def facts(world: World, policy: Policy, memo: Glance, j: int) -> tuple[Fact, ...]:
    """About an active elastic job below its full size: both sizes, and what keeps it there."""
    shape, pieces = world.shape_of(j), world.placements[j]
    r = shape.elastic_role
    if r is None or elastic.held(pieces, r) == shape.roles[r].count:
        return ()
    role, size = shape.roles[r], elastic.held(pieces, r)
    held, full = supply.held_milli(world, j), shape.total_milli
    most = held + min(role.count - size, _allowed(world, j, role)) * role.replica_milli
    has = "runs on" if world.jobs.state[j] == JobState.RUNNING else "holds"
    runs = (
        f"it {has} {phrasing.amount(held)} of the {phrasing.amounts(full, 'GPU')} that it requests"
        f" ({size:,} of {phrasing.many(role.count, 'replica')}) and could grow to"
        f" {phrasing.amount(most)}"
    ) + " within the maximum quota of its team" * (most < full)
    if world.is_looked_on:  # another scheduler gives sizes here
        return (Fact("runs on", held, MILLI, runs, commands.nodes(world.job_names[j])),)
    stays = resize.stays(world, policy, memo, j)
    why = "it grows in the next cycle that decides nothing else"
    if stays is not Stays.GROWS:
        why = f"it does not grow: {_why(world, policy, memo, j, stays)}"
    shown = commands.nodes(world.job_names[j])
    made = (
        Fact("runs on", held, MILLI, runs, shown),
        Fact("could grow to", most, MILLI, why, shown),
        _guarantee(world, j),
    )
    return tuple(fact for fact in made if fact is not None)


def _why(world: World, policy: Policy, memo: Glance, j: int, stays: Stays) -> str:
    match stays:
        case Stays.OFF:
            order = "" if policy.may_resize else " (`may_resize = false`)"
            return f"with this policy running jobs keep their size{order}"
        case Stays.NOT_AT_WORK:
            return "it is not at work: it comes up, or is asked to stop or to move"
        case Stays.TOO_SOON:
            due_ms = world.jobs.origin_ms.item(j) + policy.grow_after_ms
            after, left = duration_text(policy.grow_after_ms), duration_text(due_ms - world.now_ms)
            return f"not before it has worked for {after} (`grow_after`), in {left}"
        case Stays.CONTESTED:
            return _contested(world, policy, memo, j)
        case Stays.NOT_WORTH:
            pause = duration_text(int(world.jobs.resize_ms[j]))
            after = duration_text(policy.grow_after_ms)
            return f"its pause of {pause} would not be won back within {after} (`grow_after`)"
    return "another replica has no place, within free GPUs and quotas"


def _contested(world: World, policy: Policy, memo: Glance, j: int) -> str:
    """Who waits for the GPU type that it runs on."""
    mine = _kinds(world, j)
    causes = world.shapes.cause
    rivals = {
        s for s in world.queued
        if causes[s] not in NOBODYS and not mine.isdisjoint(memo.known(world, s).kinds)
    }  # fmt: skip
    waiting = [i for i in rerun.in_order(world, policy, memo) if int(world.jobs.shape[i]) in rivals]
    names = phrasing.ids([world.job_names[i] for i in waiting])
    kinds = phrasing.either(world.kinds[k] for k in sorted(mine))
    wait = "waits" if len(waiting) == 1 else "wait"
    return (
        f"{phrasing.many(len(waiting), 'job')} {wait} for {kinds} ({names}), and a running job"
        " grows only on GPU types for which no job waits"
    )


def _guarantee(world: World, j: int) -> Fact | None:
    """That its team uses less than it is guaranteed, and that this does not make it grow."""
    q = int(world.shapes.queue[world.jobs.shape[j]])
    below = [k for k in sorted(_kinds(world, j)) if world.used[q, k] < world.floor[q, k]]
    if not below:
        return None
    k, team = below[0], world.queue_rows[q].name
    text = (
        f"team `{team}` is guaranteed {phrasing.amount(int(world.floor[q, k]))} `{world.kinds[k]}`"
        f" and uses {phrasing.amount(int(world.used[q, k]))}: a guaranteed quota is taken back for"
        " jobs that wait, not for one that runs"
    )
    return Fact("guaranteed quota", int(world.floor[q, k]), MILLI, text, commands.team(world, team))


def _allowed(world: World, j: int, role: Role) -> int:
    """How many more replicas the maximum quotas on its path allow, on the GPU types it runs on."""
    path = world.tree.paths[int(world.shapes.queue[world.jobs.shape[j]])]
    lefts = [int((world.limit - world.used)[path, k].min()) for k in _kinds(world, j)]
    if not role.replica_milli:
        return role.count
    return max(0, *lefts) // role.replica_milli


def _kinds(world: World, j: int) -> set[int]:
    return {int(world.nodes.kind[piece.node]) for piece in world.placements[j]}


def said(found: Sequence[Fact]) -> str:
    """The facts as the end of a sentence."""
    return "".join(f"; {fact.words}" for fact in found)
