"""Standing: measured figures beside the catalogue's, joined by what the driver calls the part."""

import pytest

from tests.probe.cards import card
from tidemill.probe import against_catalogue
from tidemill.units.catalogue.book import Catalogue

# One NVIDIA H200 (SXM, 700 W), torch 2.11, 8192³ products on random data, 2026-11.
H200 = card(fp8=1297, int8=872, bf16=747, fp16=707, tf32=393, fp32=50.4, hbm_gb_s=4250)


def test_it_reaches_this_share_of_its_peak():
    """747 of 989 TFLOP/s in dense bf16 is 76 %; memory 4.25 of 4.8 TB/s is 88.5 %."""
    part = against_catalogue.part_of(H200, Catalogue())
    assert part is not None
    ratios = {s.figure.key: s.ratio for s in against_catalogue.standings(H200, part)}
    assert ratios["rate.bf16"] == pytest.approx(0.7553, abs=1e-4)
    assert ratios["rate.fp8"] == pytest.approx(0.6554, abs=1e-4)
    assert ratios["gb_s.hbm-copy"] == pytest.approx(0.8854, abs=1e-4)
    assert "76% of its dense bf16 peak (747 of 989" in against_catalogue.verdict(H200, part)


def test_an_unknown_part_stands_alone():
    """A part that the catalogue does not know has figures and no ratios."""
    strange = card(name="Mill Stone 9", bf16=10)
    part = against_catalogue.part_of(strange, Catalogue())
    assert part is None
    assert [s.ratio for s in against_catalogue.standings(strange, part)] == [None]
    assert "not in the catalogue" in against_catalogue.verdict(strange, part)


def test_a_card_becomes_a_row():
    """The catalogue takes a measured row in place of its own: the rate reached is this unit's."""
    book = Catalogue()
    part = book.part("h200")
    measured = Catalogue([against_catalogue.measured_part(H200, part)]).part("h200")
    assert measured.reached_bf16_tflops == 747
    assert measured.bf16_tflops == part.bf16_tflops
    assert "measured 2026-11-15" in measured.source
