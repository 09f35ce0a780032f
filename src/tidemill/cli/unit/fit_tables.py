"""What ``unit fit`` prints: what a unit holds, how the model is divided, what would fit."""

from typing import TYPE_CHECKING, Any

import msgspec

from tidemill.cli import screen
from tidemill.cli.bars import bar
from tidemill.cli.unit import model_choice
from tidemill.model.measures import count_text, dollars_text
from tidemill.units import fitting, memory, models, precision, serving
from tidemill.units.training import OPTIMISERS, Training

if TYPE_CHECKING:
    from rich.table import Table

    from tidemill.cli.unit.fit import FitAnswer
    from tidemill.model.topology import Parallelism
    from tidemill.units.catalogue.rows import Box, Part

TRAIN_FORMULA = (
    "state: bytes per parameter of the optimiser, divided by tp × pp and by ZeRO (arXiv "
    "1910.02054); activations: sbh(10 + 24/t + 5as/ht) per layer for GPT, term by term for "
    "others, times micro-batches in flight (arXiv 2205.05198)"
)
SERVE_FORMULA = (
    "cache: 2 × layers × key-value heads × head size × bytes per token, or the latent vector of "
    "MLA (arXiv 2405.04434); working: the widest layer of 8,192 tokens of prompt, and logits"
)
SIZE_FORMULA = (
    "bytes per parameter × parameters, over the whole memory of an accelerator; nothing kept free"
)
NAMES = (("tensor", "tp"), ("context", "cp"), ("pipeline", "pp"), ("data", "dp"), ("expert", "ep"))


def shown(found: "FitAnswer") -> None:
    """The verdict, what a unit holds, and what would fit."""
    console = screen.out()
    verb = "train" if isinstance(found.how, Training) else "serve"
    count = f"{found.fit.units:,} × {found.part.key}"
    division = divided(found.fit.stated)
    title = f"{found.model.key} ({_billions(models.parameters(found.model))}) "
    if found.fits:
        title += f"fits to {verb} on {count}{division}"
    else:
        title += f"does not fit to {verb}; nearest is {count}{division}"
    console.print(title, style="bold", soft_wrap=True)
    console.print(_held(found))
    for line in _remarks(found):
        console.print(line, soft_wrap=True)
    for remedy in found.remedies:
        where = f"{count_text(remedy.fit.units, 'accelerator')}{divided(remedy.fit.stated)}"
        console.print(f"would fit: {remedy.change} → {where}", soft_wrap=True)
    screen.note(TRAIN_FORMULA if verb == "train" else SERVE_FORMULA)


def encoded(found: "FitAnswer") -> bytes:
    """The same as JSON."""
    room = fitting.usable(found.part, found.reserve)
    data: dict[str, Any] = {
        "model": found.model.key,
        "parameters": models.parameters(found.model),
        "active_parameters": models.active_parameters(found.model),
        "part": found.part.key,
        "fits": found.fits,
        "units": found.fit.units,
        "division": _sizes(found.fit.stated),
        "how": found.how,
        "held_bytes": {name: round(size) for name, size in found.fit.held._asdict().items()},
        "total_bytes": round(found.fit.held.total),
        "usable_bytes": round(room),
        "units_by_size_alone": _by_size_alone(found),
        "boxes": None if found.box is None else -(-found.fit.units // found.box.count),
        "would_fit": [
            {"change": r.change, "units": r.fit.units, "division": _sizes(r.fit.stated)}
            for r in found.remedies
        ],
    }
    if not isinstance(found.how, Training):
        data["most_sequences"] = serving.most_sequences(
            found.model, found.fit.stated, found.how, room
        )
    is_train = isinstance(found.how, Training)
    return msgspec.json.encode(data | {"formula": TRAIN_FORMULA if is_train else SERVE_FORMULA})


def by_size(
    parameters: int, part: "Part", optimiser: str | None, weights: str, *, as_json: bool
) -> None:
    """A model of which only the size is known: a bound, and nothing on activations or cache."""
    each = precision.size(weights)
    if optimiser is not None:
        each = memory.state_bytes(1, optimiser)
    size, units = parameters * each, fitting.by_size(parameters * each, part)
    if as_json:
        found = {"parameters": parameters, "part": part.key, "bytes": round(size),
                 "units_by_size_alone": units, "formula": SIZE_FORMULA}  # fmt: skip
        screen.json_out(msgspec.json.encode(found))
        return
    what = f"weights and {optimiser} state" if optimiser else f"{weights} weights"
    screen.out().print(
        f"{_billions(parameters)}: {size / 1e9:,.0f} GB of {what}, at least {units:,} × {part.key}",
        style="bold", soft_wrap=True,
    )  # fmt: skip
    screen.note(f"{SIZE_FORMULA}; give a model or its figures to count activations and cache")


def divided(stated: "Parallelism") -> str:
    """`` (tp 8, pp 4)``; nothing for one unit."""
    parts = [f"{short} {size}" for short, size in _sizes(stated).items() if size > 1]
    return f" ({', '.join(parts)})" if parts else ""


def _sizes(stated: "Parallelism") -> dict[str, int]:
    return {short: getattr(stated, name) for name, short in NAMES}


def _held(found: "FitAnswer") -> "Table":
    whole = found.part.memory_gb * 1e9
    made = screen.table("each accelerator holds", "GB", "of its memory", "", right_from=1)
    made.columns[3].justify = "left"
    rows = [(name, size) for name, size in found.fit.held._asdict().items() if size]
    rows.append(("reserve", whole * found.reserve))
    rows.append(("free", whole * (1 - found.reserve) - found.fit.held.total))
    for name, size in rows:
        made.add_row(name, f"{size / 1e9:,.2f}", f"{size / whole:.1%}", bar(size / whole))
    made.add_row("memory", f"{whole / 1e9:,.2f}", "", "")
    return made


def _remarks(found: "FitAnswer") -> "list[str]":
    room = fitting.usable(found.part, found.reserve)
    what = "weights and optimiser" if isinstance(found.how, Training) else "weights"
    lines = [f"{what} alone need at least {_by_size_alone(found):,} × {found.part.key}"]
    if found.box is not None:
        lines.append(_boxes(found.fit.units, found.box))
    if isinstance(found.how, Training):
        lines.append(f"{found.how.optimiser}: {OPTIMISERS[found.how.optimiser].source}")
        return lines + model_choice.remarks(found.model)
    each = serving.cache_per_token(found.model, found.how.cache)
    most = serving.most_sequences(found.model, found.fit.stated, found.how, room)
    lines.append(
        f"cache: {each / 1024:,.1f} KiB per token; room for "
        f"{screen.count(most, 'sequence')} of {found.how.context:,} tokens"
    )
    return lines + model_choice.remarks(found.model, found.how.weights)


def _boxes(units: int, box: "Box") -> str:
    """Whole boxes, and what they cost where that is known."""
    count = -(-units // box.count)
    line = f"as whole servers: {count:,} × {box.key}, {count_text(box.count, 'accelerator')} each"
    if box.usd_micro_per_hour is None:
        return line
    return f"{line}: {dollars_text(count * box.usd_micro_per_hour)} an hour"


def _by_size_alone(found: "FitAnswer") -> int:
    count = models.parameters(found.model)
    if isinstance(found.how, Training):
        return fitting.by_size(memory.state_bytes(count, found.how.optimiser), found.part)
    return fitting.by_size(count * precision.size(found.how.weights), found.part)


def _billions(parameters: int) -> str:
    return f"{parameters / 1e9:,.4g}e9 parameters"
