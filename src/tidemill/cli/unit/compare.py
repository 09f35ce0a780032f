"""``tidemill unit compare``: parts and boxes side by side, per part, with ratios to the first."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tidemill.cli import options, screen
from tidemill.cli.bars import bar
from tidemill.cli.unit import catalogue
from tidemill.cli.unit.show import figure, find
from tidemill.model.errors import SpecError
from tidemill.model.measures import dollars_text

if TYPE_CHECKING:
    from tidemill.units.catalogue.figures import Figures
    from tidemill.units.catalogue.fleets import FleetPart

EXAMPLES = options.example(
    "tidemill unit compare h100 h200 b200",
    "tidemill unit compare p5.48xlarge g6e.48xlarge --json",
    "tidemill unit compare a100:1024 h100:512",
)
MOST = 8

Names = Annotated[
    list[str],
    typer.Argument(
        help="GPU models or server types, two to eight; with a count each, fleets.",
        metavar="NAME[:N]...",
    ),
]


class ComparedLine(NamedTuple):
    """One figure of all that are compared."""

    name: str
    values: tuple[float | None, ...]


def compare(names: Names, file: catalogue.File = None, as_json: options.Json = False) -> None:
    """Compare GPU models or server types: rates, memory, links, power, ridge point, dollars."""
    from tidemill.units.catalogue import fleets
    from tidemill.units.catalogue.figures import figures
    from tidemill.units.catalogue.rows import Box

    if not 2 <= len(names) <= MOST:
        raise SpecError(
            f"asked to compare {screen.count(len(names), 'thing')}; 2 to {MOST} go side by side",
            hint="tidemill unit compare h100 h200",
        )
    book = catalogue.catalogue(file)
    pairs = [catalogue.counted(name) for name in names]
    rows = [find(book, name) for name, _ in pairs]
    found = [figures(book, row) for row in rows]
    counts = [(count or 1) * (row.count if isinstance(row, Box) else 1)
              for row, (_, count) in zip(rows, pairs, strict=True)]  # fmt: skip
    all_fleets = [fleets.fleet(one, count) for one, count in zip(found, counts, strict=True)]
    if as_json:
        _json(found, all_fleets)
        return
    _table(found)
    _bars(found)
    if any(count is not None for _, count in pairs):
        _fleets(all_fleets)
    _notes(found)


def lines(found: "list[Figures]") -> Iterator[ComparedLine]:
    """Every figure that at least one of them has, in the order of the table."""
    from tidemill.units.catalogue.rates import PRECISIONS

    for name in PRECISIONS:
        values = tuple(one.rates.get(name) for one in found)
        if any(value is not None for value in values):
            yield ComparedLine(f"{name} {'TOP/s' if name == 'int8' else 'TFLOP/s'}", values)
    for title, field in (
        ("measured bf16 TFLOP/s", "reached_bf16_tflops"),
        ("memory GB", "memory_gb"), ("memory TB/s", "memory_tb_s"),
        ("link GB/s", "link_gb_s"), ("host link GB/s", "host_link_gb_s"),
        ("network GB/s", "network_gb_s"), ("host cores", "cores"),
        ("ridge FLOP/byte", "ridge"),
    ):  # fmt: skip
        yield ComparedLine(title, tuple(getattr(one, field) for one in found))
    yield ComparedLine("power W", tuple(one.power_w for one in found))
    for title, field in (
        ("$/hour", "usd_micro_per_hour"), ("$/PFLOP-hour", "usd_micro_per_pflop_hour"),
        ("$/PFLOP-hour measured", "usd_micro_per_measured_pflop_hour"),
        ("$/GB-hour", "usd_micro_per_gb_hour"),
    ):  # fmt: skip
        micros = (getattr(one, field) for one in found)
        dollars = tuple(None if micro is None else micro / 1e6 for micro in micros)
        yield ComparedLine(title, dollars)


def _table(found: "list[Figures]") -> None:
    made = screen.table("per accelerator", *(one.key for one in found))
    for line in lines(found):
        if any(value is not None for value in line.values):
            made.add_row(line.name, *_cells(line))
    screen.out().print(made)


def _cells(line: ComparedLine) -> Iterator[str]:
    first = line.values[0]
    for i, value in enumerate(line.values):
        shown = figure(None if value is None else float(f"{value:.4g}"))
        ratio = f" ×{value / first:.2f}" if i and value is not None and first else ""
        yield shown + ratio


def _bars(found: "list[Figures]") -> None:
    """What one part and one dollar buy, each as a share of the best of them."""
    made = screen.table("longest bar: the most", "", "", right_from=9)
    for line in _drawn(found):
        known = [value for value in line.values if value is not None]
        if len(known) > 1:
            for one, value in zip(found, line.values, strict=True):
                title = line.name if one is found[0] else ""
                made.add_row(title, one.key, bar(0 if value is None else value / max(known)))
    screen.out().print(made)


def _drawn(found: "list[Figures]") -> Iterator[ComparedLine]:
    drawn = ("bf16 TFLOP/s", "memory GB", "memory TB/s", "link GB/s")
    yield from (line for line in lines(found) if line.name in drawn)
    dollars = [one.usd_micro_per_hour for one in found]
    for name, amounts in (
        ("bf16 TFLOP/s per $", [one.part.bf16_tflops for one in found]),
        ("memory TB/s per $", [one.memory_tb_s for one in found]),
    ):
        pairs = zip(amounts, dollars, strict=True)
        yield ComparedLine(name, tuple(a / usd if a and usd else None for a, usd in pairs))


def _fleets(found: "list[FleetPart]") -> None:
    """Sums, and a word where the count of accelerators would mislead."""
    from tidemill.units.capability import REFERENCE
    from tidemill.units.catalogue.fleets import misled

    made = screen.table("fleet", "GPUs", f"worth {REFERENCE}", "memory TB", "TB/s", "$/h")
    for one in found:
        usd = one.usd_micro_per_hour
        equal = None if one.equivalents is None else round(one.equivalents, 1)
        made.add_row(one.figures.key, f"{one.parts:,}", figure(equal),
                     f"{one.memory_gb / 1000:,.4g}", f"{one.memory_tb_s:,.4g}",
                     "-" if usd is None else dollars_text(usd))  # fmt: skip
    screen.out().print(made)
    for other in found[1:]:
        wrong = misled(found[0], other)
        if wrong is not None:
            screen.out().print(
                f"do not compare by count: {other.figures.key} is ×{wrong.by_count:.2f} of "
                f"{found[0].figures.key} by count, ×{wrong.by_capability:.2f} by capability",
                soft_wrap=True,
            )


def _notes(found: "list[Figures]") -> None:
    for one in found:
        if one.priced_as:
            screen.note(f"{one.key}: price of one GPU in {one.priced_as}, on demand")
    screen.note(
        "rates are dense peaks, links in one direction; ridge = bf16 rate / memory bandwidth "
        "(Williams, Waterman, Patterson 2009); $/PFLOP-hour = price of one GPU / bf16 peak"
    )


def _json(found: "list[Figures]", all_fleets: "list[FleetPart]") -> None:
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
    sums = [one._asdict() | {"figures": one.figures.key} for one in all_fleets]
    screen.json_out(
        msgspec.json.encode({"compared": rows, "ratio_to_first": ratios, "fleets": sums})
    )
