"""Unknown is never zero: in the document, in tables, in what is called measured."""

import io

import msgspec
from rich.console import Console

from tests.builders import contract, job, opening, team
from tidemill.cli import ledger_tables
from tidemill.journal.source import Source
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.document import document
from tidemill.ledger.efficiency import efficiencies
from tidemill.ledger.reader import Ledger
from tidemill.ledger.records import breakdown
from tidemill.ledger.statement import Statement
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS
from tidemill.model.rows import Efficiency, Piece
from tidemill.model.states import Confidence


def one_job(efficiency: Efficiency, source: Source = Source.UNKNOWN) -> Statement:
    """An hour of four accelerators, two of them held by a job of this efficiency."""
    events: list[ev.Event] = [
        *opening(contract("h", gpus=4, per_node=4), teams=[team("a")]),
        ev.JobSubmitted(0, job("x", gpus=2, efficiency=efficiency)),
        ev.AskedPlace(0, 0, 1, (Piece(0, 0, 1, 0b11),)),
        ev.JobStarted(0, 0, 1),
        ev.JobFinished(HOUR_MS, 0, 1),
    ]
    return Statement(Ledger().read(events), source=source)


def printed(statement: Statement, by: str) -> str:
    """A breakdown as a terminal shows it."""
    file = io.StringIO()
    made = ledger_tables.breakdown(by, statement, None, 20)  # type: ignore[arg-type]
    Console(file=file, width=140).print(made)
    return file.getvalue()


def test_mfu_of_work_that_says_nothing_is_null():
    """No ratio, no useful hours, no line of zero: the JSON says null and names the reason."""
    found = document(one_job(Efficiency()), "team")
    assert found.utilisation.mfu is None
    assert found.goodput.program is None
    assert found.goodput.overall is None
    assert found.totals.useful_milli_ms is None
    assert found.breakdown is not None
    assert {row.key: row.useful_milli_ms for row in found.breakdown.rows}["a"] is None
    assert "useful" not in {line.key for line in found.lines}
    why = {row.key: row.reason for row in found.unknown}
    assert "says how efficient" in why["useful"]
    assert b'"mfu":null' in msgspec.json.encode(found)


def test_a_breakdown_says_unknown_where_no_work_told():
    """`ledger --by team|class|job` prints no 0.00 % for work of unknown efficiency."""
    statement = one_job(Efficiency())
    for by in ("team", "class", "job"):
        rows = [line for line in printed(statement, by).splitlines() if "nobody" not in line]
        assert all("unknown" in row for row in rows[1:]), rows


def test_work_far_below_the_peak_is_measured_beside_work_of_unknown_efficiency():
    """FLOPs that round to no useful time are told: the ledger and `efficiency` both say zero."""
    told = Efficiency(mfu_ppm=0, confidence=Confidence.MEASURED)
    events: list[ev.Event] = [*opening(contract("h", gpus=4, per_node=4), teams=[team("a")])]
    for j, (efficiency, mask) in enumerate(((told, 0b11), (Efficiency(), 0b1100))):
        events += [
            ev.JobSubmitted(0, job(f"x{j}", gpus=2, efficiency=efficiency)),
            ev.AskedPlace(0, j, 1, (Piece(0, 0, 1, mask),)),
            ev.JobStarted(0, j, 1),
        ]
    events += [ev.JobFinished(HOUR_MS, 0, 1), ev.JobFinished(3 * HOUR_MS, 1, 1)]
    statement = Statement(Ledger().read(events), source=Source.LIVE)
    found, rows = document(statement), efficiencies(statement)
    assert found.totals.useful_milli_ms == 0
    assert statement.confidence(Bucket.USEFUL) is Confidence.MEASURED
    assert "useful" not in {row.key for row in found.unknown}
    assert (found.goodput.program and found.goodput.program.numerator) == 0
    assert found.goodput.is_lower_bound
    mfu = {row.key: row.mfu for row in (*rows.rows, rows.total)}
    assert mfu == {
        "x0": (0, Confidence.MEASURED),
        "x1": (None, Confidence.UNKNOWN),
        "all jobs": (0, Confidence.MEASURED),
    }


def test_a_split_that_nobody_can_make_is_unknown():
    """Memory-bound and below the attainable roof are not zero while all is below peak."""
    whole = one_job(Efficiency(400_000, confidence=Confidence.MODELLED))
    split = one_job(Efficiency(400_000, confidence=Confidence.MODELLED, attainable_ppm=500_000))
    unknown = [{row.key for row in document(s).unknown} for s in (whole, split)]
    assert {"memory_bound", "below_roof"} <= unknown[0]
    assert not {"memory_bound", "below_roof"} & unknown[1]


def test_stalls_that_no_job_tells_of_are_unknown():
    """A job that says only its MFU says nothing of its host and its links: null, not $0.00."""
    says = Efficiency(mfu_ppm=400_000, confidence=Confidence.MODELLED)
    silent = document(one_job(says))
    assert {"host", "links"} <= {row.key for row in silent.unknown}
    told = document(one_job(msgspec.structs.replace(says, host_ppm=50_000)))
    assert "host" not in {row.key for row in told.unknown}
    assert "links" in {row.key for row in told.unknown}
    by_team = breakdown(one_job(says), "team")
    assert {row["host_usd_micro"] for row in by_team} == {None}


def test_nothing_of_a_twin_is_called_measured():
    """The same events: measured if nobody says otherwise, simulated if a twin made them."""
    measured = Efficiency(400_000, confidence=Confidence.MEASURED)
    plain, twin = one_job(measured), one_job(measured, Source.TWIN)
    for bucket in Bucket:
        before = plain.confidence(bucket)
        shown = Confidence.SIMULATED if before is Confidence.MEASURED else before
        assert twin.confidence(bucket) is shown
    assert plain.confidence(Bucket.USEFUL) is Confidence.MEASURED
    found = document(twin)
    assert (found.source, found.is_simulated) == ("twin", True)
    assert "measured" not in {line.confidence for line in found.lines}
    assert "simulated" in " ".join(ledger_tables.summary(twin))
    assert "simulated" not in " ".join(ledger_tables.summary(plain))


def test_old_journals_have_an_unknown_source():
    """Facts without a source, or with one that we do not know, are unknown: not simulated."""
    assert Source.of({}) is Source.UNKNOWN
    assert Source.of({"source": "oracle"}) is Source.UNKNOWN
    assert Source.of({"source": "trace replay"}) is Source.TRACE
    assert not Source.UNKNOWN.is_simulated
