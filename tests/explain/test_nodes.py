"""Verdicts of nodes, against a plain reading of the same rows; and places that add up."""

import pytest

from tests.builders import (
    DEFAULTS,
    beat,
    contract,
    fleet,
    job,
    lose_device,
    move_node,
    role,
    submit,
    team,
)
from tests.engine.stage import Player
from tests.explain.test_agreement import IMPATIENT, story
from tidemill import explain
from tidemill.explain import supply
from tidemill.explain.supply import Place
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.scheduling import eligibility
from tidemill.scheduling.fitting.sweeps import PLENTY


def plain_verdict(world: World, n: int, j: int) -> tuple[str, int]:
    """The oracle: one node, one role, plain Python."""
    shape = world.shape_of(j)
    asks, nodes = shape.roles[0], world.nodes
    row = world.contract_rows[nodes.contract[n]]
    q = world.queue_number[shape.team]
    devices = range(nodes.first_device[n], nodes.first_device[n] + nodes.devices[n])
    free = [int(world.devices.free_milli[d]) for d in devices if not world.devices.is_failed[d]]
    slots = sum(part // asks.milli for part in free)
    cpu, memory = int(nodes.cpu_free_milli[n]), int(nodes.memory_free_mib[n])
    checks = {
        "kind": not asks.kinds or row.kind in asks.kinds,
        "label": {*asks.labels} <= {*row.node.labels, *world.node_rows[n].labels},
        "state": nodes.state[n] == NodeState.READY,
        "spare": not nodes.is_spare[n],
        "too_small": nodes.devices[n] >= asks.accelerators,
        "devices": slots >= asks.accelerators,
        "cpu": cpu >= asks.cpu_milli,
        "memory": memory >= asks.memory_mib,
        "limit": world.used[q, nodes.kind[n]] + asks.total_milli <= world.limit[q, nodes.kind[n]],
    }
    for name, is_ok in checks.items():
        if not is_ok:
            return name, 0
    hosts = [slots // asks.accelerators if asks.accelerators else PLENTY]
    hosts += [cpu // asks.cpu_milli] if asks.cpu_milli else []
    return "ok", min(hosts)


@pytest.mark.parametrize("seed", [7, 8])
def test_verdicts_are_what_a_plain_reading_says(seed: int):
    """Columns and rows agree for every node and job, all through a story."""
    player = Player(story(seed, IMPATIENT))
    beats = 0

    def compare(at_ms: int) -> None:
        nonlocal beats
        beats += 1
        world = player.world
        if beats % 10:
            return
        for j in [world.waiting[s][0] for s in world.queued]:
            rows = explain.verdicts(world, j)
            nodes = [n for n in range(world.node_count) if world.nodes.state[n] != NodeState.GONE]
            expected = [plain_verdict(world, n, j) for n in nodes]
            assert [(row.verdict, row.hosts) for row in rows] == expected
            groups = explain.groups(world, j)
            assert sum(group.nodes for group in groups) == len(rows)
            assert sum(group.hosts for group in groups) == sum(row.hosts for row in rows)
            assert sum(group.free_milli for group in groups) == sum(row.free_milli for row in rows)

    player.run(on_beat=compare)
    assert beats > 100


def test_verdicts_in_words():
    """Each node says in words what it lacks, with its own numbers."""
    world = fleet(
        contract("c", gpus=32, cpu_milli=64_000),
        contract("d", gpus=8, kind="A100"),
        teams=[team("a")],
        node_labels=[{"rack": "a"}, {"rack": "a"}, {"rack": "a"}, {}],
    )
    submit(world, job("r0", gpus=5, labels={"rack": "a"}))
    beat(world)
    submit(world, job("r1", gpus=1, cpu_milli=60_000, kinds=["H100"], labels={"rack": "a"}))
    beat(world)
    move_node(world, 2, NodeState.CORDONED)
    for name, gpus in (("t5", 2), ("t8", 4)):
        asks = job(name, gpus=gpus, cpu_milli=8_000, kinds=["H100"], labels={"rack": "a"})
        submit(world, asks)
    words = {row.node: row.words for row in explain.verdicts(world, world.job_number["t8"])}
    assert words == {
        "c-0": "too few free devices: 2 of 4",
        "c-1": "ok",
        "c-2": "cordoned",
        "c-3": "label `rack=a` missing",
        "d-0": "`A100`, it requests `H100`",
    }
    words = {row.node: row.words for row in explain.verdicts(world, world.job_number["t5"])}
    assert words["c-0"] == "CPU: 4 of 8 cores free"


def test_groups_span_the_numbers_of_their_nodes():
    """Nodes that say the same are one row, with the range of what they have."""
    world = fleet(nodes=3)
    for size in (7, 6, 5):
        submit(world, job(f"r{size}", gpus=size))
        beat(world)
    submit(world, job("t5", gpus=8))
    (group,) = explain.groups(world, world.job_number["t5"], examples=2)
    assert group.words == "too few free devices: 1 to 3 of 8"
    assert (group.nodes, group.free_milli, group.examples) == (3, 6_000, ("c-0", "c-1"))


def test_every_claimed_accelerator_is_in_one_place():
    """The places of a role's accelerators add up to what contracts claim, all through a story."""
    player = Player(story(5, IMPATIENT))
    beats = 0

    def compare(at_ms: int) -> None:
        nonlocal beats
        beats += 1
        world = player.world
        anything = job().shape.roles[0]
        found = supply.supply(world, anything, eligibility.options(world, anything))
        assert found.claimed_milli == sum(row.count * 1000 for row in world.contract_rows)
        assert found.milli(Place.FREE) == world.kind_free_milli.sum()

    player.run(on_beat=compare)
    assert beats > 100


def test_failed_devices_have_a_place_of_their_own():
    """A dead device is withheld wherever its node is, and is not counted as free there."""
    world = fleet(nodes=2)
    lose_device(world, 0, 0)
    lose_device(world, 1, 0)
    move_node(world, 1, NodeState.CORDONED)
    anything = job().shape.roles[0]
    lots = supply.supply(world, anything, eligibility.options(world, anything)).lots
    assert {place: lot.milli for place, lot in lots.items()} == {
        Place.FREE: 7_000,
        Place.CORDONED: 7_000,
        Place.FAILED: 2_000,
    }
    assert lots[Place.FAILED].usd_micro_per_hour == 4_000_000


def test_the_role_that_is_short_is_shown():
    """Without being told which role, the verdicts are about the first that does not fit."""
    world = fleet(contract("c", gpus=8), contract("d", gpus=8, kind="A100"))
    roles = [role(gpus=4, kinds=["H100"]), role(3, gpus=4, kinds=["A100"])]
    submit(world, job("t5", roles=roles))
    words = {row.node: row.words for row in explain.verdicts(world, 0)}
    assert words == {"c-0": "`H100`, it requests `A100`", "d-0": "ok"}


def test_amounts_are_of_the_types_that_the_labels_leave():
    """A job that may use two types and requires a label of one: the other is in no amount."""
    world = fleet(
        contract("a", gpus=8), contract("b", gpus=8, kind="A100"),
        node_labels=[{"product": "h"}, {"product": "a"}],
    )  # fmt: skip
    submit(world, job("first", gpus=8, kinds=["H100"]))
    beat(world)
    asks = role(gpus=8, kinds=["A100", "H100"], labels={"product": "h"})
    submit(world, job("next", roles=[asks]))
    answer = explain.why(world, DEFAULTS, world.job_number["next"])
    told = [fact.words for fact in answer.evidence]
    assert "8 `H100` busy" in told
    assert not any("A100" in words for words in told)
