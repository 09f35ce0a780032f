"""Holders: which running jobs hold what a waiting one needs, and until when, by their estimates.

Who holds the guaranteed quota of a team that is below it, and whose cores or memory keep free GPUs
from being used. An end is the owner's estimate; where nobody gave one, it is unknown.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tidemill.explain import phrasing, supply, trials
from tidemill.explain.context import Case
from tidemill.journal import cluster_kinds
from tidemill.model import node_groups
from tidemill.model.measures import duration_text
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World

NODES_AT_MOST = 16  # roomy nodes looked at, those with most of the resource free first
NAMED = 3
PODS_OF_NODE = "kubectl get pods -A --field-selector spec.nodeName="
OTHERS = -1
"""Work of a node that holds none of its GPUs and is on no books."""


class Held(NamedTuple):
    """What one running job holds: accelerator-milli, CPU-milli or MiB."""

    job: int
    """``OTHERS``: no job on the books does."""
    amount: int


class Guarantee(NamedTuple):
    """A guaranteed quota that a waiting job stays within, and who holds it."""

    team: str
    kind: str
    floor: int
    used: int
    held: tuple[Held, ...]
    """Jobs of teams that use more than they are guaranteed, the largest first."""


def guarantee(case: Case) -> Guarantee | None:
    """The guaranteed quota under which the job would be, if it is within one; None: it is not."""
    world, q, need = case.world, int(case.world.shapes.queue[case.s]), case.role.total_milli
    for k in [option.kind for option in case.options if option.kind >= 0]:
        used, floor = int(world.used[q, k]), int(world.floor[q, k])
        if need and used + need <= floor:
            row = world.queue_rows[q]
            return Guarantee(row.name, world.kinds[k], floor, used, _borrowers(world, q, k))
    return None


def _borrowers(world: World, q: int, k: int) -> tuple[Held, ...]:
    """Jobs of other teams that use more of a GPU type than they are guaranteed."""
    found = []
    for j in world.placements:
        other = int(world.shapes.queue[world.jobs.shape[j]])
        if other == q or world.used[other, k] <= world.floor[other, k]:
            continue
        roles = world.shape_of(j).roles
        milli = sum(
            piece.replicas * roles[piece.role].replica_milli
            for piece in world.placements[j]
            if int(world.nodes.kind[piece.node]) == k
        )
        if milli:
            found.append(Held(j, milli))
    return _largest(found)


class _Machine(NamedTuple):
    """A machine with enough free GPUs: what is free of its host, and who holds the rest."""

    node: int
    """It, or the first of its parts."""
    free: tuple[int, int]
    """CPU-milli and MiB; likewise of each job, and of ``OTHERS``."""
    held: dict[int, tuple[int, int]]


def host(case: Case, *, is_cpu: bool) -> tuple[Held, ...]:
    """Who holds the cores (or memory) of nodes with enough free GPUs, the largest first."""
    found = Counter[int]()
    for machine in _roomy(case, is_cpu=is_cpu):
        found.update({j: holds[not is_cpu] for j, holds in machine.held.items()})
    return _largest(Held(j, amount) for j, amount in found.items() if amount > 0)


def enough(case: Case, *, is_cpu: bool) -> tuple[int, ...]:
    """The fewest of those jobs with whose end it starts: it is tried; (): none that are known."""
    sets = sorted(filter(None, (_fewest(case, one, is_cpu=is_cpu) for one in
                                _roomy(case, is_cpu=is_cpu))), key=len)  # fmt: skip

    def jobs_of(machines: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(j for i in machines for j in sets[i]))

    if not sets or case.trials.left <= 2 * len(sets).bit_length():
        return ()
    return jobs_of(trials.shortest(
        range(len(sets)), lambda some: case.trials.places_without(case.j, jobs_of(some))
    ))  # fmt: skip


def whose_end(case: Case, units: Sequence[str]) -> tuple[str, bool]:
    """Whom to wait for where these are short, and whether that starts the job: as many as it takes,
    tried, else who holds most of each. "": nobody holds any.
    """
    largest = ends(case, units)
    if not largest:
        return "", False
    if jobs := enough(case, is_cpu="cores" in units):
        names = phrasing.ids([case.world.job_names[j] for j in jobs], len(jobs))
        held = " and ".join(held_by(case, jobs, unit) for unit in units)
        if len(jobs) > 1:
            return f"wait until {names} end: together they hold {held} where GPUs are free", True
        ending = f"{names} ends ({until(case.world, jobs[0])})"
        return f"wait until {ending}: it holds {held} where GPUs are free", True
    of_others = all(_largest_of(case, unit) == OTHERS for unit in units)
    return f"wait until {largest} where GPUs are free", of_others  # of these nobody can try it


def _largest_of(case: Case, unit: str) -> int:
    held = host(case, is_cpu=unit == "cores")
    return held[0].job if held else OTHERS


def held_by(case: Case, jobs: Collection[int], unit: str) -> str:
    """How much these jobs hold there together."""
    every = host(case, is_cpu=unit == "cores")
    return amount(sum(held.amount for held in every if held.job in jobs), unit)


def _fewest(case: Case, machine: _Machine, *, is_cpu: bool) -> tuple[int, ...]:
    """Whose end leaves room for a replica on a machine, the largest first; (): nobody's."""
    asked = (case.role.cpu_milli, case.role.memory_mib)
    free, found = machine.free, list[int]()
    jobs = [j for j in machine.held if j != OTHERS]
    for j in sorted(jobs, key=lambda j: (-machine.held[j][not is_cpu], j)):
        holds = machine.held[j]
        free = (free[0] + holds[0], free[1] + holds[1])
        found.append(j)
        if free[0] >= asked[0] and free[1] >= asked[1]:
            return tuple(found)
    return ()


def _roomy(case: Case, *, is_cpu: bool) -> list[_Machine]:
    """The nearest machines with enough free GPUs, those with most of the resource free first."""
    world, role, nodes = case.world, case.role, case.world.nodes
    rows = world.node_count
    may = supply.node_mask(world, case.options) & (nodes.state[:rows] == NodeState.READY)
    may &= (nodes.is_spare[:rows] == 0) & (supply.hosting(world, role) >= role.accelerators)
    roomy = np.flatnonzero(may)
    free = (nodes.cpu_free_milli if is_cpu else nodes.memory_free_mib)[roomy]
    nearest = roomy[np.argsort(-free, kind="stable")][:NODES_AT_MOST].tolist()
    return [_machine(world, parts) for parts in _machines(world, nearest)]


def _machine(world: World, parts: list[int]) -> _Machine:
    n, nodes = parts[0], world.nodes
    free = (nodes.cpu_free_milli.item(n), nodes.memory_free_mib.item(n))
    rest, held = [nodes.cpu_milli.item(n) - free[0], nodes.memory_mib.item(n) - free[1]], {}
    for j in {j for part in parts for j in world.aboard[part]}:
        roles, holds = world.shape_of(j).roles, [0, 0]
        for piece in world.placements[j]:
            if piece.node in parts:
                holds[0] += piece.replicas * roles[piece.role].cpu_milli
                holds[1] += piece.replicas * roles[piece.role].memory_mib
        rest = [rest[0] - holds[0], rest[1] - holds[1]]
        held[j] = (holds[0], holds[1])
    return _Machine(n, free, {OTHERS: (rest[0], rest[1]), **held})


def to_list_others(case: Case, *, is_cpu: bool) -> str:
    """How to list the pods of the node with enough free GPUs that lacks the least, for no books
    tell of those without GPUs; "": it is no cluster of Kubernetes.
    """
    world = case.world
    of_job = cluster_kinds.of_job(world, case.name)
    if of_job.kind != cluster_kinds.KUBERNETES:
        return ""
    on = [world.node_rows[one.node].name for one in _roomy(case, is_cpu=is_cpu)[:1]]
    name = "".join(on).removeprefix(f"{of_job.cluster}/" if of_job.cluster else "")
    machine = name.partition("/")[0]
    return f"{PODS_OF_NODE}{machine}" if on else ""


def ends(case: Case, units: Sequence[str]) -> str:
    """Whose end is waited for where cores, or GiB, are short beside free GPUs: of each of these who
    holds most of it, and how much; "": nobody does.
    """
    found = dict[int, str]()
    for unit in units:
        if held := host(case, is_cpu=unit == "cores"):
            holds = amount(held[0].amount, unit)
            found[held[0].job] = " and ".join([*filter(None, [found.get(held[0].job)]), holds])
    return " and ".join(_end(case, job, holds) for job, holds in found.items())


def _end(case: Case, job: int, holds: str) -> str:
    world = case.world
    if job == OTHERS:
        command = to_list_others(case, is_cpu="core" in holds)
        shown = f" ({command})" if command else ""
        return f"work without GPUs ends, which no books tell of: it holds {holds}{shown}"
    return f"`{world.job_names[job]}` ends ({until(world, job)}): it holds {holds}"


def unmoved(case: Case, j: int) -> str:
    """Why a team that is below its guaranteed quota does not take it back from this job."""
    if case.world.is_looked_on:  # by rules that are not ours
        return ""
    if not case.world.shape_of(j).is_preemptible:
        return " and may not be preempted"
    if not case.shape.may_preempt:
        return " and is not preempted for it: it may not preempt others"
    if not case.policy.may_reclaim:
        return " and is not preempted for it: this policy does not reclaim (`may_reclaim = false`)"
    return " and is not preempted for it now"


def _machines(world: World, nodes: list[int]) -> list[list[int]]:
    """The machines of these nodes, each with all its parts where they have its host together."""
    if not world.is_looked_on:
        return [[n] for n in nodes]
    there = np.flatnonzero(world.nodes.state[: world.node_count] != NodeState.GONE).tolist()
    machines = node_groups.machines(world, there)
    return [parts for parts in machines if not set(nodes).isdisjoint(parts)]


def _largest(found: Iterable[Held]) -> tuple[Held, ...]:
    return tuple(sorted(found, key=lambda held: (-held.amount, held.job)))


def until(world: World, j: int) -> str:
    """When a running job ends, by its owner's estimate: ``ends in about 3h by its estimate``."""
    jobs = world.jobs
    estimate_ms = int(jobs.estimate_ms[j])
    if not estimate_ms:
        return "no estimate of its end"
    begun_ms = int(jobs.origin_ms[j])
    if jobs.state[j] == JobState.STARTING:
        begun_ms = int(jobs.since_ms[j]) + int(jobs.startup_ms[j])
    left_ms = begun_ms + estimate_ms - int(jobs.saved_ms[j]) - world.now_ms
    if left_ms <= 0:
        return f"{duration_text(-left_ms)} past its estimate"
    return f"ends in about {duration_text(left_ms)} by its estimate"


def named(world: World, held: tuple[Held, ...], unit: str) -> str:
    """The largest holders in words: ```x` of team `b` (8 GPUs, not preemptible, ends in …)``."""
    parts = []
    for j, holds in held[:NAMED]:
        if j == OTHERS:
            parts.append(f"work without GPUs ({amount(holds, unit)})")
            continue
        shape = world.shape_of(j)
        size = amount(holds, unit)
        bound = "" if shape.is_preemptible else "not preemptible, "
        parts.append(
            f"`{world.job_names[j]}` of team `{shape.team}` ({size}, {bound}{until(world, j)})"
        )
    rest = len(held) - NAMED
    return ", ".join(parts) + (f" and {phrasing.many(rest, 'other job')}" if rest > 0 else "")


def amount(held: int, unit: str) -> str:
    """What a job holds, with its unit: ``40 cores``, ``8 GPUs``."""
    return f"{phrasing.gib(held) if unit == 'GiB' else phrasing.amount(held)} {unit}"
