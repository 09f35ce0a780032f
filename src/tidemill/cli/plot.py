"""A roofline drawn with characters: operations a second over operations a byte, log and log."""

from math import ceil, floor, log10
from typing import NamedTuple

WIDTH, HEIGHT = 72, 14
SLOPE, FLAT, RIDGE = "/", "─", "┬"


class Point(NamedTuple):
    """A piece of work: its mark, its intensity, and the operations a second that it reaches."""

    mark: str
    intensity: float
    flops_per_s: float


class _Axes(NamedTuple):
    left: float
    right: float
    bottom: float
    top: float

    def column(self, intensity: float) -> int:
        share = (log10(intensity) - self.left) / (self.right - self.left)
        return min(WIDTH - 1, max(0, round(share * (WIDTH - 1))))

    def row(self, flops_per_s: float) -> int:
        share = (log10(flops_per_s) - self.bottom) / (self.top - self.bottom)
        return min(HEIGHT - 1, max(0, round((1 - share) * (HEIGHT - 1))))

    def intensity(self, column: int) -> float:
        return float(10 ** (self.left + (self.right - self.left) * column / (WIDTH - 1)))


def roofline(flops_per_s: float, bytes_per_s: float, points: list[Point]) -> list[str]:
    """The two ceilings and the points beneath them; marks that fall together hang below."""
    drawn = [point for point in points if point.flops_per_s > 0 and point.intensity > 0]
    axes = _axes(flops_per_s, bytes_per_s, drawn)
    canvas = [[" "] * WIDTH for _ in range(HEIGHT)]
    for column in range(WIDTH):
        reached = min(flops_per_s, axes.intensity(column) * bytes_per_s)
        if log10(reached) >= axes.bottom:
            canvas[axes.row(reached)][column] = FLAT if reached == flops_per_s else SLOPE
    ridge = flops_per_s / bytes_per_s
    canvas[axes.row(flops_per_s)][axes.column(ridge)] = RIDGE
    for point in drawn:
        _mark(canvas, axes, point)
    return [*_with_rates(canvas, axes), *_with_intensities(axes)]


def _mark(canvas: list[list[str]], axes: _Axes, point: Point) -> None:
    """In its place, or in the next one below that has no other mark."""
    row, column = axes.row(point.flops_per_s), axes.column(point.intensity)
    free = (r for r in range(row, HEIGHT) if canvas[r][column] in (" ", SLOPE, FLAT, RIDGE))
    canvas[next(free, HEIGHT - 1)][column] = point.mark


def _axes(flops_per_s: float, bytes_per_s: float, points: list[Point]) -> _Axes:
    """Whole decades around the ridge and every point."""
    ridge = flops_per_s / bytes_per_s
    across = [log10(point.intensity) for point in points] + [log10(ridge)]
    up = [log10(point.flops_per_s) for point in points] + [log10(flops_per_s)]
    return _Axes(
        floor(min(across) - 0.2),
        ceil(max(across) + 0.2),
        floor(min(up) - 0.3),
        log10(flops_per_s) + 0.1,
    )


def _with_rates(canvas: list[list[str]], axes: _Axes) -> list[str]:
    """Each row, with the rate of a whole decade where one lies on it."""
    decades = {axes.row(10.0**power): power for power in range(ceil(axes.bottom), ceil(axes.top))}
    lines = []
    for row, cells in enumerate(canvas):
        label = rate(10.0 ** decades[row]) if row in decades else ""
        edge = "┤" if row in decades else "│"
        lines.append(f"{label:>12} {edge}{''.join(cells).rstrip()}")
    return lines


def _with_intensities(axes: _Axes) -> list[str]:
    """The axis below: whole decades of operations a byte."""
    line, labels = ["─"] * WIDTH, [" "] * (WIDTH + 8)
    for power in range(ceil(axes.left), floor(axes.right) + 1):
        column = axes.column(10.0**power)
        line[column] = "┴"
        text = f"{10.0**power:g}"
        labels[column : column + len(text)] = text
    pad = " " * 13
    below = "".join(labels).rstrip()
    return [f"{pad}└{''.join(line)}", f"{pad} {below}  FLOP/byte"]


def rate(flops_per_s: float) -> str:
    """``1 TFLOP/s``, ``100 GFLOP/s``."""
    for size, name in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if flops_per_s >= size:
            return f"{flops_per_s / size:.3g} {name}FLOP/s"
    return f"{flops_per_s:.3g} FLOP/s"
