"""Who holds devices by claim: pods of ours, and claims of others, each as a pod that holds them.

A claim is ours while a pod of ours uses it. One that was made for extended resources of a pod is
that pod's, which holds its devices itself. Every other claim that is allocated holds its devices
whether its pods are bound or not, so it is shown as a pod of its own, `claim:NAME`; the pods that
use it hold CPU and memory.
"""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes import extended
from tidemill.live.kubernetes.dra import DeviceClaim, DeviceId
from tidemill.live.kubernetes.owners import OwnerObject
from tidemill.live.kubernetes.pods import KubePod, PodRequest
from tidemill.live.kubernetes.resources import CLAIMED, GpuRequest
from tidemill.live.kubernetes.scheduling.claims import ClaimBook, Key

SHOWN = "claim:"
"""How the pods begin that stand for claims of others; no pod of Kubernetes has a colon."""
HELD = "tidemill/devices"
"""The label of such a pod with its devices."""


def named(pod: KubePod) -> Iterator[Key]:
    """The claims and templates that a pod names."""
    for inside, told in pod.request.claims:
        yield pod.namespace, told
        if made := pod.claim_names.get(inside):
            yield pod.namespace, made


def with_templates(book: ClaimBook, owner: OwnerObject) -> OwnerObject:
    """An owner with what the claims of its pods will ask for."""
    return replace(owner, templates=tuple(
        replace(part, request=book.request(owner.namespace, part.request))
        if part.request.claims else part
        for part in owner.templates
    ))  # fmt: skip


def given_to(book: ClaimBook, pod: KubePod) -> set[DeviceId]:
    """The devices that a pod holds by its claims, or that one that stands for a claim holds."""
    if pod.name.startswith(SHOWN):
        return {*msgspec.json.decode(pod.labels[HELD], type=tuple[DeviceId, ...])}
    claims = [claim for claim in book.of_pod(pod) if pod.uid in claim.reserved]
    return {one for claim in claims for some in book.held_on(claim).values() for one in some}


def as_pods(book: ClaimBook, claim: DeviceClaim, ours: Mapping[str, Key]) -> dict[Key, KubePod]:
    """The pods that stand for a claim of others: one for each group of devices that it has of."""
    if any(uid in ours for uid in claim.reserved):
        return {}
    found = dict[Key, KubePod]()
    for machine, devices in sorted(book.held_on(claim).items()):
        for group in book.groups(machine):
            held = [one.id for one in group.devices if one.id in devices]
            name = f"{SHOWN}{claim.name}" + (f"@{len(found) + 1}" if found else "")
            if held:
                found[claim.namespace, name] = _standing(claim, name, machine, held)
    return found


def with_own(book: ClaimBook, pod: KubePod) -> KubePod:
    """A pod with a claim of its own for extended resources: it holds what that was given.

    Until the claim is shown, as many as it requests.
    """
    assert pod.own_claim is not None, "it has one"
    rest = extended.without(pod.request, pod.own_claim.resources)
    claim, gpu = book.claims.get((pod.namespace, pod.own_claim.name)), pod.request.gpu
    count = gpu.each if gpu is not None else 0
    if claim is not None:
        count = held_alone(book, claim, pod)
    by_claim = GpuRequest(CLAIMED, count) if count else None
    return replace(pod, request=replace(rest, gpu=rest.gpu or by_claim))


def held_alone(book: ClaimBook, claim: DeviceClaim, pod: KubePod) -> int:
    """How many devices a pod itself holds by a claim of its own.

    0: it is not there yet or any more, or they are of several parts of its machine.
    """
    standing = [*as_pods(book, claim, {}).values()]
    is_there = not pod.is_over and [one.node for one in standing] == [pod.node]
    gpu = standing[0].request.gpu if is_there else None
    return gpu.each if gpu is not None else 0


def _standing(claim: DeviceClaim, name: str, machine: str, held: list[DeviceId]) -> KubePod:
    request = PodRequest(
        gpu=GpuRequest(CLAIMED, len(held)), cpu_milli=0, memory_mib=0, selector=(), terms=(),
        tolerations=(), scheduler="", priority=0, priority_class="", claims=(),
    )  # fmt: skip
    return KubePod(
        namespace=claim.namespace, name=name, uid=claim.uid,
        labels={HELD: msgspec.json.encode(held).decode()}, annotations={}, owner=None,
        created_ms=0, request=request, node=machine, phase="Running", bound_ms=0, up_ms=0,
        end_ms=None, outcome=AttemptEnd.CANCELLED, gates=(), reason="", message="", nominated="",
        scheduling_group="", workload=("", "", ""), restarts=0, seen_ms=0, subdomain="",
        claim_names={}, if_deleted=AttemptEnd.CANCELLED, leaves_ms=None,
    )  # fmt: skip
