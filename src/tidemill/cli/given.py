"""What people give beside the data of a cluster: prices, and assumptions."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tidemill.cli import screen
from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    import polars as pl

    from tidemill.live.history.assuming import Assumptions
    from tidemill.live.prices.rules import PriceRule
    from tidemill.model.rows import Contract

PerHour = Annotated[
    list[str] | None,
    typer.Option(
        "--usd-per-hour",
        help="Price of one GPU: 2.50 for all, or H100=2.50; may be repeated. None: unknown.",
        metavar="[TYPE=]USD",
    ),
]
PriceFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--prices",
        help="A table of prices (type or node, usd_per_gpu_hour or usd_per_instance_hour, …), or"
        " a bill with FOCUS columns; may be repeated.",
        metavar="FILE",
    ),
]
ListPrices = Annotated[
    bool,
    typer.Option(
        "--list-prices",
        help="Price what nothing else prices by its instance type, as the catalogue lists it.",
    ),
]
Assumed = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        help="A figure for jobs of which nothing was measured: training.mfu=0.35,"
        " training.checkpoint_interval=30m, …; may be repeated.",
        metavar="KEY=VALUE",
    ),
]


class Given(NamedTuple):
    """Prices and assumptions as typed."""

    usd_per_hour: Sequence[str] | None = None
    files: Sequence[Path] | None = None
    is_listed: bool = False
    assumed: Sequence[str] | None = None
    by_type: Mapping[str, int] | None = None
    """Prices by GPU type that a table of nodes says."""

    def price_rule(self, zone: str, window_ms: tuple[int, int]) -> "PriceRule":
        """What a node costs: by the price files, then by flat rates, then by list prices."""
        from tidemill.live.prices import files, listed, matching, rules

        made = list["PriceRule"]()
        for path in self.files or ():
            found = files.read(path, zone)
            for text in found.notes:
                screen.note(f"`{path.name}`: {text}")
            made.append(matching.rule_of(found.lines, window_ms, found.source))
        rates = {**(self.by_type or {}), **prices_of(self.usd_per_hour or ())}
        made.append(rules.flat(rates))
        if self.is_listed:
            made.append(listed.rule())
        return rules.first_of(made)

    def assumptions(self) -> "Assumptions":
        """What is assumed; said, so that nobody takes it for measured."""
        from tidemill.live.history import assuming

        found = assuming.read(self.assumed or ())
        if found.words:
            screen.note(f"assumed of every job of which it was not measured: {found.words}")
        return found


def window_of(
    attempts: "pl.DataFrame", start_ms: int | None, end_ms: int | None
) -> tuple[int, int]:
    """The time that prices are asked for: the window, or that of the attempts."""
    times = [
        ms
        for name in ("submit_ms", "start_ms", "end_ms")
        if name in attempts.columns
        for ms in (attempts[name].min(), attempts[name].max())
        if isinstance(ms, int)
    ]
    first = min(times, default=0) if start_ms is None else start_ms
    return first, max(times, default=first) if end_ms is None else end_ms


def say_prices(contracts: Iterable["Contract"]) -> None:
    """How many GPUs were priced by which rule."""
    found = dict[str, int]()
    for row in contracts:
        who = (row.price_source or "the rate that was given") if row.is_priced else ""
        found[who] = found.get(who, 0) + row.count
    told = [f"{screen.count(gpus, 'GPU')} by {who}" for who, gpus in found.items() if who]
    if without := found.get(""):
        told.append(f"{screen.count(without, 'GPU')} without a price")
    screen.note(f"prices: {', '.join(told)}")


def prices_of(told: Sequence[str]) -> Mapping[str, int]:
    """``2.50``, or ``H100=2.50,A100=1.60``; micro-dollars by GPU type."""
    from tidemill.live.history.attempts import kind_of
    from tidemill.live.prices.rules import ANY

    found: dict[str, int] = {}
    for part in (part.strip() for text in told for part in text.split(",")):
        kind, sign, usd = part.rpartition("=")
        try:
            micro = round(float(usd) * 1_000_000)
        except ValueError:
            micro = -1
        if not 0 <= micro <= 10**13:
            raise SpecError(
                f"--usd-per-hour is `{part}`, which is no price",
                hint="such as 2.50, or H100=2.50 for one GPU type",
            )
        found[kind_of(kind) if sign else ANY] = micro
    return found
