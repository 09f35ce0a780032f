"""Commitments: what is paid for whether machines are there or not, and in which time.

A price file says of a reservation how many GPUs or nodes it is of; a bill says what of one nothing
used. Machines that a line with a count prices fill it; what of it they do not fill is *reserved,
not launched*. Each commitment and type is a contract of its own, beside those of machines.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import count
from typing import NamedTuple

from msgspec import UNSET

from tidemill.live.history.attempts import kind_of
from tidemill.live.history.rows import SeenNode
from tidemill.live.prices import labels
from tidemill.model.measures import FOREVER_MS, MILLI_MS_PER_UNIT_HOUR
from tidemill.model.rows import UNKNOWN_HOST, UNPRICED, Contract, LaterPrice, Template
from tidemill.reservation.types import UNFILLED
from tidemill.units.catalogue.book import Catalogue

_NO_NODES = 1
"""The least that a contract may be of: no node ever is under one of these, and events say how much
they pay for."""
NOT_LAUNCHED = ", not launched"
"""At the end of the name of such a contract."""


class Commitment(NamedTuple):
    """What a commitment pays for in one time."""

    number: int
    """Its row in the file."""
    name: str
    type: str
    """An instance type, or a GPU type; "": that of the machines that it prices."""
    region: str
    starts_ms: int
    ends_ms: int
    gpu_milli: int | None
    machine_milli: int | None
    """Of whole machines, where the number of GPUs is not said."""
    gpu_usd_micro: int | None = None
    node_usd_micro: int | None = None
    billed_usd_micro: int | None = None
    """What was billed for all of it in all of that time, where a bill says that nothing used it."""
    source: str = ""
    title: str = ""
    """The contract that it is on the books under."""
    edges: tuple[int, ...] = ()
    """When lines of its file begin or end: machines may fill it from then on, or not any more."""


class PaidLevel(NamedTuple):
    """What is paid for from a moment on, since 1970."""

    from_ms: int
    gpu_milli: int
    usd_micro: int


class Unfilled(NamedTuple):
    """A contract for what of a commitment no machine is there for, and how much it pays for."""

    title: str
    kind: str
    levels: tuple[PaidLevel, ...]
    edges: tuple[int, ...]
    source: str

    def milli_at(self, at_ms: int) -> int:
        """What it pays for at a moment."""
        return self._milli_at([level.from_ms for level in self.levels], at_ms)

    def _milli_at(self, moments: Sequence[int], at_ms: int) -> int:
        begun = bisect_right(moments, at_ms)
        return self.levels[begun - 1].gpu_milli if begun else 0

    def contract(self, begins_ms: int, at_ms: int) -> Contract:
        """As it is signed at a moment, in a journal that begins at another; since 1970."""
        paid = [level for level in self.levels if level.gpu_milli]
        first, *later = _prices(paid, at_ms)
        return Contract(
            self.title, self.kind, self.kind, _NO_NODES, first.usd_micro,
            Template(_NO_NODES, UNKNOWN_HOST, UNKNOWN_HOST), terms=UNFILLED,
            price_source=self.source[:200] or UNSET,
            later_prices=tuple(
                LaterPrice(one.from_ms - begins_ms, one.usd_micro, self.source[:200])
                for one in later
            )
            or UNSET,
        )  # fmt: skip

    def told(self, after_ms: int, until_ms: int) -> list[tuple[int, int]]:
        """When it has to be told again what is paid for, after one moment and up to another."""
        moments = [level.from_ms for level in self.levels]
        inside = sorted(ms for ms in {*self.edges, *moments} if after_ms < ms <= until_ms)
        return [(ms, self._milli_at(moments, ms)) for ms in inside]


def titled(some: Iterable[Commitment]) -> list[Commitment]:
    """Commitments with their titles: those of one name and type follow each other in time."""
    ends_ms, found = dict[str, int](), list[Commitment]()
    for one in sorted(some, key=lambda one: (one.starts_ms, one.number)):
        of = " ".join(part for part in (one.type, one.region) if part)
        tries = (_numbered(f"{of} ({one.name})"[:150], nth) for nth in count(1))
        title = next(name for name in tries if ends_ms.get(name, 0) <= one.starts_ms)
        ends_ms[title] = one.ends_ms
        found.append(one._replace(title=title))
    return found


def unfilled(
    some: Sequence[Commitment], nodes: Iterable[SeenNode]
) -> tuple[list[Unfilled], list[str]]:
    """A contract for each title, and which of them nobody can count, in words.

    ``nodes``: what is there says which GPUs an instance type has; else the catalogue does.
    """
    if not some:
        return [], []
    known, lost, found = _machines(nodes), list[Commitment](), dict[str, list[Commitment]]()
    for one in some:
        found.setdefault(one.title, []).append(one)
    made = list[Unfilled]()
    for title, parts in found.items():
        kind, gpus = known(parts[0].type)
        levels = [level for one in parts for level in _levels(one, gpus)]
        if kind and None not in levels:
            told = _merged([level for level in levels if level is not None])
            edges = tuple(sorted({ms for one in parts for ms in one.edges}))
            made.append(Unfilled(title, kind, told, edges, parts[0].source))
        else:
            lost += parts
    return made, _said_lost(lost)


def _said_lost(lost: Sequence[Commitment]) -> list[str]:
    """Of which commitments nobody can say what is not there, in words."""
    told = [one for one in lost if one.billed_usd_micro is None]
    found = [
        f"nobody says which GPUs, and how many, a machine of type `{one.type}` has: what of"
        f" commitment `{one.name}` is not there is unknown; give its price and number by GPU type"
        for one in {one.title: one for one in told}.values()
    ]
    if billed := [one for one in lost if one.billed_usd_micro is not None]:
        usd = sum(one.billed_usd_micro or 0 for one in billed) / 1_000_000
        kinds = dict.fromkeys(f"`{one.type}`" for one in billed)
        names = ", ".join([*kinds][:5]) + (" …" if len(kinds) > 5 else "")
        found.append(f"commitments that nothing used, of machines that are not known to have GPUs"
                     f" ({names}), on no books: ${usd:,.2f}")  # fmt: skip
    return found


def _machines(nodes: Iterable[SeenNode]) -> Callable[[str], tuple[str, int | None]]:
    """The GPU type, and how many such a machine has, of an instance type or a GPU type; "": none
    that is known.
    """
    book, boxes, kinds = Catalogue(), dict[str, tuple[str, int]](), dict[str, str]()
    for node in nodes:
        machine = node.machine or node
        if box := labels.instance_type(machine):
            boxes.setdefault(labels.plain(box), (kind_of(machine.gpu_type), machine.gpus))
        kinds.setdefault(labels.plain(machine.gpu_type), kind_of(machine.gpu_type))

    def known(told: str) -> tuple[str, int | None]:
        name = labels.plain(told)
        if name in boxes:
            return boxes[name]
        if name in kinds:
            return kinds[name], None
        if (box := book.boxes.get(name)) is not None:
            return _as_on_books(book, kinds.values(), box.part), box.count
        if book.find(told) is not None:
            return _as_on_books(book, kinds.values(), told), None
        return "", None

    return known


def _as_on_books(book: Catalogue, kinds: Iterable[str], told: str) -> str:
    """What the books call a GPU type that the catalogue knows."""
    part = book.find(told)
    return next((kind for kind in kinds if part is not None and book.find(kind) is part),
                kind_of(told))  # fmt: skip


def _levels(one: Commitment, gpus: int | None) -> list[PaidLevel | None]:
    """What is paid for from its start on, and from its end on nothing; None: nobody can say."""
    milli, usd = one.gpu_milli, one.gpu_usd_micro
    if milli is None and one.machine_milli is not None and gpus is not None:
        milli = one.machine_milli * gpus
    if usd is None and one.node_usd_micro is not None and gpus is not None:
        usd = round(one.node_usd_micro / gpus)
    if one.billed_usd_micro is not None and milli:
        length_ms = one.ends_ms - one.starts_ms
        usd = round(Fraction(one.billed_usd_micro * MILLI_MS_PER_UNIT_HOUR, milli * length_ms))
    if milli is None or usd is None:
        return [None]
    return [PaidLevel(one.starts_ms, milli, usd), PaidLevel(one.ends_ms, 0, usd)]


def _merged(levels: Sequence[PaidLevel]) -> tuple[PaidLevel, ...]:
    """Levels in order of time; where one ends and the next begins, the next."""
    at, found = dict[int, PaidLevel](), list[PaidLevel]()
    for level in sorted(levels, key=lambda one: (one.from_ms, one.gpu_milli)):
        if level.from_ms < FOREVER_MS:
            at[level.from_ms] = level
    for level in at.values():
        if not found or found[-1][1:] != level[1:]:
            found.append(level)
    return tuple(found)


def _prices(paid: Sequence[PaidLevel], at_ms: int) -> list[PaidLevel]:
    """What it costs at a moment, and from later ones on, where that is another price."""
    begun = [level for level in paid if level.from_ms <= at_ms]
    first = begun[-1] if begun else paid[0] if paid else PaidLevel(0, 0, UNPRICED)
    found = [first]
    for level in paid:
        if level.from_ms > at_ms and level.usd_micro != found[-1].usd_micro:
            found.append(level)
    return found


def _numbered(title: str, nth: int) -> str:
    return f"{title}{f' ({nth})' if nth > 1 else ''}{NOT_LAUNCHED}"
