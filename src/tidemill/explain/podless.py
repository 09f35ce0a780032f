"""Podless: what shows a job on Kubernetes of which no pods, or not all, are there.

Kueue keeps a Job suspended until it has quota, and a quota or a webhook refuses pods: then the list
of pods shows nothing of it. The reason of its own scheduler names what does: its workload, or the
owner that makes its pods; where only a quota is named, the events of that owner.
"""

import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tidemill.model.states import JobState
from tidemill.model.world import World

_SHOWN = re.compile(r"\(kubectl describe ([a-z]\S*\.\S+) -n (\S+) ([^\s)]+)\)$")
"""How a reason ends that is read off an object with pods of its own."""
_REFUSED = re.compile(r"FailedCreate .*\(kubectl describe resourcequota -n ([^\s)]+)\)$", re.DOTALL)
_WORKLOADS, _JOBS = "workloads.kueue.x-k8s.io", "jobs.batch"
_EVENTS = "events"
_PARTS = {_WORKLOADS: ".spec.podSets[*].template.spec", _JOBS: ".spec.template.spec"}
"""Where the pods of an object are described, of kinds of which few words show all."""
_FIRST = {
    _WORKLOADS: "NAME:.metadata.name,OF:.metadata.ownerReferences[*].name"
                ",PODS:.spec.podSets[*].count",
    _JOBS: "NAME:.metadata.name,PODS:.spec.parallelism",
}  # fmt: skip
_KEPT = 4096
"""Reasons that are remembered: thousands of jobs wait for the same few."""


class Above(NamedTuple):
    """What is above the pods that are not there: `workloads.kueue.x-k8s.io`, its namespace, name.

    Of the kind `events`: those of the object that the job is called by.
    """

    kind: str
    namespace: str
    name: str


def above(world: World, j: int) -> Above | None:
    """What shows a waiting job instead of its pods; None: its pods do."""
    if not world.reasons or world.jobs.state.item(j) != JobState.WAITING:
        return None
    found = world.reason_of(j)
    one = _read(found.words) if found is not None else None
    if one is None or one.kind != _EVENTS:
        return one
    return one._replace(name=world.job_names[j].rpartition("/")[2].partition("#")[0])


@lru_cache(_KEPT)
def _read(words: str) -> Above | None:
    if told := _SHOWN.search(words):
        kind = told[1].partition(".")[0]
        return None if kind in ("podgroups", "podgroup") else Above(*told.groups())
    refused = _REFUSED.search(words)
    return Above(_EVENTS, refused[1], "") if refused else None


def job(one: Above, fields: str) -> str:
    """The line that shows what a job requests, by fields of its pods such as `nodeSelector`."""
    namespace, name = shlex.quote(one.namespace), shlex.quote(one.name)
    if one.kind == _EVENTS:
        return f"kubectl get events -n {namespace} --field-selector involvedObject.name={name}"
    line = f"kubectl get {one.kind} -n {namespace} {name} -o"
    if one.kind not in _PARTS:
        return f"{line} yaml"
    at = _PARTS[one.kind]
    columns = [
        f"{title}:{at}{path.removeprefix('.spec')}"
        for title, _, path in (field.partition(":") for field in fields.split(","))
        if path.startswith(".spec.") and not path.startswith(".spec.nodeName")
    ]
    return f"{line} 'custom-columns={_FIRST[one.kind]},{','.join(columns)}'"


_PENDING = "kubectl get pods -A --field-selector status.phase=Pending"


def line(world: World, asked: int) -> Iterator[str]:
    """The lines that show the jobs of a queue, with pods and without; ``asked``: and this one."""
    waiting = {j for s in world.queued for j in world.asking(s)} if world.reasons else set[int]()
    if asked >= 0:
        waiting.add(asked)
    found = [above(world, j) for j in waiting]
    if None in found or not found:
        yield _PENDING
    for kind in sorted({one.kind for one in found if one is not None}):
        refused = " --field-selector reason=FailedCreate" if kind == _EVENTS else ""
        yield f"kubectl get {kind} -A{refused}"
