"""The life of a job, stretch by stretch: in each it holds the same pods' devices.

A gang that grows pod by pod, loses one and gets another, is one job that holds something else from
stretch to stretch. It has come up when as many of its pods run as it works with. What ends while
none of its pods goes on is an attempt that ended.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.history.rows import NEVER_UP_MS, AttemptEnd
from tidemill.live.kubernetes.jobs import KubeJob
from tidemill.live.kubernetes.pods import KubePod


class HeldPod(NamedTuple):
    """A pod that sits on a node: from when to when, and of which role it is."""

    pod: KubePod
    role: int
    start_ms: int
    end_ms: int | None

    def is_there(self, at_ms: int) -> bool:
        """Whether it holds its devices at a moment."""
        return self.start_ms <= at_ms and (self.end_ms is None or at_ms < self.end_ms)


class Stretch(NamedTuple):
    """A stretch of time in which a job holds the same pods' devices."""

    start_ms: int
    end_ms: int | None
    outcome: AttemptEnd
    held: tuple[HeldPod, ...]
    up_ms: int
    """When enough of it had come up; never: not in this stretch."""
    done: int = 0
    """How many of its pods had ended well before."""


def held_pods(job: KubeJob) -> list[HeldPod]:
    """The pods of a job that sit or sat somewhere for some time.

    One whose containers with GPUs all ended failed then, and begins again: it works when they have
    started again. Kubernetes keeps the last such time alone. One that others of its containers keep
    there works no more.
    """
    return [
        held
        for r, role in enumerate(job.roles)
        for pod in role.pods
        if pod.node and pod.bound_ms is not None and (pod.end_ms is not None or not pod.is_over)
        for held in _turns(pod, r, pod.bound_ms)
    ]


def _turns(pod: KubePod, role: int, bound_ms: int) -> Iterator[HeldPod]:
    stopped_ms, up_ms = pod.again or (pod.stuck.since_ms if pod.stuck else None, None)
    how = AttemptEnd.FAILED
    if pod.left is not None:
        stopped_ms, how = pod.left.since_ms, pod.left.outcome
        is_done = pod.outcome is AttemptEnd.DONE  # and what is done was at work
        up_ms = pod.end_ms - 1 if is_done and pod.end_ms is not None else None
    end_ms = pod.end_ms
    if stopped_ms is None or not bound_ms < stopped_ms < (end_ms or stopped_ms + 1):
        yield HeldPod(pod, role, bound_ms, end_ms)
        return
    yield HeldPod(replace(pod, outcome=how), role, bound_ms, stopped_ms)
    yield HeldPod(replace(pod, up_ms=up_ms), role, stopped_ms, end_ms)


def stretches(
    job: KubeJob, held: Sequence[HeldPod], *, looks_back: bool = True
) -> Iterator[Stretch]:
    """All stretches in which it holds something, in order.

    ``looks_back``: what shows later that a gang works with fewer pods counts from its beginning.
    Whoever tells it while it lives cannot: it works from just before that is seen.
    """
    lasting = [one for one in held if one.end_ms is None or one.end_ms > one.start_ms]
    marks = {one.start_ms for one in held}
    marks |= {one.end_ms for one in lasting if one.end_ms is not None}
    moments = sorted(marks)
    needs, shown_ms = _works_with(job, lasting)
    for i, start_ms in enumerate(moments):
        here = tuple(one for one in lasting if one.is_there(start_ms))
        done = sum(
            one.pod.outcome is AttemptEnd.DONE and one.end_ms is not None and one.end_ms <= start_ms
            for one in held
        )
        if not here:
            yield from _moment(job, held, start_ms, done, looks_back=looks_back)
            continue
        end_ms = moments[i + 1] if i + 1 < len(moments) else None
        outcome = _outcome(job, held, here, end_ms, looks_back=looks_back)
        is_shown = looks_back or shown_ms <= start_ms
        wanted = needs if is_shown else _least(job)
        up_ms = _up_ms(here, max(wanted - done, 1), start_ms, end_ms)
        if not looks_back and end_ms is not None and (
            shown_ms == end_ms or outcome is AttemptEnd.DONE
        ):  # fmt: skip
            up_ms = min(up_ms, end_ms - 1)
        yield Stretch(start_ms, end_ms, outcome, here, up_ms, done)


def _moment(
    job: KubeJob, held: Sequence[HeldPod], at_ms: int, done: int, *, looks_back: bool
) -> Iterator[Stretch]:
    """Pods that ended in the second in which they were bound, and nothing else: it was there."""
    here = tuple(one for one in held if one.start_ms == at_ms)
    if here:
        before = done - sum(one.pod.outcome is AttemptEnd.DONE for one in here)
        outcome = _outcome(job, held, here, at_ms, looks_back=looks_back)
        yield Stretch(at_ms, at_ms, outcome, here, at_ms, before)


def _works_with(job: KubeJob, held: Sequence[HeldPod]) -> tuple[int, int]:
    """With how many pods it works, and when that shows.

    With one, if any ended well before as many were there as it was said to need: whoever ends well
    alone did not need the others.
    """
    least = _least(job)
    ended = [one.end_ms for one in held if one.pod.outcome is AttemptEnd.DONE and one.end_ms]
    if not ended:
        return least, 0
    first = min(ended)
    most = max(
        sum(one.is_there(at) for one in held)
        for at in {one.start_ms for one in held if one.start_ms < first}
    )
    return (least, 0) if most >= least else (1, first)


def _least(job: KubeJob) -> int:
    """With how many pods it was said to work."""
    return max(1, min(job.least, job.size))


def _up_ms(here: Sequence[HeldPod], needs: int, start_ms: int, end_ms: int | None) -> int:
    """When the last of as many as it needs had come up."""
    ups = sorted(one.pod.up_ms for one in here if one.pod.up_ms is not None)
    up_ms = max(ups[needs - 1], start_ms) if len(ups) >= needs else NEVER_UP_MS
    return up_ms if end_ms is None or up_ms < end_ms else NEVER_UP_MS


def _outcome(
    job: KubeJob, held: Sequence[HeldPod], here: Sequence[HeldPod], end_ms: int | None,
    *, looks_back: bool,
) -> AttemptEnd:  # fmt: skip
    """How a stretch ends: in another one, or as the pods that end with it."""
    if end_ms is None:
        return AttemptEnd.RUNNING
    if any(one.is_there(end_ms) for one in here):
        return AttemptEnd.CHANGED
    is_last = not any(one.start_ms >= end_ms and one not in here for one in held)
    ways = [one.pod.outcome for one in here if one.end_ms == end_ms]
    bad = [way for way in ways if way is not AttemptEnd.DONE]
    way = bad[0] if bad else AttemptEnd.DONE
    if (
        is_last
        and job.end is not None
        and not ended_later(job.end, end_ms, way, looks_back=looks_back)
    ):
        return job.end[0]
    if bad:
        return way
    is_over = is_last and job.owner is None and all(pod.is_over for pod in job.pods)
    return AttemptEnd.DONE if is_over else AttemptEnd.REQUEUED


END_DELAY_MS = 5_000
"""A controller says that a job is over within a second of the pod that ended it. What it says later
is of something else: that a deadline passed, or that people had enough of it."""


def ended_later(
    end: tuple[AttemptEnd, int], at_ms: int, way: AttemptEnd, *, looks_back: bool
) -> bool:
    """Whether a job waited on after its last pods had ended at a moment, in this way.

    One that failed, as its last pods had, waited for nothing: no pod was made after them. (Who
    watches has told of it as waiting by then.)
    """
    how, end_ms = end
    is_same = way is how and (how is AttemptEnd.DONE or (looks_back and how is AttemptEnd.FAILED))
    return end_ms - at_ms > END_DELAY_MS and not is_same
