"""``tidemill unit models``: the models that unit commands know by name, with what follows."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen

if TYPE_CHECKING:
    from tidemill.units.models import Model

EXAMPLES = options.example(
    "tidemill unit models", "tidemill unit models llama qwen", "tidemill unit models --json"
)

Words = Annotated[
    list[str] | None,
    typer.Argument(help="Only those whose name has one of these in it.", metavar="[WORD]..."),
]


def models(words: Words = None, as_json: options.Json = False) -> None:
    """Published models: figures, parameters counted from them, cache per token, and the source."""
    import msgspec

    from tidemill.model.errors import SpecError
    from tidemill.units import models as counts
    from tidemill.units import serving
    from tidemill.units.model_zoo import MODELS

    found = [m for m in MODELS if not words or any(w.lower() in m.key for w in words)]
    if not found:
        raise SpecError(
            f"no model has {' or '.join(f'`{word[:50]}`' for word in words or ())} in its name",
            hint="`tidemill unit models` lists all of them",
        )
    if as_json:
        rows = [
            msgspec.to_builtins(model)
            | {
                "parameters": counts.parameters(model),
                "parameters_source": "computed",
                "active_parameters": counts.active_parameters(model),
                "cache_bytes_per_token": serving.cache_per_token(model),
            }
            for model in found
        ]
        screen.json_out(msgspec.json.encode({"models": rows}))
        return
    _table(found)


def _table(found: "list[Model]") -> None:
    from tidemill.units import models as counts
    from tidemill.units import serving

    made = screen.table("model", "10^9 parameters", "active", "layers", "hidden", "heads",
                        "key-value", "experts", "cache KiB/token")  # fmt: skip
    for model in found:
        whole, active = counts.parameters(model), counts.active_parameters(model)
        experts = f"{model.active_experts} of {model.experts}" if model.experts else "-"
        made.add_row(
            model.key, f"{whole / 1e9:,.2f}", f"{active / 1e9:,.2f}" if active != whole else "-",
            f"{model.layers}", f"{model.hidden:,}", f"{model.heads}",
            "latent" if model.kv_rank else f"{model.kv}", experts,
            f"{serving.cache_per_token(model) / 1024:,.1f}",
        )  # fmt: skip
    screen.out().print(made)
    screen.note("parameters are computed from the figures of each row; the figures are from:")
    for source in dict.fromkeys(model.source for model in found):
        screen.note(source)
