"""Operations and utilisation, against the tables of published training runs."""

import pytest

from tidemill.units import flops, models
from tidemill.units.flops import Recompute
from tidemill.units.model_zoo import Zoo

ZOO = Zoo()
A100 = 312e12
DAY_S = 86_400

# Narayanan et al., SC'21 (arXiv 2104.04473), table 1: model, units, batch, achieved TFLOP/s of a
# unit (with recomputation), percent of the peak, aggregate PFLOP/s; and the step time in seconds
# that follows from them by the paper's formula for the operations of a step.
SC21 = [
    ("megatron-1.7b", 32, 512, 137, 44, 4.4, 3.53),
    ("megatron-7.5b", 128, 512, 142, 46, 18.2, 3.70),
    ("megatron-39b", 512, 1536, 138, 44, 70.8, 14.45),
    ("megatron-145b", 1536, 2304, 148, 47, 227.1, 24.82),
    ("megatron-530b", 2520, 2520, 163, 52, 410.2, 54.08),
]


@pytest.mark.parametrize("row", SC21, ids=[row[0] for row in SC21])
def test_sc21_operations_of_a_step(row: tuple[str, int, int, float, float, float, float]):
    """Counted part by part, a step has the operations of 96Bslh²(1 + s/6h + V/16lh), exactly.

    Steps take what the table gives, within 1 %: its rates have three digits.
    """
    key, units, batch, tflops, percent, petaflops, step_s = row
    model, s, v = ZOO.model(key), 2048, 51_200
    h, n = model.hidden, model.layers
    formula = 96 * batch * s * n * h**2 * (1 + s / (6 * h) + v / (16 * n * h))
    done = flops.executed(model, batch, s, Recompute.FULL).total
    assert done == pytest.approx(formula, rel=1e-12)
    assert done / (units * tflops * 1e12) == pytest.approx(step_s, rel=0.01)
    assert units * tflops / 1e3 == pytest.approx(petaflops, rel=0.01)

    ran = flops.utilisation(model, s, Recompute.FULL, batch * s / step_s, units, A100)
    assert 100 * ran.hfu == pytest.approx(percent, abs=0.6)  # the table rounds to whole percents
    assert ran.hardware_flops_per_unit_s / 1e12 == pytest.approx(tflops, rel=0.01)


# SC'21, table 2, PTD-P rows of the 175B model: units, achieved TFLOP/s, days for 300e9 tokens.
TABLE_2 = [(384, 153, 84), (768, 149, 43), (1536, 141, 23)]


@pytest.mark.parametrize(("units", "tflops", "days"), TABLE_2)
def test_sc21_days_for_a_whole_run(units: int, tflops: float, days: int):
    """Exact operations give the printed days; the rule 8TP/nX is low.

    Days are printed whole and rates to 1 TFLOP/s: half of each is 0.5 days and 0.35 %.
    The rule leaves out attention and the output layer: 1.4 to 3.0 % below the table.
    """
    model, tokens = ZOO.model("gpt-3-175b"), 300e9
    rate = flops.tokens_per_s_at(model, 2048, Recompute.FULL, units, tflops * 1e12)
    assert tokens / rate / DAY_S == pytest.approx(days, abs=0.5 + 0.0035 * days)
    rule = 8 * tokens * models.parameters(model) / (units * tflops * 1e12) / DAY_S  # equation 4
    assert -0.032 < rule / days - 1 < -0.012


# Korthikanti et al. 2022 (arXiv 2205.05198), tables 4 and 5: with sequence parallelism and
# selective recomputation; model, units, batch, step seconds, MFU and HFU in percent.
SEQUENCE_PARALLEL = [
    ("megatron-22b", 8, 4, 1.10, 41.5, 43.7),
    ("gpt-3-175b", 64, 64, 13.75, 51.4, 52.8),
    ("megatron-530b", 280, 280, 37.83, 56.0, 57.0),
    ("megatron-1t", 512, 512, 71.49, 56.3, 57.0),
]


@pytest.mark.parametrize("row", SEQUENCE_PARALLEL, ids=[row[0] for row in SEQUENCE_PARALLEL])
def test_mfu_and_hfu_with_selective_recomputation(
    row: tuple[str, int, int, float, float, float],
):
    """Both shares are the paper's within 0.3 points: step times have two digits after the point."""
    key, units, batch, step_s, mfu, hfu = row
    ran = flops.utilisation(
        ZOO.model(key), 2048, Recompute.SELECTIVE, batch * 2048 / step_s, units, A100
    )
    assert 100 * ran.mfu == pytest.approx(mfu, abs=0.3)
    assert 100 * ran.hfu == pytest.approx(hfu, abs=0.3)


@pytest.mark.parametrize("key", ["megatron-22b", "megatron-530b"])
def test_model_and_hardware_formulas_of_korthikanti(key: str):
    """72Bslh²(1 + s/6h + V/12lh), and s/3h with selective recomputation: exactly."""
    model, s, v = ZOO.model(key), 2048, 51_200
    h, n = model.hidden, model.layers
    base = 72 * 4 * s * n * h**2
    output = v / (12 * n * h)
    once, hard = (
        flops.training(model, 4, s).total,
        flops.executed(model, 4, s, Recompute.SELECTIVE).total,
    )
    assert once == pytest.approx(base * (1 + s / (6 * h) + output), rel=1e-12)
    assert hard == pytest.approx(base * (1 + s / (3 * h) + output), rel=1e-12)
    assert flops.executed(model, 4, s, Recompute.NONE).total == once


def test_palm_utilisation():
    """238,300 tokens a second on 6,144 TPU v4: 46.2 % with attention, 45.7 % without.

    Chowdhery et al. 2022 (arXiv 2204.02311), table 3. The figures have four digits; ours count
    matrices only, the paper all 540.35e9 parameters: 0.01 points apart.
    """
    ran = flops.utilisation(ZOO.model("palm-540b"), 2048, Recompute.NONE, 238_300, 6144, 275e12)
    assert ran.mfu == pytest.approx(0.4623, abs=1e-4)
    assert ran.mfu_without_attention == pytest.approx(0.4573, abs=1e-4)


# Grattafiori et al. 2024 (arXiv 2407.21783), table 4: units, tensor, context, pipeline, data,
# sequence, sequences a data-parallel rank, BF16 TFLOP/s a unit, MFU in percent.
LLAMA_3 = [
    (8192, 8, 1, 16, 64, 8192, 32, 430, 43),
    (16_384, 8, 1, 16, 128, 8192, 16, 400, 41),
    (16_384, 8, 16, 16, 8, 131_072, 16, 380, 38),
]


@pytest.mark.parametrize("row", LLAMA_3, ids=["8k-8192", "8k-16384", "128k"])
def test_llama_3_utilisation(row: tuple[int, ...]):
    """The rates are the printed shares of the dense 989 TFLOP/s, and every row has 16.8M tokens.

    The paper rounds rates to tens and shares to whole percents: within 0.7 points. A run at that
    rate has that share, whichever way round it is computed.
    """
    units, tensor, context, pipeline, data, sequence, each, tflops, percent = row
    assert tensor * context * pipeline * data == units
    assert data * each * sequence == 2**24
    model, peak = ZOO.model("llama-3-405b"), 989e12
    rate = flops.tokens_per_s_at(model, sequence, Recompute.NONE, units, tflops * 1e12)
    ran = flops.utilisation(model, sequence, Recompute.NONE, rate, units, peak)
    assert 100 * ran.mfu == pytest.approx(percent, abs=0.7)
    assert ran.mfu == pytest.approx(tflops * 1e12 / peak, rel=1e-12)


def test_megascale_utilisation():
    """A step of 6.34 s on 12,288 A100 is 55.2 %: between ours with and without the causal mask.

    Jiang et al. 2024 (arXiv 2402.15627): 6,144 sequences of 2,048 tokens, 175B. The paper does not
    say whether it takes the mask off attention: 55.7 % as Megatron counts, 55.1 % with it.
    """
    model, tokens_per_s = ZOO.model("gpt-3-175b"), 6144 * 2048 / 6.34
    ran = flops.utilisation(model, 2048, Recompute.NONE, tokens_per_s, 12_288, A100)
    masked = flops.training(model, 6144, 2048, is_causal=True).total / (6.34 * 12_288 * A100)
    assert masked < 0.552 < ran.mfu
    assert ran.mfu - masked < 0.01


def test_experts_cost_what_is_active():
    """A token of Mixtral meets two of eight experts: six operations for each of 12.9e9 less the
    input embedding, though 46.7e9 are in memory.
    """
    model = ZOO.model("mixtral-8x7b")
    once = flops.training(model, 1, 1)
    met = models.active_parameters(model) - models.output_matrix(model)
    assert once.layers + once.output == pytest.approx(6 * met, rel=1e-4)


def test_the_mask_halves_attention():
    """A causal token sees half of the sequence on average."""
    model = ZOO.model("llama-3-8b")
    whole, half = (
        flops.forward(model, 2, 8191, is_causal=is_causal) for is_causal in (False, True)
    )
    assert half.attention / whole.attention == pytest.approx(4096 / 8191)
    assert half.layers == whole.layers
