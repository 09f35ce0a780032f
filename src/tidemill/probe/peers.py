"""Peers: which of several like units is slower than the others (fail-slow).

Each figure of each card is set against the median of its peers: cards of the same part, power
limit and figure. A unit is called slow where it is both ``tolerance`` below the median and more
than ``OUTLIER`` robust deviations from it (the modified z-score of Iglewicz and Hoaglin 1993, with
their threshold): the first keeps harmless differences out, the second keeps noisy figures out.
Two cards can differ, but cannot say which of them is wrong.
"""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from tidemill.probe.card import Card
from tidemill.probe.figures import Figure, figures

TOLERANCE = 0.05
OUTLIER = 3.5
FEWEST = 3
"""Cards below which nobody can be blamed."""


class PeerFinding(NamedTuple):
    """One figure of one card among its peers."""

    card: int
    """The number of the card, in the order given."""
    figure: Figure
    peers: int
    median: float
    ratio: float
    z: float
    is_slow: bool


def compare(cards: Iterable[Card], tolerance: float = TOLERANCE) -> list[PeerFinding]:
    """Every figure that at least two like cards have, by figure and card."""
    rows: defaultdict[tuple[str, float, str], list[tuple[int, Figure]]] = defaultdict(list)
    for number, card in enumerate(cards):
        for figure in figures(card):
            limit = card.unit.power_limit_w or 0.0
            rows[card.unit.name, limit, figure.key].append((number, figure))
    found: list[PeerFinding] = []
    for peers in rows.values():
        if len(peers) > 1:
            found += _among(peers, tolerance)
    return found


def slow_cards(findings: Iterable[PeerFinding]) -> list[int]:
    """The cards with at least one slow figure."""
    return sorted({finding.card for finding in findings if finding.is_slow})


def _among(peers: list[tuple[int, Figure]], tolerance: float) -> list[PeerFinding]:
    values = [figure.value for _, figure in peers]
    middle = median(values)
    deviation = 1.4826 * median(abs(value - middle) for value in values)
    # Equal figures by chance are no proof of precision: what two sittings differ by is the least.
    deviation = max(deviation, peers[0][1].noise * middle)
    found = []
    for number, figure in peers:
        z = (figure.value - middle) / deviation
        is_slow = len(peers) >= FEWEST and figure.value < middle * (1 - tolerance) and z < -OUTLIER
        ratio = figure.value / middle
        found.append(PeerFinding(number, figure, len(peers), middle, ratio, z, is_slow))
    return found
