"""A model read from its config.json, as Hugging Face publishes it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tidemill.model.errors import SpecError
from tidemill.units import hf_config, models
from tidemill.units.model_zoo import Zoo

LLAMA = {
    "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
    "num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8,
    "tie_word_embeddings": False, "vocab_size": 128256,
}  # fmt: skip
# What the published files say, without the keys that no count depends on.
PUBLISHED: dict[str, dict[str, Any]] = {
    "llama-3.1-70b": LLAMA,
    "llama-3.2-1b": {**LLAMA, "hidden_size": 2048, "intermediate_size": 8192, "head_dim": 64,
                     "num_attention_heads": 32, "num_hidden_layers": 16,
                     "tie_word_embeddings": True},
    "mistral-7b": {"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
                   "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
                   "sliding_window": None, "vocab_size": 32768},
    "mixtral-8x7b": {"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
                     "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
                     "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000},
    "qwen-2.5-7b": {"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
                    "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28,
                    "num_key_value_heads": 4, "sliding_window": 131072,
                    "tie_word_embeddings": False, "use_sliding_window": False,
                    "vocab_size": 152064},
    "qwen-3-8b": {"model_type": "qwen3", "head_dim": 128, "hidden_size": 4096,
                  "intermediate_size": 12288, "max_window_layers": 36, "num_attention_heads": 32,
                  "num_hidden_layers": 36, "num_key_value_heads": 8, "sliding_window": None,
                  "tie_word_embeddings": False, "use_sliding_window": False,
                  "vocab_size": 151936},
    "qwen-3-235b-a22b": {"model_type": "qwen3_moe", "decoder_sparse_step": 1, "head_dim": 128,
                         "hidden_size": 4096, "intermediate_size": 12288, "mlp_only_layers": [],
                         "moe_intermediate_size": 1536, "num_attention_heads": 64,
                         "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 94,
                         "num_key_value_heads": 4, "tie_word_embeddings": False,
                         "vocab_size": 151936},
    "gemma-2-9b": {"model_type": "gemma2", "head_dim": 256, "hidden_size": 3584,
                   "intermediate_size": 14336, "num_attention_heads": 16, "num_hidden_layers": 42,
                   "num_key_value_heads": 8, "sliding_window": 4096, "vocab_size": 256000},
    "gemma-3-4b": {"model_type": "gemma3", "vision_config": {"hidden_size": 1152},
                   "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
                                   "model_type": "gemma3_text", "num_hidden_layers": 34,
                                   "sliding_window": 1024}},
    "phi-4": {"model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920,
              "num_attention_heads": 40, "num_hidden_layers": 40, "num_key_value_heads": 10,
              "sliding_window": None, "tie_word_embeddings": False, "vocab_size": 100352},
    "deepseek-v3": {"model_type": "deepseek_v3", "first_k_dense_replace": 3, "hidden_size": 7168,
                    "intermediate_size": 18432, "kv_lora_rank": 512,
                    "moe_intermediate_size": 2048, "n_routed_experts": 256,
                    "n_shared_experts": 1, "num_attention_heads": 128,
                    "num_experts_per_tok": 8, "num_hidden_layers": 61,
                    "num_key_value_heads": 128, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
                    "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
                    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}},
    "deepseek-v2-lite": {"model_type": "deepseek_v2", "first_k_dense_replace": 1,
                         "hidden_size": 2048, "intermediate_size": 10944, "kv_lora_rank": 512,
                         "moe_intermediate_size": 1408, "n_routed_experts": 64,
                         "n_shared_experts": 2, "num_attention_heads": 16,
                         "num_experts_per_tok": 6, "num_hidden_layers": 27, "q_lora_rank": None,
                         "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                         "vocab_size": 102400},
    "kimi-k2": {"model_type": "kimi_k2", "first_k_dense_replace": 1, "hidden_size": 7168,
                "intermediate_size": 18432, "kv_lora_rank": 512, "moe_intermediate_size": 2048,
                "n_routed_experts": 384, "n_shared_experts": 1, "num_attention_heads": 64,
                "num_experts_per_tok": 8, "num_hidden_layers": 61, "q_lora_rank": 1536,
                "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                "vocab_size": 163840, "quantization_config": {"quant_method": "fp8"}},
    "llama-4-maverick": {"model_type": "llama4", "text_config": {
        "model_type": "llama4_text", "attention_chunk_size": 8192, "head_dim": 128,
        "hidden_size": 5120, "interleave_moe_layer_step": 2, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "num_attention_heads": 40, "num_experts_per_tok": 1,
        "num_hidden_layers": 48, "num_key_value_heads": 8, "num_local_experts": 128,
        "vocab_size": 202048}},
    "gpt-oss-120b": {"model_type": "gpt_oss", "head_dim": 64, "hidden_size": 2880,
                     "intermediate_size": 2880,
                     "layer_types": ["sliding_attention", "full_attention"] * 18,
                     "num_attention_heads": 64, "num_experts_per_tok": 4,
                     "num_hidden_layers": 36, "num_key_value_heads": 8,
                     "num_local_experts": 128, "sliding_window": 128,
                     "tie_word_embeddings": False, "vocab_size": 201088,
                     "quantization_config": {"quant_method": "mxfp4"}},
    "gpt-neox-20b": {"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576,
                     "num_attention_heads": 64, "num_hidden_layers": 44,
                     "tie_word_embeddings": False, "vocab_size": 50432},
    "falcon-7b": {"model_type": "falcon", "hidden_size": 4544, "multi_query": True,
                  "new_decoder_architecture": False, "num_attention_heads": 71,
                  "num_hidden_layers": 32, "vocab_size": 65024},
    "falcon-40b": {"model_type": "RefinedWeb", "hidden_size": 8192, "n_head": 128,
                   "n_head_kv": 8, "n_layer": 60, "new_decoder_architecture": True,
                   "vocab_size": 65024},
}  # fmt: skip


@pytest.mark.parametrize("key", PUBLISHED)
def test_a_config_gives_the_model_that_the_catalogue_has(key: str):
    """Read from the file, a model has the parameters, cache and windows of its published row."""
    read, known = hf_config.model(PUBLISHED[key], "config.json"), Zoo().model(key)
    assert models.parameters(read) == models.parameters(known)
    assert models.active_parameters(read) == models.active_parameters(known)
    for field in ("layers", "kv", "head", "kv_rank", "window", "window_layers", "published_in"):
        assert getattr(read, field) == getattr(known, field), field


def test_an_unknown_architecture_is_refused_with_the_keys_that_it_has():
    """No count is guessed: the refusal says the model_type, the keys found and what is known."""
    with pytest.raises(SpecError, match=r"model_type `mamba2`.*`d_state`, `model_type`") as refused:
        hf_config.model({"model_type": "mamba2", "d_state": 64}, "config.json")
    assert "qwen3_moe" in refused.value.hint
    assert "--layers" in refused.value.hint


def test_missing_keys_are_all_named_with_those_that_were_read():
    """A part of a config is refused with what it lacks, at once."""
    with pytest.raises(SpecError) as refused:
        hf_config.model({"model_type": "llama", "hidden_size": 8}, "config.json")
    assert "lacks `num_hidden_layers`, `num_attention_heads`" in str(refused.value)
    assert "`intermediate_size`, `vocab_size`; read were `hidden_size`" in str(refused.value)


@pytest.mark.parametrize("broken", [[], 3, {}, {**LLAMA, "hidden_size": "8192"},
                                    {**LLAMA, "num_attention_heads": -4},
                                    {**LLAMA, "num_key_value_heads": 7}])  # fmt: skip
def test_nonsense_is_refused_in_words(broken: object):
    """Whatever the file holds, the answer is a model or a refusal."""
    with pytest.raises(SpecError):
        hf_config.model(broken, "config.json")


@pytest.mark.parametrize("command", ["fit", "roofline"])
def test_commands_take_a_config_by_its_path_and_by_option(command: str, tmp_path: Path):
    """The file, its folder and ``--config`` are the same model, called as the folder is."""
    folder = tmp_path / "my-70b"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    named = ("--config", str(folder)), (str(folder),), (str(folder / "config.json"),)
    said = [tidemill("unit", command, *how, "--on", "h200", "--json").out for how in named]
    assert said[0] == said[1] == said[2]
    assert "my-70b" in said[0]


def test_step_and_mfu_take_a_config_too(tmp_path: Path):
    """A step of one's own 70 B model is that of llama-3.1-70b."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, "_name_or_path": "llama-3.1-70b"}), encoding="utf-8")
    tail = ("--on", "h100", "--gpus", "64", "--tp", "8", "--json")
    mine, published = (tidemill("unit", "step", *how, *tail)
                       for how in ((str(file),), ("llama-3.1-70b",)))  # fmt: skip
    assert (mine.code, mine.out) == (0, published.out)
    ran = ("--units", "64", "--tokens-per-s", "50000")
    assert tidemill("unit", "mfu", "--config", str(file), "--on", "h100", *ran).code == 0


def test_a_model_that_is_not_named_is_asked_for():
    """Neither a name nor a file: the refusal shows both ways."""
    ran = tidemill("unit", "fit", "--on", "h200")
    assert ran.code == 2
    assert "--config" in ran.err


def test_weights_published_in_fewer_bits_are_said():
    """gpt-oss is published in 4 bits: counted in 16, the answer says how to count what it is."""
    said = tidemill("unit", "fit", "gpt-oss-120b", "--on", "h100").out
    assert "published in fp4" in said
    assert "18 of its 36 layers" in said
    fewer = tidemill("unit", "fit", "gpt-oss-120b", "--on", "h100", "--weights", "fp4").out
    assert "fits to serve on 1 × h100" in fewer
    assert "published in" not in fewer
