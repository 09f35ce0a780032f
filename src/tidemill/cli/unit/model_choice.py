"""The model that unit commands ask about: a name, a file, or figures on the command line.

A file is a ``config.json`` as Hugging Face has it (or the folder that it lies in), or TOML.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.model import decoding
from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    from tidemill.units.models import Model

Name = Annotated[
    str,
    typer.Argument(
        metavar="[MODEL]", show_default=False,
        help="A published model (`llama-3.1-70b`, `meta-llama/Llama-3.1-70B-Instruct`), a "
        "config.json or the folder it is in, a TOML file with its figures, a name of your own "
        "beside --layers, --hidden and --heads, or only a size (`13b`).",
    ),
]  # fmt: skip
Config = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="FILE", show_default=False,
        help="The model's config.json, as Hugging Face has it (or the folder it is in).",
    ),
]  # fmt: skip
_OWN = "Figures of a model"


def _figure(name: str, text: str) -> typer.models.OptionInfo:
    found = typer.Option(name, help=text, min=0, rich_help_panel=_OWN, show_default=False)
    assert isinstance(found, typer.models.OptionInfo)
    return found


FIGURES = {
    "layers": Annotated[int | None, _figure("--layers", "Layers.")],
    "hidden": Annotated[int | None, _figure("--hidden", "Width of the model.")],
    "heads": Annotated[int | None, _figure("--heads", "Attention heads.")],
    "kv_heads": Annotated[
        int | None, _figure("--kv-heads", "Key-value heads; 0: as many as heads.")
    ],
    "ffn": Annotated[
        int | None, _figure("--ffn", "Width of the feed-forward layer; 0: 4 × hidden.")
    ],
    "is_gated": Annotated[
        bool | None,
        typer.Option("--gated/--plain", help="Three matrices in it, or two.", rich_help_panel=_OWN),
    ],
    "vocabulary": Annotated[int | None, _figure("--vocabulary", "Entries of the vocabulary.")],
    "experts": Annotated[int | None, _figure("--experts", "Experts a layer; 0: dense.")],
    "active_experts": Annotated[
        int | None, _figure("--active-experts", "Experts that a token meets.")
    ],
}
"""Options of a command that ``takes_figures``, by the fields of a model."""
Figures = Mapping[str, int | bool | None]

MOST_BYTES = 1 << 20  # a config.json that lists every layer of a large model has some 10 KB


def takes_figures(command: Callable[..., None]) -> Callable[..., None]:
    """A command with ``figures`` of a model, each of which is an option of its own."""
    signature = inspect.signature(command)

    @wraps(command)
    def taking(*args: Any, **told: Any) -> None:  # noqa: ANN401 - whatever the command takes
        figures = {field: told.pop(field) for field in FIGURES}
        command(*args, **told, figures=figures)

    taken = list[inspect.Parameter]()
    for parameter in signature.parameters.values():
        if parameter.name != "figures":
            taken.append(parameter)
            continue
        taken += [
            inspect.Parameter(field, parameter.kind, default=None, annotation=kind)
            for field, kind in FIGURES.items()
        ]
    taking.__signature__ = signature.replace(parameters=taken)  # type: ignore[attr-defined]
    taking.__annotations__ = {**command.__annotations__, **FIGURES}
    return taking


def asked(name: str, config: str | None) -> str:
    """What was named: the file of ``--config``, or the model; nothing at all is refused."""
    if config is not None and not _is_config(config):
        raise SpecError(
            f"--config is `{config[:100]}`, which is no config.json",
            hint="give the file (its name ends in .json) or the folder that it lies in",
        )
    if config or name:
        return config or name
    raise SpecError(
        "no model was named",
        hint="name one (`llama-3.1-70b`; see `tidemill unit models`), or give --config FILE",
    )


def chosen(name: str, figures: Figures = MappingProxyType({})) -> "Model":
    """The model of this name, with the figures that were given in place of its own."""
    from msgspec.structs import replace

    from tidemill.units import models
    from tidemill.units.model_zoo import Zoo

    given = {field: value for field, value in figures.items() if value is not None}
    if name.lower().endswith(".toml"):
        base = _from_file(name)
    elif _is_config(name):
        base = _from_config(name)
    else:
        zoo = Zoo()
        found = zoo.find(name)
        if found is None and {"layers", "hidden", "heads"} <= given.keys():
            return _made(name, given)
        base = found or zoo.model(name)
    if not given:
        return models.check(base)
    return _made(base.key, {**_fields(replace(base, source="")), **given})


def remarks(model: "Model", weights: str | None = None) -> list[str]:
    """What a reader of its figures should know: windows, and weights published in fewer bits."""
    found = []
    if model.window_layers:
        found.append(
            f"{model.window_layers} of its {model.layers} layers attend to (and keep) the last "
            f"{model.window:,} tokens only"
        )
    if weights is not None and model.published_in and weights != model.published_in:
        found.append(
            f"its weights are published in {model.published_in}: `--weights {model.published_in}` "
            f"counts those; this is {weights}"
        )
    return found


def size_only(name: str, figures: Figures) -> int | None:
    """The parameters of a model of which only the size is given (``13b``); None for any other."""
    from tidemill.units.model_zoo import parameters_in

    return None if any(v is not None for v in figures.values()) else parameters_in(name)


def _fields(model: "Model") -> dict[str, object]:
    import msgspec

    found = msgspec.to_builtins(model)
    assert isinstance(found, dict)
    return found


def _made(name: str, fields: Mapping[str, object]) -> "Model":
    import msgspec

    from tidemill.units import models

    try:
        made = msgspec.convert({**fields, "key": name[:100]}, models.Model)
    except msgspec.ValidationError as error:
        raise SpecError(
            f"model `{name[:100]}`: {decoding.mismatch(error, models.Model, fields)}",
            hint="layers, hidden and heads are whole numbers above 0",
        ) from error
    return models.check(made)


def _is_config(name: str) -> bool:
    """A file of JSON, or a folder with a config.json in it."""
    return name.lower().endswith(".json") or (Path(name) / "config.json").is_file()


def _from_config(name: str) -> "Model":
    """A config.json; the model is called as it says itself, or as its folder is."""
    import json

    from tidemill.units import hf_config

    path = Path(name) if name.lower().endswith(".json") else Path(name) / "config.json"
    try:
        with path.open("rb") as opened:
            read = opened.read(MOST_BYTES)
        raw = json.loads(read)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SpecError(
            f"`{path}` is not JSON: {decoding.broken(error, read)}",
            hint="give the config.json that lies beside a model's weights",
        ) from error
    folder = path.resolve().parent.name
    told = raw.get("_name_or_path") if isinstance(raw, dict) else None
    named = str(told or "").rstrip("/").rpartition("/")[2]
    called = named or (folder if path.name == "config.json" else path.stem)
    return hf_config.model(raw, str(path), called or str(path))


def _from_file(file: str) -> "Model":
    """A file holds the fields of one model; its name is the key where none is given."""
    import msgspec

    from tidemill.twin.spec.errors import SpecPlace, explain
    from tidemill.units import models

    with Path(file).open("rb") as opened:
        text = opened.read(MOST_BYTES)
    raw = decoding.toml(text, file, "write lines such as `layers = 32`; see https://toml.io")
    fields = {"key": Path(file).stem, **raw}
    try:
        return msgspec.convert(fields, models.Model)
    except msgspec.ValidationError as error:
        explain(SpecPlace(file, "model"), error, models.Model, fields)
