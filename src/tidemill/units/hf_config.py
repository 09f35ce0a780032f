"""A model from its ``config.json``, as Hugging Face publishes it beside the weights.

Every family of models names its figures in its own way; a row of ``FAMILIES`` says which keys it
has, which of them may be missing (the library then has a default) and what its layers are. Of a
model that also sees or hears, the ``text_config`` is read. A family that is not in the table is
refused: a guess would give a wrong count without a word.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from tidemill.model import decoding
from tidemill.model.errors import SpecError
from tidemill.units import models
from tidemill.units.models import Model

Config = Mapping[str, object]


class Family(NamedTuple):
    """How a family writes its figures: the key of each field of a model, and what it leaves out."""

    keys: Mapping[str, tuple[str, ...]]
    """Field of a model: the keys that may hold it, the first that is there counts."""
    defaults: Mapping[str, int | bool] = {}
    """Fields whose key may be missing, with what the library then takes."""
    fixed: Mapping[str, int | bool] = {}
    """Fields that no key says, because the family is made so."""
    more: Callable[[Config, dict[str, int]], Mapping[str, int]] = lambda *_: {}
    """Fields that follow from several keys; is given the config and the fields read so far."""


_KEYS = {
    "layers": ("num_hidden_layers", "n_layer"),
    "hidden": ("hidden_size", "n_embd"),
    "heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
    "head_size": ("head_dim",),
    "ffn": ("intermediate_size", "ffn_hidden_size", "n_inner"),
    "vocabulary": ("vocab_size",),
    "is_tied": ("tie_word_embeddings",),
}
_OPTIONAL = {"kv_heads": 0, "head_size": 0, "is_tied": False}
_ACTIVE = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token")


def _windows(config: Config, read: dict[str, int]) -> dict[str, int]:
    """Sliding windows: by the list of layer types, by every n-th layer, or in all layers."""
    window = _whole(config, "sliding_window", "attention_chunk_size")
    if not window or config.get("use_sliding_window") is False:
        return {}
    layers = read["layers"]
    listed = config.get("layer_types")
    if isinstance(listed, list):
        some = sum(kind in ("sliding_attention", "chunked_attention") for kind in listed[:layers])
    elif (start := _whole(config, "max_window_layers")) is not None:
        some = max(0, layers - start)
    else:
        every = _whole(config, "sliding_window_pattern", "_sliding_window_pattern")
        some = layers - layers // every if every else layers
    return {"window": window, "window_layers": some} if some else {}


def _every(layers_between: int) -> Callable[[Config, dict[str, int]], dict[str, int]]:
    """Windows in all layers but each so-many-th, where the config has no pattern of its own."""
    return lambda config, read: _windows({"sliding_window_pattern": layers_between, **config}, read)


def _llama_4(config: Config, read: dict[str, int]) -> dict[str, int]:
    step = _whole(config, "interleave_moe_layer_step") or 1
    dense = read["layers"] - read["layers"] // step
    return {"dense_layers": dense, "shared_experts": 1, **_every(4)(config, read)}


def _qwen_moe(config: Config, read: dict[str, int]) -> dict[str, int]:
    """Shared experts are given by their width together; layers without experts by a list."""
    shared = _whole(config, "shared_expert_intermediate_size") or 0
    listed = config.get("mlp_only_layers")
    step = _whole(config, "decoder_sparse_step") or 1
    dense = len(listed) if isinstance(listed, list) else 0
    if step > 1:
        dense = read["layers"] - read["layers"] // step
    found = {"shared_experts": -(-shared // read["ffn"]), "dense_layers": dense}
    return {**found, "dense_ffn": _whole(config, "intermediate_size") or 0} if dense else found


def _deepseek(config: Config, _read: dict[str, int]) -> dict[str, int]:
    """Latent attention; the sizes of a key and of a value are one here, as in all published."""
    nope, value = _whole(config, "qk_nope_head_dim"), _whole(config, "v_head_dim")
    if nope != value:
        raise SpecError(
            f"the config has `qk_nope_head_dim` {nope} and `v_head_dim` {value}",
            hint="keys and values of different sizes are not known here; make them alike",
        )
    return {"head_size": nope or 0, "query_rank": _whole(config, "q_lora_rank") or 0}


def _falcon(config: Config, read: dict[str, int]) -> dict[str, int]:
    """One key-value head for all, unless the newer layers say how many."""
    if config.get("new_decoder_architecture"):
        return {}
    return {"kv_heads": 1 if config.get("multi_query", True) else read["heads"]}


def _gated(**changed: object) -> Family:
    """A family like Llama, with what differs."""
    made = Family(_KEYS, _OPTIONAL, {"is_gated": True}, _windows)
    return made._replace(**changed)  # type: ignore[arg-type]  # fields of a Family


def _with_experts(count: str, ffn: str, **changed: object) -> Family:
    keys = {**_KEYS, "experts": (count,), "active_experts": _ACTIVE, "ffn": (ffn,)}
    return _gated(keys=keys, **changed)


_UNDER_MLA = ("kv_heads", "head_size")  # said by other keys there
_MLA = _with_experts("n_routed_experts", "moe_intermediate_size")._replace(more=_deepseek)
_MLA = _MLA._replace(
    keys={
        **{field: keys for field, keys in _MLA.keys.items() if field not in _UNDER_MLA},
        "shared_experts": ("n_shared_experts",), "dense_layers": ("first_k_dense_replace",),
        "dense_ffn": ("intermediate_size",), "kv_rank": ("kv_lora_rank",),
        "rope_size": ("qk_rope_head_dim",),
    },
    defaults={"is_tied": False, "shared_experts": 0, "dense_layers": 0},
)  # fmt: skip
_GEMMA = {"kv_heads": 0, "head_size": 256, "is_tied": True}
_BIASED = {"has_biases": True}
FAMILIES: dict[str, Family] = {
    **dict.fromkeys(("llama", "mistral", "ministral", "qwen2", "qwen3", "phi3"), _gated()),
    "gemma": _gated(defaults=_GEMMA, more=lambda *_: {}),
    "gemma2": _gated(defaults=_GEMMA, more=_every(2)),
    "gemma3_text": _gated(
        defaults={**_GEMMA, "heads": 8, "kv_heads": 4, "vocabulary": 262_208}, more=_every(6)
    ),
    "mixtral": _with_experts("num_local_experts", "intermediate_size"),
    "qwen2_moe": _with_experts("num_experts", "moe_intermediate_size", more=_qwen_moe),
    "qwen3_moe": _with_experts("num_experts", "moe_intermediate_size", more=_qwen_moe),
    "gpt_oss": _with_experts("num_local_experts", "intermediate_size", more=_every(2)),
    "llama4_text": _with_experts("num_local_experts", "intermediate_size", more=_llama_4),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "kimi_k2"), _MLA),
    "gpt_neox": Family(
        _KEYS, _OPTIONAL, {**_BIASED, "is_parallel": True}
    ),
    "gpt2": Family(
        {**_KEYS, "positions": ("n_positions", "n_ctx")},
        {**_OPTIONAL, "is_tied": True, "ffn": 0}, {**_BIASED, "has_dropout": True},
    ),
    "falcon": Family(
        _KEYS, {**_OPTIONAL, "is_tied": True, "ffn": 0}, {"is_parallel": True}, _falcon
    ),
}  # fmt: skip
FAMILIES["llama4_text"] = FAMILIES["llama4_text"]._replace(
    keys={**FAMILIES["llama4_text"].keys, "dense_ffn": ("intermediate_size_mlp",)}
)
_SAME = {"RefinedWeb": "falcon", "RefinedWebModel": "falcon", "gemma3": "gemma3_text",
         "llama4": "llama4_text", "mistral3": "mistral"}  # fmt: skip


def model(config: object, name: str, key: str = "") -> Model:
    """The model of a parsed ``config.json``; a refusal says what was read and what is missing.

    ``name`` is that of the file, for messages; ``key`` that of the model.
    """
    if not isinstance(config, dict):
        raise SpecError(
            f"`{name}` holds no object", hint="a config.json begins with `{` and has `model_type`"
        )
    inner = config.get("text_config")
    text: Config = {**config, **inner} if isinstance(inner, dict) else config
    kind = _kind(text, name)
    family = FAMILIES[kind]
    fields = _fields(text, family, name, kind)
    fields |= family.more(text, {field: int(value) for field, value in fields.items()})
    made: dict[str, object] = {**fields, **family.fixed}
    made |= {"key": (key or name)[:100], "published_in": _published_in(config)}
    made["source"] = f"{name}: config.json of model_type `{kind}`" + (
        "; the language model alone" if isinstance(inner, dict) else ""
    )
    try:
        return models.check(msgspec.convert(made, Model))
    except msgspec.ValidationError as error:
        raise SpecError(
            f"`{name}`: {decoding.mismatch(error, Model, made)}",
            hint="its figures are whole numbers above 0",
        ) from error


def _kind(config: Config, name: str) -> str:
    """The family that a config says it is of."""
    said = str(config.get("model_type") or "")
    kind = _SAME.get(said, said)
    if kind in FAMILIES:
        return kind
    what = f"is of model_type `{said[:50]}`, which is not known here" if said else "no `model_type`"
    raise SpecError(
        f"`{name}` {what if said else f'has {what}'}; its keys are {_some(config)}",
        hint=f"known are {', '.join(sorted(FAMILIES))}; of another model give the figures: "
        "--layers, --hidden, --heads, --kv-heads, --ffn, --gated and --vocabulary",
    )


def _fields(config: Config, family: Family, name: str, kind: str) -> dict[str, int | bool]:
    """What each key holds; every key that is missing is named at once."""
    found: dict[str, int | bool] = {}
    missing: list[str] = []
    for field, keys in family.keys.items():
        value = next((config[key] for key in keys if config.get(key) is not None), None)
        if isinstance(value, int):
            found[field] = value
        elif value is None and field in family.defaults:
            found[field] = family.defaults[field]
        else:
            missing.append(keys[0] if value is None else f"{keys[0]} (not a whole number)")
    if missing:
        read = [key for keys in family.keys.values() for key in keys if key in config]
        raise SpecError(
            f"`{name}` ({kind}) lacks {', '.join(f'`{key}`' for key in missing)}; read were "
            + (", ".join(f"`{key}`" for key in read) or "none"),
            hint="take the config.json that lies beside the weights, whole",
        )
    return found


def _published_in(config: Config) -> str:
    """The precision of quantised weights, by the name that ``--weights`` takes; else nothing."""
    told = config.get("quantization_config")
    if not isinstance(told, dict):
        return ""
    said = f"{told.get('quant_method')} {told.get('fmt')} {told.get('quant_algo')}".lower()
    bits = told.get("bits") or (4 if told.get("load_in_4bit") else 8 if "8" in said else 0)
    if "fp4" in said:
        return "fp4"
    if "fp8" in said:
        return "fp8"
    return {4: "int4", 8: "int8"}.get(bits, "") if isinstance(bits, int) else ""


def _whole(config: Config, *keys: str) -> int | None:
    value = next((config[key] for key in keys if config.get(key) is not None), None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _some(config: Config) -> str:
    return ", ".join(f"`{str(key)[:40]}`" for key in sorted(map(str, config))[:8]) or "none"
