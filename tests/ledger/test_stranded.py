"""Stranded slices: what lies between MIG instances and nobody can use is a line of its own."""

from tests.builders import contract, job, opening, role, team
from tests.engine.audit import audit
from tests.ledger import twins
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.fixes import fixes
from tidemill.ledger.ratios import goodput
from tidemill.ledger.reader import Ledger
from tidemill.ledger.statement import Statement
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS
from tidemill.model.rows import Piece

ONE = role(milli=125, profile="1g.10gb")


def test_seven_singles_strand_the_last_slice():
    """One device, seven 1g for an hour: an eighth is stranded, seven eighths worked, none free."""
    statement = _hour([Piece(0, 0, 1, 1, 1 << i) for i in range(7)])
    total = statement.total()
    assert total.milli_ms[Bucket.STRANDED] == 125 * HOUR_MS
    assert total.milli_ms[Bucket.UNKNOWN] == 875 * HOUR_MS
    assert total.milli_ms[Bucket.NO_DEMAND] == 0
    assert goodput(total).scheduling == 0.875


def test_what_a_further_instance_can_use_is_free():
    """One single on slice 6 strands slice 7; the six below it are free: there is no demand."""
    total = _hour([Piece(0, 0, 1, 1, 1 << 6)]).total()
    assert total.milli_ms[Bucket.STRANDED] == 125 * HOUR_MS
    assert total.milli_ms[Bucket.NO_DEMAND] == 750 * HOUR_MS


def test_the_fix_says_what_the_best_layout_would_strand():
    """Two singles on slice 6 of two devices strand two slices; together on one they strand one."""
    statement = _hour([Piece(0, 0, 1, 1, 1 << 6), Piece(0, 0, 1, 2, 1 << 6)], devices=2)
    (found,) = fixes(statement, Bucket.STRANDED)
    assert "on 1 device: that strands" in found.words
    assert "strands nothing instead of 0.25 of a device" in found.words
    assert found.touches_usd_micro == statement.total().usd_micro()[Bucket.STRANDED]


def test_where_no_layout_is_better_the_fix_says_so():
    """Seven singles strand a slice wherever they lie: other profiles are the only cure."""
    (found,) = fixes(_hour([Piece(0, 0, 1, 1, 1 << i) for i in range(7)]), Bucket.STRANDED)
    assert "no layout of these instances strands less" in found.words
    assert found.touches_usd_micro == 0


def test_a_fleet_with_faults_has_the_line_and_it_adds_up():
    """In the twin, some of the day is stranded, and paid is the sum of the buckets."""
    ledger = Ledger().read(twins.run(3))
    statement = Statement(ledger)
    assert statement.total().milli_ms[Bucket.STRANDED] > 0
    audit(ledger.world)


def _hour(pieces: list[Piece], devices: int = 1) -> Statement:
    """One node of H100 on which these instances run for an hour."""
    rows = opening(contract(gpus=devices, per_node=devices), teams=[team("a")])
    rows += [ev.JobSubmitted(0, job(f"j{i}", roles=[ONE])) for i in range(len(pieces))]
    rows += [ev.AskedPlace(0, i, 1, (piece,)) for i, piece in enumerate(pieces)]
    rows += [ev.JobStarted(0, i, 1) for i in range(len(pieces))]
    rows += [ev.JobFinished(HOUR_MS, i, 1) for i in range(len(pieces))]
    return Statement(Ledger().read(rows))
