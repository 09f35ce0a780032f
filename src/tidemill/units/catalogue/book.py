"""The catalogue: parts by name, with what people and drivers call them."""

from collections.abc import Iterable
from difflib import get_close_matches

from tidemill.model.errors import SpecError
from tidemill.units.catalogue import nvidia, others
from tidemill.units.catalogue.rows import Part


class Catalogue:
    """Parts by key. Rows that come later replace earlier ones of the same key."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self.parts = {part.key: part for part in (*nvidia.PARTS, *others.PARTS, *parts)}

    def part(self, name: str) -> Part:
        """The part of this name: its key, the beginning of its key (``h200``), or its model."""
        found = self.find(name)
        if found is not None:
            return found
        near = get_close_matches(_plain(name), self.parts, n=3, cutoff=0.3)
        raise SpecError(
            f"no accelerator called `{name[:100]}` in the catalogue",
            hint=f"did you mean {', '.join(f'`{key}`' for key in near)}?"
            if near
            else "see `tidemill unit show` for all of them",
        )

    def find(self, name: str) -> Part | None:
        """The same, or None. Of several that begin so, the first: SXM before PCIe, older first."""
        wanted = _plain(name)
        if wanted in self.parts:
            return self.parts[wanted]
        for part in self.parts.values():
            if part.key.startswith(wanted + "-") or _plain(part.model) == wanted:
                return part
        return None


def _plain(name: str) -> str:
    """``NVIDIA H100 80GB HBM3`` and ``H100_80GB`` as keys are written."""
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    return plain.removeprefix("nvidia-").removeprefix("tesla-").removeprefix("amd-")
