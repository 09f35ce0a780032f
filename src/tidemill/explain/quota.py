"""Quota: how far a maximum quota has to be raised for a job to start, at every level of the tree.

A raise is tried by the scheduler itself on a copy before it is suggested. Where the job would not
start even so, what else keeps it out is said with it.
"""

from typing import NamedTuple

from msgspec.structs import replace

from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold_all
from tidemill.explain import phrasing, rerun
from tidemill.explain.context import Case
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS
from tidemill.model.reasons import Cause
from tidemill.model.rows import Queue, Share
from tidemill.scheduling import shares


class Binds(NamedTuple):
    """A limit that keeps a job out: of which queue and kind, and what it is made of."""

    name: str
    kind: str
    used: int
    limit: int
    bound: str
    """The limit in words, or the floor and what may be borrowed above it."""
    below: str
    """Where the queue is above the job's own: that it counts all that is below it."""


def binds(case: Case) -> Binds | None:
    """The limit, its own or of a queue above it, under which the job has least room."""
    world, q = case.world, int(case.world.shapes.queue[case.s])
    kinds = [option.kind for option in case.options if option.kind >= 0]
    levels = [
        (max(int(world.used[a, k] - world.limit[a, k]) for a in world.tree.paths[q]), k)
        for k in kinds
        if shares.most_milli(world, q, k)[0] < FOREVER_MS
    ]
    if not levels:
        return None
    over, k = min(levels)
    a = next(a for a in world.tree.paths[q] if world.used[a, k] - world.limit[a, k] == over)
    row, kind = world.queue_rows[a], world.kinds[k]
    limit, floor = int(world.limit[a, k]), int(world.floor[a, k])
    bound = f"its maximum quota of {phrasing.amount(limit)}"
    if any(share.kind == kind and share.limit_milli > limit for share in row.shares):
        lent = phrasing.amount(limit - floor)
        bound = f"its guaranteed quota of {phrasing.amount(floor)} and the {lent} it may borrow"
    mine = world.queue_rows[q].name
    below = f", with all teams below it (`{mine}` is one)" if a != q else ""
    return Binds(row.name, kind, int(world.used[a, k]), limit, bound, below)


class Raise(NamedTuple):
    """Teams with a larger maximum quota, and what follows."""

    queues: tuple[Queue, ...]
    words: str
    starts: bool
    """Whether the job starts at once with it."""
    beside: str = ""
    """What keeps the job out beside the maximum quota."""


def suggestion(case: Case) -> Raise | None:
    """The smallest raise with which the job starts; else the one that its own size needs."""
    kinds = [option.kind for option in case.options if option.kind >= 0]
    limited = [k for k in kinds if _over(case, k, case.role.total_milli)]
    if not limited:
        limited = kinds[:1]
    k = min(limited, key=lambda k: (_lacking(case, k), k))
    amounts = {case.role.total_milli + extra for extra in (0, _ahead(case, k))}
    for milli in sorted(amounts):
        queues = _raised(case, k, milli)
        if queues and case.trials.places_after(case.j, queues):
            text = words(case, k, queues)
            if milli > case.role.total_milli:
                more = phrasing.amount(milli - case.role.total_milli)
                text += f" ({more} of it for jobs of its team that go first)"
            return Raise(queues, f"{text}: then it {phrasing.starts(case.world)}", True)
    queues = _raised(case, k, case.role.total_milli)
    if not queues:
        return None
    cause, ahead = _after(case, queues)
    return Raise(
        queues,
        f"{words(case, k, queues)}: {phrasing.still_waits(case.world, cause, ahead)}", False,
        _beside(case, cause),
    )  # fmt: skip


def raised_for_good(case: Case, k: int, milli: int) -> tuple[Queue, ...]:
    """The queues on the path that could never use so much of a GPU type, each raised to it."""
    world, q = case.world, int(case.world.shapes.queue[case.s])
    over = [a for a in world.tree.paths[q] if world.limit[a, k] < milli]
    return tuple(_to(case, a, k, milli) for a in over)


def _to(case: Case, a: int, k: int, target: int) -> Queue:
    """A queue that may use so much of a GPU type."""
    row, kind = case.world.queue_rows[a], case.world.kinds[k]
    return replace(row, shares=tuple(_share(share, kind, target) for share in row.shares))


def _over(case: Case, k: int, milli: int) -> list[int]:
    """The queues on the job's path whose maximum this much more would exceed."""
    world, q = case.world, int(case.world.shapes.queue[case.s])
    return [a for a in world.tree.paths[q] if world.used[a, k] + milli > world.limit[a, k]]


def _lacking(case: Case, k: int) -> int:
    world, need = case.world, case.role.total_milli
    over = _over(case, k, need)
    return max((int(world.used[a, k] + need - world.limit[a, k]) for a in over), default=0)


def _ahead(case: Case, k: int) -> int:
    """What waits ahead of it under the same maximum, of a GPU type that it may use."""
    ahead = rerun.in_order(case.world, case.policy, case.memo)
    before = ahead[: ahead.index(case.j)] if case.j in ahead else []
    return sum(_size(case, j, k) for j in before)


def _size(case: Case, j: int, k: int) -> int:
    """What a waiting job would use of a GPU type under a maximum that binds this one."""
    world, s = case.world, int(case.world.jobs.shape[j])
    q, mine = int(world.shapes.queue[s]), int(world.shapes.queue[case.s])
    shared = set(world.tree.paths[q]) & set(world.tree.paths[mine])
    is_bound = any(world.limit[a, k] < FOREVER_MS for a in shared)
    return (
        int(world.shapes.total_milli[s]) if is_bound and k in case.memo.known(world, s).kinds else 0
    )


def _raised(case: Case, k: int, milli: int) -> tuple[Queue, ...]:
    """The queues on the path with room for this much more."""
    used = case.world.used
    return tuple(_to(case, a, k, int(used[a, k]) + milli) for a in _over(case, k, milli))


def _share(share: Share, kind: str, target: int) -> Share:
    if share.kind != kind:
        return share
    if share.limit_milli < target:
        share = replace(share, limit_milli=target)
    if share.borrow_milli < target - share.floor_milli:
        share = replace(share, borrow_milli=target - share.floor_milli)
    return share


def words(case: Case, k: int, queues: tuple[Queue, ...]) -> str:
    """By how much teams are raised, of a GPU type."""
    world, kind, parts = case.world, case.world.kinds[k], []
    for row in queues:
        whose, of = phrasing.team(row.name), phrasing.quota_kind(world, row.name, kind)
        a = world.queue_number[row.name]
        old = next(share for share in world.queue_rows[a].shares if share.kind == kind)
        new = next(share for share in row.shares if share.kind == kind)
        if new.limit_milli != old.limit_milli:
            parts.append(
                f"the maximum quota of {whose} from {phrasing.amount(old.limit_milli)} to"
                f" {phrasing.amount(new.limit_milli)} {of}"
            )
        if new.borrow_milli != old.borrow_milli:
            parts.append(
                f"what {whose} may borrow from {phrasing.amount(old.borrow_milli)} to"
                f" {phrasing.amount(new.borrow_milli)} {of}"
            )
    return "raise " + " and ".join(parts)


def _after(case: Case, queues: tuple[Queue, ...]) -> tuple[Cause, int]:
    """What keeps the job out once the teams have these quotas, and how many are ahead of it."""
    now_ms = case.world.now_ms
    world = fold_all(snapshot.branch(case.world), [ev.QueueSet(now_ms, row) for row in queues])
    return rerun.outcome(world, case.policy, case.j, sweeps=case.memo.sweeps)


def _beside(case: Case, cause: Cause) -> str:
    """That the end of jobs in its team may not be enough, where more than the quota is short."""
    if cause in (Cause.NONE, Cause.OVER_LIMIT):
        return ""
    return f"the quota is not all that keeps it out: {phrasing.cause(case.world, cause)}"
