"""Names of nodes in tables: with a domain and without, in capitals or not."""

from collections.abc import Sequence

import polars as pl
import pytest

from tidemill.live.csv import node_names
from tidemill.live.history.rows import SeenNode


def _taken(listed: Sequence[str], told: Sequence[Sequence[str]]) -> tuple[list[list[str]], str]:
    attempts = pl.DataFrame({"nodes": [[*names] for names in told]})
    nodes = [SeenNode(name=name, gpus=8, gpu_type="H100") for name in listed]
    found, notes = node_names.as_listed(attempts, nodes)
    return found["nodes"].to_list(), " ".join(notes)


@pytest.mark.parametrize(
    ("listed", "told", "expected"),
    [
        (["g1", "g2"], [["g1.hpc.local"], ["G2", "g1"]], [["g1"], ["g2", "g1"]]),
        (["g1.hpc.local"], [["g1"], ["G1.HPC.local"]], [["g1.hpc.local"], ["g1.hpc.local"]]),
        (["g1"], [["g1", "G1.hpc"]], [["g1"]]),
        (["east/g1"], [["east/g1.hpc"]], [["east/g1"]]),
    ],
)
def test_a_node_that_can_only_be_a_listed_one_is_it(
    listed: list[str], told: list[list[str]], expected: list[list[str]]
):
    """Whichever side has the domain or the capitals; and it is said."""
    found, said = _taken(listed, told)
    assert found == expected
    assert "taken for them" in said


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        (["g1"], [["g1.east"], ["g1.west"]]),
        (["g1.east"], [["g1.west"]]),
        (["g1", "G1"], [["g1.hpc"]]),
        (["10.0.0.5"], [["10.0.0.6"]]),
        (["g1"], [["g10"]]),
    ],
)
def test_a_node_that_may_be_several_stays_one_of_its_own(listed: list[str], told: list[list[str]]):
    """Two domains, or two listed nodes; an address has no domain. Near names are said."""
    found, said = _taken(listed, told)
    assert found == told
    assert ("nearly as listed ones" in said) is (told[0][0] not in ("10.0.0.6", "g10"))
