"""Wrap the prose of Markdown files at 100 columns: `python -m tests.tidy.prose`.

Paragraphs, items of lists and quotes are filled. Tables, code, headings, HTML comments, what stands
between marks of made parts and lines with two spaces at their end stay as they are, and no line
begins with something that Markdown would read as a list, a heading or a quote.
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 100
_ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)(?=\S)")
_QUOTE = re.compile(r"^(\s*>\s?)(?=\S)")
_KEPT = re.compile(r"^\s*(\||#|<!--|\[[^\]]+\]:\s|={3,}$|-{3,}$|:::|!!!|<\w+|</)")
_RISKY = re.compile(r"^([-*+>|]|#{1,6}|\d+[.)])$|^[|>#]")
_WORD = re.compile(r"(?:`[^`\n]*`|\[[^\]\n]*\]\([^)\n]*\)|\S)+")


def main() -> None:
    """Wrap every page of the project."""
    for path in pages():
        text = path.read_text(encoding="utf-8")
        wrapped = wrap(text)
        if wrapped != text:
            path.write_text(wrapped, encoding="utf-8")


def pages() -> list[Path]:
    """Everything that people read as Markdown."""
    return [
        *sorted(ROOT.glob("*.md")),
        *sorted(ROOT.glob("docs/**/*.md")),
        *sorted(ROOT.glob("bench/*.md")),
    ]


def wrap(text: str) -> str:
    """The text with its prose wrapped; words and their order stay."""
    return "".join(f"{line}\n" for line in _lines(text.splitlines()))


def _lines(lines: list[str]) -> Iterator[str]:
    paragraph: list[str] = []
    fence, made = "", False
    for line in lines:
        mark = re.match(r"^\s*(```+|~~~+)", line)
        if not fence and line.startswith("<!-- made:"):
            made = True
        is_kept = bool(fence or mark or made or _is_kept(line, paragraph))
        if is_kept or not line.strip() or _begins(line):
            yield from _filled(paragraph)
            paragraph = []
        if is_kept or not line.strip():
            yield line
        else:
            paragraph.append(line)
            if line.endswith("  "):
                yield from paragraph
                paragraph = []
        if mark:
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        if line.startswith("<!-- end"):
            made = False
    yield from _filled(paragraph)


def _is_kept(line: str, before: list[str]) -> bool:
    is_code = not before and line.startswith("    ")
    return bool(_KEPT.match(line)) or is_code


def _begins(line: str) -> bool:
    return bool(_ITEM.match(line) or _QUOTE.match(line))


def _filled(paragraph: list[str]) -> Iterator[str]:
    """A paragraph or an item, filled; a quote or one that is short enough stays."""
    if not paragraph:
        return
    if all(len(line) <= WIDTH for line in paragraph) or _QUOTE.match(paragraph[0]):
        yield from paragraph
        return
    item = _ITEM.match(paragraph[0])
    first = item[0] if item else re.match(r"\s*", paragraph[0])[0]  # type: ignore[index]
    rest = " " * len(first)
    words = _WORD.findall(" ".join([paragraph[0][len(first) :], *paragraph[1:]]))
    line = first + words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) > WIDTH and not _RISKY.match(word):
            yield line
            line = rest + word
        else:
            line += f" {word}"
    yield line


if __name__ == "__main__":
    main()
