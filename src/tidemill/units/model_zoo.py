"""Published models: their figures, as the sources print them, found by name."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from tidemill.model.errors import SpecError
from tidemill.units.models import Model

SC21 = "Narayanan et al., SC'21 (arXiv 2104.04473), table 1"
SEQUENCE_PARALLEL = "Korthikanti et al. 2022 (arXiv 2205.05198), table 3"
LLAMA_2 = (
    "Touvron et al. 2023 (arXiv 2307.09288); its published config.json",
    32_000,
)
LLAMA_3 = (
    "Grattafiori et al. 2024 (arXiv 2407.21783), table 3; its published config.json",
    128_256,
)
QWEN_25 = (
    "Qwen2.5 report (arXiv 2412.15115), table 1; its published config.json",
    152_064,
)
QWEN_3 = "Qwen3 report (arXiv 2505.09388), tables 1 and 2; its published config.json"


def _gpt(key: str, layers: int, hidden: int, heads: int, source: str) -> Model:
    """A GPT as Megatron trains it: four times wide, biases, dropout, 2,048 learned positions."""
    return Model(
        key=key, layers=layers, hidden=hidden, heads=heads, vocabulary=51_200, positions=2048,
        has_biases=True, has_dropout=True, source=source,
    )  # fmt: skip


def _llama(
    key: str, layers: int, hidden: int, heads: tuple[int, int], ffn: int, family: tuple[str, int]
) -> Model:  # fmt: skip
    """A Llama and its like: gated, grouped key-value heads, no biases, two embeddings.

    Of a family of models: its source and its vocabulary.
    """
    source, vocabulary = family
    return Model(
        key=key, layers=layers, hidden=hidden, heads=heads[0], kv_heads=heads[1], ffn=ffn,
        is_gated=True, vocabulary=vocabulary, is_tied=False, source=source,
    )  # fmt: skip


MODELS: tuple[Model, ...] = (
    _gpt("megatron-1.7b", 24, 2304, 24, SC21),
    _gpt("megatron-3.6b", 30, 3072, 32, SC21),
    _gpt("megatron-7.5b", 36, 4096, 32, SC21),
    _gpt("megatron-18b", 40, 6144, 48, SC21),
    _gpt("megatron-39b", 48, 8192, 64, SC21),
    _gpt("megatron-76b", 60, 10_240, 80, SC21),
    _gpt("megatron-145b", 80, 12_288, 96, SC21),
    _gpt("megatron-310b", 96, 16_384, 128, SC21),
    _gpt("megatron-530b", 105, 20_480, 128, f"{SC21}; {SEQUENCE_PARALLEL}"),
    _gpt("megatron-1008b", 128, 25_600, 160, f"{SC21}; {SEQUENCE_PARALLEL}"),
    _gpt("megatron-22b", 48, 6144, 64, SEQUENCE_PARALLEL),
    _gpt(
        "gpt-3-175b", 96, 12_288, 96,
        f"Brown et al. 2020 (arXiv 2005.14165), table 2.1; vocabulary padded as in {SC21}",
    ),
    Model(
        key="palm-540b", layers=118, hidden=18_432, heads=48, kv_heads=1, head_size=256,
        ffn=73_728, is_gated=True, vocabulary=256_000,
        source="Chowdhery et al. 2022 (arXiv 2204.02311), table 1",
    ),
    _llama("llama-2-7b", 32, 4096, (32, 32), 11_008, LLAMA_2),
    _llama("llama-2-13b", 40, 5120, (40, 40), 13_824, LLAMA_2),
    _llama("llama-2-70b", 80, 8192, (64, 8), 28_672, LLAMA_2),
    _llama("llama-3-8b", 32, 4096, (32, 8), 14_336, LLAMA_3),
    _llama("llama-3-70b", 80, 8192, (64, 8), 28_672, LLAMA_3),
    _llama("llama-3-405b", 126, 16_384, (128, 8), 53_248, LLAMA_3),
    Model(
        key="mixtral-8x7b", layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14_336,
        is_gated=True, vocabulary=32_000, is_tied=False, experts=8, active_experts=2,
        source="Jiang et al. 2024 (arXiv 2401.04088), table 1",
    ),
    Model(
        key="deepseek-v3", layers=61, hidden=7168, heads=128, head_size=128, ffn=2048,
        is_gated=True, vocabulary=129_280, is_tied=False, experts=256, active_experts=8,
        shared_experts=1, dense_layers=3, dense_ffn=18_432, kv_rank=512, query_rank=1536,
        rope_size=64,
        source="DeepSeek-AI 2024 (arXiv 2412.19437), section 4.2; without the module that "
        "predicts a second token",
    ),
    _llama("qwen-2.5-7b", 28, 3584, (28, 4), 18_944, QWEN_25),
    _llama("qwen-2.5-32b", 64, 5120, (40, 8), 27_648, QWEN_25),
    _llama("qwen-2.5-72b", 80, 8192, (64, 8), 29_568, QWEN_25),
    Model(
        key="qwen-3-8b", layers=36, hidden=4096, heads=32, kv_heads=8, head_size=128, ffn=12_288,
        is_gated=True, vocabulary=151_936, is_tied=False, source=QWEN_3,
    ),
    Model(
        key="qwen-3-30b-a3b", layers=48, hidden=2048, heads=32, kv_heads=4, head_size=128,
        ffn=768, is_gated=True, vocabulary=151_936, is_tied=False, experts=128,
        active_experts=8, source=QWEN_3,
    ),
    Model(
        key="qwen-3-235b-a22b", layers=94, hidden=4096, heads=64, kv_heads=4, head_size=128,
        ffn=1536, is_gated=True, vocabulary=151_936, is_tied=False, experts=128,
        active_experts=8, source=QWEN_3,
    ),
)  # fmt: skip

ALIASES = {"gpt3": "gpt-3-175b", "gpt-3": "gpt-3-175b", "palm": "palm-540b",
           "mixtral": "mixtral-8x7b", "mt-nlg-530b": "megatron-530b",
           "megatron-1t": "megatron-1008b"}  # fmt: skip


class Zoo:
    """Models by key. Rows that come later replace earlier ones of the same key."""

    def __init__(self, models: Iterable[Model] = ()) -> None:
        self.models = {model.key: model for model in (*MODELS, *models)}

    def model(self, name: str) -> Model:
        """The model of this name: ``llama-3-70b``, however its parts are joined or written."""
        found = self.find(name)
        if found is not None:
            return found
        near = get_close_matches(_plain(name), self.models, n=3, cutoff=0.3)
        raise SpecError(
            f"no model called `{name[:100]}` is known",
            hint=(f"did you mean {', '.join(f'`{key}`' for key in near)}? " if near else "")
            + "see `tidemill unit models`, or give its figures with --layers, --hidden and --heads "
            "or in a TOML file",
        )

    def find(self, name: str) -> Model | None:
        """The same, or None."""
        wanted = _joined(ALIASES.get(_plain(name), name))
        return next((m for m in self.models.values() if _joined(m.key) == wanted), None)


def parameters_in(name: str) -> int | None:
    """The count that a bare size states (``13b``, ``1.5T``): a model of which only that is known.

    None for anything else.
    """
    stated = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([mbt])", name.strip().lower())
    if stated is None:
        return None
    return round(float(stated[1]) * {"m": 1e6, "b": 1e9, "t": 1e12}[stated[2]]) or None


def _plain(name: str) -> str:
    """As keys are written; of ``meta-llama/Llama-3-8B`` only what is after the stroke."""
    return name.strip().lower().replace("_", "-").replace(" ", "-").rpartition("/")[2]


def _joined(name: str) -> str:
    """``Llama3 70B`` and ``llama-3-70b`` are one."""
    return _plain(name).replace("-", "").removeprefix("meta")
