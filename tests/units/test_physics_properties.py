"""Memory and time move in the right direction, for any model and any division."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tidemill.model.topology import Parallelism
from tidemill.units import (
    fitting,
    flops,
    memory,
    models,
    partition_check,
    roofline,
    serving,
    whatif,
)
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.fitting import Stated
from tidemill.units.flops import Recompute
from tidemill.units.models import Model
from tidemill.units.roofline import Ceiling
from tidemill.units.serving import Serving
from tidemill.units.training import OPTIMISERS, Training
from tidemill.units.whatif import Phase, PhaseQuestion

ULP = 1 + 1e-9
PARTS = tuple(part for part in Catalogue().parts.values() if part.has_bf16 and part.bf16_tflops)
LINKED = tuple(part for part in PARTS if part.link_gb_s)


@st.composite
def any_model(draw: st.DrawFn) -> Model:
    """A transformer with any of the features that models have."""
    heads = draw(st.sampled_from((8, 16, 32, 64)))
    experts = draw(st.sampled_from((0, 8, 64)))
    latent = draw(st.booleans())
    layers = draw(st.integers(1, 24)) * 2
    return models.check(
        Model(
            key="any",
            layers=layers,
            hidden=heads * draw(st.sampled_from((64, 128))),
            heads=heads,
            kv_heads=0 if latent else draw(st.sampled_from((0, heads, heads // 4, heads // 8))),
            ffn=draw(st.sampled_from((0, 2048, 14_336))),
            is_gated=draw(st.booleans()),
            vocabulary=draw(st.sampled_from((32_000, 128_256))),
            is_tied=draw(st.booleans()),
            experts=experts,
            active_experts=draw(st.integers(1, 8)) if experts else 0,
            shared_experts=draw(st.integers(0, 1)) if experts else 0,
            dense_layers=draw(st.integers(0, 2)) if experts else 0,
            kv_rank=512 if latent else 0,
            query_rank=draw(st.sampled_from((0, 1536))) if latent else 0,
            rope_size=64 if latent else 0,
            has_biases=draw(st.booleans()),
            has_dropout=draw(st.booleans()),
        )
    )


@st.composite
def any_division(draw: st.DrawFn, model: Model) -> Parallelism:
    """A division that the model allows."""
    expert = draw(st.sampled_from((1, 2, 4, 8))) if model.experts else 1
    context = draw(st.sampled_from((1, 2)))
    return Parallelism(
        tensor=draw(st.sampled_from(partition_check.tensor_sizes(model))),
        pipeline=draw(st.sampled_from(partition_check.stage_counts(model))),
        context=context,
        expert=expert,
        data=expert * draw(st.sampled_from((1, 2, 3, 8))),
        sequence=draw(st.sampled_from((1024, 4096, 32_768))),
    )


any_training = st.builds(
    Training,
    micro_batch=st.sampled_from((1, 2, 4)),
    recompute=st.sampled_from(Recompute),
    zero=st.integers(0, 3),
    optimiser=st.sampled_from(tuple(OPTIMISERS)),
    is_sequence_parallel=st.booleans(),
    is_fused=st.booleans(),
)
any_serving = st.builds(
    Serving,
    batch=st.sampled_from((1, 4, 32, 256)),
    context=st.sampled_from((128, 4096, 131_072)),
    weights=st.sampled_from(("bf16", "fp8", "int4")),
    cache=st.sampled_from(("bf16", "fp8")),
)


@given(any_model())
def test_active_parameters_are_some_of_all(model: Model):
    """A token meets no more than there is, and is multiplied with no more than it meets twice
    over: the output matrix may be the input embedding.
    """
    active, whole = models.active_parameters(model), models.parameters(model)
    assert 0 < active <= whole
    assert models.layer_matrices(model) < active
    assert (active == whole) == (model.active_experts == model.experts or not model.expert_layers)


@given(any_model(), any_training, st.data())
def test_units_together_hold_at_least_the_model(model: Model, how: Training, data: st.DataObject):
    """However a model is divided, what all units of one data rank hold adds up to all of it."""
    stated = data.draw(any_division(model))
    stages = memory.layers_of(model, stated.pipeline, 1)
    assert sum(sum(kinds) for kinds in stages) == model.layers
    held = 0.0
    for stage, kinds in enumerate(stages):
        shared, routed = memory.parameters(model, stated, kinds, stage)
        held += stated.tensor * (shared + stated.expert * routed)
    norm = model.hidden * (2 if model.has_biases else 1)
    assert held * ULP >= models.parameters(model) - norm


@given(any_model(), any_training, st.data())
def test_memory_grows_with_the_work_and_shrinks_with_the_ranks(
    model: Model, how: Training, data: st.DataObject
):
    """Longer sequences and larger micro-batches never need less; more data ranks never more."""
    stated = data.draw(any_division(model))
    now = memory.training(model, stated, how).total
    longer = replace(stated, sequence=2 * stated.sequence)
    assert memory.training(model, longer, how).total >= now
    larger = replace(how, micro_batch=2 * how.micro_batch)
    assert memory.training(model, stated, larger).total >= now
    wider = replace(stated, data=2 * stated.data)
    if wider.data * wider.context > 2 or how.zero < 3:  # ZeRO 3 gathers from the second rank on
        assert memory.training(model, wider, how).total <= now * ULP


@given(any_model(), any_training, st.data())
def test_what_is_recomputed_is_not_kept(model: Model, how: Training, data: st.DataObject):
    """None keeps at least what selective keeps, and selective at least what full keeps."""
    stated = data.draw(any_division(model))
    kept = [
        memory.training(model, stated, replace(how, recompute=recompute)).activations
        for recompute in (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)
    ]
    assert kept == sorted(kept, reverse=True)


@given(any_model(), any_training, st.data())
def test_each_stage_of_zero_divides_more(model: Model, how: Training, data: st.DataObject):
    """State never grows from one stage of ZeRO to the next; the last divides all of it."""
    stated = data.draw(any_division(model))
    state = []
    for zero in range(4):
        held = memory.on_stage(model, stated, replace(how, zero=zero), 0)
        state.append(held.weights + held.gradients + held.optimiser)
    assert state == sorted(state, reverse=True)
    if not model.experts:
        ranks = stated.data * stated.context
        assert abs(state[3] * ranks - state[0]) <= 1e-9 * state[0]


@given(any_model(), st.sampled_from(tuple(Recompute)))
def test_operations_grow_with_recomputation_and_context(model: Model, recompute: Recompute):
    """Hardware FLOPs are at least model FLOPs; twice the sequence is more than twice the work."""
    once = flops.training(model, 2, 1024).total
    assert flops.executed(model, 2, 1024, recompute).total >= once
    assert flops.training(model, 2, 2048).total > 2 * once
    assert flops.training(model, 4, 1024).total == 2 * once
    assert flops.training(model, 2, 1024, is_causal=True).total < once


@st.composite
def any_question(draw: st.DrawFn) -> PhaseQuestion:
    """Any phase of any model on any part whose link is known."""
    model = draw(any_model())
    stated = replace(draw(any_division(model)), pipeline=1)
    how = draw(any_training)
    batch = stated.data * how.micro_batch * draw(st.integers(1, 3))
    return PhaseQuestion(
        model, draw(st.sampled_from(LINKED)), draw(st.sampled_from(Phase)),
        replace(stated, batch=batch), draw(any_serving), how,
    )  # fmt: skip


@given(any_question())
def test_a_higher_ceiling_never_slows(asked: PhaseQuestion):
    """Twice a ceiling gives between once and twice the speed; twice all of them exactly twice."""
    for what in whatif.changes(asked):
        if what.change.startswith("twice the") and what.change != "twice the batch":
            assert what.factor * ULP >= 1
            assert what.factor <= 2 * ULP
    under, work = whatif.ceilings(asked), whatif.pieces(asked)
    raised = under
    for ceiling in Ceiling:
        raised = raised.raised(ceiling, 2)
    twice = roofline.seconds(work, under) / roofline.seconds(work, raised)
    assert abs(twice - 2) < 1e-9


@given(any_question())
def test_shares_under_ceilings_add_up(asked: PhaseQuestion):
    """Every moment is under exactly one ceiling, and no share of a peak is above one."""
    found = roofline.shares(whatif.pieces(asked), whatif.ceilings(asked))
    assert abs(sum(found.values()) - 1) < 1e-9
    assert found[roofline.binds(whatif.pieces(asked), whatif.ceilings(asked))] == max(
        found.values()
    )
    assert all(0 <= share <= ULP for share in whatif.used(asked).values())


@given(any_question())
def test_a_larger_batch_takes_longer_and_gives_more(asked: PhaseQuestion):
    """Twice the sequences never take less time, and never give fewer tokens a second."""
    assume(asked.phase != Phase.TRAIN)
    more = asked._replace(serving=replace(asked.serving, batch=2 * asked.serving.batch))
    assert whatif.seconds(more) * ULP >= whatif.seconds(asked)
    assert whatif.tokens_per_s(more) * ULP >= whatif.tokens_per_s(asked)


@given(any_question())
def test_narrower_weights_and_shorter_contexts_never_slow(asked: PhaseQuestion):
    """Fewer bytes and fewer tokens behind a token take no longer."""
    assume(asked.phase == Phase.DECODE)
    narrow = asked._replace(serving=replace(asked.serving, weights="int4"))
    assert whatif.seconds(narrow) <= whatif.seconds(asked) * ULP
    short = asked._replace(serving=replace(asked.serving, context=asked.serving.context // 2))
    assert whatif.seconds(short) <= whatif.seconds(asked) * ULP


@settings(max_examples=40)  # each is two searches over all divisions
@given(any_model(), any_serving, st.sampled_from(PARTS), st.floats(0, 0.5), st.booleans())
def test_more_memory_never_needs_more_units(
    model: Model, how: Serving, part, reserve: float, is_small: bool
):
    """What was found fits; with less set aside, or a larger part, as few units do."""
    found = fitting.to_serve(model, part, Stated(), how, reserve)
    assume(found is not None)
    assert found is not None
    assert found.held.total <= fitting.usable(part, reserve)
    partition_check.check(model, found.stated)
    other = replace(part, memory_gb=2 * part.memory_gb) if is_small else part
    easier = fitting.to_serve(model, other, Stated(), how, reserve / 2)
    assert easier is not None
    assert easier.units <= found.units


@given(any_model(), any_serving, st.data())
def test_the_most_sequences_fit_and_one_more_for_each_rank_does_not(
    model: Model, how: Serving, data: st.DataObject
):
    """Whichever stage is full first: with its weights, its cache or the logits."""
    stated, room = data.draw(any_division(model)), 80e9
    most = serving.most_sequences(model, stated, how, room)
    more = serving.serving(model, stated, replace(how, batch=most + stated.data))
    assert more.total > room
    if most:
        assert serving.serving(model, stated, replace(how, batch=most)).total <= room
