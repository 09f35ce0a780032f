"""Containers of a pod: which of them have its accelerators, and whether those run.

A proxy, a log shipper or another sidecar that runs on says nothing of the work beside it.
"""

from collections.abc import Sequence

from msgspec import Struct

from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes import fields, resources
from tidemill.live.kubernetes.fields import Object


class StuckPod(Struct, frozen=True):
    """A pod on a node of which no container with accelerators runs."""

    reason: str
    """Why, in the kubelet's word: `ImagePullBackOff`, `CrashLoopBackOff`."""
    message: str
    since_ms: int | None
    """When the last container ended; None: none has run, or nobody says when."""
    last_end: str
    """How that ended, in words; "": none has, or nobody says."""


class InitStep(Struct, frozen=True):
    """An init container that a pod is at: the others wait for it."""

    name: str
    since_ms: int


class LeftPod(Struct, frozen=True):
    """A pod whose containers with accelerators have ended for good, while others run on."""

    since_ms: int
    outcome: AttemptEnd
    words: str
    """How they ended, and what runs on."""


def with_devices(one: Object) -> Sequence[Object]:
    """The statuses of a pod's containers that have its accelerators.

    They request them by a resource, or else name a claim. Where none does, all that are no sidecars
    count; an init container that is restarted always is one, and counts if it has some itself.
    """
    told = fields.each(one, "status", "containerStatuses")
    before = fields.each(one, "status", "initContainerStatuses")
    if len(told) + len(before) < 2:
        return told
    stay = [
        container for container in fields.each(one, "spec", "initContainers")
        if fields.text(container, "restartPolicy") == "Always"
    ]  # fmt: skip
    every = [*fields.each(one, "spec", "containers"), *stay]
    some = [one for one in every if _requests(one)]
    some = some or [one for one in every if any(fields.each(one, "resources", "claims"))]
    names = {fields.text(container, "name") for container in some}
    mine = [status for status in (*told, *before) if fields.text(status, "name") in names]
    return mine or told


def _requests(container: Object) -> bool:
    """Whether a container requests accelerators by a resource."""
    told = (fields.inner(container, "resources", way) for way in ("limits", "requests"))
    return any(
        resources.is_accelerator(name) and fields.quantity(amount)
        for some in told for name, amount in some.items()
    )  # fmt: skip


def started_ms(status: Object) -> int | None:
    """When a container came up for the first time, as far as that is kept.

    Kubernetes keeps the last two starts: of one that was restarted more often nobody knows, and it
    counts as up from the moment it was bound.
    """
    restarts = fields.number(status, "restartCount") or 0
    if restarts > 1:
        return 0
    for way in (("lastState", "terminated"), ("state", "running"), ("state", "terminated")):
        found = fields.moment_ms(status, *way, "startedAt")
        if found is not None:
            return found
    return None


_COMING = ("", "ContainerCreating", "PodInitializing")
"""Why containers wait that are about to start."""


def stuck(one: Object, statuses: Sequence[Object]) -> StuckPod | None:
    """Why none of a pod's containers runs; None: one does, or they are about to start.

    ``statuses``: of those that count (``with_devices``).
    """
    if any(fields.inner(status, "state", "running") for status in statuses):
        return None
    every = [*statuses, *fields.each(one, "status", "initContainerStatuses")]
    waits = [fields.inner(status, "state", "waiting") for status in every]
    why = next((wait for wait in waits if fields.text(wait, "reason") not in _COMING), None)
    if why is None:
        return None
    ends = [fields.inner(s, way, "terminated") for s in statuses for way in ("state", "lastState")]
    ended = [(ms, end) for end in ends if (ms := fields.moment_ms(end, "finishedAt")) is not None]
    last_ms, last = max(ended, key=lambda pair: pair[0], default=(None, {}))
    restarts = sum(fields.number(status, "restartCount") or 0 for status in statuses)
    code, how = fields.number(last, "exitCode"), fields.text(last, "reason") or "no reason"
    told = f"{restarts} restarts, the last ended with exit code {code} ({how})"
    return StuckPod(
        fields.text(why, "reason"), fields.text(why, "message"), last_ms,
        "" if code is None else told,
    )  # fmt: skip


def again(statuses: Sequence[Object]) -> tuple[int, int] | None:
    """The last time that none of these containers ran; one beside another stops nothing."""
    ends = [fields.moment_ms(one, "lastState", "terminated", "finishedAt") for one in statuses]
    starts = [fields.moment_ms(one, "state", "running", "startedAt") for one in statuses]
    ended, begun = ([ms for ms in some if ms is not None] for some in (ends, starts))
    if not statuses or len(ended) < len(statuses) or len(begun) < len(statuses):
        return None
    return (max(ended), max(begun)) if max(ended) <= min(begun) else None


LEAVES_WITHIN_MS = 30_000
"""How long the rest of a pod may take to end after its work: the grace period of Kubernetes."""


def left(one: Object, mine: Sequence[Object], end_ms: int | None) -> LeftPod | None:
    """Since when the containers with accelerators are over and others go on; None: they are not.

    ``end_ms``: when the pod ended, if it did.
    """
    every = [
        *fields.each(one, "status", "containerStatuses"),
        *fields.each(one, "status", "initContainerStatuses"),
    ]
    ends = [fields.inner(status, "state", "terminated") for status in mine]
    times = [ms for end in ends if (ms := fields.moment_ms(end, "finishedAt")) is not None]
    if not times or len(times) < len(mine):
        return None
    others = [
        fields.text(status, "name") for status in every
        if status not in mine and fields.inner(status, "state", "running")
    ]  # fmt: skip
    is_late = end_ms is not None and end_ms - max(times) > LEAVES_WITHIN_MS
    if not (others if end_ms is None else is_late):
        return None
    codes = sorted({fields.number(end, "exitCode") or 0 for end in ends})
    how = f"ended with exit code {', '.join(map(str, codes))}"
    words = f"{how}, and {', '.join(others)} runs on" if others else how
    return LeftPod(max(times), AttemptEnd.FAILED if any(codes) else AttemptEnd.DONE, words)


def init_step(one: Object) -> InitStep | None:
    """The init container that a pod is at; None: it is past them, or nobody says."""
    stay = {
        fields.text(container, "name") for container in fields.each(one, "spec", "initContainers")
        if fields.text(container, "restartPolicy") == "Always"
    }  # fmt: skip
    for status in fields.each(one, "status", "initContainerStatuses"):
        since_ms = fields.moment_ms(status, "state", "running", "startedAt")
        name = fields.text(status, "name")
        if since_ms is not None and name not in stay:
            return InitStep(name, since_ms)
    return None
