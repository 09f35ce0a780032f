"""The tables of a spec file: what may be written in each, and what is meant when it is left out.

In the file durations are text (``"14d"``), money is in dollars and shares are fractions; here they
are already the integers we count in (see ``spec_words``). For people the same is told in
``docs/guides/describe-a-fleet.md``.
"""

from typing import Annotated

from msgspec import Meta, Struct, field

from tidemill.model import names
from tidemill.model.node_rules import LabelCondition
from tidemill.model.policy import Policy
from tidemill.model.rows import MAX_DEVICES, Priority
from tidemill.model.states import JobClass, Terms
from tidemill.twin.neighbours import Sharing
from tidemill.twin.spec.words import Cores, Dollars, Fraction, Gib, Moment, Span
from tidemill.units.flops import Recompute

MAX_NODES = 200_000  # the World was designed for 12,500; this is where memory, not patience, ends
MAX_JOBS = 20_000_000  # about 2 GB of columns while they are drawn
MAX_TEAMS = 10_000  # the largest universities have some thousand accounts
MAX_LOST_RACES = 900_000  # more, and gangs may never come up: the twin would tell nothing else

Whole = Annotated[int, Meta(ge=1, le=10_000_000)]
Zero = Annotated[int, Meta(ge=0, le=10_000_000)]
Rate = Annotated[float, Meta(ge=0, le=10_000_000)]
Hour = Annotated[int, Meta(ge=0, le=23)]
Name = Annotated[str, Meta(min_length=1, max_length=names.LONGEST, pattern=names.PATTERN)]
Maybe = Annotated[str, Meta(max_length=names.LONGEST, pattern=rf"\A\Z|{names.PATTERN}")]
Word = Annotated[str, Meta(min_length=1, max_length=120, pattern=names.PATTERN)]
Labels = dict[Word, Word]


class _Table(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class TwinTable(_Table, frozen=True, kw_only=True):
    """``[twin]``: the story as a whole. It begins on a Monday at midnight, or when it says."""

    name: Word = "twin"
    seed: Annotated[int, Meta(ge=0, le=2**53)] = 0
    horizon: Span = Span(14 * 86_400_000)
    begins: Moment = Moment("")
    zone: Annotated[str, Meta(max_length=60)] = ""
    sharing: Sharing = "time-slice"


class ContractTable(_Table, frozen=True, kw_only=True):
    """``[[contract]]``: what is paid for. ``count`` is in accelerators."""

    name: Name
    kind: Name
    count: Whole
    usd_per_hour: Dollars
    pool: Maybe = ""
    terms: Name = Terms.RESERVED.value
    start: Span = Span(0)
    end: Span | None = None
    spares: Zero = 0
    accelerators_per_node: Annotated[int, Meta(ge=1, le=MAX_DEVICES)] = 8
    advertised: Annotated[int, Meta(ge=1, le=MAX_DEVICES)] | None = None
    cpu_per_node: Cores = Cores(192_000)
    memory_gib_per_node: Gib = Gib(2048 * 1024)
    nodes_per_rack: Zero = 0
    nodes_per: dict[Word, Whole] = {}
    labels: Labels = {}
    taints: Labels = {}


class TierTable(_Table, frozen=True, kw_only=True):
    """``[[tier]]``: one level of the network, outermost first; see ``model.topology``."""

    name: Name
    label: Maybe = ""
    devices: Annotated[int, Meta(ge=0, le=MAX_DEVICES)] = 0
    gb_per_s: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    latency_us: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    oversubscription: Annotated[float, Meta(ge=1, le=1000)] = 1.0


class DivisionTable(_Table, frozen=True, kw_only=True):
    """How a training job divides its model, and figures of the model that price it."""

    tensor: Whole = 1
    context: Whole = 1
    expert: Whole = 1
    pipeline: Whole = 1
    parameters_billion: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    layers: Zero = 0
    hidden: Zero = 0
    sequence: Zero = 0
    batch: Zero = 0


class Computes(_Table, frozen=True, kw_only=True):
    """What a job computes, for those whose efficiency follows from it (``twin.physics``).

    A model by its name (or by the figures of ``parallelism``), or samples with their operations;
    and what its input costs the host.
    """

    model: str = ""
    precision: str = "bf16"
    micro_batch: Whole = 1
    interleave: Whole = 1
    recompute: Recompute = Recompute.SELECTIVE
    zero: Annotated[int, Meta(ge=0, le=3)] = 1
    gflop_per_sample: Rate = 0.0
    """Forward and backward, where it trains."""
    samples_per_s: Rate = 0.0
    """That one accelerator takes when it never waits."""
    samples_per_core_s: Rate = 0.0
    kb_per_sample: Annotated[float, Meta(gt=0, le=10_000_000)] = 100.0
    kb_on_device: Rate = 0.0
    read_gb_per_s: Rate = 0.0
    """What storage gives a node; 0: more than is ever needed."""


class TeamTable(_Table, frozen=True, kw_only=True):
    """``[[team]]``: a guaranteed quota and a maximum quota, by GPU type.

    ``borrow`` bounds what it uses above its guaranteed quota, ``lend`` what others use of it. A
    team may be under another (``parent``).
    """

    name: Name
    floor: dict[str, Zero] = field(name="guaranteed", default={})
    limit: dict[str, Zero] = field(name="maximum", default={})
    borrow: dict[str, Zero] = {}
    lend: dict[str, Zero] = {}
    parent: Maybe = ""
    weight: Whole = 1


class Uses(_Table, frozen=True, kw_only=True):
    """What each replica uses of its device, alone on it: shares of its axes, and GB held."""

    compute: Fraction = Fraction(0)
    bandwidth: Fraction = Fraction(0)
    memory_gb: Annotated[float, Meta(ge=0, le=100_000)] = 0.0


class Checkpoint(_Table, frozen=True, kw_only=True):
    """How a training job saves."""

    every: Span
    cost: Span = Span(0)


class TideShape(_Table, frozen=True, kw_only=True):
    """The busy share of a service over the day."""

    low: Fraction = Fraction(200_000)
    peak: Fraction = Fraction(900_000)
    peak_hour: Hour = 15


class Spread(_Table, frozen=True, kw_only=True):
    """A heavy-tailed distribution of times by its median and mean, cut at the longest."""

    median: Span
    mean: Span
    longest: Span = Span(60 * 86_400_000)


class Traits(_Table, frozen=True, kw_only=True):
    """What generated and single jobs have in common."""

    name: Word
    team: Name
    job_class: JobClass = field(name="class", default=JobClass.TRAINING)
    priority: Priority = 0
    preemptible: bool = True
    preempts: bool = True
    kinds: tuple[Name, ...] = ()
    profile: Annotated[str, Meta(max_length=40)] = ""
    labels: Labels = {}
    tolerates: Labels = {}
    affinity: tuple[LabelCondition, ...] = ()
    within: str = ""
    near: str = ""
    parallelism: DivisionTable | None = None
    computes: Computes | None = None
    cpu_per_accelerator: Cores = Cores(0)
    memory_gib_per_accelerator: Gib = Gib(0)
    startup: Span = Span(0)
    restart: Span = Span(0)
    elastic: Fraction = Fraction(1_000_000)
    resize: Span = Span(0)
    checkpoint: Checkpoint | None = None
    mfu: Fraction | None = None
    host_stall: Fraction = Fraction(0)
    link_stall: Fraction = Fraction(0)
    attainable: Fraction | None = None
    measured: bool = False
    tide: TideShape | None = None
    busy: Fraction = Fraction(1_000_000)
    uses: Uses | None = None


class JobTable(Traits, frozen=True, kw_only=True):
    """``[[job]]``: a job by itself, or some equal ones."""

    work: Span
    user: Maybe = ""
    at: Span = Span(0)
    copies: Annotated[int, Meta(ge=1, le=100_000)] = 1
    accelerators: Zero = 1
    fraction: Fraction | None = None
    estimate: Span = Span(0)
    active: Span | None = None


class ArrivalRhythm(_Table, frozen=True, kw_only=True):
    """How arrivals follow the day and the week; every part of it keeps ``per_day`` on average."""

    swing: Fraction = Fraction(0)
    peak_hour: Hour = 14
    weekend: Fraction = Fraction(1_000_000)


class Guess(_Table, frozen=True, kw_only=True):
    """How owners estimate: truth times an error with this median and spread, in whole hours."""

    median: Annotated[float, Meta(ge=0.01, le=1000)] = 2.0
    sigma: Annotated[float, Meta(ge=0, le=5)] = 0.8
    missing: Fraction = Fraction(200_000)


class WorkloadTable(Traits, frozen=True, kw_only=True):
    """``[[workload]]``: jobs that come by chance. A preset fills what is left out.

    ``users``: who submits them: names, names with weights, or how many (``twin.users``).
    """

    per_day: Rate
    users: tuple[Name, ...] | dict[Name, Rate] | Annotated[int, Meta(ge=1, le=10_000)] = ()
    preset: str = ""
    sizes: dict[str, Rate] = {}
    run: Spread | None = None
    coupling: Annotated[float, Meta(gt=-1, lt=1)] | None = None
    rhythm: ArrivalRhythm = ArrivalRhythm()
    estimate: Guess = Guess()
    start: Span = Span(0)
    end: Span | None = None
    crash: Fraction = Fraction(0)
    fail: Fraction | None = None
    cancel: Fraction | None = None
    mfu_spread: Fraction = Fraction(0)
    active: Spread | None = None


class FaultsTable(_Table, frozen=True, kw_only=True):
    """``[faults]``: rates per 1,000 node-days, and how long things take."""

    node_rate: Rate = 0.0
    device_share: Fraction = Fraction(0)
    repair: str | Spread = "infinitehbd"
    maintenance_rate: Rate = 0.0
    maintenance: Span = Span(4 * 3_600_000)
    reclaim_rate: Rate = 0.0
    notice: Span = Span(2 * 60_000)
    retries: Annotated[int, Meta(ge=0, le=1000)] = 3
    boot: Span = Span(5 * 60_000)
    evict: Span = Span(0)
    startup_spread: Fraction = Fraction(200_000)
    lost_races: Fraction = Fraction(0)


class Spec(Struct, frozen=True, kw_only=True):
    """Everything a file says; ``source`` names it in messages."""

    source: str
    twin: TwinTable
    contracts: tuple[ContractTable, ...]
    teams: tuple[TeamTable, ...]
    workloads: tuple[WorkloadTable, ...] = ()
    jobs: tuple[JobTable, ...] = ()
    faults: FaultsTable = FaultsTable()
    tiers: tuple[TierTable, ...] = ()
    policy: Policy = Policy()
    notes: tuple[str, ...] = ()
    """What was read otherwise than it was written, for people."""
