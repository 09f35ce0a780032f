"""Claims (DRA) that several pods use at once: in whose books their devices are, and from when on.

The devices of a claim count once, and so does a device of which several claims have parts. The pod
that was there first has them until it ends; then the first of those that still use them, from then
on. Pods that wait have them when nobody else has.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.kubernetes.dra import DeviceClaim, DeviceId
from tidemill.live.kubernetes.fields import LATEST_MS
from tidemill.live.kubernetes.pods import KubePod
from tidemill.model.claim_sharers import ClaimSharer
from tidemill.model.measures import count_text

NEVER_MS = -1  # before any pod
_LONGEST_SAID = 300
ClaimKey = tuple[str, str]
"""Namespace and name."""
PodKey = tuple[str, str]
"""Its full name and its uid."""


def key_of(pod: KubePod) -> PodKey:
    """By what a pod is known here."""
    return pod.full_name, pod.uid


def turns(
    users: Mapping[ClaimKey, Sequence[KubePod]], claims: Mapping[ClaimKey, DeviceClaim]
) -> dict[ClaimKey, dict[PodKey, int | None]]:
    """By claim: which of its pods have its devices in the books, in turn (``in_turn``).

    Claims that have parts of one device (`shareID`) are as one claim: nobody says how large a part
    of its time or its memory each of them has, so that the device is in the books of one at a time.
    """
    together, of_device = dict[ClaimKey, ClaimKey](), dict[DeviceId, ClaimKey]()

    def first(key: ClaimKey) -> ClaimKey:
        while together.get(key, key) != key:
            key = together[key]
        return key

    for key in sorted(users):
        for device in claims[key].shared:
            together[first(key)] = first(of_device.setdefault(device, key))
    all_users = dict[ClaimKey, dict[PodKey, KubePod]]()
    for key, some in users.items():
        all_users.setdefault(first(key), {}).update((key_of(pod), pod) for pod in some)
    found = {
        key: in_turn(sorted(some.values(), key=lambda pod: (pod.created_ms, pod.full_name)))
        for key, some in all_users.items()
    }
    return {key: found[first(key)] for key in users}


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


class _Shared(NamedTuple):
    """A pod that is no job for a claim of it, and why."""

    pod: KubePod
    claim: DeviceClaim

    @property
    def is_part(self) -> bool:
        """Whether it has a part of a device of which others have parts."""
        return bool(self.pod.node) and bool(self.claim.shared)


def _shared(pods: Sequence[KubePod], claims: Mapping[ClaimKey, DeviceClaim]) -> Iterator[_Shared]:
    """Pods whose accelerators are in the books of others, or wanted by them."""
    wanted = {(pod.namespace, name) for pod in pods if pod.request.gpu is not None
              for name in _names(pod)}  # fmt: skip
    for pod in pods:
        for name in _names(pod) if pod.request.gpu is None and not pod.is_over else ():
            key = (pod.namespace, name)
            claim = claims.get(key)
            is_had = claim is not None and bool(claim.held) and bool(pod.node)
            if claim is not None and (is_had or (pod.is_pending and key in wanted)):
                yield _Shared(pod, claim)


def sharers(
    pods: Sequence[KubePod], claims: Mapping[ClaimKey, DeviceClaim],
    job_of: Mapping[tuple[str, str], str],
) -> Iterator[ClaimSharer]:  # fmt: skip
    """Pods that share the claim of a job, each once; ``job_of``: the job of each pod."""
    some = [*_shared(pods, claims)]
    of_claim, of_device = dict[ClaimKey, str](), dict[DeviceId, str]()
    for pod in sorted(
        pods if some else (), key=lambda pod: (pod.is_over, pod.created_ms, pod.full_name)
    ):
        job = job_of.get((pod.namespace, pod.name))
        for name in _names(pod) if job is not None and pod.request.gpu is not None else ():
            of_claim.setdefault((pod.namespace, name), job or "")
            known = claims.get((pod.namespace, name))
            for device in known.held if known is not None else ():
                of_device.setdefault(device, job or "")
    found = dict[str, ClaimSharer]()
    for one in some:
        pod, claim = one.pod, one.claim
        whose = [of_claim.get((claim.namespace, claim.name), "")]
        whose += [of_device.get(device, "") for device in claim.held]
        if job := next(filter(None, whose), ""):
            found.setdefault(pod.full_name, ClaimSharer(
                pod.full_name, claim.name, job, pod.is_pending, one.is_part,
                " ".join(pod.message.split())[:_LONGEST_SAID] if pod.is_pending else "",
            ))  # fmt: skip
    yield from found.values()


def notes(pods: Sequence[KubePod], claims: Mapping[ClaimKey, DeviceClaim]) -> Iterator[str]:
    """What to say of pods whose accelerators are in the books of others, or wanted by them."""
    others, in_part, waiting = dict[str, str](), dict[str, str](), dict[str, str]()
    for one in _shared(pods, claims):
        kind = waiting if not one.pod.node else in_part if one.is_part else others
        kind[one.pod.full_name] = one.claim.name
    if others:
        yield _note(
            others, "a claim of GPUs (DRA) that others share: in the books of who had them first"
        )
    if in_part:
        yield _note(
            in_part,
            "a claim of a part of a GPU (DRA, shareID) of which others have parts: how much of its"
            " time each has nobody says, and the whole of it is in the books of who had it first",
        )
    if waiting:
        yield _note(
            waiting,
            "a claim of GPUs (DRA) that others have, or wait for too: its GPUs are requested once,"
            " and `tidemill why` of each pod names by which job",
        )


def _names(pod: KubePod) -> Iterator[str]:
    """The claims of a pod."""
    for inside, name in pod.request.claims:
        yield pod.claim_names.get(inside) or name
    if pod.own_claim is not None:
        yield pod.own_claim.name


def _note(named: Mapping[str, str], what: str) -> str:
    first, claim_name = min(named.items())
    return (
        f"{count_text(len(named), 'pod')} with {what}, and no jobs of their own (first {first},"
        f" claim {claim_name}: kubectl describe resourceclaims -n {first.partition('/')[0]}"
        f" {claim_name})"
    )


def _is_placed(pod: KubePod) -> bool:
    is_known = pod.end_ms is not None or not pod.is_over
    return bool(pod.node) and pod.bound_ms is not None and is_known
