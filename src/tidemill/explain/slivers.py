"""Slivers of a fleet: whole accelerators held by jobs that use a little of each axis.

Reads what running jobs said they use of a device (``demand``), at one moment; says which hold a
whole device for a sliver, what that costs an hour, and how many devices would do if those that fit
together on all three axes shared them: first fit, largest first, never above a full axis. Who said
nothing, and who did not say its memory, is not judged.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidemill.model.events import Event, JobSubmitted
from tidemill.model.measures import ONE_PPM, WHOLE_MILLI
from tidemill.model.rows import Demand
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.sharing.slivers import SMALL

_RUNNING = int(JobState.RUNNING)


class HeldDevices(NamedTuple):
    """Whole devices that a job holds, one for each replica, and what it uses of each."""

    job: str
    team: str
    kind: str
    devices: int
    compute_ppm: int
    bandwidth_ppm: int
    memory_ppm: int
    usd_micro_per_hour: int | None

    @property
    def is_sliver(self) -> bool:
        """Whether no axis is half used."""
        return max(self.axes) < SMALL * ONE_PPM

    @property
    def axes(self) -> tuple[int, int, int]:
        """Compute, bandwidth, memory."""
        return self.compute_ppm, self.bandwidth_ppm, self.memory_ppm


class Slivers(NamedTuple):
    """The slivers, and what sharing would free of the devices that they hold."""

    held: tuple[HeldDevices, ...]
    devices: int
    would_do: int
    freed_usd_micro_per_hour: int | None
    unknown: int
    """Running jobs on whole devices that said nothing, or not all three axes."""


def demands(events: Iterable[Event]) -> dict[int, Demand]:
    """What each job of a journal said, by its number."""
    submitted = (event.job for event in events if isinstance(event, JobSubmitted))
    return {j: job.demand for j, job in enumerate(submitted) if job.demand is not None}


def find(world: World, said: Mapping[int, Demand], book: Catalogue) -> Slivers:
    """The slivers of a World."""
    rows: list[HeldDevices] = []
    unknown = 0
    for j in sorted(world.placements):
        if world.jobs.state.item(j) != _RUNNING:
            continue
        for kind, (devices, usd_micro) in sorted(_whole(world, j).items()):
            row = _held(world, j, said.get(j), kind, book)
            if row is None:
                unknown += 1
            elif row.is_sliver:
                rows.append(row._replace(devices=devices, usd_micro_per_hour=usd_micro))
    rows.sort(key=lambda row: (-(row.usd_micro_per_hour or 0), row.job))
    devices = sum(row.devices for row in rows)
    would_do, freed = 0, 0
    for kind in sorted({row.kind for row in rows}):
        some = [row for row in rows if row.kind == kind]
        needed, have = _first_fit(some), sum(row.devices for row in some)
        would_do += needed
        freed += sum(row.usd_micro_per_hour or 0 for row in some) * (have - needed) // have
    is_priced = all(row.usd_micro_per_hour is not None for row in rows)
    return Slivers(tuple(rows), devices, would_do, freed if is_priced else None, unknown)


def _whole(world: World, j: int) -> dict[str, tuple[int, int | None]]:
    """Whole devices of single-device replicas by kind: how many, and their price an hour."""
    found: dict[str, tuple[int, int | None]] = {}
    roles = world.shape_of(j).roles
    for piece in world.placements[j]:
        role = roles[piece.role]
        if role.accelerators != 1 or role.milli != WHOLE_MILLI or role.profile:
            continue
        contract = world.contract_rows[world.nodes.contract.item(piece.node)].at(world.now_ms)
        devices, usd_micro = found.get(contract.kind, (0, 0))
        more = piece.devices.bit_count()
        is_priced = usd_micro is not None and contract.is_priced
        usd = (usd_micro or 0) + more * contract.rate_usd_micro
        found[contract.kind] = (devices + more, usd if is_priced else None)
    return found


def _held(
    world: World, j: int, said: Demand | None, kind: str, book: Catalogue
) -> HeldDevices | None:
    part = book.find(kind)
    if said is None or not said.memory_mb or part is None:
        return None
    memory_ppm = round(said.memory_mb * 1000 / part.memory_gb)
    team = world.shape_of(j).team
    return HeldDevices(
        world.job_names[j], team, kind, 0, said.compute_ppm, said.bandwidth_ppm, memory_ppm, 0
    )


def _first_fit(rows: Sequence[HeldDevices]) -> int:
    """How many devices hold all of these, by the largest axis first; nobody above one whole."""
    bins: list[list[int]] = []
    for row in sorted(rows, key=lambda row: (-max(row.axes), row.job)):
        for _ in range(row.devices):
            for used in bins:
                if all(u + a <= ONE_PPM for u, a in zip(used, row.axes, strict=True)):
                    used[:] = [u + a for u, a in zip(used, row.axes, strict=True)]
                    break
            else:
                bins.append(list(row.axes))
    return len(bins)
