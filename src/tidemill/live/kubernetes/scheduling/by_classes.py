"""Extended resources that DeviceClasses give out, and no device plug-in: pods of ours are held.

Whoever places such a pod makes a claim for it and names it in the pod's status, as kube-scheduler
does. Tidemill's scheduler makes no objects: it allocates the claims that pods name.
"""

from collections.abc import Iterable

from tidemill.live.kubernetes import extended
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.view import ClusterView


def refused(view: ClusterView, pods: Iterable[KubePod]) -> Unplaceable | None:
    """That one of these pods requests what no plug-in has; None: all may be placed by plug-ins."""
    classes, named = view.claimed.book.extended, dict[str, None]()
    for request in {pod.request: None for pod in pods}:
        some = [*extended.amounts(request), *request.also]
        named.update(dict.fromkeys(
            one for one in some if one in classes or one.startswith(extended.IMPLICIT)
        ))  # fmt: skip
    nodes = view.machines.values()
    lacking = next((one for one in named if not any(
        one in node.capacity or one in node.extras for node in nodes
    )), None)  # fmt: skip
    if lacking is None:
        return None
    told = classes.get(lacking, lacking.removeprefix(extended.IMPLICIT))
    return Unplaceable(
        "NotSupported",
        f"`{lacking}` is given out by claims of DeviceClass `{told}` (DRA), and no node advertises"
        " it: not placed by Tidemill's scheduler yet; let its pods name a claim of that class"
        " (resourceClaims)",
    )
