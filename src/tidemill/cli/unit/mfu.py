"""``tidemill unit mfu``: what share of the peak a training run uses, from what one can measure."""

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.cli.bars import bar
from tidemill.cli.unit import catalogue, fit, model_choice
from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    from tidemill.units.catalogue.rows import Part
    from tidemill.units.flops import FlopUtilisation, Recompute
    from tidemill.units.models import Model

EXAMPLES = options.example(
    "tidemill unit mfu palm-540b --on tpu-v4 --gpus 6144 --tokens-per-s 238300",
    "tidemill unit mfu megatron-22b --on a100 --gpus 8 --batch 4 --step-s 1.1",
    "tidemill unit mfu gpt-3 --on a100 --gpus 1536 --tflops 141 --recompute full --tokens 300e9",
)
FORMULA = (
    "MFU: 6 × active matrix elements + 12 × layers × heads × head size × sequence FLOP a token, "
    "over the dense peak (arXiv 2204.02311, appendix B); HFU adds what is recomputed "
    "(arXiv 2205.05198, equation 9, and arXiv 2104.04473, equation 3); the causal mask is "
    "not taken off"
)
DAY_S = 86_400

Units = Annotated[int, typer.Option("--gpus", "--units", min=1, help="How many GPUs ran.")]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Sequences of a step.")]
Step = Annotated[float | None, typer.Option("--step-s", min=1e-9, help="Seconds of a step.")]
Rate = Annotated[
    float | None,
    typer.Option("--tokens-per-s", min=1e-9, help="Tokens per second, all GPUs together."),
]
Tflops = Annotated[
    float | None,
    typer.Option("--tflops", min=1e-9, help="TFLOP/s of one GPU, recomputation included."),
]
Tokens = Annotated[
    float | None, typer.Option("--tokens", min=1, help="Tokens of the whole run: gives its days.")
]
Precision = Annotated[str, typer.Option("--precision", help="The peak to compare with.")]

_HFU = {
    "none": "HFU: nothing is recomputed",
    "selective": "HFU: attention is recomputed",
    "full": "HFU: every layer is recomputed",
}


@model_choice.takes_figures
def mfu(
    on: fit.On,
    units: Units,
    model: model_choice.Name = "",
    config: model_choice.Config = None,
    batch: Batch = None,
    step_s: Step = None,
    tokens_per_s: Rate = None,
    tflops: Tflops = None,
    sequence: fit.Sequence = 2048,
    recompute: fit.Again = "none",
    precision: Precision = "bf16",
    tokens: Tokens = None,
    figures: model_choice.Figures = MappingProxyType({}),
    file: catalogue.File = None,
    as_json: options.Json = False,
) -> None:
    """MFU and HFU of a training run, from its step time, its tokens per second or its TFLOP/s."""
    from tidemill.units import flops
    from tidemill.units.precision import rate as peak_of

    chosen = model_choice.chosen(model_choice.asked(model, config), figures)
    part, again = fit.part_of(catalogue.catalogue(file), on), fit.recomputed(recompute)
    rate = _rate(batch, step_s, tokens_per_s, sequence)
    if tflops is not None:
        if rate is not None:
            raise _one_of()
        rate = flops.tokens_per_s_at(chosen, sequence, again, units, tflops * 1e12)
    if rate is None:
        raise _one_of()
    peak = peak_of(part, precision)
    ran = flops.utilisation(chosen, sequence, again, rate, units, peak)
    days = None if tokens is None else tokens / rate / DAY_S
    if as_json:
        _json(chosen, part, ran, rate, days)
        return
    _table(chosen, part, again, ran, rate)
    if days is not None:
        screen.out().print(f"{tokens:,.0f} tokens take {days:,.1f} days at this rate")
    if ran.hfu > 1:
        screen.note("more than the peak: check the units, the batch and the time")
    screen.note(FORMULA)


def _rate(
    batch: int | None, step_s: float | None, tokens_per_s: float | None, sequence: int
) -> float | None:
    """Tokens a second, from whichever was given."""
    if (batch is None) != (step_s is None):
        raise SpecError(
            "a step time needs the batch of the step, and a batch its time",
            hint="give both --batch and --step-s",
        )
    if batch is None or step_s is None:
        return tokens_per_s
    if tokens_per_s is not None:
        raise _one_of()
    return batch * sequence / step_s


def _one_of() -> SpecError:
    return SpecError(
        "how fast the run was must be said once",
        hint="give --tokens-per-s, or --batch and --step-s, or --tflops",
    )


def _table(
    model: "Model", part: "Part", again: "Recompute", ran: "FlopUtilisation", rate: float
) -> None:
    made = screen.table(f"{model.key} on {part.key}", "of the peak", "TFLOP/s per accelerator", "",
                        right_from=1)  # fmt: skip
    made.columns[3].justify = "left"
    peak = ran.model_flops_per_unit_s / ran.mfu
    for name, share in (
        ("MFU: model FLOPs", ran.mfu),
        ("MFU without attention", ran.mfu_without_attention),
        (_HFU[again.value], ran.hfu),
    ):
        made.add_row(name, f"{share:.1%}", f"{share * peak / 1e12:,.1f}", bar(share))
    screen.out().print(made)
    screen.out().print(
        f"{rate:,.0f} tokens/s; the peak is {peak / 1e12:,.1f} TFLOP/s per accelerator"
    )


def _json(
    model: "Model", part: "Part", ran: "FlopUtilisation", rate: float, days: float | None
) -> None:
    import msgspec

    found = {"model": model.key, "part": part.key, **ran._asdict(), "tokens_per_s": rate,
             "days": days, "formula": FORMULA}  # fmt: skip
    screen.json_out(msgspec.json.encode(found))
