"""Standing: a unit's measured figures beside what the catalogue says of its part."""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.probe.card import Card
from tidemill.probe.figures import Figure, figures
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.catalogue.rows import Part

_OF_PART = {
    "rate.fp8": "fp8_tflops",
    "rate.int8": "int8_tops",
    "rate.bf16": "bf16_tflops",
    "rate.fp16": "bf16_tflops",  # vendors give both the same rate where both exist
    "rate.tf32": "tf32_tflops",
    "rate.fp32": "fp32_tflops",
    "step": "bf16_tflops",
}


class Standing(NamedTuple):
    """One figure, the catalogue's figure for the part, and their ratio (None: not listed)."""

    figure: Figure
    listed: float | None

    @property
    def ratio(self) -> float | None:
        """The share of what is listed that this unit reaches."""
        return None if self.listed is None else self.figure.value / self.listed


def part_of(card: Card, book: Catalogue) -> Part | None:
    """The catalogue's row for the unit of a card, or None."""
    return book.find(card.unit.name)


def standings(card: Card, part: Part | None) -> Iterator[Standing]:
    """Each figure of a card beside the catalogue's."""
    for figure in figures(card):
        yield Standing(figure, _listed(figure, card, part) if part is not None else None)


def verdict(card: Card, part: Part | None) -> str:
    """One sentence: which share of its dense bf16 peak the unit reaches."""
    reached = card.rate("bf16")
    if part is None:
        return f"`{card.unit.name}` is not in the catalogue: its figures stand alone"
    if reached is None or part.bf16_tflops is None:
        return f"{part.model}: bf16 was not measured, or is not listed"
    share = reached / part.bf16_tflops
    return (
        f"this {part.model} reaches {share:.0%} of its dense bf16 peak "
        f"({reached:,.0f} of {part.bf16_tflops:,.0f} TFLOP/s)"
    )


def measured_part(card: Card, part: Part) -> Part:
    """The catalogue's row with what this unit really reaches: a row that may replace it."""
    return replace(
        part,
        reached_bf16_tflops=card.rate("bf16") or part.reached_bf16_tflops,
        source=f"{part.source}; measured {card.made[:10]} with tidemill probe",
    )


def row_text(card: Card, part: Part) -> str:
    """The same as text for a catalogue file (TOML): what was measured, over the shipped row."""
    found = measured_part(card, part)
    assert '"' not in found.source + found.key
    return (
        f'[[part]]\nkey = "{found.key}"\n'
        f"reached_bf16_tflops = {found.reached_bf16_tflops}\n"
        f'source = "{found.source}"\n'
    )


def _listed(figure: Figure, card: Card, part: Part) -> float | None:
    if figure.key in _OF_PART:
        return _number(getattr(part, _OF_PART[figure.key]))
    if figure.key.startswith("gb_s.hbm"):
        return part.memory_tb_s * 1000
    if figure.key.startswith("gb_s."):
        return part.host_link_gb_s
    if figure.key == "sustained" and card.sustained is not None:
        return _number(getattr(part, _OF_PART[f"rate.{card.sustained.precision}"]))
    return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
