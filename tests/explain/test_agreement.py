"""What `why` says is what the scheduler would say: seeded stories, looked at after every beat."""

import dataclasses
import random

import pytest
from msgspec.structs import replace

from tests.builders import contract, job, role, team
from tests.engine.stage import Arrival, Player, Script
from tidemill import explain
from tidemill.explain.context import open_case
from tidemill.model import events as ev
from tidemill.model.batch.sheet import Sheet
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Job
from tidemill.model.states import NodeState, Terms
from tidemill.model.topology import Bond, Tier, Topology
from tidemill.model.world import World
from tidemill.scheduling.diagnose import supply_cause
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.schedule import schedule

IMPATIENT = Policy(patience_ms=20 * MINUTE_MS, searches_per_cycle=1000)


def story(seed: int, policy: Policy) -> Script:
    """A day on a small fleet of two kinds: three teams, one with a floor, one with a limit."""
    luck = random.Random(seed)
    contracts = [
        contract("c", gpus=32, cpu_milli=64_000),
        contract("d", gpus=16, kind="A100", cpu_milli=64_000, labels={"zone": "x"}),
        contract("e", gpus=16, terms=Terms.ON_DEMAND),
    ]
    teams = [team("a"), team("b", floor=8), team("z", limit=12)]
    arrivals = [
        Arrival(
            luck.randrange(0, 6 * HOUR_MS, MINUTE_MS),
            _job(luck, i),
            luck.randint(1, 200) * MINUTE_MS,
        )
        for i in range(60)
    ]
    incidents = [
        ev.NodeMoved(luck.randrange(HOUR_MS, 6 * HOUR_MS), luck.randrange(6), to)
        for to in (NodeState.UNHEALTHY, NodeState.CORDONED, NodeState.UNHEALTHY)
    ]
    return Script(
        contracts, teams, arrivals, incidents, policy,
        boot_ms=7 * MINUTE_MS, grace_ms=MINUTE_MS, horizon_ms=12 * HOUR_MS,
    )  # fmt: skip


SIZES = [(1, 1), (2, 2), (4, 4), (8, 8), (16, 8), (32, 8), (16, 16), (12, 4), (0, 0)]


def _job(luck: random.Random, i: int) -> Job:
    gpus, per_node = luck.choice(SIZES)
    asks = job(
        f"j{i}", gpus=gpus, per_node=per_node, team=luck.choice("abz"), priority=luck.randint(0, 2),
        cpu_milli=luck.choice([0, 4_000, 48_000, 96_000]),
        milli=luck.choice([300, 500, 1000]) if gpus == 1 else 1000,
        kinds=luck.choice([(), ("H100",), ("A100",), ("B200",)]),
        labels=luck.choice([None, None, None, {"zone": "x"}, {"zone": "y"}]),
        saves_every_ms=HOUR_MS,
    )  # fmt: skip
    if i % 6:
        return asks
    driver = role(2, name="driver", gpus=i % 12 // 6 * 2, cpu_milli=8_000)
    return replace(asks, shape=replace(asks.shape, roles=(*asks.shape.roles, driver)))


def said_by_scheduler(world: World, policy: Policy) -> dict[int, Cause]:
    """For each waiting job, what a scheduler that remembers nothing says."""
    sheet = Sheet()
    schedule(world, policy, Memo(), sheet)
    actions = sheet.actions()
    placed = {a.job for a in actions if isinstance(a, ev.AskedPlace)}
    said = {s: Cause(world.shapes.cause[s]) for s in world.queued}
    said |= {a.shape: a.cause for a in actions if isinstance(a, ev.CauseChanged)}
    for s, cause in said.items():  # held behind another job it looks no further; the questions do
        said[s] = supply_cause(world, Memo(), s) or cause if cause is Cause.BEHIND else cause
    return {
        j: Cause.NONE if j in placed else said[s] for s in world.queued for j in world.waiting[s]
    }


def racked(script: Script) -> Script:
    """The same story with two nodes to a rack, where every third gang must sit in one."""
    tied = [
        arrival if i % 3 else arrival._replace(job=_in_one_rack(arrival.job))
        for i, arrival in enumerate(script.arrivals)
    ]
    topology = Topology((Tier("rack", "rack"), Tier("node")))
    return dataclasses.replace(script, arrivals=tied, topology=topology, nodes_per=(("rack", 2),))


def _in_one_rack(row: Job) -> Job:
    return replace(row, shape=replace(row.shape, bonds=(Bond("rack"),)))


@pytest.mark.parametrize("is_racked", [False, True], ids=["flat", "racks"])
@pytest.mark.parametrize("seed", range(3))
def test_why_agrees_with_the_scheduler(seed: int, is_racked: bool):
    """All through a story, each waiting job has the cause that the scheduler gives it."""
    script = story(seed, IMPATIENT)
    player = Player(racked(script) if is_racked else script)
    seen: set[Cause] = set()
    wrong = []
    beats = 0

    def compare(at_ms: int) -> None:
        nonlocal beats
        beats += 1
        if beats % 12:
            return
        world = player.world
        memo = explain.Glance(world)
        for j, cause in said_by_scheduler(world, IMPATIENT).items():
            found = open_case(world, IMPATIENT, memo, j).cause
            if j % 8 == 0:  # the rest of an answer, what it tries, takes ten times as long
                assert explain.why(world, IMPATIENT, j, memo).cause == found.name.lower()
            seen.add(cause)
            if found is not cause:
                wrong.append((at_ms, world.job_names[j], cause.name.lower(), found.name.lower()))

    player.run(on_beat=compare)
    assert wrong == []
    assert len(seen) >= 9, f"the story is too simple: {sorted(seen)}"
