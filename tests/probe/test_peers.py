"""Peers: a unit slower than its like is named, and nobody else is."""

from msgspec.structs import replace

from tests.probe.cards import card
from tidemill.probe import peers
from tidemill.probe.card import Bandwidth, Card


def test_the_slow_one_among_eight_is_found():
    """One unit at 88 % of seven equals is slow, by ratio and by deviations; the others are not."""
    cards = [card(bf16=747 + i) for i in range(7)] + [card(bf16=660)]
    found = peers.compare(cards)
    assert peers.slow_cards(found) == [7]
    (worst,) = (f for f in found if f.is_slow)
    assert worst.peers == 8
    assert worst.median == 749.5
    assert worst.z < -peers.OUTLIER


def test_a_harmless_difference_is_not_slow():
    """Three percent below equals is many deviations away, and still within the tolerance."""
    found = peers.compare([card(bf16=750)] * 5 + [card(bf16=728)])
    assert peers.slow_cards(found) == []
    assert peers.slow_cards(peers.compare([card(bf16=750)] * 5 + [card(bf16=700)])) == [5]


def test_noisy_figures_blame_nobody():
    """Where peers themselves differ by a fifth, one at 88 % of the median is one of them."""
    values = (600, 680, 750, 820, 900, 660)
    assert peers.slow_cards(peers.compare([card(bf16=v) for v in values])) == []


def test_two_differ_and_nobody_is_blamed():
    """Of two cards nobody knows which is the wrong one."""
    found = peers.compare([card(bf16=750), card(bf16=500)])
    assert len(found) == 2
    assert peers.slow_cards(found) == []


def test_only_like_units_are_peers():
    """Another part, or the same part with another power limit, is no peer."""
    cards = [card(bf16=750), card(bf16=300, name="NVIDIA A100"), card(bf16=600, power_limit_w=500)]
    assert peers.compare(cards) == []


def test_each_figure_has_its_own_peers():
    """Slow memory is found beside healthy matrix units."""
    cards = [card(bf16=750, hbm_gb_s=4250)] * 3 + [card(bf16=750, hbm_gb_s=3100)]
    slow = [f for f in peers.compare(cards) if f.is_slow]
    assert [(f.card, f.figure.key) for f in slow] == [(3, "gb_s.hbm-copy")]


def test_the_host_is_not_blamed_on_the_unit():
    """Pageable copies differ by a quarter from sitting to sitting: no unit is slow for that."""
    found = peers.compare([paged(9.0), paged(9.1), paged(8.9), paged(6.6)])
    assert len(found) == 4
    assert peers.slow_cards(found) == []


def paged(gb_s: float) -> Card:
    """A card with one pageable bandwidth."""
    band = Bandwidth(what="h2d-pageable", gb_s=gb_s, timed=20)
    return replace(card(), bandwidths=(band,))
