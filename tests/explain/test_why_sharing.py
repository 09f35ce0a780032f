"""Why a job waits among teams in a tree: the answer names the queue and the numbers that bind."""

import pytest

from tests.builders import DEFAULTS, beat, contract, fleet, job, queue, submit, team
from tests.explain.test_lab import fact, why
from tidemill import explain
from tidemill.explain.answers import Answer
from tidemill.model.world import World


def said(answer: Answer, name: str) -> str:
    """The words of one fact of the evidence."""
    return {fact.name: fact.words for fact in answer.evidence}[name]


def science(**of_science: int) -> World:
    """Physics uses 8 and biology 8 of 32; biology wants 8 more."""
    teams = [
        queue("science", **of_science),  # type: ignore[arg-type]
        queue("physics", parent="science", floor=8),
        queue("biology", parent="science", floor=4),
    ]
    world = fleet(teams=teams)
    submit(world, job("p", gpus=8, team="physics"), job("b", gpus=8, team="biology"))
    beat(world)
    submit(world, job("more", gpus=8, team="biology"))
    beat(world)
    return world


def test_the_limit_of_a_parent_is_named():
    """A job kept out by a limit above its team is told whose it is, and what counts there."""
    answer = why(science(limit=20), "more")
    assert answer.cause == "over_limit"
    assert said(answer, "team use") == (
        "team `science` uses 16 of its maximum quota of 20 `H100`, with all teams below it"
        " (`biology` is one)"
    )
    assert fact(answer, "team limit") == 20_000
    assert "raise the maximum quota of team `science` from 20 to 24 `H100`" in answer.fix.words


def test_what_may_be_borrowed_is_named():
    """A borrowing limit is told as the floor and what may be borrowed above it."""
    answer = why(science(borrow=6), "more")
    assert answer.cause == "over_limit"
    assert said(answer, "team use").startswith(
        "team `science` uses 16 of its guaranteed quota of 12 and the 6 it may borrow `H100`"
    )


def test_what_others_keep_is_named():
    """A job before which free accelerators are kept is told by whom, and how many."""
    world = fleet(nodes=2, teams=[queue("a"), queue("clinic", floor=8, lend=2)])
    submit(world, job("runs", gpus=8))
    beat(world)
    submit(world, job("t5", gpus=4))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.owner) == ("kept_back", "scheduling")
    assert said(answer, "kept back") == (
        "8 `H100` free, of which 6 are kept for `clinic` by their lending limits"
    )
    assert answer.do_not.startswith("do not buy: 8")


def test_more_than_others_will_ever_leave_never_fits():
    """If lending limits leave too little even on an empty fleet, no wait helps; says how much."""
    world = fleet(nodes=2, teams=[queue("a"), queue("clinic", floor=8, lend=2)])
    submit(world, job("t5", gpus=16))
    beat(world)
    answer = why(world, "t5")
    assert answer.cause == "over_limit_always"
    assert "other teams leave 10; it requests 16" in answer.do_not


@pytest.mark.parametrize("labels", [{}, {"product": "H100"}])
def test_over_quota_is_told_where_another_type_could_not_hold_it(labels: dict[str, str]):
    """Of two types only one could hold a gang, by its label or by size: its quota is the cause."""
    types = [("H100", 64), ("A100", 16)]
    rows = [contract(kind, kind=kind, gpus=n, labels={"product": kind}) for kind, n in types]
    world = fleet(*rows, teams=[team("vision", limit=24)])
    asked = job("gang", gpus=32, labels=labels, team="vision")
    told = "the maximum quota of team `vision` is 24 `H100`, it requests 32"
    forecast = explain.fit(world, DEFAULTS, asked)
    assert (forecast.verdict, forecast.cause) == ("never", "over_limit_always")
    assert told in forecast.words
    submit(world, asked)
    beat(world)
    answer = why(world, "gang")
    assert answer.cause == answer.said == "over_limit_always"
    assert answer.evidence[0].words == told
    assert answer.fix.words == "request at most 24, or raise the maximum quota of `vision`"
