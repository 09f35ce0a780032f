"""One replay: a spec through the twin and the ledger, and what came of it in a few numbers."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from tidemill.engine.loop import Loop
from tidemill.journal import open_journal
from tidemill.ledger import ratios
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.reader import Ledger
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import Statement
from tidemill.model.measures import HOUR_MS
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec as specs

BEATS_PER_COMMIT = 2_000  # kept in memory and thrown away


class Outcome(Struct, frozen=True):
    """What a run was paid, what of it was useful, and how long its jobs waited."""

    paid_usd_micro: int
    useful_milli_ms: int
    usd_micro_per_useful_hour: int | None
    """None where nothing is known to be useful."""
    done: int
    """Jobs that were done by the end."""
    wait_ms_mean: int | None
    """All time in the queue of each job, after interruptions too; None where nobody came."""
    wait_ms_p90: int | None
    is_lower_bound: bool = False
    """Some work did not tell its efficiency: useful is at least this, its price at most."""
    is_mean_at_least: bool = False
    """Some jobs still wait: the mean wait is at least this."""
    is_p90_at_least: bool = False
    jobs: int = 0
    """Jobs that were submitted."""
    requested_milli: int = 0
    """What they requested in all; two runs that differ here do not hold the same work."""

    def is_same_work(self, other: "Outcome") -> bool:
        """Whether both runs were asked for the same: only then their prices can be compared."""
        return (self.jobs, self.requested_milli) == (other.jobs, other.requested_milli)


def seed_of(text: str, source: str) -> int:
    """The random seed that a spec asks for."""
    return specs.parse(text, source).twin.seed


def run(
    text: str,
    source: str,
    seed: int | None = None,
    on_beat: Callable[[int], None] | None = None,
) -> Statement:
    """The ledger of a spec, by the hour, with its own seed or another; the journal is not kept."""
    spec = specs.parse(text, source)
    if seed is not None:
        spec = replace(spec, twin=replace(spec.twin, seed=seed))
    world, end_ms = World(), int(spec.twin.horizon)
    ledger = Ledger(spec.policy, Window(0, end_ms, HOUR_MS))
    with open_journal(":memory:", create=True) as keeper:
        loop = Loop(world, spec.policy, Twin.from_spec(spec), keeper, [ledger], BEATS_PER_COMMIT)
        loop.run(on_beat=on_beat)
    return Statement(ledger)


def outcome(statement: Statement) -> Outcome:
    """What came of a run."""
    account, figures = statement.total(), statement.waits.figures()
    wait = figures.total_wait
    return Outcome(
        account.paid_usd_micro,
        account.milli_ms[Bucket.USEFUL],
        ratios.usd_micro_per_useful_hour(account),
        figures.done,
        None if wait is None else wait.mean,
        None if wait is None else wait.p90,
        ratios.goodput(account).is_lower_bound,
        wait is not None and "mean" in wait.at_least,
        wait is not None and "p90" in wait.at_least,
        figures.jobs,
        _requested_milli(statement),
    )


def _requested_milli(statement: Statement) -> int:
    """GPUs requested, in thousandths, by all jobs that were submitted."""
    world = statement.world
    return sum(world.shape_of(j).total_milli for j in statement.waits.job.tolist())


def replay(text: str, source: str, seed: int | None = None) -> Outcome:
    """What comes of a spec: a function of its text and seed alone, for any process to call."""
    return outcome(run(text, source, seed))
