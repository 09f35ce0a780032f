"""Rules of a pod about other pods that no room which comes free meets.

That a label has no value on any node is shown by nodes. Whether the pods exist that a pod must be
beside is only said as far as they are shown: there may be others that nobody may read.
"""

from tidemill.live.kubernetes.fleet_now import FleetNow, WhyPending
from tidemill.live.kubernetes.pod_rules import RuleKind
from tidemill.live.kubernetes.pods import KubePod, PodRequest
from tidemill.model.reasons import LAYER_OF, Cause

_OVER_PLACES = {RuleKind.TOGETHER: "be with other pods in one", RuleKind.SPREAD: "be spread over"}


def lacks_devices(request: PodRequest) -> bool:
    """Whether no node publishes as many devices as its claims select."""
    return request.devices_on is not None and not request.devices_on


def by_devices(fleet: FleetNow, request: PodRequest) -> WhyPending | None:
    """That no node publishes as many devices as a claim selects; None: one does, or may."""
    if request.gpu is None or not fleet.nodes or not lacks_devices(request):
        return None
    words = f"its claims want {request.device_words}: no node publishes so many"
    cause = Cause.IMPOSSIBLE_LABEL
    return WhyPending(cause, LAYER_OF[cause], words, is_of_facts=True)


def by_labels(fleet: FleetNow, pod: KubePod) -> WhyPending | None:
    """That no node which a pod could use has a label by which it must be placed; None: some do."""
    request = pod.request
    able = [node for node in fleet.nodes
            if request.gpu is not None and node.capacity.get(request.gpu.resource)]  # fmt: skip
    able = [node for node in able if request.selects(node.labels)]
    for rule in request.near if able else ():
        if rule.kind in _OVER_PLACES and not any(rule.key in node.labels for node in able):
            words = f"must {_OVER_PLACES[rule.kind]} `{rule.key}`, a label that no node that it"
            cause = Cause.IMPOSSIBLE_LABEL
            return WhyPending(cause, LAYER_OF[cause], f"{words} could use has", is_of_facts=True)
    return None


def by_pods(fleet: FleetNow, pod: KubePod) -> str:
    """That no pod is shown beside which a pod must be; "": one is, or it must be beside none."""
    for rule in pod.request.near:
        key = (pod.namespace, rule)
        if rule.kind is not RuleKind.TOGETHER or rule.names(pod.namespace, pod):
            continue  # the first of those that are to be together is placed anywhere
        if key not in fleet.named:
            fleet.named[key] = any(rule.names(pod.namespace, one) for one in fleet.alive)
        if not fleet.named[key]:
            return "it must be beside pods (podAffinity) of which none is shown"
    return ""
