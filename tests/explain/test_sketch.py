"""The sketch of a queue: what a plain drain gives, near what the engine's loop gives, and quick."""

import time
from heapq import heappop, heappush

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.builders import DEFAULTS, beat, contract, fleet, job, role, submit, team
from tests.explain.test_speed import crowd
from tidemill import explain
from tidemill.engine import cycle as one
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.explain import queue_drain
from tidemill.explain.draws import Draw, draws
from tidemill.explain.durations import Lengths
from tidemill.explain.play_forward import GRID_MS, GRIDS_MS
from tidemill.explain.rerun import Glance, in_order
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, FOREVER_MS, HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import NEVER, Cause
from tidemill.model.rows import Role
from tidemill.model.world import World

DRAWS = draws(3)
EAGER = Policy(patience_ms=2 * HOUR_MS, may_preempt=False, may_reclaim=False, backfill="none")


class Drain:
    """The same in plain Python: every node is looked at for every job at every moment."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.world, self.policy, self.now = world, policy, world.now_ms
        nodes = world.nodes
        self.free = {n: int(nodes.free_milli[n]) // 1000 for n in range(world.node_count)}
        self.cpu = {n: int(nodes.cpu_free_milli[n]) for n in range(world.node_count)}
        self.used = world.used.copy()

    def run(self, lengths: Lengths, draw: Draw) -> dict[int, int]:
        self.draw = draw
        world, found, ends = self.world, dict[int, int](), list[tuple[int, int, tuple]]()
        queue = in_order(world, self.policy, Glance(world))
        queue = [j for j in queue if Cause(world.shapes.cause[world.jobs.shape[j]]) not in NEVER]
        for j, pieces in world.placements.items():
            elapsed = self.now - int(world.jobs.origin_ms[j])
            left = lengths.left_ms(world, j, elapsed, draw)
            assert left is not None
            wants = world.shape_of(j).roles[0]
            took = tuple((piece.node, piece.replicas) for piece in pieces)
            heappush(ends, (self._grid(self.now + left, left), j, (wants, took)))
        while queue:
            self._start(queue, lengths, found, ends)
            if not ends:
                break
            self.now = ends[0][0]
            while ends and ends[0][0] == self.now:
                _, j, (wants, took) = heappop(ends)
                self._move(j, wants, took, -1)
        return found

    def _start(self, queue: list[int], lengths: Lengths, found: dict[int, int], ends: list) -> None:
        held: set[str] = set()
        held_in_team: set[tuple[int, str]] = set()
        for j in list(queue):
            wants = self.world.shape_of(j).roles[0]
            kinds = set(wants.kinds or self.world.kinds)
            q = int(self.world.shapes.queue[self.world.jobs.shape[j]])
            under = {(q, kind) for kind in kinds}
            if kinds & held or under & held_in_team:
                continue
            took, is_limited = self._fit(j, wants)
            if took:
                self._move(j, wants, took, 1)
                queue.remove(j)
                found[j] = self.now - self.world.now_ms
                left = lengths.left_ms(self.world, j, 0, self.draw)
                assert left is not None
                heappush(ends, (self._grid(self.now + left, left), j, (wants, took)))
            elif self._lost_patience(j):
                held |= set() if is_limited else kinds
                held_in_team |= under if is_limited else set()

    def _lost_patience(self, j: int) -> bool:
        if self.policy.backfill != "none":
            return False
        return self.now - int(self.world.jobs.since_ms[j]) >= self.policy.patience_ms

    def _fit(self, j: int, wants: Role) -> tuple[tuple[tuple[int, int], ...], bool]:
        world, is_limited = self.world, False
        q = int(world.shapes.queue[world.jobs.shape[j]])
        for k in [world.kind_number[kind] for kind in wants.kinds or world.kinds]:
            if self.used[q, k] + wants.total_milli > world.limit[q, k]:
                is_limited = True
                continue
            hosts = {n: self._hosts(n, wants) for n in self.free if world.nodes.kind[n] == k}
            if sum(hosts.values()) < wants.count:
                continue
            if wants.count == 1:
                best = min((n for n in hosts if hosts[n]), key=lambda n: (self.free[n], n))
                return ((best, 1),), False
            left, took = wants.count, dict[int, int]()
            for least in (min(max(hosts.values()), left), 1):
                for n, most in hosts.items():
                    part = min(left, most)
                    if part >= least and left and n not in took:
                        took[n] = part
                        left -= part
            return tuple(took.items()), False
        return (), is_limited

    def _hosts(self, n: int, wants: Role) -> int:
        most = self.free[n] // wants.accelerators
        return min(most, self.cpu[n] // wants.cpu_milli) if wants.cpu_milli else most

    def _move(self, j: int, wants: Role, took: tuple[tuple[int, int], ...], sign: int) -> None:
        q = int(self.world.shapes.queue[self.world.jobs.shape[j]])
        for n, replicas in took:
            self.free[n] -= sign * replicas * wants.accelerators
            self.cpu[n] -= sign * replicas * wants.cpu_milli
            milli = sign * replicas * wants.replica_milli
            self.used[q, self.world.nodes.kind[n]] += milli

    @staticmethod
    def _grid(ms: int, left: int) -> int:
        """The round time that is nearest, of those an eighth of the length apart or less."""
        step = max(grid for grid in GRIDS_MS if grid == GRID_MS or grid <= left // 8)
        return -(-ms // step) * step if step == GRID_MS else (ms + step // 2) // step * step


@st.composite
def queues(draw: st.DrawFn) -> World:
    """A small fleet of two kinds, some of it taken, and a queue of whole gangs."""
    world = fleet(
        contract("a", gpus=8 * draw(st.integers(1, 3)), cpu_milli=32_000),
        contract("b", gpus=8, per_node=4, kind="A100"),
        teams=[team("a"), team("b", limit=6)],
    )
    for i in range(draw(st.integers(2, 14))):
        wants = role(
            draw(st.integers(1, 3)), gpus=draw(st.sampled_from([1, 2, 3, 4, 8])),
            cpu_milli=draw(st.sampled_from([0, 0, 9_000])),
            kinds=draw(st.sampled_from([(), ("H100",), ("A100",)])),
        )  # fmt: skip
        hours = draw(st.integers(1, 9))
        submit(world, job(f"j{i}", roles=[wants], team=draw(st.sampled_from("aab")),
                          estimate_ms=hours * HOUR_MS))  # fmt: skip
        if i == 4:
            beat(world, EAGER)
    beat(world, EAGER)
    fold(world, ev.Woke(HOUR_MS))
    return world


def two_at_their_limit() -> World:
    """Two jobs of one shape wait for their team's limit; a third, of another team, for room."""
    world = fleet(contract("a", gpus=8), teams=[team("a"), team("b", limit=6)])
    submit(world, job("a0", gpus=4, team="a", estimate_ms=6 * HOUR_MS),
           job("b0", gpus=4, team="b", estimate_ms=20 * HOUR_MS))  # fmt: skip
    beat(world, EAGER)
    submit(world, *(job(f"b{i}", gpus=4, team="b", estimate_ms=HOUR_MS) for i in (1, 2)))
    submit(world, job("a1", gpus=4, team="a", estimate_ms=HOUR_MS))
    beat(world, EAGER)
    fold(world, ev.Woke(HOUR_MS))
    return world


def a_gang_over_its_limit() -> World:
    """A gang that its team's limit keeps out has lost its patience; small jobs come after it."""
    world = fleet(contract("a", gpus=16), teams=[team("a"), team("b", limit=8)])
    submit(world, job("a0", gpus=4, team="a", estimate_ms=6 * HOUR_MS),
           job("b0", gpus=4, team="b", estimate_ms=20 * HOUR_MS))  # fmt: skip
    beat(world, EAGER)
    submit(world, job("b1", gpus=8, team="b", estimate_ms=HOUR_MS))
    beat(world, EAGER)
    fold(world, ev.Woke(3 * HOUR_MS))
    submit(world, job("b2", gpus=1, team="b", estimate_ms=HOUR_MS))
    beat(world, EAGER)
    return world


def test_nobody_of_its_team_passes_a_gang_that_a_limit_keeps_out():
    """As the scheduler holds its team behind it: `b2` starts with the gang, not at once."""
    world = a_gang_over_its_limit()
    answer = explain.why(world, EAGER, world.job_number["b2"])
    assert answer.cause == "behind"
    seen = queue_drain.starts(world, EAGER, Lengths(world), DRAWS)
    gang, small = (seen.of(world.job_number[name]) for name in ("b1", "b2"))
    assert small >= gang > [0, 0, 0]
    passing = queue_drain.starts(world, replace(EAGER, backfill="easy"), Lengths(world), DRAWS)
    assert passing.of(world.job_number["b2"]) == [0, 0, 0], (
        "before, it was held as without backfill"
    )


@example(world=two_at_their_limit(), policy=EAGER)
@example(world=a_gang_over_its_limit(), policy=EAGER)
@given(world=queues(), policy=st.sampled_from([EAGER, replace(EAGER, backfill="easy")]))
@settings(max_examples=150, deadline=None)
def test_it_is_what_a_plain_drain_gives(world: World, policy: Policy):
    """Every job starts at the same moment as in plain Python, or in neither."""
    seen = queue_drain.starts(world, policy, Lengths(world), DRAWS)
    plain = Drain(world, policy).run(Lengths(world), DRAWS[1])
    waits = {j: int(seen.waits_ms[1, i]) for j, i in seen.row_of.items()}
    assert {j: wait for j, wait in waits.items() if wait >= 0} == plain


@given(world=queues())
@settings(max_examples=15, deadline=None)
def test_it_is_near_what_the_engine_gives(world: World):
    """Where nobody is evicted, the middle of the band is that of the engine's own loop.

    But for what the sketch leaves out: the engine holds nothing behind a job that could not even
    run if all others had ended, and chooses nodes otherwise.
    """
    seen = queue_drain.starts(world, EAGER, Lengths(world), draws(11))
    ratios = []
    for j in sorted(seen.row_of)[:4]:
        real = explain.eta(world, EAGER, j)
        mine = sorted(FOREVER_MS if wait is None else wait for wait in seen.of(j))[5]
        if real.wait is not None and real.wait.p50_ms and 0 < mine < FOREVER_MS:
            ratios.append(mine / real.wait.p50_ms)
    assert not ratios or 1 / 3 < float(np.median(ratios)) < 3


def test_a_target_stops_the_play():
    """Asked for one job, the answer for it is the same, and the rest is left open."""
    world = fleet(nodes=1)
    submit(world, *(job(f"j{i}", gpus=8, estimate_ms=HOUR_MS) for i in range(5)))
    beat(world, EAGER)
    whole = queue_drain.starts(world, EAGER, Lengths(world), DRAWS)
    j = world.job_number["j2"]
    part = queue_drain.starts(world, EAGER, Lengths(world), DRAWS, only=j)
    assert part.of(j) == whole.of(j)
    assert part.of(world.job_number["j4"]) == [None, None, None]


def test_the_board_says_when_the_oldest_would_start():
    """One sketch serves every row; what never fits has no start."""
    world = fleet(nodes=1)
    submit(world, job("runs", gpus=8, estimate_ms=2 * HOUR_MS))
    beat(world)
    submit(world, job("next", gpus=8, estimate_ms=HOUR_MS), job("huge", gpus=16, per_node=16))
    beat(world)
    found = explain.with_eta(world, DEFAULTS, explain.board(world, DEFAULTS))
    by_job = {row.oldest_job: row.eta for row in found.rows}
    assert by_job["huge"] is None
    assert by_job["next"] is not None
    middle_ms = by_job["next"].p50_ms
    assert middle_ms is not None
    assert abs(middle_ms - HOUR_MS) < HOUR_MS / 5, "half of the estimate, as nothing has ended here"


@pytest.fixture(scope="module")
def large() -> World:
    """10,000 nodes, 10,000 running jobs, 5,000 waiting ones of 5,000 shapes, looked at once."""
    small = crowd(64, 50)
    queue_drain.starts(small, DEFAULTS, Lengths(small), DRAWS)
    world = crowd(10_000, 5_000)
    fold_all(world, one.cycle(world, DEFAULTS, one.CycleMemo()).actions)
    fold(world, ev.Woke(13 * HOUR_MS))
    return world


def test_eta_takes_seconds_at_size(large: World):
    """Three futures of 5,000 waiting jobs on 10,000 nodes, or one job's: a few CPU-seconds."""
    j = max(j for s in large.queued for j in large.waiting[s])
    start = time.process_time()
    forecast = explain.eta(large, DEFAULTS, j)
    assert time.process_time() - start < 10
    assert forecast.verdict in ("waits", "later")
    assert "no job is preempted" in forecast.assumptions[0]
    assert forecast.horizon_ms == 30 * DAY_MS


def test_fit_takes_seconds_at_size(large: World):
    """A job that is not yet submitted, likewise: the World is copied once."""
    asked = job("asked", gpus=64, team="team0", kinds=["H100"], estimate_ms=HOUR_MS)
    start = time.process_time()
    forecast = explain.fit(large, DEFAULTS, asked)
    assert time.process_time() - start < 15
    assert forecast.verdict in ("waits", "later")
    assert "asked" not in large.job_number
