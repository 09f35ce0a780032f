"""Lines of prose are wrapped, and wrapping changes nothing but line breaks."""

from pathlib import Path

import pytest

from tests.tidy import prose

LONG = " ".join(["word"] * 60)


@pytest.mark.parametrize("page", prose.pages(), ids=lambda page: page.name)
def test_prose_is_wrapped(page: Path):
    """No line of prose is longer than 100 columns: `python -m tests.tidy.prose`."""
    text = page.read_text(encoding="utf-8")
    assert prose.wrap(text) == text


@pytest.mark.parametrize("before", ["", "- ", "1. ", "  - "])
def test_a_long_paragraph_is_filled(before: str):
    """A paragraph and an item of a list are filled, with the indent of the item."""
    lines = prose.wrap(f"{before}{LONG}\n").splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= prose.WIDTH
    assert all(line.startswith(" " * len(before) + "word") for line in lines[1:])
    assert " ".join(lines).split() == f"{before}{LONG}".split()


@pytest.mark.parametrize(
    "text",
    [
        f"| {LONG} |\n",
        f"```text\n{LONG}\n```\n",
        f"# {LONG}\n",
        f"<!-- made: x -->\n{LONG}\n<!-- end -->\n",
        f"[{LONG}](there)\n",
        f"    {LONG}\n",
    ],
)
def test_tables_code_headings_and_links_stay(text: str):
    """What a line break would destroy is left alone."""
    assert prose.wrap(text) == text


def test_no_line_begins_as_a_list_by_accident():
    """A minus that would begin a line stays on the line before."""
    text = "x" * 97 + " - " + LONG + "\n"
    assert not [line for line in prose.wrap(text).splitlines()[1:] if line.startswith("-")]
