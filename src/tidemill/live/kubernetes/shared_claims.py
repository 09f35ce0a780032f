"""Claims (DRA) that several pods use at once: in whose books their devices are, and from when on.

The devices of a claim count once. The pod that was there first has them until it ends; then the
first of those that still use them, from then on. Pods that wait have them when nobody else has.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from tidemill.live.kubernetes.dra import DeviceClaim
from tidemill.live.kubernetes.fields import LATEST_MS
from tidemill.live.kubernetes.pods import KubePod
from tidemill.model.measures import count_text

NEVER_MS = -1  # before any pod
PodKey = tuple[str, str]
"""Its full name and its uid."""


def key_of(pod: KubePod) -> PodKey:
    """By what a pod is known here."""
    return pod.full_name, pod.uid


def in_turn(users: Sequence[KubePod]) -> dict[PodKey, int | None]:
    """Which of the pods that name a claim have its devices in the books, in turn.

    From when on; None: from when they were placed. ``users``: the oldest first.
    """
    left = [pod for pod in users if _is_placed(pod)]
    found = dict[PodKey, int | None]()
    end_ms = NEVER_MS
    while left:
        there = [pod for pod in left if (pod.bound_ms or 0) <= end_ms]
        one = there[0] if there else min(left, key=lambda pod: pod.bound_ms or 0)
        found[key_of(one)] = end_ms if there else None
        if one.end_ms is None:
            return found
        end_ms = one.end_ms
        left = [pod for pod in left if pod is not one and (pod.end_ms or LATEST_MS) > end_ms]
    waits = [pod for pod in users if pod.is_pending] or users[: not found]
    return found | {key_of(pod): None for pod in waits[:1]}


def taken_over(pod: KubePod, since_ms: int | None) -> KubePod:
    """A pod that has devices from some moment on, and none before that."""
    if since_ms is None or pod.bound_ms is None:
        return pod
    up_ms = None if pod.up_ms is None else max(pod.up_ms, since_ms)
    return replace(pod, created_ms=max(pod.created_ms, since_ms), bound_ms=since_ms, up_ms=up_ms)


def note(pods: Iterable[KubePod], claims: Mapping[tuple[str, str], DeviceClaim]) -> str:
    """What to say of pods on nodes whose accelerators are in the books of others; "": no pod is."""
    others = dict[str, str]()
    for pod in pods:
        for inside, name in pod.request.claims if pod.node and pod.request.gpu is None else ():
            claim = claims.get((pod.namespace, pod.claim_names.get(inside) or name))
            if claim is not None and claim.held and not pod.is_over:
                others[pod.full_name] = claim.name
    if not others:
        return ""
    first, claim_name = min(others.items())
    return (
        f"{count_text(len(others), 'pod')} with a claim of GPUs (DRA) that others share: in the"
        f" books of who had them first, and no jobs of their own (first {first}, claim"
        f" {claim_name}: kubectl describe resourceclaims -n {first.partition('/')[0]} {claim_name})"
    )


def _is_placed(pod: KubePod) -> bool:
    is_known = pod.end_ms is not None or not pod.is_over
    return bool(pod.node) and pod.bound_ms is not None and is_known
