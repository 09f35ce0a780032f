"""The demo leaves what it announces, and the figures that the pages quote are its own."""

import re

import pytest

from tests.docs import pages, tour


@pytest.fixture(scope="module")
def seen() -> tour.Seen:
    """What the demo says now: run once for all tests, because it takes most of a minute."""
    return tour.seen()


def test_the_demo_leaves_a_journal_and_a_page(seen: tour.Seen):
    """It prints a ledger that adds up and leaves a journal (which the tour verifies) and a page."""
    rows = [line for line in seen.story.splitlines() if "$" in line and " % " in line]
    dollars = [
        re.search(r"\$([\d,]+)\.(\d\d)", row)
        for row in rows
        if not row.startswith(("useful:", "goodput"))
    ]
    cents = [int(found[1].replace(",", "") + found[2]) for found in dollars if found]
    assert sum(cents[1:]) == cents[0] > 0
    assert 100_000 < seen.journal_bytes < 900_000  # 12 bytes per event; 10 MB in version 1
    assert 'id="waterfall"' in seen.report


def test_a_demo_that_was_interrupted_goes_on(seen: tour.Seen):
    """`demo --resume` ends with the ledger, the fixes and the answer of the whole run."""
    assert seen.resumed == seen.story


@pytest.mark.parametrize("page", tour.PAGES)
def test_pages_quote_what_the_demo_says(page: str, seen: tour.Seen):
    """Every output that a page shows of the demo is what it prints: `python -m tests.docs.tour`."""
    told = pages.made(pages.text_of(page))
    assert {name: told[name] for name in seen.parts[page]} == seen.parts[page]
