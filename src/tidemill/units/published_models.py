"""Published models: the figures that their authors print, each with its source.

The figures are those of a model's ``config.json``. Counts of parameters are not written here: they
are computed from the figures (``models.parameters``), and the tests compare them with what the
authors publish; a row whose authors publish no count to compare with says so in its source. Of a
model that also sees, only the language model is here.
"""

from typing import NamedTuple

from msgspec.structs import replace

from tidemill.units.models import Model

SC21 = "Narayanan et al., SC'21 (arXiv 2104.04473), table 1"
SEQUENCE_PARALLEL = "Korthikanti et al. 2022 (arXiv 2205.05198), table 3"
LLAMA_2 = "Touvron et al. 2023 (arXiv 2307.09288); its published config.json"
LLAMA_3 = "Grattafiori et al. 2024 (arXiv 2407.21783), table 3; its published config.json"
QWEN_25 = "Qwen2.5 report (arXiv 2412.15115), table 1; its published config.json"
QWEN_3 = "Qwen3 report (arXiv 2505.09388), tables 1 and 2; its published config.json"
LLAMA_32 = "Llama 3.2 model card (Meta, 2024); its published config.json"
LLAMA_4 = (
    "Llama 4 model card (Meta, 2025); its published config.json; without the vision encoder; "
    "attention in chunks of 8,192 tokens is counted as a window"
)
MISTRAL = "its published config.json (Mistral AI)"
MIXTRAL = "Jiang et al. 2024 (arXiv 2401.04088), table 1"
GEMMA_2 = "Gemma 2 report (arXiv 2408.00118), table 1; its published config.json"
GEMMA_3 = (
    "Gemma 3 report (arXiv 2503.19786), table 1; its published config.json; without the vision "
    "encoder of 0.42e9 parameters that sizes from 4b on have"
)
PHI_3 = "Phi-3 report (arXiv 2404.14219); its published config.json"
PHI_4 = "Phi-4 report (arXiv 2412.08905); its published config.json"
GPT_OSS = "gpt-oss model card (OpenAI 2025, arXiv 2508.10925), table 1; its published config.json"
DEEPSEEK_V2 = "DeepSeek-AI 2024 (arXiv 2405.04434); its published config.json"
DEEPSEEK_V3 = (
    "DeepSeek-AI 2024 (arXiv 2412.19437), section 4.2; without the module that predicts a second "
    "token"
)
KIMI_K2 = (
    "Kimi K2 report (arXiv 2507.20534); its published config.json; the count of parameters could "
    "not be compared: the authors print 1T"
)
FALCON = "Almazrouei et al. 2023 (arXiv 2311.16867); its published config.json"
NEOX = "Black et al. 2022 (arXiv 2204.06745); its published config.json"


def _gpt(key: str, layers: int, hidden: int, heads: int, source: str) -> Model:
    """A GPT as Megatron trains it: four times wide, biases, dropout, 2,048 learned positions."""
    return Model(
        key=key, layers=layers, hidden=hidden, heads=heads, vocabulary=51_200, positions=2048,
        has_biases=True, has_dropout=True, source=source,
    )  # fmt: skip


class _Family(NamedTuple):
    """What the sizes of a family have in common."""

    source: str
    vocabulary: int
    is_tied: bool = False
    window: int = 0
    every: int = 0
    """Each so-many-th layer attends to the whole sequence, the others to the window."""


def _llama(
    key: str, layers: int, hidden: int, heads: tuple[int, ...], ffn: int, family: _Family
) -> Model:  # fmt: skip
    """A Llama and its like: gated, no biases. Heads, key-value heads and, if given, their size."""
    return Model(
        key=key, layers=layers, hidden=hidden, heads=heads[0], kv_heads=heads[1],
        head_size=heads[2] if len(heads) > 2 else 0, ffn=ffn, is_gated=True,
        vocabulary=family.vocabulary, is_tied=family.is_tied, window=family.window,
        window_layers=layers - layers // family.every if family.every else 0,
        source=family.source,
    )  # fmt: skip


def _routed(model: Model, experts: int, active: int) -> Model:
    """The same with experts in every layer, none shared: Mixtral, Qwen3."""
    return replace(model, experts=experts, active_experts=active)


def _gpt_oss(key: str, layers: int, experts: int) -> Model:
    """A gpt-oss: four experts of many, every second layer with a window of 128 tokens."""
    return Model(
        key=key, layers=layers, hidden=2880, heads=64, kv_heads=8, head_size=64, ffn=2880,
        is_gated=True, vocabulary=201_088, is_tied=False, experts=experts, active_experts=4,
        window=128, window_layers=layers // 2, published_in="fp4", source=GPT_OSS,
    )  # fmt: skip


def _llama_4(key: str, experts: int, dense_layers: int) -> Model:
    """A Llama 4: one expert of many and a shared one; three layers of four attend in chunks."""
    return Model(
        key=key, layers=48, hidden=5120, heads=40, kv_heads=8, head_size=128, ffn=8192,
        is_gated=True, vocabulary=202_048, is_tied=False, experts=experts, active_experts=1,
        shared_experts=1, dense_layers=dense_layers, dense_ffn=16_384, window=8192,
        window_layers=36, source=LLAMA_4,
    )  # fmt: skip


def _deepseek_v3(key: str) -> Model:
    return Model(
        key=key, layers=61, hidden=7168, heads=128, head_size=128, ffn=2048,
        is_gated=True, vocabulary=129_280, is_tied=False, experts=256, active_experts=8,
        shared_experts=1, dense_layers=3, dense_ffn=18_432, kv_rank=512, query_rank=1536,
        rope_size=64, published_in="fp8", source=DEEPSEEK_V3,
    )  # fmt: skip


_LLAMA_2, _LLAMA_3 = _Family(LLAMA_2, 32_000), _Family(LLAMA_3, 128_256)
_LLAMA_32 = _Family(LLAMA_32, 128_256, is_tied=True)
_MISTRAL = _Family(MISTRAL, 131_072)
_QWEN_25, _QWEN_25_SMALL = _Family(QWEN_25, 152_064), _Family(QWEN_25, 151_936, is_tied=True)
_QWEN_3, _QWEN_3_SMALL = _Family(QWEN_3, 151_936), _Family(QWEN_3, 151_936, is_tied=True)
_GEMMA_2 = _Family(GEMMA_2, 256_000, is_tied=True, window=4096, every=2)
_GEMMA_3 = _Family(GEMMA_3, 262_208, is_tied=True, window=1024, every=6)
_PHI_3 = _Family(f"{PHI_3}; without the window of its 4k version", 32_064)


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
        key="gpt-neox-20b", layers=44, hidden=6144, heads=64, vocabulary=50_432, is_tied=False,
        has_biases=True, is_parallel=True, source=NEOX,
    ),
    Model(
        key="palm-540b", layers=118, hidden=18_432, heads=48, kv_heads=1, head_size=256,
        ffn=73_728, is_gated=True, vocabulary=256_000,
        source="Chowdhery et al. 2022 (arXiv 2204.02311), table 1",
    ),
    Model(
        key="falcon-7b", layers=32, hidden=4544, heads=71, kv_heads=1, vocabulary=65_024,
        is_parallel=True, source=FALCON,
    ),
    Model(
        key="falcon-40b", layers=60, hidden=8192, heads=128, kv_heads=8, vocabulary=65_024,
        is_parallel=True, source=FALCON,
    ),
    Model(
        key="falcon-180b", layers=80, hidden=14_848, heads=232, kv_heads=8, vocabulary=65_024,
        is_parallel=True, source=FALCON,
    ),
    _llama("llama-2-7b", 32, 4096, (32, 32), 11_008, _LLAMA_2),
    _llama("llama-2-13b", 40, 5120, (40, 40), 13_824, _LLAMA_2),
    _llama("llama-2-70b", 80, 8192, (64, 8), 28_672, _LLAMA_2),
    _llama("llama-3-8b", 32, 4096, (32, 8), 14_336, _LLAMA_3),
    _llama("llama-3-70b", 80, 8192, (64, 8), 28_672, _LLAMA_3),
    _llama("llama-3-405b", 126, 16_384, (128, 8), 53_248, _LLAMA_3),
    _llama("llama-3.1-8b", 32, 4096, (32, 8), 14_336, _LLAMA_3),
    _llama("llama-3.1-70b", 80, 8192, (64, 8), 28_672, _LLAMA_3),
    _llama("llama-3.1-405b", 126, 16_384, (128, 8), 53_248, _LLAMA_3),
    _llama("llama-3.2-1b", 16, 2048, (32, 8), 8192, _LLAMA_32),
    _llama("llama-3.2-3b", 28, 3072, (24, 8), 8192, _LLAMA_32),
    _llama("llama-3.3-70b", 80, 8192, (64, 8), 28_672, _LLAMA_3),
    _llama_4("llama-4-scout", 16, 0),
    _llama_4("llama-4-maverick", 128, 24),
    _llama("mistral-7b", 32, 4096, (32, 8), 14_336, _Family(f"{MISTRAL}, v0.3", 32_768)),
    _llama("mistral-nemo-12b", 40, 5120, (32, 8, 128), 14_336, _MISTRAL),
    _llama("mistral-small-24b", 40, 5120, (32, 8, 128), 32_768, _MISTRAL),
    _llama("mistral-large-123b", 88, 12_288, (96, 8), 28_672, _Family(MISTRAL, 32_768)),
    _routed(_llama("mixtral-8x7b", 32, 4096, (32, 8), 14_336, _Family(MIXTRAL, 32_000)), 8, 2),
    _routed(_llama("mixtral-8x22b", 56, 6144, (48, 8), 16_384, _Family(MISTRAL, 32_768)), 8, 2),
    Model(
        key="deepseek-v2", layers=60, hidden=5120, heads=128, head_size=128, ffn=1536,
        is_gated=True, vocabulary=102_400, is_tied=False, experts=160, active_experts=6,
        shared_experts=2, dense_layers=1, dense_ffn=12_288, kv_rank=512, query_rank=1536,
        rope_size=64, source=DEEPSEEK_V2,
    ),
    Model(
        key="deepseek-v2-lite", layers=27, hidden=2048, heads=16, head_size=128, ffn=1408,
        is_gated=True, vocabulary=102_400, is_tied=False, experts=64, active_experts=6,
        shared_experts=2, dense_layers=1, dense_ffn=10_944, kv_rank=512, rope_size=64,
        source=DEEPSEEK_V2,
    ),
    _deepseek_v3("deepseek-v3"),
    _deepseek_v3("deepseek-r1"),
    Model(
        key="kimi-k2", layers=61, hidden=7168, heads=64, head_size=128, ffn=2048,
        is_gated=True, vocabulary=163_840, is_tied=False, experts=384, active_experts=8,
        shared_experts=1, dense_layers=1, dense_ffn=18_432, kv_rank=512, query_rank=1536,
        rope_size=64, published_in="fp8", source=KIMI_K2,
    ),
    _llama("qwen-2.5-0.5b", 24, 896, (14, 2), 4864, _QWEN_25_SMALL),
    _llama("qwen-2.5-1.5b", 28, 1536, (12, 2), 8960, _QWEN_25_SMALL),
    _llama("qwen-2.5-3b", 36, 2048, (16, 2), 11_008, _QWEN_25_SMALL),
    _llama("qwen-2.5-7b", 28, 3584, (28, 4), 18_944, _QWEN_25),
    _llama("qwen-2.5-14b", 48, 5120, (40, 8), 13_824, _QWEN_25),
    _llama("qwen-2.5-32b", 64, 5120, (40, 8), 27_648, _QWEN_25),
    _llama("qwen-2.5-72b", 80, 8192, (64, 8), 29_568, _QWEN_25),
    _llama("qwen-3-0.6b", 28, 1024, (16, 8, 128), 3072, _QWEN_3_SMALL),
    _llama("qwen-3-1.7b", 28, 2048, (16, 8, 128), 6144, _QWEN_3_SMALL),
    _llama("qwen-3-4b", 36, 2560, (32, 8, 128), 9728, _QWEN_3_SMALL),
    _llama("qwen-3-8b", 36, 4096, (32, 8, 128), 12_288, _QWEN_3),
    _llama("qwen-3-14b", 40, 5120, (40, 8, 128), 17_408, _QWEN_3),
    _llama("qwen-3-32b", 64, 5120, (64, 8, 128), 25_600, _QWEN_3),
    _routed(_llama("qwen-3-30b-a3b", 48, 2048, (32, 4, 128), 768, _QWEN_3), 128, 8),
    _routed(_llama("qwen-3-235b-a22b", 94, 4096, (64, 4, 128), 1536, _QWEN_3), 128, 8),
    _llama("gemma-2-2b", 26, 2304, (8, 4, 256), 9216, _GEMMA_2),
    _llama("gemma-2-9b", 42, 3584, (16, 8, 256), 14_336, _GEMMA_2),
    _llama("gemma-2-27b", 46, 4608, (32, 16, 128), 36_864, _GEMMA_2),
    _llama("gemma-3-1b", 26, 1152, (4, 1, 256), 6912,
           _GEMMA_3._replace(vocabulary=262_144, window=512)),
    _llama("gemma-3-4b", 34, 2560, (8, 4, 256), 10_240, _GEMMA_3),
    _llama("gemma-3-12b", 48, 3840, (16, 8, 256), 15_360, _GEMMA_3),
    _llama("gemma-3-27b", 62, 5376, (32, 16, 128), 21_504, _GEMMA_3),
    _llama("phi-3-mini", 32, 3072, (32, 32), 8192, _PHI_3),
    _llama("phi-3-medium", 40, 5120, (40, 10), 17_920, _PHI_3),
    _llama("phi-4", 40, 5120, (40, 10), 17_920, _Family(PHI_4, 100_352)),
    _gpt_oss("gpt-oss-20b", 24, 32),
    _gpt_oss("gpt-oss-120b", 36, 128),
)  # fmt: skip
