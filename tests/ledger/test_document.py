"""The document: the ledger as JSON, exact and additive, with a schema that stays."""

from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings

from tests.ledger import twins
from tests.ledger.stories import STORIES, Story, story
from tidemill.ledger.buckets import ABOUT, NOT_PRODUCED, Bucket
from tidemill.ledger.document import VERSION, LedgerDocument, Ratio, document
from tidemill.ledger.statement import DIMENSIONS, Dimension, read
from tidemill.model.measures import HOUR_MS

FIELDS = {
    "LedgerDocument": "version currency window totals lines unknown goodput utilisation breakdown"
    " leaks",
    "Period": "start_ms end_ms bin_ms",
    "Totals": "milli_ms usd_micro capability_h100_milli_ms useful_milli_ms usd_micro_per_paid_hour"
    " usd_micro_per_useful_hour usd_micro_per_useful_h100_hour idle_point_usd_micro_per_year"
    " mean_accelerators",
    "BucketLine": "key title group owner confidence milli_ms usd_micro share_ppm"
    " capability_h100_milli_ms",
    "Unknown": "key title group owner reason",
    "GoodputPart": "scheduling runtime program overall is_lower_bound",
    "UtilisationPart": "allocation occupancy mfu misleading",
    "Ratio": "numerator denominator decimal",
    "Breakdown": "by rows",
    "BreakdownRow": "key milli_ms usd_micro share_ppm useful_milli_ms cells",
    "Cell": "key milli_ms usd_micro",
    "LeakPart": "key title owner confidence milli_ms usd_micro evidence command fix fixes",
    "FixPart": "words rule at_most_usd_micro price_usd_micro who evidence edits is_claimed"
    " predicted_usd_micro saves_milli_ms saves_usd_micro adds_useful_milli_ms costs measure",
    "EditPart": "table name field value was text",
}
"""Version 2. A field may be added; renaming or removing one needs a new version."""


def test_the_schema_stays():
    """Every field of version 2 is there, under its name."""
    assert VERSION == 2
    found = msgspec.json.schema(LedgerDocument)["$defs"]
    for name, fields in FIELDS.items():
        assert set(fields.split()) <= set(found[name]["properties"]), name


def check_sums(made: LedgerDocument) -> None:
    """Lines and rows add up to the totals, in every column."""
    totals = made.totals
    for parts in (made.lines, made.breakdown.rows if made.breakdown else ()):
        if parts:
            assert sum(part.milli_ms for part in parts) == totals.milli_ms
            assert sum(part.usd_micro or 0 for part in parts) == totals.usd_micro
            assert sum(part.share_ppm for part in parts) == 1_000_000 * bool(totals.milli_ms)
    if totals.capability_h100_milli_ms is not None:
        lines = [line.capability_h100_milli_ms or 0 for line in made.lines]
        assert sum(lines) == totals.capability_h100_milli_ms
    for row in made.breakdown.rows if made.breakdown else ():
        assert sum(cell.milli_ms for cell in row.cells) == row.milli_ms
        assert sum(cell.usd_micro or 0 for cell in row.cells) == row.usd_micro


@pytest.mark.parametrize("dimension", DIMENSIONS)
@settings(max_examples=15)
@given(STORIES)
def test_a_document_adds_up(dimension: Dimension, events: Story):
    """On any story, by any dimension, every column adds up to the total beside it."""
    check_sums(document(read(events, bin_ms=70), dimension))


def test_a_document_of_a_fleet():
    """The document of half a day in the twin adds up and survives JSON unchanged."""
    statement = read(twins.run(5), bin_ms=HOUR_MS)
    for dimension in (None, *DIMENSIONS):
        made = document(statement, dimension)
        check_sums(made)
        assert msgspec.json.decode(msgspec.json.encode(made), type=LedgerDocument) == made


def test_every_bucket_is_a_line_or_unknown():
    """What no layer can fill is listed as unknown with its reason, and is never a line of zero."""
    made = document(read(story(1)))
    lines, unknown = {line.key for line in made.lines}, {part.key for part in made.unknown}
    assert lines | unknown == {about.key for about in ABOUT.values()}
    assert not lines & unknown
    assert unknown == {ABOUT[bucket].key for bucket in NOT_PRODUCED}
    assert all(part.reason for part in made.unknown)


def test_ratios_are_exact_and_readable():
    """A ratio is a fraction in lowest terms and a decimal of six places beside it."""
    statement = read(twins.run(6))
    account, made = statement.total(), document(statement)
    overall, program = made.goodput.overall, made.goodput.program
    assert overall is not None
    assert program is not None
    exact = Fraction(account.milli_ms[Bucket.USEFUL], account.paid_milli_ms)
    assert (overall.numerator, overall.denominator) == exact.as_integer_ratio()
    assert abs(Fraction(overall.decimal) - exact) <= Fraction(1, 2_000_000)
    product = Fraction(1)
    scheduling, runtime = made.goodput.scheduling, made.goodput.runtime
    assert scheduling is not None
    assert runtime is not None
    for part in (scheduling, runtime, program):
        product *= Fraction(part.numerator, part.denominator)
    assert product == exact
    assert made.utilisation.mfu == overall


def test_a_document_of_nothing():
    """An empty journal has a document too: zeros, no prices, no leaks."""
    made = document(read([]), "team")
    assert made.totals.milli_ms == 0
    assert made.totals.usd_micro_per_paid_hour is None
    assert made.goodput.overall == Ratio(0, 1, "0.000000")
    assert made.leaks == ()
    assert made.breakdown is not None
    assert made.breakdown.rows == ()


def test_the_window_of_a_document():
    """The window ends with the journal; a single bin has no width."""
    events = story(1)
    made = document(read(events))
    assert made.window.end_ms == events[-1].at_ms
    assert made.window.bin_ms is None
    assert document(read(events, bin_ms=10)).window.bin_ms == 10
