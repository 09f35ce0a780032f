"""Where in a spec file something is wrong, and how to say it.

``SpecPlace`` names a row; ``explain`` turns what msgspec found into our own words: what was asked
for, what was found, and the nearest word that would have been right.
"""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

import msgspec

from tidemill.model import decoding, plugins
from tidemill.model.errors import SpecError

_EXAMPLES = {
    "guaranteed": "guaranteed = { H100 = 64 }",
    "maximum": "maximum = { H100 = 128 }",
    "borrow": "borrow = { H100 = 8 }",
    "lend": "lend = { H100 = 8 }",
    "labels": 'labels = { zone = "a" }',
    "taints": 'taints = { dedicated = "inference" }',
    "tolerates": 'tolerates = { dedicated = "inference" }',
    "nodes_per": "nodes_per = { rack = 8 }",
    "sizes": 'sizes = { "0.5" = 0.1, 1 = 0.5, 8 = 0.4 }',
    "run": 'run = { median = "30m", mean = "2h" }',
    "checkpoint": 'checkpoint = { every = "30m", cost = "40s" }',
    "tide": "tide = { low = 0.2, peak = 0.9, peak_hour = 15 }",
    "parallelism": "parallelism = { tensor = 8, pipeline = 2 }",
    "computes": 'computes = { model = "llama-3-8b" }',
    "uses": "uses = { compute = 0.2, bandwidth = 0.9, memory_gb = 26 }",
    "rhythm": "rhythm = { swing = 0.6, peak_hour = 15, weekend = 0.4 }",
}
"""What a table that stands in a field looks like; a test reads each of them."""
_NOT_IN_SPECS = dict.fromkeys(
    ("role", "roles"),
    "a job of a spec has one role of equal replicas; gangs of several roles come from real"
    " clusters and from the Python API",
)
"""Words of the model that no table of a spec has."""


class SpecPlace(NamedTuple):
    """A row of a table of a file; ``row`` 0 is a table that has no rows."""

    source: str
    table: str
    row: int = 0
    name: str = ""

    def __str__(self) -> str:
        where = f"[[{self.table}]] {self.row}" if self.row else f"[{self.table}]"
        named = f" (`{self.name}`)" if self.name else ""
        return f"`{self.source}`, {where}{named}"

    def refuse(self, field: str, found: str, *, hint: str) -> NoReturn:
        """Raise the error for one field of this row."""
        at = f", `{field}`" if field else ""
        raise SpecError(f"{self}{at}: {found}", hint=hint)

    def refuse_row(self, field: str, word: str, rows: Collection[str], *, what: str) -> NoReturn:
        """Raise the error for a name that no row of a table has; plug-ins may add rows."""
        close = get_close_matches(word[:200], rows, n=1)
        meant = f"did you mean `{close[0]}`? Or, " if close else ""
        self.refuse(
            field,
            f"expected one of {', '.join(rows)}; found {decoding.shown(word)}",
            hint=meant + plugins.missing(what),
        )


def explain(
    place: SpecPlace, error: msgspec.ValidationError, kind: type[Any], raw: dict[str, Any]
) -> NoReturn:
    """Raise what msgspec found as an error in our own words."""
    found = decoding.mismatch(error, kind, raw)
    field, hint = found.field, found.hint or f"change `{found.field}` in {place}"
    if found.unknown in _NOT_IN_SPECS:
        hint = _NOT_IN_SPECS[found.unknown]
    if found.missing:
        hint = f"add `{found.missing} = ...`"
    if found.words.startswith("expected a table;"):
        example = _EXAMPLES.get(field, "")
        hint = f"for example {example}" if example else f"write `{field} = {{ ... }}`"
    place.refuse(field, found.words, hint=hint)
