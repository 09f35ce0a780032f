"""Who is ahead of a job, by name: the first that `pending` lists."""

import pytest

from tests.builders import beat, fleet, job, submit
from tidemill import explain
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy


@pytest.mark.parametrize("order", ["priority", "shortest"])
def test_the_first_ahead_are_the_first_that_are_listed(order: str):
    """Only the first of jobs that request the same was named, before others that go earlier."""
    policy, world = Policy(order=order), fleet(nodes=1)
    submit(world, job("runs", gpus=8))
    beat(world, policy)
    for i, gpus in enumerate((8, 8, 8, 8, 4, 8)):
        submit(world, job(f"t{i}", gpus=gpus, estimate_ms=(i + 1) * HOUR_MS))
    beat(world, policy)
    listed = [row.job for row in explain.board(world, policy).waiting]
    answer = explain.why(world, policy, world.job_number[listed[-1]])
    told = next(fact for fact in answer.evidence if fact.name == "jobs ahead")
    assert told.value == len(listed) - 1
    assert f"(first `{listed[0]}`, `{listed[1]}` and `{listed[2]}`)" in told.words
