"""A history of attempts becomes books that say what a count by hand says, exactly."""

from collections import Counter
from random import Random
from typing import Any

import polars as pl
import pytest

from tests.ledger.sums import amounts
from tidemill.engine.fold.batch import fold_batch
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.ledger.reader import Ledger
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import Statement
from tidemill.live.history.events import History, build
from tidemill.live.history.rows import ATTEMPTS, AttemptEnd, SeenNode
from tidemill.live.prices import rules
from tidemill.model.columns import JOB
from tidemill.model.errors import SpecError
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.states import JobState, Level, NodeState
from tidemill.model.world import World

EPOCH_MS = 1_780_000_000_000
PRICES = rules.flat({"": 2_000_000})
NODES = [SeenNode(name=f"n{i}", gpus=8, gpu_type="h100") for i in range(4)]


def attempts(*rows: dict[str, Any]) -> pl.DataFrame:
    """Rows with what a test does not talk about left out; times from the epoch above."""
    times = ("submit_ms", "start_ms", "end_ms")
    made = []
    for i, row in enumerate(rows):
        whole: dict[str, Any] = {"job": str(i), "team": "a", "submit_ms": 0}
        whole = dict.fromkeys(ATTEMPTS) | whole | row
        for name in times:
            if whole[name] is not None:
                whole[name] += EPOCH_MS
        made.append(whole)
    return pl.DataFrame(made, schema=ATTEMPTS)


def read(history: History, window: Window | None = None) -> Statement:
    """The books of a history."""
    ledger = Ledger(window=window)
    for batch in history.batches():
        ledger.read_batch(batch)
    return Statement(ledger)


def state_after(history: History) -> World:
    world = World()
    for batch in history.batches():
        fold_batch(world, batch)
    return world


def test_one_job_is_allocated_from_start_to_end():
    """Eight GPUs for 50 of 100 ms, on a fleet of 32: a quarter of half of the time."""
    rows = attempts(
        {"gpus": 8, "nodes": ["n1"], "start_ms": 10, "end_ms": 60},
        {"gpus": 1, "nodes": ["n2"], "start_ms": 100, "end_ms": 100},
    )
    found = amounts(read(build(rows, NODES, PRICES)), "bucket")
    assert sum(found.values()) == 32_000 * 100
    assert sum(found[(bucket,)] for bucket in ALLOCATED) == 8_000 * 50


def test_priorities_are_those_of_the_history_and_the_nearest_where_32_bits_cannot_hold_them():
    """Slurm's are 32 bits without a sign; a table may have anything."""
    told = (2**32 - 1, 100_000_000, -5, 2**60, -(2**60))
    rows = attempts(*({"gpus": 1, "priority": one} for one in told))
    found = [shape.priority for shape in state_after(build(rows, NODES, PRICES)).shape_rows]
    assert found == [2**32 - 1, 100_000_000, -5, -(2**31)]  # two are alike: one shape


@pytest.mark.parametrize(("gpus", "nodes"), [(9, ["n1"]), (18, ["n1", "n2"])])
def test_a_job_with_more_gpus_than_its_nodes_have_holds_those_that_they_have(
    gpus: int, nodes: list[str]
):
    """One GPU too many does not make the time of the others free; who and how many is named."""
    rows = attempts({"gpus": gpus, "nodes": nodes, "start_ms": 0, "end_ms": 100})
    history = build(rows, NODES, PRICES)
    found = amounts(read(history), "bucket")
    assert sum(found[(bucket,)] for bucket in ALLOCATED) == 8_000 * len(nodes) * 100
    assert history.over == 1
    assert any("`0`: 9 on n1, listed with 8" in note for note in history.notes)


def _random_history(luck: Random) -> tuple[pl.DataFrame, dict[str, int]]:
    """Attempts that a cluster could have had, and by hand: GPU·ms of each team."""
    free = {node.name: [(0, 0)] * 8 for node in NODES}
    rows, by_team = [], Counter[str]()
    for i in range(60):
        nodes = luck.sample(sorted(free), luck.choice((1, 1, 1, 2, 3)))
        each = luck.choice((1, 2, 4, 8))
        submit, team = luck.randrange(2_000), luck.choice("abc")
        start = max([submit, *(sorted(free[n])[each - 1][1] for n in nodes)]) + luck.randrange(5)
        tries = luck.choice((1, 1, 1, 2))
        for attempt in range(tries):
            end = start + luck.randrange(1, 400)
            is_last = attempt == tries - 1
            ways = ("done", "failed", "cancelled", "timed out", "node lost", "preempted")
            outcome = luck.choice(ways) if is_last else luck.choice(("requeued", "preempted"))
            rows.append({
                "job": f"j{i}", "team": team, "user": luck.choice("xy"), "submit_ms": submit,
                "start_ms": start, "end_ms": end, "outcome": outcome, "gpus": each * len(nodes),
                "nodes": nodes, "gpu_type": "h100", "cpus": 4, "limit_ms": 1000,
            })  # fmt: skip
            by_team[team] += (end - start) * each * len(nodes)
            for n in nodes:
                devices = sorted(free[n], key=lambda one: one[1])
                free[n] = [(0, end) if d < each else one for d, one in enumerate(devices)]
            start = end + luck.randrange(3)
    return attempts(*rows), by_team


@pytest.mark.parametrize("seed", range(6))
def test_books_agree_with_a_count_by_hand(seed: int):
    """Allocated GPU-time by team is the sum over attempts; what was paid is fleet times window."""
    rows, by_team = _random_history(Random(seed))
    history = build(rows, NODES, PRICES)
    statement = read(history)
    assert history.over == 0
    found = Counter[str]()
    names = [queue.name for queue in statement.world.queue_rows]
    for (bucket, team), amount in amounts(statement, "bucket", "team").items():
        if bucket in ALLOCATED:
            found[names[team]] += amount
    assert found == {team: amount * WHOLE_MILLI for team, amount in by_team.items()}
    length = rows.select(pl.max_horizontal("end_ms", "start_ms").max()).item() - (
        rows["submit_ms"].min()
    )
    assert statement.total().paid_milli_ms == 32_000 * length


def test_a_requeued_job_is_one_job_with_two_attempts():
    """Its second row is another attempt; in between it waits."""
    one = {"job": "j", "gpus": 8, "nodes": ["n0"]}
    rows = attempts(
        one | {"start_ms": 0, "end_ms": 40, "outcome": AttemptEnd.PREEMPTED},
        one | {"submit_ms": 40, "start_ms": 70, "end_ms": 90, "outcome": AttemptEnd.DONE},
    )
    world = state_after(build(rows, NODES, PRICES))
    assert (world.job_count, world.jobs.attempt[0], world.jobs.state[0]) == (1, 2, JobState.DONE)


def test_two_that_hold_the_same_gpus_are_booked_once():
    """What the second is shown to hold is said to be over, and the sums stay what was paid."""
    rows = attempts(
        {"gpus": 8, "nodes": ["n0"], "start_ms": 0, "end_ms": 100},
        {"gpus": 8, "nodes": ["n0"], "start_ms": 50, "end_ms": 100},
        {"gpus": 8, "nodes": ["n0"], "start_ms": 100},
    )
    history = build(rows, NODES[:1], PRICES)
    found = amounts(read(history), "bucket")
    assert history.over == 1
    assert found == {(Bucket.UNKNOWN,): 8_000 * 100}


def test_nodes_that_nobody_listed_are_as_large_as_jobs_show():
    """Two jobs at once with 4 and 2 GPUs: a node of at least 6, and a note that says so."""
    rows = attempts(
        {"gpus": 4, "nodes": ["x"], "start_ms": 0, "end_ms": 9},
        {"gpus": 2, "nodes": ["x"], "start_ms": 5, "end_ms": 9},
        {"gpus": 3, "nodes": ["x"], "start_ms": 9, "end_ms": 12},
    )
    history = build(rows, [], PRICES)
    assert (history.nodes, history.gpus, history.over) == (1, 6, 0)
    assert any("not listed" in note for note in history.notes)


def test_without_names_of_nodes_gpus_are_counted_alone():
    """Nobody said where: devices of any node are taken, and none is taken twice."""
    rows = attempts(*({"gpus": 5, "start_ms": i, "end_ms": 100} for i in range(6)))
    history = build(rows, NODES, PRICES)
    found = amounts(read(history), "bucket")
    assert history.over == 0
    assert found[(Bucket.UNKNOWN,)] == 5_000 * sum(100 - i for i in range(6))


def test_a_node_that_is_down_is_unhealthy_with_work_on_it_too():
    """Work that the source shows goes on to its own end; what is free beside it is unhealthy."""
    node = SeenNode(
        name="n0", gpus=8, gpu_type="",
        out=((EPOCH_MS + 20, EPOCH_MS + 80, NodeState.UNHEALTHY),),
    )  # fmt: skip
    rows = attempts(
        {"gpus": 4, "nodes": ["n0"], "start_ms": 0, "end_ms": 50, "outcome": "node lost"},
        {"gpus": 4, "nodes": ["n0"], "start_ms": 90, "end_ms": 100},
    )
    found = amounts(read(build(rows, [node], PRICES)), "bucket")
    assert (Bucket.CORDONED,) not in found
    assert found[(Bucket.UNHEALTHY,)] == 4_000 * 30 + 8_000 * 30
    assert sum(found.values()) == 8_000 * 100


def test_a_node_with_work_that_is_back_and_cordoned_is_unhealthy_until_then():
    """Down from 20 to 40, and then cordoned: half of it is unhealthy first, and cordoned after."""
    out = ((EPOCH_MS + 20, EPOCH_MS + 40, NodeState.UNHEALTHY),
           (EPOCH_MS + 40, EPOCH_MS + 80, NodeState.CORDONED))  # fmt: skip
    node = SeenNode(name="n0", gpus=8, gpu_type="", out=out)
    rows = attempts({"gpus": 4, "nodes": ["n0"], "start_ms": 0, "end_ms": 100})
    found = amounts(read(build(rows, [node], PRICES)), "bucket")
    assert found[(Bucket.UNHEALTHY,)] == 4_000 * 20
    assert found[(Bucket.CORDONED,)] == 4_000 * 40


def test_a_window_begins_when_machines_are_paid_for():
    """What ran before counts from then; what ended before does not count at all, and is told."""
    rows = attempts(
        {"gpus": 8, "nodes": ["n0"], "start_ms": 0, "end_ms": 30},
        {"gpus": 8, "nodes": ["n1"], "start_ms": 10, "end_ms": 90},
    )
    history = build(rows, NODES, PRICES, from_ms=EPOCH_MS + 50)
    found = amounts(read(history), "bucket")
    assert history.length_ms == 40
    assert sum(found.values()) == 32_000 * 40
    assert found[(Bucket.UNKNOWN,)] == 8_000 * 40
    assert history.notes[0] == "1 attempt left out: ended before the window"


def test_a_window_ends_when_it_was_exported():
    """What goes on beyond it still runs or waits; nodes that are drained later are not yet."""
    node = SeenNode(
        name="n0", gpus=8, gpu_type="", out=((EPOCH_MS + 80, None, NodeState.DRAINING),)
    )
    rows = attempts(
        {"gpus": 4, "nodes": ["n0"], "start_ms": 0, "end_ms": 90},
        {"gpus": 4, "nodes": ["n0"], "start_ms": 60, "end_ms": 90},
        {"gpus": 4, "nodes": ["n0"], "submit_ms": 55, "start_ms": 56, "end_ms": 57},
    )
    history = build(rows, [node], PRICES, until_ms=EPOCH_MS + 50)
    world = state_after(history)
    assert [JobState(state).name for state in world.jobs.state[:2]] == ["RUNNING", "WAITING"]
    assert (history.jobs, history.length_ms) == (2, 50)
    later = build(rows, [node], PRICES)
    assert sum(amounts(read(later), "bucket").values()) == 8_000 * 90
    with pytest.raises(SpecError, match="ends before it begins"):
        build(rows, [node], PRICES, from_ms=EPOCH_MS + 50, until_ms=EPOCH_MS + 20)


def test_a_fleet_without_names_is_as_large_as_jobs_needed_at_once():
    """No node is named or listed: exactly the most GPUs at one time, and a note."""
    rows = attempts(*({"gpus": 5, "start_ms": i, "end_ms": 100} for i in range(4)))
    history = build(rows, [], PRICES)
    assert history.gpus == 20
    found = amounts(read(history), "bucket")
    assert (sum(found.values()), history.over) == (20_000 * 100, 0)
    assert "nobody names a node: 20 GPUs are counted, the most that jobs held at once" in (
        "; ".join(history.notes)
    )


def test_types_of_a_fleet_without_names_are_counted_apart():
    """Four H100 at once and three A100, never more of either: each on GPUs of its own type."""
    rows = attempts(
        {"gpus": 4, "gpu_type": "h100", "start_ms": 0, "end_ms": 50},
        {"gpus": 3, "gpu_type": "a100", "start_ms": 10, "end_ms": 40},
        {"gpus": 2, "gpu_type": "h100", "start_ms": 50, "end_ms": 100},
    )
    history = build(rows, [], PRICES)
    assert {(row.kind, row.count) for row in history.contracts} == {("H100", 4), ("A100", 3)}
    found = amounts(read(history), "contract", "bucket")
    kinds = [row.kind for row in history.contracts]
    worked = {kinds[c]: n for (c, b), n in found.items() if b == Bucket.UNKNOWN}
    assert worked == {"H100": 4_000 * 50 + 2_000 * 50, "A100": 3_000 * 30}


def test_what_contradicts_itself_is_left_out_and_told():
    """No GPU, no time of submission, an end before the start: counted, never guessed."""
    rows = attempts(
        {"gpus": None},
        {"gpus": -3},
        {"gpus": 10**8},
        {"gpus": 0},
        {"gpus": 1, "submit_ms": None},
        {"gpus": 1, "start_ms": 9, "end_ms": 3, "nodes": ["n0"]},
        {"gpus": 1, "start_ms": 9, "outcome": "done", "nodes": ["n0"]},
        {"gpus": 1, "start_ms": 9, "end_ms": 20, "nodes": ["n0"]},
    )
    history = build(rows, NODES, PRICES)
    assert history.jobs == 1
    assert len(history.notes) == 6


def test_a_gpu_type_without_a_price_is_unpriced():
    """Dollars are never made up, and never zero: the hours count, what they cost is unknown."""
    rows = attempts({"gpus": 1, "nodes": ["n0"], "start_ms": 0, "end_ms": 5})
    found = read(build(rows, NODES, rules.flat({"A100": 1}))).total()
    assert found.is_unpriced
    assert found.paid_milli_ms == found.unpriced_milli_ms == 5 * 1000 * sum(n.gpus for n in NODES)
    assert found.known_usd(found.paid_usd_micro) is None


def test_gpus_that_were_told_are_held_by_number():
    """A source that knows which devices a job had is believed."""
    rows = attempts(
        {"gpus": 2, "nodes": ["n0"], "devices": [0b1100], "start_ms": 0},
        {"gpus": 2, "nodes": ["n0"], "start_ms": 1},
    )
    world = state_after(build(rows, NODES, PRICES))
    assert [world.placements[j][0].devices for j in range(2)] == [0b1100, 0b11]
    assert world.levels[0, Level.ALLOCATED] == 4_000
    assert not any(world.ink.w.jobs[:2, JOB.OVER_MILLI])


def test_what_never_began_ends_after_submission_and_after_what_ran():
    """Rows that contradict that are left out, or end with the last that ran."""
    rows = attempts(
        {"job": "early", "gpus": 1, "submit_ms": 100, "end_ms": 50},
        {"job": "a", "gpus": 1, "nodes": ["n1"], "start_ms": 10, "end_ms": 90,
         "outcome": "requeued"},
        {"job": "a", "gpus": 1, "end_ms": 40, "outcome": "cancelled"},
    )  # fmt: skip
    history = build(rows, NODES, PRICES)
    assert "1 attempt left out: ended before it was submitted" in history.notes
    found = amounts(read(history), "bucket")
    assert sum(found[(bucket,)] for bucket in ALLOCATED if (bucket,) in found) == 1_000 * 80
