"""Whatever is offered is placed by the scheduler when it is submitted; what is advised works.

Random fleets and moments, every policy: each offer of `why` and `fit` is submitted to the real
cycle, as it stands in the answer, and each raise of a quota is set.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.builders import (
    DEFAULTS,
    beat,
    contract,
    decide,
    fleet,
    job,
    pass_ms,
    placed,
    queue,
    submit,
    team,
)
from tests.engine.stage import Player, Script
from tests.explain.test_agreement import racked, story
from tidemill import explain
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.explain.answers import Alternative, Answer, PricedFix
from tidemill.explain.trials import row
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Job, Queue, Share
from tidemill.model.states import JobClass, NodeState
from tidemill.model.world import World

POLICIES = {
    "default": Policy(patience_ms=20 * MINUTE_MS),
    "no backfill": Policy(backfill="none", patience_ms=20 * MINUTE_MS),
    "conservative": Policy(backfill="conservative"),
    "shortest": Policy(order="shortest"),
    "fair": Policy(fairness="drf", placement="pack"),
}


def is_placed(world: World, policy: Policy, wanted: Job, without: int) -> bool:
    """Whether a job, submitted now into a copy, is in the plan of the next cycle."""
    world = snapshot.copy(world)
    if without >= 0:
        fold(world, ev.JobCancelled(world.now_ms, without))
    submit(world, replace(wanted, name="instead"))
    return "instead" in placed(world, decide(world, policy))


def offered(answer: Answer) -> Iterator[Alternative]:
    """Everything that an answer offers instead of the job."""
    if answer.certificate is not None:
        yield from answer.certificate.fits_now
    yield from (fix.instead for fix in fixes(answer) if fix.instead is not None)


def fixes(answer: Answer) -> tuple[PricedFix, ...]:
    """All fixes of an answer."""
    return (answer.fix, *answer.other_fixes)


def as_asked(world: World, j: int, made: Alternative) -> Job:
    """The job as the offer says to submit it."""
    assert made.shape is not None
    return row(world, j, made.shape, made.estimate_ms)


def next_larger(world: World, j: int, made: Alternative) -> Job | None:
    """The job with one replica, or one GPU, more than is offered; None: that is not what changed,
    or it is what was requested.
    """
    shape = made.shape
    if shape is None or made.change not in ("fewer replicas", "fewer accelerators"):
        return None
    was = world.shape_of(j)
    (r,) = [r for r, role in enumerate(shape.roles) if role != was.roles[r]]
    role, field = shape.roles[r], "count" if made.change == "fewer replicas" else "accelerators"
    if getattr(role, field) + 1 == getattr(was.roles[r], field):
        return None
    role = replace(role, **{field: getattr(role, field) + 1})
    return row(world, j, replace(shape, roles=(*shape.roles[:r], role, *shape.roles[r + 1 :])))


def tight(script: Script) -> Script:
    """The same story with small maximum quotas, which nobody changes."""
    kinds = sorted({row.kind for row in script.contracts})
    parents = {row.parent for row in script.teams}

    def bound(row: Queue) -> Queue:
        floors = {share.kind: share.floor_milli for share in row.shares}
        shares = (Share(kind, floors.get(kind, 0), 12_000 + floors.get(kind, 0)) for kind in kinds)
        return row if row.name in parents else replace(row, shares=tuple(shares))

    left = [event for event in script.incidents if not isinstance(event, ev.QueueSet)]
    teams = [bound(row) for row in script.teams]
    return dataclasses.replace(script, teams=teams, incidents=left)


def looks(
    seed: int, policy: Policy, *, is_tight: bool = False
) -> Iterator[tuple[World, int, Answer]]:
    """Some waiting jobs at some moments of a story, also between events, and their answers."""
    script = story(seed, policy)
    script = tight(script) if is_tight else script
    arrivals = [
        a._replace(job=replace(a.job, estimate_ms=a.work_ms * (1 + i % 3)))
        for i, a in enumerate(script.arrivals)
    ]
    player = Player(racked(dataclasses.replace(script, arrivals=arrivals)))
    seen: list[tuple[World, int, Answer]] = []
    beats = 0

    def look(at_ms: int) -> None:
        nonlocal beats
        beats += 1
        if beats % 23 or at_ms > 8 * HOUR_MS:
            return
        world = snapshot.copy(player.world)
        pass_ms(world, beats % 7 * MINUTE_MS)
        waiting = [j for s in world.queued for j in world.waiting[s]]
        seen.extend((world, j, explain.why(world, policy, j)) for j in waiting[beats % 3 :: 5])

    player.run(on_beat=look)
    yield from seen


@pytest.mark.parametrize("name", POLICIES)
def test_every_offer_is_placed_when_it_is_submitted(name: str):
    """What `why` offers is placed at once, and beside the original unless it says otherwise.

    Of sizes it offers one of which the next larger is not placed, and not half of what would be.
    """
    policy, count = POLICIES[name], Counter[str]()
    for seed in (3, 4):
        for world, j, answer in looks(seed, policy):
            for made in offered(answer):
                wanted = as_asked(world, j, made)
                assert is_placed(world, policy, wanted, j), (world.now_ms, answer.job, made.words)
                beside = is_placed(world, policy, wanted, -1)
                assert beside != made.needs_cancel, (world.now_ms, answer.job, made.words)
                count[made.change] += 1
                larger = next_larger(world, j, made)
                if larger is not None and not answer.untried:
                    assert not is_placed(world, policy, larger, j), (answer.job, made.words)
    assert len(count) >= 3, f"the stories are too simple: {count}"


def test_every_raise_of_a_quota_does_what_it_says():
    """A maximum quota raised as advised lets the job start at once, wherever the advice says so."""
    tried = 0
    for policy in (POLICIES["default"], POLICIES["conservative"]):
        for world, _, answer in looks(5, policy, is_tight=True):
            for fix in fixes(answer):
                if fix.sets and "starts at once" in fix.words:
                    raised = snapshot.copy(world)
                    fold_all(raised, [ev.QueueSet(raised.now_ms, row) for row in fix.sets])
                    assert answer.job in placed(raised, decide(raised, policy)), fix.words
                    tried += 1
    assert tried, "no maximum quota kept anybody out"


def test_what_fit_offers_and_promises_is_placed():
    """`fit`: what "runs now" is placed now, and so is what would run now instead."""
    policy, verdicts = POLICIES["default"], Counter[str]()
    for world, j, _ in list(looks(6, policy))[::3]:
        shape = replace(world.shape_of(j), priority=0)
        asked = replace(row(world, j, shape), name="asked")
        found = explain.fit(world, policy, asked)
        verdicts[found.verdict] += 1
        assert (found.verdict == "now") == is_placed(world, policy, asked, -1)
        for made in found.certificate.fits_now if found.certificate else ():
            assert made.shape is not None
            wanted = replace(asked, shape=made.shape)
            assert is_placed(world, policy, wanted, -1), (world.now_ms, made.words)
    assert len(verdicts) >= 2, verdicts


# Backfill -------------------------------------------------------------------------------------


def test_what_backfill_would_keep_waiting_is_not_offered():
    """Two of four nodes are free, but held for a gang: a long 2×8 would wait, and is not offered.

    With a run time that ends before the reservation it would pass; that is what is offered.
    """
    world = fleet(nodes=4)
    submit(world, job("runs", gpus=16, estimate_ms=4 * HOUR_MS))
    beat(world)
    submit(world, job("big", gpus=32, estimate_ms=HOUR_MS))
    beat(world)
    submit(world, job("t5", gpus=16, estimate_ms=12 * HOUR_MS))
    beat(world)
    big = explain.why(world, DEFAULTS, world.job_number["big"])
    assert big.cause == "partial_gang"
    for made in offered(big):
        assert is_placed(world, DEFAULTS, as_asked(world, 1, made), 1)
    answer = explain.why(world, DEFAULTS, world.job_number["t5"])
    assert answer.cause == "reserved"
    shorter = [fix for fix in fixes(answer) if fix.instead and fix.instead.change == "estimate"]
    assert "if it runs for 4h or less, submit it with that estimate" in shorter[0].words


# Maximum quota --------------------------------------------------------------------------------


def test_a_raise_counts_the_jobs_of_the_team_that_go_first():
    """Two equal jobs wait for one quota: for the second it has to be raised by both."""
    world = fleet(nodes=6, teams=[team("a", limit=16)])
    submit(world, job("runs", gpus=16))
    beat(world)
    submit(world, job("first", gpus=8), job("second", gpus=8))
    beat(world)
    answer = explain.why(world, DEFAULTS, world.job_number["second"])
    assert "from 16 to 32 `H100`" in answer.fix.words
    assert "8 of it for jobs of its team that go first" in answer.fix.words
    fold_all(world, [ev.QueueSet(world.now_ms, row) for row in answer.fix.sets])
    assert {"first", "second"} <= placed(world, decide(world)).keys()


def test_a_raise_that_is_taken_by_others_says_so_afterwards():
    """After a raise by one job's need, the second hears who takes it first, and what it needs."""
    world = fleet(nodes=6, teams=[team("a", limit=16)])
    submit(world, job("runs", gpus=16))
    beat(world)
    submit(world, job("first", gpus=8), job("second", gpus=8))
    beat(world)
    fold(world, ev.QueueSet(world.now_ms, team("a", limit=24)))
    answer = explain.why(world, DEFAULTS, world.job_number["second"])
    assert answer.cause == "over_limit"
    assert "the next cycle places `first` before it" in answer.words
    assert "from 24 to 32 `H100`" in answer.fix.words
    rows = {row.cause: row.words for row in explain.board(world, DEFAULTS).rows}
    assert "starts in the next scheduling cycle" in rows["none"]


def test_a_raise_names_every_level_that_binds():
    """A team and the one above it are both at their maximum: both have to be raised."""
    teams = [queue("lab", limit=16), queue("a", parent="lab", limit=16)]
    world = fleet(nodes=4, teams=teams)
    submit(world, job("runs", gpus=16))
    beat(world)
    submit(world, job("t5", gpus=8))
    beat(world)
    fix = explain.why(world, DEFAULTS, world.job_number["t5"]).fix
    assert {row.name for row in fix.sets} == {"lab", "a"}
    fold_all(world, [ev.QueueSet(world.now_ms, row) for row in sorted(fix.sets, key=str)])
    assert "t5" in placed(world, decide(world))


def test_a_raise_that_does_not_help_says_what_else_keeps_it_out():
    """Quota and GPUs are both used up: raising the quota is not said to start it."""
    world = fleet(nodes=4, teams=[team("a", limit=16), team("b")])
    submit(world, job("runs", gpus=16), job("others", gpus=16, team="b"))
    beat(world)
    submit(world, job("t5", gpus=8))
    beat(world)
    answer = explain.why(world, DEFAULTS, world.job_number["t5"])
    assert answer.cause == "over_limit"
    lift = next(fix for fix in fixes(answer) if fix.sets)
    assert "then it still waits, because not enough is free" in lift.words
    assert not answer.fix.sets


# Guaranteed quota -----------------------------------------------------------------------------


def test_a_team_below_its_guarantee_hears_who_holds_it():
    """Guaranteed 8, uses 0, held by work that may not be preempted: says all of it, until when."""
    world = fleet(nodes=2, teams=[team("a"), team("b", floor=8)])
    submit(world, job("svc", gpus=16, estimate_ms=5 * HOUR_MS, is_preemptible=False))
    beat(world)
    pass_ms(world, HOUR_MS)
    submit(world, job("t5", gpus=8, team="b"))
    beat(world)
    answer = explain.why(world, DEFAULTS, world.job_number["t5"])
    assert answer.cause == "busy"
    assert (
        "team `b` is guaranteed 8 `H100` and uses 0; held above their own guarantee by `svc` of"
        " team `a` (16 GPUs, not preemptible, ends in about 4h by its estimate)"
    ) in answer.words
    assert answer.fix.words == (
        "wait until `svc` ends (ends in about 4h by its estimate): it holds 16 `H100` and may not"
        " be preempted"
    )


# Spares, CPU, memory --------------------------------------------------------------------------


def test_spares_that_would_do_are_named_first_and_do():
    """24 of 32 are spares: releasing them is the first fix, and with fewer spares it starts."""
    for spares, starts in ((3, False), (2, True)):
        world = fleet(contract(gpus=32, spares=spares))
        submit(world, job("runs", gpus=8))
        beat(world)
        submit(world, job("t5", gpus=8))
        assert ("t5" in placed(world, decide(world))) == starts
    world = fleet(contract(gpus=32, spares=3))
    submit(world, job("runs", gpus=8))
    beat(world)
    submit(world, job("t5", gpus=8))
    beat(world)
    fix = explain.why(world, DEFAULTS, world.job_number["t5"]).fix
    assert fix.words.startswith("release hot spares: 24 of 32 that it could use are idle")
    assert "set `spares` of contract `c` lower" in fix.words


def test_spares_are_named_first_only_to_the_job_that_they_would_start():
    """Two jobs of a node each wait, one node is spare: without spares only the first starts."""
    answers = {}
    for spares in (1, 0):
        world = fleet(contract(gpus=16, spares=spares))
        submit(world, job("runs", gpus=8))
        beat(world)
        submit(world, job("first", gpus=8), job("second", gpus=8))
        if not spares:
            assert set(placed(world, decide(world))) == {"first"}
            continue
        beat(world)
        answers = {
            name: explain.why(world, DEFAULTS, world.job_number[name])
            for name in ("first", "second")
        }
    assert answers["first"].fix.words.startswith("release hot spares")
    assert answers["second"].fix.words.startswith("wait until some of the 8")
    assert answers["second"].other_fixes[0].words.startswith("release hot spares")


def test_uncordoning_is_named_first_only_to_the_job_that_it_would_start():
    """The same for a node that is cordoned."""
    world = fleet(contract(gpus=16))
    submit(world, job("runs", gpus=8))
    beat(world)
    fold(world, ev.NodeMoved(world.now_ms, 1, NodeState.CORDONED))
    submit(world, job("first", gpus=8), job("second", gpus=8))
    beat(world)
    first, second = (
        explain.why(world, DEFAULTS, world.job_number[name]) for name in ("first", "second")
    )
    assert first.fix.words.startswith("uncordon")
    assert second.fix.words.startswith("wait until some of the 8")
    fold(world, ev.NodeMoved(world.now_ms, 1, NodeState.READY))
    assert set(placed(world, decide(world))) == {"first"}


def test_uncordoning_says_what_keeps_the_job_out_then():
    """The only node is cordoned, and another job goes first: that one takes it."""
    world = fleet(contract(gpus=8))
    fold(world, ev.NodeMoved(world.now_ms, 0, NodeState.CORDONED))
    submit(world, job("first", gpus=8), job("second", gpus=8))
    beat(world)
    first, second = (
        explain.why(world, DEFAULTS, world.job_number[name]).fix.words
        for name in ("first", "second")
    )
    assert first == "uncordon `c-0`: 8 accelerators are free there"
    assert second == (
        f"{first}; then it still waits, because not enough is free; 1 job ahead of it"
    )


@pytest.mark.parametrize("is_cpu", [True, False])
def test_who_holds_the_cores_or_the_memory_is_named(is_cpu: bool):
    """GPUs are free and their host is not: the job that holds it is named, and until when."""
    world = fleet(contract(gpus=8, cpu_milli=64_000, memory_mib=64 * 1024))
    cpu, memory = (60_000, 0) if is_cpu else (0, 60 * 1024)
    eats = job("eats", gpus=1, cpu_milli=cpu, memory_mib=memory, estimate_ms=3 * HOUR_MS)
    submit(world, eats)
    beat(world)
    pass_ms(world, HOUR_MS)
    submit(world, job("t5", gpus=4, cpu_milli=cpu // 2, memory_mib=memory // 2))
    beat(world)
    answer = explain.why(world, DEFAULTS, world.job_number["t5"])
    unit = "cores" if is_cpu else "GiB"
    held = f"held by `eats` of team `a` (60 {unit}, ends in about 2h by its estimate)"
    assert held in answer.words
    assert answer.fix.words.startswith("wait until `eats` ends (ends in about 2h")


# Being passed ---------------------------------------------------------------------------------


def test_a_job_that_others_pass_hears_how_many_and_what_ends_it():
    """A gang that small jobs pass is told how many came later and were placed, and the guard."""
    policy = Policy(backfill="none", patience_ms=24 * HOUR_MS)
    world = fleet(nodes=2)
    submit(world, job("runs", gpus=8))
    beat(world, policy)
    submit(world, job("gang", gpus=16))
    beat(world, policy)
    for i in range(7):
        submit(world, job(f"small{i}", gpus=1))
        beat(world, policy)
        pass_ms(world, MINUTE_MS)
    answer = explain.why(world, policy, world.job_number["gang"])
    assert {fact.name: fact.value for fact in answer.evidence}["passed by"] == 7
    assert (
        "7 jobs submitted later were placed while it waited; the starvation guard ends that"
        " in 23h 53m (policy `patience`: 1d)"
    ) in answer.words


def test_a_job_hears_when_the_guard_protects_it_not_only_that_it_does():
    """After three days of waiting "the guard ends that (1d)" was no answer: its clock begins when
    the job is first in the queue and passed; then it is said how long that still takes.
    """
    world = fleet(nodes=2)
    submit(world, job("runs", gpus=8, estimate_ms=HOUR_MS))
    beat(world)
    submit(world, job("first", gpus=16), job("second", gpus=16, cpu_milli=1))
    beat(world)
    for hours in (0, 30):
        pass_ms(world, hours * HOUR_MS)
        submit(world, job(f"small{hours}", gpus=1, estimate_ms=MINUTE_MS))
        beat(world)
        jobs = (world.job_number[name] for name in ("first", "second"))
        told = [explain.why(world, DEFAULTS, j).words for j in jobs]
        ends = "6h ago the starvation guard ended that (" if hours else "guard ends that in 1d ("
        assert ends in told[0]
        assert "guard ends that 1d after it comes first in the queue and is passed" in told[1]


def test_jobs_that_do_nothing_are_a_fix_only_if_the_job_then_starts():
    """Two idle notebooks on two nodes free no node for a job of eight, although eight are enough;
    to cancel them came first, with no word that it does not help. Each fix is tried here.
    """
    world = fleet(nodes=2)
    books = [job(f"book{i}", gpus=g, kind=JobClass.INTERACTIVE) for i, g in enumerate((4, 4, 1))]
    submit(world, *books[:2], job("works", gpus=8))
    beat(world)
    for name in ("book0", "book1"):
        fold(world, ev.ActivitySeen(world.now_ms, world.job_number[name], 1, 0))
    submit(world, job("waits", gpus=8))
    beat(world)
    both = explain.why(world, DEFAULTS, world.job_number["waits"])
    assert both.fix.words.startswith("cancel `book0` and `book1`: 8 accelerators held")
    fold(world, ev.ActivitySeen(world.now_ms, world.job_number["book0"], 1, 1_000_000))
    one = explain.why(world, DEFAULTS, world.job_number["waits"])
    assert one.fix.words.startswith("wait until")
    assert one.other_fixes[0].words == (
        "cancel `book1`: 4 accelerators held and not used; that alone does not start it"
    )


def test_a_quota_that_is_not_all_that_keeps_a_job_out_says_so():
    """16 of 24 held by others: with the end of its team's jobs, or a raise, it still waits."""
    world = fleet(contract(gpus=24), teams=[team("a", limit=16), team("b")])
    submit(world, job("mine", gpus=4, team="a"), job("theirs", gpus=16, team="b"))
    beat(world)
    submit(world, job("big", gpus=16, team="a"))
    beat(world)
    answer = explain.why(world, DEFAULTS, world.job_number["big"])
    assert answer.fix.words == (
        "wait until jobs of team `a` end: it uses 4; the quota is not all that keeps it out:"
        " not enough is free"
    )
    fold(world, ev.JobFinished(world.now_ms, world.job_number["mine"], 1))
    assert "big" not in placed(world, decide(world))


def test_a_job_that_a_quota_keeps_out_hears_which_guard_is_its_own():
    """Its own team is held behind it `hold_after` it was passed by one of them; others never."""
    policy = Policy(hold_after_ms=HOUR_MS)
    world = fleet(contract(gpus=16), teams=[team("a", limit=8), team("b")])
    submit(world, job("mine", gpus=4, team="a"))
    beat(world, policy)
    submit(world, job("big", gpus=8, team="a"))
    beat(world, policy)
    submit(world, job("early", gpus=1, team="a"), job("other", gpus=1, team="b"))
    beat(world, policy)
    pass_ms(world, HOUR_MS)
    submit(world, job("late", gpus=1, team="a"), job("another", gpus=1, team="b"))
    assert set(placed(world, beat(world, policy))) == {"another"}
    answer = explain.why(world, policy, world.job_number["big"])
    assert (
        "3 jobs submitted later were placed while it waited; 0s ago the starvation guard ended that"
        " for jobs under the same maximum quota only (policy `hold_after`: 1h)"
    ) in answer.words


def test_waiting_is_no_fix_where_services_hold_the_maximum_quota():
    """A service holds one of eight for ever: a job of eight within that quota never starts by
    waiting, which was the first fix; the raise is, and then it starts.
    """
    world = fleet(contract(gpus=16), teams=[team("a", limit=8)])
    submit(world, job("serves", gpus=1, team="a", kind=JobClass.INFERENCE))
    beat(world)
    submit(world, job("big", gpus=8, team="a"))
    beat(world)
    answer = explain.why(world, DEFAULTS, world.job_number["big"])
    assert not [fix for fix in (answer.fix, *answer.other_fixes) if "wait until" in fix.words]
    assert answer.fix.words.endswith("from 8 to 9 `H100`: then it starts at once")
    fold(world, ev.QueueSet(world.now_ms, answer.fix.sets[0]))
    assert "big" in placed(world, decide(world))


def test_a_gang_that_does_not_fit_beside_services_hears_that_no_guard_ends_it():
    """The scheduler holds nobody behind it, so it is not told that passing ends."""
    policy = Policy(patience_ms=HOUR_MS, hold_after_ms=2 * HOUR_MS)
    world = fleet(nodes=2)
    submit(world, job("serves", gpus=1, kind=JobClass.INFERENCE))
    beat(world, policy)
    submit(world, job("gang", gpus=16))
    beat(world, policy)
    pass_ms(world, 3 * HOUR_MS)
    submit(world, job("small", gpus=1))
    assert set(placed(world, beat(world, policy))) == {"small"}
    answer = explain.why(world, policy, world.job_number["gang"])
    assert "the starvation guard does not end that" in answer.words
