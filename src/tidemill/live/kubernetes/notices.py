"""Notices: who says that a node is going to be taken, until when, and why.

By annotation of its owner (``tidemill/drain-by``, ``tidemill/maintenance``), or by the taints and
labels that clouds and their handlers set. Autoscalers that empty nodes by themselves are not among
them.
"""

from datetime import UTC, datetime
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


class NodeNotice(NamedTuple):
    """A node is going to be taken; times since 1970."""

    why: Why
    said: str
    """By which annotation, label or taint."""
    deadline_ms: int | None = None
    """None: nobody says."""
    since_ms: int | None = None
    until_ms: int | None = None
    """When it is there again; None: nobody says."""


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
    found += [_taint(taint) for taint in fields.each(one, "spec", "taints")]
    some = [notice for notice in found if notice is not None]
    far = datetime.max.replace(tzinfo=UTC).timestamp() * 1000
    return min(some, key=lambda notice: notice.deadline_ms or far, default=None)


def _at(key: str, told: str) -> NodeNotice | None:
    at_ms = _moment_ms(told)
    return None if at_ms is None else NodeNotice(Why.DRAINED, key, at_ms)


def _window(told: str) -> NodeNotice | None:
    begins, _, ends = told.partition("/")
    from_ms, to_ms = _moment_ms(begins), _moment_ms(ends)
    if from_ms is None:
        return None
    return NodeNotice(Why.MAINTENANCE, MAINTENANCE, from_ms, until_ms=to_ms)


def _taint(taint: Object) -> NodeNotice | None:
    known = _TAINTS.get(fields.text(taint, "key"))
    if known is None:
        return None
    why, length_ms = known
    added_ms = fields.moment_ms(taint, "timeAdded")
    deadline_ms = None if length_ms is None or added_ms is None else added_ms + length_ms
    return NodeNotice(why, fields.text(taint, "key"), deadline_ms, added_ms)


def _moment_ms(told: str) -> int | None:
    """A moment in RFC 3339; None: it is none, or has no zone."""
    try:
        found = datetime.fromisoformat(told)
    except ValueError:
        return None
    return None if found.tzinfo is None else round(found.timestamp() * 1000)
