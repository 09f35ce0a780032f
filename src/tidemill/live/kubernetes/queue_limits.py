"""Limits of queues of KAI-Scheduler and Volcano, which they tell in words alone.

They are on the pods, or on their pod group as a condition or an event: Volcano makes no pods before
the queue of a job has room for it. Like Kueue's quotas they keep a job out whatever is free.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tidemill.live.kubernetes import groups
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.fleet_now import WhyPending
from tidemill.live.kubernetes.groups import PodGroup
from tidemill.live.kubernetes.jobs import KubeJob
from tidemill.model.reasons import LAYER_OF, Cause

_TOO_LARGE = "requests more than its queue may ever use"
_RULES: tuple[tuple[str, str, str], ...] = (
    (
        r"quota has reached the allowable limit of .*?Limit is ([\d.]+) .*?requested ([\d.]+)",
        "the limit of its queue is reached", _TOO_LARGE,
    ),
    (r"quota has reached the allowable limit of", "the limit of its queue is reached", ""),
    (
        r"Non-preemptible workload is over quota.*? quota is ([\d.]+) ",
        "the quota of its queue is used up, beyond which work must be preemptible", "",
    ),
    (r"Non-preemptible workload is over quota", "the quota of its queue is used up", ""),
    (r"queue resource quota insufficient", "the quota of its queue has no room for it", ""),
)  # fmt: skip
"""What a scheduler says; what that is; and if more is requested than the limit."""


class QueueLimit(NamedTuple):
    """That a limit of a queue keeps a job out, who says so in which words, and what shows it."""

    found: WhyPending
    reason: str
    said: str
    shown_by: str


class _ToldLine(NamedTuple):
    reason: str
    said: str
    shown_by: str


def of_job(cluster: Cluster, job: KubeJob) -> QueueLimit | None:
    """The limit of a queue that keeps a job out; None: none is told."""
    for reason, said, shown_by in _lines(cluster, job):
        for pattern, words, too_large in _RULES:
            if told := re.search(pattern, said):
                return QueueLimit(_why(told, words, too_large), reason, said, shown_by)
    return None


def _why(told: re.Match[str], words: str, too_large: str) -> WhyPending:
    if too_large and float(told[2]) > float(told[1]):
        return WhyPending(Cause.OVER_LIMIT_ALWAYS, LAYER_OF[Cause.OVER_LIMIT_ALWAYS], too_large)
    return WhyPending(Cause.OVER_LIMIT, LAYER_OF[Cause.OVER_LIMIT], words)


def _lines(cluster: Cluster, job: KubeJob) -> Iterator[_ToldLine]:
    """What is said of a job that waits: of its pod groups, then of its pods."""
    for group in _groups(cluster, job):
        yield _ToldLine(group.reason or "Unschedulable", group.message, group.shown_by)
        event = cluster.last("PodGroup", group.namespace, group.name, "Unschedulable")
        if event is not None:
            yield _ToldLine(event.reason, event.message, group.shown_by)
    for pod in job.pods:
        if pod.is_pending:
            shown_by = f"kubectl describe pod -n {pod.namespace} {pod.name}"
            yield _ToldLine(pod.reason or "Pending", pod.message, shown_by)
            event = cluster.last("Pod", pod.namespace, pod.name, "Unschedulable")
            if event is not None:
                yield _ToldLine(event.reason, event.message, shown_by)


def _groups(cluster: Cluster, job: KubeJob) -> Iterator[PodGroup]:
    """Those that its pods name; of a job of Volcano's without pods, that which was made for it."""
    if job.pods or job.owner is None:
        yield from job.groups
        return
    for name in (f"{job.key.name}-{job.owner.uid}", job.key.name):
        if found := cluster.groups.get((groups.VOLCANO, job.key.namespace, name)):
            yield found
            return
