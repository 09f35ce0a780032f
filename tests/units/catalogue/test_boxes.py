"""Boxes: the canonical one as published, prices as whole micro-dollars, parts that exist."""

import pytest

from tidemill.model.errors import SpecError
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.catalogue.figures import cheapest, figures
from tidemill.units.catalogue.rows import Box

BOOK = Catalogue()


@pytest.mark.parametrize("box", BOOK.boxes.values(), ids=lambda box: box.key)
def test_every_box_holds_a_known_part(box: Box):
    """A box names a part of the catalogue, a source, and a date and region where it has a price."""
    assert BOOK.part_of(box).key == box.part
    assert box.source
    assert (box.usd_per_hour is None) == (box.priced == "") == (box.region == "")
    assert box.count <= BOOK.part_of(box).domain or BOOK.part_of(box).link_gb_s is None


def test_the_canonical_box():
    """A p5.48xlarge as in the worked examples: 8 H100, 192 vCPU, 2 TiB, 30 TB, EFA, PCIe 5."""
    box = BOOK.box("p5.48xlarge")
    part = BOOK.part_of(box)
    assert (box.count, box.vcpu, box.cores, box.ram_gib) == (8, 192, 96, 2048)
    assert box.nvme_tb == pytest.approx(30, rel=0.03)
    assert box.nic_gb_s == 3200 / 8
    assert BOOK.host_link_gb_s(box) == 64
    assert (part.memory_gb, part.memory_tb_s, part.link_gb_s) == (80, 3.35, 900 / 2)


@pytest.mark.parametrize(
    ("name", "usd"),
    [
        ("p4d.24xlarge", 21.957642),
        ("p5.48xlarge", 55.04),
        ("p5en.48xlarge", 63.296),
        ("p6-b200.48xlarge", 113.9328),
        ("p6-b300.48xlarge", 142.416),
    ],
)
def test_prices_on_demand(name: str, usd: float):
    """Prices of June 2025 to July 2026 in us-east-1, unchanged in August 2026."""
    box = BOOK.box(name)
    assert box.usd_per_hour == usd
    assert box.usd_micro_per_hour == round(usd * 1_000_000)
    assert box.region == "us-east-1"


def test_boxes_by_the_beginning_of_their_name():
    """`p5` is the first box that begins so; `p` alone is nothing."""
    assert BOOK.box("p5").key == "p5.48xlarge"
    assert BOOK.box("DGX H100").key == "dgx-h100"
    assert BOOK.find_box("p") is None
    assert BOOK.find_box("") is None


def test_an_unknown_box_gets_the_nearest():
    """The refusal names boxes that come near."""
    with pytest.raises(SpecError, match=r"no server type called `p5\.49xlarge`") as refused:
        BOOK.box("p5.49xlarge")
    assert "`p5.48xlarge`" in refused.value.hint


def test_a_box_of_an_unknown_part_is_refused():
    """A user's box with a misspelt part is refused by its own name."""
    book = Catalogue(boxes=[Box(key="mine", vendor="us", part="h100-sxm-90", count=8)])
    with pytest.raises(SpecError, match=r"server type `mine`: no GPU model called `h100-sxm-90`"):
        book.part_of(book.box("mine"))


def test_later_rows_replace_earlier_ones():
    """A row of the same key stands instead of the one that is shipped."""
    mine = Box(key="p5.48xlarge", vendor="us", part="h200-sxm-141", count=4)
    assert Catalogue(boxes=[mine]).box("p5.48xlarge").count == 4


def test_a_part_is_priced_in_its_cheapest_box():
    """H100: 55.04 / 8 a part in a p5 is below Google's and Microsoft's; ties fall to the key."""
    box = cheapest(BOOK, BOOK.part("h100"))
    assert box is not None
    assert box.key == "p5.48xlarge"
    assert cheapest(BOOK, BOOK.part("h20")) is None


def test_dollars_per_petaflop():
    """55.04 / 8 = 6.88 $/h; over 0.989 PFLOP/s and 80 GB, in whole micro-dollars."""
    found = figures(BOOK, BOOK.box("p5.48xlarge"))
    assert found.usd_micro_per_hour == 6_880_000
    assert found.usd_micro_per_pflop_hour == round(6_880_000 / 0.989)
    assert found.usd_micro_per_measured_pflop_hour == round(6_880_000 / 0.7945)
    assert found.usd_micro_per_gb_hour == 86_000
    assert found.cores == 12
    assert found.network_gb_s == 50


def test_unknown_stays_unknown():
    """A box without a price has no dollars; a part without BF16 rate has no ridge."""
    found = figures(BOOK, BOOK.box("dgx-h100"))
    assert found.usd_micro_per_hour is None
    assert found.usd_micro_per_pflop_hour is None
    assert figures(BOOK, BOOK.part("a10g")).ridge is None
