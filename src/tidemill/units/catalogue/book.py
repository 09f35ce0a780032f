"""The catalogue: parts and boxes by name, with what people and drivers call them.

The rows that are shipped are two tables beside this file, ``parts.csv`` and ``boxes.csv``, whose
columns are the fields of ``rows``. The order of rows counts: a name that begins several keys
(``h100``) means the first of them.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from tidemill.model.errors import SpecError
from tidemill.units.catalogue.rows import Box, Part
from tidemill.units.shipped import rows as shipped_rows

PREFIXES = ("nvidia-", "tesla-", "amd-", "instinct-", "intel-", "google-", "aws-")


class Catalogue:
    """Parts and boxes by key. Rows that come later replace earlier ones of the same key."""

    def __init__(self, parts: Iterable[Part] = (), boxes: Iterable[Box] = ()) -> None:
        shipped: tuple[Part, ...] = shipped_rows("catalogue/parts.csv", Part)
        servers: tuple[Box, ...] = shipped_rows("catalogue/boxes.csv", Box)
        self.parts = {part.key: part for part in (*shipped, *parts)}
        self.boxes = {box.key: box for box in (*servers, *boxes)}

    def part(self, name: str) -> Part:
        """The part of this name: its key, the beginning of its key (``h200``), or its model."""
        found = self.find(name)
        if found is None:
            raise _unknown("GPU model", name, self.parts)
        return found

    def find(self, name: str) -> Part | None:
        """The same, or None; a driver's name counts (``NVIDIA-H100-80GB-HBM3``)."""
        wanted = plain(name)
        return (
            self.parts.get(wanted)
            or self._called(wanted)
            or self._beginning(wanted)
            or self._longer(wanted)
        )

    def box(self, name: str) -> Box:
        """The box of this name: its key, or the beginning of its key (``p5``, ``dgx-h100``)."""
        found = self.find_box(name)
        if found is None:
            raise _unknown("server type", name, self.boxes)
        return found

    def find_box(self, name: str) -> Box | None:
        """The same, or None."""
        wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
        if wanted in self.boxes:
            return self.boxes[wanted]
        ends = (".", "-")
        begun = [key for key in self.boxes if key.startswith(tuple(wanted + end for end in ends))]
        return self.boxes[begun[0]] if begun and wanted else None

    def part_of(self, box: Box) -> Part:
        """The part in a box; a box of an unknown part is refused with the box's name."""
        if box.part in self.parts:
            return self.parts[box.part]
        wrong = _unknown("GPU model", box.part, self.parts)
        raise SpecError(f"server type `{box.key}`: {wrong.message}", hint=wrong.hint)

    def host_link_gb_s(self, box: Box) -> float | None:
        """Between one part of a box and its host, one direction."""
        return box.host_link_gb_s or self.part_of(box).host_link_gb_s

    def _called(self, wanted: str) -> Part | None:
        """By name; a user's row, which comes later, has the name before a shipped one."""
        named = (part for part in reversed(self.parts.values()) if wanted in part.names)
        return next(named, None)

    def _beginning(self, wanted: str) -> Part | None:
        """Of several keys that begin so, the first: SXM before PCIe, older first."""
        for part in self.parts.values():
            if part.key.startswith(wanted + "-") or plain(part.model) == wanted:
                return part
        return None

    def _longer(self, wanted: str) -> Part | None:
        """The part whose name is the longest beginning of what is wanted (``h100-80gb-hbm3``)."""
        best = max(
            (name for part in self.parts.values() for name in part.names
             if wanted.startswith(name + "-")),
            key=len,
            default="",
        )  # fmt: skip
        return self._called(best) if best else None


def plain(name: str) -> str:
    """``NVIDIA H100 80GB HBM3`` and ``H100_80GB`` as keys are written."""
    text = name.strip().lower().replace("_", "-").replace(" ", "-")
    for prefix in PREFIXES:
        text = text.removeprefix(prefix)
    return text


def _unknown(noun: str, name: str, known: Iterable[str]) -> SpecError:
    near = get_close_matches(plain(name), list(known), n=3, cutoff=0.3)
    asked = "tidemill unit show" if noun == "GPU model" else "tidemill unit show --servers"
    return SpecError(
        f"no {noun} called `{name[:100]}` in the catalogue",
        hint=f"did you mean {', '.join(f'`{key}`' for key in near)}?"
        if near
        else f"see `{asked}` for all of them",
    )
