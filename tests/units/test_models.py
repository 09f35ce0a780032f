"""Models: what they are made of, against the counts that their authors publish."""

import pytest
from msgspec.structs import replace

from tidemill.model.errors import SpecError
from tidemill.units import model_zoo, models
from tidemill.units.model_zoo import Zoo
from tidemill.units.models import Model

ZOO = Zoo()

# (model, parameters, active parameters or None, tolerance). Counts are those of the checkpoints
# (safetensors metadata of the published weights), unless a paper prints more digits than its name.
PUBLISHED = [
    ("llama-2-7b", 6.738e9, None, 1e-3),
    ("llama-2-13b", 13.016e9, None, 1e-3),
    ("llama-2-70b", 68.977e9, None, 1e-3),
    ("llama-3-8b", 8.030e9, None, 1e-3),
    ("llama-3-70b", 70.554e9, None, 1e-3),
    ("llama-3-405b", 405.85e9, None, 1e-3),
    ("palm-540b", 540.35e9, None, 1e-3),
    ("mixtral-8x7b", 46.70e9, 12.88e9, 1e-3),
    ("deepseek-v3", 671.03e9, 37e9, 0.02),  # the paper prints "671B" and "37B", nothing finer
    ("qwen-2.5-7b", 7.616e9, None, 1e-3),
    ("qwen-2.5-32b", 32.764e9, None, 1e-3),
    ("qwen-2.5-72b", 72.706e9, None, 1e-3),
    ("qwen-3-8b", 8.191e9, None, 1e-3),
    ("qwen-3-30b-a3b", 30.532e9, 3.3e9, 0.02),  # "3.3B" activated
    ("qwen-3-235b-a22b", 235.09e9, 22.2e9, 0.01),
    ("gpt-3-175b", 175e9, None, 0.01),  # the paper rounds: 174.6 by its own figures
]


@pytest.mark.parametrize(
    ("key", "total", "active", "within"), PUBLISHED, ids=[row[0] for row in PUBLISHED]
)
def test_parameters_are_those_of_the_published_weights(
    key: str, total: float, active: float | None, within: float
):
    """Counted from its figures, a model has as many parameters as its authors say."""
    model = models.check(ZOO.model(key))
    assert models.parameters(model) == pytest.approx(total, rel=within)
    assert models.active_parameters(model) == pytest.approx(active or total, rel=within)


# Narayanan et al., SC'21 (arXiv 2104.04473), table 1: parameters in 10^9, heads, hidden, layers.
SC21 = [
    ("megatron-1.7b", 1.7, 24, 2304, 24),
    ("megatron-3.6b", 3.6, 32, 3072, 30),
    ("megatron-7.5b", 7.5, 32, 4096, 36),
    ("megatron-18b", 18.4, 48, 6144, 40),
    ("megatron-39b", 39.1, 64, 8192, 48),
    ("megatron-76b", 76.1, 80, 10_240, 60),
    ("megatron-145b", 145.6, 96, 12_288, 80),
    ("megatron-310b", 310.1, 128, 16_384, 96),
    ("megatron-530b", 529.6, 128, 20_480, 105),
    ("megatron-1008b", 1008.0, 160, 25_600, 128),
]


@pytest.mark.parametrize(("key", "billions", "heads", "hidden", "layers"), SC21)
def test_sc21_parameters(key: str, billions: float, heads: int, hidden: int, layers: int):
    """Matrix by matrix gives the paper's formula but for the last norm, and its table.

    The table has one digit after the point: half a unit of it is 3 % of 1.7, and 1 % is enough
    from 7.5 on.
    """
    model = ZOO.model(key)
    assert (model.heads, model.hidden, model.layers) == (heads, hidden, layers)
    shape = 1 + 13 / (12 * hidden) + (51_200 + 2048) / (12 * layers * hidden)
    formula = 12 * layers * hidden**2 * shape
    assert models.parameters(model) == pytest.approx(formula + 2 * hidden, rel=1e-12)
    assert models.parameters(model) / 1e9 == pytest.approx(billions, rel=0.01, abs=0.05)


def test_active_parameters_of_a_dense_model_are_all_of_them():
    """Without experts every token meets every parameter."""
    model = ZOO.model("llama-3-70b")
    assert models.active_parameters(model) == models.parameters(model)


def test_names_are_found_however_they_are_written():
    """Case, spaces and hyphens do not matter, and a few have a second name."""
    assert ZOO.model("Llama3 70B").key == "llama-3-70b"
    assert ZOO.model("meta-llama/Llama-3-8B").key == "llama-3-8b"
    assert ZOO.model("gpt3").key == "gpt-3-175b"
    assert ZOO.model("Qwen2.5-72B").key == "qwen-2.5-72b"


def test_an_unknown_name_gets_its_nearest_matches():
    """The refusal names models that are spelt alike, and the way to describe one's own."""
    with pytest.raises(SpecError, match="no model called `llama-3-71b`") as refused:
        ZOO.model("llama-3-71b")
    assert "`llama-3-70b`" in refused.value.hint
    assert "--layers" in refused.value.hint


def test_a_row_of_ones_own_replaces_a_published_one():
    """Later rows win, so that a user file may correct the zoo."""
    own = Model(key="llama-3-8b", layers=1, hidden=8, heads=2)
    assert Zoo([own]).model("llama 3 8b") == own


@pytest.mark.parametrize(
    ("name", "count"),
    [("13b", 13 * 10**9), ("1.5T", 15 * 10**11), ("350m", 350 * 10**6), ("0b", None),
     ("llama-3-8b", None), ("b", None)],
)  # fmt: skip
def test_a_bare_size_is_a_count(name: str, count: int | None):
    """``13b`` alone states a number of parameters and nothing else."""
    assert model_zoo.parameters_in(name) == count


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"heads": 3}, "hidden 8 is not a multiple of its 3 heads"),
        ({"kv_heads": 3}, "4 heads do not divide over 3 key-value heads"),
        ({"experts": 4}, "0 active of 4 experts"),
        ({"experts": 4, "active_experts": 5}, "5 active of 4 experts"),
        ({"dense_layers": 3}, "3 dense layers of 2"),
    ],
)
def test_figures_that_contradict_each_other_are_refused(wrong: dict[str, int], says: str):
    """A model that cannot exist is refused in words that name the figures."""
    sound = Model(key="mine", layers=2, hidden=8, heads=4)
    with pytest.raises(SpecError, match=says):
        models.check(replace(sound, **wrong))


def test_every_published_model_is_sound_and_says_where_it_is_from():
    """The zoo keeps its own rules, and no figure is without a source."""
    for model in model_zoo.MODELS:
        assert models.check(model).source
    assert len({model.key for model in model_zoo.MODELS}) == len(model_zoo.MODELS)
