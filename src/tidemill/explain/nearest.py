"""Nearest: what is close to a request and would be placed now.

Each candidate changes one thing: the same accelerators in smaller replicas, fewer replicas, smaller
ones, another kind, taints tolerated, no labels, fewer cores, less memory, a topology constraint
preferred instead of required. One count over columns rules out most; what is left is submitted to
the scheduler itself on a copy (``trials``), and only what it places at once is offered.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.explain import phrasing
from tidemill.explain.answers import Alternative
from tidemill.explain.trials import Trials
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import OF, Job, Role, Shape
from tidemill.model.topology import Bond
from tidemill.scheduling import eligibility, mixed_types
from tidemill.scheduling.snapshot import Snapshot
from tidemill.units import capability
from tidemill.units.mig import geometry as mig

HALVINGS = 5  # cores and memory are tried at a half, a quarter, … of what was asked
_SHARE = re.compile(rf"1/\d+{OF}")
MOST = 3  # alternatives that are shown


class Wish(NamedTuple):
    """A job that does not run now: the role that is short, in a room; and its number, or -1."""

    room: Snapshot
    job: Job
    r: int
    number: int = -1

    @property
    def shape(self) -> Shape:
        """What it asks for."""
        return self.job.shape

    @property
    def role(self) -> Role:
        """The role that is short."""
        return self.shape.roles[self.r]

    @property
    def queue(self) -> int:
        """Whose it is."""
        return self.room.world.queue_of(self.shape)


class Candidate(NamedTuple):
    """One change: what the role becomes, in words; another shape or estimate where that changes."""

    change: str
    role: Role
    words: str
    shape: Shape | None = None
    estimate_ms: int | None = None


def alternatives(wish: Wish, trials: Trials) -> tuple[Alternative, ...]:
    """What would run now instead, the smallest change first; empty when nothing near would."""
    found: dict[Shape, Alternative] = {}
    every, wish = wish, _with_usable_types(wish)
    for change in _CHANGES if wish.role.accelerators else _OF_HOST:
        if not trials.may_try():
            break
        asked = _with_types(every, wish.role.kinds) if change is _unlabelled else wish
        _keep(found, (tried(wish, trials, candidate) for candidate in change(asked)))
        if len(found) >= MOST:
            return tuple(found.values())
    for sizes in (_fewer, _smaller) if wish.role.accelerators and len(found) < MOST else ():
        _keep(found, [_largest(wish, trials, sizes(wish))])
    return tuple(found.values())[:MOST]


def _keep(found: dict[Shape, Alternative], offers: Iterable[Alternative | None]) -> None:
    """Keep the first of these that is one."""
    made = next((offer for offer in offers if offer is not None), None)
    if made is not None and made.shape is not None:
        found.setdefault(made.shape, made)


def _largest(wish: Wish, trials: Trials, sizes: list[Candidate]) -> Alternative | None:
    """Of requests that differ in size, the smallest first: one that is placed while the next larger
    is not. By halving down to one that is placed, then halving what lies between.
    """
    low, high = 0, len(sizes)  # so many are placed for sure; more than this are not
    step = high
    while low < high:
        if _places(wish, trials, sizes[step - 1]):
            low = step
        else:
            high = step - 1
        step = (low + high + 1) // 2 if low else step // 2
        if not step:
            break
    return tried(wish, trials, sizes[low - 1]) if low else None


def _places(wish: Wish, trials: Trials, candidate: Candidate) -> bool:
    shape = candidate.shape or _with_role(wish, candidate.role)
    return trials.places(replace(wish.job, shape=shape), without=wish.number)


def tried(wish: Wish, trials: Trials, candidate: Candidate) -> Alternative | None:
    """The candidate as an offer, if the scheduler places it at once; None: it does not."""
    shape = candidate.shape or _with_role(wish, candidate.role)
    row = replace(wish.job, shape=shape)
    if candidate.estimate_ms is not None:
        row = replace(row, estimate_ms=candidate.estimate_ms)
    if not trials.places(row, without=wish.number):
        return None
    in_queue = wish.number >= 0 and trials.is_submitted
    needs_cancel = in_queue and not trials.places(row)
    role = candidate.role
    return Alternative(
        candidate.change, role.count, role.accelerators, role.milli, role.kinds, role.cpu_milli,
        role.memory_mib, _whole(wish, candidate), role.profile, shape, needs_cancel,
        candidate.estimate_ms,
    )  # fmt: skip


def _whole(wish: Wish, candidate: Candidate) -> str:
    """The candidate in words; of several roles also those that stay, and what is left out."""
    others = [role for r, role in enumerate(wish.shape.roles) if r != wish.r]
    if not others:
        return candidate.words
    left = wish.role.total_milli - candidate.role.total_milli
    fewer = f", {phrasing.amounts(left, 'GPU')} fewer" if left > 0 else ""
    stay = " and ".join(phrasing.all_replicas(others))
    return f"{candidate.words} beside {stay}{fewer}"


def _with_role(wish: Wish, role: Role) -> Shape:
    roles = wish.shape.roles
    return replace(wish.shape, roles=(*roles[: wish.r], role, *roles[wish.r + 1 :]))


def hosted(wish: Wish, role: Role) -> int:
    """How many replicas of a role would run now: on the type that takes most of them, or on all
    types together where whoever decides asks each replica alone.
    """
    room, q = wish.room, wish.queue
    options = eligibility.options(room.world, role)
    if not role.accelerators:
        options = (eligibility.anywhere(room.world, role),)
    counts = [mixed_types.may_hold(room, q, role, one) for one in options]
    is_alone = mixed_types.are_asked_alone(room.world, _with_role(wish, role))
    return min(role.count, sum(counts) if is_alone else max(counts, default=0))


def _split(wish: Wish) -> Iterator[Candidate]:
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
            yield _made("split", made, _divided(made))


def _divided(role: Role) -> str:
    """What is left of cores and memory for each of the smaller replicas, where any was asked."""
    parts = [phrasing.many_cores(role.cpu_milli)] * bool(role.cpu_milli)
    parts += [f"{phrasing.gib(role.memory_mib)} GiB"] * bool(role.memory_mib)
    return f"with {' and '.join(parts)} per replica" if parts else ""


def _fewer(wish: Wish) -> list[Candidate]:
    """As many replicas as would fit, or fewer; the fewest first."""
    role = wish.role
    most = min(hosted(wish, role), role.count - 1)
    return [
        _made("fewer replicas", replace(role, count=count, least=min(role.least, count)))
        for count in range(1, most + 1)
    ]


def _smaller(wish: Wish) -> list[Candidate]:
    """A replica as large as would fit, or smaller; the smallest first."""
    role = wish.role
    if role.milli != WHOLE_MILLI or role.count != 1:
        return []
    sizes = [replace(role, accelerators=size) for size in range(1, role.accelerators)]
    return [_made("fewer accelerators", one) for one in sizes if hosted(wish, one)]


def _elsewhere(wish: Wish) -> Iterator[Candidate]:
    role, world = wish.role, wish.room.world
    for kind in sorted(world.kinds) if role.kinds else ():
        if not capability.is_as_large(role.kinds, kind):
            continue  # a part of a GPU does not do for a whole one, nor for a larger part
        if not capability.may_replace(role.kinds, kind, is_strict=world.is_observed):
            continue  # programs for one vendor's do not run on another's
        made = replace(role, kinds=(kind,))
        if kind not in role.kinds and hosted(wish, made) >= role.count:
            yield _made("another GPU type", made)


def _with_usable_types(wish: Wish) -> Wish:
    """With the types alone that it may use, of those it asks for: those of nodes with its labels.

    One resource of Kubernetes may be whole GPUs on some nodes and shares on others.
    """
    role, world = wish.role, wish.room.world
    there = {
        world.kinds[group.kind] for group in world.groups
        if role.rules.allow(group.labels, frozenset())
    }  # fmt: skip
    kinds = tuple(kind for kind in role.kinds if kind in there) or role.kinds
    return _of_types(wish, kinds)


def _with_types(wish: Wish, usable: tuple[str, ...]) -> Wish:
    """With the types alone, of those it asks for, that do for the ones that it may use."""
    kinds = tuple(kind for kind in wish.role.kinds if capability.is_as_large(usable, kind))
    return _of_types(wish, kinds or wish.role.kinds)


def _of_types(wish: Wish, kinds: tuple[str, ...]) -> Wish:
    shape = _with_role(wish, replace(wish.role, kinds=kinds))
    return wish._replace(job=replace(wish.job, shape=shape))


def _other_profile(wish: Wish) -> Iterator[Candidate]:
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


def _unlabelled(wish: Wish) -> Iterator[Candidate]:
    kept = tuple(pair for pair in wish.role.labels if not phrasing.may_drop(pair[0]))
    held = tuple(one for one in next(iter(wish.role.affinity), ()) if one.said)
    made = replace(wish.role, labels=kept, affinity=(held,) if held else ())
    asked = phrasing.dropped(wish.role)
    if asked and hosted(wish, made) >= made.count:
        yield _made("no labels", made, f"without {asked}")


def _tolerating(wish: Wish) -> Iterator[Candidate]:
    """The same on nodes behind taints, the fewest of them first."""
    role = wish.role
    repelling = {tuple(role.rules.repelled_by(group.taints)) for group in wish.room.world.groups}
    for taints in sorted(repelling - {()}, key=lambda some: (len(some), some)):
        made = replace(role, tolerates=(*role.tolerates, *taints))
        if hosted(wish, made) >= made.count:
            named = phrasing.pairs(taints)
            yield _made(
                "a toleration", made,
                f"tolerating {named} (who set that keeps those nodes for others: ask them)",
            )  # fmt: skip


def _cores(wish: Wish) -> Iterator[Candidate]:
    for asked in _halves(wish.role.cpu_milli):
        made = replace(wish.role, cpu_milli=asked)
        if hosted(wish, made) >= made.count:
            yield _made("fewer cores", made, f"with {phrasing.many_cores(asked)} per replica")


def _memory(wish: Wish) -> Iterator[Candidate]:
    for asked in _halves(wish.role.memory_mib):
        made = replace(wish.role, memory_mib=asked)
        if hosted(wish, made) >= made.count:
            yield _made("less memory", made, f"with {phrasing.gib(asked)} GiB per replica")


def _cores_and_memory(wish: Wish) -> Iterator[Candidate]:
    """Less of both, where less of one alone does not do."""
    if any(_cores(wish)) or any(_memory(wish)):
        return
    for cpu_milli in _halves(wish.role.cpu_milli):
        for memory_mib in _halves(wish.role.memory_mib):
            made = replace(wish.role, cpu_milli=cpu_milli, memory_mib=memory_mib)
            if hosted(wish, made) >= made.count:
                yield _made("less CPU and memory", made, _divided(made))


def _preferred(wish: Wish) -> Iterator[Candidate]:
    """The same gang with topology constraints that are preferred instead of required."""
    tiers = [bond.tier for bond in (*wish.shape.bonds, *wish.role.bonds) if bond.is_required]
    if tiers:
        role = replace(wish.role, bonds=_loose(wish.role.bonds))
        shape = replace(_with_role(wish, role), bonds=_loose(wish.shape.bonds))
        made = _made("preferred topology", role, f"preferring one {phrasing.either(tiers)}")
        yield made._replace(shape=shape)


def _loose(bonds: tuple[Bond, ...]) -> tuple[Bond, ...]:
    return tuple(replace(bond, is_required=False) for bond in bonds)


_OF_HOST = (_cores, _memory, _cores_and_memory)
_CHANGES: tuple[Callable[[Wish], Iterator[Candidate]], ...] = (
    *_OF_HOST, _preferred, _split, _tolerating, _unlabelled, _other_profile, _elsewhere,
)  # fmt: skip


def _halves(asked: int) -> Iterator[int]:
    for n in range(1, HALVINGS + 1):
        if asked >> n:
            yield asked >> n


def _made(change: str, role: Role, but: str = "") -> Candidate:
    size = f"`{role.profile}`" if role.profile else phrasing.amount(role.replica_milli)
    kinds = f" {_requestable(role)}" if role.kinds else ""
    text = f"{size}{kinds}"
    if not role.profile and not kinds:
        text = phrasing.replicas_of(role, 1).removeprefix("1 replica of ")
    if role.count > 1:
        text = f"{phrasing.many(role.count, 'replica')} of {text}"
    return Candidate(change, role, f"{text} {but}" if but else text)


def _requestable(role: Role) -> str:
    """What a pod requests for these types; a share has no resource of its own."""
    named = phrasing.either(map(phrasing.requestable, role.kinds))
    is_share = all(_SHARE.match(kind) for kind in role.kinds)
    return f"share{'s' * (role.accelerators > 1)} ({named})" if is_share else named
