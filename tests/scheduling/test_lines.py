"""Lines and fair shares in columns are what sorting, and fractions of any size, give."""

import random

import numpy as np
import pytest

from tests.builders import contract, fleet, job, submit
from tidemill.core import fair_shares
from tidemill.core.fair_shares import SHARING
from tidemill.core.wide import divided
from tidemill.model.batch.sheet import Sheet
from tidemill.model.columns import JOB, SHAPE
from tidemill.model.policy import Policy
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import order
from tidemill.scheduling.desk import lines
from tidemill.scheduling.desk.columns import ASK, REG
from tidemill.scheduling.estimates import Estimates
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.schedule import Cycle


def _waiting(luck: random.Random, policy: Policy) -> tuple[World, Cycle]:
    """A line of one shape: some ran before, some lost their patience."""
    world = fleet(contract("c", gpus=8))
    for i in range(luck.randrange(1, 40)):
        submit(world, job(f"j{i}", gpus=16, estimate_ms=luck.choice([0, 5, 50, 500])))
    jobs = world.matrices.jobs
    for j in range(world.job_count):
        jobs[j, JOB.SUBMIT_MS] = luck.randrange(1000)
        jobs[j, JOB.RAN_MS] = luck.choice([0, 0, 3, 70])
        jobs[j, JOB.SAVED_MS] = luck.choice([0, 2, 60])
        jobs[j, JOB.REACHED_MS] = luck.choice([0, 40, 900])
    cycle = Cycle(world, policy, Memo(), Sheet())
    cycle.columns.reg[REG.NOW] = world.now_ms
    return world, cycle


@pytest.mark.parametrize("name", ["fifo", "shortest", "smallest", "attained"])
def test_a_line_is_taken_in_the_policys_order(name: str):
    """One after the other, whoever lost patience first before all others, the oldest of equals."""
    for seed in range(30):
        luck = random.Random(f"{name} {seed}")
        policy = Policy(
            order=name, patience_ms=luck.choice([10, 400, 10**9]), unknown_run_ms=30,
            attained_steps_ms=(20, 1000), backfill="none",
        )  # fmt: skip
        world, cycle = _waiting(luck, policy)
        w, d, taken = world.matrices, cycle.columns, list[int]()
        places = [
            (order.place_of(world, policy, Estimates(policy), j), j) for j in world.waiting[0]
        ]
        lines.write_first(w, d, 0)
        while True:
            taken.append(d.asks.item(0, ASK.UPCOMING))
            if not lines.take_next(w, d, 0):
                break
        assert taken == [j for _, j in sorted(places)], seed


def test_one_more_in_line_is_read_alone():
    """The first of a line is the same whether it is read as it grows, or at once."""
    luck = random.Random(5)
    policy = Policy(order="shortest", unknown_run_ms=30)
    world, cycle = _waiting(luck, policy)
    w, d = world.matrices, cycle.columns
    for _ in range(30):
        submit(world, job(f"k{world.job_count}", gpus=16, estimate_ms=luck.randrange(1, 900)))
        cycle = Cycle(world, policy, cycle.memo, cycle.sheet)
        w, d = world.matrices, cycle.columns
        lines.write_first(w, d, 0)
        first = d.asks.item(0, ASK.UPCOMING)
        assert d.asks[0, ASK.LINE_LENGTH] == w.shapes[0, SHAPE.WAITING]
        d.asks[0, ASK.LINE_LENGTH] = -1
        lines.write_first(w, d, 0)
        assert d.asks.item(0, ASK.UPCOMING) == first


def test_products_larger_than_a_number_are_divided_exactly():
    """Shares of a bill: milli of a large fleet times what a fleet of a billion dollars costs."""
    luck = random.Random(1)
    for _ in range(500):
        amount, whole = luck.randrange(10**9), luck.randrange(1, 10**17)
        rest = luck.randrange(whole)
        assert divided(amount, rest, whole) == amount * rest // whole


def test_queues_are_ranked_by_shares_from_the_top_down():
    """As by sorting the shares along their paths; equal ones have the same number."""
    luck = random.Random(2)
    for _ in range(60):
        queues, depth = luck.randrange(1, 30), 4
        parents = [luck.choice([-1, *range(q)]) if q else -1 for q in range(queues)]
        paths = list[list[int]]()
        for q in range(queues):
            above = paths[parents[q]] if parents[q] >= 0 else []
            paths.append([*(above if len(above) < depth else []), q])
        sharing: I64 = np.full((queues, SHARING.TOP + depth), -1, np.int64)
        sharing[:, SHARING.ORDER] = luck.sample(range(queues), queues)
        sharing[:, SHARING.SHARE] = [luck.randrange(4) for _ in range(queues)]
        for q, path in enumerate(paths):
            sharing[q, SHARING.TOP : SHARING.TOP + len(path)] = path
        fair: I64 = np.zeros(queues, np.int64)
        fair_shares.rank(sharing, fair)
        keys = [[sharing.item(a, SHARING.SHARE) for a in path] for path in paths]
        places = sorted({tuple(key) for key in keys})
        assert fair.tolist() == [places.index(tuple(key)) for key in keys]
