"""Nearest: what is close to a request and would run now, without searching.

Each candidate changes one thing: the same accelerators in smaller replicas, fewer replicas, smaller
ones, another kind, no labels, fewer cores, less memory. Whether it fits is one count over columns;
there are at most some two dozen of them, whatever the size of the fleet.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.explain import words
from tidemill.explain.answers import Alternative
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Role
from tidemill.scheduling import eligible, shares
from tidemill.scheduling.room import Room
from tidemill.units.mig import geometry as mig

HALVINGS = 5  # cores and memory are tried at a half, a quarter, … of what was asked
MOST = 3  # alternatives that are shown


class Wish(NamedTuple):
    """A role of a team, in a room: what is asked for."""

    room: Room
    queue: int
    role: Role


def alternatives(wish: Wish) -> tuple[Alternative, ...]:
    """What would run now instead, the smallest change first; empty when nothing near would."""
    found: dict[tuple[int, int, tuple[str, ...]], Alternative] = {}
    if wish.role.accelerators:
        for change in _CHANGES:
            for made in change(wish):
                found.setdefault((made.replicas, made.accelerators, made.kinds), made)
    return tuple(found.values())[:MOST]


def hosted(wish: Wish, role: Role) -> int:
    """How many replicas of a role would run now: on the one kind that takes most of them."""
    room, most = wish.room, 0
    for option in eligible.options(room.world, role):
        k, need = option.kind, role.replica_milli
        count = min(room.count_hosts(role, option.is_ok), room.kind_free[k] // need, role.count)
        if count > most:
            most = max(most, _allowed(wish, k, need, count))
    return most


def _allowed(wish: Wish, k: int, need: int, count: int) -> int:
    """The largest part of ``count`` replicas that limits, and what others keep back, allow."""
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        if _may(wish, k, middle * need):
            low = middle
        else:
            high = middle - 1
    return low


def _may(wish: Wish, k: int, milli: int) -> bool:
    room, q = wish.room, wish.queue
    return shares.within_limit(room.world, room.used, q, k, milli) and shares.leaves_kept(
        room.world, room, room.kind_free[k], q, k, milli
    )


def _split(wish: Wish) -> Iterator[Alternative]:
    """The same accelerators in smaller replicas; cores and memory go with them."""
    role = wish.role
    for size in range(role.accelerators - 1, 0, -1):
        parts, rest = divmod(role.accelerators, size)
        if rest or role.milli < WHOLE_MILLI:
            continue
        made = replace(
            role, count=role.count * parts, accelerators=size,
            cpu_milli=-(-role.cpu_milli // parts), memory_mib=-(-role.memory_mib // parts),
        )  # fmt: skip
        if hosted(wish, made) >= made.count:
            yield _made("split", made)
            return


def _fewer(wish: Wish) -> Iterator[Alternative]:
    count = hosted(wish, wish.role)
    if 0 < count < wish.role.count:
        yield _made("fewer replicas", replace(wish.role, count=count))


def _smaller(wish: Wish) -> Iterator[Alternative]:
    """The largest replica of which at least one would run."""
    role = wish.role
    if role.milli == WHOLE_MILLI and role.count == 1:
        low, high = 0, role.accelerators - 1
        while low < high:
            middle = (low + high + 1) // 2
            fits = hosted(wish, replace(role, accelerators=middle)) > 0
            low, high = (middle, high) if fits else (low, middle - 1)
        if low and hosted(wish, replace(role, accelerators=low)):
            yield _made("fewer accelerators", replace(role, accelerators=low))


def _elsewhere(wish: Wish) -> Iterator[Alternative]:
    role, world = wish.role, wish.room.world
    for kind in sorted(world.kinds) if role.kinds else ():
        made = replace(role, kinds=(kind,))
        if kind not in role.kinds and hosted(wish, made) >= role.count:
            yield _made("another kind", made)


def _other_profile(wish: Wish) -> Iterator[Alternative]:
    """Instances that would do, the smallest first; then smaller ones, the largest first."""
    role, world = wish.role, wish.room.world
    for kind in sorted(world.kinds) if role.profile else ():
        part = mig.of_kind(kind)
        asked = part.find(role.profile) if part else None
        if part is None or asked is None or (role.kinds and kind not in role.kinds):
            continue
        rows = sorted(part.profiles, key=lambda row: (row.memory, row.compute, row.name))
        does = [r for r in rows if r.memory >= asked.memory and r.compute >= asked.compute]
        for row in (*does, *(r for r in reversed(rows) if r not in does)):
            made = replace(role, profile=row.name, milli=part.milli(row), kinds=(kind,))
            if row is not asked and hosted(wish, made) >= role.count:
                yield _made("another profile", made)
                return


def _unlabelled(wish: Wish) -> Iterator[Alternative]:
    made = replace(wish.role, labels=())
    if wish.role.labels and hosted(wish, made) >= made.count:
        yield _made("no labels", made, f"without {words.labels(wish.role)}")


def _cores(wish: Wish) -> Iterator[Alternative]:
    for asked in _halves(wish.role.cpu_milli):
        made = replace(wish.role, cpu_milli=asked)
        if hosted(wish, made) >= made.count:
            yield _made("fewer cores", made, f"with {words.cores(asked)} cores a replica")
            return


def _memory(wish: Wish) -> Iterator[Alternative]:
    for asked in _halves(wish.role.memory_mib):
        made = replace(wish.role, memory_mib=asked)
        if hosted(wish, made) >= made.count:
            yield _made("less memory", made, f"with {words.gib(asked)} GiB a replica")
            return


_CHANGES: tuple[Callable[[Wish], Iterator[Alternative]], ...] = (
    _cores, _memory, _split, _unlabelled, _other_profile, _elsewhere, _fewer, _smaller,
)  # fmt: skip


def _halves(asked: int) -> Iterator[int]:
    for n in range(1, HALVINGS + 1):
        if asked >> n:
            yield asked >> n


def _made(change: str, role: Role, but: str = "") -> Alternative:
    size = f"`{role.profile}`" if role.profile else words.amount(role.replica_milli)
    kinds = f" {words.either(role.kinds)}" if role.kinds else ""
    text = (f"{role.count:,}×{size}" if role.count > 1 else size) + kinds
    return Alternative(
        change, role.count, role.accelerators, role.milli, role.kinds, role.cpu_milli,
        role.memory_mib, f"{text} {but}" if but else text, role.profile,
    )  # fmt: skip
