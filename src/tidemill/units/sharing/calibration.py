"""Constants of the laws of sharing, from pairs of tenants measured on one NVIDIA H200.

Measured 2026-11-15 with ``tidemill probe --tenants`` (driver 580.159.04, torch 2.11, 700 W, default
compute mode): ``examples/cards/h200-2026-11-first.json``. Only ``CALIBRATED_ON`` was used to choose
them; every other pair of that card is held out, and so is all of a card of another H200
(``h200-2026-11.json``). A test compares all of them with what was measured.
"""

SLICE_MS = 1.95
"""How long a context runs before another gets its turn, on average (train beside decode)."""
LONGEST_SLICE_MS = 2.25
"""At most: what an iteration waits at its p99 (decode beside train)."""
SWITCH_MS = 0.13
"""From one context to another (decode beside decode: 1.34 ms for two of 0.54)."""
OVERLAP = 0.67
"""Share of a neighbour's kernel that a kernel waits for under MPS, where no axis is full
(serve beside decode)."""
BLOCK_MS = 0.19
"""Behind a long kernel, a small one waits for some of its blocks to end (serve beside train),"""
PER_KERNEL = 16.4
"""and a larger one for more of them, in proportion to its own length (decode beside train)."""
TAIL = 1.25
"""The p99 of what is waited for under MPS, over its mean (the three pairs above)."""

CALIBRATED_ON: dict[str, tuple[tuple[str, str], ...]] = {
    "time-slice": (("train", "decode"), ("decode", "decode")),
    "mps": (("train", "serve"), ("train", "decode"), ("decode", "serve")),
}
SOURCE = "tidemill probe --tenants on one H200, 2026-11-15 (examples/cards/h200-2026-11-first.json)"
