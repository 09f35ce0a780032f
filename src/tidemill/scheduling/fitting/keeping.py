"""What reservations take out of a room while somebody else is fitted beside them."""

from tidemill.model.columns import NODE
from tidemill.scheduling.fitting.columns import KEPT, PART, SPOT
from tidemill.scheduling.fitting.kernel import kernel
from tidemill.scheduling.fitting.sweeps import touch


@kernel
def keep_part(w, g, promised, i):
    """Take what a piece needs of its devices and is free now, and write down what that was.

    Of a device that somebody else has a part of, the rest is taken: it will be needed, too.
    """
    n, mask = promised[i, KEPT.NODE], promised[i, KEPT.DEVICES]
    first = w.nodes[n, NODE.FIRST_DEVICE]
    for d in range(w.nodes[n, NODE.DEVICES]):
        part = 0
        if mask >> d & 1:
            part = min(promised[i, KEPT.MILLI], max(0, g.parts[first + d, PART.FREE]))
        promised[i, KEPT.KEPT_PART + d] = part
        g.parts[first + d, PART.FREE] -= part
        g.spots[n, SPOT.FREE] -= part


@kernel
def take(w, g, promised, start, end):
    """Take what the pieces in these rows need and is free now, unnoticed by tournaments."""
    for i in range(start, end):
        n = promised[i, KEPT.NODE]
        keep_part(w, g, promised, i)
        cpu = min(promised[i, KEPT.CPU], max(0, g.spots[n, SPOT.CPU]))
        memory = min(promised[i, KEPT.MEMORY], max(0, g.spots[n, SPOT.MEMORY]))
        promised[i, KEPT.KEPT_CPU] = cpu
        promised[i, KEPT.KEPT_MEMORY] = memory
        g.spots[n, SPOT.CPU] -= cpu
        g.spots[n, SPOT.MEMORY] -= memory


@kernel
def give(w, g, promised, start, end):
    """Give back what was taken, unnoticed by tournaments."""
    for i in range(start, end):
        n = promised[i, KEPT.NODE]
        first = w.nodes[n, NODE.FIRST_DEVICE]
        for d in range(w.nodes[n, NODE.DEVICES]):
            part = promised[i, KEPT.KEPT_PART + d]
            g.parts[first + d, PART.FREE] += part
            g.spots[n, SPOT.FREE] += part
        g.spots[n, SPOT.CPU] += promised[i, KEPT.KEPT_CPU]
        g.spots[n, SPOT.MEMORY] += promised[i, KEPT.KEPT_MEMORY]


@kernel
def is_kept(w, promised, i):
    """Whether anything was taken for the piece in this row: much of it may be in use still."""
    if promised[i, KEPT.KEPT_CPU] != 0 or promised[i, KEPT.KEPT_MEMORY] != 0:
        return True
    for d in range(w.nodes[promised[i, KEPT.NODE], NODE.DEVICES]):
        if promised[i, KEPT.KEPT_PART + d] != 0:
            return True
    return False


@kernel
def note(w, g, promised, start, end):
    """Let tournaments know of the nodes in these rows of which something was taken."""
    for i in range(start, end):
        if is_kept(w, promised, i):
            touch(g.regs, g.touched, g.spots, promised[i, KEPT.NODE])


@kernel
def keep(w, g, promised, end):
    """Take what the pieces in the first rows need and is free now."""
    take(w, g, promised, 0, end)
    note(w, g, promised, 0, end)


@kernel
def let_go(w, g, promised, end):
    """Give back what was kept."""
    give(w, g, promised, 0, end)
    note(w, g, promised, 0, end)
