"""``@kernel``: a function over the cluster state that compiles, and that also runs interpreted.

The types follow from the names of the arguments: ``w`` is the whole ``State``, ``b`` the ledger's,
the name of a field of either is that matrix, a few more names are of matrices too, everything else
is one integer. So each function is compiled once, whatever it is called with. Callees stand above
their callers: what comes first is compiled first. Kernels make no arrays; that is why they may be
compiled without counting references.

Outer functions take ``w``; those that run once per node or per shape take the few matrices that
they need: handing over ``w`` costs as much as a short loop.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidemill import compiled
from tidemill.core.accounting.columns import LedgerState
from tidemill.model.columns import State

_VECTORS = ("at", "queued", "active", "log", "blocks", "marks", "paid", "turns")
_MATRICES = ("events", "event_pieces", "counts")
"""Beside those of the state: the columns of a batch, and single numbers that a kernel hands on."""
_CUBES = ("quotas", "run_times", "unheld")
_FIELDS = {*State._fields, *LedgerState._fields}


def _dimensions(name: str) -> int:
    """How many dimensions an argument of this name has."""
    if name in _VECTORS:
        return 1
    if name in _CUBES:
        return 3
    return 2 if name in _FIELDS or name in _MATRICES else 0


_decorate = compiled.folder(
    Path(__file__).parent,
    Path(__file__).parent.parent / "model",
    dimensions=_dimensions,
    whole={
        name: (cls, tuple(_dimensions(field) for field in cls._fields))
        for name, cls in (("w", State), ("b", LedgerState))
    },
)


def kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - what numba returns
    """Compile this, unless the process runs interpreted."""
    return _decorate(function)
