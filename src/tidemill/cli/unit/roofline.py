"""``tidemill unit roofline``: which ceiling binds, how long it takes, and what would change it."""

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.cli.unit import catalogue, fit, model_choice
from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    from tidemill.units.catalogue.book import Catalogue
    from tidemill.units.catalogue.rows import Part
    from tidemill.units.whatif import PhaseQuestion

EXAMPLES = options.example(
    "tidemill unit roofline llama-3-8b --on h100 --batch 32",
    "tidemill unit roofline llama-3-70b --on h200 --tp 4 --batch 64 --sequence 8192 --versus b200",
    "tidemill unit roofline gpt-3 --on a100 --phase train --tp 8 --micro-batch 2 --sequence 2048",
    "tidemill unit roofline llama-3-8b --on h200 --probe-result examples/cards/h200-2026-11.json",
    "tidemill unit roofline 13b --on h100 --json",
)
FORMULA = (
    "time = Σ over pieces of max(FLOP / peak, bytes / memory bandwidth, bytes / link); ridge = "
    "peak / bandwidth (Williams, Waterman, Patterson 2009). Peaks: the least time possible, no "
    "forecast."
)

PhaseName = Annotated[
    str, typer.Option("--phase", help="decode, prefill or train.", metavar="PHASE")
]
Precision = Annotated[str, typer.Option("--precision", help="Of the arithmetic.")]
Weights = Annotated[
    str | None, typer.Option("--weights", help="Precision of weights; default: as --precision.")
]
Versus = Annotated[
    list[str] | None, typer.Option("--versus", metavar="GPU", help="The same on another GPU model.")
]
Share = "Share of the peak {} that is reached (a probe tells)."
ComputeShare = Annotated[
    float, typer.Option("--compute-share", min=0.01, max=1.0, help=Share.format("rate"))
]
MemoryShare = Annotated[
    float, typer.Option("--memory-share", min=0.01, max=1.0, help=Share.format("bandwidth"))
]
Measured = Annotated[
    str | None,
    typer.Option(
        "--probe-result",
        "--card",
        metavar="FILE",
        help="Take both shares from a result of `tidemill probe`.",
    ),
]
Tensor = Annotated[int, typer.Option("--tp", min=1, help="Tensor ranks.")]
Expert = Annotated[int, typer.Option("--ep", min=1, help="Ranks of an expert group.")]
Batch = Annotated[
    int | None,
    typer.Option("--batch", min=1, help="Sequences at once, or a step, over all units.",
                 show_default="one, or one micro-batch"),
]  # fmt: skip


@model_choice.takes_figures
def roofline(
    on: fit.On,
    model: model_choice.Name = "",
    config: model_choice.Config = None,
    phase: PhaseName = "decode",
    batch: Batch = None,
    sequence: fit.Sequence = 4096,
    precision: Precision = "bf16",
    weights: Weights = None,
    cache: fit.Cache = "bf16",
    tensor: Tensor = 1,
    expert: Expert = 1,
    micro_batch: fit.Micro = 1,
    recompute: fit.Again = "selective",
    compute_share: ComputeShare = 1.0,
    memory_share: MemoryShare = 1.0,
    card: Measured = None,
    versus: Versus = None,
    figures: model_choice.Figures = MappingProxyType({}),
    file: catalogue.File = None,
    as_json: options.Json = False,
) -> None:
    """Compute-, memory- or link-bound: the least time on these GPUs, and what would change it."""
    from tidemill.cli.unit import roofline_tables as tables
    from tidemill.model.topology import Parallelism
    from tidemill.units import partition_check, whatif
    from tidemill.units.models import Model
    from tidemill.units.serving import Serving
    from tidemill.units.training import Training

    book = catalogue.catalogue(file)
    model = model_choice.asked(model, config)
    bare = model_choice.size_only(model, figures)
    chosen: Model | int = bare if bare is not None else model_choice.chosen(model, figures)
    does = options.one_of(phase, "--phase", whatif.Phase)
    is_train = does == whatif.Phase.TRAIN
    stated = Parallelism(
        tensor=tensor, expert=expert, data=expert, sequence=sequence,
        batch=(batch or micro_batch * expert) if is_train else 0,
    )  # fmt: skip
    if isinstance(chosen, Model):
        model = chosen.key
        partition_check.check(chosen, stated, micro_batch)
    elif is_train:
        raise SpecError(
            f"`{model}` is only a size; a training step depends on layers and widths",
            hint="give a published model, or --layers, --hidden and --heads",
        )
    part = fit.part_of(book, on)
    if card is not None:
        compute_share, memory_share = _measured(card, book, part, precision)
    asked = whatif.PhaseQuestion(
        chosen, part, does, stated,
        Serving(batch=batch or expert, context=sequence, weights=weights or precision, cache=cache),
        Training(micro_batch=micro_batch, recompute=fit.recomputed(recompute)),
        precision, compute_share, memory_share,
    )  # fmt: skip
    _check_link(asked)
    others = [fit.part_of(book, name) for name in versus or ()]
    if as_json:
        screen.json_out(tables.encoded(asked, model, others))
    else:
        tables.shown(asked, model, others)


def _measured(file: str, book: "Catalogue", part: "Part", precision: str) -> tuple[float, float]:
    """Shares of the peak rate and bandwidth that a card has measured on such a part.

    The rate that lasts, where it was measured: a power limit lowers what a few products reach.
    """
    from pathlib import Path

    from tidemill.probe import against_catalogue, card
    from tidemill.units.precision import rate

    found = card.read(Path(file))
    measured = against_catalogue.part_of(found, book)
    if measured is None or measured.key != part.key:
        raise SpecError(
            f"`{file}` was measured on `{found.unit.name[:100]}`, which is not `{part.key}`",
            hint=f"use --on {measured.key}"
            if measured
            else "give a probe result of the same GPU model",
        )
    lasting = found.sustained
    is_lasting = lasting is not None and lasting.precision == precision
    tflops = lasting.tflops if lasting and is_lasting else found.rate(precision)
    gb_s = found.gb_s("hbm-read") or found.gb_s("hbm-copy")
    if tflops is None or gb_s is None:
        raise SpecError(
            f"`{file}` has no {'memory bandwidth' if tflops else f'{precision} rate'}",
            hint=f"it has {', '.join(one.precision for one in found.rates) or 'no rates'}",
        )
    compute, memory = tflops * 1e12 / rate(part, precision), gb_s / (part.memory_tb_s * 1e3)
    return min(1.0, compute), min(1.0, memory)


def _check_link(asked: "PhaseQuestion") -> None:
    """A unit without a known link cannot be timed where ranks talk."""
    from tidemill.units import whatif

    part = asked.part
    if part.link_gb_s is None and any(piece.sent for piece in whatif.pieces(asked)):
        raise SpecError(
            f"the link of `{part.key}` is unknown, and these ranks talk over it",
            hint="leave out --tp and --ep, or give `link_gb_s` in a file for --catalogue",
        )
