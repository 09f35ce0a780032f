"""Lists of nodes as Slurm folds them: `n[1-3,07-09],gpu-a[1-2]b`.

The expansion is bounded: a list is text from outside, and twelve characters can mean 10⁹ names.
"""

import re
from collections.abc import Iterator
from itertools import product
from math import prod

MOST_NAMES = 100_000
"""Larger than any Slurm cluster that was published (about 20,000 nodes); beyond it, refused."""

NO_NODES = frozenset({"", "(null)", "None assigned", "None", "N/A", "n/a"})

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand(text: str) -> tuple[str, ...]:
    """The names, in the order of the list; ``ValueError`` when it is no list or too long."""
    if (found := count(text)) > MOST_NAMES:
        raise ValueError(
            f"`{shortened(text)}` stands for {found:,} nodes; at most {MOST_NAMES:,} are read"
        )
    return tuple(
        "".join(parts)
        for piece in pieces(text)
        for parts in product(*(_choices(part) for part in piece))
    )


def count(text: str) -> int:
    """How many names a list stands for, without making them."""
    return sum(prod(_size(part) for part in piece) for piece in pieces(text))


def pieces(text: str) -> Iterator[list[str]]:
    """The parts of each name of the list: plain text, or a bracket with its ranges."""
    if text in NO_NODES:
        return
    for name in _split(text):
        parts = re.findall(r"\[[^\[\]]*\]|[^\[\]]+", name)
        if not name or "".join(parts) != name:
            raise ValueError(f"`{shortened(text)}` is no list of nodes")
        yield parts


def shortened(text: str) -> str:
    """A text that may be long, for a message."""
    return text if len(text) <= 60 else f"{text[:57]}…"


def _split(text: str) -> list[str]:
    """At commas outside of brackets."""
    if "[" not in text:
        return text.split(",")
    names, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        elif letter == "," and not depth:
            names.append(text[start:i])
            start = i + 1
    return [*names, text[start:]]


def _ranges(part: str) -> Iterator[tuple[int, int, int]]:
    """First, last and number of digits of each range within a bracket."""
    for piece in part[1:-1].split(","):
        found = _RANGE.fullmatch(piece)
        if not found or len(piece) > 40:
            raise ValueError(f"`{shortened(part)}` is no range of nodes")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise ValueError(f"the range `{shortened(piece)}` ends before it begins")
        yield first, last, len(found[1])


def _size(part: str) -> int:
    if not part.startswith("["):
        return 1
    return sum(last - first + 1 for first, last, _ in _ranges(part))


def _choices(part: str) -> list[str]:
    if not part.startswith("["):
        return [part]
    return [
        str(number).zfill(digits)
        for first, last, digits in _ranges(part)
        for number in range(first, last + 1)
    ]
