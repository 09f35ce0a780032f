"""Whether the names in an event from outside may be shown: see ``model.names``.

Journals that this program wrote before it refused such names are still read; a file that is
imported is refused at the first of them.
"""

from collections.abc import Iterator

import msgspec

from tidemill.model import events as ev
from tidemill.model import names
from tidemill.model.events import Event

_NAMING = (
    ev.ContractSigned, ev.QueueSet, ev.TopologySet, ev.NodeAdded, ev.JobSubmitted,
    ev.RequestChanged,
)  # fmt: skip


def fault(event: Event) -> str:
    """What is wrong with a name or label in an event, or nothing."""
    if not isinstance(event, _NAMING):
        return ""
    for text in _texts(event):
        shown = names.visible(text, one_line=True)
        if shown != text:
            return f"expected names without control characters; found `{shown[:200]}`"
    return ""


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _texts(getattr(value, field))
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
