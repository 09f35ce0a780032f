"""The step-time model: parts that add up, what each dimension costs, and published runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bench import step_rows, steps
from tidemill.model.errors import SpecError
from tidemill.model.topology import Parallelism
from tidemill.units import machine
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.flops import Recompute
from tidemill.units.model_zoo import Zoo
from tidemill.units.overlap import Behind, Hiding
from tidemill.units.step import Step, TrainingRun, step
from tidemill.units.training import Training

H100 = machine.of(Catalogue().part("h100"), 8, 400)
LLAMA = Zoo().model("llama-3-70b")
SIZES = Parallelism(tensor=8, pipeline=4, data=8, sequence=8192, batch=256)


PLAIN, SHOWN = Training(), Hiding()


def taken(
    sizes: Parallelism = SIZES,
    how: Training = PLAIN,
    hiding: Hiding = SHOWN,
    host: float = 0,
) -> Step:
    """A step of Llama 3 70B on 256 H100."""
    return step(TrainingRun(LLAMA, sizes, how, hiding, H100), host)


def test_the_parts_add_up_to_the_step():
    """Nothing is left over, and no part is negative."""
    found = taken(host=0.1)
    assert found.seconds == sum(found.parts)
    assert min(found.parts) >= 0
    assert found.parts.host == pytest.approx(0.1 * found.seconds)


def test_a_large_model_on_h100_reaches_what_people_report():
    """Llama 3 70B on 256 H100: between 35 and 50 % MFU."""
    assert 0.35 < taken().mfu < 0.50
    assert taken().hfu >= taken().mfu


def test_recomputation_costs_a_third_of_the_compute():
    """Full recomputation is one more forward pass: a third of forward and backward."""
    full = taken(how=Training(recompute=Recompute.FULL))
    none = taken(how=Training(recompute=Recompute.NONE))
    assert none.parts.recompute == 0
    assert full.parts.recompute == pytest.approx(
        (none.parts.compute + none.parts.attention) / 3, rel=0.1
    )
    assert full.hfu > full.mfu


def test_interleaving_divides_the_bubble():
    """Five chunks a stage leave about a fifth of what filling and draining costs."""
    plain, chunks = taken(), taken(how=Training(interleave=5))
    assert chunks.parts.pipeline_bubble < 0.5 * plain.parts.pipeline_bubble


def test_more_micro_batches_shrink_the_bubble_as_a_share():
    """(p − 1)/m: twice the batch, half the share."""
    shares = [
        found.parts.pipeline_bubble / found.seconds
        for found in (taken(), taken(replace(SIZES, batch=512)))
    ]
    assert shares[1] < 0.7 * shares[0]


def test_what_runs_behind_compute_is_not_waited_for():
    """Hiding less never makes a step shorter."""
    hidden = taken(hiding=Hiding(tensor=Behind.ALL))
    some = taken()
    none = taken(hiding=Hiding(tensor=Behind.NONE, data=False, pipeline=False))
    assert hidden.seconds < some.seconds < none.seconds
    assert none.parts.data > some.parts.data
    assert none.parts.tensor > some.parts.tensor > hidden.parts.tensor
    assert none.parts.pipeline_send > some.parts.pipeline_send == 0


def test_tensor_groups_across_nodes_are_dear():
    """Sixteen tensor ranks on nodes of eight talk over the network in every layer."""
    model = Zoo().model("gpt-3-175b")
    inside = Parallelism(tensor=8, pipeline=8, data=2, sequence=2048, batch=256)
    across = Parallelism(tensor=16, pipeline=4, data=2, sequence=2048, batch=256)
    near, far = (
        step(TrainingRun(model, some, Training(), Hiding(), H100)) for some in (inside, across)
    )
    assert far.parts.tensor > 3 * near.parts.tensor
    assert far.links > near.links


def test_experts_get_their_tokens_by_all_to_all():
    """A model with experts waits for them; inside a node less than across nodes."""
    model = Zoo().model("mixtral-8x7b")
    base = Parallelism(tensor=1, expert=8, data=64, sequence=4096, batch=512)
    inside = step(TrainingRun(model, base, Training(), Hiding(), H100))
    across = step(TrainingRun(model, replace(base, tensor=4, data=16), Training(), Hiding(), H100))
    assert inside.parts.expert > 0
    assert across.parts.expert > inside.parts.expert


def test_context_ranks_hand_each_other_keys_and_values():
    """Long sequences over context ranks wait for them, and for nothing without them."""
    long = Parallelism(tensor=8, context=4, pipeline=4, data=2, sequence=32_768, batch=32)
    assert taken(long).parts.context > 0
    assert taken().parts.context == 0


def test_sizes_that_do_not_divide_are_refused_with_what_would():
    """Llama 3 70B has 64 heads: seven tensor ranks do not divide them, eight do."""
    with pytest.raises(SpecError) as error:
        taken(replace(SIZES, tensor=7))
    assert "7 tensor ranks" in error.value.message
    assert "8" in (error.value.hint or "")


def test_published_runs_are_met():
    """Mean and worst error on runs that set no constant, as reached; by group, what was published.

    A strong analytical peer reaches 3.65 % mean and 8.87 % worst on its own eight runs (those of
    ``sequence parallel``).
    """
    found = steps.run()
    assert found["held_out"]["rows"] >= 50
    assert found["held_out"]["mean_pct"] <= 4.1
    assert found["held_out"]["worst_pct"] <= 17.0
    most = {
        "sc21 table 1": (2.6, 6.2),
        "sc21 table 2": (1.5, 2.9),
        "sequence parallel": (4.9, 10.2),
        "megascale": (3.4, 5.2),
        "megascale: megatron": (4.0, 7.6),
        "llama 3": (6.4, 8.3),
        "palm": (2.5, 2.5),
        "mpt a100": (5.6, 10.0),
        "mpt h100": (5.1, 17.0),
    }
    for group, (mean, worst) in most.items():
        assert found["groups"][group]["mean_pct"] <= mean, group
        assert found["groups"][group]["worst_pct"] <= worst, group


@pytest.mark.parametrize(
    ("name", "seconds"),
    [("1.7b", 3.53), ("7.5b", 3.70), ("39b", 14.45), ("145b", 24.82), ("530b", 54.08)],
)
def test_the_rows_are_the_published_ones(name: str, seconds: float):
    """Step seconds follow from the printed TFLOP/s by equation 3 of SC'21."""
    row = next(row for row in step_rows.sc21_table1() if row.name == name)
    assert row.seconds == pytest.approx(seconds, abs=0.01)
    assert not row.is_calibration


@pytest.mark.parametrize(
    ("name", "mfu"),
    [
        ("megatron-22b selective", 0.415),
        ("gpt-3-175b selective", 0.514),
        ("megatron-530b selective", 0.560),
        ("megatron-1t selective", 0.563),
    ],
)
def test_the_steps_of_the_sequence_parallel_rows_give_their_mfu(name: str, mfu: float):
    """Published step seconds and published MFU belong together (table 5), within 0.3 points."""
    row = next(row for row in step_rows.sequence() if row.name == name)
    found = step(row.run)
    published = found.mfu * found.seconds / row.seconds
    assert published == pytest.approx(mfu, abs=0.003)


@given(
    tensor=st.sampled_from([1, 2, 4, 8]),
    pipeline=st.sampled_from([1, 2, 4, 8]),
    data=st.sampled_from([1, 4, 32]),
    how=st.builds(
        Training,
        micro_batch=st.sampled_from([1, 2]),
        recompute=st.sampled_from(list(Recompute)),
        zero=st.integers(0, 3),
    ),
    behind=st.sampled_from(list(Behind)),
    slower=st.floats(1.0, 16.0),
)
def test_whatever_the_plan(
    tensor: int, pipeline: int, data: int, how: Training, behind: Behind, slower: float
):
    """No part is negative, MFU is below HFU and both below one, and a slower network never makes
    a step shorter.
    """
    sizes = Parallelism(
        tensor=tensor, pipeline=pipeline, data=data, sequence=4096,
        batch=16 * data * how.micro_batch,
    )  # fmt: skip
    hiding = Hiding(tensor=behind)
    fast, slow = (
        step(TrainingRun(LLAMA, sizes, how, hiding, machine.of(Catalogue().part("h100"), 8, nic)))
        for nic in (400, 400 / slower)
    )
    assert min(fast.parts) >= 0
    assert 0 < fast.mfu <= fast.hfu < 1
    assert 0 <= fast.links < 1
    assert slow.seconds >= fast.seconds * (1 - 1e-9)
