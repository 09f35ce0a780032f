"""Who lent what to whom, on the page: the rows of the document, in order, and nothing else."""

from tests.report import stories
from tests.report.reading import read
from tidemill import report
from tidemill.ledger.schema import IdleFloor, LendingPart, Loan

HOUR = 3_600_000_000  # milli·ms of one accelerator-hour
PART = LendingPart(
    (
        Loan("H100", "<b>physics", "biology", 30 * HOUR, 60_000_000),
        Loan("H100", None, "biology", 12 * HOUR, 24_000_000),
    ),
    (IdleFloor("H100", "clinic", 5 * HOUR, 2 * HOUR, 10_000_000, 4_000_000),),
)


def test_the_tables_are_the_document():
    """One row a loan and one an idle floor; hours and dollars are its own; names are escaped."""
    page = read(report.render(stories.small().statement, title="s", lent=PART))
    loans, idle = page.one("section", id="lending").all("table", of="lending")
    rows = [[cell.text for cell in row.all("td")] for row in loans.one("tbody").all("tr")]
    assert rows == [["biology", "H100", "30.0", "$60.00"], ["biology", "H100", "12.0", "$24.00"]]
    lenders = [row.one("th").text for row in loans.one("tbody").all("tr")]
    assert lenders == ["<b>physics", "no guaranteed quota"]
    (row,) = idle.one("tbody").all("tr")
    assert [cell.text for cell in row.all("td")] == ["H100", "5.0", "2.0", "$14.00"]


def test_it_is_left_out_where_nobody_asked():
    """Without lending there is no section and no link to one."""
    text = report.render(stories.small().statement, title="s")
    assert 'id="lending"' not in text
    assert "#lending" not in text
