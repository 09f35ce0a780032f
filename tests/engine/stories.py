"""Stories from seeds: small fleets with everything in them, so that faults meet decisions.

A story has two kinds of accelerators, spares, sometimes nodes on demand; teams with floors and
limits, often in a tree, with borrowing and lending limits; whole gangs, roles, fractions, CPU-only
work and labels; nodes and devices that fail, drains, cordons, crashes, owners who cancel and shares
that change. In every second story the fleet has racks and some gangs are to sit together; in every
third some jobs ask for MIG instances. All of it ends, so that whoever can fit must finally run.
"""

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from random import Random
from typing import Any

import pytest
from msgspec import convert, to_builtins
from msgspec.structs import replace

from tests.builders import contract, job, role, teams_share
from tests.engine import families
from tests.engine.stage import Arrival, Player, Script, play
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Checkpointing, Contract, Demand, Job, Queue, Role
from tidemill.model.states import JobClass, NodeState, Terms
from tidemill.model.topology import Bond, Tier, Topology
from tidemill.twin.backend import Twin
from tidemill.twin.faults import Faults, LogNormal

BUSY_MS = 12 * HOUR_MS  # when jobs arrive and things break
HORIZON_MS = 50 * HOUR_MS
"""Of the first 150 stories the last job ends after 48.5 hours; then a few only wake and sleep."""
SOURCES = pytest.mark.parametrize("source", ["stage", "twin"])
"""By both sources; each source in one process, which plays its stories once for all tests."""
KINDS = ("H100", "A100")
LABELS = ({"zone": "x"}, {"zone": "y"})


def seeds(count: int) -> range:
    """The seeds to try: the first ``count``, or those that TIDEMILL_SEEDS names (`17`, `0:500`)."""
    asked = os.environ.get("TIDEMILL_SEEDS")
    if asked is None:
        return range(count)
    first, _, last = asked.partition(":")
    return range(int(first), int(last or int(first) + 1))


@contextmanager
def replayable(seed: int) -> Iterator[None]:
    """A failure inside names the one command that plays this seed again."""
    try:
        yield
    except Exception as error:
        test = os.environ.get("PYTEST_CURRENT_TEST", "tests/engine").split(" ")[0]
        error.add_note(f"replay: TIDEMILL_SEEDS={seed} .venv/bin/python -m pytest '{test}'")
        raise


@cache
def played(seed: int, source: str = "stage") -> Player:
    """The story of this seed, played to its end: on the scripted stage, or by the twin."""
    return play(story(seed)) if source == "stage" else _twinned(story(seed), seed)


def _twinned(script: Script, seed: int) -> Player:
    player = Player(script, backend=twin_of(script, seed))
    player.run()
    return player


def twin_of(script: Script, seed: int) -> Twin:
    """The same fleet, teams and jobs in the twin, whose faults come from its own chance."""
    faults = Faults(
        node_rate=1500,
        device_share=0.4,
        repair=LogNormal(40 * MINUTE_MS, 1.0),
        maintenance_rate=500,
        maintenance=LogNormal(20 * MINUTE_MS, 1.0),
        reclaim_rate=1500,
        boot=LogNormal(script.boot_ms, 0.5),
        evict_ms=script.grace_ms,
        startup_spread=0.2,
        lost_races=(0.0, 0.05)[seed % 2],
    )
    return Twin(
        script.contracts,
        script.teams,
        [(at_ms, row, work_ms) for at_ms, row, work_ms in script.arrivals],
        faults=faults,
        horizon_ms=3 * BUSY_MS,
        seed=seed,
        topology=script.topology,
        sharing=("time-slice", "mps")[seed % 2],
        nodes_per={row.name: dict(script.nodes_per) for row in script.contracts},
    )


def story(seed: int) -> Script:
    """A script drawn from a seed."""
    return _with_topology(seed, _story(seed))


def _story(seed: int) -> Script:
    luck = Random(seed)
    contracts = _contracts(luck)
    nodes = sum(row.count // row.node.devices for row in contracts)
    arrivals = [_arrival(luck, i) for i in range(luck.randint(15, 35))]
    arrivals = _with_elastic_jobs(_with_instances(arrivals, seed), seed)
    arrivals = _with_demands(arrivals, seed)
    arrivals.sort(key=lambda arrival: arrival.at_ms)
    teams = [_team(luck, name) for name in ("a", "b", "c")]
    script = Script(
        contracts=contracts,
        teams=teams,
        arrivals=_with_guesses(arrivals, seed),
        incidents=_incidents(luck, nodes, len(arrivals))
        + _paces(seed, len(arrivals))
        + _saves(seed, len(arrivals)),
        policy=_with_placement(_with_queueing(_with_making_room(_policy(luck), seed), seed), seed),
        boot_ms=luck.choice([0, 3 * MINUTE_MS]),
        repair_ms=luck.choice([MINUTE_MS, HOUR_MS]),
        return_ms=luck.choice([0, 2 * MINUTE_MS]),
        grace_ms=luck.choice([0, 0, 30 * SECOND_MS]),
        horizon_ms=HORIZON_MS,
    )
    return families.grown(script, seed, KINDS)


def _with_making_room(policy: Policy, seed: int) -> Policy:
    """How room is made, from a stream of its own: the other draws stay as they are."""
    luck = Random(f"making room {seed}")
    return replace(
        policy,
        victims=luck.choice(["time", "dollars", "dollars"]),
        preempt_gain_ppm=luck.choice([0, 0, 200_000, 1_000_000]),
        min_run_ms=Random(f"min run {seed}").choice([0, 0, MINUTE_MS, 10 * MINUTE_MS]),
        evictions_at_most=Random(f"evictions {seed}").choice([1, 4]),
        may_move=luck.random() < 0.7,
        moves_at_most=luck.choice([1, 2, 8]),
        moves_apart_ms=luck.choice([1, 10 * MINUTE_MS]),
        move_gain_ppm=luck.choice([0, 0, 500_000]),
        may_resize=luck.random() < 0.7,
        grow_after_ms=luck.choice([MINUTE_MS, 20 * MINUTE_MS]),
    )


def _with_placement(policy: Policy, seed: int) -> Policy:
    """How nodes are scored in every second story, from a stream of its own."""
    luck = Random(f"placement {seed}")
    if luck.random() < 0.5:
        return policy
    names = luck.choice(
        [("tide",), ("tide",), ("tide", "pack"), ("fgd", "best-fit"), ("clustering", "tide"),
         ("sharing", "spread"), ("dot-product",)]
    )  # fmt: skip
    return convert({**to_builtins(policy), "placement": names}, Policy)


def _with_topology(seed: int, script: Script) -> Script:
    """The same story in a fleet with tiers, where some gangs have bonds; own chance, so that the
    rest of the story is as it was.
    """
    luck = Random(f"topology {seed}")
    if luck.random() < 0.5:
        return script
    tiers = (Tier("zone", "zone"), Tier("rack", "rack"), Tier("node"), Tier("pair", devices=2))
    topology = Topology(tiers[luck.choice([0, 0, 1]) :])
    labels = (("rack", luck.choice([1, 2, 3])),) if luck.random() < 0.9 else ()
    return dataclasses.replace(
        script,
        topology=topology,
        nodes_per=labels,
        arrivals=[
            arrival._replace(job=_tied(luck, arrival.job, topology)) for arrival in script.arrivals
        ],
    )


def _tied(luck: Random, row: Job, topology: Topology) -> Job:
    if luck.random() < 0.5 or any(part.profile for part in row.shape.roles):
        return row
    shape, outside = row.shape, [tier.name for tier in topology.tiers if not tier.devices]
    musts = 0.0 if shape.elastic_role is not None else 0.6
    if luck.random() < 0.4:
        bond = Bond(luck.choice(outside), is_required=luck.random() < musts)
        return replace(row, shape=replace(shape, bonds=(bond,)))
    names = [tier.name for tier in topology.tiers]
    roles = []
    for part in shape.roles:
        sizes = [0, *(g for g in range(1, part.count + 1) if part.count % g == 0)]
        bonds = [Bond(luck.choice(names), luck.choice(sizes), is_required=luck.random() < musts)]
        if luck.random() < 0.3:
            bonds.append(Bond(luck.choice(names), luck.choice(sizes), is_required=False))
        roles.append(replace(part, bonds=tuple(bonds)))
    return replace(row, shape=replace(shape, roles=tuple(roles)))


def _with_queueing(policy: Policy, seed: int) -> Policy:
    """How the queue is ordered, from a stream of its own."""
    luck = Random(f"queueing {seed}")
    return replace(
        policy,
        order=luck.choice([policy.order, policy.order, "shortest", "smallest", "attained"]),
        may_reorder=luck.random() < 0.5,
        attained_steps_ms=luck.choice([(HOUR_MS, 10 * HOUR_MS), (10 * MINUTE_MS,), ()]),
        estimates=luck.choice(["given", "history"]),
        estimate_ppm=luck.choice([500_000, 900_000]),
        unknown_run_ms=luck.choice([10 * MINUTE_MS, DAY_MS]),
        backfill=luck.choice(["none", "easy", "conservative"]),
        reservations_at_most=luck.choice([1, 3]),
        hold_after_ms=luck.choice([2 * HOUR_MS, 12 * HOUR_MS]),
    )


def _with_guesses(arrivals: list[Arrival], seed: int) -> list[Arrival]:
    """Owners who guess: some right, some wrong, some not at all. Some jobs may stop for nothing."""
    luck = Random(f"guesses {seed}")
    found = []
    for arrival in arrivals:
        ppm = luck.choice([0, 100_000, 1_000_000, 1_000_000, 3_000_000])
        job = replace(arrival.job, estimate_ms=arrival.work_ms * ppm // 1_000_000)
        if luck.random() < 0.3:
            saving = Checkpointing(interval_ms=1)
            job = replace(job, startup_ms=0, restart_ms=0, checkpointing=saving)
        found.append(arrival._replace(job=job))
    return found


PROFILES = {
    "H100": (("1g.10gb", 125), ("1g.10gb+me", 125), ("1g.20gb", 250), ("2g.20gb", 250),
             ("3g.40gb", 500), ("4g.40gb", 500), ("7g.80gb", 1000)),
    "A100": (("1g.5gb", 125), ("1g.10gb", 250), ("2g.10gb", 250), ("3g.20gb", 500)),
}  # fmt: skip


def _with_instances(arrivals: list[Arrival], seed: int) -> list[Arrival]:
    """In every third story some jobs have roles of MIG instances, from a stream of its own."""
    luck = Random(f"instances {seed}")
    if luck.random() < 2 / 3:
        return arrivals
    found = []
    for arrival in arrivals:
        shape = arrival.job.shape
        r = luck.randrange(len(shape.roles))
        kind = luck.choice(KINDS)
        profile, milli = luck.choice(PROFILES[kind])
        kinds, count = luck.choice([(), (kind,)]), luck.choice([1, 1, 2, 4, 9])
        cut = replace(
            shape.roles[r], accelerators=1, milli=milli, profile=profile, kinds=kinds, count=count
        )
        roles = (*shape.roles[:r], cut, *shape.roles[r + 1 :])
        if luck.random() < 0.6:
            shape = replace(shape, roles=roles)
        found.append(arrival._replace(job=replace(arrival.job, shape=shape)))
    return found


def _with_elastic_jobs(arrivals: list[Arrival], seed: int) -> list[Arrival]:
    """Some of the jobs have an elastic role, from a stream of its own."""
    luck, found = Random(f"elastic {seed}"), list[Arrival]()
    for arrival in arrivals:
        shape = arrival.job.shape
        r = luck.randrange(len(shape.roles))
        count, least = luck.randint(2, 5), luck.randint(1, 2)
        curve = ((1, luck.randint(200_000, 600_000)),) if luck.random() < 0.5 else ()
        if luck.random() < 0.35:
            elastic = replace(shape.roles[r], count=count, least=least)
            roles = (*shape.roles[:r], elastic, *shape.roles[r + 1 :])
            shape = replace(shape, roles=roles, speedup=curve)
        row = replace(arrival.job, shape=shape, resize_ms=luck.choice([0, 20 * SECOND_MS]))
        found.append(arrival._replace(job=row))
    return found


def _with_demands(arrivals: list[Arrival], seed: int) -> list[Arrival]:
    """Most jobs say what they use of a device that they share, from a stream of its own."""
    luck, found = Random(f"demands {seed}"), list[Arrival]()
    for arrival in arrivals:
        demand = Demand(luck.choice([0, 300_000, 1_000_000]), luck.choice([0, 600_000, 1_000_000]))
        row = replace(arrival.job, demand=demand if luck.random() < 0.8 else None)
        found.append(arrival._replace(job=row))
    return found


def _contracts(luck: Random) -> list[Contract]:
    per_node = luck.choice([2, 4, 8])
    host: dict[str, Any] = {"cpu_milli": per_node * 8_000, "memory_mib": per_node * 64}
    nodes = luck.randint(2, 4)
    spares = luck.choice([0, 0, 1])
    rows = [
        contract("first", gpus=nodes * per_node, per_node=per_node, spares=spares, **host,
                 labels=luck.choice(LABELS)),
        contract("second", gpus=2 * per_node, per_node=per_node, kind=luck.choice(KINDS),
                 pool=luck.choice(["main", "other"]), **host, labels=luck.choice(LABELS)),
    ]  # fmt: skip
    if luck.random() < 0.4:
        terms = luck.choice([Terms.ON_DEMAND, Terms.SPOT])
        rows.append(contract("third", gpus=2 * per_node, per_node=per_node, terms=terms, **host))
    if luck.random() < 0.2:
        end_ms = luck.randint(BUSY_MS // 2, 2 * BUSY_MS)
        rows.append(
            contract("brief", gpus=per_node, per_node=per_node, end_ms=end_ms, **host,
                     start_ms=luck.choice([0, HOUR_MS]))
        )  # fmt: skip
    return rows


def _team(luck: Random, name: str) -> Queue:
    shares = {
        kind: (luck.choice([0, 0, 2, 4, 8]), luck.choice([None, None, None, 8, 16]))
        for kind in KINDS
        if luck.random() < 0.8
    }
    return teams_share(name, **shares)


def _arrival(luck: Random, i: int) -> Arrival:
    return Arrival(luck.randrange(BUSY_MS), _job(luck, i), luck.randint(MINUTE_MS, 6 * HOUR_MS))


def _job(luck: Random, i: int) -> Job:
    return job(
        f"j{i}",
        roles=[_role(luck) for _ in range(luck.choice([1, 1, 1, 1, 2, 3]))],
        team=luck.choice(["a", "b", "c"]),
        kind=luck.choice([*JobClass, JobClass.TRAINING]),
        priority=luck.choice([0, 0, 1, 5]),
        is_preemptible=luck.random() < 0.85,
        startup_ms=luck.choice([0, MINUTE_MS]),
        restart_ms=luck.choice([0, MINUTE_MS]),
        saves_every_ms=luck.choice([0, 10 * MINUTE_MS, HOUR_MS]),
        save_ms=luck.choice([0, MINUTE_MS]),
    )


def _role(luck: Random) -> Role:
    gpus = luck.choice([0, 1, 1, 1, 2, 2, 4, 8])
    milli = luck.choice([250, 300, 500, 1000]) if gpus == 1 else 1000
    return role(
        luck.choice([1, 1, 1, 2, 3]),
        gpus=gpus,
        milli=milli,
        cpu_milli=luck.choice([0, 1_000, 8_000]) * max(1, gpus),
        memory_mib=luck.choice([0, 16, 64]) * max(1, gpus),
        kinds=luck.choice([(), (), (), ("H100",), ("A100", "H100"), ("A100",)]),
        labels=luck.choice([{}] * 8 + [*LABELS]),
    )


def _incidents(luck: Random, nodes: int, jobs: int) -> list[ev.Seen]:
    incidents: list[ev.Seen] = []
    for _ in range(luck.randint(0, 25)):
        at_ms, n = luck.randrange(BUSY_MS), luck.randrange(nodes)
        until_ms = at_ms + luck.randrange(2 * HOUR_MS)
        j, attempt = luck.randrange(jobs), luck.randint(1, 2)
        incidents += luck.choice(
            [
                [ev.NodeMoved(at_ms, n, NodeState.UNHEALTHY, ev.Why.NODE_LOST)],
                [ev.DeviceFailed(at_ms, n, luck.randrange(8))],
                [ev.NodeMoved(at_ms, n, NodeState.DRAINING, ev.Why.MAINTENANCE, until_ms)],
                [
                    ev.NodeMoved(at_ms, n, NodeState.CORDONED),
                    ev.NodeMoved(until_ms, n, NodeState.READY),
                ],
                [ev.JobCancelled(at_ms, j)],
                [ev.JobFailed(at_ms, j, attempt, is_final=luck.random() < 0.3)],
                [ev.ActivitySeen(at_ms, j, attempt, 0)],
                [ev.QueueSet(at_ms, _team(luck, luck.choice(["a", "b", "c"])))],
            ]
        )
    return incidents


def _paces(seed: int, jobs: int) -> list[ev.Seen]:
    """Neighbours that come and go, from a stream of their own."""
    luck, incidents = Random(f"paces {seed}"), list[ev.Seen]()
    for _ in range(luck.randint(0, 12)):
        at_ms, j, attempt = luck.randrange(BUSY_MS), luck.randrange(jobs), luck.randint(1, 2)
        until_ms = at_ms + luck.randrange(2 * HOUR_MS)
        incidents.append(ev.PaceSeen(at_ms, j, attempt, luck.randrange(3_000_000)))
        incidents.append(ev.PaceSeen(until_ms, j, attempt, 0))
    return incidents


def _saves(seed: int, jobs: int) -> list[ev.Seen]:
    """Saves out of the rhythm, from a stream of their own."""
    luck = Random(f"saves {seed}")
    return [
        ev.JobSaved(luck.randrange(BUSY_MS), luck.randrange(jobs), luck.randint(1, 2))
        for _ in range(luck.randint(0, 12))
    ]


def _policy(luck: Random) -> Policy:
    return Policy(
        order=luck.choice(["fifo", "priority"]),
        placement=luck.choice(["pack", "spread"]),
        patience_ms=luck.choice([0, 10 * MINUTE_MS, 2 * HOUR_MS]),
        may_preempt=luck.random() < 0.8,
        may_reclaim=luck.random() < 0.8,
        victims_at_most=luck.choice([1, 2, 64]),
        searches_per_cycle=luck.choice([1, 2, 8]),
        drain_ms=luck.choice([0, HOUR_MS]),
        release_ahead_ms=luck.choice([0, 2 * HOUR_MS]),
        scale_up_after_ms=luck.choice([10 * MINUTE_MS, HOUR_MS]),
        return_idle_after_ms=luck.choice([0, 30 * MINUTE_MS]),
        cull_idle_after_ms=luck.choice([0, HOUR_MS]),
    )
