"""What an elastic job runs on, what it could grow to, and why it does not: by doing it."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.builders import beat, finish, fleet, job, pass_ms, role, submit, team
from tests.scheduling.test_resize import RESIZING, elastic, evicted, grown
from tidemill import explain
from tidemill.explain.answers import Answer
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World


def small(*, floor: int = 0, limit: int | None = None, resize_ms: int = 0) -> World:
    """An elastic job of two to eight on the two that were free when it came, an hour ago."""
    world = fleet(nodes=1, teams=[team("a", floor=floor, limit=limit), team("b")])
    submit(world, job("others", gpus=6, team="b"))
    beat(world, RESIZING)
    submit(world, elastic(resize_ms=resize_ms))
    beat(world, RESIZING)
    pass_ms(world, HOUR_MS)
    return world


def asked(world: World, policy: Policy = RESIZING) -> Answer:
    return explain.why(world, policy, world.job_number["e"])


def contested(world: World) -> None:
    submit(world, job("next", gpus=8, team="b"))
    beat(world, RESIZING)


def freed(world: World) -> None:
    finish(world, "others")


def freed_and_contested(world: World) -> None:
    """More is free than waits, and nobody grows into it."""
    submit(world, job("next", gpus=8, team="b"))
    beat(world, RESIZING)
    finish(world, "others")
    beat(world, RESIZING)


SEEN: dict[str, tuple[Callable[[World], None], str]] = {
    "full": (lambda _: None, "another replica has no place"),
    "contested": (contested, "1 job waits for `H100` (`next`), and a running job grows only on"),
    "free, but contested": (freed_and_contested, "1 job waits for `H100` (`next`)"),
    "free": (freed, "it grows in the next cycle that decides nothing else"),
}


@pytest.mark.parametrize("name", SEEN)
def test_why_a_running_job_does_not_grow_is_what_the_next_cycle_does(name: str):
    """`why` said "does not wait", and nothing of what it runs on or could have."""
    happens, told = SEEN[name]
    world = small()
    happens(world)
    found = asked(world)
    assert "it runs on 2 of the 8 GPUs that it requests (2 of 8 replicas)" in found.words
    assert {fact.name: fact.value for fact in found.evidence} == {
        "runs on": 2_000, "could grow to": 8_000,
    }  # fmt: skip
    assert told in found.words
    assert bool(grown(world)) == ("it grows" in found.words) == (name == "free")


def test_other_reasons_are_those_of_the_scheduler():
    """A policy without resizing, a job that came up just now, a pause that does not pay off."""
    world = small(resize_ms=7 * MINUTE_MS)
    finish(world, "others")
    rigid, late = replace(RESIZING, may_resize=False), replace(RESIZING, grow_after_ms=2 * HOUR_MS)
    for policy, told in (
        (rigid, "running jobs keep their size (`may_resize = false`)"),
        (late, "not before it has worked for 2h (`grow_after`), in 1h"),
    ):
        assert told in asked(world, policy).words
        assert not grown(world, policy)
    assert "it grows" in asked(world).words
    assert grown(world)
    long = small(resize_ms=8 * MINUTE_MS)
    finish(long, "others")
    assert "its pause of 8m would not be won back within 10m" in asked(long).words
    assert not grown(long)


def test_a_guaranteed_quota_does_not_grow_a_running_job():
    """Guaranteed eight, on two: it is said that this is taken back only for jobs that wait; and a
    job of the same team that requests as much as its smallest size does get it.
    """
    world = small(floor=8)
    words = asked(world).words
    assert "team `a` is guaranteed 8 `H100` and uses 2" in words
    assert "taken back for jobs that wait, not for one that runs" in words
    assert not grown(world)
    submit(world, elastic("sure", count=8, least=6))
    assert set(evicted(world, beat(world, RESIZING))) == {"others"}
    assert "could grow to 4 within the maximum quota of its team" in asked(small(limit=4)).words


def test_a_waiting_elastic_job_is_told_by_its_smallest_size():
    """It starts with three of eight; "0 of 8 replicas" and a wait for eight were told."""
    world = fleet(nodes=1)
    submit(world, job("others", gpus=6))
    beat(world, RESIZING)
    submit(world, elastic(least=3), job("rigid", roles=[role(3)]))
    beat(world, RESIZING)
    answer = asked(world)
    assert answer.asks.startswith("3 to 8×1 ")
    assert "2 of 3 replicas would fit now" in answer.words
    assert "needs 3 replicas of 1 at its smallest size" in answer.words
    (row, _) = explain.board(world, RESIZING).waiting
    assert (row.least_milli, row.accelerator_milli) == (3_000, 8_000)
