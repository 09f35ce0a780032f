"""Rows: what people write and read. Frozen, without behaviour; tables hold the same in columns."""

from fractions import Fraction
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.node_rules import Affinity, NodeRules
from tidemill.model.states import Confidence, JobClass, Terms
from tidemill.model.topology import Bond, Parallelism

MAX_DEVICES = 64  # devices of a node are a 64-bit mask; the largest known box has 16 (trn2)
MAX_REQUESTED = 1_024  # accelerators of one replica: more than any node has, and told as such
MAX_COUNT = 10_000_000
LEAST_PRIORITY, MOST_PRIORITY = -(2**31), 2**32 - 1
"""All that clusters say: Kubernetes has 32 bits with a sign, Slurm 32 without. No code multiplies
priorities or packs them into fewer bits than those of a column, which are 64."""

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Count = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Natural = Annotated[int, Meta(ge=0, le=FOREVER_MS)]
UNPRICED = -1
"""Instead of a price: nobody said one. Unknown, which is not $0."""
Ppm = Annotated[int, Meta(ge=0, le=1_000_000)]
Priority = Annotated[int, Meta(ge=LEAST_PRIORITY, le=MOST_PRIORITY)]


UNKNOWN_HOST = 1 << 40
"""CPU (milli-cores) or memory (MiB) of a node where nobody said how much it has: it never binds."""


class Template(Struct, frozen=True, forbid_unknown_fields=True):
    """One node of a contract: its accelerators and its host.

    ``advertised``: how many of them its cluster is told of, where those are not all (a device
    plugin or a driver that does not show the rest): the others are paid, and nobody can have them.
    """

    devices: Annotated[int, Meta(ge=1, le=MAX_DEVICES)]
    cpu_milli: Natural
    memory_mib: Natural
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str], ...] = ()
    advertised: Annotated[int, Meta(ge=1, le=MAX_DEVICES)] | UnsetType = UNSET  # not written then

    @property
    def unadvertised(self) -> int:
        """How many of its accelerators nobody can have."""
        return self.devices - (self.advertised or self.devices)


class LaterPrice(Struct, frozen=True, forbid_unknown_fields=True):
    """What a contract costs from a moment on; -1: nobody said.

    ``name``: what its machines are bought under from then on, where that is not the contract that
    was signed: hours before belong to the one, hours after to the other. ``commitment``: as of a
    contract.
    """

    from_ms: Natural
    usd_micro_per_hour: Annotated[int, Meta(ge=UNPRICED, le=FOREVER_MS)]
    price_source: Annotated[str, Meta(max_length=200)] = ""
    name: Name | UnsetType = UNSET  # then not written
    commitment: Name | UnsetType = UNSET  # then not written


class Contract(Struct, frozen=True, forbid_unknown_fields=True):
    """A claim on accelerators of one kind in one pool, and what it costs.

    ``count`` is in whole accelerators: all of them paid from start to end when reserved, the most
    that may be launched otherwise. ``spares`` nodes are kept idle by design. A price of -1:
    nobody said what it costs. ``price_source``: who said the price, where that is not the contract
    itself; such as ``list price, assumed``. ``later_prices``: what it costs from later moments on,
    in their order. ``unit``: how much of a GPU each of its accelerators is, where they are parts of
    some (MIG instances, shares); ``[1, 7]``: seven of them are one GPU. ``commitment``: the
    contract that pays for as many as it says whether they are there or not, and that these fill.
    """

    name: Name
    pool: Name
    kind: Name
    count: Count
    usd_micro_per_hour: Annotated[int, Meta(ge=UNPRICED, le=FOREVER_MS)]
    node: Template
    terms: Name = Terms.RESERVED.value
    """Its type; see ``reservation.types``."""
    start_ms: Natural = 0
    end_ms: Natural = FOREVER_MS
    spares: Natural = 0
    price_source: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET  # then not written
    later_prices: tuple[LaterPrice, ...] | UnsetType = UNSET  # then not written
    unit: tuple[Count, Count] | UnsetType = UNSET  # then not written, and each is a whole one
    commitment: Name | UnsetType = UNSET  # then not written

    def in_gpus(self, amount: int) -> int:
        """So much of its accelerators in as much of whole GPUs."""
        return int(self.exactly_in_gpus(amount))

    def exactly_in_gpus(self, amount: int) -> Fraction:
        """The same, for sums: parts that are one GPU together are 1 then, not 0.999."""
        return amount * Fraction(*(self.unit or (1, 1)))

    @property
    def prices(self) -> tuple[LaterPrice, ...]:
        """All of its prices, the first from the beginning on."""
        first = LaterPrice(
            0, self.usd_micro_per_hour, self.price_source or "", commitment=self.commitment
        )
        return (first, *(self.later_prices or ()))

    def price_at(self, at_ms: int) -> LaterPrice:
        """What it costs at a moment."""
        return [price for price in self.prices if price.from_ms <= at_ms][-1]

    def name_at(self, at_ms: int) -> str:
        """What its machines are bought under at a moment."""
        return self.price_at(at_ms).name or self.name

    def at(self, at_ms: int) -> "Contract":
        """The same contract with the price that it has at a moment, and no other."""
        if not self.later_prices:
            return self
        price = self.price_at(at_ms)
        usd, source = price.usd_micro_per_hour, price.price_source or UNSET
        return replace(
            self, usd_micro_per_hour=usd, price_source=source, later_prices=UNSET,
            commitment=price.commitment,
        )  # fmt: skip

    @property
    def is_priced(self) -> bool:
        """Whether anybody said what it costs, at any time."""
        return any(price.usd_micro_per_hour != UNPRICED for price in self.prices)

    @property
    def rate_usd_micro(self) -> int:
        """What is known of its first price: for sums of the known part; the rest is told beside."""
        return max(0, self.usd_micro_per_hour)


OF = " OF "
"""In the kind of parts of GPUs, before the type of the GPU: `1G.10GB OF H100`."""


def whole_type(kind: str) -> str:
    """The GPU type of a kind of accelerators that may be parts of GPUs."""
    return kind.rpartition(OF)[2]


CLUSTER = "tidemill/cluster"
"""The label of nodes that says of which of several clusters they are; jobs require it of theirs."""
PARTITION = "partition/"
"""Before the name of a partition, in the label of nodes that are in it."""
FEATURE = "feature/"
"""The same of a feature of nodes (Slurm's `--constraint`)."""
BELOW = " and below"
"""After the name of a Slurm account, in that of the team that is all accounts below it."""
NODE_CLAIM = "nodeclaim/"
"""Before the name of a claim of Karpenter's, in that of its machine while that is no node yet."""
COHORT = "cohort "
"""Before the name of a cohort of Kueue's, in that of the team that is all queues below it."""
QUOTA_QUEUE = "queue "
"""Before the name of a cluster queue of Kueue's, where teams are something else."""
OF_FLAVOR = " flavor "
"""Before the name of a flavor, after that of a queue or cohort of Kueue's that has several."""
RESOURCE = "tidemill/resource"
"""The label of nodes with the resource that they advertise, where types alone do not tell it."""
PER_ACCELERATOR = " or more per accelerator"
"""How the label of nodes ends that have so much of a further resource for each accelerator."""
BY_CLAIM = "tidemill/devices-by-claim"
"""The taint of nodes whose devices are allocated by claims alone. No cluster has either of both."""
UNKEPT = "with rules that are not kept: "
"""Before what a role asks of its nodes beyond what the books can say, in its name."""
BESIDE = "placed by where other pods are: "
"""The same before rules that our own scheduler kept when it placed a job, and that no look at nodes
alone keeps; the name of the role follows, after a colon."""
KEEPS_AWAY = "podAntiAffinity"
"""In both: by a rule of its pods others may not come to where they are; with a space after it, not
even to other nodes."""
SELECTED = " for which "
"""Between a number of devices and the expression by which a claim selects them, in the place of a
label of nodes, or among what the books cannot say."""
UNLISTED = ("tidemill/size", "as jobs show")
"""The label of a node that no source lists: it has at least the GPUs that jobs were seen to hold
there, and what else there is of it, and is free, is unknown."""


class Node(Struct, frozen=True, forbid_unknown_fields=True):
    """A machine under a contract; kind, pool and size are those of the contract."""

    name: Name
    contract: Name
    labels: tuple[tuple[str, str], ...] = ()
    is_spare: bool = False
    taints: tuple[tuple[str, str], ...] = ()


class Share(Struct, frozen=True, forbid_unknown_fields=True):
    """What a team may use of one accelerator kind: sure of ``floor``, never above ``limit``.

    Above its floor it uses at most ``borrow``; of a floor that it does not use it lends at most
    ``lend`` to others. Both apply to a queue with everything below it.
    """

    kind: Name
    floor_milli: Natural = 0
    limit_milli: Natural = FOREVER_MS
    borrow_milli: Natural = FOREVER_MS
    lend_milli: Natural = FOREVER_MS


class Queue(Struct, frozen=True, forbid_unknown_fields=True):
    """A team and its shares; kinds that are not named have floor 0 and no limit.

    ``parent`` is the queue above it ("": none). Jobs belong to queues with nothing below them.
    ``weight`` says how much of what is left it may claim beside its siblings (``fairness``).
    """

    name: Name
    shares: tuple[Share, ...] = ()
    parent: Annotated[str, Meta(max_length=200)] = ""
    weight: Count = 1


class Role(Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """``count`` equal replicas of a gang and what each of them asks for.

    ``accelerators`` whole devices, or one device of which ``milli`` thousandths; none at all is
    allowed (a CPU-only role). Empty ``kinds`` means any kind. With ``least`` the role is elastic:
    it works with any number of replicas from ``least`` to ``count``. ``bonds`` say which replicas
    are to sit together. With a ``profile`` each replica is one MIG instance; ``milli`` is then its
    share of a device by memory, 125 a slice of eight (``units.mig``). ``tolerates``: taints of
    nodes that do not keep it away; ``affinity``: what the labels of its nodes must be like
    (``node_rules``).
    """

    name: Name = "worker"
    count: Count = 1
    accelerators: Annotated[int, Meta(ge=0, le=MAX_REQUESTED)] = 1
    milli: Annotated[int, Meta(ge=1, le=WHOLE_MILLI)] = WHOLE_MILLI
    cpu_milli: Natural = 0
    memory_mib: Natural = 0
    kinds: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    least: Annotated[int, Meta(ge=0, le=MAX_COUNT)] = 0
    bonds: Annotated[tuple[Bond, ...], Meta(max_length=16)] = ()
    profile: Annotated[str, Meta(max_length=40)] = ""
    tolerates: tuple[tuple[str, str], ...] = ()
    affinity: Affinity = ()

    @property
    def rules(self) -> NodeRules:
        """Which nodes it may be on."""
        return NodeRules(self.labels, self.tolerates, self.affinity)

    @property
    def fewest(self) -> int:
        """The fewest replicas with which it works."""
        return self.least or self.count

    @property
    def replica_milli(self) -> int:
        """Accelerator-milli of one replica."""
        return self.accelerators * self.milli

    @property
    def total_milli(self) -> int:
        """Accelerator-milli of all replicas."""
        return self.count * self.replica_milli


class Shape(Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """Everything the scheduler looks at in a job; jobs of one shape are interchangeable to it.

    At most one role is elastic. ``speedup``: points (replicas of that role, parts per million of
    the full speed), rising; none is a straight line. ``bonds`` are of the whole gang, all roles
    together. Where ``parallelism`` is stated, bonds of its groups are derived from it, preferred
    and not required. Without ``may_preempt`` nobody is stopped, moved or made smaller for it; an
    order of all jobs (``may_reorder``) does not heed that. ``quota``: the queue that admits it,
    where another scheduler's queues do that are no teams (``QUOTA_QUEUE``); no books heed it.
    """

    team: Name
    roles: Annotated[tuple[Role, ...], Meta(min_length=1, max_length=64)]
    kind: JobClass = JobClass.TRAINING
    priority: Priority = 0
    is_preemptible: bool = True
    speedup: tuple[tuple[Count, Ppm], ...] = ()
    bonds: Annotated[tuple[Bond, ...], Meta(max_length=16)] = ()
    parallelism: Parallelism | None = None
    may_preempt: bool = True
    quota: Annotated[str, Meta(max_length=200)] = ""

    @property
    def elastic_role(self) -> int | None:
        """The number of the role whose replicas may be more or fewer; None: all are fixed."""
        for r, role in enumerate(self.roles):
            if role.least:
                return r
        return None

    @property
    def total_milli(self) -> int:
        """Accelerator-milli of the whole gang."""
        return sum(role.total_milli for role in self.roles)


class Checkpointing(Struct, frozen=True, forbid_unknown_fields=True):
    """How a training job saves: every ``interval_ms`` of work, stalling ``cost_ms``. 0: never.

    An interval of -1: nobody said whether it saves, so nobody knows what a stop has lost.
    """

    interval_ms: Annotated[int, Meta(ge=-1, le=FOREVER_MS)] = 0
    cost_ms: Natural = 0


class Efficiency(Struct, frozen=True, forbid_unknown_fields=True):
    """How productive time divides: waiting for the host, for the links, and model FLOPs.

    The rest is below peak FLOP/s. ``attainable_ppm`` divides it: the FLOP/s that memory bandwidth
    allows at the job's arithmetic intensity, over the peak. Null: nobody said, and the rest stays
    whole. ``unknown`` confidence leaves productive time undivided.
    """

    mfu_ppm: Ppm = 0
    host_ppm: Ppm = 0
    links_ppm: Ppm = 0
    confidence: Confidence = Confidence.UNKNOWN
    attainable_ppm: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None

    @property
    def memory_bound_ppm(self) -> int | None:
        """The share of time in which memory bandwidth keeps it below peak; None: unknown.

        FLOPs that take a share ``mfu`` of the time at peak take ``mfu / attainable`` at the
        attainable roof; the difference is memory-bound. Never more than is below peak at all.
        """
        if self.attainable_ppm is None:
            return None
        below = 1_000_000 - self.mfu_ppm - self.host_ppm - self.links_ppm
        longer = self.mfu_ppm * (1_000_000 - self.attainable_ppm) // self.attainable_ppm
        return min(longer, below)


class Demand(Struct, frozen=True, forbid_unknown_fields=True):
    """What each replica of a job uses of its device, alone on it, averaged over time.

    ``compute_ppm`` of the rate and ``bandwidth_ppm`` of the memory bandwidth that the device
    reaches; ``memory_mb`` (10^6 bytes) is what it holds there.
    """

    compute_ppm: Ppm = 0
    bandwidth_ppm: Ppm = 0
    memory_mb: Natural = 0


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """A job as submitted. ``estimate_ms`` is the owner's guess of its run time; 0 is no guess.

    ``resize_ms``: how long an elastic job pauses when it grows or shrinks; it loses no work.
    ``demand``: what it uses of a device that it shares; None: nobody said. ``user``: the person
    who submitted it, within its team; "": nobody said.
    """

    name: Name
    shape: Shape
    estimate_ms: Natural = 0
    startup_ms: Natural = 0
    restart_ms: Natural = 0
    checkpointing: Checkpointing = Checkpointing()
    efficiency: Efficiency = Efficiency()
    resize_ms: Natural = 0
    demand: Demand | None = None
    user: Annotated[str, Meta(max_length=200)] = ""


class Piece(Struct, frozen=True, array_like=True):
    """Replicas of one role on one node, and the mask of devices they hold there.

    A MIG instance is a piece of its own, with the mask of the slices that it takes of its device.
    """

    role: int
    node: int
    replicas: int
    devices: int
    slices: int = 0
