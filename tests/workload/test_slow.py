"""What is slow among its peers: ranks, whole jobs, nodes, devices. Columns in, findings out."""

from math import comb, log10

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.workload.slow import devices, nodes, peers, ranks
from tidemill.workload.slow.columns import RankWindows
from tidemill.workload.slow.devices import DeviceMinutes
from tidemill.workload.slow.nodes import JudgedNode, PlacedLaunch
from tidemill.workload.slow.peers import F64
from tidemill.workload.slow.ranks import Missing, SlowPart

EXCHANGE_US = 500.0
STEPS = 20


def told(own: F64, *, data: F64 | None = None, is_waiting_told: bool = True, roles=None):
    """A job in which each step ends when the slowest rank and the exchange are done."""
    windows, count = own.shape
    wait = own.max(axis=1)[:, None] - own + EXCHANGE_US
    start = np.arange(windows, dtype=np.int64) * 1_000_000
    nothing = np.full_like(own, np.nan)
    return RankWindows(
        start, start + 1_000_000, np.full(windows, STEPS), own, nothing if data is None else data,
        np.zeros_like(own), wait if is_waiting_told else nothing, own.max(axis=1) + EXCHANGE_US,
        np.ones(count, np.int64), np.zeros(count, np.int64) if roles is None else np.array(roles),
    )  # fmt: skip


def noise(seed: int, windows: int = 60, count: int = 8, size: float = 0.02) -> F64:
    """Ranks that take ten milliseconds, give or take."""
    return 10_000 * np.exp(size * np.random.default_rng(seed).standard_normal((windows, count)))


def test_a_rank_that_becomes_slow_is_found_with_its_numbers():
    """Which, since when, by how much, in what, and what the others waited: as it was made."""
    own = noise(1)
    own[30:, 5] *= 1.4
    found = ranks.find(told(own))
    (one,) = found.ranks
    assert (one.rank, one.is_from_start, one.part) == (5, False, SlowPart.COMPUTE)
    assert abs(one.first - 30) <= 2
    assert one.last == 59
    assert one.slow_ppm == pytest.approx(400_000, abs=30_000)
    assert one.own_us > 1.3 * one.peers_us
    assert one.wait_us < one.peers_wait_us
    assert one.chance_log10 < -10
    exact = sum(STEPS * 7 * (own[w].max() - np.delete(own[w], 5).max()) for w in range(30, 60))
    assert one.waited_gpu_us == pytest.approx(exact, rel=0.1)
    assert found.job is None
    assert found.missing is None


def test_waiting_for_data_is_told_as_that():
    """A rank whose data come late is slow in that, and not in computing."""
    own, data = noise(2), np.full((60, 8), 100.0)
    own[20:, 2] += 5_000
    data[20:, 2] += 5_000
    (one,) = ranks.find(told(own, data=data)).ranks
    assert (one.rank, one.part) == (2, SlowPart.DATA)


def test_ranks_that_are_alike_are_not_suspected():
    """Of a hundred jobs in which nobody is slow, and with noise of a tenth, hardly one has one."""
    wrong = sum(bool(ranks.find(told(noise(seed, size=0.1))).ranks) for seed in range(100))
    assert wrong <= 1


def test_a_whole_job_that_slowed_is_not_a_rank():
    """Everybody takes longer from one window on: told of the job, of no rank."""
    own = noise(3)
    own[25:] *= 1.3
    found = ranks.find(told(own))
    assert not found.ranks
    assert found.job is not None
    assert abs(found.job.first - 25) <= 1
    assert found.job.slow_ppm == pytest.approx(285_000, abs=30_000)
    assert found.job.own_ppm == pytest.approx(1_000_000, abs=60_000)


def test_a_network_that_slowed_is_told_from_work():
    """The exchange takes longer while the ranks' own work does not."""
    made = told(noise(4))
    made.wait_us[30:] += 4_000
    made.step_us[30:] += 4_000
    found = ranks.find(made)
    assert not found.ranks
    assert found.job is not None
    assert found.job.own_ppm == pytest.approx(0, abs=100_000)


def test_a_stage_with_more_work_is_not_accused():
    """Two ranks above the others from the first step: told as unlike; with roles, as nothing."""
    own = noise(5)
    own[:, 6:] *= 1.3
    found = ranks.find(told(own))
    assert not found.ranks
    assert found.unlike is not None
    assert found.unlike.ranks == (6, 7)
    with_roles = ranks.find(told(own, roles=[0, 0, 0, 0, 0, 0, 1, 1]))
    assert (with_roles.ranks, with_roles.unlike) == ((), None)


def test_two_slow_machines_are_no_stage():
    """From the first step on as well, but one by a half and one by a fifth: both are accused."""
    own = noise(5)
    own[:, 6] *= 1.2
    own[:, 7] *= 1.5
    found = ranks.find(told(own))
    assert ({one.rank for one in found.ranks}, found.unlike) == ({6, 7}, None)


def wandering(seed: int, windows: int = 34, count: int = 8) -> F64:
    """Ranks on machines that others use too: each is now and then off its pace for seconds."""
    rng = np.random.default_rng(seed)
    held = np.cumsum((rng.random((windows, count)) < 0.4).astype(np.int64), axis=0)
    levels = 0.08 * rng.standard_normal((windows + 1, count))
    return 10_000 * np.exp(np.take_along_axis(levels, held, axis=0))


@pytest.mark.parametrize(("count", "slow"), [(4, (1.42, 1.35)), (4, (1.6, 1.39)), (8, (1.6, 1.3))])
def test_of_two_slow_ranks_both_are_found_with_their_numbers(count, slow):
    """The second is never the slowest, and with four ranks both are half of all peers."""
    own = noise(11, windows=90, count=count)
    own[35:, 1] *= slow[0]
    own[50:, 2] *= slow[1]
    found = {one.rank: one for one in ranks.find(told(own)).ranks}
    assert sorted(found) == [1, 2]
    for rank, times in zip((1, 2), slow, strict=True):
        assert found[rank].slow_ppm == pytest.approx(1e6 * (times - 1), rel=0.12)
    assert abs(found[2].first - 50) <= 2


def test_a_rank_is_suspected_if_the_others_wait_for_it():
    """The same own times twice: once steps take longer meanwhile, once they do not."""
    found = {True: list[int](), False: list[int]()}
    for seed in range(20):
        own = wandering(seed)
        own[12:26, 2] *= 1.17
        for is_held in found:
            step = np.full((len(own), 1), 25_000.0)
            step[12:26] += 2_000.0 * is_held
            made = told(own)._replace(wait_us=step - own)
            found[is_held] += [one.rank for one in ranks.find(made).ranks]
    assert found[True].count(2) >= 12
    assert found[False].count(2) <= 1
    assert sum(rank != 2 for some in found.values() for rank in some) <= 4


def test_who_is_slow_beside_a_slow_rank_does_not_inherit_its_waits():
    """Two ranks above the others at once; steps end with the slower one."""
    own = wandering(1)
    own[12:26, 2] *= 1.22
    own[12:26, 5] *= 1.8
    assert [one.rank for one in ranks.find(told(own)).ranks] == [5]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(8, 40), st.integers(2, 6), st.data())
def test_the_waits_of_the_others_are_those_of_the_least(seed, windows, count, data):
    """Against taking the rank out: medians within and without of the least of what is left."""
    rng = np.random.default_rng(seed)
    waits = rng.random((windows, count))
    waits[:, 0] = np.where(rng.random(windows) < 0.3, np.nan, waits[:, 0])
    rank = data.draw(st.integers(0, count - 1))
    first = data.draw(st.integers(0, windows - 1))
    inside = np.arange(first, data.draw(st.integers(first + 1, windows)))
    look = peers.look(np.zeros((windows, count)), peers.RULE, waits)
    found = peers.longer_waits(look, inside, rank, peers.RULE)
    outside = [w for w in range(windows) if w not in set(inside.tolist())]
    least = [
        min((x for r, x in enumerate(row) if r != rank and not np.isnan(x)), default=np.nan)
        for row in waits.tolist()
    ]
    if len(outside) < 4 or len(inside) > 0.75 * windows or np.isnan(least).any():
        assert np.isnan(found)
    else:
        within, without = (np.median([least[w] for w in some]) for some in (inside, outside))
        assert found == pytest.approx(within - without)


def test_a_slow_rank_within_a_stage_is_found():
    """The rank of the light stage becomes slow, and is still below the heavy stage."""
    own = noise(6)
    own[:, 4:] *= 1.5
    own[30:, 1] *= 1.3
    assert [one.rank for one in ranks.find(told(own)).ranks] == [1]


def test_what_is_missing_is_said():
    """Without waits, with one rank, with few windows: why, never that there is none."""
    own = noise(7)
    own[:, 3] *= 2
    assert ranks.find(told(own, is_waiting_told=False)).missing is Missing.NO_WAITS
    assert ranks.find(told(own[:, :1])).missing is Missing.ONE_RANK
    assert ranks.find(told(own[:6])).missing is Missing.FEW_WINDOWS


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(8)), st.floats(0.01, 100.0), st.integers(0, 1000))
def test_names_and_units_do_not_decide(order, scale, seed):
    """Ranks in another order, times in another unit: the same suspects."""
    own = noise(seed)
    own[20:, 3] *= 1.3
    own[35:50, 6] *= 1.5
    plain = {one.rank for one in ranks.find(told(own)).ranks}
    other = {one.rank for one in ranks.find(told(own[:, order] * scale)).ranks}
    assert {order[rank] for rank in other} == plain


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.data(), st.integers(2, 64))
def test_the_chance_is_the_binomial_tail(count, data, ranks_count):
    """Against the sum of exact fractions, with what was looked at as a factor."""
    hits = data.draw(st.integers(0, count))
    places = np.array([0] * hits + [ranks_count] * (count - hits))
    _, slowest, found = peers.chance_of(places, ranks_count, windows=50, stretches=1)
    share = slowest / ranks_count
    tail = sum(comb(count, k) * share**k * (1 - share) ** (count - k)
               for k in range(hits, count + 1))  # fmt: skip
    looked = ranks_count * 50 * 51 / 2 * 3
    assert found == pytest.approx(min(0.0, log10(tail * looked)), abs=1e-6)


def test_a_node_that_is_slow_in_most_of_its_jobs_is_the_node():
    """Twice of three jobs: the node. Once of three: the job."""
    rows = [
        JudgedNode("a", "n1", 200_000, 10), JudgedNode("b", "n1", 300_000, 10),
        JudgedNode("c", "n1", None, 0), JudgedNode("a", "n2", None, 0),
        JudgedNode("b", "n3", 500_000, 99), JudgedNode("c", "n3", None, 0),
        JudgedNode("d", "n3", None, 0),
    ]  # fmt: skip
    first, second = nodes.by_node(rows)
    assert (first.node, first.is_repeated, first.slow_ppm) == ("n1", True, 250_000)
    assert (first.jobs_slow, first.jobs_judged) == (2, 3)
    assert (second.node, second.is_repeated) == ("n3", False)


def test_a_node_is_found_by_jobs_without_ranks():
    """Two jobs, each slower with the node than without it; one job alone is not enough."""

    def launch(job: str, step_us: int, *on: str) -> PlacedLaunch:
        return PlacedLaunch(job, frozenset(on), step_us)

    rows = [launch("a", 130, "n1", "n2"), launch("a", 100, "n2", "n3"), launch("b", 260, "n1"),
            launch("b", 200, "n3"), launch("c", 500, "n2"), launch("c", 300, "n3")]  # fmt: skip
    (found,) = nodes.by_placement(rows)
    assert (found.node, found.jobs, found.launches, found.slow_ppm) == ("n1", 2, 2, 300_000)
    assert nodes.by_placement(rows[:2]) == ()


def test_a_device_below_the_clock_of_its_peers_is_found():
    """By its clock while it is busy; one that idles at a low clock is not."""
    minutes = 30
    clock = np.full((minutes, 4), 1_980.0)
    clock[10:, 2] = 1_400
    clock[:, 3] = 300
    busy = np.full((minutes, 4), 0.9)
    busy[:, 3] = 0.0
    flat = np.full((minutes, 4), 50.0)
    at = np.arange(minutes, dtype=np.int64) * 60_000
    (one,) = devices.find(DeviceMinutes(at, clock, busy, 10 * flat, flat, busy))
    assert one.device == 2
    assert one.first_ms == pytest.approx(600_000, abs=3 * 60_000)
    assert one.slow_ppm == pytest.approx(1_000_000 * 580 / 1_400, rel=0.01)
    assert (one.figures.clock_mhz, one.peers.clock_mhz) == (1_400, 1_980)
    assert one.figures.celsius == 50
