"""``tidemill unit step``: how long a training step takes, part by part, and which plan is best."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options
from tidemill.cli.unit import catalogue, model_choice, step_tables
from tidemill.cli.unit.fit import recomputed
from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    from tidemill.model.topology import Parallelism
    from tidemill.units.machine import Machine

EXAMPLES = options.example(
    "tidemill unit step llama-3-70b --on p5.48xlarge --gpus 1024 --tp 8 --pp 4 --interleave 5",
    "tidemill unit step llama-3-405b --on h100 --gpus 8192 --tp 8 --pp 16 --sequence 8192",
    "tidemill unit step mixtral-8x7b --on h200 --gpus 64 --ep 8 --search --json",
    "tidemill unit step --spec examples/physics.toml --job pretrain-70b",
)
TOKENS = 4_000_000
_DIVISION, _PROGRAM, _TWIN = "Division", "Program", "A job of a twin"


def _size(name: str, text: str, panel: str) -> typer.models.OptionInfo:
    found = typer.Option(name, help=text, min=1, rich_help_panel=panel)
    assert isinstance(found, typer.models.OptionInfo)
    return found


On = Annotated[
    str, typer.Option("--on", help="Server type (`p5.48xlarge`) or GPU model.", metavar="NAME")
]
Gpus = Annotated[int, typer.Option("--gpus", min=1, max=1_000_000, help="How many of them.")]
Tensor = Annotated[int, _size("--tp", "Tensor ranks.", _DIVISION)]
Pipeline = Annotated[int, _size("--pp", "Pipeline stages.", _DIVISION)]
Context = Annotated[int, _size("--cp", "Context ranks.", _DIVISION)]
Expert = Annotated[int, _size("--ep", "Ranks of an expert group.", _DIVISION)]
Sequence = Annotated[int, typer.Option("--sequence", min=1, max=100_000_000, help="Its tokens.")]
Batch = Annotated[
    int | None,
    typer.Option("--batch", min=1, help="Sequences per step; about 4 million tokens if left out.",
                 show_default=False),
]  # fmt: skip
Micro = Annotated[int, _size("--micro-batch", "Sequences of a micro-batch.", _PROGRAM)]
Interleave = Annotated[int, _size("--interleave", "Chunks of layers a stage has.", _PROGRAM)]
Again = Annotated[
    str, typer.Option("--recompute", help="none, selective or full.", rich_help_panel=_PROGRAM)
]
Zero = Annotated[
    int,
    typer.Option("--zero", min=0, max=3, rich_help_panel=_PROGRAM,
                 help="Divided over data ranks: 1 optimiser, 2 and gradients, 3 and weights."),
]  # fmt: skip
Hide = Annotated[
    str,
    typer.Option("--hide", rich_help_panel=_PROGRAM,
                 help="Tensor communication behind products: none, backward or all."),
]  # fmt: skip
HideExperts = Annotated[
    bool,
    typer.Option("--hide-experts", rich_help_panel=_PROGRAM,
                 help="Tokens travel to experts behind another micro-batch's compute."),
]  # fmt: skip
Stall = Annotated[
    float,
    typer.Option("--host-stall", min=0.0, max=0.99, rich_help_panel=_PROGRAM,
                 help="Share of the step that waits for input (`tidemill unit host`)."),
]  # fmt: skip
Precision = Annotated[
    str, typer.Option("--precision", help="Of matrix products.", rich_help_panel=_PROGRAM)
]
Network = Annotated[
    float | None,
    typer.Option("--network", min=0.001, show_default=False, metavar="GB/S",
                 help="Of a node, one direction, instead of the server's own."),
]  # fmt: skip
Search = Annotated[bool, typer.Option("--search", help="List the quickest plans that fit.")]
SpecFile = Annotated[
    str | None,
    typer.Option("--spec", metavar="FILE", help="A spec file, instead of a model.",
                 rich_help_panel=_TWIN, show_default=False),
]  # fmt: skip
Job = Annotated[
    str | None,
    typer.Option("--job", metavar="NAME", help="Its job or workload that `computes`.",
                 rich_help_panel=_TWIN, show_default=False),
]  # fmt: skip


def step(
    model: model_choice.Name = "",
    config: model_choice.Config = None,
    on: On = "p5.48xlarge",
    gpus: Gpus = 8,
    tensor: Tensor = 1,
    pipeline: Pipeline = 1,
    context: Context = 1,
    expert: Expert = 1,
    sequence: Sequence = 4096,
    batch: Batch = None,
    micro_batch: Micro = 1,
    interleave: Interleave = 1,
    recompute: Again = "selective",
    zero: Zero = 1,
    hide: Hide = "backward",
    hide_experts: HideExperts = False,
    host_stall: Stall = 0.0,
    precision: Precision = "bf16",
    network: Network = None,
    search: Search = False,
    spec: SpecFile = None,
    job: Job = None,
    file: catalogue.File = None,
    as_json: options.Json = False,
) -> None:
    """How long a training step takes: compute, links, bubble, optimiser; they add up to it.

    Every product by its sizes, every collective over the links its group lies on, what runs behind
    compute left out. Held against published runs that it was not fitted to: 4 % off on average
    (`python -m bench steps`).
    """
    if spec is not None or job is not None:
        step_tables.job(*_named(spec, job), as_json=as_json)
        return
    from tidemill.model.topology import Parallelism
    from tidemill.units.overlap import Behind, Hiding
    from tidemill.units.step import TrainingRun
    from tidemill.units.training import Training

    inner = tensor * context * pipeline
    data = _data(gpus, inner) if not search else max(1, gpus // context)
    stated = Parallelism(tensor=tensor, context=context, expert=expert, pipeline=pipeline,
                         data=data, sequence=sequence)  # fmt: skip
    how = Training(micro_batch=micro_batch, interleave=interleave, zero=zero,
                   recompute=recomputed(recompute))  # fmt: skip
    stated = _with_batch(stated, batch, micro_batch, alone=search)
    where = machine_of(on, network, file)
    hiding = Hiding(tensor=options.one_of(hide, "--hide", Behind), expert=hide_experts)
    run = TrainingRun(
        model_choice.chosen(model_choice.asked(model, config)),
        stated,
        how,
        hiding,
        where,
        precision,
    )
    if search:
        step_tables.plans(run, gpus, as_json=as_json)
    else:
        step_tables.one(run, host_stall, as_json=as_json)


def machine_of(on: str, network: float | None, file: str | None) -> "Machine":
    """A box as it is, or a part in nodes like those of a box that has it."""
    from tidemill.cli.unit.show import find
    from tidemill.units import machine
    from tidemill.units.catalogue.rows import Box

    book = catalogue.catalogue(file)
    found = find(book, on)
    if isinstance(found, Box):
        part, per_node, nic = book.part_of(found), found.count, found.nic_gb_s
    else:
        part, per_node = found, min(8, found.domain) if found.link_gb_s else 8
        nic = machine.network_gb_s(book, part, per_node)
    return machine.of(part, per_node, network or nic)


def _named(spec: str | None, job: str | None) -> tuple[str, str]:
    if spec is None or job is None:
        raise SpecError(
            "--spec and --job belong together",
            hint="tidemill unit step --spec examples/physics.toml --job pretrain-70b",
        )
    return spec, job


def _data(gpus: int, inner: int) -> int:
    data, rest = divmod(gpus, inner)
    if rest or not data:
        below = gpus // inner * inner
        near = [str(n) for n in (below, below + inner) if n]
        raise SpecError(
            f"--gpus is {gpus:,}, which does not divide by tensor × context × pipeline"
            f" ranks, {inner:,}",
            hint=f"--gpus {' or '.join(near)} would",
        )
    return data


def _with_batch(
    stated: "Parallelism", batch: int | None, micro: int, *, alone: bool
) -> "Parallelism":
    """The batch as given; else about four million tokens, in whole micro-batches of all stages."""
    from msgspec.structs import replace

    if batch is not None:
        return replace(stated, batch=batch)
    if alone:  # for a search: many divisors
        return replace(stated, batch=1 << max(0, (TOKENS // stated.sequence).bit_length() - 1))
    together = stated.data * micro * stated.pipeline
    return replace(stated, batch=together * max(1, round(TOKENS / stated.sequence / together)))
