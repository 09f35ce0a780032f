"""Which line of a price file prices a node: at each moment the one that says most of it.

Lines that hold one after the other are prices one after the other: each hour costs what its line
says, and a time that no line covers has no price. Two lines that say equally much and hold at the
same time are refused: nobody can say which of them was paid.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from tidemill.live.history.rows import SeenNode
from tidemill.live.prices import labels
from tidemill.live.prices.rules import UNKNOWN, Price, PricePeriod, PriceRule
from tidemill.model.errors import SpecError
from tidemill.model.measures import FOREVER_MS
from tidemill.reservation.types import PAID
from tidemill.units.catalogue.book import Catalogue

_Rank = tuple[bool, bool, bool, bool]


class PriceLine(NamedTuple):
    """One line: whom it prices, what that costs, since when and until when."""

    number: int
    """Its row in the file; the header is row 1."""
    nodes: frozenset[str] = frozenset()
    """Names of machines; empty: it is not said of single machines."""
    type: str = ""
    """An instance type, or a GPU type; "": any."""
    region: str = ""
    terms: str = ""
    commitment: str = ""
    starts_ms: int | None = None
    ends_ms: int | None = None
    gpu_usd_micro: int | None = None
    """Per hour of one GPU; else ``node_usd_micro`` is known, per hour of the whole machine."""
    node_usd_micro: int | None = None
    bought: str | None = None
    """How it is bought, in words, where that is not what ``commitment`` and ``terms`` say."""
    fills: str = ""
    """The commitment with a count that its machines fill (``commitments``)."""

    @property
    def way(self) -> str:
        """How it is bought, in words; "": nobody says."""
        return self.commitment or PAID.get(self.terms, "") if self.bought is None else self.bought

    def usd_micro(self, node: SeenNode) -> int:
        """What one GPU of a node costs per hour by this line."""
        if self.gpu_usd_micro is not None:
            return self.gpu_usd_micro
        assert self.node_usd_micro is not None, "a line has a price"
        return round(self.node_usd_micro / node.gpus)


def rule_of(
    lines: Sequence[PriceLine], window_ms: tuple[int, int], source: str, *, is_bill: bool = False
) -> PriceRule:
    """The prices of a file, for books from and to a moment since 1970.

    Lines that begin after the books end are no prices of theirs; books without an end have all.
    ``is_bill``: a machine that is named costs nothing that is known where it was not billed.
    """
    same = _same_type()

    def rule(node: SeenNode) -> Price:
        found = [(rank, line) for line in lines if (rank := _rank(line, node, same)) is not None]
        if not any(is_named for (is_named, *_), _ in found):
            found += _against_label(lines, node, same)
        if is_bill and any(is_named for (is_named, *_), _ in found):
            found = [(rank, line) for rank, line in found if rank[0]]
        inside = [(rank, line) for rank, line in found if _overlaps(line, window_ms)]
        return _priced(inside, node, window_ms, source) if inside else UNKNOWN

    return rule


def _against_label(
    lines: Iterable[PriceLine], node: SeenNode, same: Callable[[str, str], bool]
) -> list[tuple[_Rank, PriceLine]]:
    """The lines of a machine alone that say otherwise than its label how it is bought: it costs
    what they say, for who wrote them meant this machine.
    """
    if not (terms := labels.terms(node)):
        return []
    mine = [line for line in lines if line.terms not in ("", terms) and _is_of_one(line)]
    ranked = [(_rank(line._replace(terms=""), node, same), line) for line in mine]
    return [(rank, line) for rank, line in ranked if rank is not None]


def _is_of_one(line: PriceLine) -> bool:
    return bool(line.nodes) and not any("*" in name for name in line.nodes)


def said_against_labels(lines: Sequence[PriceLine], nodes: Iterable[SeenNode]) -> list[str]:
    """Which machines are bought otherwise by their own line than by their label, in words."""
    same, found = _same_type(), list[str]()
    mine = [line for line in lines if line.terms and _is_of_one(line)]
    for node in nodes if mine else ():
        if any((rank := _rank(line, node, same)) is not None and rank[0] for line in mine):
            continue
        found += [
            f"row {line.number} says that node `{node.name}` is {PAID[line.terms]}, its label that"
            f" it is {PAID[labels.terms(node)]}: it costs what the row says"
            for _, line in _against_label(mine, node, same)
        ]
    return found


def unmet_nodes(lines: Iterable[PriceLine], nodes: Iterable[SeenNode]) -> list[str]:
    """Machines that lines name and that are none of these."""
    there, known = [*nodes], set[str]()
    for node in there:
        known |= labels.names(node)
    named = dict.fromkeys(name for line in lines for name in line.nodes)
    return [
        name for name in named
        if name not in known and labels.tail(name) not in known
        and not ("*" in name and any(labels.is_called(node, name) for node in there))
    ]  # fmt: skip


def unmet(lines: Iterable[PriceLine], gpus: Iterable[str], machines: Container[str]) -> list[str]:
    """Types that lines name and that nothing is of: neither a GPU type nor an instance type."""
    same, there = _same_type(), [*gpus]
    named = dict.fromkeys(line.type for line in lines if line.type and not line.nodes)
    return [
        one for one in named
        if labels.plain(one) not in machines and not any(same(one, other) for other in there)
    ]  # fmt: skip


def _rank(line: PriceLine, node: SeenNode, same: Callable[[str, str], bool]) -> _Rank | None:
    """How much a line says of a node; None: it is of others."""
    is_named = any(labels.is_called(node, name) for name in line.nodes)
    if line.nodes and not is_named:
        return None
    instance, region = labels.instance_type(node), labels.region(node)
    is_instance = bool(line.type) and labels.plain(line.type) == labels.plain(instance)
    is_untold = is_named and not node.gpu_type  # nobody said which GPUs it has
    if line.type and not is_instance and not is_untold and not same(line.type, node.gpu_type):
        return None
    if line.region and region and line.region != region:
        return None
    terms = labels.terms(node)
    if line.terms and terms and line.terms != terms:
        return None
    return is_named, is_instance, bool(line.type), bool(line.region and region)


def _same_type() -> Callable[[str, str], bool]:
    """Whether two names are of one GPU model, as the catalogue knows them."""
    book = Catalogue()
    find = cache(book.find)

    def same(one: str, other: str) -> bool:
        if labels.plain(one) == labels.plain(other):
            return True
        found = find(one) if one and other else None
        return found is not None and found is find(other)

    return same


def _period(line: PriceLine) -> tuple[int, int]:
    return line.starts_ms or 0, FOREVER_MS if line.ends_ms is None else line.ends_ms


def _overlaps(line: PriceLine, window_ms: tuple[int, int]) -> bool:
    """Whether a line holds in the window; one without length counts as a moment."""
    start, end = _period(line)
    return max(start, window_ms[0]) < min(end, max(window_ms[1], window_ms[0] + 1))


def _priced(
    found: Sequence[tuple[_Rank, PriceLine]],
    node: SeenNode,
    window_ms: tuple[int, int],
    source: str,
) -> Price:
    """The prices of a node since 1970: between each two moments at which a line begins or ends.

    Terms and commitment are those of the line that holds for most of the window. Where lines say
    several ways in which it was bought, each period says its own; a time that no line covers has
    that of the one before.
    """
    moments = {ms for _, line in found for ms in _period(line) if 0 < ms < FOREVER_MS}
    periods, most = list[PricePeriod](), dict[PriceLine, int]()
    ways = [_way(found, at_ms, node, source) for at_ms in (0, *sorted(moments))]
    are_several = len({*ways} - {None}) > 1
    edges = pairwise((0, *sorted(moments), FOREVER_MS))
    for (at_ms, until_ms), way in zip(edges, ways, strict=True):
        line = _holding(found, at_ms, node, source)
        period = PricePeriod(at_ms)
        if line is not None:
            period = PricePeriod(at_ms, line.usd_micro(node), source, fills=line.fills)
            inside_ms = min(until_ms, window_ms[1]) - max(at_ms, window_ms[0])
            most[line] = most.get(line, 0) + max(0, inside_ms)
        if are_several:
            told = way if way is not None else periods[-1].bought if periods else _first(ways)
            period = period._replace(bought=told)
        if not periods or periods[-1][1:] != period[1:]:
            periods.append(period)
    longest = max(most, key=lambda line: (most[line], -line.number))
    last = max(most, key=lambda line: _period(line)[1])
    return Price(
        periods[0].usd_micro, periods[0].source, longest.terms, longest.commitment, last.ends_ms,
        tuple(periods[1:]), periods[0].bought, periods[0].fills,
    )  # fmt: skip


def _way(
    found: Sequence[tuple[_Rank, PriceLine]], at_ms: int, node: SeenNode, source: str
) -> str | None:
    """How a node is bought at a moment; None: no line covers it."""
    line = _holding(found, at_ms, node, source)
    return None if line is None else line.way


def _first(ways: Iterable[str | None]) -> str | None:
    return next((way for way in ways if way is not None), None)


def _holding(
    found: Sequence[tuple[_Rank, PriceLine]], at_ms: int, node: SeenNode, source: str
) -> PriceLine | None:
    """The line that prices a node at a moment."""
    holding = [(rank, one) for rank, one in found if _period(one)[0] <= at_ms < _period(one)[1]]
    best = max((rank for rank, _ in holding), default=None)
    lines = [line for rank, line in holding if rank == best]
    if len(lines) > 1:
        raise SpecError(
            f"{source} prices node `{node.name}` twice at one time: rows {lines[0].number} and"
            f" {lines[1].number}",
            hint="say which nodes each is for (a column `node`, or `region`), or when each"
            " holds (`start`, `end`), or leave one of them out",
        )
    return lines[0] if lines else None
