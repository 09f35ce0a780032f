"""Futures: when waiting jobs start. One forecaster for ``why --eta``, ``fit`` and ``pending``.

The present is copied and played forward several times by the engine's own loop (see ``ahead``). In
each future every job takes as long as some of those that ran here (``lengths``), independently of
the others (``draws``). What the futures say of a job is made a band (``bands``). A play does not
depend on who is asked about, only on when it may stop: so one job is told the same whether it is
asked about alone or in a list.

Bounded in time and in events; what does not start within the bounds is said to be later, not never.
Where so much waits and runs that plays take too long, the queue is sketched instead (``sketch``),
for everybody who asks, and the method says so.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from tidemill.core import snapshot
from tidemill.engine.cycle import CycleMemo, cycle
from tidemill.engine.fold.one_event import fold
from tidemill.engine.loop import Loop
from tidemill.explain import bands, phrasing, play_forward, queue_drain
from tidemill.explain.answers import Band
from tidemill.explain.bands import USUAL, Sides
from tidemill.explain.draws import Draw, draws
from tidemill.explain.durations import FEWEST, Lengths
from tidemill.explain.play_forward import GRID_MS, Ahead
from tidemill.model import events as ev
from tidemill.model import lives
from tidemill.model.measures import ONE_PPM, duration_text
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World

HORIZON_MS = queue_drain.HORIZON_MS
SHARES_PPM = (100_000, 500_000, 900_000)
# A play takes 0.3 to 1 ms for each job that waits or runs (measured 2026-11, the demo and traces).
# Where these are few there are more plays, in the time that three take elsewhere.
PLAYS = {40: 11, 250: 5}
FEWEST_PLAYS = 3
JOBS_AT_MOST = 1_000
LARGE = 20_000  # waiting shapes × active jobs: most ends look at all shapes
EVENTS_AT_MOST = 20_000
_WAITING = int(JobState.WAITING)
_COMING = (NodeState.ASKED, NodeState.BOOTING, NodeState.UNHEALTHY, NodeState.REPAIRING)


class Seat(NamedTuple):
    """Where a job runs that starts now: the nodes, and how far apart they are, in words."""

    nodes: tuple[str, ...]
    hop: str = ""


class Futures(NamedTuple):
    """When jobs start, from now, and how that was found."""

    bands: dict[int, Band]
    seats: dict[int, Seat]
    """Of those that start now."""
    unknown: frozenset[int]
    """Jobs that wait for others of which nobody can know when they end."""
    endless: int
    """How many such others there are, if somebody waits for them."""
    reach_ms: int
    """How far it was looked ahead; a start that is not known comes later."""
    lengths: Lengths
    method: str
    assumptions: tuple[str, ...]

    def verdict(self, j: int) -> str:
        """``now``, ``waits``, ``later`` than was looked ahead, or ``unknown``."""
        if j in self.seats:
            return "now"
        if self.bands[j].p50_ms is not None:
            return "waits"
        return "unknown" if j in self.unknown else "later"

    def starts(self, j: int) -> str:
        """When a job starts, in words: ``in about 16m (p10 to p90: 9m to 1h 9m)``."""
        match self.verdict(j):
            case "now":
                return "now"
            case "waits":
                return f"in {phrasing.band(self.bands[j], self.reach_ms)}"
            case "later":
                return f"later than in {duration_text(self.reach_ms)}"
        return "at a time that nobody can know: jobs without an estimate go first"


class _Future(NamedTuple):
    """What one play found: the waits of jobs that were placed, the seats of those placed now."""

    waits_ms: dict[int, int]
    seats: dict[int, Seat]
    endless: frozenset[int]
    """Jobs that were placed and of which nobody can know when they end."""
    reach_ms: int


def look(
    world: World, policy: Policy, jobs: Collection[int], opening: ev.Seen | None = None,
    sides: Sides = USUAL,
) -> Futures:  # fmt: skip
    """When these jobs start; they wait, or come with the ``opening``.

    ``sides``: how wide the bands of this fleet are, by its past (``track_record``).
    """
    opening = ev.Woke(world.now_ms) if opening is None else opening
    waiting = sum(len(world.waiting[s]) for s in world.queued)
    active = len(world.placements)
    plays = draws(
        next((many for most, many in PLAYS.items() if waiting + active <= most), FEWEST_PLAYS)
    )
    if waiting + active > JOBS_AT_MOST or len(world.queued) * active > LARGE:
        return _sketched(world, policy, jobs, opening, plays, sides)
    return _played(world, policy, jobs, opening, plays, sides)


# By the engine's own loop -----------------------------------------------------------------------


def _played(
    world: World, policy: Policy, jobs: Collection[int], opening: ev.Seen, plays: Sequence[Draw],
    sides: Sides,
) -> Futures:  # fmt: skip
    data, lengths = snapshot.dump(world), Lengths(world)

    def play(draw: Draw) -> _Future:
        copied = snapshot.load(data)
        copied.kept = world.kept  # whom their cluster lets nobody stop, the scheduler does not
        return _play(copied, policy, Ahead(copied, lengths, draw, [opening]), jobs)

    first = play(plays[0])
    seen = [first]
    if len(first.seats) < len(jobs):  # who starts now does so in every future
        seen += [play(draw) for draw in plays[1:]]
    reach_ms = min(one.reach_ms for one in seen)
    certain = _certain_ms(world)
    found = {
        j: bands.band([one.waits_ms.get(j) for one in seen], reach_ms, sides, certain) for j in jobs
    }
    endless = frozenset[int]().union(*(one.endless for one in seen))
    unknown = frozenset(j for j in jobs if endless and found[j].p50_ms is None)
    return Futures(
        found, first.seats, unknown, len(endless) if unknown else 0, reach_ms, lengths,
        _method(lengths, len(plays), sides), _assumptions(world, lengths, endless),
    )  # fmt: skip


def _play(world: World, policy: Policy, backend: Ahead, jobs: Collection[int]) -> _Future:
    """Play one future until these jobs are placed, or the bounds are reached."""
    loop = Loop(world, policy, backend, None, beats_per_commit=EVENTS_AT_MOST)
    now_ms, seq, left = world.now_ms, world.seq, set(jobs)
    waits_ms, seats = dict[int, int](), dict[int, Seat]()
    reach_ms = HORIZON_MS
    while left and (at_ms := backend.next_ms()) is not None and at_ms - now_ms <= HORIZON_MS:
        if world.seq - seq > EVENTS_AT_MOST:
            reach_ms = world.now_ms - now_ms
            break
        loop.beat(at_ms)
        for j in [j for j in left if world.jobs.state.item(j) != _WAITING]:
            left.discard(j)
            waits_ms[j] = at_ms - now_ms
            if at_ms == now_ms:
                seats[j] = _seat(world, j)
    return _Future(waits_ms, seats, frozenset(backend.endless), reach_ms)


def _certain_ms(world: World) -> list[range]:
    """Waits that no draw decides: for an eviction, or for a contract to start and its nodes."""
    at_ms = [row.start_ms for row in world.contract_rows if row.start_ms > world.now_ms]
    waits_ms = [ms - world.now_ms for ms in at_ms]
    return [
        range(play_forward.LEAVE_MS + 1),
        *(range(ms, ms + 2 * play_forward.BOOT_MS) for ms in waits_ms),
    ]


def _seat(world: World, j: int) -> Seat:
    return Seat(_nodes(world, world.placements[j]), phrasing.hop(world, j))


def _nodes(world: World, pieces: Sequence[Piece]) -> tuple[str, ...]:
    return tuple(sorted({lives.node_name(world, piece.node) for piece in pieces}))


def _method(lengths: Lengths, plays: int, sides: Sides) -> str:
    ratios = ", ".join(f"{lengths.ratio_ppm(share) / ONE_PPM:.2f}" for share in SHARES_PPM)
    source = f"of {lengths.samples:,} ended jobs" if lengths.is_measured else "assumed"
    return (
        f"the current cluster state simulated forward {plays} times with the same scheduler;"
        f" {_DRAWN} (10%, 50%, 90% of the ratios of run time to estimate: {ratios}; {source});"
        f" {_widened(sides)}"
    )


_DRAWN = "each time every job has another run time, drawn from those of ended jobs like it"


def _widened(sides: Sides) -> str:
    """Why the band is as wide as it is."""
    text = (
        "p10 to p90 is what the simulations give, corrected by how wrong such forecasts were in"
        " back-tests, so that about 8 of 10 starts lie in it"
    )
    if not sides.outcomes:
        return text
    return (
        f"{text}; {sides.held:,} of {sides.outcomes:,} back-tested earlier forecasts of this"
        f" cluster lay in the usual band, so p10 is {sides.early:.1f} and p90 {sides.late:.1f}"
        " times as far from the middle as usual"
    )


def _assumptions(world: World, lengths: Lengths, endless: frozenset[int]) -> tuple[str, ...]:
    found = ["no new jobs arrive and nothing new breaks"]
    if not lengths.is_measured:
        few = f"only {lengths.samples:,}" if lengths.samples else "none"
        found.append(
            f"{few} of the ended jobs had an estimate, {FEWEST} are needed: run time over"
            " estimate is taken as even between 0 and 1"
        )
    blind = sum(not world.jobs.estimate_ms[j] and j not in endless for j in world.placements)
    if blind:
        found.append(
            f"{phrasing.many(blind, 'active job')} without an estimate: ended jobs of the same"
            " class and size are used instead"
        )
    if endless:
        never = phrasing.many(len(endless), "job")
        found.append(f"{never} without an estimate and unlike any that ended: taken never to end")
    rows = world.node_count
    states = world.nodes.state[:rows]
    if coming := int(np.isin(states, _COMING).sum()):
        is_any_down = np.isin(states, (NodeState.UNHEALTHY, NodeState.REPAIRING)).any()
        repairs = ", repairs as long as those of the InfiniteHBD trace" if is_any_down else ""
        found.append(
            f"{phrasing.many(coming, 'node')} to come: booting takes"
            f" {duration_text(play_forward.BOOT_MS)}{repairs}"
        )
    return tuple(found)


# Where plays would take too long ----------------------------------------------------------------


def _sketched(
    world: World, policy: Policy, jobs: Collection[int], opening: ev.Seen, plays: Sequence[Draw],
    sides: Sides,
) -> Futures:  # fmt: skip
    """By a sketch of the queue. Who starts now is asked of the scheduler itself."""
    lengths = Lengths(world)
    if isinstance(opening, ev.JobSubmitted):
        world = snapshot.copy(world)
        fold(world, opening)
    only = next(iter(jobs)) if len(jobs) == 1 else -1
    seen, seats = queue_drain.starts(world, policy, lengths, plays, only), _seats_now(world, policy)
    return Futures(
        {j: Band(0, 0, 0) if j in seats else _later(seen, j, sides) for j in jobs},
        {j: seats[j] for j in jobs if j in seats}, frozenset(), 0, HORIZON_MS, lengths,
        f"{_SKETCHED}; {_widened(sides)}", _SIMPLER,
    )  # fmt: skip


def _seats_now(world: World, policy: Policy) -> dict[int, Seat]:
    """Whom the next cycle places, and where."""
    actions = cycle(world, policy, CycleMemo()).actions
    return {a.job: Seat(_nodes(world, a.pieces)) for a in actions if isinstance(a, ev.AskedPlace)}


def _later(seen: queue_drain.Starts, j: int, sides: Sides) -> Band:
    """When the sketch lets a job start that the scheduler does not start now."""
    if j not in seen.row_of:
        return Band(None, None, None)
    waits_ms = [None if ms is None else max(ms, GRID_MS) for ms in seen.of(j)]
    return bands.band(waits_ms, HORIZON_MS, sides)


_SKETCHED = (
    f"more than {JOBS_AT_MOST:,} jobs (or {LARGE:,} waiting shapes × running jobs) are too many to"
    f" simulate with the scheduler itself: the queue drained in today's order {FEWEST_PLAYS} times;"
    f" {_DRAWN}"
)
_SIMPLER = (
    "no job is preempted, resized or moved",
    "with backfill any job passes one that does not fit; without it none does after `patience`",
    "teams keep their present rank",
    "topology constraints are not checked",
    "no new jobs arrive and nothing new breaks",
)
