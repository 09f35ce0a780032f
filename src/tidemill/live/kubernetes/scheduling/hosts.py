"""Pods without GPUs of a gang that has to be in one place (a launcher, a driver): a role of it.

They are bound with the gang, whole or not at all, in its place. One that comes when its gang is
bound without any is a job of its own, and goes where the gang is (``surplus``). Of gangs that are
not tied to a place, and elastic ones, they are placed one by one.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from tidemill.live.kubernetes import groups, ties
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.model.rows import Role, Shape

NAME = "host"
"""Of the role."""
NOT_THERE = Unplaceable(
    "WaitingForGang", "no pod with GPUs of its gang is there yet: it starts with them, in one place"
)
UNLIKE = Unplaceable(
    "NotSupported",
    "pods without GPUs of one gang that select or tolerate other nodes than each other, where the"
    " gang has to be in one place: not placed by Tidemill's scheduler yet",
)


def is_tied(cluster: Cluster, pod: KubePod) -> bool:
    """Whether a pod without GPUs has to be in the place of the gang that it names."""
    request = pod.request
    is_other = request.claims or request.uncounted or request.unread or request.extras
    if request.gpu is not None or is_other or request.unkept:
        return False
    told = groups.of_pod(pod)
    if told is None:
        return False
    group = groups.find(cluster.groups, told)
    mine = (*ties.of_pod(pod.annotations), *(group.ties if group is not None else ()))
    return bool(ties.required(mine))


def of(pods: Iterable[KubePod]) -> list[KubePod]:
    """Those of a gang's pods that have no GPUs, and have not ended."""
    return [pod for pod in pods if pod.request.gpu is None and not pod.is_over]


def number(shape: Shape) -> int | None:
    """The number of their role; None: the gang has none."""
    return next((r for r, role in enumerate(shape.roles) if not role.accelerators), None)


def joined(shape: Shape | Unplaceable, mine: Iterable[KubePod]) -> Shape | Unplaceable:
    """The shape of a gang with its pods without GPUs; each as large as the largest of them."""
    asks = [pod.request for pod in mine]
    if isinstance(shape, Unplaceable) or not asks:
        return shape
    rules = {request.rules for request in asks}
    if len(rules) > 1:
        return UNLIKE
    role = Role(
        NAME, len(asks), 0, cpu_milli=max(one.cpu_milli for one in asks),
        memory_mib=max(one.memory_mib for one in asks), **rules.pop()._asdict(),
    )  # fmt: skip
    return replace(shape, roles=(*shape.roles, role))
