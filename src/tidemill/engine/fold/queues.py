"""Folding what happens to teams: a queue appears, its shares change, it moves in the tree.

What a queue uses counts for everything above it too (``core.quotas`` keeps that along the path);
when the tree itself changes, all of it is added up again.
"""

from typing import NoReturn

import numpy as np

from tidemill.core import decay
from tidemill.model import events as ev
from tidemill.model import tree as trees
from tidemill.model.columns import AT, KIND, NONE, QUEUE, QUOTA
from tidemill.model.errors import EventRefused
from tidemill.model.measures import FOREVER_MS, milli_text
from tidemill.model.rows import Queue
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.tree import MAX_DEPTH, Amounts, Tree
from tidemill.model.world import World


def queue_set(world: World, event: ev.QueueSet) -> list[int]:
    """A team appeared or its shares changed."""
    row = event.queue
    _refuse_bad_shares(row)
    _refuse_bad_parent(world, row)
    q = world.queue_number.get(row.name, len(world.queue_rows))
    rows = [*world.queue_rows[:q], row, *world.queue_rows[q + 1 :]]
    number = world.queue_number | {row.name: q}
    kinds = dict(world.kind_number)
    for share in row.shares:
        kinds.setdefault(share.kind, len(kinds))
    tree = trees.grown(rows, number)
    amounts = trees.amounts(rows, tree, kinds)
    _refuse_broken_promises(rows, amounts, kinds)
    _settle_all(world, event.at_ms)
    world.queue_rows, world.queue_number = rows, number
    for kind in kinds:
        kind_number(world, kind)
    _write(world, tree, amounts)
    world.ink.w.queues[:, QUEUE.FREED] += 1
    world.share_changes += 1
    return []


def jobs_of_its_own(world: World, team: str) -> list[int]:
    """The jobs of a team that are not over, the oldest first: as long as none is there, others may
    be below it.
    """
    q, count = world.queue_number.get(team), world.job_count
    mine = np.flatnonzero(world.shapes.queue[: world.shape_count] == q) if q is not None else ()
    if not len(mine):
        return []
    is_alive = world.jobs.state[:count] <= JobState.RUNNING
    found: list[int] = np.flatnonzero(is_alive & np.isin(world.jobs.shape[:count], mine)).tolist()
    return found


def said_half_life(world: World, event: ev.HalfLifeSet) -> list[int]:
    """Past use is counted with another half-life; what was counted so far stays."""
    if event.half_life_ms == world.half_life_ms:
        raise EventRefused(
            f"the half-life of past use is {event.half_life_ms} ms already",
            hint="it is said when it is news; the journal and the plan disagree",
        )
    _settle_all(world, event.at_ms)
    world.ink.w.queues[:, QUEUE.PAST_MS] = event.at_ms
    world.ink.w.at[AT.HALF_LIFE_MS] = event.half_life_ms
    return []


def kind_number(world: World, kind: str) -> int:
    """The number of a kind; a new one is the next."""
    if kind not in world.kind_number:
        world.kind_number[kind] = len(world.kinds)
        world.kinds.append(kind)
        fit_matrices(world)
    return world.kind_number[kind]


def fit_matrices(world: World) -> None:
    """Make the matrices of teams and kinds as large as there are teams and kinds."""
    w, (teams, kinds) = world.ink.w, (len(world.queue_rows), len(world.kinds))
    if w.quotas.shape[:2] == (teams, kinds):
        return
    quotas = _enlarged(w.quotas, teams, kinds)
    quotas[:, w.quotas.shape[1] :, QUOTA.LIMIT] = FOREVER_MS
    quotas[w.quotas.shape[0] :, :, QUOTA.LIMIT] = FOREVER_MS
    queues = _enlarged(w.queues, teams)
    queues[len(w.queues) :, QUEUE.PARENT] = NONE
    world.renew(
        quotas=quotas,
        queues=queues,
        kinds=_enlarged(w.kinds, kinds),
        slices=_enlarged(w.slices, kinds),
        run_times=_enlarged(w.run_times, teams),
        ratios=_enlarged(w.ratios, teams),
    )


def count_again(world: World, used: I64) -> None:
    """The lowest queues use so much; those above them what these use together."""
    w, tree = world.ink.w, world.tree
    w.quotas[:, :, QUOTA.USED] = trees.summed(tree, used)
    below, kind_kept = trees.kept(tree, world.guard, world.used) if tree.keeps else (0, 0)
    w.quotas[:, :, QUOTA.BELOW], w.kinds[:, KIND.KEPT_MILLI] = below, kind_kept


def _settle_all(world: World, at_ms: int) -> None:
    """Bring the past use of all queues up to a moment: from now on it is counted otherwise."""
    w = world.ink.w
    for q in range(len(world.queue_rows)) if world.half_life_ms else ():
        decay.settle_one(w.at, w.queues, w.quotas, q, at_ms)


def _write(world: World, tree: Tree, amounts: Amounts) -> None:
    fit_matrices(world)
    used = world.used.copy()
    used[[q for q, is_leaf in enumerate(world.tree.is_leaf) if not is_leaf]] = 0  # theirs below
    world.tree, w = tree, world.ink.w
    for column, values in zip((QUOTA.FLOOR, QUOTA.LIMIT, QUOTA.GUARD), amounts, strict=True):
        w.quotas[:, :, column] = values
    count_again(world, used)
    w.queues[:, QUEUE.PARENT] = [path[1] if len(path) > 1 else NONE for path in tree.paths]
    w.at[AT.KEEPS] = tree.keeps


def _refuse_bad_shares(row: Queue) -> None:
    if len({share.kind for share in row.shares}) < len(row.shares):
        raise EventRefused(
            f"team `{row.name}` has two quotas for one GPU type", hint="give one quota per GPU type"
        )
    for share in row.shares:
        if share.floor_milli > share.limit_milli:
            raise EventRefused(
                f"team `{row.name}` is guaranteed {milli_text(share.floor_milli)}"
                f" GPUs of `{share.kind}`, above its maximum quota of"
                f" {milli_text(share.limit_milli)}",
                hint="raise the maximum quota or lower the guaranteed quota",
            )


def _refuse_bad_parent(world: World, row: Queue) -> None:
    if not row.parent:
        return
    p = world.queue_number.get(row.parent)
    if row.parent == row.name:
        _refuse(row, "that is itself", "leave the parent out to put it at the top")
    if p is None:
        known = ", ".join(f"`{name}`" for name in sorted(world.queue_number)) or "none"
        _refuse(row, f"known teams: {known}", "declare the parent before what is below it")
    above = [world.queue_rows[a].name for a in world.tree.paths[p]]
    if row.name in above:
        ring = " under ".join(f"`{name}`" for name in above[: above.index(row.name) + 1])
        _refuse(row, f"that is a cycle: {ring} already", "no team may be above itself")
    if len(above) >= MAX_DEPTH:
        _refuse(row, f"that is {MAX_DEPTH} levels deep already", "put teams beside each other")
    if own := jobs_of_its_own(world, row.parent):
        found = f"`{row.parent}` has jobs of its own, such as `{world.job_names[own[0]]}`"
        _refuse(row, found, "jobs belong to the lowest queues: wait until such jobs have ended")


def _refuse_broken_promises(rows: list[Queue], amounts: Amounts, kinds: dict[str, int]) -> None:
    for q, row in enumerate(rows):
        for share in row.shares:
            sure = int(amounts.floor[q, kinds[share.kind]])
            if sure > share.limit_milli:
                raise EventRefused(
                    f"the guaranteed quotas below team `{row.name}` add up to {sure} milli of"
                    f" `{share.kind}`,"
                    f" above its maximum quota of {share.limit_milli}",
                    hint=f"raise the maximum quota of `{row.name}` or lower the quotas below it",
                )


def _enlarged(old: I64, *shape: int) -> I64:
    """The same numbers in an array of these first dimensions; what is new is 0."""
    new = np.zeros((*shape, *old.shape[len(shape) :]), np.int64)
    new[tuple(slice(size) for size in old.shape)] = old
    return new


def _refuse(row: Queue, found: str, hint: str) -> NoReturn:
    raise EventRefused(f"team `{row.name}` is put under `{row.parent}`; {found}", hint=hint)
