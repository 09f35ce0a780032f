"""Random stories that could have happened: every event is folded as it is told.

``tell(rng, length)`` draws from any ``random.Random``; ``stories()`` is the same for hypothesis,
which shrinks a failing story to a short one.
"""

from collections.abc import Callable
from random import Random

import numpy as np
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.errors import EventRefused
from tidemill.model.events import Event, Why
from tidemill.model.figures import STEPS, DeviceFigure
from tidemill.model.loads import NO_BOUND_US, LatencyFigure, LoadFigure, LoadSource
from tidemill.model.reasons import Cause
from tidemill.model.rows import (
    UNPRICED,
    Checkpointing,
    Contract,
    Efficiency,
    Job,
    LaterPrice,
    Node,
    Piece,
    Queue,
    Role,
    Shape,
    Share,
    Template,
)
from tidemill.model.states import (
    ACTIVE,
    CONFIDENCES,
    LAUNCHED,
    JobClass,
    JobState,
    NodeState,
    Terms,
)
from tidemill.model.tables import NEVER_PASSED
from tidemill.model.topology import Tier, Topology
from tidemill.model.world import World
from tidemill.provisioning import life
from tidemill.reservation import types

Teller = Callable[[World, Random, int], Event | None]

NAMES = ("a", "ночь", 'quo"te', "two words", "🌊", "back\\slash", "[/k]")
TEAMS = ("red", "blue", "grün")
KINDS = ("h100", "a100")
MOST_CONTRACTS, MOST_NODES, MOST_JOBS = 4, 60, 400
TRIES = 6  # tellers that are asked before time simply passes


def tell(rng: Random, length: int) -> list[Event]:
    """A story of this many events."""
    world, at_ms = World(), 0
    told: list[Event] = []
    while len(told) < length:
        at_ms += rng.choice((0, 0, 1, 50, 60_000))
        told.append(_next(world, rng, at_ms))
    return told


def _next(world: World, rng: Random, at_ms: int) -> Event:
    """Something that can happen now; if nothing is found, time passes."""
    for _ in range(TRIES):
        event = rng.choice(TELLERS)(world, rng, at_ms)
        if event is not None and _is_folded(world, event):
            return event
    woke = ev.Woke(at_ms)
    fold(world, woke)
    return woke


def _is_folded(world: World, event: Event) -> bool:
    try:
        fold(world, event)
    except EventRefused:
        return False
    return True


@st.composite
def stories(draw: st.DrawFn, most: int = 60) -> list[Event]:
    """Stories of up to ``most`` events."""
    return tell(draw(st.randoms(use_true_random=False)), draw(st.integers(0, most)))


def signed(world: World, rng: Random, at_ms: int) -> Event | None:
    if world.contract_count == MOST_CONTRACTS:
        return None
    devices = rng.choice((1, 4, 8, 64))
    terms = Terms.RESERVED if not world.contract_count else rng.choice((*Terms, types.UNFILLED))
    return ev.ContractSigned(
        at_ms,
        Contract(
            name=_name(rng, world.contract_count),
            pool=rng.choice(("east", "west")),
            kind=rng.choice(KINDS),
            count=devices * rng.randint(1, 6),
            usd_micro_per_hour=rng.randint(0, 5_000_000),
            node=Template(devices, 96_000, 1 << 20, (("rack", rng.choice("ab")),)),
            terms=terms,
            start_ms=rng.choice((0, at_ms)),
            later_prices=_later_prices(rng, at_ms),
        ),
    )


def _later_prices(rng: Random, at_ms: int) -> tuple[LaterPrice, ...] | UnsetType:
    if rng.random() < 0.5:
        return UNSET
    moments = sorted({at_ms + rng.randint(1, 1_000_000) for _ in range(2)})
    return tuple(LaterPrice(ms, rng.choice((UNPRICED, 7)), rng.choice("ab")) for ms in moments)


def started_contract(world: World, rng: Random, at_ms: int) -> Event | None:
    return ev.ContractStarted(at_ms, c) if (c := _number(rng, world.contract_count)) >= 0 else None


def ended_contract(world: World, rng: Random, at_ms: int) -> Event | None:
    is_time = rng.random() < 0.03  # a story without supply is a short one
    c = _number(rng, world.contract_count)
    return ev.ContractEnded(at_ms, c) if is_time and c >= 0 else None


def commitment(world: World, rng: Random, at_ms: int) -> Event | None:
    rows = world.contract_rows
    c = _one(rng, [c for c, row in enumerate(rows) if row.terms == types.UNFILLED])
    return ev.CommitmentSeen(at_ms, c, rng.choice((0, 8_000, 64_000))) if c >= 0 else None


def team(world: World, rng: Random, at_ms: int) -> Event | None:
    shares = tuple(Share(kind, 1_000, rng.randint(1_000, 64_000)) for kind in KINDS)
    return ev.QueueSet(at_ms, Queue(rng.choice(TEAMS), shares[: rng.randint(0, 2)]))


def topology(world: World, rng: Random, at_ms: int) -> Event | None:
    if rng.random() < 0.8:
        return None
    tiers = (Tier("z", "zone"), Tier("r", "rack"), Tier("n"), Tier("p", devices=2))
    return ev.TopologySet(at_ms, Topology(tiers[rng.randint(0, 2) :]))


def added(world: World, rng: Random, at_ms: int) -> Event | None:
    c = _number(rng, world.contract_count)
    if c < 0 or world.node_count == MOST_NODES:
        return None
    name, is_spare = _name(rng, world.node_count), rng.random() < 0.1
    row = Node(name, world.contract_rows[c].name, (("zone", rng.choice("xy")),), is_spare)
    return ev.NodeAdded(at_ms, row)


def moved(world: World, rng: Random, at_ms: int) -> Event | None:
    """Nodes like to become ready: elsewise nothing runs."""
    n = _number(rng, world.node_count)
    if n < 0:
        return None
    state = NodeState(world.nodes.state[n])
    legal = sorted(life.MOVES[state])
    lucky = [to for to in legal if to in {NodeState.BOOTING, NodeState.READY}]
    if not legal or (state is NodeState.READY and rng.random() < 0.9):
        return None
    to = rng.choice(lucky if lucky and rng.random() < 0.9 else legal)
    deadline_ms = at_ms + 600_000
    return ev.NodeMoved(at_ms, n, to, rng.choice(tuple(Why)), deadline_ms)


def device(world: World, rng: Random, at_ms: int) -> Event | None:
    n = _one(rng, [n for n in range(world.node_count) if world.nodes.state[n] in LAUNCHED])
    if n < 0 or rng.random() < 0.5:
        return None
    device = rng.randrange(int(world.nodes.devices[n]))
    if world.devices.is_failed[world.nodes.first_device[n] + device]:
        return ev.DeviceRepaired(at_ms, n, device)
    return ev.DeviceFailed(at_ms, n, device)


def submitted(world: World, rng: Random, at_ms: int) -> Event | None:
    if world.job_count == MOST_JOBS or not world.queue_rows:
        return None
    mfu, host, links = (rng.randint(0, 300_000) for _ in range(3))
    return ev.JobSubmitted(
        at_ms,
        Job(
            name=_name(rng, world.job_count),
            shape=_shape(rng, rng.choice(world.queue_rows).name),
            estimate_ms=rng.choice((0, 3_600_000)),
            startup_ms=rng.randint(0, 1_000),
            restart_ms=rng.randint(0, 1_000),
            checkpointing=Checkpointing(rng.choice((0, 60_000)), rng.randint(0, 500)),
            efficiency=Efficiency(mfu, host, links, rng.choice(CONFIDENCES)),
            resize_ms=rng.randint(0, 1_000),
        ),
    )


def request_changed(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _job(world, rng, {JobState.WAITING, JobState.CANCELLED})
    if j < 0:
        return None
    known, teams = world.shape_of(j), [row.name for row in world.queue_rows]
    name = known.team if _attempt(world, j) else rng.choice(teams)
    shape = replace(_shape(rng, name), kind=known.kind)
    return ev.RequestChanged(at_ms, j, shape, rng.choice((0, 3_600_000)))


def placed(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _job(world, rng, {JobState.WAITING})
    pieces = _pieces(world, world.shape_of(j)) if j >= 0 else None
    if pieces and rng.random() < 0.2:
        return ev.PlacementSeen(at_ms, j, _attempt(world, j) + 1, pieces, rng.choice((0, 500)))
    return ev.AskedPlace(at_ms, j, _attempt(world, j) + 1, pieces) if pieces else None


def reason_seen(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _job(world, rng, {JobState.WAITING}) if rng.random() < 0.2 else -1
    reason = rng.choice(("Resources", "Priority: held behind others", "ß und ☂"))
    return ev.ReasonSeen(at_ms, j, rng.choice(tuple(Cause)), 3, reason) if j >= 0 else None


def started(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _job(world, rng, {JobState.STARTING})
    return ev.JobStarted(at_ms, j, _attempt(world, j)) if j >= 0 else None


def finished(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _job(world, rng, {JobState.RUNNING})
    return ev.JobFinished(at_ms, j, _attempt(world, j)) if j >= 0 else None


def failed(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _job(world, rng, ACTIVE)
    if j < 0:
        return None
    return ev.JobFailed(at_ms, j, _attempt(world, j), is_final=rng.random() < 0.3)


def cancelled(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _job(world, rng, {JobState.WAITING, *ACTIVE})
    return ev.JobCancelled(at_ms, j) if j >= 0 and rng.random() < 0.3 else None


def activity(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _job(world, rng, {JobState.RUNNING})
    busy_ppm = rng.choice((0, 500_000, 1_000_000))
    return ev.ActivitySeen(at_ms, j, _attempt(world, j), busy_ppm) if j >= 0 else None


def pace(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _job(world, rng, {JobState.RUNNING})
    beside_ppm = rng.choice((0, 0, 300_000, 1_000_000))
    return ev.PaceSeen(at_ms, j, _attempt(world, j), beside_ppm) if j >= 0 else None


def saved(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _job(world, rng, {JobState.RUNNING})
    if j < 0 or world.jobs.interval_ms[j] <= 0:
        return None
    is_able = at_ms - int(world.jobs.cost_ms[j]) >= int(world.jobs.origin_ms[j])
    return ev.JobSaved(at_ms, j, _attempt(world, j)) if is_able else None


def measured(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _job(world, rng, {JobState.RUNNING})
    if j < 0:
        return None
    shares = [rng.choice((-1, 0, 1_000, 300_000)) for _ in range(3)]
    if rng.random() < 0.3:
        return ev.StallsSeen(at_ms, j, _attempt(world, j), *shares)
    if rng.random() < 0.2:
        figure = rng.choice([*DeviceFigure])
        value = rng.choice((-1, 0, 7, 40)) * (STEPS[figure] if rng.random() < 0.9 else 1)
        return ev.FigureSeen(at_ms, j, _attempt(world, j), figure, max(-1, value))
    if rng.random() < 0.1:
        used_ms, peak_ppm = rng.choice((-1, 0, 9_000)), rng.choice((-1, 0, 2_000_000))
        return ev.HostUseSeen(at_ms, j, _attempt(world, j), used_ms, 10_000, peak_ppm)
    if rng.random() < 0.2:
        load, source = rng.choice([*LoadFigure]), rng.choice([*LoadSource])
        return ev.LoadSeen(at_ms, j, _attempt(world, j), load, rng.choice((0, 5, 2**40)), source)
    if rng.random() < 0.2:
        latency, bound = rng.choice([*LatencyFigure]), rng.choice((1_000, 250_000, NO_BOUND_US))
        return ev.LatencySeen(at_ms, j, _attempt(world, j), latency, bound, rng.choice((1, 7)))
    if rng.random() < 0.2:
        share, known = rng.choice((0, 400_000, 1_000_000)), rng.choice(CONFIDENCES)
        return ev.StragglerSeen(at_ms, j, _attempt(world, j), share, known)
    if rng.random() < 0.5:
        known, memory_ppm = rng.choice(CONFIDENCES), rng.choice((-1, 90_000))
        return ev.EfficiencySeen(at_ms, j, _attempt(world, j), 350_000, known, memory_ppm)
    return ev.CheckpointSeen(at_ms, j, _attempt(world, j), max(0, at_ms - rng.choice((0, 50))))


def device_error(world: World, rng: Random, at_ms: int) -> Event | None:
    if not world.node_rows or rng.random() < 0.7:
        return None
    n = rng.randrange(len(world.node_rows))
    return ev.DeviceErrorSeen(at_ms, n, rng.choice((-1, 0, 3)), rng.choice((13, 48, 79)))


def sight(world: World, rng: Random, at_ms: int) -> Event | None:
    if rng.random() < 0.7:
        return None
    is_kept = rng.random() < 0.5
    prefix = rng.choice(("", rng.choice(NAMES)))
    return rng.choice(
        (ev.SightLost(at_ms, is_kept or bool(prefix), prefix), ev.SightRegained(at_ms, prefix))
    )


def asked_evict(world: World, rng: Random, at_ms: int) -> Event | None:
    j, heir = _job(world, rng, ACTIVE), _job(world, rng, {JobState.WAITING})
    if j < 0:
        return None
    return ev.AskedEvict(at_ms, j, _attempt(world, j), Why.PREEMPTED, rng.choice((-1, heir)))


def evicted(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _one(rng, sorted(world.leaving_for))
    return ev.JobEvicted(at_ms, j, _attempt(world, j)) if j >= 0 else None


def asked_move(world: World, rng: Random, at_ms: int) -> Event | None:
    """A running job goes elsewhere, or an elastic one loses or gains a replica."""
    j, heir = _job(world, rng, {JobState.RUNNING}), _job(world, rng, {JobState.WAITING})
    if j < 0:
        return None
    shape, held, attempt = world.shape_of(j), world.placements[j], _attempt(world, j)
    heir = rng.choice((-1, heir))
    if shape.elastic_role is None:
        pieces = _pieces(world, shape)
        return ev.AskedMove(at_ms, j, attempt, Why.MOVED, pieces, held, heir) if pieces else None
    if rng.random() < 0.5:
        lost = (_one_replica([p for p in held if p.role == shape.elastic_role][-1]),)
        return ev.AskedMove(at_ms, j, attempt, Why.SHRUNK, (), lost, heir)
    one = replace(shape.roles[shape.elastic_role], count=1, least=0)
    found = _pieces(world, Shape(shape.team, (one,))) or ()
    gained = tuple(replace(piece, role=shape.elastic_role) for piece in found)
    return ev.AskedMove(at_ms, j, attempt, Why.GROWN, gained) if gained else None


def has_moved(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _one(rng, sorted(world.moving))
    return ev.JobMoved(at_ms, j, _attempt(world, j)) if j >= 0 else None


def asked_cancel(world: World, rng: Random, at_ms: int) -> Event | None:
    j = _job(world, rng, ACTIVE)
    return ev.AskedCancel(at_ms, j, Why.IDLE) if j >= 0 and rng.random() < 0.3 else None


def asked_launch(world: World, rng: Random, at_ms: int) -> Event | None:
    c = _number(rng, world.contract_count)
    return ev.AskedLaunch(at_ms, c, rng.randint(1, 3)) if c >= 0 else None


def asked_of_node(world: World, rng: Random, at_ms: int) -> Event | None:
    n = _number(rng, world.node_count)
    if n < 0 or rng.random() < 0.5:
        return None
    return rng.choice(
        (
            ev.AskedDrain(at_ms, n, Why.MAINTENANCE, at_ms + 1_000),
            ev.AskedRepair(at_ms, n),
            ev.AskedReturn(at_ms, n),
            ev.AskedSpare(at_ms, n, rng.random() < 0.2),
        )
    )


def said_why(world: World, rng: Random, at_ms: int) -> Event | None:
    s = _number(rng, len(world.shape_rows))
    return ev.CauseChanged(at_ms, s, rng.choice(tuple(Cause))) if s >= 0 else None


def asked_release(world: World, rng: Random, at_ms: int) -> Event | None:
    s = _one(rng, sorted(world.promised))
    return ev.AskedRelease(at_ms, s) if s >= 0 else None


def said_half_life(world: World, rng: Random, at_ms: int) -> Event | None:
    is_news = rng.random() < 0.1
    return ev.HalfLifeSet(at_ms, rng.choice((0, 60_000, 3_600_000))) if is_news else None


def said_mix(world: World, rng: Random, at_ms: int) -> Event | None:
    is_news = rng.random() < 0.2 and world.job_count > world.mix_point
    return ev.MixSampled(at_ms) if is_news else None


def job_passed(world: World, rng: Random, at_ms: int) -> Event | None:
    jobs, count = world.jobs, world.job_count
    able = (jobs.state[:count] == JobState.WAITING) & (jobs.passed_ms[:count] == NEVER_PASSED)
    j = _one(rng, np.flatnonzero(able).tolist()) if rng.random() < 0.3 else -1
    return ev.JobPassed(at_ms, j) if j >= 0 else None


TELLERS: tuple[Teller, ...] = (
    signed,
    started_contract,
    ended_contract,
    commitment,
    team,
    topology,
    added,
    moved,
    moved,
    moved,
    device,
    submitted,
    submitted,
    request_changed,
    placed,
    reason_seen,
    placed,
    placed,
    started,
    started,
    finished,
    failed,
    cancelled,
    activity,
    pace,
    saved,
    measured,
    device_error,
    sight,
    asked_evict,
    evicted,
    asked_move,
    has_moved,
    asked_cancel,
    asked_launch,
    asked_of_node,
    said_why,
    asked_release,
    said_half_life,
    said_mix,
    job_passed,
)


def _name(rng: Random, number: int) -> str:
    return f"{rng.choice(NAMES)}-{number}"


def _number(rng: Random, count: int) -> int:
    return rng.randrange(count) if count else -1


def _one(rng: Random, numbers: list[int]) -> int:
    return rng.choice(numbers) if numbers else -1


def _job(world: World, rng: Random, states: set[JobState] | frozenset[JobState]) -> int:
    return _one(rng, [j for j in range(world.job_count) if world.jobs.state[j] in states])


def _one_replica(piece: Piece) -> Piece:
    """The first replica of a piece."""
    if piece.slices:
        return piece
    held = [d for d in range(64) if piece.devices >> d & 1]
    mask = sum(1 << d for d in held[: len(held) // piece.replicas])
    return Piece(piece.role, piece.node, 1, mask)


def _attempt(world: World, j: int) -> int:
    return int(world.jobs.attempt[j])


def _shape(rng: Random, team_name: str) -> Shape:
    roles = [
        Role("worker", rng.randint(1, 3), rng.choice((1, 4)), cpu_milli=1_000, memory_mib=512),
        Role("slice", 1, 1, rng.choice((250, 500)), kinds=KINDS),
        Role("instance", 1, 1, 125, kinds=("h100",), profile="1g.10gb"),
        Role("driver", 1, 0, cpu_milli=500, labels=(("rack", "a"),)),
    ]
    if rng.random() < 0.3:
        roles[0] = replace(roles[0], count=3, least=rng.randint(1, 2))
    chosen = tuple(rng.sample(roles, rng.randint(1, 3)))
    kind, priority = rng.choice(tuple(JobClass)), rng.randint(-2, 2)
    return Shape(team_name, chosen, kind, priority, rng.random() < 0.8)


def _pieces(world: World, shape: Shape) -> tuple[Piece, ...] | None:
    """First fit, whole nodes at a time; None where the gang does not fit."""
    pieces: list[Piece] = []
    taken: dict[int, int] = {}
    for number, role in enumerate(shape.roles):
        missing = role.count
        for n in _takers(world):
            if role.profile and world.kinds[world.nodes.kind[n]] != "h100":
                continue
            least = 1000 if role.profile else role.milli
            free = _free_devices(world, n, least, taken.get(n, 0))
            room = len(free) // role.accelerators if role.accelerators else missing
            replicas = min(missing, room)
            if replicas:
                mask = sum(1 << bit for bit in free[: replicas * role.accelerators])
                taken[n] = taken.get(n, 0) | mask
                pieces.append(Piece(number, n, replicas, mask, 1 << 6 if role.profile else 0))
                missing -= replicas
        if missing:
            return None
    return tuple(pieces)


def _takers(world: World) -> list[int]:
    nodes = world.nodes
    ready = (n for n in range(world.node_count) if nodes.state[n] == NodeState.READY)
    return [n for n in ready if not nodes.is_spare[n]]


def _free_devices(world: World, n: int, milli: int, taken: int) -> list[int]:
    first, devices = int(world.nodes.first_device[n]), world.devices
    return [
        bit
        for bit in range(int(world.nodes.devices[n]))
        if not taken >> bit & 1
        and not devices.is_failed[first + bit]
        and devices.free_milli[first + bit] >= milli
    ]
