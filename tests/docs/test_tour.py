"""The figures that the pages quote are those of the demo."""

import pytest

from tests.docs import pages, tour


@pytest.fixture(scope="module")
def seen() -> dict[str, dict[str, str]]:
    """What the demo says now."""
    return tour.seen()


@pytest.mark.parametrize("page", tour.PAGES)
def test_pages_quote_what_the_demo_says(page: str, seen: dict[str, dict[str, str]]):
    """Every output that a page shows of the demo is what it prints: `python -m tests.docs.tour`."""
    told = pages.made(pages.text_of(page))
    assert {name: told[name] for name in seen[page]} == seen[page]
