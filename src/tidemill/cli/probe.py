"""``tidemill probe``: measure a real unit; ``probe compare``: find the slow one among its like."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen

if TYPE_CHECKING:
    from tidemill.probe.card import Card
    from tidemill.probe.peers import PeerFinding

app = typer.Typer(
    invoke_without_command=True,
    epilog=options.example(
        "tidemill probe --quick",
        "tidemill probe --tenants --seconds 300 -o result.json",
        "tidemill probe compare a.json b.json c.json",
    ),
)
EXAMPLES = options.example(
    "tidemill probe compare examples/cards/h200-2026-11.json",
    "tidemill probe compare *.json --json",
)
LONGEST_S = 3600.0


@app.callback()
def probe(
    context: typer.Context,
    gpu: Annotated[int, typer.Option(min=0, help="Which GPU, as torch counts them.")] = 0,
    seconds: Annotated[
        float,
        typer.Option(
            min=5, max=LONGEST_S, help="Start no new measurement after this many seconds."
        ),
    ] = 120,
    quick: Annotated[
        bool, typer.Option("--quick", help="A short run: under half a minute.")
    ] = False,
    tenants: Annotated[
        bool, typer.Option("--tenants", help="Also two tenants at once, time-sliced and with MPS.")
    ] = False,
    folder: Annotated[
        Path, typer.Option("--disk", help="Where a checkpoint is written, and removed again.")
    ] = Path(),
    conditions: Annotated[str, typer.Option(help="A note to keep with the result.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the probe result here.")
    ] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Measure this machine's GPU and set it beside the catalogue. Changes no setting of it.

    Rates per precision, memory and host-link bandwidth, power and clocks under load, a training
    step, a checkpoint; with --tenants, six workloads alone and in pairs. Needs torch.
    """
    if context.invoked_subcommand is not None:
        return
    from tidemill.journal import files
    from tidemill.probe import run
    from tidemill.probe.card import written

    if output is not None:  # before a minute of measuring, not after it
        files.refuse(output, replaces="probe result", is_forced=force)
    plan = run.ProbePlan(gpu, seconds, quick, tenants, folder, conditions)
    with screen.progress("probing") as tell:
        card = run.sit(plan, tell)
    if output is not None:
        files.write(output, written(card) + b"\n", replaces="probe result", is_forced=force)
        screen.note(f"the probe result is in {output}")
    if as_json:
        screen.json_out(written(card))
        return
    _print(card)


@app.command(epilog=options.example("tidemill probe row result.json > parts.toml"))
def row(
    card: Annotated[Path, typer.Argument(help="A probe result.", metavar="RESULT")],
) -> None:
    """A probe result as a row of a catalogue file, for --catalogue of the unit commands."""
    from tidemill.model.errors import SpecError
    from tidemill.probe import against_catalogue
    from tidemill.probe import card as cards
    from tidemill.units.catalogue.book import Catalogue

    read = cards.read(card)
    part = against_catalogue.part_of(read, Catalogue())
    if part is None or read.rate("bf16") is None:
        raise SpecError(
            f"`{card}`: `{read.unit.name}` is not in the catalogue, or its bf16 was not measured",
            hint="write a [[part]] row of its own; see `tidemill unit show --json` for the fields",
        )
    typer.echo(against_catalogue.row_text(read, part), nl=False)


@app.command(epilog=EXAMPLES)
def compare(
    cards: Annotated[
        list[Path], typer.Argument(help="Probe results of like GPUs.", metavar="RESULT…")
    ],
    tolerance: Annotated[
        float, typer.Option(min=0.001, max=0.9, help="How far below the median is slow.")
    ] = 0.05,
    as_json: options.Json = False,
) -> None:
    """Compare probe results and flag a GPU that is slower than its peers; exit code 1 if one is.

    A single result is compared with the catalogue.
    """
    from tidemill.probe import card, peers

    read = [card.read(path) for path in cards]
    findings = peers.compare(read, tolerance)
    slow = peers.slow_cards(findings)
    if as_json:
        _json(read, cards, findings)
    elif len(read) == 1:
        _print(read[0])
    else:
        _print_findings(findings, cards)
        if not findings:
            screen.note("no two of these results are of the same GPU model, power limit and figure")
        for number in slow:
            screen.out().print(screen.styled("[bold red]slow:[/] {}", cards[number]))
        if len(read) < peers.FEWEST:
            screen.note(
                f"fewer than {peers.FEWEST} results: they may differ, but which one is slow "
                "cannot be said"
            )
    raise typer.Exit(1 if slow else 0)


def _json(read: "list[Card]", cards: list[Path], findings: "list[PeerFinding]") -> None:
    import msgspec

    from tidemill.probe import against_catalogue, peers
    from tidemill.units.catalogue.book import Catalogue

    book = Catalogue()
    against = [
        {
            "card": str(path),
            "part": None if (part := against_catalogue.part_of(card, book)) is None else part.key,
            "figures": [
                {"figure": s.figure.key, "value": s.figure.value, "unit": s.figure.unit,
                 "listed": s.listed, "ratio": s.ratio}
                for s in against_catalogue.standings(card, part)
            ],
        }
        for path, card in zip(cards, read, strict=True)
    ]  # fmt: skip
    rows = [
        {"card": str(cards[f.card]), "figure": f.figure.key, "value": f.figure.value,
         "median": f.median, "ratio": f.ratio, "z": f.z, "peers": f.peers, "is_slow": f.is_slow}
        for f in findings
    ]  # fmt: skip
    slow = [str(cards[number]) for number in peers.slow_cards(findings)]
    screen.json_out(msgspec.json.encode({"standing": against, "peers": rows, "slow": slow}))


def _print(card: "Card") -> None:
    from tidemill.probe import against_catalogue
    from tidemill.units.catalogue.book import Catalogue

    part = against_catalogue.part_of(card, Catalogue())
    made = screen.table("measured", "", "", "catalogue", "reached",
                        title=f"{card.unit.name}, {card.made[:10]}")  # fmt: skip
    for s in against_catalogue.standings(card, part):
        if s.figure.key.startswith("tenant."):
            continue  # below, with what they press on
        made.add_row(s.figure.words, f"{s.figure.value:,.4g}", s.figure.unit,
                     "-" if s.listed is None else f"{s.listed:,.4g}",
                     "-" if s.ratio is None else f"{s.ratio:.1%}")  # fmt: skip
    made.columns[2].justify = "left"
    screen.out().print(made)
    _print_conditions(card)
    if card.tenants:
        _print_tenants(card)
    for what, why in card.unknown.items():
        screen.note(f"not measured: {what}: {why}")
    screen.out().print(against_catalogue.verdict(card, part), soft_wrap=True)


def _print_conditions(card: "Card") -> None:
    kept, saved, step = card.sustained, card.checkpoint, card.step
    if kept is not None and kept.watts_mean is not None:
        screen.out().print(
            f"under load for {kept.seconds:.0f} s: {kept.watts_mean:,.0f} W "
            f"(at most {kept.watts_max:,.0f}), {kept.sm_mhz_mean:,.0f} MHz "
            f"(at least {kept.sm_mhz_min:,.0f}), {kept.celsius_max:.0f} °C"
        )
    if step is not None:
        size = f"{step.parameters / 1e6:,.0f} M parameters"
        screen.out().print(f"a step of {size} on {step.tokens:,} tokens: {step.ms:.1f} ms")
    if saved is not None:
        screen.out().print(
            f"a checkpoint of {saved.bytes / 1e9:.1f} GB ({saved.disk}): steps stall for "
            f"{saved.sync_stall_s:.2f} s, or {saved.async_stall_s:.2f} s if a thread writes"
        )


def _print_tenants(card: "Card") -> None:
    from tidemill.probe import predicted

    made = screen.table("tenant", "alone /s", "p99 ms", "on the device", "kernels")
    for tenant in card.tenants:
        made.add_row(tenant.kind, f"{tenant.per_s:,.0f}", f"{tenant.p99_ms:.2f}",
                     f"{tenant.device_us / tenant.period_us:.0%}", str(tenant.kernels))  # fmt: skip
    screen.out().print(made)
    made = screen.table("mode", "tenant", "beside", "keeps", "predicted", "error", "p99 ms",
                        "predicted", "error", "", right_from=3)  # fmt: skip
    rows = predicted.compared(card)
    for row in rows:
        p99, foretold, error = row.p99_ms, row.predicted_p99_ms, row.p99_error
        made.add_row(row.mode, row.tenant, row.beside, f"{row.keeps:.1%}",
                     f"{row.predicted_keeps:.1%}", f"{row.error:+.0%}",
                     "-" if p99 is None else f"{p99:.2f}",
                     "-" if foretold is None else f"{foretold:.2f}",
                     "-" if error is None else f"{error:+.0%}",
                     "" if row.is_held_out else "calibrated on")  # fmt: skip
    screen.out().print(made)
    held_out = [row for row in rows if row.is_held_out]
    if held_out:
        off = predicted.errors(held_out)
        screen.out().print(
            f"{off.rows} predictions that were held out: {off.mean:.1%} off on average, "
            f"{off.worst:.0%} at worst; their p99 {off.p99_mean:.0%} and {off.p99_worst:.0%}"
        )


def _print_findings(findings: "list[PeerFinding]", cards: list[Path]) -> None:
    made = screen.table(
        "figure", "probe result", "measured", "median", "ratio", "z", "", right_from=2
    )
    for f in findings:
        mark = screen.styled("[bold red]slow[/]" if f.is_slow else "")
        made.add_row(f.figure.words, str(cards[f.card]), f"{f.figure.value:,.4g}",
                     f"{f.median:,.4g}", f"{f.ratio:.3f}", f"{f.z:+.1f}", mark)  # fmt: skip
    screen.out().print(made)
