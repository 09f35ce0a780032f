"""Loans: at one moment, of one kind, whose unused floor does the borrowed use come from?

Use of a team above its floor is borrowed. It is laid, from the leaves of the tree up, to floors
that are not used: first to what the queue above it is sure of beyond what its children are, then to
siblings, then to cousins, and so on; each lender lends at most what its lending limit lets out, at
every level. What no floor covers comes from capacity that no floor owns.

At each level both sides are taken in proportion (largest remainders), and the part of each lender
is divided among the borrowers in proportion to what each still lacks. So all sums are exact.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidemill.model.measures import share_out
from tidemill.model.tree import Tree


class Loans(NamedTuple):
    """Milli by queue, or by (lender, borrower); nothing that is zero."""

    lent: dict[tuple[int, int], int]
    unowned: dict[int, int]
    """Borrowed, and covered by no floor."""
    kept: dict[int, int]
    """Unused floor that a lending limit keeps from others."""
    unasked: dict[int, int]
    """Unused floor that could be lent and is not."""


class _Side(NamedTuple):
    """What a branch still lacks, and what it can still lend, by queue."""

    lacks: dict[int, int]
    lends: dict[int, int]


def loans(tree: Tree, floor: Sequence[int], lend: Sequence[int], used: Sequence[int]) -> Loans:
    """The loans of one kind; ``lend`` is the lending limit of each queue."""
    found = Loans({}, {}, {}, {})
    sides: dict[int, _Side] = {}
    below: dict[int, list[int]] = {}
    for q in tree.upward:
        children = below.get(q, [])
        side = _Side({}, {})
        if not children and used[q] > floor[q]:
            side.lacks[q] = used[q] - floor[q]
        own = floor[q] - (sum(floor[c] for c in children) if children else used[q])
        _gather(side, [sides.pop(c) for c in children])
        if children and own > 0:
            own -= _match(found, side.lacks, {q: own})
        _match(found, side.lacks, side.lends)
        if own > 0:
            side.lends[q] = own
        _cap(found, side.lends, lend[q])
        sides[q] = side
        if len(tree.paths[q]) > 1:
            below.setdefault(tree.paths[q][1], []).append(q)
    top = _Side({}, {})
    _gather(top, [sides[q] for q in sorted(sides)])
    _match(found, top.lacks, top.lends)
    found.unowned.update((q, milli) for q, milli in top.lacks.items() if milli)
    found.unasked.update((q, milli) for q, milli in top.lends.items() if milli)
    return found


def within(found: Loans, free: int) -> Loans:
    """The same with idle floors bounded by what is free: what broke is not idle."""
    parts = [*found.kept.values(), *found.unasked.values()]
    if sum(parts) <= free:
        return found
    shared = share_out(free, parts)
    kept = dict(zip(found.kept, shared, strict=False))
    unasked = dict(zip(found.unasked, shared[len(found.kept) :], strict=True))
    return found._replace(kept=kept, unasked=unasked)


def _gather(side: _Side, parts: list[_Side]) -> None:
    for part in parts:
        side.lacks.update(part.lacks)
        side.lends.update(part.lends)


def _match(found: Loans, lacks: dict[int, int], lends: dict[int, int]) -> int:
    """Lend as much as both sides allow; return how much."""
    milli = min(sum(lacks.values()), sum(lends.values()))
    if not milli:
        return 0
    borrowers, lenders = sorted(lacks), sorted(lends)
    gets = share_out(milli, [lacks[b] for b in borrowers])
    gives = share_out(milli, [lends[a] for a in lenders])
    for b, part in zip(borrowers, gets, strict=True):
        lacks[b] -= part
    for a, part in zip(lenders, gives, strict=True):
        lends[a] -= part
        cells = share_out(part, gets)
        gets = [left - cell for left, cell in zip(gets, cells, strict=True)]
        for b, cell in zip(borrowers, cells, strict=True):
            if cell:
                found.lent[a, b] = found.lent.get((a, b), 0) + cell
    return milli


def _cap(found: Loans, lends: dict[int, int], most: int) -> None:
    """Keep back what a lending limit does not let out of a branch."""
    total = sum(lends.values())
    if total <= most:
        return
    owners = sorted(lends)
    for q, part in zip(owners, share_out(most, [lends[q] for q in owners]), strict=True):
        if lends[q] > part:
            found.kept[q] = found.kept.get(q, 0) + lends[q] - part
        lends[q] = part
