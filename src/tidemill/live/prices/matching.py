"""Which line of a price file prices a node: the one that says most of it, in the window's time.

Lines that hold one after the other are weighed by how much of the window each covers. Two that hold
at the same time are refused: nobody can say which of them was paid.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from tidemill.live.history.rows import SeenNode
from tidemill.live.prices import labels
from tidemill.live.prices.rules import UNKNOWN, Price, PriceRule
from tidemill.model.errors import SpecError
from tidemill.model.measures import FOREVER_MS
from tidemill.units.catalogue.book import Catalogue


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

    def usd_micro(self, node: SeenNode) -> int:
        """What one GPU of a node costs per hour by this line."""
        if self.gpu_usd_micro is not None:
            return self.gpu_usd_micro
        assert self.node_usd_micro is not None, "a line has a price"
        return round(self.node_usd_micro / node.gpus)


def rule_of(lines: Sequence[PriceLine], window_ms: tuple[int, int], source: str) -> PriceRule:
    """The prices of a file, for books from and to a moment since 1970."""
    same = _same_type()

    def rule(node: SeenNode) -> Price:
        found = [(rank, line) for line in lines if (rank := _rank(line, node, same)) is not None]
        best = max((rank for rank, _ in found), default=None)
        covering = [line for rank, line in found if rank == best and _overlap(line, window_ms)]
        if not covering:
            return UNKNOWN
        _refuse_two_at_once(covering, node, source)
        return _mean(covering, node, window_ms, source)

    return rule


def _rank(
    line: PriceLine, node: SeenNode, same: Callable[[str, str], bool]
) -> tuple[bool, bool, bool, bool] | None:
    """How much a line says of a node; None: it is of others."""
    is_named = bool(line.nodes & labels.names(node))
    if line.nodes and not is_named:
        return None
    instance, region = labels.instance_type(node), labels.region(node)
    is_instance = bool(line.type) and labels.plain(line.type) == labels.plain(instance)
    if line.type and not is_instance and not same(line.type, node.gpu_type):
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


def _overlap(line: PriceLine, window_ms: tuple[int, int]) -> int:
    """How much of the window a line covers; a window without length counts as a moment."""
    start, end = _period(line)
    return max(0, min(end, max(window_ms[1], window_ms[0] + 1)) - max(start, window_ms[0]))


def _refuse_two_at_once(lines: Sequence[PriceLine], node: SeenNode, source: str) -> None:
    ordered = sorted(lines, key=_period)
    for one, other in pairwise(ordered):
        if _period(other)[0] < _period(one)[1]:
            raise SpecError(
                f"{source} prices node `{node.name}` twice at one time: rows {one.number} and"
                f" {other.number}",
                hint="say which nodes each is for (a column `node`, or `region`), or when each"
                " holds (`start`, `end`), or leave one of them out",
            )


def _mean(
    lines: Sequence[PriceLine], node: SeenNode, window_ms: tuple[int, int], source: str
) -> Price:
    weights = [_overlap(line, window_ms) for line in lines]
    money = sum(line.usd_micro(node) * weight for line, weight in zip(lines, weights, strict=True))
    most = max(zip(weights, lines, strict=True), key=lambda pair: (pair[0], -pair[1].number))[1]
    last = max(lines, key=lambda line: _period(line)[1])
    return Price(
        round(money / sum(weights)), source, most.terms, most.commitment, ends_ms=last.ends_ms
    )
