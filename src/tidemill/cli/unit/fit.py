"""``tidemill unit fit``: does a model fit, how is it then divided, and what does a unit hold."""

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tidemill.cli import options, screen
from tidemill.cli.unit import catalogue, model_choice
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text

if TYPE_CHECKING:
    from tidemill.units.catalogue.book import Catalogue
    from tidemill.units.catalogue.rows import Box, Part
    from tidemill.units.fitting import FittingDivision, Stated
    from tidemill.units.flops import Recompute
    from tidemill.units.models import Model
    from tidemill.units.remedies import FitRemedy
    from tidemill.units.serving import Serving
    from tidemill.units.training import Training

EXAMPLES = options.example(
    "tidemill unit fit llama-3.1-70b --on h200",
    "tidemill unit fit path/to/config.json --on p5.48xlarge",
    "tidemill unit fit llama-3-70b --on h100 --train --tp 8 --pp 4 --recompute full",
    "tidemill unit fit deepseek-v3 --on h200 --weights fp8 --batch 64 --sequence 32768",
    "tidemill unit fit mine --layers 48 --hidden 6144 --heads 48 --on a100 --train --json",
    "tidemill unit fit 70b --on h100 --train",
)
_DIVISION, _TRAINING, _SERVING = "Division", "Training", "Serving"


def _size(name: str, text: str, panel: str, *more: str) -> typer.models.OptionInfo:
    found = typer.Option(name, *more, help=text, min=1, rich_help_panel=panel, show_default=False)
    assert isinstance(found, typer.models.OptionInfo)
    return found


On = Annotated[str, typer.Option("--on", help="GPU model or server type.", metavar="NAME")]
Train = Annotated[bool, typer.Option("--train/--serve", help="What the model is there for.")]
Tensor = Annotated[int | None, _size("--tp", "Tensor ranks.", _DIVISION)]
Pipeline = Annotated[int | None, _size("--pp", "Pipeline stages.", _DIVISION)]
Data = Annotated[int | None, _size("--dp", "Data-parallel ranks, or replicas.", _DIVISION)]
Context = Annotated[int, _size("--cp", "Context ranks (1).", _DIVISION)]
Expert = Annotated[int | None, _size("--ep", "Ranks of an expert group.", _DIVISION)]
Units = Annotated[int | None, _size("--gpus", "Exactly so many GPUs.", _DIVISION, "--units")]
Batch = Annotated[
    int | None, typer.Option("--batch", min=1, help="Sequences a step, or in flight (serve: 1).")
]
Sequence = Annotated[
    int, typer.Option("--sequence", min=1, max=100_000_000, help="Tokens of a sequence.")
]
Micro = Annotated[int, _size("--micro-batch", "Sequences of a micro-batch (1).", _TRAINING)]
Interleave = Annotated[int, _size("--interleave", "Chunks of layers a stage (1).", _TRAINING)]
Again = Annotated[
    str,
    typer.Option("--recompute", help="none, selective or full.", rich_help_panel=_TRAINING),
]
Zero = Annotated[
    int,
    typer.Option(
        "--zero", min=0, max=3, rich_help_panel=_TRAINING,
        help="Divided over data ranks: 1 optimiser, 2 and gradients, 3 and weights.",
    ),
]  # fmt: skip
Optimiser = Annotated[
    str, typer.Option("--optimiser", help="adam, adam-8bit, …", rich_help_panel=_TRAINING)
]
SequenceParallel = Annotated[
    bool,
    typer.Option("--sequence-parallel/--no-sequence-parallel", rich_help_panel=_TRAINING,
                 help="Divide along the sequence what tensor ranks leave whole."),
]  # fmt: skip
Fused = Annotated[
    bool,
    typer.Option("--fused/--no-fused", rich_help_panel=_TRAINING,
                 help="Attention that stores no scores."),
]  # fmt: skip
Weights = Annotated[
    str, typer.Option("--weights", help="Precision of weights.", rich_help_panel=_SERVING)
]
Cache = Annotated[
    str, typer.Option("--cache", help="Precision of the cache.", rich_help_panel=_SERVING)
]
Reserve = Annotated[
    float,
    typer.Option("--reserve", min=0.0, max=0.9,
                 help="Share of a GPU's memory that is kept free."),
]  # fmt: skip


class FitAnswer(NamedTuple):
    """What was asked, and the smallest division that fits, or the one that comes nearest."""

    model: "Model"
    part: "Part"
    how: "Training | Serving"
    reserve: float
    fit: "FittingDivision"
    fits: bool
    remedies: "tuple[FitRemedy, ...]"
    box: "Box | None" = None
    """What was named instead of an accelerator."""


@model_choice.takes_figures
def fit(
    on: On,
    model: model_choice.Name = "",
    config: model_choice.Config = None,
    train: Train = False,
    tensor: Tensor = None,
    pipeline: Pipeline = None,
    data: Data = None,
    context: Context = 1,
    expert: Expert = None,
    units: Units = None,
    batch: Batch = None,
    sequence: Sequence = 4096,
    micro_batch: Micro = 1,
    interleave: Interleave = 1,
    recompute: Again = "selective",
    zero: Zero = 1,
    optimiser: Optimiser = "adam",
    sequence_parallel: SequenceParallel = True,
    fused: Fused = True,
    weights: Weights = "bf16",
    cache: Cache = "bf16",
    reserve: Reserve = 0.1,
    figures: model_choice.Figures = MappingProxyType({}),
    file: catalogue.File = None,
    as_json: options.Json = False,
) -> None:
    """Whether a model fits to serve or train, on how few GPUs, and what each of them holds."""
    from tidemill.cli.unit import fit_tables as tables
    from tidemill.units.fitting import Stated
    from tidemill.units.serving import Serving
    from tidemill.units.training import Training
    from tidemill.units.training import optimiser as check_optimiser

    book = catalogue.catalogue(file)
    part, box = part_of(book, on), book.find_box(on)
    model = model_choice.asked(model, config)
    bare = model_choice.size_only(model, figures)
    check_optimiser(optimiser)
    if bare is not None:
        tables.by_size(bare, part, optimiser if train else None, weights, as_json=as_json)
        return
    stated = Stated(tensor, context, pipeline, data, expert, sequence, batch or 0, units)
    if train:
        how: Training | Serving = Training(
            micro_batch=micro_batch, interleave=interleave, recompute=recomputed(recompute),
            zero=zero, optimiser=optimiser, is_sequence_parallel=sequence_parallel,
            is_fused=fused,
        )  # fmt: skip
    else:
        how = Serving(batch=batch or 1, context=sequence, weights=weights, cache=cache)
        stated = stated._replace(batch=0)
    found = answer(model_choice.chosen(model, figures), part, stated, how, reserve)
    found = found._replace(box=box)
    if as_json:
        screen.json_out(tables.encoded(found))
    else:
        tables.shown(found)
    if not found.fits:
        raise typer.Exit(1)


def part_of(book: "Catalogue", name: str) -> "Part":
    """The accelerator of this name, or the one in the box of this name."""
    from tidemill.cli.unit.show import find
    from tidemill.units.catalogue.rows import Box

    found = find(book, name)
    return book.part_of(found) if isinstance(found, Box) else found


def recomputed(name: str) -> "Recompute":
    """What is computed again, by name."""
    from tidemill.units.flops import Recompute

    return options.one_of(name, "--recompute", Recompute)


def answer(
    model: "Model", part: "Part", stated: "Stated", how: "Training | Serving", reserve: float
) -> FitAnswer:
    """Search, and where nothing fits, look for what would."""
    from tidemill.units import fitting, precision, remedies
    from tidemill.units.training import Training

    _check_stated(model, stated, how)
    if isinstance(how, Training):
        found = fitting.to_train(model, part, stated, how, reserve)
        nearest = found or fitting.nearest_to_train(model, part, stated, how)
    else:
        precision.size(how.weights), precision.size(how.cache)
        found = fitting.to_serve(model, part, stated, how, reserve)
        nearest = found or fitting.nearest_to_serve(model, part, stated, how)
    if nearest is None:
        raise _no_division(model, part, stated)
    offered: tuple[FitRemedy, ...] = ()
    if found is None and isinstance(how, Training):
        offered = remedies.to_train(model, part, stated, how, reserve)
    elif found is None and not isinstance(how, Training):
        offered = remedies.to_serve(model, part, stated, how, reserve)
    return FitAnswer(model, part, how, reserve, nearest, found is not None, offered)


def _check_stated(model: "Model", stated: "Stated", how: "Training | Serving") -> None:
    """What was stated divides, whatever is chosen for the rest."""
    from tidemill.model.topology import Parallelism
    from tidemill.units import partition_check
    from tidemill.units.training import Training

    expert = stated.expert or 1
    division = Parallelism(
        tensor=stated.tensor or 1, context=stated.context, pipeline=stated.pipeline or 1,
        data=stated.data or expert, expert=expert, sequence=stated.sequence,
        batch=stated.batch if stated.data else 0,
    )  # fmt: skip
    if isinstance(how, Training):
        chunks = how.interleave if stated.pipeline else 1
        partition_check.check(model, division, how.micro_batch, chunks)
    else:
        partition_check.check(model, division)


def _no_division(model: "Model", part: "Part", stated: "Stated") -> SpecError:
    if stated.units is not None:
        return SpecError(
            f"`{model.key}` cannot be divided over exactly"
            f" {count_text(stated.units, 'accelerator')}",
            hint="leave out --gpus to see which numbers do, or give --tp, --pp and --dp",
        )
    return SpecError(
        f"`{model.key}` cannot be divided over `{part.key}` in the way that was stated",
        hint="the batch is a multiple of data ranks × micro-batch; leave out --batch or --ep",
    )
