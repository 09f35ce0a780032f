"""What would fit, on the page: the numbers of the survey and of the ledger, and nothing else."""

from fractions import Fraction

import pytest

from tests.report import stories
from tests.report.reading import Element, basis_points, read, width
from tidemill import report
from tidemill.ledger.document import document
from tidemill.ledger.free import free, total
from tidemill.ledger.statement import Statement
from tidemill.report import words
from tidemill.scheduling.schedulability import Fits, FreeLot, survey


def page(story: stories.Story) -> Element:
    """The page of a story, with what would fit at its end."""
    return read(report.render(story.statement, title="s", lots=survey(story.world)))


def test_the_tables_are_the_survey():
    """One table for each kind and pool with something free; its rows are the survey's sizes."""
    story = stories.small()
    lots = [lot for lot in survey(story.world) if lot.free_milli]
    tables = page(story).one("section", id="room").all("table", of="room")
    assert [table["data-kind"] for table in tables] == [lot.kind for lot in lots]
    for table, lot in zip(tables, lots, strict=True):
        rows = table.one("tbody").all("tr")
        shown = [fits for fits in lot.sizes if fits.arrivals or fits.replicas == 1][: len(rows)]
        for row, fits in zip(rows, shown, strict=True):
            told = [row.one("td", of=name).text for name in ("arrived", "now", "together")]
            assert told == [f"{n:,}" for n in (fits.arrivals, fits.now, fits.consolidated)]
            now, more = (width(bar["width"]) for bar in row.all("rect")[1:])
            job_milli = fits.accelerators * fits.milli * fits.replicas
            assert now == pytest.approx(100 * fits.now * job_milli / lot.free_milli, abs=1e-3)
            assert now + more <= 100.001


def test_the_window_is_the_ledgers():
    """Usable and unusable are shares of what was free, as the ledger integrated it."""
    story = stories.small()
    rows = free(story.statement)
    assert rows is not None
    whole = total(rows)
    said = [e.text for e in page(story).one("section", id="room").all("strong")]
    parts = (whole.usable_milli_ms, whole.unusable_milli_ms)
    assert said == [words.share(Fraction(part, whole.free_milli_ms)) for part in parts]
    assert 0 < basis_points(said[1]) < 10_000
    assert whole.usable_milli_ms + whole.unusable_milli_ms + whole.unasked_milli_ms == (
        whole.free_milli_ms
    )


def test_it_is_left_out_where_nothing_is_known():
    """Without lots there is no section and no link to one; a plain statement says no shares."""
    story = stories.small()
    assert not read(report.render(story.statement, title="s")).all("section", id="room")
    assert free(stories.nothing()) is None
    text = report.render(stories.nothing(), title="s", lots=survey(story.world))
    assert "accelerator-hours in this window" not in text


def test_names_are_only_names():
    """A kind called like a script is shown, not run."""
    name = stories.HOSTILE
    lot = FreeLot(name, name, 8_000, 1, 3, 8_000, 8_000, (Fits(8, 1000, 1, 3, 1, 1),))
    text = report.render(stories.hostile().statement, title="s", lots=(lot,))
    assert text.count("<script>") == 1, "our own"
    assert name in read(text).one("table", of="room").text


def test_statements_agree_with_the_document():
    """The JSON document has the same parts, and its dollars add up."""
    statement: Statement = stories.small().statement
    part = document(statement).free
    assert part is not None
    assert part.confidence == "inferred"
    for name in ("free_milli_ms", "usable_milli_ms", "unusable_milli_ms", "unasked_milli_ms",
                 "unusable_usd_micro"):  # fmt: skip
        assert sum(getattr(row, name) for row in part.rows) == getattr(part, name)
