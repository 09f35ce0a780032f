"""The compiled loops of topology do exactly what their plain oracle does, ties and all."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduling.oracle import Placed, Yard
from tests.scheduling.test_kernels import Columns, roles, yards
from tests.scheduling.topology_oracle import Plot, groups_on, together
from tidemill.model.rows import Role
from tidemill.model.topology import Bond, Tier, Topology
from tidemill.scheduling.fitting import ladders
from tidemill.scheduling.fitting.columns import SORT, SPOT
from tidemill.scheduling.topology import constraints, place
from tidemill.scheduling.topology.constraints import Rung


class Domains:
    """Paths as the columns that kernels read: positions of nodes, parents of domains."""

    def __init__(self, paths: list[tuple[int, ...]]) -> None:
        rows, self.tiers = len(paths), len(paths[0])
        self.position = np.zeros((self.tiers, rows), np.int64)
        self.parent = np.zeros((self.tiers, rows), np.int64)
        self.count = np.zeros(self.tiers, np.int64)
        for t in range(self.tiers):
            self.count[t] = 1 + max(path[t] for path in paths)
            for n, path in enumerate(paths):
                self.position[t, n] = path[t]
                self.parent[t, path[t]] = path[t - 1] if t else -1


def compiled(plot: Plot, role: Role, rung: Rung, luck: int) -> list[Placed] | None:
    columns, domains = Columns(plot.yard, luck), Domains(plot.paths)
    rows, tiers = columns.rows, domains.tiers
    columns.ask(role)
    w = columns.w._replace(position=domains.position)
    scratch = np.zeros((3, tiers + 1, rows), np.int64)
    ground = columns.ground = columns.ground._replace(
        caps=scratch[0], gaps=scratch[1], portions=scratch[2], parent=domains.parent,
        domains=domains.count, sorting=np.zeros((64, len(SORT)), np.int64),
    )  # fmt: skip
    hosted = ladders.survey(w, ground, 0, rung.block, rung.each, *place.ANYWHERE)
    expected = [groups_on(plot.yard, role, rung, n) for n in range(rows)]
    assert columns.spots[:, SPOT.HOSTS].tolist() == expected
    assert hosted == sum(expected)
    found = ladders.fill_tied(w, ground, place.rungs([rung]), 0, 0, 1, *place.ANYWHERE)
    return columns.placed(found) if found > 0 else None


TIERS = Topology(
    (Tier("spine", "spine"), Tier("rack", "rack"), Tier("node"), Tier("pair", devices=2))
)


@st.composite
def plots(draw: st.DrawFn) -> Plot:
    """A yard whose nodes are in up to three racks of up to two spines."""
    yard: Yard = draw(yards())
    racks = [draw(st.integers(0, 2)) for _ in yard.cpu]
    racks = [sorted({*racks}).index(rack) for rack in racks]
    spine = [draw(st.integers(0, 1)) for _ in range(3)]
    spines = [spine[rack] for rack in racks]
    spines = [sorted({*spines}).index(value) for value in spines]
    return Plot(yard, list(zip(spines, racks, strict=True)))


@st.composite
def rungs(draw: st.DrawFn, role: Role) -> Rung:
    """Any rung of the ladder of a role with up to three bonds."""
    sizes = [0, *(g for g in range(1, role.count + 1) if role.count % g == 0)]
    names = [tier.name for tier in TIERS.tiers]
    bonds = st.builds(
        Bond, st.sampled_from(names), st.sampled_from(sizes), is_required=st.just(False)
    )
    tied = tuple(draw(st.lists(bonds, min_size=1, max_size=3)))
    return draw(st.sampled_from(constraints._ladder(TIERS, role, tied)))


@settings(max_examples=500, deadline=None)
@given(st.data(), plots(), roles(), st.integers(0, 2))
def test_a_tied_role_is_placed_as_the_oracle_places_it(
    data: st.DataObject, plot: Plot, role: Role, luck: int
):
    """On random fleets and bonds: the same nodes, replicas and devices, or none for both."""
    rung = data.draw(rungs(role))
    assert compiled(plot, role, rung, luck) == together(plot, role, rung)


@settings(max_examples=300, deadline=None)
@given(st.data(), plots(), roles())
def test_no_group_is_in_two_domains(data: st.DataObject, plot: Plot, role: Role):
    """Whatever comes out has all replicas, and every domain holds whole groups of its bond."""
    rung = data.draw(rungs(role))
    found = compiled(plot, role, rung, 0)
    if found is None:
        return
    assert sum(replicas for _, replicas, _ in found) == role.count
    for t in range(3):
        size = rung.each * int(np.prod(rung.ratio[t:]))
        sums: dict[int, int] = {}
        for n, replicas, _ in found:
            d = n if t == 2 else plot.paths[n][t]
            sums[d] = sums.get(d, 0) + replicas
        if rung.ratio[t] > 1:
            assert all(count % size == 0 for count in sums.values())
