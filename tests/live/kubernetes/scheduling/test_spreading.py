"""Gangs that have to be spread over zones: whole or absent, and never more uneven than allowed."""

from collections import Counter
from itertools import product
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.live.kubernetes.scheduling.test_devices import message
from tests.live.kubernetes.scheduling.test_neighbours import ZONE, spread, tied
from tests.live.kubernetes.scheduling.test_placing import JOBS, PODS, nodes_of
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling, wrong
from tests.rigs.kubernetes.wanted import node, pod
from tidemill.live.kubernetes.scheduling.spreading import divided, holds

FEW = st.integers(0, 4)


@given(
    count=st.integers(1, 6),
    there=st.lists(FEW, min_size=1, max_size=3),
    free=st.lists(FEW, min_size=3, max_size=3),
    skew=st.integers(1, 3),
)
def test_a_division_fits_and_keeps_the_skew_wherever_one_does(
    count: int, there: list[int], free: list[int], skew: int
):
    """Against all divisions there are: one is found whenever one is even enough and fits."""
    names = "abc"[: len(there)]
    had, room = dict(zip(names, there, strict=True)), dict(zip("abc", free, strict=True))
    found, is_fit = divided(count, had, room, skew)
    assert sum(found.values()) == count
    every = (dict(zip(names, one, strict=True))
             for one in product(range(count + 1), repeat=len(names)))  # fmt: skip
    able = [one for one in every if sum(one.values()) == count and holds(one, had, room, skew)]
    if able:
        assert is_fit
    if is_fit and max(there) - min(there) <= skew:
        assert found in able


def zones_of(rig: Cluster, name: str) -> Counter[str]:
    """In which zones the pods of a gang are; "-" for those that wait."""
    zone = {one["metadata"]["name"]: one["metadata"]["labels"][ZONE]
            for one in rig.items("/api/v1/nodes")}  # fmt: skip
    return Counter(zone.get(where, "-") for where in nodes_of(rig, name).values())


def test_gangs_are_spread_over_zones_as_a_whole(rig: Cluster, tmp_path: Path):
    """Three zones with a node of 8 each. Six pods are two in each; four more, where room is.

    A gang that is too uneven whatever it does is absent until a zone has room, then whole; a
    scheduler that is killed meanwhile changes nothing.
    """
    rig.add_nodes(*(node(f"n{i}", labels={ZONE: f"z{i}"}) for i in range(3)))
    rig.create(PODS, *(
        pod(f"fill-{i}", 5, schedulerName=OURS, nodeSelector={"kubernetes.io/hostname": f"n{i}"})
        for i in range(2)
    ))  # fmt: skip
    with scheduling(rig, tmp_path) as ours:
        rig.wait_until_running("ml", 2)
        rig.create(JOBS, tied("six", 6, 1, **spread(ZONE, "six")))
        rig.wait_until_running("ml", 8)
        assert zones_of(rig, "six") == {"z0": 2, "z1": 2, "z2": 2}
        rig.create(JOBS, tied("four", 4, 1, **spread(ZONE, "four")))
        rig.wait_until_running("ml", 12)
        assert zones_of(rig, "four") == {"z0": 1, "z1": 1, "z2": 2}
        rig.create(JOBS, tied("late", 2, 1, **spread(ZONE, "late")))
        rig.wait_for("its pods are there", lambda: len(nodes_of(rig, "late")) == 2)
        first = min(nodes_of(rig, "late"))
        rig.wait_for("it is told", lambda: bool(message(rig, first)))
        assert zones_of(rig, "late") == {"-": 2}
        ours.kill()
        ours.start()
        rig.delete_pod("ml", "fill-0")
        rig.wait_for("it is there", lambda: "-" not in zones_of(rig, "late"))
        assert ours.stop() == 0
    assert max(zones_of(rig, "late").values()) == 1
    assert wrong(rig, ours.journal) == []
