"""Jobs that were submitted at one moment are in the order of their numbers."""

from random import Random

import pytest

from tests.live.history.test_advance import Observer
from tests.live.history.test_history import EPOCH_MS, NODES, PRICES, attempts, state_after
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.history.events import build

FIRST, LAST = "sooner", "100"
NAMES = [FIRST, "7_2", "7_10", "7_11", "9", "10", "c2/7_9", "c2/7_10", "ml/train-9", "ml/train-10",
         "x", LAST]  # fmt: skip


def waiting(seed: int) -> list[dict[str, object]]:
    """Jobs that wait, in any order of rows; all but two of them came at one moment."""
    when = {FIRST: 0, LAST: 9}
    rows = [{"job": name, "gpus": 8, "submit_ms": when.get(name, 5)} for name in NAMES]
    Random(seed).shuffle(rows)
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_an_import_has_them_in_that_order(seed: int):
    """Also the parts of names: of a cluster, a namespace, an array."""
    assert state_after(build(attempts(*waiting(seed)), NODES, PRICES)).job_names == NAMES


@pytest.mark.parametrize("seed", range(3))
def test_an_observer_has_them_in_that_order(seed: int):
    """What it is shown at once is numbered like what is imported."""
    observer = Observer()
    observer.take(SourceAnswer(attempts(*waiting(seed)), NODES, 0), EPOCH_MS + 50, 9)
    assert observer.world.job_names == NAMES
