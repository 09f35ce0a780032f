"""Fixes: for each bucket, the cheapest thing to do, what it could win back, and what it costs.

What a fix wins back is reckoned by the rule written beside it: the whole leak, unless this ledger
itself says less. It is an upper bound, not a forecast; what a change would really win is known only
by replaying history with it.
"""

from collections.abc import Callable

from tidemill.ledger import reckoning, stranding
from tidemill.ledger.buckets import NOT_PRODUCED, Bucket
from tidemill.ledger.reckoning import Fix
from tidemill.ledger.statement import Statement

_Rule = Callable[[Statement, Bucket], Fix]


def fix(statement: Statement, bucket: Bucket) -> Fix:
    """The cheapest fix of a bucket, in this ledger's own numbers."""
    return _FIXES[bucket](statement, bucket)


def _all_of_it(words: str, rule: str, price: int | None = 0) -> _Rule:
    """A fix that could win back the whole leak."""
    return lambda statement, bucket: Fix(
        words, rule, reckoning.usd_micro(statement.total(), bucket), price
    )


def _nothing(words: str, rule: str) -> _Rule:
    """Something that is not a loss, or that nothing need be done about."""
    return lambda _statement, _bucket: Fix(words, rule, 0, 0)


_FIXES: dict[Bucket, _Rule] = {
    Bucket.NOT_LAUNCHED: _all_of_it(
        "launch what is paid for: the contract runs, its nodes do not exist",
        "all of it is paid and nothing can run on it",
    ),
    Bucket.NOT_READY: _all_of_it(
        "keep images warm and boot in parallel", "time between launch and Ready", None
    ),
    Bucket.UNHEALTHY: reckoning.spares,
    Bucket.CORDONED: _all_of_it(
        "uncordon what nobody repairs; give every cordon an owner and an end",
        "a cordon costs nothing to lift; a forgotten one costs its nodes in full",
    ),
    Bucket.DRAINING: _all_of_it(
        "drain at the next checkpoint instead of at a deadline (shorter `drain`)",
        "accelerators of draining nodes that are free already but take no work",
    ),
    Bucket.NO_DEMAND: reckoning.release,
    Bucket.FRAGMENTED: _all_of_it(
        "ask for sizes that divide a node, and for no more CPU than goes with the accelerators;"
        " let cheap work move together (`may_move = true`)",
        "free accelerators that no waiting job could use as they lie",
    ),
    Bucket.TOPOLOGY: _all_of_it(
        "prefer a topology tier instead of requiring it, or move small work out of one rack",
        "free accelerators that no waiting job could use because they are too far apart",
    ),
    Bucket.QUOTA: _all_of_it(
        "raise the limit of the team that waits: nobody else is using this",
        "free accelerators that only a limit keeps a waiting job from",
    ),
    Bucket.HELD: _all_of_it(
        "say how long jobs run (`estimate`), so that more may pass a waiting gang in time"
        ' (`backfill = "easy"`), or ask for smaller gangs',
        "free accelerators kept for, or too few for, a gang that cannot start yet",
    ),
    Bucket.CAUSE_UNKNOWN: _nothing(
        "find out why these jobs wait: their scheduler recorded no cause",
        "free accelerators that waiting jobs may use; whether anything kept them out is unknown",
    ),
    Bucket.BY_DESIGN: _all_of_it(
        "keep fewer spares (`spares`), if failures allow it", "spares while they were not needed"
    ),
    Bucket.STARTING: _all_of_it(
        "keep images and data warm; bring the gang's slowest member up first",
        "time between getting the accelerators and the first step",
        None,
    ),
    Bucket.IDLE: reckoning.cull,
    Bucket.REWORK: reckoning.checkpoint_better,
    Bucket.RESTART: _all_of_it(
        "restart in place and load checkpoints in parallel",
        "time from being placed again to working again",
        None,
    ),
    Bucket.CHECKPOINT: _all_of_it(
        "write checkpoints asynchronously",
        "the accelerators wait while a checkpoint is written",
        None,
    ),
    Bucket.STRAGGLER: _all_of_it("swap the slow node", NOT_PRODUCED[Bucket.STRAGGLER]),
    Bucket.HOST: _all_of_it(
        "more loader workers, or more CPU per accelerator",
        "share of the step in which the accelerator waits for its host, as each job tells or as"
        " follows from what it computes (`tidemill unit step --spec FILE --job NAME`)",
        None,
    ),
    Bucket.LINKS: _all_of_it(
        "overlap communication with compute; keep tensor parallelism inside a node",
        "share of the step spent in collectives, as each job tells or as follows from what it"
        " computes (`tidemill unit step --spec FILE --job NAME`), and what a worse place adds",
        None,
    ),
    Bucket.INTERFERENCE: _all_of_it(
        "put jobs that fill the same axis on devices of their own, or into MIG instances;"
        " see `tidemill unit share`",
        "what neighbours on the same device cost each job, as its backend tells",
    ),
    Bucket.STRANDED: stranding.lay_out,
    Bucket.MEMORY_BOUND: _all_of_it(
        "larger batches, or fewer bytes per weight: more FLOPs for each byte that is read",
        "between peak FLOP/s and what memory bandwidth allows at the job's arithmetic intensity",
        None,
    ),
    Bucket.BELOW_ROOF: _all_of_it(
        "fused kernels, fewer pipeline bubbles, less recomputation",
        "between what memory bandwidth and peak FLOP/s allow and model FLOPs; nobody reaches all",
        None,
    ),
    Bucket.BELOW_PEAK: _all_of_it(
        "say what these jobs compute (`computes`) or their roof (`attainable`), then larger"
        " batches or better kernels",
        "between peak FLOP/s and model FLOPs; whether memory bandwidth binds, nobody said",
        None,
    ),
    Bucket.UNKNOWN: _nothing(
        "report step times (MFU): this time worked, but nobody knows how well",
        "unknown is not a loss, and not useful either",
    ),
    Bucket.UNSAVED: _nothing("nothing: the next checkpoint saves it", "still running"),
}
