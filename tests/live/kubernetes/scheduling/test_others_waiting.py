"""Pods of other schedulers that wait: told beside the queue; what is free may have had demand."""

from msgspec.structs import replace

from tests.ledger.sums import amounts
from tests.live.history.test_advance import Observer
from tests.live.history.test_history import EPOCH_MS, NODES, attempts
from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill import explain
from tidemill.explain import held_jobs
from tidemill.journal import others_waiting
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.reader import Ledger
from tidemill.ledger.span_binning import Window
from tidemill.ledger.statement import Statement
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.kubernetes.scheduling import barring, keeping
from tidemill.model.policy import Policy
from tidemill.model.states import Confidence


def test_pods_that_wait_for_another_scheduler_are_listed():
    """One waits and one runs there; `pending` names the first, and does not say nothing waits."""
    story = Story(8)
    story.server.make("theirs", 4, spec={"schedulerName": "default-scheduler"})
    story.server.make("runs", 2, on="n0")
    story.rest()
    (one,) = keeping.of_others(story.scheduler.differ, made.BEGIN_MS)
    assert (one.name, one.gpus, one.reason) == ("ml/theirs", 4, "OtherScheduler")
    assert "theirs" not in " ".join(story.scheduler.differ.world.job_names), "ours plans it never"
    board = explain.board(story.scheduler.differ.world, Policy())
    found = held_jobs.with_held(board, [one])
    assert found.words == (
        "nothing waits in the queue; 6 GPUs free; 1 pod of other schedulers waits, in no queue here"
    )
    assert (
        "it waits for `default-scheduler`, which decides for it" in held_jobs.answer(one, 0).words
    )
    assert held_jobs.answer(one, 0).owner == "scheduling"
    barred = replace(one, reason=barring.FORBIDDEN, words="may not create pods/binding")
    assert held_jobs.answer(barred, 0).owner == "scheduling"
    assert held_jobs.answer(replace(one, reason="WaitingForGang"), 0).owner == "workload"
    assert "held" not in held_jobs.answer(one, 0).words


def test_spans_of_waiting_go_on_and_are_bounded():
    """Looks that follow each other are one span; the oldest are joined where there are too many."""
    spans = others_waiting.gone_on([], 0, 10, waits=True)
    assert others_waiting.gone_on(spans, 10, 20, waits=True) == [(0, 20)]
    assert others_waiting.gone_on(spans, 10, 20, waits=False) == [(0, 10)]
    for at in range(20, 20 * (others_waiting.MOST + 5), 20):
        spans = others_waiting.gone_on(spans, at, at + 10, waits=True)
    assert len(spans) == others_waiting.MOST
    assert spans[0][0] == 0


def test_that_nobody_wanted_what_was_free_is_inferred_while_others_wait():
    """Four free nodes for 100 ms, and pods of others that wait for 40 of it."""
    observer = Observer()
    observer.take(SourceAnswer(attempts(), NODES, EPOCH_MS + 100), EPOCH_MS + 100)
    known = []
    for spans, window in (([], Window()), ([(30, 70)], Window()), ([(30, 70)], Window(70, 100))):
        ledger = Ledger(window=window)
        for batch in observer.journal.batches():
            ledger.read_batch(batch)
        ledger.put_back(others_waiting.facts(spans), "here")
        statement = Statement(ledger)
        assert {*amounts(statement, "bucket")} == {(Bucket.NO_DEMAND,)}
        known.append((statement.others_waited_ms, statement.confidence(Bucket.NO_DEMAND)))
    measured, inferred = Confidence.MEASURED, Confidence.INFERRED
    assert known == [(0, measured), (40, inferred), (0, measured)]
