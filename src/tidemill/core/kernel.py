"""``@kernel``: a function over the cluster state that compiles, and that also runs interpreted.

The types follow from the names of the arguments: ``w`` is the whole ``State``, ``b`` the ledger's,
the name of a field of either is that matrix, a few more names are of matrices too, everything else
is one integer. So each function is compiled once, whatever it is called with. Callees stand above
their callers: what comes first is compiled first. Kernels make no arrays; that is why they may be
compiled without counting references.

Outer functions take ``w``; those that run once per node or per shape take the few matrices that
they need: handing over ``w`` costs as much as a short loop.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from tidemill import compiled
from tidemill.core.accounting.columns import LedgerState
from tidemill.model.columns import State

_VECTORS = (
    "at",
    "queued",
    "active",
    "log",
    "blocks",
    "marks",
    "paid",
    "turns",
    "fair",
    "steps",
    "large",
)
_MATRICES = ("events", "event_pieces", "counts", "heap", "learnt")
"""Beside those of the state: the columns of a batch, single numbers that a kernel hands on, what
history says (``estimates``)."""
_CUBES = ("quotas", "run_times", "unheld")
_FIELDS = {*State._fields, *LedgerState._fields}


def dimensions(name: str) -> int:
    """How many dimensions an argument of this name has."""
    if name in _VECTORS:
        return 1
    if name in _CUBES:
        return 3
    return 2 if name in _FIELDS or name in _MATRICES else 0


_WHOLE = {
    name: (cls, tuple(dimensions(field) for field in cls._fields), dict[str, str]())
    for name, cls in (("w", State), ("b", LedgerState))
}
STATE = _WHOLE["w"]
_HERE = Path(__file__).parent
_MODEL = _HERE.parent / "model"
_decorate = compiled.folder(_HERE, _MODEL, dimensions=dimensions, whole=_WHOLE)


def kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - a kernel
    """Compile this, unless the process runs interpreted."""
    return _decorate(function)


def beside(
    file: str,
    tables: Mapping[str, type[Any]],
    vectors: Collection[str],
    others: Mapping[str, str] = {},
    matrices: Collection[str] = (),
    calls: Collection[str] = (),
) -> Callable[[Callable[..., Any]], Any]:
    """The decorator of another folder, whose kernels take tuples of their own beside the state.

    ``tables`` are these tuples by what their arguments are called; their fields are matrices of
    int64, but for the ``vectors`` and those that are of ``others``. A field named like one of the
    state's is what it is there; ``w`` may be a tuple of a few of those. ``matrices`` are names of
    more arguments; ``calls``: files of the folders whose kernels they call.
    """
    fields = {*matrices, *(field for table in tables.values() for field in _fields(table))}

    def of(name: str) -> int:
        known = name in State._fields and name not in vectors
        return dimensions(name) if known else _plain(name, fields, vectors)

    whole = {"w": STATE} | {
        name: whole_of(table, vectors, others) for name, table in tables.items()
    }
    return between(file, whole, of, calls)


def between(
    file: str,
    whole: Mapping[str, compiled.Whole],
    dimensions: Callable[[str], int] = lambda _: 0,
    calls: Collection[str] = (),
) -> Callable[[Callable[..., Any]], Any]:
    """The same for kernels that take whole tuples, and integers unless ``dimensions`` says more."""
    called = (Path(call).parent for call in calls)
    return compiled.folder(
        Path(file).parent, _MODEL, _HERE, *called, dimensions=dimensions, whole=whole
    )


def whole_of(
    table: type[Any], vectors: Collection[str], others: Mapping[str, str] = {}
) -> compiled.Whole:
    """What a tuple of matrices is made of; as for ``beside``."""
    fields = _fields(table)
    dims = tuple(
        dimensions(field)
        if field in State._fields and field not in vectors
        else _plain(field, fields, vectors)
        for field in fields
    )
    return table, dims, {field: others[field] for field in fields if field in others}


def _plain(name: str, matrices: Collection[str], vectors: Collection[str]) -> int:
    if name in vectors:
        return 1
    return 2 if name in matrices else 0


def _fields(table: type[Any]) -> tuple[str, ...]:
    found: tuple[str, ...] = table._fields
    return found
