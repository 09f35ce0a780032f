"""Who decides for a job, and which of its rules the books cannot say."""

from tidemill.journal import deciders
from tidemill.live.kubernetes import dra, ties
from tidemill.live.kubernetes.jobs import KubeJob
from tidemill.model.rows import SELECTED


def decider(job: KubeJob) -> str:
    """Who decides for a job, or which constraints that we do not know bind it.

    "": the cluster's own scheduler, by rules that the books have.
    """
    asks = [*job.requests]
    unkept = sorted(
        {one for request in asks for one in request.unkept}
        | {name for request in asks for name, _ in request.extras}
    )
    unkept += [one for one in tied(job) if one not in unkept]
    if unkept:
        return deciders.UNKEPT + ", ".join(unkept)
    named = {request.scheduler for request in asks} - {"", deciders.DEFAULT}
    return min(named, default="")


def tied(job: KubeJob) -> list[str]:
    """Where its pods have to be by its ties, its pod groups and other pods, which the books cannot
    say.
    """
    asks = [*job.requests]
    told = [
        one
        for request in asks
        for one in request.unkept
        if one in (dra.ALL_DIFFER, dra.OF_CAPACITY, dra.OTHER_CONSTRAINTS) or SELECTED in one
    ][:1]
    kinds = sorted({rule.kind for request in asks for rule in request.near})
    if kinds:  # the books have no such rules
        told.append(f"rules about other pods ({', '.join(kinds)})")
    return [*told, *(f"all pods in one `{one}`" for one in ties.required(job.ties)), *job.unkept]
