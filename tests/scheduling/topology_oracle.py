"""What the loops of topology must do, in plain Python over lists: slow, and short enough to trust.

A `Plot` is a yard (see `oracle`) whose nodes have a path: the domains they are in, outermost first.
`together` places a role by one rung, or says None.
"""

from collections import defaultdict
from dataclasses import dataclass

from tests.scheduling.oracle import PLENTY, Placed, Yard
from tidemill.model.rows import Role
from tidemill.scheduling.topology.constraints import Rung

MOST = (1 << 24) - 1
Path = tuple[int, ...]


@dataclass
class Plot:
    """A yard, and for each node the numbers of its domains."""

    yard: Yard
    paths: list[Path]


def together(plot: Plot, role: Role, rung: Rung) -> list[Placed] | None:
    """Place all replicas by a rung, or say that they do not go together."""
    depth = len(plot.paths[0]) if plot.paths else 0
    caps, free = _counts(plot, role, rung, depth)
    tops = [d for d in caps if len(d) == rung.top + 1]
    if sum(caps[d] for d in tops) < rung.want:
        return None
    quota = _shared(tops, caps, free, rung.want)
    for t in range(rung.top, depth):
        below: dict[Path, int] = {}
        for d, count in quota.items():
            parts = [p for p in caps if len(p) == t + 2 and p[:-1] == d]
            below |= _shared(parts, caps, free, count * int(rung.ratio[t]))
        quota = below
    placed: list[Placed] = []
    for path, count in sorted(quota.items(), key=lambda item: item[0][-1]):
        placed += _take(plot.yard, role, rung, path[-1], count * int(rung.ratio[depth]))
    return placed


def groups_on(yard: Yard, role: Role, rung: Rung, n: int) -> int:
    """How many groups one node takes."""
    if not yard.is_open[n]:
        return 0
    most = PLENTY
    if role.cpu_milli:
        most = min(most, yard.cpu[n] // role.cpu_milli)
    if role.memory_mib:
        most = min(most, yard.memory[n] // role.memory_mib)
    if not role.accelerators:
        return most // rung.each
    width = len(yard.free[n])
    inside = 0
    for block in _blocks(width, rung.block):
        fitting = [d for d in yard.fitting(n, role.milli) if d in block]
        shares = sum(yard.free[n][d] // role.milli for d in fitting)
        inside += shares // (rung.each * role.accelerators)
    return min(most // rung.each, inside)


def _counts(
    plot: Plot, role: Role, rung: Rung, depth: int
) -> tuple[dict[Path, int], dict[Path, int]]:
    """What each domain hosts and has free, keyed by its path; nodes are the longest paths."""
    caps: dict[Path, int] = defaultdict(int)
    free: dict[Path, int] = defaultdict(int)
    for n, path in enumerate(plot.paths):
        hosts = groups_on(plot.yard, role, rung, n)
        caps[*path, n] = min(MOST, hosts) // int(rung.ratio[depth])
        free[*path, n] = plot.yard.node_free(n)
    for t in range(depth, 0, -1):
        for d in [d for d in caps if len(d) == t + 1]:
            caps[d[:-1]] += caps[d]
            free[d[:-1]] += free[d] if t < depth or groups_on(plot.yard, role, rung, d[-1]) else 0
        for d in [d for d in caps if len(d) == t]:
            caps[d] = min(MOST, caps[d]) // int(rung.ratio[t - 1])
    return caps, free


def _shared(
    parts: list[Path], caps: dict[Path, int], free: dict[Path, int], want: int
) -> dict[Path, int]:
    """Fewest parts: the tightest that holds what is left, else the largest, filled."""
    quota: dict[Path, int] = {}
    left = [d for d in parts if caps[d] > 0]
    while want:
        able = [d for d in left if caps[d] >= want]
        if able:
            best = min(able, key=lambda d: (caps[d], free[d], d[-1]))
            return quota | {best: want}
        best = min(left, key=lambda d: (-caps[d], free[d], d[-1]))
        left.remove(best)
        quota[best] = caps[best]
        want -= caps[best]
    return quota


def _take(yard: Yard, role: Role, rung: Rung, n: int, groups: int) -> list[Placed]:
    free, width, pieces, mask = list(yard.free[n]), len(yard.free[n]), [], 0
    works = [d for d in range(width) if not yard.is_failed[n][d]]
    for _ in range(groups if role.accelerators else 0):
        blocks = [[d for d in works if d in block] for block in _blocks(width, rung.block)]
        wanted = rung.each * role.accelerators
        shares = {i: sum(free[d] // role.milli for d in block) for i, block in enumerate(blocks)}
        i = min((i for i in shares if shares[i] >= wanted), key=lambda i: (shares[i], i))
        for _ in range(wanted):
            able = [d for d in blocks[i] if free[d] >= role.milli]
            d = min(able, key=lambda d: (free[d], d))
            free[d] -= role.milli
            if role.milli < 1000:
                pieces.append((n, 1, 1 << d))
            mask |= 1 << d
    return pieces or [(n, groups * rung.each, mask)]


def _blocks(width: int, block: int) -> list[range]:
    size = block or width
    return [range(start, min(start + size, width)) for start in range(0, width, size)]
