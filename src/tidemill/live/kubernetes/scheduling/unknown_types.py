"""GPU types that quotas of the policy file name and no node has: a quota that nobody can use."""

from collections.abc import Iterable
from difflib import get_close_matches

from tidemill.model.rows import Queue
from tidemill.model.states import NodeState
from tidemill.model.world import World


def of(queues: Iterable[Queue], world: World) -> tuple[str, ...]:
    """Types that are named, and that no node has; none as long as no node is there."""
    named = {share.kind for queue in queues for share in queue.shares}
    has = _there(world) if named else set[str]()
    return tuple(sorted(named - has)) if has else ()


def hint(unknown: Iterable[str], world: World) -> str:
    """What may have been meant."""
    has = sorted(_there(world))
    near = {
        one: next(iter(get_close_matches(one.upper(), has, n=1, cutoff=0.4)), "") for one in unknown
    }
    meant = "; ".join(
        f"for `{one}` did you mean `{other}`?" for one, other in near.items() if other
    )
    types = f"the cluster has: {', '.join(has)}"
    return f"{meant} {types}" if meant else types


def _there(world: World) -> set[str]:
    nodes, rows = world.nodes, world.node_count
    here = nodes.state[:rows] != NodeState.GONE
    return {world.kinds[k] for k in set(nodes.kind[:rows][here].tolist())}
