"""Whole stories: whatever is decided, the World takes every event; and one seed tells one story."""

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.twin import greedy
from tests.twin.builders import TEAM, contract, job
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold_all
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS
from tidemill.model.states import JobClass, NodeState, Terms
from tidemill.model.world import World
from tidemill.provisioning import life
from tidemill.twin.arrivals import Arrival, Ending, Spell, Tide
from tidemill.twin.backend import Twin
from tidemill.twin.faults import FaultAt, Faults, LogNormal
from tidemill.twin.spec import fleet_spec
from tidemill.twin.spec.words import Span

ROOT = Path(__file__).resolve().parents[2]


def may(world, n, to):
    """Whether a node may be asked to go there now."""
    return not world.nodes.asked[n] and life.may_move(NodeState(world.nodes.state[n]), to)


def chaotic(seed):
    """Greedy, but now and then it evicts, cancels, drains, repairs or returns for no reason.

    One act in ten batches: an act is answered with two or three batches at the same moment, and
    with more acts than that time would never go on.
    """
    luck = random.Random(seed)

    def plan(world):
        if luck.random() < 0.1 and world.placements:
            yield from _trouble_a_job(world, luck)
        elif luck.random() < 0.1 and world.node_count:
            yield from _trouble_a_node(world, luck)
        yield from greedy.decide(world)

    return plan


def _trouble_a_job(world, luck):
    j = luck.choice(sorted(world.placements))
    if j in world.leaving_for:
        return
    if luck.random() < 0.2:
        yield ev.AskedCancel(world.now_ms, j, ev.Why.IDLE)
    else:
        yield ev.AskedEvict(world.now_ms, j, int(world.jobs.attempt[j]), ev.Why.PREEMPTED)


def _trouble_a_node(world, luck):
    n = luck.choice([n for n in range(world.node_count) if may(world, n, NodeState.GONE)] or [0])
    if luck.random() < 0.6 and may(world, n, NodeState.DRAINING):
        yield ev.AskedDrain(world.now_ms, n, ev.Why.DRAINED, world.now_ms + HOUR_MS)
    if world.aboard[n] or luck.random() < 0.5:
        return
    if luck.random() < 0.5 and may(world, n, NodeState.REPAIRING):
        yield ev.AskedRepair(world.now_ms, n)
    elif may(world, n, NodeState.GONE):
        yield ev.AskedReturn(world.now_ms, n)


ARRIVALS = st.builds(
    Arrival,
    at_ms=st.integers(0, DAY_MS),
    job=st.builds(
        job,
        name=st.uuids().map(str),
        gpus=st.integers(1, 4),
        replicas=st.integers(1, 2),
        kind=st.sampled_from(JobClass),
        startup_ms=st.integers(0, MINUTE_MS),
        restart_ms=st.integers(0, MINUTE_MS),
        every_ms=st.sampled_from((0, HOUR_MS)),
        cost_ms=st.integers(0, MINUTE_MS),
    ),
    work_ms=st.integers(1, DAY_MS),
    ending=st.sampled_from(Ending),
    crashes_ms=st.lists(st.integers(0, DAY_MS), max_size=3).map(tuple),
    activity=st.sampled_from((None, Spell(HOUR_MS, 300_000), Tide((0, 900_000), 5 * HOUR_MS))),
    forgiven=st.none() | st.integers(0, 3),
)
CONTRACTS = st.builds(
    contract,
    name=st.uuids().map(str),
    count=st.sampled_from((8, 16, 24)),
    per_node=st.sampled_from((4, 8)),
    terms=st.sampled_from(Terms),
    start_ms=st.sampled_from((0, HOUR_MS)),
    end_ms=st.sampled_from((2**62, DAY_MS)),
    spares=st.integers(0, 1),
)
FAULTS = st.builds(
    Faults,
    node_rate=st.sampled_from((0.0, 500.0)),
    device_share=st.sampled_from((0.0, 0.5, 1.0)),
    repair=st.sampled_from((LogNormal(0), LogNormal(HOUR_MS, 1.0))),
    maintenance_rate=st.sampled_from((0.0, 500.0)),
    maintenance=st.just(LogNormal(HOUR_MS)),
    reclaim_rate=st.sampled_from((0.0, 1000.0)),
    notice_ms=st.sampled_from((0, MINUTE_MS)),
    retries=st.integers(0, 2),
    boot=st.sampled_from((LogNormal(0), LogNormal(MINUTE_MS, 0.3))),
    evict_ms=st.sampled_from((0, MINUTE_MS)),
    startup_spread=st.sampled_from((0.0, 0.5)),
    lost_races=st.sampled_from((0.0, 0.3)),
    schedule=st.just((FaultAt(HOUR_MS, 0, HOUR_MS), FaultAt(DAY_MS, 1, 0))),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    contracts=st.lists(CONTRACTS, max_size=2),
    arrivals=st.lists(ARRIVALS, max_size=8, unique_by=lambda a: a.job.name),
    faults=FAULTS,
    seed=st.integers(0, 2**32),
)
def test_whatever_is_decided_the_world_takes_every_event(contracts, arrivals, faults, seed):
    """No answer of the twin contradicts the World, and equal arguments give equal journals."""

    def story():
        twin = Twin(contracts, [TEAM], arrivals, faults=faults, horizon_ms=2 * DAY_MS, seed=seed)
        return greedy.run(twin, chaotic(seed), batches_at_most=5_000)

    world, journal = story()
    assert journal == story()[1]
    assert snapshot.digest(fold_all(World(), journal)) == snapshot.digest(world)
    assert [event.at_ms for event in journal] == sorted(event.at_ms for event in journal)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda p: p.stem)
def test_the_examples_run(path):
    """Every example is a story that folds from its first event to its horizon."""
    example = fleet_spec.load(path)
    shortened = msgspec.structs.replace(
        example, twin=msgspec.structs.replace(example.twin, horizon=Span(DAY_MS))
    )
    world, journal = greedy.run(Twin.from_spec(shortened))
    assert world.now_ms == DAY_MS
    assert any(isinstance(event, ev.JobFinished) for event in journal)


DIGEST = """
import hashlib, msgspec
from tests.twin import greedy
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec, template
world, journal = greedy.run(Twin.from_spec(fleet_spec.parse(template.describe(3, 64, 1, 2, 0.1))))
print(len(journal), hashlib.sha256(msgspec.json.encode(journal)).hexdigest())
"""


def test_one_seed_tells_one_story_under_any_hash_seed():
    """Two processes with other PYTHONHASHSEEDs write the same journal, byte for byte."""
    told = set()
    for hash_seed in ("1", "2"):
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        env = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
        done = subprocess.run(
            [sys.executable, "-c", DIGEST], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        told.add(done.stdout)
    assert len(told) == 1


def test_another_seed_tells_another_story():
    """The seed is not decoration."""
    text = '[twin]\nseed = 1\nhorizon = "1d"\n[[contract]]\nname = "c"\nkind = "H100"\ncount = 8\n'
    text += 'usd_per_hour = 2\n[[team]]\nname = "a"\n[[workload]]\nname = "w"\nteam = "a"\n'
    text += 'per_day = 20\npreset = "pai"\n'
    told = [
        hashlib.sha256(
            msgspec.json.encode(greedy.run(Twin.from_spec(fleet_spec.parse(t)))[1])
        ).digest()
        for t in (text, text.replace("seed = 1", "seed = 2"))
    ]
    assert told[0] != told[1]
