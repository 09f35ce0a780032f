"""Pods that share the claim of a job (DRA): they are no jobs, and have the answer of that one."""

import shlex
from collections.abc import Sequence

from msgspec.structs import replace

from tidemill.explain import phrasing
from tidemill.explain.answers import Board
from tidemill.model.claim_sharers import ClaimSharer
from tidemill.model.world import World

NAMED = 3


def of(world: World, name: str) -> ClaimSharer | None:
    """The pod of a name that shares the claim of a job which is there; None: it does not."""
    known = world.job_number
    return next((one for one in world.claim_sharers if one.pod == name and one.job in known), None)


def words(world: World, one: ClaimSharer) -> str:
    """What a pod has to do with its job: said before the answer of that."""
    is_had = world.job_number[one.job] in world.placements
    text = (_waits_for_job, _waits_beside)[is_had](one) if one.is_waiting else _runs(one)
    namespace, _, name = one.pod.rpartition("/")
    of = f" -n {shlex.quote(namespace.rpartition('/')[2])}" if namespace else ""
    return f"{text} (kubectl describe pod{of} {shlex.quote(name)})"


def _waits_for_job(one: ClaimSharer) -> str:
    return (
        f"pod `{one.pod}` waits with claim `{one.claim}`, which it shares with job `{one.job}`: its"
        " GPUs are requested once, by that job, and what keeps that job waiting keeps this pod"
        f" waiting{_said(one)}"
    )


def _waits_beside(one: ClaimSharer) -> str:
    return (
        f"pod `{one.pod}` waits with claim `{one.claim}`, whose GPUs job `{one.job}` has: it needs"
        f" no others, and no GPU that comes free starts it, for it must be where those are"
        f"{_said(one)}"
    )


def _said(one: ClaimSharer) -> str:
    return f'; its own scheduler says "{one.says}"' if one.says else ""


def _runs(one: ClaimSharer) -> str:
    with_it = f"pod `{one.pod}` runs with claim `{one.claim}`"
    if one.is_part:
        return (
            f"{with_it}, a part of a GPU of which job `{one.job}` has another: how much of its time"
            " each has nobody says, and all of it is in the books of that job"
        )
    return f"{with_it}, which it shares with job `{one.job}`: its GPUs are in the books of that job"


def with_sharers(board: Board, world: World) -> Board:
    """What waits, with the pods that wait with the claims of jobs."""
    known = world.job_number
    some = tuple(one for one in world.claim_sharers if one.is_waiting and one.job in known)
    return replace(board, claim_sharers=some, words=board.words + _counted(some)) if some else board


def _counted(some: Sequence[ClaimSharer]) -> str:
    wait = "wait" if len(some) > 1 else "waits"
    return f"; {phrasing.many(len(some), 'more pod')} {wait} with claims of jobs"


def lines(some: Sequence[ClaimSharer]) -> list[str]:
    """The same by job and claim: ``ml/a: ml/b and ml/c wait with its claim `c```."""
    found = dict[tuple[str, str], list[str]]()
    for one in some:
        found.setdefault((one.job, one.claim), []).append(one.pod)
    return [
        f"{job}: {_names(pods)} {'wait' if len(pods) > 1 else 'waits'} with its claim `{claim}`,"
        " whose GPUs are requested once"
        for (job, claim), pods in found.items()
    ]


def _names(pods: Sequence[str]) -> str:
    rest = [f"{len(pods) - NAMED:,} more"] if len(pods) > NAMED else []
    *first, last = [*pods[:NAMED], *rest]
    return f"{', '.join(first)} and {last}" if first else last
