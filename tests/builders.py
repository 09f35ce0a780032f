"""Builders: rows, Worlds and beats that read as sentences.

Rows (`contract`, `team`, `role`, `job`) have a default for whatever a test does not talk about.
`fleet` is a World with Ready nodes, made by folding its `opening` events. The verbs below it each
fold what happened (`submit`, `start`, `finish`, `lose_node`, …); jobs are called by their name and
nodes by their number, in the order in which contracts launch them. `decide` returns the plan,
checked by the second reader; `carry_out` folds it; `beat` does both and lets the backend be quick.

    world = fleet(nodes=2, teams=[team("a"), team("b", floor=8)])
    submit(world, job("t5", gpus=16, team="a"), job("t6", gpus=8, team="b", priority=3))
    assert placed(world, decide(world)) == {"t6": {0: 8}}
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tidemill.engine import cycle as one
from tidemill.engine.check import check
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import (
    Checkpointing,
    Contract,
    Efficiency,
    Job,
    Node,
    Piece,
    Queue,
    Role,
    Shape,
    Share,
    Template,
)
from tidemill.model.states import JobClass, JobState, NodeState, Terms
from tidemill.model.topology import Bond, Parallelism, Tier, Topology
from tidemill.model.world import World

Labels = Mapping[str, str]
BIG_HOST = 1_000_000  # CPU-milli and MiB of a node where neither is what a test is about
UNKNOWN = Efficiency()
DEFAULTS = Policy(min_run_ms=0, preempt_gain_ppm=0)
"""The defaults, but that whoever may be stopped is so at once, at any price: rights alone."""


# Rows -----------------------------------------------------------------------------------------


def contract(
    name: str = "c",
    *,
    gpus: int = 8,
    per_node: int = 8,
    kind: str = "H100",
    pool: str = "main",
    usd_micro_per_hour: int = 2_000_000,
    terms: str = Terms.RESERVED,
    start_ms: int = 0,
    end_ms: int = FOREVER_MS,
    spares: int = 0,
    cpu_milli: int = BIG_HOST,
    memory_mib: int = BIG_HOST,
    labels: Labels | None = None,
    taints: Labels | None = None,
) -> Contract:
    """A claim on ``gpus`` accelerators, on nodes of ``per_node``."""
    wears, keeps = tuple((labels or {}).items()), tuple((taints or {}).items())
    node = Template(per_node, cpu_milli, memory_mib, wears, keeps)
    return Contract(
        name, pool, kind, gpus, usd_micro_per_hour, node, terms, start_ms, end_ms, spares
    )


def node(
    name: str = "n", *, contract: str = "c", labels: Labels | None = None, is_spare: bool = False
) -> Node:
    """A node under a contract; its size and kind are those of the contract."""
    return Node(name, contract, tuple((labels or {}).items()), is_spare)


def team(name: str = "a", *, floor: int = 0, limit: int | None = None, kind: str = "H100") -> Queue:
    """A team, sure of ``floor`` whole accelerators of one kind and never above ``limit``."""
    return teams_share(name, **{kind: (floor, limit)})


def teams_share(name: str, **shares: tuple[int, int | None]) -> Queue:
    """A team with a (floor, limit) in whole accelerators for each kind."""
    rows = [
        Share(
            kind,
            floor * WHOLE_MILLI,
            FOREVER_MS if limit is None else limit * WHOLE_MILLI,
        )
        for kind, (floor, limit) in shares.items()
    ]
    return Queue(name, tuple(rows))


def queue(
    name: str,
    *,
    parent: str = "",
    floor: int = 0,
    limit: int | None = None,
    borrow: int | None = None,
    lend: int | None = None,
    weight: int = 1,
    kind: str = "H100",
) -> Queue:
    """A queue in a tree, with a share of one kind in whole accelerators."""
    share = Share(kind, floor * WHOLE_MILLI, *(_most(n) for n in (limit, borrow, lend)))
    return Queue(name, (share,), parent, weight)


def _most(whole: int | None) -> int:
    return FOREVER_MS if whole is None else whole * WHOLE_MILLI


def role(
    count: int = 1,
    *,
    name: str = "worker",
    gpus: int = 1,
    milli: int = WHOLE_MILLI,
    cpu_milli: int = 0,
    memory_mib: int = 0,
    kinds: Sequence[str] = (),
    labels: Labels | None = None,
    least: int = 0,
    bonds: Sequence[Bond] = (),
    profile: str = "",
) -> Role:
    """``count`` replicas of ``gpus`` each, or of ``milli`` thousandths of one, or instances."""
    wanted, tied = tuple((labels or {}).items()), tuple(bonds)
    return Role(
        name, count, gpus, milli, cpu_milli, memory_mib, tuple(kinds), wanted, least, tied, profile
    )


def job(
    name: str = "j",
    *,
    gpus: int = 1,
    per_node: int = 0,
    milli: int = WHOLE_MILLI,
    cpu_milli: int = 0,
    memory_mib: int = 0,
    kinds: Sequence[str] = (),
    labels: Labels | None = None,
    roles: Sequence[Role] = (),
    team: str = "a",
    kind: JobClass = JobClass.TRAINING,
    priority: int = 0,
    is_preemptible: bool = True,
    estimate_ms: int = 0,
    startup_ms: int = 0,
    restart_ms: int = 0,
    saves_every_ms: int = 0,
    save_ms: int = 0,
    efficiency: Efficiency = UNKNOWN,
    resize_ms: int = 0,
    speedup: Sequence[tuple[int, int]] = (),
    bonds: Sequence[Bond] = (),
    parallelism: Parallelism | None = None,
    user: str = "",
) -> Job:
    """A job of ``gpus`` accelerators, ``per_node`` a replica (all, but at most 8); or of roles.

    ``milli`` below 1000 is a fraction of one accelerator; ``gpus=0`` asks for CPU only. CPU,
    memory, kinds and labels are those of each replica; bonds are of the whole gang.
    """
    per_node = per_node or min(gpus, 8)
    assert per_node == 0 or gpus % per_node == 0, f"{gpus} GPUs do not divide by {per_node}"
    count = gpus // per_node if per_node else 1
    only = role(
        count, gpus=per_node, milli=milli, cpu_milli=cpu_milli, memory_mib=memory_mib,
        kinds=kinds, labels=labels,
    )  # fmt: skip
    every = tuple(roles) or (only,)
    shape = Shape(
        team, every, kind, priority, is_preemptible, tuple(speedup), tuple(bonds), parallelism
    )
    saving = Checkpointing(saves_every_ms, save_ms)
    return Job(
        name, shape, estimate_ms, startup_ms, restart_ms, saving, efficiency, resize_ms=resize_ms,
        user=user,
    )  # fmt: skip


# Worlds ---------------------------------------------------------------------------------------


def opening(
    *contracts: Contract,
    teams: Iterable[Queue] = (),
    node_labels: Sequence[Labels] = (),
    topology: Sequence[Tier] = (),
) -> list[ev.Event]:
    """The first events of a story: teams, and contracts that start at 0 with all nodes Ready.

    The n-th node also carries the n-th of ``node_labels``. The last nodes of a contract are its
    spares. A contract that starts later is only signed.
    """
    events: list[ev.Event] = [ev.QueueSet(0, row) for row in teams]
    if topology:
        events.append(ev.TopologySet(0, Topology(tuple(topology))))
    events += [ev.ContractSigned(0, row) for row in contracts]
    n = 0
    for c, row in enumerate(contracts):
        if row.start_ms > 0:
            continue
        events.append(ev.ContractStarted(0, c))
        nodes = row.count // row.node.devices
        for i in range(nodes):
            labels = node_labels[n] if n < len(node_labels) else None
            is_spare = i >= nodes - row.spares
            row_of_node = node(
                f"{row.name}-{i}", contract=row.name, labels=labels, is_spare=is_spare
            )
            events.append(ev.NodeAdded(0, row_of_node))
            events += [ev.NodeMoved(0, n, NodeState.BOOTING), ev.NodeMoved(0, n, NodeState.READY)]
            n += 1
    return events


SPINE, RACK, NODE, PAIR = (
    Tier("spine", "spine", mb_per_s=12_500, oversubscription_milli=2000),
    Tier("rack", "rack", mb_per_s=50_000),
    Tier("node", mb_per_s=450_000),
    Tier("pair", devices=2, mb_per_s=450_000),
)


def racks(*sizes: int, per_spine: int = 2) -> list[Labels]:
    """Labels of nodes in racks of these sizes, so many racks to a spine."""
    return [
        {"spine": f"s{number // per_spine}", "rack": f"r{number}"}
        for number, size in enumerate(sizes)
        for _ in range(size)
    ]


def fleet(
    *contracts: Contract,
    nodes: int = 4,
    gpus: int = 8,
    teams: Iterable[Queue] | None = None,
    node_labels: Sequence[Labels] = (),
    topology: Sequence[Tier] = (),
) -> World:
    """A World with Ready nodes: of these contracts, or ``nodes`` H100 nodes of ``gpus`` each."""
    rows = contracts or (contract(gpus=nodes * gpus, per_node=gpus),)
    rows_of_teams = [team("a")] if teams is None else teams
    return fold_all(
        World(), opening(*rows, teams=rows_of_teams, node_labels=node_labels, topology=topology)
    )


# What happens ---------------------------------------------------------------------------------


def submit(world: World, *jobs: Job) -> None:
    """Someone wants work done, now."""
    fold_all(world, (ev.JobSubmitted(world.now_ms, row) for row in jobs))


def place(world: World, name: str, *pieces: Piece) -> None:
    """A waiting gang is placed exactly here, whatever a scheduler would have said."""
    j = world.job_number[name]
    fold(world, ev.AskedPlace(world.now_ms, j, attempt(world, j) + 1, pieces))


def start(world: World, *names: str) -> None:
    """Gangs that were placed have come up."""
    for j in _numbers(world, names):
        fold(world, ev.JobStarted(world.now_ms, j, attempt(world, j)))


def finish(world: World, *names: str) -> None:
    """Running jobs are done."""
    for j in _numbers(world, names):
        fold(world, ev.JobFinished(world.now_ms, j, attempt(world, j)))


def crash(world: World, name: str, *, is_final: bool = False) -> None:
    """An attempt died by itself."""
    j = world.job_number[name]
    fold(world, ev.JobFailed(world.now_ms, j, attempt(world, j), is_final=is_final))


def cancel(world: World, name: str) -> None:
    """Its owner takes a job back."""
    fold(world, ev.JobCancelled(world.now_ms, world.job_number[name]))


def leave(world: World, *names: str) -> None:
    """Jobs that were asked to leave have left, or moved; without names: all of them."""
    leaving = _numbers(world, names) if names else sorted(world.leaving_for)
    for j in leaving:
        kind = ev.JobMoved if j in world.moving else ev.JobEvicted
        fold(world, kind(world.now_ms, j, attempt(world, j)))


def fall_idle(world: World, name: str, busy_ppm: int = 0) -> None:
    """A running job's accelerators are busy for this share of the time from now on."""
    j = world.job_number[name]
    fold(world, ev.ActivitySeen(world.now_ms, j, attempt(world, j), busy_ppm))


def move_node(
    world: World,
    n: int,
    *states: NodeState,
    why: ev.Why = ev.Why.UNSAID,
    deadline_ms: int = FOREVER_MS,
) -> None:
    """A node goes through these states, now."""
    for to in states:
        fold(world, ev.NodeMoved(world.now_ms, n, to, why, deadline_ms))


def lose_node(world: World, n: int) -> None:
    """A node is unhealthy; what ran there is lost."""
    move_node(world, n, NodeState.UNHEALTHY, why=ev.Why.NODE_LOST)


def lose_device(world: World, n: int, device: int) -> None:
    """One accelerator fails alone."""
    fold(world, ev.DeviceFailed(world.now_ms, n, device))


def pass_ms(world: World, ms: int) -> None:
    """Nothing happens for a while."""
    fold(world, ev.Woke(world.now_ms + ms))


# Beats ----------------------------------------------------------------------------------------


def rights(**choices: Any) -> Policy:
    """``DEFAULTS`` with other choices."""
    return replace(DEFAULTS, **choices)


def decide(world: World, policy: Policy = DEFAULTS, memo: one.CycleMemo | None = None) -> ev.Plan:
    """The plan of one cycle, checked by the second reader; nothing is folded."""
    plan = one.cycle(world, policy, one.CycleMemo() if memo is None else memo)
    check(world, plan, policy)
    return plan


def carry_out(world: World, plan: ev.Plan) -> None:
    """What a plan asks for has been asked."""
    fold_all(world, plan.actions)


def beat(world: World, policy: Policy = DEFAULTS, memo: one.CycleMemo | None = None) -> ev.Plan:
    """Decide and carry out; gangs come up at once. Evictions are not yet seen (see `leave`)."""
    plan = decide(world, policy, memo)
    carry_out(world, plan)
    start(world, *placed(world, plan))
    return plan


# Reading --------------------------------------------------------------------------------------


def placed(world: World, plan: ev.Plan) -> dict[str, dict[int, int]]:
    """Jobs that a plan places, and how many devices on which nodes; in the order of the plan."""
    found: dict[str, dict[int, int]] = {}
    for action in plan.actions:
        if isinstance(action, ev.AskedPlace):
            found[world.job_names[action.job]] = devices_by_node(action.pieces)
    return found


def evicted(world: World, plan: ev.Plan) -> dict[str, ev.Why]:
    """Jobs that a plan stops, and why."""
    return {
        world.job_names[action.job]: action.why
        for action in plan.actions
        if isinstance(action, ev.AskedEvict)
    }


def devices_by_node(pieces: Iterable[Piece]) -> dict[int, int]:
    """How many devices pieces hold on which nodes."""
    found: dict[int, int] = {}
    for piece in pieces:
        found[piece.node] = found.get(piece.node, 0) + piece.devices.bit_count()
    return found


def asked(plan: ev.Plan, kind: type[ev.Action]) -> list[ev.Action]:
    """The actions of one kind in a plan."""
    return [action for action in plan.actions if isinstance(action, kind)]


def state_of(world: World, name: str) -> JobState:
    """Where a job is in its life."""
    return JobState(world.jobs.state[world.job_number[name]])


def cause_of(world: World, name: str) -> Cause:
    """Why the jobs of this one's shape wait, as said in the journal."""
    return Cause(world.shapes.cause[world.jobs.shape[world.job_number[name]]])


def attempt(world: World, j: int) -> int:
    """The attempt a job is in."""
    return int(world.jobs.attempt[j])


def _numbers(world: World, names: Iterable[str]) -> list[int]:
    return [world.job_number[name] for name in names]
