"""Worth: what making room costs and what it wins, in whole micro-dollars.

The price of stopping a job is the time that its gang loses (work since its last checkpoint, and
coming back) on the accelerators that it holds, at the rates of their contracts. What the heir wins
is the wait it is spared, on the accelerators that it will hold: until the last of those who go
would have ended by itself, but never more than its own estimate.
"""

from collections.abc import Iterable, Sequence

from tidemill.core import progress, rhythm
from tidemill.model.measures import ONE_PPM
from tidemill.model.rows import Piece, Shape
from tidemill.model.states import JobClass, JobState
from tidemill.model.world import World
from tidemill.scheduling.desk.stopping import UNKNOWN_WAIT_MS


def lost_ms(world: World, j: int) -> int:
    """Time of the whole gang that stopping this active job would waste."""
    return int(progress.lost_ms(world.matrices.jobs, j, world.now_ms))


def is_loss_known(world: World, j: int) -> bool:
    """Whether anybody knows what a stop loses: not of training that nobody says saves or not."""
    is_untold = world.jobs.interval_ms.item(j) == progress.CONTINUOUS
    is_running = world.jobs.state.item(j) == JobState.RUNNING
    return not (is_untold and is_running and world.shape_of(j).kind is JobClass.TRAINING)


def usd_micro(world: World, shape: Shape, pieces: Iterable[Piece], ms: int) -> int:
    """What the accelerators of these pieces cost for this long, rounded down."""
    nodes, rates = world.nodes, world.contracts.rate_usd_micro
    milli_rate = sum(
        piece.replicas
        * shape.roles[piece.role].replica_milli
        * rates.item(nodes.contract.item(piece.node))
        for piece in pieces
    )
    return int(rhythm.usd_micro(milli_rate, ms))


def wait_spared_ms(world: World, estimate_ms: int, going: Sequence[int]) -> int:
    """How long a job would wait for these to end by themselves, at most its estimate; 0: none."""
    jobs, now_ms = world.matrices.jobs, world.now_ms
    left_ms = max((int(progress.left_ms(jobs, j, now_ms)) for j in going), default=0)
    return min(estimate_ms or UNKNOWN_WAIT_MS, left_ms)


def is_worth(gain_usd_micro: int, cost_usd_micro: int, share_ppm: int) -> bool:
    """Whether the gain covers this share of the cost; a share of 0 asks for nothing."""
    return gain_usd_micro * ONE_PPM >= cost_usd_micro * share_ppm
