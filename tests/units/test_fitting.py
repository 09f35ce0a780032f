"""Does it fit: the smallest division, and what would fit instead."""

from itertools import product

import pytest
from msgspec.structs import replace

from tidemill.model.errors import SpecError
from tidemill.model.topology import Parallelism
from tidemill.units import fitting, memory, partition_check, precision, remedies, serving
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.fitting import Stated
from tidemill.units.flops import Recompute
from tidemill.units.model_zoo import Zoo
from tidemill.units.models import Model
from tidemill.units.parallelism import ranks
from tidemill.units.serving import Serving
from tidemill.units.training import Training

ZOO, BOOK = Zoo(), Catalogue()
H100, H200 = BOOK.part("h100"), BOOK.part("h200")


def test_fourteen_h100_hold_the_state_of_70b_and_two_its_weights():
    """1,120 GB on cards of 80: 14, by size alone; 140 GB of 16-bit weights: 2."""
    assert fitting.by_size(memory.state_bytes(70 * 10**9), H100) == 14
    assert fitting.by_size(70e9 * precision.size("bf16"), H100) == 2


def test_the_smallest_service_of_70b():
    """Llama 3 70B in 16 bits needs two H200 or four H100 (two are full of weights)."""
    model = ZOO.model("llama-3-70b")
    how = Serving(batch=8, context=4096)
    units = {
        (part.key, name): fit.units
        for part, name in product((H100, H200), ("bf16", "fp8"))
        if (fit := fitting.to_serve(model, part, Stated(), replace(how, weights=name)))
    }
    assert units == {
        ("h100-sxm-80", "bf16"): 4,
        ("h100-sxm-80", "fp8"): 2,
        ("h200-sxm-141", "bf16"): 2,
        ("h200-sxm-141", "fp8"): 1,
    }


def test_a_node_of_h200_serves_deepseek_v3_in_fp8_and_a_node_of_h100_does_not():
    """671 GB of weights: eight cards of 141 GB hold them, eight of 80 do not."""
    model, how = ZOO.model("deepseek-v3"), Serving(weights="fp8", batch=16)
    on_h200 = fitting.to_serve(model, H200, Stated(), how)
    assert on_h200 is not None
    assert on_h200.units <= 8
    assert fitting.to_serve(model, H100, Stated(units=8), how) is None


SMALL = Model(key="small", layers=8, hidden=4096, heads=16, kv_heads=4, ffn=16_384, is_gated=True)
EXPERTS = replace(SMALL, key="experts", experts=8, active_experts=2)


@pytest.mark.parametrize("model", [SMALL, EXPERTS], ids=lambda model: model.key)
@pytest.mark.parametrize("zero", [0, 1, 3])
@pytest.mark.parametrize("gb", [10, 24, 80])
def test_the_search_agrees_with_trying_everything(model: Model, zero: int, gb: int):
    """No division of so few units fits where the search says that more are needed."""
    part = replace(H100, memory_gb=gb)
    how, room = Training(zero=zero), fitting.usable(part)
    found = fitting.to_train(model, part, Stated(sequence=4096), how)
    sizes = [
        Parallelism(tensor=t, pipeline=p, data=d, expert=e, sequence=4096)
        for t in (1, 2, 4, 8)
        for p in (1, 2, 4, 5, 8)
        for d in range(1, 65)
        for e in (1, 2, 4, 8)
        if (e == 1 or model.experts) and d % e == 0
    ]
    fits = [
        ranks(size)
        for size in sizes
        if partition_check.stage_layers(model, size.pipeline)
        and memory.training(model, size, how).total <= room
    ]
    assert (found.units if found else None) == min(fits, default=None)


def test_what_is_stated_is_kept():
    """A search fills in only what was left open."""
    model = ZOO.model("llama-3-70b")
    stated = Stated(tensor=4, pipeline=4, batch=256, sequence=4096)
    found = fitting.to_train(model, H100, stated, Training())
    assert found is not None
    assert (found.stated.tensor, found.stated.pipeline) == (4, 4)
    assert 256 % found.stated.data == 0
    exact = fitting.to_train(model, H100, Stated(units=64, sequence=4096), Training())
    assert exact is not None
    assert exact.units == 64


def test_what_was_found_divides_and_fits():
    """The second reader of a division finds nothing to refuse, and every stage has room."""
    for key in ("llama-3-405b", "mixtral-8x7b", "deepseek-v3"):
        model, how = ZOO.model(key), Training(zero=1)
        found = fitting.to_train(model, H200, Stated(sequence=4096), how)
        assert found is not None
        partition_check.check(model, found.stated)
        stages = range(found.stated.pipeline)
        held = [memory.on_stage(model, found.stated, how, i).total for i in stages]
        assert max(held) == found.held.total <= fitting.usable(H200)


def test_remedies_of_a_long_sequence():
    """A million tokens of Llama 3 8B fit nowhere with everything kept; each remedy then fits."""
    model, stated = ZOO.model("llama-3-8b"), Stated(sequence=2**20)
    how = Training(recompute=Recompute.NONE)
    assert fitting.to_train(model, H100, stated, how) is None
    offered = remedies.to_train(model, H100, stated, how, fitting.RESERVE)
    assert offered
    assert all(remedy.fit.held.total <= fitting.usable(H100) for remedy in offered)


def test_remedies_of_a_service():
    """What does not fit on two units as 16 bits does so as 8, or on more."""
    model, stated, how = ZOO.model("llama-3-70b"), Stated(units=1), Serving(batch=4)
    assert fitting.to_serve(model, H200, stated, how) is None
    offered = {
        remedy.change: remedy.fit.units
        for remedy in remedies.to_serve(model, H200, stated, how, fitting.RESERVE)
    }
    assert offered["another division"] == 2
    assert offered["--weights fp8"] == 1


def test_a_reserve_leaves_less():
    """A tenth is set aside unless told otherwise."""
    assert fitting.usable(H100) == pytest.approx(72e9)
    assert fitting.usable(H100, 0.0) == 80e9


def test_a_precision_that_nobody_has_is_refused():
    """The refusal lists those there are; formats below a byte carry their scales."""
    with pytest.raises(SpecError, match="no precision called `fp5`") as refused:
        precision.size("fp5")
    assert "'fp8'" in refused.value.hint
    assert precision.size("fp4") == 0.5625
    assert serving.cache_per_token(SMALL, "int8") == 8 * 2 * 4 * 256


# --- published runs -----------------------------------------------------------------------------

# Korthikanti et al. 2022 (arXiv 2205.05198), table 3: model, stages, chunks, micro-batch, units.
A100_80 = BOOK.part("a100-sxm-80")
KORTHIKANTI = [
    ("megatron-22b", 1, 1, 4, 8),
    ("gpt-3-175b", 8, 3, 1, 64),
    ("megatron-530b", 35, 3, 1, 280),
    ("megatron-1t", 64, 1, 1, 512),
]


@pytest.mark.parametrize("row", KORTHIKANTI, ids=[row[0] for row in KORTHIKANTI])
def test_figure_1_of_korthikanti(row: tuple[str, int, int, int, int]):
    """None of the four fits in 80 GB with everything kept; all do with what the paper proposes.

    Weights, gradients and optimiser with 18 bytes, as Megatron-LM sums gradients up in 32 bits.
    """
    key, stages, chunks, micro, units = row
    model, stated = ZOO.model(key), Parallelism(tensor=8, pipeline=stages, sequence=2048)
    assert ranks(stated) == units
    kept = Training(
        micro_batch=micro, interleave=chunks, recompute=Recompute.NONE, is_fused=False, zero=0,
        is_sequence_parallel=False, optimiser="adam-fp32-gradients",
    )  # fmt: skip
    proposed = replace(kept, recompute=Recompute.SELECTIVE, is_sequence_parallel=True)
    assert memory.training(model, stated, kept).total > 80e9
    assert memory.training(model, stated, proposed).total < 80e9


# Narayanan et al., SC'21 (arXiv 2104.04473), table 1: model, tensor, stages, units.
SC21 = [
    ("megatron-1.7b", 1, 1, 32),
    ("megatron-7.5b", 4, 1, 128),
    ("megatron-39b", 8, 2, 512),
    ("megatron-145b", 8, 8, 1536),
    ("megatron-530b", 8, 35, 2520),
    ("megatron-1008b", 8, 64, 3072),
]


@pytest.mark.parametrize("row", SC21, ids=[row[0] for row in SC21])
def test_runs_of_sc21_fit_as_they_ran(row: tuple[str, int, int, int]):
    """With full recomputation, plain attention and no ZeRO, each fits its A100 with the reserve."""
    key, tensor, stages, units = row
    stated = Stated(tensor=tensor, pipeline=stages, data=units // (tensor * stages), sequence=2048)
    how = Training(
        recompute=Recompute.FULL, is_fused=False, is_sequence_parallel=False, zero=0,
        optimiser="adam-fp32-gradients",
    )  # fmt: skip
    found = fitting.to_train(ZOO.model(key), A100_80, stated, how)
    assert found is not None
    assert found.units == units


def test_llama_3_405b_fits_as_it_was_trained():
    """Grattafiori et al. 2024, table 4: tensor 8, 16 stages, no recomputation, optimiser and
    gradients divided; short and long sequences hold the same, as 16 context ranks share the long.
    """
    model = ZOO.model("llama-3-405b")
    how = Training(recompute=Recompute.NONE, zero=2)
    short = Stated(tensor=8, pipeline=16, data=64, sequence=8192, batch=2048)
    long = Stated(tensor=8, pipeline=16, data=8, context=16, sequence=131_072, batch=128)
    fits = [fitting.to_train(model, H100, stated, how) for stated in (short, long)]
    assert [fit.units if fit else None for fit in fits] == [8192, 16_384]
    assert fits[0]
    assert fits[1]
    assert fits[0].held._asdict()["activations"] == fits[1].held._asdict()["activations"]
    assert fitting.to_train(model, H100, short, replace(how, zero=0)) is None


def test_what_is_nearest_has_no_more_ranks_than_make_a_difference():
    """Where nothing fits, the division that is shown is not the largest that was tried."""
    model, how = ZOO.model("deepseek-v3"), Training()
    near = fitting.nearest_to_train(model, BOOK.part("l4"), Stated(sequence=4096), how)
    assert near is not None
    assert near.units < 20_000
    assert near.held.total > fitting.usable(BOOK.part("l4"))


def test_interleaved_stages_take_whole_rounds():
    """With chunks, a search offers only stages whose number divides the micro-batches."""
    model, how = ZOO.model("gpt-3-175b"), Training(interleave=3)
    found = fitting.to_train(model, A100_80, Stated(sequence=2048, batch=72), how)
    assert found is not None
    assert found.stated.pipeline > 1
    assert 72 // found.stated.data % found.stated.pipeline == 0
    partition_check.check(model, found.stated, interleave=3)
