"""Who decides for a job, and which of its rules the books cannot say."""

from tidemill.journal import deciders
from tidemill.live.kubernetes import dra, pod_rules, ties
from tidemill.live.kubernetes.jobs import KubeJob
from tidemill.model.rows import SELECTED

_NAMED = 3


def decider(job: KubeJob) -> str:
    """Who decides for a job, or which constraints that we do not know bind it.

    "": the cluster's own scheduler, by rules that the books have.
    """
    asks = [*job.requests]
    unkept = sorted(
        {one for request in asks for one in request.unkept}
        | {name for request in asks for name, _ in request.extras}
    )
    unkept += [one for one in _tied(job) if one not in unkept]
    if unkept:
        return deciders.UNKEPT + ", ".join(unkept)
    named = {request.scheduler for request in asks} - {"", deciders.DEFAULT}
    return min(named, default="")


def tied(job: KubeJob) -> list[str]:
    """Where its pods have to be by its ties, its pod groups, other pods and its volumes, which the
    books cannot say.
    """
    volumes = sorted({name for request in job.requests for name in request.volumes})
    if not volumes:
        return _tied(job)
    names = ", ".join(name.removeprefix("-") for name in volumes[:_NAMED])
    return [*_tied(job), f"volumes ({names}{', …' if len(volumes) > _NAMED else ''})"]


def _tied(job: KubeJob) -> list[str]:
    """The same without its volumes, which our own scheduler heeds."""
    asks = [*job.requests]
    told = [
        one
        for request in asks
        for one in request.unkept
        if one in (dra.ALL_DIFFER, dra.OF_CAPACITY, dra.OTHER_CONSTRAINTS) or SELECTED in one
    ][:1]
    unkept = dict.fromkeys(one for request in asks for one in request.unkept)
    told += filter(pod_rules.is_unread_rule, unkept)
    near = [rule for request in asks for rule in request.near]
    if near:  # the books have no such rules
        told.append(pod_rules.words(near))
    told += filter(None, [job.exclusive])
    return [*told, *(f"all pods in one `{one}`" for one in ties.required(job.ties)), *job.unkept]
