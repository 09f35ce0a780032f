"""Cohorts: Kueue's queues as teams with guaranteed and maximum quotas, below what they borrow from.

All that is below a cohort never uses more than all quotas there are together, those of the cohort
included, and what the cohort may borrow from the one above it. So each cohort has a limit: without
it a queue that borrows would look as if more nodes were all that it lacks.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.kubernetes.kueue import ClusterQueue, Cohort, Flavor, QuotaOf
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.rows import COHORT, Queue, Share

Kinds = Sequence[tuple[str, Mapping[str, str], str]]
"""The GPU type, the labels and a resource of what there is."""


class _Own(NamedTuple):
    """What a queue, or a cohort, has by itself: milli-units by GPU type."""

    nominal: dict[str, int]
    borrow: dict[str, int]
    lend: dict[str, int]
    unread: tuple[str, ...]
    """Flavors that are not the nodes of one GPU type."""

    def of(self, kind: str) -> int:
        """What it is sure of."""
        return self.nominal.get(kind, 0)

    def borrows(self, kind: str) -> int:
        """The most above that."""
        return self.borrow.get(kind, FOREVER_MS)

    def lends(self, kind: str) -> int:
        """The most of that which others may have."""
        return self.lend.get(kind, FOREVER_MS)


def queues(
    told: Iterable[ClusterQueue],
    cohorts: Iterable[Cohort],
    flavors: Mapping[str, Flavor],
    kinds: Kinds,
    notes: list[str],
    *,
    admits: bool = False,
) -> list[Queue]:
    """Cluster queues as teams, below their cohorts; those above come first.

    A flavor whose nodes have several GPU types, or none, is no quota on a GPU type: that is said,
    and what is above it has no limit. ``admits``: as Kueue counts them when it lets work in; then
    each of several types may have all of it, which holds where what all of them use counts for
    each, and what others do not lend is not to be had.
    """
    mine = sorted(told, key=lambda queue: queue.name)
    tree = _Tree({one.name: one for one in cohorts}, mine, notes)
    rows, below = list[Queue](), {name: _Sum() for name in tree.parents}
    owns = {queue.name: own(queue.quotas, flavors, kinds, admits=admits) for queue in mine}
    for queue in mine:
        its = owns[queue.name]
        notes += (
            f"queue `{queue.name}`: flavor `{flavor}` is not the nodes of one GPU type, so its"
            " quota is not read" for flavor in its.unread
        )  # fmt: skip
        rows.append(_row(queue.name, its, its.nominal, queue.cohort))
        if queue.cohort:
            below[queue.cohort].add(its.nominal, is_whole=not its.unread)
    above, held = list[Queue](), dict[str, _Own]()
    for name in tree.upward():
        one, parent = tree.objects.get(name), tree.parents[name]
        its = held[name] = own(one.quotas if one is not None else (), flavors, kinds, admits=admits)
        total = below[name]
        total.add(its.nominal, is_whole=not its.unread)
        row = _row(cohort_name(name), its, total.milli, parent)
        above.append(row if total.is_whole else Queue(row.name, parent=row.parent))
        if parent:
            below[parent].add(total.milli, is_whole=total.is_whole)
    if admits and all(total.is_whole for total in below.values()):
        most = _mosts(tree, mine, owns, held)
        rows = [_bounded(row, most.get(row.name, {})) for row in rows]
    return [*reversed(above), *rows]


def _mosts(
    tree: "_Tree", mine: Iterable[ClusterQueue], owns: Mapping[str, _Own], held: Mapping[str, _Own]
) -> dict[str, dict[str, int]]:
    """The most that each queue in a cohort may use of a GPU type where others do not lend all: what
    it keeps for itself, and what comes to its cohort, as Kueue counts it.
    """
    kinds = {kind for one in (*owns.values(), *held.values()) for kind in one.nominal}
    found = dict[str, dict[str, int]]()
    for kind in kinds:
        if all(
            one.lend.get(kind, FOREVER_MS) >= FOREVER_MS for one in (*owns.values(), *held.values())
        ):
            continue
        lent, most = dict.fromkeys(tree.parents, 0), dict[str, int]()
        for queue in mine:
            if queue.cohort:
                lent[queue.cohort] += min(owns[queue.name].of(kind), owns[queue.name].lends(kind))
        for name in tree.upward():
            lent[name] += held[name].of(kind)
            if parent := tree.parents[name]:
                lent[parent] += min(lent[name], held[name].lends(kind))
        for name in reversed(tree.upward()):
            parent, its = tree.parents[name], held[name]
            kept = max(0, lent[name] - its.lends(kind))
            comes = (
                min(kept + most[parent], lent[name] + its.borrows(kind)) if parent else lent[name]
            )
            most[name] = comes
        for queue in mine:
            if queue.cohort:
                its = owns[queue.name]
                kept = max(0, its.of(kind) - its.lends(kind))
                found.setdefault(queue.name, {})[kind] = kept + most[queue.cohort]
    return found


def _bounded(row: Queue, most: Mapping[str, int]) -> Queue:
    """A queue that uses at most so much."""
    shares = tuple(
        replace(share, limit_milli=max(share.floor_milli, min(share.limit_milli, most[share.kind])))
        if share.kind in most else share
        for share in row.shares
    )  # fmt: skip
    return replace(row, shares=shares)


class _Sum:
    """What is below a cohort, by GPU type."""

    def __init__(self) -> None:
        self.milli = dict[str, int]()
        self.is_whole = True
        """Whether all of it could be read."""

    def add(self, some: Mapping[str, int], *, is_whole: bool) -> None:
        for kind, milli in some.items():
            self.milli[kind] = self.milli.get(kind, 0) + milli
        self.is_whole = self.is_whole and is_whole


class _Tree:
    """Which cohort is below which: an object, or a name that only queues or cohorts below say."""

    def __init__(
        self, objects: Mapping[str, Cohort], queues: Iterable[ClusterQueue], notes: list[str]
    ) -> None:
        self.objects = objects
        names = {queue.cohort: "" for queue in queues if queue.cohort}
        names |= {one.parent: "" for one in objects.values() if one.parent}
        self.parents = names | {name: one.parent for name, one in objects.items()}
        for name in sorted(self.parents):
            if self._is_above_itself(name):
                notes.append(f"cohort `{name}` is below itself: read as if nothing were above it")
                self.parents[name] = ""

    def _is_above_itself(self, name: str) -> bool:
        """Whether the way up from a cohort comes back to it."""
        at, seen = self.parents[name], set[str]()
        while at and at != name and at not in seen:
            seen.add(at)
            at = self.parents[at]
        return at == name

    def upward(self) -> list[str]:
        """Every cohort, those below others first."""
        return sorted(self.parents, key=lambda name: (-self._depth(name), name))

    def _depth(self, name: str) -> int:
        found = 0
        while self.parents[name]:
            name, found = self.parents[name], found + 1
        return found


def own(
    told: Iterable[QuotaOf], flavors: Mapping[str, Flavor], kinds: Kinds, *, admits: bool = False
) -> _Own:
    """By GPU type: several flavors may be of one."""
    found, unread = _Own({}, {}, {}, ()), list[str]()
    for one in told:
        having = [(kind, labels) for kind, labels, has in kinds if has == one.resource]
        its = _kinds_of(flavors.get(one.flavor), having)
        if not its or (len(its) > 1 and not admits):
            unread.append(one.flavor)
            continue
        amounts = (one.nominal, one.borrow, one.lend)
        for kind, (mine, units) in product(sorted(its), zip(found[:3], amounts, strict=True)):
            milli = FOREVER_MS if units is None else units * WHOLE_MILLI
            mine[kind] = min(mine.get(kind, 0) + milli, FOREVER_MS)
    return found._replace(unread=tuple(unread))


def _row(name: str, own: _Own, sure: Mapping[str, int], cohort: str) -> Queue:
    """A team that is sure of so much, by GPU type, and may borrow from a cohort."""

    def most(kind: str) -> int:
        borrow = own.borrow.get(kind, FOREVER_MS) if cohort else 0
        return min(sure[kind] + borrow, FOREVER_MS)

    return Queue(
        name,
        tuple(
            Share(kind, sure[kind], most(kind), lend_milli=own.lend.get(kind, FOREVER_MS))
            for kind in sorted(sure)
        ),
        parent=cohort_name(cohort) if cohort else "",
    )


def cohort_name(name: str) -> str:
    """What a cohort is called among teams: a queue may have the same name."""
    return f"{COHORT}{name}"


def _kinds_of(flavor: Flavor | None, kinds: list[tuple[str, Mapping[str, str]]]) -> set[str]:
    if flavor is None:
        return set()
    wanted = flavor.labels.items()
    return {kind for kind, labels in kinds if all(labels.get(k) == v for k, v in wanted)}
