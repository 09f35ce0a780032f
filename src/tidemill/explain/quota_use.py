"""Quotas that are used up by work that waits too, where the cluster itself refuses what is more.

By the books such work holds nothing; the API server of Kubernetes counts the requests of all pods.
"""

from tidemill.explain import phrasing
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.quota_use import CORES, MEMORY, PODS, QuotaUse
from tidemill.model.rows import Shape
from tidemill.model.world import World
from tidemill.scheduling import elastic


def refusal(world: World, shape: Shape) -> str:
    """Why work that is submitted now would be refused by the quota of its team; "": it is not."""
    shape = elastic.smallest(shape)
    mine = {one.kind: one for one in world.quota_use if one.team == shape.team}
    if not mine:
        return ""
    asked = {
        PODS: sum(role.count for role in shape.roles),
        CORES: sum(role.count * role.cpu_milli for role in shape.roles),
        MEMORY: sum(role.count * role.memory_mib for role in shape.roles),
    }
    for kind, count in asked.items():
        if kind in mine and not count:
            return _unsaid(mine[kind])
        if _is_over(mine, kind, count):
            return _words(mine[kind], count)
    for quota in mine.values():
        if quota.kinds and (count := _of_kinds(world, shape, quota.kinds)) > quota.left:
            return _words(quota, count)
    for role in shape.roles:
        count = -(-role.count * role.replica_milli // WHOLE_MILLI)
        full = [mine[kind] for kind in role.kinds or world.kinds if _is_over(mine, kind, count)]
        if full and len(full) == len(role.kinds or world.kinds):
            return _words(full[0], count)
    return ""


def _of_kinds(world: World, shape: Shape, kinds: tuple[str, ...]) -> int:
    """How many GPUs of these types together are requested, by roles that may have no others."""
    return sum(
        -(-role.count * role.replica_milli // WHOLE_MILLI)
        for role in shape.roles if {*(role.kinds or world.kinds)} <= {*kinds}
    )  # fmt: skip


def _is_over(mine: dict[str, QuotaUse], kind: str, asked: int) -> bool:
    return kind in mine and mine[kind].left < asked


def _words(quota: QuotaUse, asked: int) -> str:
    left, hard, wants = (_amount(quota.kind, some) for some in (quota.left, quota.hard, asked))
    has = f"{left} of {hard} {_NAMES.get(quota.kind, quota.kind)} left, and it requests {wants}"
    if asked > quota.hard:
        return (
            f"the quota `{quota.name}` of namespace `{quota.team}` is {hard}"
            f" {_NAMES.get(quota.kind, quota.kind)} in all, and it requests {wants}: until that is"
            " raised the API server never makes all of its pods"
            f" (kubectl describe resourcequota -n {quota.team})"
        )
    return (
        f"the quota `{quota.name}` of namespace `{quota.team}` has {has}: pods that wait"
        " count there too, and the API server makes no pod beyond it"
        f" (kubectl describe resourcequota -n {quota.team})"
    )


def _unsaid(quota: QuotaUse) -> str:
    """Where a quota counts something, every pod has to say how much of it."""
    left, hard = _amount(quota.kind, quota.left), _amount(quota.kind, quota.hard)
    option = "--cpus" if quota.kind == CORES else "--memory-gib"
    return (
        f"the quota `{quota.name}` of namespace `{quota.team}` has {left} of {hard}"
        f" {_NAMES[quota.kind]} left, and the API server makes no pod there that requests none,"
        f" unless a LimitRange gives it some: say how much with {option} (kubectl describe"
        f" resourcequota,limitrange -n {quota.team})"
    )


_NAMES = {CORES: "cores", MEMORY: "GiB of memory"}


def _amount(kind: str, amount: int) -> str:
    if kind == MEMORY:
        return phrasing.gib(amount)
    return phrasing.cores(amount) if kind == CORES else f"{amount:,}"
