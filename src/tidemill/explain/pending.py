"""The board: everything that waits, by layer and cause, and the dollars that stand idle beneath it.

Idle is shared without counting twice, by the ledger's own rule: waiting shapes, in queue order,
claim up to their demand of the free accelerators that they may use, then what partial gangs lack;
the rest is unclaimed. What is behind a taint, or has other labels than they ask for, is none that
they may use.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from itertools import groupby
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from tidemill.explain import futures, partial_gangs, phrasing, rerun, supply, told
from tidemill.explain.answers import (
    Board,
    BoardRow,
    LayerRow,
    PartialGang,
    PendingJob,
    TeamWaits,
)
from tidemill.explain.bands import USUAL, Sides
from tidemill.explain.futures import Futures
from tidemill.explain.rerun import Glance
from tidemill.explain.told import WaitsFor
from tidemill.model.measures import WHOLE_MILLI, hourly_text, share_out
from tidemill.model.policy import Policy
from tidemill.model.reasons import CLAIM_NOTHING, LAYER_OF, NEVER, Cause, Layer
from tidemill.model.rows import Shape
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World
from tidemill.scheduling import diagnose, elastic, order, protection
from tidemill.scheduling.contract_capacity import SmallKinds
from tidemill.scheduling.fairness import Fair

FIRST = 3  # jobs shown of each cause


HELD = Cause.NOT_ELIGIBLE.name.lower()
"""The cause of jobs that wait for something else than GPUs: listed, and not counted."""


class _Idle(NamedTuple):
    """Free GPUs that some shapes claim, and their price in milli-units × micro-dollars."""

    milli: Fraction | int
    milli_usd: int
    is_priced: bool = True
    """Whether somebody said a price of all of it."""


class _Hourly(NamedTuple):
    """Micro-dollars per hour, None where nobody said a price of some; and what is known of it."""

    usd_micro: int | None
    known_usd_micro: int


def with_eta(
    world: World, policy: Policy, found: Board, shown: Collection[PendingJob] | None = None,
    sides: Sides = USUAL,
) -> Board:  # fmt: skip
    """The same board with when each job, and the oldest of each row, starts, as ``eta`` says it.

    With ``shown``, of these jobs alone, which takes less time. ``sides``: as for ``eta``.
    """
    names = {row.job for row in (found.waiting if shown is None else shown)}
    if not names:
        return found
    jobs = [j for j in sorted(world.job_number[name] for name in names) if _may_start(world, j)]
    seen = futures.look(world, policy, jobs, sides=sides)
    return replace(
        found,
        rows=tuple(_row_with_eta(world, seen, row) for row in found.rows),
        waiting=tuple(_with_eta(world, seen, row, row.job in names) for row in found.waiting),
        eta_method=seen.method,
        eta_assumptions=seen.assumptions,
        eta_reach_ms=seen.reach_ms,
    )


def _may_start(world: World, j: int) -> bool:
    return diagnose.ever_cause(world, world.shape_of(j)) not in NEVER


def _row_with_eta(world: World, seen: Futures, row: BoardRow) -> BoardRow:
    return replace(row, eta=seen.bands.get(world.job_number[row.oldest_job]))


def _with_eta(world: World, seen: Futures, row: PendingJob, is_asked: bool) -> PendingJob:
    j = world.job_number[row.job]
    if j in seen.bands:
        return replace(row, eta=seen.bands[j], verdict=seen.verdict(j))
    return replace(row, verdict="never") if is_asked else row


def board(world: World, policy: Policy, memo: Glance | None = None) -> Board:
    """Everything that waits now."""
    memo = rerun.glance(world, memo)
    held = [s for s in world.queued if not world.asking(s)]
    looked = rerun.look(world, policy, memo, [s for s in world.queued if s not in held])
    causes = dict.fromkeys(held, Cause.NOT_ELIGIBLE)
    found = rerun.grounded(world, memo, looked)
    causes |= {s: rerun.for_pods(world, memo, s, cause) for s, cause in found.items()}
    jobs: dict[WaitsFor, list[int]] = {}
    for s in world.queued:
        for j in world.waiting[s]:
            cause = Cause.NONE if j in looked.placed else causes[s]
            books = rerun.as_told(world, j, cause)
            why = told.waits_for(world, j, books)._replace(is_block=False)  # one row for each word
            jobs.setdefault(why, []).append(j)
    whys = {j: why for why, mine in jobs.items() for j in mine}
    if not world.is_looked_on:  # those of one shape claim together, whoever starts next
        for s in causes:
            asking = world.asking(s) or world.waiting[s]
            cause = rerun.as_told(world, asking[0], causes[s])
            some = [j for j in asking if not whys[j].says]
            whys |= dict.fromkeys(some, WaitsFor(cause, LAYER_OF[cause]))
    half = partial_gangs.partial_gangs(world)
    idle, unclaimed = _claims(world, policy, memo, whys, half.gangs)
    parts = [idle.get(why, _Idle(0, 0)) for why in jobs]
    every = [*parts, idle.get(_REST, _Idle(0, 0)), unclaimed]
    free_usd, *dollars, _, left_usd = _dollars(every)
    known_usd = [part.milli_usd // WHOLE_MILLI for part in parts]
    free_known = sum(part.milli_usd for part in every) // WHOLE_MILLI
    if supply.unlisted_mask(world).any():  # more may be free than is known: that is not nothing
        dollars = [usd or None for usd in dollars]
    rows = sorted(
        (
            _row(world, why, jobs[why], round(part.milli), _Hourly(usd, known))
            for why, part, usd, known in zip(jobs, parts, dollars, known_usd, strict=True)
        ),
        key=lambda row: (-row.asked_milli, row.cause, row.says),
    )
    free, left = round(sum(part.milli for part in every)), round(unclaimed.milli)
    unused = _FreeGpus(free, _Hourly(free_usd, free_known), left, _REST in idle)
    waits = [row for row in rows if row.cause != HELD]
    return Board(
        world.now_ms, sum(row.jobs for row in waits), sum(row.asked_milli for row in waits), free,
        free_usd, left, left_usd, _layers(rows), tuple(rows),
        _words(world, rows, unused, bool(half.gangs)),
        _waiting(world, policy, memo, jobs), half.gangs, half.deadlocks,
        held=sum(row.jobs for row in rows if row.cause == HELD),
        free_known_usd_micro_per_hour=free_known,
    )  # fmt: skip


def _waiting(
    world: World, policy: Policy, memo: Glance, jobs: dict[WaitsFor, list[int]]
) -> tuple[PendingJob, ...]:
    """Every waiting job, in order."""
    why_of = {j: why for why, mine in jobs.items() for j in mine}
    asks: dict[int, str] = {}
    found = []
    for position, j in enumerate(rerun.in_order(world, policy, memo), 1):
        s = int(world.jobs.shape[j])
        shape = world.shape_rows[s]
        if s not in asks:
            asks[s] = phrasing.asks(shape)
        found.append(
            PendingJob(
                position, world.job_names[j], shape.team, world.job_users[j], shape.priority,
                supply.asked_milli(world, shape), asks[s],
                why_of[j].cause.name.lower(),
                world.now_ms - int(world.jobs.since_ms[j]),
                alarm=protection.alarm(world, policy, j), reason=phrasing.own_reason(world, j),
                least_milli=supply.asked_milli(world, elastic.smallest(shape)), says=why_of[j].says,
                owner=why_of[j].layer.name.lower(),
            )
        )  # fmt: skip
    return tuple(found)


def _row(world: World, why: WaitsFor, jobs: list[int], idle_milli: int, idle: _Hourly) -> BoardRow:
    cause, layer, says, _ = why
    words = phrasing.cause(world, cause)
    if says:
        words = f"its own scheduler says {phrasing.said_or_label(world, cause.name, says)}"
    jobs.sort(key=lambda j: (int(world.jobs.since_ms[j]), j))
    oldest, waited_ms = world.job_names[jobs[0]], world.now_ms - int(world.jobs.since_ms[jobs[0]])
    asked = _asked(world, jobs)
    text = (
        f"{phrasing.many(len(jobs), 'job')} requesting {phrasing.amount(asked)}:"
        f" {words}"
        f" (owner: {layer.name.lower()}); the oldest, `{oldest}`, waits {phrasing.since(waited_ms)}"
    )
    if idle_milli:
        free = phrasing.amount(idle_milli)
        text += f"; {free} idle meanwhile, {hourly_text(*idle)}"
    return BoardRow(
        cause.name.lower(), int(layer), layer.name.lower(), len(jobs), asked, oldest, waited_ms,
        _teams(world, jobs), idle_milli, idle.usd_micro,
        tuple(world.job_names[j] for j in jobs[:FIRST]), text,
        cause_words=words, says=says,
        idle_known_usd_micro_per_hour=idle.known_usd_micro,
    )  # fmt: skip


def _teams(world: World, jobs: list[int]) -> tuple[TeamWaits, ...]:
    """Who waits; the team that asks for most first."""
    by_team: dict[str, list[int]] = {}
    for j in jobs:
        by_team.setdefault(world.shape_of(j).team, []).append(j)
    rows = [TeamWaits(team, len(mine), _asked(world, mine)) for team, mine in by_team.items()]
    return tuple(sorted(rows, key=lambda row: (-row.asked_milli, row.team)))


def _layers(rows: list[BoardRow]) -> tuple[LayerRow, ...]:
    found = []
    for layer in Layer:
        mine = [row for row in rows if row.layer == layer]
        jobs, asked = sum(row.jobs for row in mine), sum(row.asked_milli for row in mine)
        if jobs:
            found.append(LayerRow(int(layer), layer.name.lower(), jobs, asked))
    return tuple(found)


def _asked(world: World, jobs: Iterable[int]) -> int:
    shapes = Counter(world.jobs.shape.item(j) for j in jobs)
    return sum(n * supply.asked_milli(world, world.shape_rows[s]) for s, n in shapes.items())


_REST = WaitsFor(Cause.PARTIAL_GANG, LAYER_OF[Cause.PARTIAL_GANG], "the rest of partial gangs")


def _claims(
    world: World,
    policy: Policy,
    memo: Glance,
    whys: dict[int, WaitsFor],
    gangs: Sequence[PartialGang],
) -> tuple[dict[WaitsFor, _Idle], _Idle]:
    """Divide what is free among what waits, in queue order, then what partial gangs lack."""
    pools = _free_pools(world)
    free = [pool.milli for pool in pools]
    rows = [world.contract_rows[pool.contract].at(world.now_ms) for pool in pools]
    is_priced = [row.is_priced for row in rows]
    rates = [row.rate_usd_micro if row.is_priced else 0 for row in rows]
    usable, small = dict[object, list[int]](), SmallKinds(world.contract_rows)
    idle: dict[WaitsFor, _Idle] = {}
    asked = [
        (s, int(world.shapes.total_milli[s]) * len([*some]), why)
        for s in _in_order(world, policy, memo)
        for why, some in groupby(world.asking(s), key=whys.__getitem__)
    ]
    asked += [
        (world.jobs.shape.item(j), gang.missing_milli, _REST)
        for gang in gangs
        if world.jobs.state[j := world.job_number[gang.job]] == JobState.STARTING
    ]
    for s, milli, why in asked:
        demand = milli
        is_never = why.cause in CLAIM_NOTHING and not why.says  # the books prove it
        if is_never or not any(free):
            continue
        shape = world.shape_rows[s]
        constraints = tuple(
            (r.kinds, r.rules, r.accelerators > 0, small.of(r)) for r in shape.roles
        )
        if constraints not in usable:
            usable[constraints] = _may_use(world, pools, shape, small)
        for p in usable[constraints]:
            part = min(demand, free[p])
            free[p] -= part
            demand -= part
            before = idle.get(why, _Idle(0, 0))
            idle[why] = _Idle(
                before.milli + rows[p].exactly_in_gpus(part),
                before.milli_usd + part * rates[p],
                before.is_priced and (not part or is_priced[p]),
            )
    left = sum(part * rate for part, rate in zip(free, rates, strict=True))
    are_priced = all(priced for priced, part in zip(is_priced, free, strict=True) if part)
    left_milli = sum(row.exactly_in_gpus(part) for row, part in zip(rows, free, strict=True))
    return idle, _Idle(left_milli, left, are_priced)


class _FreePool(NamedTuple):
    """What is free of one contract on nodes with equal labels and taints."""

    contract: int
    group: int
    milli: int


def _free_pools(world: World) -> list[_FreePool]:
    """What is free on nodes that take work, by contract, then by labels and taints."""
    rows, nodes = world.node_count, world.nodes
    here = np.flatnonzero(
        (nodes.state[:rows] == NodeState.READY)
        & (nodes.is_spare[:rows] == 0)
        & (nodes.free_milli[:rows] > 0)
    )
    sums: dict[tuple[int, int], int] = {}
    columns = (nodes.contract[here], nodes.group[here], nodes.free_milli[here])
    for c, g, milli in zip(*(column.tolist() for column in columns), strict=True):
        sums[c, g] = sums.get((c, g), 0) + milli
    return [_FreePool(c, g, sums[c, g]) for c, g in sorted(sums)]


def _in_order(world: World, policy: Policy, memo: Glance) -> list[int]:
    fair, lines = Fair(world, policy), memo.lines(policy)
    lines.begin(world)

    def key(s: int) -> order.Key:
        return order.key_at(fair, world.used, memo.known(world, s), s, lines.head(world, s))

    return sorted(world.queued, key=key)


def _may_use(world: World, pools: list[_FreePool], shape: Shape, small: SmallKinds) -> list[int]:
    """The pools that any of its roles may use, by number."""
    roles, groups = [role for role in shape.roles if role.accelerators], world.groups
    return [
        p for p, pool in enumerate(pools)
        if any(
            (not role.kinds or world.contract_rows[pool.contract].kind in role.kinds)
            and world.contract_rows[pool.contract].kind not in small.of(role)
            and role.rules.allow(groups[pool.group].labels, groups[pool.group].taints)
            for role in roles
        )
    ]  # fmt: skip


def _dollars(parts: list[_Idle]) -> list[int | None]:
    """Whole micro-dollars an hour: of all, then of each; they add up. None: no price is known."""
    exact = [part.milli_usd for part in parts]
    total = sum(exact) // WHOLE_MILLI
    each = share_out(total, exact) if sum(exact) else [0] * len(exact)
    known = [usd if part.is_priced else None for usd, part in zip(each, parts, strict=True)]
    return [None if None in known else total, *known]


class _FreeGpus(NamedTuple):
    milli: int
    hourly: _Hourly
    unclaimed_milli: int
    has_rest: bool
    """Whether partial gangs lack some of them."""


def _words(world: World, rows: list[BoardRow], free: _FreeGpus, has_parts: bool) -> str:
    held = sum(row.jobs for row in rows if row.cause == HELD)
    rows = [row for row in rows if row.cause != HELD]
    also = f"; {phrasing.many(held, 'job')} held, which is no demand for GPUs" if held else ""
    is_part = bool(supply.unlisted_mask(world).any())
    if is_part and not free.milli:
        there = "how many GPUs are free is unknown"
    else:
        there = f"{'at least ' * is_part}{_gpus(free.milli)} free"
    if not rows:
        what = "nothing waits but the rest of partial gangs" if has_parts else "nothing waits"
        return f"{what}; {there}{also}"
    jobs, asked = sum(row.jobs for row in rows), sum(row.asked_milli for row in rows)
    if free.milli:
        useless = phrasing.amount(free.unclaimed_milli)
        who = "waiting job" + " or partial gang" * free.has_rest
        use = f"of which {useless} of no use to any {who}"
        use = use if free.unclaimed_milli else f"all of use to some {who}"
        there += f" ({hourly_text(*free.hourly)}), {use}"
    return f"{phrasing.many(jobs, 'job')} waiting, {_gpus(asked)} requested; {there}{also}"


def _gpus(milli: int) -> str:
    return phrasing.amounts(milli, "GPU")
