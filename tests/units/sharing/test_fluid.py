"""Sharing as flows, in whole ppm: what the twin slows jobs by."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tidemill.model.measures import ONE_PPM
from tidemill.model.rows import Demand
from tidemill.units.sharing import fluid

SHARES = st.integers(0, ONE_PPM)
DEMANDS = st.builds(Demand, compute_ppm=SHARES, bandwidth_ppm=SHARES)
FULL = Demand(compute_ppm=ONE_PPM)
READER = Demand(bandwidth_ppm=ONE_PPM)


def test_two_that_fill_a_device():
    """Under MPS each takes twice as long; taking turns costs the switches too: 46.9 % each, where
    46 % were measured on an H200.
    """
    assert fluid.slow_ppm(FULL, [FULL], is_sliced=False) == ONE_PPM
    assert ONE_PPM / (ONE_PPM + fluid.slow_ppm(FULL, [FULL], is_sliced=True)) < 0.47


def test_unlike_axes_share_under_mps_and_not_in_turns():
    """One that computes and one that reads do not meet under MPS; in turns they still halve."""
    assert fluid.slow_ppm(FULL, [READER], is_sliced=False) == 0
    assert fluid.slow_ppm(FULL, [READER], is_sliced=True) > ONE_PPM


def test_a_small_one_keeps_its_speed_in_turns():
    """Max-min fair: who uses a tenth of the time gets it; the full one gets all the rest."""
    small = Demand(compute_ppm=100_000)
    assert fluid.slow_ppm(small, [FULL], is_sliced=True) == 0
    assert fluid.slow_ppm(FULL, [small], is_sliced=True) == ONE_PPM * ONE_PPM // 837_500 - ONE_PPM


@given(DEMANDS, st.lists(DEMANDS, max_size=6), st.booleans())
def test_alone_is_best_and_more_is_worse(mine: Demand, others: list[Demand], is_sliced: bool):
    """Nobody slows a job that is alone, and one more neighbour never helps."""
    assert fluid.slow_ppm(mine, [], is_sliced) == 0
    slow = [fluid.slow_ppm(mine, others[:n], is_sliced) for n in range(len(others) + 1)]
    assert slow == sorted(slow)


@given(st.lists(DEMANDS, min_size=2, max_size=6))
def test_turns_divide_no_more_than_there_is(all_of_them: list[Demand]):
    """The time that all get together is at most the device's, and each gets what it uses at most;
    an oracle fills the shares step by step.
    """
    total = Fraction(0)
    for i, mine in enumerate(all_of_them):
        slow = fluid.slow_ppm(mine, all_of_them[:i] + all_of_them[i + 1 :], is_sliced=True)
        busy = max(mine.compute_ppm, mine.bandwidth_ppm)
        got = Fraction(busy * ONE_PPM, ONE_PPM + slow)
        assert abs(got - filled(all_of_them)[i]) <= 2 + busy // 100_000
        total += got
    assert total <= ONE_PPM + 10


def filled(demands: list[Demand]) -> list[Fraction]:
    """Max-min fair shares by pouring equal amounts into every glass that is not full."""
    wanted = [Fraction(max(d.compute_ppm, d.bandwidth_ppm)) for d in demands]
    got, left = [Fraction(0)] * len(wanted), Fraction(fluid.SLICED_PPM)
    while left > 0 and (thirsty := [i for i, w in enumerate(wanted) if got[i] < w]):
        pour = min([left / len(thirsty), *(wanted[i] - got[i] for i in thirsty)])
        for i in thirsty:
            got[i] += pour
        left -= pour * len(thirsty)
    return got
