"""What to say of nodes that have fewer devices than they should, or more than the books count."""

from collections.abc import Iterable

from tidemill.live.kubernetes import parts
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.parts import MachinePart
from tidemill.model.measures import count_text
from tidemill.model.rows import MAX_DEVICES


def said(all_parts: Iterable[KubeNode], *, looks_back: bool) -> list[str]:
    """Nodes that have fewer devices than they should; an observer saw since when."""
    notes, rest = [], "count as unhealthy from when that was seen on"
    if looks_back:
        rest = "count as free in the books, and can be had by nobody"
    for node in all_parts:
        healthy, whole = node.advertised(node.allocatable), node.devices
        name = parts.machine(node.name)
        what = f"{node.gpu_type} units" if isinstance(node, MachinePart) else "GPUs"
        if whole and not node.advertised(node.capacity):
            state = "it counts as unhealthy" if node.is_ready else "it is not Ready"
            notes.append(
                f"node `{node.name}` should have {count_text(whole, 'GPU')} and"
                f" advertises none: {state}"
                f" (kubectl describe node {name})"
            )
        elif node.is_ready and healthy < whole:
            counts = f"the others {rest}" if healthy else "it counts as unhealthy"
            notes.append(
                f"node `{node.name}` advertises {healthy} of {whole} {what}: {counts} (kubectl"
                f" describe node {name})"
            )
        if max(node.capacity.values(), default=0) > MAX_DEVICES:
            notes.append(
                f"node `{node.name}` has more than {MAX_DEVICES} {what}: the rest is left out"
            )
        if node.claimable:
            notes.append(
                f"node `{node.name}` gives out its GPUs by a device plugin and by claims (DRA), and"
                " neither knows of the other: pods may be given one twice, and the books count it"
                f" once (kubectl describe node {name}; kubectl get resourceslices --field-selector"
                f" spec.nodeName={name})"
            )
    return notes
