"""Tally: medians and percentiles of what was timed."""

from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of all values do not exceed (nearest rank)."""
    ranked = sorted(values)
    rank = -(-len(ranked) * share // 1)
    return ranked[min(max(int(rank) - 1, 0), len(ranked) - 1)]


def median(values: Sequence[float]) -> float:
    """The middle one (the lower of two)."""
    return quantile(values, 0.5)


def spread(values: Sequence[float]) -> float:
    """(slowest − fastest) / median, without the slowest tenth, which the first ones warm."""
    return (quantile(values, 0.9) - min(values)) / median(values)
