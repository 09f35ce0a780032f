"""Quotas that are used up by work that waits too, where the cluster itself refuses what is more.

By the books such work holds nothing; the API server of Kubernetes counts the requests of all pods.
"""

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.quota_use import QuotaUse
from tidemill.model.rows import Shape
from tidemill.model.world import World


def refusal(world: World, shape: Shape) -> str:
    """Why work that is submitted now would be refused by the quota of its team; "": it is not."""
    mine = {one.kind: one for one in world.quota_use if one.team == shape.team}
    if not mine:
        return ""
    for role in shape.roles:
        asked = -(-role.count * role.replica_milli // WHOLE_MILLI)
        full = [mine[kind] for kind in role.kinds or world.kinds if _is_over(mine, kind, asked)]
        if full and len(full) == len(role.kinds or world.kinds):
            return _words(full[0], asked)
    return ""


def _is_over(mine: dict[str, QuotaUse], kind: str, asked: int) -> bool:
    return kind in mine and mine[kind].left < asked


def _words(quota: QuotaUse, asked: int) -> str:
    return (
        f"the quota `{quota.name}` of namespace `{quota.team}` has {quota.left:,} of"
        f" {quota.hard:,} {quota.kind} left, and it requests {asked:,}: pods that wait"
        " count there too, and the API server makes no pod beyond it"
        f" (kubectl describe resourcequota -n {quota.team})"
    )
