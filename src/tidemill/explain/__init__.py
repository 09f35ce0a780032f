"""Why it waits, whether it fits, when it starts: answers about the World as it is now.

``why`` one job waits, the ``verdicts`` of nodes, the ``board`` of everything waiting, ``fit``
before submitting, the ``eta`` of a job in the queue, and the moves that would let it in
(``defrag``). Pure: nothing here changes a World.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.explain.defragment import defrag
    from tidemill.explain.forecast import eta, fit
    from tidemill.explain.nodes import groups, verdicts
    from tidemill.explain.pending import board, with_eta
    from tidemill.explain.rerun import Glance
    from tidemill.explain.wait import why

__all__ = ["Glance", "board", "defrag", "eta", "fit", "groups", "verdicts", "why", "with_eta"]

_LATER = {
    "Glance": "rerun", "board": "pending", "defrag": "defragment", "eta": "forecast",
    "fit": "forecast", "groups": "nodes", "verdicts": "nodes", "why": "wait", "with_eta": "pending",
}  # fmt: skip
"""The module that each is in: ``why`` does without the engine's loop, sums of supply without it."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a function of another module
    if name not in _LATER:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
