"""Pages: the project's Markdown, with its links, its blocks of code, its tables and made parts.

A *made part* is written by ``tests.docs.made`` from the code, or by ``tests.docs.tour`` from the
demo, and stands between two comments:

    <!-- made: events -->
    …
    <!-- end -->
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`\n]+`")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$", re.MULTILINE)
_BETWEEN = re.compile(r"(?<!\\)\|")
_MADE = re.compile(r"(<!-- made: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language, its text and the line where it begins."""

    language: str
    text: str
    line: int


def pages() -> list[Path]:
    """Every page: those at the root, then those under docs/."""
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    """A page as messages call it."""
    return str(page.relative_to(ROOT))


def text_of(name: str) -> str:
    """The text of a page, by its path from the root."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str, *languages: str) -> list[Block]:
    """The fenced blocks in one of these languages; without languages, all."""
    found = [
        Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)
        for match in _FENCE.finditer(text)
    ]
    return [block for block in found if not languages or block.language in languages]


def links(text: str) -> list[str]:
    """The targets of all links that are not inside code."""
    return _LINK.findall(_CODE.sub("", _FENCE.sub("", text)))


def anchors(text: str) -> set[str]:
    """The names under which the headings of a page can be linked to."""
    return {_slug(heading) for heading in _HEADING.findall(_FENCE.sub("", text))}


def made(text: str) -> dict[str, str]:
    """The made parts of a page, by name."""
    return {match[2]: match[3] for match in _MADE.finditer(text)}


def with_made(text: str, parts: dict[str, str]) -> str:
    """The page with these made parts replaced; others stay as they are."""
    return _MADE.sub(lambda match: match[1] + parts.get(match[2], match[3]) + match[4], text)


def tables(text: str) -> list[list[dict[str, str]]]:
    """The tables of a page; a row is its cells by column."""
    found: list[list[dict[str, str]]] = []
    lines = _FENCE.sub("", text).splitlines()
    for at, line in enumerate(lines):
        if line.startswith("|") and at and set(line) <= set("|-: "):
            header = _cells(lines[at - 1])
            found.append([dict(zip(header, row, strict=True)) for row in _rows(lines[at + 1 :])])
    return found


def table_with(text: str, column: str) -> list[dict[str, str]]:
    """The one table that has this column."""
    found = [rows for rows in tables(text) if rows and column in rows[0]]
    assert len(found) == 1, f"{len(found)} tables have a column `{column}`"
    return found[0]


def _rows(lines: list[str]) -> Iterator[list[str]]:
    for line in lines:
        if not line.startswith("|"):
            return
        yield _cells(line)


def _cells(line: str) -> list[str]:
    inside = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in _BETWEEN.split(inside)]


def _slug(heading: str) -> str:
    plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower()).strip()
    return re.sub(r"[\s-]+", "-", plain)
