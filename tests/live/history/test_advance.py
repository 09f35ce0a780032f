"""A history told in many parts, by observers that are killed, is the history told at once."""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.ledger.sums import amounts
from tests.live.history.test_history import EPOCH_MS, NODES, PRICES, attempts, read
from tidemill import explain
from tidemill.engine.fold.batch import fold_batch
from tidemill.journal.memory import MemoryJournal
from tidemill.journal.replay import rebuild
from tidemill.ledger import fixes
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.ledger.reader import Ledger
from tidemill.ledger.statement import Statement
from tidemill.live.history.advance import NO_FIGURES, Advance, SourceAnswer
from tidemill.live.history.events import build
from tidemill.live.history.rows import SeenNode
from tidemill.live.prices.rules import PriceRule
from tidemill.model import events as ev
from tidemill.model.events import Event
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.states import JobState, NodeState

LATENESS_MS = 30
Row = dict[str, Any]


class Observer:
    """Writes a journal from what is shown; may be killed after any batch."""

    def __init__(self, begins_ms: int = EPOCH_MS, price_of: PriceRule = PRICES) -> None:
        self.journal, self.begins_ms, self.price_of = MemoryJournal(), begins_ms, price_of
        self.late = Counter[str]()
        self.figures = NO_FIGURES
        self.restart()

    def restart(self) -> None:
        """A new process that knows the journal alone."""
        self.world = rebuild(self.journal)

    def take(self, shown: SourceAnswer, until_ms: int, batches: int = 1000) -> None:
        """Go on up to a moment; killed after so many batches."""
        going = Advance(self.world, self.begins_ms, shown, self.price_of, self.figures)
        for i, batch in enumerate(going.batches(until_ms)):
            if i == batches:
                return
            fold_batch(self.world, batch)
            self.journal.append_batch(batch)
        self.late.update(going.late._asdict())

    def books(self) -> Statement:
        """The ledger of the journal."""
        ledger = Ledger()
        for batch in self.journal.batches():
            ledger.read_batch(batch)
        return Statement(ledger)


def as_of(story: list[Row], now: int, since: int) -> list[Row]:
    """What a cluster shows at a moment of attempts that went on since another one: by hand."""
    found = list[Row]()
    by_job = dict[str, list[Row]]()
    for row in story:
        by_job.setdefault(row["job"], []).append(row)
    for rows in by_job.values():
        for i, row in enumerate(rows):
            asked = row["submit_ms"] if i == 0 else rows[i - 1]["end_ms"]
            if asked > now:
                break
            shown = row | {"submit_ms": asked}
            if row["start_ms"] > now:
                shown |= {"start_ms": None, "end_ms": None, "outcome": "waiting", "nodes": None}
            elif row["end_ms"] > now:
                shown |= {"end_ms": None, "outcome": "running"}
            if shown["end_ms"] is None or shown["end_ms"] > since:
                found.append(shown)
    return found


def a_story(luck: Random) -> tuple[list[Row], list[SeenNode]]:
    """Attempts of jobs on four nodes, and when those were out; moments are few, so many meet."""
    free = {node.name: [0] * 8 for node in NODES}
    rows = list[Row]()
    for i in range(24):
        nodes = luck.sample(sorted(free), luck.choice((1, 1, 1, 2, 3)))
        each, submit = luck.choice((1, 2, 4, 8)), 10 * luck.randrange(80)
        start = max([submit, *(sorted(free[n])[each - 1] for n in nodes)]) + 10 * luck.randrange(3)
        tries = luck.choice((1, 1, 1, 2, 3))
        for attempt in range(tries):
            end = start + 10 * luck.randrange(1, 30)
            ways = ("done", "failed", "cancelled", "timed out", "node lost", "requeued")
            outcome = "preempted" if attempt < tries - 1 else luck.choice(ways[:-1])
            rows.append({
                "job": f"j{i}", "team": luck.choice("abc") if not attempt else rows[-1]["team"],
                "user": "x", "submit_ms": submit, "start_ms": start, "end_ms": end,
                "outcome": outcome, "gpus": each * len(nodes), "nodes": nodes, "gpu_type": "h100",
                "cpus": 4, "limit_ms": 1000, "is_per_node": True, "node_count": len(nodes),
            })  # fmt: skip
            for n in nodes:
                free[n] = [end if d < each else at for d, at in enumerate(sorted(free[n]))]
            start = end + 10 * luck.randrange(3)
    outs = list[SeenNode]()
    for node in NODES:
        stretches, at = list[tuple[int, int | None, NodeState]](), 0
        for _ in range(luck.randrange(4)):
            at += 10 * luck.randrange(1, 30)
            until = at + 10 * luck.randrange(1, 20)
            state = luck.choice((NodeState.UNHEALTHY, NodeState.DRAINING))
            stretches.append((EPOCH_MS + at, EPOCH_MS + until, state))
            at = until
        outs.append(SeenNode(name=node.name, gpus=8, gpu_type="h100", out=tuple(stretches)))
    return rows, outs


def nodes_as_of(nodes: list[SeenNode], now_ms: int) -> list[SeenNode]:
    """Nodes as they are listed at a moment: what is to come is not known."""
    found = list[SeenNode]()
    for node in nodes:
        out = tuple(
            (start, end if end is not None and end <= now_ms else None, state)
            for start, end, state in node.out
            if start <= now_ms
        )
        found.append(SeenNode(name=node.name, gpus=8, gpu_type="h100", out=out))
    return found


def jobs_of(events: Iterator[Event]) -> list[Event]:
    """What is told of jobs and of the states of nodes."""
    rare = (ev.ContractSigned, ev.ContractStarted, ev.QueueSet, ev.NodeAdded, ev.Woke)
    return [event for event in events if not isinstance(event, rare)]


@pytest.mark.parametrize("seed", range(4))
def test_a_history_in_parts_is_the_history_at_once(seed: int):
    """50 observers, each killed after a random batch: no event lost, none doubled, equal sums.

    Four stories: 200 kills in all.
    """
    luck = Random(seed)
    story, nodes = a_story(luck)
    end = max(row["end_ms"] for row in story) + 5
    rows = attempts(*story)
    whole = build(rows, nodes, PRICES, EPOCH_MS, EPOCH_MS + end)
    kept = MemoryJournal()
    for batch in whole.batches():
        kept.append_batch(batch)
    observer, kills, now = Observer(), 0, 0
    while kills < 50 or observer.world.now_ms < end:
        now += luck.randrange(1, max(2, end // 40))
        mark = observer.world.now_ms
        shown = SourceAnswer(
            attempts(*as_of(story, now, mark - 50)), nodes_as_of(nodes, EPOCH_MS + now), 0
        )
        until = min(end, now - LATENESS_MS)
        is_killed = kills < 50
        if until > mark or (is_killed and now > 2 * end):
            observer.take(shown, EPOCH_MS + max(until, mark), luck.randrange(3) if is_killed else 9)
            observer.restart()
            kills += is_killed
    assert kills == 50
    assert +observer.late == {}
    told, expected = list(observer.journal.read()), list(kept.read())
    assert jobs_of(iter(told)) == jobs_of(iter(expected))
    books, at_once = observer.books(), read(build(rows, nodes, PRICES, EPOCH_MS, EPOCH_MS + end))
    for by in (("bucket",), ("bucket", "team"), ("bucket", "team", "job")):
        assert named(books, *by) == named(at_once, *by)


def named(books: Statement, *by: str) -> dict[tuple[object, ...], int]:
    """Sums with names of teams: they have other numbers where they came at other times."""
    teams = [queue.name for queue in books.world.queue_rows]
    found = dict[tuple[object, ...], int]()
    for key, amount in amounts(books, *by).items():
        name = tuple(
            teams[part] if column == "team" and part >= 0 else part
            for column, part in zip(by, key, strict=True)
        )
        found[name] = amount
    return found


ONE = {"job": "j", "gpus": 8, "nodes": ["n0"], "gpu_type": "h100"}


def shown(*rows: Row, nodes: list[SeenNode] = NODES) -> SourceAnswer:
    return SourceAnswer(attempts(*rows), nodes, 0)


def up_to(observer: Observer, ms: int, *rows: Row, nodes: list[SeenNode] = NODES) -> Counter[str]:
    """Show rows and nodes, tell the journal up to a moment; what was late in it."""
    observer.late.clear()
    observer.take(shown(*rows, nodes=nodes), EPOCH_MS + ms)
    observer.restart()
    return +observer.late


def worked(observer: Observer) -> int:
    """GPU-milliseconds in which jobs held GPUs."""
    found = amounts(observer.books(), "bucket")
    assert sum(found.values()) == observer.books().total().paid_milli_ms
    return sum(found[(bucket,)] for bucket in ALLOCATED) // 1000


def test_what_is_shown_again_is_told_once():
    """The same row twice in one answer, and again in every answer after it."""
    observer, row = Observer(), ONE | {"start_ms": 10, "end_ms": 60, "outcome": "done"}
    for ms in (20, 50, 70, 90):
        assert up_to(observer, ms, row, row) == {}
    assert (observer.world.job_count, worked(observer)) == (1, 8 * 50)


def test_a_job_first_seen_running_is_booked_from_the_watermark():
    """Nobody saw its submission: it is taken, counted as late, and never booked into the past."""
    observer = Observer()
    up_to(observer, 50)
    late = up_to(observer, 80, ONE | {"start_ms": 10})
    assert late == {"starts": 1, "gpu_ms": 8 * 40}
    assert up_to(observer, 100, ONE | {"start_ms": 10, "end_ms": 90}) == {}
    assert worked(observer) == 8 * 40


def test_what_ran_and_ended_before_the_watermark_has_no_time():
    """It came too late for any hour of it: it is listed, counted, and not booked; told once."""
    observer, row = Observer(), ONE | {"start_ms": 10, "end_ms": 40, "outcome": "failed"}
    up_to(observer, 50)
    assert up_to(observer, 80, row) == {"starts": 1, "ends": 1, "gpu_ms": 8 * (40 + 10)}
    assert up_to(observer, 90, row) == {}
    assert JobState(observer.world.jobs.state[0]) is JobState.FAILED
    assert worked(observer) == 0


def test_an_end_that_comes_late_is_taken_at_the_watermark():
    """The hours between were booked already, and stay; how much that is, is counted."""
    observer = Observer()
    up_to(observer, 50, ONE | {"start_ms": 10})
    assert up_to(observer, 80, ONE | {"start_ms": 10, "end_ms": 30}) == {
        "ends": 1, "gpu_ms": 8 * 20}  # fmt: skip
    assert worked(observer) == 8 * 40


def test_a_start_that_is_corrected_later_changes_nothing():
    """The first word stands; its end is still its end."""
    observer = Observer()
    up_to(observer, 50, ONE | {"start_ms": 10})
    assert up_to(observer, 80, ONE | {"start_ms": 20}) == {"corrected": 1}
    up_to(observer, 100, ONE | {"start_ms": 20, "end_ms": 90})
    assert worked(observer) == 8 * 80


def test_jobs_that_are_shown_no_more_are_over():
    """One that ran and one that waited vanish: both end at the watermark, and are counted.

    How they ended nobody saw: both are cancelled, as in an import.
    """
    observer = Observer()
    rows = (ONE | {"start_ms": 10}, {"job": "w", "gpus": 1, "submit_ms": 20})
    up_to(observer, 50, *rows)
    assert up_to(observer, 80) == {"unseen": 2}
    states = [JobState(state) for state in observer.world.jobs.state[:2]]
    assert states == [JobState.CANCELLED, JobState.CANCELLED]
    assert worked(observer) == 8 * 40


def test_a_job_that_is_cancelled_while_it_waits_never_starts():
    """Its end is shown without a start: it is taken back then, and nothing was booked."""
    observer, waits = Observer(), {"job": "w", "gpus": 1, "submit_ms": 20}
    up_to(observer, 50, waits)
    assert up_to(observer, 80, waits | {"end_ms": 60, "outcome": "cancelled"}) == {}
    assert JobState(observer.world.jobs.state[0]) is JobState.CANCELLED
    assert (observer.world.jobs.since_ms[0], worked(observer)) == (60, 0)


def test_an_answer_that_is_not_whole_ends_nothing():
    """Where lines could not be read, what is missing may be among them."""
    observer = Observer()
    up_to(observer, 50, ONE | {"start_ms": 10})
    observer.take(SourceAnswer(attempts(), [], 0, is_whole=False), EPOCH_MS + 80)
    assert JobState(observer.world.jobs.state[0]) is JobState.RUNNING
    assert observer.world.nodes.state[:4].tolist() == [NodeState.READY] * 4


def test_a_job_that_goes_on_after_its_end_has_another_life():
    """Requeued by hand an hour after it was done: its second life has a name of its own."""
    observer, first = Observer(), ONE | {"start_ms": 10, "end_ms": 30, "outcome": "done"}
    up_to(observer, 50, first)
    again = ONE | {"submit_ms": 60, "start_ms": 70, "outcome": "running"}
    assert up_to(observer, 80, first, again) == {"again": 1}
    assert up_to(observer, 100, again | {"end_ms": 90, "outcome": "done"}) == {}
    assert observer.world.job_names == ["j", "j#2"]
    assert worked(observer) == 8 * 40


def test_a_job_that_is_requeued_waits_and_runs_again():
    """The end of its first attempt and its new wait are shown in one answer: one job."""
    observer, first = Observer(), ONE | {"start_ms": 10, "end_ms": 40, "outcome": "preempted"}
    up_to(observer, 50, first, ONE | {"submit_ms": 55})
    assert JobState(observer.world.jobs.state[0]) is JobState.WAITING
    up_to(observer, 100, first, ONE | {"submit_ms": 55, "start_ms": 60, "end_ms": 90})
    assert (observer.world.job_count, observer.world.jobs.attempt[0]) == (1, 2)
    assert worked(observer) == 8 * 60


def test_a_job_that_may_run_again_only_later_is_not_over():
    """A requeued job is eligible after two minutes: until then no row of it is in the window."""
    observer, first = Observer(), ONE | {"start_ms": 10, "end_ms": 40, "outcome": "preempted"}
    up_to(observer, 50, first, ONE | {"submit_ms": 155})
    assert up_to(observer, 80, ONE | {"submit_ms": 155}) == {}
    assert JobState(observer.world.jobs.state[0]) is JobState.WAITING


def test_a_held_job_is_no_demand_until_it_is_eligible():
    """It is listed from its submission; GPUs stand free for want of it only since it may run."""
    observer = Observer()
    waits = {"job": "h", "gpus": 8, "submit_ms": 10, "is_per_node": True, "node_count": 1}
    up_to(observer, 50, waits | {"is_eligible": False})
    up_to(observer, 100, waits | {"submit_ms": 60})
    found = amounts(observer.books(), "bucket")
    assert found[(Bucket.CAUSE_UNKNOWN,)] == 8_000 * 40
    started = waits | {"submit_ms": 60, "start_ms": 110, "nodes": ["n1"]}
    up_to(observer, 120, started)
    assert worked(observer) == 8 * 10
    imported = read(build(attempts(started), NODES, PRICES, until_ms=EPOCH_MS + 120))
    figures = imported.waits.figures()
    assert figures.wait is not None
    assert figures.wait.max == 110 - 60
    assert observer.books().waits.figures() == figures


MINUTE = 60_000
FIRST: Row = {"job": "first", "gpus": 4, "start_ms": 0, "end_ms": 400_000, "outcome": "done",
              "nodes": ["n1"], "submit_ms": 0}  # fmt: skip


@pytest.mark.parametrize("overlap_ms", [30_000, 60_000, 61_000, 200_000])
@pytest.mark.parametrize("step_ms", [10_000, 70_000, 1_000_000])
def test_jobs_that_overlap_on_a_gpu_are_booked_and_said_as_an_import_does(
    overlap_ms: int, step_ms: int
):
    """Who begins up to a minute before others leave gets their GPUs when they do.

    An observer that is a minute behind knows by then that they will; it says the same of it.
    """
    then: Row = FIRST | {"job": "then", "gpus": 8, "start_ms": 400_000 - overlap_ms,
                         "end_ms": 700_000}  # fmt: skip
    history = build(attempts(FIRST, then), NODES, PRICES, until_ms=EPOCH_MS + 800_000)
    imported = amounts(read(history), "bucket")
    observer, said, now, until = Observer(), list[str](), 0, 0
    while until < 800_000:
        now += step_ms
        until = min(800_000, now - MINUTE)
        if until <= 0:
            continue
        observer.restart()
        rows = shown(*as_of([FIRST, then], now, 0))._replace(now_ms=EPOCH_MS + now)
        going = Advance(observer.world, EPOCH_MS, rows, PRICES)
        for batch in going.batches(EPOCH_MS + until):
            fold_batch(observer.world, batch)
            observer.journal.append_batch(batch)
        said += going.notes
    assert amounts(observer.books(), "bucket") == imported
    assert said == history.said_over
    assert (imported[(Bucket.STARTING,)] > 0) is (overlap_ms <= MINUTE)


HELD: Row = {"job": "h", "gpus": 8, "submit_ms": 0, "is_per_node": True, "node_count": 1}
HELD_RAN: Row = HELD | {"start_ms": 0, "end_ms": 40, "outcome": "requeued", "nodes": ["n1"]}
HELD_BACK: Row = HELD | {"submit_ms": 40, "outcome": "waiting", "reason": "JobHeldUser: held",
                         "reason_cause": int(Cause.NOT_ELIGIBLE), "reason_layer": 4}  # fmt: skip
LIKE_IT: Row = HELD | {"job": "like", "submit_ms": 70}


def free_time(books: Statement) -> dict[Bucket, int]:
    """What was free, by bucket."""
    found = amounts(books, "bucket")
    buckets = (Bucket.NO_DEMAND, Bucket.CAUSE_UNKNOWN)
    return {bucket: found[(bucket,)] // 1000 for bucket in buckets}


def test_a_job_that_is_requeued_and_held_claims_nothing():
    """Of 32 GPUs 8 are held for 40 ms; then all are free, and one job asks from 70 to 100 for 8.

    It is of the shape of the held one. Told at once, in parts, and by an observer that is killed.
    """
    rows = [HELD_RAN, HELD_BACK, LIKE_IT]
    at_once = read(build(attempts(*rows), NODES, PRICES, until_ms=EPOCH_MS + 100))
    expected = {Bucket.NO_DEMAND: 32 * 100 - 8 * 40 - 8 * 30, Bucket.CAUSE_UNKNOWN: 8 * 30}
    assert free_time(at_once) == expected
    for stops in ([20, 50, 100], [20, 45, 60, 75, 100], [100]):
        observer = Observer()
        for now in stops:
            observer.restart()
            shown = [HELD_RAN | {"end_ms": None, "outcome": "running"}] if now < 40 else rows[:2]
            up_to(observer, now, *shown, *([LIKE_IT] if now >= 70 else []))
        assert free_time(observer.books()) == expected
        figures = observer.books().waits.figures()
        assert (figures.held, figures.waiting) == (1, 1)


def test_between_two_attempts_a_job_asks_only_since_it_may_run_again():
    """Slurm lets two minutes pass after a requeue: it ended at 40, may run from 60, runs at 90."""
    again = HELD | {"submit_ms": 60, "start_ms": 90, "end_ms": 95, "outcome": "done",
                    "nodes": ["n1"]}  # fmt: skip
    at_once = read(build(attempts(HELD_RAN, again), NODES, PRICES, until_ms=EPOCH_MS + 100))
    assert free_time(at_once)[Bucket.CAUSE_UNKNOWN] == 8 * 30
    figures = at_once.waits.figures()
    assert figures.total_wait is not None
    assert figures.total_wait.max == 90 - 60
    for stops in ([20, 100], [20, 50, 70, 100], [100]):
        observer = Observer()
        for now in stops:
            shown = [HELD_RAN | {"end_ms": None, "outcome": "running"}]
            shown = shown if now < 40 else [HELD_RAN, HELD_BACK] if now < 60 else [HELD_RAN, again]
            waits = {"start_ms": None, "end_ms": None, "outcome": "waiting", "nodes": None}
            up_to(observer, now, *(row | waits if now < 90 and row is again else row
                                   for row in shown))  # fmt: skip
        assert free_time(observer.books()) == free_time(at_once)
        assert observer.books().waits.figures() == figures


def test_a_job_that_is_released_claims_again():
    """Held from 40 to 60, as far as the looks tell; then it asks for 8 GPUs until it runs at 90."""
    observer = Observer()
    up_to(observer, 20, HELD_RAN | {"end_ms": None, "outcome": "running"})
    up_to(observer, 60, HELD_RAN, HELD_BACK)
    asks = HELD_BACK | {"reason": None, "reason_cause": None, "reason_layer": None}
    observer.restart()
    up_to(observer, 80, asks)
    up_to(observer, 100, asks | {"start_ms": 90, "nodes": ["n1"], "outcome": "running"})
    assert free_time(observer.books())[Bucket.CAUSE_UNKNOWN] == 8 * 30
    again = [HELD_BACK, asks | {"start_ms": 90, "end_ms": 110, "outcome": "done", "nodes": ["n1"]}]
    up_to(observer, 120, *again[1:])
    assert JobState(observer.world.jobs.state[0]) is JobState.DONE


def test_a_job_that_is_held_while_it_waits_claims_no_more():
    """It asked for GPUs from 10 on; the look at 60 shows it held, from the watermark (30) on."""
    observer = Observer()
    up_to(observer, 30, HELD | {"submit_ms": 10})
    up_to(observer, 60, HELD_BACK | {"submit_ms": 10, "is_eligible": False})
    assert free_time(observer.books())[Bucket.CAUSE_UNKNOWN] == 8 * 20


def test_a_request_larger_than_any_node_is_told_as_one():
    """Four nodes of 99 GPUs each: no node has so many, and 396 of one GPU would be another job."""
    observer = Observer()
    waits = {"job": "j", "gpus": 396, "submit_ms": 10, "is_per_node": True, "node_count": 4}
    up_to(observer, 50, waits)
    answer = explain.why(observer.world, Policy(), 0)
    assert answer.cause == "impossible_size"
    assert answer.asks.startswith("4×99 ")
    assert "has 8 GPUs, it requests 99 on one node" in answer.words
    assert answer.fix.words == "request at most 4 replicas of 8 GPUs"  # 132×3 is more than there is
    assert "add" not in answer.words


def test_what_a_scheduler_says_is_not_called_unrecorded():
    """GPUs beside a job that would fit: the fix is to read the reason; without one, to find it."""
    waits = {"job": "h", "gpus": 8, "submit_ms": 10, "is_per_node": True, "node_count": 1}
    said = {"reason": "AssocGrpGRES", "reason_cause": 0, "reason_layer": 3}
    for told, words in ((waits, "no cause of it is recorded"), (waits | said, "has its reasons")):
        observer = Observer()
        up_to(observer, 50, told)
        up_to(observer, 100, told)
        (found,) = fixes.fixes(observer.books(), Bucket.CAUSE_UNKNOWN)
        assert words in found.words


def test_a_job_in_other_parts_than_it_waited_for_is_booked_whole():
    """It asked for one node with 8 GPUs, and runs on two with 4: no GPU of it is lost."""
    observer = Observer()
    waits = {"job": "j", "gpus": 8, "submit_ms": 10, "is_per_node": True, "node_count": 1}
    up_to(observer, 50, waits)
    up_to(observer, 100, waits | {"start_ms": 60, "nodes": ["n0", "n1"], "node_count": 2})
    assert worked(observer) == 8 * 40


def test_a_job_with_more_gpus_than_its_node_has_holds_those_that_it_has():
    """Nine on a node with eight: eight are held, from its start on and in the answers after."""
    observer, row = Observer(), {"job": "j", "gpus": 9, "submit_ms": 0, "nodes": ["n0"]}
    up_to(observer, 50, row | {"start_ms": 10})
    up_to(observer, 100, row | {"start_ms": 10, "end_ms": 90})
    assert worked(observer) == 8 * 80


def test_a_node_is_paid_from_when_it_is_first_seen_until_it_is_gone():
    """A fifth node for some time, and again under its old name: paid while it is there."""
    observer, more = Observer(), [*NODES, SeenNode(name="n9", gpus=8, gpu_type="h100")]
    up_to(observer, 50)
    up_to(observer, 80, nodes=more)
    up_to(observer, 100, nodes=more)
    up_to(observer, 130)
    up_to(observer, 150, ONE | {"start_ms": 141, "nodes": ["n9"]}, nodes=more)
    up_to(observer, 160, ONE | {"start_ms": 141, "nodes": ["n9"]}, nodes=more)
    paid = observer.books().total().paid_milli_ms // 1000
    assert paid == 32 * 160 + 8 * (130 - 79) + 8 * (160 - 140)
    assert [row.name for row in observer.world.node_rows[4:]] == ["n9", "n9#2"]
    assert len(observer.world.contract_rows) == 2
    assert worked(observer) == 8 * 19


def test_a_node_with_other_devices_than_before_is_another_when_nobody_sits_on_it():
    """Of 8 GPUs 4 are cut into instances while a job runs there: told when it has ended."""
    observer, (_, *rest) = Observer(), NODES
    whole, cut = (replace(NODES[0], gpus=n, since_ms=EPOCH_MS) for n in (8, 4))
    part = SeenNode(name="n0/mig-3g.40gb", gpus=8, gpu_type="3g.40gb of h100", machine=whole,
                    unit=(1, 2), since_ms=EPOCH_MS)  # fmt: skip
    row = ONE | {"start_ms": 10}
    up_to(observer, 50, row, nodes=[whole, *rest])
    after = [replace(cut, machine=whole), part, *rest]
    up_to(observer, 60, row, nodes=after)
    up_to(observer, 80, row | {"end_ms": 70, "outcome": "done"}, nodes=after)
    up_to(observer, 100, row | {"end_ms": 70, "outcome": "done"}, nodes=after)
    up_to(observer, 160, nodes=after)
    names = sorted(row.name for row in observer.world.node_rows[4:])
    assert names == ["n0#2", "n0/mig-3g.40gb"]
    assert NodeState(observer.world.nodes.state[0]) is NodeState.GONE
    paid = observer.books().total().paid_milli_ms // 1000
    assert paid == 32 * 160
    assert worked(observer) == 8 * 60


def test_a_node_that_nobody_lists_is_there_while_work_is_shown_on_it():
    """Its size is what the work holds; it is gone when the work is over."""
    observer, row = Observer(), {"job": "j", "gpus": 4, "nodes": ["x"], "start_ms": 10}
    up_to(observer, 50, row)
    up_to(observer, 80, row)
    assert worked(observer) == 4 * 70
    up_to(observer, 120, row | {"end_ms": 100, "outcome": "done"})
    assert NodeState(observer.world.nodes.state[observer.world.node_number["x"]]) is NodeState.GONE


def test_teams_and_gpu_types_may_come_later():
    """Both are added when they are first seen."""
    observer = Observer()
    up_to(observer, 50, ONE | {"start_ms": 10})
    other = {"job": "k", "team": "later", "gpus": 2, "nodes": ["b"], "start_ms": 60}
    more = [*NODES, SeenNode(name="b", gpus=4, gpu_type="b200")]
    up_to(observer, 90, ONE | {"start_ms": 10}, other, nodes=more)
    assert [queue.name for queue in observer.world.queue_rows] == ["a", "later"]
    assert observer.world.kinds == ["H100", "B200"]
    assert worked(observer) == 8 * 80 + 2 * 30


def test_a_source_five_minutes_behind_is_booked_from_the_watermark():
    """Everything comes too late by more than the lateness: taken, counted, never twice."""
    observer, behind, late = Observer(), 300, 0
    for now in range(30, 1000, 30):
        row = ONE | {"start_ms": 100, "end_ms": 400 if now - behind >= 400 else None}
        if now - behind >= 100:
            late += up_to(observer, now - LATENESS_MS, row)["gpu_ms"]
        else:
            up_to(observer, now - LATENESS_MS)
    assert worked(observer) == 8 * 300
    assert late == 8 * (260 + 260)


BEFORE: Row = {"job": "j", "submit_ms": 10, "gpus": 1, "nodes": ["n1"], "gpu_type": "h100"}
RUNS: Row = BEFORE | {"start_ms": 10, "outcome": "running"}
REQUEUED: Row = BEFORE | {"start_ms": 10, "end_ms": 20, "outcome": "requeued"}
AT_ONCE: Row = REQUEUED | {"start_ms": 20}
BACK: Row = BEFORE | {"submit_ms": 21, "nodes": None, "outcome": "waiting", "is_eligible": False}
AGAIN: Row = RUNS | {"submit_ms": 21, "start_ms": 140}


@pytest.mark.parametrize(
    "shown",
    [
        ([RUNS], [], [REQUEUED, BACK], [REQUEUED, AGAIN]),
        ([RUNS], [REQUEUED, BACK], [], [REQUEUED, AGAIN]),
        ([], [BACK], [], [AT_ONCE, AGAIN]),
        ([], [], [], [AT_ONCE, AGAIN]),
        ([], [], [], [REQUEUED, AGAIN]),
        ([], [BACK], [], [REQUEUED, AGAIN]),
        ([RUNS], [BACK], [AT_ONCE, BACK], [AGAIN]),
    ],
)
def test_a_requeued_job_whose_rows_come_and_go_is_told_on(shown: tuple[list[Row], ...]):
    """However late its attempts come to light, and whatever was told of it: it runs in the end."""
    observer = Observer()
    for now, rows in zip((12, 40, 145, 165), shown, strict=True):
        observer.restart()
        up_to(observer, now, *rows)
    assert len(observer.world.placements) == 1
    assert observer.world.now_ms == 165
    assert worked(observer) >= 165 - 145, "from the watermark on at the latest"
