"""``tidemill unit show``: the catalogue, all of it or one row in full with its source."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli import options, screen
from tidemill.cli.unit import catalogue

if TYPE_CHECKING:
    from tidemill.units.catalogue.book import Catalogue
    from tidemill.units.catalogue.rows import Box, Part

EXAMPLES = options.example(
    "tidemill unit show",
    "tidemill unit show h200 p5.48xlarge",
    "tidemill unit show --servers --json",
)

HIDDEN = ("key", "names", "has_bf16", "has_fp16", "bf16_tflops", "tf32_tflops", "fp8_tflops",
          "fp4_tflops", "int8_tops", "fp32_tflops", "fp4_sparse_tflops", "sparse_factor",
          "reached_bf16_tflops")  # fmt: skip
"""Shown as a table of rates, or not at all."""

Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="GPU models or server types to show in full.", metavar="[NAME]...", show_default=False
    ),
]
Boxes = Annotated[
    bool, typer.Option("--servers", "--boxes", help="List server types instead of GPU models.")
]


def show(
    names: Names = None,
    boxes: Boxes = False,
    file: catalogue.File = None,
    as_json: options.Json = False,
) -> None:
    """GPU models and server types: rates, memory, links, power, price, each with its source."""
    book = catalogue.catalogue(file)
    if names:
        rows = [find(book, name) for name in names]
    else:
        rows = list(book.boxes.values()) if boxes else list(book.parts.values())
    if as_json:
        _json(rows)
    elif names:
        for row in rows:
            _in_full(book, row)
    elif boxes:
        _boxes(book)
    else:
        _parts(book)


def find(book: "Catalogue", name: str) -> "Part | Box":
    """A part or a box of this name; an unknown name is refused with what comes near."""
    return book.find_box(name) or book.find(name) or _refuse(book, name)


def _refuse(book: "Catalogue", name: str) -> "Part":
    from difflib import get_close_matches

    from tidemill.model.errors import SpecError

    near = get_close_matches(name.lower()[:100], [*book.parts, *book.boxes], n=3, cutoff=0.3)
    raise SpecError(
        f"no GPU model or server type called `{name[:100]}` in the catalogue",
        hint=f"did you mean {', '.join(f'`{key}`' for key in near)}?"
        if near
        else "see `tidemill unit show` and `tidemill unit show --servers`",
    )


def _json(rows: "list[Part | Box]") -> None:
    import msgspec

    from tidemill.units.catalogue.rows import Part

    found: dict[str, list[Any]] = {"parts": [], "boxes": []}
    for row in rows:
        found["parts" if isinstance(row, Part) else "boxes"].append(row)
    screen.json_out(msgspec.json.encode(found))


def _parts(book: "Catalogue") -> None:
    made = screen.table("accelerator", "memory GB", "TB/s", "bf16 TFLOP/s", "fp8", "fp4",
                        "link GB/s", "joins", "host GB/s", "power W", "confidence")  # fmt: skip
    for part in sorted(book.parts.values(), key=_by_age):
        numbers = (part.memory_gb, part.memory_tb_s, part.bf16_tflops, part.fp8_tflops,
                   part.fp4_tflops, part.link_gb_s, part.domain, part.host_link_gb_s,
                   part.power_w)  # fmt: skip
        made.add_row(part.key, *(figure(number) for number in numbers), part.confidence)
    screen.out().print(made)
    screen.note("rates are dense, links in one direction; `tidemill unit show NAME` for the source")


def _boxes(book: "Catalogue") -> None:
    made = screen.table("server type", "accelerator", "count", "vCPU", "RAM GiB", "NVMe TB",
                        "network GB/s", "host GB/s", "$/h", "read", right_from=2)  # fmt: skip
    for box in book.boxes.values():
        numbers = (box.count, box.vcpu, box.ram_gib, box.nvme_tb, box.nic_gb_s,
                   book.host_link_gb_s(box))  # fmt: skip
        price = "-" if box.usd_per_hour is None else f"{box.usd_per_hour:,.2f}"
        made.add_row(box.key, box.part, *map(figure, numbers), price, box.priced or "-")
    screen.out().print(made)
    screen.note("prices are on demand; a dash is unknown, or sold in reserved blocks only")


def _by_age(part: "Part") -> tuple[bool, str, str, str]:
    """NVIDIA first, as most have them; then by vendor and age."""
    return part.vendor != "NVIDIA", part.vendor, part.released, part.key


def figure(number: float | None) -> str:
    """A figure as people read it; a dash is unknown."""
    return "-" if number is None else f"{number:,g}"


def _in_full(book: "Catalogue", row: "Part | Box") -> None:
    import msgspec

    from tidemill.units.catalogue.rows import Box

    values = msgspec.to_builtins(row)
    if isinstance(row, Box):
        values["cores"] = row.cores
        values["host_link_gb_s"] = book.host_link_gb_s(row)
    made = screen.table("", "", title=row.key, right_from=2)
    made.show_header = False
    for name, value in values.items():
        if name not in HIDDEN:
            made.add_row(name, _value(value))
    screen.out().print(made)
    if not isinstance(row, Box):
        _claims(row)


def _claims(part: "Part") -> None:
    """What is printed large, what dense matrices get, and the best that anybody measured."""
    from tidemill.model.errors import SpecError
    from tidemill.units.catalogue.rates import precisions, rate

    made = screen.table("TFLOP/s", "sparse (headline)", "dense", "measured", "of dense")
    for name in precisions(part):
        try:
            headline = figure(rate(part, name, sparse=True))
        except SpecError:
            headline = "-"
        dense = rate(part, name)
        reached = part.reached_bf16_tflops if name == "bf16" else None
        made.add_row(name, headline, figure(dense), figure(reached),
                     "-" if reached is None else f"{reached / dense:.0%}")  # fmt: skip
    screen.out().print(made)


def _value(value: object) -> str:
    if value is None or value == "":
        return "unknown" if value is None else "-"
    return f"{value:,g}" if isinstance(value, int | float) else str(value)
