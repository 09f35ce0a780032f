"""Decisions by stage: what is told of a placement is what the scheduler did, for every one of them.

The stories of ``tests/engine`` have everything in them: gangs, roles, fractions, MIG instances,
topology, trees of teams, backfill, preemption, moves, elastic jobs, orders that stop running jobs,
and all placement scores.
"""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from bench import decisions
from bench.decisions import explained
from tests.builders import DEFAULTS, contract, fleet, job, opening, role, submit, team
from tests.cli.conftest import TINY
from tests.engine.stories import played, replayable, seeds
from tests.explain import decision_oracle
from tests.explain.test_speed import NODES, WAITING, crowd
from tests.scheduling import score_oracle
from tidemill import api
from tidemill.core import snapshot
from tidemill.engine import cycle as one
from tidemill.engine.fold import earlier
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.explain.decision import reading, scores, stages
from tidemill.explain.decision.answers import Decision, Ranking
from tidemill.explain.decision.history import JobHistory, What
from tidemill.explain.decision.noting import NotingRoom
from tidemill.explain.rerun import Glance
from tidemill.journal import open_journal
from tidemill.journal.memory import MemoryJournal
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Piece
from tidemill.model.states import JobClass, JobState, NodeState
from tidemill.model.world import World
from tidemill.scheduling import elastic
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemptive_order.apply import may_reorder
from tidemill.scheduling.scores.codes import BITS, PACK
from tidemill.scheduling.scores.kernels import PACK_NODE, TIDE_ZERO
from tidemill.scheduling.scores.tables import Tables

SEEDS = 18
AT_FIRST = {"state", "spare", "gpu_type", "labels", "taints", "affinity", "free_gpus", "cpu",
            "memory", "devices"}  # fmt: skip
"""Filters that ask a node for itself."""


class Case(NamedTuple):
    """A placement of a story: the state before its plan, the event, and what is told of it."""

    seed: int
    policy: Policy
    before: World
    earlier: tuple[ev.Event, ...]
    """What the same plan did before it."""
    event: ev.AskedPlace
    told: Decision


def plans(events: list[ev.Event]) -> Iterator[tuple[World, list[ev.Event]]]:
    """Each plan of a story, with the state from which it was made."""
    world, plan = World(), list[ev.Event]()
    for event in events:
        if not isinstance(event, ev.Action) and plan:
            yield world, plan
            fold_all(world, plan)
            plan = []
        if isinstance(event, ev.Action):
            plan.append(event)
        else:
            fold(world, event)
    yield world, plan


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Every placement of some stories, explained."""
    found = []
    for seed in seeds(SEEDS):
        with replayable(seed):
            player = played(seed)
            for world, plan in plans(list(player.kept)):
                for i, event in enumerate(plan):
                    if isinstance(event, ev.AskedPlace):
                        told = explained(world, player.policy, event)
                        earlier = tuple(plan[:i])
                        before = snapshot.copy(world)
                        found.append(Case(seed, player.policy, before, earlier, event, told))
    return found


def test_the_stories_have_every_way_to_choose_a_place(cases: list[Case]):
    """Scores, sweeps, whole gangs, MIG instances, topology domains; with and without reordering."""
    ways = {row.way for case in cases for row in case.told.scores}
    assert ways >= {"scores", "pack", "spread", "fewest", "mig", "domain"}
    assert len({may_reorder(case.policy) for case in cases}) == 2
    assert any(row.is_beside for case in cases for row in case.told.bind.reservations)  # type: ignore[union-attr]
    assert len(cases) > 200


def test_the_winner_that_is_named_is_where_the_scheduler_put_it(cases: list[Case]):
    """For every placement: run again it is the same, and the first of the best was taken."""
    for case in cases:
        with replayable(case.seed):
            world, told = case.before, case.told
            assert not told.unknown
            assert len(told.scores) == len(world.shape_of(case.event.job).roles)
            for r, row in enumerate(told.scores):
                first = next(piece for piece in case.event.pieces if piece.role == r)
                assert row.candidates[0].is_taken
                name = world.node_rows[first.node].name
                if row.of == "domain":
                    assert is_inside(world, case.event, r, row.candidates[0].name)
                else:
                    assert row.candidates[0].name.split(" device ")[0] == name
                    assert taken(row) == on_pieces(world, case.event, r, row) & {
                        one.name for one in row.candidates
                    }


def taken(row: Ranking) -> set[str]:
    """The candidates that are marked."""
    return {one.name for one in row.candidates if one.is_taken}


def on_pieces(world: World, event: ev.AskedPlace, r: int, row: Ranking) -> set[str]:
    """The nodes, or devices, that a role was put on."""
    found = set[str]()
    for piece in event.pieces:
        if piece.role == r:
            name = world.node_rows[piece.node].name
            bits = [d for d in range(64) if piece.devices >> d & 1]
            found |= {f"{name} device {d}" for d in bits} if row.of == "device" else {name}
    return found


def test_all_nodes_of_a_gang_are_marked():
    """A gang on three nodes took three."""
    world = fleet(nodes=3)
    submit(world, job("gang", gpus=24))
    (event,) = [a for a in one.cycle(world, DEFAULTS, one.CycleMemo()).actions
                if isinstance(a, ev.AskedPlace)]  # fmt: skip
    (row,) = explained(world, DEFAULTS, event).scores
    assert len(row.candidates) == 3
    assert all(candidate.is_taken for candidate in row.candidates)


def is_inside(world: World, event: ev.AskedPlace, r: int, name: str) -> bool:
    """Whether a piece of a role lies in a domain that is called so."""
    tier, value = name.split(" ", 1)
    for piece in event.pieces:
        row = world.node_rows[piece.node]
        contract = next(c for c in world.contract_rows if c.name == row.contract)
        label = next((t.label for t in world.topology.tiers if t.name == tier), "")
        labels = dict((*contract.node.labels, *row.labels))
        if piece.role == r and value in (row.name, labels.get(label)):
            return True
    return False


def test_what_filters_remove_and_leave_adds_up(cases: list[Case]):
    """All nodes that are not gone are removed by exactly one filter, or left; and some are left."""
    for case in cases:
        here = case.before.nodes.state[: case.before.node_count] != NodeState.GONE
        for row in case.told.filters:
            assert row.nodes == here.sum() == sum(f.nodes for f in row.removed) + row.remaining
            assert row.remaining > 0
            assert row.hosts == row.replicas


def test_filters_count_as_a_naive_reader_does(cases: list[Case]):
    """Node by node in plain Python: the same numbers, filter by filter, for the first role."""
    compared = Counter[str]()
    for case in cases:
        assert case.told.bind is not None
        kept = any(row.is_beside for row in case.told.bind.reservations)
        if may_reorder(case.policy) or kept:
            continue  # what is free there is not what the state has
        world = fold_all(snapshot.copy(case.before), case.earlier)
        shape = elastic.as_placed(world.shape_of(case.event.job), case.event.pieces)
        naive = decision_oracle.removed(world, shape.team, shape.roles[0])
        told = Counter({row.filter: row.nodes for row in case.told.filters[0].removed})
        with replayable(case.seed):
            for name in {*AT_FIRST, "quota"}:
                assert told[name] == naive[name], (name, told, naive)
        compared.update(naive)
    assert {"state", "spare", "gpu_type", "labels", "free_gpus", "cpu", "devices", "quota"} <= {
        *compared
    }


def test_a_waiting_job_waits_for_what_the_scheduler_says():
    """At every plan of the stories: the cause is that of a whole cycle that remembers nothing."""
    causes = Counter[str]()
    for seed in seeds(8):
        with replayable(seed):
            player = played(seed)
            for before, plan in plans(list(player.kept)):
                world = fold_all(snapshot.copy(before), plan)
                if not world.queued or may_reorder(player.policy):
                    continue
                said = causes_of(world, player.policy)
                for s in list(world.queued)[:2]:
                    j = world.waiting[s][0]
                    history = JobHistory(j, s, world.jobs.submit_ms.item(j))
                    told = stages.waits(world, player.policy, j, history)
                    if told.cause != "none":  # the next cycle places it
                        assert told.cause == said[s].name.lower()
                    causes[told.cause] += 1
                    for row in told.filters:
                        assert sum(f.nodes for f in row.removed) + row.remaining == row.nodes
    assert len(causes) > 5


def causes_of(world: World, policy: Policy) -> dict[int, Cause]:
    """Why each shape waits, by a cycle that begins anew."""
    plan = one.cycle(world, policy, one.CycleMemo())
    found = {s: Cause(world.shapes.cause.item(s)) for s in world.queued}
    return found | {a.shape: a.cause for a in plan.actions if isinstance(a, ev.CauseChanged)}


SMALL = role(1, gpus=1, milli=300, cpu_milli=2)
SCORES = (("tide", "best-fit"), ("fgd", "pack"), ("best-fit",), ("clustering",), ("sharing",),
          ("dot-product",), ("spread", "tide"))  # fmt: skip


@pytest.mark.parametrize("placement", SCORES)
def test_scores_are_those_of_the_plain_oracle(placement: tuple[str, ...]):
    """The best nodes and their terms are what plain Python counts for all nodes."""
    world, policy, memo = half_full(), Policy(placement=placement), one.CycleMemo()
    for _ in range(3):
        fold_all(world, one.cycle(world, policy, memo).actions)
    submit(world, job("last", roles=[SMALL]))
    scoring, s = Memo().scoring(world, policy), world.jobs.shape.item(world.job_count - 1)
    room, option = NotingRoom(world), Memo().known(world, s).options[0][0]
    ranks = oracle_ranks(world, room, scoring.tables)
    room.fill(SMALL, option.is_ok, scoring)
    noted = room.noted[-1]
    best = sorted(ranks, key=lambda n: ([-score for score in ranks[n]], n))
    assert scoring.names == placement
    assert [row.node for row in noted.best] == best[: len(noted.best)]
    told = scores.ranking(scores.ScoredRole(world, SMALL), noted)
    for row, n in zip(told.candidates, best, strict=False):
        terms = {term.term: term.value for term in row.terms}
        for name, score in zip(placement, ranks[n], strict=True):
            if name == "tide":
                assert terms["tide"] == score - TIDE_ZERO
            elif name == "spread":
                assert terms["free"] == score
            elif name == "pack":
                left = terms["left_on_device"] * PACK_NODE + terms["free"]
                assert score == (1 << BITS[PACK]) - 1 - left
            else:
                assert terms[name] == score


def half_full() -> World:
    """Eight nodes of four with fractions and pairs on them, after enough arrivals to look ahead."""
    world = fleet(contract(gpus=32, per_node=4, cpu_milli=64, memory_mib=640))
    pair = role(1, gpus=2, cpu_milli=9)
    submit(world, *(job(f"j{i}", roles=[pair if i % 3 else SMALL]) for i in range(14)))
    return world


def oracle_ranks(
    world: World, room: NotingRoom, tables: Tables | None
) -> dict[int, tuple[int, ...]]:
    """By node that can take a small replica: its scores."""
    found, nodes = {}, world.nodes
    assert tables is not None
    for n in range(world.node_count):
        free, cpu = room.free_node(n).free_milli, nodes.cpu_free_milli.item(n)
        spot = score_oracle.Spot(
            nodes.kind.item(n), cpu, nodes.memory_free_mib.item(n), free,
            cpu == nodes.cpu_milli.item(n),
        )  # fmt: skip
        if max(free) >= SMALL.milli and cpu >= SMALL.cpu_milli:
            found[n] = score_oracle.rank(spot, SMALL, tables)
    return found


def test_what_does_not_come_out_the_same_is_not_explained():
    """Under another policy than the one that decided, no filters and scores are told, but that."""
    world, told = fleet(nodes=2), Policy(placement="spread")
    submit(world, job("a", gpus=2))
    fold_all(world, one.cycle(world, DEFAULTS, one.CycleMemo()).actions)
    submit(world, job("b", gpus=2))
    (event,) = [a for a in one.cycle(world, DEFAULTS, one.CycleMemo()).actions
                if isinstance(a, ev.AskedPlace)]  # fmt: skip
    assert explained(world, DEFAULTS, event).scores[0].candidates[0].is_taken
    found = explained(world, told, event)
    assert (found.filters, found.scores, found.unknown) == ((), (), stages.OTHERWISE)
    assert found.bind is not None
    assert found.bind.seats[0].node == world.node_rows[0].name


def test_every_placement_of_a_fleet_is_told_as_it_was():
    """`python -m bench decisions` on a small fleet: all of them, with the winner that was taken."""
    found = decisions.run(str(TINY))
    assert found["placements"] > 50
    assert set(found["as_taken"]) <= {"pack", "fewest", "spread", "scores", "mig", "domain"}


def test_shapes_that_share_the_work_may_use_the_same_nodes():
    """A memo for one moment looks at equal constraints once: a MIG profile is one of them."""
    compared = Counter[bool]()
    for seed in seeds(9):
        world = fold_all(World(), played(seed).kept)
        quick, plain = Glance(world), Memo()
        for s, shape in enumerate(world.shape_rows):
            for mine, other in zip(
                quick.known(world, s).options, plain.known(world, s).options, strict=True
            ):
                assert [(o.kind, o.is_ok.tolist()) for o in mine] == [
                    (o.kind, o.is_ok.tolist()) for o in other
                ]
            compared[any(row.profile for row in shape.roles)] += 1
    assert set(compared) == {False, True}


# From a journal -------------------------------------------------------------------------------


def test_a_journal_tells_its_decisions(tmp_path: Path):
    """Written by the loop and read from the disk: every job that was ever placed is explained."""
    for seed in (0, 4, 5):
        player = played(seed)
        where = str(tmp_path / f"{seed}.sqlite")
        with open_journal(where, create=True) as journal:
            journal.append(list(player.kept))
            world = fold_all(World(), player.kept)
            last = {e.job: e for e in player.kept if isinstance(e, ev.AskedPlace)}
            for j, event in last.items():
                told = reading.read(journal, world, player.policy, j, None)
                if told.outcome != "placed":
                    assert told.outcome == "waits"
                    continue
                assert (told.at_ms, told.unknown) == (event.at_ms, "")
                assert told.bind is not None
                seats = {(seat.node, seat.replicas) for seat in told.bind.seats}
                assert seats == {(world.node_rows[p.node].name, p.replicas) for p in event.pieces}
                times = {row.what: row.count for row in told.tried}
                asked = [e for e in player.kept if isinstance(e, ev.AskedPlace) and e.job == j]
                assert times["placed"] == len(asked)
                assert len(told.tried) < 60


def written(events: list[ev.Event]) -> MemoryJournal:
    """A journal with these events."""
    journal = MemoryJournal()
    journal.append(events)
    return journal


class Diary:
    """A small fleet of one team, a cycle after each moment, and all of it written down."""

    def __init__(self, gpus: int) -> None:
        self.events = list[ev.Event](opening(contract(gpus=gpus, per_node=2), teams=[team("a")]))
        self.world, self._memo = fold_all(World(), self.events), one.CycleMemo()

    def see(self, *events: ev.Event) -> None:
        """This happens at one moment, and the scheduler decides."""
        fold_all(self.world, events)
        actions = one.cycle(self.world, DEFAULTS, self._memo).actions
        fold_all(self.world, actions)
        self.events += [*events, *actions]

    def read(self, j: int) -> Decision:
        """The last decision about a job."""
        return reading.read(written(self.events), self.world, DEFAULTS, j, None)


def test_who_made_room_and_what_it_cost():
    """A high job that others were stopped for: who, how, and the work that each lost in dollars."""
    diary = Diary(gpus=4)
    low = [job(f"low{i}", gpus=2, is_preemptible=True) for i in range(2)]
    diary.see(*(ev.JobSubmitted(0, row) for row in low))
    diary.see(*(ev.JobStarted(MINUTE_MS, j, 1) for j in range(2)))
    diary.see(ev.JobSubmitted(HOUR_MS, job("high", gpus=4, per_node=2, priority=5)))
    diary.see(*(ev.JobEvicted(HOUR_MS + MINUTE_MS, j, 1) for j in range(2)))
    told = diary.read(2)
    assert told.bind is not None
    lost_ms = HOUR_MS - MINUTE_MS  # all that it did: it has no checkpoint, and restarts at once
    lost_usd = 2 * 2_000_000 * lost_ms // HOUR_MS
    lost = sorted((row.job, row.how, row.lost_ms, row.lost_usd_micro) for row in told.bind.freed)
    assert lost == [(f"low{i}", "stopped", lost_ms, lost_usd) for i in range(2)]
    assert {row.words for row in told.bind.freed} == {
        f"`low{i}` preempted by priority, $3.93 of work lost" for i in range(2)
    }
    whats = [row.what for row in told.tried]
    assert whats == ["submitted", "waited_promised", "made_room", "placed"]
    victim = diary.read(0)
    assert (victim.outcome, victim.cause) == ("waits", "busy")
    assert victim.filters[0].removed[0].filter == "free_gpus"
    assert "asked_to_stop" in {row.what for row in victim.tried}


def test_a_moment_before_the_placement_is_another_decision():
    """FilteredRole at a moment at which it waited, it is told why it was not placed then."""
    diary = Diary(gpus=2)
    diary.see(ev.JobSubmitted(0, job("first", gpus=2)), ev.JobSubmitted(0, job("second", gpus=2)))
    diary.see(ev.JobStarted(0, 0, 1))
    diary.see(ev.JobFinished(HOUR_MS, 0, 1))
    journal = written(diary.events)
    then, _ = api.world_of(journal, MINUTE_MS)
    early = reading.read(journal, then, DEFAULTS, 1, MINUTE_MS)
    assert (early.outcome, early.cause, early.at_ms) == ("waits", "busy", MINUTE_MS)
    late = diary.read(1)
    assert (late.outcome, late.at_ms, late.watch.waited_ms) == ("placed", HOUR_MS, HOUR_MS)
    assert late.scores[0].words.endswith("was the only one left")


def test_a_wait_counts_from_when_a_job_was_submitted_though_it_was_held_then():
    """Its events begin when its gang is known; that it was there before is kept beside them."""
    diary = Diary(gpus=2)
    diary.see(ev.JobSubmitted(MINUTE_MS, job("held", gpus=2)))
    earlier.submitted(diary.world, {"held": -MINUTE_MS // 2})
    watch = diary.read(0).watch
    assert watch.submitted_ms == watch.waiting_since_ms == MINUTE_MS // 2
    assert watch.waited_ms == MINUTE_MS // 2
    assert "decided after a wait of 30s" in diary.read(0).words


def test_the_first_of_its_like_is_named():
    """Of jobs that are alike only the first is looked at; the others are told its name."""
    world = fleet(contract(gpus=2, per_node=2))
    submit(world, *(job(f"j{i}", gpus=4, per_node=2) for i in range(3)))
    fold_all(world, one.cycle(world, DEFAULTS, one.CycleMemo()).actions)
    told = stages.waits(world, DEFAULTS, 2, JobHistory(2, 0, 0))
    assert (told.outcome, told.about, told.cause) == ("waits", "j0", "impossible_gang")


def test_a_quota_that_refuses_has_a_row():
    """Also where nothing is free, so that no node would have come as far as the quota."""
    world = fleet(contract(gpus=16), teams=[team("a", limit=8), team("b")])
    submit(world, job("mine", gpus=8), job("theirs", gpus=8, team="b"))
    fold_all(world, one.cycle(world, DEFAULTS, one.CycleMemo()).actions)
    submit(world, job("late", gpus=8), job("other", gpus=8, team="b"))
    fold_all(world, one.cycle(world, DEFAULTS, one.CycleMemo()).actions)
    told, other = (
        stages.waits(world, DEFAULTS, j, JobHistory(j, world.jobs.shape.item(j), 0)) for j in (2, 3)
    )
    assert told.cause == "over_limit"
    removed = {row.filter: (row.nodes, row.words) for row in told.filters[0].removed}
    assert removed["free_gpus"][0] == 2
    assert removed["quota"] == (0, "the maximum quota of `a` is reached, whatever is free")
    assert other.cause == "busy"
    assert [row.filter for row in other.filters[0].removed] == ["free_gpus"]


def test_where_another_scheduler_decides_nothing_is_made_up():
    """What was seen is told, when and where; what it removed and how it scored is refused."""
    opened = opening(contract(gpus=4, per_node=2), teams=[team("a")])
    told: list[ev.Event] = [
        *opened,
        ev.JobSubmitted(0, job("theirs", gpus=2)),
        ev.ReasonSeen(MINUTE_MS, 0, Cause.BUSY, 3, "0/2 nodes are available"),
        ev.PlacementSeen(HOUR_MS, 0, 1, (Piece(0, 1, 1, 0b11),)),
        ev.JobSubmitted(HOUR_MS, job("waits", gpus=4, per_node=2)),
        ev.ReasonSeen(HOUR_MS, 1, Cause.BUSY, 3, "0/2 nodes have room"),
    ]
    world, journal = fold_all(World(), told), written(told)
    for j in (0, 1):
        found = reading.read(journal, world, DEFAULTS, j, None)
        assert (found.outcome, found.decided_by) == ("unknown", stages.THEIRS)
        assert (found.filters, found.scores) == ((), ())
        assert found.unknown == (stages.OTHERS, stages.OTHERS_KEEP)[j]
    kept = reading.read(journal, world, DEFAULTS, 1, None)
    assert kept.bind is None
    assert kept.not_bound.startswith("its own scheduler has not placed it; it says: 0/2 nodes have")
    seen = reading.read(journal, world, DEFAULTS, 0, None)
    assert seen.bind is not None
    assert seen.bind.words.startswith(
        f"its own scheduler placed it on `{world.node_rows[1].name}`;"
    )
    assert [(row.what, row.first_ms) for row in seen.tried] == [
        ("submitted", 0), ("said", MINUTE_MS), ("seen_placed", HOUR_MS)
    ]  # fmt: skip


def test_what_is_left_of_a_gang_after_a_loss_is_still_our_decision():
    """Of two replicas one is lost with its node; the other is seen where we had put it."""
    opened = opening(contract(gpus=4, per_node=2), teams=[team("a")])
    told: list[ev.Event] = [
        *opened,
        ev.JobSubmitted(0, job("j", gpus=4, per_node=2)),
        ev.AskedPlace(0, 0, 1, (Piece(0, 0, 1, 0b11), Piece(0, 1, 1, 0b11))),
        ev.JobStarted(0, 0, 1),
        ev.NodeMoved(HOUR_MS, 0, NodeState.UNHEALTHY),
        ev.PlacementSeen(HOUR_MS, 0, 2, (Piece(0, 1, 1, 0b11),)),
    ]
    world, journal = fold_all(World(), told), written(told)
    found = reading.read(journal, world, DEFAULTS, 0, None)
    assert (found.outcome, found.decided_by) == ("placed", stages.OURS)
    assert [row.what for row in found.tried][-2:] == ["lost", "kept"]


def test_what_a_job_lost_of_which_nobody_says_whether_it_saves_is_unknown():
    """Not zero: at most all that it did in this attempt; a service has lost nothing."""
    diary = Diary(gpus=4)
    low = job("low", gpus=2, saves_every_ms=-1)
    serves = job("serves", gpus=2, kind=JobClass.INFERENCE)
    diary.see(ev.JobSubmitted(0, low), ev.JobSubmitted(0, serves))
    diary.see(*(ev.JobStarted(MINUTE_MS, j, 1) for j in range(2)))
    diary.see(ev.JobSubmitted(HOUR_MS, job("high", gpus=4, per_node=2, priority=5)))
    diary.see(*(ev.JobEvicted(HOUR_MS + MINUTE_MS, j, 1) for j in range(2)))
    told = diary.read(2)
    assert told.bind is not None
    untold = "unknown work lost: at most 59m, nobody says what it saved"
    assert {(row.lost_ms, row.lost_usd_micro, row.words) for row in told.bind.freed} == {
        (None, None, f"`low` preempted by priority, {untold}"),
        (0, 0, "`serves` preempted by priority, $0.00 of work lost"),
    }  # fmt: skip


def test_a_job_that_is_lost_with_its_node_waits_again():
    """No event of its own tells it: what the shape waits for afterwards is told of the job."""
    opened = opening(contract(gpus=2, per_node=2), teams=[team("a")])
    told: list[ev.Event] = [
        *opened,
        ev.JobSubmitted(0, job("j", gpus=2)),
        ev.AskedPlace(0, 0, 1, (Piece(0, 0, 1, 0b11),)),
        ev.CauseChanged(MINUTE_MS, 0, Cause.BUSY),
        ev.NodeMoved(HOUR_MS, 0, NodeState.UNHEALTHY),
        ev.CauseChanged(HOUR_MS, 0, Cause.NOT_ENOUGH_READY),
        ev.CauseChanged(2 * HOUR_MS, 0, Cause.NOTHING_READY),
        ev.CauseChanged(3 * HOUR_MS, 0, Cause.NOT_ENOUGH_READY),
    ]
    world = fold_all(World(), told)
    history = reading.history_of(written(told), world, 0, None)
    assert What.LOST in {group.what for group in history.groups()}
    waited = {group.detail: group for group in history.groups() if group.what is What.WAITED}
    assert Cause.BUSY not in waited
    assert waited[Cause.NOT_ENOUGH_READY].times == 2
    assert waited[Cause.NOT_ENOUGH_READY].last_ms == 3 * HOUR_MS


def test_a_job_that_has_ended_is_not_lost_with_a_node_it_had_run_on():
    """Nor does it wait for what its shape waits for, later."""
    told: list[ev.Event] = [
        *opening(contract(gpus=2, per_node=2), teams=[team("a")]),
        ev.JobSubmitted(0, job("j", gpus=2)),
        ev.AskedPlace(0, 0, 1, (Piece(0, 0, 1, 0b11),)),
        ev.JobStarted(MINUTE_MS, 0, 1),
        ev.JobFinished(HOUR_MS, 0, 1),
        ev.NodeMoved(2 * HOUR_MS, 0, NodeState.UNHEALTHY),
        ev.CauseChanged(3 * HOUR_MS, 0, Cause.NOTHING_READY),
    ]
    history = reading.history_of(written(told), fold_all(World(), told), 0, None)
    assert [group.what for group in history.groups()] == [
        What.SUBMITTED, What.PLACED, What.STARTED, What.FINISHED
    ]  # fmt: skip


def test_jobs_are_lost_when_the_cluster_state_says_so():
    """Also those that moved, are asked to, or have no GPU on the node, and at a contract's end."""
    moved = 0
    for seed in seeds(SEEDS):
        player, world, lost = played(seed), World(), Counter[int]()
        for event in player.kept:
            before = world.jobs.state[: world.job_count].copy()
            fold(world, event)
            waits = world.jobs.state[: len(before)] == JobState.WAITING
            if not isinstance(event, ev.JobFailed | ev.JobEvicted):
                lost.update(np.flatnonzero(waits & (before != JobState.WAITING)).tolist())
        moved += sum(isinstance(event, ev.JobMoved) for event in player.kept)
        journal = written(player.kept)
        for j in range(world.job_count):
            groups = reading.history_of(journal, world, j, None).groups()
            assert sum(g.times for g in groups if g.what is What.LOST) == lost[j], (seed, j)
    assert moved


@pytest.mark.parametrize("place", ["first", "last"])
def test_a_decision_takes_less_than_a_second_at_size(place: str):
    """10,000 nodes, 5,000 waiting jobs of 5,000 shapes: in under a second of processor time."""
    world = crowd(NODES, WAITING)
    fold_all(world, one.cycle(world, DEFAULTS, one.CycleMemo()).actions)
    fold(world, ev.Woke(13 * HOUR_MS))
    queue = sorted(j for s in world.queued for j in world.waiting[s])
    j = queue[0 if place == "first" else -1]
    history, best = JobHistory(j, world.jobs.shape.item(j), HOUR_MS), float("inf")
    for _ in range(2):
        start_s = time.process_time()
        told = stages.waits(world, DEFAULTS, j, history)
        best = min(best, time.process_time() - start_s)
    assert told.filters[0].nodes == NODES
    assert best < 1.0
