"""``tidemill unit balance``: a box or a fleet against a mix of work; where the next dollar goes."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli import options, screen
from tidemill.cli.bars import bar
from tidemill.cli.unit import catalogue, model_choice
from tidemill.model.errors import SpecError
from tidemill.model.measures import decimal_number, dollars_text

if TYPE_CHECKING:
    from tidemill.units.balance import BoxBalance, Use
    from tidemill.units.catalogue.book import Catalogue
    from tidemill.units.catalogue.rows import Box
    from tidemill.units.demands import BoxResource, ModelRun, WorkDemand
    from tidemill.units.models import Model

EXAMPLES = options.example(
    "tidemill unit balance p5.48xlarge --mix training=60,decode=40",
    "tidemill unit balance g6e.xlarge --mix vision",
    "tidemill unit balance p5.48xlarge:8 g6e.48xlarge:4 --mix decode=70,prefill=30 --json",
)
KINDS = ("training", "decode", "prefill", "vision")
MOST_BOXES = 20

Boxes = Annotated[
    list[str],
    typer.Argument(
        help="Server types, each with a count if there are several.", metavar="SERVER[:N]..."
    ),
]


def balance(
    boxes: Boxes,
    mix: Annotated[
        str, typer.Option("--mix", help="Kinds of work with their shares of the time.")
    ] = "training=50,decode=30,prefill=10,vision=10",
    model: Annotated[
        str, typer.Option("--model", help="The language model that is trained and served.")
    ] = "llama-2-13b",
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=1_000_000, help="Sequences decoded at once.")
    ] = 64,
    context: Annotated[
        int, typer.Option("--context", min=1, max=10_000_000, help="Tokens of a sequence.")
    ] = 4096,
    prompt: Annotated[
        int, typer.Option("--prompt", min=1, max=10_000_000, help="Tokens of a prompt.")
    ] = 2048,
    file: catalogue.File = None,
    as_json: options.Json = False,
) -> None:
    """How much of each resource of a server a mix of work uses, what limits it, and what to add."""
    from tidemill.units import balance as cards
    from tidemill.units.demands import ModelRun

    book = catalogue.catalogue(file)
    how = ModelRun(sequence=context, batch=batch, prompt=prompt)
    shares, run = _mix(mix), model_choice.chosen(model)
    fleet = [
        (count, cards.card(book, box, _demands(shares, run, box, how)))
        for box, count in (_counted(book, text) for text in boxes[:MOST_BOXES])
    ]
    if as_json:
        _json(fleet)
        return
    for count, one in fleet:
        _card(count, one)
    if len(fleet) > 1:
        _fleet(fleet)
    screen.note(
        f"modelled: {run.key} over all GPUs of a server at dense peaks; pace = min over axes of "
        f"has / take (roofline with more ceilings). Prices apart: {cards.BILL_SOURCE}. "
        "Another whole server is worth 1"
    )


def _mix(text: str) -> list[tuple[str, float]]:
    """``training=60,decode=40``; a bare word has all of the time that is said of nothing else."""
    found: list[tuple[str, float]] = []
    for piece in text.split(",")[: len(KINDS) + 1]:
        name, _, share = piece.partition("=")
        amount = _amount(share.strip().removesuffix("%") or "100", piece)
        if name.strip() not in KINDS or name.strip() in [kind for kind, _ in found]:
            raise SpecError(
                f"--mix has `{piece.strip()[:60]}`", hint=f"each once, of: {', '.join(KINDS)}"
            )
        found.append((name.strip(), amount))
    if not sum(share for _, share in found) > 0:
        raise SpecError(f"--mix `{text[:100]}` adds up to nothing", hint="training=60,decode=40")
    return found


def _amount(text: str, piece: str) -> float:
    try:
        amount = decimal_number(text)
    except ValueError:
        amount = -1
    if not 0 <= amount <= 1e9:
        raise SpecError(
            f"--mix has `{piece.strip()[:60]}`, whose share is no number", hint="training=60"
        )
    return amount


def _counted(book: "Catalogue", text: str) -> "tuple[Box, int]":
    name, count = catalogue.counted(text)
    return book.box(name), count or 1


def _demands(
    shares: list[tuple[str, float]], model: "Model", box: "Box", how: "ModelRun"
) -> "tuple[tuple[WorkDemand, float], ...]":
    from tidemill.units import demands

    made = {
        "training": lambda: demands.training(model, box.count, how),
        "decode": lambda: demands.decode(model, box.count, how),
        "prefill": lambda: demands.prefill(model, box.count, how),
        "vision": lambda: demands.vision(box.count),
    }
    return tuple((made[name](), share) for name, share in shares)


def _card(count: int, one: "BoxBalance") -> None:
    from tidemill.units.demands import BoxResource

    title = one.box.key if count == 1 else f"{count:,} × {one.box.key}"
    made = screen.table("", "has", *(use.demand.name for use in one.uses), "mix", "", title=title)
    made.columns[-1].justify = "left"
    for axis in BoxResource:
        mixed = one.used(axis)
        if mixed is None:
            made.add_row(axis.value, "unknown", *("-" for _ in one.uses), "-", "")
            continue
        cells = (_cell(use, axis) for use in one.uses)
        made.add_row(axis.value, _has(axis, one.has[axis]), *cells, _percent(mixed), bar(mixed))
    made.add_section()
    made.add_row("pace", "", *(f"{use.pace:,.0f} {use.demand.unit}s/s" for use in one.uses), "", "")
    screen.out().print(made)
    _said(one)
    _next(one)


def _said(one: "BoxBalance") -> None:
    from tidemill.units.demands import BoxResource

    asked = {axis for use in one.uses for axis in use.demand.takes}
    hidden = [axis.value for axis in BoxResource if axis in asked and axis not in one.has]
    if hidden:
        screen.out().print(f"unknown of this server: {', '.join(hidden)}; paces are at most these")
    for use in one.uses:
        full = [axis.value for axis, used in use.used.items() if used > 1 + 1e-9]
        if full:
            screen.out().print(f"{use.demand.name} does not fit: {', '.join(full)}")


def _next(one: "BoxBalance") -> None:
    made = screen.table("10 % more", "pace", "$/h", "worth", "")
    made.columns[-1].justify = "left"
    most = max(1.0, *(addition.worth or 0.0 for addition in one.additions))
    for addition in one.additions:
        usd, worth = addition.usd_micro_per_hour, addition.worth
        made.add_row(addition.name, f"+{addition.gain:.1%}",
                     "-" if usd is None else f"{usd / 1e6:.4f}",
                     "-" if worth is None else f"{worth:.2f}",
                     bar((worth or 0.0) / most))  # fmt: skip
    screen.out().print(made)


def _fleet(fleet: "list[tuple[int, BoxBalance]]") -> None:
    """All boxes together: how much of each kind of work, and what binds it where."""
    names = [use.demand.name for use in fleet[0][1].uses]
    made = screen.table("fleet", "GPUs", "$/h", *names, "next dollar", right_from=1)
    for count, one in fleet:
        price = one.box.usd_micro_per_hour
        made.add_row(one.box.key, f"{count * one.box.count:,}",
                     "-" if price is None else dollars_text(price * count),
                     *(f"{use.pace * count:,.3g}/s, {use.binds.value}" for use in one.uses),
                     _best(one))  # fmt: skip
    paces = [sum(count * one.uses[i].pace for count, one in fleet) for i in range(len(names))]
    made.add_section()
    made.add_row("all", f"{sum(count * one.box.count for count, one in fleet):,}", "",
                 *(f"{pace:,.3g}/s" for pace in paces), "")  # fmt: skip
    screen.out().print(made)


def _best(one: "BoxBalance") -> str:
    best = one.additions[0]
    if best.worth is None:
        return "-"
    return f"{best.name} {best.worth:.1f}" if best.worth > 1 else "another server"


def _cell(use: "Use", axis: "BoxResource") -> str:
    """The share of a resource that a kind of work uses; a dash where the model says nothing."""
    is_said = axis in use.demand.takes or axis in use.demand.holds
    return _percent(use.used.get(axis, 0), use.binds is axis) if is_said else "-"


def _percent(share: float, binds: bool = False) -> str:
    text = f"{share:.1%}" if share >= 0.001 or share == 0 else "<0.1%"
    return f"{text} ◀" if binds else text


def _has(axis: "BoxResource", amount: float) -> str:
    from tidemill.units.demands import ROOM, BoxResource

    if axis is BoxResource.CORES:
        return f"{amount:,.0f}"
    if axis is BoxResource.FLOPS:
        return f"{amount / 1e15:,.3g} PFLOP/s"
    text = f"{amount / 1e12:,.4g} TB" if amount >= 1e12 else f"{amount / 1e9:,.4g} GB"
    return text + ("" if axis in ROOM else "/s")


def _json(fleet: "list[tuple[int, BoxBalance]]") -> None:
    import msgspec

    rows: list[dict[str, Any]] = [
        {
            "box": one.box.key, "count": count,
            "has": {axis.value: amount for axis, amount in one.has.items()},
            "used_ppm": {axis.value: one.used_ppm(axis) for axis in one.has},
            "work": [
                {"name": use.demand.name, "unit": use.demand.unit, "share": use.share,
                 "pace": use.pace, "binds": use.binds.value, "fits": use.fits,
                 "used": {axis.value: used for axis, used in use.used.items()}}
                for use in one.uses
            ],
            "additions": [addition._asdict() for addition in one.additions],
        }
        for count, one in fleet
    ]  # fmt: skip
    screen.json_out(msgspec.json.encode({"boxes": rows, "confidence": "modelled"}))
