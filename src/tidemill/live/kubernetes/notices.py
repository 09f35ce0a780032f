"""Notices: who says that a node is going to be taken, until when, and why.

By annotation of its owner (``tidemill/drain-by``, ``tidemill/maintenance``), or by the taints,
labels and conditions that clouds and their handlers set. Autoscalers that empty nodes by themselves
are not among them, and neither are marks of what a node is, such as that it is a spot machine.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from tidemill.live.kubernetes import fields
from tidemill.live.kubernetes.fields import Object
from tidemill.model.events import Why

DRAIN_BY, MAINTENANCE = "tidemill/drain-by", "tidemill/maintenance"
"""A moment; and from when to when, with a slash between them. RFC 3339, in UTC or with a zone."""
CORDONED = "tidemill/cordoned"
"""Our own mark on a node that we cordoned: nobody else's is taken back."""
_LABELS = {"cloud.google.com/scheduled-maintenance-time": Why.MAINTENANCE}
"""Labels whose value is the moment, in seconds since 1970."""
_TAINTS = {
    "aws-node-termination-handler/spot-itn": (Why.SPOT_RECLAIM, 120_000),
    "cloud.google.com/impending-node-termination": (Why.SPOT_RECLAIM, 30_000),
    "aws-node-termination-handler/scheduled-maintenance": (Why.MAINTENANCE, None),
    "aws-node-termination-handler/asg-lifecycle-termination": (Why.DRAINED, None),
}
"""Taints: why, and how long after they were set the node is taken; None: nobody says."""
_AZURE = {
    "Preempt": (Why.SPOT_RECLAIM, 30_000),
    "Terminate": (Why.DRAINED, 300_000),
    "Redeploy": (Why.MAINTENANCE, 600_000),
    "Reboot": (Why.MAINTENANCE, 900_000),
}
"""Scheduled events of Azure's machines: why, and the shortest notice that Azure documents of each,
for a condition that does not say when. Not among them: a freeze, which pauses a machine for
seconds, and takes nothing."""
_CONDITIONS = {
    **{f"{event}Scheduled": event for event in _AZURE},
    "PreemptionScheduled": "Preempt", "VMEventScheduled": "",
}  # fmt: skip
"""Conditions that AKS's node problem detector sets; of "" the message says which event it is."""
_EVENT = re.compile(r"(\w+) Scheduled(?:: (\w{3}, \d{1,2} \w{3} \d{4} [\d:]{8} GMT))?")
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_LONGEST = 100
"""Of an annotation that is no notice, as it is shown."""


class NodeNotice(NamedTuple):
    """A node is going to be taken; times since 1970."""

    why: Why
    said: str
    """By which annotation, label, taint or condition."""
    deadline_ms: int | None = None
    """None: nobody says."""
    since_ms: int | None = None
    until_ms: int | None = None
    """When it is there again; None: nobody says."""
    length_ms: int | None = None
    """How long after it was given the node is taken; None: nobody says, or the moment is known."""


def of_node(one: Object) -> NodeNotice | None:
    """The notice of a node that comes first; None: there is none, or none that can be read."""
    told = fields.words(one, "metadata", "annotations")
    labels = fields.words(one, "metadata", "labels")
    found = [_at(DRAIN_BY, told.get(DRAIN_BY, "")), _window(told.get(MAINTENANCE, ""))]
    found += [
        NodeNotice(why, key, int(labels[key]) * 1000)
        for key, why in _LABELS.items()
        if labels.get(key, "").isdecimal()
    ]
    taints = [*fields.each(one, "spec", "taints")]
    ours_ms = {told.get(CORDONED, ""): _cordoned_ms(taints)}
    found += [_taint(taint, ours_ms.get(fields.text(taint, "key"))) for taint in taints]
    found += [*_events(one)]
    some = [notice for notice in found if notice is not None]
    return min(some, key=_nearness, default=None)


def unread(one: Object) -> tuple[str, str] | None:
    """An annotation of a node with a moment that is none, and what it is; None: all can be read."""
    told = fields.words(one, "metadata", "annotations")
    for key in (DRAIN_BY, MAINTENANCE):
        moments = told.get(key, "").split("/", 1 if key == MAINTENANCE else 0)
        if key in told and None in map(_moment_ms, moments):
            return key, told[key][:_LONGEST]
    return None


def _nearness(notice: NodeNotice) -> float:
    """The first to end comes first: seconds or minutes after it was given, at a moment, or open."""
    if notice.length_ms is not None:
        return 0
    far = datetime.max.replace(tzinfo=UTC).timestamp() * 1000
    return far if notice.deadline_ms is None else notice.deadline_ms


def _at(key: str, told: str) -> NodeNotice | None:
    at_ms = _moment_ms(told)
    return None if at_ms is None else NodeNotice(Why.DRAINED, key, at_ms)


def _window(told: str) -> NodeNotice | None:
    begins, _, ends = told.partition("/")
    from_ms, to_ms = _moment_ms(begins), _moment_ms(ends)
    if from_ms is None:
        return None
    return NodeNotice(Why.MAINTENANCE, MAINTENANCE, from_ms, until_ms=to_ms)


def _taint(taint: Object, ours_ms: int | None) -> NodeNotice | None:
    """``ours_ms``: when we cordoned the node for it. Most who taint a node do not say when."""
    known = _TAINTS.get(fields.text(taint, "key"))
    if known is None:
        return None
    why, length_ms = known
    added_ms, key = fields.moment_ms(taint, "timeAdded"), fields.text(taint, "key")
    if length_ms is None or added_ms is None:
        since_ms = ours_ms if added_ms is None else added_ms
        return NodeNotice(why, key, None, since_ms, length_ms=length_ms)
    return NodeNotice(why, key, added_ms + length_ms, added_ms)


def _events(one: Object) -> Iterator[NodeNotice]:
    """Scheduled events of a machine of Azure's, by the conditions of its node."""
    for condition in fields.each(one, "status", "conditions"):
        key = fields.text(condition, "type")
        if key in _CONDITIONS and fields.text(condition, "status") == "True":
            told = _EVENT.findall(fields.text(condition, "message")) or [(_CONDITIONS[key], "")]
            since_ms = fields.moment_ms(condition, "lastTransitionTime")
            yield from (_event(key, event, when, since_ms) for event, when in told
                        if event != "Freeze")  # fmt: skip


def _event(key: str, event: str, when: str, since_ms: int | None) -> NodeNotice:
    """One of them; of an event that nobody knows, nobody says how long is left."""
    why, length_ms = _AZURE.get(event, (Why.MAINTENANCE, None))
    if (at_ms := _http_ms(when)) is not None:
        return NodeNotice(why, key, at_ms, since_ms)
    if length_ms is not None and since_ms is not None:
        return NodeNotice(why, key, since_ms + length_ms, since_ms)
    return NodeNotice(why, key, None, since_ms, length_ms=length_ms)


def _http_ms(told: str) -> int | None:
    """A moment as Azure writes it (RFC 1123); None: it is none."""
    try:
        return round(parsedate_to_datetime(told).timestamp() * 1000)
    except ValueError:
        return None


def _cordoned_ms(taints: Iterable[Object]) -> int | None:
    """When a node was cordoned, by the taint that Kubernetes sets then; None: it is not."""
    found = [one for one in taints if fields.text(one, "key") == _UNSCHEDULABLE]
    return fields.moment_ms(found[0], "timeAdded") if found else None


def _moment_ms(told: str) -> int | None:
    """A moment in RFC 3339; None: it is none, or has no zone."""
    try:
        found = datetime.fromisoformat(told)
    except ValueError:
        return None
    return None if found.tzinfo is None else round(found.timestamp() * 1000)
