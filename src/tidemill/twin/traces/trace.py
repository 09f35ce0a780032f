"""What an importer gives: a recorded story that a twin can run, and the pieces it is made of."""

from collections.abc import Iterator
from functools import lru_cache
from operator import itemgetter, mul
from pathlib import Path

from msgspec import Struct

from tidemill.journal.moments import COUNTED, Calendar
from tidemill.model.errors import SpecError
from tidemill.model.measures import DAY_MS, FOREVER_MS, ONE_PPM, WHOLE_MILLI, duration_text
from tidemill.model.rows import (
    LEAST_PRIORITY,
    MAX_COUNT,
    MOST_PRIORITY,
    Contract,
    Job,
    Queue,
    Role,
    Shape,
    Template,
)
from tidemill.twin import fleet
from tidemill.twin.arrivals import Arrival
from tidemill.twin.faults import Faults
from tidemill.twin.spec.tables import MAX_NODES
from tidemill.twin.traces import rows
from tidemill.twin.traces.options import Options
from tidemill.twin.traces.rows import TraceRow


class Trace(Struct, frozen=True, kw_only=True):
    """A recorded story that a twin can run."""

    name: str
    contracts: tuple[Contract, ...]
    queues: tuple[Queue, ...]
    arrivals: tuple[Arrival, ...]
    faults: Faults = Faults()
    horizon_ms: int = FOREVER_MS
    calendar: Calendar = COUNTED
    """When the first arrival was, where the trace has dates; published dates have no zone."""
    skipped: int = 0
    """Rows that could not be used, when asked to skip them."""
    broken: tuple[str, ...] = ()
    """What was wrong with the first of them."""
    notes: tuple[str, ...] = ()
    """What was assumed, for people."""

    def accelerator_hours(self) -> int:
        """Work asked for, in whole accelerator-hours."""
        return _work_ms(self.arrivals) // 3_600_000


def one_contract(options: Options, accelerators: int) -> Contract:
    """A fleet of equal nodes under one contract, rounded up to whole nodes."""
    nodes = -(-accelerators // options.node_devices)
    if nodes > MAX_NODES:
        raise SpecError(
            f"the trace needs {nodes:,} nodes of {options.node_devices}; at most {MAX_NODES:,} fit",
            hint="say how many there are with --accelerators, or check the run times in the file",
        )
    return Contract(
        name="fleet",
        pool=options.kind,
        kind=options.kind,
        count=nodes * options.node_devices,
        usd_micro_per_hour=options.usd_micro_per_hour,
        node=Template(options.node_devices, 0, 0),
    )


def gang(row: TraceRow, column: str, team: str, options: Options, priority: int = 0) -> Shape:
    """A gang of so many accelerators, in equal replicas that fit a node."""
    accelerators = row.whole(column, 1)
    if accelerators > MAX_COUNT:
        row.refuse(column, f"at most {MAX_COUNT:,} accelerators")
    if not LEAST_PRIORITY <= priority <= MOST_PRIORITY:
        row.refuse("priority", f"a priority from {LEAST_PRIORITY:,} to {MOST_PRIORITY:,}")
    return _gang(accelerators, options.node_devices, team, priority)


def scaled(work_ms: int, options: Options) -> int:
    """Recorded work as it should count."""
    return max(1, work_ms * options.work_ppm // ONE_PPM)


def fleet_of(arrivals: tuple[Arrival, ...], options: Options) -> tuple[Contract, tuple[str, ...]]:
    """A fleet for a trace that has none, and how it was sized."""
    count = options.accelerators or _enough_for(arrivals, options)
    contract = one_contract(options, count)
    sized = f"a fleet of {contract.count:,} accelerators, as asked"
    if contract.count != options.accelerators:
        sized = (
            f"a fleet of {contract.count:,} accelerators: whole nodes of"
            f" {options.node_devices:,} for the {options.accelerators:,} asked for"
        )
    if not options.accelerators:
        sized = f"the trace does not say how large its fleet is: {contract.count:,} accelerators"
        sized += _why_so_many(arrivals, options)
    busy = round(100 * _work_ms(arrivals) / (contract.count * _span_ms(arrivals)))
    filled = f"the jobs fill {busy} % of them over {_over(arrivals)}"
    notes = [f"{sized}; {filled}", span_note(arrivals)]
    stuck = sum(milli > contract.count * WHOLE_MILLI for milli in _sizes(arrivals))
    if stuck:
        notes.append(f"{stuck:,} jobs request more than the whole fleet and will never start")
    return contract, tuple(notes)


def in_order(
    path: Path, arrivals: list[Arrival] | list[tuple[int, Job, int]]
) -> tuple[Arrival, ...]:
    """Arrivals by time, the first at 0; a trace without any is refused. The list is sorted too."""
    rows.refuse_empty(path, len(arrivals), "jobs")
    arrivals.sort(key=itemgetter(0))  # when each comes
    first_ms = arrivals[0][0]
    return tuple([Arrival(one[0] - first_ms, *one[1:]) for one in arrivals])


def span_note(arrivals: tuple[Arrival, ...]) -> str:
    """How many jobs over how long."""
    return f"{len(arrivals):,} jobs arrive over {duration_text(_arriving_ms(arrivals))}"


def _enough_for(arrivals: tuple[Arrival, ...], options: Options) -> int:
    """Accelerators that carry the work at 80 % over the time of arrivals, and the largest gang."""
    work = _work_ms(arrivals) * 5 // (_span_ms(arrivals) * 4)
    return max(_largest(arrivals), options.node_devices, work)


def _why_so_many(arrivals: tuple[Arrival, ...], options: Options) -> str:
    """Where the size of the fleet comes from, if not from the work."""
    count = _enough_for(arrivals, options)
    if count == _largest(arrivals):
        return ", as the largest job needs"
    return ", one node" if count == options.node_devices else ""


def _work_ms(arrivals: tuple[Arrival, ...]) -> int:
    """Work of all jobs, in whole accelerator-milliseconds."""
    works = (arrival.work_ms for arrival in arrivals)
    return sum(map(mul, works, _sizes(arrivals))) // WHOLE_MILLI


def _over(arrivals: tuple[Arrival, ...]) -> str:
    """The time that the work is held against, and whether it is longer than the arrivals took."""
    counted = duration_text(_span_ms(arrivals))
    if _arriving_ms(arrivals) >= DAY_MS:
        return counted
    return f"{counted} (the least that is counted, though they arrive within less)"


def _arriving_ms(arrivals: tuple[Arrival, ...]) -> int:
    """From the first arrival to the last."""
    return arrivals[-1].at_ms - arrivals[0].at_ms


def _span_ms(arrivals: tuple[Arrival, ...]) -> int:
    """The time of arrivals, a day at least."""
    return max(DAY_MS, _arriving_ms(arrivals))


def _largest(arrivals: tuple[Arrival, ...]) -> int:
    """Whole accelerators of the largest job."""
    return max(_sizes(arrivals)) // WHOLE_MILLI


def _sizes(arrivals: tuple[Arrival, ...]) -> Iterator[int]:
    """The accelerators of each job, in milli; counted once for each shape, which many share."""
    shapes = [arrival.job.shape for arrival in arrivals]
    milli = {id(shape): shape.total_milli for shape in {id(s): s for s in shapes}.values()}
    return (milli[id(shape)] for shape in shapes)


@lru_cache(maxsize=65_536)
def _gang(accelerators: int, per_node: int, team: str, priority: int) -> Shape:
    """Equal gangs are one object."""
    replica = fleet.replica_size(accelerators, per_node)
    role = Role(count=accelerators // replica, accelerators=replica)
    return Shape(team, (role,), priority=priority)
