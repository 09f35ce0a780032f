"""Refusals: pods that were bound to a node, and that its kubelet did not take."""

from collections.abc import Mapping

from tidemill.live.kubernetes import fields
from tidemill.live.kubernetes.fields import Object

_REFUSALS = ("NodeAffinity", "NodePorts", "TopologyAffinityError")
"""Other reasons for which a kubelet does not admit a pod."""
_RACES = ("UnexpectedAdmissionError",)
"""Reasons for which a kubelet finds what a pod requests taken, beside `OutOf` and a resource."""


def was_refused(one: Object, conditions: Mapping[str, Object]) -> bool:
    """Whether a pod that ended never ran: its node refused it, or its first steps did not end."""
    is_begun = fields.text(conditions.get("Initialized", {}), "status") != "False"
    is_other = fields.text(one, "status", "reason") in _REFUSALS
    return is_other or bool(lost_race(one)) or not is_begun


def lost_race(one: Object) -> str:
    """For which reason its node did not take a pod, since others had its GPUs first; "": it did."""
    is_failed = fields.text(one, "status", "phase") == "Failed"
    reason = fields.text(one, "status", "reason") if is_failed else ""
    return reason if reason in _RACES or reason.startswith("OutOf") else ""
