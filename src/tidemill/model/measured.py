"""What was measured of a running attempt, as columns hold it: up to three shares in one number.

Plain functions: kernels compile them, Python calls them as they are, also with whole columns.
0 is what nobody measured: each packed number that says something has ``SAYS`` in it.
"""

from typing import TypeVar

from tidemill.model.tables import I64

Some = TypeVar("Some", int, I64)

SAYS = 1 << 62  # in STALLS: the three shares were measured; in EFFICIENCY and STRAGGLER: it was
SAVES = 1 << 61  # in STALLS: whoever runs it says what is safe (``CheckpointSeen``)
BACK = 1 << 60  # in STALLS: its loop went back, and does not work again yet
WIDTH = 20  # bits of a share: up to 1,048,575
SHARE = (1 << WIDTH) - 1


def stalls_of(checkpoint_ppm: Some, host_ppm: Some, links_ppm: Some) -> Some:
    """Three shares as one number; each is 0 or more."""
    return SAYS + (checkpoint_ppm << 2 * WIDTH) + (host_ppm << WIDTH) + links_ppm


def efficiency_of(mfu_ppm: Some, confidence: Some, memory_ppm: Some) -> Some:
    """An efficiency as one number; ``confidence``: its place in ``codes``; memory, or -1."""
    return SAYS + (confidence << 2 * WIDTH) + (mfu_ppm << WIDTH) + memory_ppm + 1


def straggler_of(share_ppm: Some, confidence: Some, silent_ppm: Some) -> Some:
    """The share of waits that a slow rank is the cause of, and that of devices of silent ranks.

    ``confidence``: as for an efficiency.
    """
    return SAYS + (confidence << 2 * WIDTH) + (share_ppm << WIDTH) + silent_ppm


def high(packed: Some) -> Some:
    """The share of checkpoints, or the confidence."""
    return packed >> 2 * WIDTH & SHARE


def middle(packed: Some) -> Some:
    """The share that waits for data, the MFU, or the share of waits for a slow rank."""
    return packed >> WIDTH & SHARE


def low(packed: Some) -> Some:
    """The share that waits for other ranks, the memory-bound share and one, or that of devices of
    silent ranks.
    """
    return packed & SHARE
