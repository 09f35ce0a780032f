"""Where gangs go: whole or nowhere, on the kinds and labels they ask for, packed or spread."""

from typing import Any

from msgspec.structs import replace

from tests.builders import (
    beat,
    cause_of,
    contract,
    decide,
    devices_by_node,
    fleet,
    job,
    lose_device,
    lose_node,
    placed,
    role,
    submit,
    team,
)
from tidemill.engine.cycle import CycleMemo
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.node_rules import LabelCondition, LabelTest
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Piece, Role

SPREAD = Policy(placement="spread")


def test_a_gang_that_fits_is_placed_whole():
    """The plan for one gang of sixteen on two nodes of eight names every device."""
    world = fleet(nodes=2)
    submit(world, job("t5", gpus=16))
    pieces = (Piece(0, 0, 1, 0xFF), Piece(0, 1, 1, 0xFF))
    assert decide(world) == ev.Plan((ev.AskedPlace(0, 0, 1, pieces),))


def test_a_gang_that_does_not_fit_takes_nothing():
    """With eight of sixteen free nothing is placed, and the free ones stay free for others."""
    world = fleet(nodes=2)
    submit(world, job("first", gpus=8), job("gang", gpus=16), job("small", gpus=8))
    assert placed(world, decide(world)) == {"first": {0: 8}, "small": {1: 8}}


def test_a_replica_is_never_split_over_nodes():
    """Eight free accelerators on two nodes do not host one replica of eight."""
    world = fleet(nodes=2)
    submit(world, job("left", gpus=4), job("right", gpus=4))
    beat(world, SPREAD)
    submit(world, job("whole", gpus=8))
    assert placed(world, decide(world)) == {}


def test_roles_are_placed_together():
    """A gang of a CPU-only driver, workers and a fraction gets all of them."""
    world = fleet(nodes=1)
    driver, half = role(1, gpus=0, cpu_milli=500), role(1, milli=500)
    submit(world, job("gang", roles=[driver, role(3, gpus=2), half]))
    (action,) = decide(world).actions
    assert isinstance(action, ev.AskedPlace)
    assert [(p.role, p.replicas, p.devices) for p in action.pieces] == [
        (0, 1, 0),
        (1, 3, 0b0011_1111),
        (2, 1, 0b0100_0000),
    ]


def test_if_one_role_does_not_fit_none_is_placed():
    """A second role that finds no room takes the first one back."""
    world = fleet(nodes=1)
    submit(world, job("gang", roles=[role(1, gpus=4), role(1, gpus=8)]), job("other", gpus=8))
    assert placed(world, decide(world)) == {"other": {0: 8}}


def test_each_role_sits_on_one_kind():
    """A role that would fit only across two kinds does not fit."""
    world = fleet(contract("h", gpus=8), contract("a", gpus=8, kind="A100"))
    submit(world, job("gang", gpus=16))
    assert placed(world, decide(world)) == {}


def test_kinds_are_tried_in_the_order_they_are_named():
    """The first kind with room is taken, then the second."""
    world = fleet(contract("h", gpus=8), contract("a", gpus=8, kind="A100"))
    wants: dict[str, Any] = {"gpus": 8, "kinds": ["A100", "H100"]}
    submit(world, job("one", **wants), job("two", **wants), job("three", **wants))
    assert placed(world, decide(world)) == {"one": {1: 8}, "two": {0: 8}}


def test_labels_are_those_of_the_contract_and_of_the_node():
    """A role sits only where both its labels are found."""
    zoned = contract("c", gpus=24, labels={"zone": "x"})
    world = fleet(zoned, node_labels=[{}, {"rack": "1"}, {"rack": "2"}])
    submit(world, job("t", gpus=8, labels={"zone": "x", "rack": "2"}))
    assert placed(world, decide(world)) == {"t": {2: 8}}


def test_fractions_share_a_device():
    """Two halves sit on one device; a third of 600 milli needs another."""
    world = fleet(nodes=1)
    submit(world, job("a1", milli=500), job("a2", milli=500), job("a3", milli=600))
    beat(world)
    assert [world.placements[j][0].devices for j in range(3)] == [1, 1, 2]


def test_fractions_go_to_the_tightest_device():
    """A quarter fills the device that it leaves least of."""
    world = fleet(nodes=1)
    submit(world, job("x", milli=500), job("y", milli=700))
    beat(world)
    submit(world, job("z", milli=250))
    assert placed(world, decide(world)) == {"z": {0: 1}}
    beat(world)
    assert world.placements[2][0].devices == world.placements[1][0].devices == 2


def test_packing_keeps_whole_nodes_whole():
    """Small jobs fill the node in use before they open another."""
    world = fleet(nodes=3)
    submit(world, *(job(f"s{i}", gpus=2) for i in range(4)), job("big", gpus=16))
    assert placed(world, decide(world)) == {f"s{i}": {0: 2} for i in range(4)} | {
        "big": {1: 8, 2: 8}
    }


def test_packing_uses_the_fewest_nodes():
    """A gang of single replicas is put where most of it fits."""
    world = fleet(nodes=2)
    submit(world, job("in the way", gpus=6))
    beat(world)
    submit(world, job("gang", gpus=8, per_node=1))
    assert placed(world, decide(world)) == {"gang": {1: 8}}


def test_spreading_takes_the_emptiest_node():
    """Each replica goes to the node with most free."""
    world = fleet(nodes=3)
    submit(world, job("gang", gpus=3, per_node=1), job("one"))
    assert placed(world, decide(world, SPREAD)) == {"gang": {0: 1, 1: 1, 2: 1}, "one": {0: 1}}


def test_what_cannot_be_spread_is_packed():
    """Where spreading one role breaks up the node that the next needs whole, both are packed."""
    world = fleet(nodes=2)
    submit(world, job("gang", roles=[role(2), role(1, gpus=8)]))
    assert placed(world, decide(world, SPREAD)) == {"gang": {0: 2, 1: 8}}


def test_failed_devices_are_not_used():
    """A node with a broken device hosts what fits beside it, elsewhere."""
    world = fleet(nodes=1)
    lose_device(world, 0, 0)
    beat(world)
    submit(world, job("whole", gpus=8))
    assert placed(world, decide(world)) == {}


def test_spares_are_not_used():
    """Nodes kept idle by design take no work, until one in use is lost."""
    world = fleet(contract(gpus=16, spares=1))
    submit(world, job("one", gpus=8), job("two", gpus=8))
    beat(world)
    assert list(world.placements) == [0]
    lose_node(world, 0)
    beat(world)
    beat(world)
    assert devices_by_node(world.placements[0]) == {1: 8}


def test_cpu_and_memory_count():
    """A node full of CPU hosts no more, however many accelerators are free."""
    world = fleet(contract(gpus=8, cpu_milli=16_000, memory_mib=64))
    submit(world, job("hungry", cpu_milli=16_000), job("fat", memory_mib=64))
    submit(world, job("more cpu", cpu_milli=1), job("more memory", memory_mib=1), job("neither"))
    assert list(placed(world, decide(world))) == ["hungry", "fat", "neither"]
    beat(world)
    assert cause_of(world, "more cpu") is Cause.CPU_BINDS
    assert cause_of(world, "more memory") is Cause.MEMORY_BINDS


def test_a_cpu_only_job_goes_anywhere():
    """A job without accelerators needs no kind, and no limit holds it."""
    world = fleet(nodes=1, teams=[team("a", limit=0)])
    submit(world, job("driver", gpus=0, cpu_milli=1_000))
    assert placed(world, decide(world)) == {"driver": {0: 0}}


def test_a_cpu_only_job_waits_where_nothing_is_claimed():
    """Without any contract even a job without accelerators waits, and is told why."""
    world = fleet(contract(start_ms=5), teams=[team("a", kind="H100")])
    submit(world, job("driver", gpus=0))
    beat(world)
    assert cause_of(world, "driver") is Cause.NOTHING_LAUNCHED


def test_a_gang_that_names_no_gpu_type_takes_the_cheapest():
    """Then the most plentiful; what is dear or scarce is left to those who ask for it by name.

    Before, it took the type of the contract that was signed first.
    """
    scarce = contract("c", gpus=16, usd_micro_per_hour=2_000_000)
    plentiful = contract("d", gpus=32, kind="A100", usd_micro_per_hour=2_000_000)
    world = fleet(scarce, plentiful)
    submit(world, job("any", gpus=16), job("named", gpus=16, kinds=["H100", "A100"]))
    assert placed(world, decide(world)) == {"any": {2: 8, 3: 8}, "named": {0: 8, 1: 8}}
    cheap = contract("e", gpus=16, kind="L40S", usd_micro_per_hour=1_000_000)
    world = fleet(scarce, plentiful, cheap)
    submit(world, job("any", gpus=16))
    assert placed(world, decide(world)) == {"any": {6: 8, 7: 8}}


def test_a_new_contract_changes_which_gpu_type_is_cheapest():
    """A scheduler that remembers what it knew of a shape takes prices as they are now."""
    world, memo = fleet(contract("c", gpus=16), contract("d", gpus=32, kind="A100")), CycleMemo()
    submit(world, job("first", gpus=16))
    assert placed(world, beat(world, memo=memo)) == {"first": {2: 8, 3: 8}}
    fold(world, ev.ContractSigned(world.now_ms, contract("more", gpus=64)))
    submit(world, job("second", gpus=16))
    assert placed(world, beat(world, memo=memo)) == {"second": {0: 8, 1: 8}}


def test_a_taint_keeps_everybody_off_who_does_not_tolerate_it():
    """By the same value, by any value, or all taints; others go elsewhere or wait."""
    world = fleet(contract("own", gpus=8, taints={"dedicated": "inference"}), nodes=0)
    submit(
        world,
        job("stranger", gpus=2),
        job("other", roles=[_tolerant(("dedicated", "training"))]),
        job("same", roles=[_tolerant(("dedicated", "inference"))]),
        job("any", roles=[_tolerant(("dedicated", ""))]),
        job("all", roles=[_tolerant(("", ""))]),
    )
    assert {*placed(world, decide(world))} == {"same", "any", "all"}
    beat(world)
    assert cause_of(world, "stranger") is Cause.IMPOSSIBLE_LABEL


def test_affinity_is_any_of_several_choices():
    """One choice holds where all its conditions do."""
    rows = [
        contract("a", gpus=8, labels={"zone": "a", "memory": "80"}),
        contract("b", gpus=8, labels={"zone": "b", "memory": "141"}),
        contract("c", gpus=8),
    ]
    world = fleet(*rows)
    large = LabelCondition("memory", LabelTest.ABOVE, ("100",))
    nowhere = LabelCondition("zone", LabelTest.ABSENT)
    here = LabelCondition("zone", LabelTest.NOT_IN, ("b",))
    some = LabelCondition("zone", LabelTest.EXISTS)
    submit(
        world,
        job("large", roles=[_choosy((large,))]),
        job("plain", roles=[_choosy((nowhere,))]),
        job("either", roles=[_choosy((large, here), (here, some))]),
    )
    assert placed(world, decide(world)) == {"large": {1: 8}, "plain": {2: 8}, "either": {0: 8}}


def _tolerant(pair: tuple[str, str]) -> Role:
    return replace(role(gpus=2), tolerates=(pair,))


def _choosy(*choices: tuple[LabelCondition, ...]) -> Role:
    return replace(role(gpus=8), affinity=choices)
