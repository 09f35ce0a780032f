"""A GPU type that could never hold a gang has no say in why the gang waits.

The oracle is the same fleet without that type: seeded worlds, looked at with it and without.
"""

from random import Random

import pytest

from tests.builders import beat, cause_of, contract, fleet, job, role, submit, team
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Contract, Job, Queue

NAME = "waiting"
ORDERS = (Policy(), Policy(order="smallest", may_reorder=True))


def too_small(luck: Random) -> Contract:
    """A100s, all free: two nodes of eight, or many of four."""
    nodes, per_node = luck.choice([(2, 8), (16, 4)])
    return contract("small", kind="A100", gpus=nodes * per_node, per_node=per_node)


def gang(luck: Random) -> Job:
    """A gang of three or four nodes, with a driver or without."""
    wide = role(luck.choice([3, 4]), gpus=8, cpu_milli=luck.choice([0, 40_000]))
    return job(
        NAME, roles=[wide, *luck.choice([[], [role(1, name="driver", gpus=0, cpu_milli=1_000)]])]
    )


def others(luck: Random) -> list[Job]:
    """What runs on the H100s before it: of its own team, and of another."""
    return [
        job(f"o{i}", gpus=luck.choice([1, 4, 8]), kinds=["H100"], team=luck.choice("ab"),
            cpu_milli=luck.choice([0, 30_000]))
        for i in range(luck.randint(0, 7))
    ]  # fmt: skip


def asked(rows: list[Contract], seed: int, policy: Policy) -> Cause:
    """Why the gang waits on nodes of these contracts."""
    luck = Random(seed)
    before, waiting, most = others(luck), gang(luck), luck.choice([None, 32, 40])
    teams: list[Queue] = [team("a", limit=most), team("b", floor=luck.choice([0, 8]))]
    world = fleet(*rows, teams=teams)
    submit(world, *before)
    beat(world, policy)
    submit(world, waiting)
    beat(world, policy)
    return cause_of(world, NAME)


@pytest.mark.parametrize("policy", ORDERS, ids=["in line", "preemptive"])
def test_a_type_that_never_holds_a_gang_has_no_say(policy: Policy):
    """With the useless type and without, the cause is the same one; quotas are among them."""
    met = set()
    for seed in range(60):
        useful = contract("large", gpus=40, cpu_milli=64_000)
        alone = asked([useful], seed, policy)
        beside = asked([useful, too_small(Random(seed))], seed, policy)
        assert beside is alone, f"seed {seed}"
        met.add(alone)
    assert Cause.OVER_LIMIT in met
    assert len(met) > 2
