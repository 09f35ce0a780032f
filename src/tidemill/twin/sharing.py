"""Sharing: what a request for a part of a device becomes, by the mode in which tenants share.

``time-slice`` and ``mps`` place parts of one device beside each other, and neighbours slow each
other (``neighbours``). ``exclusive`` gives each a device of its own. ``mig`` gives each the
smallest instance that has its share and, where it says so, its memory; instances do not slow each
other.
"""

from typing import Literal, NamedTuple

from msgspec.structs import replace

from tidemill.model.errors import SpecError
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Demand
from tidemill.twin import fleet
from tidemill.twin.spec.tables import JobTable, Spec, WorkloadTable
from tidemill.units.mig import geometry as mig

Row = JobTable | WorkloadTable
BESIDE: frozenset[Literal["time-slice", "mps"]] = frozenset({"time-slice", "mps"})
"""Modes in which tenants are on one device at the same time, and may slow each other."""


class SharedRequest(NamedTuple):
    """What a job asks for: its row, how much of accelerators, and how much each replica has."""

    row: Row
    milli: int
    each_milli: int


def request(row: Row, milli: int, spec: Spec) -> SharedRequest:
    """What a job of this size asks for under the sharing mode of the fleet."""
    each, mode = fleet.share_milli(row, spec.contracts), spec.twin.sharing
    if row.profile or milli >= WHOLE_MILLI or milli == 0 or mode in BESIDE:
        return SharedRequest(row, milli, each)
    if mode == "exclusive":
        return SharedRequest(row, WHOLE_MILLI, each)
    chosen, share = _instance(row, milli, spec)
    return SharedRequest(replace(row, profile=chosen), share, share)


def demand(row: Row, spec: Spec) -> Demand | None:
    """What a replica uses of a device that it shares; None: nobody said, or it shares none."""
    return fleet.demand(row) if spec.twin.sharing in BESIDE else None


def _instance(row: Row, milli: int, spec: Spec) -> tuple[str, int]:
    """The smallest instance with a share of a device and the memory that the job says it uses."""
    gb = 0.0 if row.uses is None else row.uses.memory_gb
    kinds = dict.fromkeys(contract.kind for contract in fleet.usable(spec.contracts, row.kinds))
    found = [
        (part.milli(profile), profile.compute, profile.name)
        for part in map(mig.of_kind, kinds)
        if part is not None
        for profile in part.profiles
        if part.milli(profile) >= milli and mig.gigabytes(profile) >= gb and not profile.is_media
    ]
    if not found:
        raise SpecError(
            f"`{row.name}` requests {milli / WHOLE_MILLI:g} of a device and {gb:g} GB; no MIG "
            f"instance of {', '.join(f'`{kind}`' for kind in kinds) or 'any GPU type'} has that",
            hint='share by "mps" or "time-slice", or name GPU types that can be partitioned',
        )
    share, _, name = min(found)
    return name, share
