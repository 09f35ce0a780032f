"""``tidemill unit compare``: parts and boxes side by side, per part, with ratios to the first."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tidemill.cli import options, screen, unit_catalogue
from tidemill.cli.bars import bar
from tidemill.cli.unit_show import figure, find
from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    from tidemill.units.catalogue.figures import Figures

EXAMPLES = options.example(
    "tidemill unit compare h100 h200 b200", "tidemill unit compare p5.48xlarge g6e.48xlarge --json"
)
MOST = 8

Names = Annotated[
    list[str], typer.Argument(help="Parts or boxes, two to eight.", metavar="NAME...")
]


class Line(NamedTuple):
    """One figure of all that are compared."""

    name: str
    values: tuple[float | None, ...]


def compare(names: Names, file: unit_catalogue.File = None, as_json: options.Json = False) -> None:
    """Set parts or boxes side by side: rates, memory, links, power, ridge point, dollars."""
    from tidemill.units.catalogue.figures import figures

    if not 2 <= len(names) <= MOST:
        raise SpecError(
            f"asked to compare {screen.count(len(names), 'thing')}; 2 to {MOST} go side by side",
            hint="tidemill unit compare h100 h200",
        )
    book = unit_catalogue.catalogue(file)
    found = [figures(book, find(book, name)) for name in names]
    if as_json:
        _json(found)
        return
    _table(found)
    _bars(found)
    _notes(found)


def lines(found: "list[Figures]") -> Iterator[Line]:
    """Every figure that at least one of them has, in the order of the table."""
    from tidemill.units.catalogue.rates import PRECISIONS

    for name in PRECISIONS:
        values = tuple(one.rates.get(name) for one in found)
        if any(value is not None for value in values):
            yield Line(f"{name} {'TOP/s' if name == 'int8' else 'TFLOP/s'}", values)
    for title, field in (
        ("memory GB", "memory_gb"), ("memory TB/s", "memory_tb_s"),
        ("link GB/s", "link_gb_s"), ("host link GB/s", "host_link_gb_s"),
        ("network GB/s", "network_gb_s"), ("host cores", "cores"),
        ("ridge FLOP/byte", "ridge"),
    ):  # fmt: skip
        yield Line(title, tuple(getattr(one, field) for one in found))
    yield Line("power W", tuple(one.power_w for one in found))
    for title, field in (
        ("$/hour", "usd_micro_per_hour"), ("$/PFLOP-hour", "usd_micro_per_pflop_hour"),
        ("$/GB-hour", "usd_micro_per_gb_hour"),
    ):  # fmt: skip
        micros = (getattr(one, field) for one in found)
        dollars = tuple(None if micro is None else micro / 1e6 for micro in micros)
        yield Line(title, dollars)


def _table(found: "list[Figures]") -> None:
    made = screen.table("per part", *(one.key for one in found))
    for line in lines(found):
        if any(value is not None for value in line.values):
            made.add_row(line.name, *_cells(line))
    screen.out().print(made)


def _cells(line: Line) -> Iterator[str]:
    first = line.values[0]
    for i, value in enumerate(line.values):
        shown = figure(None if value is None else float(f"{value:.4g}"))
        ratio = f" ×{value / first:.2f}" if i and value is not None and first else ""
        yield shown + ratio


def _bars(found: "list[Figures]") -> None:
    """What one part and one dollar buy, each as a share of the best of them."""
    made = screen.table("the most is the longest", "", "", right_from=9)
    for line in _drawn(found):
        known = [value for value in line.values if value is not None]
        if len(known) > 1:
            for one, value in zip(found, line.values, strict=True):
                title = line.name if one is found[0] else ""
                made.add_row(title, one.key, bar(0 if value is None else value / max(known)))
    screen.out().print(made)


def _drawn(found: "list[Figures]") -> Iterator[Line]:
    drawn = ("bf16 TFLOP/s", "memory GB", "memory TB/s", "link GB/s")
    yield from (line for line in lines(found) if line.name in drawn)
    dollars = [one.usd_micro_per_hour for one in found]
    for name, amounts in (
        ("bf16 TFLOP/s per $", [one.part.bf16_tflops for one in found]),
        ("memory TB/s per $", [one.memory_tb_s for one in found]),
    ):
        pairs = zip(amounts, dollars, strict=True)
        yield Line(name, tuple(a / usd if a and usd else None for a, usd in pairs))


def _notes(found: "list[Figures]") -> None:
    for one in found:
        if one.priced_as:
            screen.note(f"{one.key}: price of one part in {one.priced_as}, on demand")
    screen.note(
        "rates are dense peaks, links in one direction; ridge = bf16 rate / memory bandwidth "
        "(Williams, Waterman, Patterson 2009); $/PFLOP-hour = price of one part / bf16 peak"
    )


def _json(found: "list[Figures]") -> None:
    import msgspec

    rows: list[dict[str, Any]] = []
    for one in found:
        row = one._asdict()
        row["part"] = one.part.key
        rows.append(row)
    ratios = {
        line.name: [
            None if value is None or not line.values[0] else value / line.values[0]
            for value in line.values
        ]
        for line in lines(found)
    }
    screen.json_out(msgspec.json.encode({"compared": rows, "ratio_to_first": ratios}))
