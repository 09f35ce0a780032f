"""What arrivals could have used of what was free: exact, and the same as counted by hand."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.builders import carry_out, contract, decide, job, opening, submit, team
from tests.engine.stories import played, replayable, seeds
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.ledger import statement as statements
from tidemill.ledger.buckets import FREE_OF_JOBS
from tidemill.ledger.statement import Statement
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS
from tidemill.model.rows import Piece, Role
from tidemill.model.states import Level, NodeState
from tidemill.model.world import World
from tidemill.scheduling.schedulability import survey


def read(events: list[ev.Event], bin_ms: int = HOUR_MS) -> Statement:
    """The statement of some events, with what was free weighed."""
    return statements.read(events, bin_ms=bin_ms, weighs_mix=True)


# By hand --------------------------------------------------------------------------------------


def hosts(world: World, n: int, role: Role) -> int:
    """Replicas of a role that one node hosts now."""
    nodes, group = world.nodes, world.groups[int(world.nodes.group[n])]
    takes_work = nodes.state[n] == NodeState.READY and not nodes.is_spare[n]
    if not takes_work or not set(role.labels) <= group.labels:
        return 0
    first, devices = int(nodes.first_device[n]), world.devices
    mine = range(first, first + int(nodes.devices[n]))
    parts = [int(devices.free_milli[d]) // role.milli for d in mine if not devices.is_failed[d]]
    most = sum(parts) // role.accelerators
    if role.cpu_milli:
        most = min(most, int(nodes.cpu_free_milli[n]) // role.cpu_milli)
    if role.memory_mib:
        most = min(most, int(nodes.memory_free_mib[n]) // role.memory_mib)
    return most


def usable_now(world: World) -> list[int | None]:
    """By contract: the mean over arrivals of what jobs like each could take; None: nobody asked."""
    roles = [role for j in range(world.job_count) for role in world.shape_of(j).roles]
    found: list[int | None] = []
    for c, row in enumerate(world.contract_rows):
        came = [
            r
            for r in roles
            if r.accelerators and not r.profile and (not r.kinds or row.kind in r.kinds)
            and any(set(r.labels) <= g.labels for g in world.groups
                    if world.kinds[g.kind] == row.kind)
        ]  # fmt: skip
        total = 0
        for role in came:
            by_node = {
                n: hosts(world, n, role) for n in range(world.node_count)
                if world.kinds[world.nodes.kind[n]] == row.kind
            }  # fmt: skip
            if sum(by_node.values()) >= role.fewest:
                here = sum(h for n, h in by_node.items() if world.nodes.contract[n] == c)
                total += here * role.replica_milli
        found.append(total // len(came) if came else None)
    return found


def by_hand(events: list[ev.Event]) -> tuple[list[int], ...]:
    """Free, usable and unasked milli·ms by contract, moment by moment."""
    world = World()
    sums: list[dict[int, int]] = [{}, {}, {}]
    for event in events:
        dt_ms = event.at_ms - world.now_ms
        if dt_ms:
            for c, usable in enumerate(usable_now(world)):
                free = int(world.levels[c, Level.READY])
                parts = (free, usable or 0, free if usable is None else 0)
                for sum_, part in zip(sums, parts, strict=True):
                    sum_[c] = sum_.get(c, 0) + part * dt_ms
        fold(world, event)
    return tuple([sum_.get(c, 0) for c in range(world.contract_count)] for sum_ in sums)


@pytest.mark.parametrize("source", ["stage", "twin"])
def test_the_integral_is_what_counting_every_moment_gives(source: str):
    """For seeded stories with faults, gangs, fractions and labels: the same to the milli·ms."""
    for seed in seeds(6):
        with replayable(seed):
            events = [*played(seed, source).kept][:250]
            found = read(events).free_use
            assert found is not None
            assert tuple(part.sum(axis=0).tolist() for part in found) == by_hand(events)


def test_what_is_free_is_the_sum_of_its_buckets():
    """In every bin and contract, what was weighed is what the ledger calls free."""
    for seed in seeds(15):
        with replayable(seed):
            made = read([*played(seed).kept])
            assert made.free_use is not None
            mask = np.isin(made.rows.bucket, [*FREE_OF_JOBS])
            assert (made.by_bin_and_contract(mask) == made.free_use.free).all()
            free, usable, unasked = made.free_use
            assert (usable >= 0).all()
            assert (usable + unasked <= free).all()


def test_bins_change_nothing():
    """The same sums whatever the bins: nothing is rounded where time is cut."""
    for seed in seeds(5):
        with replayable(seed):
            events = [*played(seed).kept]
            whole, cut = read(events, 10**9).free_use, read(events, 600_001).free_use
            assert whole is not None
            assert cut is not None
            for one, many in zip(whole, cut, strict=True):
                assert (one.sum(axis=0) == many.sum(axis=0)).all()


# What it says ---------------------------------------------------------------------------------


def story() -> Iterator[ev.Event]:
    """Two nodes; an hour half-taken on both, then one of them empty for an hour."""
    contracts = [contract(gpus=16), contract("t", gpus=8, kind="TPU")]
    yield from opening(*contracts, teams=[team("a")])
    for n in range(2):
        yield ev.JobSubmitted(0, job(f"half{n}", gpus=4, kinds=["H100"]))
        yield ev.AskedPlace(0, n, 1, (Piece(0, n, 1, 0b1111),))
        yield ev.JobStarted(0, n, 1)
    for i in range(2):
        yield ev.JobSubmitted(0, job(f"whole{i}", gpus=8, kinds=["H100"]))
    yield ev.JobFinished(HOUR_MS, 0, 1)
    yield ev.Woke(2 * HOUR_MS)


def test_a_job_of_eight_cannot_use_two_halves():
    """Half of the arrivals want four, half want eight: scattered halves are half usable."""
    made = read(list(story()))
    assert made.free_use is not None
    hour = 1_000 * HOUR_MS
    assert made.free_use.free[:, 0].tolist() == [8 * hour, 12 * hour]
    assert made.free_use.usable[:, 0].tolist() == [4 * hour, (12 + 8) * hour // 2]
    assert made.free_use.unasked.tolist() == [[0, 8 * hour], [0, 8 * hour]]


def test_it_agrees_with_the_fleet_at_every_moment():
    """What is integrated is what `tidemill fleet` shows, where each contract is a pool."""
    rows = [contract("a", gpus=16), contract("b", gpus=16, pool="other")]
    world = fold_all(World(), opening(*rows, teams=[team("a")]))
    for i, size in enumerate([3, 5, 8, 4, 6, 2, 16]):
        submit(world, job(f"j{i}", gpus=size, per_node=min(size, 8)))
        carry_out(world, decide(world))
        lots = {lot.pool: lot for lot in survey(world) if lot.pool}
        assert [lots["main"].usable_milli, lots["other"].usable_milli] == usable_now(world)
