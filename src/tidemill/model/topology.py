"""Where accelerators are, and what that costs: tiers of a fleet, bonds of a gang, its parallelism.

A *tier* divides the fleet into *domains*: zones, spines, racks by a label of the node, then the
node itself, then blocks of neighbouring devices inside it. Outermost first, each inside the one
before. What two accelerators say to each other passes the innermost tier that holds them both.
"""

from typing import Annotated

from msgspec import Meta, Struct

from tidemill.model.measures import FOREVER_MS

MAX_TIERS = 12
MAX_UNASKED = 256
MAX_BLOCK = 64  # devices of a node are a 64-bit mask
APART = 0
"""The hop of a gang that no tier holds whole; tier ``t`` is hop ``t + 1``."""
NO_HOP = 255
"""The hop of a job that is nowhere, or of a fleet whose topology nobody declared."""

_Name = Annotated[str, Meta(min_length=1, max_length=200)]
_Natural = Annotated[int, Meta(ge=0, le=FOREVER_MS)]
_Size = Annotated[int, Meta(ge=1, le=10_000_000)]


class Tier(Struct, frozen=True, forbid_unknown_fields=True):
    """One level of the network: how the fleet divides there, and what crosses between the parts.

    Domains are nodes with the same value of ``label``; or, with ``devices``, blocks of so many
    neighbouring devices of a node; or, with neither, the nodes themselves. ``mb_per_s`` (per
    accelerator, each way) and ``latency_ns`` are of traffic that stays inside a domain but leaves
    the parts it is made of; 0 is unknown. ``oversubscription_milli`` of 4000 leaves a quarter of
    the bandwidth when all of them talk at once.
    """

    name: _Name
    label: Annotated[str, Meta(max_length=200)] = ""
    devices: Annotated[int, Meta(ge=0, le=MAX_BLOCK)] = 0
    mb_per_s: _Natural = 0
    latency_ns: _Natural = 0
    oversubscription_milli: Annotated[int, Meta(ge=1000, le=1_000_000)] = 1000


class Topology(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The tiers of a fleet, outermost first; none: nobody knows where anything is."""

    tiers: Annotated[tuple[Tier, ...], Meta(max_length=MAX_TIERS)] = ()
    unasked: Annotated[tuple[_Name, ...], Meta(max_length=MAX_UNASKED)] = ()
    """Labels of nodes by which nodes are alike until a job asks for one of them, sorted."""

    @property
    def labelled(self) -> int:
        """How many tiers are outside the node: those that go by a label, which come first."""
        return sum(1 for tier in self.tiers if tier.label)

    def number(self, name: str) -> int:
        """The number of a tier, outermost 0; -1 when there is none of this name."""
        return next((t for t, tier in enumerate(self.tiers) if tier.name == name), -1)


UNDECLARED = Topology()
"""Nobody said where anything is."""


class Bond(Struct, frozen=True, forbid_unknown_fields=True):
    """Replicas that are to sit in one domain of a tier: every ``each`` of them, or all (0).

    A bond that is required is never broken; another is kept at the innermost tier where it can be.
    """

    tier: _Name
    each: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    is_required: bool = True


class Parallelism(Struct, frozen=True, forbid_unknown_fields=True):
    """How a training job divides its model; sizes multiply to its accelerators.

    Expert groups are made of data-parallel ranks, so ``expert`` divides ``data`` × ``context`` and
    is not multiplied. Figures of the model price what the groups say to each other; 0 is unknown.
    """

    tensor: _Size = 1
    context: _Size = 1
    expert: _Size = 1
    pipeline: _Size = 1
    data: _Size = 1
    parameters_m: _Natural = 0
    """Parameters of the model, in millions."""
    layers: _Natural = 0
    hidden: _Natural = 0
    sequence: _Natural = 0
    """Tokens of one sequence."""
    batch: _Natural = 0
    """Sequences of one step, over all data-parallel ranks."""
