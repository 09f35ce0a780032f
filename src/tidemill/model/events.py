"""What happened: one frozen class per kind, and nothing else changes the World.

Two families. *Seen*: the world told us. *Asked*: we decided it and sent it; an action is the event
of having asked, so that the journal alone rebuilds everything. Jobs, nodes, contracts and shapes
are named by their number: the order in which they first appeared in the journal.
"""

from collections.abc import Iterable
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from tidemill.model.figures import DeviceFigure, FigureSource
from tidemill.model.loads import NO_BOUND_US, LatencyFigure, LoadFigure, LoadSource
from tidemill.model.measures import FOREVER_MS
from tidemill.model.reasons import Cause
from tidemill.model.rows import Contract, Job, Node, Piece, Ppm, Queue, Shape
from tidemill.model.states import Confidence, NodeState
from tidemill.model.topology import Topology
from tidemill.model.whys import Why as Why  # noqa: PLC0414 - whoever reads events has it: `ev.Why`

Moment = Annotated[int, Meta(ge=0, le=FOREVER_MS)]
Number = Annotated[int, Meta(ge=0, lt=2**31)]
Prefix = Annotated[str, Meta(max_length=200)]
MsOrNone = Annotated[int, Meta(ge=-1, le=2**52)]
PpmOrNone = Annotated[int, Meta(ge=-1, le=1_000_000)]
"""A share in millionths; -1: nobody knows it."""


class _Event(Struct, frozen=True, tag_field="is", forbid_unknown_fields=True):
    at_ms: Moment


# Seen: money and teams ------------------------------------------------------------------------


class ContractSigned(_Event, frozen=True, tag="contract_signed"):
    """A claim exists; it is paid from its start, which ``ContractStarted`` tells."""

    contract: Contract


class ContractStarted(_Event, frozen=True, tag="contract_started"):
    """The clock reached the contract's start."""

    contract: Number


class ContractEnded(_Event, frozen=True, tag="contract_ended"):
    """The clock reached the contract's end; its nodes are gone and whatever ran there is lost."""

    contract: Number


class CommitmentSeen(_Event, frozen=True, tag="commitment_seen"):
    """A contract of a commitment pays for so much from now on, whether nodes are there or not.

    What is launched under contracts that name it as their ``commitment`` fills it; the rest is paid
    for and not launched.
    """

    contract: Number
    paid_milli: Annotated[int, Meta(ge=0, le=FOREVER_MS)]


class QueueSet(_Event, frozen=True, tag="queue_set"):
    """A team appeared or its shares changed."""

    queue: Queue


class TopologySet(_Event, frozen=True, tag="topology_set"):
    """The tiers of the fleet became known, or changed."""

    topology: Topology


# Seen: machines -------------------------------------------------------------------------------


class NodeAdded(_Event, frozen=True, tag="node_added"):
    """A node was asked for and has a name; it is not paid by the hour until it boots."""

    node: Node


class NodeMoved(_Event, frozen=True, tag="node_moved"):
    """A node changed its state. ``deadline_ms``: when a draining node will be taken.

    Only a node that is ready, cordoned or draining keeps its gangs. Otherwise they are lost and
    their jobs wait again, without an event of their own.
    """

    node: Number
    to: NodeState
    why: Why = Why.UNSAID
    deadline_ms: Moment = FOREVER_MS


class DeviceFailed(_Event, frozen=True, tag="device_failed"):
    """One accelerator of a node failed alone; gangs that held it are lost."""

    node: Number
    device: Number


class DeviceRepaired(_Event, frozen=True, tag="device_repaired"):
    """One accelerator of a node that had failed alone can be had again."""

    node: Number
    device: Number


# Seen: jobs -----------------------------------------------------------------------------------


class JobSubmitted(_Event, frozen=True, tag="job_submitted"):
    """Someone wants work done."""

    job: Job


class RequestChanged(_Event, frozen=True, tag="request_changed"):
    """A waiting job requests something else from now on.

    It keeps its number, and with that its place among jobs of equal rank; and its class, and its
    team if it ever had a place. One that was cancelled since not all of it was there for a while
    waits again, if it never worked or was stopped for another: then it keeps its count of stops.
    """

    job: Number
    request: Shape
    estimate_ms: Moment = 0


class PlacementSeen(_Event, frozen=True, tag="placement_seen"):
    """Somebody else's scheduler has put these replicas on these devices.

    What the world shows is taken as it is: on nodes that take no new work, with more CPU or memory
    than a node has, or only a part of a gang. ``over_milli``: of what it was shown to hold, the
    part that others hold already, or that no device is known for; it is not booked twice.

    Seen again of a job that holds something, it is all that the job holds from now on: of one that
    still comes up, in the same attempt (a gang that grows pod by pod); of one that works, as its
    next attempt.
    """

    job: Number
    attempt: Number
    pieces: tuple[Piece, ...]
    over_milli: Annotated[int, Meta(ge=0, le=FOREVER_MS)] = 0


class ReasonSeen(_Event, frozen=True, tag="reason_seen"):
    """Why a waiting job's own scheduler says that it waits, and which layer owns that.

    ``cause``: the nearest of our own causes; none where we have none. It holds until the job is
    placed, or until another reason is seen; without cause and words: until nobody says why any
    more. A gang of which only a part is placed waits for the
    rest of it.
    """

    job: Number
    cause: Cause
    layer: Annotated[int, Meta(ge=1, le=4)]
    reason: Annotated[str, Meta(max_length=500)]


class JobStarted(_Event, frozen=True, tag="job_started"):
    """The whole gang has come up and works.

    ``slow_ppm``: how much longer its steps take where it sits than at the best place, as measured
    or modelled by whoever runs it.
    """

    job: Number
    attempt: Number
    slow_ppm: Annotated[int, Meta(ge=0, le=100_000_000)] = 0


class JobFinished(_Event, frozen=True, tag="job_finished"):
    """The job is done; everything it did counts."""

    job: Number
    attempt: Number


class JobFailed(_Event, frozen=True, tag="job_failed"):
    """An attempt died. It waits again unless ``is_final``."""

    job: Number
    attempt: Number
    why: Why = Why.CRASHED
    is_final: bool = False


class JobEvicted(_Event, frozen=True, tag="job_evicted"):
    """An eviction that was asked for has happened; the job waits again."""

    job: Number
    attempt: Number


class JobMoved(_Event, frozen=True, tag="job_moved"):
    """A move that was asked for has happened; the next attempt comes up in the new place."""

    job: Number
    attempt: Number


class JobCancelled(_Event, frozen=True, tag="job_cancelled"):
    """Its owner does not want it any more."""

    job: Number


class ActivitySeen(_Event, frozen=True, tag="activity_seen"):
    """The share of the time in which the job's accelerators are busy, from now on."""

    job: Number
    attempt: Number
    busy_ppm: Ppm


class PaceSeen(_Event, frozen=True, tag="pace_seen"):
    """How much longer the job's steps take because of who shares its devices, from now on.

    As measured or modelled by whoever runs it; 0: as if it were alone.
    """

    job: Number
    attempt: Number
    beside_ppm: Annotated[int, Meta(ge=0, le=100_000_000)]


class StallsSeen(_Event, frozen=True, tag="stalls_seen"):
    """How the time of a running job divides from now on, as somebody measured it.

    ``checkpoint_ppm``: of its time, standing still for checkpoints. Of the time in which it neither
    does that nor is idle, ``host_ppm`` waits for data, ``links_ppm`` for other ranks. -1: that part
    is not told apart, and lies within the others; all three -1: nobody measures any more.
    """

    job: Number
    attempt: Number
    checkpoint_ppm: PpmOrNone
    host_ppm: PpmOrNone
    links_ppm: PpmOrNone


class EfficiencySeen(_Event, frozen=True, tag="efficiency_seen"):
    """How well a running job uses its devices while it is at work, from now on.

    ``mfu_ppm``: floating-point operations of the model over the peak, of the time in which the job
    neither saves nor is idle. ``memory_ppm``: of the same time, lost to memory bandwidth.
    ``confidence`` says how that is known; unknown: nobody measures any more.
    """

    job: Number
    attempt: Number
    mfu_ppm: Ppm
    confidence: Confidence = Confidence.MEASURED
    memory_ppm: PpmOrNone = -1


class StragglerSeen(_Event, frozen=True, tag="straggler_seen"):
    """What part of a running job's wait for other ranks is for slow ones, from now on.

    ``straggler_ppm``: of the time in which it waits for other ranks (``links_ppm`` of
    ``StallsSeen``). 0: its ranks were compared, and none is slow. ``confidence`` says how that is
    known; unknown: nobody compares them any more. ``silent_ppm``: of its devices, those that no
    rank tells of: what is measured is inferred of them.
    """

    job: Number
    attempt: Number
    straggler_ppm: Ppm
    confidence: Confidence = Confidence.INFERRED
    silent_ppm: Ppm = 0


class FigureSeen(_Event, frozen=True, tag="figure_seen"):
    """What devices or nodes measured of a running job, from now on; -1: nobody does any more.

    Told in steps (``model.figures``). The ledger divides no time by it.
    """

    job: Number
    attempt: Number
    figure: DeviceFigure
    value: Annotated[int, Meta(ge=-1, le=100_000_000)]
    source: FigureSource = FigureSource.DCGM


class LoadSeen(_Event, frozen=True, tag="load_seen"):
    """What a running job did in a stretch of time that begins now: the requests of a service, the
    steps of a training loop (``model.loads``).

    Told of a stretch when it is over. A figure that is not told of a stretch that was seen is 0 if
    it is told of others, else unknown. The ledger divides no time by it: that a service was idle is
    told by ``ActivitySeen``.
    """

    job: Number
    attempt: Number
    load: LoadFigure
    amount: Annotated[int, Meta(ge=0, le=2**52)]
    source: LoadSource = LoadSource.ENGINE


class HostUseSeen(_Event, frozen=True, tag="host_use_seen"):
    """What an attempt that ends now used of its host, as its cluster's accounting says.

    ``used_ms``: CPU time, of all its processes; ``had_ms``: of the CPUs that it had, for as long as
    it had them. ``peak_ppm``: the most memory that it used, of what it requested. -1: nobody says.
    No time of accelerators is divided by it.
    """

    job: Number
    attempt: Number
    used_ms: MsOrNone
    had_ms: MsOrNone
    peak_ppm: Annotated[int, Meta(ge=-1, le=2**40)]


class LatencySeen(_Event, frozen=True, tag="latency_seen"):
    """How many requests (or tokens) of that stretch took so long: one bucket of a histogram.

    ``bound_us``: they took no longer than this, and longer than the next lower bound that is told
    of the figure (``NO_BOUND_US``: longer than all others).
    """

    job: Number
    attempt: Number
    latency: LatencyFigure
    bound_us: Annotated[int, Meta(ge=0, le=NO_BOUND_US)]
    amount: Annotated[int, Meta(ge=0, le=2**52)]


class DeviceErrorSeen(_Event, frozen=True, tag="device_error_seen"):
    """The driver of a device reported an error: NVIDIA's number of it (XID).

    ``minor``: which device of the node, as its driver counts them; -1: nobody said.
    """

    node: Number
    minor: Annotated[int, Meta(ge=-1, lt=2**31)]
    xid: Number


class JobSaved(_Event, frozen=True, tag="job_saved"):
    """A running attempt has saved all its work, out of its rhythm, and goes on.

    It stood still for the cost of a checkpoint to do so; the next interval begins now. Jobs do this
    when a node of theirs is about to be taken and the notice is long enough.
    """

    job: Number
    attempt: Number


class CheckpointSeen(_Event, frozen=True, tag="checkpoint_seen"):
    """What a running attempt did up to a moment is safe, as whoever runs it says.

    From then on only such events tell what a stop loses; one that covers no time at the beginning
    of an attempt says that they will come. ``is_back``: its loop went back to that within its
    process, and what it did since is lost (where nobody had said what is safe, nobody knows).
    ``is_again``: since it went back it did nothing; now it works again. Where that covers nothing
    (0), nobody says what is safe from here on.
    """

    job: Number
    attempt: Number
    covers_ms: Moment
    is_back: bool = False
    is_again: bool = False


class SightLost(_Event, frozen=True, tag="sight_lost"):
    """From now on nobody watches the cluster: what happens is not known, but for what is paid.

    ``keeps_jobs``: what jobs hold is told afterwards (by a scheduler's own records); only of the
    other devices nobody knows what they were. ``prefix``: nobody watches one node of this name, or
    where it ends with `/`, the nodes of one cluster among several, whose names begin like this;
    what jobs hold there is told.
    """

    keeps_jobs: bool = False
    prefix: Prefix = ""


class SightRegained(_Event, frozen=True, tag="sight_regained"):
    """Somebody watches again; ``prefix``: these nodes, as in ``SightLost``."""

    prefix: Prefix = ""


class Woke(_Event, frozen=True, tag="woke"):
    """Nothing but the passing of time, at a moment a plan asked to be woken."""


# Asked: our decisions -------------------------------------------------------------------------


class AskedPlace(_Event, frozen=True, tag="asked_place"):
    """Start this gang on exactly these devices."""

    job: Number
    attempt: Number
    pieces: tuple[Piece, ...]


class AskedEvict(_Event, frozen=True, tag="asked_evict"):
    """Stop this attempt to make room for ``to_job`` (-1: for nobody in particular)."""

    job: Number
    attempt: Number
    why: Why
    to_job: int = -1


class AskedMove(_Event, frozen=True, tag="asked_move"):
    """Go on elsewhere: ``gained`` is held from now on, ``lost`` until the job has moved.

    An elastic job grows when nothing is lost and shrinks when nothing is gained; that costs it no
    work. ``to_job``: for whom it makes room (-1: for nobody).
    """

    job: Number
    attempt: Number
    why: Why
    gained: tuple[Piece, ...] = ()
    lost: tuple[Piece, ...] = ()
    to_job: int = -1


class AskedRelease(_Event, frozen=True, tag="asked_release"):
    """Give up the precedence of a shape that room was made for: it still does not fit."""

    shape: Number


class AskedCancel(_Event, frozen=True, tag="asked_cancel"):
    """Stop this job for good."""

    job: Number
    why: Why


class AskedLaunch(_Event, frozen=True, tag="asked_launch"):
    """Launch this many more nodes under a contract."""

    contract: Number
    nodes: Annotated[int, Meta(ge=1, lt=2**31)]


class AskedDrain(_Event, frozen=True, tag="asked_drain"):
    """Take no new work; whatever still runs at the deadline is evicted."""

    node: Number
    why: Why
    deadline_ms: Moment


class AskedRepair(_Event, frozen=True, tag="asked_repair"):
    """Repair this node, which carries no work."""

    node: Number


class AskedReturn(_Event, frozen=True, tag="asked_return"):
    """Give this node, which carries no work, back to the provider."""

    node: Number


class AskedSpare(_Event, frozen=True, tag="asked_spare"):
    """Keep this node idle by design, or put it to use."""

    node: Number
    is_spare: bool


class CauseChanged(_Event, frozen=True, tag="said_why"):
    """Jobs of this shape wait for this cause from now on."""

    shape: Number
    cause: Cause


class JobPassed(_Event, frozen=True, tag="job_passed"):
    """A job that comes later in the order was started before this waiting one, for the first time.

    The starvation guard (``hold_after_ms``) counts from here, until the job is placed.
    """

    job: Number


class HalfLifeSet(_Event, frozen=True, tag="said_half_life"):
    """Past use of teams is counted with this half-life from now on; 0: not at all."""

    half_life_ms: Moment


class MixSampled(_Event, frozen=True, tag="said_mix"):
    """Placement looks ahead with what has arrived by now, and what is free, from now on."""


Seen = (
    ContractSigned
    | ContractStarted
    | ContractEnded
    | CommitmentSeen
    | QueueSet
    | TopologySet
    | NodeAdded
    | NodeMoved
    | DeviceFailed
    | DeviceRepaired
    | JobSubmitted
    | RequestChanged
    | PlacementSeen
    | ReasonSeen
    | JobStarted
    | JobFinished
    | JobFailed
    | JobEvicted
    | JobMoved
    | JobCancelled
    | ActivitySeen
    | PaceSeen
    | StallsSeen
    | EfficiencySeen
    | StragglerSeen
    | FigureSeen
    | DeviceErrorSeen
    | LoadSeen
    | LatencySeen
    | HostUseSeen
    | JobSaved
    | CheckpointSeen
    | SightLost
    | SightRegained
    | Woke
)
Action = (
    AskedPlace | AskedEvict | AskedMove | AskedRelease | AskedCancel | AskedLaunch | AskedDrain
    | AskedRepair | AskedReturn | AskedSpare | CauseChanged | JobPassed | HalfLifeSet | MixSampled
)  # fmt: skip
Event = Seen | Action


class ActionRows(Protocol):
    """Actions in columns (``model.batch``)."""

    def actions(self) -> tuple[Action, ...]:
        """The same as messages."""


class Plan:
    """What one cycle decided, in the order to carry it out, and when to look again.

    As messages, or in columns; whoever wants messages has them made once.
    """

    __slots__ = ("_actions", "rows", "wake_at_ms")

    def __init__(
        self,
        actions: Iterable[Action] | None = None,
        wake_at_ms: int = FOREVER_MS,
        rows: ActionRows | None = None,
    ) -> None:
        self._actions = tuple(actions or ()) if rows is None or actions is not None else None
        self.wake_at_ms = wake_at_ms
        self.rows = rows

    @property
    def actions(self) -> tuple[Action, ...]:
        """What is to be done."""
        if self._actions is None:
            assert self.rows is not None, "a plan has its actions in one form at least"
            self._actions = self.rows.actions()
        return self._actions

    def __eq__(self, other: object) -> bool:
        """Whether the same is decided."""
        if not isinstance(other, Plan):
            return NotImplemented
        return (self.actions, self.wake_at_ms) == (other.actions, other.wake_at_ms)

    def __hash__(self) -> int:
        return hash((self.actions, self.wake_at_ms))

    def __repr__(self) -> str:
        return f"Plan({self.actions!r}, {self.wake_at_ms})"
