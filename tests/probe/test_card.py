"""The card: it survives its file, and what is not a card is refused in words."""

from pathlib import Path

import msgspec
import pytest

from tests.probe.cards import card
from tidemill.model.errors import SpecError
from tidemill.probe import card as cards
from tidemill.probe import quantiles, workloads


def test_a_card_survives_its_file(tmp_path: Path):
    """What was written is what is read."""
    path = tmp_path / "card.json"
    made = card(bf16=747, fp8=1297, hbm_gb_s=4250)
    path.write_bytes(cards.written(made))
    assert cards.read(path) == made
    assert made.rate("bf16") == 747
    assert made.rate("tf32") is None
    assert made.gb_s("hbm-copy") == 4250
    assert made.gb_s("hbm-read") is None


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}', '{"tflops": 1}'])
def test_what_is_no_card_is_refused(tmp_path: Path, text: str):
    """Another version or another file says what would be read."""
    path = tmp_path / "card.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match="is not a probe result") as refused:
        cards.read(path)
    assert "tidemill probe -o" in refused.value.hint


def test_a_recorded_tenant_is_read_under_its_present_name():
    """The example card was recorded when `small-kernels` was called `sliver`."""
    path = Path(__file__).parents[2] / "examples" / "cards" / "h200-2026-11.json"
    assert b'"sliver"' in path.read_bytes()
    read = cards.read(path)
    names = {run.kind for pair in read.pairs for run in (pair.a, pair.b)}
    assert names == {tenant.kind for tenant in read.tenants} == set(workloads.BY_KIND)


def test_a_figure_is_never_zero():
    """A rate of zero is not a measurement; such a card is refused."""
    data = msgspec.json.encode(card(bf16=1)).replace(b'"tflops":1', b'"tflops":0')
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(data, type=cards.Card)


def test_quantiles_are_nearest_ranks():
    """The p99 of a hundred is the 99th; of few, the largest; the median of two is the lower."""
    assert quantiles.quantile(list(range(1, 101)), 0.99) == 99
    assert quantiles.quantile([3.0, 1.0], 0.99) == 3.0
    assert quantiles.median([3.0, 1.0]) == 1.0
    assert quantiles.spread([1.0] * 9 + [50.0]) == 0.0


def test_operations_and_bytes_are_counted():
    """The batch tenant multiplies 4 times 8192³; decoding reads its weights for every token."""
    assert workloads.BY_KIND["train"].flops == 4 * 2 * 8192**3
    decode = workloads.BY_KIND["decode"]
    assert decode.bytes == pytest.approx(16 * 8192**2 * 2, rel=0.01)
    assert workloads.BY_KIND["small-kernels"].bytes == 0
    assert len(workloads.PAIRS) == 21
