"""Pods of a group beyond those that it needs to start: the gang is judged without them.

How many the group needs is its minimum. Of equal pods the job says so itself (``least``). A pod
that no node can ever hold, and that the group does not need, is no part of what the job requests.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from tidemill.live.kubernetes import groups, owners, reasons
from tidemill.live.kubernetes.fleet_now import FleetNow, WhyPending
from tidemill.live.kubernetes.groups import GroupKey, PodGroup
from tidemill.live.kubernetes.job_roles import JobRole
from tidemill.live.kubernetes.jobs import KubeJob
from tidemill.live.kubernetes.pods import KubePod
from tidemill.model.measures import count_text
from tidemill.model.reasons import NEVER


def without_impossible(fleet: FleetNow, job: KubeJob) -> KubeJob:
    """A gang of several sorts of pods without those that it does not need and that fit nowhere."""
    least = sum(group.least for group in job.groups) if job.key.kind == "PodGroup" else 0
    roles, beyond = list(job.roles), list[KubePod]()
    for role in job.roles if least and len(job.roles) > 1 else ():
        rest = sum(one.count for one in roles) - role.count
        if rest >= least and _never(fleet, role) is not None:
            roles.remove(role)
            beyond += role.pods
    if not beyond:
        return job
    size = sum(role.count for role in roles)
    fewest = min(least, size) if len(roles) == 1 else size
    return replace(job, roles=tuple(roles), least=fewest, beyond=tuple(beyond))


def of_unknown_group(
    known: Mapping[GroupKey, PodGroup], job: KubeJob
) -> tuple[KubeJob, str]:  # fmt: skip
    """A job whose pod group nobody shows, and what to say of such jobs; "": it is none.

    How many of its pods it needs nobody knows: those that run are taken to work.
    """
    is_of_job = owners.is_job(job.key.kind, job.key.group)
    unknown = groups.unknown(known, job.pods) if job.key.kind == "PodGroup" or is_of_job else []
    if not unknown:
        return job, ""
    said = (
        "jobs are of pod groups that nobody shows: how many of their pods they need, and whether"
        " several Jobs are one gang, is unknown, and those that run are taken to work"
        f" ({groups.kubectl(unknown[0])})"
    )
    is_up = any(pod.up_ms is not None for pod in job.pods)
    return replace(job, least=1 if is_up else job.size if is_of_job else job.least), said


def _never(fleet: FleetNow, role: JobRole) -> WhyPending | None:
    """Why no node can ever hold a pod of a role; None: one may, or one does."""
    if not role.pods or not all(pod.is_pending for pod in role.pods):
        return None
    found = reasons.by_facts(fleet, role.pods[0].request, 1, 1)
    return found if found is not None and found.cause in NEVER else None


def least(job: KubeJob, role: JobRole) -> int:
    """How many pods of a role a gang still needs to start."""
    size = job.needed(role)
    return min(job.least or size, size) if len(job.roles) == 1 else size


def words(fleet: FleetNow, job: KubeJob, role: JobRole, size: int) -> str:
    """With how many of its pods a gang starts, and what keeps the others out for ever, if anything.

    ``size``: how many of the role it needs to start.
    """
    if job.beyond:
        found = reasons.by_facts(fleet, job.beyond[0].request, 1, 1)
        names = ", ".join(pod.name for pod in job.beyond[:3])
        why = f": it {found.words}" if found is not None else ""
        return f"it starts without {names}, which its group does not need{why}"
    more = job.needed(role) - size
    if more <= 0:
        return ""
    told = f"it starts with {size:,} of its {count_text(size + more, 'pod')}"
    found = reasons.by_facts(fleet, role.request, more, size + more)
    if found is None or found.cause not in NEVER:
        return told
    return f"{told}, and could never have all of them: {found.words}"
