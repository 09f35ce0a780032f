"""Pods that cannot be read whole: what of them can be is kept, and nobody drops them in silence.

A pod of ours that requests what nobody can mean waits and says so. One whose status makes no sense
holds what it requests, where it sits.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from tidemill.live.kubernetes import fields, pod_amounts, pods, resources
from tidemill.live.kubernetes.fields import MalformedObjectError, Object
from tidemill.live.kubernetes.pods import KubePod
from tidemill.model.measures import MOST_OF_HOST

_WHOSE = ("schedulerName", "nodeName", "schedulingGroup", "schedulingGates", "workloadRef")
"""What of a spec is no request."""


def read(one: Object) -> KubePod:
    """A pod; ``MalformedObjectError`` if not even its name and its node can be read."""
    try:
        row = pods.read(one)
    except MalformedObjectError as error:
        said = str(error)
    else:
        odd = _odd(row, one)
        return replace(row, request=replace(row.request, unread=odd)) if odd else row
    for bare in _barer(one):
        try:
            row = pods.read(bare)
        except MalformedObjectError:
            continue
        is_whole = bare.get("spec") is one.get("spec")
        return row if is_whole else replace(row, request=replace(row.request, unread=said))
    raise MalformedObjectError(said)


def _odd(row: KubePod, one: Object) -> str:
    """That a pod requests more of a host than is counted, and how much; "": it does not."""
    request = row.request
    if max(request.cpu_milli, request.memory_mib) < MOST_OF_HOST:
        return ""
    asked = pod_amounts.requested(fields.inner(one, "spec"))
    name = "cpu" if request.cpu_milli == MOST_OF_HOST else "memory"
    return f"`{name}` is {resources.shown(asked[name])}: more than any node has"


def _barer(one: Object) -> Iterator[Object]:
    """The same pod without what may be the flaw: first its status, then what it requests."""
    told, phase = fields.inner(one, "spec"), fields.text(one, "status", "phase")
    yield {**one, "status": {"phase": phase}}
    spec = {key: told[key] for key in _WHOSE if key in told}
    yield {**one, "spec": spec}
    yield {**one, "spec": spec, "status": {"phase": phase}}
