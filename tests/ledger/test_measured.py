"""What was measured takes the place of what was said at submission, part by part, and says so.

The oracle here divides with fractions, piece of time by piece of time; it shares nothing with the
ledger but the names of the buckets.
"""

from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import contract, job, role, team
from tidemill.core import snapshot
from tidemill.engine.fold.batch import fold_batch
from tidemill.engine.fold.one_event import fold_all
from tidemill.ledger.buckets import FREE_OF_JOBS, Bucket
from tidemill.ledger.statement import read
from tidemill.ledger.unknowns import unknowns_of
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary, named_by
from tidemill.model.batch.convert import of_events, to_events
from tidemill.model.errors import EventRefused
from tidemill.model.rows import Checkpointing, Job, Node, Piece
from tidemill.model.states import Confidence, NodeState
from tidemill.model.world import World

MILLION = 1_000_000
GPUS = 4
UNKNOWN_SAVING = Checkpointing(-1, 0)


class Share(NamedTuple):
    """How a stretch of time divides, and since when."""

    start_ms: int
    checkpoint: int
    busy: int
    host: int
    links: int
    mfu: int  # -1: unknown
    straggler: int = -1  # of what is waited for other ranks; -1: nobody compared them


class Run(NamedTuple):
    """One attempt: when it came up and ended, how, what was measured, what was saved."""

    start_ms: int
    end_ms: int
    end: str  # done, failed, open
    shares: tuple[Share, ...]
    saves: tuple[tuple[int, int], ...]  # at, covers


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Any attempt that begins at 1,000 ms."""
    ppm = st.integers(0, 300_000)
    start, length = 1_000, draw(st.integers(1, 100_000))
    cuts = sorted({start, *draw(st.lists(st.integers(start, start + length - 1), max_size=4))})
    shares = tuple(
        Share(at, draw(ppm), MILLION - draw(ppm), draw(ppm), draw(ppm),
              draw(st.one_of(st.just(-1), ppm)), draw(st.integers(-1, MILLION)))
        for at in cuts
    )  # fmt: skip
    times = sorted(draw(st.lists(st.integers(start, start + length - 1), max_size=4)))
    saves = tuple((at, draw(st.integers(start, at))) for at in times)
    end = draw(st.sampled_from(("done", "failed", "open")))
    return Run(start, start + length, end, shares, saves)


def told(run: Run) -> list[ev.Event]:
    """The run as events, on one node of four GPUs."""
    asked = job("j", roles=[role(GPUS)], team="a")
    asked = Job(asked.name, asked.shape, checkpointing=UNKNOWN_SAVING)
    events: list[ev.Event] = [
        ev.ContractSigned(0, contract(gpus=GPUS, per_node=GPUS)), ev.QueueSet(0, team("a")),
        ev.ContractStarted(0, 0), ev.NodeMoved(0, 0, NodeState.BOOTING),
        ev.NodeMoved(0, 0, NodeState.READY), ev.JobSubmitted(0, asked),
        ev.PlacementSeen(0, 0, 1, (Piece(0, 0, GPUS, 0b1111),)),
        ev.JobStarted(run.start_ms, 0, 1), ev.CheckpointSeen(run.start_ms, 0, 1, run.start_ms),
    ]  # fmt: skip
    events[3:3] = [ev.NodeAdded(0, node_of(events))]
    later: list[ev.Event] = []
    for share in run.shares:
        at = share.start_ms
        later += [
            ev.ActivitySeen(at, 0, 1, share.busy),
            ev.StallsSeen(at, 0, 1, share.checkpoint, share.host, share.links),
            ev.EfficiencySeen(at, 0, 1, max(0, share.mfu), confidence(share.mfu)),
            ev.StragglerSeen(
                at,
                0,
                1,
                max(0, share.straggler),
                Confidence.UNKNOWN if share.straggler < 0 else Confidence.INFERRED,
            ),
        ]
    later += [ev.CheckpointSeen(at, 0, 1, covers) for at, covers in run.saves]
    events += sorted(later, key=lambda event: event.at_ms)
    if run.end == "done":
        return [*events, ev.JobFinished(run.end_ms, 0, 1)]
    if run.end == "failed":
        return [*events, ev.JobFailed(run.end_ms, 0, 1, is_final=True)]
    return [*events, ev.Woke(run.end_ms)]


def node_of(events: list[ev.Event]) -> Node:
    """A node under the contract that was signed first."""
    signed = events[0]
    assert isinstance(signed, ev.ContractSigned)
    return Node("n", signed.contract.name)


def confidence(mfu: int) -> Confidence:
    """How an MFU is known."""
    return Confidence.UNKNOWN if mfu < 0 else Confidence.MEASURED


def expected(run: Run) -> dict[Bucket, Fraction]:
    """Milli·ms by bucket, as fractions."""
    found = dict.fromkeys(Bucket, Fraction(0))
    found[Bucket.STARTING] += run.start_ms * GPUS * 1000
    safe = run.end_ms if run.end == "done" else max((run.start_ms, *(c for _, c in run.saves)))
    edges = sorted({run.start_ms, run.end_ms, safe, *(share.start_ms for share in run.shares)})
    for start, end in pairwise(edges):
        share = max(share for share in run.shares if share.start_ms <= start)
        held = Fraction((end - start) * GPUS * 1000)
        stall = held * share.checkpoint / MILLION
        idle = (held - stall) * (MILLION - share.busy) / MILLION
        work = held - stall - idle
        found[Bucket.CHECKPOINT] += stall
        found[Bucket.IDLE] += idle
        if start >= safe:
            found[Bucket.UNSAVED if run.end == "open" else Bucket.REWORK] += work
            continue
        host, links = work * share.host / MILLION, work * share.links / MILLION
        found[Bucket.HOST] += host
        slow = links * max(0, share.straggler) / MILLION
        found[Bucket.LINKS] += links - slow
        found[Bucket.STRAGGLER] += slow
        if share.mfu < 0:
            found[Bucket.UNKNOWN] += work - host - links
        else:
            found[Bucket.USEFUL] += work * share.mfu / MILLION
            found[Bucket.BELOW_PEAK] += work - host - links - work * share.mfu / MILLION
    return found


@given(runs())
def test_time_divides_as_measured(run: Run):
    """Each bucket is what the oracle says, but for rounding; the sum is what was paid, exactly."""
    statement = read(told(run))
    account, wanted = statement.total(), expected(run)
    assert account.paid_milli_ms == run.end_ms * GPUS * 1000
    for bucket in Bucket:
        assert abs(account.milli_ms[bucket] - wanted[bucket]) <= 12 * len(run.shares) + 12, bucket


@given(runs(), st.integers(1, 999_999))
def test_bins_add_up_to_the_same(run: Run, bin_ms: int):
    """However time is divided into bins, each bucket comes to the same, exactly."""
    events = told(run)
    whole = read(events).total()
    bin_ms = max(bin_ms, run.end_ms // 50 + 1)
    binned = read(events, bin_ms=bin_ms).total()
    assert binned.milli_ms == whole.milli_ms


@given(runs())
def test_folded_at_once_as_one_by_one(run: Run):
    """Kernels and Python fold the same, and a snapshot keeps what was measured."""
    events = told(run)
    world = fold_all(World(), events)
    batch = of_events(events, Dictionary())
    assert to_events(batch) == events
    assert snapshot.digest(fold_batch(World(), batch)) == snapshot.digest(world)
    middle = fold_all(World(), events[:-1])
    kept = snapshot.copy(middle)
    assert snapshot.digest(kept) == snapshot.digest(middle)
    assert snapshot.digest(fold_all(kept, events[-1:])) == snapshot.digest(world)


def test_lines_say_that_they_are_measured():
    """Every line below *allocated* is measured where somebody measured; the others are not."""
    shares = (Share(1_000, 100_000, 900_000, 50_000, 20_000, 400_000),)
    saves = ((51_000, 50_000),)
    statement = read(told(Run(1_000, 61_000, "failed", shares, saves)))
    held = [b for b in Bucket if statement.total().milli_ms[b]]
    assert Bucket.REWORK in held
    assert Bucket.USEFUL in held
    assert {statement.confidence(bucket) for bucket in held} == {Confidence.MEASURED}
    unmeasured = (Share(1_000, 0, MILLION, 0, 0, -1),)
    statement = read(told(Run(1_000, 61_000, "done", unmeasured, ())))
    assert statement.confidence(Bucket.UNKNOWN) is Confidence.UNKNOWN


def test_start_up_is_known_where_its_loop_spoke_in_time():
    """One that spoke only after its job was told to be at work measured no start-up."""
    run = Run(1_000, 61_000, "done", (Share(1_000, 0, MILLION, 0, 0, -1),), ((9_000, 8_000),))
    in_time = told(run)
    first = next(i for i, one in enumerate(in_time) if isinstance(one, ev.CheckpointSeen))
    late = [one for i, one in enumerate(in_time) if i != first]
    jobs = np.array([0])
    assert {Bucket.STARTING, Bucket.REWORK} <= read(in_time).told.of(jobs)
    found = read(late).told.of(jobs)
    assert Bucket.REWORK in found
    assert Bucket.STARTING not in found


def test_a_loop_that_goes_back_loses_what_it_did_since_and_comes_up_again():
    """Saved at 10 s, back at 31 s, at work again at 35 s; folded at once as one by one."""
    share = Share(1_000, 0, MILLION, 0, 0, 400_000)
    events = told(Run(1_000, 61_000, "done", (share,), ((10_500, 10_000),)))
    back = [
        ev.CheckpointSeen(31_000, 0, 1, 31_000, is_back=True),
        ev.CheckpointSeen(35_000, 0, 1, 35_000, is_again=True),
    ]
    events[-1:-1] = back
    found = read(events).total().milli_ms
    assert found[Bucket.REWORK] == 1000 * GPUS * 21_000
    assert found[Bucket.RESTART] == 1000 * GPUS * 4_000
    assert sum(found) == 1000 * GPUS * 61_000
    batch = of_events(events, Dictionary())
    assert to_events(batch) == events
    at_once, one_by_one = fold_batch(World(), batch), fold_all(World(), events)
    assert snapshot.digest(at_once) == snapshot.digest(one_by_one)


@pytest.mark.parametrize("is_said", [False, True])
def test_what_a_loop_loses_that_says_nothing_of_what_it_saves_nobody_knows(is_said: bool):
    """Launched again at 35 s and stopped at 61 s: of its work until 31 s somebody may have said
    what is safe, of that since then nobody did. Folded at once as one by one.
    """
    share = Share(1_000, 0, MILLION, 0, 0, 400_000)
    saves = ((10_500, 10_000),) if is_said else ()
    events = told(Run(1_000, 61_000, "failed", (share,), saves))
    if not is_said:
        events = [one for one in events if not isinstance(one, ev.CheckpointSeen)]
    events[-1:-1] = [
        ev.CheckpointSeen(31_000, 0, 1, 1_000, is_back=True),
        ev.CheckpointSeen(35_000, 0, 1, 0, is_again=True),
    ]
    statement = read(events)
    found = statement.total().milli_ms
    assert found[Bucket.REWORK] == 1000 * GPUS * (21_000 if is_said else 0)
    assert found[Bucket.RESTART] == 1000 * GPUS * 4_000
    assert found[Bucket.UNKNOWN] == 1000 * GPUS * (26_000 if is_said else 56_000)
    assert sum(found) == 1000 * GPUS * 61_000
    assert not {Bucket.REWORK, Bucket.UNSAVED} & statement.told.of(np.array([0]))
    batch = of_events(events, Dictionary())
    assert to_events(batch) == events
    at_once, one_by_one = fold_batch(World(), batch), fold_all(World(), events)
    assert snapshot.digest(at_once) == snapshot.digest(one_by_one)


def test_waiting_for_a_slow_rank_is_told_from_other_waits():
    """60 s on 4 GPUs, 20 % waiting for ranks, a quarter of that for a slow one: 12 GPU-seconds.

    Nothing but communication has less for it, and the line is inferred: peers say what was usual.
    """
    share = Share(1_000, 0, MILLION, 0, 200_000, 400_000)
    before = read(told(Run(1_000, 61_000, "done", (share,), ()))).total()
    slow = share._replace(straggler=250_000)
    statement = read(told(Run(1_000, 61_000, "done", (slow,), ())))
    account = statement.total()
    assert account.milli_ms[Bucket.STRAGGLER] == 12_000 * 1000
    assert account.milli_ms[Bucket.LINKS] == 36_000 * 1000
    assert before.milli_ms[Bucket.LINKS] == 48_000 * 1000
    others = [b for b in Bucket if b not in (Bucket.LINKS, Bucket.STRAGGLER)]
    assert [account.milli_ms[b] for b in others] == [before.milli_ms[b] for b in others]
    assert statement.confidence(Bucket.STRAGGLER) is Confidence.INFERRED


def test_no_straggler_is_zero_only_where_ranks_were_compared():
    """Compared and nobody slow: zero. Not compared, or no more: unknown, with the reason."""
    share = Share(1_000, 0, MILLION, 0, 200_000, 400_000)
    for shares, is_known in (
        ((share,), False),
        ((share._replace(straggler=0),), True),
        ((share._replace(straggler=0), share._replace(start_ms=9_000)), False),
    ):
        run = Run(1_000, 61_000, "done", shares, ())
        events = told(run)
        if shares == (share,):  # nobody said anything of ranks
            events = [event for event in events if not isinstance(event, ev.StragglerSeen)]
        missing = unknowns_of(read(events))
        assert (Bucket.STRAGGLER not in missing) is is_known, shares
        assert is_known or "compared" in missing[Bucket.STRAGGLER]


def test_the_next_attempt_is_not_measured_until_somebody_does():
    """What an attempt was measured to do is not said of the one after it."""
    shares = (Share(1_000, 0, MILLION, 300_000, 0, 400_000),)
    events = told(Run(1_000, 11_000, "done", shares, ()))[:-1]
    events += [
        ev.JobFailed(11_000, 0, 1),
        ev.PlacementSeen(11_000, 0, 2, (Piece(0, 0, GPUS, 0b1111),)),
        ev.JobStarted(11_000, 0, 2),
        ev.JobFailed(21_000, 0, 2, is_final=True),
    ]
    account = read(events).total()
    assert account.milli_ms[Bucket.REWORK] == 10_000 * GPUS * 1000, "nothing was saved"
    assert account.milli_ms[Bucket.UNKNOWN] == 10_000 * GPUS * 1000, "and here nobody knows"


@given(runs(), st.integers(0, 120_000), st.integers(1, 60_000), st.booleans())
def test_what_nobody_watched_is_a_bucket_of_its_own(run: Run, at: int, length: int, keeps: bool):
    """A gap takes exactly its time, of all that is paid or of what no job holds."""
    events = told(run)
    end_ms = run.end_ms + at + length + 1
    gap: list[ev.Event] = [ev.SightLost(at, keeps), ev.SightRegained(at + length)]
    seen = sorted([*events[6:], ev.Woke(end_ms)], key=lambda event: event.at_ms)
    plain = read([*events[:6], *seen]).total()
    story = sorted([*seen, *gap], key=lambda event: event.at_ms)
    found = read([*events[:6], *story], bin_ms=end_ms // 3 + 1).total()
    assert found.paid_milli_ms == plain.paid_milli_ms
    unseen = found.milli_ms[Bucket.NOT_OBSERVED]
    if not keeps:
        assert unseen == length * GPUS * 1000
    held = [b for b in Bucket if b not in FREE_OF_JOBS and b != Bucket.NOT_OBSERVED]
    if keeps:
        assert [found.milli_ms[b] for b in held] == [plain.milli_ms[b] for b in held]
    assert all(found.milli_ms[b] <= plain.milli_ms[b] + 30 for b in Bucket if b in held)


@given(runs(), st.integers(0, 120_000), st.integers(1, 60_000))
def test_sight_of_one_cluster_hides_only_the_free_time_of_its_nodes(run: Run, at: int, length: int):
    """Two clusters under one contract: `n` is watched, `west/m` is not for a while.

    What is not observed is the gap times what is free there; every other bucket but *free* stays,
    and a snapshot in the middle of the gap goes on as the events do.
    """
    events, end_ms = told(run), run.end_ms + at + length + 1
    signed = events[0]
    assert isinstance(signed, ev.ContractSigned)
    events[0] = ev.ContractSigned(0, contract(gpus=2 * GPUS, per_node=GPUS))
    added = next(i for i, event in enumerate(events) if isinstance(event, ev.NodeAdded))
    events[added + 1 : added + 1] = [ev.NodeAdded(0, Node("west/m", signed.contract.name))]
    ready = next(i for i, e in enumerate(events) if isinstance(e, ev.JobSubmitted))
    boots = (NodeState.BOOTING, NodeState.READY)
    events[ready:ready] = [ev.NodeMoved(0, 1, state) for state in boots]
    first = ready + 4
    seen = sorted([*events[first:], ev.Woke(end_ms)], key=lambda event: event.at_ms)
    plain = read([*events[:first], *seen]).total()
    gap: list[ev.Event] = [ev.SightLost(at, True, "west/"), ev.SightRegained(at + length, "west/")]
    story = [*events[:first], *sorted([*seen, *gap], key=lambda event: event.at_ms)]
    found = read(story, bin_ms=end_ms // 3 + 1, weighs_mix=True).total()
    assert found.paid_milli_ms == plain.paid_milli_ms
    assert found.milli_ms[Bucket.NOT_OBSERVED] == length * GPUS * 1000
    free = sum(plain.milli_ms[b] for b in FREE_OF_JOBS)
    assert sum(found.milli_ms[b] for b in FREE_OF_JOBS) == free - length * GPUS * 1000
    others = [b for b in Bucket if b not in FREE_OF_JOBS and b != Bucket.NOT_OBSERVED]
    assert [found.milli_ms[b] for b in others] == [plain.milli_ms[b] for b in others]
    batch = of_events(story, Dictionary())
    assert to_events(batch) == story
    assert to_events(named_by(batch, Dictionary())) == story
    world = fold_all(World(), story)
    assert snapshot.digest(fold_batch(World(), batch)) == snapshot.digest(world)
    lost = story.index(gap[0]) + 1
    middle = snapshot.copy(fold_all(World(), story[:lost]))
    assert middle.is_unseen("west/m")
    assert snapshot.digest(fold_all(middle, story[lost:])) == snapshot.digest(world)


def test_sight_of_one_cluster_is_lost_once():
    """Twice lost, regained when it was not lost, or lost with its jobs: refused in words."""
    world = fold_all(World(), [ev.SightLost(0, True, "a/")])
    for event, words in (
        (ev.SightLost(1, True, "a/"), "nobody does already"),
        (ev.SightRegained(1, "b/"), "somebody watches already"),
        (ev.SightLost(1, False, "b/"), "what jobs hold"),
    ):
        with pytest.raises(EventRefused, match=words):
            fold_all(world, [event])
    fold_all(world, [ev.SightLost(2, True), ev.SightRegained(3, "a/"), ev.SightRegained(3)])


def test_sight_is_lost_once():
    """What is known already is refused as late or repeated."""
    world = fold_all(World(), [ev.SightLost(0)])
    with pytest.raises(EventRefused, match="nobody does already"):
        fold_all(world, [ev.SightLost(1)])
    fold_all(world, [ev.SightLost(1, True), ev.SightRegained(2), ev.SightLost(3)])
