"""A gang that is larger than the fleet, its quota, or both: what `why` says to do lets it run.

Each fix is carried out in the twin: the contract enlarged by so many nodes, the teams with the
quotas that the fix sets, the job as it was. What would have to be bought beside a limit is not
offered without it.
"""

import re
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.builders import (
    DEFAULTS,
    RACK,
    SPINE,
    beat,
    contract,
    fleet,
    job,
    queue,
    racks,
    role,
    submit,
    team,
    teams_share,
)
from tidemill import explain
from tidemill.engine.fold.one_event import fold_all
from tidemill.engine.loop import Loop
from tidemill.explain.answers import Answer, PricedFix
from tidemill.journal.memory import MemoryJournal
from tidemill.live.kubernetes.scheduling import purchase
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.reasons import Cause
from tidemill.model.rows import Contract, Job, Queue
from tidemill.model.states import JobState, Terms
from tidemill.model.topology import Bond
from tidemill.model.world import World
from tidemill.twin.backend import Twin

WIDE = job("wide", gpus=32, per_node=8, team="t")


def why(world: World, wanted: Job) -> Answer:
    """The answer for a job that was just submitted."""
    submit(world, wanted)
    beat(world)
    return explain.why(world, DEFAULTS, world.job_number[wanted.name])


def fixes(answer: Answer) -> tuple[PricedFix, ...]:
    """All of an answer."""
    return (answer.fix, *answer.other_fixes)


def buys(answer: Answer) -> list[PricedFix]:
    """Those for which nodes have to be bought."""
    return [one for one in fixes(answer) if re.search(r"\b(add|enlarge|launch)\b", one.words)]


def ends_in_the_twin(
    rows: Sequence[Contract], teams: Sequence[Queue], wanted: Job, fix: PricedFix
) -> JobState:
    """What becomes of a job where a fix was carried out before it came."""
    more = {name: int(n) for name, n in re.findall(r"contract `(\w+)` by (\d+) node", fix.words)}
    enlarged = [replace(r, count=r.count + more.get(r.name, 0) * r.node.devices) for r in rows]
    sets = {row.name: row for row in fix.sets}
    twin = Twin(
        enlarged, [sets.get(row.name, row) for row in teams],
        [(MINUTE_MS, wanted, HOUR_MS)], horizon_ms=12 * HOUR_MS,
    )  # fmt: skip
    world = World()
    Loop(world, DEFAULTS, twin, MemoryJournal()).run()
    return JobState(world.jobs.state[world.job_number[wanted.name]])


LIMITED: dict[str, tuple[list[Contract], list[Queue], Job, str, str]] = {
    "own": (
        [contract(gpus=16)], [team("t", limit=16)], WIDE,
        "request at most 2 replicas of 8 GPUs",
        ("raise the maximum quota of team `t` from 16 to 32 `H100` and enlarge contract `c` by 2"
        " nodes"),
    ),
    "above": (
        [contract(gpus=16)],
        [queue("top", limit=24), queue("t", parent="top", limit=8)], WIDE,
        "request at most 1 replica of 8 GPUs",
        ("raise the maximum quota of team `t` from 8 to 32 `H100` and the maximum quota of team"
        " `top` from 24 to 32 `H100` and enlarge contract `c` by 2 nodes"),
    ),
    "borrowed": (
        [contract(gpus=16)], [queue("top"), queue("t", parent="top", floor=8, borrow=8)], WIDE,
        "request at most 2 replicas of 8 GPUs",
        "raise what team `t` may borrow from 8 to 24 `H100` and enlarge contract `c` by 2 nodes",
    ),
    "nothing": (
        [contract(gpus=16)], [team("t", limit=0)], WIDE,
        "raise the maximum quota of `t` to 16, and request at most 2 replicas of 8 GPUs",
        ("raise the maximum quota of team `t` from 0 to 32 `H100` and enlarge contract `c` by 2"
        " nodes"),
    ),
    "fleet smaller than quota": (
        [contract(gpus=8)], [team("t", limit=16)], WIDE,
        "request at most 1 replica of 8 GPUs",
        ("raise the maximum quota of team `t` from 16 to 32 `H100` and enlarge contract `c` by 3"
        " nodes"),
    ),
    "two roles": (
        [contract(gpus=16)], [team("t", limit=16)],
        job("wide", team="t", roles=[role(2, gpus=8), role(2, gpus=8, name="other")]),
        "request at most 16 in all of its roles",
        ("raise the maximum quota of team `t` from 16 to 32 `H100` and enlarge contract `c` by 2"
        " nodes"),
    ),
}  # fmt: skip
"""By what is short: contracts, teams, the job, the first fix, and the one for which is paid."""


@pytest.mark.parametrize("name", LIMITED)
def test_the_limit_is_named_first_and_nodes_only_beside_it(name: str):
    """Kueue's `maximum capacity (16)` of a job of 32: two more nodes were none that it may use."""
    rows, teams, wanted, first, paid = LIMITED[name]
    answer = why(fleet(*rows, teams=teams), wanted)
    assert answer.cause == "over_limit_always"
    assert answer.evidence[0].name == "limit"
    assert answer.fix.words == first
    assert [one.words for one in buys(answer)] == [paid]
    assert ends_in_the_twin(rows, teams, wanted, buys(answer)[0]) is JobState.DONE
    forecast = explain.fit(fleet(*rows, teams=teams), DEFAULTS, wanted)
    assert (forecast.verdict, forecast.cause) == ("never", "over_limit_always")
    assert forecast.words.endswith(f"hint: {first}")


@pytest.mark.parametrize("name", LIMITED)
def test_nodes_or_quotas_alone_let_it_in_nowhere(name: str):
    """So each half of the fix is no fix."""
    rows, teams, wanted, *_ = LIMITED[name]
    (paid,) = buys(why(fleet(*rows, teams=teams), wanted))
    for half in (replace(paid, sets=()), replace(paid, words="")):
        assert ends_in_the_twin(rows, teams, wanted, half) is JobState.WAITING


UNLIMITED: dict[str, tuple[list[Contract], list[Queue], Job, str]] = {
    "another type": (
        [contract("a", gpus=16), contract("b", gpus=8, kind="A100-80GB")],
        [teams_share("t", H100=(0, 16))], WIDE, "enlarge contract `b` by 3 nodes",
    ),
    "two roles": (
        [contract(gpus=16)], [team("t")],
        job("wide", team="t", roles=[role(2, gpus=8), role(2, gpus=8, name="other")]),
        "enlarge contract `c` by 2 nodes",
    ),
    "lent": (
        [contract(gpus=16)], [queue("t"), queue("u", floor=8, lend=0)], WIDE,
        "enlarge contract `c` by 3 nodes",
    ),
}  # fmt: skip
"""Where no maximum quota is in the way: contracts, teams, the job, and what to buy."""


@pytest.mark.parametrize("name", UNLIMITED)
def test_as_many_nodes_are_named_as_let_it_in(name: str):
    """Of a type that its team may use, for all its roles, and with what other teams keep back."""
    rows, teams, wanted, paid = UNLIMITED[name]
    answer = why(fleet(*rows, teams=teams), wanted)
    assert answer.cause == "impossible_gang"
    assert [one.words for one in buys(answer)] == [paid]
    assert ends_in_the_twin(rows, teams, wanted, buys(answer)[0]) is JobState.DONE


def test_roles_that_exceed_a_quota_together_are_told_so():
    """Two roles of 16 under a maximum of 16, in a fleet of 64: neither does alone."""
    both = job("both", team="t", roles=[role(2, gpus=8), role(2, gpus=8, name="other")])
    answer = why(fleet(contract(gpus=64), teams=[team("t", limit=16)]), both)
    assert answer.cause == "over_limit_always"
    assert answer.fix.words == (
        "request at most 16 in all of its roles, or raise the maximum quota of `t`"
    )
    assert buys(answer) == []


def test_a_gang_that_has_to_be_in_one_rack_hears_of_no_nodes():
    """In which rack a new node will be nobody knows."""
    tied = job("tied", team="t", roles=[role(4, gpus=8, bonds=[Bond("rack")])])
    world = fleet(
        contract(gpus=16), teams=[team("t")], node_labels=racks(2), topology=[SPINE, RACK]
    )
    assert buys(why(world, tied)) == []


def on_demand(*teams: Queue) -> World:
    """A busy node of each of two types, and more of both that may be launched."""
    world = fleet(
        contract("c", gpus=8), contract("b", gpus=8, kind="B200"), teams=[*teams, team("u")]
    )
    cheap = contract("cheap", gpus=64, terms=Terms.ON_DEMAND, usd_micro_per_hour=1)
    dear = contract("dear", gpus=64, terms=Terms.ON_DEMAND, kind="B200")
    for c, row in enumerate((cheap, dear), 2):
        fold_all(world, [ev.ContractSigned(0, row), ev.ContractStarted(0, c)])
    submit(world, job("first", gpus=8, team="t", kinds=["H100"]))
    submit(world, job("other", gpus=8, team="u", kinds=["B200"]))
    beat(world)
    return world


def test_a_node_is_launched_of_a_type_that_the_quota_allows_now():
    """The cheaper one is of the type of which the team has all that it may."""
    world = on_demand(teams_share("t", H100=(0, 8)))
    assert [one.words for one in buys(why(world, job("x", gpus=8, team="t")))] == [
        "launch 1 node of contract `dear`"
    ]


def test_where_jobs_of_the_team_have_to_end_first_a_launch_says_so():
    """16 of at most 16, of which 8 are in use, and one node is there: both are needed."""
    world = on_demand(teams_share("t", H100=(0, 16)))
    answer = why(world, job("x", gpus=16, per_node=8, kinds=["H100"], team="t"))
    assert answer.cause == "not_enough_ready"
    assert [one.words for one in buys(answer)] == [
        (
            "wait until jobs of team `t` end (it uses 8 of its maximum quota of 16 `H100`), and"
            " launch 1 node of contract `cheap` then"
        )
    ]


def test_a_type_that_nobody_has_is_bought_with_the_quota_for_it():
    """Its team may use none of it."""
    world = fleet(contract(gpus=8), teams=[teams_share("t", B200=(0, 0))])
    answer = why(world, job("x", gpus=8, kinds=["B200"], team="t"))
    assert answer.other_fixes[0].words == (
        "raise the maximum quota of team `t` from 0 to 8 `B200` and sign a contract for 8 `B200`"
    )


def test_an_order_for_nodes_is_written_where_they_would_help():
    """The condition of a pod that an autoscaler buys by: not under a limit, whoever lends what."""
    world = fleet(contract(gpus=16), teams=[team("t", limit=16)])
    assert purchase.helps(world, WIDE.shape, Cause.IMPOSSIBLE_GANG) is None
    world = fleet(contract(gpus=16), teams=[queue("t"), queue("u", floor=8, lend=0)])
    assert purchase.helps(world, WIDE.shape, Cause.IMPOSSIBLE_GANG) is not None
