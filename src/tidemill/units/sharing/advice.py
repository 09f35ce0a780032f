"""Which mode two tenants should share a device in, and why: by trust, promises and gain.

Exclusive unless sharing is safe and gains. What each mode isolates: time-slicing and MPS share
memory size and caches, and time; under MPS a fatal fault of one client ends all clients of the
daemon; only MIG gives each its own multiprocessors, memory and faults.
"""

from typing import NamedTuple

from tidemill.units.catalogue.rows import Part
from tidemill.units.sharing import laws, slices, slivers
from tidemill.units.sharing.laws import Estimate, Mode
from tidemill.units.sharing.tenants import Tenant

GAIN = 1.1
"""Together they must do this much more than in turns: less is within the error of the laws."""


class Needs(NamedTuple):
    """What must hold."""

    trusts: bool = True
    """Whether the tenants trust each other (one team, tested code)."""
    keeps: float = 0.0
    """The least share of its speed that each must keep."""
    p99_ms: float | None = None
    """The longest p99 of the first tenant."""


class ModeOption(NamedTuple):
    """A mode for this pair."""

    mode: Mode
    estimates: tuple[Estimate, ...]
    """Of each tenant; none where the mode cannot hold them."""
    against: str
    """Why not; empty: it may be chosen."""
    note: str = ""

    @property
    def gain(self) -> float:
        """What they do together, against one after the other (1)."""
        return sum(estimate.keeps for estimate in self.estimates)


class SharingAdvice(NamedTuple):
    """The mode to choose, why, and all modes that were weighed."""

    mode: Mode
    reason: str
    options: tuple[ModeOption, ...]


def advise(pair: tuple[Tenant, Tenant], part: Part, needs: Needs) -> SharingAdvice:
    """Weigh every mode; choose the one that gains most among those that may be chosen."""
    options = (
        ModeOption(Mode.EXCLUSIVE, tuple(Estimate(1.0, _p99(tenant)) for tenant in pair), "",
               "each on a GPU of its own"),
        *(_shared(mode, pair, part, needs) for mode in (Mode.TIME_SLICE, Mode.MPS)),
        _divided(pair, part, needs),
    )  # fmt: skip
    allowed = [option for option in options[1:] if not option.against]
    if not allowed:
        near = max(options[1:], key=lambda option: (option.gain, -options.index(option)))
        return SharingAdvice(Mode.EXCLUSIVE, f"not even {near.mode}: {near.against}", options)
    chosen = max(allowed, key=lambda option: (option.gain, -options.index(option)))
    return SharingAdvice(chosen.mode, _praise(chosen, pair), options)


def _shared(mode: Mode, pair: tuple[Tenant, Tenant], part: Part, needs: Needs) -> ModeOption:
    memory = slivers.used(pair, part).memory
    if memory > 1:
        return ModeOption(mode, (), f"together they hold {memory:.0%} of the memory")
    estimates = tuple(laws.estimate(pair, mode))
    if not needs.trusts:
        return ModeOption(
            mode, estimates, "they do not trust each other, and share memory and faults"
        )
    return ModeOption(mode, estimates, _broken(estimates, pair, needs))


def _divided(pair: tuple[Tenant, Tenant], part: Part, needs: Needs) -> ModeOption:
    if slices.geometry_of(part) is None:
        return ModeOption(Mode.MIG, (), f"{part.model} cannot be partitioned")
    found = slices.divide(pair, part)
    if found is None:
        return ModeOption(Mode.MIG, (), "no two instances hold their memory")
    estimates = tuple(
        Estimate(kept, None if (p99 := _p99(tenant)) is None else p99 / kept)
        for kept, tenant in zip(found.keeps, pair, strict=True)
    )
    return ModeOption(
        Mode.MIG, estimates, _broken(estimates, pair, needs), " + ".join(found.profiles)
    )


def _broken(estimates: tuple[Estimate, ...], pair: tuple[Tenant, Tenant], needs: Needs) -> str:
    for estimate, tenant in zip(estimates, pair, strict=True):
        if estimate.keeps < needs.keeps:
            return f"`{tenant.name}` would keep {estimate.keeps:.0%}, {needs.keeps:.0%} are needed"
    if needs.p99_ms is not None:
        p99 = estimates[0].p99_ms
        if p99 is None:
            return f"how often `{pair[0].name}` runs is not known: its p99 cannot be promised"
        if p99 > needs.p99_ms:
            return (
                f"the p99 of `{pair[0].name}` would be {p99:.2f} ms, {needs.p99_ms:g} are allowed"
            )
    gain = sum(estimate.keeps for estimate in estimates)
    if gain < GAIN:
        return (
            f"together they do {gain:.2f} times what one after the other does; {GAIN:g} is worth it"
        )
    return ""


def _praise(option: ModeOption, pair: tuple[Tenant, Tenant]) -> str:
    kept = " and ".join(
        f"`{tenant.name}` keeps {estimate.keeps:.0%}"
        for tenant, estimate in zip(pair, option.estimates, strict=True)
    )
    return f"{kept}: {option.gain:.2f} GPUs' worth of work on one"


def _p99(tenant: Tenant) -> float | None:
    return tenant.rhythm.p99_ms if tenant.rhythm is not None else None
