"""Breakdowns: the same ledger by team, pool, contract, kind, class, job or time."""

from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings

from tests.builders import contract
from tests.ledger.stories import STORIES, Story, story
from tidemill.ledger.account import Account
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.rows import LedgerRows, accounts
from tidemill.ledger.statement import DIMENSIONS, Dimension, read


def added(parts: list[Account]) -> Account:
    """The sum of accounts, bucket by bucket; capability is unknown when one of them is."""
    columns = zip(*((part.milli_ms, part.money, part.unpriced) for part in parts), strict=True)
    milli_ms, money, unpriced = (tuple(map(sum, zip(*column, strict=True))) for column in columns)
    known = [part.capability for part in parts if part.capability is not None]
    is_known = len(known) == len(parts)
    power = tuple(map(sum, zip(*known, strict=True))) if is_known else None
    return Account(milli_ms, money, power, unpriced)


@pytest.mark.parametrize("dimension", DIMENSIONS)
@settings(max_examples=30, deadline=None)
@given(STORIES)
def test_every_breakdown_adds_up_to_the_total(dimension: Dimension, events: Story):
    """By any dimension the parts add up to the whole: time, money and capability, per bucket."""
    statement = read(events, bin_ms=40)
    parts = list(statement.by(dimension).values())
    assert not parts or added(parts) == statement.total()


@settings(max_examples=30, deadline=None)
@given(STORIES)
def test_a_breakdown_is_the_rows_of_each_key(events: Story):
    """One pass over all the rows finds for each key what selecting its rows finds."""
    statement = read(events)
    for j, name in enumerate(statement.world.job_names):
        mask = statement.rows.job == j
        if mask.any():
            assert statement.by("job")[name] == statement.select(mask)


def test_names_of_the_parts():
    """Keys are names; what nobody claims or holds is under `(nobody)`, time by start of bin."""
    statement = read(story(5, 200), start_ms=10, bin_ms=100)
    world = statement.world
    assert set(statement.by("team")) <= {"(nobody)", *(row.name for row in world.queue_rows)}
    assert set(statement.by("contract")) <= {row.name for row in world.contract_rows}
    assert set(statement.by("kind")) <= {row.kind for row in world.contract_rows}
    assert set(statement.by("pool")) <= {row.pool for row in world.contract_rows}
    assert set(statement.by("job")) <= {"(nobody)", *world.job_names}
    classes = {"(nobody)", "training", "inference", "interactive"}
    assert set(statement.by("class")) <= classes
    moments = [int(key) for key in statement.by("time")]
    assert moments == sorted(moments)
    assert all(moment % 100 == 10 for moment in moments)


def test_jobs_that_put_most_into_a_bucket():
    """The trace from a number to its jobs: the largest first, none that put nothing in."""
    statement = read(story(3, 300))
    for bucket in Bucket:
        found = statement.jobs_of(bucket, 3)
        by_job = statement.by("job")
        amounts = sorted(by_job[name].milli_ms[bucket] for name in by_job if name != "(nobody)")
        assert [amount for _, amount in found] == [a for a in reversed(amounts) if a][:3]


def test_capability_is_unknown_only_where_it_is():
    """A kind that is not in the table makes its own accounts unknown, and no others."""
    rows = LedgerRows(
        *np.array([[0, 0], [0, 1], [5, 5], [-1, -1], [-1, -1], [0, 0], [0, 0], [7, 9]])
    )  # fmt: skip
    contracts = [contract("h", kind="H100"), contract("x", kind="X1")]
    known, unknown = accounts(rows, np.array([0, 1]), 2, contracts)
    assert known.capability is not None
    assert known.capability[5] == 7 * 989_000
    assert unknown.capability is None
    assert accounts(rows, np.array([0, 0]), 1, contracts)[0].capability is None


def test_a_hundred_thousand_jobs_are_broken_down_in_one_pass():
    """100,000 jobs take seconds, not minutes: 0.8 s when written, 37 s one job after the other.

    The bound leaves room for slow machines; it is there to notice a pass for each job.
    """
    count, jobs = 600_000, 100_000
    number = np.arange(count)
    rows = LedgerRows(
        np.zeros(count, np.int64), number % 4, 11 + number % 14, number % 5,
        number * jobs // count, 0 * number, 0 * number, 1 + number * 7_919 % 10**13,
    )  # fmt: skip
    contracts = [contract(f"c{c}") for c in range(4)]
    start_s = process_time()
    found = accounts(rows, rows.job, jobs, contracts)
    assert process_time() - start_s < 5
    assert sum(account.paid_milli_ms for account in found) == rows.milli_ms.sum()
