"""``tidemill unit share``: what two tenants leave each other, and which mode lets them share."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli import options, screen
from tidemill.cli.unit import catalogue
from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    from tidemill.units.catalogue.rows import Part
    from tidemill.units.sharing.advice import ModeOption, SharingAdvice
    from tidemill.units.sharing.slivers import Sliver
    from tidemill.units.sharing.tenants import Tenant

EXAMPLES = options.example(
    "tidemill unit share serve train --on h200",
    "tidemill unit share serve decode --p99 1 --json",
    "tidemill unit share 26gb@128 compute=0.3,bandwidth=0.1,memory=20 --on h100",
    "tidemill unit share decode serve --strangers",
)
BAR = 40
SHORT = 14
"""Longer names make no heading."""
AXES = ("compute", "bandwidth", "memory")
MODES = ("exclusive", "time-slice", "mps", "mig")


def share(
    a: Annotated[str, typer.Argument(help="A tenant: train, serve, 26gb@128, compute=…")],
    b: Annotated[str, typer.Argument(help="The tenant beside it.")],
    on: Annotated[str, typer.Option("--on", help="The GPU model.", metavar="GPU")] = "h200",
    mode: Annotated[
        str, typer.Option(help=f"Weigh only this one of {', '.join(MODES)}.", metavar="MODE")
    ] = "",
    p99: Annotated[
        float | None, typer.Option(help="The longest p99 of A, in ms.", min=0.001)
    ] = None,
    keeps: Annotated[
        float, typer.Option(help="The least share of its speed that each must keep.", min=0, max=1)
    ] = 0.0,
    strangers: Annotated[
        bool, typer.Option("--strangers", help="They do not trust each other.")
    ] = False,
    file: catalogue.File = None,
    as_json: options.Json = False,
) -> None:
    """Two jobs on one GPU: what each would keep of its speed in each sharing mode, and the advice.

    Known tenants: train, prefill, decode, small-kernels, serve, paced, as measured on an H200.
    Others by their shares (compute=0.2,bandwidth=0.9,memory=26) or as a decoding model (26gb@128:
    GB of weights at tokens per second).
    """
    from tidemill.units.sharing import advice, known, slivers

    if mode and mode not in MODES:
        raise SpecError(f"--mode is `{mode}`", hint=f"one of {', '.join(MODES)}")
    part = catalogue.catalogue(file).part(on)
    pair = (_tenant(a, part), _tenant(b, part))
    found = advice.advise(pair, part, advice.Needs(not strangers, keeps, p99))
    if mode:
        found = found._replace(options=tuple(o for o in found.options if o.mode == mode))
    left = slivers.sliver(pair[:1], part)
    fitting = [t.name for t in slivers.fitting(pair[:1], known.KNOWN, part)]
    if as_json:
        import msgspec

        screen.json_out(msgspec.json.encode(_document(pair, part, found, left, fitting)))
        return
    _print_axes(pair, part)
    _print_left(pair[0], left, fitting)
    _print_modes(pair, found)
    words = screen.styled("advice: [bold]{}[/]: {}", found.mode, found.reason)
    screen.out().print(words, soft_wrap=True)
    screen.note(_formula())


def _tenant(text: str, part: "Part") -> "Tenant":
    from tidemill.units.sharing import known, tenants

    name = known.current_name(text)
    if name in known.BY_NAME:
        return known.on(known.BY_NAME[name], part)
    if "=" not in text and "@" not in text:
        raise SpecError(
            f"no tenant called `{text[:100]}`",
            hint=f"known: {', '.join(known.BY_NAME)}; or give compute=0.2,bandwidth=0.9,memory=26, "
            "or 26gb@128",
        )
    return tenants.parsed(text, part)


def _shares(tenant: "Tenant", part: "Part") -> tuple[float, float, float]:
    return tenant.compute, tenant.bandwidth, tenant.memory_gb / part.memory_gb


def _print_axes(pair: "tuple[Tenant, Tenant]", part: "Part") -> None:
    first, second = (_shares(tenant, part) for tenant in pair)
    one, other = pair
    head = screen.styled(
        "[bold]{}[/]: [cyan]█[/] {}  [magenta]▒[/] {}", part.model, one.name, other.name
    )
    screen.out().print(head)
    for axis, mine, theirs in zip(AXES, first, second, strict=True):
        full = round(min(mine, 1) * BAR)
        rest = min(round(min(mine + theirs, 1) * BAR), BAR) - full
        bar = ("█" * full, "▒" * rest, "·" * (BAR - full - rest))
        over = f"  {mine + theirs:.0%} wanted" if mine + theirs > 1 else ""
        shares = (f"{mine:6.1%}", f"{theirs:.1%}")
        line = screen.styled(
            "{} [cyan]{}[/][magenta]{}[/]{} {} + {}[red]{}[/]", f"{axis:>10}", *bar, *shares, over
        )
        screen.out().print(line)


def _print_left(tenant: "Tenant", left: "Sliver", fitting: list[str]) -> None:
    words = f"beside `{tenant.name}` " + ", ".join(
        f"{share:.0%} of {axis}" for axis, share in zip(AXES, left.left, strict=True)
    )
    full = f"; full: {', '.join(left.full)}" if left.full else ""
    screen.out().print(f"{words} is left{full}; fits: {', '.join(fitting) or 'none that is known'}",
                       soft_wrap=True)  # fmt: skip
    if left.is_small:
        screen.out().print(
            f"`{tenant.name}` under-uses the whole GPU: less than half of its compute, bandwidth "
            "and memory"
        )


def _print_modes(pair: "tuple[Tenant, Tenant]", found: "SharingAdvice") -> None:
    is_short = pair[0] != pair[1] and all(len(tenant.name) < SHORT for tenant in pair)
    names = [tenant.name for tenant in pair] if is_short else ["first", "second"]
    columns = (f"{name} {what}" for name in names for what in ("keeps", "p99 ms"))
    made = screen.table("mode", *columns, "together", "why not")
    made.columns[-1].justify, made.columns[-1].no_wrap = "left", False
    for option in found.options:
        cells = [cell for estimate in option.estimates for cell in
                 (f"{estimate.keeps:.0%}",
                  "-" if estimate.p99_ms is None else f"{estimate.p99_ms:.2f}")]  # fmt: skip
        cells += ["-"] * (4 - len(cells))
        why = option.against or option.note
        made.add_row(option.mode.value, *cells, f"{option.gain:.2f}" if option.estimates else "-",
                     why)  # fmt: skip
    screen.out().print(made)


def _formula() -> str:
    from tidemill.units.sharing import calibration as c

    return (
        f"time-slice: period' = device + visits × (min(neighbour, {c.SLICE_MS} ms) + "
        f"2 × {c.SWITCH_MS} ms); mps: period' = device + kernels × contention × "
        f"min(neighbour's kernel, {c.BLOCK_MS} ms + {c.PER_KERNEL:g} × own) × its busy share; "
        f"mig: what the instance lacks, not measured. Source: {c.SOURCE}"
    )


def _document(
    pair: "tuple[Tenant, Tenant]",
    part: "Part",
    found: "SharingAdvice",
    left: "Sliver",
    fits: list[str],
) -> dict[str, Any]:
    return {
        "part": part.key,
        "tenants": [
            {"name": t.name, **dict(zip(AXES, _shares(t, part), strict=True))} for t in pair
        ],
        "left_beside_first": {**left.left._asdict(), "full": left.full, "fits": fits},
        "modes": [_mode(option) for option in found.options],
        "advice": {"mode": found.mode.value, "reason": found.reason},
        "formula": _formula(),
    }


def _mode(option: "ModeOption") -> dict[str, Any]:
    return {
        "mode": option.mode.value,
        "tenants": [estimate._asdict() for estimate in option.estimates],
        "together": option.gain if option.estimates else None,
        "against": option.against,
        "note": option.note,
        "confidence": "modelled",
    }
