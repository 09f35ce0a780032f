"""The classic lab cases: one small World for each cause, and what `why` must say about it."""

import re

import msgspec
import pytest

from tests.builders import (
    DEFAULTS,
    beat,
    cause_of,
    contract,
    fall_idle,
    finish,
    fleet,
    job,
    lose_device,
    lose_node,
    move_node,
    node,
    pass_ms,
    place,
    role,
    start,
    submit,
    team,
)
from tidemill import explain
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.explain.answers import Answer
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.states import JobClass, NodeState, Terms
from tidemill.model.world import World

DOLLAR = 1_000_000
PATIENT = Policy(patience_ms=HOUR_MS, backfill="none")


def why(world: World, name: str, policy: Policy = DEFAULTS) -> Answer:
    """The answer, after the checks that every answer must pass."""
    answer = explain.why(world, policy, world.job_number[name])
    assert msgspec.json.decode(msgspec.json.encode(answer), type=Answer) == answer
    assert f"`{name}`" in answer.words
    assert _in_lower_case(answer.words)
    assert _in_lower_case(answer.fix.words)
    assert _in_lower_case(answer.do_not)
    assert re.search(r"\d", answer.do_not), "what not to do names a number"
    assert all(fact.words and fact.shown_by for fact in answer.evidence)
    assert [q.answer for q in answer.questions[:-1]] == ["yes"] * (len(answer.questions) - 1)
    return answer


def _in_lower_case(text: str) -> bool:
    """Whether a text is in lower case, but for ids, the names of units, CPU, GPU and Ready."""
    plain = re.sub(r"`[^`]*`|CPU|GPUs?|GiB|Ready", "", text)
    return plain == plain.lower()


def fact(answer: Answer, name: str) -> int:
    """A number of the evidence."""
    return {fact.name: fact.value for fact in answer.evidence}[name]


# L1 -------------------------------------------------------------------------------------------


def test_a_kind_that_nobody_claims_is_a_matter_of_the_reservation():
    """A job that asks for a kind without a contract waits for L1, and asking otherwise is free."""
    world = fleet(nodes=4)
    submit(world, job("t5", gpus=8, kinds=["B200"]))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.layer, answer.owner) == ("nothing_claimed", 1, "reservation")
    assert [q.answer for q in answer.questions] == ["no"]
    assert answer.fix.words == "request `H100`"
    assert answer.do_not == "do not wait: no contract has `B200`; contracts cover: 32 `H100`"
    assert answer.other_fixes[0].usd_micro_per_hour is None, "nobody knows that price"


# L2 -------------------------------------------------------------------------------------------


def test_an_empty_pool_is_claimed_but_not_launched():
    """On-demand accelerators that nobody launched are an L2 cause, priced by the hour."""
    elastic = contract(gpus=32, terms=Terms.ON_DEMAND)
    world = fold_all(World(), [ev.QueueSet(0, team("a")), ev.ContractSigned(0, elastic)])
    fold(world, ev.ContractStarted(0, 0))
    submit(world, job("t5", gpus=16))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.detail, answer.layer) == ("nothing_launched", "may_launch", 2)
    assert answer.fix.words == "launch 2 nodes of contract `c`"
    assert answer.fix.usd_micro_per_hour == 16 * 2 * DOLLAR
    assert "32 accelerators are under contract, 0 of them Ready" in answer.do_not


def test_devices_that_are_paid_but_not_here_yet_are_waited_for():
    """Reserved accelerators are asked for by the first cycle, and paid idle until they come."""
    world = fold_all(World(), [ev.QueueSet(0, team("a")), ev.ContractSigned(0, contract(gpus=32))])
    fold(world, ev.ContractStarted(0, 0))
    submit(world, job("t5", gpus=8))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.detail, answer.owner) == (
        "nothing_launched",
        "asked",
        "provisioning",
    )
    assert answer.withheld[0].usd_micro_per_hour == 32 * 2 * DOLLAR
    assert (
        answer.fix.words
        == "wait: 4 nodes (32 accelerators) requested from the provider, not launched yet"
    )
    assert answer.fix.usd_micro_per_hour == 0


def test_devices_expected_but_never_asked_for_are_not_launched():
    """Claimed more than launched, and nobody asked: the fix is to launch what is paid for."""
    world = fleet(contract("c", gpus=16), nodes=0)
    fold(world, ev.ContractSigned(0, contract("d", gpus=32, kind="A100")))
    fold(world, ev.ContractStarted(0, 1))
    submit(world, job("t5", gpus=8, kinds=["A100"]))
    answer = why(world, "t5")
    assert (answer.cause, answer.detail) == ("nothing_launched", "not_launched")
    assert answer.fix.words == "launch 4 nodes (32 accelerators) that `d` already pays for"
    assert answer.withheld[0].words == "32 not launched on 4 nodes, paid $64.00 an hour"


def test_a_scale_up_in_flight_is_waited_for():
    """Nodes that boot are on their way: wait, do not launch more."""
    world = fleet(contract("c", gpus=8), contract("d", gpus=16, kind="A100", start_ms=1))
    fold(world, ev.ContractStarted(1, 1))
    for name in ("d-0", "d-1"):
        fold(world, ev.NodeAdded(1, node(name, contract="d")))
        move_node(world, world.node_number[name], NodeState.BOOTING)
    submit(world, job("t5", gpus=16, kinds=["A100"]))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.detail, answer.layer) == ("nothing_ready", "booting", 2)
    assert answer.fix.words == "wait: 2 nodes (16 accelerators) booting"
    assert answer.do_not == "do not buy: 16 `A100` are under contract, 0 of them Ready (16 booting)"


def test_a_cordoned_node_takes_no_work():
    """Free accelerators on cordoned nodes are withheld; uncordoning as many as it needs is the
    fix.
    """
    world = fleet(nodes=2)
    move_node(world, 0, NodeState.CORDONED)
    move_node(world, 1, NodeState.CORDONED)
    submit(world, job("t5", gpus=8))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.detail, answer.layer) == ("nothing_ready", "cordoned", 2)
    assert answer.fix.words == "uncordon `c-0`: 8 accelerators are free there"
    assert answer.withheld[0].usd_micro_per_hour == 16 * 2 * DOLLAR
    assert answer.nodes[0].verdict == "cordoned"


def test_unhealthy_nodes_leave_too_few():
    """A gang that needs every node waits for the repair of the one that is sick."""
    world = fleet(nodes=4)
    lose_node(world, 2)
    submit(world, job("t5", gpus=32))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.detail) == ("not_enough_ready", "unhealthy")
    assert fact(answer, "ready") == 24_000
    assert answer.fix.words == "repair `c-2`: unhealthy, 8 accelerators"


def test_a_failed_device_withholds_one_accelerator():
    """One dead device makes a whole-node job impossible for now, and is named with its node."""
    world = fleet(nodes=1)
    lose_device(world, 0, 3)
    submit(world, job("t5", gpus=8))
    answer = why(world, "t5")
    assert (answer.cause, answer.detail) == ("not_enough_ready", "failed")
    assert answer.fix.words == "replace 1 failed device of `c-0`"
    assert "8 accelerators are under contract, 7 of them Ready (1 failed device)" in answer.do_not


# L4 -------------------------------------------------------------------------------------------


def test_more_than_any_node_has_never_fits():
    """16 on one node never fits nodes of 8; the same in two halves does."""
    world = fleet(nodes=4)
    submit(world, job("t5", gpus=16, per_node=16))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.layer, answer.owner) == ("impossible_size", 4, "workload")
    assert answer.fix.words == "request 2 replicas of 8 GPUs instead of 1 of 16"
    assert "has 8 GPUs, it requests 16 on one node" in answer.do_not
    assert [q.layer for q in answer.questions] == [1, 2, 4], "L2 is asked before L4"


def test_a_label_that_no_node_has_never_fits():
    """A label outside the fleet's values is impossible, and the values that exist are shown."""
    world = fleet(nodes=2, node_labels=[{"rack": "a"}, {"rack": "b"}])
    submit(world, job("t5", gpus=8, labels={"rack": "z"}))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.layer) == ("impossible_label", 4)
    assert answer.fix.words == "change or drop the label: `rack` is one of `a` and `b`"
    assert "none of the 16 accelerators of any type under contract" in answer.do_not
    assert {group.verdict for group in answer.nodes} == {"label"}


def test_a_gang_wider_than_the_fleet_never_fits():
    """Nine replicas do not fit eight nodes; a ninth node has a price."""
    world = fleet(nodes=8)
    submit(world, job("t5", gpus=72))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.layer) == ("impossible_gang", 4)
    assert answer.fix.words == "request at most 8 replicas of 8 GPUs"
    assert answer.other_fixes[0].words == "enlarge contract `c` by 1 node"
    assert answer.other_fixes[0].usd_micro_per_hour == 8 * 2 * DOLLAR


def test_more_than_the_team_may_ever_use_never_fits():
    """A job above its team's limit is told the limit, not to wait."""
    world = fleet(nodes=4, teams=[team("a", limit=16)])
    submit(world, job("t5", gpus=32))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.layer) == ("over_limit_always", 4)
    assert "the maximum quota of team `a` is 16 `H100`, it requests 32" in answer.do_not


def test_cpu_that_no_node_has_never_fits():
    """A replica with more cores than any node is impossible by its CPU, not by its accelerators."""
    world = fleet(contract(gpus=8, cpu_milli=64_000))
    submit(world, job("t5", gpus=1, cpu_milli=96_000))
    beat(world)
    answer = why(world, "t5")
    assert answer.cause == "impossible_size"
    assert answer.fix.words == "request at most 64 cores per replica"


def test_what_can_never_fit_is_not_blamed_on_sick_nodes():
    """Nothing is ready and it could never fit: the cause is the job's, as the scheduler says."""
    world = fleet(nodes=1)
    lose_node(world, 0)
    submit(world, job("t5", gpus=16, per_node=16))
    beat(world)
    answer = explain.why(world, DEFAULTS, world.job_number["t5"])
    assert answer.cause == cause_of(world, "t5").name.lower() == "impossible_size"
    assert [q.answer for q in answer.questions] == ["yes", "no", "no"]


# L3 -------------------------------------------------------------------------------------------


def test_all_busy_is_the_scheduler_s():
    """Everything is taken: wait, with the number of those ahead."""
    world = fleet(nodes=2)
    submit(world, job("r0", gpus=16, priority=1))
    beat(world)
    submit(world, job("w0", gpus=8, priority=1), job("t5", gpus=8))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.layer, answer.owner) == ("busy", 3, "scheduling")
    assert (answer.jobs_ahead, answer.milli_ahead) == (1, 8_000)
    assert (fact(answer, "busy"), fact(answer, "free")) == (16_000, 0)
    assert answer.fix.usd_micro_per_hour == 0
    assert "16 accelerators are busy, it has 1 job ahead" in answer.do_not


def test_accelerators_held_for_nothing_are_the_first_to_ask_for():
    """A running job that does nothing is named before anything is bought."""
    world = fleet(nodes=1)
    submit(world, job("notebook", gpus=8))
    beat(world)
    fall_idle(world, "notebook")
    submit(world, job("t5", gpus=4))
    beat(world)
    answer = why(world, "t5")
    assert answer.cause == "busy"
    assert "cancel `notebook`: 8 accelerators held" in answer.fix.words


def test_buying_is_priced_where_a_contract_allows_it():
    """Busy with an on-demand contract beside: the price of launching is among the other fixes."""
    world = fleet(contract("c", gpus=8))
    elastic = contract("od", gpus=64, terms=Terms.ON_DEMAND, usd_micro_per_hour=5 * DOLLAR)
    fold(world, ev.ContractSigned(0, elastic))
    fold(world, ev.ContractStarted(0, 1))
    submit(world, job("r0", gpus=8))
    beat(world)
    submit(world, job("t5", gpus=8))
    beat(world)
    answer = why(world, "t5")
    assert answer.cause == "busy"
    fix = answer.other_fixes[-1]
    assert (fix.words, fix.usd_micro_per_hour) == ("launch 1 node of contract `od`", 40 * DOLLAR)


def test_free_but_scattered_is_not_bought_for():
    """11 accelerators are free and 8 on one node are not; stopping a job for it has its price."""
    world = fleet(nodes=4)
    submit(world, *(job(f"r{i}", gpus=5, saves_every_ms=HOUR_MS) for i in range(4)))
    beat(world)
    submit(world, job("s", gpus=1))
    beat(world)
    pass_ms(world, 30 * MINUTE_MS)
    submit(world, job("t5", gpus=8))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.layer) == ("scattered", 3)
    assert (fact(answer, "free"), fact(answer, "largest free block")) == (11_000, 3)
    assert "11 accelerators free on 4 nodes" in answer.words
    assert answer.do_not == "do not buy: 11 accelerators are free but scattered over 4 nodes"
    lost = [fix for fix in answer.other_fixes if fix.lost_milli_ms]
    assert lost[0].words == "stop `r1` on `c-1`, to wait again"
    assert lost[0].lost_milli_ms == 5_000 * 30 * MINUTE_MS
    assert lost[0].lost_usd_micro == 5 * DOLLAR


def test_a_small_job_in_the_way_is_moved():
    """Where those in the way fit elsewhere, moving them comes first, at the price of their work."""
    world = fleet(nodes=2)
    for small in (job("r0", gpus=5), job("r1", gpus=7), job("s", gpus=1)):
        submit(world, small)
        beat(world)
    finish(world, "r1")
    pass_ms(world, 6 * MINUTE_MS)
    submit(world, job("t5", gpus=8))
    beat(world)
    answer = why(world, "t5")
    assert answer.cause == "scattered"
    assert answer.fix.words == "move `s` off `c-1`: it fits elsewhere"
    assert (answer.fix.lost_milli_ms, answer.fix.lost_usd_micro) == (360_000_000, DOLLAR // 5)


def test_a_move_starts_the_job_that_is_first_and_says_so_of_others():
    """One node becomes whole, and two jobs wait for one: to both it was told as their fix."""
    world = fleet(nodes=2)
    for small in (job("r0", gpus=5), job("r1", gpus=7), job("s", gpus=1)):
        submit(world, small)
        beat(world)
    finish(world, "r1")
    pass_ms(world, 6 * MINUTE_MS)
    submit(world, job("t5", gpus=8), job("t6", gpus=8))
    beat(world)
    assert why(world, "t5").fix.words == "move `s` off `c-1`: it fits elsewhere"
    second = why(world, "t6")
    assert second.fix.words.startswith("wait until")
    assert second.other_fixes[0].words == (
        "move `s` off `c-1`: it fits elsewhere; that alone does not start it"
    )


def test_of_moves_that_cost_the_same_the_fewest_are_told():
    """One notebook off the second node, not two off the first; `tidemill defrag` says the same."""
    world = fleet(nodes=2)
    for name, node_number, devices in (("a", 0, 0b1), ("b", 0, 0b10), ("c", 1, 0b11)):
        submit(world, job(name, gpus=devices.bit_count(), kind=JobClass.INTERACTIVE))
        place(world, name, Piece(0, node_number, 1, devices))
        start(world, name)
    submit(world, job("t5", gpus=8))
    beat(world)
    assert why(world, "t5").fix.words == "move `c` off `c-1`: it fits elsewhere"


def test_part_of_a_gang_is_not_started():
    """Three of four nodes are free: the gang waits whole, and says how many replicas would fit."""
    world = fleet(nodes=4)
    submit(world, job("r0", gpus=8))
    beat(world)
    submit(world, job("t5", gpus=32))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.layer) == ("partial_gang", 3)
    assert fact(answer, "replicas that fit") == 3
    assert "do not start 3 of its 4 replicas: they would hold 24 accel" in answer.do_not
    assert answer.other_fixes[-1].words == "request 3 replicas of 8 GPUs instead: that starts now"


def test_roles_of_a_gang_are_counted_beside_each_other():
    """Twelve are free for 8 + 2×4: either role fits alone, and one replica of 4 beside the other.

    What starts instead is placed by the scheduler, and says what it leaves out.
    """
    world = fleet(nodes=2)
    submit(world, job("r0", gpus=4))
    beat(world)
    submit(world, job("t5", roles=[role(gpus=8), role(2, gpus=4)]))
    beat(world)
    answer = why(world, "t5")
    assert answer.cause == "partial_gang"
    assert "1 of 2 replicas of 4 would fit now beside 1 replica of 8; " in answer.words
    assert "needs 1 replica of 8 and 2 replicas of 4" in answer.words
    assert "1 replica of 8 and 1 replica of 4 would hold 12 accel" in answer.do_not
    (instead,) = (fix.instead for fix in answer.other_fixes if fix.instead)
    assert instead.words == "4 GPUs beside 1 replica of 8, 4 GPUs fewer"
    assert instead.shape is not None
    submit(world, job("t6", roles=instead.shape.roles))
    beat(world)
    assert {piece.role for piece in world.placements[world.job_number["t6"]]} == {0, 1}


def test_a_quota_keeps_free_accelerators_from_a_team():
    """The team's maximum quota is reached while others are free: raising it lets it start."""
    world = fleet(nodes=4, teams=[team("a", limit=16)])
    submit(world, job("r0", gpus=16))
    beat(world)
    submit(world, job("t5", gpus=8))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.layer) == ("over_limit", 3)
    assert (fact(answer, "team use"), fact(answer, "team limit")) == (16_000, 16_000)
    assert (
        "uses 16 of its maximum quota of 16 `H100`; with this job it would use 24" in answer.words
    )
    raised = "raise the maximum quota of team `a` from 16 to 24 `H100`: then it starts at once"
    assert answer.fix.words == raised
    assert answer.do_not == (
        "do not buy: 16 accelerators are free, and more do not raise the maximum quota of team `a`"
    )
    assert {group.verdict for group in answer.nodes} == {"limit", "devices"}


@pytest.mark.parametrize(
    ("cpu", "memory", "cause", "resource"),
    [(1_000, 0, "cpu_binds", "CPU"), (0, 1024, "memory_binds", "memory")],
)
def test_another_resource_binds(cpu: int, memory: int, cause: str, resource: str):
    """Accelerators are free, but the cores or the memory beside them are not."""
    world = fleet(contract(gpus=16, cpu_milli=64_000, memory_mib=128 * 1024))
    for name in ("r0", "r1"):
        submit(world, job(name, gpus=2, cpu_milli=60 * cpu, memory_mib=124 * memory))
    beat(world)
    submit(world, job("t5", gpus=4, cpu_milli=32 * cpu, memory_mib=64 * memory))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.layer) == (cause, 3)
    assert answer.do_not == (
        f"do not buy accelerators: 12 accelerators are free, {resource} is what is missing"
    )
    assert fact(answer, f"most free {resource}") == 4 * (1000 if resource == "CPU" else 1024)
    assert {group.verdict for group in answer.nodes} == {resource.lower()}


def test_behind_a_held_queue():
    """A job that lost its patience is passed by nobody; whoever waits behind it is told by whom."""
    world = fleet(nodes=2)
    submit(world, job("r0", gpus=8))
    beat(world, PATIENT)
    submit(world, job("big", gpus=16))
    beat(world, PATIENT)
    pass_ms(world, 2 * HOUR_MS)
    submit(world, job("t5", gpus=4))
    beat(world, PATIENT)
    answer = why(world, "t5", PATIENT)
    assert (answer.cause, answer.layer, answer.jobs_ahead) == ("behind", 3, 1)
    assert fact(answer, "holder waited") == 2 * HOUR_MS
    assert "held for `big`: `H100`, 8 free" in answer.words
    assert "1 job ahead, requesting 16 (`big`)" in answer.words
    assert answer.fix.words == "wait: `big` goes first"
    raised = "submit it with priority 1 instead: it then starts at once, before `big`"
    assert answer.other_fixes[0].words == raised


def test_behind_a_held_queue_what_can_never_fit_still_cannot():
    """L4 is asked before L3: an impossible job is not told to wait for the one that holds."""
    world = fleet(nodes=2)
    submit(world, job("r0", gpus=8))
    beat(world, PATIENT)
    submit(world, job("big", gpus=16))
    beat(world, PATIENT)
    pass_ms(world, 2 * HOUR_MS)
    submit(world, job("t5", gpus=16, per_node=16))
    beat(world, PATIENT)
    answer = why(world, "t5", PATIENT)
    assert (answer.cause, answer.layer) == ("impossible_size", 4)
    rows = {row.cause: row.jobs for row in explain.board(world, PATIENT).rows}
    assert rows == {"partial_gang": 1, "impossible_size": 1}


def test_room_is_being_made():
    """A higher priority evicts a lower one; until it has left, the heir knows who leaves for it."""
    world = fleet(nodes=1)
    submit(world, job("low", gpus=8, saves_every_ms=HOUR_MS))
    beat(world)
    pass_ms(world, 15 * MINUTE_MS)
    submit(world, job("t5", gpus=8, priority=5))
    expected = why(world, "t5")
    beat(world)
    answer = why(world, "t5")
    assert (expected.cause, answer.cause, answer.layer) == ("promised", "promised", 3)
    assert expected.evidence[0].words == "the next cycle preempts 1 job for it: `low`"
    assert answer.evidence[0].words == "1 job is being preempted for it: `low`"
    assert answer.fix.lost_milli_ms == 8_000 * 15 * MINUTE_MS
    assert answer.fix.lost_usd_micro == 4 * DOLLAR


def test_spares_are_idle_by_design_and_say_so():
    """The only free node is a spare: it is shown as withheld, and releasing it is the first fix."""
    world = fleet(contract(gpus=16, spares=1))
    submit(world, job("r0", gpus=8))
    beat(world)
    submit(world, job("t5", gpus=8))
    beat(world)
    answer = why(world, "t5")
    assert (answer.cause, answer.withheld[0].place) == ("busy", "spare")
    assert answer.withheld[0].words == "8 spare on 1 node (`c-1`), paid $16.00 an hour"
    assert answer.fix.words == (
        "release hot spares: 8 of 16 that it could use are idle as spares (`c-1`); set `spares`"
        " of contract `c` lower, and there is no reserve when a node fails"
    )
    assert answer.fix.usd_micro_per_hour is None, "nobody knows what a reserve is worth"


def test_a_job_that_fits_now_is_told_so():
    """Before the next cycle has looked at it, a job that fits is told that it will be placed."""
    world = fleet(nodes=1)
    submit(world, job("t5", gpus=8))
    answer = why(world, "t5")
    assert (answer.cause, answer.said) == ("none", "none")
    assert [q.answer for q in answer.questions] == ["yes"] * 4
    assert answer.fix.words == "wait: the next cycle places it"


def test_the_role_that_is_short_is_the_one_explained():
    """Of two roles the second does not fit; the numbers are about that one."""
    world = fleet(contract("c", gpus=8), contract("d", gpus=8, kind="A100"))
    submit(world, job("r0", gpus=8, kinds=["A100"]))
    beat(world)
    roles = [
        role(name="actor", gpus=4, kinds=["H100"]),
        role(name="critic", gpus=4, kinds=["A100"]),
    ]
    submit(world, job("t5", roles=roles))
    beat(world)
    answer = why(world, "t5")
    assert answer.cause == "busy"
    assert fact(answer, "busy") == 8_000
    assert answer.evidence[0].words == "8 `A100` busy"


def test_a_job_that_does_not_wait_says_where_it_is():
    """A running job is not explained away: it says since when and on which nodes."""
    world = fleet(nodes=1)
    submit(world, job("r0", gpus=8))
    beat(world)
    pass_ms(world, HOUR_MS)
    answer = explain.why(world, DEFAULTS, 0)
    assert (answer.state, answer.questions) == ("running", ())
    assert answer.words == "job `r0` does not wait: it began to run 1h ago, on `c-0`"
    fold(world, ev.JobFinished(world.now_ms, 0, 1))
    assert explain.why(world, DEFAULTS, 0).words == "job `r0` does not wait: it finished 0s ago"
