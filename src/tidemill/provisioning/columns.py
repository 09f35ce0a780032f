"""What a look at the nodes goes by, in columns."""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.tables import I64


class LOOK(IntEnum):
    """Registers of a look."""

    NODES = 0  # nodes that were ever added
    CONTRACTS = 1
    SCALE_UP_MS = 2  # how long something waits before nodes are launched for it
    RETURN_MS = 3  # how long a node is empty before it is given back
    AGAIN_MS = 4  # how long after a look the next is, while somebody waits
    STAMP = 5  # of the nodes that this plan uses
    WAKE_MS = 6  # found: when to look again


class BOUGHT(IntEnum):
    """One row per contract."""

    NODES = 0  # as many as it pays for
    NODE_MILLI = 1  # what each of them has
    SPARES = 2
    RELEASE_MS = 3  # from when on none is launched


class Overview(NamedTuple):
    """Everything that a look takes beside the cluster state."""

    look: I64
    bought: I64
    wants: I64
    """Shape by kind: what launched nodes would serve of each job, in milli."""
    used: I64
    """By node: the stamp of the plan that last used it."""
    minded: I64
    """Found: the nodes of which something is asked."""


VECTORS = ("look", "used", "minded")
