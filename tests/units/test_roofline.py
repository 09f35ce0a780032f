"""Roofline: which ceiling binds, how long, and what would change it; against worked examples."""

import pytest
from msgspec.structs import replace

from tidemill.model.errors import SpecError
from tidemill.model.topology import Parallelism
from tidemill.units import flops, kernel_work, roofline, whatif
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.flops import Recompute
from tidemill.units.model_zoo import Zoo
from tidemill.units.roofline import Ceiling, Ceilings, WorkPiece
from tidemill.units.serving import Serving
from tidemill.units.training import Training
from tidemill.units.whatif import Phase, PhaseQuestion

ZOO, BOOK = Zoo(), Catalogue()
H100, H200 = BOOK.part("h100"), BOOK.part("h200")
BOX = Ceilings(990e12, 3.35e12, 450e9)
"""An H100 as the worked examples round it: 990 dense bf16 TFLOP/s, 3.35 TB/s."""
ONE = Parallelism(sequence=1)


def of(key: str, **said: object) -> PhaseQuestion:
    """A question about decoding on one H100, unless said otherwise."""
    return PhaseQuestion(ZOO.model(key), H100, Phase.DECODE, ONE)._replace(**said)  # type: ignore[arg-type]


# --- worked examples: 13e9 parameters in 16 bits on one H100 ------------------------------------


def test_decoding_13b_waits_for_memory():
    """One token: 7.761 ms to read 26 GB, 0.02626 ms to compute: 295.5 times; 128.8 tokens/s."""
    (one,) = roofline.timed(kernel_work.bare(13 * 10**9, 1, 2), BOX)
    assert one.memory_s * 1e3 == pytest.approx(7.761, abs=5e-4)
    assert one.compute_s * 1e3 == pytest.approx(0.02626, abs=5e-6)
    assert one.memory_s / one.compute_s == pytest.approx(295.5, abs=0.05)
    assert 1 / one.seconds == pytest.approx(128.8, abs=0.05)
    assert one.binds == Ceiling.MEMORY


def test_a_prompt_of_2048_is_bound_by_arithmetic():
    """53.79 ms to compute, 6.93 times what reading the weights takes."""
    (one,) = roofline.timed(kernel_work.bare(13 * 10**9, 2048, 2), BOX)
    assert one.compute_s * 1e3 == pytest.approx(53.79, abs=0.01)
    assert one.compute_s / one.memory_s == pytest.approx(6.93, abs=0.005)
    assert one.binds == Ceiling.COMPUTE


def test_the_ridge():
    """990 TFLOP/s over 3.35 TB/s: 295.5 operations a byte, so 295.5 tokens with 16-bit weights."""
    assert roofline.ridge(BOX) == pytest.approx(295.5, abs=0.05)
    assert roofline.ridge_tokens(BOX, 2) == pytest.approx(295.5, abs=0.05)
    assert roofline.ridge_tokens(BOX, 1) == pytest.approx(147.8, abs=0.05)


def test_three_axes_of_one_card():
    """128 tokens a second of a 26 GB model: 0.34 % of the arithmetic, 99 % of the bandwidth."""
    (piece,) = kernel_work.bare(13 * 10**9, 1, 2)
    assert 128 * piece.flops / BOX.flops_per_s == pytest.approx(0.0034, abs=5e-5)
    assert 128 * piece.moved / BOX.bytes_per_s == pytest.approx(0.99, abs=5e-3)
    asked = PhaseQuestion(13 * 10**9, H100, Phase.DECODE, ONE)
    assert whatif.used(asked)["memory bandwidth"] == 1
    assert whatif.used(asked)["compute"] == pytest.approx(0.0034, abs=5e-5)


# --- ceilings -----------------------------------------------------------------------------------


def test_ceilings_of_a_part():
    """Dense peak, bandwidth and link of the catalogue; shares of them where those were measured."""
    assert roofline.ceilings(H100, "bf16") == Ceilings(989e12, 3.35e12, 450e9)
    assert roofline.ceilings(H200, "fp8", 0.5, 0.25) == Ceilings(989.5e12, 1.2e12, 450e9)
    with pytest.raises(SpecError, match="no fp4 rate"):
        roofline.ceilings(H100, "fp4")


def test_each_piece_meets_its_own_ceiling():
    """Arithmetic, memory and link each bind the piece that needs most of them; times add up."""
    under = Ceilings(100.0, 10.0, 1.0)
    pieces = (WorkPiece("c", 400, 20), WorkPiece("m", 100, 30), WorkPiece("l", 0, 0, 5))
    timed = roofline.timed(pieces, under)
    assert [one.binds for one in timed] == list(Ceiling)
    assert [one.seconds for one in timed] == [4, 3, 5]
    assert roofline.seconds(pieces, under) == 12
    assert roofline.shares(pieces, under)[Ceiling.LINK] == pytest.approx(5 / 12)
    assert roofline.binds(pieces, under) == Ceiling.LINK


def test_elasticities_are_ratios_of_two_answers():
    """Twice a ceiling helps only pieces under it, and only until they meet the next one."""
    under = Ceilings(100.0, 10.0, 1.0)
    pieces = (WorkPiece("c", 400, 30), WorkPiece("m", 100, 30), WorkPiece("l", 0, 0, 5))
    factors = {what.change: what.factor for what in roofline.elasticities(pieces, under)}
    assert factors == {
        "twice the FLOP/s": pytest.approx(12 / 11),  # 4 s become 3: memory binds then
        "twice the memory bandwidth": pytest.approx(12 / 10.5),
        "twice the link bandwidth": pytest.approx(12 / 9.5),
    }


# --- models -------------------------------------------------------------------------------------


def test_decoding_reads_every_weight_and_the_whole_cache():
    """At batch 1 a token of Llama 3 8B moves its weights but for the input embedding, and 4,096
    tokens of cache at 128 KiB; activations are below 0.1 %.
    """
    model = ZOO.model("llama-3-8b")
    moved = sum(piece.moved for piece in kernel_work.decode(model, ONE, Serving(context=4096)))
    weights = 2 * (8_030_261_248 - 128_256 * 4096)
    assert moved == pytest.approx(weights + 4096 * 128 * 1024, rel=1e-3)


def test_prefill_and_training_do_the_operations_that_flops_counts():
    """The pieces of a prompt and of a step add up to the operations of the whole model."""
    model, how = ZOO.model("llama-3-8b"), Serving(batch=2, context=1024)
    done = sum(piece.flops for piece in kernel_work.prefill(model, ONE, how))
    whole = flops.forward(model, 2, 1024, is_causal=True)
    assert done == pytest.approx(whole.total - whole.output * (1 - 1 / 1024), rel=1e-12)
    stated = Parallelism(sequence=1024, batch=4)
    for recompute in (Recompute.NONE, Recompute.FULL):
        training = Training(micro_batch=2, recompute=recompute)
        step = kernel_work.step(model, stated, training)
        expected = flops.executed(model, 4, 1024, recompute, is_causal=True).total
        done = sum(piece.flops for piece in step if piece.name != "optimiser")
        assert done == pytest.approx(expected, rel=1e-12)


def test_tensor_ranks_divide_the_work_and_talk():
    """Four ranks: a quarter of the operations each, and 2(t−1)/t of two results a layer to send."""
    model, how = ZOO.model("llama-3-70b"), Serving(batch=16)
    alone, four = (
        kernel_work.decode(model, Parallelism(tensor=t, sequence=1), how) for t in (1, 4)
    )
    assert sum(p.flops for p in four) == pytest.approx(sum(p.flops for p in alone) / 4)
    assert sum(p.sent for p in alone) == 0
    assert sum(p.sent for p in four) == pytest.approx(80 * 2 * 2 * 3 / 4 * 16 * 8192 * 2)


def test_a_larger_batch_reads_more_experts_but_not_more_than_there_are():
    """One token of Mixtral reads two experts a layer; many tokens read all eight."""
    model = ZOO.model("mixtral-8x7b")
    one, many = (
        next(
            p for p in kernel_work.decode(model, ONE, Serving(batch=b)) if p.name == "feed-forward"
        )
        for b in (1, 4096)
    )
    expert = 3 * 4096 * 14_336 * 32 * 2
    assert one.moved == pytest.approx(2 * expert, rel=1e-3)
    assert many.moved - 4096 * (one.moved - 2 * expert) == pytest.approx(8 * expert, rel=1e-3)


def test_latent_attention_decodes_from_the_latent_cache():
    """DeepSeek-V3 reads 70 KB of cache a token, not the 4 MB that its 128 heads would be."""
    model = ZOO.model("deepseek-v3")
    piece = next(
        p for p in kernel_work.decode(model, ONE, Serving(context=100_000)) if p.name == "attention"
    )
    assert piece.moved == pytest.approx(100_000 * 61 * 576 * 2, rel=1e-3)
    assert piece.intensity == pytest.approx(128 * 2 * (2 * 512 + 64) / (576 * 2), rel=1e-3)


def test_what_a_change_gives():
    """Decoding a small batch: bandwidth nearly doubles it, arithmetic does nothing; more by far
    from a larger batch than from a faster chip.
    """
    asked = of("llama-3-8b", serving=Serving(batch=4, context=2048))
    factors = {what.change: what.factor for what in whatif.changes(asked, [H200])}
    assert factors["twice the FLOP/s"] == 1
    assert factors["twice the memory bandwidth"] == pytest.approx(2)
    assert factors["on h200-sxm-141"] == pytest.approx(4.8 / 3.35)
    assert 1.8 < factors["twice the batch"] < 2
    assert 1.7 < factors["fp8 weights"] < 2
    assert factors["fp8 weights"] <= factors["fp8 weights and arithmetic"]


def test_tensor_ranks_make_bandwidth_worth_less_than_twice():
    """With four ranks some time is on the link: twice the memory gives 1.9, not 2."""
    asked = of(
        "llama-3-70b",
        stated=Parallelism(tensor=4, sequence=1),
        serving=Serving(batch=32, context=4096),
    )
    factors = {what.change: what.factor for what in whatif.changes(asked)}
    assert 1.8 < factors["twice the memory bandwidth"] < 1.99
    assert 1 < factors["twice the link bandwidth"] < 1.1


def test_training_large_micro_batches_is_bound_by_arithmetic():
    """A step of GPT-3 with tensor parallelism in a node: arithmetic binds, the link comes next."""
    asked = PhaseQuestion(
        ZOO.model("gpt-3-175b"), BOOK.part("a100-sxm-80"), Phase.TRAIN,
        Parallelism(tensor=8, sequence=2048, batch=8), training=Training(micro_batch=1),
    )  # fmt: skip
    found = roofline.shares(whatif.pieces(asked), whatif.ceilings(asked))
    assert roofline.binds(whatif.pieces(asked), whatif.ceilings(asked)) == Ceiling.COMPUTE
    assert found[Ceiling.COMPUTE] > 0.6
    assert found[Ceiling.LINK] > 0.05


def test_ridge_batch():
    """Weights alone bind by arithmetic from the ridge on; a long cache keeps memory in front."""
    bare = PhaseQuestion(13 * 10**9, H100, Phase.DECODE, ONE)
    ridge = roofline.ridge(whatif.ceilings(bare))
    assert whatif.ridge_batch(bare) == int(ridge) + 1
    long = of("llama-2-13b", serving=Serving(context=32_768))
    assert whatif.ridge_batch(long) is None


def test_another_part_is_asked_anew():
    """What a what-if says about a part is what that part itself answers."""
    asked = of("llama-3-8b", serving=Serving(batch=64))
    other = asked._replace(part=H200)
    factor = next(w.factor for w in whatif.changes(asked, [H200]) if w.change.startswith("on "))
    assert factor == whatif.tokens_per_s(other) / whatif.tokens_per_s(asked)
    assert whatif.tokens_per_s(other) == 64 / whatif.seconds(other)
    assert replace(asked.serving, batch=128) == whatif._batch(asked).serving
