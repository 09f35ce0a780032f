"""Loads of services and figures of devices, added up from events, against counts by hand."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import contract, job, role, team
from tidemill.cli import efficiency_tables
from tidemill.journal import open_journal
from tidemill.ledger import efficiency, rolling
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.efficiency import HeldRow
from tidemill.ledger.served import LatencyCounts
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import Statement, read
from tidemill.model import events as ev
from tidemill.model.figures import DeviceFigure
from tidemill.model.loads import NO_BOUND_US, LatencyFigure, LoadFigure
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Node, Piece
from tidemill.model.states import JobClass, NodeState

GPUS = 4
BOUNDS = (1_000, 5_000, 250_000, NO_BOUND_US)


def opened() -> list[ev.Event]:
    """A node of four GPUs, and a service on all of them from the beginning."""
    served = job("chat", roles=[role(GPUS)], team="a", kind=JobClass.INFERENCE)
    return [
        ev.ContractSigned(0, contract(gpus=GPUS, per_node=GPUS)), ev.QueueSet(0, team("a")),
        ev.ContractStarted(0, 0), ev.NodeAdded(0, Node("n", contract().name)),
        ev.NodeMoved(0, 0, NodeState.BOOTING), ev.NodeMoved(0, 0, NodeState.READY),
        ev.JobSubmitted(0, served),
        ev.PlacementSeen(0, 0, 1, (Piece(0, 0, GPUS, 2**GPUS - 1),)), ev.JobStarted(0, 0, 1),
    ]  # fmt: skip


def row(statement: Statement) -> HeldRow:
    """The one service of it."""
    return efficiency.of_job(statement, 0)


def level(at_ms: int, value: int, figure: DeviceFigure = DeviceFigure.SM_ACTIVE) -> ev.Event:
    """A figure of devices from a moment on."""
    return ev.FigureSeen(at_ms, 0, 1, figure, value)


def test_a_figure_holds_until_the_next_or_until_its_attempt_ends():
    """Half of the first hour at 20 %, half unknown; an hour at 60 %; then the job ends."""
    half = HOUR_MS // 2
    events = [
        *opened(), level(0, 200_000), level(half, -1), level(HOUR_MS, 600_000),
        ev.JobFinished(2 * HOUR_MS, 0, 1), ev.Woke(3 * HOUR_MS),
    ]  # fmt: skip
    found = row(read(events)).measured
    assert found.figures == {DeviceFigure.SM_ACTIVE: (200_000 + 2 * 600_000 + 1) // 3}
    assert found.figure_gpu_s == {DeviceFigure.SM_ACTIVE: GPUS * 5400}
    assert found.load is None


def test_a_window_has_its_own_part_of_a_figure():
    """Of a level that holds for three hours, the second hour."""
    events = [*opened(), level(0, 400_000), ev.Woke(3 * HOUR_MS)]
    found = row(read(events, HOUR_MS, 2 * HOUR_MS)).measured
    assert found.figure_gpu_s == {DeviceFigure.SM_ACTIVE: GPUS * 3600}
    assert found.figures == {DeviceFigure.SM_ACTIVE: 400_000}


def test_what_was_never_told_is_unknown_and_what_was_asked_for_nothing_is_zero():
    """Requests without a word of tokens: unknown. No requests: no tokens, surely."""
    seen, some = (ev.LoadSeen(0, 0, 1, figure, amount) for figure, amount in
                  ((LoadFigure.SEEN_MS, 300_000), (LoadFigure.REQUESTS, 3)))  # fmt: skip
    asked, silent = (row(read([*opened(), *told])) for told in ((seen, some), (seen,)))
    assert asked.measured.load is not None
    assert silent.measured.load is not None
    assert (asked.measured.load.requests, asked.measured.load.tokens_out) == (3, None)
    assert (silent.measured.load.requests, silent.measured.load.tokens_out) == (0, 0)
    assert asked.measured.load.waiting_milli is None, "nobody looked at the queue"


@given(st.lists(st.tuples(st.sampled_from(BOUNDS), st.integers(1, 50)), min_size=1, max_size=12),
       st.integers(1, 100))  # fmt: skip
def test_a_quantile_is_never_told_too_low(counts: list[tuple[int, int]], percent: int):
    """Buckets of any stretches, merged: so many took no longer, whatever they took exactly."""
    events = [*opened(), *(
        ev.LatencySeen(i, 0, 1, LatencyFigure.WHOLE, bound, count)
        for i, (bound, count) in enumerate(counts)
    ), ev.LoadSeen(len(counts), 0, 1, LoadFigure.SEEN_MS, 1)]  # fmt: skip
    load = row(read(events)).measured.load
    assert load is not None
    merged = load.latencies[LatencyFigure.WHOLE]
    every = sorted(bound for bound, count in counts for _ in range(count))
    exact = every[-(-percent * len(every) // 100) - 1]
    told = merged.at_most_us(Fraction(percent, 100))
    assert told == (None if exact == NO_BOUND_US else exact)


def test_bounds_of_two_engines_may_differ():
    """One counts up to 100 and 200 ms, the other up to 150: nine in ten took at most 200."""
    merged = LatencyCounts((100, 150, 200), (50, 40, 10))
    assert merged.at_most_us(Fraction(9, 10)) == 150
    assert merged.at_most_us(Fraction(91, 100)) == 200
    assert LatencyCounts((), ()).at_most_us(Fraction(1, 2)) is None


def test_rolled_up_books_keep_loads_and_figures(tmp_path: Path):
    """Ten hours, of which seven are rolled up, with a level that holds across the cut."""
    events = [*opened(), level(0, 300_000)]
    for hour in range(10):
        at = hour * HOUR_MS + 1
        events += [
            ev.LoadSeen(at, 0, 1, LoadFigure.SEEN_MS, 300_000),
            ev.LoadSeen(at, 0, 1, LoadFigure.REQUESTS, 7 + hour),
            ev.LatencySeen(at, 0, 1, LatencyFigure.WHOLE, 5_000, 7 + hour),
        ]
    events.append(ev.Woke(10 * HOUR_MS))
    where = str(tmp_path / "j.sqlite")
    with open_journal(where, create=True) as journal:
        for event in events:
            journal.append([event])
        before = efficiency.efficiencies(_read(journal), "team").rows
        done = rolling.roll_up(journal, 7 * HOUR_MS, Policy())
        assert done.gone > len(opened()) + 15
        after = efficiency.efficiencies(_read(journal), "team").rows
    assert [one.measured for one in after] == [one.measured for one in before]
    (team_a,) = after
    assert team_a.measured.load is not None
    assert team_a.measured.load.requests == sum(range(7, 17))
    assert team_a.measured.figures == {DeviceFigure.SM_ACTIVE: 300_000}
    assert team_a.measured.figure_gpu_s == {DeviceFigure.SM_ACTIVE: GPUS * 36_000}


def _read(journal: object) -> Statement:
    from tidemill.journal.base import Journal

    assert isinstance(journal, Journal)
    ledger, first = rolling.reader_of(journal, Policy(), Window())
    for batch in journal.batches(first):
        ledger.read_batch(batch)
    return Statement(ledger)


def test_requests_alone_do_not_say_how_busy_devices_were():
    """A service that was idle for a while is known to be; its occupancy is not."""
    idle: list[ev.Event] = [
        ev.ActivitySeen(HOUR_MS, 0, 1, 0), ev.ActivitySeen(2 * HOUR_MS, 0, 1, 1_000_000),
        ev.LoadSeen(0, 0, 1, LoadFigure.SEEN_MS, 300_000), ev.Woke(4 * HOUR_MS),
    ]  # fmt: skip
    idle.sort(key=lambda event: event.at_ms)
    by_requests = row(read([*opened(), *idle]))
    by_devices = row(read([*opened(), *idle[:-1], ev.ActivitySeen(3 * HOUR_MS, 0, 1, 500_000),
                           idle[-1]]))  # fmt: skip
    assert by_requests.occupancy.milli_ms is None
    assert by_devices.occupancy.milli_ms is not None
    assert by_requests.figure([Bucket.IDLE]).milli_ms == GPUS * 1000 * HOUR_MS


@pytest.mark.parametrize(("waited", "is_said"), [(200_000, True), (20_000, False)])
def test_idle_gpus_beside_cpus_that_wait_for_input_probably_wait_for_storage(
    waited: int, is_said: bool
):
    """Said of a job that is idle for a quarter of its time, as inferred; it makes no bucket."""
    events = [
        *opened(), level(0, waited, DeviceFigure.IO_WAIT), ev.ActivitySeen(0, 0, 1, 750_000),
        ev.Woke(HOUR_MS),
    ]  # fmt: skip
    found = row(read(events))
    told = " ".join(efficiency_tables.measured_lines(found))
    assert ("probably waited for storage (inferred" in told) is is_said
    assert "node I/O wait" in told
    assert found.figure([Bucket.HOST]).milli_ms is None


@pytest.mark.parametrize("bound", BOUNDS[1:])
def test_the_largest_bucket_says_only_that_it_took_longer(bound: int):
    """Requests beyond the last bound have no upper bound, and none is made up."""
    told = LatencyCounts((1_000, bound), (1, 1))
    assert told.at_most_us(Fraction(1)) == (None if bound == NO_BOUND_US else bound)
