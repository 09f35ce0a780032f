"""Tables: what scores read beside the node itself; plain arrays, for compiled and plain readers."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.model.tables import I64, U64

CPU, MEMORY, ACCELERATORS, MILLI, WEIGHT, PRICE = range(6)
"""The columns of the table of classes. (One array: a compiled call costs by the array.)"""
VECTORS = ("codes", "limits", "dearest", "still_open", "steps")
OTHERS = {"draws": "int16", "turns": "uint64", "still_open": "uint64"}
"""What is no matrix of integers."""


class Tables(NamedTuple):
    """The policies asked, the size of nodes, the demand to look ahead to, and what was played."""

    codes: I64
    limits: I64
    """The largest CPU and accelerator milli of a node; the least CPU and milli of a class; the
    grain of tide scores, in milli; how many classes are typical (they come first); what fragments
    weigh beside waste, in thousandths."""
    classes: I64
    """What each class asks for, how frequent it is (in millionths; only if it is typical), and what
    it costs to take a node's last room for it (in grains: a power of two, or 0); one row each."""
    dearest: I64
    """The classes that have a price, the dearest first."""
    admits: I64
    """Whether a class may use a kind."""
    draws: NDArray[np.int16]
    """The classes that arrive in each rollout, in order."""
    turns: U64
    """For each typical class, as bits of words, when it is drawn: the words of all rollouts."""
    still_open: U64
    """Scratch: the draws that a node could host at the start, as bits of such words."""
    steps: I64
    """The least fragmentation gradient of each FGD score."""
    known: I64
    """Node states that were played out before, in pairs: the hash of each, and its waste."""
    ranked: I64
    """Ranks that were made before: a hash of the node's state and the request, and the rank."""
    scratch: I64


BLANK = Tables(
    codes=np.zeros(1, np.int64),
    limits=np.zeros(7, np.int64),
    classes=np.zeros((1, 6), np.int64),
    dearest=np.zeros(1, np.int64),
    admits=np.zeros((1, 1), np.int64),
    draws=np.zeros((1, 1), np.int16),
    turns=np.zeros((1, 1), np.uint64),
    still_open=np.zeros(1, np.uint64),
    steps=np.zeros(1, np.int64),
    known=np.zeros((2, 2), np.int64),
    ranked=np.zeros((1, 2), np.int64),
    scratch=np.zeros((1, 1), np.int64),
)
"""Tables that nobody reads, where compiled loops must be handed some."""
