"""The board: everything that waits, by layer and cause, and the dollars that stand idle beneath it.

Idle is shared without counting twice, by the ledger's own rule: waiting shapes, in queue order,
claim up to their demand of the free accelerators that they may use; the rest is unclaimed.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.explain import futures, partial_gangs, phrasing, rerun
from tidemill.explain.answers import Board, BoardRow, LayerRow, PendingJob, TeamWaits
from tidemill.explain.futures import Futures
from tidemill.explain.rerun import Glance
from tidemill.model.measures import WHOLE_MILLI, hourly_text, share_out
from tidemill.model.policy import Policy
from tidemill.model.reasons import LAYER_OF, NEVER, Cause, Layer
from tidemill.model.rows import Shape
from tidemill.model.states import Level
from tidemill.model.world import World
from tidemill.scheduling import diagnose, elastic, order, protection
from tidemill.scheduling.fairness import Fair

FIRST = 3  # jobs shown of each cause


HELD = Cause.NOT_ELIGIBLE.name.lower()
"""The cause of jobs that wait for something else than GPUs: listed, and not counted."""


class _Idle(NamedTuple):
    """Free accelerators that some shapes claim, and their price in milli-units × micro-dollars."""

    milli: int
    milli_usd: int
    is_priced: bool = True
    """Whether somebody said a price of all of it."""


def with_eta(
    world: World, policy: Policy, found: Board, shown: Collection[PendingJob] | None = None
) -> Board:
    """The same board with when each job, and the oldest of each row, starts, as ``eta`` says it.

    With ``shown``, of these jobs alone, which takes less time.
    """
    names = {row.job for row in (found.waiting if shown is None else shown)}
    if not names:
        return found
    jobs = [j for j in sorted(world.job_number[name] for name in names) if _may_start(world, j)]
    seen = futures.look(world, policy, jobs)
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
    held = [s for s in world.queued if world.shapes.cause.item(s) == Cause.NOT_ELIGIBLE]
    looked = rerun.look(world, policy, memo, [s for s in world.queued if s not in held])
    causes = dict.fromkeys(held, Cause.NOT_ELIGIBLE)
    causes |= {s: rerun.from_the_ground(world, memo, s, c) for s, c in looked.causes.items()}
    jobs: dict[Cause, list[int]] = {}
    for s in world.queued:
        for j in world.waiting[s]:
            cause = Cause.NONE if j in looked.placed else causes[s]
            jobs.setdefault(cause, []).append(j)
    idle, unclaimed = _claims(world, policy, memo, causes)
    parts = [idle.get(cause, _Idle(0, 0)) for cause in jobs]
    every = [*parts, unclaimed]
    free_usd, *dollars, left_usd = _dollars(every)
    rows = sorted(
        (
            _row(world, cause, jobs[cause], part.milli, usd)
            for cause, part, usd in zip(jobs, parts, dollars, strict=True)
        ),
        key=lambda row: (-row.asked_milli, row.cause),
    )
    free, half = sum(part.milli for part in every), partial_gangs.partial_gangs(world)
    waits = [row for row in rows if row.cause != HELD]
    return Board(
        world.now_ms, sum(row.jobs for row in waits), sum(row.asked_milli for row in waits), free,
        free_usd, unclaimed.milli, left_usd, _layers(rows), tuple(rows),
        _words(rows, free, free_usd, unclaimed.milli),
        _waiting(world, policy, memo, jobs), half.gangs, half.deadlocks,
        held=len(jobs.get(Cause.NOT_ELIGIBLE, ())),
    )  # fmt: skip


def _waiting(
    world: World, policy: Policy, memo: Glance, jobs: dict[Cause, list[int]]
) -> tuple[PendingJob, ...]:
    """Every waiting job, in order."""
    cause_of = {j: cause.name.lower() for cause, mine in jobs.items() for j in mine}
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
                int(world.shapes.total_milli[s]), asks[s], cause_of[j],
                world.now_ms - int(world.jobs.since_ms[j]),
                alarm=protection.alarm(world, policy, j), reason=_says(world, j),
                least_milli=elastic.smallest(shape).total_milli,
            )
        )  # fmt: skip
    return tuple(found)


def _says(world: World, j: int) -> str:
    found = world.reason_of(j)
    return f"{found.words} (owner: {Layer(found.layer).name.lower()})" if found else ""


def _row(
    world: World, cause: Cause, jobs: list[int], idle_milli: int, idle_usd: int | None
) -> BoardRow:
    layer = LAYER_OF[cause]
    jobs.sort(key=lambda j: (int(world.jobs.since_ms[j]), j))
    oldest, waited_ms = world.job_names[jobs[0]], world.now_ms - int(world.jobs.since_ms[jobs[0]])
    asked = _asked(world, jobs)
    text = (
        f"{phrasing.many(len(jobs), 'job')} requesting {phrasing.amount(asked)}:"
        f" {phrasing.cause(world, cause)}"
        f" (owner: {layer.name.lower()}); the oldest, `{oldest}`, waits {phrasing.since(waited_ms)}"
    )
    if idle_milli:
        free = phrasing.amount(idle_milli)
        text += f"; {free} idle meanwhile, {hourly_text(idle_usd)}"
    return BoardRow(
        cause.name.lower(), int(layer), layer.name.lower(), len(jobs), asked, oldest, waited_ms,
        _teams(world, jobs), idle_milli, idle_usd,
        tuple(world.job_names[j] for j in jobs[:FIRST]), text,
        cause_words=phrasing.cause(world, cause),
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
    return sum(int(world.shapes.total_milli[world.jobs.shape[j]]) for j in jobs)


def _claims(
    world: World, policy: Policy, memo: Glance, causes: dict[int, Cause]
) -> tuple[dict[Cause, _Idle], _Idle]:
    """Divide what is free among what waits, in queue order."""
    free = world.levels[: world.contract_count, Level.READY].tolist()
    rates = world.contracts.rate_usd_micro[: world.contract_count].tolist()
    usable: dict[object, list[int]] = {}
    idle: dict[Cause, _Idle] = {}
    for s in _in_order(world, policy, memo):
        demand = int(world.shapes.total_milli[s]) * len(world.waiting[s])
        if causes[s] in NEVER or not any(free):
            continue
        shape = world.shape_rows[s]
        constraints = tuple((r.kinds, r.labels, r.accelerators > 0) for r in shape.roles)
        if constraints not in usable:
            usable[constraints] = _may_use(world, shape)
        for c in usable[constraints]:
            part = min(demand, free[c])
            free[c] -= part
            demand -= part
            before = idle.get(causes[s], _Idle(0, 0))
            idle[causes[s]] = _Idle(
                before.milli + part,
                before.milli_usd + part * rates[c],
                before.is_priced and (not part or world.contract_rows[c].is_priced),
            )
    left = sum(part * rate for part, rate in zip(free, rates, strict=True))
    is_priced = all(
        row.is_priced for row, part in zip(world.contract_rows, free, strict=True) if part
    )
    return idle, _Idle(sum(free), left, is_priced)


def _in_order(world: World, policy: Policy, memo: Glance) -> list[int]:
    fair, lines = Fair(world, policy), memo.lines(policy)
    lines.begin(world)

    def key(s: int) -> order.Key:
        return order.key_at(fair, world.used, memo.known(world, s), s, lines.head(world, s))

    return sorted(world.queued, key=key)


def _may_use(world: World, shape: Shape) -> list[int]:
    roles = [role for role in shape.roles if role.accelerators]
    return [
        c for c, row in enumerate(world.contract_rows)
        if any(
            (not role.kinds or row.kind in role.kinds) and diagnose.could_match(world, row, role)
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


def _words(rows: list[BoardRow], free: int, free_usd: int | None, unclaimed: int) -> str:
    held = sum(row.jobs for row in rows if row.cause == HELD)
    rows = [row for row in rows if row.cause != HELD]
    also = f"; {phrasing.many(held, 'job')} held, which is no demand for GPUs" if held else ""
    if not rows:
        return f"nothing waits; {_gpus(free)} free{also}"
    jobs, asked = sum(row.jobs for row in rows), sum(row.asked_milli for row in rows)
    return (
        f"{phrasing.many(jobs, 'job')} waiting, {_gpus(asked)} requested;"
        f" {_gpus(free)} free ({hourly_text(free_usd)}), of which"
        f" {phrasing.amount(unclaimed)} of no use to any waiting job{also}"
    )


def _gpus(milli: int) -> str:
    return f"{phrasing.amount(milli)} GPU{'' if milli == WHOLE_MILLI else 's'}"
