"""Models: what they are made of, against the counts that their authors publish."""

import pytest
from msgspec.structs import replace

from tidemill.model.errors import SpecError
from tidemill.units import model_zoo, models, serving
from tidemill.units.model_zoo import MODELS, Zoo
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
# Parameters of the published weights to the last one: safetensors metadata, presets of KerasHub
# (`params`: Gemma 2 and 3 without vision, Qwen3, Phi-3, Mistral v0.3), or the paper (GPT-NeoX).
COUNTED = {
    "llama-3.1-8b": 8_030_261_248, "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800, "llama-3.3-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400, "llama-3.2-3b": 3_212_749_824,
    "mistral-7b": 7_248_023_552, "mixtral-8x7b": 46_702_792_704,
    "qwen-2.5-14b": 14_770_033_664, "qwen-2.5-32b": 32_763_876_352,
    "qwen-2.5-72b": 72_706_203_648, "qwen-3-0.6b": 596_049_920, "qwen-3-1.7b": 1_720_574_976,
    "qwen-3-4b": 4_022_468_096, "qwen-3-8b": 8_190_735_360, "qwen-3-14b": 14_768_307_200,
    "qwen-3-32b": 32_762_123_264, "qwen-3-30b-a3b": 30_532_122_624,
    "qwen-3-235b-a22b": 235_093_634_560, "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984, "gemma-2-27b": 27_227_128_320, "gemma-3-1b": 999_885_952,
    "gemma-3-4b": 3_880_099_328, "gemma-3-12b": 11_765_788_416, "gemma-3-27b": 27_009_002_240,
    "phi-3-mini": 3_821_079_552, "deepseek-r1": 671_026_419_200, "deepseek-v3": 671_026_419_200,
    "gpt-neox-20b": 20_554_567_680,
}  # fmt: skip
# What model cards and papers print, rounded.
ROUNDED = {
    "llama-4-scout": 109e9 - 0.87e9, "llama-4-maverick": 402e9 - 0.87e9,  # cards, less vision
    "mistral-nemo-12b": 12.2e9, "mistral-small-24b": 23.6e9, "mistral-large-123b": 123e9,
    "mixtral-8x22b": 141e9, "qwen-2.5-0.5b": 0.49e9, "qwen-2.5-1.5b": 1.54e9,
    "qwen-2.5-3b": 3.09e9, "phi-3-medium": 14e9, "phi-4": 14.7e9, "gpt-oss-20b": 20.91e9,
    "gpt-oss-120b": 116.83e9, "deepseek-v2": 236e9, "deepseek-v2-lite": 15.7e9,
    "falcon-7b": 6.92e9, "falcon-40b": 41.3e9, "falcon-180b": 180e9,
}  # fmt: skip
NOT_COMPARED = {"kimi-k2"}
"""Their authors print no count within a hundredth; the source of the row says so."""


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


def test_parameters_add_up_to_those_of_the_weights():
    """Within 0.01 %: small vectors (biases of queries, norms of heads) are not counted."""
    computed = {key: models.parameters(ZOO.model(key)) for key in COUNTED}
    assert computed == pytest.approx(COUNTED, rel=1e-4)


def test_parameters_round_to_what_cards_print():
    """Within a hundredth, where only a rounded count is published."""
    computed = {key: models.parameters(ZOO.model(key)) for key in ROUNDED}
    assert computed == pytest.approx(ROUNDED, rel=0.01)


def test_no_row_is_without_a_count_to_compare_with():
    """A new row brings its published count, or its source says that there is none."""
    compared = (
        {row[0] for row in PUBLISHED} | set(COUNTED) | set(ROUNDED) | {row[0] for row in SC21}
    )
    rest = {model.key for model in MODELS} - compared - {"megatron-22b"}
    assert rest == NOT_COMPARED
    assert all("could not be compared" in ZOO.model(key).source for key in NOT_COMPARED)


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


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"),
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"),
        ("llama3.1 70b", "llama-3.1-70b"),
        ("LLAMA_3_3_70B", "llama-3.3-70b"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4-scout"),
        ("llama-4-maverick", "llama-4-maverick"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen-2.5-7b"),
        ("qwen3-32b", "qwen-3-32b"),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507", "qwen-3-235b-a22b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"),
        ("mistralai/Mixtral-8x22B-Instruct-v0.1", "mixtral-8x22b"),
        ("google/gemma-2-27b-it", "gemma-2-27b"),
        ("google/gemma-3-12b-it", "gemma-3-12b"),
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-r1"),
        ("r1", "deepseek-r1"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("microsoft/phi-4", "phi-4"),
        ("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini"),
        ("tiiuae/falcon-40b", "falcon-40b"),
    ],
)
def test_the_names_that_people_type_are_known(typed: str, key: str):
    """As on the model's page, with or without organisation and tuning, in any case."""
    assert ZOO.model(typed).key == key


def test_no_two_models_are_one_when_separators_are_left_out():
    """``llama-3.1-8b`` and ``llama-31-8b`` would be: every key stays itself."""
    for model in MODELS:
        assert ZOO.model(model.key).key == model.key


def test_a_window_bounds_what_a_layer_keeps():
    """Of gemma-3-27b 52 of 62 layers keep 1,024 tokens: of 128k, a sixth of the cache is left."""
    model = ZOO.model("gemma-3-27b")
    whole = replace(model, window=0, window_layers=0)
    assert models.attended(model, 1024) == 1024
    assert models.attended(model, 131_072) == (10 * 131_072 + 52 * 1024) / 62
    ratio = serving.cache_per_sequence(model, 131_072) / serving.cache_per_sequence(whole, 131_072)
    assert 0.16 < ratio < 0.17


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
        ({"window": 8}, "a window of 8 tokens in 0 of 2 layers"),
    ],
)
def test_figures_that_contradict_each_other_are_refused(wrong: dict[str, int], says: str):
    """A model that cannot exist is refused in words that name the figures."""
    sound = Model(key="mine", layers=2, hidden=8, heads=4)
    with pytest.raises(SpecError, match=says):
        models.check(replace(sound, **wrong))


def test_every_published_model_is_sound_and_says_where_it_is_from():
    """The zoo keeps its own rules, and no figure is without a source."""
    for model in MODELS:
        assert models.check(model).source
    assert len({model.key for model in MODELS}) == len(MODELS)
