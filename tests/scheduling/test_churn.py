"""Tournaments that are kept up to date place as a look at every node does, however work moves."""

import numpy as np
import pytest

from bench import kernels, placing

NODES, STEPS = 24, 1_500
ASKS = np.array(
    [(gpus, milli, 1000 * cores, 4096 * cores) for _, gpus, milli, cores in placing.SHARES]
)


@pytest.mark.parametrize("name", ["pack", "fgd", "tide"])
def test_what_is_held_is_the_same_by_tournaments_and_by_scans(name: str):
    """After 1,500 arrivals and their departures every device is as full as without any index."""
    by_tree, by_scan = (
        (kernels.PACKED, kernels.PACKED_SCAN)
        if name == "pack"
        else (kernels.SCORED, kernels.SCORED_SCAN)
    )
    assert _after(by_tree, name) == _after(by_scan, name)


def _after(how: int, name: str) -> list[int]:
    coming, leaving = placing.stream(STEPS)
    nodes, held = placing.nodes(NODES), placing.held(STEPS)
    most = NODES * placing.DEVICES * 900
    trees, tables = placing.trees(NODES, 8 * STEPS), placing.tables(name, NODES)
    placed = kernels.churn(how, coming, leaving, most, ASKS, nodes, trees, held, tables)
    assert placed > STEPS // 2
    found: list[int] = [*nodes.device_free.tolist(), *nodes.cpu_free.tolist()]
    return found
