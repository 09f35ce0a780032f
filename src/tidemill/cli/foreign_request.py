"""What ``fit`` takes for granted on a Kubernetes cluster, whoever schedules there, and says.

There a namespace may have no jobs yet, and whoever writes pods decides how many GPUs one has.
"""

from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold_all
from tidemill.explain import phrasing
from tidemill.journal import cluster_kinds
from tidemill.model import events as ev
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Job, Queue
from tidemill.model.world import World

_NAMED = 8  # teams that are listed beside one that nobody knows


def with_team(world: World, team: str, cluster: str) -> tuple[World, tuple[str, ...]]:
    """A cluster state that knows the team, and that it is taken to be new; else as it was."""
    is_namespace = cluster_kinds.of_all(world, cluster) == cluster_kinds.KUBERNETES
    if not team or team in world.queue_number or not is_namespace:
        return world, ()
    known = phrasing.ids(phrasing.teams(world), most=_NAMED)
    words = f"no job of team `{team}` is known here: it is taken to be new, and to have no quota"
    words += f" (known teams: {known})" if world.queue_number else ""
    made = snapshot.branch(world)
    return fold_all(made, [ev.QueueSet(made.now_ms, Queue(team))]), (words,)


def layout(world: World, job: Job, gpus: str) -> str:
    """How so many GPUs are laid out where nobody said it, before the answer; "": as asked."""
    role = job.shape.roles[0]
    if not world.is_looked_on or role.count == 1 or role.milli < WHOLE_MILLI:
        return ""
    usable = [row for row in world.contract_rows if not role.kinds or row.kind in role.kinds]
    most = max((row.node.devices for row in usable), default=0)
    which = "no node has" if most < int(gpus) else "not every node has"
    made = phrasing.replicas_of(role, role.count)
    return f"as {made}, for {which} {gpus} (--per-node says otherwise): "
