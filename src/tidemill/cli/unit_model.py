"""The model that unit commands ask about: a name, a file, or figures on the command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    from tidemill.units.models import Model

Name = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", show_default=False,
        help="A published model (`llama-3-70b`), a TOML file with its figures, a name of your own "
        "beside --layers, --hidden and --heads, or only a size (`13b`).",
    ),
]  # fmt: skip
_OWN = "Figures of a model"


def _figure(name: str, text: str) -> typer.models.OptionInfo:
    found = typer.Option(name, help=text, min=0, rich_help_panel=_OWN, show_default=False)
    assert isinstance(found, typer.models.OptionInfo)
    return found


Layers = Annotated[int | None, _figure("--layers", "Layers.")]
Hidden = Annotated[int | None, _figure("--hidden", "Width of the model.")]
Heads = Annotated[int | None, _figure("--heads", "Attention heads.")]
KvHeads = Annotated[int | None, _figure("--kv-heads", "Key-value heads; 0: as many as heads.")]
Ffn = Annotated[int | None, _figure("--ffn", "Width of the feed-forward layer; 0: 4 × hidden.")]
Gated = Annotated[
    bool | None,
    typer.Option("--gated/--plain", help="Three matrices in it, or two.", rich_help_panel=_OWN),
]
Vocabulary = Annotated[int | None, _figure("--vocabulary", "Entries of the vocabulary.")]
Experts = Annotated[int | None, _figure("--experts", "Experts a layer; 0: dense.")]
Active = Annotated[int | None, _figure("--active-experts", "Experts that a token meets.")]

MOST_BYTES = 1 << 16


def chosen(name: str, **figures: int | bool | None) -> "Model":
    """The model of this name, with the figures that were given in place of its own."""
    from msgspec.structs import replace

    from tidemill.units import models
    from tidemill.units.model_zoo import Zoo

    given = {field: value for field, value in figures.items() if value is not None}
    if name.lower().endswith(".toml"):
        base = _from_file(name)
    else:
        zoo = Zoo()
        found = zoo.find(name)
        if found is None and {"layers", "hidden", "heads"} <= given.keys():
            return _made(name, given)
        base = found or zoo.model(name)
    if not given:
        return models.check(base)
    return _made(base.key, {**_fields(replace(base, source="")), **given})


def size_only(name: str, **figures: int | bool | None) -> int | None:
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
            f"model `{name[:100]}`: {str(error)[:1].lower()}{str(error)[1:200]}",
            hint="layers, hidden and heads are whole numbers above 0",
        ) from error
    return models.check(made)


def _from_file(file: str) -> "Model":
    """A file holds the fields of one model; its name is the key where none is given."""
    import tomllib

    import msgspec

    from tidemill.twin.spec_errors import Place, explain
    from tidemill.units import models

    try:
        with Path(file).open("rb") as opened:
            raw = tomllib.loads(opened.read(MOST_BYTES).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SpecError(
            f"`{file}` is not TOML: {str(error)[:200]}",
            hint="write lines such as `layers = 32`; see https://toml.io",
        ) from error
    fields = {"key": Path(file).stem, **raw}
    try:
        return msgspec.convert(fields, models.Model)
    except msgspec.ValidationError as error:
        explain(Place(file, "model"), error, models.Model, fields)
