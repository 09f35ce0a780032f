"""Every score is what its plain oracle says, and the tournament finds the best node of a fleet."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import contract, fleet, lose_device
from tests.builders import role as role_of
from tests.scheduling import score_oracle as oracle
from tests.scheduling.score_oracle import Spot
from tidemill.model.rows import Role
from tidemill.scheduling.scores import demand, kernels
from tidemill.scheduling.scores.codes import BITS, CODES
from tidemill.scheduling.scores.demand import Asked, Fleet, Knobs
from tidemill.scheduling.scores.scoring import Scoring
from tidemill.scheduling.scores.tables import Tables
from tidemill.scheduling.snapshot import Snapshot

FREE = st.sampled_from([0, 100, 190, 250, 500, 700, 1000, 1000, 1000])
NAMES = st.lists(st.sampled_from(sorted(CODES)), min_size=1, max_size=4, unique=True)


@st.composite
def roles(draw: st.DrawFn) -> Role:
    """Whole devices, a fraction of one, or none; with some CPU and memory, of any kind or one."""
    gpus, milli = draw(
        st.sampled_from([(0, 1000), (1, 1000), (2, 1000), (4, 1000), (1, 100), (1, 250), (1, 810)])
    )
    cpu, memory = draw(st.sampled_from([0, 1, 3, 8])), draw(st.sampled_from([0, 0, 1, 3]))
    kinds = draw(st.sampled_from([(), (), ("A",), ("B",)]))
    return Role("worker", 1, gpus, milli, cpu, memory, kinds)


@st.composite
def tables(draw: st.DrawFn, names: tuple[str, ...]) -> Tables:
    """The tables of some policies after some arrivals."""
    asked = [
        Asked(role, draw(st.integers(0, 40)), draw(st.integers(1, 60)), draw(st.integers(0, 6)))
        for role in draw(st.lists(roles(), min_size=1, max_size=8))
    ]
    supply = Fleet(("H100", "A", "B"), 64, 8000, 6, draw(st.sampled_from([0, 20_000, 48_000])),
                   draw(st.sampled_from([0, 0, 500_000])))  # fmt: skip
    knobs = Knobs(draw(st.integers(1, 3)), draw(st.sampled_from([1, 60, 120])), 300_000, 6_000_000)
    return demand.tables(names, asked, supply, knobs)


@st.composite
def spots(draw: st.DrawFn, role: Role) -> Spot:
    """A node with room for one replica."""
    free = draw(st.lists(FREE, min_size=1, max_size=8))
    free[: role.accelerators] = [draw(st.sampled_from([role.milli, 1000]))] * role.accelerators
    cpu, memory = role.cpu_milli + draw(st.integers(0, 40)), role.memory_mib + draw(FREE) // 100
    return Spot(draw(st.integers(1, 2)), cpu, memory, tuple(free), draw(st.booleans()))


@settings(max_examples=400, deadline=None)
@given(st.data(), roles())
def test_every_score_equals_the_oracle(data: st.DataObject, role: Role):
    """Each policy gives a node the score, and a fraction the device, that the oracle says."""
    found = data.draw(tables(("tide",)))
    if not found.draws.size:
        return
    spot = data.draw(spots(role))
    for name, code in CODES.items():
        score, chosen = _scored(code, spot, role, found)
        assert score == oracle.score(name, spot, role, found), name
        assert 0 <= score < 1 << BITS[code]
        if name in ("fgd", "tide") and role.milli < 1000:
            only = found._replace(codes=np.array([code]))
            assert spot.free[chosen] == spot.free[oracle.device(spot, role, only)]


@settings(max_examples=150, deadline=None)
@given(st.data(), NAMES, st.lists(roles(), min_size=1, max_size=6))
def test_the_best_node_of_a_fleet_is_found(
    data: st.DataObject, names: list[str], asked: list[Role]
):
    """Whatever was placed before, a replica goes to the node that the oracle ranks highest."""
    if names in (["pack"], ["spread"]):
        return
    found = data.draw(tables(tuple(names)))
    if "tide" in names and not found.draws.size:
        return
    world = fleet(
        contract("a", kind="A", gpus=12, per_node=4, cpu_milli=20, memory_mib=16),
        contract("b", kind="B", gpus=6, per_node=2, cpu_milli=64, memory_mib=8),
    )
    lose_device(world, 1, 2)
    room, scoring = Snapshot(world), Scoring(tuple(names), found)
    kinds: tuple[tuple[str, ...], ...] = ((), ("A",), ("B",))
    flags = {named: _is_ok(named) for named in kinds}
    for role in asked * 3:
        expected = _best(room, role, found)
        filled = room.fill(role, flags[role.kinds], scoring)
        assert [place[0] for place in filled.placed] == expected


def test_a_gang_of_fractions_is_placed_one_by_one_or_not_at_all():
    """Each fraction goes where its score is highest; when one does not fit, none is placed."""
    world = fleet(contract(gpus=4, per_node=2))
    asked = [Asked(role_of(1, gpus=1, milli=500), 5, 5, 0)]
    supply = Fleet(("H100",), 1_000_000, 2000, 2, 4000, 0)
    scoring = Scoring(("fgd",), demand.tables(("fgd",), asked, supply, Knobs(1, 1, 0, 0)))
    room, is_ok = Snapshot(world), np.ones(1, np.int64)
    assert room.fill(role_of(9, gpus=1, milli=500), is_ok, scoring) == (8, ())
    assert room.device_free.tolist() == [1000] * 4
    filled = room.fill(role_of(3, gpus=1, milli=500), is_ok, scoring)
    assert [place[0] for place in filled.placed] == [0, 0, 0]


@pytest.mark.parametrize("states", [2, 4, 64])
def test_states_that_were_forgotten_are_played_again(states: int):
    """With hardly any memory every waste is the same as with much."""
    asked = [Asked(role_of(1, gpus=1, milli=milli), 5, 5, 0) for milli in (250, 700, 1000)]
    supply = Fleet(("H100",), 1_000_000, 2000, 2, 4000, 0)
    found = demand.tables(("tide",), asked, supply, Knobs(4, 120, 0, 0))
    small = found._replace(known=np.zeros((states, 2), np.int64))
    for free in range(0, 1000, 50):
        spot = Spot(0, 10**6, 10**6, (free, 1000))
        role = role_of(1, gpus=1)
        assert _scored(7, spot, role, small) == _scored(7, spot, role, found)


def _scored(code: int, spot: Spot, role: Role, tables: Tables) -> tuple[int, int]:
    free = np.zeros(64, np.int64)
    free[: len(spot.free)] = spot.free
    score, chosen = kernels.score_one(
        code, free, len(spot.free), spot.kind, spot.cpu, spot.memory, spot.is_untouched,
        role.accelerators, role.milli, role.cpu_milli, role.memory_mib, tables,
    )  # fmt: skip
    return int(score), int(chosen)


def _is_ok(kinds: tuple[str, ...]) -> np.ndarray:
    return np.array([not kinds or "A" in kinds, not kinds or "B" in kinds], np.int64)


def _best(room: Snapshot, role: Role, tables: Tables) -> list[int]:
    ranks = [
        (oracle.rank(spot, role, tables), -n)
        for n in range(room.rows)
        if (spot := _spot(room, n, role)) is not None
    ]
    return [-max(ranks)[1]] if ranks else []


def _spot(room: Snapshot, n: int, role: Role) -> Spot | None:
    world, nodes = room.world, room.world.nodes
    devices = range(nodes.first_device[n], nodes.first_device[n] + nodes.devices[n])
    free = tuple(int(room.device_free[d]) for d in devices if not world.devices.is_failed[d])
    cpu, memory, kind = int(room.cpu_free[n]), int(room.memory_free[n]), int(nodes.kind[n])
    fitting = [milli for milli in free if milli >= role.milli]
    if role.kinds and world.kinds[kind] not in role.kinds:
        return None
    if cpu < role.cpu_milli or memory < role.memory_mib or len(fitting) < role.accelerators:
        return None
    return Spot(kind, cpu, memory, free, cpu == int(nodes.cpu_milli[n]))
