"""The balance card: ceilings as in the roofline, exact use, and additions that do no harm."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.units import balance, demands
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.demands import ROOM, BoxResource, ModelRun
from tidemill.units.model_zoo import Zoo

BOOK = Catalogue()
MODEL = Zoo().model("llama-2-13b")
HOW = ModelRun()


def mix(parts: int, *kinds: str) -> tuple[tuple[demands.WorkDemand, float], ...]:
    """Kinds of work, each for the same share of the time."""
    made = {
        "training": demands.training(MODEL, parts, HOW),
        "decode": demands.decode(MODEL, parts, HOW),
        "prefill": demands.prefill(MODEL, parts, HOW),
        "vision": demands.vision(parts),
    }
    return tuple((made[kind], 1.0) for kind in kinds)


def test_training_is_bound_by_arithmetic_and_decoding_by_memory():
    """On a p5 a token of training fills the arithmetic, one of decoding the bandwidth."""
    box = BOOK.box("p5.48xlarge")
    card = balance.card(BOOK, box, mix(8, "training", "decode", "prefill"))
    assert [use.binds for use in card.uses] == [
        BoxResource.FLOPS,
        BoxResource.BANDWIDTH,
        BoxResource.FLOPS,
    ]
    assert all(use.used[use.binds] == pytest.approx(1) for use in card.uses)


def test_images_on_an_h100_are_those_of_the_worked_example():
    """2,800 a second and part where cores are there; with four cores a part, half of that."""
    box = BOOK.box("p5.48xlarge")
    fed = balance.card(BOOK, box, mix(8, "vision")).uses[0]
    assert fed.pace == pytest.approx(8 * 2800)
    assert fed.binds is BoxResource.BANDWIDTH
    starved = balance.card(BOOK, msgspec.structs.replace(box, vcpu=64), mix(8, "vision")).uses[0]
    assert starved.pace == pytest.approx(8 * 1400)
    assert starved.binds is BoxResource.CORES


def test_decoding_alone_reads_every_weight():
    """One sequence of one token: the bytes of all weights; an H100 alone does 128 tokens/s.

    The worked example has 13 B parameters of two bytes and 3.35 TB/s: 128.8; this model has
    13.02 B.
    """
    how = ModelRun(batch=1, sequence=1)
    alone = msgspec.structs.replace(BOOK.box("p5.4xlarge"))
    use = balance.card(BOOK, alone, ((demands.decode(MODEL, 1, how), 1.0),)).uses[0]
    assert use.pace == pytest.approx(128.8, rel=0.005)


def test_shares_of_time_weigh_the_mix():
    """Three quarters of the time decoding, one training: use is the mean by time."""
    box = BOOK.box("p5.48xlarge")
    one, other = (demand for demand, _ in mix(8, "decode", "training"))
    card = balance.card(BOOK, box, ((one, 75), (other, 25)))
    expected = (
        0.75 * card.uses[0].used[BoxResource.FLOPS] + 0.25 * card.uses[1].used[BoxResource.FLOPS]
    )
    assert card.used(BoxResource.FLOPS) == pytest.approx(expected)
    assert card.used_ppm(BoxResource.FLOPS) == round(1e6 * expected)


def test_what_does_not_fit_is_said():
    """16 bytes for each of 69 billion parameters are more than 640 GB."""
    large = Zoo().model("llama-2-70b")
    card = balance.card(BOOK, BOOK.box("p5.48xlarge"), ((demands.training(large, 8, HOW), 1.0),))
    assert not card.uses[0].fits
    assert card.uses[0].used[BoxResource.MEMORY] > 1


def test_unknown_axes_are_left_out():
    """Of an HGX board nothing is known but its parts; nothing else can bind or be used."""
    card = balance.card(BOOK, BOOK.box("hgx-h100"), mix(8, "vision"))
    assert card.used(BoxResource.CORES) is None
    assert card.used_ppm(BoxResource.CORES) is None
    assert card.uses[0].binds is BoxResource.BANDWIDTH


def test_the_next_dollar_goes_to_what_binds():
    """A starved box: cores first, worth far more than another box; the rest is worth nothing."""
    card = balance.card(BOOK, BOOK.box("g6e.xlarge"), mix(1, "vision"))
    first, *rest = card.additions
    assert first.name == "cores"
    assert first.worth is not None
    assert first.worth > 10
    assert all(other.gain == pytest.approx(0) for other in rest)


def test_a_balanced_box_wants_accelerators():
    """Where the parts bind, 10 % more of them is 10 % more pace, for a bit less than 10 %."""
    card = balance.card(BOOK, BOOK.box("p5.48xlarge"), mix(8, "training"))
    first = card.additions[0]
    assert first.name == "accelerators"
    assert first.gain == pytest.approx(0.1)
    assert first.worth == pytest.approx(1.133, abs=0.01)


def test_a_box_without_a_price_takes_its_parts():
    """A DGX H100 is weighed at a p5's price for each part; a part that nobody sells has none."""
    assert balance.price_usd_micro(BOOK, BOOK.box("dgx-h100")) == 55_040_000
    unsold = msgspec.structs.replace(BOOK.box("dgx-h100"), part="h20-sxm-96")
    assert balance.price_usd_micro(BOOK, unsold) is None
    assert balance.card(BOOK, unsold, mix(8, "vision")).additions[0].worth is None


@given(
    kind=st.sampled_from(["training", "decode", "prefill", "vision"]),
    name=st.sampled_from(sorted(BOOK.boxes)),
    axis=st.sampled_from(list(BoxResource)),
)
def test_rates_are_never_overdrawn_and_more_never_hurts(kind: str, name: str, axis: BoxResource):
    """No rate is used beyond what a box has; more of any axis never lowers the pace."""
    box = BOOK.box(name)
    ((demand, _),) = mix(box.count, kind)
    has = balance.capacity(BOOK, box)
    fast, binds = balance.pace(demand, has)
    (use,) = balance.card(BOOK, box, ((demand, 1.0),)).uses
    assert all(use.used[a] <= 1 + 1e-9 for a in has if a not in ROOM) or fast == 0
    assert binds in has
    if axis in has:
        assert balance.pace(demand, {**has, axis: 2 * has[axis]})[0] >= fast
