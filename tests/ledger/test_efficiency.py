"""What jobs made of what they held: sums are the ledger's own, and unknown is never zero."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import contract, job, opening, role, team
from tests.ledger.stories import STORIES, Story
from tidemill.cli.efficiency_tables import COLUMNS
from tidemill.journal.source import Source
from tidemill.ledger import efficiency as held
from tidemill.ledger.account import Account, added, zero
from tidemill.ledger.attempts import attempts_of
from tidemill.ledger.buckets import ABOUT, ALLOCATED, BELOW, Bucket
from tidemill.ledger.efficiency_document import efficiency_document
from tidemill.ledger.reader import Ledger
from tidemill.ledger.statement import NOBODY, Statement, read
from tidemill.ledger.top import top_jobs
from tidemill.ledger.unknowns import is_busy_told, known_ways, unknowns_of
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary
from tidemill.model.batch.convert import of_events
from tidemill.model.measures import HOUR_MS
from tidemill.model.rows import Checkpointing, Job, Piece
from tidemill.model.states import Confidence, NodeState

MILLION = 1_000_000


def amounts(account: Account) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What adds up."""
    return account.milli_ms, account.money


def counted(statement: Statement, by: str) -> dict[str, tuple[list[int], list[int]]]:
    """Milli·ms and money by key and bucket, row by row of the ledger, of what jobs held."""
    world, found = statement.world, dict[str, tuple[list[int], list[int]]]()
    changes = sorted({one.from_ms for row in world.contract_rows for one in row.prices})
    for _, c, bucket, team_number, j, _, period, milli_ms in zip(*statement.rows, strict=True):
        if j < 0:
            continue
        shape = world.shape_of(int(j))
        key = {
            "job": world.job_names[j], "user": world.job_users[j] or "(unknown)",
            "team": world.queue_rows[team_number].name, "class": str(shape.kind),
        }[by]  # fmt: skip
        time, money = found.setdefault(key, ([0] * len(ABOUT), [0] * len(ABOUT)))
        time[bucket] += int(milli_ms)
        price = [p for p in world.contract_rows[c].prices if p.from_ms <= changes[period]][-1]
        money[bucket] += int(milli_ms) * max(0, price.usd_micro_per_hour)
    return found


@settings(max_examples=15)
@given(STORIES, st.sampled_from(held.EFFICIENCY_DIMENSIONS), st.integers(0, 4))
def test_rows_are_those_of_the_ledger(journal: Story, by: held.EfficiencyDimension, most: int):
    """Each row is the sum of its jobs' rows in the ledger, to the last milli·ms and micro-dollar;
    rows and the rest add up to all that jobs held, and each row's parts to the row.
    """
    statement = read(journal)
    expected = counted(statement, by)
    found = held.efficiencies(statement, by, most)
    shown = [*found.rows, *([] if found.rest is None else [found.rest])]
    for row in found.rows:
        assert amounts(row.account) == tuple(map(tuple, expected[row.key]))
    assert len(found.rows) == min(most, len(expected))
    assert amounts(added([zero(), *(row.account for row in shown)])) == amounts(found.total.account)
    assert found.total.held_milli_ms == statement.held_by_jobs().sum()
    for row in shown:
        assert sum(row.figure(column.buckets).milli_ms or 0 for column in COLUMNS) == (
            row.held_milli_ms
        )
        assert [sum(known) for known in row.known] == [*row.account.milli_ms]
    document = efficiency_document(statement, found)
    parts = [part.milli_ms or 0 for row in document.rows for part in row.parts]
    assert sum(parts) == sum(row.held_milli_ms for row in found.rows)


def test_every_bucket_that_a_job_can_hold_has_one_column():
    """Nothing that a job holds is left out of the table, or in it twice."""
    buckets = sorted(bucket for column in COLUMNS for bucket in column.buckets)
    assert buckets == sorted(ALLOCATED | {Bucket.NOT_OBSERVED})


@settings(max_examples=15)
@given(STORIES)
def test_attempts_add_up_to_their_job(journal: Story):
    """However a job was stopped, moved or lost with its node: its attempts have all its time."""
    statement = read(journal)
    batch = of_events(journal, Dictionary())
    for name, account in statement.by("job").items():
        if name == NOBODY:
            continue
        found = attempts_of(Ledger(), [batch], name)
        sums = [sum(column) for column in zip(*(one.milli_ms for one in found), strict=True)]
        assert tuple(sums) == account.milli_ms
        money = [sum(column) for column in zip(*(one.money for one in found), strict=True)]
        assert tuple(money) == account.money
        j = statement.world.job_number[name]
        assert [one.number for one in found] == sorted({one.number for one in found})
        assert found[-1].number <= statement.world.jobs.attempt[j]


def test_a_node_of_others_is_no_reason_for_an_end():
    """A node that goes elsewhere while a job works says nothing of how the job ends."""
    told: list[ev.Event] = [
        *opening(contract("c", gpus=4, per_node=2), teams=[team("a")]),
        *(ev.JobSubmitted(0, job(name, gpus=2)) for name in ("stays", "lost")),
        *(ev.AskedPlace(0, j, 1, (Piece(0, j, 1, 0b11),)) for j in (0, 1)),
        *(ev.JobStarted(0, j, 1) for j in (0, 1)),
        ev.NodeMoved(HOUR_MS, 1, NodeState.UNHEALTHY, ev.Why.NODE_LOST),
        ev.JobFinished(2 * HOUR_MS, 0, 1),
    ]
    batch = of_events(told, Dictionary())
    ends = [attempts_of(Ledger(), [batch], name)[0] for name in ("stays", "lost")]
    assert [(one.outcome, one.why) for one in ends] == [("done", ""), ("stopped", "node lost")]


def observed(*later: ev.Event, hours: int = 1, is_over: bool = True) -> Statement:
    """An hour of a cluster with a scheduler of its own: one job holds its four GPUs throughout."""
    asked = job("j", roles=[role(4)], team="a")
    asked = Job(asked.name, asked.shape, checkpointing=Checkpointing(-1, 0))
    events: list[ev.Event] = [
        *opening(contract("c", gpus=4, per_node=4), teams=[team("a")]),
        ev.JobSubmitted(0, asked),
        ev.PlacementSeen(0, 0, 1, (Piece(0, 0, 4, 0b1111),)),
        ev.JobStarted(0, 0, 1),
        *later,
        ev.JobFinished(hours * HOUR_MS, 0, 1)
        if is_over
        else ev.JobSubmitted(hours * HOUR_MS, job("k", team="a")),
    ]
    return Statement(Ledger().read(events), source=Source.LIVE)


def test_what_nobody_measured_is_unknown():
    """A job of which only its place is known: idle, saving, waits and useful are None, not 0."""
    statement = observed()
    (row,) = held.efficiencies(statement).rows
    for bucket in (Bucket.IDLE, Bucket.CHECKPOINT, Bucket.HOST, Bucket.LINKS, Bucket.USEFUL):
        assert row.figure([bucket]) == (None, Confidence.UNKNOWN)
    assert row.occupancy.milli_ms is None
    assert row.mfu.milli_ms is None
    below = [*BELOW, Bucket.STRAGGLER, Bucket.INTERFERENCE]
    assert row.figure(below) == (None, Confidence.UNKNOWN), "one of them alone may be zero"
    assert row.wasted == (None, Confidence.UNKNOWN)
    assert row.wasted_usd_micro is None
    assert row.unknown_usd_micro == row.account.paid_usd_micro


def test_a_measured_zero_is_zero():
    """Somebody measured that it never saved, nor waited: 0, measured; in the ledger too."""
    told = observed(ev.StallsSeen(0, 0, 1, 0, 0, -1), ev.EfficiencySeen(0, 0, 1, 400_000))
    (row,) = held.efficiencies(told).rows
    assert row.figure([Bucket.CHECKPOINT]) == (0, Confidence.MEASURED)
    assert row.figure([Bucket.HOST]) == (0, Confidence.MEASURED)
    assert row.figure([Bucket.LINKS]).milli_ms is None
    assert {Bucket.CHECKPOINT, Bucket.HOST} & {*unknowns_of(told)} == set()
    assert Bucket.LINKS in unknowns_of(told)


@pytest.mark.parametrize("silent_ppm", [500_000, 750_000])
def test_what_half_of_the_ranks_told_is_inferred(silent_ppm: int):
    """Of two halves the weaker word counts; a zero that some ranks told is none that was measured
    of the others.
    """
    told = observed(
        ev.StallsSeen(0, 0, 1, 100_000, 0, 0), ev.EfficiencySeen(0, 0, 1, 400_000),
        ev.StragglerSeen(0, 0, 1, 0, Confidence.UNKNOWN, silent_ppm),
    )  # fmt: skip
    (row,) = held.efficiencies(told).rows
    for bucket in (Bucket.CHECKPOINT, Bucket.USEFUL, Bucket.HOST, Bucket.LINKS):
        assert row.figure([bucket]).confidence is Confidence.INFERRED
        assert told.confidence(bucket) is Confidence.INFERRED
    assert row.figure([Bucket.HOST]).milli_ms == 0
    assert row.mfu.confidence is Confidence.INFERRED


def test_waits_of_work_that_is_not_saved_are_not_zero():
    """A loop that tells its waits and has saved nothing: they are within what is not saved."""
    told = (ev.StallsSeen(0, 0, 1, 0, 200_000, 100_000), ev.CheckpointSeen(0, 0, 1, 0))
    running = observed(*told, is_over=False)
    (row,) = held.efficiencies(running).rows
    assert row.account.milli_ms[Bucket.UNSAVED] > 0
    for bucket in (Bucket.HOST, Bucket.LINKS):
        assert row.figure([bucket]) == (None, Confidence.UNKNOWN)
        assert bucket in unknowns_of(running)


def test_one_who_stops_measuring_leaves_it_unknown():
    """A source that was there for half of the time does not make a zero of the rest."""
    half = observed(ev.StallsSeen(0, 0, 1, 0, 0, 0), ev.StallsSeen(1800, 0, 1, -1, -1, -1))
    assert Bucket.CHECKPOINT in unknowns_of(half)


def test_a_device_is_not_busy_while_its_job_saves_or_waits_for_data():
    """A tenth of the time standing still for checkpoints, two ninths of the rest waiting for data,
    an eighth idle: the device was busy for 0.9 × 0.875 × 7/9 of it, however much was allocated.
    """
    statement = observed(
        ev.ActivitySeen(0, 0, 1, 875_000),
        ev.StallsSeen(0, 0, 1, 100_000, 222_222, 0),
        ev.EfficiencySeen(0, 0, 1, 300_000),
    )
    (row,) = held.efficiencies(statement).rows
    busy = held.ratio(row.occupancy, row.held_milli_ms)
    assert busy is not None
    assert float(busy) == pytest.approx(0.9 * 0.875 * (1 - 0.222222), abs=1e-6)
    assert row.occupancy.confidence is Confidence.MEASURED
    assert is_busy_told(statement)
    assert known_ways(statement) == (Confidence.MEASURED,) * 3


def test_without_activity_occupancy_is_an_upper_bound():
    """Nobody said when the device was busy: what is known is how much it was not."""
    statement = observed(ev.StallsSeen(0, 0, 1, 100_000, 0, 0))
    assert not is_busy_told(statement)
    assert known_ways(statement).occupancy is Confidence.UNKNOWN
    document = efficiency_document(statement, held.efficiencies(statement))
    (row,) = document.rows
    assert row.use.occupancy_ppm is None
    assert row.use.occupancy_at_most_ppm == 900_000


def test_what_nobody_watched_is_no_waste():
    """Time of a job that nobody observed is of unknown worth, among the top jobs too."""
    statement = observed(
        ev.SightLost(HOUR_MS, keeps_jobs=False), ev.SightRegained(3 * HOUR_MS), hours=4
    )
    assert statement.total().milli_ms[Bucket.NOT_OBSERVED] == 4 * 1000 * 2 * HOUR_MS
    assert top_jobs(statement) == []
    (row,) = held.efficiencies(statement).rows
    assert row.wasted == (None, Confidence.UNKNOWN)
    assert row.wasted_usd_micro is None
    assert row.unknown_usd_micro == row.account.paid_usd_micro


def test_keys_of_parts_are_those_of_the_ledger():
    """JSON parts are named as the ledger names its buckets."""
    document = efficiency_document(observed(), held.efficiencies(observed()))
    keys = [part.key for part in document.rows[0].parts]
    assert keys == [ABOUT[bucket].key for bucket in ABOUT if bucket in ALLOCATED]
