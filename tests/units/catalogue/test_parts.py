"""Parts: rows are sane, names that people and drivers use find them, rates refuse what is not."""

import pytest

from tidemill.model.errors import SpecError
from tidemill.units import achieved_rates
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.catalogue.rates import PRECISIONS, precisions, rate
from tidemill.units.catalogue.rows import Part

BOOK = Catalogue()
PARTS = list(BOOK.parts.values())


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.key)
def test_every_row_has_its_source(part):
    """A figure without a source, a confidence and a date of release does not get in."""
    assert part.source
    assert part.confidence in ("high", "medium", "low")
    assert part.released[:2] == "20"
    assert all(name == name.lower() for name in part.names)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.key)
def test_narrower_is_never_slower(part):
    """A narrower format runs at least as fast as a wider one on the same part."""
    known = [
        rate(part, name) for name in ("fp8", "bf16", "tf32", "fp32") if name in precisions(part)
    ]
    assert known == sorted(known, reverse=True)


def test_no_two_parts_share_a_name():
    """A driver's name means one part."""
    names = [name for part in PARTS for name in part.names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ("h200", "h200-sxm-141"),
        ("H100", "h100-sxm-80"),
        ("NVIDIA-H100-80GB-HBM3", "h100-sxm-80"),
        ("NVIDIA H100 PCIe", "h100-pcie-80"),
        ("NVIDIA-A100-SXM4-80GB", "a100-sxm-80"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "a100-sxm-40"),
        ("Tesla-V100-SXM2-16GB", "v100-sxm2-16"),
        ("AMD_Instinct_MI300X", "mi300x-192"),
        ("tpu-v5p-8", "tpu-v5p"),
        ("b200-sxm-180", "b200-sxm-180"),
    ],
)
def test_found_by_the_names_people_use(asked: str, key: str):
    """The key, its beginning, the model, and what drivers print lead to the same row."""
    assert BOOK.part(asked).key == key


def test_a_users_part_takes_a_name():
    """A new row that is called `h100` is what `h100` means, also in a driver's longer name."""
    mine = Part(key="ours", vendor="us", model="Ours", names=("h100",), memory_gb=1, memory_tb_s=1)
    book = Catalogue(parts=[mine])
    assert book.part("h100") == mine
    assert book.part("NVIDIA-H100-SXM-special") == mine
    assert book.part("h100-sxm-80").model == "H100 SXM5 80GB"


@pytest.mark.parametrize("asked", ["h1000", "a10x", "", "quantum"])
def test_a_name_that_only_begins_alike_is_unknown(asked: str):
    """What merely shares letters with a part is another part."""
    assert BOOK.find(asked) is None


def test_an_unknown_name_gets_the_nearest():
    """The refusal names what was asked and keys that come near."""
    with pytest.raises(SpecError, match="no GPU model called `h20x`") as refused:
        BOOK.part("h20x")
    assert "`h20-sxm-96`" in refused.value.hint or "`h200-sxm-141`" in refused.value.hint


def test_rates_of_an_h100():
    """Dense rates as in the worked examples (within 0.2 %: they round 989 to 990), sparse twice."""
    h100 = BOOK.part("h100")
    worked = {"fp32": 67, "tf32": 495, "bf16": 990, "fp16": 990, "fp8": 1980}
    for name, expected in worked.items():
        assert rate(h100, name) == pytest.approx(expected, rel=0.002)
    assert rate(h100, "fp8", sparse=True) == pytest.approx(3960, rel=0.001)


@pytest.mark.parametrize(
    ("name", "precision"), [("h100", "fp4"), ("v100", "bf16"), ("tpu-v5e", "fp16"), ("a100", "fp8")]
)
def test_a_precision_that_a_part_lacks_is_refused(name: str, precision: str):
    """The refusal lists the precisions that the part has, and none that it lacks."""
    part = BOOK.part(name)
    with pytest.raises(SpecError, match=f"has no {precision} rate") as refused:
        rate(part, precision)
    assert refused.value.hint == f"it has {', '.join(precisions(part))}"
    assert precision not in precisions(part)


def test_an_unknown_precision_is_refused():
    """A word that is no precision is refused the same way."""
    with pytest.raises(SpecError, match="fp7"):
        rate(BOOK.part("h100"), "fp7")


@pytest.mark.parametrize(
    ("name", "precision"), [("h100", "fp32"), ("v100", "fp16"), ("b300", "fp4")]
)
def test_no_sparse_rate_is_made_up(name: str, precision: str):
    """Vector units and old tensor cores skip no zeros; Blackwell Ultra's FP4 does not double."""
    with pytest.raises(SpecError, match="sparse"):
        rate(BOOK.part(name), precision, sparse=True)


def test_every_precision_is_some_parts():
    """No precision in the list is without a part."""
    assert {name for part in PARTS for name in precisions(part)} == set(PRECISIONS)


def test_a_part_without_bf16_reaches_its_fp16():
    """A V100 computes in FP16 where BF16 is refused: attention too, which both formats share."""
    v100 = BOOK.part("v100")
    chip = achieved_rates.of(v100, "fp16")
    assert chip.peak == 125e12
    assert 0 < chip.attention < chip.peak
    with pytest.raises(SpecError, match="no bf16 rate"):
        achieved_rates.of(v100, "bf16")
