"""What an importer gives and what it may be told."""

from typing import Annotated

from msgspec import Meta, Struct

from tidemill.model.errors import SpecError
from tidemill.model.measures import FOREVER_MS, ONE_PPM, WHOLE_MILLI, duration_text
from tidemill.model.rows import MAX_DEVICES, Contract, Queue, Role, Template
from tidemill.twin import fleet
from tidemill.twin.arrivals import Arrival
from tidemill.twin.faults import Faults


class Options(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a trace does not say. ``accelerators`` 0: as published, or just enough for its load."""

    accelerators: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    per_node: Annotated[int, Meta(ge=1, le=MAX_DEVICES)] = 8
    kind: str = "GPU"
    usd_micro_per_hour: Annotated[int, Meta(ge=0)] = 2_000_000
    nodes: str = ""
    """Another file, where a format keeps its nodes apart."""
    rows_at_most: Annotated[int, Meta(ge=1, le=20_000_000)] = 5_000_000
    skip_broken: bool = False
    work_ppm: Annotated[int, Meta(ge=1, le=1_000_000_000)] = ONE_PPM
    """Recorded run times are multiplied by this; one and a half percent more is 1,015,000."""


class Trace(Struct, frozen=True, kw_only=True):
    """A recorded story that a twin can run."""

    name: str
    contracts: tuple[Contract, ...]
    queues: tuple[Queue, ...]
    arrivals: tuple[Arrival, ...]
    faults: Faults = Faults()
    horizon_ms: int = FOREVER_MS
    skipped: tuple[str, ...] = ()
    """One message a row that could not be used, when asked to skip them."""
    notes: tuple[str, ...] = ()
    """What was assumed, for people."""

    def accelerator_hours(self) -> int:
        """Work asked for, in whole accelerator-hours."""
        total = sum(a.work_ms * a.job.shape.total_milli for a in self.arrivals)
        return total // (WHOLE_MILLI * 3_600_000)


def one_contract(options: Options, accelerators: int) -> Contract:
    """A fleet of equal nodes under one contract, rounded up to whole nodes."""
    nodes = -(-accelerators // options.per_node)
    return Contract(
        name="fleet",
        pool=options.kind,
        kind=options.kind,
        count=nodes * options.per_node,
        usd_micro_per_hour=options.usd_micro_per_hour,
        node=Template(options.per_node, 0, 0),
    )


def gang(accelerators: int, options: Options) -> tuple[Role, ...]:
    """A gang in equal replicas that fit a node."""
    replica = fleet.replica_size(accelerators, options.per_node)
    return (Role(count=accelerators // replica, accelerators=replica),)


def enough_for(arrivals: tuple[Arrival, ...], options: Options, load: float = 0.8) -> int:
    """Accelerators for a trace that has no fleet: its work at this load, and its largest gang."""
    span_ms = max(1, arrivals[-1].at_ms - arrivals[0].at_ms)
    work = sum(a.work_ms * a.job.shape.total_milli for a in arrivals) // WHOLE_MILLI
    largest = max(a.job.shape.total_milli for a in arrivals) // WHOLE_MILLI
    return max(largest, options.per_node, round(work / span_ms / load))


def in_order(name: str, arrivals: list[Arrival]) -> tuple[Arrival, ...]:
    """Arrivals by time, the first at 0; a trace without any is refused."""
    if not arrivals:
        raise SpecError(
            f"`{name}` holds no jobs", hint="check that it is the whole file, with its header"
        )
    arrivals.sort(key=lambda arrival: arrival.at_ms)
    first_ms = arrivals[0].at_ms
    return tuple(arrival._replace(at_ms=arrival.at_ms - first_ms) for arrival in arrivals)


def sized_note(options: Options, found: int) -> str:
    """How the fleet was sized."""
    if options.accelerators:
        return f"fleet of {found:,} accelerators, as asked"
    return f"the trace has no capacity: a fleet of {found:,} accelerators carries it at 80 %"


def span_note(arrivals: tuple[Arrival, ...]) -> str:
    """How many jobs over how long."""
    span_ms = arrivals[-1].at_ms - arrivals[0].at_ms
    return f"{len(arrivals):,} jobs arrive over {duration_text(span_ms)}"
