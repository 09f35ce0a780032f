"""Memory of training and serving, against published tables and worked examples."""

import pytest
from msgspec.structs import replace

from tidemill.model.errors import SpecError
from tidemill.model.topology import Parallelism
from tidemill.units import memory, models, partition_check, serving
from tidemill.units.flops import Recompute
from tidemill.units.model_zoo import Zoo
from tidemill.units.serving import Serving
from tidemill.units.training import Training, optimiser

ZOO = Zoo()
GIB = 2**30
GB = 1e9

PLAIN = Training(recompute=Recompute.NONE, is_sequence_parallel=False, is_fused=False, zero=0)
SELECTIVE = Training(recompute=Recompute.SELECTIVE, is_fused=False, zero=0)
FULL = replace(PLAIN, recompute=Recompute.FULL)

# Korthikanti et al. 2022 (arXiv 2205.05198), table 3 and figure 7: model, stages, chunks,
# micro-batch; activations in GiB with nothing recomputed, with sequence parallelism and selective
# recomputation, and with full recomputation (2sbhL, times what interleaving adds).
ACTIVATIONS = [
    ("megatron-22b", 1, 1, 4, 59.25, 9.5625, 4.5),
    ("megatron-530b", 35, 3, 1, 114.0234375, 23.076171875, 10.859375),
]


@pytest.mark.parametrize("row", ACTIVATIONS, ids=[row[0] for row in ACTIVATIONS])
def test_activations_of_korthikanti(row: tuple[str, int, int, int, float, float, float]):
    """Term by term gives the paper's formula, to the byte."""
    key, stages, chunks, micro, plain, selective, full = row
    stated = Parallelism(tensor=8, pipeline=stages, sequence=2048)
    for how, gib in ((PLAIN, plain), (SELECTIVE, selective), (FULL, full)):
        how_ = replace(how, micro_batch=micro, interleave=chunks)
        held = memory.on_stage(ZOO.model(key), stated, how_, 0)
        assert held.activations / GIB == gib


def test_a_kernel_that_stores_no_scores_keeps_what_selective_recomputation_keeps():
    """Fused attention and recomputed attention leave the same activations behind."""
    model, stated = ZOO.model("gpt-3-175b"), Parallelism(tensor=8, sequence=2048)
    fused = Training(recompute=Recompute.NONE, zero=0)
    kept = [memory.training(model, stated, how).activations for how in (fused, SELECTIVE)]
    assert kept[0] == kept[1]


def test_sixteen_bytes_a_parameter():
    """70e9 parameters: 1,120 GB to train with Adam; a real model's shares add up to as much."""
    assert memory.state_bytes(70 * 10**9) / GB == 1120
    model = ZOO.model("llama-2-70b")
    held = memory.training(model, Parallelism(sequence=4096), Training(zero=0))
    state = held.weights + held.gradients + held.optimiser
    assert state == pytest.approx(16 * models.parameters(model), rel=1e-6)


@pytest.mark.parametrize(
    ("zero", "divided"), [(0, 16), (1, 2 + 2 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)]
)
def test_zero_divides_state_over_data_parallel_ranks(zero: int, divided: float):
    """Rajbhandari et al. 2019, figure 1: 7.5e9 parameters on 64 ranks, 120 GB to 1.9 GB."""
    model = ZOO.model("megatron-7.5b")
    held = memory.training(model, Parallelism(data=64, sequence=2048), Training(zero=zero))
    state = held.weights + held.gradients + held.optimiser
    assert state == pytest.approx(divided * models.parameters(model), rel=1e-5)
    if zero in (0, 3):
        assert state / GB == pytest.approx(120 if zero == 0 else 1.9, rel=0.02)


@pytest.mark.parametrize(
    ("name", "size"),
    [("adam", 16), ("adam-fp32-gradients", 18), ("adam-8bit", 10), ("adam-fp8", 7), ("sgd", 12)],
)
def test_bytes_of_optimisers(name: str, size: float):
    """Each optimiser's bytes a parameter are those that its source adds up."""
    cost = optimiser(name)
    assert cost.weights + cost.gradients + cost.kept == size
    assert cost.source


def test_shares_of_all_units_add_up_to_the_model():
    """Summed over tensor ranks, stages and expert ranks, weights are the model's and what is
    repeated: norms, routers and latent projections on each tensor rank.
    """
    model = ZOO.model("deepseek-v3")
    stated = Parallelism(tensor=8, pipeline=7, data=16, expert=16, sequence=4096)
    stages = [memory.layers_of(model, 7, 1)[i] for i in range(7)]
    assert [sum(kinds) for kinds in stages] == [8, 9, 9, 9, 9, 9, 8]
    assert [kinds.plain for kinds in stages] == [3, 0, 0, 0, 0, 0, 0]
    shares = [memory.parameters(model, stated, kinds, i) for i, kinds in enumerate(stages)]
    total = sum(8 * shared + 8 * 16 * routed for shared, routed in shares)
    repeated = 7 * model.layers * (models.vectors(model) + model.hidden * (512 + 64 + 1536))
    repeated += 7 * model.expert_layers * models.router_matrix(model)
    assert total == pytest.approx(models.parameters(model) - model.hidden + repeated, rel=1e-12)


def test_the_first_stage_holds_most_micro_batches_and_never_more_than_there_are():
    """One forward, one backward: p on the first stage, one on the last; two when a step has two."""
    stated, how = Parallelism(pipeline=4, sequence=4096), Training()
    assert [memory.in_flight(stated, how, i) for i in range(4)] == [4, 3, 2, 1]
    few = replace(stated, batch=2)
    assert [memory.in_flight(few, how, i) for i in range(4)] == [2, 2, 2, 1]


def test_the_output_layer_is_on_the_last_stage():
    """With a large vocabulary and few layers the last stage may hold most: logits are 32-bit."""
    model = ZOO.model("llama-3-8b")
    stated = Parallelism(pipeline=2, sequence=8192, batch=1)
    first, last = (memory.on_stage(model, stated, Training(), i) for i in (0, 1))
    assert first.output == 0
    assert last.output == 8192 * (4 * 4096 + 4 * 128_256)
    assert memory.training(model, stated, Training()) == last


# --- the key-value cache -----------------------------------------------------------------------


def test_cache_of_a_token():
    """Grouped heads: 320 KiB a token for Llama 3 70B in 16 bits; latent: 70 KB for DeepSeek-V3.

    2 × 80 layers × 8 heads × 128 × 2 bytes; 61 layers × (512 + 64) × 2 bytes.
    """
    assert serving.cache_per_token(ZOO.model("llama-3-70b")) == 320 * 1024
    assert serving.cache_per_token(ZOO.model("deepseek-v3")) == 61 * 576 * 2
    assert serving.cache_per_token(ZOO.model("llama-3-70b"), "fp8") == 160 * 1024


def test_tensor_ranks_divide_the_cache_as_far_as_there_are_heads():
    """Eight key-value heads on sixteen ranks: each has one, and it is there twice."""
    model = ZOO.model("llama-3-405b")
    assert [serving.cache_ranks(model, t) for t in (1, 8, 16)] == [1, 8, 8]
    assert serving.cache_ranks(ZOO.model("deepseek-v3"), 8) == 1


def test_the_most_sequences_fill_the_units_and_one_more_does_not_fit():
    """The largest number that still fits."""
    model, stated = ZOO.model("llama-3-8b"), Parallelism(sequence=1)
    how, room = Serving(context=32_768), 72e9
    most = serving.most_sequences(model, stated, how, room)
    assert most > 1
    assert serving.serving(model, stated, replace(how, batch=most)).total <= room
    assert serving.serving(model, stated, replace(how, batch=most + 1)).total > room


def test_a_13b_model_fills_a_third_of_an_h100():
    """26 GB of 80: 0.325 of the memory is all that a whole card is used for."""
    assert pytest.approx(0.325) == 13e9 * 2 / 80e9
    model = ZOO.model("llama-2-13b")
    held = serving.serving(model, Parallelism(sequence=1), Serving(context=1))
    assert held.weights / 80e9 == pytest.approx(0.325, abs=0.001)


# --- what does not divide ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "stated", "micro", "says", "hint"),
    [
        ("llama-3-70b", {"tensor": 7}, 1, "64 heads, 8 key-value", "--tp 1, 2, 4, 8, 16"),
        ("llama-3-70b", {"pipeline": 7}, 1, "80 layers .* 7 pipeline stages", "5, 8"),
        ("llama-3-70b", {"data": 3, "batch": 16}, 2, "16 sequences .* 3 data ranks", "12 or 18"),
        ("mixtral-8x7b", {"expert": 3, "data": 3}, 1, "8 experts", "--ep 1, 2, 4 or 8"),
        ("mixtral-8x7b", {"expert": 8, "data": 4}, 1, "groups of 8 .* 4 data", "--dp 8"),
        ("llama-3-8b", {"expert": 2, "data": 2}, 1, "no experts", "leave out --ep"),
        ("llama-3-8b", {"context": 3}, 1, "4,096 tokens .* 3 context", "1, 2, 4, 8"),
    ],
)
def test_what_does_not_divide_is_refused_with_what_would(
    key: str, stated: dict[str, int], micro: int, says: str, hint: str
):
    """Heads, layers, batch, experts and sequence: the numbers in question, and those that work."""
    division = replace(Parallelism(sequence=4096), **stated)
    with pytest.raises(SpecError, match=says) as refused:
        partition_check.check(ZOO.model(key), division, micro)
    assert hint in refused.value.hint


def test_interleaving_needs_stages_and_whole_rounds_of_micro_batches():
    """Chunks without a pipeline, and micro-batches that are no multiple of the stages."""
    model = ZOO.model("megatron-530b")
    with pytest.raises(SpecError, match="in 3 chunks each"):
        partition_check.check(model, Parallelism(sequence=2048), interleave=3)
    with pytest.raises(SpecError, match="36 micro-batches on 35 interleaved stages"):
        partition_check.check(
            model, Parallelism(pipeline=35, batch=36, sequence=2048), interleave=3
        )


def test_the_ends_may_stand_in_for_a_layer():
    """126 layers on 16 stages, as Llama 3 405B was trained: one layer fewer at both ends."""
    assert partition_check.stage_layers(ZOO.model("llama-3-405b"), 16) == (7, *[8] * 14, 7)
    assert partition_check.stage_layers(ZOO.model("llama-3-405b"), 9) == (14,) * 9
    assert partition_check.stage_layers(ZOO.model("llama-3-405b"), 10) == ()
